//! What a packet's pointer points to: its lines of memory, and where its bytes are.
//!
//! Its bytes lie in one of three places:
//!
//! | place | when |
//! | --- | --- |
//! | its own buffer | usually |
//! | a larger buffer | it outgrew its own |
//! | lines that somebody lent | nobody has written to it since |
//!
//! What is lent is copied by the first who writes, so a frame that is only looked at costs its own
//! line and nothing more.
//!
//! # Invariants
//! - P1: `offset + len` never passes the place where the bytes are.
//! - P3: a loan, in use or not, points into the lines of `lender`, which are never written to and
//!   stay as long as `lender` does; one in use has `offset + len` bytes there at least. The loan
//!   goes before the lender does.
//! - P4: what lies in its buffer between `low` and the end of the data was written for this packet
//!   since it was new; what lies before is of packets that had the buffer earlier, and nobody sees
//!   it. `low` is where data of a new packet starts, or before if bytes were added in front: only
//!   who adds some notes it, so bytes that are taken away cost nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cached::{CACHED_RESULTS, CachedResult};
use crate::gso::GsoNote;
use crate::lend::{Frame, Frames, Line};
use crate::packet::{
    ANNOTATION_BYTES, BUFFER_BYTES, HEADROOM_BYTES, LINE_BYTES, PACKET_BYTES_MAX, PacketType,
};

/// A place of a header that is not set.
pub(crate) const UNSET: u32 = u32::MAX;

/// Where lent bytes start. The lowest bit, which no line's address has, says that it is in use: a
/// packet that comes back to the same lender need not count itself there anew.
#[derive(Debug)]
struct Loan(*const u8);

// SAFETY: what it points to is read only, by whoever has the packet, and belongs to an
// `Arc<Frames>`, which may be used from any thread.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Sync for Loan {}

impl Loan {
    const NONE: Self = Self(std::ptr::null());

    #[inline(always)]
    fn is_none(&self) -> bool {
        self.0.is_null()
    }

    #[inline(always)]
    fn is_used(&self) -> bool {
        self.0.addr() & 1 != 0
    }

    /// Whether it points to one of `lines`.
    #[inline(always)]
    fn is_from(&self, lines: &[Line]) -> bool {
        self.0.addr().wrapping_sub(lines.as_ptr().addr()) < size_of_val(lines)
    }

    #[inline(always)]
    fn start(lines: &[Line]) -> Self {
        Self(lines.as_ptr().cast::<u8>().wrapping_add(1))
    }

    #[inline(always)]
    fn end(&mut self) {
        self.0 = self.0.map_addr(|addr| addr & !1);
    }
}

/// All bytes of `lines`.
#[inline(always)]
pub(crate) fn all_bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: a line is an array of bytes and nothing else; they are borrowed as the lines are.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
}

/// So many bytes of `lines` from byte `start` on.
///
/// # Safety
/// There are so many.
#[inline(always)]
pub(crate) unsafe fn bytes_of(lines: &[Line], start: usize, bytes: usize) -> &[u8] {
    debug_assert!(start + bytes <= size_of_val(lines), "a frame lies in lines that are there");
    // SAFETY: as above.
    unsafe { all_bytes(lines).get_unchecked(start..start + bytes) }
}

/// See the module. The order is that of the lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Parts {
    offset: u32,
    len: u32,
    loan: Loan,
    pub mac: u32,
    pub network: u32,
    pub transport: u32,
    pub packet_type: PacketType,
    /// What there is beside this line: [`NOTE_FAR`], [`NOTE_TRACE`],
    /// [`NOTE_GSO`].
    pub notes: u8,
    is_large: bool,
    /// Whether `cached` is valid: nobody has written to the bytes since, [`CACHED`]. And how many
    /// bytes before the place where data of a new packet starts were this packet's, for P4:
    /// [`FRONT`]; none while it borrows.
    marks: u8,
    /// Nanoseconds since 1970; 0 if none.
    pub timestamp_ns: i64,
    pub annotations: [u8; ANNOTATION_BYTES],
    /// Whom the loan is from.
    lender: Option<Arc<Frames>>,
    /// In the second line, as only packets with cached results use it.
    pub cached: [CachedResult; CACHED_RESULTS],
    usual: Buffer,
    /// The buffer, if the usual one is too small. In the last line, as `trace`: hardly any packet
    /// has one, and the line is there to keep packets apart.
    large: Option<Box<Large>>,
    /// The number that it is followed by, if the notes say so.
    pub trace: u32,
    /// What its sender left to do, if the notes say so.
    pub gso: GsoNote,
    _apart: [u8; APART_BYTES],
}

/// What is left of the last line.
const APART_BYTES: usize =
    LINE_BYTES - size_of::<usize>() - size_of::<u32>() - size_of::<GsoNote>();

/// The note that annotations from [`FAR`] on may be other than zero.
pub(crate) const NOTE_FAR: u8 = 1;
/// The note that the packet is followed, see [`Packet::trace`](crate::Packet::trace). Among the
/// notes so that it goes when they go: a packet that begins anew costs nothing more.
pub(crate) const NOTE_TRACE: u8 = 2;
/// The note that `gso` is valid, see [`crate::gso`].
pub(crate) const NOTE_GSO: u8 = 4;

/// The bit of marks for cached results.
const CACHED: u8 = 0x80;
/// The bits of marks for bytes in front.
const FRONT: u8 = 0x7f;
const _: () = assert!(HEADROOM_BYTES <= FRONT as usize, "all of the room in front may be used");

/// Annotations from here on lie in the second line.
pub(crate) const FAR: usize = 24;

/// A buffer of any size.
#[derive(Debug)]
struct Large(Box<[u8]>);

/// How many there are: while there is none, nobody need look at each packet for one. Whoever gets a
/// packet from another thread sees what that thread has counted.
static LARGE: AtomicUsize = AtomicUsize::new(0);

impl Large {
    fn new(buffer: Box<[u8]>) -> Box<Self> {
        LARGE.fetch_add(1, Ordering::Relaxed);
        Box::new(Self(buffer))
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        LARGE.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether any packet at all has a larger buffer. Cost: one load, of what all threads share and
/// rarely change.
#[inline]
pub(crate) fn any_is_large() -> bool {
    LARGE.load(Ordering::Relaxed) > 0
}

/// The usual buffer, from the start of a line.
#[derive(Debug)]
#[repr(C, align(64))]
struct Buffer([u8; BUFFER_BYTES]);

impl Parts {
    pub fn new() -> Self {
        Self {
            offset: HEADROOM_BYTES as u32,
            len: 0,
            loan: Loan::NONE,
            mac: UNSET,
            network: UNSET,
            transport: UNSET,
            packet_type: PacketType::Host,
            notes: 0,
            is_large: false,
            marks: 0,
            timestamp_ns: 0,
            annotations: [0; ANNOTATION_BYTES],
            lender: None,
            cached: [CachedResult::NONE; CACHED_RESULTS],
            usual: Buffer([0; BUFFER_BYTES]),
            large: None,
            trace: 0,
            gso: GsoNote::NONE,
            _apart: [0; APART_BYTES],
        }
    }

    /// Makes it empty, with the room in front that a new one has.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.loan.end();
        self.marks = 0;
        (self.offset, self.len) = (HEADROOM_BYTES as u32, 0);
    }

    /// Where the data starts in its place.
    #[inline(always)]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Bytes of the data.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether `cached` is valid.
    #[inline(always)]
    pub fn has_cached(&self) -> bool {
        self.marks & CACHED != 0
    }

    /// Makes `cached` valid.
    #[inline(always)]
    pub fn mark_cached(&mut self) {
        self.marks |= CACHED;
    }

    /// Notes that annotations from [`FAR`] on are there, if they are written to.
    #[inline(always)]
    pub fn note_far(&mut self, is_far: bool) {
        self.notes |= if is_far { NOTE_FAR } else { 0 };
    }

    /// See P4.
    #[inline(always)]
    fn low(&self) -> u32 {
        if self.loan.is_used() {
            return 0;
        }
        HEADROOM_BYTES as u32 - u32::from(self.marks & FRONT)
    }

    #[inline(always)]
    pub fn is_large(&self) -> bool {
        self.is_large
    }

    /// All bytes from the start of the place where they are to the end of the data, at least.
    #[inline(always)]
    fn place(&self) -> &[u8] {
        if self.loan.is_used() {
            return self.lent();
        }
        self.buffer()
    }

    /// What was lent, up to the end of the data.
    #[inline(always)]
    fn lent(&self) -> &[u8] {
        let bytes = self.offset as usize + self.len as usize;
        // SAFETY: the loan is in use, as callers have seen, so by P3 there are so many bytes, which
        // nobody writes to, and which `self.lender` keeps for as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.loan.0.wrapping_sub(1), bytes) }
    }

    /// The buffer that bytes are in if they are not lent.
    #[inline(always)]
    fn buffer(&self) -> &[u8] {
        // The flag is in the line at hand, the pointer is not.
        match self.is_large.then_some(self.large.as_ref()).flatten() {
            Some(large) => &large.0,
            None => &self.usual.0,
        }
    }

    #[inline(always)]
    fn buffer_mut(&mut self) -> &mut [u8] {
        match self.is_large.then_some(self.large.as_mut()).flatten() {
            Some(large) => &mut large.0,
            None => &mut self.usual.0,
        }
    }

    /// The data.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        // Sums of two half words, so that one comparison tells whether it lies inside.
        let start = self.offset as usize;
        &self.place()[start..start + self.len as usize]
    }

    /// The data, in a place where it may be written.
    #[inline(always)]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.own();
        let start = self.offset as usize;
        let end = start + self.len as usize;
        &mut self.buffer_mut()[start..end]
    }

    /// The bytes from place `from` to the start of the data.
    pub fn in_front(&self, from: usize) -> &[u8] {
        &self.place()[from..self.offset as usize]
    }

    /// Bytes that can be added in front without moving any, but those that are lent.
    #[inline(always)]
    pub fn headroom(&self) -> usize {
        self.offset as usize + if self.loan.is_used() { HEADROOM_BYTES } else { 0 }
    }

    /// Bytes of the buffer.
    #[inline(always)]
    pub fn buffer_bytes(&self) -> usize {
        if self.loan.is_used() { BUFFER_BYTES } else { self.buffer().len() }
    }

    /// Bytes that can be added behind without moving any, but those that are lent.
    #[inline(always)]
    pub fn tailroom(&self) -> usize {
        self.buffer_bytes().saturating_sub(self.headroom() + self.len as usize)
    }

    /// Takes `bytes` away in front; as many as there are if there are fewer.
    #[inline(always)]
    pub fn pull(&mut self, bytes: usize) {
        let bytes = bytes.min(self.len as usize) as u32;
        self.offset += bytes;
        self.len -= bytes;
    }

    /// Takes `bytes` away behind; as many as there are if there are fewer.
    #[inline(always)]
    pub fn take(&mut self, bytes: usize) {
        self.len -= bytes.min(self.len as usize) as u32;
    }

    /// Adds `bytes` in front of its own, which there is room for, and gives them. They are whatever
    /// the buffer has there: all of them have to be written.
    #[inline(always)]
    pub fn push(&mut self, bytes: usize) -> &mut [u8] {
        debug_assert!(!self.loan.is_used(), "bytes are owned before they are written to");
        let end = self.offset as usize;
        assert!(bytes <= end, "{bytes} bytes in front, of {end}");
        self.offset -= bytes as u32;
        self.len += bytes as u32;
        if self.offset < HEADROOM_BYTES as u32 {
            // Who owned them has removed cached results, so there is no other mark.
            self.marks = self.marks.max((HEADROOM_BYTES as u32 - self.offset) as u8);
        }
        &mut self.buffer_mut()[end - bytes..end]
    }

    /// Adds `bytes` in front: those that were taken away there, and zeros before them.
    pub fn unpull(&mut self, bytes: usize) {
        if bytes > self.offset as usize {
            self.own();
        }
        if bytes > self.offset as usize {
            // As much is left behind as there was, but no more than packets have at all.
            let tailroom = self.tailroom().min(BUFFER_BYTES);
            self.grow(bytes + HEADROOM_BYTES, tailroom);
        }
        let low = self.low();
        self.offset -= bytes as u32;
        self.len += bytes as u32;
        if self.offset < low {
            let new = self.offset as usize..low as usize;
            self.buffer_mut()[new].fill(0);
            let front = HEADROOM_BYTES as u32 - self.offset;
            self.marks = self.marks & CACHED | front as u8;
        }
    }

    /// Adds `bytes` behind, which there is room for.
    #[inline(always)]
    pub fn put(&mut self, bytes: usize) {
        self.own();
        assert!(bytes <= self.tailroom(), "{bytes} bytes behind, of {}", self.tailroom());
        self.len += bytes as u32;
    }

    /// Makes it as new, but with what is lent as its data.
    #[inline(always)]
    pub fn lend(&mut self, frames: &Arc<Frames>, frame: &Frame, timestamp_ns: i64) {
        if !self.loan.is_from(frames.lines()) {
            self.change_lender(Some(frames));
        }
        self.loan = Loan::start(frames.lines_from(frame));
        (self.offset, self.len) = (0, frame.bytes());
        self.describe(frame, timestamp_ns);
    }

    /// Makes it as new, but with a copy of a frame as its data.
    #[inline(always)]
    pub fn copy_frame(&mut self, frames: &Frames, frame: &Frame, timestamp_ns: i64) {
        self.clear();
        // What was borrowed before tells nothing any more of who writes.
        self.loan = Loan::NONE;
        self.describe(frame, timestamp_ns);
        let lines = frames.lines_of(frame);
        let room = &mut self.usual.0[HEADROOM_BYTES..];
        match (lines, room.first_chunk_mut()) {
            ([line], Some(room)) if !self.is_large => {
                *room = line.0;
                self.len = frame.bytes();
            }
            _ => self.copy_lines(lines, frame.bytes()),
        }
    }

    #[inline(never)]
    fn copy_lines(&mut self, lines: &[Line], bytes: u32) {
        let room = size_of_val(lines);
        if self.tailroom() < room {
            self.grow(HEADROOM_BYTES, room);
        }
        self.put(room);
        for (to, line) in self.data_mut().as_chunks_mut::<LINE_BYTES>().0.iter_mut().zip(lines) {
            *to = line.0;
        }
        self.len = bytes;
    }

    /// What is known of a frame, and nothing else.
    #[inline(always)]
    fn describe(&mut self, frame: &Frame, timestamp_ns: i64) {
        (self.mac, self.network, self.transport) = (UNSET, UNSET, UNSET);
        self.packet_type = frame.packet_type();
        self.timestamp_ns = timestamp_ns;
        self.clear_annotations();
    }

    #[inline(always)]
    pub fn clear_annotations(&mut self) {
        self.marks = 0;
        self.annotations[..FAR].fill(0);
        if self.notes != 0 {
            self.annotations[FAR..].fill(0);
            self.notes = 0;
        }
    }

    /// Takes over packet type, time, annotations and trace of another.
    #[inline]
    pub fn copy_notes(&mut self, from: &Parts) {
        self.packet_type = from.packet_type;
        self.timestamp_ns = from.timestamp_ns;
        if self.notes | from.notes != 0 {
            self.annotations = from.annotations;
            if from.notes & NOTE_TRACE != 0 {
                self.trace = from.trace;
            }
        } else {
            self.annotations[..FAR].copy_from_slice(&from.annotations[..FAR]);
        }
        self.notes = from.notes & !NOTE_GSO;
    }

    /// Whether lending to it did not pay: it made a copy, or borrows from others in between, which
    /// costs as much.
    #[inline(always)]
    pub fn lent_in_vain(&self, frames: &Frames) -> bool {
        !self.loan.is_none() & !(self.loan.is_used() & self.loan.is_from(frames.lines()))
    }

    #[cold]
    fn change_lender(&mut self, frames: Option<&Arc<Frames>>) {
        self.loan = Loan::NONE;
        let is_same = |old: &Arc<Frames>| frames.is_some_and(|new| Arc::ptr_eq(old, new));
        if !self.lender.as_ref().is_some_and(is_same) {
            self.lender = frames.cloned();
        }
    }

    /// Who lends it its bytes.
    #[inline]
    pub fn lender(&self) -> Option<&Arc<Frames>> {
        self.lender.as_ref().filter(|_| self.loan.is_used())
    }

    /// Lets go of who lent bytes before, if none are lent now.
    pub fn forget_lender(&mut self) {
        if !self.loan.is_used() {
            self.change_lender(None);
        }
    }

    /// Borrows what `other` borrows, if it does, from the same start on. Where the data is in it
    /// remains to be said.
    fn share(&mut self, other: &Parts) -> bool {
        let shares = other.loan.is_used();
        if shares && let Some(lender) = &other.lender {
            if !self.loan.is_from(lender.lines()) {
                self.change_lender(Some(lender));
            }
            self.loan = Loan(other.loan.0);
        }
        shares
    }

    /// Makes the data a copy of `other`'s, at the same place; where headers are is as it was.
    pub fn copy_data(&mut self, other: &Parts) {
        // As long as the data is empty, whatever the loan has is enough.
        (self.offset, self.len) = (0, 0);
        self.marks = other.marks & FRONT;
        if self.share(other) {
            (self.offset, self.len) = (other.offset, other.len);
            return;
        }
        self.loan.end();
        if self.buffer().len() < other.offset as usize + other.len as usize {
            self.set_large(vec![0; other.buffer().len()].into_boxed_slice());
        }
        (self.offset, self.len) = (other.offset, other.len);
        // What was taken away in front may be asked for again.
        let from = other.low() as usize;
        let end = (other.offset + other.len) as usize;
        self.buffer_mut()[from..end].copy_from_slice(&other.buffer()[from..end]);
    }

    /// Sees to it that the bytes are its own, as they will be written to.
    #[inline(always)]
    pub fn own(&mut self) {
        self.marks &= !CACHED;
        if self.loan.is_used() {
            self.copy_lent();
        }
    }

    /// Copies what is lent, with what was taken away in front, behind new room.
    #[inline(never)]
    fn copy_lent(&mut self) {
        let bytes = self.offset as usize + self.len as usize;
        if self.is_large {
            (self.is_large, self.large) = (false, None);
        }
        if HEADROOM_BYTES + bytes > BUFFER_BYTES {
            let mut buffer = vec![0; HEADROOM_BYTES + bytes].into_boxed_slice();
            buffer[HEADROOM_BYTES..].copy_from_slice(self.lent());
            self.set_large(buffer);
        } else {
            let from = self.loan.0.wrapping_sub(1);
            let to = self.usual.0[HEADROOM_BYTES..].as_mut_ptr();
            // Whole lines are there to be read, and copied faster.
            let whole = bytes.next_multiple_of(LINE_BYTES).min(BUFFER_BYTES - HEADROOM_BYTES);
            // SAFETY: loans start and end with lines, so by P3 `whole` bytes can be read; the usual
            // buffer has as many behind its headroom; a lender's lines are no packet's buffer.
            unsafe { std::ptr::copy_nonoverlapping(from, to, whole) };
        }
        self.loan.end();
        self.offset += HEADROOM_BYTES as u32;
        for place in [&mut self.mac, &mut self.network, &mut self.transport] {
            if *place != UNSET {
                *place += HEADROOM_BYTES as u32;
            }
        }
        self.move_gso(HEADROOM_BYTES as i64);
    }

    /// Moves the data into a larger buffer, with `headroom` bytes in front, and at least `tailroom`
    /// behind, and what was taken away in front as far as there is room.
    #[cold]
    pub fn grow(&mut self, headroom: usize, tailroom: usize) {
        let bytes = headroom + self.len as usize + tailroom;
        assert!(bytes <= 2 * PACKET_BYTES_MAX, "a packet of {bytes} bytes");
        let mut buffer = vec![0; bytes.max(BUFFER_BYTES)].into_boxed_slice();
        // What was taken away in front may be asked for again.
        let kept = headroom.min((self.offset - self.low()) as usize);
        let start = self.offset as usize - kept;
        let end = (self.offset + self.len) as usize;
        buffer[headroom - kept..headroom + self.len as usize]
            .copy_from_slice(&self.place()[start..end]);
        self.loan.end();
        let moved = headroom as i64 - i64::from(self.offset);
        for place in [&mut self.mac, &mut self.network, &mut self.transport] {
            if *place != UNSET {
                *place = u32::try_from(i64::from(*place) + moved).unwrap_or(UNSET);
            }
        }
        self.move_gso(moved);
        self.offset = headroom as u32;
        self.set_large(buffer);
        // What nobody wrote is zero.
        self.marks = self.marks & CACHED | HEADROOM_BYTES as u8;
    }

    fn set_large(&mut self, buffer: Box<[u8]>) {
        self.large = Some(Large::new(buffer));
        self.is_large = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_elements_look_at_lies_in_few_lines() {
        assert_eq!(std::mem::offset_of!(Parts, annotations), 40);
        assert_eq!(std::mem::offset_of!(Parts, annotations) + FAR, LINE_BYTES);
        assert_eq!(std::mem::offset_of!(Parts, usual), 2 * LINE_BYTES);
        assert_eq!(size_of::<Parts>() / LINE_BYTES % 2, 1);
        assert_eq!(HEADROOM_BYTES % LINE_BYTES, 0);
        let mut parts = Parts::new();
        parts.put(64);
        assert_eq!(parts.data().as_ptr().addr() % LINE_BYTES, 0);
    }

    #[test]
    fn a_lender_goes_when_nobody_borrows() {
        let frames = |byte| {
            let mut frames = Frames::default();
            for bytes in [60, 100, 192] {
                assert!(frames.push(&[byte; 192][..bytes], 0, PacketType::Host));
            }
            Arc::new(frames)
        };
        let (one, two) = (frames(1), frames(2));
        let counts = || (Arc::strong_count(&one), Arc::strong_count(&two));
        let mut parts = Parts::new();
        parts.lend(&one, &one.list()[1], 0);
        assert_eq!((parts.data(), counts()), ([1; 100].as_slice(), (2, 1)));
        parts.forget_lender();
        assert_eq!(counts(), (2, 1), "it is in use");
        let mut copy = Parts::new();
        copy.copy_data(&parts);
        assert_eq!((copy.data(), counts()), ([1; 100].as_slice(), (3, 1)));
        parts.clear();
        parts.lend(&one, &one.list()[2], 0);
        assert_eq!((parts.data(), counts()), ([1; 192].as_slice(), (3, 1)));
        parts.lend(&two, &two.list()[0], 0);
        assert_eq!((parts.data(), counts()), ([2; 60].as_slice(), (2, 2)));
        assert!(!parts.lent_in_vain(&two) && parts.lent_in_vain(&one));
        copy.clear();
        copy.forget_lender();
        parts.data_mut()[0] = 7;
        assert!(parts.lent_in_vain(&two));
        parts.forget_lender();
        assert_eq!((parts.data()[..2].as_ref(), counts()), ([7, 2].as_slice(), (1, 1)));
        assert_eq!(two.lines_of(&two.list()[0])[0].0[..60], [2; 60]);
        for frame in two.list() {
            parts.copy_frame(&two, frame, 0);
            assert_eq!((parts.data(), parts.headroom()), (&[2; 192][..parts.data().len()], 64));
        }
        assert_eq!(counts(), (1, 1));
    }
}
