//! Slices: the parts of packets that kernels read.
//!
//! The slices of one kind in a wide batch form a column of words, which the device reads. The
//! worker finds the fields behind tags, options and extension headers, once for all elements that
//! share the slice.

use warpswitch_elements::frame_key;
use warpswitch_elements::route_lookup::PacketAddress;
use warpswitch_gpu::chain::ALIGN_WORDS;
use warpswitch_gpu::routes::{self, SLICE_WORDS};
use warpswitch_packet::{Batch, Column, Header, LentFrames, Packet, annotation};
use warpswitch_rules::Schema;
use warpswitch_rules::extract::Extractor;
use warpswitch_wire::link::LinkType;

/// Words of a packet that are sent without slices, at most.
pub(super) const FRAME_WORDS: usize = 1536 / 4;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

/// What a packet gives a device to look up: a slice of it.
#[derive(Clone, Copy, Debug)]
pub enum Slice {
    /// The destination in the IP header: of the marked header, or else of an Ethernet frame with or
    /// without VLAN tags; 0 if there is none.
    HeaderDestination(Family),
    /// The destination annotation.
    Destination(Family),
    /// The IPv4 header at an offset in the packet, with the packet length: see
    /// [`warpswitch_gpu::routes::Slice`].
    IpHeader(u32),
    /// The flow key of an Ethernet frame.
    Key(&'static Schema),
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Slice::HeaderDestination(one), Slice::HeaderDestination(other))
            | (Slice::Destination(one), Slice::Destination(other)) => one == other,
            (Slice::IpHeader(one), Slice::IpHeader(other)) => one == other,
            (Slice::Key(one), Slice::Key(other)) => std::ptr::eq(*one, *other),
            _ => false,
        }
    }
}

impl Slice {
    /// Words of a slice.
    pub(crate) fn words(self) -> usize {
        match self {
            Slice::HeaderDestination(family) | Slice::Destination(family) => match family {
                Family::Ipv4 => 1,
                Family::Ipv6 => 4,
            },
            Slice::IpHeader(_) => SLICE_WORDS,
            Slice::Key(schema) => schema.words,
        }
    }

    /// Its name in the handler `slices`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Slice::HeaderDestination(Family::Ipv4) => "IPv4 header destination",
            Slice::HeaderDestination(Family::Ipv6) => "IPv6 header destination",
            Slice::Destination(Family::Ipv4) => "IPv4 destination annotation",
            Slice::Destination(Family::Ipv6) => "IPv6 destination annotation",
            Slice::IpHeader(_) => "IPv4 header and packet length",
            Slice::Key(schema) => schema.name,
        }
    }

    /// Words of a column of `packets` slices, padded for the alignment of the next column.
    pub(crate) fn column_words(self, packets: usize) -> usize {
        (self.words() * packets).next_multiple_of(ALIGN_WORDS)
    }
}

/// A slice, and what finds it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) slice: Slice,
    extractor: Option<Extractor>,
}

impl Part {
    /// Gets ready to find a slice.
    pub(super) fn new(slice: Slice) -> Self {
        let extractor = match slice {
            Slice::Key(schema) => Some(Extractor::new(schema, LinkType::Ethernet)),
            _ => None,
        };
        Self { slice, extractor }
    }

    /// Writes the slices of a batch, which begins with packet `from` of its wide batch, side by
    /// side; notes which packets have none where that is not seen from the words, and where in
    /// buffers IPv6 destinations were found, 0 for nowhere.
    pub(super) fn cut(
        &self,
        batch: &Batch,
        from: usize,
        room: &mut [u32],
        keyless: &mut Vec<(Slice, usize)>,
        places: &mut Vec<u32>,
    ) {
        match self.slice {
            Slice::Key(_) => {
                let mut keyless = |idx| keyless.push((self.slice, from + idx));
                self.cut_keys(batch, room, &mut keyless);
            }
            Slice::IpHeader(at) => {
                for (packet, words) in batch.iter().zip(room.as_chunks_mut().0) {
                    *words = *ip_header(packet, at).words();
                }
            }
            Slice::Destination(Family::Ipv4) => match batch.anno_column(annotation::DST) {
                Some(Column::All(value)) => room.fill(u32::from_be(value)),
                Some(Column::Each(values)) => {
                    for (&value, word) in values.iter().zip(room) {
                        *word = u32::from_be(value);
                    }
                }
                None => {
                    for (packet, word) in batch.iter().zip(room) {
                        *word = u32::of(packet);
                    }
                }
            },
            Slice::Destination(Family::Ipv6) => {
                for (packet, words) in batch.iter().zip(room.as_chunks_mut().0) {
                    *words = words_of(u128::of(packet));
                }
            }
            Slice::HeaderDestination(Family::Ipv4) => match batch.lent_frames() {
                Some(frames) => {
                    for (frame, word) in frames.zip(room) {
                        *word = destination4(frame, None);
                    }
                }
                None => {
                    for (packet, word) in batch.iter().zip(room) {
                        let header = packet.header_offset(Header::Network);
                        *word = destination4(packet.data(), header);
                    }
                }
            },
            Slice::HeaderDestination(Family::Ipv6) => {
                for (packet, words) in batch.iter().zip(room.as_chunks_mut().0) {
                    let header = packet.header_offset(Header::Network);
                    let found = header_destination(packet.data(), header, 24, 0x86dd);
                    *words = words_of(found.map_or(0, |(_, address)| u128::from_be_bytes(address)));
                    let place = found.map_or(0, |(at, _)| packet.headroom() + at);
                    places.push(u32::try_from(place).unwrap_or(0));
                }
            }
        }
    }

    /// Writes the flow keys of a batch.
    fn cut_keys(&self, batch: &Batch, room: &mut [u32], keyless: &mut dyn FnMut(usize)) {
        let Some(extractor) = &self.extractor else { return };
        let is_unpainted = batch.anno_column(annotation::PAINT) == Some(Column::All(0));
        match batch.lent_frames() {
            Some(LentFrames::Span(frames)) => {
                extractor.extract_each(frames.map(|frame| (frame, 0)), room, keyless);
            }
            Some(LentFrames::Numbered(frames)) => {
                extractor.extract_each(frames.map(|frame| (frame, 0)), room, keyless);
            }
            None => match batch.frames_with_headers().filter(|_| is_unpainted) {
                Some(frames) => {
                    extractor.extract_each(frames.map(|frame| (frame, 0)), room, keyless);
                }
                None => {
                    let paint = |packet: &Packet| packet.anno_u8(annotation::PAINT).into();
                    let frames = batch.iter().map(|packet| (packet.data(), paint(packet)));
                    extractor.extract_each(frames, room, keyless);
                }
            },
        }
    }
}

/// Adds the keys of cached results for frames, see [`frame_key`].
pub(super) fn add_frame_keys(batch: &Batch, keys: &mut Vec<Option<u32>>) {
    match batch.lent_frames() {
        // These packets have no paint.
        Some(frames) => {
            keys.extend(frames.map(|frame| Some(Packet::lent_extent(frame.len())? << 8)));
        }
        None => keys.extend(batch.iter().map(frame_key)),
    }
}

/// The IPv4 header at offset `at`; empty if the packet is shorter.
pub(super) fn ip_header(packet: &Packet, at: u32) -> routes::Slice {
    routes::Slice::new(packet.data().get(at as usize..).unwrap_or(&[]))
}

/// The words of an address, most significant first.
fn words_of(address: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (address >> shift) as u32)
}

/// The destination of an IPv4 header; 0 if there is none.
#[inline]
fn destination4(data: &[u8], header: Option<usize>) -> u32 {
    let found = header_destination::<4>(data, header, 16, 0x0800);
    found.map_or(0, |(_, address)| u32::from_be_bytes(address))
}

/// The destination of an IP header, at `offset` in the header, and its offset in `data`. The header
/// is at `header`, or else after the EtherType `ethertype` of a frame.
#[inline]
fn header_destination<const BYTES: usize>(
    data: &[u8],
    header: Option<usize>,
    offset: usize,
    ethertype: u16,
) -> Option<(usize, [u8; BYTES])> {
    let start = match header {
        Some(start) => start,
        None => header_of_frame(data, ethertype)?,
    };
    let at = start + offset;
    Some((at, *data.get(at..)?.first_chunk()?))
}

/// Offset of the header after `ethertype` in an Ethernet frame, behind VLAN tags.
fn header_of_frame(frame: &[u8], ethertype: u16) -> Option<usize> {
    const TAGS_MAX: usize = 4;
    let mut at = 12;
    for _ in 0..=TAGS_MAX {
        match u16::from_be_bytes(*frame.get(at..)?.first_chunk()?) {
            found if found == ethertype => return Some(at + 2),
            0x8100 | 0x88a8 | 0x9100 => at += 4,
            _ => return None,
        }
    }
    None
}

/// Copies the first [`FRAME_WORDS`] words of each packet.
pub(super) fn copy_frames(batch: &Batch, room: &mut [u32]) {
    for (packet, room) in batch.iter_ahead().zip(room.chunks_exact_mut(FRAME_WORDS)) {
        let (fours, rest) = packet.data().as_chunks::<4>();
        for (word, four) in room.iter_mut().zip(fours) {
            *word = u32::from_le_bytes(*four);
        }
        if let Some(word) = room.get_mut(fours.len()) {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            *word = u32::from_le_bytes(last);
        }
    }
}
