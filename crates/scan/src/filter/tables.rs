//! The bit tables of the filter: may a pattern's window stand here?
//!
//! ```text
//! long    at each 4th byte p:  hash(8 bytes at p) ─► word ─► are both of its 2 bits set?
//! short   at each 2nd byte p:  hash(3 bytes at p + 1) ─► word ─┬─► both bits of the 4 bytes at p?
//!                                                              └─► both bits of those at p + 1?
//! tiny    at each byte p:      8 groups, one bit each, in four tables by mixes of the bytes at p:
//!                              0[a] & 1[a, b] & 2[a, b] & 3[b, c]
//! ```
//! Windows are folded. A pattern of 11 bytes or more has an 8-byte window at every remainder of
//! four, so one of them stands at a position that is looked at; one of 4 or more bytes has a 4-byte
//! window, and both of its neighbours' common 3 bytes lead to the same word.
//!
//! What is defined here, the kernels in [`arch`](crate::arch) do; all of them give the same
//! positions.

/// Words have 32 bits; so many tables have at least and at most, as powers of two. The least fills
/// most of a first-level cache, the most half of a second-level one.
const WORDS_LOG2: std::ops::RangeInclusive<u32> = 11..=18;

/// Bytes of a window of a long pattern.
pub(crate) const LONG_WINDOW: usize = 8;

/// Bytes between positions that are looked at for long patterns.
pub(crate) const LONG_STRIDE: usize = 4;

/// Bytes that a pattern must have to be a long one.
pub(crate) const LONG_BYTES_MIN: usize = LONG_WINDOW + LONG_STRIDE - 1;

/// Bytes of a window of a short pattern, and those that it must have.
pub(crate) const SHORT_WINDOW: usize = 4;

/// Which of 64 positions may begin a window, 16 a number.
///
/// Of long and tiny windows a bit is a position. Of short ones the numbers are the even positions
/// of 32 bytes, their odd ones, and the same of the next 32, as kernels find them;
/// [`short_mask`] puts them in order.
pub(crate) type Mask = [u16; 4];

/// A mask of short windows with the bits in order.
pub(crate) fn short_mask(mask: u64) -> u64 {
    /// The bits at even places.
    fn spread(bits: u64) -> u64 {
        let bits = (bits | bits << 8) & 0x00ff_00ff;
        let bits = (bits | bits << 4) & 0x0f0f_0f0f;
        let bits = (bits | bits << 2) & 0x3333_3333;
        (bits | bits << 1) & 0x5555_5555
    }
    let half = |bits: u64| spread(bits & 0xffff) | spread(bits >> 16 & 0xffff) << 1;
    half(mask) | half(mask >> 32) << 32
}

/// What windows are multiplied with, as pairs of signed half words: a product of each half, added
/// up, takes processors one step, where a product of whole words takes two.
pub(crate) const MIX_LONG: [u32; 2] = [0x79b1_6a6b, 0x4a6b_5f35];
pub(crate) const MIX_SHORT: [u32; 2] = [0x5bd1_7a35, 0x6a35_4f7b];

/// The rotation between both halves of a long window.
pub(crate) const LONG_ROTATE: u32 = 15;

/// How far up in a hash the number of a word stands: the bits below depend on few bytes.
pub(crate) const WORD_SHIFT: u32 = 9;

/// How far up in a hash the second of two bits stands. In a long window's it has to be above the
/// number of the word, which has 18 bits at most: a bit that the word's place tells already tells
/// nothing. A short window's number is of another hash, and the upper bits are the poorer ones.
pub(crate) const LONG_BIT_SHIFT: u32 = 27;
pub(crate) const SHORT_BIT_SHIFT: u32 = 14;

/// Words of bits, of which a window has two in one word.
#[derive(Clone, Debug)]
pub(crate) struct BitTable {
    /// A power of two.
    words: Vec<u32>,
}

impl BitTable {
    /// A table for so many windows, with two words for each, or as many as there may be.
    pub(crate) fn new(windows: usize) -> Self {
        let wanted = (2 * windows.max(1)).next_power_of_two().ilog2();
        let log2 = wanted.clamp(*WORDS_LOG2.start(), *WORDS_LOG2.end());
        Self { words: vec![0; 1 << log2] }
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// What is left of a hash, moved down, as the number of a word.
    pub(crate) fn mask(&self) -> u32 {
        self.words.len() as u32 - 1
    }

    fn number(&self, hash: u32) -> usize {
        (hash >> WORD_SHIFT & self.mask()) as usize
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * self.words.len()
    }

    /// The word that a hash leads to.
    #[inline(always)]
    pub(crate) fn word(&self, hash: u32) -> u32 {
        self.words[self.number(hash)]
    }

    /// Adds an 8-byte window.
    pub(crate) fn add_long(&mut self, window: u64) {
        let hash = long_hash(window as u32, (window >> 32) as u32);
        let number = self.number(hash);
        self.words[number] |= long_bits(hash);
    }

    /// Adds a 4-byte window, as it is found at even and at odd positions.
    pub(crate) fn add_short(&mut self, window: u32) {
        let bits = short_bits(window);
        for common in [window & !0xff, window << 8] {
            let number = self.number(short_hash(common));
            self.words[number] |= bits;
        }
    }
}

/// The products of both halves of two words, added up.
#[inline(always)]
fn multiply(word: u32, factors: u32) -> u32 {
    let low = i32::from(word as i16) * i32::from(factors as i16);
    let high = i32::from((word >> 16) as i16) * i32::from((factors >> 16) as i16);
    low.wrapping_add(high) as u32
}

/// The hash of the 8 bytes `low`, `high`.
#[inline(always)]
pub(crate) fn long_hash(low: u32, high: u32) -> u32 {
    let high = multiply(high, MIX_LONG[1]).rotate_left(LONG_ROTATE);
    multiply(low, MIX_LONG[0]).wrapping_add(high)
}

/// The hash of the 3 bytes in the upper bits of `common`.
#[inline(always)]
pub(crate) fn short_hash(common: u32) -> u32 {
    multiply(common, MIX_SHORT[0])
}

/// The bits of a long window with this hash.
#[inline(always)]
pub(crate) fn long_bits(hash: u32) -> u32 {
    1u32.rotate_left(hash) | 1u32.rotate_left(hash >> LONG_BIT_SHIFT)
}

/// The bits of a short window.
#[inline(always)]
pub(crate) fn short_bits(window: u32) -> u32 {
    let hash = multiply(window, MIX_SHORT[1]);
    1u32.rotate_left(hash) | 1u32.rotate_left(hash >> SHORT_BIT_SHIFT)
}

/// The longest of the tiny patterns.
pub(crate) const TINY_BYTES_MAX: usize = 3;

/// Groups of tiny patterns, a bit each.
const TINY_GROUPS: usize = 8;

/// Eight groups of patterns of up to three bytes, in four tables of 64: each tells by the first
/// byte, or by a mix of neighbours, which groups may begin here. Bytes by themselves would tell too
/// little: text has few different ones, so that a group of eight patterns would be found anywhere.
#[derive(Clone, Debug)]
pub(crate) struct TinyTable {
    pub(crate) mixes: [[u8; 64]; 4],
}

/// Where three bytes lead to in each table. The lower six bits of a mix count, which is why kernels
/// may shift whole words of bytes to the right.
#[inline(always)]
pub(crate) fn tiny_mixes([a, b, c]: [u8; 3]) -> [usize; 4] {
    [a, b ^ a << 3, a >> 2 ^ b >> 1, c ^ b >> 1].map(|mix| usize::from(mix & 63))
}

impl TinyTable {
    /// A table for folded patterns of one to three bytes.
    pub(crate) fn new(patterns: &[&[u8]]) -> Self {
        let mut mixes = [[0; 64]; 4];
        let of_len = |len| patterns.iter().filter(move |bytes| bytes.len() == len);
        let counts = [1, 2, 3].map(|len| of_len(len).count());
        let mut first = 0;
        for (len, groups) in (1..).zip(groups_by_len(counts)) {
            for (idx, bytes) in of_len(len).enumerate() {
                let group = 1 << (first + idx * groups / counts[len - 1]);
                // Bytes that a pattern does not have may be any.
                let at = |place: usize| match bytes.get(place) {
                    Some(&byte) => byte..=byte,
                    None => 0..=255,
                };
                for (a, b) in at(0).flat_map(|a| at(1).map(move |b| (a, b))) {
                    for (table, mix) in mixes.iter_mut().zip(tiny_mixes([a, b, 0])).take(3) {
                        table[mix] |= group;
                    }
                    for c in at(2) {
                        mixes[3][tiny_mixes([a, b, c])[3]] |= group;
                    }
                }
            }
            first += groups;
        }
        Self { mixes }
    }

    /// Whether a pattern may begin with these bytes.
    #[inline(always)]
    pub(crate) fn may_begin(&self, bytes: [u8; 3]) -> bool {
        let [one, two, three, four] = tiny_mixes(bytes);
        let [a, b, c, d] = &self.mixes;
        a[one] & b[two] & c[three] & d[four] != 0
    }
}

/// How many groups patterns of each length get, so that the least passes by chance: a group's share
/// of a table, in as many tables as know bytes of it.
fn groups_by_len(patterns: [usize; TINY_BYTES_MAX]) -> [usize; TINY_BYTES_MAX] {
    let passes = |len: usize, groups: usize| {
        let share = patterns[len] as f64 / groups.max(1) as f64 / 64.0;
        let tables = [1, 3, 4][len];
        let is_left_out = (groups == 0) != (patterns[len] == 0);
        if is_left_out { f64::INFINITY } else { groups as f64 * share.min(1.0).powi(tables) }
    };
    let splits =
        (0..=TINY_GROUPS).flat_map(|one| (0..=TINY_GROUPS - one).map(move |two| (one, two)));
    let weighed = splits.map(|(one, two)| {
        let rest = TINY_GROUPS - one - two;
        let three = if patterns[2] == 0 { 0 } else { rest };
        ([one, two, three], passes(0, one) + passes(1, two) + passes(2, three))
    });
    let best = weighed.min_by(|(_, one), (_, other)| one.total_cmp(other));
    best.map_or([0; TINY_BYTES_MAX], |(groups, _)| groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of text, or any.
    fn bytes(len: usize, is_text: bool, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        let letters = b"etaoinshrdlucmfwypvbgkjqxz0123456789/.-_=?&% ";
        let letter = |number: u32| letters[(number % 45).min(number / 64 % 45) as usize];
        (0..len).map(|_| if is_text { letter(next()) } else { next() as u8 }).collect()
    }

    #[test]
    fn tables_let_little_through() {
        for is_text in [false, true] {
            let windows = bytes(8 * 3000, is_text, 1);
            let text = bytes(1 << 18, is_text, 2);
            let (mut long, mut short) = (BitTable::new(3000), BitTable::new(3000));
            for window in windows.as_chunks::<8>().0 {
                long.add_long(u64::from_le_bytes(*window));
                short.add_short(u32::from_le_bytes(*window.first_chunk().unwrap()));
            }
            let known: std::collections::HashSet<&[u8]> =
                windows.chunks(8).map(|window| &window[..4]).collect();
            let (mut longs, mut shorts, mut count) = (0, 0, 0);
            for at in (0..text.len() - 8).step_by(2) {
                let word = |at: usize| u32::from_le_bytes(text[at..at + 4].try_into().unwrap());
                let hash = long_hash(word(at), word(at + 4));
                longs += usize::from(long_bits(hash) & !long.word(hash) == 0);
                let found = short.word(short_hash(word(at) & !0xff));
                for at in [at, at + 1] {
                    let is_found = short_bits(word(at)) & !found == 0;
                    shorts += usize::from(is_found && !known.contains(&text[at..at + 4]));
                }
                count += 1;
            }
            // By chance 0.2 % and 0.5 % of the positions pass. Windows of text lie closer together:
            // up to twice that, and a little.
            assert!(longs < count / 300, "{longs} of {count} long windows, text: {is_text}");
            assert!(shorts < 2 * count / 80, "{shorts} of {count} short windows, text: {is_text}");
        }
    }

    #[test]
    fn tiny_patterns_are_told_apart() {
        for is_text in [false, true] {
            // As many of two and three bytes as rules of detection have.
            let drawn = bytes(3 * 64, is_text, 3);
            let patterns: Vec<&[u8]> =
                drawn.chunks(3).enumerate().map(|(i, c)| &c[..2 + i % 2]).collect();
            let table = TinyTable::new(&patterns);
            let text = bytes(1 << 18, is_text, 4);
            let (mut passed, mut begun) = (0, 0);
            for at in text.windows(3) {
                let may = table.may_begin([at[0], at[1], at[2]]);
                let does = patterns.iter().any(|bytes| at.starts_with(bytes));
                assert!(may || !does, "{at:?} is missed");
                (passed, begun) = (passed + usize::from(may), begun + usize::from(does));
            }
            // By chance 0.9 % pass that begin no pattern; of text, which is less even, more.
            let of_hundred = if is_text { 4 } else { 1 };
            assert!(
                (passed - begun) * 100 < of_hundred * text.len(),
                "{passed}, {begun} begin one, text: {is_text}"
            );
        }
    }

    #[test]
    fn lengths_share_the_groups() {
        assert_eq!(groups_by_len([0, 0, 5]), [0, 0, 8]);
        assert_eq!(groups_by_len([0, 9, 0]), [0, 8, 0]);
        for patterns in [[3, 0, 0], [1, 1, 1], [0, 29, 34], [200, 1, 1000], [1, 5000, 0]] {
            let groups = groups_by_len(patterns);
            assert!(groups.iter().sum::<usize>() <= TINY_GROUPS);
            assert_eq!(groups.map(|groups| groups > 0), patterns.map(|patterns| patterns > 0));
        }
    }
}
