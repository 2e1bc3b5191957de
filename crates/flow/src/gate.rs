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
//! - C1: trials come at most once in `INTERVAL_MIN` keys. Each trial that changes nothing doubles
//!   the interval, up to `INTERVAL_MAX` or to where trials cost an eight-hundredth of the time,
//!   the larger of the two. All of a trial counts as its cost, also samples that it evolves.
//! - C2: if the path in use gets slower by `SLOWER`, the next trial comes soon, but trials cost at
//!   most `SOON_SHARE` of the time. The interval stays: a machine that is slower at times would
//!   otherwise be full of trials.
//! - C3: the path changes only for a gain of `GAIN_MIN`: noise does not move it.
//! - C4: samples that evolve rules for a cache that is not in use cost `SAMPLE_SHARE` of the time.
//! - C5: a cache that has gained time stays in use while that gain lasts, up to the time of
//!   `PATIENCE_KEYS` keys in the classifier: it recovers from a shift of the traffic only while in
//!   use. When the gain is used up, the next trial may turn it off.

/// Keys between trials at first. The cache evolves within so many.
const INTERVAL_MIN: u64 = 32 << 10;
/// Keys between trials after many that changed nothing, unless trials are expensive.
const INTERVAL_MAX: u64 = 512 << 10;
/// Most keys between trials, however expensive they are.
const INTERVAL_LIMIT: u64 = 64 << 20;
/// Keys of a trial, beside one batch that warms caches: a part of its cost, but not of the mean.
const TRIAL_KEYS: u64 = 1024;
/// The interval is so many times the extra time of a trial.
const TRIAL_COST: f64 = 800.0;
/// A batch of a trial counts at most so many times the path in use: a sample may cost some 20 times
/// the batch of a fast engine, an interruption thousands of times.
const TRIAL_OUTLIER: f64 = 64.0;
/// Share of the time that samples may cost while the cache is not in use.
const SAMPLE_SHARE: f64 = 0.0025;
/// Share of the time that trials may cost while the path in use gets slower again and again.
const SOON_SHARE: f64 = 0.005;
/// Growth of the time per key that brings the next trial.
const SLOWER: f64 = 1.25;
/// Share of the time that a change must gain.
const GAIN_MIN: f64 = 0.03;
/// Keys of the classifier whose time a cache that has gained it may lose again. A shift of the
/// traffic makes it slower than the classifier for some 100,000 keys.
const PATIENCE_KEYS: f64 = 131_072.0;
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
    until_trial: u64,
    interval: u64,
    trial: Option<Trial>,
    /// Time per key of the path in use when the last trial ended.
    cost_at_trial: f64,
    /// What the last trial cost beyond its share of the time since.
    trial_debt_ns: f64,
    /// What the last sample cost beyond its share of the time since.
    sample_debt_ns: f64,
    /// Keys since the last trial, and the time that they took.
    used: (f64, f64),
    /// What the cache has gained since it came into use, as far as it may lose it again.
    gained_ns: f64,
    switches: u64,
}

/// A trial of the path that is not in use.
#[derive(Clone, Copy, Debug)]
struct Trial {
    is_warm: bool,
    /// Keys still to count.
    left: u64,
    /// Time beyond that of the path in use.
    extra_ns: f64,
}

impl Default for CostGate {
    /// Uses the cache until there are times of both paths.
    fn default() -> Self {
        Self {
            path: LookupPath::Cached,
            means: [0.0; 2],
            until_trial: INTERVAL_MIN,
            interval: INTERVAL_MIN,
            trial: None,
            cost_at_trial: 0.0,
            trial_debt_ns: 0.0,
            sample_debt_ns: 0.0,
            used: (0.0, 0.0),
            gained_ns: 0.0,
            switches: 0,
        }
    }
}

impl CostGate {
    /// The path of the next batch.
    pub fn choose(&mut self) -> LookupPath {
        if self.until_trial == 0 && self.trial.is_none() {
            self.trial = Some(Trial { is_warm: false, left: TRIAL_KEYS, extra_ns: 0.0 });
        }
        if self.trial.is_some() { self.path.other() } else { self.path }
    }

    /// Whether a trial goes on.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Learns the time of a batch that took `path`. Off a trial it stands for `batches` batches of
    /// which one is timed.
    pub fn note(&mut self, path: LookupPath, keys: usize, ns: u64, batches: usize) {
        if keys == 0 {
            return;
        }
        let cost = ns as f64 / keys as f64;
        let usual_ns = self.means[self.path as usize] * keys as f64;
        let keys = keys as u64;
        if path == self.path {
            let cost = self.learn(path, cost);
            let all = keys * batches as u64;
            self.used = (self.used.0 + all as f64, self.used.1 + all as f64 * cost);
            self.until_trial = self.until_trial.saturating_sub(all);
            let time = ns as f64 * batches as f64;
            self.sample_debt_ns -= time * SAMPLE_SHARE;
            self.trial_debt_ns -= time * SOON_SHARE;
            // C2.
            let now = self.means[path as usize];
            let is_slower = self.cost_at_trial > 0.0 && now > SLOWER * self.cost_at_trial;
            if is_slower && self.trial_debt_ns <= 0.0 {
                self.cost_at_trial = now;
                self.until_trial = self.until_trial.min(INTERVAL_MIN);
            }
            return;
        }
        let Some(trial) = &mut self.trial else { return };
        trial.extra_ns += (ns as f64).min(TRIAL_OUTLIER * usual_ns) - usual_ns;
        if !trial.is_warm {
            trial.is_warm = true;
            return;
        }
        trial.left = trial.left.saturating_sub(keys);
        let ended = (trial.left == 0).then_some(trial.extra_ns);
        self.learn(path, cost);
        if let Some(extra_ns) = ended {
            self.end_trial(extra_ns);
        }
    }

    /// Whether a batch that took [`LookupPath::Plain`] may be sampled: C4.
    pub fn may_sample(&self) -> bool {
        self.sample_debt_ns <= 0.0
    }

    /// Learns how long the samples of such a batch took.
    pub fn note_sampling(&mut self, ns: u64) {
        self.sample_debt_ns = ns as f64;
    }

    /// Adds a time to the mean of a path, and returns as how much it counts.
    fn learn(&mut self, path: LookupPath, cost: f64) -> f64 {
        let mean = &mut self.means[path as usize];
        let (cost, weight) = match *mean {
            0.0 => (cost, 1.0),
            mean if cost < mean / 2.0 => (cost, WEIGHT_OF_FALL),
            mean => (cost.min(OUTLIER * mean), WEIGHT),
        };
        *mean += weight * (cost - *mean);
        cost
    }

    fn end_trial(&mut self, extra_ns: f64) {
        self.trial = None;
        self.trial_debt_ns = extra_ns;
        let [now, other] = [self.path, self.path.other()].map(|path| self.means[path as usize]);
        let (keys, took_ns) = std::mem::take(&mut self.used);
        if self.is_on() {
            let gained = self.gained_ns + other * keys - took_ns;
            self.gained_ns = gained.clamp(0.0, PATIENCE_KEYS * other);
        }
        if other < (1.0 - GAIN_MIN) * now {
            self.interval = INTERVAL_MIN;
            if self.is_on() && self.gained_ns > 0.0 {
                // C5. The next trial comes when this is used up, if the cache stays as slow.
                let lasts = (self.gained_ns / (now - other)) as u64;
                self.interval = lasts.clamp(TRIAL_KEYS, INTERVAL_MIN);
                self.cost_at_trial = now;
            } else {
                self.path = self.path.other();
                self.gained_ns = 0.0;
                self.cost_at_trial = other;
                self.switches += 1;
            }
        } else {
            // C1. A path without a measured time has none to lose.
            let affordable = if now > 0.0 { (TRIAL_COST * extra_ns / now) as u64 } else { 0 };
            let limit = INTERVAL_MAX.max(affordable).min(INTERVAL_LIMIT);
            self.interval = (2 * self.interval).max(affordable).min(limit);
            self.cost_at_trial = now;
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
    fn run(gate: &mut CostGate, batches: u32, mut cost: impl FnMut(LookupPath, u32) -> u64) -> f64 {
        let mut cached = 0;
        for batch in 0..batches {
            let path = gate.choose();
            cached += u32::from(path == LookupPath::Cached);
            gate.note(path, 100, 100 * cost(path, batch), 1);
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

    /// A shift of the traffic makes a good cache slower than the classifier until rules have
    /// evolved, which takes long while it is not in use.
    #[test]
    fn a_cache_that_has_gained_time_outlasts_a_shift() {
        let mut gate = CostGate::default();
        for _ in 0..10 {
            run(&mut gate, 10_000, fixed(10, 20));
            let cached = run(&mut gate, 1_000, fixed(30, 20));
            assert!(gate.is_on() && cached > 0.9, "{cached} of the batches");
        }
        // A shift to traffic that it is no use for.
        run(&mut gate, 5_000, fixed(30, 20));
        assert_eq!((gate.is_on(), gate.switches()), (false, 1));
    }

    /// However often the traffic shifts, batches take at most 2 % longer than without a cache.
    #[test]
    fn patience_costs_no_more_than_the_cache_gains() {
        for good in [18, 15, 2] {
            let mut gate = CostGate::default();
            let (mut took, mut batches) = (0, 0);
            for shift in 0..100u32 {
                let cached = if shift.is_multiple_of(2) { good } else { 60 };
                run(&mut gate, 3_000, |path, _| {
                    let cost = fixed(cached, 20)(path, 0);
                    (took, batches) = (took + cost, batches + 1);
                    cost
                });
            }
            assert!(took < 20 * batches * 102 / 100, "{took} for {}", 20 * batches);
        }
    }

    /// A trial may be many times as slow as the path in use.
    #[test]
    fn expensive_trials_are_rare_until_the_path_in_use_slows_down() {
        let mut gate = CostGate::default();
        run(&mut gate, 5_000, fixed(5, 100));
        let plain = 1.0 - run(&mut gate, 50_000, fixed(5, 100));
        assert!(plain * 100.0 < 0.02 * 5.0 / 0.95, "{plain} of the batches");
        // The next planned trial is far away.
        run(&mut gate, 2_000, fixed(200, 100));
        assert!(!gate.is_on());
    }

    /// A sample that evolves rules makes one batch of a trial many times as slow.
    #[test]
    fn samples_in_trials_make_them_rare() {
        let mut gate = CostGate::default();
        let cost = |path, batch: u32| match path {
            LookupPath::Cached if batch.is_multiple_of(5) => 100,
            LookupPath::Cached => 5,
            LookupPath::Plain => 4,
        };
        run(&mut gate, 20_000, cost);
        assert!(!gate.is_on());
        let cached = run(&mut gate, 200_000, cost);
        assert!(cached * 20.0 / 4.0 < 2.0 / TRIAL_COST, "{cached} of the batches");
    }

    #[test]
    fn noise_does_not_move_it() {
        let mut gate = CostGate::default();
        let noisy = |path, batch: u32| {
            let interruption = if batch.is_multiple_of(97) { 100_000 } else { 0 };
            let base = if path == LookupPath::Cached { 100 } else { 101 };
            base + u64::from(batch.wrapping_mul(0x9e37_79b9) >> 31) + interruption
        };
        run(&mut gate, 50_000, noisy);
        assert!(gate.switches() <= 2, "{} switches", gate.switches());
    }

    /// Other work on the machine makes both paths slower for some time, again and again.
    #[test]
    fn slow_times_bring_few_trials() {
        let mut gate = CostGate::default();
        let slow = |batch: u32| u64::from(batch % 3_000 < 300);
        let cost = |path, batch| match path {
            LookupPath::Cached => 44 + 22 * slow(batch),
            LookupPath::Plain => 40 + 20 * slow(batch),
        };
        run(&mut gate, 10_000, cost);
        assert!(!gate.is_on());
        let cached = run(&mut gate, 60_000, cost);
        assert!(cached < 0.006, "{cached} of the batches");
    }

    /// Each time that the machine gets slower brings a trial, unless trials are expensive.
    #[test]
    fn trials_cost_little_while_the_machine_is_slower_again_and_again() {
        let mut gate = CostGate::default();
        let cost = |path, batch: u32| match path {
            LookupPath::Cached => 2_000,
            LookupPath::Plain => 40 + 40 * u64::from(batch % 1_000 < 300),
        };
        run(&mut gate, 10_000, cost);
        assert!(!gate.is_on());
        let cached = run(&mut gate, 200_000, cost);
        assert!(cached * 2_000.0 / 40.0 < 2.0 * SOON_SHARE, "{cached} of the batches");
    }

    #[test]
    fn samples_cost_their_share() {
        let mut gate = CostGate::default();
        let (mut all, mut sampling) = (0, 0);
        for batch in 0..200_000 {
            gate.note(LookupPath::Cached, 100, 1_000, 1);
            all += 1_000;
            if gate.may_sample() {
                let ns = 5_000 + 100 * (batch % 50);
                gate.note_sampling(ns);
                sampling += ns;
            }
        }
        let share = sampling as f64 / all as f64;
        assert!((0.8..1.1).contains(&(share / SAMPLE_SHARE)), "{share}");
    }

    #[test]
    fn empty_batches_change_nothing() {
        let mut gate = CostGate::default();
        for _ in 0..1000 {
            let path = gate.choose();
            gate.note(path, 0, 1_000, 1);
        }
        assert_eq!((gate.is_on(), gate.costs_ns()), (true, [0.0; 2]));
    }
}
