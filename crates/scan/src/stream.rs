//! Occurrences across the segments of a flow.
//!
//! A flow keeps its last bytes, one fewer than the longest pattern has: whatever ends in the next
//! segment begins there or in these. They are put before the segment and searched with it, and what
//! ends among them is left out, for it was told before.
//!
//! # Why bytes and not the automaton's state
//! A state takes 8 bytes a flow, but only an automaton that reads every byte knows it, and the
//! filter is faster by far more than searching some hundred bytes twice costs. The bytes also serve
//! whoever looks at what was found, and outlive a change of patterns.

use crate::matches::Matches;
use crate::scanner::{Scanner, Scratch};

/// What one direction of a flow leaves behind: at most as many bytes as the longest pattern has,
/// less one.
#[derive(Clone, Debug, Default)]
pub struct Carry {
    bytes: Vec<u8>,
}

impl Carry {
    /// A flow that has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins anew, as where bytes are missing: nothing is found across the gap.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes that are kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Scanner {
    /// Finds all occurrences that end in the next segment of a flow, wherever they begin. With each
    /// segment given once and in order, that is what [`scan`](Self::scan) finds in all of them as
    /// one payload.
    ///
    /// Shapes: `out` has one list, as from `scan`; ends count from the start of `segment`, and an
    /// occurrence that is longer than its end began in a segment before. The bound of a list is for
    /// a segment.
    ///
    /// # Panics
    /// If the segment has more than 2^29 bytes: a caller bug.
    pub fn scan_next(
        &self,
        carry: &mut Carry,
        segment: &[u8],
        scratch: &mut Scratch,
        out: &mut Matches,
    ) {
        let mut joined = std::mem::take(&mut scratch.joined);
        joined.clear();
        joined.extend_from_slice(&carry.bytes);
        joined.extend_from_slice(segment);
        self.scan_behind(&[&joined], carry.bytes.len(), scratch, out);
        let kept = self.longest_bytes().saturating_sub(1).min(joined.len());
        carry.bytes.clear();
        carry.bytes.extend_from_slice(&joined[joined.len() - kept..]);
        scratch.joined = joined;
    }
}
