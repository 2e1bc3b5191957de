//! One flow: its items, gathered into a match of the widest schema.

use std::ops::Range;

use super::super::text::{Fault, Faults, Parsed, Token, is_space};
use super::super::value;
use super::fields::{
    ELSEWHERE, IGNORED, IGNORED_WORDS, Kind as FieldKind, NAMES, Name, Needs, SHORTHANDS, suggest,
};
use super::{PRIORITY_DEFAULT, actions, values};
use crate::matching::{Match, MatchKind};
use crate::rule::Action;
use crate::schema::{Field, FieldSpec, OPENFLOW12_IPV6};

/// Where a flow stands, which decides what it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A rule: with actions.
    Rule,
    /// A packet: no masks, no actions.
    Packet,
}

/// The VLAN bits of a frame: whether there is a tag, its id, its priority.
const VLAN_TAGGED: u16 = 0x1000;
const VLAN_VID: u16 = 0x0fff;

/// What may stand where a field is expected.
const FIELDS_EXPECTED: &str = "a field of OpenFlow 1.0, ipv6_src, ipv6_dst, tcp_flags, or a \
                               protocol word as tcp";

/// Words that start a line of changes to a switch.
static COMMANDS: [&str; 4] = ["modify", "modify_strict", "delete", "delete_strict"];

/// A flow that was read.
pub(super) struct Flow {
    /// What it demands, in a schema that has every field.
    pub matching: Match,
    pub priority: u32,
    pub action: Option<Action>,
    /// The names that were used, by their index in [`NAMES`], and where.
    pub uses: Vec<(usize, Range<usize>)>,
    /// Where the EtherType comes from, if it is demanded.
    pub eth_type_span: Range<usize>,
}

/// An item of a flow: a name, and a value if there is one.
struct Item<'a> {
    name: Token<'a>,
    value: Option<Token<'a>>,
}

impl Flow {
    pub fn new() -> Self {
        Self {
            matching: Match::any(&OPENFLOW12_IPV6),
            priority: PRIORITY_DEFAULT,
            action: None,
            uses: Vec::new(),
            eth_type_span: 0..0,
        }
    }

    /// Whether it demands IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.eth_type() == Some(super::fields::ETH_IPV6)
    }

    /// The EtherType that it demands.
    pub fn eth_type(&self) -> Option<u16> {
        self.exact(Field::EthType).map(|value| value as u16)
    }

    /// Whether it demands ICMP or ICMPv6.
    pub fn is_icmp(&self) -> bool {
        let proto = self.exact(Field::IpProto).map(|value| value as u8);
        Needs::Icmp.are_met(self.eth_type(), proto)
    }

    /// The one value that it demands of a field.
    fn exact(&self, field: Field) -> Option<u128> {
        match self.matching.as_ref().kind(&OPENFLOW12_IPV6, field) {
            MatchKind::Exact(value) => Some(value),
            _ => None,
        }
    }

    /// Reads a flow into this one, whose former content is forgotten.
    pub fn read(&mut self, line: Token<'_>, kind: Kind, faults: &mut Faults) {
        let uses = std::mem::take(&mut self.uses);
        *self = Self { uses, ..Self::new() };
        self.uses.clear();
        let mut at = 0;
        let mut is_first = true;
        let mut is_clean = true;
        let mut has_actions = false;
        while let Some(item) = next_item(line, &mut at) {
            if matches!(item.name.bytes, b"actions" | b"action") && item.value.is_some() {
                has_actions = true;
                let start = item.value.map_or(at, |value| value.start - line.start);
                let list = line.part(start..line.bytes.len());
                if kind == Kind::Packet {
                    let span = item.name.start..list.span().end;
                    faults.push(Fault::new(span, "a packet has no actions", "fields alone"));
                } else {
                    self.action = actions::parse(list, faults);
                }
                break;
            }
            let is_add = is_first && item.name.bytes == b"add" && item.value.is_none();
            is_first = false;
            if is_add && kind == Kind::Rule {
                continue;
            }
            if let Err(fault) = self.item(&item, kind, !faults.is_full()) {
                faults.push(fault);
                is_clean = false;
            }
        }
        if kind == Kind::Rule && !has_actions {
            let end = line.span().end;
            let fault = Fault::new(end..end, "missing actions", "actions=…");
            faults.push(fault.help("write actions=drop for a flow that drops"));
        }
        // Behind a fault, a protocol that seems to lack may only have been misspelt.
        if is_clean {
            self.check_needs(faults);
            self.check_vlan(faults);
        }
    }

    /// Takes one item; `suggests` says whether a misspelt name is worth a look for the right one.
    fn item(&mut self, item: &Item<'_>, kind: Kind, suggests: bool) -> Parsed<()> {
        let name = item.name.text();
        if let Some(idx) = NAMES.iter().position(|n| n.name == name) {
            let Some(value) = item.value.filter(|v| !v.bytes.is_empty()) else {
                let end = item.name.span().end;
                return Err(Fault::new(end..end, format!("{name} without a value"), "=VALUE"));
            };
            if value.bytes != b"*" {
                self.uses.push((idx, item.name.start..value.span().end));
            }
            return self.field(&NAMES[idx], value, kind);
        }
        if let Some((_, eth_type, proto)) = SHORTHANDS.iter().find(|s| s.0 == name) {
            if let Some(eth_type) = eth_type {
                self.matching.set_exact(Field::EthType, u128::from(*eth_type));
                self.eth_type_span = item.name.span();
            }
            if let Some(proto) = proto {
                self.matching.set_exact(Field::IpProto, u128::from(*proto));
            }
            return Ok(());
        }
        let what = match item.value {
            _ if IGNORED_WORDS.contains(&&*name) => return Ok(()),
            Some(value) if IGNORED.contains(&&*name) => return ignored(&name, value),
            Some(value) if name == "priority" => {
                self.priority = values::integer(value, 65535, "the priority")? as u32;
                return Ok(());
            }
            Some(value) if name == "table" => return table(value),
            Some(_) if matches!(&*name, "out_port" | "out_group") => {
                "unexpected command filter in a flow"
            }
            _ if ELSEWHERE.iter().any(|start| name.starts_with(start)) => {
                "unsupported Open vSwitch field"
            }
            None if COMMANDS.contains(&&*name) => "unexpected command in a flow list",
            Some(_) => "unknown field",
            None => "unknown protocol keyword",
        };
        let fault = Fault::new(item.name.span(), what, FIELDS_EXPECTED);
        let close = (suggests && what.starts_with("unknown")).then(|| suggest(&name)).flatten();
        Err(match close {
            Some(close) => fault.help(format!("is {close} meant?")),
            None => fault,
        })
    }

    /// Demands `value` of the field that `name` stands for.
    fn field(&mut self, name: &Name, value: Token<'_>, kind: Kind) -> Parsed<()> {
        let is_any = value.bytes == b"*";
        let has_mask = memchr::memchr(b'/', value.bytes).is_some();
        if has_mask && !name.kind.takes_masks() {
            let message = format!("{} takes no mask", name.name);
            return Err(Fault::new(value.span(), message, "one value, or * for any"));
        }
        if kind == Kind::Packet && (is_any || has_mask) {
            let expected = "a value without a mask";
            return Err(Fault::new(value.span(), "a packet has one value in each field", expected));
        }
        let (field, demand) = match name.kind {
            FieldKind::InPort if !is_any => (Field::InPort, (values::port(value)?.into(), !0)),
            FieldKind::InPort => (Field::InPort, (0, 0)),
            FieldKind::Exact(field) => (field, exact(field, value, name.name)?),
            FieldKind::Icmp(field) if is_any => (field, (0, 0)),
            FieldKind::Icmp(field) => (field, (values::integer(value, 0xff, name.name)?, 0xffff)),
            FieldKind::Mac(field) | FieldKind::Ipv4(field) | FieldKind::Ipv6(field) => {
                (field, address(field, value)?)
            }
            FieldKind::Masked(_) if is_any => (name_field(name), (0, 0)),
            FieldKind::Masked(field) => (field, values::masked(value, 0xffff, name.name)?),
            FieldKind::TcpFlags if is_any => (Field::TcpFlags, (0, 0)),
            FieldKind::TcpFlags => {
                let (flags, mask) = values::tcp_flags(value)?;
                (Field::TcpFlags, (flags.into(), mask.into()))
            }
            FieldKind::Tos | FieldKind::Dscp | FieldKind::Ecn => {
                let (value, mask) = self.tos(name, value)?;
                (Field::IpTos, (value.into(), mask.into()))
            }
            FieldKind::DlVlan | FieldKind::VlanVid | FieldKind::VlanPcp | FieldKind::VlanTci => {
                let (value, mask) = self.vlan(name, value)?;
                (Field::VlanTci, (value.into(), mask.into()))
            }
        };
        if field == Field::EthType {
            self.eth_type_span = value.span();
        }
        self.matching.set_mask(field, demand.0, demand.1);
        Ok(())
    }

    /// The demand on the former type-of-service byte, with one part of it replaced.
    fn tos(&self, name: &Name, token: Token<'_>) -> Parsed<(u8, u8)> {
        let spec = spec(Field::IpTos);
        let matching = self.matching.as_ref();
        let value = spec.read(matching.value) as u8;
        let mask = spec.read(matching.mask) as u8;
        let part: u8 = if name.kind == FieldKind::Ecn { 0x03 } else { 0xfc };
        if token.bytes == b"*" {
            return Ok((value & !part, mask & !part));
        }
        let new = match name.kind {
            FieldKind::Tos => values::integer(token, 0xff, name.name)? as u8 & part,
            FieldKind::Dscp => (values::integer(token, 0x3f, name.name)? as u8) << 2,
            _ => values::integer(token, 0x03, name.name)? as u8,
        };
        Ok((value & !part | new, mask | part))
    }

    /// The demand on the VLAN tag, with one part of it replaced.
    fn vlan(&self, name: &Name, token: Token<'_>) -> Parsed<(u16, u16)> {
        let spec = spec(Field::VlanTci);
        let matching = self.matching.as_ref();
        let (tci, mask) = (spec.read(matching.value) as u16, spec.read(matching.mask) as u16);
        let vid = VLAN_TAGGED | VLAN_VID;
        let pcp = !vid;
        if token.bytes == b"*" {
            let part = match name.kind {
                FieldKind::VlanPcp => pcp,
                FieldKind::VlanTci => u16::MAX,
                _ => vid,
            };
            return Ok((tci & !part, mask & !part));
        }
        Ok(match name.kind {
            FieldKind::DlVlan => match values::integer(token, 0xffff, name.name)? as u16 {
                0xffff => (0, u16::MAX),
                id if id <= VLAN_VID => (tci & pcp | VLAN_TAGGED | id, mask | vid),
                _ => {
                    let expected = "an id from 0 to 4095, or 0xffff for no tag";
                    return Err(Fault::new(token.span(), "invalid VLAN id", expected));
                }
            },
            FieldKind::VlanVid => {
                let (id, id_mask) = values::masked(token, vid.into(), name.name)?;
                let (id, id_mask) = (id as u16, id_mask as u16);
                if (id, id_mask) == (0, vid) {
                    // No tag, so no priority either.
                    return Ok((0, u16::MAX));
                }
                (tci & pcp | id & id_mask, mask & pcp | id_mask)
            }
            FieldKind::VlanPcp => {
                let priority = values::integer(token, 7, name.name)? as u16;
                (tci & VLAN_VID | VLAN_TAGGED | priority << 13, mask | pcp | VLAN_TAGGED)
            }
            _ => {
                let (value, mask) = values::masked(token, 0xffff, name.name)?;
                ((value & mask) as u16, mask as u16)
            }
        })
    }

    /// Reports every name that has no meaning without a protocol that the flow does not demand.
    fn check_needs(&self, faults: &mut Faults) {
        let eth_type = self.eth_type();
        let proto = self.exact(Field::IpProto).map(|value| value as u8);
        for (idx, span) in &self.uses {
            let name = &NAMES[*idx];
            if !name.needs.are_met(eth_type, proto) {
                let message = format!("{} without its protocol", name.name);
                let expected = format!("{} beside it", name.needs.words());
                faults.push(Fault::new(span.clone(), message, expected));
            }
        }
    }

    /// Reports a demand on the VLAN tag of frames without one.
    fn check_vlan(&self, faults: &mut Faults) {
        let (spec, matching) = (spec(Field::VlanTci), self.matching.as_ref());
        let (tci, mask) = (spec.read(matching.value) as u16, spec.read(matching.mask) as u16);
        let is_vlan = |(idx, _): &&(usize, Range<usize>)| {
            matches!(NAMES[*idx].kind, FieldKind::VlanVid | FieldKind::VlanTci)
        };
        if mask & VLAN_TAGGED != 0 && tci & VLAN_TAGGED == 0 && tci != 0 {
            let span = self.uses.iter().rfind(is_vlan).map_or(0..0, |(_, span)| span.clone());
            let message = "no frame has a VLAN id or priority but no VLAN tag";
            let fault = Fault::new(span, message, "the bit 0x1000, which marks a tag as present");
            faults.push(fault.help("dl_vlan and dl_vlan_pcp set it implicitly"));
        }
    }
}

/// The field of a name that stands for exactly one.
fn name_field(name: &Name) -> Field {
    match name.kind {
        FieldKind::Masked(field) => field,
        _ => unreachable!("asked for transport fields alone"),
    }
}

fn spec(field: Field) -> &'static FieldSpec {
    OPENFLOW12_IPV6.field(field).expect("the widest schema has every field")
}

/// A number that fills its field.
fn exact(field: Field, token: Token<'_>, name: &'static str) -> Parsed<(u128, u128)> {
    if token.bytes == b"*" {
        return Ok((0, 0));
    }
    let max = spec(field).value_max();
    Ok((values::integer(token, max, name)?, max))
}

/// An address with a prefix length, a mask, or neither.
fn address(field: Field, token: Token<'_>) -> Parsed<(u128, u128)> {
    if token.bytes == b"*" {
        return Ok((0, 0));
    }
    match value::parse_demand(spec(field), token)? {
        value::Demand::Mask(value, mask) => Ok((value, mask)),
        value::Demand::Range(..) => unreachable!("addresses have no ranges"),
    }
}

/// Checks a value that is read over as far as a typing error would matter.
fn ignored(name: &str, value: Token<'_>) -> Parsed<()> {
    let (max, what) = match name {
        "idle_timeout" | "hard_timeout" => (0xffff, "the timeout"),
        "importance" => (0xffff, "the importance"),
        "cookie" => (u128::from(u64::MAX), "the cookie"),
        // Statistics have units and fractions, and nobody writes them by hand.
        _ => return Ok(()),
    };
    values::integer(value, max, what).map(|_| ())
}

fn table(value: Token<'_>) -> Parsed<()> {
    match values::integer(value, 255, "the table")? {
        0 | 255 => Ok(()),
        _ => {
            let message = "flows of several tables are not supported";
            Err(Fault::new(value.span(), message, "table=0"))
        }
    }
}

/// The next item from `at` on, which moves behind it.
fn next_item<'a>(line: Token<'a>, at: &mut usize) -> Option<Item<'a>> {
    let is_separator = |b: u8| b == b',' || is_space(b);
    let bytes = line.bytes;
    while *at < bytes.len() && is_separator(bytes[*at]) {
        *at += 1;
    }
    let start = *at;
    if start == bytes.len() {
        return None;
    }
    let ends_name = |b: &u8| is_separator(*b) || matches!(b, b'=' | b':' | b'(');
    let len = bytes[start..].iter().position(ends_name).unwrap_or(bytes.len() - start);
    let name = line.part(start..start + len);
    *at = start + len;
    let Some(delimiter) = bytes.get(*at).filter(|b| !is_separator(**b)) else {
        return Some(Item { name, value: None });
    };
    *at += 1;
    let from = *at;
    let is_end = |b: &u8| match delimiter {
        b'(' => *b == b')',
        _ => is_separator(*b),
    };
    let len = bytes[from..].iter().position(is_end).unwrap_or(bytes.len() - from);
    *at = from + len + usize::from(*delimiter == b'(' && from + len < bytes.len());
    Some(Item { name, value: Some(line.part(from..from + len)) })
}
