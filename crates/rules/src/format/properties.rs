//! Properties of all formats: what was written reads back equal, and no bytes make a reader panic.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::key::KeyBuf;
use crate::matching::{Match, PortRange, port_side};
use crate::rule::{Action, FlagsColumn, Rule};
use crate::ruleset::RulesetBuilder;
use crate::schema::{Field, FieldSpec, SCHEMAS};

/// A demand on one field: bits, or a range of ports.
#[derive(Clone, Debug)]
enum FieldDemand {
    Mask(u128, u128),
    Range(u16, u16),
}

fn demand(spec: &'static FieldSpec) -> BoxedStrategy<FieldDemand> {
    let max = spec.value_max();
    let bits = spec.bits;
    let masks = prop_oneof![
        any::<u128>(),
        (0..=bits).prop_map(move |len| value::prefix_mask(bits, len)),
        Just(u128::MAX),
    ];
    let mask = (any::<u128>(), masks).prop_map(move |(v, m)| FieldDemand::Mask(v & max, m & max));
    if port_side(spec.field).is_none() {
        return mask.boxed();
    }
    let range =
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| FieldDemand::Range(a.min(b), a.max(b)));
    prop_oneof![mask, range].boxed()
}

fn any_match(schema: &'static Schema) -> impl Strategy<Value = Match> {
    let fields: Vec<_> =
        schema.fields.iter().map(|spec| proptest::option::of(demand(spec))).collect();
    fields.prop_map(move |demands| {
        let mut matching = Match::any(schema);
        for (spec, demand) in schema.fields.iter().zip(demands) {
            match demand {
                None => {}
                Some(FieldDemand::Mask(v, m)) => _ = matching.set_mask(spec.field, v, m),
                Some(FieldDemand::Range(lo, hi)) => _ = matching.set_range(spec.field, lo, hi),
            }
        }
        matching
    })
}

/// A list of actions in the spelling of flow text.
const LIST: &str = "set_field:10.0.0.1->ip_dst,output:2";

fn any_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Pass),
        Just(Action::Drop),
        any::<u32>().prop_map(Action::Mark),
        any::<u32>().prop_map(Action::Output),
        any::<String>().prop_map(|text| Action::List(text.into())),
        "[\"\\\\\n\r> -]*".prop_map(|text| Action::List(text.into())),
        Just(Action::List(LIST.into())),
    ]
}

fn any_rule(schema: &'static Schema) -> impl Strategy<Value = Rule> {
    let column = (any::<u16>(), any::<u16>()).prop_map(|(value, mask)| FlagsColumn { value, mask });
    let parts = (any_match(schema), any::<u32>(), any_action(), proptest::option::of(column));
    parts.prop_map(|(matching, priority, action, flags_column)| Rule {
        priority,
        flags_column,
        ..Rule::new(matching, action)
    })
}

fn any_set() -> impl Strategy<Value = Ruleset> {
    proptest::sample::select(&SCHEMAS[..]).prop_flat_map(|schema| {
        vec(any_rule(schema), 0..8).prop_map(move |rules| {
            let mut builder = RulesetBuilder::new(schema);
            rules.into_iter().for_each(|rule| _ = builder.push(rule));
            builder.build()
        })
    })
}

fn written(ruleset: &Ruleset, format: RulesFormat) -> Option<String> {
    let mut out = Vec::new();
    match write_rules(ruleset, format, &mut out) {
        Ok(()) => Some(String::from_utf8(out).expect("writers write text")),
        Err(error) => {
            assert!(out.is_empty(), "half-written: {error}");
            None
        }
    }
}

fn options(format: RulesFormat, schema: &'static Schema) -> ReadOptions {
    ReadOptions { format: Some(format), schema: Some(schema), tcp_flags: true }
}

fn assert_same_demands(left: &Ruleset, right: &Ruleset, text: &str) {
    assert_eq!(left.len(), right.len(), "{text}");
    for id in left.ids() {
        assert_eq!(left.matching(id), right.matching(id), "rule {id} of\n{text}");
    }
}

/// Rules made into filters: with TCP flags and no column, or with a column and no flags.
fn as_filters(ruleset: &Ruleset, tcp_flags: bool) -> Ruleset {
    let schema = ruleset.schema();
    let mut filters = RulesetBuilder::new(schema);
    for id in ruleset.ids() {
        let mut rule = ruleset.to_rule(id);
        rule.priority = 0;
        let is_ipv6 = schema.field(Field::Ipv4Src).is_none() || id.0 % 2 == 1;
        let is_ipv6 = is_ipv6 && schema.field(Field::Ipv6Src).is_some();
        for spec in schema.fields {
            let (value, mask) = (spec.read(rule.matching.as_ref().value), rule.matching);
            let len = spec.read(mask.as_ref().mask).count_ones() as usize;
            match spec.field {
                Field::Ipv6Src | Field::Ipv6Dst if !is_ipv6 => {
                    rule.matching.set_mask(spec.field, 0, 0);
                }
                Field::Ipv6Src | Field::Ipv6Dst => {
                    rule.matching.set_prefix(spec.field, value, len);
                }
                Field::Ipv4Src | Field::Ipv4Dst if is_ipv6 => {}
                Field::Ipv4Src | Field::Ipv4Dst => {
                    rule.matching.set_prefix(spec.field, value, len);
                }
                Field::L4Src | Field::L4Dst => {
                    rule.matching.set_range(spec.field, value as u16 / 2, value as u16);
                }
                Field::EthType => {
                    let eth_type = if is_ipv6 { 0x86dd } else { 0x0800 };
                    rule.matching.set_exact(Field::EthType, eth_type);
                }
                Field::IpProto => _ = rule.matching.set_exact(Field::IpProto, 6),
                Field::TcpFlags if tcp_flags => rule.flags_column = None,
                _ => _ = rule.matching.set_mask(spec.field, 0, 0),
            }
        }
        filters.push(rule);
    }
    filters.build()
}

/// Keeps the first rule alone, made as likely as possible to be flow text.
fn as_flow(mut rule: Rule, schema: &'static Schema) -> Ruleset {
    rule.priority %= 65536;
    if schema.field(Field::InPort).is_some() {
        rule.matching.set_mask(Field::InPort, 3, u128::from(rule.priority % 2) * u128::MAX);
        let eth_type = [0x0800, 0x86dd, 0x0806, 0x88cc][rule.priority as usize % 4];
        rule.matching.set_exact(Field::EthType, eth_type);
        if !rule.priority.is_multiple_of(3) {
            rule.matching.set_mask(Field::IpTos, 0x41, 0xff);
        } else {
            rule.matching.set_mask(Field::IpTos, 0, 0);
        }
    }
    if !rule.priority.is_multiple_of(5) {
        rule.matching.set_exact(Field::IpProto, [6, 17, 132][rule.priority as usize % 3]);
    }
    if !rule.priority.is_multiple_of(3) {
        rule.matching.set_mask(Field::TcpFlags, 0, 0);
    }
    let mut builder = RulesetBuilder::new(schema);
    builder.push(rule);
    builder.build()
}

fn config() -> ProptestConfig {
    // Failures are shrunk and printed whole; no file beside the sources keeps them.
    ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn canonical_text_keeps_everything(ruleset in any_set()) {
        let text = written(&ruleset, RulesFormat::Canonical).expect("it expresses every set");
        let back = read_rules("f", &text, &ReadOptions::default());
        let back = back.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(back.schema(), ruleset.schema());
        assert_same_demands(&ruleset, &back, &text);
        for id in ruleset.ids() {
            assert_eq!(ruleset.priority(id), back.priority(id));
            assert_eq!(ruleset.action(id), back.action(id));
            assert_eq!(ruleset.flags_column(id), back.flags_column(id));
        }
        assert_eq!(written(&back, RulesFormat::Canonical).as_deref(), Some(&*text));
    }

    #[test]
    fn classbench_text_keeps_filters(ruleset in any_set(), tcp_flags in any::<bool>()) {
        let filters = as_filters(&ruleset, tcp_flags);
        let text = written(&filters, RulesFormat::ClassBench).expect("filters");
        let read = options(RulesFormat::ClassBench, ruleset.schema());
        let back = read_rules("f", &text, &ReadOptions { tcp_flags, ..read });
        let back = back.unwrap_or_else(|e| panic!("{e}"));
        assert_same_demands(&filters, &back, &text);
        for id in filters.ids().filter(|_| !tcp_flags) {
            assert_eq!(filters.flags_column(id), back.flags_column(id));
        }
        // What is no filter is refused whole or written whole.
        let _ = written(&ruleset, RulesFormat::ClassBench);
    }

    #[test]
    fn flow_text_keeps_what_it_can_express(
        (schema, rule) in proptest::sample::select(&SCHEMAS[..])
            .prop_flat_map(|schema| (Just(schema), any_rule(schema)))
    ) {
        let ruleset = as_flow(rule, schema);
        if let Some(text) = written(&ruleset, RulesFormat::Ovs) {
            let back = read_rules("f", &text, &options(RulesFormat::Ovs, schema));
            let back = back.unwrap_or_else(|e| panic!("{text}\n{e}"));
            let rule = ruleset.matching(RuleId(0));
            if rule.ranges_are_prefixes() {
                assert_same_demands(&ruleset, &back, &text);
            }
            // Every flow lies in the rule, and together they have its ports.
            let ports_of = |ranges: &[PortRange; 2]| -> u64 {
                ranges.iter().map(|r| u64::from(r.hi - r.lo) + 1).product()
            };
            let mut ports = 0;
            for flow in back.iter() {
                assert!(rule.contains(&flow.matching), "{text}");
                ports += ports_of(&flow.matching.ranges);
            }
            assert_eq!(ports, ports_of(&rule.ranges), "{text}");
            // Lists in other spellings become the one of flow text.
            let action = ruleset.action(RuleId(0));
            if !matches!(action, Action::List(text) if &**text != LIST) {
                assert_eq!(back.action(RuleId(0)), action);
            }
            assert_eq!(back.priority(RuleId(0)), ruleset.priority(RuleId(0)));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..200), lines in vec(line(), 0..4)) {
        let mut text = lines.join("\n").into_bytes();
        read_everything(&text);
        text.extend(bytes);
        read_everything(&text);
    }

    #[test]
    fn a_broken_line_is_reported_in_its_place(
        line in line(),
        at in any::<proptest::sample::Index>(),
        broken in "[\\PC\t]",
    ) {
        let chars: Vec<char> = line.chars().collect();
        let at = at.index(chars.len() + 1);
        let head: String = chars[..at].iter().collect();
        let tail: String = chars[at..].iter().collect();
        let text = format!("\n{head}{broken}{tail}\n");
        for format in RulesFormat::ALL {
            let read = ReadOptions { format: Some(format), ..ReadOptions::default() };
            let Err(errors) = read_rules("f", &text, &read) else { continue };
            let line = text.lines().nth(1).unwrap();
            for error in &errors {
                assert_eq!(error.line, 2, "{errors}");
                let column = error.column as usize;
                assert!((1..=line.chars().count() + 1).contains(&column), "{errors}");
                let there = line.chars().skip(column - 1).map(shown);
                let text: Vec<char> = error.text.trim_end_matches('…').chars().collect();
                assert!(there.take(text.len()).eq(text.iter().copied()), "{errors}");
            }
        }
    }
}

/// A character as reports show it.
fn shown(c: char) -> char {
    use unicode_width::UnicodeWidthChar;
    match c {
        '\t' => ' ',
        c if c.is_control() || c.width().is_none() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// A line that is nearly right in one of the formats.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("@10.0.0.0/8\t1.2.3.4/32\t0 : 65535\t80 : 90\t0x06/0xFF\t0x0200/0x1200".to_owned()),
        Just("@2001:db8::/32 ::/0 0 : 65535 80 : 90 0x06/0xFF 0x0000/0x0000".to_owned()),
        Just(
            "priority=7,tcp,nw_src=10.0.0.0/8,tp_dst=0x50/0xff,tcp_flags=+syn-ack actions=drop"
                .to_owned()
        ),
        Just(
            "dl_vlan=5,udp6,ipv6_src=::1,dl_src=1:2:3:4:5:6 actions=ct(commit,nat(src=1)),2"
                .to_owned()
        ),
        Just("schema openflow12_ipv6".to_owned()),
        Just("keys ipv4_5tuple".to_owned()),
        Just("priority=7, ipv4_src=10.0.0.0/8, l4_dst=80..90, ip_proto=6 -> \"a\\n\"".to_owned()),
        Just("tcp 10.0.0.1:1 > [::1]:2 flags S.".to_owned()),
        Just("1 2 3 4 6 0 0".to_owned()),
        "[-a-z0-9_=,:/. @>#|+*\"()\\[\\]]{0,60}",
        any::<String>(),
    ]
}

/// Gives a text to every reader.
fn read_everything(bytes: &[u8]) {
    for format in RulesFormat::ALL.into_iter().map(Some).chain([None]) {
        for schema in SCHEMAS.into_iter().map(Some).chain([None]) {
            let read = ReadOptions { format, schema, tcp_flags: true };
            if let Err(errors) = read_rules_bytes("f", bytes, &read) {
                assert!(!errors.is_empty() && !errors.to_string().is_empty());
                assert!(!errors.to_string().contains('\x1b'));
            }
        }
    }
    for schema in SCHEMAS {
        for format in TraceFormat::ALL.into_iter().map(Some).chain([None]) {
            let mut reader = TraceReader::new("t", bytes, schema, format);
            let mut keys = KeyBuf::new(schema);
            while reader.read_batch(&mut keys, 2).is_ok_and(|count| count > 0) {}
        }
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = parse_packet(text, schema).map(|key| format_key(schema, &key));
        }
    }
}
