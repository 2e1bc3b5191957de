//! Time to match a batch of IPv4 5-tuples against a cache of 20 rules.
//!
//! ```text
//! box_list [--passes N]
//! ```
//! One line for each kind of traffic: hits spread evenly over the rules, hits by Zipf's law
//! (exponent 1), and misses, which are compared with all rules. Nanoseconds a key: the least and
//! the median over the passes, of 4,096 batches of 256 keys each. Answers are checked first.

use std::time::Instant;

use warpswitch_classify::hypercuts::{Span, dims_of};
use warpswitch_flow::{Answer, BoxList};
use warpswitch_rules::generate::Prng;
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{KeyBatch, KeyBuf};

const RULES: u64 = 20;
const BATCH_LEN: usize = 256;
const BATCHES: usize = 64;
const ROUNDS: usize = 64;

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
    (1..=RULES as u32).map(rule).collect()
}

/// A key in rule `n`; in none for 0.
fn key(n: u32, prng: &mut Prng) -> [u32; 4] {
    let network = n << 24;
    let random = prng.next_u64();
    let port = n + (random >> 48) as u32 % 1000;
    let low = |bits: u32| random as u32 & ((1 << bits) - 1);
    [network | low(16), network | low(24), low(16) << 16 | port, 6 << 24 | low(12)]
}

fn zipf(prng: &mut Prng) -> u32 {
    let weights = (1..=RULES).map(|rank| 1_000_000 / rank);
    let mut at = prng.below(weights.clone().sum());
    for (n, weight) in (1..).zip(weights) {
        if at < weight {
            return n;
        }
        at -= weight;
    }
    unreachable!("at is below the sum of the weights")
}

fn measure(name: &str, passes: usize, mut rule_of: impl FnMut(&mut Prng) -> u32) {
    let mut prng = Prng::new(1);
    let mut keys = KeyBuf::new(&IPV4_5TUPLE);
    let mut expected = Vec::new();
    for _ in 0..BATCH_LEN * BATCHES {
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
    let batches: Vec<KeyBatch<'_>> =
        (0..BATCHES).map(|n| keys.as_batch().slice(n * BATCH_LEN, (n + 1) * BATCH_LEN)).collect();
    let mut pass = || {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for batch in &batches {
                list.lookup(*batch, std::hint::black_box(&mut out));
            }
        }
        start.elapsed().as_nanos() as f64 / (ROUNDS * BATCHES * BATCH_LEN) as f64
    };
    let mut times: Vec<f64> = (0..passes).map(|_| pass()).collect();
    times.sort_by(f64::total_cmp);
    println!("{name:<8} least {:.2} median {:.2} ns a key", times[0], times[passes / 2]);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == "--passes");
    let passes = at.and_then(|at| args.get(at + 1)?.parse().ok()).unwrap_or(3usize).max(1);
    measure("even", passes, |prng| 1 + prng.below(RULES) as u32);
    measure("zipf", passes, zipf);
    measure("misses", passes, |_| 0);
}
