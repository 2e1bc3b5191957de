//! The ports of a switch in a graph: frames that the element puts in, and takes out again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpswitch_packet::{Batch, Packet, Pool, RxPort, Transmitted, TxPort};

/// Frames in order, one behind the other: no allocation once it has grown.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
    /// Frames that were taken.
    taken: usize,
}

impl Frames {
    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    fn pop(&mut self) -> Option<&[u8]> {
        let end = *self.ends.get(self.taken)?;
        let start = self.taken.checked_sub(1).map_or(0, |last| self.ends[last]);
        self.taken += 1;
        Some(&self.bytes[start..end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.taken = 0;
    }
}

/// The frames that wait at one port, in each direction.
#[derive(Debug, Default)]
struct Queues {
    incoming: Frames,
    outgoing: Frames,
}

/// A port of the switch, from both sides. Switch and element run on one thread, so its lock is
/// always free.
#[derive(Clone, Debug, Default)]
pub(super) struct QueuePort(Arc<Mutex<Queues>>);

impl QueuePort {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts frames in.
    pub(super) fn put<'f>(&self, frames: impl Iterator<Item = &'f [u8]>) {
        let mut queues = self.queues();
        frames.for_each(|frame| queues.incoming.push(frame));
    }

    /// Takes out the frames that left.
    pub(super) fn take(&self, mut each: impl FnMut(&[u8])) {
        let mut queues = self.queues();
        while let Some(frame) = queues.outgoing.pop() {
            each(frame);
        }
        queues.outgoing.clear();
    }
}

impl RxPort for QueuePort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let mut queues = self.queues();
        let mut count = 0;
        while count < frames_max
            && let Some(frame) = queues.incoming.pop()
        {
            batch.push(pool.packet_of(frame));
            count += 1;
        }
        if count < frames_max {
            queues.incoming.clear();
        }
        count
    }

    fn device(&self) -> String {
        String::new()
    }
}

impl TxPort for QueuePort {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let mut queues = self.queues();
        packets.iter().for_each(|packet| queues.outgoing.push(packet.data()));
        Transmitted::Frames(packets.len())
    }
}
