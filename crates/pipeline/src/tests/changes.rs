//! Flows, groups and meters that come, change and go.

use warpswitch_rules::openflow::{
    Band, BandKind, Bucket, Flow, FlowAction, FlowCommand, FlowFilter, FlowMatch, Group, GroupMod,
    GroupType, Instructions, Meter, MeterMod, Refusal, RemovalReason, port,
};

use crate::testing::{Events, ethernet, flow, flow_mod, ipv4, matching, output, set_field};
use crate::{BUCKETS_MAX, METER_ALL, Pipeline, PipelineOptions, PortSettings, TableSettings};

const SECOND_NS: u64 = 1_000_000_000;

fn pipeline() -> Pipeline {
    Pipeline::new(PipelineOptions::default())
}

fn all() -> FlowFilter {
    FlowFilter {
        table: port::TABLE_ALL,
        matching: FlowMatch::any(),
        cookie: 0,
        cookie_mask: 0,
        out_port: port::ANY,
        out_group: port::GROUP_ANY,
    }
}

fn add(pipeline: &mut Pipeline, flow: Flow) -> Result<(), Refusal> {
    pipeline
        .flow_mod(&flow_mod(FlowCommand::Add, flow), 0)
        .map(|removed| assert!(removed.is_empty()))
}

fn send(pipeline: &mut Pipeline, now: u64) -> Vec<u32> {
    let mut events = Events::default();
    pipeline.execute(&ethernet(&[], 0x800, &ipv4(6)), 1, now, &mut events);
    events.ports()
}

fn priorities(pipeline: &Pipeline, filter: &FlowFilter) -> Vec<u16> {
    pipeline.flows(filter, 0).iter().map(|stats| stats.flow.priority).collect()
}

#[test]
fn an_added_flow_replaces_its_like_and_keeps_or_resets_counters() {
    let mut pipeline = pipeline();
    add(&mut pipeline, flow(0, 5, FlowMatch::any(), vec![output(2)])).unwrap();
    assert_eq!(send(&mut pipeline, 3), [2]);
    add(&mut pipeline, flow(0, 5, FlowMatch::any(), vec![output(3)])).unwrap();
    assert_eq!(send(&mut pipeline, 3), [3]);
    assert_eq!(pipeline.flows(&all(), 0)[0].packets, 2);
    let mut reset = flow(0, 5, FlowMatch::any(), vec![output(4)]);
    reset.flags.reset_counts = true;
    add(&mut pipeline, reset).unwrap();
    assert_eq!((pipeline.flows(&all(), 0)[0].packets, pipeline.flows_len()), (0, 1));
}

#[test]
fn modification_keeps_cookie_time_outs_and_counters() {
    let mut pipeline = pipeline();
    let mut first = flow(0, 5, matching(&[("in_port", 1)]), vec![output(2)]);
    (first.cookie, first.idle_timeout) = (7, 9);
    add(&mut pipeline, first).unwrap();
    send(&mut pipeline, 0);
    let mut change = flow_mod(FlowCommand::Modify, flow(0, 1, FlowMatch::any(), vec![output(3)]));
    (change.cookie_mask, change.flow.cookie) = (1, 0);
    pipeline.flow_mod(&change, 0).unwrap();
    assert_eq!(send(&mut pipeline, 0), [2], "another cookie");
    change.flow.cookie = 3;
    pipeline.flow_mod(&change, 0).unwrap();
    assert_eq!(send(&mut pipeline, 0), [3]);
    let stats = pipeline.flows(&all(), 0).remove(0);
    assert_eq!((stats.flow.cookie, stats.flow.idle_timeout, stats.packets), (7, 9, 3));
    assert_eq!(stats.flow.priority, 5);
    change.command = FlowCommand::ModifyStrict;
    change.flow.instructions.apply = vec![output(4)];
    pipeline.flow_mod(&change, 0).unwrap();
    assert_eq!(send(&mut pipeline, 0), [3], "another match and priority");
    assert_eq!(pipeline.flows_len(), 1, "a modification of nothing adds nothing");
}

#[test]
fn deletions_take_what_match_cookie_port_and_group_say() {
    let mut pipeline = pipeline();
    let group = Group { id: 1, kind: GroupType::All, buckets: Vec::new() };
    pipeline.group_mod(&GroupMod::Add(group), 0).unwrap();
    let ip = matching(&[("eth_type", 0x800)]);
    let tcp = matching(&[("eth_type", 0x800), ("nw_proto", 6)]);
    for (table, priority, matching, action) in [
        (0, 1, FlowMatch::any(), output(1)),
        (0, 2, ip, output(2)),
        (1, 3, tcp, FlowAction::Group(1)),
        (1, 4, tcp, output(2)),
    ] {
        add(&mut pipeline, flow(table, priority, matching, vec![action])).unwrap();
    }
    let of_port = FlowFilter { out_port: 2, ..all() };
    assert_eq!(priorities(&pipeline, &of_port), [2, 4]);
    assert_eq!(priorities(&pipeline, &FlowFilter { out_group: 1, ..all() }), [3]);
    assert_eq!(priorities(&pipeline, &FlowFilter { matching: ip, ..all() }), [2, 3, 4]);
    assert_eq!(priorities(&pipeline, &FlowFilter { table: 1, ..all() }), [3, 4]);
    let mut change = flow_mod(FlowCommand::Delete, flow(port::TABLE_ALL, 0, ip, Vec::new()));
    change.out_port = 2;
    let removed = pipeline.flow_mod(&change, 5).unwrap();
    let removed: Vec<_> =
        removed.iter().map(|gone| (gone.stats.flow.priority, gone.reason)).collect();
    assert_eq!(removed, [(2, RemovalReason::Delete), (4, RemovalReason::Delete)]);
    let strict = flow_mod(FlowCommand::DeleteStrict, flow(1, 4, tcp, Vec::new()));
    assert_eq!(pipeline.flow_mod(&strict, 0).unwrap(), []);
    let removed = pipeline.group_mod(&GroupMod::Delete(1), 0).unwrap();
    assert_eq!((removed.len(), removed[0].reason), (1, RemovalReason::GroupDelete));
    assert_eq!(pipeline.flows_len(), 1);
}

#[test]
fn flows_that_are_impossible_are_refused() {
    let mut pipeline = pipeline();
    let ip = matching(&[("eth_type", 0x800)]);
    let any = FlowMatch::any();
    let read_only =
        FlowAction::SetField { field: crate::testing::by_name("ip_frag"), value: 1, mask: 1 };
    for (matching, action, refusal) in [
        (any, output(0), Refusal::BadOutPort),
        (any, output(port::ANY), Refusal::BadOutPort),
        (any, FlowAction::Group(9), Refusal::BadOutGroup),
        (any, FlowAction::PushVlan(0x800), Refusal::BadActionArgument),
        (any, FlowAction::PopVlan, Refusal::BadActionMatch),
        (any, set_field("ip_src", 1), Refusal::BadActionMatch),
        (ip, set_field("tcp_src", 1), Refusal::BadActionMatch),
        (ip, read_only, Refusal::BadSetField),
        (ip, set_field("ip_dscp", 64), Refusal::BadActionArgument),
        (ip, FlowAction::DecMplsTtl, Refusal::BadActionMatch),
    ] {
        let flow = flow(0, 1, matching, vec![action]);
        assert_eq!(add(&mut pipeline, flow.clone()), Err(refusal), "{flow:?}");
    }
    let with = |instructions: Instructions| Flow::new(1, any, instructions);
    let goto = with(Instructions { goto_table: Some(0), ..Instructions::default() });
    assert_eq!(add(&mut pipeline, goto), Err(Refusal::BadGoto));
    let meter = with(Instructions { meter: Some(1), ..Instructions::default() });
    assert_eq!(add(&mut pipeline, meter), Err(Refusal::BadMeter));
    for action in [FlowAction::Exit, FlowAction::PopQueue] {
        let set = with(Instructions { write: vec![action], ..Instructions::default() });
        assert_eq!(add(&mut pipeline, set), Err(Refusal::BadActionSet));
    }
    assert_eq!(add(&mut pipeline, flow(254, 1, any, Vec::new())), Err(Refusal::NoSuchTable));
    assert_eq!((pipeline.flows_len(), pipeline.version()), (0, 0));
    // Actions before it may give a packet what an action needs.
    let push =
        [FlowAction::PushVlan(0x8100), set_field("vlan_pcp", 1), FlowAction::PushMpls(0x8847)];
    let then = [FlowAction::DecMplsTtl, FlowAction::PopMpls(0x800), FlowAction::DecNwTtl];
    add(&mut pipeline, flow(0, 1, any, [push, then].concat())).unwrap();
}

#[test]
fn overlaps_are_refused_if_asked() {
    let mut pipeline = pipeline();
    add(&mut pipeline, flow(0, 5, matching(&[("in_port", 1)]), Vec::new())).unwrap();
    let mut other = flow(0, 5, matching(&[("eth_type", 0x800)]), Vec::new());
    other.flags.check_overlap = true;
    assert_eq!(add(&mut pipeline, other.clone()), Err(Refusal::Overlap));
    add(&mut pipeline, Flow { priority: 6, ..other.clone() }).unwrap();
    add(&mut pipeline, Flow { table: 1, ..other.clone() }).unwrap();
    add(&mut pipeline, Flow { matching: matching(&[("in_port", 2)]), ..other }).unwrap();
}

#[test]
fn full_tables_refuse_or_evict_by_importance() {
    let mut pipeline = pipeline();
    let numbered = |number: u32, importance: u16| Flow {
        importance,
        ..flow(0, 1, matching(&[("in_port", number.into())]), Vec::new())
    };
    pipeline.configure_table(0, TableSettings { flows_max: 2, is_evicting: false }).unwrap();
    add(&mut pipeline, numbered(1, 5)).unwrap();
    add(&mut pipeline, numbered(2, 6)).unwrap();
    assert_eq!(add(&mut pipeline, numbered(3, 9)), Err(Refusal::TableFull));
    add(&mut pipeline, numbered(2, 6)).unwrap();
    pipeline.configure_table(0, TableSettings { flows_max: 2, is_evicting: true }).unwrap();
    assert_eq!(add(&mut pipeline, numbered(3, 4)), Err(Refusal::TableFull));
    let change = flow_mod(FlowCommand::Add, numbered(3, 5));
    let removed = pipeline.flow_mod(&change, 0).unwrap();
    assert_eq!(removed.len(), 1);
    assert_eq!((removed[0].reason, removed[0].stats.flow.importance), (RemovalReason::Eviction, 5));
    assert_eq!(removed[0].stats.flow.matching, numbered(1, 0).matching);
}

#[test]
fn time_outs_end_flows() {
    let mut pipeline = pipeline();
    let timed = |priority, idle, hard| Flow {
        idle_timeout: idle,
        hard_timeout: hard,
        ..flow(0, priority, FlowMatch::any(), vec![output(2)])
    };
    add(&mut pipeline, timed(1, 2, 0)).unwrap();
    add(&mut pipeline, timed(2, 2, 5)).unwrap();
    add(&mut pipeline, timed(3, 0, 1)).unwrap();
    let gone = |pipeline: &mut Pipeline, now: u64| -> Vec<(u16, RemovalReason)> {
        let removed = pipeline.expire(now);
        removed.iter().map(|gone| (gone.stats.flow.priority, gone.reason)).collect()
    };
    assert_eq!(pipeline.next_expiry_ns(), Some(SECOND_NS));
    assert_eq!(gone(&mut pipeline, SECOND_NS - 1), []);
    assert_eq!(gone(&mut pipeline, SECOND_NS), [(3, RemovalReason::HardTimeout)]);
    send(&mut pipeline, SECOND_NS);
    assert_eq!(gone(&mut pipeline, 2 * SECOND_NS), [(1, RemovalReason::IdleTimeout)]);
    send(&mut pipeline, 3 * SECOND_NS - 1);
    assert_eq!(gone(&mut pipeline, 5 * SECOND_NS - 2), []);
    send(&mut pipeline, 5 * SECOND_NS - 1);
    assert_eq!(gone(&mut pipeline, 5 * SECOND_NS), [(2, RemovalReason::HardTimeout)]);
    assert_eq!(pipeline.next_expiry_ns(), None);
}

#[test]
fn replaced_flows_leave_no_deadlines_behind() {
    let mut pipeline = pipeline();
    for _ in 0..10_000 {
        let timed = Flow { idle_timeout: 9, ..flow(0, 1, FlowMatch::any(), Vec::new()) };
        add(&mut pipeline, timed).unwrap();
    }
    pipeline.expire(0);
    assert!(pipeline.deadlines.len() < 2000, "{}", pipeline.deadlines.len());
}

fn bucket(actions: Vec<FlowAction>) -> Bucket {
    Bucket { weight: 0, watch_port: port::ANY, watch_group: port::GROUP_ANY, actions }
}

#[test]
fn groups_that_are_impossible_are_refused() {
    let mut pipeline = pipeline();
    let group = |id, kind, buckets| Group { id, kind, buckets };
    let to = |id: u32| vec![bucket(vec![FlowAction::Group(id)])];
    let add = |pipeline: &mut Pipeline, group| pipeline.group_mod(&GroupMod::Add(group), 0);
    add(&mut pipeline, group(1, GroupType::All, Vec::new())).unwrap();
    add(&mut pipeline, group(2, GroupType::Indirect, to(1))).unwrap();
    let twice = group(1, GroupType::All, Vec::new());
    assert_eq!(add(&mut pipeline, twice), Err(Refusal::GroupExists));
    for (group, refusal) in [
        (group(3, GroupType::Indirect, Vec::new()), Refusal::InvalidGroup),
        (group(3, GroupType::FastFailover, to(1)), Refusal::InvalidGroup),
        (group(3, GroupType::All, to(9)), Refusal::BadOutGroup),
        (group(3, GroupType::All, to(3)), Refusal::GroupLoop),
        (group(port::GROUP_ALL, GroupType::All, Vec::new()), Refusal::InvalidGroup),
        (
            group(3, GroupType::All, vec![bucket(Vec::new()); BUCKETS_MAX + 1]),
            Refusal::OutOfBuckets,
        ),
        (
            group(3, GroupType::All, vec![Bucket { weight: 1, ..bucket(Vec::new()) }]),
            Refusal::InvalidGroup,
        ),
        (
            group(3, GroupType::All, vec![Bucket { watch_port: 9, ..bucket(Vec::new()) }]),
            Refusal::BadWatch,
        ),
    ] {
        assert_eq!(add(&mut pipeline, group.clone()), Err(refusal), "{group:?}");
    }
    let modify = |pipeline: &mut Pipeline, group| pipeline.group_mod(&GroupMod::Modify(group), 0);
    let around = group(1, GroupType::Indirect, to(2));
    assert_eq!(modify(&mut pipeline, around), Err(Refusal::GroupLoop));
    let unknown = group(8, GroupType::All, Vec::new());
    assert_eq!(modify(&mut pipeline, unknown), Err(Refusal::UnknownGroup));
    assert_eq!(pipeline.group_stats(None, 0).len(), 2);
    assert_eq!(pipeline.group_stats(Some(1), 0)[0].references, 1);
    pipeline.set_port(9, PortSettings::default());
    pipeline.group_mod(&GroupMod::Delete(port::GROUP_ALL), 0).unwrap();
    assert_eq!(pipeline.group_stats(None, 0), []);
}

#[test]
fn meters_come_and_go_with_their_flows() {
    let mut pipeline = pipeline();
    let meter = |id, rate| Meter {
        id,
        in_packets: true,
        has_burst: true,
        has_stats: true,
        bands: vec![Band { rate, burst: 1, kind: BandKind::Drop }],
    };
    for (change, refusal) in [
        (MeterMod::Add(meter(0, 1)), Refusal::InvalidMeter),
        (MeterMod::Add(meter(1, 0)), Refusal::BadRate),
        (MeterMod::Modify(meter(1, 1)), Refusal::UnknownMeter),
    ] {
        assert_eq!(pipeline.meter_mod(&change, 0), Err(refusal));
    }
    pipeline.meter_mod(&MeterMod::Add(meter(1, 1)), 0).unwrap();
    assert_eq!(pipeline.meter_mod(&MeterMod::Add(meter(1, 1)), 0), Err(Refusal::MeterExists));
    let mut metered = flow(0, 1, FlowMatch::any(), vec![output(2)]);
    metered.instructions.meter = Some(1);
    add(&mut pipeline, metered).unwrap();
    assert_eq!(send(&mut pipeline, 0), [2]);
    assert_eq!(send(&mut pipeline, SECOND_NS / 2), []);
    assert_eq!(send(&mut pipeline, SECOND_NS), [2]);
    let stats = pipeline.meter_stats(Some(1), 9).remove(0);
    assert_eq!((stats.flows, stats.packets, stats.bands[0].0, stats.age_ns), (1, 3, 1, 9));
    let removed = pipeline.meter_mod(&MeterMod::Delete(METER_ALL), 0).unwrap();
    assert_eq!((removed.len(), removed[0].reason), (1, RemovalReason::MeterDelete));
}
