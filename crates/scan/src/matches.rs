//! What scans write: occurrences, and sets of patterns, of many payloads in one piece of memory.

use crate::pattern::PatternId;

/// One occurrence of a pattern in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Match {
    /// Offset behind its last byte, from the start of the payload.
    pub end: u32,
    /// Which pattern.
    pub pattern: PatternId,
}

/// Lists, one for each payload of a batch.
#[derive(Clone, Debug)]
pub struct Lists<T> {
    items: Vec<T>,
    /// Where each payload's list ends, and whether it was cut.
    ends: Vec<(usize, bool)>,
}

/// Occurrences: those of a payload by end, at one end by number of the pattern.
pub type Matches = Lists<Match>;

/// Sets of patterns: those of a payload by number, each once.
pub type PatternSets = Lists<PatternId>;

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Lists<T> {
    /// No lists. A scan clears them before it writes, and keeps their memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Payloads that have a list.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no list.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The list of a payload, by its place in the batch.
    ///
    /// # Panics
    /// If the batch had no such payload.
    pub fn of(&self, payload_idx: usize) -> &[T] {
        let start = if payload_idx == 0 { 0 } else { self.ends[payload_idx - 1].0 };
        &self.items[start..self.ends[payload_idx].0]
    }

    /// Whether a payload had more than the bound, so that its list ends early.
    ///
    /// # Panics
    /// If the batch had no such payload.
    pub fn is_cut(&self, payload_idx: usize) -> bool {
        self.ends[payload_idx].1
    }

    /// The lists of all payloads, one after the other.
    pub fn all(&self) -> &[T] {
        &self.items
    }

    /// Forgets all lists and keeps their memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.ends.clear();
    }

    /// Adds the list of the next payload, found elsewhere: in its order, and whether it was cut.
    pub fn add(&mut self, items: &[T], is_cut: bool)
    where
        T: Copy,
    {
        self.items.extend_from_slice(items);
        self.close(is_cut);
    }

    pub(crate) fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Items of the list that is being written.
    pub(crate) fn open(&mut self) -> &mut [T] {
        let start = self.ends.last().map_or(0, |end| end.0);
        &mut self.items[start..]
    }

    pub(crate) fn open_len(&self) -> usize {
        self.items.len() - self.ends.last().map_or(0, |end| end.0)
    }

    /// Forgets the list that is being written.
    pub(crate) fn reopen(&mut self) {
        self.items.truncate(self.ends.last().map_or(0, |end| end.0));
    }

    /// Ends the list that is being written.
    pub(crate) fn close(&mut self, is_cut: bool) {
        self.ends.push((self.items.len(), is_cut));
    }
}
