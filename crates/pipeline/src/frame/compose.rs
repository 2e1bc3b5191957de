//! From the header fields of a flow key to a frame that has them: for packets that are described
//! instead of received.
//!
//! The payload is zero, and transport checksums are not filled in: no field shows them.

use warpswitch_rules::openflow::{FIELDS, FlowKey, MatchField, field};
use warpswitch_wire::ethernet::EtherType;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;

use super::parse::{ETHER_TYPE_PBB, HEADER_WORDS_START, parse};

/// The TTL of a label: no field shows it.
const LABEL_TTL: u32 = 64;
/// Bytes behind the last header.
const PAYLOAD_BYTES: usize = 8;

/// A frame with the header fields of `key`. An EtherType of zero is that of a frame without one.
///
/// # Errors
/// A field whose value no frame composed here has, such as a TCP port in an ARP packet.
pub fn compose(key: &FlowKey) -> Result<Vec<u8>, &'static MatchField> {
    let key = Wanted(with_ether_type(key));
    let mut frame = Vec::new();
    frame.extend(key.bytes("eth_dst", 6));
    frame.extend(key.bytes("eth_src", 6));
    let tci = key.get("vlan_tci") as u16;
    if tci & 0x1000 != 0 {
        frame.extend([0x8100, tci & !0x1000].map(u16::to_be_bytes).concat());
    }
    let payload = key.network();
    let ether_type = EtherType(key.get("eth_type") as u16);
    if ether_type == EtherType::NONE {
        // An 802.3 frame, whose LLC header names no EtherType.
        let len = payload.len() as u16 + 3;
        frame.extend([&len.to_be_bytes()[..], &[0x42, 0x42, 3]].concat());
    } else {
        frame.extend(ether_type.0.to_be_bytes());
    }
    frame.extend(payload);
    frame.resize(frame.len().max(super::FRAME_BYTES_MIN), 0);
    match key.first_difference(&frame) {
        Some(field) => Err(field),
        None => Ok(frame),
    }
}

/// The key, with the EtherType of frames that have none instead of zero.
fn with_ether_type(key: &FlowKey) -> FlowKey {
    let mut key = *key;
    if key[28] >> 16 == 0 {
        key[28] |= u32::from(EtherType::NONE.0) << 16;
    }
    key
}

/// The fields that a frame is to have.
struct Wanted(FlowKey);

impl Wanted {
    fn get(&self, name: &str) -> u128 {
        field(name).expect("a field of OpenFlow").range.read(&self.0)
    }

    /// The last bytes of a field.
    fn bytes(&self, name: &str, count: usize) -> Vec<u8> {
        self.get(name).to_be_bytes()[16 - count..].to_vec()
    }

    /// The first field that `frame` has otherwise.
    fn first_difference(&self, frame: &[u8]) -> Option<&'static MatchField> {
        let mut found = self.0;
        parse(frame, &mut found);
        let is_any_ext = self.get("ipv6_exthdr") == 0;
        FIELDS.iter().find(|field| {
            field.range.offset >= HEADER_WORDS_START * 32
                && field.range.read(&found) != field.range.read(&self.0)
                // Fragments, and the protocol zero, are extension headers.
                && !(is_any_ext && field.name == "ipv6_exthdr")
        })
    }

    /// What is behind the EtherType.
    fn network(&self) -> Vec<u8> {
        match EtherType(self.get("eth_type") as u16) {
            EtherType::IPV4 => self.ipv4(),
            EtherType::IPV6 => self.ipv6(),
            EtherType::ARP | EtherType::RARP => self.arp(),
            EtherType::MPLS | EtherType::MPLS_MULTICAST => {
                [(self.0[29] & !0xff | LABEL_TTL).to_be_bytes().to_vec(), vec![0; 20]].concat()
            }
            EtherType(ETHER_TYPE_PBB) => {
                let tag = (self.get("pbb_uca") as u32) << 27 | self.get("pbb_isid") as u32;
                [tag.to_be_bytes().to_vec(), vec![0; 14]].concat()
            }
            _ => vec![0; PAYLOAD_BYTES],
        }
    }

    fn ipv4(&self) -> Vec<u8> {
        let payload = self.transport();
        let mut header = vec![0x45, self.tos()];
        header.extend((20 + payload.len() as u16).to_be_bytes());
        header.extend([0, 0]);
        header.extend(self.fragment().to_be_bytes());
        header.extend([self.get("nw_ttl") as u8, self.get("nw_proto") as u8, 0, 0]);
        header.extend(self.bytes("ip_src", 4));
        header.extend(self.bytes("ip_dst", 4));
        Ipv4::new_unchecked(&mut header[..]).fill_checksum();
        header.extend(payload);
        header
    }

    fn tos(&self) -> u8 {
        (self.get("ip_dscp") << 2 | self.get("nw_ecn")) as u8
    }

    /// The word of an IPv4 header for fragments: the first of several, or the one at byte 8.
    fn fragment(&self) -> u16 {
        match self.get("ip_frag") {
            0 => 0,
            1 => 0x2000,
            _ => 1,
        }
    }

    fn ipv6(&self) -> Vec<u8> {
        let mut payload = self.transport();
        let proto = self.get("nw_proto") as u8;
        let mut next = proto;
        if self.get("ip_frag") != 0 {
            next = IpProto::FRAGMENT.0;
            // Offset and flag have other places than in IPv4.
            let word: u16 = if self.get("ip_frag") == 1 { 1 } else { 1 << 3 };
            let [high, low] = word.to_be_bytes();
            payload = [&[proto, 0, high, low, 0, 0, 0, 0][..], &payload].concat();
        }
        let first = 6 << 28 | u32::from(self.tos()) << 20 | self.get("ipv6_label") as u32;
        let mut header = first.to_be_bytes().to_vec();
        header.extend((payload.len() as u16).to_be_bytes());
        header.extend([next, self.get("nw_ttl") as u8]);
        header.extend(self.bytes("ipv6_src", 16));
        header.extend(self.bytes("ipv6_dst", 16));
        header.extend(payload);
        header
    }

    fn arp(&self) -> Vec<u8> {
        let mut packet = vec![0, 1, 8, 0, 6, 4];
        packet.extend(self.bytes("arp_op", 2));
        packet.extend(self.bytes("arp_sha", 6));
        packet.extend(self.bytes("arp_spa", 4));
        packet.extend(self.bytes("arp_tha", 6));
        packet.extend(self.bytes("arp_tpa", 4));
        packet
    }

    fn transport(&self) -> Vec<u8> {
        if self.get("ip_frag") & 2 != 0 {
            return vec![0; PAYLOAD_BYTES];
        }
        let ports = [self.bytes("tcp_src", 2), self.bytes("tcp_dst", 2)].concat();
        let is_v6 = self.get("eth_type") as u16 == EtherType::IPV6.0;
        let header = match IpProto(self.get("nw_proto") as u8) {
            IpProto::TCP => {
                let flags = 0x5000 | self.get("tcp_flags") as u16;
                [&ports[..], &[0; 8], &flags.to_be_bytes(), &[0; 6]].concat()
            }
            IpProto::UDP => [&ports[..], &[0, 8 + PAYLOAD_BYTES as u8, 0, 0]].concat(),
            IpProto::SCTP => [&ports[..], &[0; 8]].concat(),
            IpProto::ICMP if !is_v6 => vec![ports[1], ports[3], 0, 0, 0, 0, 0, 0],
            IpProto::ICMPV6 if is_v6 => return self.icmpv6(&[ports[1], ports[3]]),
            _ => Vec::new(),
        };
        [&header[..], &[0; PAYLOAD_BYTES]].concat()
    }

    /// A message of ICMPv6; of neighbour discovery with its target and link-layer address.
    fn icmpv6(&self, kind: &[u8; 2]) -> Vec<u8> {
        let mut message = vec![kind[0], kind[1], 0, 0, 0, 0, 0, 0];
        let (option, name) = match kind {
            [135, 0] => (1, "nd_sll"),
            [136, 0] => (2, "nd_tll"),
            _ => return message,
        };
        message.extend(self.bytes("nd_target", 16));
        message.extend([option, 1]);
        message.extend(self.bytes(name, 6));
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::format::ovs;

    #[test]
    fn frames_have_the_fields_of_their_description() {
        for text in [
            "in_port=1",
            "dl_type=0x88cc,dl_src=00:00:00:00:00:01,dl_dst=ff:ff:ff:ff:ff:ff",
            "dl_vlan=5,dl_vlan_pcp=3,ip,nw_dst=10.0.0.1",
            "tcp,nw_src=1.2.3.4,nw_ttl=64,nw_tos=32,nw_ecn=1,tp_src=5,tp_dst=80,tcp_flags=+syn+ack",
            "udp,nw_dst=10.0.0.1,tp_dst=53",
            "sctp,tp_src=7",
            "icmp,icmp_type=8,icmp_code=1",
            "ip,nw_proto=17,nw_frag=later",
            "tcp,nw_frag=first,tp_dst=80",
            "arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_sha=00:00:00:00:00:09",
            "ipv6,ipv6_src=fe80::1,ipv6_dst=ff02::1,ipv6_label=0x5,nw_ttl=3",
            "tcp6,tp_dst=80,nw_frag=first",
            "icmp6,icmpv6_type=135,nd_target=fe80::2,nd_sll=00:00:00:00:00:08",
            "icmp6,icmpv6_type=136,nd_target=fe80::2,nd_tll=00:00:00:00:00:08",
            "dl_type=0x8847,mpls_label=16,mpls_tc=3,mpls_bos=1",
            "dl_type=0x88e7,pbb_isid=70000",
        ] {
            let key = ovs::parse_key(text).expect(text);
            let frame = compose(&key).unwrap_or_else(|field| panic!("{text}: {}", field.name));
            let mut found = key;
            parse(&frame, &mut found);
            let mut expected = with_ether_type(&key);
            expected[41] = found[41] & 0x1ff | expected[41] & !0x1ff;
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn names_a_field_that_the_frame_cannot_have() {
        let mut key = ovs::parse_key("arp").unwrap();
        field("nw_ttl").unwrap().range.write(&mut key, 64);
        assert_eq!(compose(&key).unwrap_err().name, "nw_ttl");
    }
}
