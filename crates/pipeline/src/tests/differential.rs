//! Every lookup and cache gives what the plain interpreter over linear tables gives: the same
//! frames, ports, packet-ins, refusals, counters and removals, over random pipelines, changes and
//! packets.

use warpswitch_flow::{FlowCache, FlowCacheOptions};
use warpswitch_rules::openflow::{
    Band, BandKind, Bucket, Flow, FlowAction, FlowCommand, FlowFilter, FlowMatch, Group, GroupMod,
    GroupType, Instructions, MetadataWrite, Meter, MeterMod, Subfield, port,
};
use warpswitch_testkit::random::Random;

use crate::frame::Packet;
use crate::testing::{Events, by_name, flow_mod, frames, output, set_field};
use crate::{Lookup, Pipeline, PipelineOptions, PortSettings, TableSettings};

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
            let options = FlowCacheOptions { microflows_max, traversals_max, masks_max, seed: 2 };
            FlowCache::new(options)
        };
        let burst = (burst > 0).then_some(burst);
        Self { name, pipeline, cache: masks_max.map(cache), burst }
    }

    fn execute(&mut self, frames: &[Vec<u8>], port: u32, now: u64) -> Events {
        let mut events = Events::default();
        let Some(burst) = self.burst else {
            for frame in frames {
                self.pipeline.execute(frame, port, now, &mut events);
            }
            return events;
        };
        for frames in frames.chunks(burst) {
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            self.pipeline.execute_burst(self.cache.as_mut(), &frames, port, now, &mut events);
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

fn pick<T: Clone>(random: &mut Random, items: &[T]) -> T {
    items[random.below(items.len())].clone()
}

/// Fields with few values, by the kind of packets that have them.
const ANY_FIELDS: [&str; 7] =
    ["in_port", "metadata", "reg0", "reg1", "eth_dst", "eth_src", "vlan_tci"];
const IP_FIELDS: [&str; 4] = ["ip_dscp", "nw_ttl", "nw_ecn", "ip_frag"];

fn matching(random: &mut Random) -> FlowMatch {
    let mut matching = FlowMatch::any();
    let mut demand = |random: &mut Random, name: &str| {
        let field = by_name(name);
        let value = match name {
            "nw_ttl" => pick(random, &[1, 2, 63, 64]),
            "vlan_tci" => pick(random, &[0, 0x1064, 0x7064]),
            "ip_src" => 0xc0a8_0a0a + random.below(2) as u128,
            "ip_dscp" => pick(random, &[8, 10, 12]),
            "mpls_label" => pick(random, &[0, 100]),
            "eth_dst" | "eth_src" | "tcp_dst" | "udp_dst" => random.below(3) as u128,
            _ => random.below(4) as u128,
        };
        let mask = match field.is_maskable && random.chance(1, 3) {
            true => 1 << random.below(4.min(field.range.bits)),
            false => u128::MAX,
        };
        matching.set(field, value, mask);
    };
    if random.chance(1, 2) {
        let name = pick(random, &ANY_FIELDS);
        demand(random, name);
    }
    let kind = random.below(10);
    let kinds: &[&str] = match kind {
        2..=5 => &["ip_src", "tcp_dst"],
        6 => &["udp_dst"],
        7 => &["mpls_label", "mpls_bos"],
        8 => &["arp_op"],
        _ => &[],
    };
    for &name in kinds {
        if random.chance(1, 3) {
            demand(random, name);
        }
    }
    if (2..=6).contains(&kind) && random.chance(1, 2) {
        let name = pick(random, &IP_FIELDS);
        demand(random, name);
    }
    let mut set = |name: &str, value, mask| _ = matching.set(by_name(name), value, mask);
    let all = u128::MAX;
    match kind {
        2..=5 => (set("eth_type", 0x800, all), set("nw_proto", 6, all)),
        6 => (set("eth_type", 0x86dd, all), set("nw_proto", 17, all)),
        7 => (set("eth_type", 0x8847, all), ()),
        8 => (set("eth_type", 0x806, all), ()),
        9 => (set("vlan_vid", 0x1000, 0x1000), ()),
        _ => ((), ()),
    };
    matching
}

fn bits(name: &str, offset: u8, bits: u8) -> Subfield {
    Subfield { field: by_name(name), offset, bits }
}

fn action(random: &mut Random, is_in_set: bool) -> FlowAction {
    let small = random.below(4) as u128;
    match random.below(if is_in_set { 21 } else { 30 }) {
        0..=4 => output(1 + random.below(PORTS as usize) as u32),
        5 => output(pick(random, &[port::FLOOD, port::ALL, port::IN_PORT, port::CONTROLLER])),
        6 => FlowAction::Group(1 + random.below(4) as u32),
        7 => FlowAction::SetQueue(small as u32),
        8 => FlowAction::PushVlan(0x8100),
        9 => FlowAction::PopVlan,
        10 => FlowAction::PushMpls(0x8847),
        11 => FlowAction::PopMpls(0x800),
        12 => FlowAction::DecNwTtl,
        13 => FlowAction::DecMplsTtl,
        14 => FlowAction::CopyTtlOut,
        15 => set_field("ip_src", 0xc0a8_0a0a + small),
        16 => set_field("tcp_dst", small),
        17 => set_field(pick(random, &["eth_dst", "eth_src"]), small),
        18 => set_field("ip_dscp", pick(random, &[8, 10, 12])),
        19 => set_field("vlan_vid", 0x1064 + small % 2),
        20 => set_field("reg0", small),
        21 => set_field("vlan_tci", pick(random, &[0, 0x1064])),
        22 => FlowAction::Move { source: bits("eth_src", 0, 8), target: bits("reg1", 0, 8) },
        23 => FlowAction::Move { source: bits("reg0", 0, 2), target: bits("eth_dst", 1, 2) },
        24 => FlowAction::OutputBits { source: bits("reg1", 0, 3), max_len: 9 },
        25 | 26 => {
            let port = random.chance(1, 3).then_some(2);
            FlowAction::Resubmit { port, table: Some(random.below(TABLES) as u8) }
        }
        27 => FlowAction::StackPush(bits("reg0", 0, 2)),
        28 => FlowAction::StackPop(bits("metadata", 1, 2)),
        _ => FlowAction::Exit,
    }
}

/// Actions whose later ones depend on what earlier ones found in the packet.
fn recipe(random: &mut Random) -> Vec<FlowAction> {
    let copy = |source, target| FlowAction::Move { source, target };
    let out = |source| FlowAction::OutputBits { source, max_len: 9 };
    match random.below(6) {
        0 => vec![copy(bits("eth_src", 0, 8), bits("reg1", 0, 8)), out(bits("reg1", 0, 3))],
        1 => vec![FlowAction::DecNwTtl, copy(bits("nw_ttl", 0, 1), bits("reg0", 0, 1))],
        2 => vec![FlowAction::PopVlan, output(1)],
        3 => vec![FlowAction::PopMpls(0x800), output(2)],
        4 => vec![
            FlowAction::StackPush(bits("eth_src", 0, 2)),
            FlowAction::StackPop(bits("reg1", 0, 2)),
        ],
        _ => vec![FlowAction::Group(1 + random.below(4) as u32), output(3)],
    }
}

fn actions(random: &mut Random, is_in_set: bool) -> Vec<FlowAction> {
    if !is_in_set && random.chance(1, 3) {
        return recipe(random);
    }
    (0..random.below(4)).map(|_| action(random, is_in_set)).collect()
}

fn flow(random: &mut Random) -> Flow {
    let table = random.below(TABLES) as u8;
    let goto = random.chance(3, 4).then(|| table + 1 + random.below(2) as u8);
    let metadata = MetadataWrite { value: random.below(4) as u64, mask: 3 };
    let instructions = Instructions {
        meter: random.chance(1, 6).then(|| 1 + random.below(2) as u32),
        apply: actions(random, false),
        clear: random.chance(1, 8),
        write: if random.chance(1, 2) { actions(random, true) } else { Vec::new() },
        metadata: random.chance(1, 4).then_some(metadata),
        goto_table: goto.filter(|&next| usize::from(next) < TABLES),
    };
    let mut flow = Flow::new(1 + random.below(4) as u16, matching(random), instructions);
    flow.table = table;
    flow.cookie = random.below(4) as u64;
    flow.idle_timeout = if random.chance(1, 5) { 2 } else { 0 };
    flow.hard_timeout = if random.chance(1, 8) { 5 } else { 0 };
    flow.flags.check_overlap = random.chance(1, 8);
    flow.flags.reset_counts = random.chance(1, 4);
    flow.flags.no_packet_counts = random.chance(1, 8);
    flow
}

fn group(random: &mut Random) -> Group {
    let kinds = [GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover];
    let kind = pick(random, &kinds);
    let count = if kind == GroupType::Indirect { 1 } else { 1 + random.below(3) };
    let bucket = |random: &mut Random| Bucket {
        weight: match kind {
            GroupType::Select => random.below(3) as u16,
            _ => 0,
        },
        watch_port: match kind {
            GroupType::FastFailover => 1 + random.below(PORTS as usize) as u32,
            _ => port::ANY,
        },
        watch_group: port::GROUP_ANY,
        actions: match random.chance(1, 3) {
            true => actions(random, true),
            false => vec![set_field("reg0", 1), output(1 + random.below(4) as u32)],
        },
    };
    let buckets = (0..count).map(|_| bucket(random)).collect();
    Group { id: 1 + random.below(4) as u32, kind, buckets }
}

fn meter(random: &mut Random) -> Meter {
    let kind = pick(random, &[BandKind::Drop, BandKind::DscpRemark(1)]);
    let band = Band { rate: 1 + random.below(8) as u32, burst: 2, kind };
    let id = 1 + random.below(2) as u32;
    Meter { id, in_packets: true, has_burst: true, has_stats: true, bands: vec![band] }
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

fn frame(random: &mut Random) -> Vec<u8> {
    let frame = pick(random, &frames());
    let mut packet = Packet::new(&frame, [0; _], Vec::new());
    let mut set = |name: &str, value: u128| packet.set(by_name(name), value, u128::MAX);
    let small = random.below(3) as u128;
    set("eth_dst", small);
    set("eth_src", random.below(4) as u128);
    set("tcp_dst", random.below(3) as u128);
    set("nw_ttl", pick(random, &[1, 2, 63, 64, 64, 64]));
    set("ip_dscp", pick(random, &[8, 10, 12]));
    set("ip_src", 0xc0a8_0a0a + small % 2);
    set("vlan_vid", 0x1064 + small);
    // The same outer headers over different inner ones.
    match random.below(6) {
        0 => {
            packet.edit(&FlowAction::PushVlan(0x8100));
            packet.set(by_name("vlan_tci"), 0x1064, u128::MAX);
        }
        1 => {
            packet.edit(&FlowAction::PushMpls(0x8847));
            packet.edit(&FlowAction::SetMplsTtl(9));
        }
        _ => {}
    }
    let mut frame = packet.frame().to_vec();
    if random.chance(1, 8) {
        frame.truncate(14 + random.below(40));
    }
    frame
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
            let port = 1 + random.below(PORTS as usize) as u32;
            let events: Vec<Events> =
                subjects.iter_mut().map(|subject| subject.execute(&frames, port, now)).collect();
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
