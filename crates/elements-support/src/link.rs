//! Link types of packets: their names in arguments, and the offset of the IP header.

use warpswitch_graph::language::nearest;
use warpswitch_packet::{Header, Packet, annotation};
use warpswitch_wire::link::{LinkType, Loopback};
use warpswitch_wire::link_watch::{LinkWatch, OddLink, is_ip};

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;

/// The same as the argument `LINK` of those names it who look into packets.
const LINKS: [(&str, LinkType); 5] = [
    ("ethernet", LinkType::Ethernet),
    ("ip", LinkType::RawIp),
    ("sll", LinkType::Sll),
    ("sll2", LinkType::Sll2),
    ("null", LinkType::Loopback),
];

/// The link that `LINK` calls `name`.
///
/// # Errors
/// What there is.
pub fn link_of(name: &str) -> Result<LinkType, String> {
    let found = LINKS.iter().find(|(other, _)| *other == name);
    found.map(|(_, link)| *link).ok_or_else(|| {
        let names = LINKS.map(|(name, _)| name);
        let meant = nearest(name, names);
        let meant = meant.map_or(String::new(), |near| format!(": did you mean '{near}'?"));
        format!("expected one of {}, not '{name}'{meant}", names.join(", "))
    })
}

/// What `LINK` calls `link`.
pub fn link_name(link: LinkType) -> &'static str {
    LINKS.iter().find(|(_, other)| *other == link).map_or("??", |(name, _)| name)
}

/// Whether a packet that holds IP has its Ethernet header; none if it holds no IP either way.
pub fn has_ethernet(packet: &Packet) -> Option<bool> {
    let is = |link| is_ip(link, packet.data(), wire_bytes(packet));
    is(LinkType::Ethernet).then_some(true).or_else(|| is(LinkType::RawIp).then_some(false))
}

/// Has `watch` look at a packet.
pub fn look(watch: &mut LinkWatch, link: LinkType, packet: &Packet) -> Option<OddLink> {
    watch.look(link, packet.data(), wire_bytes(packet))
}

/// Bytes of a packet before it was cut off.
pub fn wire_bytes(packet: &Packet) -> usize {
    packet.len() + packet.anno_u32(annotation::EXTRA_LEN) as usize
}

/// Finds the IP header of a packet of link type `link`, and sets the header offsets and the
/// destination annotation of the packet. Returns whether there is a complete header.
pub fn find_ip(packet: &mut Packet, link: LinkType) -> bool {
    let data = packet.data();
    let at = match link {
        LinkType::RawIp => Some(0),
        LinkType::Ethernet => ether_type(data, 12).map(|()| ETHERNET_BYTES),
        LinkType::Sll => ether_type(data, 14).map(|()| 16),
        LinkType::Sll2 => ether_type(data, 0).map(|()| 20),
        LinkType::Loopback => {
            let view = Loopback::new_checked(data).ok();
            view.and_then(|view| view.ether_type()).map(|_| 4)
        }
        LinkType::Unsupported(_) => None,
    };
    let Some((at, ip)) = at.and_then(|at| Some((at, data.get(at..)?))) else { return false };
    let Some(&first) = ip.first() else { return false };
    match first >> 4 {
        4 => {
            let header_bytes = usize::from(first & 15) * 4;
            if header_bytes < 20 || ip.len() < header_bytes {
                return false;
            }
            let dst = [ip[16], ip[17], ip[18], ip[19]];
            packet.set_header(Header::Network, at);
            packet.set_header(Header::Transport, at + header_bytes);
            packet.set_dst_ipv4(dst);
            true
        }
        6 => {
            let Some(&dst) = ip.get(24..).and_then(<[u8]>::first_chunk) else { return false };
            packet.set_header(Header::Network, at);
            packet.set_header(Header::Transport, at + 40);
            packet.set_dst_ipv6(dst);
            true
        }
        _ => false,
    }
}

/// Whether the EtherType at `at` is that of IP.
fn ether_type(data: &[u8], at: usize) -> Option<()> {
    matches!(data.get(at..at + 2)?, [0x08, 0x00] | [0x86, 0xdd]).then_some(())
}
