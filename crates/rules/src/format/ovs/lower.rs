//! From a flow of the widest schema to the schema that was asked for.

use super::super::text::{Fault, Faults};
use super::fields::{ETH_IPV4, ETH_IPV6, Kind, NAMES};
use super::flow::Flow;
use crate::matching::{Match, MatchKind};
use crate::schema::{Field, OPENFLOW12_IPV6, Schema};

/// What `flow` demands, in `schema`; `None` and faults if it cannot.
pub(super) fn to_schema(
    flow: &Flow,
    schema: &'static Schema,
    faults: &mut Faults,
) -> Option<Match> {
    if schema == &OPENFLOW12_IPV6 {
        return Some(flow.matching);
    }
    let is_5tuple = schema.field(Field::EthType).is_none();
    let has_ipv4 = schema.field(Field::Ipv4Src).is_some();
    let family_fits = match flow.eth_type() {
        Some(ETH_IPV6) if is_5tuple => !has_ipv4,
        Some(ETH_IPV4) if is_5tuple => has_ipv4,
        // The OpenFlow schemas hold every EtherType, a 5-tuple implies its own.
        Some(_) => !is_5tuple,
        None => true,
    };
    if !family_fits {
        let message = format!("schema {} cannot represent such packets", schema.name);
        let expected = if has_ipv4 { "IPv4 flows" } else { "IPv6 flows" };
        let fault = Fault::new(flow.eth_type_span.clone(), message, expected);
        faults.push(fault.help("read flows of several families with the schema openflow12_ipv6"));
        return None;
    }
    check_fields(flow, schema, faults);
    let source = flow.matching.as_ref();
    let mut matching = Match::any(schema);
    for spec in schema.fields {
        match source.kind(&OPENFLOW12_IPV6, spec.field) {
            MatchKind::Any => {}
            MatchKind::Range(lo, hi) => _ = matching.set_range(spec.field, lo, hi),
            _ => {
                let wide = OPENFLOW12_IPV6.field(spec.field).expect("it has every field");
                let (value, mask) = (wide.read(source.value), wide.read(source.mask));
                matching.set_mask(spec.field, value, mask);
            }
        }
    }
    Some(matching)
}

/// Reports every name whose field the schema lacks.
fn check_fields(flow: &Flow, schema: &'static Schema, faults: &mut Faults) {
    let is_5tuple = schema.field(Field::EthType).is_none();
    for (idx, span) in &flow.uses {
        let name = &NAMES[*idx];
        let is_there = match name.kind {
            Kind::InPort => schema.field(Field::InPort).is_some(),
            // What a 5-tuple implies may be said.
            Kind::Exact(Field::EthType) => true,
            Kind::Mac(field) | Kind::Exact(field) | Kind::Ipv4(field) | Kind::Ipv6(field) => {
                schema.field(field).is_some()
            }
            Kind::DlVlan | Kind::VlanVid | Kind::VlanPcp | Kind::VlanTci => {
                schema.field(Field::VlanTci).is_some()
            }
            Kind::Tos | Kind::Dscp | Kind::Ecn => schema.field(Field::IpTos).is_some(),
            Kind::TcpFlags => true,
            // The ports of a 5-tuple are ports alone.
            Kind::Masked(_) | Kind::Icmp(_) => !is_5tuple || !flow.is_icmp(),
        };
        if !is_there {
            let message = format!("schema {} has no {}", schema.name, name.name);
            let names: Vec<&str> = schema.fields.iter().map(|s| s.name).collect();
            faults.push(Fault::new(span.clone(), message, names.join(", ")));
        }
    }
}
