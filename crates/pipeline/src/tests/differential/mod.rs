//! Every lookup and cache gives what the plain interpreter over linear tables gives: the same
//! frames, ports, packet-ins, refusals, counters and removals, over random pipelines, changes and
//! packets.

use warpswitch_flow::{FlowCache, FlowCacheOptions};
use warpswitch_rules::openflow::{
    Flow, FlowCommand, FlowFilter, FlowMatch, GroupMod, Instructions, MeterMod, port,
};
use warpswitch_testkit::random::Random;

use self::generate::{flow, frame, group, ingress, meter, pick};
use crate::testing::{Events, flow_mod, output};
use crate::{Ingress, Lookup, Pipeline, PipelineOptions, PortSettings, TableSettings};

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
        let table = TableSettings { flows_max: 30, is_evicting: false };
        let options = PipelineOptions {
            tables: TABLES,
            table,
            lookup,
            hash_seed: 1,
            ..PipelineOptions::default()
        };
        let mut pipeline = Pipeline::new(options);
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

fn check(seed: u64) -> [u64; 2] {
    let mut random = Random::new(seed);
    let mut subjects = subjects();
    let mut recent: Vec<Vec<u8>> = Vec::new();
    let mut now = 0;
    // Packets go on where no other flow matches.
    for table in 0..TABLES as u8 {
        let mut flow = Flow::new(0, FlowMatch::any(), Instructions::default());
        flow.table = table;
        flow.instructions.apply = vec![output(1 + u32::from(table))];
        flow.instructions.goto_table = Some(table + 1).filter(|&next| usize::from(next) < TABLES);
        for subject in &mut subjects {
            subject.pipeline.flow_mod(&flow_mod(FlowCommand::Add, flow.clone()), 0).unwrap();
        }
    }
    for _ in 0..40 {
        // Few changes leave most of a cache, many empty it.
        let changes_max = pick(&mut random, &[3, 40]);
        for _ in 0..random.below(changes_max) {
            change(&mut random, &mut subjects, now);
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
                change(&mut random, &mut subjects, now);
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
            undo(&mut random, &mut subjects, now);
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
    let hits = |subject: &Subject| subject.cache.as_ref().map(FlowCache::stats);
    let [micro, mega] = [2, 3].map(|subject: usize| hits(&subjects[subject]).unwrap_or_default());
    [micro.micro_hits, mega.micro_hits + mega.mega_hits]
}

#[test]
fn caches_and_lookups_change_nothing() {
    let mut hits = [0, 0];
    for seed in 0..16 {
        let found = check(seed);
        hits = [hits[0] + found[0], hits[1] + found[1]];
    }
    assert!(hits[0] > 400 && hits[1] > hits[0], "too few hits to mean anything: {hits:?}");
}
