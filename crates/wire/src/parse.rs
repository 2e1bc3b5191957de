//! One pass over the headers of a frame.
//!
//! ```text
//! link ─► VLAN tags ─► EtherType or LLC/SNAP ─► MPLS labels ─► ARP | IPv4 | IPv6 + chain ─► L4
//! ```
//! [`parse`] keeps offsets and what it found; it copies nothing and changes nothing. Tunnels are
//! not entered: what lies in a UDP, GRE or IP-in-IP payload is payload.
//!
//! # Lengths
//! A frame has the bytes that were captured and the bytes that were on the wire, which can be more
//! when a capture cuts frames short. Every length field is held against the wire; headers must lie
//! within the captured bytes. Bytes behind the length of an IP packet are padding.
//!
//! # Bounds
//! A walk takes at most [`VLAN_TAGS_MAX`] + [`MPLS_LABELS_MAX`] +
//! [`EXTENSIONS_MAX`](crate::ipv6_ext::EXTENSIONS_MAX) + 4 steps; a frame that needs more is
//! refused by name.
//!
//! # What is no error
//! - An EtherType, IP protocol or ARP format that is not read here: the frame ends there.
//! - An MPLS payload that looks like IP by its first four bits but is no sound packet: the first
//!   bits are a guess, and a pseudowire may start with any address.
//! - A wrong checksum: capturing hosts leave checksums to the card. The views can verify them.

use crate::ParseError;
use crate::arp::Arp;
use crate::ethernet::{self, ETHER_TYPE_MIN, EtherType, Ethernet, LENGTH_MAX};
use crate::icmp::{self, Icmp};
use crate::icmpv6::{self, Icmpv6};
use crate::ip::{Fragment, IpProto};
use crate::ipv4::Ipv4;
use crate::ipv6::{self, Ipv6};
use crate::ipv6_ext::{Ipv6Extension, walk_chain};
use crate::link::{
    LOOPBACK_BYTES, LinkType, Loopback, SLL_BYTES, SLL_PROTOCOL_LLC, SLL2_BYTES, Sll, Sll2,
};
use crate::llc::Llc;
use crate::mpls::{self, Mpls};
use crate::sctp::{self, Sctp};
use crate::tcp::{Tcp, TcpFlags};
use crate::udp::{self, Udp};
use crate::vlan::{self, Vlan};

/// The most VLAN tags that are followed.
pub const VLAN_TAGS_MAX: usize = 8;
/// The most MPLS labels that are followed.
pub const MPLS_LABELS_MAX: usize = 16;

/// The network header that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// None that is read here.
    #[default]
    None,
    /// ARP or reverse ARP for Ethernet and IPv4.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// The transport header that was found, with the fields that keys need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// None that is read here, or a later fragment.
    #[default]
    None,
    /// TCP.
    Tcp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
        /// The twelve flag bits.
        flags: TcpFlags,
    },
    /// UDP.
    Udp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
    },
    /// SCTP.
    Sctp {
        /// Source port.
        src: u16,
        /// Destination port.
        dst: u16,
    },
    /// ICMP over IPv4.
    Icmp {
        /// Type of the message.
        kind: u8,
        /// Code within the type.
        code: u8,
    },
    /// ICMPv6 over IPv6.
    Icmpv6 {
        /// Type of the message.
        kind: u8,
        /// Code within the type.
        code: u8,
    },
}

/// What one pass found in a frame. Offsets count from the start of the frame.
///
/// # Invariants
/// - P1: `network_offset <= transport_offset <= payload_offset <= packet_end`, and `packet_end`
///   is at most the number of captured bytes.
/// - P2: the header that `network` names passed its check at `network_offset`, that of `transport`
///   at `transport_offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedFrame {
    /// How the frame starts.
    pub link: LinkType,
    /// EtherType behind all VLAN tags, or behind SNAP; [`EtherType::NONE`] if the frame has none.
    /// Above MPLS it stays MPLS. Frames without link header have that of their IP version.
    pub ether_type: EtherType,
    /// Tag control information of the outermost VLAN tag.
    pub vlan_tci: Option<u16>,
    /// That of the second one: the customer's, where the outermost is the provider's.
    pub inner_vlan_tci: Option<u16>,
    /// Number of VLAN tags.
    pub vlan_tags: u8,
    /// Number of MPLS labels.
    pub mpls_labels: u8,
    /// The network header.
    pub network: Network,
    /// Where it starts; where the link headers end if there is none.
    pub network_offset: usize,
    /// IP protocol, the last of an IPv6 chain; zero without IP.
    pub ip_proto: IpProto,
    /// Which part of an IP packet this is.
    pub fragment: Fragment,
    /// The transport header.
    pub transport: Transport,
    /// Where it starts: behind the IP headers, whether it is read here or not.
    pub transport_offset: usize,
    /// Where its payload starts.
    pub payload_offset: usize,
    /// Where the network packet ends, padding excluded, cut to the captured bytes.
    pub packet_end: usize,
}

impl ParsedFrame {
    /// The Ethernet header of `frame`, which must be the frame that was parsed.
    pub fn ethernet<'a>(&self, frame: &'a [u8]) -> Option<Ethernet<&'a [u8]>> {
        match self.link {
            LinkType::Ethernet => Ethernet::new_checked(frame).ok(),
            _ => None,
        }
    }

    /// The network packet within `frame`; empty if `frame` is another one and too short.
    pub fn network_bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.network_offset..self.packet_end).unwrap_or(&[])
    }

    /// The transport packet within `frame`; empty if `frame` is another one and too short.
    pub fn transport_bytes<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.transport_offset..self.packet_end).unwrap_or(&[])
    }

    /// The payload behind the last header that was read, within `frame`.
    pub fn payload<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.payload_offset..self.packet_end).unwrap_or(&[])
    }

    /// The IPv4 packet, if `frame` has one and holds all of it.
    pub fn ipv4<'a>(&self, frame: &'a [u8]) -> Option<Ipv4<&'a [u8]>> {
        let found = self.network == Network::Ipv4;
        found.then(|| Ipv4::new_checked(self.network_bytes(frame)).ok()).flatten()
    }

    /// The IPv6 packet, if `frame` has one and holds all of it.
    pub fn ipv6<'a>(&self, frame: &'a [u8]) -> Option<Ipv6<&'a [u8]>> {
        let found = self.network == Network::Ipv6;
        found.then(|| Ipv6::new_checked(self.network_bytes(frame)).ok()).flatten()
    }

    /// The ARP packet, if `frame` has one.
    pub fn arp<'a>(&self, frame: &'a [u8]) -> Option<Arp<&'a [u8]>> {
        let found = self.network == Network::Arp;
        found.then(|| Arp::new_checked(self.network_bytes(frame)).ok()).flatten()
    }

    /// The TCP segment, if `frame` has one.
    pub fn tcp<'a>(&self, frame: &'a [u8]) -> Option<Tcp<&'a [u8]>> {
        let found = matches!(self.transport, Transport::Tcp { .. });
        found.then(|| Tcp::new_checked(self.transport_bytes(frame)).ok()).flatten()
    }

    /// The UDP datagram, if `frame` has one and holds all of it.
    pub fn udp<'a>(&self, frame: &'a [u8]) -> Option<Udp<&'a [u8]>> {
        let found = matches!(self.transport, Transport::Udp { .. });
        found.then(|| Udp::new_checked(self.transport_bytes(frame)).ok()).flatten()
    }
}

/// Parses an Ethernet frame all of whose bytes are there.
///
/// # Errors
/// The reason why it cannot be parsed.
pub fn parse_ethernet(frame: &[u8]) -> Result<ParsedFrame, ParseError> {
    parse(LinkType::Ethernet, frame, frame.len())
}

/// Parses a frame that had `wire_bytes` bytes when it was captured, `frame.len()` of which are
/// there; a `wire_bytes` below that is taken for it.
///
/// Cost: bounded by the constants of this module, no allocation.
///
/// # Errors
/// The reason why it cannot be parsed. Nothing else happens, whatever the bytes are.
pub fn parse(link: LinkType, frame: &[u8], wire_bytes: usize) -> Result<ParsedFrame, ParseError> {
    read(link, frame, wire_bytes, true)
}

/// As [`parse`], but stops behind the IP header: extension headers of IPv6 and transport headers
/// may be incomplete or broken. For IPv6, `fragment` and `ip_proto` are not set.
///
/// # Errors
/// The reason why it cannot be parsed.
pub fn parse_network(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
) -> Result<ParsedFrame, ParseError> {
    read(link, frame, wire_bytes, false)
}

#[inline(always)]
fn read(
    link: LinkType,
    frame: &[u8],
    wire_bytes: usize,
    reads_transport: bool,
) -> Result<ParsedFrame, ParseError> {
    let mut parser = Parser {
        reads_transport,
        bytes: frame,
        wire_end: wire_bytes.max(frame.len()),
        offset: 0,
        found: ParsedFrame {
            link,
            ether_type: EtherType::NONE,
            vlan_tci: None,
            inner_vlan_tci: None,
            vlan_tags: 0,
            mpls_labels: 0,
            network: Network::None,
            network_offset: 0,
            ip_proto: IpProto(0),
            fragment: Fragment::No,
            transport: Transport::None,
            transport_offset: 0,
            payload_offset: 0,
            packet_end: 0,
        },
    };
    parser.link()?;
    if parser.found.ether_type.is_mpls() {
        parser.mpls()?;
    } else {
        parser.network(parser.found.ether_type)?;
    }
    Ok(parser.finish())
}

/// The walk: `offset` is where the next header starts in `bytes`, the captured part.
///
/// Invariant: `offset <= bytes.len() <= wire_end`; both ends shrink as length fields are read.
#[derive(Clone, Copy)]
struct Parser<'a> {
    bytes: &'a [u8],
    wire_end: usize,
    offset: usize,
    reads_transport: bool,
    found: ParsedFrame,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.offset..]
    }

    /// Bytes that were on the wire from here on.
    fn wire_rest(&self) -> usize {
        self.wire_end - self.offset
    }

    /// Lets the packet end `packet_bytes` behind `offset`, or fails with `error` if the frame was
    /// shorter than that on the wire.
    fn limit(&mut self, packet_bytes: usize, error: ParseError) -> Result<(), ParseError> {
        if packet_bytes > self.wire_rest() {
            return Err(error);
        }
        self.wire_end = self.offset + packet_bytes;
        self.bytes = &self.bytes[..self.bytes.len().min(self.wire_end)];
        Ok(())
    }

    fn finish(mut self) -> ParsedFrame {
        if self.found.network == Network::None {
            self.found.network_offset = self.offset;
        }
        if self.found.transport_offset == 0 {
            self.found.transport_offset = self.offset;
        }
        self.found.payload_offset = self.offset;
        self.found.packet_end = self.bytes.len();
        self.found
    }

    /// Reads the link header and all tags, up to the EtherType of what follows.
    fn link(&mut self) -> Result<(), ParseError> {
        match self.found.link {
            LinkType::Ethernet => {
                let ether_type = Ethernet::new_checked(self.bytes)?.ether_type();
                self.offset = ethernet::HEADER_BYTES;
                self.tags(ether_type)
            }
            LinkType::Sll => {
                let protocol = Sll::new_checked(self.bytes)?.protocol();
                self.offset = SLL_BYTES;
                self.cooked(protocol)
            }
            LinkType::Sll2 => {
                let protocol = Sll2::new_checked(self.bytes)?.protocol();
                self.offset = SLL2_BYTES;
                self.cooked(protocol)
            }
            LinkType::Loopback => {
                let ether_type = Loopback::new_checked(self.bytes)?.ether_type();
                self.offset = LOOPBACK_BYTES;
                self.found.ether_type = ether_type.unwrap_or(EtherType::NONE);
                Ok(())
            }
            LinkType::RawIp => {
                // An IP version is in the same four bits as an MPLS payload's first guess.
                let guess = Mpls::guess(self.bytes).ok_or(ParseError::IpVersion)?;
                self.found.ether_type = guess;
                Ok(())
            }
            LinkType::Unsupported(_) => Err(ParseError::LinkUnsupported),
        }
    }

    fn cooked(&mut self, protocol: u16) -> Result<(), ParseError> {
        match protocol {
            SLL_PROTOCOL_LLC => self.llc(),
            _ if protocol < ETHER_TYPE_MIN => Ok(()),
            _ => self.tags(EtherType(protocol)),
        }
    }

    /// Follows VLAN tags from an EtherType (or 802.3 length) on.
    fn tags(&mut self, mut ether_type: EtherType) -> Result<(), ParseError> {
        while ether_type.is_vlan() {
            if usize::from(self.found.vlan_tags) == VLAN_TAGS_MAX {
                return Err(ParseError::VlanTooMany);
            }
            let tag = Vlan::new_checked(self.rest())?;
            match self.found.vlan_tags {
                0 => self.found.vlan_tci = Some(tag.tci()),
                1 => self.found.inner_vlan_tci = Some(tag.tci()),
                _ => {}
            }
            self.found.vlan_tags += 1;
            ether_type = tag.ether_type();
            self.offset += vlan::TAG_BYTES;
        }
        if ether_type.0 >= ETHER_TYPE_MIN {
            self.found.ether_type = ether_type;
            Ok(())
        } else if ether_type.0 <= LENGTH_MAX {
            self.limit(usize::from(ether_type.0), ParseError::LlcLength)?;
            self.llc()
        } else {
            Ok(())
        }
    }

    fn llc(&mut self) -> Result<(), ParseError> {
        let llc = Llc::new_checked(self.rest())?;
        self.offset += llc.header_bytes();
        self.found.ether_type = llc.ether_type().unwrap_or(EtherType::NONE);
        Ok(())
    }

    fn mpls(&mut self) -> Result<(), ParseError> {
        loop {
            if usize::from(self.found.mpls_labels) == MPLS_LABELS_MAX {
                return Err(ParseError::MplsTooMany);
            }
            let is_bottom = Mpls::new_checked(self.rest())?.is_bottom();
            self.found.mpls_labels += 1;
            self.offset += mpls::ENTRY_BYTES;
            if is_bottom {
                break;
            }
        }
        if let Some(guess) = Mpls::guess(self.rest()) {
            let mut attempt = *self;
            if attempt.network(guess).is_ok() {
                *self = attempt;
            }
        }
        Ok(())
    }

    fn network(&mut self, ether_type: EtherType) -> Result<(), ParseError> {
        match ether_type {
            EtherType::IPV4 => self.ipv4(),
            EtherType::IPV6 => self.ipv6(),
            EtherType::ARP | EtherType::RARP => self.arp(),
            _ => Ok(()),
        }
    }

    fn arp(&mut self) -> Result<(), ParseError> {
        match Arp::new_checked(self.rest()) {
            Ok(_) => {
                self.found.network = Network::Arp;
                self.found.network_offset = self.offset;
                self.limit(crate::arp::PACKET_BYTES, ParseError::ArpTruncated)?;
                self.offset += crate::arp::PACKET_BYTES;
                self.found.transport_offset = self.offset;
                Ok(())
            }
            Err(ParseError::ArpFormat) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn ipv4(&mut self) -> Result<(), ParseError> {
        let ip = Ipv4::new_unchecked(self.rest());
        ip.check_header()?;
        self.limit(ip.total_bytes(), ParseError::Ipv4PayloadTruncated)?;
        self.found.network = Network::Ipv4;
        self.found.network_offset = self.offset;
        self.found.fragment = ip.fragment();
        self.offset += ip.header_bytes();
        self.transport(ip.proto())
    }

    fn ipv6(&mut self) -> Result<(), ParseError> {
        let ip = Ipv6::new_unchecked(self.rest());
        ip.check_header()?;
        let after = &self.rest()[ipv6::HEADER_BYTES..];
        let mut payload_bytes = ip.payload_bytes();
        if payload_bytes == 0 && ip.next_header() == IpProto::HOP_BY_HOP {
            let options = Ipv6Extension::new_checked(after)?;
            payload_bytes = options.jumbo_bytes().map_or(0, |bytes| bytes as usize);
        }
        let packet_bytes = ipv6::HEADER_BYTES.saturating_add(payload_bytes);
        self.limit(packet_bytes, ParseError::Ipv6PayloadTruncated)?;
        self.found.network = Network::Ipv6;
        self.found.network_offset = self.offset;
        self.offset += ipv6::HEADER_BYTES;
        if !self.reads_transport {
            return Ok(());
        }
        let end = walk_chain(ip.next_header(), self.rest())?;
        self.found.fragment = end.fragment;
        self.offset += end.bytes;
        self.transport(end.proto)
    }

    fn transport(&mut self, proto: IpProto) -> Result<(), ParseError> {
        self.found.ip_proto = proto;
        self.found.transport_offset = self.offset;
        if self.found.fragment == Fragment::Later || !self.reads_transport {
            return Ok(());
        }
        let rest = self.rest();
        match (proto, self.found.network) {
            (IpProto::TCP, _) => {
                let tcp = Tcp::new_checked(rest)?;
                let (src, dst, flags) = (tcp.src_port(), tcp.dst_port(), tcp.flags());
                self.found.transport = Transport::Tcp { src, dst, flags };
                self.offset += tcp.header_bytes();
            }
            (IpProto::UDP, _) => {
                let udp = Udp::new_unchecked(rest);
                udp.check_header()?;
                // The length is that of the whole datagram, of which a fragment is a part.
                let is_whole = self.found.fragment == Fragment::No;
                if is_whole && udp.datagram_bytes() > self.wire_rest() {
                    return Err(ParseError::UdpLength);
                }
                let (src, dst) = (udp.src_port(), udp.dst_port());
                self.found.transport = Transport::Udp { src, dst };
                self.offset += udp::HEADER_BYTES;
            }
            (IpProto::SCTP, _) => {
                let sctp = Sctp::new_checked(rest)?;
                let (src, dst) = (sctp.src_port(), sctp.dst_port());
                self.found.transport = Transport::Sctp { src, dst };
                self.offset += sctp::HEADER_BYTES;
            }
            (IpProto::ICMP, Network::Ipv4) => {
                let message = Icmp::new_checked(rest)?;
                let (kind, code) = (message.kind(), message.code());
                self.found.transport = Transport::Icmp { kind, code };
                self.offset += icmp::HEADER_BYTES;
            }
            (IpProto::ICMPV6, Network::Ipv6) => {
                let message = Icmpv6::new_checked(rest)?;
                let (kind, code) = (message.kind(), message.code());
                self.found.transport = Transport::Icmpv6 { kind, code };
                self.offset += icmpv6::HEADER_BYTES;
            }
            _ => {}
        }
        Ok(())
    }
}
