//! `bench gpu --latency`: how long a frame takes, from keys in the host's hands to answers there.

mod report;
mod scenarios;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use warpswitch_classify::{Classifier, Engine};
use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::resident::{Frames, FramesConfig, Hysteresis};
use warpswitch_gpu::{Algorithm, Device, engine};
use warpswitch_rules::{KeyBuf, RuleId};

use self::report::{Figure, LatencyReport, Way};
use self::scenarios::Scenario;
use super::BenchGpuArgs;
use crate::commands::bench::check::Reference;
use crate::devices::unusable;
use crate::exit::{Outcome, bad_input};
use crate::load::{self, build_engine};
use crate::output::print;
use crate::provenance;
use crate::term::Progress;
use crate::threads;

/// Packets that frames are made of where they are drawn: more than the first caches hold.
const KEYS: usize = 1 << 16;
/// Nanoseconds of the longest time that differs from longer ones in the histogram.
const LONGEST_NS: u64 = 10_000_000_000;
/// Frames before those that count, of so many.
const WARM_UP_PART: usize = 10;

/// How to measure.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Keys of a frame.
    frame: usize,
    /// Frames under way.
    under_way: usize,
    /// Frames that count.
    frames: usize,
}

/// Runs the command.
///
/// # Errors
/// Bad input; a card that is missing or fails. A wrong answer is part of the report.
pub fn run(args: &BenchGpuArgs, device: &Arc<Device>) -> anyhow::Result<Outcome> {
    let cases = match args.rules_args() {
        None => scenarios::all(KEYS),
        Some(rules) => {
            let loaded = load::load_rules(&rules)?;
            let keys = super::keys(args, &loaded.ruleset)?;
            vec![Scenario { name: loaded.name, masks: 0, ruleset: loaded.ruleset, keys }]
        }
    };
    let setting = Setting { frame: args.frame, under_way: args.under_way, frames: args.frames };
    let algorithms = match args.engines.as_slice() {
        [] => vec![Algorithm::MaskHash, Algorithm::Turbo],
        engines => engines.to_vec(),
    };
    if let Some(case) = cases.iter().find(|case| case.keys.len() < setting.frame) {
        let (keys, frame) = (case.keys.len(), setting.frame);
        return Err(bad_input(format!("{keys} packets are fewer than one frame of {frame}")));
    }
    let mut report = LatencyReport::new(device.name(), setting.under_way);
    // The system serves most interrupts on the first core.
    threads::pin(threads::default_threads() - 1);
    for case in &cases {
        let reference = Reference::find(&case.ruleset, &case.keys)?;
        for &engine in args.cpu_engines.iter().filter(|_| !args.no_cpu) {
            report.figures.push(on_cpu(engine, args, case, &reference, &setting)?);
        }
        for &algorithm in &algorithms {
            let build = args.build.to_options();
            let loaded = engine::load(device, algorithm, &case.ruleset, &build)?;
            for way in [Way::Resident, Way::Launched] {
                let progress =
                    format!("measuring {}, {}, {algorithm}, {way}", case.name, case.ruleset.len());
                let _progress = Progress::spinner(&progress);
                let name = format!("{}:{algorithm}", args.device.name());
                let figure = on_device(device, &loaded, case, &reference, &setting, way)?;
                report.figures.push(figure.named(name));
            }
            let built = engine::build(device, algorithm, &case.ruleset, &build)?;
            let name = format!("{}:{algorithm}", args.device.name());
            let figure = Figure::new(Way::Engine, case, setting.frame).named(name);
            let figure = time_classifier(&*built, figure, case, &reference, &setting);
            report.figures.push(figure);
            if let Some(cause) = device.retired() {
                return Err(unusable(device, cause));
            }
        }
    }
    if let Some(window) = report.usual_resident() {
        report.figures.push(clock_alone(window, &setting));
    }
    match (args.json, args.csv) {
        (true, _) => provenance::print_json(&provenance::of_device(device), &report)?,
        (_, true) => provenance::print_csv(&provenance::of_device(device), &report.to_csv())?,
        _ => print(&report.render())?,
    }
    let failed = report.figures.iter().any(|figure| figure.error.is_some());
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

impl Way {
    fn hysteresis(self) -> Hysteresis {
        match self {
            Way::Resident => Hysteresis::always(),
            Way::Launched | Way::Engine | Way::Cpu | Way::Clock => Hysteresis::never(),
        }
    }
}

fn histogram() -> Histogram<u64> {
    // Three digits of each figure.
    Histogram::new_with_max(LONGEST_NS, 3).expect("the bounds are fixed")
}

/// Frame `number` of a run: its first key.
fn start_of(number: usize, frame: usize, keys: &KeyBuf) -> usize {
    number * frame % (keys.len() - frame + 1)
}

/// What the machine adds by itself: a core that does nothing but read the clock until a frame's
/// usual time is over, as often as there are frames.
fn clock_alone(window: Duration, setting: &Setting) -> Figure {
    let mut times = histogram();
    let began = Instant::now();
    for _ in 0..setting.frames {
        let sent = Instant::now();
        let took = loop {
            let took = sent.elapsed();
            if took >= window {
                break took;
            }
        };
        times.saturating_record(took.as_nanos() as u64);
    }
    let mut figure = Figure::of_clock(setting.frame);
    figure.set_times(&times, began.elapsed());
    figure
}

/// Checks and measures an engine of the CPU on one core.
fn on_cpu(
    engine: Engine,
    args: &BenchGpuArgs,
    case: &Scenario,
    reference: &Reference,
    setting: &Setting,
) -> anyhow::Result<Figure> {
    let built = build_engine(engine, &case.ruleset, &args.build.to_options())?;
    let figure = Figure::new(Way::Cpu, case, setting.frame).named(engine.name().to_owned());
    Ok(time_classifier(built.classifier.as_ref(), figure, case, reference, setting))
}

/// Checks and measures a classifier, frame by frame.
fn time_classifier(
    classifier: &dyn Classifier,
    mut figure: Figure,
    case: &Scenario,
    reference: &Reference,
    setting: &Setting,
) -> Figure {
    let keys = case.keys.as_batch();
    let mut answers = vec![RuleId(0); keys.len()];
    for (at, out) in answers.chunks_mut(setting.frame).enumerate() {
        let start = at * setting.frame;
        classifier.classify(keys.slice(start, start + out.len()), out);
    }
    figure.check(reference, &answers);
    let mut times = histogram();
    let mut out = vec![RuleId(0); setting.frame];
    let warm_up = setting.frames / WARM_UP_PART;
    let mut began = Instant::now();
    for number in 0..warm_up + setting.frames {
        if number == warm_up {
            began = Instant::now();
        }
        let start = start_of(number, setting.frame, &case.keys);
        let sent = Instant::now();
        classifier.classify(keys.slice(start, start + setting.frame), &mut out);
        if number >= warm_up {
            times.saturating_record(sent.elapsed().as_nanos() as u64);
        }
    }
    figure.set_times(&times, began.elapsed());
    figure
}

/// Checks and measures frames on a device.
fn on_device(
    device: &Arc<Device>,
    loaded: &Arc<Loaded>,
    case: &Scenario,
    reference: &Reference,
    setting: &Setting,
    way: Way,
) -> anyhow::Result<Figure> {
    let config = FramesConfig {
        keys_max: setting.frame,
        frames: setting.under_way,
        hysteresis: way.hysteresis(),
        ..FramesConfig::on(device)
    };
    let mut frames = Frames::new(device, case.keys.schema(), config)?;
    if way == Way::Resident {
        frames.prepare(loaded)?;
    }
    let mut figure = Figure::new(way, case, setting.frame);
    let clock = Instant::now();
    let answers = answers(&mut frames, loaded, &case.keys, setting.frame, clock);
    figure.check(reference, &answers);
    if figure.error.is_some() {
        return Ok(figure);
    }
    let mut times = histogram();
    let took = laps(&mut frames, loaded, &case.keys, setting, clock, &mut times);
    figure.set_times(&times, took);
    if way == Way::Resident {
        figure.set_share(&frames.count());
    }
    Ok(figure)
}

/// Answers to a whole trace, frame by frame.
fn answers(
    frames: &mut Frames,
    loaded: &Arc<Loaded>,
    keys: &KeyBuf,
    frame: usize,
    clock: Instant,
) -> Vec<RuleId> {
    let mut answers = vec![RuleId(RuleId::NONE.0 - 1); keys.len()];
    let (mut sent, mut answered) = (0, 0);
    while answered < keys.len() {
        while sent < keys.len() && frames.has_room() {
            let len = frame.min(keys.len() - sent);
            frames.send(keys.as_batch().slice(sent, sent + len), loaded, clock.elapsed());
            sent += len;
        }
        let len = frames.oldest_len().expect("a frame is under way");
        frames.wait(&mut answers[answered..answered + len], || clock.elapsed());
        answered += len;
    }
    answers
}

/// Times frames, from before the first key is written to after the last answer is copied out;
/// gives how long all that counted took.
fn laps(
    frames: &mut Frames,
    loaded: &Arc<Loaded>,
    keys: &KeyBuf,
    setting: &Setting,
    clock: Instant,
    times: &mut Histogram<u64>,
) -> Duration {
    let warm_up = setting.frames / WARM_UP_PART;
    let mut out = vec![RuleId(0); setting.frame];
    let mut under_way: VecDeque<Duration> = VecDeque::with_capacity(setting.under_way);
    let (mut sent, mut taken, mut began) = (0, 0, Duration::ZERO);
    while taken < warm_up + setting.frames {
        while sent < warm_up + setting.frames && frames.has_room() {
            let start = start_of(sent, setting.frame, keys);
            let now = clock.elapsed();
            frames.send(keys.as_batch().slice(start, start + setting.frame), loaded, now);
            under_way.push_back(now);
            sent += 1;
        }
        frames.wait(&mut out, || clock.elapsed());
        let now = clock.elapsed();
        let then = under_way.pop_front().expect("a frame was sent");
        taken += 1;
        if taken == warm_up {
            began = now;
        }
        if taken > warm_up {
            times.saturating_record((now - then).as_nanos() as u64);
        }
    }
    clock.elapsed() - began
}
