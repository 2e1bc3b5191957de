//! What is found fast is what the reference finds.

use proptest::prelude::*;

use super::frames::{End, udp};
use super::{alerts, inspector, rules};
use crate::confirm::{ChainScratch, Plan, Text, Work};
use crate::inspect::InspectorOptions;
use crate::naive;

/// A content of few letters, so that it occurs often.
fn literal() -> impl Strategy<Value = (String, usize)> {
    prop::collection::vec(prop_oneof![Just("a"), Just("A"), Just("b"), Just("|00|")], 1..4)
        .prop_map(|parts| (parts.concat(), parts.len()))
}

/// One payload option with its modifiers.
pub fn step() -> impl Strategy<Value = String> {
    let content = (literal(), any::<(bool, bool)>(), 0..7u8, (0..6i32, 0..6u32)).prop_map(
        |((text, len), (nocase, negated), place, (from, more))| {
            let wide = len as u32 + more;
            let place = match place {
                0 => String::new(),
                1 => format!(" offset:{from};"),
                2 => format!(" depth:{wide};"),
                3 => format!(" offset:{from}; depth:{wide};"),
                4 => format!(" distance:{};", from - 2),
                5 => format!(" distance:{}; within:{wide};", from - 2),
                _ => " endswith;".into(),
            };
            let not = if negated { "!" } else { "" };
            let nocase = if nocase { " nocase;" } else { "" };
            format!("content:{not}\"{text}\";{nocase}{place}")
        },
    );
    let data = (any::<(bool, bool)>(), 0..6u32).prop_map(|((relative, negated), bytes)| {
        let (not, relative) =
            (if negated { "!" } else { "" }, if relative { ",relative" } else { "" });
        format!("isdataat:{not}{bytes}{relative};")
    });
    let regex = (
        prop::sample::select(vec!["a+b", "^a", "b.?a", "(?:ab|\\x00)", "a$", "^b$", "\\bA"]),
        prop::sample::select(vec!["", "R", "i", "m", "Ri", "s"]),
        any::<bool>(),
    )
        .prop_map(|(text, flags, negated)| {
            format!("pcre:{}\"/{text}/{flags}\";", if negated { "!" } else { "" })
        });
    prop_oneof![6 => content, 1 => data, 1 => regex]
}

pub fn bytes(len: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![b'a', b'A', b'b', 0, b'\n', b'x']), 0..len)
}

pub fn rule_text(proto: &str, sid: usize, steps: &[String]) -> String {
    format!("alert {proto} any any -> any any ({} sid:{sid};)\n", steps.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn chains_hold_where_trying_everything_says_so(
        steps in prop::collection::vec(step(), 1..6),
        payload in bytes(16),
        from in 0usize..16,
        is_start in any::<bool>(),
    ) {
        let rules = rules(&rule_text("udp", 1, &steps));
        let rule = &rules.rules[0];
        let folded = payload.to_ascii_lowercase();
        let from = from.min(payload.len());
        let text = Text { bytes: &payload, folded: &folded, from, is_start };
        let mut work = Work { left: u64::MAX };
        let found = Plan::new(rule).confirm(&text, &mut ChainScratch::default(), &mut work);
        prop_assert_eq!(found, naive::answer(rule, &text), "{:?} in {:?}", steps, payload);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_finds_what_every_rule_by_itself_does(
        bodies in prop::collection::vec(prop::collection::vec(step(), 0..4), 1..12),
        payloads in prop::collection::vec(bytes(24), 1..6),
        cut in 0usize..6,
    ) {
        let text: String =
            bodies.iter().enumerate().map(|(i, steps)| rule_text("udp", i + 1, steps)).collect();
        let ends = (End("10.0.0.1", 5000), End("10.0.0.2", 53));
        let frames: Vec<Vec<u8>> = payloads.iter().map(|p| udp(ends.0, ends.1, p)).collect();
        let mut one = inspector(&text, InspectorOptions::default());
        let found = alerts(&mut one, &frames);
        let rules = rules(&text);
        let mut expected = Vec::new();
        for (number, payload) in payloads.iter().enumerate() {
            for (rule, of_rule) in rules.rules.iter().enumerate() {
                if naive::holds(of_rule, payload) {
                    expected.push((number as u64 + 1, rule as u32));
                }
            }
        }
        let found: Vec<(u64, u32)> = found.iter().map(|a| (a.number, a.rule)).collect();
        prop_assert_eq!(&found, &expected);
        // However packets are cut into batches.
        let mut other = inspector(&text, InspectorOptions::default());
        let (head, tail) = frames.split_at(cut.min(frames.len()));
        let mut again = Vec::new();
        other.inspect(super::packets(head), &mut again);
        other.inspect(super::packets(tail), &mut again);
        other.finish(&mut again);
        let again: Vec<(u64, u32)> = again.iter().map(|a| (a.number, a.rule)).collect();
        prop_assert_eq!(again, expected);
        prop_assert_eq!(other.stats().candidates, one.stats().candidates);
    }
}
