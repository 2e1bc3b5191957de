//! Groups as text: `group_id=1,type=select,bucket=weight:2,actions=output:1`.

use std::fmt::Write as _;

use super::super::text::{Fault, Faults, Parsed, Token};
use super::item::{self, Item};
use super::{action_text, actions, values};
use crate::openflow::{Bucket, FlowMatch, Group, GroupMod, GroupType, port};

/// The types by name; of two names of one type the first is written.
static TYPES: [(&str, GroupType); 5] = [
    ("all", GroupType::All),
    ("select", GroupType::Select),
    ("indirect", GroupType::Indirect),
    ("ff", GroupType::FastFailover),
    ("fast_failover", GroupType::FastFailover),
];

/// The parts of a line about a group.
#[derive(Default)]
struct Line<'a> {
    id: Option<u32>,
    kind: Option<GroupType>,
    buckets: Vec<Token<'a>>,
}

/// Reads a change: a group behind `add`, `modify` or `delete`, or alone to be added.
pub(super) fn read(text: Token<'_>, faults: &mut Faults) -> Option<GroupMod> {
    let mut at = 0;
    let first = item::next_item(text, &mut at).filter(|item| item.value.is_none());
    let (command, rest) = match first.map(|item| item.name) {
        Some(word) if matches!(word.bytes, b"add" | b"modify" | b"delete") => {
            (word.bytes, text.part(at..text.bytes.len()))
        }
        _ => (&b"add"[..], text),
    };
    let line = Line::read(rest, faults);
    let end = text.span().end;
    if command == b"delete" {
        return Some(GroupMod::Delete(line.id.unwrap_or(port::GROUP_ALL)));
    }
    let missing = |what: &'static str, expected: &'static str| {
        Fault::new(end..end, format!("missing {what}"), expected)
    };
    let id = faults.note(line.id.ok_or_else(|| missing("group_id", "group_id=NUMBER")));
    let types = "type=all, select, indirect or fast_failover";
    let kind = faults.note(line.kind.ok_or_else(|| missing("type", types)));
    let (id, kind) = (id?, kind?);
    if id > port::GROUP_MAX {
        let message = "a reserved number of groups";
        faults.push(Fault::new(text.span(), message, format!("at most {}", port::GROUP_MAX)));
    }
    let buckets = line.buckets.iter().map(|bucket| read_bucket(*bucket, kind, faults)).collect();
    let group = Group { id, kind, buckets };
    Some(if command == b"modify" { GroupMod::Modify(group) } else { GroupMod::Add(group) })
}

impl<'a> Line<'a> {
    fn read(text: Token<'a>, faults: &mut Faults) -> Self {
        let mut line = Line::default();
        let head = match next_bucket(text, 0) {
            None => text,
            Some(mut start) => {
                let head = text.part(0..start);
                loop {
                    let from = start + b"bucket=".len();
                    let end = next_bucket(text, from);
                    line.buckets.push(text.part(from..end.unwrap_or(text.bytes.len())));
                    match end {
                        Some(next) => start = next,
                        None => break head,
                    }
                }
            }
        };
        for item in item::items(head) {
            let result = line.property(&item);
            faults.note(result);
        }
        line
    }

    fn property(&mut self, item: &Item<'_>) -> Parsed<()> {
        match item.name.bytes {
            b"group_id" => {
                let value = item.required()?;
                self.id = Some(match value.bytes {
                    b"all" => port::GROUP_ALL,
                    _ => values::integer(value, u32::MAX.into(), "the group")? as u32,
                });
            }
            b"type" => {
                let value = item.required()?;
                let found = TYPES.iter().find(|(name, _)| name.as_bytes() == value.bytes);
                let Some((_, kind)) = found else {
                    let expected = "all, select, indirect or fast_failover";
                    return Err(Fault::new(value.span(), "unknown type of group", expected));
                };
                self.kind = Some(*kind);
            }
            b"command_bucket_id" | b"selection_method" | b"selection_method_param" | b"fields" => {
                let message = format!("unsupported property {} of groups", item.name.text());
                return Err(Fault::new(item.span(), message, "group_id, type and buckets"));
            }
            _ => {
                let expected = "group_id, type or bucket";
                return Err(Fault::new(item.span(), "unknown property of groups", expected));
            }
        }
        Ok(())
    }
}

/// Where the next `bucket=` starts an item, from `from` on.
fn next_bucket(text: Token<'_>, from: usize) -> Option<usize> {
    let starts_item = |at: usize| at == 0 || matches!(text.bytes[at - 1], b',' | b' ' | b'\t');
    memchr::memmem::find_iter(&text.bytes[from..], b"bucket=")
        .map(|at| from + at)
        .find(|at| starts_item(*at))
}

fn read_bucket(text: Token<'_>, kind: GroupType, faults: &mut Faults) -> Bucket {
    let weight = u16::from(kind == GroupType::Select);
    let (watch_port, watch_group) = (port::ANY, port::GROUP_ANY);
    let mut bucket = Bucket { weight, watch_port, watch_group, actions: Vec::new() };
    let mut actions = Vec::new();
    for mut part in item::actions(text, faults) {
        let named = item::action(part);
        if matches!(named.name.bytes, b"actions" | b"action")
            && let Some(value) = named.value
        {
            part = item::trim(value);
        }
        let result = bucket_property(&item::action(part), kind, &mut bucket);
        if faults.note(result) == Some(false) && !part.bytes.is_empty() {
            actions.push(part);
        }
    }
    let is_watching = (bucket.watch_port, bucket.watch_group) != (port::ANY, port::GROUP_ANY);
    if kind == GroupType::FastFailover && !is_watching {
        let message = "a bucket of fast failover that watches nothing";
        faults.push(Fault::new(text.span(), message, "watch_port:PORT or watch_group:GROUP"));
    }
    bucket.actions = actions::Reader::new(&FlowMatch::any(), faults).parts(&actions);
    bucket
}

/// Takes what a bucket has beside actions, and returns whether the item was of that.
fn bucket_property(item: &Item<'_>, kind: GroupType, bucket: &mut Bucket) -> Parsed<bool> {
    let group = |item: &Item<'_>| {
        values::integer(item.required()?, u32::MAX.into(), "the group").map(|id| id as u32)
    };
    match item.name.bytes {
        b"weight" => {
            if kind != GroupType::Select {
                let message = "a weight in a group that is not of type select";
                return Err(Fault::new(item.span(), message, "buckets without weights"));
            }
            bucket.weight = values::integer(item.required()?, 0xffff, "the weight")? as u16;
        }
        b"watch_port" => bucket.watch_port = values::port(item.required()?)?,
        b"watch_group" => bucket.watch_group = group(item)?,
        // OpenFlow 1.3 has no numbers of buckets.
        b"bucket_id" => _ = group(item)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A group as `dump-groups` prints it.
pub(super) fn text(group: &Group) -> String {
    let name = TYPES.iter().find(|(_, kind)| *kind == group.kind).map_or("", |(name, _)| name);
    let mut out = format!("group_id={},type={name}", group.id);
    for bucket in &group.buckets {
        out.push_str(",bucket=");
        if group.kind == GroupType::Select && bucket.weight != 1 {
            write!(out, "weight:{},", bucket.weight).expect("a String takes every write");
        }
        if bucket.watch_port != port::ANY {
            let port = values::port_text(bucket.watch_port);
            write!(out, "watch_port:{port},").expect("a String takes every write");
        }
        if bucket.watch_group != port::GROUP_ANY {
            write!(out, "watch_group:{},", bucket.watch_group).expect("a String takes every write");
        }
        out.push_str("actions=");
        out.push_str(&action_text::list(&bucket.actions));
    }
    out
}
