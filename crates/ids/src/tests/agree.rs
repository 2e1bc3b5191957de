//! What is found fast is what the reference finds.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::frames::{End, udp};
use super::{alerts, inspect_ahead, inspector, rules};
use crate::confirm::{Answer, ChainScratch, Plan, Text, Work};
use crate::inspect::InspectorOptions;
use crate::naive;
use crate::rule::Rule;

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

/// Where a number is read, and how; of as many bytes as its form may have.
fn read() -> impl Strategy<Value = (u8, i32, String)> {
    let form = prop::sample::select(vec![
        (1..3u8, ""),
        (1..4, ",little"),
        (2..3, ",big,bitmask 0x1e"),
        (1..4, ",string,dec"),
        (1..3, ",string,hex,bitmask 0xfffffff8"),
        (1..3, ",string,oct"),
    ]);
    (form, any::<bool>(), -2..5i32).prop_flat_map(|((bytes, form), relative, offset)| {
        let relative = if relative { ",relative" } else { "" };
        (bytes, Just(offset), Just(format!("{form}{relative}")))
    })
}

/// One option that reads a number, sets a variable or asks for one.
pub fn number() -> impl Strategy<Value = String> {
    let name = || prop::sample::select(vec!["v", "w"]);
    let test =
        (read(), prop::sample::select(vec!["<", ">", "=", "!=", "&", "!&", "^", ">=", "!<="]))
            .prop_map(|((bytes, offset, how), op)| {
                format!("byte_test:{bytes},{op},3,{offset}{how};")
            });
    let jump = (
        read(),
        prop::sample::select(vec![
            "",
            ",align",
            ",multiplier 2",
            ",from_beginning",
            ",from_end,post_offset -4",
            ",post_offset -1",
            ",post_offset v",
        ]),
    )
        .prop_map(|((bytes, offset, how), more)| format!("byte_jump:{bytes},{offset}{how}{more};"));
    let extract = (read(), name(), prop::sample::select(vec!["", ",multiplier 3", ",align 2"]))
        .prop_map(|((bytes, offset, how), name, more)| {
            format!("byte_extract:{bytes},{offset},{name}{how}{more};")
        });
    let math = (
        read(),
        name(),
        prop::sample::select(vec!["+", "-", "*", "/", "<<", ">>"]),
        prop::sample::select(vec!["1", "3", "v"]),
    )
        .prop_map(|((bytes, offset, how), name, op, value)| {
            format!(
                "byte_math:bytes {bytes}, offset {offset}, oper {op}, rvalue {value}, \
                 result {name}{how};"
            )
        });
    let asking = (literal(), name(), name(), 0..8u8, any::<bool>()).prop_map(
        |((text, _), one, two, what, negated)| {
            let not = if negated { "!" } else { "" };
            match what {
                0 => format!("content:{not}\"{text}\"; distance:{one};"),
                1 => format!("content:{not}\"{text}\"; within:{one};"),
                2 => format!("content:{not}\"{text}\"; distance:{one}; within:{two};"),
                3 => format!("content:{not}\"{text}\"; offset:{one};"),
                4 => format!("content:{not}\"{text}\"; offset:{one}; depth:{two};"),
                5 => format!("isdataat:{not}{one},relative;"),
                6 => format!("isdataat:{not}{one};"),
                _ => format!("byte_test:1,<,{one},{two},relative;"),
            }
        },
    );
    prop_oneof![2 => test, 2 => jump, 3 => extract, 2 => math, 5 => asking]
}

/// Bytes of few letters and digits.
pub fn numbers(len: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(vec![b'a', b'A', b'b', 0, 1, 2, 3, b'1', b'3', b' ', b'-']);
    prop::collection::vec(byte, 0..len)
}

/// Options whose occurrences are many, with other values behind each: chains that must be tried in
/// more than one way.
pub fn ways() -> impl Strategy<Value = Vec<String>> {
    let one = prop::sample::select(vec![
        "content:\"a\"; distance:v; within:2;",
        "content:\"a\"; distance:v;",
        "content:\"a\"; distance:0;",
        "content:\"|01|\"; within:v;",
        "content:!\"b\"; within:v;",
        "content:\"a\"; offset:w; depth:3;",
        "content:\"a\";",
        "byte_extract:1,0,w,relative;",
        "byte_extract:1,0,v,relative,multiplier 2;",
        "byte_math:bytes 1, offset 0, oper +, rvalue v, result w, relative;",
        "byte_jump:1,0,relative;",
        "byte_jump:1,0,relative,from_beginning;",
        "byte_test:1,=,v,0,relative;",
        "byte_test:1,>,1,w,relative;",
        "isdataat:v,relative;",
        "isdataat:!w,relative;",
        "pcre:\"/[ab]|\\x02a/R\";",
    ]);
    let first = ["content:\"a\";", "byte_extract:1,0,v,relative;", "byte_extract:1,1,w;"];
    prop::collection::vec(one, 1..6)
        .prop_map(move |rest| first.iter().copied().chain(rest).map(str::to_owned).collect())
}

/// Many places where the options of [`ways`] may be.
fn places() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop::sample::select(b"aaab\0\x01\x02\x03".to_vec());
    prop::collection::vec(byte, 4..16)
}

/// Holds what confirms a rule fast against the reference; nothing to hold where the rule asks for
/// what no option before has set.
fn check(steps: &[String], payload: &[u8], from: usize, is_start: bool) -> TestCaseResult {
    let rules = rules(&rule_text("udp", 1, steps));
    let Some(rule) = rules.rules.first() else { return Ok(()) };
    let folded = payload.to_ascii_lowercase();
    let from = from.min(payload.len());
    let text = Text { bytes: payload, folded: &folded, from, is_start };
    for is_noted in [false, true] {
        let found = confirmed(rule, &text, is_noted);
        prop_assert_eq!(found, naive::answer(rule, &text), "{:?} in {:?}", steps, payload);
    }
    Ok(())
}

/// What confirmation says of a rule; whether others looked for single bytes before.
fn confirmed(rule: &Rule, text: &Text<'_>, is_noted: bool) -> Answer {
    let mut work = Work::default();
    work.begin(u64::MAX);
    if is_noted {
        work.note(text);
    }
    Plan::new(&rule.steps).confirm(text, &mut ChainScratch::default(), &mut work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, ..ProptestConfig::default() })]

    #[test]
    fn numbers_and_variables_hold_where_trying_everything_says_so(
        steps in prop::collection::vec(prop_oneof![2 => number(), 1 => step()], 1..6),
        payload in numbers(16),
        from in 0usize..16,
        is_start in any::<bool>(),
    ) {
        check(&steps, &payload, from, is_start)?;
        // Both variables have values, so that all rules may ask for them.
        let first = "byte_extract:1,0,v; byte_extract:1,1,w;".to_owned();
        check(&[vec![first], steps].concat(), &payload, from, is_start)?;
    }

    #[test]
    fn numbers_at_many_places_hold_where_trying_everything_says_so(
        steps in ways(),
        payload in places(),
        from in 0usize..16,
    ) {
        check(&steps, &payload, from, true)?;
        // Without variables: chains from the last option to the first.
        let plain: Vec<String> = steps
            .iter()
            .filter(|step| !step.contains("_extract") && !step.contains("_math"))
            .map(|step| step.replace(":v", ":1").replace(":w", ":1").replace(",v", ",1"))
            .map(|step| step.replace(",w", ",1").replace(":!w", ":!2"))
            .collect();
        check(&plain, &payload, from, true)?;
    }
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
        for is_noted in [false, true] {
            let found = confirmed(rule, &text, is_noted);
            prop_assert_eq!(found, naive::answer(rule, &text), "{:?} in {:?}", steps, payload);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_finds_what_every_rule_by_itself_does(
        bodies in prop::collection::vec(prop::collection::vec(step(), 0..4), 1..12),
        payloads in prop::collection::vec(bytes(24), 1..6),
        cut in 0usize..6,
        ahead in any::<u32>(),
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
        // However packets are cut into batches, and whatever was searched ahead.
        let mut other = inspector(&text, InspectorOptions::default());
        let (head, tail) = frames.split_at(cut.min(frames.len()));
        let mut again = Vec::new();
        other.inspect(super::packets(head), &mut again);
        inspect_ahead(&mut other, tail, ahead, &mut again);
        other.finish(&mut again);
        let again: Vec<(u64, u32)> = again.iter().map(|a| (a.number, a.rule)).collect();
        prop_assert_eq!(again, expected);
        prop_assert_eq!(other.stats().candidates, one.stats().candidates);
    }
}
