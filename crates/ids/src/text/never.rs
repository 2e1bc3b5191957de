//! Options of a rule that no packet, or no buffer, can have together.

use std::ops::RangeInclusive;

use crate::http::Buffer;
use crate::ranges::{Ranges, Set};
use crate::rule::{Check, Field, FlagsHow, InBuffer, Proto, Step};

/// Fields of headers, by their option, and the largest number that each can hold. Payloads have no
/// such bound: a host may capture what its card puts together.
const FIELDS: [(Field, &str, u32); 12] = [
    (Field::Dsize, "dsize", u32::MAX),
    (Field::Ttl, "ttl", 255),
    (Field::Tos, "tos", 255),
    (Field::Id, "id", 65535),
    (Field::IpProto, "ip_proto", 255),
    (Field::Itype, "itype", 255),
    (Field::Icode, "icode", 255),
    (Field::IcmpId, "icmp_id", 65535),
    (Field::IcmpSeq, "icmp_seq", 65535),
    (Field::Seq, "seq", u32::MAX),
    (Field::Ack, "ack", u32::MAX),
    (Field::Window, "window", 65535),
];

/// Why no packet passes all of `checks`: the options that leave no number, each in words. `steps`
/// are looked for in the payload of that packet: where a rule has such checks, never in streams.
pub(super) fn contradictions(checks: &[Check], steps: &[Step]) -> impl Iterator<Item = String> {
    let least = longest_content(steps) as u32;
    let has_no_number = move |&&(field, _, max): &&(Field, &str, u32)| {
        let low = if field == Field::Dsize { least } else { 0 };
        let is_asked = checks.iter().any(|check| is_about(check, field));
        is_asked && numbers(checks, field, low..=max).is_none()
    };
    let named = FIELDS.iter().filter(has_no_number).map(|&(_, name, _)| name);
    let flags = (!has_flags(checks)).then_some("flags");
    named.chain(flags).map(|name| format!("{name} that no packet has"))
}

/// Why no packet of the protocol passes all of `checks`, apart from what they say themselves:
/// options about headers of another one, each in words.
pub(super) fn of_other_protocol(proto: Proto, checks: &[Check]) -> Vec<String> {
    let (name, numbers_of): (&str, &[u32]) = match proto {
        Proto::Ip => return Vec::new(),
        Proto::Tcp => ("TCP", &[6]),
        Proto::Udp => ("UDP", &[17]),
        Proto::Icmp => ("ICMP", &[1, 58]),
    };
    let is_foreign = |field: Field| match field {
        Field::Dsize | Field::Ttl | Field::Tos | Field::Id => false,
        Field::IpProto => {
            let one = |&number: &u32| numbers(checks, field, number..=number).is_none();
            numbers_of.iter().all(one)
        }
        Field::Itype | Field::Icode | Field::IcmpId | Field::IcmpSeq => proto != Proto::Icmp,
        Field::Seq | Field::Ack | Field::Window => proto != Proto::Tcp,
    };
    let is_asked = |field| checks.iter().any(|check| is_about(check, field));
    let named = FIELDS.iter().filter(|(field, ..)| is_asked(*field) && is_foreign(*field));
    let has_flags = checks.iter().any(|check| matches!(check, Check::Flags { .. }));
    let flags = (has_flags && proto != Proto::Tcp).then_some("flags");
    let named = named.map(|&(_, option, _)| option).chain(flags);
    named.map(|option| format!("{option} that no packet of {name} has")).collect()
}

/// Whether a check is about a number of the headers.
fn is_about(check: &Check, wanted: Field) -> bool {
    matches!(*check, Check::Number { field, .. } if field == wanted)
}

/// The most bytes that one content must find.
fn longest_content(steps: &[Step]) -> usize {
    let bytes = steps.iter().filter_map(|step| match step {
        Step::Content(content) if !content.negated => Some(content.bytes.len()),
        _ => None,
    });
    bytes.max().unwrap_or(0)
}

/// Whether a buffer can be so long as is asked for: at least one byte, without which it is not
/// there, and at least as many as each content has.
pub(super) fn has_length(of: &InBuffer) -> bool {
    let least = longest_content(&of.steps).max(1) as u128;
    let mut lengths = Ranges::range(least, u128::from(u32::MAX));
    for size in &of.sizes {
        let range = Ranges::range(size.low.into(), size.high.into());
        let refused = if size.outside { range } else { range.complement() };
        lengths = lengths.without(&refused);
    }
    !lengths.is_none()
}

/// What a content of the host says in capital letters, which that buffer never has.
pub(super) fn capitals_in_host(of: &InBuffer) -> Option<String> {
    let has_capitals = |bytes: &[u8]| bytes.iter().any(u8::is_ascii_uppercase);
    let mut contents = of.steps.iter().filter_map(|step| match step {
        Step::Content(content) if !content.nocase => Some(&content.bytes),
        _ => None,
    });
    let bytes = contents.find(|bytes| of.buffer == Buffer::Host && has_capitals(bytes))?;
    let shown = bytes.iter().take(SHOWN_BYTES_MAX).map(|&byte| match byte {
        b' '..=b'~' => byte as char,
        _ => '.',
    });
    Some(shown.collect())
}

/// The most bytes that are shown of a content.
const SHOWN_BYTES_MAX: usize = 64;

/// The numbers that a field may have, of those that there are.
fn numbers(checks: &[Check], wanted: Field, all: RangeInclusive<u32>) -> Ranges<u128> {
    let mut numbers = Ranges::range((*all.start()).into(), (*all.end()).into());
    for check in checks {
        if let Check::Number { field, low, high, outside } = *check
            && field == wanted
        {
            let range = Ranges::range(low.into(), high.into());
            let refused = if outside { range } else { range.complement() };
            numbers = numbers.without(&refused);
        }
    }
    numbers
}

/// Whether there are TCP flags that all checks of them pass.
fn has_flags(checks: &[Check]) -> bool {
    let passes = |found: u16| {
        checks.iter().all(|check| match *check {
            Check::Flags { flags, mask, how } => {
                let (found, flags) = (found & mask, flags & mask);
                match how {
                    FlagsHow::Exactly => found == flags,
                    FlagsHow::All => found & flags == flags,
                    FlagsHow::Any => found & flags != 0,
                    FlagsHow::Not => found & flags == 0,
                }
            }
            Check::Number { .. } | Check::SameIp | Check::Rebuilt(_) => true,
        })
    };
    let has_any = checks.iter().any(|check| matches!(check, Check::Flags { .. }));
    !has_any || (0..=0xff).any(passes)
}

#[cfg(test)]
mod tests {
    use crate::text::{RuleText, Variables, read_rules};

    #[test]
    fn what_no_packet_has_is_left_out() {
        let check = |options: &str, expected: &[&str]| {
            let text = format!("alert tcp any any -> any any ({options}; sid:1;)");
            let text = [RuleText { name: "r", bytes: text.as_bytes() }];
            let rules = read_rules(&text, &Variables::default()).unwrap();
            let found: Vec<&str> = rules
                .left_out
                .iter()
                .flat_map(|rule| rule.keywords.iter().map(String::as_str))
                .collect();
            assert_eq!(found, expected, "{options}");
            assert_eq!(rules.rules.is_empty(), !expected.is_empty(), "{options}");
            let remarks = rules.remarks.iter().map(|remark| rules.remark(remark));
            let told = expected.iter().map(|what| format!("sid 1: {what}: the rule is left out"));
            assert_eq!(remarks.collect::<Vec<_>>(), told.collect::<Vec<_>>(), "{options}");
        };
        let (dsize, ttl) = ("dsize that no packet has", "ttl that no packet has");
        check("dsize:5<>3", &[dsize]);
        check("dsize:5<>6", &[dsize]);
        check("dsize:5<>7", &[]);
        check("dsize:<0", &[dsize]);
        check("dsize:>65535", &[]);
        check("ttl:10<>10", &[ttl]);
        check("ttl:>255", &[ttl]);
        check("ttl:!10<>10", &[]);
        check("ttl:>5; ttl:<5", &[ttl]);
        check("ttl:>5; ttl:<7", &[]);
        check("ttl:6; ttl:!6; dsize:9-3", &[dsize, ttl]);
        check("seq:0; ack:!0-4294967295", &["ack that no packet has"]);
        check("flags:S; flags:A", &["flags that no packet has"]);
        check("flags:+SA; flags:!A", &["flags that no packet has"]);
        check("flags:*0", &["flags that no packet has"]);
        check("flags:+S; flags:!A", &[]);
        check("flags:S,12; flags:S,12", &[]);
        // A packet's payload is as long as each content at least.
        check("dsize:3; content:\"abcd\"", &[dsize]);
        check("content:\"a\"; content:\"abcd\"; dsize:<4", &[dsize]);
        check("dsize:4; content:\"abcd\"", &[]);
        check("dsize:3; content:!\"abcd\"", &[]);
        check("dsize:!3; content:\"abcd\"", &[]);
        check("dsize:0; pcre:\"/abcd/\"", &[]);
        let bsize = "bsize that no buffer has";
        check("http.uri; bsize:5<>5", &[bsize]);
        check("http.uri; bsize:5<>7", &[]);
        check("http.uri; bsize:0", &[bsize]);
        check("http.uri; bsize:>5; bsize:<5", &[bsize]);
        check("http.uri; bsize:3; content:\"abcd\"", &[bsize]);
        check("http.uri; bsize:4; content:\"abcd\"", &[]);
        check("http.uri; bsize:3; content:!\"abcd\"", &[]);
        check("http.uri; bsize:3; http.header; content:\"abcd\"", &[]);
        check("urilen:<1", &["urilen that no buffer has"]);
        check("urilen:5<>9; urilen:7", &[]);
    }

    #[test]
    fn what_no_packet_of_the_protocol_has_is_left_out() {
        let check = |proto: &str, options: &str, expected: &[&str]| {
            let text = format!("alert {proto} any any -> any any ({options}; sid:1;)");
            let text = [RuleText { name: "r", bytes: text.as_bytes() }];
            let rules = read_rules(&text, &Variables::default()).unwrap();
            let found = rules.left_out.iter().flat_map(|rule| rule.keywords.clone());
            assert_eq!(found.collect::<Vec<_>>(), expected, "{proto} {options}");
            let remarks = rules.remarks.iter().map(|remark| rules.remark(remark));
            let told = expected.iter().map(|what| format!("sid 1: {what}: the rule is left out"));
            assert_eq!(remarks.collect::<Vec<_>>(), told.collect::<Vec<_>>(), "{proto} {options}");
        };
        check("udp", "flags:S", &["flags that no packet of UDP has"]);
        check("udp", "flags:!S", &["flags that no packet of UDP has"]);
        check("tcp", "itype:8", &["itype that no packet of TCP has"]);
        check("http", "icode:!8", &["icode that no packet of TCP has"]);
        check("icmp", "seq:1; ttl:5", &["seq that no packet of ICMP has"]);
        check("icmp", "itype:8; icode:0; icmp_id:1; icmp_seq:1", &[]);
        check("tcp", "flags:S; seq:1; ack:1; window:1; ttl:1; tos:1; id:1", &[]);
        check("ip", "flags:S; itype:8; ip_proto:3", &[]);
        let of = |proto: &str| format!("ip_proto that no packet of {proto} has");
        check("tcp", "ip_proto:17", &[&of("TCP")]);
        check("tcp", "ip_proto:!17", &[]);
        check("udp", "ip_proto:udp", &[]);
        check("udp", "ip_proto:!17", &[&of("UDP")]);
        check("icmp", "ip_proto:58", &[]);
        check("icmp", "ip_proto:>58", &[&of("ICMP")]);
        // It is said once.
        check("udp", "ip_proto:5<>6", &["ip_proto that no packet has"]);
    }

    /// What can be, and was hardly meant.
    #[test]
    fn what_was_hardly_meant_is_remarked() {
        let check = |options: &str, expected: &[&str]| {
            let text = format!("alert tcp any any -> any any ({options}; sid:1;)");
            let text = [RuleText { name: "r", bytes: text.as_bytes() }];
            let rules = read_rules(&text, &Variables::default()).unwrap();
            let remarks: Vec<String> =
                rules.remarks.iter().map(|remark| rules.remark(remark)).collect();
            assert_eq!(remarks, expected, "{options}");
            assert_eq!(rules.rules.len(), 1, "{options}");
        };
        let twice = "sid 1: a content of http_uri and of http_header: the last one counts";
        check("content:\"a\"; http_uri; http_header", &[twice]);
        check("content:\"a\"; http_uri; nocase; isdataat:3; http_header", &[twice]);
        check("content:\"a\"; http_uri; http_uri", &[]);
        check("content:\"a\"; http_cookie; http_raw_cookie", &[]);
        check("content:\"a\"; http_uri; content:\"b\"; http_header", &[]);
        // In Snort 3 they are about what follows them, whatever stands before.
        check(
            "http_method; content:\"a\"; http_raw_uri; bufferlen:2; http_uri; content:\"b\"",
            &[],
        );
        check("content:\"a\",nocase; http_uri; bufferlen:2; http_header; content:\"b\"", &[]);
        check(
            "content:\"a\"; http_uri; bufferlen:2; http_header; content:\"b\"; service:http",
            &[],
        );
        let host = "sid 1: the host is in small letters, and the content \"Ex.org|\" is not: write \
                    it so, say nocase, or use http.host.raw";
        check("http.host; content:\"Ex.org|7c|\"", &[host]);
        check("content:\"Ex.org|7c|\"; http_host", &[host]);
        check("http.host; content:\"Ex.org\"; nocase", &[]);
        check("http.host; content:\"ex.org\"", &[]);
        check("http.host.raw; content:\"Ex.org\"", &[]);
    }
}
