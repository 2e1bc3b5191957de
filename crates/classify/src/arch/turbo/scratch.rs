//! What a walk needs beside the structure: lists of keys and where they are led to.

use super::{BATCH_LEN_MAX, CUT_FLAG, View, is_small};

/// References and the keys that follow them.
#[derive(Debug)]
pub(crate) struct List {
    pub(super) references: [u32; 2 * BATCH_LEN_MAX],
    pub(super) keys: [u32; 2 * BATCH_LEN_MAX],
    pub(super) len: usize,
}

impl List {
    pub(super) const fn new() -> Self {
        let zeros = [0; 2 * BATCH_LEN_MAX];
        Self { references: zeros, keys: zeros, len: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Starts appending.
    #[inline(always)]
    pub(super) fn appender(&mut self) -> Appender<'_> {
        Appender { len: self.len, list: self }
    }

    /// Sends every key of `0..keys` to `reference`.
    pub(super) fn fill(&mut self, reference: u32, keys: usize) {
        self.len = keys;
        self.references[..keys].fill(reference);
        for (idx, key) in self.keys[..keys].iter_mut().enumerate() {
            *key = idx as u32;
        }
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let references = self.references[..self.len].iter();
        references.zip(&self.keys[..self.len]).map(|(&reference, &key)| (reference, key as usize))
    }
}

/// Appends to a list; holds the length by value, so that it stays in a register.
#[derive(Debug)]
pub(super) struct Appender<'a> {
    list: &'a mut List,
    pub(super) len: usize,
}

impl Appender<'_> {
    /// Appends the pair if `keep`; without a branch.
    #[inline(always)]
    pub(super) fn push_if(&mut self, keep: bool, reference: u32, key: u32) {
        // A list gets each key of a batch at most once, so this never wraps; the bound is one that
        // the compiler can see.
        let at = self.len % (2 * BATCH_LEN_MAX);
        self.list.references[at] = reference;
        self.list.keys[at] = key;
        self.len += usize::from(keep);
    }
}

impl Drop for Appender<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.list.len = self.len;
    }
}

/// One word of every key of a batch.
pub(crate) type Column = [u32; BATCH_LEN_MAX];

/// Groups of a leaf that every key is compared with: the rule that wins is nearly always among
/// them.
pub(super) const FIRST_GROUPS: usize = 2;

/// A batch of comparisons with leaves in lanes.
#[derive(Debug)]
pub(crate) struct Visits {
    /// Keys that were led to short leaves.
    pub(super) leaves: List,
    /// For each of the first groups, for each key: a byte for each rule, zero if it matches.
    pub(super) bits: [Column; FIRST_GROUPS],
    /// Keys that were led to something else than a short leaf.
    pub(super) others: List,
    /// Keys that match none of the first groups of a leaf that has more.
    pub(super) unsure: List,
}

impl Visits {
    pub(super) const fn new() -> Self {
        Self {
            leaves: List::new(),
            bits: [[0; BATCH_LEN_MAX]; FIRST_GROUPS],
            others: List::new(),
            unsure: List::new(),
        }
    }
}

/// Moves what is in `others` to `larges` or to `cuts`.
pub(super) fn part(others: &mut List, larges: &mut List, cuts: &mut List) {
    {
        let (mut larges, mut cuts) = (larges.appender(), cuts.appender());
        for (reference, idx) in others.pairs() {
            let is_cut = reference & CUT_FLAG != 0;
            larges.push_if(!is_cut, reference, idx as u32);
            cuts.push_if(is_cut, reference, idx as u32);
        }
    }
    others.clear();
}

/// What a walk needs beside the structure: 20 to 30 KB, one for each thread.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// The keys' words, column by column, for hash steps.
    pub(crate) columns: [Column; 16],
    /// Precedence of the best rule so far.
    pub(crate) best: [u64; BATCH_LEN_MAX],
    /// The same, coarsely: see `Order`.
    pub(crate) orders: Column,
    /// Small leaves to be scanned.
    pub(super) smalls: List,
    /// Larger leaves to be scanned.
    pub(super) larges: List,
    /// Cuts to be taken.
    pub(super) cuts: List,
    /// What a step found that is no small leaf.
    pub(super) others: List,
    pub(super) visits: Visits,
}

impl Scratch {
    pub(crate) const fn new() -> Self {
        Self {
            columns: [[0; BATCH_LEN_MAX]; 16],
            best: [0; BATCH_LEN_MAX],
            orders: [0; BATCH_LEN_MAX],
            smalls: List::new(),
            larges: List::new(),
            cuts: List::new(),
            others: List::new(),
            visits: Visits::new(),
        }
    }
}

impl Scratch {
    /// Empties the lists: a walk that panicked may have left something in them.
    pub(crate) fn clear(&mut self) {
        let Self { smalls, larges, cuts, others, visits, .. } = self;
        let Visits { leaves, others: more, unsure, .. } = visits;
        for list in [smalls, larges, cuts, others, leaves, more, unsure] {
            list.clear();
        }
    }

    /// Sends the first `keys` keys to `reference`.
    pub(crate) fn send_all(&mut self, view: View<'_>, reference: u32, keys: usize) {
        let small = is_small(reference, view.small_leaf.span());
        let list = if small { &mut self.smalls } else { &mut self.others };
        list.fill(reference, keys);
    }
}
