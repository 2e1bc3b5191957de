//! What becomes of occurrences: a list, a set, the first one.
//!
//! An automaton gives occurrences in order, a filter does not. A collector takes both and makes the
//! same of them; where there are more than its bound, it says so, and is given the payload again in
//! order, so that what is kept does not hang on who looked.

use crate::automaton::Sink;
use crate::matches::{Match, Matches, PatternSets};
use crate::pattern::PatternId;

/// What a scan makes of a payload's occurrences.
pub(crate) trait Collect: Sink {
    /// Whether only the first end of each pattern matters.
    const IS_SET: bool;

    /// Takes an occurrence out of order; `false` if the bound is passed.
    fn offer(&mut self, end: u32, pattern: PatternId) -> bool;

    /// Ends a payload; `in_order` is whether all was taken in order.
    fn close(&mut self, in_order: bool);
}

/// All occurrences.
pub(crate) struct All<'a> {
    pub out: &'a mut Matches,
    pub max: usize,
    /// What is taken from each end.
    pub shift: u32,
    pub is_cut: bool,
}

impl Sink for All<'_> {
    fn take(&mut self, end: u32, pattern: PatternId) -> bool {
        self.offer(end, pattern)
    }
}

impl Collect for All<'_> {
    const IS_SET: bool = false;

    fn offer(&mut self, end: u32, pattern: PatternId) -> bool {
        if self.out.open_len() == self.max {
            self.is_cut = true;
            return false;
        }
        self.out.push(Match { end: end - self.shift, pattern });
        true
    }

    fn close(&mut self, in_order: bool) {
        let open = self.out.open();
        if !in_order && !open.is_sorted() {
            open.sort_unstable();
        }
        self.out.close(self.is_cut);
        self.is_cut = false;
    }
}

/// Which patterns were seen in the payload at hand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    payload_of: Vec<u32>,
    payload: u32,
}

impl Seen {
    /// Begins a payload; none of `patterns` was seen in it.
    fn start(&mut self, patterns: usize) {
        self.payload = self.payload.wrapping_add(1);
        if self.payload_of.len() != patterns || self.payload == 0 {
            self.payload_of.clear();
            self.payload_of.resize(patterns, 0);
            self.payload = 1;
        }
    }

    /// Marks a pattern; `false` if it was.
    fn mark(&mut self, pattern: PatternId) -> bool {
        let mark = &mut self.payload_of[pattern.0 as usize];
        let is_new = *mark != self.payload;
        *mark = self.payload;
        is_new
    }
}

/// Each pattern once.
pub(crate) struct Set<'a> {
    out: &'a mut PatternSets,
    max: usize,
    patterns: usize,
    seen: &'a mut Seen,
    is_cut: bool,
}

impl<'a> Set<'a> {
    pub(crate) fn new(
        out: &'a mut PatternSets,
        max: usize,
        patterns: usize,
        seen: &'a mut Seen,
    ) -> Self {
        seen.start(patterns);
        Self { out, max, patterns, seen, is_cut: false }
    }
}

impl Sink for Set<'_> {
    fn take(&mut self, end: u32, pattern: PatternId) -> bool {
        self.offer(end, pattern)
    }
}

impl Collect for Set<'_> {
    const IS_SET: bool = true;

    fn offer(&mut self, _: u32, pattern: PatternId) -> bool {
        if !self.seen.mark(pattern) {
            return true;
        }
        if self.out.open_len() == self.max {
            self.is_cut = true;
            return false;
        }
        self.out.push(pattern);
        true
    }

    fn close(&mut self, _: bool) {
        self.out.open().sort_unstable();
        self.out.close(self.is_cut);
        self.is_cut = false;
        self.seen.start(self.patterns);
    }
}

/// The occurrence that ends first; of those, that of the lowest number.
pub(crate) struct First<'a> {
    pub out: &'a mut Vec<Option<Match>>,
    pub best: Option<Match>,
}

impl Sink for First<'_> {
    fn take(&mut self, end: u32, pattern: PatternId) -> bool {
        self.best = Some(Match { end, pattern });
        false
    }
}

impl Collect for First<'_> {
    const IS_SET: bool = false;

    fn offer(&mut self, end: u32, pattern: PatternId) -> bool {
        let found = Match { end, pattern };
        self.best = Some(self.best.map_or(found, |best| best.min(found)));
        true
    }

    fn close(&mut self, _: bool) {
        self.out.push(self.best.take());
    }
}
