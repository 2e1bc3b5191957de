//! The scanner: batches of payloads in; lists, sets or first occurrences out.

use crate::automaton::{Automaton, WalkScratch};
use crate::collect::{All, Collect, First, Order, Seen, Set};
use crate::engine::Engine;
use crate::filter::{Filter, FilterScratch};
use crate::matches::{Match, Matches, PatternSets};
use crate::pattern::Patterns;

/// The most bytes of a payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// How a scanner is to be.
#[derive(Clone, Copy, Debug)]
pub struct ScanOptions {
    /// The most occurrences of a payload that are listed, or patterns of a set. Those that end
    /// first are kept; at one end, those of the lowest numbers.
    pub matches_max: usize,
    /// What searches.
    pub engine: Engine,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { matches_max: 1 << 16, engine: Engine::fastest() }
    }
}

/// Finds the patterns of a list in payloads.
///
/// Threads: `&self`, any number of them, each with a [`Scratch`] of its own.
#[derive(Clone, Debug)]
pub struct Scanner {
    automaton: Automaton,
    /// Nothing where the automaton is all that is wanted.
    filter: Option<Filter>,
    options: ScanOptions,
    patterns: usize,
    longest_bytes: usize,
}

/// Memory of scans. It grows to what they need, and they allocate nothing more then.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    search: SearchScratch,
    seen: Seen,
    order: Order,
    /// What a flow left behind and its next segment, in one piece.
    pub(crate) joined: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct SearchScratch {
    walk: WalkScratch,
    filter: FilterScratch,
}

impl Scratch {
    /// Memory for scans with any scanner, one after the other.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Scanner {
    /// Builds a scanner for a list; later changes of the list do not concern it.
    pub fn build(patterns: &Patterns, options: &ScanOptions) -> Self {
        Self {
            automaton: Automaton::new(patterns),
            filter: options.engine.0.map(|_| Filter::new(patterns)),
            options: *options,
            patterns: patterns.len(),
            longest_bytes: patterns.longest_bytes(),
        }
    }

    /// What searches.
    pub fn engine(&self) -> Engine {
        self.options.engine
    }

    /// The most occurrences of a list, or patterns of a set.
    pub fn matches_max(&self) -> usize {
        self.options.matches_max
    }

    /// Bytes of memory: the filter's, which scans read, and the automaton's, which they read where
    /// the filter gives up.
    pub fn bytes(&self) -> usize {
        self.automaton.bytes() + self.filter.as_ref().map_or(0, Filter::bytes)
    }

    /// Bytes of the longest pattern, 0 if there is none.
    pub fn longest_bytes(&self) -> usize {
        self.longest_bytes
    }

    /// Finds all occurrences, overlapping ones too.
    ///
    /// Shapes: `out` has a list for each of `payloads`, ordered by end, at one end by number. No
    /// list is longer than [`ScanOptions::matches_max`]; one that would be is cut, and says so.
    ///
    /// # Panics
    /// If a payload has more than 2^30 bytes: a caller bug.
    pub fn scan(&self, payloads: &[&[u8]], scratch: &mut Scratch, out: &mut Matches) {
        self.scan_behind(payloads, 0, scratch, out);
    }

    /// As [`scan`](Self::scan), but only occurrences that end behind `from`, and ends count from
    /// there.
    pub(crate) fn scan_behind(
        &self,
        payloads: &[&[u8]],
        from: usize,
        scratch: &mut Scratch,
        out: &mut Matches,
    ) {
        out.clear();
        let max = self.options.matches_max;
        let Scratch { search, order, .. } = scratch;
        let mut all = All { out, max, shift: from as u32, is_cut: false, order };
        self.run(payloads, from, search, &mut all);
    }

    /// Finds which patterns occur in each payload.
    ///
    /// Shapes: `out` has a set for each of `payloads`, by number, at most
    /// [`ScanOptions::matches_max`] patterns in each; one that would have more is cut, says so, and
    /// has those that occur first.
    ///
    /// # Panics
    /// If a payload has more than 2^30 bytes: a caller bug.
    pub fn scan_sets(&self, payloads: &[&[u8]], scratch: &mut Scratch, out: &mut PatternSets) {
        out.clear();
        let Scratch { search, seen, .. } = scratch;
        let mut set = Set::new(out, self.options.matches_max, self.patterns, seen);
        self.run(payloads, 0, search, &mut set);
    }

    /// Finds the occurrence of each payload that ends first; of those that end there, the one of
    /// the lowest number.
    ///
    /// # Panics
    /// If a payload has more than 2^30 bytes: a caller bug.
    pub fn scan_first(
        &self,
        payloads: &[&[u8]],
        scratch: &mut Scratch,
        out: &mut Vec<Option<Match>>,
    ) {
        out.clear();
        self.run(payloads, 0, &mut scratch.search, &mut First { out, best: None });
    }

    fn run<C: Collect>(
        &self,
        mut payloads: &[&[u8]],
        from: usize,
        scratch: &mut SearchScratch,
        collect: &mut C,
    ) {
        for payload in payloads {
            assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a payload of {} bytes", payload.len());
        }
        let SearchScratch { walk, filter: scratch } = scratch;
        let mut by_automaton = |payload: &[u8], collect: &mut C| {
            if C::IS_SET {
                self.automaton.walk_set(payload, from, walk, collect);
            } else {
                self.automaton.walk(payload, from, walk, collect);
            }
        };
        if let (Some(filter), Some(kernel)) = (&self.filter, self.options.engine.0) {
            while !payloads.is_empty() {
                let (group, rest) = payloads.split_at(Filter::group_len(payloads));
                filter.run(kernel, group, from, scratch, collect, &mut by_automaton);
                payloads = rest;
            }
            return;
        }
        for payload in payloads {
            by_automaton(payload, collect);
            collect.close();
        }
    }
}
