//! Loss, duplicates and reordering of numbered frames, per flow, in bounded memory.
//!
//! Each flow has a window of bits, one for each of the latest numbers. A frame is *reordered* if
//! its number is below that of a frame before it (RFC 4737, type-P-reordered), and a *duplicate*
//! if the bit of its number is set. Numbers below the window are reordered: duplicates among them
//! cannot be recognized.

/// Words of all windows, unless there are very many flows.
const WORDS: usize = 1 << 20;
/// Words of the window of one flow.
const FLOW_WORDS_MAX: usize = 1024;
const FLOW_WORDS_MIN: usize = 4;
/// Numbers of 32 bits are extended to 64; the first is beyond the largest step back.
const BASE: u64 = 1 << 32;

/// Counters of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Frames, each once.
    pub received: u64,
    /// Further copies of frames.
    pub duplicates: u64,
    /// Frames behind one with a larger number.
    pub reordered: u64,
}

/// What a recorded frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first with its number.
    First,
    /// A further copy.
    Duplicate,
    /// Of a flow that does not exist.
    NoFlow,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    /// The first number, and the one after the largest, extended.
    first: u64,
    next: u64,
    counts: FlowCounts,
}

/// See the module.
#[derive(Debug)]
pub struct Tracker {
    flows: Vec<Flow>,
    windows: Vec<u64>,
    flow_words: usize,
    first_sequence: Option<u32>,
}

impl Tracker {
    /// A tracker of `flows` flows. They start with number `first_sequence`, or with that of the
    /// first frame received.
    pub fn new(flows: u32, first_sequence: Option<u32>) -> Self {
        let flows = flows as usize;
        let flow_words = (WORDS / flows.max(1)).clamp(FLOW_WORDS_MIN, FLOW_WORDS_MAX);
        let first = BASE + u64::from(first_sequence.unwrap_or(0));
        let flow = Flow { first, next: first, counts: FlowCounts::default() };
        let windows = vec![0; flows * flow_words];
        Self { flows: vec![flow; flows], windows, flow_words, first_sequence }
    }

    /// Records a frame.
    pub fn record(&mut self, flow: u32, sequence: u32) -> Arrival {
        let start = flow as usize * self.flow_words;
        let Some(state) = self.flows.get_mut(flow as usize) else { return Arrival::NoFlow };
        let window = &mut self.windows[start..start + self.flow_words];
        if self.first_sequence.is_none() && state.counts == FlowCounts::default() {
            (state.first, state.next) = (BASE + u64::from(sequence), BASE + u64::from(sequence));
        }
        let step = sequence.wrapping_sub(state.next as u32) as i32;
        let number = state.next.wrapping_add_signed(i64::from(step));
        if step >= 0 {
            clear(window, state.next, number);
            state.next = number + 1;
        } else if state.next - number > window.len() as u64 * 64 {
            state.counts.received += 1;
            state.counts.reordered += 1;
            return Arrival::First;
        } else if is_set(window, number) {
            state.counts.duplicates += 1;
            return Arrival::Duplicate;
        } else {
            state.counts.reordered += 1;
        }
        state.counts.received += 1;
        set(window, number);
        Arrival::First
    }

    /// Counters of each flow.
    pub fn counts(&self) -> impl Iterator<Item = FlowCounts> {
        self.flows.iter().map(|flow| flow.counts)
    }

    /// Numbers of each flow that are missing below the largest received one.
    pub fn gaps(&self) -> impl Iterator<Item = u64> {
        self.flows.iter().map(|flow| (flow.next - flow.first).saturating_sub(flow.counts.received))
    }
}

fn place(window: &[u64], number: u64) -> (usize, u64) {
    ((number / 64) as usize % window.len(), 1 << (number % 64))
}

fn is_set(window: &[u64], number: u64) -> bool {
    let (word, bit) = place(window, number);
    window[word] & bit != 0
}

fn set(window: &mut [u64], number: u64) {
    let (word, bit) = place(window, number);
    window[word] |= bit;
}

/// Clears the bits of `from..=to`, numbers that enter the window.
fn clear(window: &mut [u64], from: u64, to: u64) {
    if to - from >= window.len() as u64 * 64 {
        window.fill(0);
        return;
    }
    for number in from..=to {
        let (word, bit) = place(window, number);
        window[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records numbers of one flow; checks received, duplicates, reordered and gaps.
    fn check(first: Option<u32>, sequences: &[u32], expected: [u64; 4]) {
        let mut tracker = Tracker::new(2, first);
        for &sequence in sequences {
            assert_ne!(tracker.record(1, sequence), Arrival::NoFlow);
        }
        let counts = tracker.counts().nth(1).unwrap();
        let gaps = tracker.gaps().nth(1).unwrap();
        let found = [counts.received, counts.duplicates, counts.reordered, gaps];
        assert_eq!(found, expected, "{sequences:?}");
        assert_eq!(tracker.counts().next(), Some(FlowCounts::default()));
        assert_eq!(tracker.record(2, 0), Arrival::NoFlow);
    }

    #[test]
    fn counts_gaps_duplicates_and_reordering() {
        check(Some(0), &[0, 1, 2], [3, 0, 0, 0]);
        check(Some(0), &[0, 2], [2, 0, 0, 1]);
        check(Some(0), &[1], [1, 0, 0, 1]);
        check(Some(0), &[0, 2, 1], [3, 0, 1, 0]);
        check(Some(0), &[0, 0, 1, 1, 0], [2, 3, 0, 0]);
        check(Some(0), &[3, 2, 1, 0, 2], [4, 1, 3, 0]);
        check(None, &[7, 8, 10], [3, 0, 0, 1]);
    }

    #[test]
    fn numbers_wrap() {
        let last = u32::MAX;
        check(Some(last - 1), &[last - 1, last, 0, 1], [4, 0, 0, 0]);
        check(Some(last), &[last, 1, 0, 0, last], [3, 2, 1, 0]);
        check(Some(last - 1), &[0], [1, 0, 0, 2]);
    }

    #[test]
    fn numbers_below_the_window_are_reordered() {
        let window = FLOW_WORDS_MAX as u32 * 64;
        check(Some(0), &[window + 5, 0, 6], [3, 0, 2, u64::from(window) + 3]);
        check(Some(0), &[0, window, 0], [3, 0, 1, u64::from(window) - 2]);
        check(Some(0), &[0, window - 1, 0], [2, 1, 0, u64::from(window) - 2]);
    }
}
