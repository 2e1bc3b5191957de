//! Packets in work: frame bytes, the flow key that they and the pipeline give, and the actions that
//! change both.
//!
//! # Invariants
//! - F1: unless `is_stale`, the header words of the key and the layout are those that
//!   `parse::parse` finds in the bytes. Actions that move headers, or change what a header is,
//!   make them stale; the next use reads the frame again.
//! - F2: an action on a header that the frame does not have changes nothing.

mod buffer;
mod compose;
mod ext;
pub(crate) mod parse;
pub(crate) mod quick;
mod spot;

use warpswitch_flow::Shape;
use warpswitch_rules::openflow::{
    FLOW_WORDS, FlowAction, FlowKey, MatchField, Oxm, Subfield, field,
};

use crate::output::Egress;
use buffer::Bytes;
pub use compose::compose;
pub use parse::shape_ether_type;
use parse::{HEADER_WORDS_START, I_TAG_BYTES, Layout, Network, TYPE_AT, half, word};
use spot::{Spot, inner_ttl_spot, label_ttl_spot, spot, ttl_spot};

/// The shortest Ethernet frame, without frame check sequence.
const FRAME_BYTES_MIN: usize = 60;
/// Bytes of the Ethernet header of customers in a PBB frame.
const ETHERNET_BYTES: usize = 14;

/// Reads the header words of `key` from a frame; the words of the pipeline stay.
pub fn extract(frame: &[u8], key: &mut FlowKey) {
    parse::parse(frame, key);
}

/// Sets the ECN bits of the IP header of a frame, and updates the checksum over them. A frame
/// without one stays as it is.
pub fn set_ecn(frame: &mut [u8], ecn: u8) {
    let field = field("nw_ecn").expect("a field of OpenFlow");
    let mut packet = Packet::new(frame, [0; FLOW_WORDS], Vec::new());
    packet.set(field, ecn.into(), u128::MAX);
    let changed = packet.frame().to_vec();
    frame.copy_from_slice(&changed);
}

/// What an action left of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// The packet goes on.
    Done,
    /// Its TTL ended; it was not decremented.
    TtlEnded,
}

/// A packet in work.
#[derive(Debug)]
pub(crate) struct Packet<'f> {
    bytes: Bytes<'f>,
    key: FlowKey,
    layout: Layout,
    is_stale: bool,
    has_shrunk: bool,
    spare: Vec<Vec<u8>>,
}

impl<'f> Packet<'f> {
    /// A packet of `frame`; the words of the pipeline in `key` are taken as they are. `spare` are
    /// buffers to use again.
    pub(crate) fn new(frame: &'f [u8], mut key: FlowKey, spare: Vec<Vec<u8>>) -> Self {
        let layout = parse::parse(frame, &mut key);
        let bytes = Bytes::Shared(frame);
        Self { bytes, key, layout, is_stale: false, has_shrunk: false, spare }
    }

    /// The buffers, for the next packet.
    pub(crate) fn into_spare(self) -> Vec<Vec<u8>> {
        let mut spare = self.spare;
        self.bytes.retire(&mut spare);
        spare
    }

    /// A copy that changes on its own. It has the spare buffers until [`Packet::join`].
    pub(crate) fn fork(&mut self) -> Self {
        let bytes = self.bytes.fork(&mut self.spare);
        let spare = std::mem::take(&mut self.spare);
        Self { bytes, spare, ..*self }
    }

    /// Ends a copy.
    pub(crate) fn join(&mut self, copy: Self) {
        self.spare = copy.into_spare();
    }

    /// The key, up to date.
    #[inline]
    pub(crate) fn key(&mut self) -> &FlowKey {
        self.refresh();
        &self.key
    }

    /// Sets the input port of the key.
    pub(crate) fn set_in_port(&mut self, port: u32) {
        self.key[0] = port;
    }

    /// Where it leaves: the fields of tunnels are not read from its bytes, and never stale.
    pub(crate) fn egress(&self, port: u32, queue: Option<u32>) -> Egress {
        Egress::new(port, queue, &self.key)
    }

    /// Which headers are there ([`Layout::shape`]).
    pub(crate) fn shape(&mut self, is_tunneled: bool) -> Shape {
        self.refresh();
        self.layout.shape(is_tunneled)
    }

    /// The frame.
    #[inline]
    pub(crate) fn frame(&self) -> &[u8] {
        self.bytes.get()
    }

    /// Hands out the frame as it leaves: padded to the least length if it shrank. Headers are never
    /// found in padding, so the packet itself stays as it is.
    pub(crate) fn hand_out<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> R {
        let len = self.bytes.get().len();
        if !self.has_shrunk || len >= FRAME_BYTES_MIN {
            return take(self.bytes.get());
        }
        self.bytes.pad(FRAME_BYTES_MIN, &mut self.spare);
        let result = take(self.bytes.get());
        self.bytes.truncate(len);
        result
    }

    fn refresh(&mut self) {
        if self.is_stale {
            self.layout = parse::parse(self.bytes.get(), &mut self.key);
            self.is_stale = false;
        }
    }

    /// Value of some bits of a field.
    pub(crate) fn read(&mut self, bits: Subfield) -> u128 {
        bits.range().read(self.key())
    }

    /// Sets the bits of a field where `mask` is 1, if the packet has it.
    pub(crate) fn set(&mut self, field: &MatchField, value: u128, mask: u128) {
        self.refresh();
        let old = field.range.read(&self.key);
        let new = old & !mask | value & mask & field.range.value_max();
        if old == new {
            return;
        }
        if field.range.offset < HEADER_WORDS_START * 32 {
            return field.range.write(&mut self.key, new);
        }
        match (field.oxm.class, field.oxm.number) {
            // Views: the whole tag, and the type of service, of which ECN stays.
            (Oxm::NXM, 4) => return self.set_vlan_tci(new as u16),
            (Oxm::NXM, 5) => return self.set(&DSCP, new >> 2, u128::MAX),
            _ => {}
        }
        let Some(spot) = spot(field, &self.layout) else { return };
        self.write(spot, new);
        // The bit for the presence of a tag is not for actions to change.
        let is_vlan_vid = (field.oxm.class, field.oxm.number) == (Oxm::BASIC, 6);
        let new = if is_vlan_vid { new | 0x1000 } else { new };
        field.range.write(&mut self.key, new);
        self.is_stale = is_header_kind(field);
    }

    fn write(&mut self, spot: Spot, value: u128) {
        spot.write(self.bytes.get_mut(&mut self.spare), &self.layout, value);
    }

    /// The field `vlan_tci`: without the bit "tag present" the tag goes, with it one comes.
    fn set_vlan_tci(&mut self, tci: u16) {
        if tci & 0x1000 == 0 {
            return self.pop_vlan();
        }
        if self.layout.vlan_tags == 0 {
            self.push_vlan(0x8100);
        }
        let frame = self.bytes.get_mut(&mut self.spare);
        if let Some(bytes) = frame.get_mut(TYPE_AT + 2..TYPE_AT + 4) {
            bytes.copy_from_slice(&(tci & !0x1000).to_be_bytes());
            self.is_stale = true;
        }
    }

    /// Executes an action that changes the packet; others change nothing.
    pub(crate) fn edit(&mut self, action: &FlowAction) -> Edit {
        self.refresh();
        match *action {
            FlowAction::SetField { field, value, mask } => self.set(field, value, mask),
            FlowAction::Move { source, target } => {
                let value = self.read(source) << target.offset;
                let ones = target.range().value_max() << target.offset;
                self.set(target.field, value, ones);
            }
            FlowAction::PushVlan(ether_type) => self.push_vlan(ether_type),
            FlowAction::PopVlan => self.pop_vlan(),
            FlowAction::PushMpls(ether_type) => self.push_mpls(ether_type),
            FlowAction::PopMpls(ether_type) => self.pop_mpls(ether_type),
            FlowAction::PushPbb(ether_type) => self.push_pbb(ether_type),
            FlowAction::PopPbb => self.pop_pbb(),
            FlowAction::SetMplsTtl(ttl) => self.set_ttl(label_ttl_spot(&self.layout), ttl),
            FlowAction::DecMplsTtl => return self.decrement(label_ttl_spot(&self.layout)),
            FlowAction::SetNwTtl(ttl) => self.set_ttl(ttl_spot(&self.layout), ttl),
            FlowAction::DecNwTtl => return self.decrement(ttl_spot(&self.layout)),
            FlowAction::CopyTtlOut => self.copy_ttl(false),
            FlowAction::CopyTtlIn => self.copy_ttl(true),
            _ => {}
        }
        Edit::Done
    }

    fn set_ttl(&mut self, spot: Option<Spot>, ttl: u8) {
        if let Some(spot) = spot {
            self.write(spot, u128::from(ttl));
            self.is_stale = true;
        }
    }

    fn decrement(&mut self, spot: Option<Spot>) -> Edit {
        let Some(spot) = spot else { return Edit::Done };
        match spot.read(self.frame()) as u8 {
            0 | 1 => return Edit::TtlEnded,
            ttl => self.set_ttl(Some(spot), ttl - 1),
        }
        Edit::Done
    }

    /// Copies a TTL between the outermost label and what is behind it.
    fn copy_ttl(&mut self, is_inwards: bool) {
        let outer = label_ttl_spot(&self.layout);
        let inner = inner_ttl_spot(self.frame(), &self.layout);
        if let (Some(outer), Some(inner)) = (outer, inner) {
            let (from, to) = if is_inwards { (outer, inner) } else { (inner, outer) };
            let ttl = from.read(self.frame()) as u8;
            self.set_ttl(Some(to), ttl);
        }
    }

    fn push_vlan(&mut self, ether_type: u16) {
        if self.frame().len() < ETHERNET_BYTES {
            return;
        }
        let old_tci = match self.layout.vlan_tags {
            0 => 0,
            _ => half(self.frame(), TYPE_AT + 2) & !0x1000,
        };
        self.insert(TYPE_AT, &[ether_type.to_be_bytes(), old_tci.to_be_bytes()].concat());
    }

    fn pop_vlan(&mut self) {
        if self.layout.vlan_tags > 0 {
            self.remove(TYPE_AT, 4);
        }
    }

    /// The new label is the outermost tag, right behind the Ethernet addresses.
    fn push_mpls(&mut self, ether_type: u16) {
        // In front of a length no EtherType fits.
        if !self.layout.is_type_behind_tags() {
            return;
        }
        let label = match self.layout.network {
            Network::Mpls => word(self.frame(), self.layout.network_at as usize) & !0x100,
            _ => {
                let ttl = ttl_spot(&self.layout).map_or(0, |spot| spot.read(self.frame()) as u32);
                ttl | 0x100
            }
        };
        let is_bottom = self.layout.network != Network::Mpls || self.layout.vlan_tags > 0;
        let label = label | u32::from(is_bottom) << 8;
        // The label comes behind the type, which becomes that of labels: what the type was
        // is not written anywhere, the action that pops the label has to name it.
        self.insert(TYPE_AT + 2, &label.to_be_bytes());
        let frame = self.bytes.get_mut(&mut self.spare);
        frame[TYPE_AT..TYPE_AT + 2].copy_from_slice(&ether_type.to_be_bytes());
    }

    fn pop_mpls(&mut self, ether_type: u16) {
        let (Network::Mpls, Some(ether_at)) = (self.layout.network, self.layout.ether_at) else {
            return;
        };
        self.remove(self.layout.network_at as usize, 4);
        let frame = self.bytes.get_mut(&mut self.spare);
        let at = ether_at as usize;
        frame[at..at + 2].copy_from_slice(&ether_type.to_be_bytes());
    }

    /// The customer addresses are those that the frame has; so are the new outer ones.
    fn push_pbb(&mut self, ether_type: u16) {
        if self.frame().len() < ETHERNET_BYTES {
            return;
        }
        let pcp = match self.layout.vlan_tags {
            0 => 0,
            _ => u32::from(self.frame()[TYPE_AT + 2] >> 5),
        };
        let service = match self.layout.network {
            Network::Pbb => word(self.frame(), self.layout.network_at as usize) & 0xff_ffff,
            _ => 0,
        };
        let mut header = self.frame()[..TYPE_AT].to_vec();
        header.extend(ether_type.to_be_bytes());
        header.extend((pcp << 29 | service).to_be_bytes());
        self.insert(0, &header);
    }

    /// Everything in front of the customer addresses goes, also a backbone VLAN tag.
    fn pop_pbb(&mut self) {
        let count = self.layout.network_at as usize + I_TAG_BYTES;
        if self.layout.network == Network::Pbb && self.frame().len() >= count + ETHERNET_BYTES {
            self.remove(0, count);
        }
    }

    fn insert(&mut self, at: usize, new: &[u8]) {
        self.bytes.insert(at, new.len(), &mut self.spare);
        self.bytes.get_mut(&mut self.spare)[at..at + new.len()].copy_from_slice(new);
        self.is_stale = true;
    }

    fn remove(&mut self, at: usize, count: usize) {
        self.bytes.remove(at, count, &mut self.spare);
        self.has_shrunk = true;
        self.is_stale = true;
    }
}

/// The DSCP, as which the type of service is set.
static DSCP: std::sync::LazyLock<&MatchField> = std::sync::LazyLock::new(|| {
    warpswitch_rules::openflow::field("ip_dscp").expect("a field of OpenFlow")
});

/// Whether the field decides what the headers behind it are.
fn is_header_kind(field: &MatchField) -> bool {
    field.oxm.class == Oxm::BASIC && matches!(field.oxm.number, 5 | 10 | 29 | 30)
}

/// The EtherType that a push of PBB writes.
pub(crate) use parse::ETHER_TYPE_PBB as PBB;

#[cfg(test)]
mod tests;
