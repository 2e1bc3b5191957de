//! A packet: its bytes, where its headers start, and what elements noted about it.
//!
//! ```text
//! buffer   │ headroom │ data                       │ tailroom │
//!                     ▲ offset                     ▲ offset + len
//!                       ▲ MAC   ▲ network  ▲ transport header: places in the buffer, so they stay
//!                                                     right when bytes are taken or added in front
//! ```
//! A packet is one pointer: it moves between elements in eight bytes. What it points to is one
//! piece of memory, kept and used again; see [`crate::Pool`]. Only what outgrows the usual buffer
//! gets a larger one elsewhere, and frames that are kept for long may be lent to packets, see
//! [`crate::lend`].
//!
//! ```text
//! line 0        places, lengths, the time, the first 24 bytes of annotations
//! line 1        the other annotations, other places of the data; looked at only by who uses them
//! lines 2 ...   the buffer; data of a new packet starts with line 3
//! last line     which number it is followed by, if it is: packets are an odd number of lines long
//! ```
//! So a frame of 64 bytes costs two lines of cache, also one that is lent, but for batches that are
//! lent whole, see [`crate::Batch`]. As packets lie one behind the other in memory, an odd number
//! of lines spreads the first lines of a batch over all sets of the cache; with an even one they
//! would share half of them.
//!
//! # Annotations
//! 48 bytes, at Click's places: destination address at 0 (IPv4: 4 bytes, IPv6: 16), paint at 16,
//! ICMP parameter problem pointer at 17, fix-source flag at 19, VLAN tag control information at 20,
//! a task's or flow's words at 24 to 47; elements take the place as an argument where Click's do.
//!
//! # Invariants
//! - P1, P3, P4: see `parts`.
//! - P2: a header place is either unset or within the buffer; what is read from it is checked
//!   against the data again, as bytes may have been taken away since.

use std::num::NonZeroU32;
use std::slice;
use std::sync::Arc;

use crate::lend::Frames;
use crate::pages::prefetch;
use crate::parts::{self, FAR, NOTE_FAR, NOTE_GSO, NOTE_TRACE, Parts, UNSET};

/// Bytes of a new packet's buffer.
pub const BUFFER_BYTES: usize = 2048;
/// Bytes in front of a new packet's data: room for a tunnel's headers.
pub const HEADROOM_BYTES: usize = 64;
/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;
/// Bytes of annotations.
pub const ANNOTATION_BYTES: usize = 48;
/// The most bytes of a packet.
pub const PACKET_BYTES_MAX: usize = 1 << 18;

/// How a packet was addressed on its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacketType {
    /// To this host.
    #[default]
    Host,
    /// To all.
    Broadcast,
    /// To a group.
    Multicast,
    /// To another host.
    OtherHost,
    /// From this host.
    Outgoing,
}

/// See the module.
#[derive(Debug)]
pub struct Packet(Box<Parts>);

impl Packet {
    /// An empty packet with [`HEADROOM_BYTES`] in front. Allocates; [`crate::Pool::packet`] need
    /// not.
    pub fn new() -> Self {
        Self(Box::new(Parts::new()))
    }

    /// Asks for its own line, which tells where its data is.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(slice::from_ref(&*self.0), 0);
    }

    /// Makes it as new, whatever it was; the bytes of the buffer stay as they are.
    #[inline]
    pub fn reset(&mut self) {
        let parts = &mut *self.0;
        parts.clear();
        (parts.mac, parts.network, parts.transport) = (UNSET, UNSET, UNSET);
        parts.packet_type = PacketType::Host;
        parts.timestamp_ns = 0;
        parts.clear_annotations();
    }

    /// Its bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.0.data()
    }

    /// Its bytes.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.0.data_mut()
    }

    /// Number of its bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len() as usize
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Bytes that can be added in front without moving any, but those that are lent.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.0.headroom()
    }

    /// Bytes that can be added behind without moving any, but those that are lent.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.0.tailroom()
    }

    /// The frames that its bytes are lent from, if they are; see [`crate::lend`].
    #[inline]
    pub fn lender(&self) -> Option<&Arc<Frames>> {
        self.0.lender()
    }

    /// Bytes of its buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.0.buffer_bytes()
    }

    /// Whether it has outgrown the usual buffer.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.0.is_large()
    }

    /// Whether any packet at all has. Cost: one load, of what all threads share and rarely change.
    #[inline]
    pub(crate) fn any_is_large() -> bool {
        parts::any_is_large()
    }

    /// Makes its data a copy of `bytes`. Headers are as they were.
    ///
    /// # Panics
    /// If there are more than [`PACKET_BYTES_MAX`].
    pub fn set_data(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.0.put(bytes.len());
        self.data_mut().copy_from_slice(bytes);
    }

    /// Makes it empty, with room for `bytes` behind.
    fn make_room(&mut self, bytes: usize) {
        self.0.take(usize::MAX);
        self.0.own();
        if self.tailroom() < bytes {
            self.grow(self.spare(self.headroom(), bytes), bytes);
        }
    }

    /// What it points to.
    #[inline(always)]
    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }

    /// The same, to change.
    #[inline(always)]
    pub(crate) fn parts_mut(&mut self) -> &mut Parts {
        &mut self.0
    }

    /// Makes it empty, and lets go of whom it borrowed from.
    pub(crate) fn forget_lender(&mut self) {
        self.0.clear();
        self.0.forget_lender();
    }

    /// Adds `bytes` uninitialised (old) bytes in front and gives them.
    ///
    /// # Panics
    /// If it would grow beyond [`PACKET_BYTES_MAX`].
    #[inline]
    pub fn push(&mut self, bytes: usize) -> &mut [u8] {
        self.0.own();
        if self.headroom() < bytes {
            let headroom = bytes + HEADROOM_BYTES;
            self.grow(headroom, self.spare(self.tailroom(), headroom));
        }
        self.0.push(bytes)
    }

    /// Takes `bytes` bytes away in front; all there are if there are fewer.
    #[inline]
    pub fn pull(&mut self, bytes: usize) {
        self.0.pull(bytes);
    }

    /// Adds `bytes` zero bytes behind and gives them.
    ///
    /// # Panics
    /// If it would grow beyond [`PACKET_BYTES_MAX`].
    pub fn put(&mut self, bytes: usize) -> &mut [u8] {
        self.0.own();
        if self.tailroom() < bytes {
            self.grow(self.spare(self.headroom(), bytes), bytes);
        }
        let len = self.len();
        self.0.put(bytes);
        let added = &mut self.data_mut()[len..];
        added.fill(0);
        added
    }

    /// Takes `bytes` bytes away behind; all there are if there are fewer.
    #[inline]
    pub fn take(&mut self, bytes: usize) {
        self.0.take(bytes);
    }

    /// As much of `room`, at the end where nothing is added, as a buffer has beside the data and
    /// `added` bytes: packets that get longer at one end and shorter at the other stay in bounds.
    fn spare(&self, room: usize, added: usize) -> usize {
        room.min((2 * PACKET_BYTES_MAX).saturating_sub(self.len() + added))
    }

    /// Moves the data so that there are `headroom` bytes in front, and at least `tailroom` behind.
    #[cold]
    pub fn grow(&mut self, headroom: usize, tailroom: usize) {
        self.0.grow(headroom, tailroom);
    }

    /// Makes it a copy of `other`: bytes, headers, annotations and all. What the other borrows, it
    /// borrows, too.
    pub fn copy_from(&mut self, other: &Packet) {
        let (parts, from) = (&mut *self.0, &*other.0);
        parts.copy_data(from);
        (parts.mac, parts.network, parts.transport) = (from.mac, from.network, from.transport);
        parts.copy_notes(from);
        if from.notes & NOTE_GSO != 0 {
            parts.gso = from.gso;
            parts.notes |= NOTE_GSO;
        }
        if from.has_cached() {
            parts.cached = from.cached;
            parts.mark_cached();
        }
    }

    /// Gives it the packet type, time, annotations and trace of `other`: for packets that are made
    /// of others.
    pub fn copy_notes_from(&mut self, other: &Packet) {
        self.0.copy_notes(&other.0);
    }

    /// Makes its data the first bytes of up to `bytes_max` that `fill` writes and counts. They are
    /// bytes of earlier packets before. Headers are as they were.
    ///
    /// # Panics
    /// If `bytes_max` is more than [`PACKET_BYTES_MAX`], or `fill` counts more.
    pub fn fill_data(&mut self, bytes_max: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        self.make_room(bytes_max);
        self.0.put(bytes_max);
        let bytes = fill(self.data_mut());
        assert!(bytes <= bytes_max, "{bytes} bytes of {bytes_max}");
        self.take(bytes_max - bytes);
        bytes
    }

    /// The number that it is followed by, for who wants to know which way it goes; copies have the
    /// same. None of almost all packets, and of each that begins anew.
    #[inline]
    pub fn trace(&self) -> Option<NonZeroU32> {
        if self.0.notes & NOTE_TRACE == 0 {
            return None;
        }
        NonZeroU32::new(self.0.trace)
    }

    /// Has it be followed by this number, or no more.
    pub fn set_trace(&mut self, trace: Option<NonZeroU32>) {
        let parts = &mut *self.0;
        match trace {
            Some(number) => {
                parts.notes |= NOTE_TRACE;
                parts.trace = number.get();
            }
            None => parts.notes &= !NOTE_TRACE,
        }
    }

    /// Has it be followed as `other` is: for packets that are made of others, or because of them.
    pub fn trace_as(&mut self, other: &Packet) {
        self.set_trace(other.trace());
    }

    /// What tells it from all packets that are there at the same time, and stays as it is wherever
    /// the packet moves.
    #[inline]
    pub fn identity(&self) -> usize {
        std::ptr::from_ref(&*self.0).addr()
    }

    /// When it was seen: nanoseconds since 1970, 0 if unknown.
    #[inline]
    pub fn timestamp_ns(&self) -> i64 {
        self.0.timestamp_ns
    }

    /// Sets when it was seen.
    #[inline]
    pub fn set_timestamp_ns(&mut self, timestamp_ns: i64) {
        self.0.timestamp_ns = timestamp_ns;
    }

    /// How it was addressed on its link.
    #[inline]
    pub fn packet_type(&self) -> PacketType {
        self.0.packet_type
    }

    /// Sets how it was addressed on its link.
    #[inline]
    pub fn set_packet_type(&mut self, packet_type: PacketType) {
        self.0.packet_type = packet_type;
    }
}

impl Default for Packet {
    fn default() -> Self {
        Self::new()
    }
}

/// Which header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Of the link: Ethernet.
    Mac,
    /// IPv4, IPv6 or ARP.
    Network,
    /// TCP, UDP, ICMP and the like.
    Transport,
}

/// Headers.
impl Packet {
    #[inline]
    fn place(&self, header: Header) -> u32 {
        match header {
            Header::Mac => self.0.mac,
            Header::Network => self.0.network,
            Header::Transport => self.0.transport,
        }
    }

    /// Says that `header` starts `bytes` bytes behind the start of the data.
    ///
    /// # Panics
    /// If that is behind the end of the data.
    #[inline]
    pub fn set_header(&mut self, header: Header, bytes: usize) {
        assert!(bytes <= self.len(), "a header behind the data");
        let at = self.0.offset() + bytes as u32;
        match header {
            Header::Mac => self.0.mac = at,
            Header::Network => self.0.network = at,
            Header::Transport => self.0.transport = at,
        }
    }

    /// Says that the network header starts `bytes` bytes behind the start of the data, and the
    /// transport header `header_bytes` behind that, if the data reaches so far.
    ///
    /// # Panics
    /// If the first is behind the end of the data.
    #[inline]
    pub fn set_ip_header(&mut self, bytes: usize, header_bytes: usize) {
        let parts = &mut *self.0;
        let end = bytes + header_bytes;
        let (offset, len) = (parts.offset(), parts.len() as usize);
        assert!(bytes <= len, "a header behind the data");
        parts.network = offset + bytes as u32;
        parts.transport = if end <= len { offset + end as u32 } else { UNSET };
    }

    /// Forgets where `header` starts.
    #[inline]
    pub fn clear_header(&mut self, header: Header) {
        match header {
            Header::Mac => self.0.mac = UNSET,
            Header::Network => self.0.network = UNSET,
            Header::Transport => self.0.transport = UNSET,
        }
    }

    /// Where `header` starts, from the start of the data; none if it is unset, or no longer part of
    /// the data.
    #[inline]
    pub fn header_offset(&self, header: Header) -> Option<usize> {
        let at = self.place(header).checked_sub(self.0.offset())?;
        (at <= self.0.len()).then_some(at as usize)
    }

    /// The bytes from the start of `header` to the end of the data; empty if it is not there.
    #[inline]
    pub fn from_header(&self, header: Header) -> &[u8] {
        self.header_offset(header).map_or(&[], |at| &self.data()[at..])
    }

    /// The same, to change.
    #[inline]
    pub fn from_header_mut(&mut self, header: Header) -> &mut [u8] {
        match self.header_offset(header) {
            Some(at) => &mut self.data_mut()[at..],
            None => &mut [],
        }
    }

    /// The bytes in front of the data from the start of the MAC header on, if it was taken away.
    pub fn stripped_mac(&self) -> Option<&[u8]> {
        (self.0.mac < self.0.offset()).then(|| self.0.in_front(self.0.mac as usize))
    }

    /// How many bytes from the start of `header` on were taken away in front;
    /// [`Packet::unpull`] puts them back.
    pub fn stripped_bytes(&self, header: Header) -> usize {
        match self.place(header) {
            UNSET => 0,
            at => self.0.offset().saturating_sub(at) as usize,
        }
    }

    /// Puts bytes that were taken away in front back: `bytes` of them, as they were. If there were
    /// fewer, zeros come before them.
    ///
    /// # Panics
    /// If it would grow beyond [`PACKET_BYTES_MAX`].
    pub fn unpull(&mut self, bytes: usize) {
        self.0.unpull(bytes);
    }
}

/// Places of annotations.
pub mod annotation {
    /// Destination address: 4 bytes for IPv4, 16 for IPv6.
    pub const DST: usize = 0;
    /// Paint, one byte.
    pub const PAINT: usize = 16;
    /// Pointer of an ICMP parameter problem, one byte.
    pub const ICMP_POINTER: usize = 17;
    /// Whether the source address is to be fixed, one byte.
    pub const FIX_SRC: usize = 19;
    /// VLAN tag control information, two bytes in network order.
    pub const VLAN_TCI: usize = 20;
    /// Bytes that were cut off when the packet was captured, four bytes.
    pub const EXTRA_LEN: usize = 28;
    /// Time of the first packet of a flow, eight bytes.
    pub const FIRST_TIMESTAMP: usize = 32;
}

/// Annotations: numbers are kept in the machine's order, addresses in network order.
impl Packet {
    /// All 48 bytes.
    #[inline]
    pub fn annotations(&self) -> &[u8; ANNOTATION_BYTES] {
        &self.0.annotations
    }

    /// All 48 bytes.
    #[inline]
    pub fn annotations_mut(&mut self) -> &mut [u8; ANNOTATION_BYTES] {
        self.0.notes |= NOTE_FAR;
        &mut self.0.annotations
    }

    /// The byte at `at`.
    ///
    /// # Panics
    /// If `at` is not a place: arguments are checked when elements are configured.
    #[inline]
    pub fn anno_u8(&self, at: usize) -> u8 {
        self.0.annotations[at]
    }

    /// Sets the byte at `at`. Panics as [`Packet::anno_u8`].
    #[inline]
    pub fn set_anno_u8(&mut self, at: usize, value: u8) {
        self.0.note_far(at >= FAR);
        self.0.annotations[at] = value;
    }

    /// The two bytes from `at` on. Panics as [`Packet::anno_u8`].
    pub fn anno_u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes([self.0.annotations[at], self.0.annotations[at + 1]])
    }

    /// Sets the two bytes from `at` on. Panics as [`Packet::anno_u8`].
    pub fn set_anno_u16(&mut self, at: usize, value: u16) {
        self.0.note_far(at + 2 > FAR);
        self.0.annotations[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }

    /// The four bytes from `at` on. Panics as [`Packet::anno_u8`].
    #[inline]
    pub fn anno_u32(&self, at: usize) -> u32 {
        // Those in the second line most often are zero, which the first one tells.
        if at >= FAR && self.0.notes & NOTE_FAR == 0 && at + 4 <= ANNOTATION_BYTES {
            return 0;
        }
        let bytes: [u8; 4] = self.0.annotations[at..at + 4].try_into().expect("four bytes");
        u32::from_ne_bytes(bytes)
    }

    /// Sets the four bytes from `at` on. Panics as [`Packet::anno_u8`].
    #[inline]
    pub fn set_anno_u32(&mut self, at: usize, value: u32) {
        self.0.note_far(at + 4 > FAR);
        self.0.annotations[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// The destination address annotation, IPv4.
    #[inline]
    pub fn dst_ipv4(&self) -> [u8; 4] {
        self.0.annotations[..4].try_into().expect("four bytes")
    }

    /// Sets the destination address annotation, IPv4.
    #[inline]
    pub fn set_dst_ipv4(&mut self, address: [u8; 4]) {
        self.0.annotations[..4].copy_from_slice(&address);
    }

    /// The destination address annotation, IPv6.
    pub fn dst_ipv6(&self) -> [u8; 16] {
        self.0.annotations[..16].try_into().expect("sixteen bytes")
    }

    /// Sets the destination address annotation, IPv6.
    pub fn set_dst_ipv6(&mut self, address: [u8; 16]) {
        self.0.annotations[..16].copy_from_slice(&address);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lend::Frames;

    #[test]
    fn bytes_come_and_go_at_both_ends() {
        let mut packet = Packet::new();
        packet.set_data(b"payload");
        packet.set_header(Header::Network, 0);
        packet.push(4).copy_from_slice(b"head");
        packet.put(4).copy_from_slice(b"tail");
        assert_eq!(packet.data(), b"headpayloadtail");
        assert_eq!(packet.from_header(Header::Network), b"payloadtail");
        packet.pull(6);
        packet.take(5);
        assert_eq!(packet.data(), b"yload"[..4].as_ref());
        assert_eq!(packet.header_offset(Header::Network), None);
        assert_eq!(packet.stripped_bytes(Header::Network), 2);
        assert_eq!(packet.stripped_bytes(Header::Mac), 0);
        packet.unpull(2);
        assert_eq!(packet.header_offset(Header::Network), Some(0));
        packet.pull(100);
        assert!(packet.is_empty());
        packet.take(1);
        packet.unpull(10_000);
        let (zeros, old) = packet.data().split_at(10_000 - 10);
        assert!(zeros.iter().all(|&byte| byte == 0));
        assert_eq!(old, b"headpayloa");
    }

    /// Whatever is done to a packet that borrows, it is as one with bytes of its own.
    #[test]
    fn what_is_lent_is_as_what_is_owned() {
        type Step = (&'static str, fn(&mut Packet));
        const STEPS: [Step; 12] = [
            ("pull", |packet| packet.pull(14)),
            ("unpull", |packet| {
                let bytes = packet.stripped_bytes(Header::Mac).min(10);
                packet.unpull(bytes);
            }),
            ("take", |packet| packet.take(5)),
            ("push", |packet| packet.push(6).fill(1)),
            ("push much", |packet| packet.push(100).fill(2)),
            ("put", |packet| packet.put(7).fill(3)),
            ("put much", |packet| packet.put(2000).fill(4)),
            ("write", |packet| packet.data_mut().iter_mut().for_each(|byte| *byte ^= 0x55)),
            ("write header", |packet| packet.from_header_mut(Header::Network).fill(9)),
            ("grow", |packet| packet.grow(packet.headroom().max(100), 10)),
            ("set", |packet| packet.set_data(b"other bytes")),
            ("copy", |packet| {
                let mut copy = Packet::new();
                copy.copy_from(packet);
                *packet = copy;
            }),
        ];
        let bytes: Vec<u8> = (0..2500).map(|at| (at / LINE_BYTES) as u8).collect();
        for len in [60, 64, 65, 1500, 1984, 1985, 2500] {
            let mut frames = Frames::default();
            assert!(frames.push(&bytes[..len], 5, PacketType::Multicast));
            let frames = Arc::new(frames);
            for order in 0..12 * 12 * 12 {
                let steps = [order / 144, order / 12 % 12, order % 12].map(|step| STEPS[step]);
                let (mut own, mut lent) = (Packet::new(), Packet::new());
                own.set_data(&bytes[..len]);
                lent.parts_mut().lend(&frames, &frames.list()[0], 5);
                assert_eq!((lent.timestamp_ns(), lent.packet_type()), (5, PacketType::Multicast));
                for packet in [&mut own, &mut lent] {
                    packet.set_header(Header::Mac, 0);
                    packet.set_ip_header(14, 20);
                    packet.pull(10);
                    steps.iter().for_each(|step| step.1(packet));
                }
                let names = steps.map(|step| step.0);
                assert_eq!(own.data(), lent.data(), "{len} bytes: {names:?}");
                let mac = |packet: &Packet| packet.stripped_mac().map(<[u8]>::to_vec);
                assert_eq!(mac(&own), mac(&lent), "{len} bytes: {names:?}");
                for header in [Header::Mac, Header::Network, Header::Transport] {
                    let places = [&own, &lent].map(|packet| packet.header_offset(header));
                    assert_eq!(places[0], places[1], "{len} bytes, {header:?}: {names:?}");
                }
            }
            let kept = frames.lines().iter().flat_map(|line| line.0);
            assert!(kept.zip(&bytes[..len]).all(|(kept, byte)| kept == *byte));
        }
    }

    /// A byte that the packet before had everywhere, and the next one has nowhere.
    const OLD: u8 = 0xee;

    /// Makes it as new, in a buffer that is full of another packet's bytes.
    fn made_old(packet: &mut Packet) {
        packet.reset();
        packet.push(HEADROOM_BYTES).fill(OLD);
        packet.put(packet.tailroom()).fill(OLD);
        packet.reset();
    }

    #[test]
    fn what_was_never_there_comes_back_as_zeros() {
        let mut packet = Packet::new();
        made_old(&mut packet);
        packet.set_data(b"short");
        packet.pull(14);
        packet.unpull(14);
        assert_eq!(packet.data(), b"\0\0\0\0\0\0\0\0\0short");
        packet.pull(7);
        packet.push(2).copy_from_slice(b"ab");
        packet.unpull(70);
        assert_eq!(packet.data(), [&[0; 70], &b"ab\0\0short"[..]].concat());
    }

    /// Whatever is done to a packet in front, in whatever way it got its bytes: it never shows
    /// those of the packet that had the buffer before.
    #[test]
    fn nobody_sees_another_packets_bytes() {
        type Step = fn(&mut Packet);
        const STEPS: [Step; 14] = [
            |packet| packet.pull(14),
            |packet| packet.pull(100),
            |packet| packet.unpull(14),
            |packet| packet.unpull(50),
            |packet| packet.unpull(2100),
            |packet| packet.push(6).fill(1),
            |packet| packet.push(60).fill(2),
            |packet| packet.put(7).fill(3),
            |packet| packet.put(2000).fill(4),
            |packet| packet.data_mut().fill(5),
            |packet| packet.set_data(b"other bytes"),
            |packet| packet.take(20),
            |packet| packet.grow(packet.headroom() + 9, 10),
            |packet| {
                let mut copy = Packet::new();
                made_old(&mut copy);
                copy.copy_from(packet);
                *packet = copy;
            },
        ];
        let mut frames = Frames::default();
        for bytes in [5, 60, 2500] {
            assert!(frames.push(&[7; 2500][..bytes], 0, PacketType::Host));
        }
        let frames = Arc::new(frames);
        let ways: [fn(&mut Packet, &Arc<Frames>, usize); 3] = [
            |packet, frames, at| packet.parts_mut().lend(frames, &frames.list()[at], 0),
            |packet, frames, at| packet.parts_mut().copy_frame(frames, &frames.list()[at], 0),
            |packet, frames, at| packet.set_data(&[7; 2500][..frames.list()[at].bytes() as usize]),
        ];
        let many = STEPS.len();
        for order in 0..9 * many.pow(4) {
            let mut packet = Packet::new();
            made_old(&mut packet);
            ways[order % 3](&mut packet, &frames, order / 3 % 3);
            let orders = [1, many, many.pow(2), many.pow(3)].map(|unit| order / 9 / unit % many);
            for (count, step) in orders.into_iter().enumerate() {
                STEPS[step](&mut packet);
                let mut shown = packet.data().to_vec();
                let mut copy = Packet::new();
                copy.copy_from(&packet);
                copy.unpull(200);
                shown.extend(copy.data());
                assert!(!shown.contains(&OLD), "{order}: {:?}", &orders[..=count]);
            }
        }
    }

    #[test]
    fn a_packet_outgrows_its_buffer_and_keeps_its_headers() {
        let mut packet = Packet::new();
        packet.set_data(&[7; 100]);
        packet.set_header(Header::Mac, 0);
        packet.set_header(Header::Transport, 34);
        packet.push(3000).fill(1);
        packet.put(5000);
        assert_eq!(packet.len(), 8100);
        assert_eq!(packet.header_offset(Header::Mac), Some(3000));
        assert_eq!(packet.header_offset(Header::Transport), Some(3034));
        assert_eq!(packet.data()[3000..3100], [7; 100]);

        let mut copy = Packet::new();
        copy.copy_from(&packet);
        assert_eq!(copy.data(), packet.data());
        assert_eq!(copy.header_offset(Header::Transport), Some(3034));
    }

    #[test]
    fn a_packet_is_followed_until_it_begins_anew() {
        let mut frames = Frames::default();
        assert!(frames.push(&[1; 60], 0, PacketType::Host));
        let frames = Arc::new(frames);
        let (mut packet, mut copy) = (Packet::new(), Packet::new());
        let number = NonZeroU32::new(7);
        let ends: [fn(&mut Packet, &Arc<Frames>); 5] = [
            |packet, _| packet.reset(),
            |packet, frames| packet.parts_mut().lend(frames, &frames.list()[0], 0),
            |packet, frames| packet.parts_mut().copy_frame(frames, &frames.list()[0], 0),
            |packet, _| packet.copy_from(&Packet::new()),
            |packet, _| packet.set_trace(None),
        ];
        for end in ends {
            packet.set_trace(number);
            packet.set_data(&[0; 3000]);
            packet.annotations_mut().fill(9);
            copy.copy_from(&packet);
            assert_eq!((packet.trace(), copy.trace()), (number, number));
            assert_ne!(packet.identity(), copy.identity());
            end(&mut packet, &frames);
            assert_eq!((packet.trace(), copy.trace()), (None, number));
            copy.reset();
            assert_eq!(copy.annotations(), &[0; 48], "notes go one with the other");
        }
    }

    #[test]
    fn annotations_lie_where_they_are_said_to() {
        let mut packet = Packet::new();
        packet.set_dst_ipv4([10, 0, 0, 1]);
        packet.set_anno_u8(annotation::PAINT, 3);
        packet.set_anno_u16(annotation::VLAN_TCI, 0x1234);
        packet.set_anno_u32(44, 9);
        assert_eq!(packet.annotations()[..4], [10, 0, 0, 1]);
        assert_eq!((packet.anno_u8(16), packet.anno_u16(20), packet.anno_u32(44)), (3, 0x1234, 9));
        let mut copy = Packet::new();
        copy.copy_from(&packet);
        assert_eq!(copy.annotations(), packet.annotations());
        packet.reset();
        assert_eq!(packet.annotations(), &[0; 48]);
        copy.copy_from(&packet);
        assert_eq!(copy.annotations(), &[0; 48], "also those that were other than zero");
        for at in 0..48 {
            packet.set_anno_u8(at, 1);
            packet.set_anno_u16(at.min(46), 2);
            packet.set_anno_u32(at.min(44), 3);
            packet.reset();
            assert_eq!(packet.annotations(), &[0; 48], "{at}");
        }
    }
}
