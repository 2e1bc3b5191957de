//! Header options of a rule that no packet can have together.

use crate::ranges::Ranges;
use crate::rule::{Check, Field, FlagsHow};

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

/// Why no packet passes all of `checks`: the options that leave no number, each in words.
pub(super) fn contradictions(checks: &[Check]) -> impl Iterator<Item = String> {
    let has_no_number =
        |&&(field, _, max): &&(Field, &str, u32)| numbers(checks, field, max).is_none();
    let named = FIELDS.iter().filter(has_no_number).map(|&(_, name, _)| name);
    let flags = (!has_flags(checks)).then_some("flags");
    named.chain(flags).map(|name| format!("{name} that no packet has"))
}

/// The numbers that a field may have.
fn numbers(checks: &[Check], wanted: Field, max: u32) -> Ranges<u128> {
    let mut numbers = Ranges::range(0, u128::from(max));
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
            Check::Number { .. } | Check::SameIp => true,
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
    }
}
