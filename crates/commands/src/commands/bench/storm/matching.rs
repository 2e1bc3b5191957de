//! The match of a batch against a full cache of IPv4 5-tuples, alone on one thread.

use std::time::{Duration, Instant};

use serde::Serialize;
use warpswitch_classify::hypercuts::{Span, dims_of};
use warpswitch_flow::{Answer, BoxList};
use warpswitch_rules::generate::Prng;
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{KeyBatch, KeyBuf};

use super::figures::{CACHE_SIZE, Lab};
use crate::human::rounded;
use crate::measure::median;

const BATCH_KEYS: usize = 256;
const BATCHES: usize = 64;

/// The time of a match.
#[derive(Clone, Debug, Serialize)]
pub struct MatchTime {
    /// Which keys: hits spread evenly over the rules, by Zipf's law of exponent 1, or misses.
    pub keys: &'static str,
    pub cached_rules: usize,
    pub batch: usize,
    /// Nanoseconds a key: the least and the median of all rounds.
    pub least_ns: f64,
    pub median_ns: f64,
}

/// Rule `n` has the sources and destinations of one network, some ports and one protocol.
fn rules() -> Vec<(Vec<Span>, Answer)> {
    let dims = dims_of(&IPV4_5TUPLE);
    let rule = |n: u32| {
        let network = n << 24;
        let bounds = [
            (network, network | 0xffff),
            (network, network | 0xff_ffff),
            (0, 0xffff),
            (n, n + 1000),
            (6, 6),
            (0, dims[5].ones()),
        ];
        (bounds.map(|(lo, hi)| Span { lo, hi }).to_vec(), Answer(n))
    };
    (1..=CACHE_SIZE as u32).map(rule).collect()
}

/// A key in rule `n`; in none for 0.
fn key(n: u32, prng: &mut Prng) -> [u32; 4] {
    let network = n << 24;
    let random = prng.next_u64();
    let port = n + (random >> 48) as u32 % 1000;
    let low = |bits: u32| random as u32 & ((1 << bits) - 1);
    [network | low(16), network | low(24), low(16) << 16 | port, 6 << 24 | low(12)]
}

/// A rank by Zipf's law.
fn zipf(prng: &mut Prng) -> u32 {
    let weights = (1..=CACHE_SIZE as u64).map(|rank| 1_000_000 / rank);
    let mut at = prng.below(weights.clone().sum());
    for (n, weight) in (1..).zip(weights) {
        if at < weight {
            return n;
        }
        at -= weight;
    }
    unreachable!("at is below the sum of the weights")
}

impl Lab<'_> {
    /// Times of the match.
    ///
    /// # Panics
    /// If an answer is wrong: a bug of the matcher.
    pub fn matches(&self) -> Vec<MatchTime> {
        self.progress.say("match of a batch".to_owned());
        let even = |prng: &mut Prng| 1 + prng.below(CACHE_SIZE as u64) as u32;
        vec![
            self.match_time("even", even),
            self.match_time("zipf", zipf),
            self.match_time("misses", |_| 0),
        ]
    }

    fn match_time(&self, name: &'static str, rule_of: impl Fn(&mut Prng) -> u32) -> MatchTime {
        let mut prng = Prng::new(1);
        let mut keys = KeyBuf::new(&IPV4_5TUPLE);
        let mut expected = Vec::new();
        for _ in 0..BATCH_KEYS * BATCHES {
            let n = rule_of(&mut prng);
            keys.push(&key(n, &mut prng));
            expected.push(if n == 0 { Answer::MISS } else { Answer(n) });
        }
        let rules = rules();
        let mut list = BoxList::new(&IPV4_5TUPLE, rules.len());
        list.fill(rules.iter().map(|(region, answer)| (&region[..], *answer)));
        let mut out = vec![Answer::MISS; expected.len()];
        list.lookup(keys.as_batch(), &mut out);
        assert_eq!(out, expected, "{name}");
        let batch = |n: usize| keys.as_batch().slice(n * BATCH_KEYS, (n + 1) * BATCH_KEYS);
        let batches: Vec<KeyBatch<'_>> = (0..BATCHES).map(batch).collect();
        let round = self.effort.time / 4;
        let mut times: Vec<f64> =
            (0..self.effort.rounds).map(|_| self.round(&list, &batches, round)).collect();
        times.sort_by(f64::total_cmp);
        MatchTime {
            keys: name,
            cached_rules: rules.len(),
            batch: BATCH_KEYS,
            least_ns: rounded(times[0], 3),
            median_ns: rounded(median(&times), 3),
        }
    }

    /// Nanoseconds a key in one round.
    fn round(&self, list: &BoxList, batches: &[KeyBatch<'_>], time: Duration) -> f64 {
        let mut out = [Answer::MISS; BATCH_KEYS];
        let (start, mut done) = (Instant::now(), 0);
        loop {
            for batch in batches {
                list.lookup(*batch, std::hint::black_box(&mut out));
            }
            done += batches.len() * BATCH_KEYS;
            let took = start.elapsed();
            if took >= time {
                return took.as_nanos() as f64 / done as f64;
            }
        }
    }
}
