//! Frames that are kept for long and lent to packets: played again and again, or all the same.
//!
//! Each starts with a line of cache, as it lies where a network card has put it. Frames are lent to
//! a batch as a whole, see [`crate::Batch`]; a packet that somebody looks at borrows its own, which
//! is read in place, and who writes to it first makes a copy, see [`crate::packet`]. Where most
//! packets are written to, a copy at once is cheaper than one on the way, which touches a line
//! more; so it is where packets borrow from several in turn, who count them. A [`Lender`] finds
//! out.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Batch;
use crate::numbers::{Form, Numbers};
use crate::packet::{LINE_BYTES, PACKET_BYTES_MAX, Packet, PacketType};
use crate::pages::prefetch;
use crate::parts::{self, Parts};

/// Lines that frames may take: a gigabyte.
const LINES_MAX: usize = (1 << 30) / LINE_BYTES;

/// Lines that are fetched ahead: across the ends of pages, where the processor itself stops.
const LINES_AHEAD: usize = 32;
/// The same where nothing but frames is read, which is faster done.
const LINES_AHEAD_READING: usize = 64;

/// Frames ahead of which the first line is fetched, where frames take many lines: most elements
/// look at that one alone. On a host of sixteen workers whoever looks first waits 22 ns a frame of
/// 1514 bytes in the place of 44.
const FRAMES_AHEAD: usize = 16;

/// Frames whose bytes are summed up in 32 bits, twice as many at once as in 64: each has less than
/// 24 bits.
const FRAMES_SUMMED: usize = 256;

/// Batches that are copied before packets borrow once more, to see whether they are written to.
const COPIED_BATCHES: u32 = 63;

/// Fewer packets are told their frames at once: it costs less than to keep account of who is not.
pub(crate) const WHOLE_MIN: usize = 8;

/// A line of cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u8; LINE_BYTES]);

/// Where a frame is, and how it was addressed: 8 bytes, as whoever reads frames reads these, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Where its first line begins.
    first_byte: u32,
    /// The least 24 bits; then how it was addressed.
    bytes_and_type: u32,
}

impl Frame {
    #[inline(always)]
    pub fn bytes(&self) -> u32 {
        self.bytes_and_type & 0x00ff_ffff
    }

    /// Its bytes, of the lines of its frames.
    ///
    /// # Safety
    /// The lines are those of the frames in whose list it is: F1.
    #[inline(always)]
    unsafe fn data<'l>(&self, lines: &'l [Line]) -> &'l [u8] {
        // SAFETY: as above.
        unsafe { parts::bytes_of(lines, self.first_byte as usize, self.bytes() as usize) }
    }

    #[inline(always)]
    fn first_line(&self) -> usize {
        self.first_byte as usize / LINE_BYTES
    }

    /// Asks for a line that is wanted when frames behind this one are.
    #[inline(always)]
    fn fetch_ahead<const LINES: usize>(&self, lines: &[Line]) {
        prefetch(parts::all_bytes(lines), self.first_byte as usize + LINES * LINE_BYTES);
    }

    #[inline(always)]
    pub fn packet_type(&self) -> PacketType {
        match self.bytes_and_type >> 24 {
            0 => PacketType::Host,
            1 => PacketType::Broadcast,
            2 => PacketType::Multicast,
            3 => PacketType::OtherHost,
            _ => PacketType::Outgoing,
        }
    }
}

/// Frames, one behind the other.
///
/// # Invariants
/// - F1: each frame of the list has its bytes in the lines, from the first one on. Nobody checks
///   that again: readers do so for every packet.
#[derive(Debug, Default)]
pub struct Frames {
    lines: Vec<Line>,
    list: Vec<Frame>,
    /// When each was seen.
    times_ns: Vec<i64>,
    /// Whether packets that came back had been written to, or had borrowed elsewhere since.
    is_in_vain: AtomicBool,
}

impl Frames {
    /// Number of frames.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Keeps a copy of a frame, with when it was seen in nanoseconds since 1970, and how it was
    /// addressed. Tells whether there was room: for a gigabyte, and for as many bytes a frame as a
    /// packet can have.
    pub fn push(&mut self, frame: &[u8], timestamp_ns: i64, packet_type: PacketType) -> bool {
        let (whole, rest) = frame.as_chunks::<LINE_BYTES>();
        if self.lines.len() + whole.len() + 1 > LINES_MAX || frame.len() > PACKET_BYTES_MAX {
            return false;
        }
        // A gigabyte at most.
        let first_byte = (self.lines.len() * LINE_BYTES) as u32;
        self.lines.extend(whole.iter().copied().map(Line));
        if !rest.is_empty() || frame.is_empty() {
            let mut line = Line([0; LINE_BYTES]);
            line.0[..rest.len()].copy_from_slice(rest);
            self.lines.push(line);
        }
        let bytes_and_type = frame.len() as u32 | (packet_type as u32) << 24;
        self.list.push(Frame { first_byte, bytes_and_type });
        self.times_ns.push(timestamp_ns);
        true
    }

    /// Whether they take many lines, so that what is some lines ahead is in the midst of a frame.
    /// With frames of four lines fetching by their numbers costs a tenth more than it gains.
    #[inline(always)]
    fn are_wide(&self) -> bool {
        self.lines.len() > 8 * self.list.len()
    }

    /// Asks for the first line of a frame, if there is one with that number.
    #[inline(always)]
    fn fetch(&self, number: usize) {
        if let Some(frame) = self.list.get(number) {
            frame.fetch_ahead::<0>(&self.lines);
        }
    }

    /// The bytes of all of them, and what lies between.
    pub fn bytes(&self) -> &[u8] {
        parts::all_bytes(&self.lines)
    }

    #[inline(always)]
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The line that a frame starts in, and all behind it.
    #[inline(always)]
    pub(crate) fn lines_from(&self, frame: &Frame) -> &[Line] {
        &self.lines[frame.first_line()..]
    }

    /// Bytes of those with these numbers.
    pub(crate) fn bytes_of(&self, numbers: &Numbers) -> u64 {
        // Read once: the compiler reads its place again for each number otherwise.
        let list = &*self.list;
        match numbers.form() {
            Form::Range(range) => {
                let some = list[in_list(range)].chunks(FRAMES_SUMMED);
                some.map(|some| u64::from(some.iter().map(Frame::bytes).sum::<u32>())).sum()
            }
            Form::List(numbers) => {
                let bytes = |&number: &u32| list[number as usize].bytes();
                let some = numbers.chunks(FRAMES_SUMMED);
                some.map(|some| u64::from(some.iter().map(bytes).sum::<u32>())).sum()
            }
        }
    }

    /// Bytes of the frame with that number.
    ///
    /// # Panics
    /// If there is none.
    #[inline(always)]
    pub(crate) fn bytes_of_one(&self, number: usize) -> usize {
        self.list[number].bytes() as usize
    }

    /// The bytes and the timestamp of a frame; prefetches the frames that follow.
    ///
    /// # Panics
    /// If there is no frame with that number.
    #[inline(always)]
    pub(crate) fn read_ahead(&self, number: usize) -> (&[u8], i64) {
        let frame = &self.list[number];
        frame.fetch_ahead::<LINES_AHEAD_READING>(&self.lines);
        // SAFETY: list and lines are of the same frames; frames are only ever added.
        (unsafe { frame.data(&self.lines) }, self.times_ns[number])
    }

    #[cfg(test)]
    pub(crate) fn list(&self) -> &[Frame] {
        &self.list
    }

    /// A frame, and when it was seen, if no other time is given.
    #[inline(always)]
    fn with_time<'f>(&'f self, number: u32, time_ns: Option<&'f i64>) -> (&'f Frame, &'f i64) {
        let number = number as usize;
        (&self.list[number], time_ns.unwrap_or(&self.times_ns[number]))
    }

    /// The lines that a frame is in.
    #[inline(always)]
    pub(crate) fn lines_of(&self, frame: &Frame) -> &[Line] {
        let lines = (frame.bytes() as usize).div_ceil(LINE_BYTES);
        &self.lines[frame.first_line()..][..lines]
    }
}

/// The data of packets that frames are lent to, in order; see [`crate::Batch::lent_frames`]. Who
/// has a loop that matters writes it for both kinds: the first needs three registers less.
#[derive(Clone, Debug)]
pub enum LentFrames<'b> {
    /// Frames that lie one behind the other, as a source lends them.
    Span(Span<'b>),
    /// Any others.
    Numbered(Numbered<'b>),
}

impl<'b> LentFrames<'b> {
    #[inline]
    pub(crate) fn new(frames: &'b Frames, numbers: &'b Numbers) -> Self {
        let Frames { lines, list, .. } = frames;
        match numbers.form() {
            Form::Range(range) => Self::Span(Span { lines, list: list[in_list(range)].iter() }),
            Form::List(numbers) => {
                Self::Numbered(Numbered { lines, list, numbers: numbers.iter() })
            }
        }
    }
}

impl<'b> Iterator for LentFrames<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        match self {
            Self::Span(frames) => frames.next(),
            Self::Numbered(frames) => frames.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Span(frames) => frames.size_hint(),
            Self::Numbered(frames) => frames.size_hint(),
        }
    }
}

impl ExactSizeIterator for LentFrames<'_> {}

/// Frames that lie one behind the other.
#[derive(Clone, Debug)]
pub struct Span<'b> {
    lines: &'b [Line],
    list: std::slice::Iter<'b, Frame>,
}

impl<'b> Iterator for Span<'b> {
    type Item = &'b [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'b [u8]> {
        let frame = self.list.next()?;
        frame.fetch_ahead::<LINES_AHEAD_READING>(self.lines);
        // SAFETY: list and lines are of the same frames, as whoever made this has seen to; frames
        // are only ever added.
        Some(unsafe { frame.data(self.lines) })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.list.size_hint()
    }
}

impl ExactSizeIterator for Span<'_> {}

/// Frames that are found by their numbers.
#[derive(Clone, Debug)]
pub struct Numbered<'b> {
    lines: &'b [Line],
    list: &'b [Frame],
    numbers: std::slice::Iter<'b, u32>,
}

impl<'b> Iterator for Numbered<'b> {
    type Item = &'b [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'b [u8]> {
        let frame = &self.list[*self.numbers.next()? as usize];
        frame.fetch_ahead::<LINES_AHEAD_READING>(self.lines);
        // SAFETY: list and lines are of the same frames, as whoever made this has seen to; frames
        // are only ever added.
        Some(unsafe { frame.data(self.lines) })
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.numbers.size_hint()
    }
}

impl ExactSizeIterator for Numbered<'_> {}

/// The numbers of frames that are lent.
#[derive(Clone, Debug)]
pub(crate) enum Loaned {
    /// Frames that lie one behind the other.
    Range(Range<u32>),
    /// One frame to all.
    Same { number: u32, count: usize },
}

impl Loaned {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Same { count, .. } => *count,
        }
    }

    /// The number of packet `at`.
    #[inline(always)]
    fn get(&self, at: usize) -> u32 {
        match self {
            Self::Range(range) => range.start + at as u32,
            Self::Same { number, .. } => *number,
        }
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = u32> {
        (0..self.len()).map(|at| self.get(at))
    }
}

/// Who lends frames; see the module.
#[derive(Clone, Debug, Default)]
pub struct Lender {
    frames: Arc<Frames>,
    /// Batches that are still to be copied.
    to_copy: u32,
}

impl Lender {
    /// Lends `frames`, which nobody changes any more.
    pub fn new(frames: Frames) -> Self {
        Self { frames: Arc::new(frames), to_copy: 0 }
    }

    /// The frames.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Makes each of the packets of `batch`, which are as they were left, as new, with these frames
    /// as their data, seen then if a time is given.
    ///
    /// # Panics
    /// If there are not as many numbers as packets, or no such frames.
    pub(crate) fn serve(&mut self, batch: &mut Batch, numbers: Loaned, timestamp_ns: Option<i64>) {
        // Workers that play the same frames share the answer, whichever asks first.
        if self.frames.is_in_vain.load(Ordering::Relaxed) {
            self.frames.is_in_vain.store(false, Ordering::Relaxed);
            self.to_copy = COPIED_BATCHES;
        }
        if self.to_copy > 0 {
            self.to_copy -= 1;
            let frames = &*self.frames;
            for (packet, number) in batch.as_left().iter_mut().zip(numbers.iter()) {
                let frame = &frames.list[number as usize];
                let timestamp_ns = timestamp_ns.unwrap_or(frames.times_ns[number as usize]);
                packet.parts_mut().copy_frame(frames, frame, timestamp_ns);
                frame.fetch_ahead::<LINES_AHEAD>(&frames.lines);
            }
            return;
        }
        if numbers.len() >= WHOLE_MIN {
            return batch.lend_whole(&self.frames, numbers, timestamp_ns);
        }
        let packets = batch.as_left();
        assert_eq!(packets.len(), numbers.len(), "every packet has its frame");
        let parts = packets.iter_mut().map(Packet::parts_mut);
        let frame = |number| self.frames.with_time(number, timestamp_ns.as_ref());
        let frames = numbers.iter().map(frame);
        lend_each(&self.frames, parts.zip(frames), |_| None);
    }
}

/// Tells each packet of a batch which frame is its own.
pub(crate) fn hand_out<'p>(
    frames: &Arc<Frames>,
    numbers: &Numbers,
    timestamp_ns: Option<i64>,
    packets: impl ExactSizeIterator<Item = &'p mut Parts>,
) {
    assert_eq!(packets.len(), numbers.len(), "every packet has its frame");
    match numbers.form() {
        Form::Range(range) if timestamp_ns.is_none() => {
            let range = in_list(range);
            let ahead = range.start + FRAMES_AHEAD;
            let (list, times_ns) = (&frames.list[range.clone()], &frames.times_ns[range]);
            lend_each(frames, packets.zip(list.iter().zip(times_ns)), |at| Some(ahead + at));
        }
        Form::Range(range) => {
            let ahead = range.start as usize + FRAMES_AHEAD;
            let frame = |number| frames.with_time(number, timestamp_ns.as_ref());
            lend_each(frames, packets.zip(range.map(frame)), |at| Some(ahead + at));
        }
        Form::List(numbers) => {
            let ahead = |at| numbers.get(at + FRAMES_AHEAD).map(|&number| number as usize);
            let frame = |&number: &u32| frames.with_time(number, timestamp_ns.as_ref());
            lend_each(frames, packets.zip(numbers.iter().map(frame)), ahead);
        }
    }
}

fn in_list(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// Tells packets their frames; `ahead` gives the number of the frame that is wanted some packets
/// after the one at a place.
#[inline(always)]
fn lend_each<'p, 'f>(
    frames: &Arc<Frames>,
    pairs: impl ExactSizeIterator<Item = (&'p mut Parts, (&'f Frame, &'f i64))>,
    ahead: impl Fn(usize) -> Option<usize>,
) {
    let (count, mut in_vain) = (pairs.len(), 0);
    let mut lend = |parts: &mut Parts, frame, timestamp_ns| {
        in_vain += usize::from(parts.lent_in_vain(frames));
        parts.lend(frames, frame, timestamp_ns);
    };
    if frames.are_wide() {
        for (at, (parts, (frame, &timestamp_ns))) in pairs.enumerate() {
            lend(parts, frame, timestamp_ns);
            if let Some(number) = ahead(at) {
                frames.fetch(number);
            }
        }
    } else {
        for (parts, (frame, &timestamp_ns)) in pairs {
            lend(parts, frame, timestamp_ns);
            frame.fetch_ahead::<LINES_AHEAD>(&frames.lines);
        }
    }
    if 2 * in_vain > count {
        frames.is_in_vain.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;

    fn lender() -> Lender {
        let mut frames = Frames::default();
        for number in 0..100u8 {
            assert!(frames.push(&vec![number; number.into()], number.into(), PacketType::Host));
        }
        Lender::new(frames)
    }

    #[test]
    fn frames_are_as_they_came_whoever_writes_to_them() {
        let (mut lender, mut pool) = (lender(), Pool::new());
        assert!(!Frames::default().push(&vec![0; PACKET_BYTES_MAX + 1], 0, PacketType::Host));
        let mut draws = 1u32;
        for round in 0..600 {
            draws = draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (first, count) = (draws as usize >> 8 & 63, draws as usize >> 16 & 31);
            let mut batch = pool.borrow(&mut lender, first..first + count);
            for (packet, number) in batch.iter_mut().zip(first..) {
                assert_eq!(packet.data(), vec![number as u8; number], "round {round}");
                let from = packet.lender().map(|frames| frames.bytes().as_ptr_range());
                assert!(from.is_none_or(|from| from.contains(&packet.data().as_ptr())));
                assert_eq!(packet.timestamp_ns(), number as i64);
                assert_eq!(packet.annotations(), &[0; 48]);
                packet.set_anno_u32(40, 7);
                // For some time most packets are written to.
                if round / 100 % 2 == 1 || number % 5 == 0 {
                    packet.data_mut().fill(0xee);
                    packet.push(20);
                    assert!(packet.lender().is_none(), "it has bytes of its own");
                }
            }
            pool.recycle_batch(batch);
        }
    }

    #[test]
    fn who_is_written_to_is_copied_at_once() {
        let (mut lender, mut pool) = (lender(), Pool::new());
        let mut turn = |lender: &mut Lender, writes: bool| {
            let mut batch = pool.borrow(lender, 10..20);
            if writes {
                batch.iter_mut().for_each(|packet| packet.data_mut()[0] = 1);
            }
            pool.recycle_batch(batch);
            lender.to_copy
        };
        assert_eq!([turn(&mut lender, true), turn(&mut lender, true)], [0, 0]);
        for left in (0..COPIED_BATCHES).rev() {
            assert_eq!(turn(&mut lender, true), left);
        }
        // Packets borrow once more, and are looked at when they come again.
        assert_eq!([turn(&mut lender, true), turn(&mut lender, true)], [0, 0]);
        (0..COPIED_BATCHES).for_each(|_| assert!(turn(&mut lender, true) < COPIED_BATCHES));
        assert_eq!([turn(&mut lender, false), turn(&mut lender, false)], [0, 0]);
    }

    #[test]
    fn spares_forget_who_lent() {
        let (mut lender, mut pool) = (lender(), Pool::new());
        let batch = pool.borrow(&mut lender, 0..100);
        let other = pool.borrow_one(&mut lender, 7, 3, 5);
        assert!(other.iter().all(|packet| packet.data() == [7; 7]));
        pool.recycle_batch(batch);
        pool.forget_lenders();
        assert_eq!(Arc::strong_count(&lender.frames), 4, "three borrow still");
        drop(lender);
        assert!(other.iter().all(|packet| packet.data() == [7; 7]));
        pool.recycle_batch(other);
    }
}
