//! Traces of flows whose popularity follows Zipf's law and changes over time.
//!
//! Flow number r by popularity has a share proportional to r^-s. At each shift the flows are ranked
//! anew at random: what was popular is not any more. Shares are computed with integers alone,
//!
//! ```text
//! weight(r) = 2^(24 − s · log2 r)      16 bits behind the point; below 1 it counts as 2^-16
//! ```
//! # Source
//! Traces of routers are skewed this way; the Storm paper measures such traces.

use std::fmt;
use std::str::FromStr;

use super::locality::{POINT, exp2, log2, milli};
use super::prng::Prng;
use crate::key::KeyBuf;

/// The most flows of a trace.
pub const FLOWS_MAX: usize = 1 << 22;

/// The binary logarithm of the first weight.
const FIRST_LOG: i64 = 24;

/// The exponent s of Zipf's law; 0 makes all flows equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Zipf {
    exponent_milli: u32,
}

/// Text that is no exponent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadZipf(String);

impl fmt::Display for BadZipf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "invalid exponent '{text}'; expected 0 to 10 with at most three decimals, such as 1.1"
        )
    }
}

impl std::error::Error for BadZipf {}

impl Zipf {
    /// An exponent in thousandths, at most 10,000.
    pub fn new(exponent_milli: u32) -> Option<Self> {
        (exponent_milli <= 10_000).then_some(Self { exponent_milli })
    }

    /// The weight of the flow of a rank, from 1 on.
    fn weight(self, rank: u64) -> u64 {
        let fall = i64::from(self.exponent_milli) * log2(rank) / 1000;
        let log = (FIRST_LOG << POINT) - fall;
        if log < 0 { 1 } else { exp2(log) }
    }
}

impl FromStr for Zipf {
    type Err = BadZipf;

    /// Reads a decimal number.
    fn from_str(text: &str) -> Result<Self, BadZipf> {
        milli(text).and_then(Self::new).ok_or_else(|| BadZipf(text.to_owned()))
    }
}

/// Names one trace over given flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PopularitySpec {
    /// Number of keys.
    pub keys: usize,
    /// How popularity falls with the rank.
    pub zipf: Zipf,
    /// Keys between two shifts of popularity; none without shifts. At least 1.
    pub keys_per_shift: Option<u64>,
    /// Which of all such traces.
    pub seed: u64,
}

impl PopularitySpec {
    /// The trace over `flows`, a key each.
    ///
    /// # Panics
    /// If there is no flow, or more than [`FLOWS_MAX`]: callers check.
    pub fn generate(&self, flows: KeyBuf) -> PopularTrace {
        assert!((1..=FLOWS_MAX).contains(&flows.len()), "{} flows", flows.len());
        let mut trace = PopularTrace {
            ranks: Ranks::new(self.zipf, flows.len()),
            ranked: (0..flows.len() as u32).collect(),
            flows,
            prng: Prng::new(self.seed),
            keys_left: self.keys,
            shifts: Shifts::new(self.keys_per_shift),
        };
        trace.prng.shuffle(&mut trace.ranked);
        trace
    }
}

/// A trace that is being drawn.
#[derive(Clone, Debug)]
pub struct PopularTrace {
    flows: KeyBuf,
    ranks: Ranks,
    /// The flow of each rank.
    ranked: Vec<u32>,
    prng: Prng,
    keys_left: usize,
    shifts: Shifts,
}

impl PopularTrace {
    /// Keys still to come.
    pub fn keys_left(&self) -> usize {
        self.keys_left
    }

    /// Appends at most `keys_max` keys to `keys` and returns how many; 0 is the end.
    ///
    /// # Panics
    /// If `keys` is of another schema: a caller bug.
    pub fn fill(&mut self, keys: &mut KeyBuf, keys_max: usize) -> usize {
        assert_eq!(keys.schema(), self.flows.schema(), "keys of another schema");
        let count = keys_max.min(self.keys_left);
        self.keys_left -= count;
        for _ in 0..count {
            if self.shifts.is_due() {
                self.prng.shuffle(&mut self.ranked);
            }
            let rank = self.ranks.draw(&mut self.prng);
            keys.push(self.flows.as_batch().key(self.ranked[rank] as usize));
        }
        count
    }
}

/// Shares by Zipf's law, ready to draw from. Ranks count from 0 here.
#[derive(Clone, Debug)]
pub(super) struct Ranks {
    /// Sums of the weights up to each rank.
    ends: Vec<u64>,
}

impl Ranks {
    /// Ranks below `len`, at least 1.
    pub fn new(zipf: Zipf, len: usize) -> Self {
        let sums = (1..=len as u64).scan(0, |sum, rank| {
            *sum += zipf.weight(rank);
            Some(*sum)
        });
        Self { ends: sums.collect() }
    }

    /// A rank, drawn by the shares.
    pub fn draw(&self, prng: &mut Prng) -> usize {
        let at = prng.below(self.ends[self.ends.len() - 1]);
        self.ends.partition_point(|&end| end <= at)
    }

    /// The part of `whole` that falls to a rank, rounded down.
    pub fn part(&self, rank: usize, whole: u64) -> u64 {
        let start = rank.checked_sub(1).map_or(0, |before| self.ends[before]);
        let weight = u128::from(self.ends[rank] - start);
        let sum = u128::from(self.ends[self.ends.len() - 1]);
        u64::try_from(weight * u128::from(whole) / sum).unwrap_or(u64::MAX)
    }
}

/// Counts keys up to the next shift.
#[derive(Clone, Debug)]
pub(super) struct Shifts {
    keys_per_shift: Option<u64>,
    keys_left: u64,
}

impl Shifts {
    pub fn new(keys_per_shift: Option<u64>) -> Self {
        Self { keys_per_shift, keys_left: keys_per_shift.unwrap_or(0) }
    }

    /// Counts one key; whether a shift comes before it.
    pub fn is_due(&mut self) -> bool {
        let Some(keys_per_shift) = self.keys_per_shift else { return false };
        let is_due = self.keys_left == 0;
        if is_due {
            self.keys_left = keys_per_shift;
        }
        self.keys_left = self.keys_left.saturating_sub(1);
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::schema::IPV4_5TUPLE;

    fn flows(count: u32) -> KeyBuf {
        let mut flows = KeyBuf::new(&IPV4_5TUPLE);
        (0..count).for_each(|n| flows.push(&[n, 1, 2, 3]));
        flows
    }

    fn drawn(spec: &PopularitySpec, count: u32, batch: usize) -> Vec<u32> {
        let mut trace = spec.generate(flows(count));
        let mut keys = KeyBuf::new(&IPV4_5TUPLE);
        while trace.fill(&mut keys, batch) > 0 {}
        assert_eq!((keys.len(), trace.keys_left()), (spec.keys, 0));
        keys.as_batch().iter().map(|key| key[0]).collect()
    }

    /// Shares of the flows in thousandths, the most popular first, and which flow that is.
    fn shares(keys: &[u32]) -> (Vec<usize>, u32) {
        let mut counts: HashMap<u32, usize> = HashMap::new();
        keys.iter().for_each(|key| *counts.entry(*key).or_insert(0) += 1);
        let first = counts.iter().max_by_key(|(_, count)| **count).map_or(0, |(key, _)| *key);
        let mut counts: Vec<usize> =
            counts.into_values().map(|count| count * 1000 / keys.len()).collect();
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        (counts, first)
    }

    fn spec(exponent_milli: u32, keys_per_shift: Option<u64>) -> PopularitySpec {
        let zipf = Zipf::new(exponent_milli).unwrap();
        PopularitySpec { keys: 40_000, zipf, keys_per_shift, seed: 4 }
    }

    #[test]
    fn shares_follow_the_law() {
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        let (found, _) = shares(&drawn(&spec(1000, None), 100, 999));
        for rank in [1, 2, 4] {
            let expected = 1000.0 / harmonic / f64::from(rank);
            let share = found[rank as usize - 1] as f64;
            assert!((share - expected).abs() < 15.0, "rank {rank}: {share}, {expected}");
        }
        let (even, _) = shares(&drawn(&spec(0, None), 10, 999));
        assert!(even.iter().all(|share| (90..110).contains(share)), "{even:?}");
        let (steep, _) = shares(&drawn(&spec(10_000, None), 1000, 999));
        assert!(steep[0] > 990, "{}", steep[0]);
    }

    #[test]
    fn a_shift_ranks_the_flows_anew() {
        let keys = drawn(&spec(1500, Some(10_000)), 1000, 777);
        let parts: Vec<(usize, u32)> =
            keys.chunks(10_000).map(shares).map(|(shares, first)| (shares[0], first)).collect();
        assert!(parts.iter().all(|(share, _)| (300..450).contains(share)), "{parts:?}");
        assert!(parts.windows(2).all(|pair| pair[0].1 != pair[1].1), "{parts:?}");
        let still = drawn(&spec(1500, None), 1000, 777);
        let firsts: Vec<u32> = still.chunks(10_000).map(|keys| shares(keys).1).collect();
        assert!(firsts.windows(2).all(|pair| pair[0] == pair[1]), "{firsts:?}");
    }

    #[test]
    fn batches_do_not_change_a_trace_and_seeds_do() {
        let spec = spec(1100, Some(333));
        assert_eq!(drawn(&spec, 50, 1), drawn(&spec, 50, 4096));
        assert_ne!(drawn(&spec, 50, 1), drawn(&PopularitySpec { seed: 5, ..spec }, 50, 1));
    }

    #[test]
    fn reads_exponents_and_rejects_other_texts() {
        assert_eq!("1.1".parse(), Ok(Zipf { exponent_milli: 1100 }));
        assert_eq!("0".parse(), Ok(Zipf { exponent_milli: 0 }));
        for text in ["", "-1", "10.001", "1.0001", "x", "1,1"] {
            assert!(text.parse::<Zipf>().is_err(), "{text}");
        }
    }
}
