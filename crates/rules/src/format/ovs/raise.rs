//! Rules as flow text.
//!
//! Flow text has no port ranges: a rule with ranges becomes one flow for each pair of prefixes. A
//! rule of a 5-tuple schema becomes a flow of that family.
//!
//! Other readers leave open which of two flows of one priority wins. Where rules share priority 0,
//! as those of a list do, the order of precedence of all rules therefore becomes falling
//! priorities; a list that is too long for 16 bits is refused. Other ties were written as
//! priorities in the source: they are kept, and counted for the caller to warn of.

use std::io::{self, Write};

use super::super::{RulesFormat, WriteError, WriteReport};
use super::lower::{flow_field, from_action};
use super::names::{ETH_ARP, ETH_IPV4, ETH_IPV6, ETH_RARP, Needs, known};
use super::{flow_text, values};
use crate::expand::{PortPrefix, range_to_prefixes};
use crate::matching::{MatchKind, MatchRef, PortRange};
use crate::openflow::{FieldNeeds, Flow, FlowMatch};
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
    let ports = [PortPrefix { value: 0, mask: 0 }; 2];
    let source = Source { schema: ruleset.schema(), matching: ruleset.matching(id) };
    match source.to_flow(ports) {
        Err(why) => Some(why),
        Ok(matching) if from_action(ruleset.action(id), &matching).is_none() => {
            Some(format!("flow text has no action {}", ruleset.action(id)))
        }
        Ok(_) => None,
    }
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
    for id in ruleset.ids() {
        let matching = ruleset.matching(id);
        let priority = *priorities.get(id.0 as usize).unwrap_or(&ruleset.priority(id));
        let source = Source { schema: ruleset.schema(), matching };
        let mut lines = 0;
        for src in port_prefixes(matching.ranges[0]) {
            for dst in port_prefixes(matching.ranges[1]) {
                let flow_match = source.to_flow([src, dst]).expect("checked before writing");
                let instructions =
                    from_action(ruleset.action(id), &flow_match).expect("checked before writing");
                let flow = Flow::new(priority as u16, flow_match, instructions);
                writeln!(out, "{}", flow_text(&flow))?;
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

/// A rule to write as a flow.
struct Source<'a> {
    schema: &'a Schema,
    matching: MatchRef<'a>,
}

impl Source<'_> {
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

    /// The match with the demands of `ports` beside the mask's.
    ///
    /// Fails with the reason if the rule cannot be flow text, whatever `ports` are.
    fn to_flow(&self, ports: [PortPrefix; 2]) -> Result<FlowMatch, String> {
        let eth_type = match self.spec(Field::EthType) {
            Some(_) => self.exact_or_free(Field::EthType)?.map(|v| v as u16),
            None if self.spec(Field::Ipv4Src).is_some() => Some(ETH_IPV4),
            None => Some(ETH_IPV6),
        };
        let proto = self.exact_or_free(Field::IpProto)?.map(|v| v as u8);
        let mut flow = FlowMatch::any();
        if let Some(eth_type) = eth_type {
            flow.set(known("eth_type"), eth_type.into(), u128::MAX);
        }
        self.link(&mut flow)?;
        self.proto(eth_type, proto, &mut flow)?;
        self.addresses(eth_type, &mut flow)?;
        self.tos(eth_type, &mut flow)?;
        self.transport(&mut flow, ports)?;
        Ok(flow)
    }

    /// Copies a field that takes any mask.
    fn copy(&self, field: Field, flow: &mut FlowMatch) {
        let (value, mask) = self.demand(field);
        flow.set(flow_field(field), value, mask);
    }

    /// Port, Ethernet addresses and VLAN.
    fn link(&self, flow: &mut FlowMatch) -> Result<(), String> {
        if let Some(port) = self.exact_or_free(Field::InPort)? {
            if !values::has_port_text(port as u32) {
                return Err(format!("flow text has no port {port}"));
            }
            self.copy(Field::InPort, flow);
        }
        let (tci, mask) = self.demand(Field::VlanTci);
        if mask & 0x1000 != 0 && tci & 0x1000 == 0 && tci != 0 {
            return Err("it matches no frame: a VLAN id without a VLAN tag".to_owned());
        }
        // Of frames without a tag, OpenFlow 1.3 has no priority.
        let is_untagged = (tci, mask & 0x1fff) == (0, 0x1fff);
        flow.set(known("vlan_tci"), tci, if is_untagged { 0x1fff } else { mask });
        self.copy(Field::EthSrc, flow);
        self.copy(Field::EthDst, flow);
        Ok(())
    }

    fn proto(
        &self,
        eth_type: Option<u16>,
        proto: Option<u8>,
        flow: &mut FlowMatch,
    ) -> Result<(), String> {
        let Some(proto) = proto else { return Ok(()) };
        let field = match eth_type {
            Some(ETH_ARP | ETH_RARP) => "arp_op",
            Some(ETH_IPV4 | ETH_IPV6) => "nw_proto",
            _ => return Err("ip_proto is matched without IP or ARP".to_owned()),
        };
        flow.set(known(field), proto.into(), u128::MAX);
        Ok(())
    }

    fn addresses(&self, eth_type: Option<u16>, flow: &mut FlowMatch) -> Result<(), String> {
        let both = self.spec(Field::Ipv4Src).is_some() && self.spec(Field::Ipv6Src).is_some();
        let is_v6 = eth_type == Some(ETH_IPV6);
        let has_addresses = is_v6 || matches!(eth_type, Some(ETH_IPV4 | ETH_ARP | ETH_RARP));
        let pairs = [(Field::Ipv4Src, Field::Ipv6Src), (Field::Ipv4Dst, Field::Ipv6Dst)];
        for (v4, v6) in pairs {
            let (v4_mask, v6_mask) = (self.demand(v4).1, self.demand(v6).1);
            let (field, stray) = match is_v6 {
                true if both => (v6, 0),
                true => (v6, v4_mask),
                false if both => (v4, v6_mask >> 32),
                false => (v4, v6_mask),
            };
            if stray != 0 || !has_addresses && self.demand(field).1 != 0 {
                return Err("an address is matched without its EtherType".to_owned());
            }
            self.copy(field, flow);
        }
        Ok(())
    }

    fn tos(&self, eth_type: Option<u16>, flow: &mut FlowMatch) -> Result<(), String> {
        let (_, mask) = self.demand(Field::IpTos);
        if mask != 0 && !matches!(eth_type, Some(ETH_IPV4 | ETH_IPV6)) {
            return Err("ip_tos is matched without IP".to_owned());
        }
        if !matches!(mask & 0xfc, 0 | 0xfc) || !matches!(mask & 3, 0 | 3) {
            return Err("ip_tos is matched under a mask, which flow text does not allow".to_owned());
        }
        self.copy(Field::IpTos, flow);
        Ok(())
    }

    fn transport(&self, flow: &mut FlowMatch, ports: [PortPrefix; 2]) -> Result<(), String> {
        let is_icmp = Needs::Icmp.are_met(flow) && self.spec(Field::EthType).is_some();
        let has_ports = [6, 17, 132].iter().any(|p| FieldNeeds::Proto(*p).are_met(flow));
        let sides =
            [(Field::L4Src, "icmp_type", ports[0], 0), (Field::L4Dst, "icmp_code", ports[1], 1)];
        for (field, icmp_name, extra, side) in sides {
            let (value, mask) = self.demand(field);
            let has_range = self.matching.ranges[side].as_prefix_mask().is_none();
            let (value, mask) = (value | u128::from(extra.value), mask | u128::from(extra.mask));
            match mask {
                0 if !has_range => {}
                _ if is_icmp && (has_range || mask != 0xffff) => {
                    let text = "is matched under a mask or as a range";
                    return Err(format!("{icmp_name} {text}, which flow text does not allow"));
                }
                _ if is_icmp && value > 0xff => {
                    return Err(format!("it matches no frame: {icmp_name} above 255"));
                }
                _ if is_icmp => _ = flow.set(known(icmp_name), value, u128::MAX),
                _ if !has_ports => {
                    return Err("ports are matched without exactly TCP, UDP or SCTP".to_owned());
                }
                mask => _ = flow.set(flow_field(field), value, mask),
            }
        }
        let (_, mask) = self.demand(Field::TcpFlags);
        if mask != 0 && !FieldNeeds::Proto(6).are_met(flow) {
            return Err("tcp_flags are matched without exactly TCP".to_owned());
        }
        self.copy(Field::TcpFlags, flow);
        Ok(())
    }
}
