//! Packets in order, and which frame is to be whose.
//!
//! ```text
//! usual       packets ─► what each points to ─► its bytes
//! lent whole  packets, as they were left; numbers ─► frames: no packet knows of its frame yet
//! ```
//! Frames are lent to a whole batch by a column of their numbers, or a range of them. Who only
//! reads frames does so through that column, and who sorts packets sorts numbers: four bytes a
//! packet, where a packet's own line, which says where its data is, is 64 that are written once
//! and read by each element. In the same way [`columns`](crate::columns) have annotations and
//! headers that elements set for all packets. Who asks for packets gets packets: the first that
//! does has all of this written to them. Until then the batch is *deferred*.
//!
//! # Invariants
//! - B1: a batch that is lent whole has as many numbers as packets, each that of one of the frames.
//!   Otherwise nobody asks for numbers.
//! - B2: nobody has a reference to a packet of a batch that is deferred.
//! - B3: columns of a deferred batch have as many numbers as it has packets. Otherwise nobody reads
//!   them.

use std::any::Any;
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::Arc;

use crate::cached::{CACHED_RESULTS, CachedResult};
use crate::columns::{Column, Columns};
use crate::deal::move_last;
use crate::lend::{self, Frames, LentFrames, Loaned};
use crate::numbers::Numbers;
use crate::packet::{LINE_BYTES, Packet, annotation};
use crate::pages::prefetch;
use crate::view::SharedFrames;

/// The most packets that a batch is meant to hold. Longer ones are right, only slower.
pub const BATCH_LEN_MAX: usize = 256;

/// Why [`Batch::hand_for`] gives a hand.
pub(crate) const NO_OTHERS: &str = "no other packets are there, as was seen before";

/// Packets in order. One pointer: a batch moves between elements in eight bytes.
#[derive(Debug)]
pub struct Batch(Box<Parts>);

/// Behind a pointer, as batches are pushed to and moved in turn: to read three words at once that
/// were just written one by one makes a processor wait until all of them are in its cache.
#[derive(Debug)]
struct Parts {
    /// Not there while the batch is deferred.
    packets: OnceCell<Vec<Packet>>,
    loan: Loan,
    columns: Columns,
    attachment: Option<Attachment>,
}

/// What travels with the packets, see [`Batch::attach`].
#[derive(Debug)]
struct Attachment {
    what: Box<dyn Any + Send>,
    /// Bytes of all packets, once somebody has asked: each element of a chain does, and a wide
    /// batch does not fit the first cache.
    bytes: OnceCell<u64>,
}

/// What a deferred batch has in place of packets.
#[derive(Default)]
pub(crate) struct Loan {
    /// The packets as they were left.
    packets: Cell<Vec<Packet>>,
    /// How many there are, and whether they have their own data: the batch is not lent whole.
    owned: Option<usize>,
    /// Which frame is to be whose.
    numbers: Numbers,
    /// Whose numbers these are. Kept for the next loan, which most often is from the same.
    frames: Option<Arc<Frames>>,
    /// When packets were seen, if not when frames were.
    timestamp_ns: Option<i64>,
}

/// What packets of a loan are moved from or to.
pub(crate) struct Hand<'b> {
    pub packets: &'b mut Vec<Packet>,
    pub numbers: &'b mut Numbers,
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("numbers", &self.numbers).finish_non_exhaustive()
    }
}

impl Loan {
    /// The packets, each with its frame and what columns have for it.
    #[inline(never)]
    fn hand_out(&self, columns: &Columns) -> Vec<Packet> {
        let mut packets = self.packets.take();
        if let (None, Some(frames)) = (self.owned, &self.frames) {
            let parts = packets.iter_mut().map(Packet::parts_mut);
            lend::hand_out(frames, &self.numbers, self.timestamp_ns, parts);
        }
        columns.write_to(&mut packets);
        packets
    }

    /// Whether it is for the same frames at the same time.
    fn is_like(&self, other: &Loan) -> bool {
        let is_same = |(own, other)| Arc::ptr_eq(own, other);
        self.owned.is_none()
            && self.timestamp_ns == other.timestamp_ns
            && self.frames.as_ref().zip(other.frames.as_ref()).is_some_and(is_same)
    }

    /// Makes it one of `frames`.
    #[inline]
    fn be_of(&mut self, frames: &Arc<Frames>, timestamp_ns: Option<i64>) {
        if !self.frames.as_ref().is_some_and(|own| Arc::ptr_eq(own, frames)) {
            self.frames = Some(frames.clone());
        }
        (self.timestamp_ns, self.owned) = (timestamp_ns, None);
    }
}

/// Asks for what is wanted some packets behind the one at `idx`.
#[inline]
fn fetch_ahead(packets: &[Packet], idx: usize) {
    const OWN: usize = 24;
    const DATA: usize = 12;
    if let Some(ahead) = packets.get(idx + OWN) {
        ahead.prefetch();
        prefetch(packets[idx + DATA].data(), 0);
    }
}

impl Batch {
    /// A batch without packets. Allocates; [`crate::Pool::batch`] need not.
    pub fn new() -> Self {
        Self::with_packets(Vec::new(), Numbers::default())
    }

    /// One with room for a batch: dealing writes whole registers.
    pub(crate) fn with_room() -> Self {
        let room = |item_bytes| BATCH_LEN_MAX + LINE_BYTES / item_bytes;
        Self::with_packets(
            Vec::with_capacity(room(size_of::<Packet>())),
            Numbers::with_capacity(room(size_of::<u32>())),
        )
    }

    fn with_packets(packets: Vec<Packet>, numbers: Numbers) -> Self {
        let (loan, columns) = (Loan { numbers, ..Loan::default() }, Columns::default());
        Self(Box::new(Parts { packets: OnceCell::from(packets), loan, columns, attachment: None }))
    }

    #[inline(always)]
    fn packets(&self) -> &Vec<Packet> {
        self.0.packets.get_or_init(|| self.0.loan.hand_out(&self.0.columns))
    }

    #[inline(always)]
    pub(crate) fn packets_mut(&mut self) -> &mut Vec<Packet> {
        self.packets();
        self.0.packets.get_mut().expect("they were handed out")
    }

    /// Has `attachment` travel with the packets, in place of what did before: what a device works
    /// on for them, say. It is for elements that hand whole batches to each other; whoever moves
    /// packets to another batch leaves it behind, and whoever makes them longer or shorter, or
    /// fewer, detaches it before.
    pub fn attach(&mut self, attachment: Box<dyn Any + Send>) {
        self.0.attachment = Some(Attachment { what: attachment, bytes: OnceCell::new() });
    }

    /// What travels with the packets.
    pub fn attachment_mut(&mut self) -> Option<&mut (dyn Any + Send)> {
        self.0.attachment.as_mut().map(|attachment| &mut *attachment.what)
    }

    /// Takes away what travels with the packets.
    pub fn detach(&mut self) -> Option<Box<dyn Any + Send>> {
        self.0.attachment.take().map(|attachment| attachment.what)
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        let Loan { owned, numbers, .. } = &self.0.loan;
        let deferred = || owned.unwrap_or_else(|| numbers.len());
        self.0.packets.get().map_or_else(deferred, Vec::len)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a packet behind.
    #[inline]
    pub fn push(&mut self, packet: Packet) {
        self.packets_mut().push(packet);
    }

    /// Moves all packets of `other` behind.
    ///
    /// Cost: of batches that are deferred in the same way, a copy of columns.
    pub fn append(&mut self, other: &mut Batch) {
        let (count, other_count) = (self.len(), other.len());
        let is_alike = count == 0 || self.0.columns.is_like(&other.0.columns);
        if !is_alike || !other.is_lent_whole() || !self.takes_like(other) {
            return self.packets_mut().append(other.packets_mut());
        }
        let (mut packets, mut numbers) = other.take_lent_whole();
        let hand = self.hand_for(other).expect(NO_OTHERS);
        hand.packets.append(&mut packets);
        hand.numbers.append(&mut numbers);
        self.lend_like(other);
        match count {
            0 => std::mem::swap(&mut self.0.columns, &mut other.0.columns),
            _ => self.0.columns.append(count, &other.0.columns, other_count),
        }
        other.0.columns.clear();
        other.put_lent_whole(packets, numbers);
    }

    /// Moves the last `count` packets to `to`, which is empty. Both stay deferred.
    ///
    /// # Panics
    /// If there are fewer packets, or `to` is not empty.
    pub fn split_last(&mut self, count: usize, to: &mut Batch) {
        assert!(to.is_empty(), "{} packets are there already", to.len());
        if !self.is_deferred() {
            return move_last(self.packets_mut(), count, to.as_left());
        }
        let (from, to) = (&mut *self.0, &mut *to.0);
        let mut packets = to.packets.take().unwrap_or_else(|| to.loan.packets.take());
        move_last(from.loan.packets.get_mut(), count, &mut packets);
        to.loan.packets.set(packets);
        to.columns.clear();
        from.columns.split_last(count, &mut to.columns);
        match &mut from.loan.owned {
            Some(left) => {
                *left -= count;
                to.loan.owned = Some(count);
            }
            None => {
                if let Some(frames) = &from.loan.frames {
                    to.loan.be_of(frames, from.loan.timestamp_ns);
                }
                from.loan.numbers.split_last(count, &mut to.loan.numbers);
            }
        }
    }

    /// Moves `packets` behind.
    #[inline]
    pub fn extend(&mut self, packets: impl Iterator<Item = Packet>) {
        self.packets_mut().extend(packets);
    }

    /// The packets in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Packet> {
        self.packets().iter()
    }

    /// Whether one of its packets is followed, see [`Packet::trace`]. Cost: a look at each packet's
    /// first line, but at none while the batch is lent whole.
    pub fn has_traced(&self) -> bool {
        !self.is_lent_whole() && self.iter().any(|packet| packet.trace().is_some())
    }

    /// The packets in order, each one's own line and the first of its data asked for some packets
    /// ahead: for batches that are wider than what stays in the first cache.
    #[inline]
    pub fn iter_ahead(&self) -> impl ExactSizeIterator<Item = &Packet> + Clone {
        let packets = self.packets();
        packets.iter().enumerate().map(move |(idx, packet)| {
            fetch_ahead(packets, idx);
            packet
        })
    }

    /// The packet at a place, with others asked for as [`Batch::iter_ahead`] does.
    ///
    /// # Panics
    /// If there are fewer packets.
    #[inline]
    pub fn get_ahead(&self, place: usize) -> &Packet {
        let packets = self.packets();
        fetch_ahead(packets, place);
        &packets[place]
    }

    /// The packets in order, to change.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Packet> {
        self.packets_mut().iter_mut()
    }

    /// Takes all packets out, in order.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Packet> {
        self.packets_mut().drain(..)
    }

    /// Takes the packets from number `from` on out, in order.
    pub fn drain_from(&mut self, from: usize) -> std::vec::Drain<'_, Packet> {
        let packets = self.packets_mut();
        packets.drain(from.min(packets.len())..)
    }

    /// The packets as a slice.
    pub fn as_slice(&self) -> &[Packet] {
        self.packets()
    }

    /// The packets as a slice, to change.
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        self.packets_mut()
    }

    /// Keeps the packets that `keep` gives back, in order; it may do with the others what it wants.
    ///
    /// Cost: one pass; nothing moves while all are kept.
    #[inline]
    pub fn sift(&mut self, mut keep: impl FnMut(Packet) -> Option<Packet>) {
        let packets = std::mem::take(self.packets_mut());
        // Collecting from a vector's own iterator reuses its memory.
        *self.packets_mut() = packets.into_iter().filter_map(&mut keep).collect();
    }

    /// Bytes of all packets.
    pub fn bytes(&self) -> u64 {
        let Loan { numbers, frames, .. } = &self.0.loan;
        let columns = &self.0.columns;
        let count = || match frames {
            Some(frames) if self.is_lent_whole() => {
                frames.bytes_of(numbers) - columns.bytes_behind(numbers.len())
            }
            _ if self.is_deferred() => columns.bytes(),
            _ => self.iter().map(|packet| packet.len() as u64).sum(),
        };
        match &self.0.attachment {
            Some(attachment) => *attachment.bytes.get_or_init(count),
            None => count(),
        }
    }
}

/// Frames that are lent to all packets at once; see the module.
impl Batch {
    /// Whether nobody has looked at packets since frames were lent to all of them, or since
    /// [`Batch::defer`].
    #[inline]
    pub fn is_deferred(&self) -> bool {
        self.0.packets.get().is_none()
    }

    #[inline]
    pub(crate) fn is_lent_whole(&self) -> bool {
        self.is_deferred() && self.0.loan.owned.is_none()
    }

    /// The data of each packet, if frames were lent to all of them and nobody has looked at a
    /// packet, or set a column, since. All else is as in new packets then: no header is set,
    /// annotations are zero.
    ///
    /// Cost: what is read is the frames, where asking for packets would write and read a line of
    /// each more.
    #[inline]
    pub fn lent_frames(&self) -> Option<LentFrames<'_>> {
        self.frames().filter(|_| self.0.columns.is_empty())
    }

    /// The data of each packet, if frames are lent to all of them, whatever columns are set, and no
    /// packet ends before its frame does. Cost: as [`Batch::lent_frames`].
    #[inline]
    pub fn whole_frames(&self) -> Option<LentFrames<'_>> {
        self.frames().filter(|_| self.0.columns.has_none_behind())
    }

    /// The data of each packet, if frames are lent to all of them, whatever columns are set.
    pub fn shown_frames(&self) -> Option<impl ExactSizeIterator<Item = &[u8]> + Clone> {
        let columns = &self.0.columns;
        let all = self.frames()?.enumerate();
        Some(all.map(|(place, frame)| {
            &frame[..frame.len().saturating_sub(columns.bytes_behind_of(place))]
        }))
    }

    /// The shared frames of a deferred batch, for [`Batch::views`].
    #[inline]
    pub(crate) fn shared_frames(&self) -> Option<SharedFrames<'_>> {
        let Parts { loan: Loan { numbers, frames, timestamp_ns, .. }, columns, .. } = &*self.0;
        let frames = frames.as_ref().filter(|_| self.is_lent_whole())?;
        let extra_lens = self.anno_column(annotation::EXTRA_LEN)?;
        Some(SharedFrames { frames, numbers, columns, timestamp_ns: *timestamp_ns, extra_lens })
    }

    /// The owner of the frame of the packet at `place`, if it is shared.
    pub fn lender_of(&self, place: usize) -> Option<&Arc<Frames>> {
        if self.is_lent_whole() {
            return self.0.loan.frames.as_ref();
        }
        self.iter().nth(place)?.lender()
    }

    /// Frames that are lent, from their start to their end, whatever columns say of headers.
    #[inline]
    fn frames(&self) -> Option<LentFrames<'_>> {
        let Loan { numbers, frames, .. } = &self.0.loan;
        let frames = frames.as_ref().filter(|_| self.is_lent_whole())?;
        Some(LentFrames::new(frames, numbers))
    }

    /// Lends the packets, which are as they were left, frames with these numbers.
    ///
    /// # Panics
    /// If there are not as many numbers as packets, or too large ones.
    pub(crate) fn lend_whole(
        &mut self,
        frames: &Arc<Frames>,
        numbers: Loaned,
        timestamp_ns: Option<i64>,
    ) {
        let packets = self.as_left();
        assert_eq!(packets.len(), numbers.len(), "as many frames as packets");
        let Parts { packets, loan, columns, .. } = &mut *self.0;
        columns.clear();
        loan.numbers.set(numbers);
        loan.be_of(frames, timestamp_ns);
        loan.packets.set(packets.take().unwrap_or_default());
    }

    /// The packets as they were left; what was lent to all of them is no longer theirs.
    #[inline]
    pub(crate) fn as_left(&mut self) -> &mut Vec<Packet> {
        let Parts { packets, loan, .. } = &mut *self.0;
        if packets.get().is_none() {
            let _ = packets.set(loan.packets.take());
        }
        packets.get_mut().expect("they were just set")
    }

    /// Has no part in frames any more, unless they are lent to it now.
    pub fn forget_lender(&mut self) {
        if !self.is_lent_whole() {
            self.0.loan.frames = None;
        }
    }

    /// Where packets of `other`, which is lent whole, go to if no other packets are there;
    /// [`Batch::lend_like`] follows.
    #[inline]
    pub(crate) fn hand_for(&mut self, other: &Batch) -> Option<Hand<'_>> {
        let Parts { packets, loan, columns, .. } = &mut *self.0;
        match packets.get_mut() {
            Some(packets) if packets.is_empty() => {
                columns.clear();
                loan.numbers.clear();
                Some(Hand { packets, numbers: &mut loan.numbers })
            }
            None if loan.is_like(&other.0.loan) => {
                Some(Hand { packets: loan.packets.get_mut(), numbers: &mut loan.numbers })
            }
            _ => None,
        }
    }

    /// Says that packets in it are lent what their numbers say, of the frames of `other`.
    #[inline]
    pub(crate) fn lend_like(&mut self, other: &Batch) {
        let Parts { packets, loan, .. } = &mut *self.0;
        if let (Some(packets), Some(frames)) = (packets.take(), &other.0.loan.frames) {
            loan.be_of(frames, other.0.loan.timestamp_ns);
            loan.packets.set(packets);
        }
    }

    /// Adds a packet of `other`, which is lent whole, behind.
    pub(crate) fn push_lent(&mut self, packet: Packet, number: u32, other: &Batch) {
        let hand = self.hand_for(other).expect(NO_OTHERS);
        hand.packets.push(packet);
        hand.numbers.as_list().push(number);
        self.lend_like(other);
    }

    /// Whether [`Batch::hand_for`] gives a hand for `other`.
    pub(crate) fn takes_like(&mut self, other: &Batch) -> bool {
        self.hand_for(other).is_some()
    }

    /// The packets and their numbers, of a batch that is lent whole. [`Batch::put_lent_whole`]
    /// follows.
    pub(crate) fn take_lent_whole(&mut self) -> (Vec<Packet>, Numbers) {
        let loan = &mut self.0.loan;
        (loan.packets.take(), std::mem::take(&mut loan.numbers))
    }

    /// Puts those back that nobody took.
    pub(crate) fn put_lent_whole(&mut self, packets: Vec<Packet>, numbers: Numbers) {
        self.0.loan.packets.set(packets);
        self.0.loan.numbers = numbers;
    }
}

/// Columns; see [`crate::columns`].
impl Batch {
    /// Defers packets that have their data; these are their lengths. Columns that are set then stay
    /// beside them until somebody needs the packets. A batch that is deferred already stays as it
    /// is.
    ///
    /// # Panics
    /// If there are not as many lengths as packets.
    pub fn defer(&mut self, lens: impl ExactSizeIterator<Item = u32>) {
        let Parts { packets, loan, columns, .. } = &mut *self.0;
        let Some(packets) = packets.take() else { return };
        assert_eq!(packets.len(), lens.len(), "every packet has its length");
        columns.clear();
        columns.set_lens(lens);
        loan.owned = Some(packets.len());
        loan.packets.set(packets);
    }

    /// The annotations at `at`, of four bytes each, if the batch is deferred and no column has a
    /// part of them only.
    #[inline]
    pub fn anno_column(&self, at: usize) -> Option<Column<'_>> {
        if !self.is_deferred() {
            return None;
        }
        let known = self.0.columns.annotation(at)?;
        // What is not set is zero in packets that begin anew, and whatever it is in others.
        known.or(self.0.loan.owned.is_none().then_some(Column::All(0)))
    }

    /// Adds the annotations at `at` of all packets to `out`. Cost: of a deferred batch a copy of
    /// four bytes a packet, else a look at each packet.
    pub fn read_annos(&self, at: usize, out: &mut Vec<u32>) {
        match self.anno_column(at) {
            Some(column) => column.copy_to(self.len(), out),
            None => out.extend(self.iter().map(|packet| packet.anno_u32(at))),
        }
    }

    /// Sets the annotations at `at`, of four bytes each. Cost: as [`Batch::read_annos`].
    ///
    /// # Panics
    /// If there are not as many numbers as packets.
    pub fn set_annos(&mut self, at: usize, column: Column<'_>) {
        if let Column::Each(values) = column {
            assert_eq!(values.len(), self.len(), "every packet has its number");
        }
        if self.is_deferred() && self.0.columns.set_annotation(at, column) {
            return;
        }
        match column {
            Column::All(value) => self.iter_mut().for_each(|packet| packet.set_anno_u32(at, value)),
            Column::Each(values) => {
                for (packet, &value) in self.iter_mut().zip(values) {
                    packet.set_anno_u32(at, value);
                }
            }
        }
    }

    /// Says of frames that are lent to the whole batch, see [`Batch::lent_frames`], that an IP
    /// header begins `at` bytes behind the start of each; how many bytes it has, and how many at
    /// the end are no part of the packet and go, its [`header_word`](crate::header_word) says.
    /// Destinations are for the caller to set. Cost: of headers that are all alike none a packet.
    ///
    /// # Panics
    /// If frames are not lent so, there are not as many headers as packets, or one is no part of
    /// its frame.
    pub fn set_ip_headers(&mut self, at: u32, headers: Column<'_>) {
        assert!(self.lent_frames().is_some(), "frames that nobody has looked at");
        if let Column::Each(words) = headers {
            assert_eq!(words.len(), self.len(), "every packet has its header");
        }
        self.0.columns.set_headers(at, headers);
    }

    /// Stores results with packets, as [`Packet::set_cached`]. Cost: 32 bytes a packet, if the
    /// batch is deferred.
    ///
    /// # Panics
    /// If there are not as many results as packets.
    pub fn set_results(&mut self, results: &[[CachedResult; CACHED_RESULTS]]) {
        assert_eq!(results.len(), self.len(), "every packet has its results");
        if self.is_deferred() {
            return self.0.columns.set_results(results);
        }
        for (packet, results) in self.iter_mut().zip(results) {
            packet.set_cached(*results);
        }
    }

    /// Whether columns say where IP headers are.
    pub fn has_header_column(&self) -> bool {
        self.is_deferred() && self.0.columns.has_headers()
    }

    /// The columns, of a deferred batch.
    pub(crate) fn columns_mut(&mut self) -> &mut Columns {
        &mut self.0.columns
    }

    /// The packets, whether the batch is deferred or not; [`Batch::count_owned`] follows.
    pub(crate) fn raw_packets(&mut self) -> &mut Vec<Packet> {
        let Parts { packets, loan, .. } = &mut *self.0;
        packets.get_mut().unwrap_or_else(|| loan.packets.get_mut())
    }

    /// Counts the packets of a batch that is deferred and has its data.
    pub(crate) fn count_owned(&mut self) {
        let loan = &mut self.0.loan;
        if let Some(owned) = &mut loan.owned {
            *owned = loan.packets.get_mut().len();
        }
    }

    /// Defers packets that were dealt to it, with columns that are set already.
    pub(crate) fn defer_dealt(&mut self) {
        let Parts { packets, loan, .. } = &mut *self.0;
        if let Some(packets) = packets.take() {
            loan.owned = Some(packets.len());
            loan.packets.set(packets);
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lender, PacketType, Pool};

    /// A lender of frames 0 to 99, each of as many bytes as its number says, all of that value.
    fn lender() -> Lender {
        let mut frames = Frames::default();
        for number in 0..100u8 {
            assert!(frames.push(&vec![number; number.into()], number.into(), PacketType::Host));
        }
        Lender::new(frames)
    }

    fn data(batch: &Batch) -> Vec<&[u8]> {
        batch.iter().map(Packet::data).collect()
    }

    #[test]
    fn frames_are_the_packets_data_until_somebody_looks() {
        let (mut lender, mut pool) = (lender(), Pool::new());
        let batch = pool.borrow(&mut lender, 30..90);
        assert_eq!((batch.len(), batch.is_empty(), batch.bytes()), (60, false, 30 * 119));
        let frames = batch.lent_frames().expect("nobody has looked");
        assert_eq!(frames.len(), 60);
        let read: Vec<Vec<u8>> = frames.map(<[u8]>::to_vec).collect();
        assert!(batch.iter().map(Packet::data).eq(read.iter().map(Vec::as_slice)));
        assert!(batch.lent_frames().is_none(), "somebody has looked");
        assert!(batch.iter().map(|packet| packet.timestamp_ns()).eq(30..90));
        assert_eq!((batch.len(), batch.bytes()), (60, 30 * 119));
        pool.recycle_batch(batch);
        let batch = pool.borrow_one(&mut lender, 7, 20, -5);
        assert!(batch.lent_frames().is_some_and(|mut frames| frames.all(|frame| frame == [7; 7])));
        assert!(batch.iter().all(|packet| packet.timestamp_ns() == -5 && packet.data() == [7; 7]));
        pool.recycle_batch(batch);
        // Nothing of a batch's loan is left when it is used again, whether anybody looked or not.
        pool.forget_lenders();
        let batch = pool.borrow(&mut lender, 0..50);
        pool.recycle_batch(batch);
        let mut batch = pool.batch();
        assert!(batch.lent_frames().is_none() && batch.is_empty() && batch.iter().len() == 0);
        batch.push(pool.packet_of(b"new"));
        assert_eq!(data(&batch), [b"new"]);
        pool.recycle_batch(batch);
        assert_eq!(pool.live(), 0);
    }

    #[test]
    fn what_is_lent_can_be_joined() {
        let (mut one, mut two, mut pool) = (lender(), lender(), Pool::new());
        let expected: Vec<Vec<u8>> =
            (10..20).chain(50..60).map(|number| vec![number; number.into()]).collect();
        let mut check = |first: &dyn Fn(&mut Pool, &mut Lender) -> Batch,
                         second: &mut dyn FnMut(&mut Pool, &mut Lender) -> Batch,
                         stays_lent: bool| {
            let mut batch = first(&mut pool, &mut one);
            let mut other = second(&mut pool, &mut one);
            batch.append(&mut other);
            assert_eq!(batch.lent_frames().is_some(), stays_lent);
            assert_eq!((batch.len(), data(&batch)), (20, expected.iter().map(|v| &**v).collect()));
            pool.recycle_batch(batch);
            pool.recycle_empty(other);
        };
        let first = |pool: &mut Pool, lender: &mut Lender| pool.borrow(lender, 10..20);
        let looked = |pool: &mut Pool, lender: &mut Lender| {
            let mut batch = pool.borrow(lender, 10..20);
            batch.as_mut_slice();
            batch
        };
        check(&first, &mut |pool, lender| pool.borrow(lender, 50..60), true);
        check(&looked, &mut |pool, lender| pool.borrow(lender, 50..60), false);
        check(&first, &mut |pool, _| pool.borrow(&mut two, 50..60), false);
        let both = |pool: &mut Pool, lender: &mut Lender| {
            let mut empty = pool.batch();
            empty.append(&mut pool.borrow(lender, 10..20));
            assert!(empty.is_lent_whole());
            empty
        };
        check(&both, &mut |pool, lender| pool.borrow(lender, 50..60), true);
    }

    #[test]
    fn packets_are_added_to_and_taken_from_what_is_lent() {
        let (mut lender, mut pool) = (lender(), Pool::new());
        let mut batch = pool.borrow(&mut lender, 10..20);
        batch.push(pool.packet_of(b"last"));
        assert_eq!((data(&batch)[0], data(&batch)[10]), ([10; 10].as_slice(), b"last".as_slice()));
        let packets: Vec<Packet> = batch.drain().collect();
        assert_eq!((packets.len(), batch.len()), (11, 0));
        let mut batch = pool.borrow(&mut lender, 10..20);
        batch.sift(|packet| (packet.len() % 2 == 0).then_some(packet));
        assert_eq!(batch.iter().map(Packet::len).collect::<Vec<_>>(), [10, 12, 14, 16, 18]);
        let mut batch = pool.borrow(&mut lender, 10..20);
        assert_eq!(batch.drain_from(8).map(|packet| packet.len()).collect::<Vec<_>>(), [18, 19]);
    }
}
