//! Cached results: answers of table lookups that travel with a packet.
//!
//! A device, or a cache in front of a table, computes what an element further on would look up,
//! and stores the answer with the packet. The element uses a result only if it matches the
//! element's own state, and does the lookup itself otherwise. So cached results change what a
//! packet costs, never where it goes.
//!
//! | field | what it names | the element compares it with |
//! | --- | --- | --- |
//! | `version` | the state of the table that was read | the version of its own table |
//! | `owner` | the element that the result is for | its own number |
//! | `key` | what was looked up: an address, or [`Packet::extent`] | its own key |
//! | `answer` | what was found | |
//!
//! # Invariants
//! - A1: a packet has no cached results once its bytes may have been written.

use crate::packet::{HEADROOM_BYTES, Packet};

/// Results that one packet can carry.
pub const CACHED_RESULTS: usize = 2;

/// The answer of one lookup, with what it depends on. 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct CachedResult {
    /// The version of the table that was read.
    pub version: u32,
    /// What was looked up.
    pub key: u32,
    /// What was found.
    pub answer: u32,
    /// The element that it is for; 0 is no element, so the result is none.
    pub owner: u16,
}

impl CachedResult {
    /// In place of a result: there is none.
    pub const NONE: Self = Self { version: 0, key: 0, answer: 0, owner: 0 };

    /// Whether it is a result.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.owner != 0
    }
}

impl Packet {
    /// Stores results, in place of those that the packet carries.
    ///
    /// Cost: writes the packet's first and second line.
    #[inline]
    pub fn set_cached(&mut self, results: [CachedResult; CACHED_RESULTS]) {
        let parts = self.parts_mut();
        parts.cached = results;
        parts.mark_cached();
    }

    /// The result in `slot`, if there is one and nobody has written to the packet since it was
    /// stored.
    ///
    /// # Panics
    /// If `slot` is not below [`CACHED_RESULTS`].
    #[inline]
    pub fn cached(&self, slot: usize) -> Option<CachedResult> {
        let parts = self.parts();
        let result = parts.cached[slot];
        (parts.has_cached() && result.is_some()).then_some(result)
    }

    /// Where its bytes begin and how many there are, in the lower 24 bits, as the key of a result;
    /// none where that would not fit. As long as nobody has written to them, the same extent is the
    /// same bytes.
    #[inline]
    pub fn extent(&self) -> Option<u32> {
        extent(self.headroom(), self.len())
    }

    /// The [extent](Packet::extent) of a packet that shares a frame of so many bytes and was not
    /// changed.
    #[inline]
    pub fn lent_extent(frame_bytes: usize) -> Option<u32> {
        extent(HEADROOM_BYTES, frame_bytes)
    }
}

fn extent(from: usize, len: usize) -> Option<u32> {
    const LEN_BITS: u32 = 16;
    let (from, len) = (from as u32, len as u32);
    (from < 1 << (24 - LEN_BITS) && len < 1 << LEN_BITS).then_some(from << LEN_BITS | len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frames, Lender, PacketType, Pool};

    const BOTH: [CachedResult; CACHED_RESULTS] = [
        CachedResult { version: 3, key: 6, answer: 5, owner: 1 },
        CachedResult { version: 4, key: 8, answer: 7, owner: 2 },
    ];

    #[test]
    fn writing_to_a_packet_removes_its_cached_results() {
        let writers: [fn(&mut Packet); 6] = [
            |packet| packet.data_mut()[0] = 1,
            |packet| _ = packet.push(1),
            |packet| _ = packet.put(1),
            |packet| packet.set_data(b"x"),
            |packet| packet.reset(),
            |packet| packet.copy_from(&Packet::new()),
        ];
        let mut frames = Frames::default();
        assert!(frames.push(b"0123456789", 0, PacketType::Host));
        let (mut lender, mut pool) = (Lender::new(frames), Pool::new());
        for (number, write) in writers.iter().enumerate() {
            for is_lent in [false, true] {
                let mut batch = match is_lent {
                    true => pool.borrow(&mut lender, 0..1),
                    false => pool.packets(1, |_, packet| packet.set_data(b"0123456789")),
                };
                let packet = &mut batch.as_mut_slice()[0];
                assert_eq!(packet.cached(0), None);
                packet.set_cached([BOTH[0], CachedResult::NONE]);
                assert_eq!((packet.cached(0), packet.cached(1)), (Some(BOTH[0]), None));
                packet.set_cached(BOTH);
                let extent = packet.extent();
                if is_lent {
                    assert_eq!(extent, Packet::lent_extent(10));
                }
                packet.pull(2);
                packet.take(1);
                packet.set_anno_u32(40, 1);
                assert_eq!([packet.cached(0), packet.cached(1)], BOTH.map(Some));
                assert!(extent.is_some() && packet.extent() != extent);
                packet.unpull(2);
                assert_ne!(packet.extent(), extent, "it is shorter");
                let mut copy = Packet::new();
                copy.copy_from(packet);
                assert_eq!(copy.cached(1), Some(BOTH[1]));
                write(packet);
                assert_eq!([packet.cached(0), packet.cached(1)], [None; 2], "writer {number}");
                pool.recycle_batch(batch);
            }
        }
    }

    #[test]
    fn an_attachment_leaves_with_its_batch() {
        let mut pool = Pool::new();
        let mut batch = pool.batch();
        batch.attach(Box::new(5u8));
        let attached = batch.attachment_mut().and_then(|any| any.downcast_mut::<u8>());
        assert_eq!(attached.copied(), Some(5));
        pool.recycle_empty(batch);
        assert!(pool.batch().detach().is_none());
    }
}
