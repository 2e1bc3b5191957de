//! Rules as flow text.
//!
//! Flow text has no port ranges: a rule with ranges becomes one flow for each pair of prefixes. A
//! rule of a 5-tuple schema becomes a flow of that family.
//!
//! Other readers leave open which of two flows of one priority wins. Where rules share priority 0,
//! as those of a list do, the order of precedence of all rules therefore becomes falling
//! priorities; a list that is too long for 16 bits is refused. Other ties were written as
//! priorities in the source: they are kept, and counted for the caller to warn of.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::super::{RulesFormat, WriteError, WriteReport, value};
use super::fields::{ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_RARP, SHORTHANDS};
use super::{actions, values};
use crate::expand::{PortPrefix, range_to_prefixes};
use crate::matching::{MatchKind, MatchRef, PortRange};
use crate::rule::RuleId;
use crate::ruleset::Ruleset;
use crate::schema::{Field, FieldSpec, Schema};

/// The largest priority of flow text.
const PRIORITY_MAX: u32 = 65535;

/// How many priorities flow text has.
const PRIORITIES: usize = PRIORITY_MAX as usize + 1;

/// Why a rule cannot be flow text; `None` if it can.
pub(super) fn why_inexpressible(ruleset: &Ruleset, id: RuleId) -> Option<String> {
    if ruleset.priority(id) > PRIORITY_MAX {
        return Some(format!("its priority is larger than {PRIORITY_MAX}"));
    }
    if actions::action_text(ruleset.action(id)).is_none() {
        return Some(format!("flow text has no action {}", ruleset.action(id)));
    }
    let mut line = String::new();
    let ports = [PortPrefix { value: 0, mask: 0 }; 2];
    FlowText { schema: ruleset.schema(), matching: ruleset.matching(id) }
        .write(ports, &mut line)
        .err()
}

/// Refuses a list, rules that all have priority 0, that is longer than there are priorities.
pub(super) fn check_len(ruleset: &Ruleset) -> Result<(), WriteError> {
    let is_list = ruleset.ids().all(|id| ruleset.priority(id) == 0);
    match is_list && ruleset.len() > PRIORITIES {
        true => Err(WriteError::TooMany {
            format: RulesFormat::Ovs,
            rules: ruleset.len(),
            most: PRIORITIES,
        }),
        false => Ok(()),
    }
}

/// Writes rules that [`check_len`] and [`why_inexpressible`] has nothing against.
pub(super) fn write(ruleset: &Ruleset, out: &mut dyn Write) -> io::Result<WriteReport> {
    let unnumbered = ruleset.ids().filter(|&id| ruleset.priority(id) == 0).count();
    let renumbered = unnumbered > 1 && ruleset.len() <= PRIORITIES;
    let priorities = if renumbered { falling_priorities(ruleset) } else { Vec::new() };
    let mut report = WriteReport { renumbered, ..WriteReport::default() };
    report.ties = if renumbered { 0 } else { ties(ruleset) };
    let mut line = String::new();
    for id in ruleset.ids() {
        let matching = ruleset.matching(id);
        let priority = *priorities.get(id.0 as usize).unwrap_or(&ruleset.priority(id));
        let action = actions::action_text(ruleset.action(id)).expect("checked before writing");
        let mut lines = 0;
        for src in port_prefixes(matching.ranges[0]) {
            for dst in port_prefixes(matching.ranges[1]) {
                line.clear();
                write!(line, "priority={priority}").expect("a String takes every write");
                let flow = FlowText { schema: ruleset.schema(), matching };
                flow.write([src, dst], &mut line).expect("checked before writing");
                writeln!(line, " actions={action}").expect("a String takes every write");
                out.write_all(line.as_bytes())?;
                lines += 1;
            }
        }
        report.lines += lines;
        report.rules_split += usize::from(lines > 1);
        let column = ruleset.flags_column(id);
        let is_matched = matching.kind(ruleset.schema(), Field::TcpFlags) != MatchKind::Any;
        let is_lost = column.is_some_and(|c| c.mask != 0) && !is_matched;
        report.flags_columns_lost += usize::from(is_lost);
    }
    Ok(report)
}

/// A priority of its own for each rule, by id: the first in precedence has the largest.
fn falling_priorities(ruleset: &Ruleset) -> Vec<u32> {
    let mut priorities = vec![0; ruleset.len()];
    for (id, priority) in ruleset.ids_by_precedence().into_iter().zip((0..=PRIORITY_MAX).rev()) {
        priorities[id.0 as usize] = priority;
    }
    priorities
}

/// Number of rules that share their priority with another one.
fn ties(ruleset: &Ruleset) -> usize {
    let mut priorities: Vec<u32> = ruleset.ids().map(|id| ruleset.priority(id)).collect();
    priorities.sort_unstable();
    let groups = priorities.chunk_by(|left, right| left == right);
    groups.map(<[u32]>::len).filter(|&len| len > 1).sum()
}

/// What a range needs beyond the mask of its match: one entry without demand for a prefix.
fn port_prefixes(range: PortRange) -> Vec<PortPrefix> {
    match range.as_prefix_mask() {
        Some(_) => vec![PortPrefix { value: 0, mask: 0 }],
        None => range_to_prefixes(range).collect(),
    }
}

/// A rule to write.
struct FlowText<'a> {
    schema: &'a Schema,
    matching: MatchRef<'a>,
}

impl FlowText<'_> {
    fn spec(&self, field: Field) -> Option<&'static FieldSpec> {
        self.schema.field(field)
    }

    /// Value and mask of a field; no demand if the schema lacks it.
    fn demand(&self, field: Field) -> (u128, u128) {
        let read =
            |spec: &FieldSpec| (spec.read(self.matching.value), spec.read(self.matching.mask));
        self.spec(field).map_or((0, 0), read)
    }

    /// The one value of a field, or none if it is free.
    fn exact_or_free(&self, field: Field) -> Result<Option<u128>, String> {
        match self.matching.kind(self.schema, field) {
            MatchKind::Any => Ok(None),
            MatchKind::Exact(value) => Ok(Some(value)),
            _ => {
                let name = self.spec(field).map_or("", |spec| spec.name);
                Err(format!("{name} is matched under a mask, which flow text does not allow"))
            }
        }
    }

    /// Appends all items, each behind a comma; `ports` are demands beside the mask's.
    ///
    /// Fails with the reason if the rule cannot be flow text, whatever `ports` are.
    fn write(&self, ports: [PortPrefix; 2], out: &mut String) -> Result<(), String> {
        let eth_type = match self.spec(Field::EthType) {
            Some(_) => self.exact_or_free(Field::EthType)?.map(|v| v as u16),
            None if self.spec(Field::Ipv4Src).is_some() => Some(ETH_IPV4),
            None => Some(ETH_IPV6),
        };
        let proto = self.exact_or_free(Field::IpProto)?.map(|v| v as u8);
        self.write_link(eth_type, proto, out)?;
        self.write_addresses(eth_type, out)?;
        self.write_tos(eth_type, out)?;
        self.write_transport(eth_type, proto, ports, out)
    }

    /// Port, Ethernet, VLAN, and the protocol words.
    fn write_link(
        &self,
        eth_type: Option<u16>,
        proto: Option<u8>,
        out: &mut String,
    ) -> Result<(), String> {
        let is_ip = matches!(eth_type, Some(ETH_IPV4 | ETH_IPV6));
        let is_arp = matches!(eth_type, Some(ETH_ARP | ETH_RARP));
        let words = |proto| SHORTHANDS.iter().find(|s| s.1 == eth_type && s.2 == proto);
        match (eth_type, words(proto).or(words(None))) {
            (None, _) => {}
            (_, Some((word, ..))) => push(out, format_args!("{word}")),
            (Some(eth_type), None) => push(out, format_args!("dl_type={eth_type:#06x}")),
        }
        match proto {
            Some(proto) if is_arp => push(out, format_args!("arp_op={proto}")),
            Some(proto) if is_ip && words(Some(proto)).is_none() => {
                push(out, format_args!("nw_proto={proto}"));
            }
            Some(_) if !is_ip => return Err("ip_proto is matched without IP or ARP".to_owned()),
            _ => {}
        }
        if let Some(port) = self.exact_or_free(Field::InPort)? {
            let text = values::port_text(port as u32);
            let text = text.ok_or_else(|| format!("flow text has no port {port}"))?;
            push(out, format_args!("in_port={text}"));
        }
        let (tci, mask) = self.demand(Field::VlanTci);
        match mask {
            0 => {}
            _ if mask & 0x1000 != 0 && tci & 0x1000 == 0 && tci != 0 => {
                return Err("it matches no frame: a VLAN id without a VLAN tag".to_owned());
            }
            0x1fff if tci & 0x1000 != 0 => push(out, format_args!("dl_vlan={}", tci & 0xfff)),
            0xf000 if tci & 0x1000 != 0 => push(out, format_args!("dl_vlan_pcp={}", tci >> 13)),
            0xffff if tci & 0x1000 != 0 => {
                push(out, format_args!("dl_vlan={},dl_vlan_pcp={}", tci & 0xfff, tci >> 13));
            }
            _ => push(out, format_args!("vlan_tci={tci:#06x}/{mask:#06x}")),
        }
        self.write_field(Field::EthSrc, "dl_src", out);
        self.write_field(Field::EthDst, "dl_dst", out);
        Ok(())
    }

    /// `name=VALUE` or with a mask, for a field that takes any.
    fn write_field(&self, field: Field, name: &str, out: &mut String) {
        let Some(spec) = self.spec(field) else { return };
        let kind = self.matching.kind(self.schema, field);
        if kind == MatchKind::Any {
            return;
        }
        push(out, format_args!("{name}="));
        value::write_kind(out, spec, kind).expect("a String takes every write");
    }

    fn write_addresses(&self, eth_type: Option<u16>, out: &mut String) -> Result<(), String> {
        let both = self.spec(Field::Ipv4Src).is_some() && self.spec(Field::Ipv6Src).is_some();
        let is_v6 = eth_type == Some(ETH_IPV6);
        let names = match eth_type {
            Some(ETH_IPV4) => ["nw_src", "nw_dst"],
            Some(ETH_ARP | ETH_RARP) => ["arp_spa", "arp_tpa"],
            Some(ETH_IPV6) => ["ipv6_src", "ipv6_dst"],
            _ => ["", ""],
        };
        let pairs = [(Field::Ipv4Src, Field::Ipv6Src), (Field::Ipv4Dst, Field::Ipv6Dst)];
        for ((v4, v6), name) in pairs.into_iter().zip(names) {
            let (v4_mask, v6_mask) = (self.demand(v4).1, self.demand(v6).1);
            let (field, stray) = match is_v6 {
                true if both => (v6, 0),
                true => (v6, v4_mask),
                false if both => (v4, v6_mask >> 32),
                false => (v4, v6_mask),
            };
            if stray != 0 || name.is_empty() && self.demand(field).1 != 0 {
                return Err("an address is matched without its EtherType".to_owned());
            }
            self.write_field(field, name, out);
        }
        Ok(())
    }

    fn write_tos(&self, eth_type: Option<u16>, out: &mut String) -> Result<(), String> {
        let (tos, mask) = self.demand(Field::IpTos);
        if mask != 0 && !matches!(eth_type, Some(ETH_IPV4 | ETH_IPV6)) {
            return Err("ip_tos is matched without IP".to_owned());
        }
        if !matches!(mask & 0xfc, 0 | 0xfc) || !matches!(mask & 3, 0 | 3) {
            return Err("ip_tos is matched under a mask, which flow text does not allow".to_owned());
        }
        if mask & 0xfc != 0 {
            push(out, format_args!("nw_tos={}", tos & 0xfc));
        }
        if mask & 3 != 0 {
            push(out, format_args!("nw_ecn={}", tos & 3));
        }
        Ok(())
    }

    fn write_transport(
        &self,
        eth_type: Option<u16>,
        proto: Option<u8>,
        ports: [PortPrefix; 2],
        out: &mut String,
    ) -> Result<(), String> {
        let is_ip = matches!(eth_type, Some(ETH_IPV4 | ETH_IPV6));
        let is_icmp = eth_type == Some(ETH_IPV4) && proto == Some(1)
            || eth_type == Some(ETH_IPV6) && proto == Some(58);
        let is_icmp = is_icmp && self.spec(Field::EthType).is_some();
        let has_ports = is_ip && matches!(proto, Some(6 | 17 | 132));
        let sides = [
            (Field::L4Src, "tp_src", "icmp_type", ports[0], 0),
            (Field::L4Dst, "tp_dst", "icmp_code", ports[1], 1),
        ];
        for (field, name, icmp_name, extra, side) in sides {
            let (value, mask) = self.demand(field);
            let has_range = self.matching.ranges[side].as_prefix_mask().is_none();
            let (value, mask) = (value as u16 | extra.value, mask as u16 | extra.mask);
            match mask {
                0 if !has_range => {}
                _ if is_icmp => {
                    if has_range || mask != u16::MAX {
                        let text = "is matched under a mask or as a range";
                        return Err(format!("{icmp_name} {text}, which flow text does not allow"));
                    }
                    let name = if value > 0xff { name } else { icmp_name };
                    push(out, format_args!("{name}={value}"));
                }
                _ if !has_ports => {
                    return Err("ports are matched without exactly TCP, UDP or SCTP".to_owned());
                }
                u16::MAX => push(out, format_args!("{name}={value}")),
                mask => push(out, format_args!("{name}={value:#x}/{mask:#x}")),
            }
        }
        let (flags, mask) = self.demand(Field::TcpFlags);
        if mask != 0 && !(is_ip && proto == Some(6)) {
            return Err("tcp_flags are matched without exactly TCP".to_owned());
        }
        if mask != 0 {
            push(out, format_args!("tcp_flags={flags:#x}/{mask:#x}"));
        }
        Ok(())
    }
}

/// Appends an item behind a comma.
fn push(out: &mut String, item: std::fmt::Arguments<'_>) {
    write!(out, ",{item}").expect("a String takes every write");
}
