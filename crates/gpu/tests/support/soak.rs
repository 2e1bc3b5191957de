//! Frames of changing size over rules that change, held against the reference of the version that
//! each frame named: on any device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_classify::parts::RuleStore;
use warpswitch_gpu::resident::{Frames, FramesConfig, FramesCount};
use warpswitch_gpu::{Algorithm, Device, Image};
use warpswitch_rules::{KeyBuf, RuleId, Ruleset, Schema, linear};
use warpswitch_testkit::dense;
use warpswitch_testkit::random::Random;

/// Slow frames whose story is told.
const TOLD_MAX: usize = 12;
/// A frame that is waited for longer is slow.
const SLOW: Duration = Duration::from_millis(1);
/// Keys that frames are drawn from.
const KEYS: usize = 2048;

/// A rule set as one engine lays it out, and its answers to all keys.
pub struct Version {
    image: Arc<Image>,
    want: Vec<RuleId>,
}

/// What to send.
pub struct Soak {
    pub keys: KeyBuf,
    pub versions: Vec<Version>,
    pub config: FramesConfig,
    pub frames: u64,
    pub seed: u64,
    /// Frames between two changes of rules, on average.
    pub change_every: usize,
    /// Frames between two interruptions of the kernel, wherever it is, on average.
    pub interrupt_every: usize,
    /// Frames that do not go to the kernel that stays are not counted among `frames`.
    pub resident_only: bool,
}

/// What was sent, every answer to which was right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Soaked {
    pub count: FramesCount,
    pub keys: u64,
    /// Frames whose rules were others than those of the frame before.
    pub changes: u64,
    /// Interruptions, and those of them while frames were under way.
    pub interrupts: u64,
    pub interrupts_at_work: u64,
    /// Images loaded in more than a millisecond.
    pub slow_loads: u64,
    /// Frames waited for longer than that: those of the kernel that stays, and launched ones.
    pub slow_resident: u64,
    pub slow_launched: u64,
    /// What they were waited for.
    pub slow: Duration,
}

/// What happened last, to be told when a frame was slow.
#[derive(Default)]
struct Story {
    events: VecDeque<(Duration, String)>,
    count: FramesCount,
    told: usize,
}

impl Story {
    /// Notes what changed since the last call.
    fn note(&mut self, now: Duration, count: FramesCount) {
        let (old, new) = (std::mem::replace(&mut self.count, count), count);
        for (what, old, new) in [
            ("sent to the kernel", old.resident, new.resident),
            ("launched", old.launched, new.launched),
            ("started", old.starts, new.starts),
            ("left", old.left, new.left),
            ("doubted", old.doubts, new.doubts),
            ("nobody looked", old.pauses, new.pauses),
        ] {
            if new > old {
                self.add(now, what.to_owned());
            }
        }
    }

    fn add(&mut self, now: Duration, what: String) {
        if self.events.len() == 24 {
            self.events.pop_front();
        }
        self.events.push_back((now, what));
    }

    /// Prints it, a few times in all.
    fn tell(&mut self, now: Duration) {
        self.told += 1;
        if self.told > TOLD_MAX {
            return;
        }
        println!("a slow frame; microseconds before it was answered:");
        for (when, what) in &self.events {
            println!("  {:>8.1}  {what}", (now - *when).as_nanos() as f64 / 1e3);
        }
    }
}

impl Soak {
    /// Versions of dense rules of `schema`, each by each of `algorithms`.
    pub fn new(
        schema: &'static Schema,
        algorithms: &[Algorithm],
        rules: usize,
        config: FramesConfig,
    ) -> Self {
        let rulesets: Vec<Ruleset> =
            (0..4).map(|n| dense::ruleset(schema, rules + n, 4, 90 + n as u64)).collect();
        let keys = dense::keys_near(&rulesets[0], KEYS, 5);
        let mut versions = Vec::new();
        for ruleset in &rulesets {
            let store = RuleStore::build(ruleset, usize::MAX).unwrap();
            let mut want = vec![RuleId::NONE; keys.len()];
            linear::classify(ruleset, keys.as_batch(), &mut want);
            for &algorithm in algorithms {
                let image = Image::build(algorithm, &store, usize::MAX, 0x5eed).unwrap();
                versions.push(Version { image: Arc::new(image), want: want.clone() });
            }
        }
        Self {
            keys,
            versions,
            config,
            frames: 1000,
            seed: 1,
            change_every: 20,
            interrupt_every: 500,
            resident_only: false,
        }
    }

    /// A length: runs of small frames and runs of large ones, so that the kernel comes and goes.
    fn len(&self, random: &mut Random, is_small: bool) -> usize {
        match (is_small, random.below(8)) {
            (true, _) => random.below(self.config.keys_max.min(40)),
            (false, 0) => self.config.keys_max,
            (false, _) => random.below(self.config.keys_max + 1),
        }
    }

    /// Sends all frames and checks every answer. `clock` tells the time; if its argument is true, a
    /// good while has to pass first.
    pub fn run(&self, device: &Arc<Device>, clock: &mut dyn FnMut(bool) -> Duration) -> Soaked {
        let schema = self.keys.schema();
        let mut frames = Frames::new(device, schema, self.config).unwrap();
        let load = |version: usize| device.load(self.versions[version].image.clone()).unwrap();
        let mut random = Random::new(self.seed);
        let (mut version, mut is_small) = (0, false);
        let mut loaded = load(version);
        frames.prepare(&loaded).unwrap();
        let mut under_way = VecDeque::new();
        let mut out = vec![RuleId(7); self.config.keys_max];
        let (mut sent, mut soaked) = (0, Soaked::default());
        let mut story = Story::default();
        loop {
            let counted = if self.resident_only { frames.count().resident } else { sent };
            let is_over = counted >= self.frames;
            if !is_over && frames.has_room() && !random.chance(1, 4) {
                if random.chance(1, self.change_every) {
                    version = random.below(self.versions.len());
                    // The former image goes as soon as no frame needs it, and its place is the next
                    // one's.
                    let before = clock(false);
                    loaded = load(version);
                    let took = clock(false) - before;
                    soaked.slow_loads += u64::from(took > SLOW);
                    soaked.changes += 1;
                    story.add(before, format!("loaded within {took:?}"));
                }
                is_small ^= random.chance(1, 100);
                let len = self.len(&mut random, is_small);
                let start = random.below(KEYS - len + 1);
                let now = clock(random.chance(1, 20_000));
                frames.send(self.keys.as_batch().slice(start, start + len), &loaded, now);
                story.note(now, frames.count());
                under_way.push_back((version, start, len));
                (sent, soaked.keys) = (sent + 1, soaked.keys + len as u64);
                if random.chance(1, self.interrupt_every) && frames.is_resident() {
                    soaked.interrupts += 1;
                    soaked.interrupts_at_work +=
                        u64::from(frames.poll(clock(false)) == Some(false));
                    frames.interrupt();
                    story.add(clock(false), "interrupted".to_owned());
                }
                continue;
            }
            let Some((version, start, len)) = under_way.pop_front() else {
                if is_over { break } else { continue }
            };
            let (began, mut now) = (clock(false), clock(false));
            while frames.poll(now) == Some(false) {
                std::thread::yield_now();
                story.note(now, frames.count());
                now = clock(false);
            }
            let (waited, is_resident) = (now - began, frames.oldest_is_resident() == Some(true));
            if waited > SLOW {
                soaked.slow_resident += u64::from(is_resident);
                soaked.slow_launched += u64::from(!is_resident);
                soaked.slow += waited;
                story.add(began, format!("waited for; resident: {is_resident}"));
                story.tell(now);
            }
            assert_eq!(frames.oldest_len(), Some(len));
            frames.take(&mut out[..len]);
            self.check(&out[..len], version, start, sent);
        }
        assert_eq!(frames.under_way(), 0);
        soaked.count = frames.count();
        soaked
    }

    /// Holds a frame's answers against the reference's of the version that it named.
    fn check(&self, out: &[RuleId], version: usize, start: usize, sent: u64) {
        let len = out.len();
        let want = &self.versions[version].want[start..start + len];
        let Some(at) = (0..len).find(|&at| out[at] != want[at]) else { return };
        let as_by = (0..self.versions.len())
            .filter(|&other| out[at] == self.versions[other].want[start + at]);
        panic!(
            "key {at} of {len}, version {version}: {} is not {}, but as by versions {:?}; {sent} \
             sent, {:?}, {} in frames",
            out[at],
            want[at],
            as_by.collect::<Vec<_>>(),
            self.versions[version].image.algorithm(),
            (0..len).filter(|&at| out[at] != want[at]).count(),
        );
    }
}
