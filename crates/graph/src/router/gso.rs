//! Packets with [`Gso`] in front of elements that do not accept them: completes checksums and
//! segments packets.
//!
//! An element accepts such packets if [`Element::accepts_gso`] is true for it and for all elements
//! that pull from it: packets are completed in front of a queue, so that a pull returns no more
//! packets than its maximum.

use std::sync::atomic::{AtomicBool, Ordering};

use warpswitch_packet::gso::any_gso;
use warpswitch_packet::packet::Header;
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Gso, Packet, Pool};
use warpswitch_wire::segment::{Layout, Segments};

use super::Router;
use super::worker::Delivery;
use crate::context::Shared;
use crate::language::Processing;

#[cfg(doc)]
use crate::Element;

/// Which elements accept packets with [`Gso`]; none until [`Accepting::update`].
#[derive(Debug)]
pub(crate) struct Accepting(Box<[AtomicBool]>);

impl Accepting {
    pub(crate) fn none(elements: usize) -> Self {
        Self((0..elements).map(|_| AtomicBool::new(false)).collect())
    }

    #[inline]
    pub(crate) fn contains(&self, element: usize) -> bool {
        // Written while one worker runs.
        self.0[element].load(Ordering::Relaxed)
    }

    /// Reads it from the elements: after they are initialized, and after one was replaced.
    pub(crate) fn update(shared: &Shared) {
        let elements = shared.elements.iter().enumerate();
        // An element at work is not replaced.
        let accepts = elements.map(|(idx, one)| match one.try_borrow() {
            Ok(element) => element.accepts_gso(),
            Err(_) => shared.accepts_gso.contains(idx),
        });
        let mut accepts: Vec<bool> = accepts.collect();
        let pulls = shared.graph.connections.iter().filter(|connection| {
            let to = connection.to;
            shared.ports[to.element].inputs[to.port] == Processing::Pull
        });
        let pulls: Vec<_> = pulls.map(|pull| (pull.from.element, pull.to.element)).collect();
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for &(from, to) in &pulls {
                has_changed |= accepts[from] && !accepts[to];
                accepts[from] &= accepts[to];
            }
        }
        for (kept, accepts) in shared.accepts_gso.0.iter().zip(accepts) {
            kept.store(accepts, Ordering::Relaxed);
        }
    }
}

impl Router {
    /// The packets of `delivery`, completed for an element that accepts no others. What is more
    /// than a batch is delivered next.
    #[cold]
    #[inline(never)]
    pub(super) fn completed(&mut self, delivery: Delivery, element: usize) -> Batch {
        let Delivery { slot, batch, .. } = delivery;
        // Frames that are lent lack nothing.
        if batch.lent_frames().is_some() || !batch.iter().any(Packet::has_gso) {
            return batch;
        }
        let (mut batches, is_segmented) = complete_batch(&mut self.worker.pool, batch);
        if is_segmented && !std::mem::replace(&mut self.worker.has_segmented, true) {
            self.worker.console.say(&format!(
                "{}: packets of up to 64 KiB are segmented in software in front of this element; \
                 to avoid the cost: ethtool -K NAME tso off gso off for the interface that sends \
                 them, or gro off lro off for the one that receives them",
                self.shared.graph.elements[element].declaration()
            ));
        }
        while batches.len() > 1
            && let Some(batch) = batches.pop()
        {
            self.worker.deliver_next(slot, batch);
        }
        batches.pop().expect("there is a packet")
    }
}

/// The packets of `batch` in batches of up to [`BATCH_LEN_MAX`], completed, and whether any was
/// segmented.
fn complete_batch(pool: &mut Pool, mut batch: Batch) -> (Vec<Batch>, bool) {
    let (mut batches, mut is_segmented) = (vec![pool.batch()], false);
    for packet in batch.drain() {
        is_segmented |= packet.gso().is_some_and(|gso| gso.segment_bytes > 0);
        complete(pool, packet, |pool, packet| {
            if batches.last().is_none_or(|last| last.len() >= BATCH_LEN_MAX) {
                batches.push(pool.batch());
            }
            batches.last_mut().expect("a batch with room").push(packet);
        });
    }
    pool.recycle_empty(batch);
    (batches, is_segmented)
}

/// Completes the checksum of `packet`, or segments it; passes the packets to `emit`. A packet
/// whose headers changed so that this is impossible passes as it is.
pub fn complete(pool: &mut Pool, mut packet: Packet, mut emit: impl FnMut(&mut Pool, Packet)) {
    if !packet.has_gso() {
        return emit(pool, packet);
    }
    // Headers that were taken away may be put back, so segments have them, too.
    let front = packet.stripped_bytes(Header::Mac);
    packet.unpull(front);
    let gso = packet.gso();
    packet.set_gso(None);
    let layout = gso.map(|gso| layout(&gso));
    let segment_bytes = gso.map_or(0, |gso| usize::from(gso.segment_bytes));
    let segments = layout.and_then(|layout| layout.segments(packet.data(), segment_bytes));
    let Some(segments) = segments else {
        layout.map(|layout| layout.complete_checksum(packet.data_mut()));
        packet.pull(front);
        return emit(pool, packet);
    };
    for number in 0..segments.count() {
        let bytes = segments.bytes_of(number);
        let mut segment = match bytes <= packet_room() {
            true => pool.packet(),
            false => pool.large_packet(),
        };
        segment.fill_data(bytes, |data| {
            segments.write(number, data);
            bytes
        });
        segment.copy_notes_from(&packet);
        for header in [Header::Mac, Header::Network, Header::Transport] {
            if let Some(at) = packet.header_offset(header).filter(|&at| at <= bytes) {
                segment.set_header(header, at);
            }
        }
        segment.pull(front);
        emit(pool, segment);
    }
    pool.recycle(packet);
}

/// Bytes from the start of the data of `packet`, or of the longest of its segments.
#[inline]
pub fn longest_bytes(packet: &Packet) -> usize {
    if !packet.has_gso() {
        return packet.len();
    }
    segments(packet).map_or(packet.len(), |segments| segments.bytes_of(0))
}

/// Packets of `batch` and their bytes, each segment counted as on the wire.
pub fn wire_counts(batch: &Batch) -> (u64, u64) {
    let (mut packets, mut bytes) = (batch.len() as u64, batch.bytes());
    if any_gso() && batch.lent_frames().is_none() {
        for segments in batch.iter().filter_map(segments) {
            let others = segments.count() as u64 - 1;
            packets += others;
            bytes += others * segments.headers_bytes() as u64;
        }
    }
    (packets, bytes)
}

/// The segments of a packet that is to be segmented.
fn segments(packet: &Packet) -> Option<Segments<'_>> {
    let gso = packet.gso()?;
    layout(&gso).segments(packet.data(), usize::from(gso.segment_bytes))
}

/// Bytes of data that a new packet has room for.
const fn packet_room() -> usize {
    warpswitch_packet::packet::BUFFER_BYTES - warpswitch_packet::packet::HEADROOM_BYTES
}

fn layout(gso: &Gso) -> Layout {
    let Gso { network_at, transport_at, is_udp, .. } = *gso;
    Layout { network_at, transport_at, is_udp }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP packet of 2,000 bytes of payload behind Ethernet, to be segmented.
    fn packet(pool: &mut Pool) -> Packet {
        let mut data = vec![2; 12];
        data.extend([8, 0, 0x45, 0, 0x07, 0xf8, 0, 9, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1]);
        data.extend([10, 0, 1, 1, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0x50, 0x18, 0, 0]);
        data.extend([0; 4]);
        data.extend((0..2000).map(|at| (at / 100) as u8));
        let mut packet = pool.packet_of(&data);
        packet.set_header(Header::Mac, 0);
        packet.set_ip_header(14, 20);
        packet.set_timestamp_ns(77);
        packet.set_anno_u8(16, 5);
        let gso = Gso {
            network_at: 14,
            transport_at: 34,
            is_udp: false,
            segment_bytes: 900,
            has_ecn: false,
        };
        packet.set_gso(Some(gso));
        packet
    }

    #[test]
    fn segments_are_as_the_packet_was() {
        let mut pool = Pool::new();
        let mut packet = packet(&mut pool);
        packet.pull(14);
        let mut segments = Vec::new();
        complete(&mut pool, packet, |_, segment| segments.push(segment));
        assert_eq!(segments.iter().map(Packet::len).collect::<Vec<_>>(), [940, 940, 240]);
        assert_eq!(pool.live(), 3);
        for (number, mut segment) in segments.into_iter().enumerate() {
            assert!(!segment.has_gso());
            assert_eq!((segment.timestamp_ns(), segment.anno_u8(16)), (77, 5));
            assert_eq!(segment.header_offset(Header::Network), Some(0));
            assert_eq!(segment.header_offset(Header::Transport), Some(20));
            assert_eq!(segment.data()[40], number as u8 * 9);
            segment.unpull(14);
            assert_eq!(segment.data()[..14], [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 8, 0]);
        }
    }

    #[test]
    fn segments_count_as_on_the_wire() {
        let mut pool = Pool::new();
        let mut batch = pool.batch();
        batch.push(packet(&mut pool));
        batch.push(pool.packet_of(&[0; 60]));
        assert_eq!(wire_counts(&batch), (4, 2000 + 3 * 54 + 60));
        let longest: Vec<usize> = batch.iter().map(longest_bytes).collect();
        assert_eq!(longest, [954, 60]);
    }

    #[test]
    fn batches_are_completed_in_order() {
        let mut pool = Pool::new();
        let mut batch = pool.batch();
        for number in 0..200 {
            let mut packet = packet(&mut pool);
            packet.set_timestamp_ns(number);
            batch.push(packet);
        }
        let (batches, is_segmented) = complete_batch(&mut pool, batch);
        assert!(is_segmented && batches.iter().all(|batch| batch.len() <= BATCH_LEN_MAX));
        let times: Vec<i64> =
            batches.iter().flat_map(Batch::iter).map(Packet::timestamp_ns).collect();
        assert_eq!(times, (0..600).map(|at| at / 3).collect::<Vec<i64>>());
    }

    #[test]
    fn packets_that_changed_pass() {
        let mut pool = Pool::new();
        let mut packet = packet(&mut pool);
        packet.take(1990);
        let before = packet.data().to_vec();
        let mut passed = Vec::new();
        packet.data_mut()[14] = 0;
        complete(&mut pool, packet, |_, packet| passed.push(packet));
        assert_eq!((passed.len(), &passed[0].data()[15..]), (1, &before[15..]));
    }
}
