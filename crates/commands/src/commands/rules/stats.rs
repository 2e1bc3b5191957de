//! `warpswitch rules stats`: figures that describe a rule set.

use clap::Args;
use serde_json::{Value, json};
use warpswitch_rules::analysis::{Count, PortClass, Stats, stats};
use warpswitch_rules::{Action, MatchKind, MatchRef, PortRange, Ruleset, Schema};

use super::heatmap;
use crate::args::{RuleFileArgs, parse_count};
use crate::exit::Outcome;
use crate::human;
use crate::load::load_rules;
use crate::output::{print, print_json};
use crate::table::{Align, Table, title};
use crate::term::Progress;

const LONG_ABOUT: &str = "\
Describe a rule set: actions, masks, prefix lengths, ports, range expansion cost, and the number \
of rules that match at once.

A tuple is a distinct mask: hash-based engines keep one table per tuple. A range counts there as \
the bits that all its ports share. Masked entries are those of mask-based engines after range \
expansion; turbo, linear and hypercuts keep ranges whole.

Overlap is counted at the lowest corner of every rule, or of 20,000 evenly spaced rules.";

/// Describe a rule set
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT)]
pub struct StatsArgs {
    #[command(flatten)]
    rules: RuleFileArgs,

    /// Lines of each list; the rest is summarized
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "8")]
    limit: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Bad input.
pub fn run(args: &StatsArgs) -> anyhow::Result<Outcome> {
    let loaded = load_rules(&args.rules.to_rules_args())?;
    let progress = Progress::spinner("counting");
    let stats = stats(&loaded.ruleset);
    drop(progress);
    if args.json {
        print_json(&to_json(&loaded.ruleset, &stats))?;
    } else {
        print(&render(&loaded.ruleset, &loaded.name, &stats, args.limit))?;
    }
    Ok(Outcome::Done)
}

fn to_json(ruleset: &Ruleset, stats: &Stats) -> Value {
    let worst = stats
        .ranges
        .worst
        .map(|(id, entries)| json!({ "rule": id.0, "line": ruleset.line(id), "entries": entries }));
    json!({
        "rules": ruleset.len(),
        "schema": ruleset.schema().name,
        "priorities": stats.priorities,
        "actions": stats.actions.iter()
            .map(|c| json!({ "action": c.of.to_string(), "rules": c.rules })).collect::<Vec<_>>(),
        "tuples": stats.tuples.len(),
        "masks": stats.tuples.iter()
            .map(|c| json!({ "mask": mask_text(ruleset.schema(), &c.mask), "rules": c.rules }))
            .collect::<Vec<_>>(),
        "prefix_pairs": stats.prefix_pairs.iter()
            .map(|c| json!({ "src": c.of.0, "dst": c.of.1, "rules": c.rules })).collect::<Vec<_>>(),
        "port_classes": stats.port_classes.iter()
            .map(|c| json!({ "src": c.of.0.name(), "dst": c.of.1.name(), "rules": c.rules }))
            .collect::<Vec<_>>(),
        "protocols": stats.protocols.iter()
            .map(|c| json!({ "value": c.of.0, "mask": c.of.1, "rules": c.rules }))
            .collect::<Vec<_>>(),
        "ranges": {
            "rules": stats.ranges.rules,
            "distinct": stats.ranges.ranges,
            "entries": stats.ranges.entries,
            "worst": worst,
        },
        "overlap": {
            "corners": stats.overlap.corners,
            "mean": stats.overlap.mean,
            "max": stats.overlap.max,
        },
    })
}

fn render(ruleset: &Ruleset, name: &str, stats: &Stats, limit: usize) -> String {
    let rules = ruleset.len();
    let schema = ruleset.schema();
    let head = format!("{name}: {}", human::counted(rules, "rule"));
    let mut aside = schema.name.to_owned();
    if stats.priorities > 1 {
        aside += &format!(", {} priorities", human::count(stats.priorities as u64));
    }
    let mut text = title(&head, &aside);
    if ruleset.is_empty() {
        return text;
    }
    let actions: Vec<_> = stats.actions.iter().map(|c| (action_text(&c.of), c.rules)).collect();
    text += &shares("Actions", "", actions, rules, limit);
    let masks: Vec<_> =
        stats.tuples.iter().map(|c| (mask_text(schema, &c.mask), c.rules)).collect();
    text += &shares("Tuples", &human::counted(masks.len(), "mask"), masks, rules, limit);
    if stats.address_bits > 0 {
        text += "\n";
        text += &title("Prefix lengths", "percent of rules");
        text += &heatmap::draw(&stats.prefix_pairs, stats.address_bits);
    }
    text += "\n";
    text += &title("Ports", "rules, source down, destination across");
    text += &ports_table(&stats.port_classes);
    let protocols: Vec<_> =
        stats.protocols.iter().map(|c| (protocol_text(c.of), c.rules)).collect();
    if !protocols.is_empty() {
        text += &shares("Protocols", "", protocols, rules, limit);
    }
    text += &render_cost(ruleset, stats);
    text
}

/// What ranges cost and how much rules overlap.
fn render_cost(ruleset: &Ruleset, stats: &Stats) -> String {
    let mut text = format!("\n{}", title("Ranges", ""));
    let ranges = &stats.ranges;
    text += &format!(
        "  {} with a range that no prefix equals; {}\n",
        human::counted(ranges.rules, "rule"),
        human::counted(ranges.ranges, "different range")
    );
    let factor = ranges.entries as f64 / ruleset.len() as f64;
    text += &format!(
        "  {} masked entries in all, {} a rule",
        human::count(ranges.entries),
        human::significant(factor)
    );
    if let Some((id, entries)) = ranges.worst.filter(|&(_, entries)| entries > 1) {
        text += &format!("; most for rule {id} (line {}): {entries}", ruleset.line(id));
    }
    let overlap = &stats.overlap;
    text += &format!("\n\n{}", title("Overlap", ""));
    text += &format!(
        "  {} rules match at once on average, {} at most ({} sampled)\n",
        human::significant(overlap.mean),
        human::count(overlap.max as u64),
        human::counted(overlap.corners, "corner")
    );
    text
}

/// A list of things and the rules that have them, most first.
fn shares(
    name: &str,
    aside: &str,
    items: Vec<(String, usize)>,
    total: usize,
    limit: usize,
) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Right)]);
    let share = |rules: usize| human::percent(rules as u64, total as u64);
    let len = items.len();
    let rest: usize = items.iter().skip(limit).map(|(_, rules)| rules).sum();
    for (text, rules) in items.into_iter().take(limit) {
        table.row([text, human::count(rules as u64), share(rules)]);
    }
    if len > limit {
        let more = format!("{} others", human::count((len - limit) as u64));
        table.row([more, human::count(rest as u64), share(rest)]);
    }
    format!("\n{}{}", title(name, aside), table.render())
}

fn ports_table(classes: &[Count<(PortClass, PortClass)>]) -> String {
    let names = PortClass::ALL.map(PortClass::name);
    let mut headings = vec![("src\\dst", Align::Right)];
    headings.extend(names.map(|name| (name, Align::Right)));
    let mut table = Table::new(&headings);
    for src in PortClass::ALL {
        let rules = |dst| classes.iter().find(|c| c.of == (src, dst)).map_or(0, |c| c.rules);
        let mut cells = [const { String::new() }; 6];
        cells[0] = src.name().to_owned();
        for (cell, dst) in cells[1..].iter_mut().zip(PortClass::ALL) {
            *cell = match rules(dst) {
                0 => "·".into(),
                rules => human::count(rules as u64),
            };
        }
        table.row(cells);
    }
    table.render()
}

fn action_text(action: &Action) -> String {
    let text = action.to_string();
    if text.chars().count() <= 48 {
        return text;
    }
    text.chars().take(47).chain(['…']).collect()
}

fn protocol_text((value, mask): (u8, u8)) -> String {
    let name = match (value, mask) {
        (_, 0) => return "any".into(),
        (1, 0xff) => "icmp",
        (2, 0xff) => "igmp",
        (6, 0xff) => "tcp",
        (17, 0xff) => "udp",
        (47, 0xff) => "gre",
        (50, 0xff) => "esp",
        (51, 0xff) => "ah",
        (58, 0xff) => "icmpv6",
        (88, 0xff) => "eigrp",
        (89, 0xff) => "ospf",
        (132, 0xff) => "sctp",
        (value, 0xff) => return value.to_string(),
        (value, mask) => return format!("{value:#x}/{mask:#x}"),
    };
    format!("{name} ({value})")
}

/// A mask field by field: `ipv4_src/24 l4_dst`; fields that are not examined are left out.
fn mask_text(schema: &'static Schema, mask: &[u32]) -> String {
    let words = &mask[..schema.words];
    let all_ones = MatchRef {
        value: words,
        mask: words,
        ranges: [PortRange::ANY; 2],
        ports_word: schema.ports_word,
    };
    let mut parts = Vec::new();
    for spec in schema.fields {
        let is_view = parts.iter().any(|(end, _)| *end == spec.bit_offset + spec.bits);
        if is_view {
            continue;
        }
        let text = match all_ones.kind(schema, spec.field) {
            MatchKind::Any | MatchKind::Range(..) => continue,
            MatchKind::Exact(_) => spec.name.to_owned(),
            MatchKind::Prefix(_, len) => format!("{}/{len}", spec.name),
            MatchKind::Mask(_, mask) => format!("{}/{mask:#x}", spec.name),
        };
        parts.push((spec.bit_offset + spec.bits, text));
    }
    if parts.is_empty() {
        return "no field matched".into();
    }
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
}
