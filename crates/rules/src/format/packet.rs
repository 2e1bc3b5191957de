//! One packet as text, for people who ask what happens to it.
//!
//! ```text
//! tcp 10.0.0.1:1234 > 10.0.0.2:80 flags S      udp [2001:db8::1]:53 > [2001:db8::2]:53
//! icmp 10.0.0.1 > 10.0.0.2 type 8 code 0       ip 10.0.0.1 > 10.0.0.2 proto 47
//! in_port=1,tcp,nw_src=10.0.0.1,tp_dst=80      ipv4_src=10.0.0.1,l4_dst=80,ip_proto=6
//! ```
//! Three forms: protocol, source, `>`, destination, options; flow text without masks and actions;
//! the canonical text of a key. Flags are letters as `tcpdump` prints them (`S.` is SYN and ACK,
//! `SA` too), a number, or names as in flow text. In the first form, fields of the schema follow as
//! `in_port 3` or `in_port=3`. What the text does not say is zero. ICMP type and code are part of
//! a key in the OpenFlow schemas alone; elsewhere they are read over.

use std::net::Ipv6Addr;

use super::text::{self, Fault, Faults, Parsed, Reporter, Token, is_space};
use super::{canonical, ovs, value};
use crate::diagnostic::Diagnostics;
use crate::openflow::{FLOW_WORDS, FlowKey};
use crate::schema::{Field, OPENFLOW12_IPV6, Schema};

/// The name that diagnostics use for the text.
const FILE: &str = "packet";

/// Reads one packet as a key of `schema`.
///
/// # Errors
/// Every error of the text, a field that the schema lacks among them.
pub fn parse_packet(text: &str, schema: &'static Schema) -> Result<Vec<u32>, Diagnostics> {
    let mut reporter = Reporter::new(FILE);
    let mut faults = Faults::default();
    let mut key = vec![0; schema.words];
    let line = text.as_bytes();
    let token = Token::new(line, 0..line.len());
    if memchr::memchr(b'>', line).is_some() {
        Arrow { schema, key: &mut key, faults: &mut faults }.read(token);
    } else if memchr::memchr(b'=', line).is_some() {
        key_or_flow(token, schema, &mut key, &mut faults);
    } else {
        let fault = Fault::new(0..line.len(), "not a packet", "tcp 10.0.0.1:1234 > 10.0.0.2:80");
        faults.push(fault.help("flow text without masks is read too: in_port=1,tcp,tp_dst=80"));
    }
    reporter.faults(1, line, &mut faults);
    reporter.diagnostics.into_result(key)
}

/// Reads one packet as a flow key: the form with an arrow, or flow text without masks and actions.
///
/// # Errors
/// Every error of the text.
pub fn parse_flow_key(text: &str) -> Result<FlowKey, Diagnostics> {
    if memchr::memchr(b'>', text.as_bytes()).is_none() {
        return ovs::parse_key(text);
    }
    let words = parse_packet(text, &OPENFLOW12_IPV6)?;
    let mut key = [0; FLOW_WORDS];
    for spec in OPENFLOW12_IPV6.fields {
        // IPv4 addresses are the low bits of IPv6 addresses in both keys.
        if !matches!(spec.field, Field::Ipv4Src | Field::Ipv4Dst) {
            ovs::flow_field(spec.field).range.write(&mut key, spec.read(&words));
        }
    }
    Ok(key)
}

/// Reads the canonical text of a key, or flow text.
///
/// Some names are in both forms: a text that is wrong as canonical is read as flow text, unless it
/// has a name that flow text lacks.
fn key_or_flow(text: Token<'_>, schema: &'static Schema, key: &mut [u32], faults: &mut Faults) {
    let items = text.bytes.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    let mut names = items.filter_map(|item| item.split(|b| *b == b'=').next());
    let own = [&b"ipv4_src"[..], b"ipv4_dst", b"l4_src", b"l4_dst", b"ip_tos"];
    let is_canonical = names.any(|name| own.contains(&name));
    let mut canonical_faults = Faults::default();
    canonical::parse_key(text.bytes, text.start, schema, key, &mut canonical_faults);
    if canonical_faults.is_empty() || is_canonical {
        *faults = canonical_faults;
    } else if let Some(matching) = ovs::read_match(text, schema, faults) {
        key.copy_from_slice(matching.as_ref().value);
    }
}

/// Reads the form with an arrow.
struct Arrow<'a> {
    schema: &'static Schema,
    key: &'a mut [u32],
    faults: &'a mut Faults,
}

/// What a protocol word says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    /// A protocol with ports.
    Ports(u8),
    /// ICMP of the addresses' family.
    Icmp,
    /// Any protocol.
    Ip,
}

/// An address of either family.
#[derive(Clone, Copy)]
enum Address {
    Ipv4(u32),
    Ipv6(u128),
}

impl Arrow<'_> {
    fn read(&mut self, text: Token<'_>) {
        let arrow = memchr::memchr(b'>', text.bytes).expect("the caller has found it");
        let left_end = if text.bytes[..arrow].ends_with(b"-") { arrow - 1 } else { arrow };
        let left: Vec<Token<'_>> = words(text.part(0..left_end)).collect();
        let mut right = words(text.part(arrow + 1..text.bytes.len()));
        let [protocol, src] = left[..] else {
            let message = "invalid packet: missing protocol or source before the arrow";
            let expected = "PROTOCOL SOURCE > DESTINATION, as tcp 10.0.0.1:1234 > 10.0.0.2:80";
            self.faults.push(Fault::new(0..text.start + left_end, message, expected));
            return;
        };
        let Some(word) = self.faults.note(word(protocol)) else { return };
        let at = text.span().end;
        let dst = right.next().unwrap_or(Token { bytes: b"", start: at });
        let src = self.faults.note(endpoint(src, word));
        let dst = self.faults.note(endpoint(dst, word));
        let (Some((src, l4_src)), Some((dst, l4_dst))) = (src, dst) else { return };
        let is_ipv6 = self.set_addresses(src, dst, text);
        let proto = match word {
            Word::Ports(proto) => proto,
            Word::Icmp if is_ipv6 => 58,
            Word::Icmp => 1,
            Word::Ip => 0,
        };
        self.set(Field::IpProto, proto.into());
        self.set(Field::L4Src, l4_src.into());
        self.set(Field::L4Dst, l4_dst.into());
        self.options(word, right, at);
    }

    /// Sets a field if the schema has it, and tells whether it does.
    fn set(&mut self, field: Field, value: u128) -> bool {
        let spec = self.schema.field(field);
        spec.inspect(|spec| spec.write(self.key, value)).is_some()
    }

    /// Sets both addresses and the EtherType; tells whether they are IPv6.
    fn set_addresses(&mut self, src: Address, dst: Address, text: Token<'_>) -> bool {
        let (family, is_there) = match (src, dst) {
            (Address::Ipv4(src), Address::Ipv4(dst)) => {
                self.set(Field::EthType, 0x0800);
                let src = self.set(Field::Ipv4Src, src.into());
                ("IPv4", self.set(Field::Ipv4Dst, dst.into()) && src)
            }
            (Address::Ipv6(src), Address::Ipv6(dst)) => {
                self.set(Field::EthType, 0x86dd);
                let src = self.set(Field::Ipv6Src, src);
                ("IPv6", self.set(Field::Ipv6Dst, dst) && src)
            }
            _ => {
                let message = "one address is IPv4, the other IPv6";
                self.faults.push(Fault::new(text.span(), message, "two addresses of one family"));
                return false;
            }
        };
        if !is_there {
            let message = format!("the rules are of schema {}, without {family}", self.schema.name);
            self.faults.push(Fault::new(text.span(), message, "addresses of the rules' family"));
        }
        family == "IPv6"
    }

    /// Reads the pairs of name and value behind the destination.
    fn options<'t>(&mut self, word: Word, mut rest: impl Iterator<Item = Token<'t>>, end: usize) {
        while let Some(token) = rest.next() {
            let (name, value) = match token.split_at_byte(b'=') {
                Some((name, value)) => (name, value),
                None => (token, rest.next().unwrap_or(Token { bytes: b"", start: end })),
            };
            if let Err(fault) = self.option(word, name, value) {
                self.faults.push(fault);
            }
        }
    }

    fn option(&mut self, word: Word, name: Token<'_>, value: Token<'_>) -> Parsed<()> {
        match (name.bytes, word) {
            (b"flags", Word::Ports(6)) => {
                let flags = flags(value)?;
                self.set(Field::TcpFlags, flags.into());
            }
            (b"type" | b"code", Word::Icmp) => {
                let number = text::number(value, 255, "the number")?;
                let is_type = name.bytes == b"type";
                if self.schema.field(Field::EthType).is_some() {
                    self.set(if is_type { Field::L4Src } else { Field::L4Dst }, number);
                }
            }
            (b"proto", Word::Ip) => {
                let number = text::number(value, 255, "the protocol")?;
                self.set(Field::IpProto, number);
            }
            _ => {
                let others = [Field::InPort, Field::EthSrc, Field::EthDst, Field::VlanTci];
                let more = [Field::IpTos, Field::TcpFlags];
                let spec = self.schema.fields.iter().find(|spec| {
                    spec.name.as_bytes() == name.bytes
                        && others.iter().chain(&more).any(|field| *field == spec.field)
                });
                let Some(spec) = spec else {
                    let expected = match word {
                        Word::Ports(6) => "flags FLAGS, or a field of the schema and its value",
                        Word::Icmp => "type N, code N, or a field of the schema and its value",
                        Word::Ip => "proto N, or a field of the schema and its value",
                        Word::Ports(_) => "a field of the schema and its value",
                    };
                    let message = "unexpected word for this packet";
                    return Err(Fault::new(name.span(), message, expected));
                };
                spec.write(self.key, value::parse_value(spec, value)?);
            }
        }
        Ok(())
    }
}

/// The parts between blanks.
fn words<'a>(token: Token<'a>) -> impl Iterator<Item = Token<'a>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &token.bytes[at..];
        let start = at + rest.iter().position(|b| !is_space(*b) && *b != b',')?;
        let rest = &token.bytes[start..];
        let len = rest.iter().position(|b| is_space(*b) || *b == b',').unwrap_or(rest.len());
        at = start + len;
        Some(token.part(start..at))
    })
}

fn word(token: Token<'_>) -> Parsed<Word> {
    match token.bytes {
        b"tcp" | b"tcp6" => Ok(Word::Ports(6)),
        b"udp" | b"udp6" => Ok(Word::Ports(17)),
        b"sctp" | b"sctp6" => Ok(Word::Ports(132)),
        b"icmp" | b"icmp6" => Ok(Word::Icmp),
        b"ip" | b"ip6" | b"ipv4" | b"ipv6" => Ok(Word::Ip),
        _ => Err(Fault::new(token.span(), "unknown protocol", "tcp, udp, sctp, icmp or ip")),
    }
}

/// An address, with a port if the protocol has them.
fn endpoint(token: Token<'_>, word: Word) -> Parsed<(Address, u16)> {
    let has_ports = matches!(word, Word::Ports(_));
    let colons = token.bytes.iter().filter(|b| **b == b':').count();
    let (address, port) = match (token.bytes.first(), memchr::memchr(b']', token.bytes)) {
        (Some(b'['), Some(close)) => {
            let behind = token.part(close + 1..token.bytes.len());
            (token.part(1..close), Some(behind))
        }
        _ if colons == 1 => {
            let at = memchr::memchr(b':', token.bytes).expect("counted above");
            (token.part(0..at), Some(token.part(at..token.bytes.len())))
        }
        _ => (token, None),
    };
    let address = match memchr::memchr(b':', address.bytes) {
        Some(_) => Address::Ipv6(text::ipv6(address)?),
        None => Address::Ipv4(text::ipv4(address)?),
    };
    match port.filter(|port| !port.bytes.is_empty()) {
        Some(port) if has_ports && port.bytes[0] == b':' => {
            let number = text::decimal(port.part(1..port.bytes.len()), 65535, "the port")?;
            Ok((address, number as u16))
        }
        Some(port) => {
            let message = if has_ports { "no port" } else { "a port for a protocol without ports" };
            Err(Fault::new(port.span(), message, if has_ports { ":PORT" } else { "a blank" }))
        }
        None if has_ports => {
            let end = token.span().end;
            let fault = Fault::new(end..end, "the port is missing", ":PORT");
            Err(match address {
                Address::Ipv4(_) => fault,
                Address::Ipv6(bits) => {
                    fault.help(format!("write [{}]:80", Ipv6Addr::from_bits(bits)))
                }
            })
        }
        None => Ok((address, 0)),
    }
}

/// TCP flags as letters, or in any form of flow text.
fn flags(token: Token<'_>) -> Parsed<u16> {
    // FIN is the lowest bit; tcpdump writes ACK as a dot.
    let letters = b"FSRPAUEW";
    let mut value = 0;
    for byte in token.bytes {
        let letter = if *byte == b'.' { b'A' } else { *byte };
        match letters.iter().position(|l| *l == letter) {
            Some(bit) => value |= 1 << bit,
            None => return ovs::tcp_flags(token).map(|(value, mask)| value & mask),
        }
    }
    if token.bytes.is_empty() {
        return Err(Fault::new(
            token.span(),
            "the flags are missing",
            "letters as S or S., 0x02, or syn|ack",
        ));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::super::format_key;
    use super::*;
    use crate::schema::{IPV4_5TUPLE, IPV6_5TUPLE, OPENFLOW12, SCHEMAS};

    fn check(text: &str, schema: &'static Schema, expected: &str) {
        let key = parse_packet(text, schema).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(format_key(schema, &key), expected, "{text}");
    }

    #[test]
    fn packets_of_every_form() {
        let tuple = "ipv4_src=10.0.0.1,ipv4_dst=10.0.0.2,l4_src=1234,l4_dst=80,ip_proto=6";
        check("tcp 10.0.0.1:1234 > 10.0.0.2:80", &IPV4_5TUPLE, tuple);
        check("  tcp 10.0.0.1:1234->10.0.0.2:80 ", &IPV4_5TUPLE, tuple);
        check(tuple, &IPV4_5TUPLE, tuple);
        let flow = "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1234,tp_dst=80";
        check(flow, &IPV4_5TUPLE, tuple);
        for syn in ["S", "0x02", "syn", "+syn-ack"] {
            let text = format!("tcp 10.0.0.1:1234 > 10.0.0.2:80 flags {syn}");
            check(&text, &IPV4_5TUPLE, &format!("{tuple},tcp_flags=0x002"));
        }
        let both = "tcp 1.1.1.1:1 > 1.1.1.1:1 flags S.";
        assert_eq!(parse_packet(both, &IPV4_5TUPLE).unwrap()[3], 6 << 24 | 0x12);
        let v6 = "ipv6_src=2001:db8::1,ipv6_dst=::2,l4_src=53,l4_dst=54,ip_proto=17";
        check("udp [2001:db8::1]:53 > [::2]:54", &IPV6_5TUPLE, v6);
        check("ip 10.0.0.1 > 10.0.0.2 proto 47", &OPENFLOW12, {
            "eth_type=0x0800,ipv4_src=10.0.0.1,ipv4_dst=10.0.0.2,ip_proto=47"
        });
        check("icmp 10.0.0.1 > 10.0.0.2 type 8 code 1 in_port 3", &OPENFLOW12, {
            "in_port=3,eth_type=0x0800,ipv4_src=10.0.0.1,ipv4_dst=10.0.0.2,l4_src=8,l4_dst=1,\
             ip_proto=1"
        });
        check("icmp 10.0.0.1 > 10.0.0.2 type 8 code 1", &IPV4_5TUPLE, {
            "ipv4_src=10.0.0.1,ipv4_dst=10.0.0.2,ip_proto=1"
        });
        check("icmp6 ::1 > ::2 type 135", &OPENFLOW12_IPV6, {
            "eth_type=0x86dd,ipv6_src=::1,ipv6_dst=::2,l4_src=135,ip_proto=58"
        });
        check("in_port=1,dl_vlan=5,arp,arp_spa=1.2.3.4,arp_op=1", &OPENFLOW12, {
            "in_port=1,eth_type=0x0806,vlan_tci=0x1005,ipv4_src=1.2.3.4,ip_proto=1"
        });
        check("in_port=1", &OPENFLOW12, "in_port=1");
        check("in_port=LOCAL", &OPENFLOW12, "in_port=4294967294");
    }

    #[test]
    fn packets_become_flow_keys_in_either_form() {
        let check = |arrow: &str, flow: &str| {
            let key = parse_flow_key(arrow).unwrap_or_else(|e| panic!("{arrow}: {e}"));
            assert_eq!(Ok(key), parse_flow_key(flow), "{arrow}");
        };
        check("tcp 10.0.0.1:1234 > 10.0.0.2:80 flags S in_port 3", {
            "in_port=3,tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1234,tp_dst=80,tcp_flags=syn"
        });
        check("icmp6 ::1 > ::2 type 135", "icmp6,ipv6_src=::1,ipv6_dst=::2,icmpv6_type=135");
        check("ip 1.2.3.4 > 0.0.0.0 proto 47", "ip,nw_src=1.2.3.4,nw_proto=47");
        assert!(parse_flow_key("tcp 10.0.0.1 > 10.0.0.2").is_err());
        assert!(parse_flow_key("tp_dst=80").is_err());
    }

    #[test]
    fn wrong_packets_say_where_and_why() {
        let check = |text: &str, schema: &'static Schema, column: u32, why: &str| {
            let errors = parse_packet(text, schema).unwrap_err();
            let first = errors.iter().next().unwrap();
            assert_eq!(first.column, column, "{errors}");
            assert!(errors.to_string().contains(why), "{errors}");
        };
        check("", &IPV4_5TUPLE, 1, "not a packet");
        check("tcp 10.0.0.1:1 > ", &IPV4_5TUPLE, 18, "address is missing");
        check("tcp 10.0.0.1 > 10.0.0.2:80", &IPV4_5TUPLE, 13, "port is missing");
        check("tcp ::1 > ::2", &IPV6_5TUPLE, 8, "write [::1]:80");
        check("tcp 10.0.0.1:x > 10.0.0.2:80", &IPV4_5TUPLE, 14, "not a number");
        check("icmp 10.0.0.1:1 > 10.0.0.2", &IPV4_5TUPLE, 14, "without ports");
        check("gre 10.0.0.1 > 10.0.0.2", &IPV4_5TUPLE, 1, "unknown protocol");
        check("tcp [::1]:1 > [::2]:2", &IPV4_5TUPLE, 1, "without IPv6");
        check("tcp [::1]:1 > 10.0.0.1:2", &OPENFLOW12_IPV6, 1, "one address");
        check("tcp 1.1.1.1:1 > 1.1.1.1:1 flags Q", &IPV4_5TUPLE, 33, "unknown TCP flag");
        check(
            "tcp 1.1.1.1:1 > 1.1.1.1:1 in_port 1",
            &IPV4_5TUPLE,
            27,
            "unexpected word for this packet",
        );
        check("tcp,tp_dst=80/0xff", &IPV4_5TUPLE, 12, "one value");
        check("tcp,tp_dst=80 actions=drop", &IPV4_5TUPLE, 15, "no actions");
    }

    #[test]
    fn the_text_of_a_key_is_a_packet() {
        for schema in SCHEMAS {
            for spec in schema.fields {
                let mut key = vec![0; schema.words];
                spec.write(&mut key, 3);
                let text = format_key(schema, &key);
                assert_eq!(parse_packet(&text, schema).unwrap(), key, "{text}");
            }
        }
    }
}
