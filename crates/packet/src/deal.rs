//! Packets of one batch to the batches that they go to.
//!
//! With AVX-512 the packets of each output are picked out of sixteen at a time, output by output: a
//! compare and two compressions for sixteen, so a handful of outputs cost a few instructions a
//! packet. One by one, each packet waits for the length that the one before it has written.

use crate::Batch;
use crate::columns::Columns;
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
        self.deal_by(Self::deal_packets, outputs, to);
    }

    /// The same, with `deal_packets` to move packets and the numbers of frames.
    #[inline]
    fn deal_by(
        &mut self,
        deal_packets: fn(&mut Self, &[u32], &mut [Batch]),
        outputs: &[u32],
        to: &mut [Batch],
    ) {
        assert_eq!(self.len(), outputs.len(), "every packet has its output");
        if self.is_deferred() && !self.is_dealt_deferred(to) {
            // Each packet gets what the batch has for it.
            self.packets_mut();
        }
        if !self.is_deferred() || (self.is_lent_whole() && self.columns_mut().is_empty()) {
            return deal_packets(self, outputs, to);
        }
        let mut columns = std::mem::take(self.columns_mut());
        deal_packets(self, outputs, to);
        let left = self.deal_columns(&columns, outputs, to);
        columns.clear();
        *self.columns_mut() = left.unwrap_or(columns);
    }

    /// Whether it stays deferred when it is dealt to these.
    fn is_dealt_deferred(&mut self, to: &mut [Batch]) -> bool {
        if self.is_lent_whole() && self.columns_mut().is_empty() {
            let takes = |to: &mut Batch| to.takes_like(self) && to.columns_mut().is_empty();
            return to.iter_mut().all(takes);
        }
        to.iter().all(|to| to.is_empty() && !to.is_deferred())
    }

    /// Gives each of `to` its part of the columns; what is left for this batch, if it has packets.
    fn deal_columns(
        &mut self,
        columns: &Columns,
        outputs: &[u32],
        to: &mut [Batch],
    ) -> Option<Columns> {
        let is_owned = !self.is_lent_whole();
        for (to, number) in to.iter_mut().zip(0u32..) {
            if to.is_empty() {
                continue;
            }
            to.columns_mut().clear();
            let pick =
                |values: &[u32], out: &mut Vec<u32>| pick_column(values, outputs, number, out);
            columns.pick(outputs, |output| output == number, Some(number), pick, to.columns_mut());
            if is_owned {
                to.defer_dealt();
            }
        }
        let end = to.len() as u32;
        let pick = |values: &[u32], out: &mut Vec<u32>| {
            let all = values.iter().zip(outputs);
            out.extend(all.filter(|(_, output)| **output >= end).map(|(value, _)| *value));
        };
        let mut left = (!self.is_empty()).then(Columns::default)?;
        columns.pick(outputs, |output| output >= end, None, pick, &mut left);
        Some(left)
    }

    #[inline]
    fn deal_packets(&mut self, outputs: &[u32], to: &mut [Batch]) {
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
        if self.is_lent_whole() {
            let (packets, mut column) = self.take_lent_whole();
            let numbers = column.as_list();
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
            return self.put_lent_whole(left, column);
        }
        let mut outputs = outputs.iter();
        let packets = std::mem::take(self.raw_packets());
        let left = packets.into_iter().filter_map(|packet| {
            let output = outputs.next().and_then(|&output| to.get_mut(output as usize));
            match output {
                Some(batch) => batch.push(packet),
                None => return Some(packet),
            }
            None
        });
        // Collecting from a vector's own iterator reuses its memory.
        let left: Vec<Packet> = left.collect();
        *self.raw_packets() = left;
        self.count_owned();
    }
}

/// Adds those of `values` whose outputs are `number` to `out`.
fn pick_column(values: &[u32], outputs: &[u32], number: u32, out: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if outputs.len() >= PACKETS_MIN
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("popcnt")
    {
        // SAFETY: the processor has these instructions.
        return unsafe { x86_64::pick_column(values, outputs, number, out) };
    }
    let all = values.iter().zip(outputs);
    out.extend(all.filter(|(_, output)| **output == number).map(|(value, _)| *value));
}

/// Moves the last `count` of `from` behind those of `to`: what moves is pointers, all at once.
///
/// # Panics
/// If there are not so many.
#[inline]
pub(crate) fn move_last(from: &mut Vec<Packet>, count: usize, to: &mut Vec<Packet>) {
    let left = from.len().checked_sub(count).expect("as many packets as are to move");
    to.reserve(count);
    // SAFETY: so many are left; from here on the others are nobody's.
    unsafe { from.set_len(left) };
    let first = from.spare_capacity_mut().as_ptr().cast::<Packet>();
    let end = to.spare_capacity_mut().as_mut_ptr().cast::<Packet>();
    // SAFETY: `count` packets follow those that are left, `to` has room for them, and these are two
    // vectors.
    unsafe { first.copy_to_nonoverlapping(end, count) };
    let len = to.len() + count;
    // SAFETY: so many were there, and so many were written, each of which nobody else has.
    unsafe { to.set_len(len) };
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::*;

    use super::{Batch, STEP, move_last};
    use crate::Packet;
    use crate::batch::NO_OTHERS;
    use crate::numbers::{Form, Numbers};

    const _: () = assert!(size_of::<Packet>() == size_of::<i64>());

    /// See [`Batch::deal`].
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn deal(batch: &mut Batch, outputs: &[u32], to: &mut [Batch]) {
        if batch.is_lent_whole() {
            let (mut packets, mut numbers) = batch.take_lent_whole();
            deal_whole(&mut packets, &mut numbers, batch, outputs, to);
            return batch.put_lent_whole(packets, numbers);
        }
        deal_packets(batch.raw_packets(), outputs, to);
        batch.count_owned();
    }

    #[target_feature(enable = "avx512f,popcnt")]
    fn deal_packets(packets: &mut Vec<Packet>, outputs: &[u32], to: &mut [Batch]) {
        assert_eq!(packets.len(), outputs.len());
        // SAFETY: none is a length; from here on the packets belong to who is dealt them.
        unsafe { packets.set_len(0) };
        let from = packets.as_mut_ptr();
        let mut dealt = 0;
        for (batch, number) in to.iter_mut().zip(0i32..) {
            let hand = batch.packets_mut();
            let before = hand.len();
            // Whole registers are written.
            hand.reserve(outputs.len() + STEP);
            let end = hand.spare_capacity_mut().as_mut_ptr().cast();
            let wanted = _mm512_set1_epi32(number);
            // SAFETY: there are as many packets as outputs, and `end` has room for all and a
            // register more.
            let picked = unsafe { pick_packets::<_MM_CMPINT_EQ>(from, outputs, end, wanted) };
            // SAFETY: so many were written, each one that nobody else has: their outputs differ.
            unsafe { hand.set_len(before + picked) };
            dealt += picked;
        }
        if dealt < outputs.len() {
            let outputs_end = _mm512_set1_epi32(to.len() as i32);
            // SAFETY: there are as many packets as outputs, and they are picked to where they are.
            let left = unsafe { pick_packets::<_MM_CMPINT_NLT>(from, outputs, from, outputs_end) };
            // SAFETY: those whose outputs are none of the above, once each.
            unsafe { packets.set_len(left) };
        }
    }

    /// The same for the packets and numbers of `batch`, which is lent whole: a packet that nobody
    /// has told its frame is as good as any other, so only numbers are picked, and packets move all
    /// at once.
    #[target_feature(enable = "avx512f,popcnt")]
    fn deal_whole(
        packets: &mut Vec<Packet>,
        numbers: &mut Numbers,
        batch: &Batch,
        outputs: &[u32],
        to: &mut [Batch],
    ) {
        assert_eq!([packets.len(), numbers.len()], [outputs.len(); 2]);
        for (to, number) in to.iter_mut().zip(0i32..) {
            let hand = to.hand_for(batch).expect(NO_OTHERS);
            let list = hand.numbers.as_list();
            let before = list.len();
            list.reserve(outputs.len() + STEP);
            let end = list.spare_capacity_mut().as_mut_ptr().cast();
            let wanted = _mm512_set1_epi32(number);
            let picked = match numbers.form() {
                Form::Range(range) => {
                    let load = |at, _| count_from(range.start.wrapping_add(at as u32));
                    // SAFETY: there is room for as many numbers as outputs and a register more.
                    unsafe { pick_numbers::<_MM_CMPINT_EQ>(load, outputs, end, wanted) }
                }
                Form::List(list) => {
                    let first = list.as_ptr();
                    // SAFETY: as seen above there are as many numbers as outputs, and only numbers
                    // with outputs are wanted.
                    let load = |at, wanted| unsafe { load_numbers(first, at, wanted) };
                    // SAFETY: as for a range.
                    unsafe { pick_numbers::<_MM_CMPINT_EQ>(load, outputs, end, wanted) }
                }
            };
            // SAFETY: so many were there, and so many were written.
            unsafe { list.set_len(before + picked) };
            if picked > 0 {
                // Each packet has one output, so there are enough.
                move_last(packets, picked, hand.packets);
                to.lend_like(batch);
            }
        }
        if packets.is_empty() {
            return numbers.clear();
        }
        let list = numbers.as_list();
        list.reserve(STEP);
        let (first, outputs_end) = (list.as_mut_ptr(), _mm512_set1_epi32(to.len() as i32));
        // SAFETY: as above.
        let load = |at, wanted| unsafe { load_numbers(first, at, wanted) };
        // SAFETY: they are picked to where they, or those in front of them, were read before, and
        // there is room for a register behind.
        let left = unsafe { pick_numbers::<_MM_CMPINT_NLT>(load, outputs, first, outputs_end) };
        numbers.as_list().truncate(left);
    }

    /// Adds those of `values` whose outputs are `number` to `out`.
    #[target_feature(enable = "avx512f,popcnt")]
    pub(super) fn pick_column(values: &[u32], outputs: &[u32], number: u32, out: &mut Vec<u32>) {
        assert_eq!(values.len(), outputs.len());
        out.reserve(outputs.len() + STEP);
        let end = out.spare_capacity_mut().as_mut_ptr().cast();
        let (first, wanted) = (values.as_ptr(), _mm512_set1_epi32(number as i32));
        // SAFETY: there are as many values as outputs, and only values with outputs are wanted.
        let load = |at, wanted| unsafe { load_numbers(first, at, wanted) };
        // SAFETY: there is room for as many numbers as outputs and a register more.
        let picked = unsafe { pick_numbers::<_MM_CMPINT_EQ>(load, outputs, end, wanted) };
        let len = out.len() + picked;
        // SAFETY: so many were there, and so many were written.
        unsafe { out.set_len(len) };
    }

    /// Sixteen numbers from `first` on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn count_from(first: u32) -> __m512i {
        let each = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        _mm512_add_epi32(_mm512_set1_epi32(first as i32), each)
    }

    /// Those of sixteen numbers from place `at` on that are wanted.
    ///
    /// # Safety
    /// They are there.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_numbers(first: *const u32, at: usize, wanted: __mmask16) -> __m512i {
        // SAFETY: only what is wanted is read.
        unsafe { _mm512_maskz_loadu_epi32(wanted, first.wrapping_add(at).cast()) }
    }

    /// Writes those of the numbers that `load` gives, sixteen from a place on, to `end` whose
    /// outputs compare as wanted with `number`; tells how many.
    ///
    /// # Safety
    /// `end` has room for as many numbers as there are outputs and a register more.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn pick_numbers<const COMPARED: i32>(
        load: impl Fn(usize, __mmask16) -> __m512i,
        outputs: &[u32],
        end: *mut u32,
        number: __m512i,
    ) -> usize {
        let mut picked = 0;
        for (at, some) in (0..).step_by(STEP).zip(outputs.chunks(STEP)) {
            let lanes = (1u32 << some.len()).wrapping_sub(1) as __mmask16;
            // SAFETY: only lanes of `some` are read.
            let some = unsafe { _mm512_maskz_loadu_epi32(lanes, some.as_ptr().cast()) };
            let wanted = _mm512_mask_cmp_epu32_mask::<COMPARED>(lanes, some, number);
            let numbers = _mm512_maskz_compress_epi32(wanted, load(at, wanted));
            // SAFETY: there is room for a register behind what was picked.
            unsafe { _mm512_storeu_si512(end.wrapping_add(picked).cast(), numbers) };
            picked += wanted.count_ones() as usize;
        }
        picked
    }

    /// Writes those of the packets at `from` to `end` whose outputs compare as wanted with
    /// `number`; tells how many.
    ///
    /// # Safety
    /// `from` has as many packets as there are outputs; `end` has room for all of them and a
    /// register more, or is `from`.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    unsafe fn pick_packets<const COMPARED: i32>(
        from: *const Packet,
        outputs: &[u32],
        end: *mut Packet,
        number: __m512i,
    ) -> usize {
        const HALF: usize = STEP / 2;
        let in_place = std::ptr::eq(end, from);
        let mut picked = 0;
        for (at, some) in (0..).step_by(STEP).zip(outputs.chunks(STEP)) {
            let lanes = (1u32 << some.len()).wrapping_sub(1) as __mmask16;
            // SAFETY: only lanes of `some` are read.
            let some = unsafe { _mm512_maskz_loadu_epi32(lanes, some.as_ptr().cast()) };
            let wanted = _mm512_mask_cmp_epu32_mask::<COMPARED>(lanes, some, number);
            let halves = [wanted as __mmask8, (wanted >> HALF) as __mmask8];
            for (at, wanted) in [at, at + HALF].into_iter().zip(halves) {
                let packets = from.wrapping_add(at).cast();
                // SAFETY: only packets with outputs are wanted, and only what is wanted is read.
                let packets = unsafe { _mm512_maskz_loadu_epi64(wanted, packets) };
                let packets = _mm512_maskz_compress_epi64(wanted, packets);
                let room = end.wrapping_add(picked).cast();
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
            for way in [Batch::deal_packets, Batch::deal_each] {
                let mut slots: Vec<Batch> = (0..outputs).map(|_| pool.batch()).collect();
                slots[0].extend((0..waiting).map(|_| pool.packet_of(b"first")));
                let mut batch = pool.borrow(&mut lender, 0..count);
                if !is_lent {
                    batch.as_mut_slice();
                }
                let stays_lent = batch.is_lent_whole() && waiting == 0;
                batch.deal_by(way, &to, &mut slots);
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
