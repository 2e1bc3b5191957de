//! Rule texts: what is read, what is left out, what is told.

use super::frames::ip;
use super::{rules, told};
use crate::ranges::Set;
use crate::rule::{Action, Check, Place, Proto, Step};
use crate::text::{RuleText, Variables, read_rules};

#[test]
fn rules_of_all_three_languages_are_read() {
    let text = "# a comment\n\
        alert tcp $EXTERNAL_NET any -> $HOME_NET [80,8000:] (msg:\"semi\\; colon\"; \\\n\
        \tflow:to_server,established; content:\"GET |2f 2e|x\\\"\"; nocase; depth:20; \\\n\
        content:!\"b\"; distance:1; within:5; pcre:\"/a;b/Ri\"; sid:1; rev:3; \\\n\
        classtype:trojan-activity; reference:url,a.b/c\"d; metadata:x y;)\n\
        drop udp any any <> any 53 ( msg:\"3\"; content:\"abc\",offset 2,depth 9,fast_pattern;\n\
        \tisdataat:!5,relative; sid:2; )\n\
        # Quotes within an expression.\n\
        alert tcp any any -> any any (pcre:\"/[\"']x;/R\"; sid:7;)\n\
        pass http ( content:\"x\",nocase; sid:3; gid:5; priority:1; )\n\
        alert icmp any any -> any any (itype:8; icode:<3; ttl:1<>9; icmp_id:2; sameip; sid:4;)";
    let rules = rules(text);
    assert_eq!((rules.rules.len(), rules.left_out.len()), (5, 0));
    let [first, second, quoted, third, fourth] = &rules.rules[..] else { panic!() };
    assert_eq!(first.about.msg, "semi; colon");
    assert_eq!((first.about.sid, first.about.rev, first.about.priority), (1, 3, 1));
    assert_eq!((first.about.line, second.about.line, third.about.line), (2, 6, 10));
    assert!(matches!(&quoted.steps[0], Step::Expression(e) if e.regex.is_match(b"\"x;")));
    let Step::Content(content) = &first.steps[0] else { panic!() };
    assert_eq!(content.bytes, b"get /.x\"");
    assert_eq!(content.place, Place::Absolute { offset: 0, depth: Some(20) });
    let Step::Content(content) = &first.steps[1] else { panic!() };
    assert!(content.negated);
    assert_eq!(content.place, Place::Relative { distance: 1, within: Some(5) });
    let Step::Expression(expression) = &first.steps[2] else { panic!() };
    assert!(expression.relative && expression.regex.is_match(b"A;B"));
    assert_eq!((second.action, second.header.both_ways), (Action::Drop, true));
    assert!(matches!(second.steps[1], Step::DataAt(data) if data.negated && data.relative));
    assert_eq!((third.action, third.header.proto, third.about.gid), (Action::Pass, Proto::Tcp, 5));
    assert!(third.header.src.is_all() && third.header.dst_ports.is_all());
    assert_eq!(fourth.checks.len(), 5);
    assert_eq!(fourth.checks[4], Check::SameIp);
}

#[test]
fn what_is_not_supported_is_listed_and_the_rule_left_out() {
    let text = "alert tcp any any -> any any (content:\"a\"; base64_data; sid:1;)\n\
        alert tcp any any -> any any (dce_iface:1; flowint:x,=,1; nonesuch; sid:2;)\n\
        alert tcp any any -> any any (content:\"x\"; offset:var; base64_data; \
        content:\"b\"; base64_data; sid:3;)\n\
        alert dns any any -> any any (content:\"x\"; sid:4;)\n\
        alert tcp any any -> !any any (content:\"x\"; sid:5;)\n\
        alert tcp any any -> any any (content:\"x\"; sid:6; rev:2;)\n\
        alert tcp any any -> any any (content:\"x\"; sid:6; rev:3;)\n\
        alert tcp any any -> any any (content:\"x\"; sid:6; rev:3;)\n\
        alert tcp any any -> any any (pcre:\"/(?=x)/\"; pcre:\"/x/X\"; sid:7;)";
    let rules = rules(text);
    let left: Vec<(u32, u32, Vec<&str>)> = rules
        .left_out
        .iter()
        .map(|rule| (rule.line, rule.sid, rule.keywords.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        left,
        [
            (1, 1, vec!["base64_data"]),
            (2, 2, vec!["dce_iface", "flowint", "nonesuch (no keyword of Snort or Suricata)"]),
            (3, 3, vec!["offset by an unknown variable", "base64_data"]),
            (4, 4, vec!["protocol dns"]),
            (5, 5, vec!["header that nothing matches"]),
            (6, 6, vec!["sid (another rule has it)"]),
            (8, 6, vec!["sid (another rule has it)"]),
            (9, 7, vec!["pcre (beyond linear time)", "pcre flag X"]),
        ]
    );
    assert_eq!((rules.rules.len(), rules.rules[0].about.rev), (1, 3));
    assert_eq!(
        rules.keywords_left_out()[..2],
        [("base64_data", 2), ("sid (another rule has it)", 2)]
    );
}

#[test]
fn all_errors_are_told_at_their_places() {
    let text = "alert tcp any any -> any 99999 (content:\"a|4|\"; sid:1;)\n\
        nonsense\n\
        alarm tcp any any -> any any (sid:2;)\n\
        alert tcp any any <- any any (content:\"abc\"; depth:2; sid:3;)\n\
        alert tcp $NO any -> any any (content:\"\"; sid:x;)\n\
        alert tcp any any -> any any (offset:3; content:\"a\"; offset:1; within:9; sid:0;)\n\
        alert tcp any any -> any any (content:\"a; sid:9;)\n\
        alert tcp any any -> any any (content:\"b\"; sid:8)\n\
        alert tcp any any -> any any (flow:sideways; flags:Q; dsize:<>; pcre:\"a\"; sid:7;)\n\
        alert tcp any any -> any any (content:\"ok\";)\n\
        alert tcp any any -> any any (content:\"ok\"; sid:6;)";
    let texts = [RuleText { name: "bad.rules", bytes: text.as_bytes() }];
    let errors = read_rules(&texts, &Variables::default()).unwrap_err();
    let told: Vec<(u32, u32, &str)> =
        errors.iter().map(|error| (error.line, error.column, error.message.as_str())).collect();
    let expected = [
        (1, 26, "99999 is above 65535"),
        (1, 45, "no hexadecimal byte"),
        (2, 1, "no rule"),
        (3, 1, "no such action"),
        (4, 19, "no direction"),
        (4, 39, "a depth below the content's bytes"),
        (5, 11, "no such variable"),
        (5, 39, "a content of no bytes would be everywhere"),
        (5, 47, "sid without a right number"),
        (6, 31, "a modifier without a content before it"),
        (6, 49, "a place that counts both from the start and from another"),
        (6, 78, "sid without a right number"),
        (7, 31, "quotes that do not end"),
        (8, 44, "a value that does not end"),
        (9, 36, "no such word of flow"),
        (9, 52, "cannot be read as TCP flags"),
        (10, 30, "a rule without sid"),
    ];
    for place in expected {
        assert!(told.contains(&place), "{place:?} is not in {told:?}");
    }
    let lines: Vec<u32> = told.iter().map(|error| error.0).collect();
    assert!(!lines.contains(&11), "{told:?}");
}

#[test]
fn any_bytes_are_rules_or_errors() {
    let seeds: [&[u8]; 8] = [
        b"alert tcp any any -> any any (content:\"a\"; sid:1;)",
        b"alert tcp [any,![10.0.0.0/8]] 1: <> any any (msg:\"\\\\\"; pcre:\"/[a/\"; sid:1;)",
        b"alert tcp any any -> any any (",
        b"\\\n\\\r\n(((",
        b"alert tcp any any -> any any (content:\"|41 4",
        b"alert\xff tcp any any -> any any (content:\"\xff\xfe\"; sid:1;)",
        b"alert http (content:\"a\",within 5,distance -3,fast_pattern_length 9; sid:4294967295;)",
        b"pass ip any any -> any any (dsize:4294967296; ttl:300; sid:1;)\r\n#",
    ];
    for seed in seeds {
        for at in 0..=seed.len() {
            for extra in [&b""[..], b"\"", b"\\", b"\n", b";", b")", b"|", b"[", b"$"] {
                let text = [&seed[..at], extra, &seed[at..]].concat();
                let texts = [RuleText { name: "x", bytes: &text }];
                let _ = read_rules(&texts, &Variables::default());
                let _ = read_rules(
                    &[RuleText { name: "x", bytes: &text[..at + extra.len()] }],
                    &Variables::default(),
                );
            }
        }
    }
}

#[test]
fn a_mark_of_byte_order_is_no_part_of_a_rule() {
    assert_eq!(rules("\u{feff}alert tcp any any -> any any (sid:1;)\r\n").rules.len(), 1);
}

#[test]
fn a_rule_without_an_end_is_told_where_it_begins() {
    let text = "# one\nalert tcp any any -> any any (sid:1;\n\n";
    let texts = [RuleText { name: "x", bytes: text.as_bytes() }];
    let errors = read_rules(&texts, &Variables::default()).unwrap_err().to_string();
    assert!(errors.contains("the rule does not end") && errors.contains("x:2:30"), "{errors}");
}

#[test]
fn a_rule_without_its_end_is_told_where_it_begins() {
    let text = "alert tcp any any -> any any (content:\"a\"; sid:1;)\n\
        alert tcp any any -> any any (content:\"b\";\n  sid:2;\n";
    let told = |rest: &str| {
        let text = format!("{text}{rest}");
        let texts = [RuleText { name: "x", bytes: text.as_bytes() }];
        let errors = read_rules(&texts, &Variables::default()).unwrap_err();
        errors.iter().map(|e| format!("{}:{}: {}", e.line, e.column, e.message)).collect::<Vec<_>>()
    };
    let open = "2:30: the rule does not end";
    assert_eq!(told("alert tcp any any -> any any (content:\"c\"; sid:3;)\n"), [open]);
    // What is behind it is read.
    let errors = told("drop udp any any -> any any (sid:x;)\n");
    assert_eq!(errors, [open, "4:34: sid without a right number"]);
    assert_eq!(told(""), [open]);
}

#[test]
fn messages_keep_their_own_quotes() {
    let text = "alert tcp any any -> any any (msg:\"say \\\"hi\\\"\"; sid:1;)";
    assert_eq!(rules(text).rules[0].about.msg, "say \"hi\"");
}

#[test]
fn a_forgotten_semicolon_is_no_part_of_a_text() {
    for options in [r#"msg:"x" content:"GET"; sid:6;"#, r#"content:"a" content:"b"; sid:6;"#] {
        let text = format!("alert tcp any any -> any any ({options})");
        let texts = [RuleText { name: "x", bytes: text.as_bytes() }];
        let errors = read_rules(&texts, &Variables::default()).unwrap_err().to_string();
        assert!(errors.contains("text goes on behind its quotes"), "{errors}");
    }
    let text = r#"alert tcp any any -> any any (msg:"a \\"; content:"\"b\\"; sid:1;)"#;
    assert_eq!(rules(text).rules[0].about.msg, r"a \");
}

#[test]
fn beginnings_without_an_end_are_not_read_again_and_again() {
    // Each line is an option of the rule before, and would begin a rule itself.
    let text = "a:(b;\n".repeat(20_000);
    let texts = [RuleText { name: "x", bytes: text.as_bytes() }];
    let errors = read_rules(&texts, &Variables::default()).unwrap_err();
    assert!((2..2000).contains(&errors.len()), "{}", errors.len());
    // What is behind them is read.
    let text = text + "alert tcp any any -> any any (sid:x;)\n";
    let texts = [RuleText { name: "x", bytes: text.as_bytes() }];
    let more = read_rules(&texts, &Variables::default()).unwrap_err();
    assert!(more.len() >= errors.len());
}

#[test]
fn what_is_odd_about_rules_is_remarked() {
    let text = "alert tcp any any -> any any (content:\"a\"; classtype:homegrown; sid:1; rev:2;)\n\
        alert tcp any any -> any any (content:\"b\"; classtype:misc-attack; sid:1; rev:2;)\n\
        alert tcp any any -> any any (content:\"c\"; sid:1; rev:1;)\n\
        alert tcp any any -> any any (content:\"c\"; base64_data; classtype:homegrown; sid:2;)\n\
        alert tcp any any -> any any (content:\"c\"; gid:2; sid:1; rev:2;)";
    let rules = rules(text);
    let remarks: Vec<(u32, String)> =
        rules.remarks.iter().map(|remark| (remark.line, rules.remark(remark))).collect();
    let same = "sid 1: test.rules:1 has the same gid, sid and rev, and is the one that is kept";
    let expected = [(1, "sid 1: no such class: homegrown"), (2, same)];
    assert_eq!(remarks, expected.map(|(line, text)| (line, text.to_owned())));
    assert_eq!((rules.rules.len(), rules.rules[0].about.priority), (2, 3));
}

#[test]
fn protocols_of_one_version_are_about_its_addresses() {
    let four = [ip("10.0.0.1", "10.0.0.2", 17, b"\x0c\x00\x00\x35\x00\x09\x00\x00a")];
    let six = [ip("2001:db8::1", "2001:db8::2", 17, b"\x0c\x00\x00\x35\x00\x09\x00\x00a")];
    for (protocol, holds) in [
        ("ip", [true, true]),
        ("udp", [true, true]),
        ("ip4", [true, false]),
        ("ipv4", [true, false]),
        ("udp4", [true, false]),
        ("ip6", [false, true]),
        ("ipv6", [false, true]),
        ("udp6", [false, true]),
        ("tcp6", [false, false]),
    ] {
        let text = format!("alert {protocol} any any -> any any (content:\"a\"; sid:1;)");
        let found = [&four, &six].map(|frames| !told(&text, frames).is_empty());
        assert_eq!(found, holds, "{protocol}");
        let lists = format!("alert {protocol} !10.0.0.9 any -> any 53 (sid:1;)");
        let found = [&four, &six].map(|frames| !told(&lists, frames).is_empty());
        assert_eq!(found, holds, "{protocol}");
    }
    let echo = [
        ip("10.0.0.1", "10.0.0.2", 1, &[8, 0, 0, 0, 1, 2, 0, 1]),
        ip("2001:db8::1", "2001:db8::2", 58, &[128, 0, 0, 0, 1, 2, 0, 1]),
    ];
    for (protocol, packet) in [("icmpv4", 1), ("icmpv6", 2)] {
        let text = format!("alert {protocol} any any -> any any (sid:1;)");
        assert_eq!(told(&text, &echo), [(packet, 1)]);
    }
    let none = rules("alert ip6 10.0.0.0/8 any -> any any (sid:1;)");
    assert_eq!(none.keywords_left_out(), [("header that nothing matches", 1)]);
}

#[test]
fn what_is_right_elsewhere_is_left_out_and_no_error() {
    for (rule, keyword) in [
        ("tcp any any -> any any (byte_test:0,>=,8079,0,string,dec;", "byte_test of 0 bytes"),
        ("tcp any any -> any any (byte_test:4,<,-1,0;", "byte_test value below 0"),
        ("tcp any any => any any (content:\"a\";", "direction => (transactions)"),
        ("tcp any any -> any any (content:\"a\"; bypass;", "bypass"),
        ("http any any -> any any (http.uri; content:\"a\"; filestore;", "filestore"),
    ] {
        let rules = rules(&format!("alert {rule} sid:1;)"));
        assert_eq!(rules.keywords_left_out(), [(keyword, 1)], "{rule}");
        assert_eq!(rules.remarks, [], "{rule}");
    }
}

#[test]
fn what_changes_no_verdict_is_read() {
    let text = "alert tcp any any -> any any (tcp.flags:S; prefilter; tcp.seq:1; tcp.ack:0; \
        tcp.window:1024; tag:session,5,packets; logto:\"x\"; session:printable; sid:1;)\n\
        alert tcp any any -> any any (flags:S; seq:1; ack:0; window:1024; sid:2;)";
    let rules = rules(text);
    assert_eq!((rules.rules.len(), rules.left_out.len()), (2, 0));
    assert_eq!(rules.rules[0].checks, rules.rules[1].checks);
}
