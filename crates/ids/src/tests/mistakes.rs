//! What is told about rules and variables that were perhaps not meant as they stand.

use super::*;
use crate::rule::{RULE_BYTES_MAX, RemarkKind};
use crate::text::UnusedVariable;

#[test]
fn keywords_that_no_language_has_are_remarked() {
    let rules = rules(
        "alert tcp any any -> any any (contnet:\"a\"; base64_data; sid:1;)\n\
         alert tcp any any -> any any (content:\"a\"; no_such_thing:5; sid:2;)\n\
         alert tcp any any -> any any (content:\"a\"; base64_data; sid:3;)",
    );
    let kinds: Vec<(u32, &RemarkKind)> =
        rules.remarks.iter().map(|remark| (remark.line, &remark.kind)).collect();
    let unknown = |name: &str, meant| RemarkKind::UnknownKeyword { name: name.into(), meant };
    let (first, second) = (unknown("contnet", Some("content")), unknown("no_such_thing", None));
    assert_eq!(kinds, [(1, &first), (2, &second)]);
    assert_eq!(
        rules.remark(&rules.remarks[0]),
        "sid 1: no keyword of Snort or Suricata: contnet; was content meant?"
    );
    assert_eq!(
        rules.keywords_left_out(),
        [
            ("base64_data", 2),
            ("contnet (no keyword of Snort or Suricata)", 1),
            ("no_such_thing (no keyword of Snort or Suricata)", 1),
        ]
    );
}

#[test]
fn classes_and_words_of_flow_that_were_meant_are_told() {
    let rule = |options: &str| format!("alert tcp any any -> any any ({options}; sid:1;)");
    let class = |name: &str| {
        let rules = rules(&rule(&format!("classtype:{name}")));
        rules.remarks.iter().map(|remark| rules.remark(remark)).collect::<Vec<_>>()
    };
    assert_eq!(
        class("attempted-amdin"),
        ["sid 1: no such class: attempted-amdin; was attempted-admin meant?"]
    );
    assert_eq!(class("homegrown"), ["sid 1: no such class: homegrown"]);
    assert_eq!(class("misc-attack"), [""; 0]);
    let flow = |word: &str| {
        let text = rule(&format!("flow:established,{word}"));
        let read =
            read_rules(&[RuleText { name: "r", bytes: text.as_bytes() }], &Variables::default());
        read.err().map(|errors| errors.iter().map(|error| error.help.clone()).collect::<String>())
    };
    assert_eq!(flow("to_sever").as_deref(), Some("is to_server meant?"));
    assert_eq!(flow("upwards").as_deref(), Some(""));
    assert_eq!(flow("to_server"), None);
}

#[test]
fn protocols_that_were_not_meant_are_told() {
    let rules = rules(
        "alert tpc any any -> any any (content:\"a\"; sid:1;)\n\
         alert sip any any -> any any (content:\"a\"; sid:2;)",
    );
    assert_eq!(
        rules.keywords_left_out(),
        [("protocol sip", 1), ("protocol tpc (was tcp meant?)", 1)]
    );
}

#[test]
fn a_rule_that_is_too_long_is_told_with_its_length() {
    let check = |rule: &str, told: &[String]| {
        let text = format!("{rule}\nalert tcp any any -> any any (content:\"b\"; sid:2;)\n");
        let texts = [RuleText { name: "long.rules", bytes: text.as_bytes() }];
        let read = read_rules(&texts, &Variables::default());
        let found: Vec<String> = read.err().map_or(Vec::new(), |errors| {
            let words = errors.iter().map(|e| format!("{}: {}: {}", e.line, e.message, e.expected));
            words.collect()
        });
        assert_eq!(found, told, "{} bytes", rule.len());
    };
    let long = |bytes: usize| vec![format!("1: a rule of {bytes} bytes: at most {RULE_BYTES_MAX}")];
    let head = "alert tcp any any -> any any (";
    // In a text between quotes, in one without, between options, and before them.
    let quoted = |bytes: usize| {
        let rest = bytes - head.len() - "msg:\"\"; sid:1;)".len();
        format!("{head}msg:\"{}\"; sid:1;)", "a".repeat(rest))
    };
    check(&quoted(RULE_BYTES_MAX), &[]);
    check(&quoted(RULE_BYTES_MAX + 1), &long(RULE_BYTES_MAX + 1));
    check(&quoted(70_012), &long(70_012));
    let value = format!("{head}metadata:{}; sid:1;)", "a ".repeat(40_000));
    check(&value, &long(value.len()));
    let options = format!("{head}{} sid:1;)", "noalert;".repeat(9_000));
    check(&options, &long(options.len()));
    let header = format!("alert tcp [{}] any -> any any (sid:1;)", "!1.1.1.1,".repeat(8_000));
    check(&header, &long(header.len()));
    // One that is within its bound and does not end is told as before.
    check(
        &format!("{head}msg:\"a; sid:1;)"),
        &["1: quotes that do not end: a quote before the line ends".into()],
    );
    check(&format!("{head}msg:\"a\")"), &["1: a value that does not end: ; behind it".into()]);
}

#[test]
fn variables_that_no_rule_asks_for_are_told() {
    let mut variables = Variables::default();
    for set in ["WBE=10.0.0.1", "HOME_NET=10.0.0.0/8", "INNER=80", "ZEBRA=any", "PORTS=$INNER"] {
        variables.set(set).unwrap();
    }
    variables.set("WEB=10.0.0.2").unwrap();
    let text = "alert tcp any any -> [$WEB,$HTTP_SERVERS] $PORTS (content:\"a\"; sid:1;)";
    let rules = read_rules(&[RuleText { name: "r", bytes: text.as_bytes() }], &variables).unwrap();
    let unused = |name: &str, meant: Option<&str>| UnusedVariable {
        name: name.into(),
        meant: meant.map(Into::into),
    };
    // Servers are at home, and ports within ports.
    assert_eq!(rules.unused_variables, [unused("WBE", Some("WEB")), unused("ZEBRA", None)]);
    let told: Vec<String> = rules.unused_variables.iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "no rule asks for the variable WBE; rules ask for WEB");
    assert_eq!(told[1], "no rule asks for the variable ZEBRA");
}
