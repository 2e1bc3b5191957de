//! From rules of the schema that a text names to those of the schema that was asked for.
//!
//! What a rule says must not change with where it is kept. A 5-tuple speaks of packets of one
//! family alone, so its rules demand that family's EtherType where packets of others have keys,
//! too. The OpenFlow schemas differ in the addresses of IPv6 packets, which one has no room for
//! and the other keeps where those of IPv4 lie: rules that would look at them are refused, as are
//! rules for ICMP alone that demand ports: only the OpenFlow schemas have type and code there.

use std::ops::Range;

use super::text::{Fault, Parsed};
use crate::matching::{Match, MatchKind, MatchRef};
use crate::schema::{Field, FieldSpec, SCHEMAS, Schema};

const ETH_IPV4: u128 = 0x0800;
const ETH_IPV6: u128 = 0x86dd;
const PROTO_ICMP: u128 = 1;
const PROTO_ICMPV6: u128 = 58;

/// Why ports beside the protocol ICMP do not go from 5-tuples to other schemas, or back.
pub(super) const ICMP_PORTS: &str =
    "ICMP has zeros as ports in 5-tuples, its type and code in other schemas";

/// Whether a rule is for ICMP alone and demands ports, which are none.
pub(super) fn has_icmp_ports(schema: &Schema, matching: MatchRef<'_>) -> bool {
    let kind = |field| matching.kind(schema, field);
    matches!(kind(Field::IpProto), MatchKind::Exact(PROTO_ICMP | PROTO_ICMPV6))
        && [Field::L4Src, Field::L4Dst].iter().any(|&field| kind(field) != MatchKind::Any)
}

/// Two schemas: of the text, and of the rules that are made of it. They may be the same.
#[derive(Clone, Copy)]
pub(super) struct Schemas {
    pub of_text: &'static Schema,
    pub of_rules: &'static Schema,
}

/// The EtherType that every key of a schema has; `None` if the keys hold it themselves.
fn family(schema: &Schema) -> Option<u128> {
    let is_ipv4 = schema.field(Field::Ipv4Src).is_some();
    match schema.field(Field::EthType) {
        Some(_) => None,
        None => Some(if is_ipv4 { ETH_IPV4 } else { ETH_IPV6 }),
    }
}

/// Whether packets of that EtherType, and their addresses, are in keys of a schema.
fn has_room(schema: &Schema, ether_type: u128) -> bool {
    let src = if ether_type == ETH_IPV6 { Field::Ipv6Src } else { Field::Ipv4Src };
    schema.field(src).is_some()
}

impl Schemas {
    /// Schemas of which one holds what the other one speaks of; `name` is where the text says
    /// which one it is of.
    pub fn new(
        of_text: &'static Schema,
        of_rules: &'static Schema,
        name: Range<usize>,
    ) -> Parsed<Self> {
        let Some(ether_type) = family(of_text).filter(|&of| !has_room(of_rules, of)) else {
            return Ok(Self { of_text, of_rules });
        };
        let kind = if ether_type == ETH_IPV6 { "IPv6" } else { "IPv4" };
        let message = format!("{kind} rules do not fit schema {}", of_rules.name);
        let fitting = SCHEMAS.iter().filter(|schema| has_room(schema, ether_type));
        let expected = fitting.map(|schema| schema.name).collect::<Vec<_>>().join(", ");
        let help = format!("without an explicit schema, these rules use {}", of_text.name);
        Err(Fault::new(name, message, expected).help(help))
    }

    /// Refuses a field that rules cannot demand.
    pub fn check_field(&self, spec: &FieldSpec, name: Range<usize>) -> Parsed<()> {
        let is_said = spec.field == Field::EthType && family(self.of_rules).is_some();
        if is_said || self.of_rules.field(spec.field).is_some() {
            return Ok(());
        }
        let names: Vec<&str> = self.of_rules.fields.iter().map(|s| s.name).collect();
        let message = format!("unknown field for schema {}", self.of_rules.name);
        Err(Fault::new(name, message, names.join(", ")))
    }

    /// What `matching`, whose fields passed [`Schemas::check_field`], demands in the schema of the
    /// rules; `demands` is where its text stands.
    pub fn convert(&self, matching: Match, demands: Range<usize>) -> Parsed<Match> {
        if self.of_text == self.of_rules {
            return Ok(matching);
        }
        self.check_families(&matching, demands.clone())?;
        self.check_icmp(&matching, demands)?;
        let source = matching.as_ref();
        let mut converted = Match::any(self.of_rules);
        for spec in self.of_rules.fields {
            let Some(from) = self.of_text.field(spec.field) else { continue };
            match source.kind(self.of_text, spec.field) {
                MatchKind::Any => {}
                MatchKind::Range(lo, hi) => _ = converted.set_range(spec.field, lo, hi),
                _ => {
                    let (value, mask) = (from.read(source.value), from.read(source.mask));
                    converted.set_mask(spec.field, value, mask);
                }
            }
        }
        if let (Some(ether_type), None) = (family(self.of_text), family(self.of_rules)) {
            converted.set_exact(Field::EthType, ether_type);
        }
        Ok(converted)
    }

    /// Refuses a rule that would match packets of other families than the text says.
    fn check_families(&self, matching: &Match, demands: Range<usize>) -> Parsed<()> {
        let Some(spec) = self.of_text.field(Field::EthType) else { return Ok(()) };
        let matching = matching.as_ref();
        let (value, mask) = (spec.read(matching.value), spec.read(matching.mask));
        let takes = |ether_type: u128| ether_type & mask == value;
        let name = self.of_rules.name;
        if let Some(ether_type) = family(self.of_rules) {
            if takes(ether_type) {
                return Ok(());
            }
            let message = format!("schema {name} cannot represent such packets");
            let fault = Fault::new(demands, message, format!("eth_type={ether_type:#06x}"));
            return Err(
                fault.help("read rules of several families with the schema openflow12_ipv6")
            );
        }
        let demands_address = [Field::Ipv4Src, Field::Ipv4Dst]
            .iter()
            .any(|&field| matching.kind(self.of_text, field) != MatchKind::Any);
        if !(demands_address && takes(ETH_IPV6)) {
            return Ok(());
        }
        let message = format!(
            "the rule is for IPv6 packets, too, and schema {name} has others of their addresses"
        );
        let fault = Fault::new(demands, message, "a rule with an explicit EtherType");
        Err(fault.help("add eth_type=0x0800, or 0x0806 for ARP"))
    }

    /// Refuses ports of ICMP, which are zero in 5-tuples.
    fn check_icmp(&self, matching: &Match, demands: Range<usize>) -> Parsed<()> {
        let is_other = family(self.of_text).is_some() != family(self.of_rules).is_some();
        if !(is_other && has_icmp_ports(self.of_text, matching.as_ref())) {
            return Ok(());
        }
        let expected = "no l4_src and l4_dst beside this ip_proto";
        let fault = Fault::new(demands, ICMP_PORTS, expected);
        Err(fault.help(format!("read the rules with their own schema, {}", self.of_text.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReadOptions, RulesFormat, read_rules, write_rules};
    use crate::schema::Schema;

    /// Reads canonical rules, `lines` of the schema `of_text`, as rules of `of_rules`.
    fn read(of_text: &str, of_rules: &str, lines: &str) -> Result<String, String> {
        let text = format!("schema {of_text}\n{lines}\n");
        let options = ReadOptions { schema: Schema::by_name(of_rules), ..Default::default() };
        let rules = read_rules("f", &text, &options).map_err(|errors| errors.to_string())?;
        let mut out = Vec::new();
        write_rules(&rules, RulesFormat::Canonical, &mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        let (head, rules) = written.split_once('\n').unwrap();
        assert_eq!(head, format!("schema {of_rules}"));
        Ok(rules.trim_end().to_owned())
    }

    #[test]
    fn rules_say_the_same_in_another_schema() {
        let check = |of_text, of_rules, demands: &str, expected: &str| {
            let demands = format!("priority=1{demands} -> drop");
            let expected = format!("priority=1{expected} -> drop");
            assert_eq!(read(of_text, of_rules, &demands), Ok(expected), "{of_text} {of_rules}");
        };
        let (v4, v6, of, of6) = ("ipv4_5tuple", "ipv6_5tuple", "openflow12", "openflow12_ipv6");
        let web = ", ipv4_src=10.0.0.0/8, l4_dst=80..90, ip_proto=6, tcp_flags=0x002/0x012";
        for to in [of, of6] {
            check(v4, to, web, &format!(", eth_type=0x0800{web}"));
            check(v4, to, "", ", eth_type=0x0800");
        }
        let web6 = ", ipv6_dst=2001:db8::/32, l4_dst=80";
        check(v6, of6, web6, &format!(", eth_type=0x86dd{web6}"));
        // What is there already is not demanded twice, and what a 5-tuple implies may be said.
        let said = format!(", eth_type=0x0800{web}");
        check(of, of6, &said, &said);
        check(of6, of, &said, &said);
        check(of, v4, &said, web);
        check(of, v4, ", eth_type=0x0800/0xff00, l4_dst=1", ", l4_dst=1");
        check(of6, v6, ", eth_type=0x86dd, ipv6_dst=::1", ", ipv6_dst=::1");
        check(of6, v4, ", ipv4_dst=1.2.3.4", ", ipv4_dst=1.2.3.4");
        check(
            of,
            of6,
            ", in_port=3, eth_type=0x0806, ipv4_src=1.2.3.4",
            ", in_port=3, eth_type=0x0806, ipv4_src=1.2.3.4",
        );
        check(of, of6, ", in_port=3, l4_dst=80", ", in_port=3, l4_dst=80");
        check(of, of6, ", l4_src=8, ip_proto=1", ", l4_src=8, ip_proto=1");
    }

    #[test]
    fn rules_that_would_say_something_else_are_refused() {
        let check = |of_text, of_rules, demands: &str, expected: &str| {
            let error = read(of_text, of_rules, &format!("{demands} -> drop")).unwrap_err();
            assert!(error.contains(expected), "{of_text} {of_rules} {demands}: {error}");
        };
        let (v4, v6, of, of6) = ("ipv4_5tuple", "ipv6_5tuple", "openflow12", "openflow12_ipv6");
        check(v4, v6, "l4_dst=80", "IPv4 rules do not fit schema ipv6_5tuple");
        check(v6, v4, "l4_dst=80", "^^^^^^^^^^^ expected ipv6_5tuple, openflow12_ipv6");
        check(v6, of, "", "IPv6 rules do not fit schema openflow12");
        check(v4, of, "in_port=1", "unknown field for schema ipv4_5tuple");
        check(of, v4, "in_port=1", "unknown field for schema ipv4_5tuple");
        check(of6, v4, "ipv6_src=::1", "unknown field for schema ipv4_5tuple");
        check(of6, of, "ipv6_src=::1", "unknown field for schema openflow12");
        check(of, v4, "eth_type=0x86dd", "schema ipv4_5tuple cannot represent such packets");
        check(of, of6, "ipv4_dst=1.2.3.4", "for IPv6 packets, too");
        check(of6, of, "ipv4_dst=1.2.3.4, ip_proto=6", "for IPv6 packets, too");
        check(v4, of, "l4_src=8, ip_proto=1", "zeros as ports");
        check(of6, v6, "l4_src=8, ip_proto=58", "zeros as ports");
    }
}
