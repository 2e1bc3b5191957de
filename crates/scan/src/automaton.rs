//! An automaton that reads each byte once or twice, whatever the patterns and the payload are.
//!
//! ```text
//! trie of all patterns, states numbered level by level:
//!   children of s = first[s]..first[s + 1], their bytes = labels[of the same], one after the other
//!   fail[s]       = the longest proper suffix of s that is a state
//!   out[s]        = s itself if patterns end there, else the next such state along fail; 0 = none
//! ```
//! Two tries are walked side by side: one over bytes as they are, one over folded letters. So no
//! pattern is ever compared again, and ten thousand spellings of a word cost what one does.
//!
//! # Invariants
//! - I1: `fail[s]` and what `out[s]` leads to are nearer to the root than `s`, so chains end.
//! - I2: a state's number is larger than those of all states nearer to the root.
//!
//! # Why not a table of 256 next states
//! It takes 1 KB a state: 180 MB for ten thousand patterns of 18 bytes, against 3 MB here. This one
//! is what bounds a scan that the filter cannot, not what usually runs.
//!
//! # Source
//! Aho, Corasick, "Efficient String Matching: An Aid to Bibliographic Search", CACM 1975. We differ
//! by the numbering, which makes a state's children neighbours.

use crate::pattern::{Case, PatternId, Patterns};

/// What takes the occurrences of a walk. Ends come in ascending order, patterns of one end too.
pub(crate) trait Sink {
    /// Takes one; `false` ends the walk.
    fn take(&mut self, end: u32, pattern: PatternId) -> bool;
}

/// Memory of walks, kept between them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WalkScratch {
    ids: Vec<PatternId>,
    /// For each state of both tries, the last walk that has told what ends there.
    told: Vec<u32>,
    walk: u32,
}

/// All patterns of a list.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    exact: Trie,
    folded: Trie,
}

#[derive(Clone, Debug)]
struct Trie {
    root: Box<[u32; 256]>,
    first: Vec<u32>,
    labels: Vec<u8>,
    fail: Vec<u32>,
    out: Vec<u32>,
    /// The patterns of state `s` are `ids[ids_first[s]..ids_first[s + 1]]`.
    ids_first: Vec<u32>,
    ids: Vec<PatternId>,
}

impl Automaton {
    pub(crate) fn new(patterns: &Patterns) -> Self {
        let of = |case: Case| {
            let chosen = patterns.iter().filter(|(_, pattern)| pattern.case == case);
            chosen.map(|(id, pattern)| (pattern.bytes.to_vec(), id)).collect::<Vec<_>>()
        };
        let exact = of(Case::Sensitive);
        let mut folded = of(Case::Insensitive);
        folded.iter_mut().for_each(|(bytes, _)| bytes.make_ascii_lowercase());
        Self { exact: Trie::new(exact), folded: Trie::new(folded) }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.exact.bytes() + self.folded.bytes()
    }

    /// Gives `sink` all occurrences that end behind `from`.
    ///
    /// Cost: two steps a byte, and one for each occurrence.
    pub(crate) fn walk(
        &self,
        payload: &[u8],
        from: usize,
        scratch: &mut WalkScratch,
        sink: &mut impl Sink,
    ) {
        let (mut exact, mut folded) = (0, 0);
        for (idx, &byte) in payload.iter().enumerate() {
            exact = self.exact.step(exact, byte);
            folded = self.folded.step(folded, byte.to_ascii_lowercase());
            let (a, b) = (self.exact.out[exact as usize], self.folded.out[folded as usize]);
            if a | b == 0 || idx < from {
                continue;
            }
            scratch.ids.clear();
            self.exact.ending(a, &mut scratch.ids);
            self.folded.ending(b, &mut scratch.ids);
            scratch.ids.sort_unstable();
            for &id in &scratch.ids {
                if !sink.take(idx as u32 + 1, id) {
                    return;
                }
            }
        }
    }

    /// As [`walk`](Self::walk), but each pattern only where it ends for the first time.
    ///
    /// Cost: two steps a byte, and one for each pattern that occurs. A state whose patterns were
    /// told has told those of all its suffixes as well, so chains are not walked twice.
    pub(crate) fn walk_set(
        &self,
        payload: &[u8],
        from: usize,
        scratch: &mut WalkScratch,
        sink: &mut impl Sink,
    ) {
        scratch.start(self.exact.fail.len() + self.folded.fail.len());
        let (mut exact, mut folded) = (0, 0);
        for (idx, &byte) in payload.iter().enumerate() {
            exact = self.exact.step(exact, byte);
            folded = self.folded.step(folded, byte.to_ascii_lowercase());
            let (a, b) = (self.exact.out[exact as usize], self.folded.out[folded as usize]);
            if a | b == 0 || idx < from {
                continue;
            }
            let WalkScratch { ids, told, walk } = &mut *scratch;
            let (told_exact, told_folded) = told.split_at_mut(self.exact.fail.len());
            ids.clear();
            self.exact.ending_anew(a, told_exact, *walk, ids);
            self.folded.ending_anew(b, told_folded, *walk, ids);
            ids.sort_unstable();
            for &id in &*ids {
                if !sink.take(idx as u32 + 1, id) {
                    return;
                }
            }
        }
    }
}

impl WalkScratch {
    fn start(&mut self, states: usize) {
        self.walk = self.walk.wrapping_add(1);
        if self.told.len() != states || self.walk == 0 {
            self.told.clear();
            self.told.resize(states, 0);
            self.walk = 1;
        }
    }
}

impl Trie {
    /// Builds the trie of `patterns`, which may hold equal ones.
    fn new(mut patterns: Vec<(Vec<u8>, PatternId)>) -> Self {
        patterns.sort_unstable();
        let mut trie = Self {
            root: Box::new([0; 256]),
            first: vec![1],
            labels: vec![0],
            fail: vec![0],
            out: vec![0],
            ids_first: vec![0],
            ids: Vec::new(),
        };
        // The patterns of each state of a level: a range of the sorted list.
        let mut level = vec![(0, patterns.len())];
        let mut depth = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for (from, to) in level {
                // Those that end here stand first.
                let ends = |(bytes, _): &&(Vec<u8>, PatternId)| bytes.len() == depth;
                let ending = patterns[from..to].iter().take_while(ends);
                trie.ids.extend(ending.map(|(_, id)| *id));
                let told = trie.ids.len() - trie.ids_first[trie.ids_first.len() - 1] as usize;
                trie.ids_first.push(trie.ids.len() as u32);
                let mut start = from + told;
                while start < to {
                    let label = patterns[start].0[depth];
                    let same = |(bytes, _): &(Vec<u8>, PatternId)| bytes[depth] == label;
                    let len = patterns[start..to].partition_point(same);
                    trie.labels.push(label);
                    next.push((start, start + len));
                    start += len;
                }
                trie.first.push(trie.labels.len() as u32);
            }
            level = next;
            depth += 1;
        }
        for child in trie.first[0]..trie.first[1] {
            trie.root[usize::from(trie.labels[child as usize])] = child;
        }
        trie.link();
        trie
    }

    /// Sets `fail` and `out`, level by level.
    fn link(&mut self) {
        let states = self.labels.len();
        self.fail = vec![0; states];
        self.out = vec![0; states];
        for state in 0..states {
            let ends_here = self.ids_first[state] < self.ids_first[state + 1];
            let fail = self.fail[state];
            self.out[state] = if ends_here { state as u32 } else { self.out[fail as usize] };
            if state == 0 {
                continue;
            }
            for child in self.first[state]..self.first[state + 1] {
                self.fail[child as usize] = self.step(fail, self.labels[child as usize]);
            }
        }
    }

    /// The state behind `byte`.
    #[inline]
    fn step(&self, mut state: u32, byte: u8) -> u32 {
        while state != 0 {
            let first = self.first[state as usize] as usize;
            let labels = &self.labels[first..self.first[state as usize + 1] as usize];
            if let Ok(place) = labels.binary_search(&byte) {
                return (first + place) as u32;
            }
            state = self.fail[state as usize];
        }
        self.root[usize::from(byte)]
    }

    fn ids_of(&self, state: u32) -> &[PatternId] {
        let (from, to) = (self.ids_first[state as usize], self.ids_first[state as usize + 1]);
        &self.ids[from as usize..to as usize]
    }

    /// The state whose patterns end where those of `state` do, and are shorter; 0 if there is none.
    fn shorter(&self, state: u32) -> u32 {
        self.out[self.fail[state as usize] as usize]
    }

    /// Adds all patterns that end in a state, `out` being the first that has some.
    fn ending(&self, mut out: u32, ids: &mut Vec<PatternId>) {
        while out != 0 {
            ids.extend_from_slice(self.ids_of(out));
            out = self.shorter(out);
        }
    }

    /// The same, up to the first state that was told in this walk.
    fn ending_anew(&self, mut out: u32, told: &mut [u32], walk: u32, ids: &mut Vec<PatternId>) {
        while out != 0 && told[out as usize] != walk {
            told[out as usize] = walk;
            ids.extend_from_slice(self.ids_of(out));
            out = self.shorter(out);
        }
    }

    fn bytes(&self) -> usize {
        let words = self.first.len() + self.fail.len() + self.out.len() + self.ids_first.len();
        size_of::<[u32; 256]>() + 4 * (words + self.ids.len()) + self.labels.len()
    }
}
