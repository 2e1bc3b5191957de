//! One direction of a TCP connection: segments in, bytes in order out.
//!
//! # Choices
//! - *The first data wins.* Bytes that came stay what they were; a later segment fills what is
//!   missing, and counts as conflicting where it says something else about bytes that are still at
//!   hand.
//! - *What is missing is waited for*, until the other side acknowledges bytes behind it (it has
//!   them: the capture lost them), or as many bytes are held as a flow may hold. Then there is a
//!   gap: what comes behind it is a new text, and nothing is found across it.
//! - Segments more than [`AHEAD_MAX`] bytes ahead are none of the stream's.
//! - What comes too late for its gap, or is none of the stream's, is no part of a text in order:
//!   [`Half::misses`] tells, so that it is looked at by itself.

use std::num::NonZeroU32;

use warpswitch_packet::pages;

use crate::decode::Decoded;
use crate::http::Speaker;
use crate::rule::Direction;

/// The most bytes that a segment may be ahead of the bytes in order.
pub(crate) const AHEAD_MAX: u32 = 1 << 24;

/// The most segments that wait in one direction.
const HELD_MAX: usize = 512;

/// The most gaps that are remembered; what lies before the oldest of them counts as one.
const LOST_MAX: usize = 8;

/// Bytes that an allocation takes beside what was asked for, and the least that it takes.
const ALLOCATION_BYTES: usize = 32;

/// The most rules that wait for more of a stream by themselves; with more of them, whole windows
/// are searched anew.
pub(crate) const PENDING_MAX: usize = 32;

/// One segment that waits for what is missing before it.
#[derive(Clone, Debug)]
struct Held {
    seq: u32,
    bytes: Vec<u8>,
}

/// Positions at which bytes are missing that may still come.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    /// The first `len` are places, in order.
    places: [(u64, u64); LOST_MAX],
    len: usize,
    /// Before this one anything may be missing.
    before: u64,
}

impl Lost {
    /// Notes a place. Where there are too many, the first one and all before it are one.
    fn note(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        if self.len == LOST_MAX {
            self.before = self.places[0].1;
            self.places.rotate_left(1);
            self.len -= 1;
        }
        self.places[self.len] = (from, to);
        self.len += 1;
    }

    /// Takes out what a segment from `start` to `end` brings; tells whether it may bring something.
    fn take(&mut self, start: u64, end: u64) -> bool {
        let mut misses = start < self.before;
        let (places, count) = (self.places, std::mem::take(&mut self.len));
        for &(from, to) in &places[..count] {
            misses |= start < to && from < end;
            // What is left of it, on both sides.
            self.note(from, to.min(start.max(from)));
            self.note(from.max(end.min(to)), to);
        }
        misses
    }
}

/// What became of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Segments all of whose bytes had come before.
    pub retransmissions: u64,
    /// Segments that say something else about bytes that had come before.
    pub conflicts: u64,
    /// Segments that had to wait for others.
    pub out_of_order: u64,
    /// Segments too far ahead, or behind, to be of the stream.
    pub out_of_window: u64,
    /// Places where bytes are missing.
    pub gaps: u64,
    /// Bytes that are missing there.
    pub gap_bytes: u64,
}

/// One direction. A line: what is of segments that do not come in order hangs in [`Cold`].
///
/// A segment in order need not be copied: [`Half::arrive`] says what text it makes, whose older
/// bytes are [`Half::window`] until [`Half::keep`] moves that on.
#[derive(Debug, Default)]
pub(crate) struct Half {
    /// The next byte in order, if there was a segment.
    next: u32,
    /// What the other side acknowledged last, if it did.
    acked: u32,
    /// Bytes up to the next one, missing ones too; counts from the first that was seen.
    position: u64,
    /// The last bytes in order, but for those of the text that waits.
    window: Vec<u8>,
    cold: Option<Box<Cold>>,
    /// Bytes that the window takes, or will when the text that waits is kept.
    room: u32,
    /// Who has the text whose new bytes are not in the window yet: for who calls.
    pub waits: Option<NonZeroU32>,
    is_open: bool,
    has_acked: bool,
    /// Whether position 0 is the first byte of the stream.
    has_start: bool,
    /// Whether position 0 was the first byte of the stream.
    has_syn: bool,
    /// Whether the side said that it sends no more.
    pub has_fin: bool,
    /// There were more rules than [`PENDING_MAX`] to remember.
    pub is_pending_full: bool,
    /// Whether messages are read from it.
    pub speaks: Speaks,
}

/// What a side of a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// Nothing was looked at yet.
    #[default]
    Unknown,
    /// HTTP: what it said last is in [`Cold`].
    Http,
    /// Something else.
    Other,
}

/// What few halves need.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    held: Vec<Held>,
    held_bytes: usize,
    /// Where the stream has gone on without bytes, if it has.
    lost: Option<Box<Lost>>,
    /// Rules whose fast pattern was seen, and where the text ended then.
    pub pending: Vec<(u32, u64)>,
    /// The last packet of the flow while segments wait, without its payload, and which way it went:
    /// for who looks at them when the flow ends.
    pub last: Option<(Decoded<'static>, Direction)>,
    /// What is read of messages.
    pub speaker: Option<Box<Speaker>>,
}

/// A new text of a stream: the window and what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Bytes of the text.
    pub bytes: usize,
    /// Bytes of it that an earlier text had.
    pub from: usize,
    /// Whether it begins where the stream does.
    pub is_start: bool,
    /// Where in the stream it ends.
    pub end: u64,
}

/// Bounds of a half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub window_bytes: usize,
    pub held_bytes: usize,
}

/// How far `seq` is behind `other`, in the arithmetic of sequence numbers.
fn ahead(seq: u32, other: u32) -> i32 {
    seq.wrapping_sub(other) as i32
}

impl Half {
    /// Bytes of memory that grow with traffic. Rules that it remembers are not among them: their
    /// number is small, and hangs on when texts are searched, which may change nothing.
    pub(crate) fn bytes(&self) -> usize {
        let Some(cold) = &self.cold else { return self.room as usize };
        let each = size_of::<Held>() * cold.held.capacity() + ALLOCATION_BYTES * cold.held.len();
        let lost = cold.lost.as_ref().map_or(0, |_| size_of::<Lost>() + ALLOCATION_BYTES);
        let speaker = cold.speaker.as_ref().map_or(0, |it| it.bytes() + ALLOCATION_BYTES);
        self.room as usize + cold.held_bytes + each + lost + speaker
    }

    /// Rules have other numbers from now on: whole windows are searched.
    pub(crate) fn forget_rules(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.pending.clear();
        }
        self.is_pending_full = !self.window.is_empty();
    }

    fn next(&self) -> Option<u32> {
        self.is_open.then_some(self.next)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Segments that wait.
    fn held(&self) -> &[Held] {
        self.cold.as_ref().map_or(&[], |cold| &cold.held)
    }

    /// Whether segments wait.
    pub(crate) fn holds(&self) -> bool {
        !self.held().is_empty()
    }

    /// What few halves need, if this one does.
    pub(crate) fn cold(&mut self) -> Option<&mut Cold> {
        self.cold.as_deref_mut()
    }

    /// What few halves need, from now on.
    pub(crate) fn cold_or_new(&mut self) -> &mut Cold {
        self.cold.get_or_insert_default()
    }

    /// What is read of messages, if it is HTTP.
    pub(crate) fn speaker(&mut self) -> Option<&mut Speaker> {
        self.cold.as_mut()?.speaker.as_deref_mut()
    }

    /// The last bytes in order, but for those of the text that waits.
    pub(crate) fn window(&self) -> &[u8] {
        &self.window
    }

    /// Asks for the window's first lines and its last one; the processor goes on from there.
    pub(crate) fn prefetch_window(&self) {
        for at in [0, 64, 128, 192, self.window.len().wrapping_sub(1)] {
            if at < self.window.len() {
                pages::prefetch(&self.window, at);
            }
        }
    }

    /// Whether `seq` may be the next thing that the side says.
    pub(crate) fn expects(&self, seq: u32) -> bool {
        self.next().is_none_or(|next| seq == next)
            || self
                .held()
                .last()
                .is_some_and(|held| seq == held.seq.wrapping_add(held.bytes.len() as u32))
    }

    /// The stream's first byte is `seq`, if nothing is known yet.
    pub(crate) fn open(&mut self, seq: u32, has_start: bool) {
        if !self.is_open {
            (self.is_open, self.next) = (true, seq);
            (self.has_start, self.has_syn) = (has_start, has_start);
        }
    }

    /// The stream's first byte is `seq` after all: a SYN that came before was not the one that is
    /// answered. Once there was data it stays what it is.
    pub(crate) fn open_anew(&mut self, seq: u32) {
        if self.position == 0 && !self.holds() {
            (self.is_open, self.next) = (true, seq);
            (self.has_start, self.has_syn) = (true, true);
        }
    }

    /// Whether the stream will give no text with all of a segment's bytes, because some lie where
    /// it went on without them, or nowhere in it. Told once of each place.
    pub(crate) fn misses(&mut self, seq: u32, bytes: usize) -> bool {
        let Some(next) = self.next() else { return false };
        let at = ahead(seq, next);
        if at.unsigned_abs() > AHEAD_MAX {
            return true;
        }
        if at >= 0 {
            return false;
        }
        let back = u64::from(at.unsigned_abs());
        let Some(start) = self.position.checked_sub(back) else { return !self.has_syn };
        let lost = self.cold.as_mut().and_then(|cold| cold.lost.as_mut());
        lost.is_some_and(|lost| lost.take(start, start + bytes as u64))
    }

    /// Whether a segment is just what comes next, and nothing waits: then [`Half::arrive`] takes
    /// it.
    pub(crate) fn is_next(&self, seq: u32) -> bool {
        self.next().is_none_or(|next| seq == next) && !self.holds()
    }

    /// Takes a segment that is what comes next: tells the text that it makes, whose older bytes are
    /// the window. The next thing that is asked of the half must be [`Half::keep`] with the
    /// segment's bytes, but for [`Half::bytes`], which are those of then.
    pub(crate) fn arrive(&mut self, seq: u32, bytes: usize, bounds: &Bounds) -> Arrived {
        self.open(seq, false);
        let from = self.window.len();
        let kept = (from + bytes).min(bounds.window_bytes);
        self.room = self.room.max(kept as u32);
        self.go_on(from, bytes)
    }

    fn go_on(&mut self, from: usize, bytes: usize) -> Arrived {
        let is_start = self.has_start && self.position == from as u64;
        self.position += bytes as u64;
        self.next = self.next.wrapping_add(bytes as u32);
        Arrived { bytes: from + bytes, from, is_start, end: self.position }
    }

    /// Moves the window on over new bytes.
    pub(crate) fn keep(&mut self, new: &[u8], bounds: &Bounds) {
        let kept = (self.window.len() + new.len()).min(bounds.window_bytes);
        let new = &new[new.len() - kept.min(new.len())..];
        let old = kept - new.len();
        let from = self.window.len() - old;
        if from > 0 {
            self.window.copy_within(from.., 0);
            self.window.truncate(old);
        }
        if self.window.capacity() < kept {
            self.window.reserve_exact(kept - old);
        }
        self.window.extend_from_slice(new);
        self.room = self.room.max(kept as u32);
    }

    /// Takes a segment. Puts the text that it makes possible, if any, at the arena's end.
    pub(crate) fn take(
        &mut self,
        seq: u32,
        payload: &[u8],
        bounds: &Bounds,
        arena: &mut Vec<u8>,
        stats: &mut StreamStats,
    ) -> Option<Arrived> {
        self.open(seq, false);
        let next = self.next()?;
        let at = ahead(seq, next);
        let end = at as i64 + payload.len() as i64;
        if at.unsigned_abs() > AHEAD_MAX {
            stats.out_of_window += 1;
            return None;
        }
        if at < 0 && self.differs_from_window(at.unsigned_abs() as usize, payload) {
            stats.conflicts += 1;
        }
        if end <= 0 {
            stats.retransmissions += 1;
            return None;
        }
        let new = &payload[usize::try_from(-at).unwrap_or(0).min(payload.len())..];
        let start = next.wrapping_add(at.max(0) as u32);
        if !self.holds() {
            let is_acked = self.has_acked && ahead(self.acked, start) >= 0;
            if at > 0 && is_acked {
                self.skip_to(start, stats);
            }
            if at <= 0 || is_acked {
                let put = |arena: &mut Vec<u8>| arena.extend_from_slice(new);
                return Some(self.deliver(bounds, arena, put, new.len()));
            }
        }
        stats.out_of_order += u64::from(at > 0);
        let cold = self.cold_or_new();
        if cold.hold(start, new) {
            stats.conflicts += 1;
        }
        if cold.held_bytes > bounds.held_bytes || cold.held.len() > HELD_MAX {
            self.skip_gap(stats);
        }
        self.drain(bounds, arena)
    }

    /// The other side acknowledged `ack`: what is missing before it will not come.
    pub(crate) fn acknowledge(
        &mut self,
        ack: u32,
        bounds: &Bounds,
        arena: &mut Vec<u8>,
        stats: &mut StreamStats,
    ) -> Option<Arrived> {
        let next = self.next()?;
        if ahead(ack, next).unsigned_abs() > AHEAD_MAX {
            return None;
        }
        if !self.has_acked || ahead(ack, self.acked) > 0 {
            (self.has_acked, self.acked) = (true, ack);
        }
        let first = self.held().first()?.seq;
        if ahead(ack, first) < 0 {
            return None;
        }
        self.skip_gap(stats);
        self.drain(bounds, arena)
    }

    /// Gives what is held although something is missing before it: nothing more will come.
    pub(crate) fn flush(
        &mut self,
        bounds: &Bounds,
        arena: &mut Vec<u8>,
        stats: &mut StreamStats,
    ) -> Option<Arrived> {
        if !self.holds() {
            return None;
        }
        self.skip_gap(stats);
        self.drain(bounds, arena)
    }

    /// `missing` bytes from `seq` on were on the wire; those that do not come otherwise are not in
    /// the capture. Counts where the stream has come as far.
    pub(crate) fn lose(&mut self, seq: u32, missing: usize, stats: &mut StreamStats) {
        if missing > 0 && self.next().is_some_and(|next| ahead(next, seq) >= 0) {
            self.skip_to(seq.wrapping_add(missing as u32), stats);
        }
    }

    /// Whether bytes that lie `back` behind the next one are known to be others.
    fn differs_from_window(&self, back: usize, payload: &[u8]) -> bool {
        // A keep-alive repeats one byte, whose value counts for nothing.
        if payload.len() == 1 && back == 1 {
            return false;
        }
        let (skipped, known) = match self.window.len().checked_sub(back) {
            Some(start) => (0, &self.window[start..]),
            None => (back - self.window.len(), &self.window[..]),
        };
        differ(payload.get(skipped..).unwrap_or(&[]), known)
    }

    /// Goes on behind what is missing before the first segment that is held.
    fn skip_gap(&mut self, stats: &mut StreamStats) {
        if let Some(first) = self.held().first().map(|held| held.seq) {
            self.skip_to(first, stats);
        }
    }

    fn skip_to(&mut self, seq: u32, stats: &mut StreamStats) {
        let Some(next) = self.next() else { return };
        let missing = ahead(seq, next);
        if missing <= 0 {
            return;
        }
        stats.gaps += 1;
        stats.gap_bytes += missing as u64;
        let position = self.position;
        let lost = self.cold_or_new().lost.get_or_insert_default();
        lost.note(position, position + missing as u64);
        self.position += missing as u64;
        self.next = seq;
        self.window.clear();
        self.has_start = false;
    }

    /// Gives what is held and in order now.
    fn drain(&mut self, bounds: &Bounds, arena: &mut Vec<u8>) -> Option<Arrived> {
        let ready = self.next().map_or_else(Vec::new, |next| self.cold_or_new().ready(next));
        if ready.is_empty() {
            return None;
        }
        let bytes = ready.iter().map(|held| held.bytes.len()).sum();
        let put = |arena: &mut Vec<u8>| {
            ready.iter().for_each(|held| arena.extend_from_slice(&held.bytes));
        };
        Some(self.deliver(bounds, arena, put, bytes))
    }

    /// Puts the window and `bytes` new ones into the arena, and moves the window on.
    fn deliver(
        &mut self,
        bounds: &Bounds,
        arena: &mut Vec<u8>,
        put: impl FnOnce(&mut Vec<u8>),
        bytes: usize,
    ) -> Arrived {
        arena.extend_from_slice(&self.window);
        let start = arena.len();
        put(arena);
        let arrived = self.go_on(self.window.len(), bytes);
        self.keep(&arena[start..], bounds);
        arrived
    }
}

/// Whether two texts that begin at one place say something else as far as both go.
fn differ(said: &[u8], known: &[u8]) -> bool {
    let both = said.len().min(known.len());
    said[..both] != known[..both]
}

impl Cold {
    /// Keeps what is new of a segment that starts at `start`; tells whether the rest says something
    /// else than what is held.
    fn hold(&mut self, start: u32, new: &[u8]) -> bool {
        let (mut differs, mut at) = (false, 0usize);
        let mut idx = 0;
        while at < new.len() {
            let seq = start.wrapping_add(at as u32);
            while idx < self.held.len()
                && ahead(seq, self.held[idx].seq) >= self.held[idx].bytes.len() as i32
            {
                idx += 1;
            }
            let room = match self.held.get(idx) {
                None => new.len() - at,
                Some(held) => {
                    let before = ahead(held.seq, seq);
                    if before <= 0 {
                        let known = &held.bytes[before.unsigned_abs() as usize..];
                        let said = &new[at..];
                        differs |= differ(said, known);
                        at += known.len().min(said.len());
                        continue;
                    }
                    (before as usize).min(new.len() - at)
                }
            };
            let bytes = new[at..at + room].to_vec();
            self.held_bytes += bytes.len();
            self.held.insert(idx, Held { seq, bytes });
            at += room;
        }
        differs
    }

    /// Takes out what is in order from `end` on.
    fn ready(&mut self, mut end: u32) -> Vec<Held> {
        let mut count = 0;
        for held in &self.held {
            if held.seq != end {
                break;
            }
            end = end.wrapping_add(held.bytes.len() as u32);
            count += 1;
        }
        let ready: Vec<Held> = self.held.drain(..count).collect();
        self.held_bytes -= ready.iter().map(|held| held.bytes.len()).sum::<usize>();
        if self.held.is_empty() {
            // Its room is counted as long as it is there.
            self.held = Vec::new();
        }
        ready
    }
}

// See its documentation.
const _: () = assert!(size_of::<Half>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds { window_bytes: 8, held_bytes: 64 };

    /// All new bytes that segments give, and what was counted.
    fn run(segments: &[(u32, &[u8])], bounds: Bounds) -> (Vec<u8>, StreamStats) {
        let (mut half, mut stats) = (Half::default(), StreamStats::default());
        half.open(u32::MAX - 3, true);
        let mut all = Vec::new();
        for &(at, bytes) in segments {
            let mut arena = Vec::new();
            let seq = (u32::MAX - 3).wrapping_add(at);
            if let Some(text) = half.take(seq, bytes, &bounds, &mut arena, &mut stats) {
                assert_eq!(text.bytes, arena.len());
                assert!(all.ends_with(&arena[..text.from]) || stats.gaps > 0);
                all.extend_from_slice(&arena[text.from..]);
            }
        }
        (all, stats)
    }

    #[test]
    fn the_first_data_wins() {
        let (all, stats) = run(&[(0, b"abcd"), (2, b"XXef"), (6, b"gh")], BOUNDS);
        assert_eq!((&all[..], stats.conflicts), (&b"abcdefgh"[..], 1));
        let (all, stats) = run(&[(4, b"efgh"), (2, b"cdZZZZij"), (0, b"ab")], BOUNDS);
        assert_eq!((&all[..], stats.conflicts, stats.out_of_order), (&b"abcdefghij"[..], 1, 2));
        let (all, stats) = run(&[(0, b"abcd"), (0, b"abcd"), (3, b"x"), (4, b"e")], BOUNDS);
        assert_eq!((&all[..], stats.retransmissions, stats.conflicts), (&b"abcde"[..], 2, 0));
    }

    #[test]
    fn what_is_missing_is_waited_for_and_then_no_more() {
        let long = [b'x'; 65];
        let (all, stats) = run(&[(0, b"ab"), (4, &long), (2, b"cd")], BOUNDS);
        assert_eq!((all.len(), stats.gaps, stats.gap_bytes, stats.retransmissions), (67, 1, 2, 1));
        let (all, stats) = run(&[(0, b"ab"), (AHEAD_MAX + 9, b"x")], BOUNDS);
        assert_eq!((&all[..], stats.out_of_window), (&b"ab"[..], 1));
    }

    proptest! {
        /// Whatever the order and the overlaps, each byte is that of the first segment with it.
        #[test]
        fn bytes_come_in_order_and_once(
            segments in prop::collection::vec((0u32..40, 1usize..12, any::<u8>()), 1..24),
        ) {
            let payloads: Vec<(u32, Vec<u8>)> =
                segments.iter().map(|&(at, len, byte)| (at, vec![byte; len])).collect();
            let mut first: Vec<Option<u8>> = vec![None; 64];
            let mut in_order = 0;
            for (at, bytes) in &payloads {
                for (idx, &byte) in bytes.iter().enumerate() {
                    first[*at as usize + idx].get_or_insert(byte);
                }
                while first.get(in_order).copied().flatten().is_some() {
                    in_order += 1;
                }
            }
            let expected: Vec<u8> = first[..in_order].iter().map_while(|byte| *byte).collect();
            let parts: Vec<(u32, &[u8])> = payloads.iter().map(|(at, b)| (*at, &b[..])).collect();
            let bounds = Bounds { window_bytes: 8, held_bytes: 1 << 10 };
            let (all, stats) = run(&parts, bounds);
            prop_assert_eq!(all, expected);
            prop_assert_eq!(stats.gaps, 0);
        }
    }
}
