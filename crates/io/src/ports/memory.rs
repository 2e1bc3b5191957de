//! Two ends of a link in memory.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use warpswitch_packet::{
    Batch, Header, LinkState, Packet, Pool, RxCounts, RxPort, Transmitted, TxCounts, TxPort,
};

/// Frames on their way in one direction.
#[derive(Debug)]
struct Lane {
    frames: Mutex<VecDeque<Vec<u8>>>,
    frames_max: usize,
    /// Readable while there are frames.
    wake: Arc<OwnedFd>,
}

impl Lane {
    fn new(frames_max: usize) -> io::Result<Arc<Self>> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let (frames, wake) = (Mutex::default(), Arc::new(eventfd(0, flags)?));
        Ok(Arc::new(Self { frames, frames_max, wake }))
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the descriptor readable if there are frames, and only then. Called with the lock held.
    fn set_wake(&self, has_frames: bool) {
        let done = match has_frames {
            true => rustix::io::write(&*self.wake, &1u64.to_ne_bytes()),
            false => rustix::io::read(&*self.wake, &mut [0; 8][..]),
        };
        // It may have been so already, which fails as the descriptor does not block.
        _ = done;
    }
}

/// One end of a link: frames that it sends are received by the other end, in order.
#[derive(Clone, Debug)]
pub struct MemoryPort {
    incoming: Arc<Lane>,
    outgoing: Arc<Lane>,
    rx: RxCounts,
    tx: TxCounts,
}

impl MemoryPort {
    /// Both ends of a link that holds up to `frames_max` frames in each direction.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn pair(frames_max: usize) -> io::Result<(Self, Self)> {
        let (a, b) = (Lane::new(frames_max)?, Lane::new(frames_max)?);
        let end = |incoming: &Arc<Lane>, outgoing: &Arc<Lane>| Self {
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            rx: RxCounts::default(),
            tx: TxCounts::default(),
        };
        Ok((end(&a, &b), end(&b, &a)))
    }
}

impl RxPort for MemoryPort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let mut frames = self.incoming.lock();
        let count = frames.len().min(frames_max);
        for frame in frames.drain(..count) {
            let mut packet = pool.packet_of(&frame);
            packet.set_header(Header::Mac, 0);
            batch.push(packet);
        }
        self.incoming.set_wake(!frames.is_empty());
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
        Some(self.incoming.wake.clone())
    }

    fn check_link(&mut self) -> LinkState {
        LinkState::Up
    }
}

impl TxPort for MemoryPort {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let mut frames = self.outgoing.lock();
        let count = packets.len().min(self.outgoing.frames_max - frames.len());
        frames.extend(packets[..count].iter().map(|packet| packet.data().to_vec()));
        self.outgoing.set_wake(!frames.is_empty());
        self.tx.frames += count as u64;
        if count == 0 { Transmitted::Full } else { Transmitted::Frames(count) }
    }

    fn counts(&mut self) -> TxCounts {
        self.tx
    }

    /// None: there is no descriptor that becomes writable when the other end has received.
    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        None
    }

    fn check_link(&mut self) -> LinkState {
        LinkState::Up
    }
}
