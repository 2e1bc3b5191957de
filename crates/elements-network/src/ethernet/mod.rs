//! Ethernet, ARP and VLAN elements.

mod arp_faker;
mod arp_print;
mod arp_querier;
mod arp_responder;
mod arp_table;
mod ensure_ether;
mod ether_encap;
mod ether_mirror;
mod ether_switch;
mod host_ether_filter;
mod mark_mac_header;
mod neighbours;
mod set_vlan_anno;
mod vlan_decap;
mod vlan_encap;

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{ArgError, Args, EtherAddress, FromArg, Names};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, HandlerError};
use warpswitch_packet::Packet;
use warpswitch_packet::packet::{Header, annotation};
use warpswitch_wire::arp::{Arp, ArpRepr};
use warpswitch_wire::ethernet::{EtherType, Ethernet, EthernetRepr, HEADER_BYTES, MacAddr};

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &arp_faker::CLASS,
    &arp_print::CLASS,
    &arp_querier::CLASS,
    &arp_responder::CLASS,
    &arp_table::CLASS,
    &ensure_ether::CLASS,
    &ether_encap::CLASS,
    &ether_mirror::CLASS,
    &ether_switch::CLASS,
    &host_ether_filter::CLASS,
    &mark_mac_header::CLASS,
    &set_vlan_anno::CLASS,
    &set_vlan_anno::OLDER_NAME,
    &vlan_decap::CLASS,
    &vlan_decap::STRIP,
    &vlan_decap::STRIP_OLDER_NAME,
    &vlan_encap::CLASS,
    &vlan_encap::ETHER,
    &vlan_encap::ETHER_OLDER_NAME,
];

/// Bytes of the addresses of an Ethernet header: what comes before its type.
const ADDRESS_BYTES: usize = 12;
/// Bytes of ARP for IPv4 behind Ethernet.
const ARP_FRAME_BYTES: usize = HEADER_BYTES + warpswitch_wire::arp::PACKET_BYTES;

/// Puts an Ethernet header in front.
#[inline]
fn push_header(packet: &mut Packet, header: &[u8; HEADER_BYTES]) {
    packet.push(HEADER_BYTES).copy_from_slice(header);
    packet.set_header(Header::Mac, 0);
    packet.set_header(Header::Network, HEADER_BYTES);
}

/// The bytes of an Ethernet header.
fn header(dst: EtherAddress, src: EtherAddress, ether_type: u16) -> [u8; HEADER_BYTES] {
    let repr = EthernetRepr {
        dst: MacAddr(dst.0),
        src: MacAddr(src.0),
        ether_type: EtherType(ether_type),
    };
    let mut bytes = [0; HEADER_BYTES];
    repr.emit(&mut Ethernet::new_unchecked(&mut bytes[..]));
    bytes
}

/// Makes `packet`, which is as new, an ARP packet to `dst`.
fn set_arp(packet: &mut Packet, dst: MacAddr, arp: &ArpRepr) {
    let mut bytes = [0; ARP_FRAME_BYTES];
    let ethernet = EthernetRepr { dst, src: arp.sender_mac, ether_type: EtherType::ARP };
    ethernet.emit(&mut Ethernet::new_unchecked(&mut bytes[..]));
    arp.emit(&mut Arp::new_unchecked(&mut bytes[HEADER_BYTES..]));
    packet.set_data(&bytes);
    packet.set_header(Header::Mac, 0);
    packet.set_header(Header::Network, HEADER_BYTES);
}

/// Parses a frame with ARP for IPv4; none if it is another frame or truncated.
fn arp_of(frame: &[u8]) -> Option<ArpRepr> {
    let ethernet = Ethernet::new_checked(frame).ok()?;
    if ethernet.ether_type() != EtherType::ARP {
        return None;
    }
    ArpRepr::parse(&Arp::new_unchecked(ethernet.payload())).ok()
}

/// The VLAN tag control information that is noted on `packet`.
#[inline]
fn vlan_tci(packet: &Packet) -> u16 {
    u16::from_be(packet.anno_u16(annotation::VLAN_TCI))
}

/// Notes VLAN tag control information on `packet`.
#[inline]
fn set_vlan_tci(packet: &mut Packet, tci: u16) {
    packet.set_anno_u16(annotation::VLAN_TCI, tci.to_be());
}

/// Reads an integer that has bounds.
fn bounded(min: i32, max: i32) -> impl FnOnce(&str, &dyn Names) -> Result<i32, ArgError> {
    move |text, names| {
        let bound = |bound: i32| ArgError::new(format!("out of range, bound {bound}"));
        match i64::from_arg(text, names)? {
            value if value < i64::from(min) => Err(bound(min)),
            value if value > i64::from(max) => Err(bound(max)),
            value => Ok(value as i32),
        }
    }
}

/// An address as it is written to a handler.
fn written_address(cx: &Context<'_>, value: &str) -> Option<Ipv4Addr> {
    Ipv4Addr::from_arg(value.trim(), &cx.names()).ok()
}

/// Configures an element that runs anew.
fn reconfigure<E: Element>(
    element: &mut E,
    cx: &mut Context<'_>,
    config: &str,
) -> Result<(), HandlerError> {
    let (result, warnings) = {
        let names = cx.names();
        let mut args = Args::with_names(config, &names);
        let context = ConfigureContext {
            element: cx.element(),
            inputs: cx.inputs(),
            outputs: cx.outputs(),
            names: &names,
            graph: cx.graph(),
        };
        let result = element.configure(&mut args, &context);
        (result, args.warnings().to_vec())
    };
    result.map_err(|error| HandlerError::failed(error.to_string()))?;
    if !warnings.is_empty() {
        let declaration = cx.declaration();
        cx.say(&format!("While configuring '{declaration}':"));
        warnings.iter().for_each(|warning| cx.say(&format!("  warning: {warning}")));
    }
    Ok(())
}

/// What the tests of this area share.
#[cfg(test)]
pub(crate) mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, Transcript, run_until};
    use warpswitch_graph::{Context, Element, ElementClass, Registry, Router, Time};
    use warpswitch_packet::Batch;

    /// Prints packets in hex: addresses, type and the rest apart.
    struct Tap;

    static TAP: ElementClass = ElementClass::new("Tap", "1/1", "a/a", || Box::new(Tap));

    impl Element for Tap {
        fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
            for packet in batch.iter() {
                let mut line = String::new();
                for (at, byte) in packet.data().iter().enumerate() {
                    line.push_str(if matches!(at, 6 | 12 | 14) { " " } else { "" });
                    line.push_str(&format!("{byte:02x}"));
                }
                cx.say(&line);
            }
        }
    }

    /// The classes of the crate, and `Tap`.
    pub(crate) fn registry() -> Registry {
        crate::registry().with(&TAP)
    }

    /// Runs `config` for at most `seconds`.
    pub(crate) fn run_for(config: &str, seconds: i64) -> (Router, Transcript) {
        let start = warpswitch_graph::simulate::SIMULATED_START;
        let end = Some(Time(start.0 + seconds * Time::SECOND));
        let mut host = SimulatedHost::default();
        host.end = end;
        run_until(config, &registry(), host)
    }

    /// What `Tap` saw of the packets of `config`.
    pub(crate) fn frames(config: &str) -> Vec<String> {
        let (_, transcript) = run_for(config, 1_000);
        transcript.said().lines().map(str::to_owned).collect()
    }
}
