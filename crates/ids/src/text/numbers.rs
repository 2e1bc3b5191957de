//! Options that look at headers: numbers and ranges, TCP flags, and `flow`.

use std::ops::Range;

use warpswitch_rules::diagnostic::Diagnostics;

use super::near::nearest;
use super::source::{Part, Skip, Source};
use crate::rule::{Check, Direction, Field, FlagsHow, FlowTest, Only};

/// The option that compares a number of the headers, and the largest number it may name.
pub(super) fn field_of(keyword: &str) -> Option<(Field, u32)> {
    Some(match keyword {
        "dsize" => (Field::Dsize, 65535),
        "ttl" => (Field::Ttl, 255),
        "tos" => (Field::Tos, 255),
        "id" => (Field::Id, 65535),
        "ip_proto" => (Field::IpProto, 255),
        "itype" => (Field::Itype, 255),
        "icode" => (Field::Icode, 255),
        "icmp_id" => (Field::IcmpId, 65535),
        "icmp_seq" => (Field::IcmpSeq, 65535),
        "seq" | "tcp.seq" => (Field::Seq, u32::MAX),
        "ack" | "tcp.ack" => (Field::Ack, u32::MAX),
        "window" => (Field::Window, 65535),
        _ => return None,
    })
}

const PROTOCOLS: [(&str, u32); 14] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("sctp", 132),
];

/// Names of IP protocols that Suricata reads and that have no number here.
const PROTOCOLS_ELSEWHERE: &str = "\
    ip ggp ipencap st egp igp pup hmp xns-idp rdp iso-tp4 dccp xtp ddp idpr-cmtp ipv6-route \
    ipv6-frag idrp skip ipv6-icmp ipv6-nonxt ipv6-opts rspf vmtp eigrp ospfigp ax.25 etherip \
    encap ipcomp vrrp l2tp isis fc mobility-header udplite mpls-in-ip manet hip shim6 wesp rohc";

/// Reads `N`, `<N`, `>N`, `<=N`, `>=N`, `=N`, `!N`, `A<>B` (both ends left out), `A<=>B`, `A-B`.
///
/// A form that Suricata reads and that is not supported leaves the rule out: [`other_form`].
pub(super) fn number(
    source: &Source<'_>,
    span: Range<usize>,
    (name, field, max): (&str, Field, u32),
    errors: &mut Diagnostics,
) -> Part<Check> {
    let text = source.text(&span).to_ascii_lowercase();
    let check = test(text.trim(), field, max).filter(|_| !is_other_protocol(text.trim(), field));
    check.ok_or_else(|| {
        if let Some(form) = other_form(text.trim(), field, max) {
            return Skip::Unsupported(format!("{name} ({form})"));
        }
        let expected = format!("N, <N, >N, !N or A<>B, numbers up to {max}");
        source.tell(errors, span, "cannot be read as a number or a range", &expected, "")
    })
}

/// The form of a number or range that is valid for Suricata alone: in quotes, as `&MASK=VALUE`,
/// hexadecimal or with a unit, or a protocol's name.
fn other_form(text: &str, field: Field, max: u32) -> Option<&'static str> {
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    if quoted.is_some_and(|text| test(text.trim(), field, max).is_some()) {
        return Some("quoted number");
    }
    let positive = text.strip_prefix('!').unwrap_or(text).trim();
    if let Some((mask, value)) = positive.strip_prefix('&').and_then(|rest| rest.split_once('=')) {
        let mask = mask.strip_suffix('!').unwrap_or(mask);
        return wide(mask.trim()).and(wide(value.trim())).map(|_| "bitmask");
    }
    if is_other_protocol(positive, field) {
        return Some("protocol name");
    }
    let (mut decimal, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let sign = |c: char| !c.is_ascii_alphanumeric();
        let (word, behind) = rest.split_at(rest.find(sign).unwrap_or(rest.len()));
        if !word.is_empty() {
            decimal.push_str(&wide(word)?.to_string());
        }
        let next = behind.chars().next();
        decimal.extend(next);
        rest = &behind[next.map_or(0, char::len_utf8)..];
    }
    test(&decimal, field, max).map(|_| "hexadecimal number or unit")
}

/// Whether an IP protocol is named that has no number here.
fn is_other_protocol(text: &str, field: Field) -> bool {
    let name = text.strip_prefix('!').unwrap_or(text).trim();
    field == Field::IpProto
        && PROTOCOLS_ELSEWHERE.split_ascii_whitespace().any(|known| known == name)
}

/// A number, hexadecimal behind `0x`, or with a unit.
fn wide(word: &str) -> Option<u64> {
    if let Some(digits) = word.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(digits);
    let bits = match unit {
        "" => 0,
        "kb" | "kib" => 10,
        "mb" | "mib" => 20,
        "gb" | "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << bits)
}

fn test(text: &str, field: Field, max: u32) -> Option<Check> {
    let value = |text: &str| -> Option<u32> {
        let text = text.trim();
        if field == Field::IpProto
            && let Some(&(_, number)) = PROTOCOLS.iter().find(|(name, _)| *name == text)
        {
            return Some(number);
        }
        text.parse().ok().filter(|&number| number <= max)
    };
    let range = |low: u32, high: u32, outside: bool| {
        // An empty range matches nothing: everything is outside of what is all.
        let (low, high, outside) =
            if low > high { (0, u32::MAX, !outside) } else { (low, high, outside) };
        Check::Number { field, low, high, outside }
    };
    let (text, outside) = match text.strip_prefix('!') {
        Some(rest) => (rest.trim_start_matches('='), true),
        None => (text, false),
    };
    let text = text.trim();
    let check = if let Some((low, high)) = text.split_once("<=>") {
        range(value(low)?, value(high)?, outside)
    } else if let Some((low, high)) = text.split_once("<>") {
        let (low, high) = (value(low)?, value(high)?);
        range(low.saturating_add(1), high.checked_sub(1)?, outside)
    } else if let Some(rest) = text.strip_prefix("<=") {
        range(0, value(rest)?, outside)
    } else if let Some(rest) = text.strip_prefix(">=") {
        range(value(rest)?, u32::MAX, outside)
    } else if let Some(rest) = text.strip_prefix('<') {
        let below = value(rest)?;
        if below == 0 { range(1, 0, outside) } else { range(0, below - 1, outside) }
    } else if let Some(rest) = text.strip_prefix('>') {
        range(value(rest)?.checked_add(1)?, u32::MAX, outside)
    } else if let Some(rest) = text.strip_prefix('=') {
        let number = value(rest)?;
        range(number, number, outside)
    } else if let Some((low, high)) = text.split_once('-') {
        let low = if low.trim().is_empty() { 0 } else { value(low)? };
        let high = if high.trim().is_empty() { u32::MAX } else { value(high)? };
        range(low, high, outside)
    } else {
        let number = value(text)?;
        range(number, number, outside)
    };
    Some(check)
}

/// Reads `[+*!]FLAGS[,IGNORED]`.
pub(super) fn flags(
    source: &Source<'_>,
    span: Range<usize>,
    errors: &mut Diagnostics,
) -> Part<Check> {
    let text = source.text(&span);
    let bad = |errors: &mut Diagnostics| {
        let expected = "letters of F S R P A U C E 1 2, or 0; + * or ! with them";
        source.tell(errors, span.clone(), "cannot be read as TCP flags", expected, "")
    };
    let (set, ignored) = text.split_once(',').unwrap_or((&text, ""));
    let mut how = FlagsHow::Exactly;
    let mut letters = String::new();
    for letter in set.chars().filter(|c| !c.is_whitespace()) {
        match letter {
            '+' => how = FlagsHow::All,
            '*' => how = FlagsHow::Any,
            '!' => how = FlagsHow::Not,
            _ => letters.push(letter),
        }
    }
    let Some(flags) = flag_bits(&letters) else { return Err(bad(errors)) };
    if letters.is_empty() {
        return Err(bad(errors));
    }
    let Some(ignored) = flag_bits(ignored.trim()) else { return Err(bad(errors)) };
    Ok(Check::Flags { flags, mask: 0xff & !ignored, how })
}

fn flag_bits(letters: &str) -> Option<u16> {
    let mut bits = 0;
    for letter in letters.chars() {
        bits |= match letter.to_ascii_uppercase() {
            'F' => 0x01,
            'S' => 0x02,
            'R' => 0x04,
            'P' => 0x08,
            'A' => 0x10,
            'U' => 0x20,
            'E' | '2' => 0x40,
            'C' | '1' => 0x80,
            '0' => 0,
            _ => return None,
        };
    }
    Some(bits)
}

/// Words of `flow` that are read.
const FLOW_WORDS: [&str; 11] = [
    "established",
    "not_established",
    "stateless",
    "to_server",
    "to_client",
    "from_server",
    "from_client",
    "no_stream",
    "only_stream",
    "no_frag",
    "only_frag",
];

/// What the options `flow` of a rule say so far, each with the word that said it.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowWords {
    state: Option<(Option<bool>, String)>,
    direction: Option<(Direction, String)>,
    only: Option<(Only, String)>,
    rebuilt: Option<(bool, String)>,
}

impl FlowWords {
    /// Reads the words of one option. Two of which a packet can be one alone are an error: which of
    /// them was meant is not known.
    pub(super) fn read(
        &mut self,
        source: &Source<'_>,
        span: Range<usize>,
        errors: &mut Diagnostics,
    ) -> Part<()> {
        for word in source.split_commas(span) {
            let text = source.text(&word).to_ascii_lowercase();
            let other = match text.as_str() {
                "established" => set(&mut self.state, Some(true), &text),
                "not_established" => set(&mut self.state, Some(false), &text),
                "stateless" => set(&mut self.state, None, &text),
                "to_server" | "from_client" => set(&mut self.direction, Direction::ToServer, &text),
                "to_client" | "from_server" => set(&mut self.direction, Direction::ToClient, &text),
                "no_stream" => set(&mut self.only, Only::Packets, &text),
                "only_stream" => set(&mut self.only, Only::Streams, &text),
                "no_frag" => set(&mut self.rebuilt, false, &text),
                "only_frag" => set(&mut self.rebuilt, true, &text),
                _ => {
                    let (last, others) = FLOW_WORDS.split_last().unwrap_or((&"", &[]));
                    let expected = format!("{} or {last}", others.join(", "));
                    let meant = nearest(&text, FLOW_WORDS);
                    let help = meant.map_or(String::new(), |meant| format!("is {meant} meant?"));
                    return Err(source.tell(
                        errors,
                        word,
                        "no such word of flow",
                        &expected,
                        &help,
                    ));
                }
            };
            if let Some(other) = other {
                let message = format!("flow of {other} and of {text}, which exclude each other");
                return Err(source.tell(errors, word, &message, "one of them", ""));
            }
        }
        Ok(())
    }

    /// Whether the packet must have been put together from fragments, or must not.
    pub(super) fn rebuilt(&self) -> Option<Check> {
        self.rebuilt.as_ref().map(|rebuilt| Check::Rebuilt(rebuilt.0))
    }

    /// What they ask.
    pub(super) fn test(&self) -> FlowTest {
        FlowTest {
            established: self.state.as_ref().and_then(|state| state.0),
            direction: self.direction.as_ref().map(|direction| direction.0),
            only: self.only.as_ref().map(|only| only.0),
        }
    }
}

/// Takes what a word says; gives the one before that said another.
fn set<T: PartialEq>(place: &mut Option<(T, String)>, value: T, word: &str) -> Option<String> {
    match place {
        Some((said, other)) if *said != value => Some(other.clone()),
        _ => {
            *place = Some((value, word.to_owned()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        let check = |text: &str, inside: &[u32], outsiders: &[u32]| {
            let found = test(text, Field::Dsize, 65535).unwrap_or_else(|| panic!("{text}"));
            let Check::Number { low, high, outside, .. } = found else { panic!("{text}") };
            let holds = |value: u32| (low..=high).contains(&value) != outside;
            assert!(inside.iter().all(|&value| holds(value)), "{text}");
            assert!(!outsiders.iter().any(|&value| holds(value)), "{text}");
        };
        check("5", &[5], &[4, 6]);
        check("!5", &[4, 6], &[5]);
        check("!=5", &[4, 6], &[5]);
        check("<5", &[0, 4], &[5]);
        check("<0", &[], &[0, 1, 65535]);
        check(">5", &[6, 99999], &[5]);
        check("<=5", &[5], &[6]);
        check(">=5", &[5], &[4]);
        check("5<>8", &[6, 7], &[5, 8]);
        check("5<>6", &[], &[4, 5, 6, 7]);
        check("5<=>8", &[5, 8], &[4, 9]);
        check("5-8", &[5, 8], &[4, 9]);
        check("5-", &[5, 9], &[4]);
        for bad in ["", "x", "5<>", "65536", "-5-", "<", "5<>x"] {
            assert!(test(bad, Field::Dsize, 65535).is_none(), "{bad}");
        }
        assert_eq!(test("udp", Field::IpProto, 255), test("17", Field::IpProto, 255));
    }

    #[test]
    fn recognizes_forms_of_suricata() {
        let form = |text: &str| other_form(text, Field::Dsize, 65535);
        for text in ["0x10", ">1kb", "0x5<>0x10", "!0x5", "1-0x20", "2mib<>3"] {
            let is_small = !text.contains("mib");
            let expected = is_small.then_some("hexadecimal number or unit");
            assert_eq!(form(text), expected, "{text}");
        }
        assert_eq!(form("\"300\""), Some("quoted number"));
        assert_eq!(form("&0xc0=0x80"), Some("bitmask"));
        assert_eq!(form("!&3!=1"), Some("bitmask"));
        assert_eq!(other_form("!egp", Field::IpProto, 255), Some("protocol name"));
        for wrong in ["", "x", "0x", "0xg", "5xb", "\"x\"", "&=1", "&1=", "70000", "egp", "<>", "é"]
        {
            assert_eq!(form(wrong), None, "{wrong}");
        }
    }
}
