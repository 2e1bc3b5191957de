//! What `ip route` prints, and `ip -6 route`.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::diagnostic::{Place, Word, words};
use super::{Out, Reader, Via, lines};
use crate::address::Address;
use crate::prefix::Prefix;

/// What may stand in front of a prefix, and whether such a route forwards anything.
const TYPES: [&str; 10] = [
    "unicast",
    "local",
    "broadcast",
    "multicast",
    "anycast",
    "throw",
    "nat",
    "blackhole",
    "unreachable",
    "prohibit",
];

/// Words that a value follows which does not matter for where a packet goes.
const WITH_VALUE: [&str; 24] = [
    "proto", "scope", "src", "table", "pref", "mtu", "advmss", "window", "rtt", "rttvar",
    "ssthresh", "cwnd", "initcwnd", "initrwnd", "hoplimit", "realm", "realms", "expires", "error",
    "features", "quickack", "congctl", "nhid", "weight",
];

/// Words that stand alone.
const FLAGS: [&str; 12] = [
    "onlink",
    "linkdown",
    "dead",
    "offload",
    "offload_failed",
    "trap",
    "pervasive",
    "cache",
    "notify",
    "rt_offload",
    "rt_trap",
    "lock",
];

/// A route while its lines are read.
struct Open<A> {
    prefix: Prefix<A>,
    via: Via<A>,
    metric: u32,
    /// Whether a next hop on a line of its own is still to come.
    wants_hop: bool,
}

pub(super) fn read<A: Address>(reader: &mut Reader<'_, A>, text: &[u8]) {
    let mut metrics = BTreeMap::new();
    let mut open = None;
    for (line_no, line) in lines(text) {
        let place = reader.place(line_no, line);
        let words = words(line, 0..line.len());
        let Some(first) = words.first() else { continue };
        if first.text == "nexthop" {
            next_hop(reader, &place, &words, &mut open);
            continue;
        }
        close(reader, &place, first, &mut open, &mut metrics);
        open = route(reader, &place, &words);
    }
    let place = reader.place(0, b"");
    close(reader, &place, &Word { text: "", span: 0..0 }, &mut open, &mut metrics);
}

/// Puts in the route before, unless one with a lower metric is there.
fn close<A: Address>(
    reader: &mut Reader<'_, A>,
    place: &Place<'_>,
    word: &Word<'_>,
    open: &mut Option<Open<A>>,
    metrics: &mut BTreeMap<Prefix<A>, u32>,
) {
    let Some(Open { prefix, via, metric, .. }) = open.take() else { return };
    if metrics.get(&prefix).is_some_and(|&before| before <= metric) {
        return;
    }
    if let Some(hop) = reader.hop(place, word, via) {
        metrics.insert(prefix, metric);
        let _ = reader.routes.table.insert(prefix, hop);
    }
}

/// A further line of a route: the first of them counts.
fn next_hop<A: Address>(
    reader: &mut Reader<'_, A>,
    place: &Place<'_>,
    words: &[Word<'_>],
    open: &mut Option<Open<A>>,
) {
    let Some(open) = open else {
        let expected = "a route on the previous line";
        return reader.error(place, &words[0], "next hop without a route", expected);
    };
    let unknown = Via { gateway: None, out: Out::Unknown };
    let mut ignored = 0;
    if let Some(via) = attributes(reader, place, &words[1..], unknown, &mut ignored)
        && std::mem::replace(&mut open.wants_hop, false)
    {
        open.via = via;
    }
}

fn route<A: Address>(
    reader: &mut Reader<'_, A>,
    place: &Place<'_>,
    words: &[Word<'_>],
) -> Option<Open<A>> {
    let kind = TYPES.iter().find(|kind| **kind == words[0].text);
    let words = if kind.is_some() { &words[1..] } else { words };
    let Some((first, rest)) = words.split_first() else {
        reader.missing(place, words, "the prefix is missing", "a prefix or `default`");
        return None;
    };
    let prefix = match first.text {
        "default" => Some(Prefix::containing(A::from_left(0), 0)),
        _ => reader.prefix(place, first),
    };
    let out = match kind {
        Some(&"blackhole") => Out::Blackhole,
        Some(&"unreachable") => Out::Unreachable,
        Some(&"prohibit") => Out::Prohibit,
        _ => Out::Unknown,
    };
    let is_dropped = out != Out::Unknown;
    let mut metric = 0;
    let via = attributes(reader, place, rest, Via { gateway: None, out }, &mut metric);
    let (prefix, via) = (prefix?, via?);
    let wants_hop = !is_dropped && via.gateway.is_none() && via.out == Out::Unknown;
    Some(Open { prefix, via, metric, wants_hop })
}

/// What follows a prefix; `None` if something is wrong.
fn attributes<A: Address>(
    reader: &mut Reader<'_, A>,
    place: &Place<'_>,
    words: &[Word<'_>],
    mut via: Via<A>,
    metric: &mut u32,
) -> Option<Via<A>> {
    let errors = reader.diagnostics.total();
    let mut left = words.iter();
    while let Some(word) = left.next() {
        if FLAGS.contains(&word.text) {
            continue;
        }
        if !["via", "dev", "metric"].contains(&word.text) && !WITH_VALUE.contains(&word.text) {
            let expected = "`via`, `dev`, `metric` or another word of ip route";
            reader.error(place, word, "unknown route attribute", expected);
            continue;
        }
        let Some(value) = left.next() else {
            reader.missing(place, words, "a value is missing", "one more word");
            continue;
        };
        match word.text {
            // A gateway of the other family has its name in front.
            "via" if ["inet", "inet6"].contains(&value.text) => {
                let message = "a gateway of the other family";
                reader.error(place, value, message, super::address_looks::<A>());
                left.next();
            }
            "via" => via.gateway = reader.address(place, value),
            "dev" if matches!(via.out, Out::Unknown | Out::Device(_)) => {
                via.out = Out::Device(value.text.to_owned());
            }
            "metric" => match value.text.parse() {
                Ok(number) => *metric = number,
                Err(_) => reader.error(place, value, "not a metric", "a number"),
            },
            _ => {}
        }
    }
    (reader.diagnostics.total() == errors).then_some(via)
}

pub(super) fn write<A: Address>(text: &mut String, prefix: Prefix<A>, via: &Via<A>) -> fmt::Result {
    let kind = match via.out {
        Out::Blackhole => "blackhole ",
        Out::Unreachable => "unreachable ",
        Out::Prohibit => "prohibit ",
        Out::Port(_) => return Err(fmt::Error),
        Out::Unknown | Out::Device(_) => "",
    };
    text.write_str(kind)?;
    if prefix.len() == 0 {
        text.write_str("default")?;
    } else {
        write!(text, "{prefix}")?;
    }
    if let Some(gateway) = via.gateway {
        write!(text, " via {}", gateway.to_std())?;
    }
    if let Out::Device(device) = &via.out {
        let is_word = !device.is_empty() && !device.contains(|c: char| c.is_ascii_whitespace());
        if !is_word {
            return Err(fmt::Error);
        }
        write!(text, " dev {device}")?;
    }
    text.write_char('\n')
}
