//! Packets that wait for a controller's decision.

use crate::{ErrorCode, NO_BUFFER};

struct Buffered {
    id: u32,
    in_port: u32,
    /// `None` once the packet was taken.
    frame: Option<Vec<u8>>,
    expires_ns: u64,
}

/// A ring of packets. The oldest is overwritten by the newest.
pub(super) struct Buffers {
    ring: Vec<Buffered>,
    capacity: u32,
    timeout_ns: u64,
    next_id: u32,
}

impl Buffers {
    pub fn new(capacity: u32, timeout_ns: u64) -> Self {
        Self { ring: Vec::new(), capacity, timeout_ns, next_id: 0 }
    }

    /// Keeps a packet, and returns the number of its buffer.
    pub fn insert(&mut self, in_port: u32, frame: &[u8], now_ns: u64) -> Option<u32> {
        if self.capacity == 0 {
            return None;
        }
        let id = self.next_id;
        self.next_id = if id + 1 == NO_BUFFER { 0 } else { id + 1 };
        let expires_ns = now_ns.saturating_add(self.timeout_ns);
        let buffered = Buffered { id, in_port, frame: Some(frame.to_vec()), expires_ns };
        let slot = (id % self.capacity) as usize;
        match self.ring.get_mut(slot) {
            Some(place) => *place = buffered,
            None => self.ring.push(buffered),
        }
        Some(id)
    }

    /// Takes a packet out of its buffer: its input port and its frame.
    pub fn take(&mut self, id: u32, now_ns: u64) -> Result<(u32, Vec<u8>), ErrorCode> {
        let found = self.ring.iter_mut().find(|buffered| buffered.id == id);
        let buffered = found.filter(|buffered| now_ns < buffered.expires_ns);
        let buffered = buffered.ok_or(ErrorCode::REQUEST_BUFFER_UNKNOWN)?;
        let frame = buffered.frame.take().ok_or(ErrorCode::REQUEST_BUFFER_EMPTY)?;
        Ok((buffered.in_port, frame))
    }

    /// Frees the packets whose time is over.
    pub fn expire(&mut self, now_ns: u64) {
        let expired = self.ring.iter_mut().filter(|buffered| buffered.expires_ns <= now_ns);
        expired.for_each(|buffered| buffered.frame = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_taken_once_in_its_time() {
        let mut buffers = Buffers::new(2, 10);
        let ids = [1, 2, 3].map(|port| buffers.insert(port, &[port as u8], 5).unwrap());
        let unknown = Err(ErrorCode::REQUEST_BUFFER_UNKNOWN);
        assert_eq!(buffers.take(ids[0], 6), unknown);
        assert_eq!(buffers.take(ids[1], 6), Ok((2, vec![2])));
        assert_eq!(buffers.take(ids[1], 6), Err(ErrorCode::REQUEST_BUFFER_EMPTY));
        assert_eq!(buffers.take(ids[2], 15), unknown);
        assert_eq!(Buffers::new(0, 10).insert(1, &[1], 5), None);
    }
}
