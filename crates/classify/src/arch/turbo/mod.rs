//! The steps of a walk through a `turbo` structure, each over a list of keys.
//!
//! ```text
//! hash_step   all keys of a batch × one hash table   ─► smalls, others
//! cut_all     all keys of a batch × one cut          ─► smalls, others
//! cut_step    others: larges set aside, cuts taken   ─► smalls, others
//! scan_step   smalls and larges: (leaf, key)         ─► best[key]
//! ```
//! A step has no branch that depends on a key: what a key does not need is not appended. Each step
//! exists as a portable function, which defines the result, and for instruction sets: AVX-512
//! (sixteen keys a hash step, eight or sixteen rules a comparison) and AVX2 with BMI2 (eight
//! rules).
//!
//! # Safety of reading while the writer fills other blocks
//! A vector load of a leaf's last column may run past it into a neighbouring block that the writer
//! is filling. Such lanes are masked off before they are used; whole leaves are only ever written
//! before they are published.

mod portable;
mod scratch;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::atomic::AtomicU32;

use warpswitch_rules::RuleId;

use crate::turbo::rows::RowFormat;

pub(crate) use scratch::{Column, Scratch};
use scratch::{FIRST_GROUPS, List, Visits, part};

/// Keys that are walked together. Long enough that the few steps of a chain, each with its own
/// start-up, cost little; short enough that lists and columns stay in the first-level cache.
pub(crate) const BATCH_LEN_MAX: usize = 256;

/// Words that follow every leaf, of another block or of none: a vector load may reach into them.
pub(crate) const SLACK_WORDS: usize = 64;

/// Leaves of up to so many rules are *small*: they go to a list of their own and take one
/// comparison without a loop. Eight fill a 256-bit vector, whose loads touch fewer lines; where
/// most leaves are larger a structure uses sixteen and 512 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SmallLeaf {
    Rows8,
    Rows16,
}

/// The first reference to a leaf that is not a long one.
const SHORT_FIRST: u32 = 1 << OFFSET_BITS;

impl SmallLeaf {
    /// References to small leaves are less than this above [`SHORT_FIRST`].
    #[inline(always)]
    fn span(self) -> u32 {
        match self {
            SmallLeaf::Rows8 => 8 << OFFSET_BITS,
            SmallLeaf::Rows16 => 16 << OFFSET_BITS,
        }
    }
}

/// Whether a reference leads to a small leaf, given the span of these.
#[inline(always)]
fn is_small(reference: u32, span: u32) -> bool {
    reference.wrapping_sub(SHORT_FIRST) < span
}

/// Marks a reference to a cut; a reference without it is a leaf.
pub(crate) const CUT_FLAG: u32 = 1 << 31;
/// Bits of a reference that are an offset in units of [`UNIT`] words.
pub(crate) const OFFSET_BITS: u32 = 24;
/// Words in a unit.
pub(crate) const UNIT: usize = crate::turbo::arena::UNIT_WORDS;
/// Leaves with this many rules or more have their length in front of their rows.
pub(crate) const LONG_LEAF: usize = 128;

/// Where a reference points: the index of a word.
#[inline(always)]
pub(crate) fn offset(reference: u32) -> usize {
    (reference & ((1 << OFFSET_BITS) - 1)) as usize * UNIT
}

/// The rows of a leaf: the index of their first word, and how many they are. A long one has
/// `header` words in front of them.
#[inline(always)]
pub(crate) fn leaf_rows(words: &[AtomicU32], reference: u32, header: usize) -> (usize, usize) {
    let at = offset(reference);
    match (reference >> OFFSET_BITS) as usize {
        0 => long_leaf_rows(words, at, header),
        short => (at, short),
    }
}

/// The rows of a leaf with its length in front. Such leaves are rare: a branch that is foretold
/// beats a load that all other loads wait for.
#[cold]
fn long_leaf_rows(words: &[AtomicU32], at: usize, header: usize) -> (usize, usize) {
    let rows = words[at].load(std::sync::atomic::Ordering::Relaxed) as usize;
    assert!(rows >= LONG_LEAF && at + rows + SLACK_WORDS <= words.len(), "not a long leaf");
    (at + header, rows)
}

/// The keyed hash of a masked key: multiply and add over its words, then one round to spread.
#[derive(Clone, Debug)]
pub(crate) struct Multipliers {
    pub(crate) words: [u32; 16],
    pub(crate) last: u32,
}

impl Multipliers {
    /// The hash of `key` under `masks`. Its upper bits choose the bucket, [`filter_bit`] the bit.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u32], masks: &[u32]) -> u32 {
        let mut sum = 0u32;
        for ((word, mask), multiplier) in key.iter().zip(masks).zip(&self.words) {
            sum = sum.wrapping_add((word & mask).wrapping_mul(*multiplier));
        }
        (sum ^ sum >> 15).wrapping_mul(self.last)
    }
}

/// Which of a bucket's sixteen filter bits a hash uses.
#[inline(always)]
pub(crate) fn filter_bit(hash: u32) -> u32 {
    hash & 15
}

/// A hash table over the keys under one mask. An entry is two words: a reference, then
/// `filter(16) | order(16)`: which filter bits its rules use, and a lower bound of their order.
#[derive(Clone, Debug)]
pub(crate) struct HashTable {
    /// 1 = hashed; as many words as a key has.
    pub(crate) masks: Vec<u32>,
    /// 32 less the number of index bits.
    pub(crate) shift: u32,
    /// The first entry's word.
    pub(crate) at: usize,
}

/// What steps read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) words: &'a [AtomicU32],
    pub(crate) format: &'a RowFormat,
    pub(crate) multipliers: &'a Multipliers,
    pub(crate) small_leaf: SmallLeaf,
}

/// Where a scan notes what it finds.
#[derive(Debug)]
enum Answers<'a> {
    /// The rule found is the answer, and none found is one too.
    Only(&'a mut [RuleId]),
    /// The rule found is one of several, of which the best is kept.
    Best { best: &'a mut [u64; BATCH_LEN_MAX], one_priority: Option<u32> },
}

/// A cut that all keys of a batch go through.
#[derive(Debug)]
struct All<'a, const W: usize> {
    masks: [u32; W],
    entries: &'a [AtomicU32],
    order_min: u32,
    small_span: u32,
}

impl<'a, const W: usize> All<'a, W> {
    fn new(view: View<'a>, reference: u32, order_min: u32) -> Self {
        let masks = portable::cut_masks::<W>(view.words, offset(reference));
        let entries = &view.words[offset(reference) + W..];
        Self { masks, entries, order_min, small_span: view.small_leaf.span() }
    }
}

/// The steps for one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    /// Whatever the target of the build has.
    Portable,
    /// 256-bit vectors and bit extraction.
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::Avx2),
    /// 512-bit vectors, mask registers and bit extraction.
    #[cfg(target_arch = "x86_64")]
    Avx512(x86_64::Avx512),
}

impl Kernel {
    /// Every kernel that this machine can run, the best last.
    pub(crate) fn available() -> Vec<Self> {
        let mut kernels = vec![Kernel::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(x86_64::Avx2::new().map(Kernel::Avx2));
            kernels.extend(x86_64::Avx512::new().map(Kernel::Avx512));
        }
        kernels
    }

    /// The best kernel that this machine can run.
    pub(crate) fn best() -> Self {
        Self::available().pop().unwrap_or(Kernel::Portable)
    }

    /// Whether leaves in lanes are the faster ones.
    pub(crate) fn prefers_lanes(self) -> bool {
        self.bits() == 512
    }

    /// Width of its vectors in bits; 0 for the portable one.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Kernel::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(_) => 256,
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(_) => 512,
        }
    }

    /// Copies the words of `keys` into columns.
    pub(crate) fn columns<const W: usize>(self, keys: &[[u32; W]], columns: &mut [Column; 16]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(isa) if W == 4 => isa.columns(keys.as_flattened(), columns),
            _ => portable::columns(keys, columns),
        }
    }

    /// Looks every key of the batch up in `table` and appends what it must visit to the lists of
    /// `scratch`: entries whose filter allows the key, and whose order can still beat its best.
    pub(crate) fn hash_step<const W: usize>(
        self,
        view: View<'_>,
        table: &HashTable,
        keys: &[[u32; W]],
        scratch: &mut Scratch,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(isa) => isa.hash_step(view, table, keys.len(), scratch),
            _ => portable::hash_step(view, table, keys, scratch),
        }
    }

    /// Takes every key of the batch through the cut `reference`, unless its best rule so far has an
    /// order below `order_min`.
    pub(crate) fn cut_all<const W: usize>(
        self,
        view: View<'_>,
        (reference, order_min): (u32, u32),
        keys: &[[u32; W]],
        scratch: &mut Scratch,
    ) {
        let all = All::new(view, reference, order_min);
        match self {
            Kernel::Portable => portable::cut_all(&all, keys, scratch),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(isa) => isa.bits().cut_all(&all, keys, scratch),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(isa) => isa.bits().cut_all(&all, keys, scratch),
        }
    }

    /// Follows what a step found down to leaves: sets large leaves aside, takes cuts.
    pub(crate) fn follow<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        scratch: &mut Scratch,
    ) {
        let Scratch { smalls, larges, cuts, others, .. } = scratch;
        while others.len > 0 {
            part(others, larges, cuts);
            match self {
                Kernel::Portable => portable::cut_step(view, keys, cuts, smalls, others),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2(isa) => isa.bits().cut_step(view, keys, cuts, smalls, others),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512(isa) => isa.bits().cut_step(view, keys, cuts, smalls, others),
            }
            cuts.clear();
        }
    }

    /// Compares keys with the rules of the leaves that were found, notes what matches in
    /// `scratch.best`, and empties the lists.
    pub(crate) fn scan_step<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        scratch: &mut Scratch,
    ) {
        let Scratch { smalls, larges, best, .. } = scratch;
        let one_priority = view.format.one_priority();
        self.scan(view, keys, [smalls, larges], Answers::Best { best, one_priority });
    }

    /// The same where every key has one leaf: the rule found there is the answer.
    pub(crate) fn scan_only<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        scratch: &mut Scratch,
        out: &mut [RuleId],
    ) {
        let Scratch { smalls, larges, .. } = scratch;
        self.scan(view, keys, [smalls, larges], Answers::Only(out));
    }

    /// Answers every key, given that all rules are below `reference`, in leaves of lanes.
    pub(crate) fn walk_lanes(
        self,
        view: View<'_>,
        reference: u32,
        keys: &[[u32; 4]],
        scratch: &mut Scratch,
        out: &mut [RuleId],
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Kernel::Avx512(isa) = self {
            return isa.walk_lanes(view, reference, keys, scratch, out);
        }
        if reference & CUT_FLAG != 0 {
            self.cut_all(view, (reference, 0), keys, scratch);
        } else {
            scratch.send_all(view, reference, keys.len());
        }
        self.follow(view, keys, scratch);
        let Scratch { smalls, larges, .. } = scratch;
        for list in [smalls, larges] {
            portable::scan_lanes(view, keys, list, out);
            list.clear();
        }
    }

    fn scan<const W: usize>(
        self,
        view: View<'_>,
        keys: &[[u32; W]],
        [smalls, larges]: [&mut List; 2],
        mut answers: Answers<'_>,
    ) {
        match self {
            Kernel::Portable => {
                portable::scan(view, keys, smalls, &mut answers);
                portable::scan(view, keys, larges, &mut answers);
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(isa) => {
                isa.scan(view, keys, smalls, &mut answers);
                isa.scan(view, keys, larges, &mut answers);
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(isa) => {
                match view.small_leaf {
                    SmallLeaf::Rows8 => isa.scan_small(view, keys, smalls, &mut answers),
                    SmallLeaf::Rows16 => isa.scan_large(view, keys, smalls, &mut answers),
                }
                isa.scan_large(view, keys, larges, &mut answers);
            }
        }
        smalls.clear();
        larges.clear();
    }
}
