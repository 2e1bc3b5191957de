//! Verdict and packet count of each rule, in one word per rule.
//!
//! ```text
//! word of a rule   verdict │ packets since counts were taken last
//! ```
//! Each packet reads and writes the word of its rule, and nothing else. The words of ten thousand
//! rules take 40 KB, which stay in the cache beside the data of the engine. 64-bit counts are
//! stored separately; the counts of the words are added to them before any word could overflow.
//!
//! # Invariants
//! - V1: words have counted `WORD_MAX - left` packets together, so none has counted more.

use warpswitch_rules::RuleId;

/// The fate of packets: an output, or a result of [`drop_for`](warpswitch_graph::drop_for).
pub(super) type Verdict = u32;

/// Reasons for drops that have room in a word of their own.
const REASONS_MAX: u32 = 16;

/// See the module. The last verdict is for all numbers that no rule has.
#[derive(Clone, Debug)]
pub(super) struct Verdicts {
    words: Vec<u32>,
    /// What was counted before, by rule.
    counts: Vec<u64>,
    /// Bits of a word that count; those above are the verdict, as a number with a sign.
    count_bits: u32,
    /// Packets that may be counted before counts are taken.
    left: u32,
}

impl Verdicts {
    /// No rules yet; `verdicts` are for any of `outputs` outputs, and `others` for all that no rule
    /// is about.
    pub(super) fn new(outputs: usize, others: Verdict) -> Self {
        let numbers = (outputs as u32).max(REASONS_MAX).next_power_of_two();
        let count_bits = u32::BITS - 1 - numbers.trailing_zeros();
        let mut verdicts = Self { words: Vec::new(), counts: vec![0], count_bits, left: 0 };
        verdicts.words.push(verdicts.word(others));
        verdicts.left = verdicts.word_max();
        verdicts
    }

    /// The most packets that a word counts.
    fn word_max(&self) -> u32 {
        (1 << self.count_bits) - 1
    }

    fn word(&self, verdict: Verdict) -> u32 {
        let word = verdict << self.count_bits;
        assert_eq!(verdict_of(word, self.count_bits), verdict, "an output, or a drop");
        word
    }

    /// Adds a rule behind, and gives its number.
    pub(super) fn push(&mut self, verdict: Verdict) -> usize {
        let rule = self.words.len() - 1;
        self.words.insert(rule, self.word(verdict));
        self.counts.insert(rule, 0);
        rule
    }

    /// Writes the verdict on each of `rules` to `to`, and counts the packets whose index
    /// `is_counted` accepts.
    ///
    /// Cost: a read and a write of four bytes a packet.
    #[inline(always)]
    pub(super) fn judge(
        &mut self,
        rules: &[RuleId],
        to: &mut Vec<Verdict>,
        is_counted: impl Fn(usize) -> bool,
    ) {
        let count_bits = self.count_bits;
        to.clear();
        while to.len() < rules.len() {
            if self.left == 0 {
                self.take_counts();
            }
            let first = to.len();
            let end = rules.len().min(first + self.left as usize);
            self.left -= (end - first) as u32;
            let Some(last) = self.words.len().checked_sub(1) else { return };
            let words = &mut self.words[..];
            to.extend(rules[first..end].iter().zip(first..end).map(|(rule, at)| {
                let word = &mut words[rule.as_usize().min(last)];
                let verdict = verdict_of(*word, count_bits);
                *word += u32::from(is_counted(at));
                verdict
            }));
        }
    }

    /// Moves what words have counted to the counts.
    #[cold]
    #[inline(never)]
    fn take_counts(&mut self) {
        let word_max = self.word_max();
        for (word, count) in self.words.iter_mut().zip(&mut self.counts) {
            *count += u64::from(*word & word_max);
            *word &= !word_max;
        }
        self.left = word_max;
    }

    /// How many packets each rule had, in order.
    pub(super) fn counts(&self) -> impl Iterator<Item = u64> {
        let both = self.words.iter().zip(&self.counts).take(self.words.len() - 1);
        both.map(|(word, count)| count + u64::from(word & self.word_max()))
    }

    /// Counts from 0 on.
    pub(super) fn reset_counts(&mut self) {
        self.take_counts();
        self.counts.fill(0);
    }

    /// Adds the counts of others for the same rules.
    pub(super) fn add_counts(&mut self, counts: impl Iterator<Item = u64>) {
        self.counts.iter_mut().zip(counts).for_each(|(own, count)| *own += count);
    }
}

#[inline(always)]
fn verdict_of(word: u32, count_bits: u32) -> Verdict {
    (word as i32 >> count_bits) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_graph::drop_for;

    /// Against counts of 64 bits, with words that are full soon and late.
    #[test]
    fn verdicts_stay_and_every_packet_is_counted() {
        for (outputs, count_bits) in [(0, 27), (1, 27), (17, 26), (65_536, 15)] {
            let others = drop_for(1);
            let mut verdicts = Verdicts::new(outputs, others);
            assert_eq!(verdicts.count_bits, count_bits);
            let top = outputs.saturating_sub(1) as u32;
            let expected = [0, top, drop_for(0), drop_for(2), drop_for(15), top / 2];
            for (rule, &verdict) in expected.iter().enumerate() {
                assert_eq!(verdicts.push(verdict), rule);
            }
            let (mut counts, mut to) = ([0u64; 6], Vec::new());
            for round in 0..100 {
                // As many as fill a word, all of one rule, among others.
                let len = if round % 10 == 0 { 40_000 } else { round };
                let rule = |at: usize| match (at + round) % 7 {
                    0 => u32::MAX - at as u32,
                    1 => at as u32 % 6,
                    _ => round as u32 % 6,
                };
                let rules: Vec<RuleId> = (0..len).map(|at| RuleId(rule(at))).collect();
                let is_counted = |at: usize| !at.is_multiple_of(3);
                verdicts.judge(&rules, &mut to, is_counted);
                let verdict = |rule: &RuleId| *expected.get(rule.as_usize()).unwrap_or(&others);
                assert!(to.iter().copied().eq(rules.iter().map(verdict)));
                for (at, rule) in rules.iter().enumerate() {
                    if let Some(count) = counts.get_mut(rule.as_usize()) {
                        *count += u64::from(is_counted(at));
                    }
                }
                assert!(verdicts.counts().eq(counts), "{outputs} outputs, round {round}");
                if round == 50 {
                    verdicts.reset_counts();
                    counts = [0; 6];
                }
            }
            verdicts.add_counts([1; 6].into_iter());
            assert!(verdicts.counts().eq(counts.map(|count| count + 1)));
        }
    }

    #[test]
    #[should_panic(expected = "an output, or a drop")]
    fn outputs_that_have_no_room_are_told() {
        Verdicts::new(16, 0).push(16);
    }
}
