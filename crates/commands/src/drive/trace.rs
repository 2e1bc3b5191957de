//! The ways of packets that a run followed: lines for people, JSON for programs.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use clap::Args;
use serde_json::{Value, json};
use warpswitch_graph::{
    PacketLook, Router, TRACED_PACKETS_MAX, TracedElement, TracedEnd, TracedHop, TracedPacket,
    TracedWay,
};
use warpswitch_wire::arp::Arp;
use warpswitch_wire::ip::Fragment;
use warpswitch_wire::link::LinkType;
use warpswitch_wire::parse::{Network, ParsedFrame, Transport, parse};
use warpswitch_wire::tcp::TcpFlags;

use crate::args::parse_range;
use crate::exit::bad_input;
use crate::human;
use crate::table::title;
use crate::term::{BAD, FAINT, GOOD, HEADING, WARN, paint};

/// The most columns for elements; longer names push the rest of their line aside.
const ELEMENT_COLUMNS_MAX: usize = 44;

/// Which packets are followed.
#[derive(Args, Clone, Debug, Default)]
pub struct TraceArgs {
    /// At the end, print the paths of the first N packets, at most 1,000: elements visited and
    /// outcome
    #[arg(long, value_name = "N",
          value_parser = parse_range::<u32>(1, TRACED_PACKETS_MAX as u64))]
    trace: Option<u32>,

    /// Trace the first packets that reach this element instead
    #[arg(long, value_name = "ELEMENT", requires = "trace")]
    trace_at: Option<String>,
}

impl TraceArgs {
    /// Has `router` follow packets, if requested.
    ///
    /// # Errors
    /// If there is no such element.
    pub fn begin(&self, router: &mut Router) -> anyhow::Result<()> {
        let Some(packets_max) = self.trace else { return Ok(()) };
        let begun = router.trace(packets_max as usize, self.trace_at.as_deref());
        begun.map_err(|error| bad_input(format!("--trace-at: {error}")))
    }

    /// What the lines begin with.
    fn title(&self, packets: usize) -> String {
        let wanted = self.trace.unwrap_or(0);
        let aside = match (packets, &self.trace_at) {
            (0, None) => "no packet came from a source".to_owned(),
            (0, Some(at)) => format!("no packet came to {at}"),
            (packets, None) => format!("{} of {} requested", human::count(packets as u64), wanted),
            (packets, Some(at)) => {
                format!("{} of {} requested, from {at} on", human::count(packets as u64), wanted)
            }
        };
        title("Trace", &aside)
    }

    /// The lines that end a run; empty if none are requested.
    pub fn render(&self, router: &Router) -> String {
        let Some(packets) = router.traced() else { return String::new() };
        let hops = packets.iter().flat_map(|packet| &packet.ways).flat_map(|way| &way.hops);
        let widths = hops.map(|hop| named(&hop.element).chars().count());
        let width = widths.filter(|width| *width <= ELEMENT_COLUMNS_MAX).max().unwrap_or(0);
        let mut text = self.title(packets.len());
        for (idx, packet) in packets.iter().enumerate() {
            text += &render_packet(idx + 1, packet, width);
        }
        text
    }

    /// The same as JSON; none if not requested.
    pub fn to_json(&self, router: &Router) -> Option<Value> {
        let packets = router.traced()?;
        let packets = packets.iter().enumerate();
        Some(packets.map(|(idx, packet)| packet_json(idx + 1, packet)).collect())
    }
}

fn named(element: &TracedElement) -> String {
    format!("{} :: {}", element.name, element.class)
}

/// What a way of packet `number` is called: the packet's own as the packet, others behind a point.
fn way_name(number: usize, way: usize) -> String {
    if way == 0 { number.to_string() } else { format!("{number}.{way}") }
}

fn render_packet(number: usize, packet: &TracedPacket, width: usize) -> String {
    let mut text = String::new();
    for (idx, way) in packet.ways.iter().enumerate() {
        let name = way_name(number, idx);
        let from = match &way.made {
            None => match packet.seen.filter(|seen| *seen != packet.at) {
                Some(seen) => format!("at {}, timestamp {seen}", packet.at),
                None => format!("at {}", packet.at),
            },
            Some((of, by)) => format!("made of {} by {}", way_name(number, *of), named(by)),
        };
        let head = paint(HEADING, format!("packet {name}"));
        _ = writeln!(text, "{head}  {from}: {}", describe(&way.look));
        for (at, hop) in way.hops.iter().enumerate() {
            let is_last = at + 1 == way.hops.len();
            if is_last && idx == 0 && packet.hops_left_out > 0 {
                let left_out = human::counted(packet.hops_left_out as usize, "hop");
                _ = writeln!(text, "  {}", paint(FAINT, format!("{left_out} left out")));
            }
            text += &render_hop(packet, way, hop, &made_here(number, packet, idx, at), width);
        }
        _ = writeln!(text, "  {}", render_end(&way.end));
    }
    if packet.copies_left_out > 0 {
        let copies = human::count(packet.copies_left_out);
        _ = writeln!(text, "  {}", paint(FAINT, format!("not followed, of more copies: {copies}")));
    }
    text
}

/// The names of what was made of a packet on the way `idx` at its hop `at`.
fn made_here(number: usize, packet: &TracedPacket, idx: usize, at: usize) -> Vec<String> {
    let hops = &packet.ways[idx].hops;
    let made = packet.ways.iter().enumerate().filter(|(_, way)| {
        // By the element's last hop: where it came there more than once, that is a guess.
        way.made.as_ref().is_some_and(|(of, by)| {
            *of == idx && hops.iter().rposition(|hop| hop.element == *by) == Some(at)
        })
    });
    made.map(|(way, _)| way_name(number, way)).collect()
}

fn render_hop(
    packet: &TracedPacket,
    way: &TracedWay,
    hop: &TracedHop,
    made: &[String],
    width: usize,
) -> String {
    let port = |port: Option<usize>| port.map_or(String::new(), |port| port.to_string());
    let mut line = format!(
        "  {:>8}  {:width$}  {:>2} -> {}",
        human::time(hop.at - packet.at),
        named(&hop.element),
        port(hop.input),
        port(hop.output),
    );
    let mut notes = Vec::new();
    if let Some(look) = &hop.look {
        notes.extend(changes(way, hop, look));
    }
    if !made.is_empty() {
        notes.push(format!("makes {}", made.join(", ")));
    }
    if !notes.is_empty() {
        _ = write!(line, "   {}", paint(FAINT, notes.join(", ")));
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

/// What is other than before in how a packet left a hop of a way, as far as it is shown.
fn changes(way: &TracedWay, hop: &TracedHop, look: &PacketLook) -> Vec<String> {
    let before = way.hops.iter().take_while(|other| !std::ptr::eq(*other, hop));
    let before = before.filter_map(|hop| hop.look.as_ref()).last().unwrap_or(&way.look);
    let mut changes = Vec::new();
    if before.bytes != look.bytes {
        changes.push(human::counted(look.bytes, "byte"));
    }
    let headers = headers(look);
    if headers != self::headers(before) {
        changes.push(headers.unwrap_or_else(|| "no IP or ARP header".to_owned()));
    }
    changes
}

fn render_end(end: &TracedEnd) -> String {
    match end {
        TracedEnd::Dropped(by, reason) => {
            format!("{} by {}: {reason}", paint(BAD, "dropped"), named(by))
        }
        TracedEnd::Consumed(by, how) => format!("{} by {}", paint(GOOD, how), named(by)),
        TracedEnd::Held(by) => format!("{} by {}", paint(WARN, "still held"), named(by)),
        TracedEnd::Waits(by) => format!("{} to {}", paint(WARN, "still on its way"), named(by)),
        TracedEnd::Replaced(by) => {
            format!("{} when {} was replaced", paint(BAD, "gone"), named(by))
        }
        TracedEnd::Unknown(by) => {
            format!("{} fate in {}", paint(WARN, "unknown"), named(by))
        }
    }
}

fn describe(look: &PacketLook) -> String {
    let bytes = human::counted(look.bytes, "byte");
    match headers(look) {
        Some(headers) => format!("{bytes}, {headers}"),
        None => format!("{bytes}, no IP or ARP header: {}", in_hex(look)),
    }
}

/// The first bytes.
fn in_hex(look: &PacketLook) -> String {
    const BYTES_MAX: usize = 16;
    let shown = &look.head[..look.head.len().min(BYTES_MAX)];
    let words: Vec<String> = shown
        .chunks(4)
        .map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        .collect();
    let more = if look.bytes > shown.len() { " ..." } else { "" };
    words.join(" ") + more
}

/// The headers in the words that `warpswitch explain --packet` takes, and what these leave out
/// behind a comma; none without an IP or ARP header.
fn headers(look: &PacketLook) -> Option<String> {
    let found = |link, from: usize| {
        let bytes = look.head.get(from..)?;
        let parsed = parse(link, bytes, look.bytes.saturating_sub(from)).ok()?;
        (parsed.network != Network::None).then(|| words(&parsed, bytes))
    };
    let at_network = look.network.and_then(|from| found(LinkType::RawIp, from));
    at_network.or_else(|| found(LinkType::Ethernet, 0)).or_else(|| found(LinkType::RawIp, 0))
}

fn words(parsed: &ParsedFrame, bytes: &[u8]) -> String {
    let mut text = match parsed.network {
        Network::Arp => arp_words(&bytes[parsed.network_offset.min(bytes.len())..]),
        _ => ip_words(parsed, bytes),
    };
    match parsed.fragment {
        Fragment::No => {}
        Fragment::First => text += ", first fragment",
        Fragment::Later => text += ", later fragment",
    }
    if let Some(tci) = parsed.vlan_tci {
        _ = write!(text, ", VLAN {}", tci & 0x0fff);
    }
    text
}

fn arp_words(bytes: &[u8]) -> String {
    let Ok(arp) = Arp::new_checked(bytes) else { return "arp".to_owned() };
    let (sender, target) = (arp.sender_ip(), arp.target_ip());
    match arp.operation() {
        1 => format!("arp who-has {target} tell {sender}"),
        2 => format!("arp {sender} is-at {}", arp.sender_mac()),
        operation => format!("arp operation {operation}"),
    }
}

fn ip_words(parsed: &ParsedFrame, bytes: &[u8]) -> String {
    let header = &bytes[parsed.network_offset.min(bytes.len())..];
    let v4 = |at: usize| header.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    let v6 = |at: usize| header.get(at..at + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    let is_v6 = parsed.network == Network::Ipv6;
    let address = |at: usize| match is_v6 {
        true => v6(at).map(|bytes| Ipv6Addr::from(bytes).to_string()).unwrap_or_default(),
        false => v4(at).map(|bytes| Ipv4Addr::from(bytes).to_string()).unwrap_or_default(),
    };
    let (src, dst) = if is_v6 { (address(8), address(24)) } else { (address(12), address(16)) };
    let ports = |name: &str, from: u16, to: u16| match is_v6 {
        true => format!("{name} [{src}]:{from} > [{dst}]:{to}"),
        false => format!("{name} {src}:{from} > {dst}:{to}"),
    };
    match parsed.transport {
        Transport::Tcp { src, dst, flags } => {
            format!("{} flags {}", ports("tcp", src, dst), flag_letters(flags))
        }
        Transport::Udp { src, dst } => ports("udp", src, dst),
        Transport::Sctp { src, dst } => ports("sctp", src, dst),
        Transport::Icmp { kind, code } => format!("icmp {src} > {dst} type {kind} code {code}"),
        Transport::Icmpv6 { kind, code } => format!("icmp6 {src} > {dst} type {kind} code {code}"),
        Transport::None => format!("ip {src} > {dst} proto {}", parsed.ip_proto),
    }
}

/// Flags as `tcpdump` prints them.
fn flag_letters(flags: TcpFlags) -> String {
    const LETTERS: &str = "FSRP.UEW";
    let letters = LETTERS.chars().enumerate().filter(|(bit, _)| flags.0 & 1 << bit != 0);
    let letters: String = letters.map(|(_, letter)| letter).collect();
    if letters.is_empty() { "0".to_owned() } else { letters }
}

fn packet_json(number: usize, packet: &TracedPacket) -> Value {
    let way = |(idx, way): (usize, &TracedWay)| {
        let hop = |hop: &TracedHop| {
            json!({
                "ns": u64::try_from((hop.at - packet.at).as_nanos()).unwrap_or(u64::MAX),
                "name": hop.element.name,
                "class": hop.element.class,
                "input": hop.input,
                "output": hop.output,
                "bytes": hop.look.as_ref().map(|look| look.bytes),
                "headers": hop.look.as_ref().and_then(headers),
            })
        };
        let made = way.made.as_ref();
        json!({
            "packet": way_name(number, idx),
            "made_of": made.map(|(of, _)| way_name(number, *of)),
            "made_by": made.map(|(_, by)| &by.name),
            "bytes": way.look.bytes,
            "headers": headers(&way.look),
            "hops": way.hops.iter().map(hop).collect::<Vec<_>>(),
            "end": end_json(&way.end),
        })
    };
    json!({
        "at": packet.at.to_string(),
        "seen": packet.seen.map(|seen| seen.to_string()),
        "ways": packet.ways.iter().enumerate().map(way).collect::<Vec<_>>(),
        "hops_left_out": packet.hops_left_out,
        "copies_left_out": packet.copies_left_out,
    })
}

fn end_json(end: &TracedEnd) -> Value {
    let (what, by, detail) = match end {
        TracedEnd::Dropped(by, reason) => ("dropped", by, Some(("reason", *reason))),
        TracedEnd::Consumed(by, how) => ("consumed", by, Some(("how", *how))),
        TracedEnd::Held(by) => ("held", by, None),
        TracedEnd::Waits(by) => ("on its way", by, None),
        TracedEnd::Replaced(by) => ("gone", by, None),
        TracedEnd::Unknown(by) => ("not known", by, None),
    };
    let mut end = json!({ "what": what, "name": by.name, "class": by.class });
    if let Some((name, detail)) = detail {
        end[name] = detail.into();
    }
    end
}

#[cfg(test)]
mod tests {
    use warpswitch_rules::format::parse_packet;
    use warpswitch_rules::schema::{OPENFLOW12, OPENFLOW12_IPV6};

    use super::*;

    fn look(hex: &str, network: Option<usize>) -> PacketLook {
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let head: Vec<u8> = digits.chunks(2).map(|two| (two[0] << 4 | two[1]) as u8).collect();
        PacketLook { bytes: head.len(), head, network }
    }

    const ETHERNET: &str = "020000000002 020000000001";
    const V4: &str = "45000028 00010000 40060000 0a000001 0a000002";

    /// Headers are printed in words that `explain --packet` takes, wherever they start.
    #[test]
    fn headers_are_told_in_words() {
        let tcp = "04d2 0050 00000000 00000000 5012 0000 0000 0000";
        let v6 = "60000000 0008 3a 40 00000000000000000000000000000001 \
            00000000000000000000000000000002 8000 0000 0000 0000";
        let fragment = V4.replace("00010000", "000120b9").replace("4006", "4011");
        let cases = [
            (format!("{V4} {tcp}"), Some(0), "tcp 10.0.0.1:1234 > 10.0.0.2:80 flags S."),
            (format!("{V4} {tcp}"), None, "tcp 10.0.0.1:1234 > 10.0.0.2:80 flags S."),
            (
                format!("{ETHERNET} 0800 {V4} {tcp}"),
                None,
                "tcp 10.0.0.1:1234 > 10.0.0.2:80 flags S.",
            ),
            (
                format!("{ETHERNET} 8100 0005 0800 {V4} {tcp}"),
                None,
                "tcp 10.0.0.1:1234 > 10.0.0.2:80 flags S., VLAN 5",
            ),
            (
                format!("{fragment} {tcp}"),
                Some(0),
                "ip 10.0.0.1 > 10.0.0.2 proto 17, later fragment",
            ),
            (format!("{ETHERNET} 86dd {v6}"), None, "icmp6 ::1 > ::2 type 128 code 0"),
        ];
        for (hex, network, expected) in cases {
            let found = headers(&look(&hex, network)).unwrap_or_default();
            assert_eq!(found, expected, "{hex}");
            let words = found.split(',').next().unwrap_or_default();
            let schema = if found.contains("::") { &OPENFLOW12_IPV6 } else { &OPENFLOW12 };
            assert!(parse_packet(words, schema).is_ok(), "{words}");
        }
        let arp = "0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002";
        let found = headers(&look(&format!("{ETHERNET} 0806 {arp}"), None));
        assert_eq!(found.as_deref(), Some("arp who-has 10.0.0.2 tell 10.0.0.1"));
    }

    #[test]
    fn what_has_no_headers_is_shown_as_it_is() {
        for hex in ["", "00", "52616e646f6d2062756c6c7368697421", V4] {
            let look = look(&hex[..hex.len().min(38)], None);
            assert_eq!(headers(&look), None, "{hex}");
        }
        let short = look("52616e646f", None);
        assert_eq!(describe(&short), "5 bytes, no IP or ARP header: 52616e64 6f");
        let long = PacketLook { bytes: 3000, head: vec![7; 96], network: Some(4000) };
        let shown = "07070707 07070707 07070707 07070707 ...";
        assert_eq!(describe(&long), format!("3,000 bytes, no IP or ARP header: {shown}"));
    }
}
