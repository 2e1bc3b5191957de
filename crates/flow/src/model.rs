//! How many threads for the cache and how many for the classifier: the paper's model.
//!
//! ```text
//! 1/T = d1/t1 · r + d2/t2 · (1 − r) + C        t1 + t2 = N
//! ```
//! with the delays d1 of the cache and d2 of the classifier, the hit ratio r, and the threads t1
//! and t2 of the two. The constant C does not move the optimum and is left out.

use crate::partition::Partition;

/// Measured costs of the two stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delays {
    /// d1: time of a key in the cache, in nanoseconds.
    pub cache_ns: f64,
    /// d2: time of a key in the classifier, in nanoseconds.
    pub full_ns: f64,
    /// r: share of keys that hit, 0 to 1.
    pub hit_ratio: f64,
}

impl Delays {
    /// The best number of cache threads among `workers`, as a real number: equation 1 of the paper.
    pub fn best_cache_threads(&self, workers: usize) -> f64 {
        let cache = (self.cache_ns * self.hit_ratio).max(0.0).sqrt();
        let full = (self.full_ns * (1.0 - self.hit_ratio)).max(0.0).sqrt();
        if cache + full == 0.0 {
            0.5 * workers as f64
        } else {
            workers as f64 * cache / (cache + full)
        }
    }

    /// Time per key under a partition, in nanoseconds.
    pub fn key_ns(&self, partition: Partition) -> f64 {
        let cache = self.cache_ns / partition.cache() as f64 * self.hit_ratio;
        cache + self.full_ns / partition.full() as f64 * (1.0 - self.hit_ratio)
    }

    /// The partition of so many workers, at least 2, with the least time per key.
    pub fn propose(&self, workers: usize) -> Partition {
        let all = (1..workers.max(2)).map(|cache| Partition::of(cache, workers.max(2) - cache));
        let best = all.min_by(|a, b| self.key_ns(*a).total_cmp(&self.key_ns(*b)));
        best.expect("two workers have a partition")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(hit_ratio: f64) -> Delays {
        Delays { cache_ns: 200.0, full_ns: 2000.0, hit_ratio }
    }

    /// Section 3.1 of the paper: between 3 and 4 of 7 threads, about 8 of 15.
    #[test]
    fn equation_1_gives_the_numbers_of_the_paper() {
        let seven = delays(0.92).best_cache_threads(7);
        assert!((3.0..4.0).contains(&seven), "{seven}");
        let fifteen = delays(0.92).best_cache_threads(15);
        assert!((7.5..8.5).contains(&fifteen), "{fifteen}");
    }

    /// 4-2-1 at the hit ratio of table 5, 3-3-1 and 2-4-1 at lower ones.
    #[test]
    fn partitions_follow_the_hit_ratio() {
        for (hit_ratio, expected) in [(0.9655, "4-2-1"), (0.91, "3-3-1"), (0.6, "2-4-1")] {
            assert_eq!(delays(hit_ratio).propose(6).to_string(), expected, "{hit_ratio}");
        }
        assert_eq!(delays(0.0).propose(6).to_string(), "1-5-1");
        assert_eq!(delays(1.0).propose(6).to_string(), "5-1-1");
        assert_eq!(delays(0.5).propose(0).to_string(), "1-1-1");
    }

    /// The integer optimum lies next to the real one.
    #[test]
    fn proposals_agree_with_equation_1() {
        for workers in 2..20 {
            for percent in 0..=100 {
                let delays = delays(f64::from(percent) / 100.0);
                let real = delays.best_cache_threads(workers).clamp(1.0, workers as f64 - 1.0);
                let found = delays.propose(workers).cache() as f64;
                assert!((found - real).abs() <= 1.0, "{workers} {percent}: {found}, {real}");
            }
        }
    }
}
