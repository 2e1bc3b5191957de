//! Numbers that payloads hold, and variables.

use super::frames::*;
use super::{alerts, inspector, told};
use crate::inspect::InspectorOptions;
use crate::text::{RuleText, Variables, read_rules};

fn holds(options: &str, payload: &[u8]) -> bool {
    let text = format!("alert udp any any -> any any ({options} sid:1;)");
    !told(&text, &[udp(CLIENT, SERVER, payload)]).is_empty()
}

/// Holds options against a payload in which they hold, and one in which they do not.
fn check(options: &str, right: &[u8], wrong: &[u8]) {
    assert!(holds(options, right), "{options} in {right:?}");
    assert!(!holds(options, wrong), "{options} in {wrong:?}");
}

#[test]
fn numbers_are_compared_and_jumped_over() {
    check("byte_test:2,>,256,1;", b"\0\x01\x01", b"\0\x01\0");
    check("byte_test:2,>,0x100,1,little;", b"\0\0\x02", b"\0\xff\0");
    check("content:\"len=\"; byte_test:4,>=,100,0,relative,string,dec;", b"len=0100", b"len=0099");
    check("byte_test:1,!&,0x80,0;", b"\x7f", b"\x80");
    check("byte_test:1,!=,5,0;", b"\x04", b"\x05");
    check("byte_test:1,!,5,0;", b"\x04", b"\x05");
    check("byte_test:2,=,0x23,0,bitmask 0x0ff0;", b"\x12\x34", b"\x12\x44");
    // What cannot be read fails, also negated.
    check("byte_test:2,!=,5,0;", b"\0\x04", b"\x04");
    check("byte_test:1,!=,5,0,string,dec;", b"4", b"x");
    check("content:\"c\"; byte_test:1,=,97,-3,relative;", b"abc", b"bc");
    check("byte_jump:1,0; content:\"z\"; within:1;", b"\x02abz", b"\x01abz");
    check(
        "byte_jump:2,0,little,multiplier 2,post_offset -1; isdataat:!2,relative;",
        b"\x02\0abcd",
        b"\x01\0abcd",
    );
    check(
        "content:\"x\"; byte_jump:1,0,relative,align; content:\"z\"; within:1;",
        b"x\x03abcdz",
        b"x\x03abcz",
    );
    check(
        "content:\"x\"; byte_jump:1,0,relative,from_beginning; content:\"a\"; within:1;",
        b"ax\0",
        b"ax\x01",
    );
    check("byte_jump:0,0,from_end,post_offset -2; content:\"yz\"; within:2;", b"xyz", b"yzx");
    // As far as the end, and no further.
    check("byte_jump:1,0;", b"\x02ab", b"\x03ab");
}

#[test]
fn variables_are_asked_for() {
    let z = "content:\"z\";";
    check(&format!("byte_extract:1,0,n; {z} offset:n; depth:1;"), b"\x02az", b"\x01az");
    check("byte_extract:1,0,n; content:\"z\",offset 1,depth n;", b"\x02az", b"\x01az");
    check(&format!("byte_extract:1,0,n; {z} distance:n; within:1;"), b"\x01az", b"\x02az");
    check("byte_extract:1,0,n; content:!\"z\"; within:n;", b"\x01az", b"\x02az");
    check("byte_extract:1,0,n; isdataat:n;", b"\x02ab", b"\x03ab");
    check("byte_extract:1,0,n; isdataat:!n,relative;", b"\x03ab", b"\x02ab");
    check("byte_extract:1,0,n; byte_test:1,=,n,1;", b"\x05\x05", b"\x05\x04");
    check("byte_extract:1,0,n; byte_test:1,=,7,n;", b"\x02\0\x07", b"\x01\0\x07");
    check("byte_extract:1,0,n,multiplier 2; byte_jump:1,n;", b"\x01\0\0", b"\x01\0\x01");
    let math = "byte_math:bytes 1, offset 0, oper +, rvalue 1, result m;";
    check(&format!("{math} {z} offset:m; depth:1;"), b"\x01az", b"\x02az");
    let two = "byte_extract:1,0,n; byte_math:bytes 1, offset 1, oper *, rvalue n, result m, \
               string dec, bitmask 0xff;";
    check(&format!("{two} byte_test:1,=,m,2;"), b"\x033\x09", b"\x033\x08");
    // The second of three occurrences has the number that fits.
    let many = "content:\"a\"; byte_extract:1,0,n,relative; content:\"z\"; distance:n; within:1;";
    check(many, b"a\x09a\x01.z.a\x05", b"a\x09a\x02.z.a\x05");
}

#[test]
fn numbers_across_segments() {
    let text = "alert tcp any any -> any any (content:\"len\"; byte_jump:2,0,relative; \
        content:\"end\"; within:3; sid:1;)\n\
        alert tcp any any -> any any (content:\"len\"; byte_extract:2,0,n,relative; \
        content:\"end\"; distance:n; within:3; sid:2;)\n\
        alert tcp any any -> any any (content:\"len\"; byte_test:2,=,4,0,relative; sid:3;)";
    let whole = [(0, &b"len\0\x04abcdend"[..]), (12, b"more")];
    assert_eq!(told(text, &connection(&whole)), [(4, 1), (4, 2), (4, 3)]);
    let parts = [(0, &b"xxlen\0"[..]), (6, b"\x04ab"), (9, b"cdend"), (14, b"more")];
    assert_eq!(told(text, &connection(&parts)), [(5, 3), (6, 1), (6, 2)]);
}

#[test]
fn variables_at_many_places_cost_what_texts_are_long() {
    // Each a is followed by the same number; the z is nowhere where it should be.
    let rest = "byte_extract:1,0,n,relative; content:\"|01|\"; distance:n; content:\"z\"; \
                distance:n; content:\"q\"; distance:0; sid:1;";
    let text = format!("alert udp any any -> any any (content:\"a\"; {rest})");
    let mut payload = b"qz".to_vec();
    payload.extend(b"a\x01".repeat(700));
    let mut one = inspector(&text, InspectorOptions::default());
    assert_eq!(alerts(&mut one, &[udp(CLIENT, SERVER, &payload)]).len(), 0);
    assert_eq!(one.stats().work_cut, 0);
    payload.extend(b"zq");
    assert_eq!(alerts(&mut one, &[udp(CLIENT, SERVER, &payload)]).len(), 1);
}

#[test]
fn values_at_many_places_are_bounded_and_counted() {
    // Each place has another value, and each pair of them is a state.
    let text = "alert udp any any -> any any (content:\"|00|\"; byte_extract:2,0,n,relative; \
        content:\"|00|\"; byte_extract:2,0,m,relative; content:\"q\"; offset:n; depth:1; \
        content:\"z\"; offset:m; depth:1; sid:1;)";
    let mut payload = b"qz".to_vec();
    payload.extend((1..300u16).flat_map(|n| [0, (n >> 8) as u8 | 0x40, n as u8]));
    let options = InspectorOptions { work_max: 1 << 20, ..InspectorOptions::default() };
    let mut one = inspector(text, options);
    assert_eq!(alerts(&mut one, &[udp(CLIENT, SERVER, &payload)]).len(), 0);
    assert_eq!(one.stats().work_cut, 1);
}

#[test]
fn options_of_numbers_are_read_left_out_or_told() {
    let read = |options: &str| {
        let text = format!("alert udp any any -> any any ({options} sid:1;)");
        let texts = [RuleText { name: "x", bytes: text.as_bytes() }];
        let read = read_rules(&texts, &Variables::default());
        read.map(|rules| rules.left_out.first().map(|rule| rule.keywords.join(", ")))
            .map_err(|errors| errors.to_string())
    };
    for (options, keywords) in [
        ("byte_test:4,>,1,0,dce;", "byte_test dce"),
        ("byte_test:n,>,1,0;", "byte_test bytes by a variable"),
        ("byte_test:1,>,-2,0;", "byte_test value below 0"),
        ("byte_test:0,>,2,0,string;", "byte_test of 0 bytes"),
        ("byte_extract:0,0,n,string,dec;", "byte_extract of 0 bytes"),
        ("byte_test:1,>,n,0;", "byte_test value by an unknown variable"),
        ("byte_math:bytes 1,offset 0,oper +,rvalue 1,result n,endian dce;", "byte_math dce"),
        ("content:\"a\"; byte_extract:1,0,n; offset:n;", "offset by an unknown variable"),
        ("content:\"a\"; isdataat:n;", "isdataat by an unknown variable"),
        (
            "byte_extract:1,0,a; byte_extract:1,0,b; byte_extract:1,0,c; byte_extract:1,0,d; \
             byte_extract:1,0,a; byte_extract:1,0,e;",
            "byte_extract (beyond 4 variables)",
        ),
    ] {
        assert_eq!(read(options), Ok(Some(keywords.to_owned())), "{options}");
    }
    for (options, message) in [
        ("byte_test:1,>,2;", "something is missing"),
        ("byte_test:9,>,2,0;", "a number from 1 to 8"),
        ("byte_test:0,>,2,0;", "a number from 1 to 8"),
        ("byte_test:24,>,2,0,string;", "a number from 1 to 23"),
        ("byte_test:1,~,2,0;", "no comparison"),
        ("byte_test:1,>,-n,0;", "no right value"),
        ("byte_test:1,>,2,70000000000;", "no right offset"),
        ("byte_extract:1,70000,n;", "no right offset"),
        ("byte_test:1,>,2,0,dec;", "digits of what is no string"),
        ("byte_test:1,>,2,0,align;", "no such word of byte_test"),
        ("byte_test:1,>,2,0,bitmask 0;", "no right bitmask"),
        ("byte_jump:1,0,multiplier 0;", "no right multiplier"),
        ("byte_jump:1,0,post_offset 1.5;", "no right post_offset"),
        ("byte_extract:1,0,2n;", "no name of a variable"),
        ("byte_math:bytes 1,offset 0,oper %,rvalue 1,result n;", "no operator"),
        ("byte_math:bytes 1,offset 0,oper /,rvalue 0,result n;", "no right rvalue"),
        ("byte_math:bytes 1,offset 0,oper /,result n;", "something is missing"),
    ] {
        let told = read(options).expect_err(options);
        assert!(told.contains(message), "{options}: {told}");
    }
}
