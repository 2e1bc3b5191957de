//! Rule-parallel kernels: how a small batch is laid over a card by dividing the rules as well.
//!
//! ```text
//!   8192 keys, 132 multiprocessors        columns: 1     keys of a block: 64, blocks: 128
//!   block: 1024 threads = 32 warps        parts: 32      each warp searches a part of the rules
//!   still blocks to spare                 groups: 1..8   blocks of a cluster divide the rules
//! ```
//! A kernel that divides keys alone needs some 100,000 of them to fill a card. `split.cuh`
//! describes kernels that divide rules, of `linear`, `tuple` and `bloom`; results are the same.
//! This module decides which batches take them, and how they are laid over the card.
//!
//! # Settings
//! GSwitch names B, blocks per multiprocessor, and m, shared memory for a class. Here a block of
//! `threads` has its share of a multiprocessor's shared memory, so B is 1024 / `threads`, and
//! `window_bytes` limits its shared memory for slots or filters.
//!
//! # Source
//! Varvello, Laufer, Zhang, Lakshman, "Multi-layer packet classification with graphics processing
//! units", 2014: blocks have a group of rules each and merge by atomic maxima. Parts within a
//! block, and merging in shared memory, are ours.

use std::fmt;
use std::str::FromStr;

use crate::image::{Algorithm, VIEW_NUMBERS, abi};
use crate::kernels::KernelShape;

/// Threads of a warp.
const LANES: usize = 32;
/// Blocks of a cluster that every card with clusters accepts.
const GROUPS_MAX: usize = 8;
/// Shared memory that the system keeps of each block's.
const RESERVED_BYTES: usize = 1024;
/// Larger batches fill a card without dividing rules.
const KEYS_MAX: usize = 64 << 10;
/// Bytes of a block's queue of findings: its counters, and so many for each thread.
const QUEUE_BYTES: usize = 16;
const QUEUE_THREAD_BYTES: usize = 2 * 8;
/// With fewer tables or rows than this there is nothing to divide.
const UNITS_MIN: usize = 4;

/// How the rules are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSplit {
    /// Warps of a block that have the same keys and a part of the rules each.
    pub parts: usize,
    /// Blocks that have the same keys and a group of the rules each.
    pub groups: usize,
    /// Threads of a block.
    pub threads: usize,
    /// Shared memory for slots or filters; all that is left if there is no bound.
    pub window_bytes: Option<usize>,
}

impl fmt::Display for RuleSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}/{}", self.parts, self.groups, self.threads)?;
        self.window_bytes.map_or(Ok(()), |bytes| write!(f, "@{bytes}"))
    }
}

/// Which batches take the rule-parallel kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SplitChoice {
    /// Those for which it is expected to be faster; see [`Divisible::choose`].
    #[default]
    Auto,
    /// None.
    Never,
    /// All, laid out like this, as far as an image allows.
    Always(RuleSplit),
}

impl fmt::Display for SplitChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitChoice::Auto => f.write_str("auto"),
            SplitChoice::Never => f.write_str("never"),
            SplitChoice::Always(split) => split.fmt(f),
        }
    }
}

impl FromStr for SplitChoice {
    type Err = String;

    /// `auto`, `never`, or PARTS`x`GROUPS`/`THREADS`@`BYTES, the last one optional.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "expected auto, never or PARTSxGROUPS/THREADS[@BYTES] as 32x1/1024, got '{text}'"
            )
        };
        match text {
            "auto" => return Ok(SplitChoice::Auto),
            "never" => return Ok(SplitChoice::Never),
            _ => {}
        }
        let number = |digits: &str| digits.parse::<usize>().map_err(|_| expected());
        let (parts, rest) = text.split_once('x').ok_or_else(expected)?;
        let (groups, rest) = rest.split_once('/').ok_or_else(expected)?;
        let (threads, window) = match rest.split_once('@') {
            Some((threads, bytes)) => (threads, Some(number(bytes)?)),
            None => (rest, None),
        };
        let (parts, groups, threads) = (number(parts)?, number(groups)?, number(threads)?);
        let fits = threads.is_power_of_two() && (64..=1024).contains(&threads);
        if !fits || !parts.is_power_of_two() || !(2..=threads / LANES).contains(&parts) {
            let why = "threads are a power of two from 64 to 1024, parts one from 2 to the warps";
            return Err(format!("{why}, got '{text}'"));
        }
        if !(1..=GROUPS_MAX).contains(&groups) {
            return Err(format!("1 to {GROUPS_MAX} groups, got '{text}'"));
        }
        Ok(SplitChoice::Always(RuleSplit { parts, groups, threads, window_bytes: window }))
    }
}

/// What a card has for kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardShape {
    /// Its multiprocessors.
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may take.
    pub shared_bytes: usize,
    /// Whether blocks of a cluster reach each other's shared memory.
    pub has_clusters: bool,
}

/// What a rule-parallel kernel divides, and how wide it is; the definitions of `stage_rows.cuh`,
/// `stage_tables.cuh` and `split.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisible {
    /// The number of the view that counts units.
    units_at: usize,
    /// The numbers of the view between which the words of the window lie, and the words of the
    /// image for one of them.
    window: Option<(usize, usize, usize)>,
    unit_words: usize,
    /// Units of a part between two looks at other parts.
    round: usize,
    key_words: usize,
    keys_per_thread: usize,
    threads_max: usize,
}

/// How a rule-parallel kernel is laid over a card for one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitShape {
    /// Warps with the same keys.
    pub parts: usize,
    /// Blocks with the same keys.
    pub groups: usize,
    /// Threads of a block.
    pub threads: usize,
    /// Units in shared memory.
    pub staged: usize,
    /// Words of the window.
    pub window_words: usize,
    /// Dynamic shared memory of a block.
    pub shared_bytes: usize,
    /// Keys of a block.
    pub keys_per_block: usize,
    /// Blocks that a multiprocessor has room for.
    pub blocks_per_multiprocessor: usize,
}

impl Divisible {
    /// That of an algorithm; `None` if it has no such kernel.
    pub fn of(algorithm: Algorithm, shape: &KernelShape) -> Option<Self> {
        let (units_at, window, unit_words, round) = match algorithm {
            Algorithm::Linear => (abi::RULES, None, abi::row_words(shape.words, shape.compact), 32),
            Algorithm::Tuple => {
                let window = Some((abi::SLOTS, abi::ENTRIES, 2));
                (abi::TABLES, window, abi::padded(shape.words + 4), 8)
            }
            Algorithm::Bloom => {
                let window = Some((abi::FILTERS, abi::SLOTS, 1));
                (abi::TABLES, window, abi::padded(shape.words + 4), 8)
            }
            Algorithm::MaskHash | Algorithm::Turbo => return None,
        };
        Some(Self {
            units_at,
            window,
            unit_words,
            round,
            key_words: shape.words,
            keys_per_thread: if shape.words <= 10 { 2 } else { 1 },
            threads_max: if shape.words == 4 { 1024 } else { 512 },
        })
    }

    fn lanes_of_keys(&self) -> usize {
        self.keys_per_thread * LANES
    }

    /// Units of an image.
    fn units(&self, numbers: &[u32; VIEW_NUMBERS]) -> usize {
        numbers[self.units_at] as usize
    }

    /// How a batch of `count` keys is divided if that is expected to be faster than to divide keys
    /// alone: it is small, and there are units to divide.
    ///
    /// - A block gets as few keys as it takes to give each multiprocessor one: 64, twice as many as
    ///   long as blocks are more than multiprocessors. So all of them work, and each loads its
    ///   tables once.
    /// - Its warps divide the rules: all warps that 64 keys leave free, but not more than units.
    /// - If multiprocessors are left over, blocks divide the rules too, as long as each part keeps
    ///   a round of units: merging over a cluster takes about as long as searching those.
    pub fn choose(
        &self,
        numbers: &[u32; VIEW_NUMBERS],
        count: usize,
        card: &CardShape,
    ) -> Option<RuleSplit> {
        let units = self.units(numbers);
        if !(1..=KEYS_MAX).contains(&count) || units < UNITS_MIN {
            return None;
        }
        let warps_max = self.threads_max / LANES;
        let per_column = self.lanes_of_keys();
        let columns = count.div_ceil(per_column * card.multiprocessors).next_power_of_two();
        let columns = columns.min(warps_max / 2);
        let parts = floor_power_of_two(units).min(warps_max / columns);
        let blocks = count.div_ceil(per_column * columns);
        let spare = (card.multiprocessors / blocks).min(units / (parts * self.round));
        let groups = if card.has_clusters { spare.clamp(1, GROUPS_MAX) } else { 1 };
        let groups = floor_power_of_two(groups);
        Some(RuleSplit { parts, groups, threads: LANES * columns * parts, window_bytes: None })
    }

    /// Lays a split over a card: what does not fit is made smaller.
    pub fn lay(
        &self,
        split: RuleSplit,
        numbers: &[u32; VIEW_NUMBERS],
        card: &CardShape,
    ) -> SplitShape {
        let threads = split.threads.min(self.threads_max);
        let parts = split.parts.min(threads / LANES);
        let groups = if card.has_clusters { split.groups } else { 1 };
        let keys_per_block = self.lanes_of_keys() * (threads / LANES / parts);
        let blocks_per_multiprocessor = self.threads_max / threads;
        // Each block its share, without what keys and findings take.
        let share = card.shared_bytes / blocks_per_multiprocessor;
        let queue_bytes = if self.window.is_some() { threads * QUEUE_THREAD_BYTES } else { 0 };
        let fixed_bytes = keys_per_block * (self.key_words + 1) * 4 + QUEUE_BYTES + queue_bytes;
        let room = share.saturating_sub(RESERVED_BYTES + fixed_bytes);
        let units = self.units(numbers).div_ceil(groups).max(1);
        let unit_bytes = self.unit_words * 4;
        // With a window, units leave it half of the room at least.
        let units_room = if self.window.is_some() { room / 2 } else { room };
        let staged = units.min(units_room / unit_bytes).max(1);
        let left = room.saturating_sub(staged * unit_bytes);
        let left = split.window_bytes.map_or(left, |bytes| bytes.min(left));
        let all = self.window.map_or(0, |(from, to, each)| {
            (numbers[to].saturating_sub(numbers[from])) as usize / each
        });
        // A group's words are its share, some more if tables differ in size.
        let wanted = if groups == 1 { all } else { all / groups + all / (2 * groups) };
        let window_words = (wanted.next_multiple_of(4)).min(left / 16 * 4);
        let shared_bytes = fixed_bytes + staged * unit_bytes + window_words * 4;
        SplitShape {
            parts,
            groups,
            threads,
            staged,
            window_words,
            shared_bytes,
            keys_per_block,
            blocks_per_multiprocessor,
        }
    }
}

/// The largest power of two that is not above `number`, which is not 0.
fn floor_power_of_two(number: usize) -> usize {
    1 << number.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::HEADERS;

    const CARD: CardShape =
        CardShape { multiprocessors: 132, shared_bytes: 227 << 10, has_clusters: true };
    const SHORT: KernelShape =
        KernelShape { words: 4, ports_word: 2, compact: false, packed: false };

    /// Numbers of an image of tables with so many slots, or of rows.
    fn numbers(units: usize, slots: usize) -> [u32; VIEW_NUMBERS] {
        let mut numbers = [0; VIEW_NUMBERS];
        (numbers[abi::TABLES], numbers[abi::RULES]) = (units as u32, units as u32);
        numbers[abi::FILTERS] = 1000;
        numbers[abi::SLOTS] = 1000 + slots as u32;
        numbers[abi::ENTRIES] = 1000 + 3 * slots as u32;
        numbers
    }

    #[test]
    fn batches_of_no_key_and_of_many_are_not_divided() {
        for algorithm in [Algorithm::Linear, Algorithm::Tuple, Algorithm::Bloom] {
            let divisible = Divisible::of(algorithm, &SHORT).expect("its kernel divides rules");
            let is_divided = |count| divisible.choose(&numbers(500, 1000), count, &CARD).is_some();
            assert_eq!([0, 1, KEYS_MAX, KEYS_MAX + 1].map(is_divided), [false, true, true, false]);
        }
    }

    #[test]
    fn choices_are_read_as_they_are_printed() {
        for text in ["auto", "never", "32x1/1024", "2x8/64", "16x3/512@12288"] {
            assert_eq!(
                text.parse::<SplitChoice>().map(|choice| choice.to_string()),
                Ok(text.into())
            );
        }
        for text in
            ["", "32", "32x1", "32x1/1000", "1x1/64", "4x1/64", "3x1/512", "2x9/64", "2x0/64"]
        {
            assert!(text.parse::<SplitChoice>().unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn small_batches_get_all_multiprocessors() {
        let divisible = Divisible::of(Algorithm::Tuple, &SHORT).unwrap();
        let choose = |units, count| {
            let split = divisible.choose(&numbers(units, 3000), count, &CARD);
            split.map(|split| (split.parts, split.groups, split.threads))
        };
        assert_eq!(choose(245, 8192), Some((32, 1, 1024)));
        assert_eq!(choose(245, 65_536), Some((4, 1, 1024)));
        assert_eq!(choose(245, 16_384), Some((16, 1, 1024)));
        assert_eq!(choose(20, 8192), Some((16, 1, 512)));
        assert_eq!(choose(4, 8192), Some((4, 1, 128)));
        // Four blocks of keys alone would leave the card idle.
        assert_eq!(choose(4096, 256), Some((32, 8, 1024)));
        assert_eq!(choose(245, 256), Some((32, 1, 1024)));
        assert_eq!((choose(3, 8192), choose(245, 65_537)), (None, None));
        let old = CardShape { has_clusters: false, ..CARD };
        let split = divisible.choose(&numbers(4096, 3000), 256, &old).unwrap();
        assert_eq!(split.groups, 1);
    }

    #[test]
    fn shapes_fit_the_card() {
        for words in [4, 10, 16] {
            let shape = KernelShape { words, ..SHORT };
            for algorithm in Algorithm::ALL {
                let Some(divisible) = Divisible::of(algorithm, &shape) else { continue };
                for (units, slots) in [(0, 0), (1, 8), (245, 3000), (5000, 200_000)] {
                    for parts in [2, 8, 32] {
                        for threads in [64, 256, 1024] {
                            let split = RuleSplit { parts, groups: 4, threads, window_bytes: None };
                            let numbers = numbers(units, slots);
                            let laid = divisible.lay(split, &numbers, &CARD);
                            let blocks = laid.blocks_per_multiprocessor;
                            assert!(laid.shared_bytes * blocks <= CARD.shared_bytes, "{laid:?}");
                            assert!(laid.parts >= divisible.keys_per_thread, "{laid:?}");
                            assert_eq!((laid.threads / LANES) % laid.parts, 0, "{laid:?}");
                            assert!(laid.keys_per_block <= laid.threads, "{laid:?}");
                            assert!(laid.staged > 0 && laid.window_words % 4 == 0, "{laid:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_whole_of_a_small_image_is_in_the_window() {
        for algorithm in [Algorithm::Tuple, Algorithm::Bloom] {
            let divisible = Divisible::of(algorithm, &SHORT).unwrap();
            let lay = |window_bytes| {
                let split = RuleSplit { parts: 32, groups: 1, threads: 1024, window_bytes };
                divisible.lay(split, &numbers(245, 3000), &CARD)
            };
            let laid = lay(None);
            assert_eq!((laid.staged, laid.window_words), (245, 3000));
            assert_eq!((lay(Some(2048)).window_words, lay(Some(0)).window_words), (512, 0));
        }
    }

    /// The widths of the headers, which only a compiler reads.
    #[test]
    fn the_headers_have_the_numbers_of_the_host() {
        let text = |name: &str| HEADERS.iter().find(|(known, _)| *known == name).unwrap().1;
        let keys = "#define WS_KEYS (WS_WORDS <= 10 ? 2 : 1)";
        for (name, round) in [("warpswitch/stage_rows.cuh", 32), ("warpswitch/stage_tables.cuh", 8)]
        {
            let header = text(name);
            assert!(header.contains(keys), "{name}");
            assert!(header.contains(&format!("#define WS_ROUND {round}\n")), "{name}");
            let items = if round == 8 { QUEUE_THREAD_BYTES / 8 } else { 0 };
            assert!(header.contains(&format!("#define WS_ITEMS_PER_THREAD {items}\n")), "{name}");
        }
        let threads = "#define WS_SPLIT_THREADS (WS_WORDS == 4 ? 1024 : 512)";
        assert!(text("warpswitch/split.cuh").contains(threads));
    }
}
