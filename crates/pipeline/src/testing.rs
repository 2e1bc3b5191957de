//! Frames for tests, and a place where what comes out is kept.

use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_rules::openflow::{
    Flow, FlowAction, FlowCommand, FlowKey, FlowMatch, FlowMod, Instructions, MatchField, PacketIn,
    field, port,
};
use warpswitch_wire::checksum::{PseudoHeader, checksum};
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::parse::parse_ethernet;

use crate::output::{Egress, Output};

/// The field of that name.
pub(crate) fn by_name(name: &str) -> &'static MatchField {
    field(name).unwrap_or_else(|| panic!("no field is called {name}"))
}

/// A match of whole fields.
pub(crate) fn matching(fields: &[(&str, u128)]) -> FlowMatch {
    let mut matching = FlowMatch::any();
    for &(name, value) in fields {
        matching.set(by_name(name), value, u128::MAX);
    }
    matching
}

/// An action that sets a whole field.
pub(crate) fn set_field(name: &str, value: u128) -> FlowAction {
    let field = by_name(name);
    FlowAction::SetField { field, value, mask: field.range.value_max() }
}

/// An output, to the controller of the whole packet.
pub(crate) fn output(port: u32) -> FlowAction {
    FlowAction::Output { port, max_len: port::NO_BUFFER }
}

/// A flow of table `table` that applies actions.
pub(crate) fn flow(table: u8, priority: u16, matching: FlowMatch, apply: Vec<FlowAction>) -> Flow {
    let instructions = Instructions { apply, ..Instructions::default() };
    Flow { table, ..Flow::new(priority, matching, instructions) }
}

/// A change without filters.
pub(crate) fn flow_mod(command: FlowCommand, flow: Flow) -> FlowMod {
    FlowMod { command, flow, cookie_mask: 0, out_port: port::ANY, out_group: port::GROUP_ANY }
}

/// What came out, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A frame left.
    Sent(u32, Option<u32>, Vec<u8>),
    /// The next frame leaves with these `tun_id`, `tun_src` and `tun_dst`, not all zero.
    Tunnel(u64, u32, u32),
    /// A packet went to the controllers.
    PacketIn(Box<PacketIn>),
    /// A frame went to the learning switch.
    Normal(FlowKey, Vec<u8>),
}

/// Keeps what comes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Events(pub(crate) Vec<Event>);

impl Output for Events {
    fn send(&mut self, egress: Egress, frame: &[u8]) {
        let Egress { port, queue, tun_id, tun_src, tun_dst } = egress;
        if (tun_id, tun_src, tun_dst) != (0, 0, 0) {
            self.0.push(Event::Tunnel(tun_id, tun_src, tun_dst));
        }
        self.0.push(Event::Sent(port, queue, frame.to_vec()));
    }

    fn packet_in(&mut self, packet: PacketIn) {
        self.0.push(Event::PacketIn(Box::new(packet)));
    }

    fn normal(&mut self, key: &FlowKey, frame: &[u8]) {
        self.0.push(Event::Normal(*key, frame.to_vec()));
    }
}

impl Events {
    /// The ports that frames left by.
    pub(crate) fn ports(&self) -> Vec<u32> {
        let port = |event: &Event| match event {
            Event::Sent(port, ..) => Some(*port),
            _ => None,
        };
        self.0.iter().filter_map(port).collect()
    }
}

/// An Ethernet frame; `tags` stand between the addresses and the payload's type.
pub(crate) fn ethernet(tags: &[u8], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let addresses = [0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x12, 0x11, 0x11, 0x11, 0x11, 0x11];
    [&addresses[..], tags, &ether_type.to_be_bytes(), payload].concat()
}

/// A transport packet of 32 bytes of payload, its checksum not filled in.
fn transport(proto: u8) -> Vec<u8> {
    let mut header = match proto {
        6 => {
            let mut tcp = vec![0x2b, 0x67, 0x08, 0xae];
            tcp.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 4, 0, 0, 0, 0, 0]);
            tcp
        }
        17 => vec![0x2b, 0x67, 0x08, 0xae, 0, 40, 0, 0],
        132 => vec![0x2b, 0x67, 0x08, 0xae, 1, 2, 3, 4, 0, 0, 0, 0],
        1 => vec![8, 0, 0, 0, 0, 1, 0, 2],
        // A neighbour solicitation with a source link-layer address.
        58 => {
            let mut nd = vec![135, 0, 0, 0, 0, 0, 0, 0];
            nd.extend([0x20; 16]);
            nd.extend([1, 1, 0x12, 0x11, 0x11, 0x11, 0x11, 0x11]);
            nd
        }
        _ => Vec::new(),
    };
    header.extend((0..32).map(|byte| byte as u8));
    header
}

/// Writes the checksum of a transport packet.
fn fill(proto: u8, pseudo: PseudoHeader, packet: &mut [u8]) {
    let at = match proto {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        132 => {
            let crc = crc32c::crc32c(packet);
            packet[8..12].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        _ => return,
    };
    let sum = match proto {
        1 => checksum(packet),
        _ => pseudo.sum(IpProto(proto), packet.len()).add_bytes(packet).checksum(),
    };
    packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// An IPv4 packet with right checksums.
pub(crate) fn ipv4(proto: u8) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(192, 168, 10, 10), Ipv4Addr::new(192, 168, 20, 20));
    let mut payload = transport(proto);
    fill(proto, PseudoHeader::V4 { src, dst }, &mut payload);
    let mut packet = vec![0x45, 32, 0, 0, 0, 1, 0, 0, 64, proto, 0, 0];
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend(&payload);
    let len = packet.len() as u16;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    Ipv4::new_unchecked(&mut packet[..]).fill_checksum();
    packet
}

/// An IPv6 packet with a right checksum, behind a hop-by-hop header.
pub(crate) fn ipv6(proto: u8) -> Vec<u8> {
    let (src, dst) = (Ipv6Addr::new(0x10, 0, 0, 0, 0, 0, 0, 0x10), Ipv6Addr::from([0x20; 16]));
    let mut payload = transport(proto);
    fill(proto, PseudoHeader::V6 { src, dst }, &mut payload);
    let mut packet = vec![0x62, 0, 0, 100];
    packet.extend((payload.len() as u16 + 8).to_be_bytes());
    packet.extend([0, 64]);
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend([proto, 0, 1, 4, 0, 0, 0, 0]);
    packet.extend(&payload);
    packet
}

/// An ARP request.
pub(crate) fn arp() -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1];
    packet.extend([0x12, 0x11, 0x11, 0x11, 0x11, 0x11, 10, 0, 0, 1]);
    packet.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    packet
}

/// A frame of every kind.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for proto in [6, 17, 132, 1] {
        frames.push(ethernet(&[], 0x0800, &ipv4(proto)));
    }
    for proto in [6, 17, 132, 58] {
        frames.push(ethernet(&[], 0x86dd, &ipv6(proto)));
    }
    frames.push(ethernet(&[], 0x0806, &arp()));
    frames.push(ethernet(&[0x81, 0, 0x60, 100], 0x0800, &ipv4(6)));
    let two_tags = [0x88, 0xa8, 0, 10, 0x81, 0, 0x60, 100];
    frames.push(ethernet(&two_tags, 0x86dd, &ipv6(17)));
    frames.push(ethernet(&[], 0x8847, &[&[0, 6, 0x46, 64, 0, 3, 0x2f, 9][..], &ipv4(17)].concat()));
    frames.push(ethernet(&[], 0x8847, &[&[0, 6, 0x47, 64][..], &ipv6(6)].concat()));
    let customer = ethernet(&[0x81, 0, 0x60, 100], 0x0800, &ipv4(6));
    frames.push(ethernet(&[], 0x88e7, &[&[0x08, 0, 0, 100][..], &customer].concat()));
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ipv4(17)].concat();
    frames.push(ethernet(&[], snap.len() as u16, &snap));
    frames.push(ethernet(&[], 38, &[0x42; 38]));
    frames.push(ethernet(&[], 0x0800, &[0x45; 10]));
    frames
}

/// Asserts that the checksums of a frame are right, as the crate `wire` computes them; whether it
/// has any.
pub(crate) fn assert_sums(frame: &[u8]) -> bool {
    use warpswitch_wire::parse::{Network, Transport};
    let parsed = parse_ethernet(frame).expect("a frame that can be read");
    let packet = &frame[parsed.transport_offset..parsed.packet_end];
    let pseudo = match parsed.network {
        Network::Ipv4 => {
            let ip = parsed.ipv4(frame).expect("it was found");
            assert!(ip.is_checksum_right(), "checksum of {frame:02x?}");
            PseudoHeader::V4 { src: ip.src(), dst: ip.dst() }
        }
        Network::Ipv6 => {
            let ip = parsed.ipv6(frame).expect("it was found");
            PseudoHeader::V6 { src: ip.src(), dst: ip.dst() }
        }
        _ => return false,
    };
    let proto = parsed.ip_proto;
    let summed = pseudo.sum(proto, packet.len()).add_bytes(packet).fold();
    match parsed.transport {
        Transport::None => return true,
        Transport::Icmp { .. } => assert_eq!(checksum(packet), 0, "{frame:02x?}"),
        Transport::Sctp { .. } => {
            let crc = crc32c::crc32c_append(crc32c::crc32c(&packet[..8]), &[0; 4]);
            let crc = crc32c::crc32c_append(crc, &packet[12..]);
            assert_eq!(packet[8..12], crc.to_le_bytes(), "{frame:02x?}");
        }
        _ => assert_eq!(summed, 0xffff, "{frame:02x?}"),
    }
    true
}
