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

/// The errors of one rule with these options: column, offending text, message, expectation, help.
fn errors(options: &str) -> Vec<String> {
    let text = format!("alert tcp any any -> any any ({options})\n");
    let read = read_rules(&[RuleText { name: "r", bytes: text.as_bytes() }], &Variables::default());
    let Err(errors) = read else { return Vec::new() };
    let first = "alert tcp any any -> any any (".len() as u32;
    let told = |e: &warpswitch_rules::diagnostic::Diagnostic| {
        format!("{}: {}: {}", (e.column - 1).wrapping_sub(first), e.message, e.expected)
    };
    errors.iter().map(told).collect()
}

#[test]
fn a_semicolon_that_is_forgotten_is_told_behind_the_quotes() {
    let goes_on = "text goes on behind its quotes: ; behind them, or \\\" for a quote in the text";
    let check = |options: &str, told: &str| {
        let at = options.find('^').unwrap();
        assert_eq!(errors(&options.replace('^', "")), [format!("{at}: {told}")], "{options}");
    };
    check(r#"content:"abc"^ sid:1;"#, goes_on);
    check(r#"content:"abc"^ nocase; sid:1;"#, goes_on);
    check(r#"content:!"abc"^ nocase; sid:1;"#, goes_on);
    check(r#"content:"Host:"^ nocase; content:"b"; sid:1;"#, goes_on);
    check(r#"content:"Host:"^ nocase; sid:1;"#, goes_on);
    check(r#"content:"a"^ b; sid:1;"#, goes_on);
    check(r#"msg:"a\"b"^ sid:1;"#, goes_on);
    check(r#"msg:"a"^ content:"b"; sid:1;"#, goes_on);
    check(r#"pcre:"/a/"^ sid:1;"#, goes_on);
    check(r#"pcre:"/a"b/i"^ sid:1;"#, goes_on);
    check(r#"pcre:"/a/"^ content:"b/i"; sid:1;"#, goes_on);
    check(r#"pcre:"m#a#i"^ sid:1; content:"b"; sid:1;"#, goes_on);
    check(r#"sid:1; msg:"a"^"#, "a value that does not end: ; behind it");
    check(r#"sid:1; content:"a"^ nocase"#, goes_on);
    let open = "quotes that do not end: a quote before the line ends";
    check(r#"^msg:"a; sid:1;"#, open);
    check(r#"^msg:"a; content:"b; sid:1;"#, open);
    check(r#"^pcre:"/a"b/; sid:1;"#, open);
    // Quotes within expressions are none of their ends.
    assert_eq!(errors(r#"pcre:"/a"b/"; sid:1;"#), [""; 0]);
    assert_eq!(errors(r#"pcre:"/href="/" x:"b/"; sid:1;"#), [""; 0]);
}

#[test]
fn words_of_flow_that_exclude_each_other_are_told() {
    let check = |options: &str, words: &str| {
        let at = options.find('^').unwrap();
        let told = format!("{at}: flow of {words}, which exclude each other: one of them");
        assert_eq!(errors(&options.replace('^', "")), [told], "{options}");
    };
    check("flow:to_server,^to_client; sid:1;", "to_server and of to_client");
    check("flow:from_client; flow:^from_server; sid:1;", "from_client and of from_server");
    check("flow:established,^not_established; sid:1;", "established and of not_established");
    check("flow:established; flow:^stateless; sid:1;", "established and of stateless");
    check("flow:only_stream,^no_stream; sid:1;", "only_stream and of no_stream");
    let same = "flow:to_server,established; flow:from_client,established,no_stream; sid:1;";
    assert_eq!(errors(same), [""; 0]);
    let protocol = |text: &str| {
        let text = format!("alert {text} any any -> any any (flow:only_stream; sid:1;)");
        let texts = [RuleText { name: "r", bytes: text.as_bytes() }];
        read_rules(&texts, &Variables::default()).err().map(|errors| errors.to_string())
    };
    assert!(protocol("tcp-pkt").unwrap().contains("flow of another kind than the protocol"));
    assert_eq!(protocol("tcp-stream"), None);
}

#[test]
fn options_that_stand_twice_are_told_with_both_values() {
    let check = |options: &str, told: &str| {
        let at = options.chars().position(|c| c == '^').unwrap();
        let told = format!("{at}: {told}: one of them");
        assert_eq!(errors(&options.replace('^', "")), [told], "{options}");
    };
    check("sid:1; sid:^2;", "sid stands twice: 1 and 2");
    check("sid:1; rev:1; rev:^1;", "rev stands twice: 1 and 1");
    check("gid:1; sid:1; gid:^3;", "gid stands twice: 1 and 3");
    check("sid:1; priority:1; priority:^3;", "priority stands twice: 1 and 3");
    let classes = "sid:1; classtype:misc-attack; classtype:^misc-activity;";
    check(classes, "classtype stands twice: misc-attack and misc-activity");
    check("msg:\"a\"; sid:1; msg:^\"b\";", "msg stands twice: \"a\" and \"b\"");
    let long = format!("msg:\"{}\"; msg:^\"b\"; sid:1;", "ä".repeat(50));
    check(&long, &format!("msg stands twice: \"{}… and \"b\"", "ä".repeat(39)));
    let content = |modifiers: &str| format!("content:\"abc\"{modifiers}; sid:1;");
    check(&content("; offset:1; nocase; offset:^2"), "offset stands twice: 1 and 2");
    check(&content(",depth 5,nocase,^depth 6"), "depth stands twice: 5 and 6");
    check(&content(",distance 5; distance:^-6"), "distance stands twice: 5 and -6");
    check(&content("; within:5; isdataat:3; within:^6"), "within stands twice: 5 and 6");
    check(&content("; fast_pattern; ^fast_pattern"), "fast_pattern stands twice");
    let only = "fast_pattern stands twice: only and without a value";
    check(&content("; fast_pattern:only; ^fast_pattern"), only);
    let right = "; offset:1; nocase; nocase; content:\"b\"; offset:2; depth:2; fast_pattern; rev:0";
    assert_eq!(errors(&content(right)), [""; 0]);
    let fast = ",fast_pattern,fast_pattern_offset 1,fast_pattern_length 2";
    assert_eq!(errors(&content(fast)), [""; 0]);
}
