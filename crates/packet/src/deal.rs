//! Packets of one batch to the batches that they go to.
//!
//! With AVX-512 the packets of each output are picked out of sixteen at a time, output by output: a
//! compare and two compressions for sixteen, so a handful of outputs cost a few instructions a
//! packet. One by one, each packet waits for the length that the one before it has written.

use crate::Batch;
use crate::packet::Packet;

/// Packets that are picked from at once.
#[cfg(target_arch = "x86_64")]
const STEP: usize = 16;

/// With more outputs, or fewer packets, one by one is as fast.
#[cfg(target_arch = "x86_64")]
const OUTPUTS_MAX: usize = 24;
#[cfg(target_arch = "x86_64")]
const PACKETS_MIN: usize = 12;

impl Batch {
    /// Moves each packet behind that of the batches `to` whose number `outputs` has for it. Packets
    /// stay in order, and those for which there is no such batch stay where they are. What is lent
    /// to the whole batch stays so, if nothing else waits in `to`.
    ///
    /// # Panics
    /// If there are not as many outputs as packets.
    #[inline]
    pub fn deal(&mut self, outputs: &[u32], to: &mut [Batch]) {
        assert_eq!(self.len(), outputs.len(), "every packet has its output");
        #[cfg(target_arch = "x86_64")]
        if to.len() <= OUTPUTS_MAX
            && outputs.len() >= PACKETS_MIN
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("popcnt")
        {
            // SAFETY: the processor has these instructions.
            return unsafe { x86_64::deal(self, outputs, to) };
        }
        self.deal_each(outputs, to);
    }

    fn deal_each(&mut self, outputs: &[u32], to: &mut [Batch]) {
        if let Some((packets, mut numbers)) = self.take_lent_whole(to) {
            let (mut at, mut kept) = (0, 0);
            let left = packets.into_iter().zip(outputs).filter_map(|(packet, &output)| {
                let number = numbers[at];
                at += 1;
                if let Some(batch) = to.get_mut(output as usize) {
                    batch.push_lent(packet, number, self);
                    return None;
                }
                numbers[kept] = number;
                kept += 1;
                Some(packet)
            });
            // Collecting from a vector's own iterator reuses its memory.
            let left: Vec<Packet> = left.collect();
            numbers.truncate(kept);
            return self.put_lent_whole(left, numbers);
        }
        let mut outputs = outputs.iter();
        self.sift(|packet| {
            let output = outputs.next().and_then(|&output| to.get_mut(output as usize));
            match output {
                Some(batch) => batch.push(packet),
                None => return Some(packet),
            }
            None
        });
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use super::{Batch, STEP};
    use crate::Packet;
    use crate::batch::NO_OTHERS;

    const _: () = assert!(size_of::<Packet>() == size_of::<i64>());

    /// Where packets are, and the numbers of frames that they are lent.
    #[derive(Clone, Copy)]
    struct Place {
        packets: *mut Packet,
        numbers: *mut u32,
    }

    /// See [`Batch::deal`].
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn deal(batch: &mut Batch, outputs: &[u32], to: &mut [Batch]) {
        match batch.take_lent_whole(to) {
            Some((mut packets, mut numbers)) => {
                deal_whole(&mut packets, &mut numbers, batch, outputs, to);
                batch.put_lent_whole(packets, numbers);
            }
            None => deal_packets(batch.packets_mut(), outputs, to),
        }
    }

    #[target_feature(enable = "avx512f,popcnt")]
    fn deal_packets(packets: &mut Vec<Packet>, outputs: &[u32], to: &mut [Batch]) {
        assert_eq!(packets.len(), outputs.len());
        // SAFETY: none is a length; from here on the packets belong to who is dealt them.
        unsafe { packets.set_len(0) };
        let from = Place { packets: packets.as_mut_ptr(), numbers: std::ptr::null_mut() };
        let mut dealt = 0;
        for (batch, number) in to.iter_mut().zip(0i32..) {
            let hand = batch.packets_mut();
            let before = hand.len();
            // Whole registers are written.
            hand.reserve(outputs.len() + STEP);
            let end = Place { packets: hand.spare_capacity_mut().as_mut_ptr().cast(), ..from };
            let wanted = _mm512_set1_epi32(number);
            // SAFETY: there are as many packets as outputs, and `end` has room for all and a
            // register more.
            let picked = unsafe { pick::<_MM_CMPINT_EQ, false>(from, outputs, end, wanted) };
            // SAFETY: so many were written, each one that nobody else has: their outputs differ.
            unsafe { hand.set_len(before + picked) };
            dealt += picked;
        }
        if dealt < outputs.len() {
            let outputs_end = _mm512_set1_epi32(to.len() as i32);
            // SAFETY: there are as many packets as outputs, and they are picked to where they are.
            let left = unsafe { pick::<_MM_CMPINT_NLT, false>(from, outputs, from, outputs_end) };
            // SAFETY: those whose outputs are none of the above, once each.
            unsafe { packets.set_len(left) };
        }
    }

    /// The same for the packets and numbers of `batch`, which is lent whole.
    #[target_feature(enable = "avx512f,popcnt")]
    fn deal_whole(
        packets: &mut Vec<Packet>,
        numbers: &mut Vec<u32>,
        batch: &Batch,
        outputs: &[u32],
        to: &mut [Batch],
    ) {
        assert_eq!([packets.len(), numbers.len()], [outputs.len(); 2]);
        // SAFETY: none is a length; from here on the packets belong to who is dealt them.
        unsafe { packets.set_len(0) };
        let from = Place { packets: packets.as_mut_ptr(), numbers: numbers.as_mut_ptr() };
        let mut dealt = 0;
        for (to, number) in to.iter_mut().zip(0i32..) {
            let hand = to.hand_for(batch).expect(NO_OTHERS);
            let before = hand.packets.len();
            hand.packets.reserve(outputs.len() + STEP);
            hand.numbers.reserve(outputs.len() + STEP);
            let end = Place {
                packets: hand.packets.spare_capacity_mut().as_mut_ptr().cast(),
                numbers: hand.numbers.spare_capacity_mut().as_mut_ptr().cast(),
            };
            let wanted = _mm512_set1_epi32(number);
            // SAFETY: there are as many packets and numbers as outputs, and `end` has room for all
            // of both and a register more.
            let picked = unsafe { pick::<_MM_CMPINT_EQ, true>(from, outputs, end, wanted) };
            // SAFETY: so many were written, each one that nobody else has: their outputs differ.
            unsafe { hand.packets.set_len(before + picked) };
            // SAFETY: as many as packets, of which there were as many as numbers.
            unsafe { hand.numbers.set_len(before + picked) };
            if picked > 0 {
                to.lend_like(batch);
            }
            dealt += picked;
        }
        let mut left = 0;
        if dealt < outputs.len() {
            let outputs_end = _mm512_set1_epi32(to.len() as i32);
            // SAFETY: as above, and they are picked to where they are.
            left = unsafe { pick::<_MM_CMPINT_NLT, true>(from, outputs, from, outputs_end) };
        }
        // SAFETY: those whose outputs are none of the above, once each.
        unsafe { packets.set_len(left) };
        numbers.truncate(left);
    }

    /// Writes those of the packets at `from` to `end` whose outputs compare as wanted with
    /// `number`, and their numbers if `NUMBERS`; tells how many.
    ///
    /// # Safety
    /// `from` has as many packets, and numbers if they are wanted, as there are outputs; `end` has
    /// room for all of them and a register more, or is `from`.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn pick<const COMPARED: i32, const NUMBERS: bool>(
        from: Place,
        outputs: &[u32],
        end: Place,
        number: __m512i,
    ) -> usize {
        const HALF: usize = STEP / 2;
        let in_place = std::ptr::eq(end.packets, from.packets);
        let mut picked = 0;
        for (at, some) in (0..).step_by(STEP).zip(outputs.chunks(STEP)) {
            let lanes = (1u32 << some.len()).wrapping_sub(1) as __mmask16;
            // SAFETY: only lanes of `some` are read.
            let some = unsafe { _mm512_maskz_loadu_epi32(lanes, some.as_ptr().cast()) };
            let wanted = _mm512_mask_cmp_epu32_mask::<COMPARED>(lanes, some, number);
            if NUMBERS {
                let numbers = from.numbers.wrapping_add(at).cast();
                // SAFETY: only numbers with outputs are wanted, and only what is wanted is read.
                let numbers = unsafe { _mm512_maskz_loadu_epi32(wanted, numbers) };
                let numbers = _mm512_maskz_compress_epi32(wanted, numbers);
                let room = end.numbers.wrapping_add(picked).cast();
                let lanes = if in_place { (1u32 << wanted.count_ones()) - 1 } else { 0xffff };
                // SAFETY: as for packets, below.
                unsafe { _mm512_mask_storeu_epi32(room, lanes as __mmask16, numbers) };
            }
            let halves = [wanted as __mmask8, (wanted >> HALF) as __mmask8];
            for (at, wanted) in [at, at + HALF].into_iter().zip(halves) {
                let packets = from.packets.wrapping_add(at).cast();
                // SAFETY: only packets with outputs are wanted, and only what is wanted is read.
                let packets = unsafe { _mm512_maskz_loadu_epi64(wanted, packets) };
                let packets = _mm512_maskz_compress_epi64(wanted, packets);
                let room = end.packets.wrapping_add(picked).cast();
                let count = wanted.count_ones();
                let lanes = if in_place { (1u32 << count) - 1 } else { 0xff };
                // SAFETY: there is room for a register behind what was picked; in place, for what
                // is picked now where it, or what lay in front of it, was read before.
                unsafe { _mm512_mask_storeu_epi64(room, lanes as __mmask8, packets) };
                picked += count as usize;
            }
        }
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frames, Lender, PacketType, Pool};

    /// Every way deals alike, and loses none.
    #[test]
    fn each_gets_its_own_in_order() {
        let mut pool = Pool::new();
        let mut frames = Frames::default();
        assert!((0..300u32).all(|number| frames.push(&number.to_be_bytes(), 0, PacketType::Host)));
        let mut lender = Lender::new(frames);
        let mut draws = 1u32;
        let mut draw = |below: u32| {
            draws = draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (draws >> 8) % below
        };
        for round in 0..400u32 {
            let (count, outputs) = (draw(300) as usize, 1 + draw(26));
            // Some go nowhere, also to numbers that a sign would make small.
            let to: Vec<u32> = (0..count)
                .map(|_| match draw(9) {
                    0 => outputs,
                    1 => u32::MAX - draw(3),
                    _ => draw(outputs),
                })
                .collect();
            let (waiting, is_lent) = (draw(3), draw(2) == 0);
            let mut results = Vec::new();
            for way in [Batch::deal, Batch::deal_each] {
                let mut slots: Vec<Batch> = (0..outputs).map(|_| pool.batch()).collect();
                slots[0].extend((0..waiting).map(|_| pool.packet_of(b"first")));
                let mut batch = pool.borrow(&mut lender, 0..count);
                if !is_lent {
                    batch.as_mut_slice();
                }
                let stays_lent = batch.is_lent_whole() && waiting == 0;
                way(&mut batch, &to, &mut slots);
                slots.push(batch);
                let is_lent = |batch: &Batch| batch.is_empty() || batch.is_lent_whole();
                assert!(!stays_lent || slots.iter().all(is_lent), "round {round}");
                let data = |batch: &Batch| -> Vec<Vec<u8>> {
                    batch.iter().map(|packet| packet.data().to_vec()).collect()
                };
                results.push(slots.iter().map(data).collect::<Vec<_>>());
                slots.into_iter().for_each(|batch| pool.recycle_batch(batch));
            }
            assert_eq!(results[0], results[1], "round {round}");
            let left = results[0].pop().expect("what nobody got");
            let expected = (0..count as u32).filter(|&number| to[number as usize] >= outputs);
            assert!(left.into_iter().eq(expected.map(|number| number.to_be_bytes().to_vec())));
            assert_eq!(pool.live(), 0);
        }
    }
}
