//! Making a block from what each of 256 values leads to.

use super::entry::{Entry, INNER, LEAF, SHIFT_AT};

/// Values of one byte.
pub(crate) const SLOTS: usize = 256;

/// A block, ready to be written, and the entry that leads to it but for its place.
#[derive(Debug, Default)]
pub(crate) struct Block {
    words: Vec<u64>,
    /// The entry of the block, as if word 0 stood at index 0.
    entry: u64,
    /// How many words stand in front of word 0.
    front: usize,
}

impl Block {
    /// Plans the block of `slots`, where `children` (in order) replace some slots' hops. The hop
    /// that all slots share, if no block is needed.
    pub(crate) fn plan(
        &mut self,
        slots: &[u16; SLOTS],
        children: impl Iterator<Item = (u8, Entry)> + Clone,
    ) -> Option<u16> {
        let mut starts = run_starts(slots);
        for (slot, _) in children.clone() {
            set(&mut starts, usize::from(slot));
            set(&mut starts, usize::from(slot) + 1);
        }
        let runs: u32 = starts.iter().map(|word| word.count_ones()).sum();
        if runs == 1 && children.clone().next().is_none() {
            return Some(slots[0]);
        }
        self.words.clear();
        self.put_starts(&starts);
        let first = self.words.len();
        if children.clone().next().is_none() {
            self.words.resize(first + runs.div_ceil(4) as usize, 0);
            for (value, slot) in set_bits(&starts).enumerate() {
                self.words[first + value / 4] |= u64::from(slots[slot]) << (16 * (value % 4));
            }
            self.entry |= LEAF;
        } else {
            let mut children = children.peekable();
            for slot in set_bits(&starts) {
                let child = children.next_if(|(at, _)| usize::from(*at) == slot);
                let entry = child.map_or(Entry::hop(slots[slot]), |(_, entry)| entry);
                self.words.push(entry.0);
            }
            self.entry |= INNER;
        }
        None
    }

    /// The words with the starts, the last first, and the entry's shift and counts.
    fn put_starts(&mut self, starts: &[u64; 4]) {
        let all = starts.iter().fold(0, |all, word| all | word);
        let shift = if all & 0xeeee_eeee_eeee_eeee == 0 {
            2
        } else if all & 0xaaaa_aaaa_aaaa_aaaa == 0 {
            1
        } else {
            0
        };
        let mut packed = [0; 4];
        for (idx, &word) in starts.iter().enumerate() {
            let bits = 64 >> shift;
            packed[idx >> shift] |= every(word, shift) << (bits * idx % 64);
        }
        let len = 4 >> shift;
        self.words.extend(packed[..len].iter().rev());
        self.front = len - 1;
        self.entry = shift << SHIFT_AT;
        let mut before = 0u64;
        for (idx, word) in packed[..len].iter().enumerate() {
            // Word 0 has nothing before it, and no place for that. At most 192: it fits.
            self.entry |= if idx == 0 { 0 } else { before << (24 + 8 * idx) };
            before += u64::from(word.count_ones());
        }
    }

    /// The words, in the order that they are written in.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The entry, if the words are written from `at` on.
    pub(crate) fn entry(&self, at: usize) -> Entry {
        let at = u32::try_from(at + self.front).expect("the arena's bound fits 32 bits");
        Entry(self.entry | u64::from(at))
    }
}

/// Every `2^shift`th bit of `word`, packed.
fn every(word: u64, shift: u64) -> u64 {
    let mut bits = word;
    if shift == 0 {
        return bits;
    }
    // Bits move to half their place, in ever larger groups; for a quarter, twice.
    for _ in 0..shift {
        bits &= 0x5555_5555_5555_5555;
        bits = (bits | bits >> 1) & 0x3333_3333_3333_3333;
        bits = (bits | bits >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
        bits = (bits | bits >> 4) & 0x00ff_00ff_00ff_00ff;
        bits = (bits | bits >> 8) & 0x0000_ffff_0000_ffff;
        bits = (bits | bits >> 16) & 0x0000_0000_ffff_ffff;
    }
    bits
}

fn set(bits: &mut [u64; 4], at: usize) {
    if at < SLOTS {
        bits[at / 64] |= 1 << (at % 64);
    }
}

/// The places of set bits, in order.
fn set_bits(bits: &[u64; 4]) -> impl Iterator<Item = usize> + '_ {
    bits.iter().enumerate().flat_map(|(idx, &word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(64 * idx + bit)
        })
    })
}

/// A bit for each slot that differs from the one before; the first always does.
fn run_starts(slots: &[u16; SLOTS]) -> [u64; 4] {
    // Bytes first: this loop has a vector form.
    let mut differs = [0u8; SLOTS];
    for ((differs, slot), before) in differs[1..].iter_mut().zip(&slots[1..]).zip(slots) {
        *differs = u8::from(slot != before);
    }
    differs[0] = 1;
    let mut starts = [0; 4];
    for (idx, eight) in differs.as_chunks::<8>().0.iter().enumerate() {
        // The product has the eight lowest bits side by side in its top byte.
        let bits = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        starts[idx / 8] |= bits << (8 * (idx % 8));
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Every byte must lead to its slot, or to the child in it.
    fn check(slots: &[u16; SLOTS], children: &[(u8, Entry)], words_expected: usize) {
        let mut block = Block::default();
        assert_eq!(block.plan(slots, children.iter().copied()), None);
        assert_eq!(block.words().len(), words_expected);
        let pad = 3;
        let words: Vec<AtomicU64> = std::iter::repeat_n(&0, pad)
            .chain(block.words())
            .map(|&word| AtomicU64::new(word))
            .collect();
        let entry = block.entry(pad);
        for byte in 0..=255u8 {
            let child = children.iter().find(|(slot, _)| *slot == byte);
            let expected = child.map_or(Entry::hop(slots[usize::from(byte)]), |child| child.1);
            assert_eq!(entry.next(&words, byte), expected, "byte {byte}");
        }
    }

    #[test]
    fn each_byte_leads_to_its_run() {
        let mut slots = [7; SLOTS];
        assert_eq!(Block::default().plan(&slots, std::iter::empty()), Some(7));
        slots[128..].fill(9);
        check(&slots, &[], 2);
        slots[64..68].fill(3);
        check(&slots, &[], 2);
        slots[66..68].fill(4);
        check(&slots, &[], 2 + 2);
        slots[255] = 1;
        check(&slots, &[], 4 + 2);
        for (slot, value) in slots.iter_mut().enumerate() {
            *value = u16::MAX - slot as u16;
        }
        check(&slots, &[], 4 + 64);
        check(&slots, &[(0, Entry(5)), (255, Entry(INNER | 9))], 4 + 256);
        let all: Vec<_> = (0..=255).map(|slot| (slot, Entry(u64::from(slot)))).collect();
        check(&[3; SLOTS], &all, 4 + 256);
        check(&[3; SLOTS], &[(200, Entry(LEAF))], 4 + 3);
        check(&[3; SLOTS], &[(252, Entry(LEAF)), (253, Entry(LEAF))], 4 + 4);
    }
}
