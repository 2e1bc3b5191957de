//! Removes VLAN tags, or the whole Ethernet header, and stores the tag in the VLAN annotation.
//!
//! # Synopsis
//! `VLANDecap([ANNO], ETHERTYPE)`, `StripEtherVLANHeader([NATIVE_VLAN])`, also called
//! `StripEtherVlanHeader`
//!
//! # Ports
//! One input, one output; agnostic. `StripEtherVLANHeader` has an output 1, optional, push, for
//! rejected frames.
//!
//! # Configuration
//! - `ANNO`: whether to set the VLAN annotation, to 0 for untagged frames, default: true
//! - `ETHERTYPE`: tag protocol identifier, default: 0x8100
//! - `NATIVE_VLAN`: VLAN of untagged frames, default: 0; -1 rejects them
//!
//! # Handlers
//! None.
//!
//! # Drops
//! Frames that `StripEtherVLANHeader` rejects, if output 1 is not connected:
//! - `no tag`: untagged, and there is no native VLAN
//! - `too short`: the Ethernet header or tag is truncated
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> VLANDecap -> Queue -> ToDevice(eth1);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ethernet::{EtherType, Ethernet, HEADER_BYTES};
use warpswitch_wire::vlan::{TAG_BYTES, Vlan};

use super::{ADDRESS_BYTES, set_vlan_tci};

/// The class `VLANDecap`.
pub static CLASS: ElementClass = ElementClass::new("VLANDecap", "1/1", "a/a", || {
    Box::new(VlanDecap { notes: true, ether_type: EtherType::VLAN.0 })
});
/// The class `StripEtherVLANHeader`.
pub static STRIP: ElementClass = ElementClass::new("StripEtherVLANHeader", "1/1-2", "a/ah", || {
    Box::new(StripEtherVlanHeader { native: Some(0) })
})
.drops(&["no tag", "too short"]);
/// The same under its older name.
pub static STRIP_OLDER_NAME: ElementClass =
    ElementClass::new("StripEtherVlanHeader", "1/1-2", "a/ah", || {
        Box::new(StripEtherVlanHeader { native: Some(0) })
    })
    .drops(&["no tag", "too short"]);

/// Reasons for drops, by number.
const NO_TAG: usize = 0;
const SHORT: usize = 1;

/// The tag control information of a frame whose type is `ether_type`; whether it is cut short if
/// there is none.
fn tci_of(frame: &[u8], ether_type: u16) -> Result<u16, bool> {
    let frame = Ethernet::new_checked(frame).map_err(|_| true)?;
    if frame.ether_type().0 != ether_type {
        return Err(false);
    }
    Vlan::new_checked(frame.payload()).map(|tag| tag.tci()).map_err(|_| true)
}

/// `VLANDecap`: see the module.
#[derive(Clone, Debug)]
pub struct VlanDecap {
    notes: bool,
    ether_type: u16,
}

impl Element for VlanDecap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("ANNO", &mut self.notes).read("ETHERTYPE", &mut self.ether_type).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let tci = tci_of(packet.data(), self.ether_type);
            if tci.is_ok() {
                packet.data_mut().copy_within(..ADDRESS_BYTES, TAG_BYTES);
                packet.pull(TAG_BYTES);
            }
            packet.set_header(Header::Mac, 0);
            if packet.len() >= HEADER_BYTES {
                packet.set_header(Header::Network, HEADER_BYTES);
            }
            if self.notes {
                set_vlan_tci(packet, tci.unwrap_or(0));
            }
        }
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// `StripEtherVLANHeader`: see the module.
#[derive(Clone, Debug)]
pub struct StripEtherVlanHeader {
    native: Option<u16>,
}

impl StripEtherVlanHeader {
    fn strip(&self, packet: &mut Packet) -> Fate {
        match (tci_of(packet.data(), EtherType::VLAN.0), self.native) {
            (Ok(tci), _) => {
                set_vlan_tci(packet, tci);
                packet.pull(HEADER_BYTES + TAG_BYTES);
            }
            (Err(true), _) => return Fate::EmitOrDrop(1, SHORT),
            (Err(false), None) => return Fate::EmitOrDrop(1, NO_TAG),
            (Err(false), Some(native)) => {
                set_vlan_tci(packet, native);
                packet.pull(HEADER_BYTES);
            }
        }
        Fate::Pass
    }
}

impl Element for StripEtherVlanHeader {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut native = 0i32;
        args.read_p("NATIVE_VLAN", &mut native);
        if native > 0xfff {
            args.error_at("", "bad NATIVE_VLAN");
        }
        self.native = u16::try_from(native).ok();
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| self.strip(packet));
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::vlan_tci;

    const ENDS: [u8; 12] = [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1];

    fn packet(rest: &[u8]) -> Packet {
        let mut packet = Packet::new();
        packet.set_data(&[&ENDS[..], rest].concat());
        set_vlan_tci(&mut packet, 9);
        packet
    }

    #[test]
    fn headers_are_stripped_and_noted() {
        let check = |native, rest: &[u8], fate, left: &[u8], tci| {
            let mut packet = packet(rest);
            assert_eq!(StripEtherVlanHeader { native }.strip(&mut packet), fate, "{rest:?}");
            assert!(packet.data().ends_with(left), "{:?}", packet.data());
            assert_eq!(vlan_tci(&packet), tci);
        };
        check(Some(3), &[0x81, 0, 0x20, 1, 8, 0, 5, 6], Fate::Pass, &[5, 6], 0x2001);
        check(None, &[0x81, 0, 0x20, 1, 8, 0], Fate::Pass, &[], 0x2001);
        check(Some(3), &[0x81, 0, 0x20, 1, 8], Fate::EmitOrDrop(1, SHORT), &[1, 8], 9);
        check(Some(3), &[8, 0, 7], Fate::Pass, &[7], 3);
        check(None, &[8, 0, 7], Fate::EmitOrDrop(1, NO_TAG), &[8, 0, 7], 9);
        check(Some(3), &[8], Fate::EmitOrDrop(1, SHORT), &[8], 9);
    }

    #[test]
    fn tags_of_frames_that_are_cut_short_stay() {
        let config = r"InfiniteSource(DATA \<020202020202 010101010101 8100 2001 08>, LIMIT 1)
            -> d :: VLANDecap -> Tap -> Discard; InfiniteSource(DATA \<0202>, LIMIT 1) -> d;
            InfiniteSource(DATA \<020202020202 010101010101 8100 2001 0800>, LIMIT 1) -> d;";
        let expected =
            ["020202020202 010101010101 8100 200108", "0202", "020202020202 010101010101 0800"];
        assert_eq!(crate::ethernet::tests::frames(config), expected);
    }
}
