//! Filters frames by destination: forwards those for this host.
//!
//! # Synopsis
//! `HostEtherFilter(ETHER [, DROP_OWN, DROP_OTHER], OFFSET)`
//!
//! # Ports
//! One input, agnostic. Output 0: accepted frames, with the packet type annotation set: host,
//! broadcast, multicast or other host. Output 1, optional, push: rejected frames.
//!
//! # Configuration
//! - `ETHER`: Ethernet address of the host
//! - `DROP_OWN`: whether to reject frames sent from `ETHER`, default: false
//! - `DROP_OTHER`: whether to reject frames for other hosts, default: true
//! - `OFFSET`: offset of the Ethernet header, default: 0
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `ether` | read, write | Ethernet address |
//!
//! # Drops
//! Rejected frames, if output 1 is not connected:
//! - `own`: sent from `ETHER`, with `DROP_OWN`
//! - `other host`: for another host, with `DROP_OTHER`
//! - `too short`: no complete Ethernet header
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> HostEtherFilter(0:0:5e:0:0:1) -> Classifier(12/0800, -) -> …;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::PacketType;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ethernet::{Ethernet, MacAddr};

use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("HostEtherFilter", "1/1-2", "a/ah", || {
    Box::new(HostEtherFilter {
        address: EtherAddress::default(),
        drops_own: false,
        drops_other: true,
        offset: 0,
    })
})
.drops(&["own", "other host", "too short"]);

/// Reasons for drops, by number.
const OWN: usize = 0;
const OTHER: usize = 1;
const SHORT: usize = 2;

/// See the module.
#[derive(Clone, Debug)]
pub struct HostEtherFilter {
    address: EtherAddress,
    drops_own: bool,
    drops_other: bool,
    offset: u32,
}

impl HostEtherFilter {
    fn fate(&self, packet: &mut Packet) -> Fate {
        let frame = packet.data().get(self.offset as usize..).unwrap_or_default();
        let Ok(frame) = Ethernet::new_checked(frame) else { return Fate::EmitOrDrop(1, SHORT) };
        let (src, dst, own) = (frame.src(), frame.dst(), MacAddr(self.address.0));
        if self.drops_own && src == own {
            return Fate::EmitOrDrop(1, OWN);
        }
        let packet_type = match dst {
            dst if dst == own => PacketType::Host,
            MacAddr::BROADCAST => PacketType::Broadcast,
            dst if dst.is_multicast() => PacketType::Multicast,
            _ => PacketType::OtherHost,
        };
        packet.set_packet_type(packet_type);
        match packet_type {
            PacketType::OtherHost if self.drops_other => Fate::EmitOrDrop(1, OTHER),
            _ => Fate::Pass,
        }
    }
}

impl Element for HostEtherFilter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("ETHER", &mut self.address)
            .read_p("DROP_OWN", &mut self.drops_own)
            .read_p("DROP_OTHER", &mut self.drops_other)
            .read("OFFSET", &mut self.offset)
            .complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| self.fate(packet));
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("ether")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.address.to_string())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.address = parse(value)?;
        Ok(String::new())
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_told_apart_by_their_addresses() {
        const ME: [u8; 6] = [2, 0, 0, 0, 0, 1];
        let check = |(drops_own, drops_other), dst: [u8; 6], src: [u8; 6], fate, packet_type| {
            let address = EtherAddress(ME);
            let filter = HostEtherFilter { address, drops_own, drops_other, offset: 2 };
            let mut packet = Packet::new();
            packet.set_data(&[&[9, 9][..], &dst, &src, &[8, 0]].concat());
            assert_eq!(filter.fate(&mut packet), fate);
            assert_eq!(packet.packet_type(), packet_type);
            packet.take(1);
            assert_eq!(filter.fate(&mut packet), Fate::EmitOrDrop(1, SHORT));
        };
        let (you, all, group) = ([4; 6], [255; 6], [1, 0, 0x5e, 0, 0, 1]);
        check((false, true), ME, you, Fate::Pass, PacketType::Host);
        check((false, true), ME, ME, Fate::Pass, PacketType::Host);
        check((true, true), ME, ME, Fate::EmitOrDrop(1, OWN), PacketType::Host);
        check((true, true), all, you, Fate::Pass, PacketType::Broadcast);
        check((true, true), group, you, Fate::Pass, PacketType::Multicast);
        check((false, true), you, you, Fate::EmitOrDrop(1, OTHER), PacketType::OtherHost);
        check((false, false), you, ME, Fate::Pass, PacketType::OtherHost);
    }
}
