//! Answers that were found ahead: lookups that elements further on would do, done for them.
//!
//! Who offloads lookups takes keys from packets early, has a device answer them, and leaves the
//! answers with the packets. The elements that they are for make sure that they hold, and look up
//! themselves what has none.
//!
//! | written | by whom | checked |
//! | --- | --- | --- |
//! | the stamp | which state of tables the answers come from | the element's own is the same |
//! | an answer | what a device said | |
//! | its owner | which element it is for | the element is the one |
//! | its proof | of what it is an answer: the address, or [`Packet::extent`] | the element's own is the same |
//!
//! # Invariants
//! - A1: answers are gone as soon as anybody can have written to the packet's bytes.

use crate::packet::Packet;

/// Lookups that a packet has answers for.
pub const AHEAD_LOOKUPS: usize = 2;

/// An answer, and of what it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AheadAnswer {
    /// What was found.
    pub answer: u32,
    /// For what.
    pub proof: u32,
    /// For which element: a number of its own, not 0. Packets may come to others that look for
    /// answers in the same place.
    pub owner: u16,
}

/// What a packet has; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    stamp: u32,
    /// Whose each answer is; 0 where there is none.
    owners: [u16; AHEAD_LOOKUPS],
    /// What was found, and for what.
    answers: [(u32, u32); AHEAD_LOOKUPS],
}

impl Packet {
    /// Leaves answers that come from the state `stamp` of tables.
    #[inline]
    pub fn set_ahead(&mut self, stamp: u32, answers: [Option<AheadAnswer>; AHEAD_LOOKUPS]) {
        let parts = self.parts_mut();
        let answers = answers.map(Option::unwrap_or_default);
        let owners = answers.map(|answer| answer.owner);
        parts.ahead = Ahead { stamp, owners, answers: answers.map(|a| (a.answer, a.proof)) };
        parts.mark_ahead();
    }

    /// The answer to lookup `lookup`, if there is one of state `stamp` and nobody has written to
    /// the packet since.
    ///
    /// # Panics
    /// If `lookup` is not below [`AHEAD_LOOKUPS`].
    #[inline]
    pub fn ahead(&self, stamp: u32, lookup: usize) -> Option<AheadAnswer> {
        let parts = self.parts();
        let ((answer, proof), owner) = (parts.ahead.answers[lookup], parts.ahead.owners[lookup]);
        let is_there = parts.has_ahead() && owner != 0 && parts.ahead.stamp == stamp;
        is_there.then_some(AheadAnswer { answer, proof, owner })
    }

    /// Whose the answer to lookup `lookup` is and of which state of tables, if there is one and
    /// nobody has written to the packet since.
    ///
    /// # Panics
    /// If `lookup` is not below [`AHEAD_LOOKUPS`].
    pub fn ahead_from(&self, lookup: usize) -> Option<(u16, u32)> {
        let parts = self.parts();
        let (owner, stamp) = (parts.ahead.owners[lookup], parts.ahead.stamp);
        (parts.has_ahead() && owner != 0).then_some((owner, stamp))
    }

    /// Where its bytes begin and how many there are, in the lower 24 bits, as a proof; none where
    /// that would not fit. As long as nobody has written to them, the same extent is the same
    /// bytes.
    #[inline]
    pub fn extent(&self) -> Option<u32> {
        const LEN_BITS: u32 = 16;
        let (from, len) = (self.headroom() as u32, self.len() as u32);
        (from < 1 << (24 - LEN_BITS) && len < 1 << LEN_BITS).then_some(from << LEN_BITS | len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frames, Lender, PacketType, Pool};

    const ONE: [AheadAnswer; AHEAD_LOOKUPS] = [
        AheadAnswer { answer: 5, proof: 6, owner: 1 },
        AheadAnswer { answer: 7, proof: 8, owner: 2 },
    ];

    #[test]
    fn answers_are_gone_once_somebody_may_have_written() {
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
                assert_eq!(packet.ahead(3, 0), None);
                packet.set_ahead(3, [Some(ONE[0]), None]);
                assert_eq!((packet.ahead(3, 0), packet.ahead(3, 1)), (Some(ONE[0]), None));
                packet.set_ahead(3, ONE.map(Some));
                let extent = packet.extent();
                packet.pull(2);
                packet.take(1);
                packet.set_anno_u32(40, 1);
                assert_eq!((packet.ahead(3, 0), packet.ahead(3, 1)), (Some(ONE[0]), Some(ONE[1])));
                assert_eq!(packet.ahead(4, 0), None, "of another state");
                assert_eq!(packet.ahead_from(1), Some((2, 3)));
                assert!(extent.is_some() && packet.extent() != extent);
                packet.unpull(2);
                assert_ne!(packet.extent(), extent, "it is shorter");
                let mut copy = Packet::new();
                copy.copy_from(packet);
                assert_eq!(copy.ahead(3, 1), Some(ONE[1]));
                write(packet);
                assert_eq!(packet.ahead(3, 0), None, "writer {number}");
                assert_eq!(packet.ahead_from(0), None, "writer {number}");
                pool.recycle_batch(batch);
            }
        }
    }

    #[test]
    fn what_travels_with_a_batch_goes_with_it() {
        let mut pool = Pool::new();
        let mut batch = pool.batch();
        batch.attach(Box::new(5u8));
        let attached = batch.attachment_mut().and_then(|any| any.downcast_mut::<u8>());
        assert_eq!(attached.copied(), Some(5));
        pool.recycle_empty(batch);
        assert!(pool.batch().detach().is_none());
    }
}
