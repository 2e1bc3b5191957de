//! `warpswitch explain`: why a packet is won by one rule and not by the others.

use clap::Args;
use serde_json::{Value, json};
use warpswitch_rules::analysis::{Explanation, Failure, Loser, explain};
use warpswitch_rules::extract::extract;
use warpswitch_rules::format::{format_key, format_match, parse_packet};
use warpswitch_rules::schema::WORDS_MAX;
use warpswitch_rules::{Match, MatchKind, RuleId, Ruleset, Schema};
use warpswitch_wire::link::LinkType;
use warpswitch_wire::parse::{Network, ParsedFrame, Transport, parse};

use crate::args::{RulesArgs, parse_count};
use crate::exit::{Outcome, bad_input};
use crate::human;
use crate::load::{LoadedRules, load_rules, place};
use crate::output::{print, print_json};
use crate::table::title;
use crate::term::{BAD, FAINT, GOOD, HEADING, paint};

const LONG_ABOUT: &str = "\
Explain which rule wins for one packet and why no other does: the winner with its source line, the \
other rules that match in order of precedence, and the nearest rules that do not match (fewest \
failed fields, then by precedence, rules of other families last), with each field that failed.

A packet is given as text (tcp 10.0.0.1:1234 > 10.0.0.2:80) or as a flow; omitted fields are zero. \
A frame is given as hexadecimal bytes, from the Ethernet destination address on; blanks and colons \
are ignored.

The exit code is 0 also if no rule matches; a frame without a key is invalid input (2).";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style acl --count 1K --out acl.rules
  warpswitch explain --rules acl.rules --packet 'tcp 10.0.0.1:999 > 10.0.0.2:80'
  warpswitch explain --rules acl.rules --packet 'udp,nw_src=10.0.0.1,tp_dst=53'
  warpswitch generate rules --style fw --family ipv6 --count 1K --out fw6.rules
  warpswitch explain --rules fw6.rules --json --packet 'tcp [::1]:9 > [::2]:80'";

/// Explain which rule wins for one packet, and why no other does
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct ExplainArgs {
    #[command(flatten)]
    rules: RulesArgs,

    #[command(flatten)]
    what: PacketArgs,

    /// Switch port on which the frame came in
    #[arg(long, value_name = "PORT", default_value_t = 0, conflicts_with = "packet")]
    in_port: u32,

    /// Rules of each list to show
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "5")]
    limit: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The packet: exactly one form.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct PacketArgs {
    /// Packet as text: 'tcp 10.0.0.1:1234 > 10.0.0.2:80', or as a flow
    #[arg(long, value_name = "TEXT")]
    packet: Option<String>,

    /// Frame in hexadecimal
    #[arg(long, value_name = "HEX")]
    frame: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Bad input; a frame that has no key under the rules' schema.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Outcome> {
    let loaded = load_rules(&args.rules)?;
    let schema = loaded.ruleset.schema();
    let mut layers = Vec::new();
    let key = match (&args.what.packet, &args.what.frame) {
        (Some(text), _) => parse_packet(text, schema)?,
        (None, frame) => {
            let bytes = parse_hex(frame.as_deref().unwrap_or_default())?;
            layers = describe_frame(&bytes);
            let mut key = vec![0; WORDS_MAX];
            extract(schema, &bytes, args.in_port, &mut key).map_err(|reason| {
                let found = layers.join(", ");
                let found = if found.is_empty() { found } else { format!(" (it is {found})") };
                bad_input(format!("the frame has no {} key: {reason}{found}", schema.name))
            })?;
            key.truncate(schema.words);
            key
        }
    };
    let explanation = explain(&loaded.ruleset, &key, args.limit);
    if args.json {
        print_json(&to_json(&loaded, &key, &layers, &explanation, args.limit))?;
    } else {
        print(&render(&loaded, &key, &layers, &explanation, args.limit))?;
    }
    Ok(Outcome::Done)
}

fn to_json(
    loaded: &LoadedRules,
    key: &[u32],
    layers: &[String],
    explanation: &Explanation,
    limit: usize,
) -> Value {
    let ruleset = &loaded.ruleset;
    let schema = ruleset.schema();
    let rule = |id: RuleId| {
        json!({
            "rule": id.0,
            "line": ruleset.line(id),
            "priority": ruleset.priority(id),
            "action": ruleset.action(id).to_string(),
            "match": format_match(schema, ruleset.matching(id)),
            "source": loaded.source_line(ruleset.line(id)),
        })
    };
    let failed = |failure: &Failure| {
        let (value, wanted) = failure_texts(schema, failure);
        json!({ "field": failure.spec.name, "value": value, "wanted": wanted })
    };
    let loser = |loser: &Loser| {
        let mut value = rule(loser.rule);
        value["failed"] = loser.failures.iter().map(failed).collect();
        value
    };
    let others = explanation.matching.iter().skip(1).take(limit);
    json!({
        "rules": ruleset.len(),
        "schema": schema.name,
        "packet": format_key(schema, key),
        "layers": layers,
        "winner": explanation.matching.first().map(|&id| rule(id)),
        "matching_len": explanation.matching.len(),
        "others": others.map(|&id| rule(id)).collect::<Vec<_>>(),
        "losers_len": explanation.losers_len,
        "losers": explanation.losers.iter().map(loser).collect::<Vec<_>>(),
    })
}

fn render(
    loaded: &LoadedRules,
    key: &[u32],
    layers: &[String],
    explanation: &Explanation,
    limit: usize,
) -> String {
    let schema = loaded.ruleset.schema();
    let mut text = title("Packet", schema.name);
    if !layers.is_empty() {
        text += &format!("  {}\n", layers.join(", "));
    }
    text += &format!("  {}\n\n", format_key(schema, key));
    match explanation.matching.split_first() {
        None => text += &format!("{} matches.\n", paint(BAD, "No rule")),
        Some((&winner, others)) => {
            text += &title("Winner", "");
            text += &render_rule(loaded, winner, true);
            if !others.is_empty() {
                text += "\n";
                let count = human::count(others.len() as u64);
                text += &title(&format!("Also matching: {count}"), "in order of precedence");
                for &id in others.iter().take(limit) {
                    text += &render_rule(loaded, id, false);
                }
                text += &more(others.len().saturating_sub(limit));
            }
        }
    }
    if !explanation.losers.is_empty() {
        let shown = explanation.losers.len();
        let of = human::counted(explanation.losers_len, "rule");
        text += "\n";
        text += &title("Nearest non-matching rules", &format!("{shown} of {of}"));
        for loser in &explanation.losers {
            text += &render_rule(loaded, loser.rule, false);
            for failure in &loser.failures {
                let (value, wanted) = failure_texts(schema, failure);
                let field = failure.spec.name;
                text += &format!("      {} is {value}, expected {wanted}\n", paint(BAD, field));
            }
        }
    }
    text
}

fn more(count: usize) -> String {
    if count == 0 {
        return String::new();
    }
    format!("  {}\n", paint(FAINT, format!("and {} more", human::count(count as u64))))
}

/// A rule's place, action and match, and for the winner its source line as it stands.
fn render_rule(loaded: &LoadedRules, id: RuleId, with_source: bool) -> String {
    let ruleset: &Ruleset = &loaded.ruleset;
    let line = ruleset.line(id);
    let style = if with_source { GOOD } else { HEADING };
    let mut head =
        format!("  {}  {}", paint(style, format!("rule {id}")), place(&loaded.name, line));
    if has_priorities(ruleset) {
        head += &format!("  priority {}", ruleset.priority(id));
    }
    let matching = format_match(ruleset.schema(), ruleset.matching(id));
    let matching = if matching.is_empty() { "any packet".to_owned() } else { matching };
    let mut text = format!("{head}\n    {matching} -> {}\n", ruleset.action(id));
    if let Some(source) = loaded.source_line(line).filter(|_| with_source) {
        let source: String = source.replace('\t', "  ");
        text += &format!("    {}\n", paint(FAINT, source));
    }
    text
}

/// Whether some rule has a priority; in a list none has.
fn has_priorities(ruleset: &Ruleset) -> bool {
    ruleset.ids().any(|id| ruleset.priority(id) != 0)
}

/// What the key has and what the rule demands, in the words of the canonical form.
fn failure_texts(schema: &'static Schema, failure: &Failure) -> (String, String) {
    let field = failure.spec.field;
    let value = |text: String| match text.split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => "any".to_owned(),
    };
    let mut has = Match::any(schema);
    has.set_exact(field, failure.value);
    let mut wants = Match::any(schema);
    match failure.wanted {
        MatchKind::Any => {}
        MatchKind::Exact(wanted) => _ = wants.set_exact(field, wanted),
        MatchKind::Prefix(wanted, len) => _ = wants.set_prefix(field, wanted, len),
        MatchKind::Range(lo, hi) => _ = wants.set_range(field, lo, hi),
        MatchKind::Mask(wanted, mask) => _ = wants.set_mask(field, wanted, mask),
    }
    let text = |matching: &Match| value(format_match(schema, matching.as_ref()));
    (text(&has), text(&wants))
}

/// Bytes in hexadecimal, blanks and colons between them ignored.
fn parse_hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let mut digits = Vec::with_capacity(text.len());
    for (at, character) in text.chars().enumerate() {
        if character.is_whitespace() || character == ':' {
            continue;
        }
        let digit = character.to_digit(16).ok_or_else(|| {
            let shown = character.escape_default();
            bad_input(format!(
                "--frame: invalid character '{shown}' in column {}; expected a \
                hexadecimal digit",
                at + 1
            ))
        })?;
        digits.push(digit as u8);
    }
    if digits.len() % 2 == 1 {
        return Err(bad_input(
            "--frame: odd number of hexadecimal digits; expected two digits per \
            byte",
        ));
    }
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The headers of a frame, outermost first; as far as it can be parsed.
fn describe_frame(bytes: &[u8]) -> Vec<String> {
    let Ok(parsed) = parse(LinkType::Ethernet, bytes, bytes.len()) else { return Vec::new() };
    let ParsedFrame { ether_type, vlan_tci, vlan_tags, mpls_labels, ip_proto, .. } = parsed;
    let mut layers = vec![format!("{} bytes of Ethernet", bytes.len())];
    if let Some(tci) = vlan_tci {
        let id = tci & 0x0fff;
        let more = if vlan_tags > 1 { format!(" ({vlan_tags} tags)") } else { String::new() };
        layers.push(format!("VLAN {id}{more}"));
    }
    if mpls_labels > 0 {
        layers.push(format!("MPLS ({})", human::counted(mpls_labels.into(), "label")));
    }
    match parsed.network {
        Network::None if mpls_labels > 0 => {}
        Network::None => layers.push(format!("EtherType {:#06x}", ether_type.0)),
        Network::Arp => layers.push("ARP".into()),
        Network::Ipv4 => layers.push("IPv4".into()),
        Network::Ipv6 => layers.push("IPv6".into()),
    }
    match parsed.transport {
        Transport::None if matches!(parsed.network, Network::Ipv4 | Network::Ipv6) => {
            layers.push(format!("IP protocol {}", ip_proto.0));
        }
        Transport::None => {}
        Transport::Tcp { flags, .. } => layers.push(format!("TCP (flags {:#05x})", flags.0)),
        Transport::Udp { .. } => layers.push("UDP".into()),
        Transport::Sctp { .. } => layers.push("SCTP".into()),
        Transport::Icmp { kind, code } => layers.push(format!("ICMP type {kind} code {code}")),
        Transport::Icmpv6 { kind, code } => layers.push(format!("ICMPv6 type {kind} code {code}")),
    }
    layers.push(human::counted(parsed.payload(bytes).len(), "byte") + " of payload");
    layers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_with_separators_and_refused_with_a_place() {
        assert_eq!(parse_hex("0x00:ff 0A\n").unwrap(), [0, 0xff, 0x0a]);
        assert!(parse_hex("").unwrap().is_empty());
        assert!(parse_hex("0").unwrap_err().to_string().contains("odd"));
        assert!(parse_hex("00zz").unwrap_err().to_string().contains("column 3"));
    }

    #[test]
    fn frames_are_described_as_far_as_they_go() {
        assert!(describe_frame(&[]).is_empty());
        let mut frame = vec![0u8; 12];
        frame.extend([0x81, 0x00, 0x00, 0x05, 0x88, 0xb5, 1, 2, 3]);
        let layers = describe_frame(&frame).join(", ");
        assert!(layers.contains("VLAN 5, EtherType 0x88b5"), "{layers}");
    }
}
