//! Views: what a reader needs of the packets of a batch, whether the batch is deferred or not.
//!
//! An element that only reads payloads uses [`Batch::views`] instead of packets: the packets of a
//! batch whose frames are shared stay deferred, so that none of their own cache lines is touched.

use crate::Batch;
use crate::columns::{Column, Columns};
use crate::lend::Frames;
use crate::numbers::{Form, Numbers};
use crate::packet::{Packet, annotation};

/// A packet as seen by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketView<'b> {
    /// The data of the packet.
    pub data: &'b [u8],
    /// Bytes of the packet that were not captured, annotation [`annotation::EXTRA_LEN`].
    pub extra_len: u32,
    /// Time of arrival: nanoseconds since 1970, 0 if unknown.
    pub timestamp_ns: i64,
}

impl Packet {
    /// The packet as seen by a reader.
    #[inline]
    pub fn view(&self) -> PacketView<'_> {
        PacketView {
            data: self.data(),
            extra_len: self.anno_u32(annotation::EXTRA_LEN),
            timestamp_ns: self.timestamp_ns(),
        }
    }
}

/// The packets of a batch as seen by a reader. Cost: reads the frames of a batch that shares
/// frames, and materializes no packet of it; reads each packet otherwise.
#[derive(Clone, Copy, Debug)]
pub struct PacketViews<'b> {
    batch: &'b Batch,
    shared: Option<SharedFrames<'b>>,
}

/// A deferred batch that shares frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedFrames<'b> {
    pub(crate) frames: &'b Frames,
    pub(crate) numbers: &'b Numbers,
    pub(crate) columns: &'b Columns,
    /// Timestamp of all packets, if it is not that of their frames.
    pub(crate) timestamp_ns: Option<i64>,
    /// Annotations [`annotation::EXTRA_LEN`].
    pub(crate) extra_lens: Column<'b>,
}

impl<'b> SharedFrames<'b> {
    #[inline]
    fn number(&self, place: usize) -> usize {
        match self.numbers.form() {
            Form::Range(range) => range.start as usize + place,
            Form::List(numbers) => numbers[place] as usize,
        }
    }

    #[inline]
    fn bytes_of(&self, place: usize) -> usize {
        let bytes = self.frames.bytes_of_one(self.number(place));
        bytes.saturating_sub(self.columns.bytes_behind_of(place))
    }

    #[inline]
    fn get(&self, place: usize) -> PacketView<'b> {
        let (frame, time_ns) = self.frames.read_ahead(self.number(place));
        let end = frame.len().saturating_sub(self.columns.bytes_behind_of(place));
        PacketView {
            data: &frame[..end],
            extra_len: self.extra_lens.of(place),
            timestamp_ns: self.timestamp_ns.unwrap_or(time_ns),
        }
    }
}

impl<'b> PacketViews<'b> {
    /// The packet at `place`.
    ///
    /// # Panics
    /// If there are fewer packets.
    #[inline]
    pub fn get(&self, place: usize) -> PacketView<'b> {
        match &self.shared {
            Some(shared) => shared.get(place),
            None => self.batch.get_ahead(place).view(),
        }
    }

    /// Bytes of the packet at `place`. Cost: reads no frame of a batch that shares frames.
    ///
    /// # Panics
    /// If there are fewer packets.
    #[inline]
    pub fn bytes_of(&self, place: usize) -> usize {
        match &self.shared {
            Some(shared) => shared.bytes_of(place),
            None => self.batch.get_ahead(place).len(),
        }
    }

    /// All packets in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = PacketView<'b>> + Clone {
        (0..self.batch.len()).map(move |place| self.get(place))
    }
}

impl Batch {
    /// The packets as seen by a reader.
    pub fn views(&self) -> PacketViews<'_> {
        PacketViews { batch: self, shared: self.shared_frames() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lender, PacketType, Pool, header_word};

    fn frames() -> Frames {
        let mut frames = Frames::default();
        for number in 0..100u8 {
            let frame = vec![number; usize::from(number) + 40];
            assert!(frames.push(&frame, i64::from(number) * 1000, PacketType::Host));
        }
        frames
    }

    /// Compares views with the packets that the batch materializes afterwards.
    fn expect_views_of_packets(batch: &Batch, stays_deferred: bool) {
        let views: Vec<PacketView<'_>> = batch.views().iter().collect();
        assert_eq!(batch.is_deferred(), stays_deferred);
        assert!(batch.iter().map(Packet::view).eq(views.iter().copied()));
        let again = batch.views();
        assert!((0..batch.len()).all(|place| again.get(place) == views[place]));
        assert!((0..batch.len()).all(|place| again.bytes_of(place) == views[place].data.len()));
    }

    #[test]
    fn views_equal_materialized_packets() {
        let (mut lender, mut pool) = (Lender::new(frames()), Pool::new());
        let batch = pool.borrow(&mut lender, 20..80);
        expect_views_of_packets(&batch, true);
        pool.recycle_batch(batch);

        let mut batch = pool.borrow(&mut lender, 20..80);
        let headers: Vec<u32> = (0..60).map(|place| header_word(20, place % 7)).collect();
        batch.set_ip_headers(14, Column::Each(&headers));
        let extra: Vec<u32> = (0..60).map(|place| place * 3).collect();
        batch.set_annos(annotation::EXTRA_LEN, Column::Each(&extra));
        expect_views_of_packets(&batch, true);
        pool.recycle_batch(batch);

        let batch = pool.borrow_one(&mut lender, 7, 20, -5);
        expect_views_of_packets(&batch, true);
        pool.recycle_batch(batch);

        let mut batch = pool.batch();
        batch.push(pool.packet_of(b"own data"));
        batch.as_mut_slice()[0].set_anno_u32(annotation::EXTRA_LEN, 9);
        expect_views_of_packets(&batch, false);
        pool.recycle_batch(batch);
    }
}
