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

    /// Forgets what was taken of this payload.
    fn restart(&mut self);

    /// Ends a payload.
    fn close(&mut self);
}

/// All occurrences.
pub(crate) struct All<'a> {
    pub out: &'a mut Matches,
    pub max: usize,
    /// What is taken from each end.
    pub shift: u32,
    pub is_cut: bool,
    pub order: &'a mut Order,
}

/// What brings the occurrences of a payload into order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// Whether those of the payload at hand are not in order.
    is_broken: bool,
    /// For each end, how many occurrences have it; then where they go.
    places: Vec<u32>,
    moved: Vec<Match>,
}

/// Fewer occurrences are sorted by comparing.
const COUNTED_MIN: usize = 64;

/// Those of longer payloads too, if there are fewer than one for so many bytes.
const BYTES_PER_MATCH: usize = 8;

impl Order {
    /// Puts occurrences in order. Where a payload is full of them, they are counted by end, which
    /// takes a step for each byte and two for each occurrence.
    fn mend(&mut self, open: &mut [Match]) {
        let last = open.iter().map(|found| found.end as usize).max().unwrap_or(0);
        if open.len() < COUNTED_MIN || open.len() * BYTES_PER_MATCH < last {
            open.sort_unstable();
            return;
        }
        self.places.clear();
        self.places.resize(last + 1, 0);
        self.moved.clear();
        self.moved.extend_from_slice(open);
        for found in &self.moved {
            self.places[found.end as usize] += 1;
        }
        let mut sum = 0;
        for place in &mut self.places {
            (sum, *place) = (sum + *place, sum);
        }
        for found in &self.moved {
            let place = &mut self.places[found.end as usize];
            open[*place as usize] = *found;
            *place += 1;
        }
        for same in open.chunk_by_mut(|a, b| a.end == b.end) {
            if same.len() > 1 {
                same.sort_unstable();
            }
        }
    }
}

impl Sink for All<'_> {
    fn take(&mut self, end: u32, pattern: PatternId) -> bool {
        if self.out.open_len() == self.max {
            self.is_cut = true;
            return false;
        }
        self.out.push(Match { end: end - self.shift, pattern });
        true
    }
}

impl Collect for All<'_> {
    const IS_SET: bool = false;

    #[inline]
    fn offer(&mut self, end: u32, pattern: PatternId) -> bool {
        let found = Match { end: end - self.shift, pattern };
        let open = self.out.open();
        if open.len() == self.max {
            self.is_cut = true;
            return false;
        }
        self.order.is_broken |= open.last().is_some_and(|last| *last > found);
        self.out.push(found);
        true
    }

    fn restart(&mut self) {
        self.order.is_broken = false;
        self.is_cut = false;
        self.out.reopen();
    }

    fn close(&mut self) {
        if self.order.is_broken {
            self.order.mend(self.out.open());
            self.order.is_broken = false;
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

    fn restart(&mut self) {
        self.seen.start(self.patterns);
        self.is_cut = false;
        self.out.reopen();
    }

    fn close(&mut self) {
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

    fn restart(&mut self) {
        self.best = None;
    }

    fn close(&mut self) {
        self.out.push(self.best.take());
    }
}
