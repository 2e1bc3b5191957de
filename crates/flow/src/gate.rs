//! Whether the cache pays, by measured times.
//!
//! ```text
//! batches  c c c … c p p p c c …        the path not in use is tried now and then; the cheaper
//!                    trial              one by nanoseconds per key is used
//! ```
//! Times of whole batches contain everything that a path costs: comparisons, copies of misses,
//! sampling, evolution. So there is no threshold of the hit ratio to tune: in front of a slow
//! engine a few hits pay, in front of a fast one nearly all keys must hit.
//!
//! # Invariants
//! - C1: trials come at most once in [`INTERVAL_MIN`] batches and take [`TRIAL_LEN`] of them; with
//!   every trial that changes nothing the interval doubles, up to [`INTERVAL_MAX`]. A path that is
//!   twice as slow thus costs about half a percent.
//! - C2: the path changes only for a gain of [`GAIN_MIN`]: noise does not move it.

/// Batches between trials at first.
const INTERVAL_MIN: u32 = 32;
/// Most batches between trials.
const INTERVAL_MAX: u32 = 512;
/// Batches of a trial. The first one warms caches and is not counted.
const TRIAL_LEN: u32 = 5;
/// Share of the time that a change must gain.
const GAIN_MIN: f64 = 0.03;
/// Weight of a new time in the mean.
const WEIGHT: f64 = 0.125;
/// A batch counts at most so many times the mean: the thread may have been interrupted.
const OUTLIER: f64 = 1.25;
/// Weight of a time below half of the mean, which only interruptions can have raised so much.
const WEIGHT_OF_FALL: f64 = 0.5;

/// The way of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupPath {
    /// Through the cache, misses to the classifier.
    Cached,
    /// To the classifier.
    Plain,
}

impl LookupPath {
    fn other(self) -> Self {
        match self {
            Self::Cached => Self::Plain,
            Self::Plain => Self::Cached,
        }
    }
}

/// Chooses the path of each batch. Time is passed in.
#[derive(Clone, Debug)]
pub struct CostGate {
    path: LookupPath,
    /// Nanoseconds per key, of [`LookupPath::Cached`] and [`LookupPath::Plain`]; 0 before a trial.
    means: [f64; 2],
    until_trial: u32,
    interval: u32,
    trial_left: u32,
    switches: u64,
}

impl Default for CostGate {
    /// Uses the cache until there are times of both paths.
    fn default() -> Self {
        Self {
            path: LookupPath::Cached,
            means: [0.0; 2],
            until_trial: INTERVAL_MIN,
            interval: INTERVAL_MIN,
            trial_left: 0,
            switches: 0,
        }
    }
}

impl CostGate {
    /// The path of the next batch.
    pub fn choose(&mut self) -> LookupPath {
        if self.trial_left > 0 {
            return self.path.other();
        }
        if self.until_trial == 0 {
            self.trial_left = TRIAL_LEN;
            self.until_trial = self.interval;
            return self.path.other();
        }
        self.until_trial -= 1;
        self.path
    }

    /// Learns the time of a batch that took `path`.
    pub fn note(&mut self, path: LookupPath, keys: usize, ns: u64) {
        let is_trial = self.trial_left > 0 && path != self.path;
        let warms_up = is_trial && self.trial_left == TRIAL_LEN;
        if keys > 0 && !warms_up {
            let mean = &mut self.means[path as usize];
            let cost = ns as f64 / keys as f64;
            *mean = match *mean {
                0.0 => cost,
                mean if cost < mean / 2.0 => mean + WEIGHT_OF_FALL * (cost - mean),
                mean => mean + WEIGHT * (cost.min(OUTLIER * mean) - mean),
            };
        }
        if is_trial {
            self.trial_left -= 1;
            if self.trial_left == 0 {
                self.end_trial();
            }
        }
    }

    fn end_trial(&mut self) {
        let [now, other] = [self.path, self.path.other()].map(|path| self.means[path as usize]);
        if other < (1.0 - GAIN_MIN) * now {
            self.path = self.path.other();
            self.interval = INTERVAL_MIN;
            self.switches += 1;
        } else {
            self.interval = (2 * self.interval).min(INTERVAL_MAX);
        }
        self.until_trial = self.interval;
    }

    /// Whether the cache is in use, trials aside.
    pub fn is_on(&self) -> bool {
        self.path == LookupPath::Cached
    }

    /// Nanoseconds per key with the cache and without; 0 for what was not measured.
    pub fn costs_ns(&self) -> [f64; 2] {
        self.means
    }

    /// How often the path has changed.
    pub fn switches(&self) -> u64 {
        self.switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs batches of 100 keys; `cost` gives the time per key of a path. The share of batches that
    /// took the cache.
    fn run(gate: &mut CostGate, batches: u32, cost: impl Fn(LookupPath, u32) -> u64) -> f64 {
        let mut cached = 0;
        for batch in 0..batches {
            let path = gate.choose();
            cached += u32::from(path == LookupPath::Cached);
            gate.note(path, 100, 100 * cost(path, batch));
        }
        f64::from(cached) / f64::from(batches)
    }

    fn fixed(cached: u64, plain: u64) -> impl Fn(LookupPath, u32) -> u64 {
        move |path, _| if path == LookupPath::Cached { cached } else { plain }
    }

    #[test]
    fn the_cheaper_path_is_used_and_the_other_rarely_tried() {
        let mut gate = CostGate::default();
        run(&mut gate, 5_000, fixed(10, 50));
        assert!(gate.is_on());
        assert!(run(&mut gate, 5_000, fixed(10, 50)) > 0.98);
        // The cache stops paying, and pays again.
        run(&mut gate, 5_000, fixed(80, 50));
        assert!(!gate.is_on());
        assert!(run(&mut gate, 5_000, fixed(80, 50)) < 0.02);
        run(&mut gate, 5_000, fixed(30, 50));
        assert_eq!((gate.is_on(), gate.switches()), (true, 2));
    }

    #[test]
    fn noise_does_not_move_it() {
        let mut gate = CostGate::default();
        let noisy = |path, batch: u32| {
            let interruption = if batch % 97 == 0 { 100_000 } else { 0 };
            let base = if path == LookupPath::Cached { 100 } else { 101 };
            base + u64::from(batch.wrapping_mul(0x9e37_79b9) >> 31) + interruption
        };
        run(&mut gate, 50_000, noisy);
        assert!(gate.switches() <= 2, "{} switches", gate.switches());
    }

    #[test]
    fn empty_batches_change_nothing() {
        let mut gate = CostGate::default();
        for _ in 0..1000 {
            let path = gate.choose();
            gate.note(path, 0, 1_000);
        }
        assert_eq!((gate.is_on(), gate.costs_ns()), (true, [0.0; 2]));
    }
}
