//! Which path a batch takes, by what batches like it have cost.
//!
//! ```text
//! batch ─► its class of lengths ─► cost on the cores │ cost on the device, and its queue
//!                                    └─ the cheaper one, but for a change by 20 % ─┘
//! ```
//! At start both paths are measured at a few lengths: what is between is interpolated. Then each
//! batch says what it took, and its class of lengths (powers of two) keeps a moving average for
//! each path. The other path is looked at every now and then, or its figure would grow old. What
//! disturbs a batch only makes it longer, and the first ones find nothing warm: an average goes
//! down faster than up, and where nothing was measured at the start there are more looks at first.
//!
//! Load counts twice: what cores or device are busy with shows in the averages; and keys that are
//! on their way through the device already are a queue in front of the next batch.
//!
//! Threads: any. All numbers are hints about speed; nothing is handed over with them, so their
//! order does not matter.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Classes of lengths: by the number of binary digits.
const CLASSES: usize = 33;
/// Batches of a class between two looks at the other path.
const LOOK_EVERY: u64 = 256;
/// The other path is not looked at while it seems so many times as dear: nobody would change.
const LOOK_COST_MAX: u64 = 8;
/// Where nothing was measured at the start, there is a look at so many batches, and each time when
/// there are twice as many.
const FIRST_LOOK: u64 = 16;
/// A look is worth less where it costs more.
const LOOK_EVERY_DEAR: u64 = 16 * LOOK_EVERY;
/// The other path has to be cheaper by so many hundredths to be taken.
const MARGIN_PERCENT: u64 = 20;
/// A moving average takes over one part in so many of each batch that took longer.
const AVERAGE_OVER: u64 = 8;
/// The same of one that took less.
const AVERAGE_OVER_LESS: u64 = 2;
/// One that took so many times less says that the average is of another time.
const AVERAGE_STALE: u64 = 4;

/// Where a batch is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// On the calling thread's core.
    Cores,
    /// On the device.
    Device,
}

impl Path {
    const BOTH: [Path; 2] = [Path::Cores, Path::Device];

    fn other(self) -> Self {
        match self {
            Path::Cores => Path::Device,
            Path::Device => Path::Cores,
        }
    }
}

/// Why it took that path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is the cheaper one.
    Cheaper,
    /// The other one is cheaper, but by too little to change.
    Kept,
    /// To see what it costs now.
    Look,
    /// There is no device, or no longer.
    NoDevice,
}

impl Why {
    /// Every reason.
    pub const ALL: [Why; 4] = [Why::Cheaper, Why::Kept, Why::Look, Why::NoDevice];

    /// A name for programs to compare.
    pub fn name(self) -> &'static str {
        match self {
            Why::Cheaper => "cheaper",
            Why::Kept => "kept",
            Why::Look => "look",
            Why::NoDevice => "no_device",
        }
    }
}

/// What batches of some lengths took on one path at the start, by length, ascending.
pub type Measured = Vec<(usize, Duration)>;

/// A batch on its way.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Where it goes.
    pub path: Path,
    /// Why.
    pub why: Why,
    /// Its keys.
    pub len: usize,
    /// Nanoseconds that the device's queue was expected to cost it.
    queued_ns: u64,
}

/// One class of lengths.
#[derive(Debug, Default)]
struct Class {
    /// Picoseconds a key by path, 0 for unknown.
    per_key_ps: [AtomicU64; 2],
    /// The path taken last: 0 for none yet.
    taken: AtomicU8,
    /// Batches that were given a path: those under way are not noted yet, and are no reason for
    /// another look.
    chosen: AtomicU64,
    batches: [AtomicU64; 2],
    keys: [AtomicU64; 2],
    why: [AtomicU64; Why::ALL.len()],
}

/// What was chosen for batches of one class of lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The shortest of them.
    pub len_min: usize,
    /// The longest of them.
    pub len_max: usize,
    /// Batches on the cores.
    pub cores_batches: u64,
    /// Batches on the device.
    pub device_batches: u64,
    /// Nanoseconds a key on the cores, of late; none if that is not known.
    pub cores_ns: Option<f64>,
    /// The same on the device.
    pub device_ns: Option<f64>,
    /// Batches by reason, as [`Why::ALL`].
    pub why: [u64; Why::ALL.len()],
}

/// See the module.
#[derive(Debug)]
pub struct Policy {
    measured: [Measured; 2],
    classes: [Class; CLASSES],
    /// Keys on their way through the device.
    under_way: AtomicU64,
}

fn class_of(len: usize) -> usize {
    ((usize::BITS - len.leading_zeros()) as usize).min(CLASSES - 1)
}

/// What a batch of `len` keys takes, from batches of other lengths, in picoseconds.
fn interpolated(measured: &Measured, len: usize) -> u64 {
    let ps = |time: Duration| time.as_nanos() as u64 * 1000;
    let above = measured.partition_point(|&(known, _)| known < len);
    match (above.checked_sub(1).map(|at| measured[at]), measured.get(above)) {
        (None, None) => 0,
        // A short batch costs what the shortest one did.
        (None, Some(&(_, time))) => ps(time),
        // A long one as many times as it is longer.
        (Some((known, time)), None) => ps(time) / known as u64 * len as u64,
        (Some((low, from)), Some(&(high, to))) => {
            let (from, to) = (ps(from), ps(to).max(ps(from)));
            from + (to - from) / (high - low) as u64 * (len - low) as u64
        }
    }
}

impl Policy {
    /// A policy that starts from what was measured on cores and device.
    pub fn new(cores: Measured, device: Measured) -> Self {
        let classes = std::array::from_fn(|_| Class::default());
        Self { measured: [cores, device], classes, under_way: AtomicU64::new(0) }
    }

    /// Picoseconds that a batch is expected to take on a path, without a queue.
    fn cost_ps(&self, path: Path, len: usize) -> u64 {
        let known = &self.classes[class_of(len)].per_key_ps[path as usize];
        match known.load(Ordering::Relaxed) {
            0 => interpolated(&self.measured[path as usize], len),
            per_key => per_key * len as u64,
        }
    }

    /// Picoseconds that the keys on their way through the device hold up another batch.
    fn queue_ps(&self) -> u64 {
        let &[.., (len, time)] = self.measured[Path::Device as usize].as_slice() else { return 0 };
        let per_key = time.as_nanos() as u64 * 1000 / len.max(1) as u64;
        self.under_way.load(Ordering::Relaxed) * per_key
    }

    /// The path of a batch of `len` keys; `has_device` says whether there is one that works. Every
    /// choice must be told to [`Policy::note`] when the batch is done.
    pub fn choose(&self, len: usize, has_device: bool) -> Choice {
        let class = &self.classes[class_of(len)];
        let queue = self.queue_ps();
        let costs = [self.cost_ps(Path::Cores, len), self.cost_ps(Path::Device, len) + queue];
        let cost = |path: Path| costs[path as usize];
        let cheaper = if costs[1] < costs[0] { Path::Device } else { Path::Cores };
        let taken = match class.taken.load(Ordering::Relaxed) {
            0 => cheaper,
            1 => Path::Cores,
            _ => Path::Device,
        };
        let number = class.chosen.fetch_add(1, Ordering::Relaxed);
        let other = taken.other();
        let is_dear = cost(other) > LOOK_COST_MAX * cost(taken);
        let look_every = if is_dear { LOOK_EVERY_DEAR } else { LOOK_EVERY };
        let is_early = self.measured.iter().any(Vec::is_empty)
            && (FIRST_LOOK..LOOK_EVERY).contains(&number)
            && number.is_power_of_two();
        let (path, why) = if !has_device {
            (Path::Cores, Why::NoDevice)
        } else if cost(other) < cost(taken) / 100 * (100 - MARGIN_PERCENT) {
            (other, Why::Cheaper)
        } else if number % look_every == look_every - 1 || is_early {
            (other, Why::Look)
        } else {
            (taken, if taken == cheaper { Why::Cheaper } else { Why::Kept })
        };
        if why == Why::Cheaper {
            class.taken.store(1 + path as u8, Ordering::Relaxed);
        }
        let mut queued_ns = 0;
        if path == Path::Device {
            queued_ns = queue / 1000;
            self.under_way.fetch_add(len as u64, Ordering::Relaxed);
        }
        Choice { path, why, len, queued_ns }
    }

    /// A batch was not sent off after all.
    pub fn give_up(&self, choice: Choice) {
        self.classes[class_of(choice.len)].chosen.fetch_sub(1, Ordering::Relaxed);
        if choice.path == Path::Device {
            self.under_way.fetch_sub(choice.len as u64, Ordering::Relaxed);
        }
    }

    /// A batch is done: it took `time`.
    pub fn note(&self, choice: Choice, time: Duration) {
        let Choice { path, why, len, queued_ns } = choice;
        let class = &self.classes[class_of(len)];
        class.batches[path as usize].fetch_add(1, Ordering::Relaxed);
        class.keys[path as usize].fetch_add(len as u64, Ordering::Relaxed);
        class.why[why as usize].fetch_add(1, Ordering::Relaxed);
        let took = time.as_nanos() as u64;
        // What it took by itself, which is never all of it.
        let alone = took.saturating_sub(queued_ns).max(took / 4);
        if path == Path::Device {
            self.under_way.fetch_sub(len as u64, Ordering::Relaxed);
        }
        let measured = alone * 1000 / len.max(1) as u64 + 1;
        let average = &class.per_key_ps[path as usize];
        let former = average.load(Ordering::Relaxed);
        let over = if measured < former { AVERAGE_OVER_LESS } else { AVERAGE_OVER };
        let next = match former {
            0 => measured,
            _ if measured < former / AVERAGE_STALE => measured,
            _ => (former * (over - 1) + measured) / over,
        };
        average.store(next.max(1), Ordering::Relaxed);
    }

    /// The most keys in a batch that takes no longer than `delay` on the cheaper path, as measured
    /// at the start: a power of two, at least 64.
    pub fn batch_len(&self, delay: Duration) -> usize {
        let delay_ps = delay.as_nanos() as u64 * 1000;
        let fits = |len: usize| {
            let known = Path::BOTH.iter().filter(|path| !self.measured[**path as usize].is_empty());
            known.map(|path| interpolated(&self.measured[*path as usize], len)).min()
                <= Some(delay_ps)
        };
        (6..=20).map(|bits| 1 << bits).take_while(|&len| fits(len)).last().unwrap_or(64)
    }

    /// What was chosen and why, by classes of lengths that came.
    pub fn rows(&self) -> Vec<Row> {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let came = |(_, class): &(usize, &Class)| class.batches.iter().any(|count| load(count) > 0);
        let row = |(number, class): (usize, &Class)| {
            let len_max = (1usize << number) - 1;
            let ns = |path: Path| match load(&class.per_key_ps[path as usize]) {
                0 => None,
                per_key => Some(per_key as f64 / 1e3),
            };
            Row {
                len_min: len_max / 2 + 1,
                len_max,
                cores_batches: load(&class.batches[0]),
                device_batches: load(&class.batches[1]),
                cores_ns: ns(Path::Cores),
                device_ns: ns(Path::Device),
                why: std::array::from_fn(|why| load(&class.why[why])),
            }
        };
        self.classes.iter().enumerate().filter(came).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// A device that costs 10 us and 1 ns a key; cores that cost 20 ns a key.
    fn policy() -> Policy {
        let cores = [64, 1024, 16384].map(|len| (len, Duration::from_nanos(20 * len as u64)));
        let device = [64, 1024, 16384].map(|len| (len, Duration::from_nanos(10_000 + len as u64)));
        Policy::new(cores.into(), device.into())
    }

    fn take(policy: &Policy, len: usize, cost: impl FnOnce(Path) -> Duration) -> (Path, Why) {
        let choice = policy.choose(len, true);
        policy.note(choice, cost(choice.path));
        (choice.path, choice.why)
    }

    #[test]
    fn short_batches_stay_on_the_cores_and_long_ones_go() {
        let policy = policy();
        let path = |len| policy.choose(len, true).path;
        assert_eq!([1, 64, 400].map(path), [Path::Cores; 3]);
        assert_eq!([700, 4096, 1 << 20].map(path), [Path::Device; 3]);
        let gone = policy.choose(4096, false);
        assert_eq!((gone.path, gone.why), (Path::Cores, Why::NoDevice));
    }

    #[test]
    fn a_bad_start_is_forgotten_soon() {
        let policy = Policy::new(Vec::new(), Vec::new());
        // The first batches of the device get its memory ready: a hundred times what others cost.
        let mut on_device = 0;
        let mut cost = |path| match path {
            Path::Cores => US(2000),
            Path::Device => {
                on_device += 1;
                if on_device <= 2 { US(50_000) } else { US(300) }
            }
        };
        let taken: Vec<_> = (0..300).map(|_| take(&policy, 2048, &mut cost).0).collect();
        assert_eq!(taken[3..16], [Path::Cores; 13]);
        assert!(taken[257..].iter().all(|path| *path == Path::Device), "{taken:?}");
    }

    #[test]
    fn it_follows_what_batches_cost_but_not_at_once() {
        let policy = policy();
        // The device turns out a little dearer than the cores: no change for that.
        let near = |path| if path == Path::Device { US(90) } else { US(82) };
        let taken: Vec<_> = (0..250).map(|_| take(&policy, 4096, near)).collect();
        assert!(taken.iter().all(|taken| taken.0 == Path::Device));
        assert_eq!(taken[249].1, Why::Kept);
        // Much dearer: soon there is a change, and it stays but for looks.
        let busy = |path| if path == Path::Device { US(400) } else { US(82) };
        let taken: Vec<_> = (0..2000).map(|_| take(&policy, 4096, busy)).collect();
        let first = taken.iter().position(|taken| taken.0 == Path::Cores).unwrap();
        assert!(first < 10, "{first}");
        let looks = taken[first..].iter().filter(|taken| taken.0 == Path::Device).count();
        assert!((5..=9).contains(&looks), "{looks} looks");
        // And back when it is free again, as a look shows.
        let taken: Vec<_> = (0..6000)
            .map(|_| {
                take(&policy, 4096, |path| match path {
                    Path::Device => US(14),
                    Path::Cores => US(82),
                })
            })
            .collect();
        assert_eq!(taken[5999], (Path::Device, Why::Cheaper));
        let rows = policy.rows();
        assert_eq!((rows.len(), rows[0].len_min, rows[0].len_max), (1, 4096, 8191));
        assert_eq!(rows[0].why.iter().sum::<u64>(), 8250);
        assert_eq!(rows[0].cores_batches + rows[0].device_batches, 8250);
    }

    #[test]
    fn a_queue_before_the_device_sends_batches_to_the_cores() {
        let policy = policy();
        let mut held = Vec::new();
        while let choice @ Choice { path: Path::Device, .. } = policy.choose(4096, true) {
            held.push(choice);
            assert!(held.len() < 100);
        }
        assert!(held.len() > 5, "{}", held.len());
        held.into_iter().for_each(|choice| policy.note(choice, US(14)));
        assert_eq!(policy.choose(4096, true).path, Path::Device);
    }

    #[test]
    fn batches_are_as_long_as_a_delay_allows() {
        let policy = policy();
        assert_eq!(policy.batch_len(US(1)), 64);
        assert_eq!(policy.batch_len(US(12)), 1024, "the device takes 10 us and 1 ns a key");
        assert_eq!(policy.batch_len(US(20)), 8192);
        let cores = Policy::new(vec![(64, US(1)), (1024, US(16))], Vec::new());
        assert_eq!(cores.batch_len(US(300)), 16384);
    }
}
