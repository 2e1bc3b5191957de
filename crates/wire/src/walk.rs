//! Reads everything that a frame's checked views offer: the entry points of fuzz targets.
//!
//! [`walk_frame`] parses a frame and calls every accessor of every header that was found;
//! [`walk_views`] takes the bytes for the start of each kind of header in turn. Both fold what
//! they read into a digest, so that no call can be optimised away and two builds can be compared.
//! Neither panics on any input (invariants W1 and W2 of the crate).

use core::hash::Hash;

use crate::ParseError;
use crate::arp::{Arp, ArpRepr};
use crate::checksum::{self, PseudoHeader};
use crate::ethernet::{Ethernet, EthernetRepr};
use crate::icmp::{Icmp, IcmpRepr};
use crate::icmpv6::{Icmpv6, Icmpv6Repr};
use crate::ip::IpProto;
use crate::ipv4::{Ipv4, Ipv4Repr};
use crate::ipv6::{Ipv6, Ipv6Repr};
use crate::ipv6_ext::{
    Ipv6Extension, Ipv6ExtensionRepr, Ipv6Fragment, Ipv6FragmentRepr, walk_chain,
};
use crate::link::{LinkType, Loopback, Sll, Sll2};
use crate::llc::{Llc, LlcRepr};
use crate::mpls::{Mpls, MplsRepr};
use crate::parse::{Network, Transport, parse};
use crate::sctp::{Sctp, SctpRepr};
use crate::tcp::{Tcp, TcpRepr};
use crate::udp::{Udp, UdpRepr};
use crate::vlan::{Vlan, VlanRepr};

/// FNV-1a: a digest without secret or allocation, the same in every run.
#[derive(Clone, Copy)]
struct Digest(u64);

impl core::hash::Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// Writes through `Debug`, which reads all fields of what it prints.
impl core::fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        core::hash::Hasher::write(self, text.as_bytes());
        Ok(())
    }
}

impl Digest {
    fn new() -> Self {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, value: impl Hash) {
        value.hash(self);
    }

    fn add_debug(&mut self, value: impl core::fmt::Debug) {
        // A digest takes all that is written.
        let _ = core::fmt::write(self, format_args!("{value:?}"));
    }
}

/// Parses `frame` under every link type and reads all that is found. Returns a digest.
pub fn walk_frame(frame: &[u8]) -> u64 {
    let mut digest = Digest::new();
    let links = [
        LinkType::Ethernet,
        LinkType::RawIp,
        LinkType::Sll,
        LinkType::Sll2,
        LinkType::Loopback,
        LinkType::Unsupported(u32::MAX),
    ];
    for link in links {
        // Once as a whole frame, once as one that a capture cut short.
        for wire_bytes in [frame.len(), frame.len() + 1000] {
            walk_link(link, frame, wire_bytes, &mut digest);
        }
    }
    digest.0
}

fn walk_link(link: LinkType, frame: &[u8], wire_bytes: usize, digest: &mut Digest) {
    let parsed = parse(link, frame, wire_bytes);
    digest.add_debug(parsed);
    let Ok(parsed) = parsed else { return };
    assert!(parsed.network_offset <= parsed.transport_offset, "P1");
    assert!(parsed.transport_offset <= parsed.payload_offset, "P1");
    assert!(parsed.payload_offset <= parsed.packet_end && parsed.packet_end <= frame.len(), "P1");
    digest.add(parsed.payload(frame));
    let is_whole = wire_bytes == frame.len();
    if link == LinkType::Ethernet {
        assert!(ethernet(frame, digest).is_ok(), "P2");
    }
    let network = parsed.network_bytes(frame);
    let checked = match parsed.network {
        Network::None => Ok(()),
        Network::Arp => arp(network, digest),
        Network::Ipv4 => ipv4(network, digest),
        // A jumbogram's fixed header says length zero, so its view ends behind it.
        Network::Ipv6 => ipv6(network, digest),
    };
    assert!(checked.is_ok() || !is_whole, "P2: {checked:?}");
    let transport = parsed.transport_bytes(frame);
    let is_part = !is_whole || parsed.fragment != crate::ip::Fragment::No;
    let checked = match parsed.transport {
        Transport::None => Ok(()),
        Transport::Tcp { .. } => tcp(transport, digest),
        Transport::Udp { .. } => udp(transport, digest),
        Transport::Sctp { .. } => sctp(transport, digest),
        Transport::Icmp { .. } => icmp(transport, digest),
        Transport::Icmpv6 { .. } => icmpv6(transport, digest),
    };
    assert!(checked.is_ok() || is_part, "P2: {checked:?}");
}

/// Takes `bytes` for each kind of header in turn and reads all of it. Returns a digest.
pub fn walk_views(bytes: &[u8]) -> u64 {
    let mut digest = Digest::new();
    let walks = [
        ethernet, vlan, llc, mpls, arp, ipv4, ipv6, extension, fragment, tcp, udp, sctp, icmp,
        icmpv6, sll, sll2, loopback,
    ];
    for walk in walks {
        let checked = walk(bytes, &mut digest);
        digest.add_debug(checked);
    }
    for first in 0..=u8::MAX {
        digest.add_debug(walk_chain(IpProto(first), bytes));
    }
    digest.add(checksum::checksum(bytes));
    digest.0
}

type Walked = Result<(), ParseError>;

fn ethernet(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Ethernet::new_checked(bytes)?;
    digest.add_debug((EthernetRepr::parse(&view)?, view.payload()));
    Ok(())
}

fn vlan(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Vlan::new_checked(bytes)?;
    digest.add_debug((VlanRepr::parse(&view)?, view.tci(), view.payload()));
    Ok(())
}

fn llc(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Llc::new_checked(bytes)?;
    digest.add_debug((LlcRepr::parse(&view)?, view.ether_type(), view.payload()));
    Ok(())
}

fn mpls(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Mpls::new_checked(bytes)?;
    digest.add_debug((MplsRepr::parse(&view)?, Mpls::guess(view.payload())));
    Ok(())
}

fn arp(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Arp::new_checked(bytes)?;
    digest.add_debug(ArpRepr::parse(&view)?);
    Ok(())
}

fn ipv4(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Ipv4::new_checked(bytes)?;
    digest.add_debug((Ipv4Repr::parse(&view)?, view.version(), view.fragment()));
    digest.add((view.checksum(), view.is_checksum_right(), view.payload()));
    for option in view.options_iter() {
        digest.add(option);
    }
    Ok(())
}

fn ipv6(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Ipv6::new_checked(bytes)?;
    digest.add_debug((Ipv6Repr::parse(&view)?, view.version()));
    digest.add(view.payload());
    Ok(())
}

fn extension(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Ipv6Extension::new_checked(bytes)?;
    digest.add_debug((Ipv6ExtensionRepr::parse(&view)?, view.jumbo_bytes()));
    digest.add(view.payload());
    Ok(())
}

fn fragment(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Ipv6Fragment::new_checked(bytes)?;
    digest.add_debug((Ipv6FragmentRepr::parse(&view)?, view.fragment()));
    digest.add(view.payload());
    Ok(())
}

/// A pseudo header of each family.
fn pseudo_headers() -> [PseudoHeader; 2] {
    let (v4, v6) = (core::net::Ipv4Addr::LOCALHOST, core::net::Ipv6Addr::LOCALHOST);
    [PseudoHeader::V4 { src: v4, dst: v4 }, PseudoHeader::V6 { src: v6, dst: v6 }]
}

fn tcp(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Tcp::new_checked(bytes)?;
    digest.add_debug(TcpRepr::parse(&view)?);
    digest.add((view.checksum(), view.payload()));
    digest.add(pseudo_headers().map(|pseudo| view.is_checksum_right(&pseudo)));
    for option in view.options_iter() {
        digest.add(option);
    }
    Ok(())
}

fn udp(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Udp::new_checked(bytes)?;
    digest.add_debug(UdpRepr::parse(&view)?);
    digest.add((view.checksum(), view.payload()));
    digest.add(pseudo_headers().map(|pseudo| view.is_checksum_right(&pseudo)));
    Ok(())
}

fn sctp(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Sctp::new_checked(bytes)?;
    digest.add_debug(SctpRepr::parse(&view)?);
    digest.add((view.checksum(), view.is_checksum_right(), view.payload()));
    Ok(())
}

fn icmp(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Icmp::new_checked(bytes)?;
    digest.add_debug(IcmpRepr::parse(&view)?);
    digest.add((view.checksum(), view.is_checksum_right(), view.payload()));
    Ok(())
}

fn icmpv6(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Icmpv6::new_checked(bytes)?;
    digest.add_debug(Icmpv6Repr::parse(&view)?);
    digest.add((view.checksum(), view.payload()));
    digest.add(pseudo_headers().map(|pseudo| view.is_checksum_right(&pseudo)));
    Ok(())
}

fn sll(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Sll::new_checked(bytes)?;
    digest.add_debug((view.packet_type(), view.src(), view.protocol(), view.payload()));
    Ok(())
}

fn sll2(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Sll2::new_checked(bytes)?;
    digest.add_debug((view.packet_type(), view.src(), view.protocol(), view.interface()));
    digest.add(view.payload());
    Ok(())
}

fn loopback(bytes: &[u8], digest: &mut Digest) -> Walked {
    let view = Loopback::new_checked(bytes)?;
    digest.add_debug((view.family(), view.ether_type(), view.payload()));
    Ok(())
}
