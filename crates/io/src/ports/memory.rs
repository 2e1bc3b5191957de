//! Links in memory: two ends, without the kernel and without privileges.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use warpswitch_packet::{
    Batch, Header, Packet, Pool, RxCounts, RxPort, Transmitted, TxCounts, TxPort,
};

/// Frames on their way in one direction.
#[derive(Debug)]
struct Lane {
    queue: Mutex<Queue>,
    frames_max: usize,
    /// Readable while there are frames.
    wake: Arc<OwnedFd>,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    /// Buffers of received frames, for the next ones.
    spare: Vec<Vec<u8>>,
    /// Whether the descriptor is readable.
    is_readable: bool,
}

impl Lane {
    fn new(frames_max: usize) -> io::Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let (queue, wake) = (Mutex::default(), Arc::new(eventfd(0, flags)?));
        Ok(Self { queue, frames_max, wake })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the descriptor readable if there are frames, and only then.
    fn set_wake(&self, queue: &mut Queue) {
        let has_frames = !queue.frames.is_empty();
        if has_frames == queue.is_readable {
            return;
        }
        queue.is_readable = has_frames;
        let done = match has_frames {
            true => rustix::io::write(&*self.wake, &1u64.to_ne_bytes()),
            false => rustix::io::read(&*self.wake, &mut [0; 8][..]),
        };
        // The counter is 0 or 1, as `is_readable` says, so neither call can fail.
        debug_assert!(done.is_ok());
    }
}

/// Both directions of a link: to its first end, to its second end.
#[derive(Debug)]
pub(super) struct MemoryLink([Lane; 2]);

impl MemoryLink {
    /// A link that holds up to `frames_max` frames in each direction.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(super) fn new(frames_max: usize) -> io::Result<Self> {
        Ok(Self([Lane::new(frames_max)?, Lane::new(frames_max)?]))
    }
}

/// One end of a link: frames that it sends are received by the other end, in order.
#[derive(Clone, Debug)]
pub struct MemoryPort {
    link: Arc<MemoryLink>,
    /// Index of the lane to this end.
    own: usize,
    rx: RxCounts,
    tx: TxCounts,
}

impl MemoryPort {
    /// The first or the second end of `link`.
    pub(super) fn new(link: Arc<MemoryLink>, is_second: bool) -> Self {
        let own = usize::from(is_second);
        Self { link, own, rx: RxCounts::default(), tx: TxCounts::default() }
    }

    /// Both ends of a link that holds up to `frames_max` frames in each direction.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn pair(frames_max: usize) -> io::Result<(Self, Self)> {
        let link = Arc::new(MemoryLink::new(frames_max)?);
        Ok((Self::new(link.clone(), false), Self::new(link, true)))
    }

    fn incoming(&self) -> &Lane {
        &self.link.0[self.own]
    }
}

impl RxPort for MemoryPort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let lane = &self.link.0[self.own];
        let mut queue = lane.lock();
        let Queue { frames, spare, .. } = &mut *queue;
        let count = frames.len().min(frames_max);
        for frame in frames.drain(..count) {
            let mut packet = pool.packet_of(&frame);
            packet.set_header(Header::Mac, 0);
            batch.push(packet);
            spare.push(frame);
        }
        lane.set_wake(&mut queue);
        self.rx.frames += count as u64;
        count
    }

    fn device(&self) -> String {
        "memory".to_owned()
    }

    fn counts(&mut self) -> RxCounts {
        self.rx
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        Some(self.incoming().wake.clone())
    }
}

impl TxPort for MemoryPort {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let lane = &self.link.0[1 - self.own];
        let mut queue = lane.lock();
        let Queue { frames, spare, .. } = &mut *queue;
        let count = packets.len().min(lane.frames_max - frames.len());
        for packet in &packets[..count] {
            let mut frame = spare.pop().unwrap_or_default();
            frame.clear();
            frame.extend_from_slice(packet.data());
            frames.push_back(frame);
        }
        lane.set_wake(&mut queue);
        self.tx.frames += count as u64;
        if count == 0 { Transmitted::Full } else { Transmitted::Frames(count) }
    }

    fn counts(&mut self) -> TxCounts {
        self.tx
    }
}
