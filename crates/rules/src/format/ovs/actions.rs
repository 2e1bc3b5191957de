//! The actions of flow text.
//!
//! A rule set knows five of them; every other list is kept as text in one canonical spelling:
//! commas between actions and no blanks, names in lower case, reserved ports in upper case.

use super::super::text::{Fault, Faults, Parsed, Token, is_space};
use super::values;
use crate::rule::Action;

/// Every action and instruction that `ovs-ofctl` knows by name, ports aside.
static KNOWN: [&str; 68] = [
    "output",
    "enqueue",
    "set_queue",
    "pop_queue",
    "set_field",
    "load",
    "move",
    "push",
    "pop",
    "push_vlan",
    "pop_vlan",
    "strip_vlan",
    "mod_vlan_vid",
    "set_vlan_vid",
    "mod_vlan_pcp",
    "set_vlan_pcp",
    "mod_dl_src",
    "mod_dl_dst",
    "mod_nw_src",
    "mod_nw_dst",
    "mod_nw_tos",
    "mod_nw_ecn",
    "mod_nw_ttl",
    "mod_tp_src",
    "mod_tp_dst",
    "dec_ttl",
    "push_mpls",
    "pop_mpls",
    "set_mpls_label",
    "set_mpls_tc",
    "set_mpls_ttl",
    "dec_mpls_ttl",
    "set_tunnel",
    "set_tunnel64",
    "resubmit",
    "learn",
    "multipath",
    "bundle",
    "bundle_load",
    "note",
    "exit",
    "fin_timeout",
    "reg_load",
    "reg_move",
    "stack_push",
    "stack_pop",
    "sample",
    "conjunction",
    "clone",
    "ct",
    "ct_clear",
    "nat",
    "group",
    "meter",
    "check_pkt_larger",
    "delete_field",
    "encap",
    "decap",
    "dec_nsh_ttl",
    "debug_recirc",
    "goto_table",
    "write_actions",
    "apply_actions",
    "clear_actions",
    "write_metadata",
    "controller",
    "in_port",
    "trunc",
];

/// One action of a list.
enum Item {
    Drop,
    Pass,
    Mark(u32),
    Output(u32),
    Other(String),
}

/// Reads the text behind `actions=`; every fault goes to `faults`.
pub(super) fn parse(token: Token<'_>, faults: &mut Faults) -> Option<Action> {
    let mut items = Vec::new();
    let mut is_whole = true;
    for part in split(token, faults) {
        match item(part) {
            Ok(item) => items.push((item, part)),
            Err(fault) => {
                faults.push(fault);
                is_whole = false;
            }
        }
    }
    if !is_whole {
        return None;
    }
    let drop = items.iter().position(|(item, _)| matches!(item, Item::Drop));
    if let Some(at) = drop
        && items.len() > 1
    {
        let message = "drop combined with other actions";
        faults.push(Fault::new(items[at].1.span(), message, "drop as the only action"));
        return None;
    }
    Some(match items.as_slice() {
        [] | [(Item::Drop, _)] => Action::Drop,
        [(Item::Pass, _)] => Action::Pass,
        [(Item::Output(port), _)] => Action::Output(*port),
        [(Item::Mark(mark), _)] | [(Item::Mark(mark), _), (Item::Pass, _)] => Action::Mark(*mark),
        _ => {
            let texts: Vec<String> = items.iter().map(|(item, _)| item_text(item)).collect();
            Action::List(texts.join(",").into())
        }
    })
}

fn item_text(item: &Item) -> String {
    match item {
        Item::Drop => "drop".to_owned(),
        Item::Pass => "NORMAL".to_owned(),
        Item::Mark(mark) => format!("load:{mark:#x}->NXM_NX_PKT_MARK[]"),
        Item::Output(values::PORT_LOCAL) => "LOCAL".to_owned(),
        Item::Output(port) => match values::port_text(*port) {
            Some(text) => format!("output:{text}"),
            None => format!("output:{port}"),
        },
        Item::Other(text) => text.clone(),
    }
}

/// An action as flow text; `None` if it has no such text.
pub(super) fn action_text(action: &Action) -> Option<String> {
    match action {
        Action::Drop => Some("drop".to_owned()),
        Action::Pass => Some("NORMAL".to_owned()),
        Action::Mark(mark) => Some(format!("load:{mark:#x}->NXM_NX_PKT_MARK[],NORMAL")),
        Action::Output(values::PORT_LOCAL) => Some("LOCAL".to_owned()),
        // The other reserved ports are no ports to send out of but actions of their own.
        Action::Output(port) if *port >= 0xffff_fff7 => None,
        Action::Output(port) => values::port_text(*port).map(|text| format!("output:{text}")),
        Action::List(text) => {
            let mut faults = Faults::default();
            let token = Token { bytes: text.as_bytes(), start: 0 };
            let is_line = !text.contains(['\n', '\r', '#']);
            let read = parse(token, &mut faults).filter(|_| faults.is_empty() && is_line)?;
            (read == *action).then(|| text.to_string())
        }
    }
}

/// The actions of a list: parts between commas and blanks that lie in no parentheses.
fn split<'a>(token: Token<'a>, faults: &mut Faults) -> Vec<Token<'a>> {
    let mut parts = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut start = None;
    for (at, &byte) in token.bytes.iter().enumerate() {
        match byte {
            b'(' => open.push(at),
            b')' if open.pop().is_none() => {
                let span = token.start + at..token.start + at + 1;
                faults.push(Fault::new(span, "unmatched closing parenthesis", "no )"));
                return Vec::new();
            }
            _ => {}
        }
        let is_separator = open.is_empty() && (byte == b',' || is_space(byte));
        match (start, is_separator) {
            (None, false) => start = Some(at),
            (Some(from), true) => {
                parts.push(token.part(from..at));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(&at) = open.first() {
        let span = token.start + at..token.start + at + 1;
        faults.push(Fault::new(span, "unmatched opening parenthesis", ") further on"));
        return Vec::new();
    }
    parts.extend(start.map(|from| token.part(from..token.bytes.len())));
    parts
}

/// Name and argument: `name:argument`, `name=argument` or `name(argument)`.
fn name_and_argument(token: Token<'_>) -> (Token<'_>, Option<Token<'_>>) {
    let at = token.bytes.iter().position(|b| matches!(b, b':' | b'=' | b'('));
    let Some(at) = at else { return (token, None) };
    let end = match token.bytes[at] {
        b'(' if token.bytes.ends_with(b")") => token.bytes.len() - 1,
        _ => token.bytes.len(),
    };
    (token.part(0..at), Some(token.part(at + 1..end)))
}

fn item(token: Token<'_>) -> Parsed<Item> {
    let (name, argument) = name_and_argument(token);
    let lower = name.text().to_ascii_lowercase();
    match (lower.as_str(), argument) {
        ("drop", None) => return Ok(Item::Drop),
        ("pass", None) => return Ok(Item::Pass),
        ("mark", Some(mark)) => {
            let mark = values::integer(mark, u32::MAX.into(), "the mark")?;
            return Ok(Item::Mark(mark as u32));
        }
        ("output", None) => {
            return Err(Fault::new(name.span(), "output without a port", "output:PORT"));
        }
        // A register or a list of options names no port at once.
        ("output", Some(port)) if !port.bytes.iter().any(|b| matches!(b, b'[' | b'=')) => {
            return values::port(port).map(output);
        }
        ("load" | "set_field", Some(argument)) => {
            if let Some(mark) = mark(argument)? {
                return Ok(Item::Mark(mark));
            }
        }
        (_, None) if is_port(name) => return values::port(name).map(output),
        _ => {}
    }
    if !KNOWN.contains(&lower.as_str()) {
        let expected = "drop, NORMAL, output:PORT or another action of ovs-ofctl";
        return Err(Fault::new(name.span(), "unknown action", expected));
    }
    let rest = canonical_argument(token.part(name.bytes.len()..token.bytes.len()));
    // What a controller gets is written in upper case, as a port; the others are actions.
    let name = if lower == "controller" { "CONTROLLER".to_owned() } else { lower };
    Ok(Item::Other(format!("{name}{rest}")))
}

/// Whether a token is a port and not another kind of argument.
fn is_port(token: Token<'_>) -> bool {
    let is_number = !token.bytes.is_empty() && token.bytes.iter().all(u8::is_ascii_digit);
    let name = token.text();
    is_number || values::RESERVED_PORTS.iter().any(|(n, _)| n.eq_ignore_ascii_case(&name))
}

/// What sending to a port means: some reserved ports are actions of their own.
fn output(port: u32) -> Item {
    match values::port_text(port).as_deref() {
        Some("NORMAL") => Item::Pass,
        Some("CONTROLLER") => Item::Other("CONTROLLER:65535".to_owned()),
        Some(name) if port != values::PORT_LOCAL && port >= 0xffff_fff7 => {
            Item::Other(name.to_owned())
        }
        _ => Item::Output(port),
    }
}

/// The mark of `VALUE->NXM_NX_PKT_MARK[]` or `VALUE->pkt_mark`, if the argument is one.
fn mark(argument: Token<'_>) -> Parsed<Option<u32>> {
    let Some(arrow) = memchr::memmem::find(argument.bytes, b"->") else { return Ok(None) };
    let value = argument.part(0..arrow);
    let target = &argument.bytes[arrow + 2..];
    let whole = [&b"NXM_NX_PKT_MARK[]"[..], b"NXM_NX_PKT_MARK[0..31]", b"pkt_mark"];
    if !whole.contains(&target) {
        return Ok(None);
    }
    let all = u128::from(u32::MAX);
    let (value, mask) = values::masked(value, all, "the mark")?;
    Ok((mask == all).then_some(value as u32))
}

/// An argument without blanks; where only blanks stood between two parts, a comma stands.
fn canonical_argument(token: Token<'_>) -> String {
    let mut out = String::new();
    let (mut commas, mut has_blank) = (0, false);
    for c in token.text().chars() {
        match c {
            ',' => commas += 1,
            c if c.is_ascii() && is_space(c as u8) => has_blank = true,
            c => {
                let between = has_blank && !matches!(c, ')' | '(') && !out.ends_with('(');
                let count = if commas == 0 { usize::from(between) } else { commas };
                out.extend(std::iter::repeat_n(',', count));
                (commas, has_blank) = (0, false);
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> Result<Action, Vec<String>> {
        let mut faults = Faults::default();
        let action = parse(Token { bytes: text.as_bytes(), start: 0 }, &mut faults);
        match action {
            Some(action) if faults.is_empty() => Ok(action),
            _ => Err(faults.messages()),
        }
    }

    #[test]
    fn actions_that_a_rule_set_knows() {
        let check = |text: &str, expected: Action| {
            assert_eq!(parse_text(text), Ok(expected), "{text}");
        };
        check("", Action::Drop);
        check("drop", Action::Drop);
        check(" drop, ", Action::Drop);
        check("NORMAL", Action::Pass);
        check("normal", Action::Pass);
        check("pass", Action::Pass);
        check("output:65530", Action::Pass);
        for one in ["1", "output:1", "output(1)", "output=1"] {
            check(one, Action::Output(1));
        }
        check("LOCAL", Action::Output(values::PORT_LOCAL));
        check("output:65534", Action::Output(values::PORT_LOCAL));
        check("load:5->NXM_NX_PKT_MARK[]", Action::Mark(5));
        check("load:0xffffffff->NXM_NX_PKT_MARK[0..31]", Action::Mark(u32::MAX));
        check("set_field:0x7/0xffffffff->pkt_mark", Action::Mark(7));
        check("set_field:7->pkt_mark,NORMAL", Action::Mark(7));
        check("mark:9", Action::Mark(9));
    }

    #[test]
    fn other_lists_are_kept_in_one_spelling() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse_text(text), Ok(Action::List(expected.into())), "{text}");
            let again = parse_text(expected);
            assert_eq!(again, Ok(Action::List(expected.into())), "{text}: not canonical");
        };
        check("mod_vlan_vid:5,output:1", "mod_vlan_vid:5,output:1");
        check(" mod_vlan_vid:5 1 ", "mod_vlan_vid:5,output:1");
        check("MOD_VLAN_VID:5,local", "mod_vlan_vid:5,LOCAL");
        check("flood", "FLOOD");
        check("controller", "CONTROLLER:65535");
        check("CONTROLLER:128", "CONTROLLER:128");
        check("resubmit(,1)", "resubmit(,1)");
        check("set_field:5->pkt_mark,output:2", "load:0x5->NXM_NX_PKT_MARK[],output:2");
        check("set_field:0x7/0xff->pkt_mark", "set_field:0x7/0xff->pkt_mark");
        check("output:NXM_NX_REG0[]", "output:NXM_NX_REG0[]");
        check("learn(table=1, a=2 b),output:3", "learn(table=1,a=2,b),output:3");
        check("ct(commit,nat( src=1.1.1.1 ))", "ct(commit,nat(src=1.1.1.1))");
    }

    #[test]
    fn wrong_lists_say_why() {
        let check = |text: &str, why: &str| {
            let errors = parse_text(text).unwrap_err();
            assert!(errors.iter().any(|e| e.contains(why)), "{text}: {errors:?}");
        };
        check("foo", "unknown action");
        check("drop,output:1", "drop combined");
        check("output:70000", "unknown port");
        check("output:", "unknown port");
        check("resubmit(,1", "unmatched opening");
        check("resubmit,1)", "unmatched closing");
        check("load:0x100000000->NXM_NX_PKT_MARK[]", "too large");
        assert_eq!(parse_text("foo,bar").unwrap_err().len(), 2);
    }
}
