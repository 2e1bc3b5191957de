//! From flows of OpenFlow 1.3 to rules of the schema that was asked for.

use std::ops::Range;

use super::super::text::{Fault, Faults, Token};
use super::demands::{Demands, Use};
use super::names::{ETH_IPV4, ETH_IPV6, Needs, known};
use super::{action_text, actions, values};
use crate::matching::Match;
use crate::openflow::{FlowAction, FlowMatch, Instructions, MatchField, port};
use crate::rule::Action;
use crate::schema::{Field, OPENFLOW12, Schema};

/// The schema's field for a field of OpenFlow 1.3.
fn schema_field(field: &MatchField) -> Option<Field> {
    Some(match field.name {
        "in_port" => Field::InPort,
        "eth_src" => Field::EthSrc,
        "eth_dst" => Field::EthDst,
        "eth_type" => Field::EthType,
        "vlan_vid" | "vlan_pcp" | "vlan_tci" => Field::VlanTci,
        "ip_src" | "arp_spa" => Field::Ipv4Src,
        "ip_dst" | "arp_tpa" => Field::Ipv4Dst,
        "ipv6_src" => Field::Ipv6Src,
        "ipv6_dst" => Field::Ipv6Dst,
        "tcp_src" | "udp_src" | "sctp_src" | "icmp_type" | "icmpv6_type" => Field::L4Src,
        "tcp_dst" | "udp_dst" | "sctp_dst" | "icmp_code" | "icmpv6_code" => Field::L4Dst,
        "nw_proto" | "arp_op" => Field::IpProto,
        "ip_dscp" | "nw_ecn" | "nw_tos" => Field::IpTos,
        "tcp_flags" => Field::TcpFlags,
        _ => return None,
    })
}

/// The field of OpenFlow 1.3 whose bits have the place of a schema's field, for flows that are not
/// ARP.
pub(in crate::format) fn flow_field(field: Field) -> &'static MatchField {
    known(match field {
        Field::InPort => "in_port",
        Field::EthSrc => "eth_src",
        Field::EthDst => "eth_dst",
        Field::EthType => "eth_type",
        Field::VlanTci => "vlan_tci",
        Field::Ipv4Src => "ip_src",
        Field::Ipv4Dst => "ip_dst",
        Field::Ipv6Src => "ipv6_src",
        Field::Ipv6Dst => "ipv6_dst",
        Field::L4Src => "tcp_src",
        Field::L4Dst => "tcp_dst",
        Field::IpProto => "nw_proto",
        Field::IpTos => "nw_tos",
        Field::TcpFlags => "tcp_flags",
    })
}

/// Reports a table other than the first: a rule set is one table.
pub(super) fn check_table(table: Option<&(u8, Range<usize>)>, faults: &mut Faults) {
    if let Some((table, span)) = table
        && !matches!(*table, 0 | port::TABLE_ALL)
    {
        let message = "flows of several tables are not supported";
        faults.push(Fault::new(span.clone(), message, "table=0"));
    }
}

/// What a flow demands, in `schema`; `None` and faults if it cannot.
pub(super) fn to_schema(
    demands: &Demands,
    schema: &'static Schema,
    faults: &mut Faults,
) -> Option<Match> {
    let is_5tuple = schema.field(Field::EthType).is_none();
    let has_ipv4 = schema.field(Field::Ipv4Src).is_some();
    let family_fits = match demands.eth_type() {
        Some(ETH_IPV6) => schema.field(Field::Ipv6Src).is_some() || schema == &OPENFLOW12,
        Some(ETH_IPV4) if is_5tuple => has_ipv4,
        // The OpenFlow schemas hold every EtherType, a 5-tuple implies its own.
        Some(_) => !is_5tuple,
        None => true,
    };
    if !family_fits {
        let message = format!("schema {} cannot represent such packets", schema.name);
        let expected = if has_ipv4 { "IPv4 flows" } else { "IPv6 flows" };
        let fault = Fault::new(demands.eth_type_span.clone(), message, expected);
        faults.push(fault.help("read flows of several families with the schema openflow12_ipv6"));
        return None;
    }
    check_fields(demands, schema, faults);
    let mut matching = Match::any(schema);
    for spec in schema.fields {
        let is_other_family = match spec.field {
            Field::Ipv4Src | Field::Ipv4Dst => demands.is_ipv6(),
            Field::Ipv6Src | Field::Ipv6Dst => !demands.is_ipv6(),
            _ => false,
        };
        let (value, mask) = bits(demands, spec.field);
        if !is_other_family && mask != 0 {
            matching.set_mask(spec.field, value, mask);
        }
    }
    Some(matching)
}

/// What a flow demands of a schema's field.
fn bits(demands: &Demands, field: Field) -> (u128, u128) {
    let matching = &demands.matching;
    let (value, mask) = matching.get(flow_field(field));
    match field {
        // The operation of ARP has the place of the protocol.
        Field::IpProto if matching.get(known("arp_op")).1 != 0 => {
            let (value, mask) = matching.get(known("arp_op"));
            (value & 0xff, mask & 0xff)
        }
        // Type and code of ICMP have the places of the ports, upper bits zero.
        Field::L4Src | Field::L4Dst if mask == 0xff && Needs::Icmp.are_met(matching) => {
            (value, 0xffff)
        }
        // No tag is no priority either.
        Field::VlanTci if (value & 0x1fff, mask & 0x1fff) == (0, 0x1fff) => (value, 0xffff),
        _ => (value, mask),
    }
}

/// Reports every name whose field the schema lacks.
fn check_fields(demands: &Demands, schema: &'static Schema, faults: &mut Faults) {
    let is_5tuple = schema.field(Field::EthType).is_none();
    for Use { name, span } in &demands.uses {
        let field = schema_field(name.field);
        let is_there = match field {
            // What a 5-tuple implies may be given.
            Some(Field::EthType) => true,
            // The ports of a 5-tuple are ports alone.
            Some(Field::L4Src | Field::L4Dst) => {
                !is_5tuple || !Needs::Icmp.are_met(&demands.matching)
            }
            Some(field) => schema.field(field).is_some(),
            None => false,
        };
        let is_wide = name.field.name == "arp_op" && demands.matching.get(name.field).0 > 0xff;
        if !is_there {
            let message = format!("schema {} has no {}", schema.name, name.name);
            let names: Vec<&str> = schema.fields.iter().map(|s| s.name).collect();
            faults.push(Fault::new(span.clone(), message, names.join(", ")));
        } else if is_wide {
            let message = format!("schema {} has one byte for {}", schema.name, name.name);
            faults.push(Fault::new(span.clone(), message, "a number from 0 to 255"));
        }
    }
}

/// The action of a rule: those that a rule set knows, or else the text of the instructions.
pub(super) fn to_action(instructions: &Instructions) -> Action {
    let Instructions { apply, .. } = instructions;
    let applies_alone = *instructions == Instructions { apply: apply.clone(), ..<_>::default() };
    let known = if applies_alone { known_action(apply) } else { None };
    known.unwrap_or_else(|| Action::List(action_text::instructions(instructions).into()))
}

fn known_action(apply: &[FlowAction]) -> Option<Action> {
    let normal = FlowAction::Output { port: port::NORMAL, max_len: 0 };
    Some(match apply {
        [] => Action::Drop,
        [one] if *one == normal => Action::Pass,
        [FlowAction::Output { port, .. }] if *port <= port::MAX || *port == port::LOCAL => {
            Action::Output(*port)
        }
        [one] => Action::Mark(mark(one)?),
        [one, pass] if *pass == normal => Action::Mark(mark(one)?),
        _ => return None,
    })
}

/// The mark that an action sets as a whole.
fn mark(action: &FlowAction) -> Option<u32> {
    match action {
        FlowAction::SetField { field, value, mask } if field.name == "pkt_mark" => {
            (*mask == field.range.value_max()).then_some(*value as u32)
        }
        _ => None,
    }
}

/// The instructions of a rule with such a match; `None` if flow text cannot have them.
pub(super) fn from_action(action: &Action, matching: &FlowMatch) -> Option<Instructions> {
    let output = |port| FlowAction::Output { port, max_len: 0 };
    let apply = match action {
        Action::Drop => Vec::new(),
        Action::Pass => vec![output(port::NORMAL)],
        Action::Mark(mark) => {
            let field = known("pkt_mark");
            let mask = field.range.value_max();
            let set = FlowAction::SetField { field, value: (*mark).into(), mask };
            vec![set, output(port::NORMAL)]
        }
        // The other reserved ports are no ports to send out of but actions of their own.
        Action::Output(port) if *port > port::MAX && *port != port::LOCAL => return None,
        Action::Output(port) if !values::has_port_text(*port) => return None,
        Action::Output(port) => vec![output(*port)],
        Action::List(text) => {
            let mut faults = Faults::default();
            let token = Token { bytes: text.as_bytes(), start: 0 };
            let read = actions::Reader::new(matching, &mut faults).instructions(token);
            let is_line = !text.contains(['\n', '\r', '#']);
            return read.filter(|_| faults.is_empty() && is_line);
        }
    };
    Some(Instructions { apply, ..Instructions::default() })
}
