//! Slices: the parts of packets that kernels read.
//!
//! The slices of one kind in a wide batch form a column of words, which the device reads. The
//! worker finds the fields behind tags, options and extension headers, once for all elements that
//! share the slice.

use warpswitch_elements_lookup::frame_key;
use warpswitch_elements_lookup::routes::PacketAddress;
use warpswitch_gpu::chain::ALIGN_WORDS;
use warpswitch_gpu::routes::{self, SLICE_WORDS};
use warpswitch_packet::{Batch, Column, Header, LentFrames, Packet, annotation};
use warpswitch_rules::Schema;
use warpswitch_rules::extract::Extractor;
use warpswitch_wire::link::LinkType;

use super::anno::Predicate;

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

/// A slice that a crate defines for its own device elements: words of each packet. Slices are the
/// same if they are the same `static`.
#[derive(Debug)]
pub struct PacketSlice {
    name: &'static str,
    words: usize,
    cut: fn(&Packet, &mut [u32]) -> bool,
}

impl PacketSlice {
    /// A slice of `words` words, at least one; the `Batcher` reports it as `name`. `cut` writes the
    /// words of one packet, which are 0 before. It returns false for packets that need no lookup:
    /// these stay off the device.
    pub const fn new(
        name: &'static str,
        words: usize,
        cut: fn(&Packet, &mut [u32]) -> bool,
    ) -> Self {
        assert!(words > 0, "a slice has at least one word");
        Self { name, words, cut }
    }

    /// Writes the slices of a batch side by side, whose first packet is number `from`; adds the
    /// numbers of the packets that have one to `holders`.
    pub(super) fn cut_all(
        &self,
        batch: &Batch,
        from: usize,
        room: &mut [u32],
        holders: &mut Vec<u32>,
    ) {
        let mut rooms = room.chunks_exact_mut(self.words);
        let mut next = rooms.next();
        for (number, packet) in (from as u32..).zip(batch.iter_ahead()) {
            let Some(words) = &mut next else { return };
            words.fill(0);
            if (self.cut)(packet, words) {
                holders.push(number);
                next = rooms.next();
            }
        }
    }
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
    /// Words that another crate defines.
    Custom(&'static PacketSlice),
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Slice::HeaderDestination(one), Slice::HeaderDestination(other))
            | (Slice::Destination(one), Slice::Destination(other)) => one == other,
            (Slice::IpHeader(one), Slice::IpHeader(other)) => one == other,
            (Slice::Key(one), Slice::Key(other)) => std::ptr::eq(*one, *other),
            (Slice::Custom(one), Slice::Custom(other)) => std::ptr::eq(*one, *other),
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
            Slice::Custom(slice) => slice.words,
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
            Slice::Custom(slice) => slice.name,
        }
    }

    /// Words of a column of `packets` slices, padded for the alignment of the next column.
    pub(crate) fn column_words(self, packets: usize) -> usize {
        (self.words() * packets).next_multiple_of(ALIGN_WORDS)
    }
}

/// The slices of a wide batch, side by side in the words of a chain.
#[derive(Debug)]
pub(crate) struct SliceColumn {
    pub(super) slice: Slice,
    /// Where it begins.
    pub(crate) at: usize,
    /// The packets that have a slice, by number in the wide batch; `None` if all have one.
    pub(super) holders: Option<Vec<u32>>,
}

impl SliceColumn {
    /// One without slices yet; of all packets only if neither slice nor predicate excludes any.
    pub(super) fn new(slice: Slice, only: Option<Predicate>) -> Self {
        let is_sparse = only.is_some() || matches!(slice, Slice::Custom(_));
        Self { slice, at: 0, holders: is_sparse.then(Vec::new) }
    }

    /// How many slices there are of a batch of so many packets.
    pub(crate) fn len(&self, packets: usize) -> usize {
        self.holders.as_ref().map_or(packets, Vec::len)
    }

    /// Moves answers, one a slice, to the places of their packets; others get `missing`.
    pub(crate) fn scatter<T: Copy>(&self, packets: usize, missing: T, answers: &mut Vec<T>) {
        let Some(holders) = &self.holders else { return };
        let mut left = holders.len();
        answers.resize(packets, missing);
        // From the end: no answer moves to the front.
        for number in (0..packets).rev() {
            let has_answer = left > 0 && holders[left - 1] as usize == number;
            left -= usize::from(has_answer);
            answers[number] = if has_answer { answers[left] } else { missing };
        }
    }
}

/// A slice, of packets that meet a predicate if there is one, and what finds it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) slice: Slice,
    pub(super) only: Option<Predicate>,
    extractor: Option<Extractor>,
}

impl Part {
    /// Gets ready to find a slice.
    pub(super) fn new(slice: Slice, only: Option<Predicate>) -> Self {
        let extractor = match slice {
            Slice::Key(schema) => Some(Extractor::new(schema, LinkType::Ethernet)),
            _ => None,
        };
        Self { slice, only, extractor }
    }

    /// Adds the slices of a batch, which begins with packet `from` of its wide batch, to a column,
    /// whose words are `room`. Packets that do not meet the predicate get none.
    pub(super) fn add(
        &self,
        batch: &Batch,
        from: usize,
        column: &mut SliceColumn,
        room: &mut [u32],
        (keyless, places): (&mut Vec<(Slice, usize)>, &mut Vec<u32>),
    ) {
        let words = self.slice.words();
        let room = &mut room[column.len(from) * words..][..batch.len() * words];
        let Some(holders) = &mut column.holders else {
            return self.cut(batch, from, room, keyless, places);
        };
        let before = holders.len();
        match self.slice {
            Slice::Custom(slice) => slice.cut_all(batch, from, room, holders),
            _ => {
                self.cut(batch, from, room, keyless, places);
                holders.extend(from as u32..(from + batch.len()) as u32);
            }
        }
        if let Some(only) = self.only {
            let mut numbers = Vec::with_capacity(batch.len());
            batch.read_annos(only.place, &mut numbers);
            keep_only(holders, before, room, words, |number| {
                numbers[number as usize - from] == only.number
            });
        }
    }

    /// Writes the slices of a batch, which begins with packet `from` of its wide batch, side by
    /// side; notes which packets have none where that is not seen from the words, and where in
    /// buffers IPv6 destinations were found, 0 for nowhere.
    fn cut(
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
            Slice::Custom(_) => {}
        }
    }

    /// Writes the flow keys of a batch.
    fn cut_keys(&self, batch: &Batch, room: &mut [u32], keyless: &mut dyn FnMut(usize)) {
        let Some(extractor) = &self.extractor else { return };
        let is_unpainted = batch.anno_column(annotation::PAINT) == Some(Column::All(0));
        match batch.whole_frames().filter(|_| is_unpainted) {
            Some(LentFrames::Span(frames)) => {
                extractor.extract_each(frames.map(|frame| (frame, 0)), room, keyless);
            }
            Some(LentFrames::Numbered(frames)) => {
                extractor.extract_each(frames.map(|frame| (frame, 0)), room, keyless);
            }
            None => match batch.shown_frames().filter(|_| is_unpainted) {
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

/// Removes packets from `holders`, from position `before` on, and their slices from `room`.
fn keep_only(
    holders: &mut Vec<u32>,
    before: usize,
    room: &mut [u32],
    words: usize,
    is_kept: impl Fn(u32) -> bool,
) {
    let mut kept = 0;
    for idx in 0..holders.len() - before {
        let number = holders[before + idx];
        if is_kept(number) {
            room.copy_within(idx * words..(idx + 1) * words, kept * words);
            holders[before + kept] = number;
            kept += 1;
        }
    }
    holders.truncate(before + kept);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holders_of(kept: &[bool]) -> Vec<u32> {
        (0..).zip(kept).filter(|(_, kept)| **kept).map(|(idx, _)| idx).collect()
    }

    proptest! {
        /// Slices of excluded packets go, others stay in order, and answers come back to packets.
        #[test]
        fn answers_return_to_the_packets_that_have_slices(
            kept in prop::collection::vec(any::<bool>(), ..40),
            before in 0..3u32,
            words in 1..4usize,
        ) {
            let first: Vec<u32> = (0..before).collect();
            let numbers = before..before + kept.len() as u32;
            let mut holders: Vec<u32> = first.iter().copied().chain(numbers).collect();
            let mut room: Vec<u32> =
                (0..kept.len()).flat_map(|idx| vec![before + idx as u32; words]).collect();
            let is_kept = |number: u32| kept[(number - before) as usize];
            keep_only(&mut holders, first.len(), &mut room, words, is_kept);
            let expected: Vec<u32> =
                holders_of(&kept).into_iter().map(|idx| before + idx).collect();
            prop_assert_eq!(&holders[first.len()..], &expected[..]);
            let slices = expected.iter().flat_map(|&number| vec![number; words]);
            prop_assert!(slices.eq(room[..expected.len() * words].iter().copied()));

            let packets = before as usize + kept.len();
            let mut answers: Vec<u32> = holders.iter().map(|number| number + 100).collect();
            let slice = Slice::Destination(Family::Ipv4);
            let column = SliceColumn { slice, at: 0, holders: Some(holders) };
            prop_assert_eq!(column.len(packets), answers.len());
            column.scatter(packets, 7, &mut answers);
            for (number, &answer) in (0..).zip(&answers) {
                let has_slice = number < before || is_kept(number);
                prop_assert_eq!(answer, if has_slice { number + 100 } else { 7 });
            }
        }
    }
}
