//! Code that is written per instruction set: the only place of this crate with `unsafe`.
//!
//! Policy: a type per instruction set whose value proves that the machine has it (`new() ->
//! Option`), a portable twin that defines the result, and one unsafe operation a block.
//!
//! All kernels look at whole blocks of a folded text and tell by masks where windows may begin. A
//! text ends with [`PAD`](crate::filter::PAD) bytes, so the last block may reach behind it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::ops::Range;

use crate::filter::BLOCK;
use crate::filter::tables::{BitTable, LONG_STRIDE, Mask, TinyTable};

/// The code that filters.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    /// For any processor.
    Portable,
    /// Eight positions at once.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    /// Sixteen, 64 bytes.
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
}

impl Kernel {
    /// Those that this machine has, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let special = {
            let [first, second] = avx512::Avx512::both().map(|one| one.map(Self::Avx512));
            [first, second, avx2::Avx2::new().map(Self::Avx2)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let special: [Option<Self>; 0] = [];
        special.into_iter().flatten().chain([Self::Portable])
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) if avx512.is_by_halves() => "avx512-halves",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
        }
    }

    /// Writes `from` to `to`, which is as long, with letters in lower case.
    pub(crate) fn fold(self, from: &[u8], to: &mut [u8]) {
        match self {
            Self::Portable => portable::fold(from, to),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.fold(from, to),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.fold(from, to),
        }
    }

    /// Finds long windows: a bit for each fourth byte.
    pub(crate) fn long(
        self,
        table: &BitTable,
        text: &[u8],
        range: Range<usize>,
        masks: &mut [Mask],
    ) {
        check(text, &range, masks, LONG_STRIDE);
        match self {
            Self::Portable => portable::long(table, text, range.start, masks),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.long(table, text, range.start, masks),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.long(table, text, range.start, masks),
        }
    }

    /// Finds short windows: a bit for each byte, in the order of [`Mask`].
    pub(crate) fn short(
        self,
        table: &BitTable,
        text: &[u8],
        range: Range<usize>,
        masks: &mut [Mask],
    ) {
        check(text, &range, masks, 1);
        match self {
            Self::Portable => portable::short(table, text, range.start, masks),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.short(table, text, range.start, masks),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.short(table, text, range.start, masks),
        }
    }

    /// Finds where tiny patterns may begin: a bit for each byte.
    pub(crate) fn tiny(
        self,
        table: &TinyTable,
        text: &[u8],
        range: Range<usize>,
        masks: &mut [Mask],
    ) {
        check(text, &range, masks, 1);
        match self {
            Self::Portable => portable::tiny(table, text, range.start, masks),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.tiny(table, text, range.start, masks),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.tiny(table, text, range.start, masks),
        }
    }
}

/// What every kernel relies on.
fn check(text: &[u8], range: &Range<usize>, masks: &[Mask], stride: usize) {
    assert!(range.len().is_multiple_of(BLOCK), "{range:?} are no whole blocks");
    assert!(text.len() >= range.end + 64 && text.len() < 1 << 32, "{range:?} is not in the text");
    assert_eq!(64 * stride * masks.len(), range.len(), "the masks are not for {range:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::PAD;

    /// Bytes that look alike everywhere.
    fn text(len: usize, kinds: u32) -> Vec<u8> {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let any = kinds == 256;
        (0..len).map(|_| if any { next() } else { b'A' + next() % kinds as u8 }).collect()
    }

    #[test]
    fn kernels_list_the_same_positions() {
        for (len, kinds) in [(0, 256), (1, 3), (64, 3), (65, 256), (1000, 4), (1000, 256)] {
            let raw = text(len + PAD, kinds);
            let mut folded = vec![0; raw.len()];
            portable::fold(&raw, &mut folded);
            let mut long = BitTable::new(10);
            let mut short = BitTable::new(10);
            for at in (0..len.saturating_sub(8)).step_by(13) {
                long.add_long(u64::from_le_bytes(folded[at..at + 8].try_into().unwrap()));
                short.add_short(u32::from_le_bytes(folded[at..at + 4].try_into().unwrap()));
            }
            let tiny = TinyTable::new(&[b"a", b"bc", b"\xf0ab", b"7"]);
            let start = len / 3;
            let blocks = start..start + (len - start).next_multiple_of(BLOCK);
            let run = |kernel: Kernel| {
                let mut again = vec![0; raw.len()];
                kernel.fold(&raw, &mut again);
                assert_eq!(again, folded);
                let masks = |positions: usize| vec![[9; 4]; positions / 64];
                let mut found = [blocks.len() / 4, blocks.len(), blocks.len()].map(masks);
                kernel.long(&long, &folded, blocks.clone(), &mut found[0]);
                kernel.short(&short, &folded, blocks.clone(), &mut found[1]);
                kernel.tiny(&tiny, &folded, blocks.clone(), &mut found[2]);
                found
            };
            let expected = run(Kernel::Portable);
            let has_some = |masks: &Vec<Mask>| masks.iter().any(|mask| *mask != [0; 4]);
            assert!(len < 1000 || expected.iter().all(has_some));
            for kernel in Kernel::available() {
                assert_eq!(run(kernel), expected, "{}, {len} bytes", kernel.name());
            }
        }
    }
}
