//! Rules that are valid for Suricata or Snort and not supported are left out by name, and never end
//! the run; rules that are wrong everywhere do.

use super::*;
use crate::text::UnusedVariable;

/// The reasons for which the rules of a text are left out; errors if it has any.
fn read(text: &str) -> Result<Vec<(u32, String)>, Vec<String>> {
    let texts = [RuleText { name: "r", bytes: text.as_bytes() }];
    let rules = read_rules(&texts, &Variables::default())
        .map_err(|errors| errors.iter().map(|error| error.message.clone()).collect::<Vec<_>>())?;
    Ok(rules.left_out.iter().map(|rule| (rule.sid, rule.keywords.join(", "))).collect())
}

/// The reason for which a rule with these options is left out, or its first error.
fn reason(options: &str) -> Result<String, String> {
    let text = format!("alert tcp any any -> any any ({options} sid:1;)");
    match read(&text) {
        Ok(left_out) => Ok(left_out.first().map_or(String::new(), |rule| rule.1.clone())),
        Err(errors) => Err(errors[0].clone()),
    }
}

#[test]
fn valid_rules_of_other_engines_never_end_the_run() {
    let text = include_str!("valid_elsewhere.rules");
    let rules = rules(text);
    let count = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(rules.rules.len() + rules.left_out.len(), count);
    assert!(rules.rules.len() > 30 && rules.left_out.len() > 120);
    // Each is listed with its file, line and sid, which its line has.
    for rule in &rules.left_out {
        let line = text.lines().nth(rule.line as usize - 1).unwrap();
        assert!(line.contains(&format!("sid:{};", rule.sid)), "{line}");
        assert!(!rule.keywords.is_empty(), "{line}");
    }
    assert_eq!(rules.unused_variables, [] as [UnusedVariable; 0]);
}

#[test]
fn unsupported_options_are_named() {
    for (options, expected) in [
        (r#"uricontent:"/a"; nocase; offset:1;"#, "uricontent"),
        (r#"content:"a"; nocase; offset:1; uricontent:"/a"; nocase; offset:1;"#, "uricontent"),
        (r#"uricontent:"/a"; distance:bad; content:"b"; nocase;"#, "uricontent"),
        (r#"protected_content:"ab"; offset:1;"#, "protected_content"),
        (r#"pcre:"/(a)/R, flow:name";"#, "pcre (captures to variables)"),
        (
            "detection_filter:track by_src,count 9,seconds 60,unique_on dst_port;",
            "detection_filter unique_on",
        ),
        ("threshold:track by_flow,count 1,multiplier 10,type backoff;", "threshold multiplier"),
        ("byte_test:4,>,1,65536;", "byte_test offset beyond 65535"),
        ("byte_jump:4,-65536,relative;", "byte_jump offset beyond 65535"),
        ("byte_jump:4,0,post_offset -70000;", "byte_jump post_offset beyond 65535"),
        ("byte_test:8,=,0xffffffffffffffff,0;", "byte_test value beyond 9223372036854775807"),
        ("dsize:0x10;", "dsize (hexadecimal number or unit)"),
        ("ip_proto:ipv6-icmp;", "ip_proto (protocol name)"),
        (r#"id:"1";"#, "id (quoted number)"),
        (r#"content:"a"; content:"b"; within:100000;"#, "within beyond 65535"),
        (r#"content:"a",width 16;"#, "content width"),
    ] {
        assert_eq!(reason(options).as_deref(), Ok(expected), "{options}");
    }
    let long = format!("content:\"{}\"; nocase;", "a".repeat(2049));
    assert_eq!(reason(&long).as_deref(), Ok("content (beyond 2048 bytes)"));
    let many = "content:\"a\";".repeat(65);
    assert_eq!(reason(&many).as_deref(), Ok("content (beyond 64 payload options)"));
    assert_eq!(reason(&"content:\"a\";".repeat(64)).as_deref(), Ok(""));
}

#[test]
fn actions_and_protocols_of_a_firewall_are_named() {
    let text = "accept:hook tcp:all any any -> any any (sid:1;)\n\
                drop:flow tcp any any -> any any (sid:2;)\n\
                alert http1:request_headers any any -> any any (sid:3;)\n";
    let expected = [
        (1, "action accept:hook, protocol tcp:all".to_owned()),
        (2, "action drop:flow".to_owned()),
        (3, "protocol http1:request_headers".to_owned()),
    ];
    assert_eq!(read(text).unwrap(), expected);
}

#[test]
fn wrong_rules_stay_errors() {
    for (options, expected) in [
        ("nocase;", "a modifier without a content before it"),
        (r#"pcre:"/(a)/R, name";"#, "invalid capture of pcre"),
        ("byte_test:4,>,1,3000000000;", "no right offset"),
        ("byte_extract:4,70000,v;", "no right offset"),
        ("byte_test:8,=,18446744073709551616,0;", "no right value"),
        ("dsize:0x10000;", "cannot be read as a number or a range"),
        ("ip_proto:tpc;", "cannot be read as a number or a range"),
        (r#"content:"a"; content:"b"; within:2000000;"#, "within without a right number"),
        (r#"content:"a"; content:"b"; offset:70000;"#, "offset without a right number"),
    ] {
        match reason(options) {
            Err(error) => assert_eq!(error, expected, "{options}"),
            Ok(_) => assert_eq!("", expected, "{options}"),
        }
    }
    let filter =
        |words: &str| reason(&format!("detection_filter:track by_src,count 9,seconds 60,{words};"));
    assert!(filter("unique_on port").is_err());
    for head in ["drop:all tcp", "permit tcp", "alert tcp:", "alert :x"] {
        let text = format!("{head} any any -> any any (sid:1;)");
        assert!(read(&text).is_err(), "{head}");
    }
}
