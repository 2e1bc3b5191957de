//! Every lookup and cache gives what the plain interpreter over linear tables gives: the same
//! frames, ports, packet-ins, refusals, counters and removals, over random pipelines, changes and
//! packets. A pool of threads stands for a device; `--ignored` tests tables on a card.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use warpswitch_classify::BuildOptions;
use warpswitch_flow::{FlowCache, FlowCacheOptions};
use warpswitch_gpu::host::HostPool;
use warpswitch_gpu::{Algorithm, Device, engine};
use warpswitch_rules::Ruleset;
use warpswitch_rules::openflow::{
    Flow, FlowCommand, FlowFilter, FlowMatch, GroupMod, Instructions, MeterMod, port,
};
use warpswitch_testkit::random::Random;

use self::generate::{flow, frame, group, ingress, meter, pick};
use crate::testing::{Events, flow_mod, output};
use crate::{
    Ingress, Lookup, Pipeline, PipelineOptions, PortSettings, TableEngines, TableSettings,
};

mod generate;

const TABLES: usize = 4;
const PORTS: u32 = 4;
const SECOND_NS: u64 = 1_000_000_000;

/// All flows.
const ALL: FlowFilter = FlowFilter {
    table: port::TABLE_ALL,
    matching: FlowMatch::any(),
    cookie: 0,
    cookie_mask: 0,
    out_port: port::ANY,
    out_group: port::GROUP_ANY,
};

/// A device, and how many engines were built on it.
#[derive(Clone)]
struct OnDevice {
    device: Arc<Device>,
    built: Arc<AtomicUsize>,
}

/// A pipeline with or without a cache.
struct Subject {
    name: &'static str,
    pipeline: Pipeline,
    cache: Option<FlowCache>,
    /// Packets that are executed together; none for the plain interpreter.
    burst: Option<usize>,
}

impl Subject {
    fn new(name: &'static str, lookup: Lookup, masks_max: Option<usize>, burst: usize) -> Self {
        Self::with_engines(name, lookup, TableEngines::default(), masks_max, burst)
    }

    /// Tables whose bursts a device looks up.
    fn on_device(
        name: &'static str,
        on: &OnDevice,
        algorithm: Algorithm,
        masks_max: Option<usize>,
    ) -> Self {
        let on = on.clone();
        let build = move |rules: &Ruleset, options: &BuildOptions| {
            let built = engine::build(&on.device, algorithm, rules, options);
            assert_eq!(on.device.retired(), None, "the device was retired");
            on.built.fetch_add(1, Ordering::Relaxed);
            built
        };
        let engines = TableEngines::new(Arc::new(build), 64);
        Self::with_engines(name, Lookup::Engine, engines, masks_max, 70)
    }

    fn with_engines(
        name: &'static str,
        lookup: Lookup,
        engines: TableEngines,
        masks_max: Option<usize>,
        burst: usize,
    ) -> Self {
        let table = TableSettings { flows_max: 30, is_evicting: false };
        let options = PipelineOptions {
            tables: TABLES,
            table,
            lookup,
            hash_seed: 1,
            ..PipelineOptions::default()
        };
        let mut pipeline = Pipeline::with_engines(options, engines);
        for port in 1..=PORTS {
            pipeline.set_port(port, PortSettings::default());
        }
        let cache = |masks_max| {
            let (microflows_max, traversals_max) = (64, 50);
            let bytes_max = 20 << 10;
            let options =
                FlowCacheOptions { microflows_max, traversals_max, bytes_max, masks_max, seed: 2 };
            FlowCache::new(options)
        };
        let burst = (burst > 0).then_some(burst);
        Self { name, pipeline, cache: masks_max.map(cache), burst }
    }

    fn execute(&mut self, frames: &[Vec<u8>], from: Ingress, now: u64) -> Events {
        let mut events = Events::default();
        let Some(burst) = self.burst else {
            for frame in frames {
                self.pipeline.execute(frame, from, now, &mut events);
            }
            return events;
        };
        for frames in frames.chunks(burst) {
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            self.pipeline.execute_burst(self.cache.as_mut(), &frames, from, now, &mut events);
        }
        events
    }
}

fn subjects() -> Vec<Subject> {
    vec![
        Subject::new("linear", Lookup::Linear, None, 0),
        Subject::new("tuple space", Lookup::TupleSpace, None, 0),
        Subject::new("microflow", Lookup::TupleSpace, Some(0), 1),
        Subject::new("megaflow", Lookup::Engine, Some(16), 1),
        Subject::new("linear, megaflow", Lookup::Linear, Some(16), 3),
        Subject::new("bursts, microflow", Lookup::Engine, Some(0), 5),
        Subject::new("bursts, megaflow", Lookup::Engine, Some(16), 70),
        Subject::new("tuple space, bursts", Lookup::TupleSpace, None, 5),
        Subject::new("engine", Lookup::Engine, None, 1),
        Subject::new("engine, bursts", Lookup::Engine, None, 70),
    ]
}

/// Makes one random change everywhere; the results must be the same everywhere.
fn change(random: &mut Random, subjects: &mut [Subject], now: u64) {
    let what = random.below(24);
    make(random, subjects, now, what);
}

/// Makes changes as one group and undoes them: nothing has changed.
fn undo(random: &mut Random, subjects: &mut [Subject], now: u64) {
    let state = |subject: &Subject| {
        let pipeline = &subject.pipeline;
        let (groups, meters) = (pipeline.group_stats(None, now), pipeline.meter_stats(None, now));
        (pipeline.flows(&ALL, now), groups, meters, pipeline.flow_totals(&ALL))
    };
    let before: Vec<_> = subjects.iter().map(state).collect();
    subjects.iter_mut().for_each(|subject| subject.pipeline.begin_group());
    for _ in 0..random.below(30) {
        // Ports are no part of a group.
        let what = [0, 1, 2, 3, 4, 6, 7][random.below(7)];
        make(random, subjects, now, what);
    }
    subjects.iter_mut().for_each(|subject| subject.pipeline.end_group(false));
    let after: Vec<_> = subjects.iter().map(state).collect();
    assert_eq!(before, after);
}

fn make(random: &mut Random, subjects: &mut [Subject], now: u64, what: usize) {
    let (flow, group, meter) = (flow(random), group(random), meter(random));
    let commands = [
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];
    let mut change = flow_mod(FlowCommand::Add, flow);
    if what == 0 {
        change.command = pick(random, &commands);
        change.cookie_mask = random.below(4) as u64;
        change.out_port = if random.chance(1, 2) { port::ANY } else { 2 };
    }
    let settings = PortSettings {
        is_live: random.chance(1, 2),
        is_flooded: random.chance(1, 2),
        is_forwarded: random.chance(3, 4),
    };
    let number = 1 + random.below(PORTS as usize) as u32;
    let mut first = None;
    for subject in subjects {
        let pipeline = &mut subject.pipeline;
        let result = match what {
            1 => format!("{:?}", pipeline.group_mod(&GroupMod::Add(group.clone()), now)),
            2 => format!("{:?}", pipeline.group_mod(&GroupMod::Modify(group.clone()), now)),
            3 => format!("{:?}", pipeline.meter_mod(&MeterMod::Add(meter.clone()), now)),
            4 => format!("{:?}", pipeline.meter_mod(&MeterMod::Modify(meter.clone()), now)),
            5 => {
                pipeline.set_port(number, settings);
                String::new()
            }
            6 if group.id == 1 => format!("{:?}", pipeline.group_mod(&GroupMod::Delete(1), now)),
            _ => format!("{:?}", pipeline.flow_mod(&change, now)),
        };
        let first = first.get_or_insert_with(|| result.clone());
        assert_eq!(*first, result, "{}", subject.name);
    }
}

/// Tables of a device by each algorithm, without a cache and with both.
fn subjects_on(device: &OnDevice) -> Vec<Subject> {
    let on = |name, algorithm, masks_max| Subject::on_device(name, device, algorithm, masks_max);
    vec![
        Subject::new("linear", Lookup::Linear, None, 0),
        on("linear on the device", Algorithm::Linear, None),
        on("tuple on the device", Algorithm::Tuple, None),
        on("Bloom on the device", Algorithm::Bloom, None),
        on("hash per mask on the device", Algorithm::MaskHash, None),
        on("turbo on the device", Algorithm::Turbo, None),
        on("turbo on the device, microflow", Algorithm::Turbo, Some(0)),
        on("turbo on the device, megaflow", Algorithm::Turbo, Some(16)),
    ]
}

/// Compares tables of a device with those of the interpreter.
fn check_device(device: Arc<Device>, seeds: u64) {
    let on = OnDevice { device, built: Arc::default() };
    for seed in 0..seeds {
        check(seed, &mut subjects_on(&on));
    }
    assert_eq!(on.device.retired(), None, "the device was retired");
    let built = on.built.load(Ordering::Relaxed);
    assert!(built > 10 * seeds as usize, "too few engines to mean anything: {built}");
}

/// Compares subjects over random changes and packets; the first is the reference.
fn check(seed: u64, subjects: &mut [Subject]) {
    let mut random = Random::new(seed);
    let mut recent: Vec<Vec<u8>> = Vec::new();
    let mut now = 0;
    // Packets go on where no other flow matches.
    for table in 0..TABLES as u8 {
        let mut flow = Flow::new(0, FlowMatch::any(), Instructions::default());
        flow.table = table;
        flow.instructions.apply = vec![output(1 + u32::from(table))];
        flow.instructions.goto_table = Some(table + 1).filter(|&next| usize::from(next) < TABLES);
        for subject in subjects.iter_mut() {
            subject.pipeline.flow_mod(&flow_mod(FlowCommand::Add, flow.clone()), 0).unwrap();
        }
    }
    for _ in 0..40 {
        // Few changes leave most of a cache, many empty it.
        let changes_max = pick(&mut random, &[3, 40]);
        for _ in 0..random.below(changes_max) {
            change(&mut random, subjects, now);
        }
        for _ in 0..20 {
            now += random.below(SECOND_NS as usize / 4) as u64;
            let mut frames: Vec<Vec<u8>> = Vec::new();
            for _ in 0..1 + random.below(10) {
                // Every other frame comes again and again.
                let again = if random.chance(1, 2) { recent.first().cloned() } else { None };
                frames.push(again.unwrap_or_else(|| frame(&mut random)));
                recent.truncate(7);
                recent.insert(0, frames[frames.len() - 1].clone());
                let turn = random.below(recent.len());
                recent.rotate_left(turn);
            }
            let from = ingress(&mut random);
            // A change between two packets of one burst.
            let (before, after) = frames.split_at(random.below(frames.len() + 1));
            let mut events: Vec<Events> =
                subjects.iter_mut().map(|subject| subject.execute(before, from, now)).collect();
            if random.chance(1, 8) {
                change(&mut random, subjects, now);
            }
            for (subject, events) in subjects.iter_mut().zip(&mut events) {
                events.0.extend(subject.execute(after, from, now).0);
            }
            for (subject, found) in subjects.iter().zip(&events) {
                assert_eq!(*found, events[0], "{} seed {seed} {frames:02x?}", subject.name);
            }
        }
        let removed: Vec<_> =
            subjects.iter_mut().map(|subject| subject.pipeline.expire(now)).collect();
        if random.chance(1, 2) {
            undo(&mut random, subjects, now);
        }
        let [first, rest @ ..] = &subjects[..] else { unreachable!() };
        for (place, subject) in rest.iter().enumerate() {
            let (left, right) = (&first.pipeline, &subject.pipeline);
            assert_eq!(removed[0], removed[place + 1], "{} seed {seed}", subject.name);
            assert_eq!(left.flows(&ALL, now), right.flows(&ALL, now), "{}", subject.name);
            assert_eq!(left.table_stats(), right.table_stats(), "{}", subject.name);
            assert_eq!(left.group_stats(None, now), right.group_stats(None, now));
            assert_eq!(left.meter_stats(None, now), right.meter_stats(None, now));
            assert_eq!(left.stats(), right.stats());
        }
    }
}

#[test]
fn caches_and_lookups_change_nothing() {
    let mut hits = [0, 0];
    for seed in 0..16 {
        let mut subjects = subjects();
        check(seed, &mut subjects);
        let cached = |name: &str| {
            let subject = subjects.iter().find(|subject| subject.name == name);
            subject.and_then(|subject| subject.cache.as_ref()).map(FlowCache::stats)
        };
        let [micro, mega] = ["microflow", "megaflow"].map(|name| cached(name).unwrap());
        hits[0] += micro.micro_hits;
        hits[1] += mega.micro_hits + mega.mega_hits;
    }
    assert!(hits[0] > 400 && hits[1] > hits[0], "too few hits to mean anything: {hits:?}");
}

#[test]
fn tables_of_a_device_change_nothing() {
    let start = &mut |worker| _ = thread::spawn(worker);
    check_device(Device::from_pool(HostPool::new(2, start)), 4);
}

#[test]
#[ignore = "needs a card"]
fn tables_of_a_card_change_nothing() {
    check_device(Device::open_card(0, None).expect("a card"), 16);
}
