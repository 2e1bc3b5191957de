//! What rules and flows need of a packet: addresses, ports, header numbers, payload.

mod usual;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpswitch_wire::fragment::{IpFragment, fragment};
use warpswitch_wire::ip::Fragment;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::ipv6_ext::walk_chain;
use warpswitch_wire::link::LinkType;
use warpswitch_wire::parse::{Network, ParsedFrame, Transport, parse, parse_network};
use warpswitch_wire::udp;

use crate::fragments::{FragmentOf, Whole};
use crate::rule::{Check, Field, FlagsHow, address_number};
use usual::Usual;

/// Bytes behind type, code and checksum that are header too in an ICMPv6 error or echo.
const ICMPV6_MORE: usize = 4;

/// Why a packet was not inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uninspected {
    /// Its headers cannot be read.
    Malformed,
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// A part of an IP packet that did not become whole.
    Fragment,
}

impl Uninspected {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Malformed, Self::NotIp, Self::Fragment];

    /// What it is called in counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NotIp => "not_ip",
            Self::Fragment => "fragment",
        }
    }
}

/// What lies on IP, as far as rules tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Carried {
    Tcp,
    Udp,
    Icmp,
    Other,
}

/// TCP's part of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcpPart {
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub flags: u16,
}

/// The number that is reserved among VLANs.
pub(crate) const NO_VLAN: u16 = 0x0fff;

/// The VLANs of the outermost tag and of the next.
fn vlans(parsed: &ParsedFrame) -> [u16; 2] {
    [parsed.vlan_tci, parsed.inner_vlan_tci].map(|tci| tci.map_or(NO_VLAN, |tci| tci & 0x0fff))
}

/// A packet, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded<'a> {
    pub carried: Carried,
    pub ip_proto: u8,
    /// Addresses, as [`address_number`] has them.
    pub src_number: u128,
    pub dst_number: u128,
    pub is_ipv6: bool,
    /// Ports; those of what has none are 0.
    pub src_port: u16,
    pub dst_port: u16,
    /// The VLANs of the outermost tag and of the next, or [`NO_VLAN`].
    pub vlans: [u16; 2],
    pub ttl: u8,
    pub tos: u8,
    pub id: Option<u16>,
    /// Type and code.
    pub icmp: Option<(u8, u8)>,
    /// Identifier and sequence number, of messages that have them.
    pub icmp_echo: Option<(u16, u16)>,
    pub tcp: TcpPart,
    pub payload: &'a [u8],
    /// Bytes of the payload that were on the wire.
    pub payload_wire_bytes: usize,
    /// Whether it was put together from fragments.
    pub is_rebuilt: bool,
}

/// Decodes a frame.
#[inline]
pub(crate) fn decode(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
) -> Result<Decoded<'_>, Uninspected> {
    match Usual::find(link, frame, wire_bytes) {
        Some(usual) if usual.carried != Carried::Icmp => Ok(usual.decode(frame)),
        _ => decode_any(link, frame, wire_bytes),
    }
}

/// Finds the protocol and the payload that [`decode`] would find, without the rest, as offset and
/// length in the frame.
#[inline(always)]
pub(crate) fn decode_payload(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
) -> Result<(Carried, usize, usize, bool), Uninspected> {
    if let Some(usual) = Usual::find(link, frame, wire_bytes) {
        return Ok((usual.carried, usual.payload, usual.payload_bytes, true));
    }
    let decoded = decode_any(link, frame, wire_bytes)?;
    let start = decoded.payload.as_ptr().addr().wrapping_sub(frame.as_ptr().addr());
    let bytes = decoded.payload.len();
    Ok((decoded.carried, start, bytes, decoded.payload_wire_bytes <= bytes))
}

/// Whether [`decode`] is seen to succeed and to find a payload that was captured whole; with its
/// protocol and whether it is empty.
#[inline]
pub(crate) fn usual_payload(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
) -> Option<(Carried, bool)> {
    let usual = Usual::find(link, frame, wire_bytes)?;
    Some((usual.carried, usual.payload_bytes == 0))
}

/// Decodes a frame of any shape.
#[inline(never)]
fn decode_any(link: LinkType, frame: &[u8], wire_bytes: usize) -> Result<Decoded<'_>, Uninspected> {
    let parsed = parse(link, frame, wire_bytes).map_err(|_| Uninspected::Malformed)?;
    let network = parsed.network_bytes(frame);
    let mut decoded = match parsed.network {
        Network::Ipv4 => ipv4(network),
        Network::Ipv6 => ipv6(network),
        Network::None | Network::Arp => None,
    }
    .ok_or(Uninspected::NotIp)?;
    if parsed.fragment != Fragment::No {
        return Err(Uninspected::Fragment);
    }
    decoded.vlans = vlans(&parsed);
    decoded.ip_proto = parsed.ip_proto.0;
    decoded.payload = parsed.payload(frame);
    let cut = decoded.payload_wire_bytes.saturating_sub(network.len());
    decoded.payload_wire_bytes = decoded.payload.len() + cut;
    transport(&parsed, frame, &mut decoded);
    Ok(decoded)
}

/// Decodes a frame up to its IP header, where [`decode`] finds that something behind it is broken:
/// without ports and with an empty payload, as rules of `ip` see it. `None` for a fragment, and if
/// the IP header itself is broken.
pub(crate) fn decode_network(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
) -> Option<Decoded<'static>> {
    if fragment(link, frame, wire_bytes).is_some() {
        return None;
    }
    let parsed = parse_network(link, frame, wire_bytes).ok()?;
    let network = parsed.network_bytes(frame);
    let (decoded, ip_proto) = match parsed.network {
        Network::Ipv4 => (ipv4(network)?, parsed.ip_proto),
        Network::Ipv6 => {
            let first = warpswitch_wire::ipv6::Ipv6::new_unchecked(network).next_header();
            let behind = network.get(warpswitch_wire::ipv6::HEADER_BYTES..)?;
            (ipv6(network)?, walk_chain(first, behind).map_or(first, |end| end.proto))
        }
        Network::None | Network::Arp => return None,
    };
    let vlans = vlans(&parsed);
    Some(Decoded { ip_proto: ip_proto.0, vlans, payload_wire_bytes: 0, ..decoded })
}

/// Takes the fragment apart that a frame is; `None` if it is none that can be read.
pub(crate) fn decode_fragment(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
) -> Option<(FragmentOf, IpFragment<'_>)> {
    let (parsed, part) = fragment(link, frame, wire_bytes)?;
    let network = parsed.network_bytes(frame);
    let ip = match parsed.network {
        Network::Ipv4 => ipv4(network),
        _ => ipv6(network),
    }?;
    let (src, dst, is_ipv6) = (ip.src_number, ip.dst_number, ip.is_ipv6);
    Some((FragmentOf { src, dst, is_ipv6, vlans: vlans(&parsed) }, part))
}

/// Takes a packet apart that was put together.
pub(crate) fn decode_whole(whole: &Whole) -> Result<Decoded<'_>, Uninspected> {
    let decoded = decode(LinkType::RawIp, &whole.bytes, whole.bytes.len())?;
    Ok(Decoded { vlans: whole.vlans, is_rebuilt: true, ..decoded })
}

/// The IPv4 part; `payload_wire_bytes` is the whole packet's for now.
fn ipv4(network: &[u8]) -> Option<Decoded<'static>> {
    let header = Ipv4::new_unchecked(network);
    header.check_header().ok()?;
    Some(of_ipv4(&header))
}

/// The part of a valid IPv4 header.
#[inline]
fn of_ipv4(header: &Ipv4<&[u8]>) -> Decoded<'static> {
    let (src, dst) = (IpAddr::V4(header.src()), IpAddr::V4(header.dst()));
    let (ttl, tos, id) = (header.ttl(), header.tos(), Some(header.identification()));
    of_ip([src, dst], ttl, tos, id, header.total_bytes())
}

fn ipv6(network: &[u8]) -> Option<Decoded<'static>> {
    let header = warpswitch_wire::ipv6::Ipv6::new_unchecked(network);
    header.check_header().ok()?;
    let (src, dst) = (IpAddr::V6(header.src()), IpAddr::V6(header.dst()));
    let (ttl, tos) = (header.hop_limit(), header.traffic_class());
    let bytes = header.payload_bytes() + warpswitch_wire::ipv6::HEADER_BYTES;
    Some(of_ip([src, dst], ttl, tos, None, bytes))
}

#[inline]
fn of_ip(
    [src, dst]: [IpAddr; 2],
    ttl: u8,
    tos: u8,
    id: Option<u16>,
    bytes: usize,
) -> Decoded<'static> {
    Decoded {
        carried: Carried::Other,
        ip_proto: 0,
        src_number: address_number(src),
        dst_number: address_number(dst),
        is_ipv6: src.is_ipv6(),
        src_port: 0,
        dst_port: 0,
        vlans: [NO_VLAN; 2],
        ttl,
        tos,
        id,
        icmp: None,
        icmp_echo: None,
        tcp: TcpPart::default(),
        payload: &[],
        payload_wire_bytes: bytes,
        is_rebuilt: false,
    }
}

fn transport(parsed: &ParsedFrame, frame: &[u8], decoded: &mut Decoded<'_>) {
    match parsed.transport {
        Transport::Tcp { src, dst, flags } => {
            decoded.carried = Carried::Tcp;
            (decoded.src_port, decoded.dst_port) = (src, dst);
            if let Some(tcp) = parsed.tcp(frame) {
                let (seq, ack, window) = (tcp.seq(), tcp.ack(), tcp.window());
                decoded.tcp = TcpPart { seq, ack, window, flags: flags.0 };
            }
        }
        Transport::Udp { src, dst } => {
            decoded.carried = Carried::Udp;
            (decoded.src_port, decoded.dst_port) = (src, dst);
            // A datagram may be shorter than its packet.
            let header = udp::Udp::new_unchecked(parsed.transport_bytes(frame));
            if header.check_header().is_ok() {
                let bytes = header.datagram_bytes().saturating_sub(udp::HEADER_BYTES);
                decoded.payload = &decoded.payload[..bytes.min(decoded.payload.len())];
                decoded.payload_wire_bytes = bytes.min(decoded.payload_wire_bytes);
            }
        }
        Transport::Icmp { kind, code } | Transport::Icmpv6 { kind, code } => {
            decoded.carried = Carried::Icmp;
            decoded.icmp = Some((kind, code));
            let has_echo = matches!(kind, 0 | 8 | 13..=18) && !decoded.is_ipv6
                || matches!(kind, 128 | 129) && decoded.is_ipv6;
            let message = parsed.transport_bytes(frame);
            if decoded.is_ipv6 && matches!(kind, 1..=4 | 128 | 129) {
                // Of errors and echo what the type and code say more about is header, as Snort and
                // Suricata have it, and as it is for ICMP of IPv4.
                decoded.payload = decoded.payload.get(ICMPV6_MORE..).unwrap_or_default();
                decoded.payload_wire_bytes = decoded.payload_wire_bytes.saturating_sub(ICMPV6_MORE);
            }
            if let (true, Some(&[a, b, c, d])) = (has_echo, message.get(4..8)) {
                decoded.icmp_echo = Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
            }
        }
        Transport::Sctp { src, dst } => (decoded.src_port, decoded.dst_port) = (src, dst),
        Transport::None => {}
    }
}

impl Decoded<'_> {
    /// The same without its payload, for whom keeps it longer than the frame.
    pub(crate) fn head(&self) -> Decoded<'static> {
        Decoded { payload: &[], ..*self }
    }

    /// The same as the other side would have sent it.
    pub(crate) fn turned(&self) -> Self {
        Self {
            src_number: self.dst_number,
            dst_number: self.src_number,
            src_port: self.dst_port,
            dst_port: self.src_port,
            ..*self
        }
    }

    /// Where it comes from.
    #[inline]
    pub(crate) fn src(&self) -> IpAddr {
        self.address(self.src_number)
    }

    /// Where it goes.
    #[inline]
    pub(crate) fn dst(&self) -> IpAddr {
        self.address(self.dst_number)
    }

    /// An address of the packet's family by its number.
    #[inline]
    pub(crate) fn address(&self, number: u128) -> IpAddr {
        match self.is_ipv6 {
            false => IpAddr::V4(Ipv4Addr::from(number as u32)),
            true => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }

    /// Whether a header check of a rule holds. What a packet does not have is no number.
    pub(crate) fn passes(&self, check: &Check) -> bool {
        let is_tcp = self.carried == Carried::Tcp;
        match *check {
            Check::Number { field, low, high, outside } => {
                let number = match field {
                    Field::Dsize => Some(self.payload_wire_bytes as u32),
                    Field::Ttl => Some(u32::from(self.ttl)),
                    Field::Tos => Some(u32::from(self.tos)),
                    Field::Id => self.id.map(u32::from),
                    Field::IpProto => Some(u32::from(self.ip_proto)),
                    Field::Itype => self.icmp.map(|icmp| u32::from(icmp.0)),
                    Field::Icode => self.icmp.map(|icmp| u32::from(icmp.1)),
                    Field::IcmpId => self.icmp_echo.map(|echo| u32::from(echo.0)),
                    Field::IcmpSeq => self.icmp_echo.map(|echo| u32::from(echo.1)),
                    Field::Seq => is_tcp.then_some(self.tcp.seq),
                    Field::Ack => is_tcp.then_some(self.tcp.ack),
                    Field::Window => is_tcp.then_some(u32::from(self.tcp.window)),
                };
                number.is_some_and(|number| (low..=high).contains(&number) != outside)
            }
            Check::Flags { flags, mask, how } => {
                let found = self.tcp.flags & mask & 0xff;
                let flags = flags & mask;
                is_tcp
                    && match how {
                        FlagsHow::Exactly => found == flags,
                        FlagsHow::All => found & flags == flags,
                        FlagsHow::Any => found & flags != 0,
                        FlagsHow::Not => found & flags == 0,
                    }
            }
            Check::SameIp => self.src_number == self.dst_number,
            Check::Rebuilt(rebuilt) => self.is_rebuilt == rebuilt,
        }
    }
}
