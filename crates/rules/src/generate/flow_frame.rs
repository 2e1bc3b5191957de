//! Frames for flow keys, with every header that OpenFlow 1.3 matches.
//!
//! ```text
//! Ethernet [VLAN] ─┬─ MPLS, one more entry if it is not the bottom
//!                  ├─ PBB service tag, inner addresses
//!                  ├─ ARP, RARP
//!                  ├─ IPv4 ───────────────────┬─ TCP, UDP, SCTP, ICMP, ICMPv6
//!                  ├─ IPv6 [extension headers]┘   └─ neighbour discovery
//!                  └─ other EtherTypes, IEEE 802.3
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_wire::arp::{Arp, ArpRepr, PACKET_BYTES};
use warpswitch_wire::checksum::PseudoHeader;
use warpswitch_wire::ethernet::{EtherType, LENGTH_MAX, MacAddr};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::{self, Ipv4, Ipv4Repr};
use warpswitch_wire::ipv6::{self, Ipv6, Ipv6Repr};

use super::frame::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use super::transport::TransportHeader;
use crate::openflow::{FlowKey, field};

/// Bits of the fragment field.
const FRAGMENT: u128 = 1;
const LATER_FRAGMENT: u128 = 2;

/// Offset of later fragments in units of 8 bytes: behind a first one of 1,480 bytes.
const LATER_OFFSET: u16 = 185;

/// Where a neighbour message has its target, and where its options start.
const ND_TARGET: usize = 8;
const ND_OPTIONS: usize = 24;
const ND_OPTION_BYTES: usize = 8;

/// Extension headers of IPv6 by their bit in the field, in the order of RFC 8200, and their bytes.
static EXTENSIONS: [(u128, u8, usize); 5] =
    [(0x40, 0, 8), (0x08, 60, 8), (0x20, 43, 8), (0x10, 44, 8), (0x04, 51, 16)];
const FRAGMENT_HEADER: u8 = 44;

/// Writes an Ethernet frame with the header fields of `key` into `out`, whose former content is
/// lost. All lengths and checksums are right; payload bytes count up.
///
/// `frame_bytes` without the frame check sequence; what lies outside the smallest frame with these
/// headers and a jumbo frame is brought inside. The input port, registers and other metadata are
/// in no frame. Values that contradict each other, such as TCP flags of UDP, are left out.
pub fn frame_for_flow(key: &FlowKey, frame_bytes: usize, out: &mut Vec<u8>) {
    let source = Source { key };
    out.clear();
    source.link(out);
    let start = out.len();
    match EtherType(source.read("eth_type") as u16) {
        EtherType::IPV4 => source.ipv4(frame_bytes, out),
        EtherType::IPV6 => source.ipv6(frame_bytes, out),
        EtherType::ARP | EtherType(0x8035) => source.arp(out),
        ether_type if ether_type.is_mpls() => source.mpls(out),
        EtherType(0x88e7) => source.pbb(out),
        // Spanning tree's service access points, unnumbered information.
        EtherType::NONE => out.extend([0x42, 0x42, 0x03]),
        _ => {}
    }
    pad(frame_bytes, out);
    if EtherType(source.read("eth_type") as u16) == EtherType::NONE {
        // IEEE 802.3 has the payload's length where others have their EtherType.
        out.truncate(start + usize::from(LENGTH_MAX));
        let len = (out.len() - start) as u16;
        out[start - 2..start].copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends payload up to the size of the frame.
fn pad(frame_bytes: usize, out: &mut Vec<u8>) {
    let wanted = frame_bytes.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX);
    let start = out.len();
    out.extend((start..wanted.max(start)).map(|idx| idx as u8));
}

struct Source<'a> {
    key: &'a FlowKey,
}

impl Source<'_> {
    /// The bits of a field that exists.
    fn read(&self, name: &str) -> u128 {
        field(name).expect("a field of OpenFlow").range.read(self.key)
    }

    fn mac(&self, name: &str) -> MacAddr {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.read(name).to_be_bytes()[10..]);
        MacAddr(mac)
    }

    fn ipv4_address(&self, name: &str) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.read(name) as u32)
    }

    /// Ethernet and VLAN headers.
    fn link(&self, out: &mut Vec<u8>) {
        out.extend(self.mac("eth_dst").0);
        out.extend(self.mac("eth_src").0);
        let tci = self.read("vlan_tci") as u16;
        if tci & 0x1000 != 0 {
            // The backbone's tag in front of a PBB service tag has its own EtherType.
            let is_pbb = self.read("eth_type") == 0x88e7;
            out.extend(if is_pbb { [0x88, 0xa8] } else { [0x81, 0x00] });
            // The key's tag-present bit lies where the tag has its drop eligible indicator.
            out.extend((tci & 0xefff).to_be_bytes());
        }
        out.extend((self.read("eth_type") as u16).to_be_bytes());
    }

    fn mpls(&self, out: &mut Vec<u8>) {
        let entry = |label: u128, class: u128, bottom: u128| {
            let ttl = match self.read("nw_ttl") {
                0 => 64,
                ttl => ttl,
            };
            ((label << 12 | class << 9 | bottom << 8 | ttl) as u32).to_be_bytes()
        };
        let bottom = self.read("mpls_bos");
        out.extend(entry(self.read("mpls_label"), self.read("mpls_tc"), bottom));
        if bottom == 0 {
            out.extend(entry(16, 0, 1));
        }
        // A payload that is no IP packet by its first four bits.
        out.push(0);
    }

    /// The service tag and the addresses of an inner frame.
    fn pbb(&self, out: &mut Vec<u8>) {
        let tag = self.read("pbb_uca") << 27 | self.read("pbb_isid");
        out.extend((tag as u32).to_be_bytes());
        out.extend([0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01]);
        // An EtherType for local experiments.
        out.extend([0x88, 0xb5]);
    }

    fn arp(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + PACKET_BYTES, 0);
        let repr = ArpRepr {
            operation: self.read("arp_op") as u16,
            sender_mac: self.mac("arp_sha"),
            sender_ip: self.ipv4_address("arp_spa"),
            target_mac: self.mac("arp_tha"),
            target_ip: self.ipv4_address("arp_tpa"),
        };
        repr.emit(&mut Arp::new_unchecked(&mut out[start..]));
    }

    fn tos(&self) -> u8 {
        (self.read("ip_dscp") << 2 | self.read("nw_ecn")) as u8
    }

    fn ipv4(&self, frame_bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let (src, dst) = (self.ipv4_address("ip_src"), self.ipv4_address("ip_dst"));
        out.resize(start + ipv4::HEADER_BYTES, 0);
        self.transport(&PseudoHeader::V4 { src, dst }, frame_bytes, out);
        let proto = IpProto(self.read("nw_proto") as u8);
        let payload_bytes = out.len() - start - ipv4::HEADER_BYTES;
        let fragment = self.read("ip_frag");
        let is_later = fragment & LATER_FRAGMENT != 0;
        let repr = Ipv4Repr {
            tos: self.tos(),
            ttl: self.read("nw_ttl") as u8,
            more_fragments: fragment & FRAGMENT != 0 && !is_later,
            fragment_offset: if is_later { LATER_OFFSET } else { 0 },
            ..Ipv4Repr::new(src, dst, proto, payload_bytes)
        };
        repr.emit(&mut Ipv4::new_unchecked(&mut out[start..]));
    }

    fn ipv6(&self, frame_bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let address = |name: &str| Ipv6Addr::from_bits(self.read(name));
        let (src, dst) = (address("ipv6_src"), address("ipv6_dst"));
        out.resize(start + ipv6::HEADER_BYTES, 0);
        let next_header = self.extensions(out);
        self.transport(&PseudoHeader::V6 { src, dst }, frame_bytes, out);
        let payload_bytes = out.len() - start - ipv6::HEADER_BYTES;
        let repr = Ipv6Repr {
            traffic_class: self.tos(),
            flow_label: self.read("ipv6_label") as u32,
            hop_limit: self.read("nw_ttl") as u8,
            ..Ipv6Repr::new(src, dst, next_header, payload_bytes)
        };
        repr.emit(&mut Ipv6::new_unchecked(&mut out[start..]));
    }

    /// Appends the extension headers, and returns the number of the first header.
    fn extensions(&self, out: &mut Vec<u8>) -> IpProto {
        let fragment = self.read("ip_frag");
        let fragment_bit = if fragment != 0 { 0x10 } else { 0 };
        let bits = self.read("ipv6_exthdr") | fragment_bit;
        let there: Vec<_> = EXTENSIONS.iter().filter(|(bit, ..)| bits & bit != 0).collect();
        let proto = self.read("nw_proto") as u8;
        for (idx, (_, number, bytes)) in there.iter().enumerate() {
            let next = there.get(idx + 1).map_or(proto, |(_, next, _)| *next);
            let start = out.len();
            out.resize(start + bytes, 0);
            out[start] = next;
            match *number {
                FRAGMENT_HEADER => {
                    let is_later = fragment & LATER_FRAGMENT != 0;
                    let offset = if is_later { LATER_OFFSET << 3 } else { 0 };
                    let more = u16::from(fragment & FRAGMENT != 0 && !is_later);
                    out[start + 2..start + 4].copy_from_slice(&(offset | more).to_be_bytes());
                }
                // Authentication counts units of four bytes, without the first two.
                51 => out[start + 1] = 2,
                // One option that pads the header; of routing, a kind without segments left.
                43 => {}
                _ => out[start + 2..start + 4].copy_from_slice(&[1, 4]),
            }
        }
        IpProto(there.first().map_or(proto, |(_, number, _)| *number))
    }

    /// Appends what lies behind the IP headers, up to the size of the frame.
    fn transport(&self, pseudo: &PseudoHeader, frame_bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        if self.read("ip_frag") & LATER_FRAGMENT == 0 {
            let header = TransportHeader {
                proto: IpProto(self.read("nw_proto") as u8),
                ports: [self.read("tcp_src") as u16, self.read("tcp_dst") as u16],
                flags: self.read("tcp_flags") as u16,
            };
            out.resize(start + header.bytes(), 0);
            let is_v6 = matches!(pseudo, PseudoHeader::V6 { .. });
            if header.proto == IpProto::ICMPV6 && is_v6 {
                self.neighbour(header.ports[0], start, out);
                // Whoever reads options takes payload behind them for more.
                if out.len() == start + header.bytes() {
                    pad(frame_bytes, out);
                }
            } else {
                pad(frame_bytes, out);
            }
            header.emit(pseudo, &mut out[start..]);
        } else {
            pad(frame_bytes, out);
        }
    }

    /// Appends the target and the link-layer address of a neighbour message.
    fn neighbour(&self, kind: u16, start: usize, out: &mut Vec<u8>) {
        let (option, address) = match kind {
            135 => (1, self.mac("nd_sll")),
            136 => (2, self.mac("nd_tll")),
            _ => return,
        };
        out.resize(start + ND_OPTIONS, 0);
        let target = self.read("nd_target").to_be_bytes();
        out[start + ND_TARGET..start + ND_OPTIONS].copy_from_slice(&target);
        if address.0 != [0; 6] {
            out.extend([option, (ND_OPTION_BYTES / 8) as u8]);
            out.extend(address.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use warpswitch_wire::icmpv6::Icmpv6;
    use warpswitch_wire::parse::{self, Transport, parse_ethernet};

    use super::*;
    use crate::format::ovs::{key_text, parse_key};

    /// Packets of every kind, as text; other fields are zero.
    static PACKETS: [&str; 14] = [
        "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,tp_src=1234,tp_dst=80,tcp_flags=syn|ack",
        "udp,dl_vlan=5,dl_vlan_pcp=3,nw_src=1.2.3.4,nw_tos=16,nw_ecn=1,tp_src=1,tp_dst=2",
        "sctp,nw_ttl=1,sctp_src=7,sctp_dst=8",
        "icmp,nw_frag=first,icmp_type=8,icmp_code=3",
        "udp,nw_frag=later,nw_dst=9.9.9.9",
        "ip,nw_proto=47,dl_src=02:00:00:00:00:07,dl_dst=ff:ff:ff:ff:ff:ff",
        "arp,dl_vlan=9,arp_op=2,arp_spa=1.2.3.4,arp_tpa=4.3.2.1,arp_sha=02:00:00:00:00:01",
        "rarp,arp_op=3,arp_tha=02:00:00:00:00:02",
        "mpls,mpls_label=1000,mpls_tc=5,mpls_bos=1",
        "mplsm,mpls_label=3,mpls_bos=0",
        "tcp6,ipv6_src=2001:db8::1,ipv6_dst=::2,ipv6_label=0x12345,nw_tos=8,tp_dst=443",
        "udp6,ipv6_src=::1,nw_frag=first,nw_ttl=9,udp_dst=53",
        "icmp6,icmpv6_type=135,nd_target=fe80::1,nd_sll=02:00:00:00:00:09,nw_ttl=255",
        "dl_type=0x88cc,dl_dst=01:80:c2:00:00:0e",
    ];

    fn frame(text: &str, bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        frame_for_flow(&parse_key(text).unwrap(), bytes, &mut out);
        out
    }

    #[test]
    fn frames_parse_with_right_lengths_and_checksums() {
        for text in PACKETS {
            for bytes in [0, 61, 128, 1_500] {
                let frame = frame(text, bytes);
                let parsed = parse_ethernet(&frame).unwrap_or_else(|e| panic!("{text}: {e}"));
                assert!(frame.len() >= bytes.max(FRAME_BYTES_MIN), "{text} {bytes}");
                let pseudo = match parsed.network {
                    parse::Network::Ipv4 => {
                        let packet = parsed.ipv4(&frame).unwrap();
                        assert!(packet.is_checksum_right(), "{text}");
                        PseudoHeader::V4 { src: packet.src(), dst: packet.dst() }
                    }
                    parse::Network::Ipv6 => {
                        let packet = parsed.ipv6(&frame).unwrap();
                        PseudoHeader::V6 { src: packet.src(), dst: packet.dst() }
                    }
                    _ => continue,
                };
                match parsed.transport {
                    Transport::Tcp { .. } => {
                        assert!(parsed.tcp(&frame).unwrap().is_checksum_right(&pseudo), "{text}");
                    }
                    Transport::Udp { .. } if !text.contains("frag") => {
                        assert!(parsed.udp(&frame).unwrap().is_checksum_right(&pseudo), "{text}");
                    }
                    Transport::Icmpv6 { .. } => {
                        let view = Icmpv6::new_unchecked(parsed.transport_bytes(&frame));
                        assert!(view.is_checksum_right(&pseudo), "{text}");
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn extension_headers_are_chained() {
        let text = "tcp6,ipv6_exthdr=0x6c,tp_dst=443,tcp_flags=syn";
        let frame = frame(text, 0);
        let parsed = parse_ethernet(&frame).unwrap();
        let flags = parsed.transport;
        assert!(matches!(flags, Transport::Tcp { dst: 443, .. }), "{flags:?}");
        let lens = 8 + 8 + 8 + 16;
        assert_eq!(parsed.transport_offset - parsed.network_offset, ipv6::HEADER_BYTES + lens);
    }

    #[test]
    fn service_tags_lie_behind_their_ether_type() {
        let frame = frame("dl_vlan=3,dl_type=0x88e7,pbb_isid=0x123456,pbb_uca=1", 0);
        assert_eq!(frame[12..16], [0x88, 0xa8, 0, 3]);
        assert_eq!(frame[16..22], [0x88, 0xe7, 0x08, 0x12, 0x34, 0x56]);
    }

    /// What `ovs-ofctl` reads in a frame; `None` if it is not installed.
    fn fields_of(frame: &[u8]) -> Option<String> {
        let mut child = Command::new("ovs-ofctl")
            .arg("parse-packet")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .inspect_err(|error| println!("skipped: ovs-ofctl cannot be started: {error}"))
            .ok()?;
        child.stdin.take().unwrap().write_all(frame).unwrap();
        Some(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
    }

    #[test]
    fn ovs_ofctl_reads_the_fields_of_the_key_in_its_frame() {
        for text in PACKETS {
            let expected = key_text(&parse_key(text).unwrap());
            let Some(read) = fields_of(&frame(text, 100)) else { return };
            let mut items = read.split(',').map(|item| item.split_whitespace().next().unwrap());
            let read: Vec<&str> = items.by_ref().collect();
            // No frame has an input port, and no text of ours a second tag or the TTL of MPLS.
            for item in expected.split(',').filter(|item| !item.starts_with("in_port")) {
                assert!(read.contains(&item), "{text}: no {item} in {read:?}");
            }
        }
    }
}
