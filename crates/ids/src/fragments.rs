//! Fragments in, whole IP packets out.
//!
//! # Choices
//! - *The first data wins*, as in streams: bytes that came stay what they were; a later fragment
//!   fills what is missing, and counts as conflicting where it says something else. Systems differ
//!   in that, and newer ones throw such packets away; whoever sends them is seen either way.
//! - A fragment that says another end than is known, lies beyond it, reaches beyond 64 KiB, or has
//!   no data is not used. Of one that others follow what is behind a multiple of eight bytes is
//!   not, as Linux has it.
//! - A fragment that the capture has in part is not used: its packet stays without it.
//! - Packets that are not whole after [`WAIT_NS`] are given up; the oldest are when there are more
//!   bytes than may be. So are all at the end.
//!
//! # Layout
//! Pieces of data by where they begin, apart from each other; nothing is reserved for what has not
//! come, so that a last fragment far behind costs no more than its bytes. They are copied once more
//! when the packet is whole. Fragments are few: what counts is what a flood of them can take, which
//! is a logarithm of time for each and the bound of bytes for all.

use std::collections::{BTreeMap, HashMap};

use warpswitch_wire::fragment::IpFragment;
use warpswitch_wire::ip::IpProto;
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::ipv6;

/// How long a packet may take from its first fragment to its last.
const WAIT_NS: u64 = 30_000_000_000;

/// The longest whole packet.
const PACKET_BYTES_MAX: usize = 65_535;

/// What a packet that is not whole takes beside its data and headers: places in both tables, and
/// the first node of its pieces.
const PARTIAL_BYTES: usize = 1024;

/// What a piece takes beside its data.
const PIECE_BYTES: usize = 96;

/// What all fragments of a packet have in common. As numbers, so that the family is told apart by
/// the protocol: of IPv6 it is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    src: u128,
    dst: u128,
    id: u32,
    /// Of IPv4.
    proto: Option<IpProto>,
    vlans: [u16; 2],
}

/// Whose a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentOf {
    pub src: u128,
    pub dst: u128,
    pub is_ipv6: bool,
    pub vlans: [u16; 2],
}

/// What became of fragments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentStats {
    /// Fragments.
    pub fragments: u64,
    /// Packets that became whole.
    pub whole: u64,
    /// Packets that were given up as they took too long.
    pub timed_out: u64,
    /// Packets that were given up to make room for others.
    pub evicted: u64,
    /// Fragments that were not used: of no place in a packet, contradicting its end, or cut.
    pub unusable: u64,
    /// Fragments that say something else about bytes that had come before.
    pub conflicts: u64,
    /// The most bytes that fragments took.
    pub bytes_peak: u64,
}

/// A packet that was put together: IP, without a link header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub bytes: Vec<u8>,
    pub vlans: [u16; 2],
}

/// What goes in front of a whole packet's data: of the first of its fragments that begins it.
#[derive(Debug)]
struct Front {
    bytes: Box<[u8]>,
    next_at: usize,
    proto: IpProto,
}

/// A packet that is not whole.
#[derive(Debug, Default)]
struct Partial {
    /// Its number in [`Fragments::by_age`].
    number: u64,
    since_ns: u64,
    front: Option<Front>,
    /// Data by where they begin; they do not overlap, and end at `end` if that is known.
    pieces: BTreeMap<usize, Box<[u8]>>,
    /// Bytes of them.
    data_bytes: usize,
    /// Where the data end, once the last fragment came.
    end: Option<usize>,
    /// Fragments of it that came.
    count: u64,
}

/// Packets that are not whole.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    partials: HashMap<Key, Partial>,
    /// Keys in the order in which their packets began.
    by_age: BTreeMap<u64, Key>,
    /// Packets that began.
    begun: u64,
    bytes: usize,
    stats: FragmentStats,
    /// Fragments whose packets were given up, or that were not used.
    pub lost: u64,
}

impl Fragments {
    /// What was counted.
    pub(crate) fn stats(&self) -> FragmentStats {
        self.stats
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a fragment that comes at `now_ns`; gives its packet if it is whole by that. No more
    /// than `bytes_max` are held.
    pub(crate) fn take(
        &mut self,
        of: &FragmentOf,
        part: &IpFragment<'_>,
        now_ns: u64,
        bytes_max: usize,
    ) -> Option<Whole> {
        self.stats.fragments += 1;
        self.give_up_before(now_ns.saturating_sub(WAIT_NS));
        let proto = (!of.is_ipv6).then_some(part.proto);
        let key = Key { src: of.src, dst: of.dst, id: part.id, proto, vlans: of.vlans };
        let data = match usable(part) {
            Some(data) => data,
            None => {
                self.refuse();
                return None;
            }
        };
        let partial = self.partials.entry(key).or_insert_with(|| {
            self.begun += 1;
            self.by_age.insert(self.begun, key);
            self.bytes += PARTIAL_BYTES;
            Partial { number: self.begun, since_ns: now_ns, ..Partial::default() }
        });
        partial.count += 1;
        let before = partial.bytes();
        let Ok(differs) = partial.add(part, data) else {
            partial.count -= 1;
            self.refuse();
            self.forget_if_empty(&key);
            return None;
        };
        self.bytes += partial.bytes() - before;
        self.stats.conflicts += u64::from(differs);
        self.stats.bytes_peak = self.stats.bytes_peak.max(self.bytes as u64);
        if partial.is_whole() {
            let partial = self.remove(&key)?;
            let count = partial.count;
            let whole = partial.join(of);
            match whole {
                Some(_) => self.stats.whole += 1,
                None => {
                    (self.lost, self.stats.unusable) =
                        (self.lost + count, self.stats.unusable + count)
                }
            }
            return whole;
        }
        while self.bytes > bytes_max {
            let Some(key) = self.by_age.first_key_value().map(|(_, key)| *key) else { break };
            self.give_up(&key);
            self.stats.evicted += 1;
        }
        None
    }

    /// Gives up all of them: nothing more will come.
    pub(crate) fn finish(&mut self) {
        self.lost += self.partials.values().map(|partial| partial.count).sum::<u64>();
        self.partials.clear();
        self.by_age.clear();
        self.bytes = 0;
    }

    fn refuse(&mut self) {
        self.lost += 1;
        self.stats.unusable += 1;
    }

    /// Gives up what began before a time.
    fn give_up_before(&mut self, time_ns: u64) {
        while let Some((_, &key)) = self.by_age.first_key_value() {
            if self.partials.get(&key).is_some_and(|partial| partial.since_ns >= time_ns) {
                break;
            }
            self.give_up(&key);
            self.stats.timed_out += 1;
        }
    }

    fn give_up(&mut self, key: &Key) {
        self.lost += self.remove(key).map_or(0, |partial| partial.count);
    }

    fn forget_if_empty(&mut self, key: &Key) {
        if self.partials.get(key).is_some_and(|partial| partial.count == 0) {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Partial> {
        let partial = self.partials.remove(key)?;
        self.by_age.remove(&partial.number);
        self.bytes -= PARTIAL_BYTES + partial.bytes();
        Some(partial)
    }
}

/// The data of a fragment that may be used.
fn usable<'a>(part: &IpFragment<'a>) -> Option<&'a [u8]> {
    let is_there = part.data.len() == part.data_wire_bytes;
    let bytes = if part.more { part.data.len() / 8 * 8 } else { part.data.len() };
    let ends_within = part.start + bytes <= PACKET_BYTES_MAX;
    (is_there && bytes > 0 && ends_within).then(|| &part.data[..bytes])
}

/// A fragment contradicts what is known of where its packet ends.
struct Contradiction;

impl Partial {
    /// Bytes of memory that its data and headers take.
    fn bytes(&self) -> usize {
        let front = self.front.as_ref().map_or(0, |front| front.bytes.len());
        front + self.data_bytes + self.pieces.len() * PIECE_BYTES
    }

    fn is_whole(&self) -> bool {
        self.front.is_some() && self.end == Some(self.data_bytes)
    }

    /// Adds what is new of a fragment; tells whether the rest of it differs from what came before.
    fn add(&mut self, part: &IpFragment<'_>, data: &[u8]) -> Result<bool, Contradiction> {
        let end = part.start + data.len();
        let known_end = self.pieces.last_key_value().map_or(0, |(at, bytes)| at + bytes.len());
        let fits = match self.end {
            Some(known) if part.more => end <= known,
            Some(known) => end == known,
            None => part.more || end >= known_end,
        };
        if !fits {
            return Err(Contradiction);
        }
        if !part.more {
            self.end = Some(end);
        }
        if part.start == 0 && self.front.is_none() {
            let (bytes, next_at) = (part.front.into(), part.next_at);
            self.front = Some(Front { bytes, next_at, proto: part.proto });
        }
        Ok(self.fill(part.start, data))
    }

    /// Puts data where there are none; tells whether they differ where there are some.
    fn fill(&mut self, start: usize, data: &[u8]) -> bool {
        let end = start + data.len();
        // The piece before it may reach into it.
        let first = self.pieces.range(..=start).next_back().map_or(start, |(&at, _)| at);
        let (mut at, mut differs, mut missing) = (start, false, Vec::new());
        for (&from, bytes) in self.pieces.range(first..end) {
            let to = (from + bytes.len()).min(end);
            if to <= at {
                continue;
            }
            if from > at {
                missing.push((at, from));
                at = from;
            }
            differs |= bytes[at - from..to - from] != data[at - start..to - start];
            at = to;
        }
        if at < end {
            missing.push((at, end));
        }
        for (from, to) in missing {
            self.pieces.insert(from, data[from - start..to - start].into());
            self.data_bytes += to - from;
        }
        differs
    }

    /// The whole packet; none if its length cannot be told.
    fn join(self, of: &FragmentOf) -> Option<Whole> {
        let front = self.front?;
        let mut bytes = Vec::with_capacity(front.bytes.len() + self.data_bytes);
        bytes.extend_from_slice(&front.bytes);
        *bytes.get_mut(front.next_at)? = front.proto.0;
        let (length_at, length) = match of.is_ipv6 {
            true => (4, front.bytes.len() - ipv6::HEADER_BYTES + self.data_bytes),
            false => (2, front.bytes.len() + self.data_bytes),
        };
        let length = u16::try_from(length).ok()?;
        bytes.get_mut(length_at..length_at + 2)?.copy_from_slice(&length.to_be_bytes());
        if !of.is_ipv6 {
            // Neither offset nor flags, but for the one that forbids to cut it.
            let flags = *bytes.get(6)? & 0x40;
            bytes.get_mut(6..8)?.copy_from_slice(&[flags, 0]);
            Ipv4::new_unchecked(&mut bytes[..]).fill_checksum();
        }
        self.pieces.values().for_each(|piece| bytes.extend_from_slice(piece));
        Some(Whole { bytes, vlans: of.vlans })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use warpswitch_wire::fragment::fragment;
    use warpswitch_wire::link::LinkType;

    use crate::tests::frames::{End, SERVER, cut, udp};

    const OF: FragmentOf = FragmentOf { src: 1, dst: 2, is_ipv6: false, vlans: [1, 2] };

    fn part(start: usize, more: bool, data: &[u8]) -> IpFragment<'_> {
        let front = &[0x45, 0, 0, 0, 0, 7, 0x20, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let (proto, data_wire_bytes) = (IpProto::UDP, data.len());
        IpFragment { front, next_at: 9, proto, id: 7, start, more, data, data_wire_bytes }
    }

    fn take(all: &mut Fragments, part: &IpFragment<'_>) -> Option<Vec<u8>> {
        all.take(&OF, part, 0, 1 << 20).map(|whole| whole.bytes[20..].to_vec())
    }

    #[test]
    fn the_first_data_win_and_differing_ones_count() {
        let mut all = Fragments::default();
        assert_eq!(take(&mut all, &part(8, true, &[2; 8])), None);
        assert_eq!(take(&mut all, &part(0, true, &[1; 16])), None);
        assert_eq!(all.stats().conflicts, 1);
        let whole = take(&mut all, &part(8, false, &[3; 12])).unwrap();
        assert_eq!(whole, [&[1; 8][..], &[2; 8], &[3; 4]].concat());
        assert_eq!((all.stats().conflicts, all.bytes(), all.lost), (2, 0, 0));
        assert!(all.partials.is_empty() && all.by_age.is_empty());
    }

    #[test]
    fn what_contradicts_the_end_is_not_used() {
        let mut all = Fragments::default();
        let no_data = part(0, true, &[1; 7]);
        let cut_off = IpFragment { data_wire_bytes: 9, ..part(0, true, &[1; 8]) };
        let too_far = part(65_528, false, &[1; 8]);
        for odd in [&no_data, &cut_off, &too_far] {
            assert_eq!(take(&mut all, odd), None);
        }
        assert!(all.partials.is_empty());
        assert_eq!(take(&mut all, &part(8, false, &[2; 8])), None);
        for odd in [part(16, true, &[3; 8]), part(8, false, &[3; 9]), part(0, false, &[3; 8])] {
            assert_eq!(take(&mut all, &odd), None);
        }
        assert_eq!((all.stats().unusable, all.lost), (6, 6));
        assert_eq!(take(&mut all, &part(0, true, &[1; 8])).unwrap().len(), 16);
        // A last fragment before the end of what is there: none of its packet either.
        assert_eq!(take(&mut all, &part(8, true, &[2; 8])), None);
        assert_eq!(take(&mut all, &part(8, false, &[2; 4])), None);
        assert_eq!(all.stats().unusable, 7);
    }

    #[test]
    fn packets_that_are_too_long_have_no_length() {
        let mut all = Fragments::default();
        let data = vec![1; 65_528];
        assert_eq!(take(&mut all, &part(0, true, &data)), None);
        assert_eq!(take(&mut all, &part(65_528, false, &[2; 7])), None);
        assert_eq!((all.stats().whole, all.stats().unusable, all.lost), (0, 2, 2));
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn headers_count_as_data_do() {
        let (mut all, front) = (Fragments::default(), vec![0; 30_000]);
        for id in 0..100 {
            let part = IpFragment { front: &front, id, ..part(0, true, &[1; 8]) };
            assert_eq!(take(&mut all, &part), None);
            assert!(all.bytes() <= 1 << 20);
        }
        assert_eq!((all.partials.len(), all.stats().evicted), (33, 67));
    }

    #[test]
    fn they_are_given_up_in_time_and_for_room() {
        let mut all = Fragments::default();
        let of = |number| FragmentOf { src: number, ..OF };
        let piece = part(0, true, &[1; 8]);
        assert_eq!(all.take(&of(1), &piece, 0, 1 << 20), None);
        assert_eq!(all.take(&of(2), &piece, WAIT_NS, 1 << 20), None);
        assert_eq!((all.stats().timed_out, all.partials.len()), (0, 2));
        assert_eq!(all.take(&of(3), &piece, WAIT_NS + 1, 1 << 20), None);
        assert_eq!((all.stats().timed_out, all.partials.len(), all.lost), (1, 2, 1));
        for number in 0..10_000 {
            assert_eq!(all.take(&of(number), &piece, WAIT_NS + 1, 1 << 20), None);
            assert!(all.bytes() <= 1 << 20);
        }
        let (stats, held) = (all.stats(), all.partials.len() as u64);
        // Numbers 2 and 3 came twice.
        assert_eq!(stats.evicted + stats.timed_out + held, 10_001);
        assert!(stats.bytes_peak <= (1 << 20) + 2048 && held > 900);
        all.finish();
        assert_eq!((all.lost, all.bytes(), all.partials.len()), (10_003, 0, 0));
    }

    proptest! {
        /// Cut anywhere, in any order, some twice: whole again, and the same.
        #[test]
        fn packets_become_whole_again(
            payload in prop::collection::vec(any::<u8>(), 20..400),
            cuts in prop::collection::vec(1usize..4, 1..6),
            order in any::<u64>(),
            is_ipv6 in any::<bool>(),
        ) {
            let ends = if is_ipv6 {
                [End("fd00::1", 9), End("fd00::2", 53)]
            } else {
                [End("10.0.0.9", 9), SERVER]
            };
            let frame = udp(ends[0], ends[1], &payload);
            let mut parts = cut(&frame, &cuts, 7);
            // Some order, and one of them twice, but not the last to come.
            let (len, by) = (parts.len(), order as usize);
            parts.rotate_left(by % len);
            if order & 1 << 40 != 0 {
                parts.reverse();
            }
            let twice = by / 64 % (len - 1);
            parts.insert(twice, parts[twice].clone());
            let (mut all, mut whole) = (Fragments::default(), None);
            for bytes in &parts {
                prop_assert!(whole.is_none());
                let (_, part) = fragment(LinkType::Ethernet, bytes, bytes.len()).unwrap();
                whole = all.take(&FragmentOf { is_ipv6, ..OF }, &part, 5, 1 << 20);
            }
            let mut bytes = whole.unwrap().bytes;
            if !is_ipv6 {
                // Test frames have no checksums.
                prop_assert!(Ipv4::new_unchecked(&bytes[..]).is_checksum_right());
                bytes[10..12].fill(0);
            }
            prop_assert_eq!(&bytes[..], &frame[14..]);
            prop_assert_eq!((all.stats().conflicts, all.lost), (0, 0));
        }
    }
}
