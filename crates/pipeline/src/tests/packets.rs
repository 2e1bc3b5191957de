//! What happens to packets.

use warpswitch_rules::openflow::{
    Bucket, Flow, FlowAction, FlowCommand, FlowMatch, Group, GroupMod, GroupType, PacketInReason,
    Refusal, Subfield, port,
};

use crate::testing::{
    Event, Events, by_name, ethernet, flow, flow_mod, ipv4, matching, output, set_field,
};
use crate::{Ingress, Pipeline, PipelineOptions, PortSettings, WORK_MAX};

fn with(flows: Vec<Flow>) -> Pipeline {
    let mut pipeline = Pipeline::new(PipelineOptions::default());
    for port in 1..=4 {
        pipeline.set_port(port, PortSettings::default());
    }
    for flow in flows {
        pipeline.flow_mod(&flow_mod(FlowCommand::Add, flow), 0).unwrap();
    }
    pipeline
}

fn frame() -> Vec<u8> {
    ethernet(&[], 0x800, &ipv4(6))
}

fn execute(pipeline: &mut Pipeline, port: u32) -> Events {
    let mut events = Events::default();
    pipeline.execute(&frame(), port, 0, &mut events);
    events
}

#[test]
fn reserved_ports() {
    let any = FlowMatch::any();
    for (to, expected) in [
        (port::FLOOD, vec![3, 4]),
        (port::ALL, vec![2, 3, 4]),
        (port::IN_PORT, vec![1]),
        (port::LOCAL, vec![port::LOCAL]),
        (1, vec![]),
        (9, vec![9]),
    ] {
        let mut pipeline = with(vec![flow(0, 1, any, vec![output(to)])]);
        pipeline.set_port(2, PortSettings { is_flooded: false, ..PortSettings::default() });
        assert_eq!(execute(&mut pipeline, 1).ports(), expected, "{to:#x}");
    }
    let mut pipeline = with(vec![flow(0, 1, any, vec![output(port::NORMAL)])]);
    let events = execute(&mut pipeline, 1);
    assert!(matches!(&events.0[..], [Event::Normal(key, sent)] if key[0] == 1 && *sent == frame()));
    let mut pipeline = with(vec![flow(0, 1, any, vec![output(2)])]);
    pipeline.set_port(2, PortSettings { is_forwarded: false, ..PortSettings::default() });
    assert_eq!(execute(&mut pipeline, 1).0, []);
}

#[test]
fn packet_ins_say_why_and_from_where() {
    let mut miss = flow(0, 0, FlowMatch::any(), vec![output(port::CONTROLLER)]);
    miss.cookie = 5;
    let ip = matching(&[("eth_type", 0x800), ("in_port", 2)]);
    let mut ended = flow(0, 1, ip, vec![FlowAction::SetNwTtl(1), FlowAction::DecNwTtl, output(3)]);
    ended.instructions.write = vec![output(4)];
    let mut pipeline = with(vec![miss, ended]);
    let packet_in = |events: Events| match &events.0[..] {
        [Event::PacketIn(packet)] => packet.clone(),
        _ => panic!("{events:?}"),
    };
    let packet = packet_in(execute(&mut pipeline, 1));
    assert_eq!((packet.reason, packet.table, packet.cookie), (PacketInReason::NoMatch, 0, 5));
    assert_eq!((packet.key[0], packet.max_len, packet.frame), (1, port::NO_BUFFER, frame()));
    let packet = packet_in(execute(&mut pipeline, 2));
    assert_eq!((packet.reason, packet.cookie), (PacketInReason::InvalidTtl, 0));
    assert_eq!(pipeline.stats().ended, 1);
    assert_eq!(pipeline.table_stats()[0].matches, 2);
}

#[test]
fn no_flow_no_output() {
    let mut first = flow(0, 1, FlowMatch::any(), vec![output(2)]);
    first.instructions.goto_table = Some(1);
    first.instructions.write = vec![output(3)];
    let mut pipeline = with(vec![first]);
    assert_eq!(execute(&mut pipeline, 1).ports(), [2]);
    let stats = &pipeline.table_stats()[1];
    assert_eq!((stats.lookups, stats.matches), (1, 0));
}

#[test]
fn resubmits_registers_stack_and_exit() {
    let any = FlowMatch::any();
    let reg0 = Subfield { field: by_name("reg0"), offset: 0, bits: 16 };
    let high = Subfield { field: by_name("reg0"), offset: 16, bits: 16 };
    let resubmit = |table, port| FlowAction::Resubmit { port, table: Some(table) };
    let first = vec![
        set_field("reg0", 2),
        FlowAction::StackPush(reg0),
        resubmit(1, None),
        FlowAction::StackPop(reg0),
        FlowAction::Move { source: reg0, target: high },
        FlowAction::OutputBits { source: high, max_len: 0 },
        resubmit(2, Some(7)),
        resubmit(9, None),
        FlowAction::Exit,
        output(4),
    ];
    let second = vec![set_field("reg0", 3), FlowAction::OutputBits { source: reg0, max_len: 0 }];
    let of_port = matching(&[("in_port", 7)]);
    let third = vec![output(7), FlowAction::SetQueue(6), output(4), FlowAction::PopQueue];
    let mut pipeline =
        with(vec![flow(0, 1, any, first), flow(1, 1, any, second), flow(2, 1, of_port, third)]);
    let events = execute(&mut pipeline, 1);
    assert_eq!(events.ports(), [3, 2, 7, 4]);
    assert!(matches!(events.0[3], Event::Sent(4, Some(6), _)));
}

#[test]
fn endless_resubmits_end() {
    let again = FlowAction::Resubmit { port: None, table: None };
    let twice = flow(0, 1, FlowMatch::any(), vec![output(2), again.clone(), again]);
    let mut pipeline = with(vec![twice]);
    let sent = execute(&mut pipeline, 1).ports().len();
    assert!(sent > 0 && sent < WORK_MAX as usize);
    assert_eq!(pipeline.stats().limited, 1);
}

fn bucket(watch_port: u32, actions: Vec<FlowAction>) -> Bucket {
    Bucket { weight: 0, watch_port, watch_group: port::GROUP_ANY, actions }
}

#[test]
fn failover_follows_the_ports_and_buckets_change_copies() {
    let mut pipeline = with(Vec::new());
    let buckets =
        [2, 3].map(|port| bucket(port, vec![output(port), set_field("eth_dst", port.into())]));
    let group = Group { id: 1, kind: GroupType::FastFailover, buckets: buckets.to_vec() };
    pipeline.group_mod(&GroupMod::Add(group), 0).unwrap();
    let outer = bucket(port::ANY, vec![FlowAction::Group(1)]);
    let group = Group { id: 2, kind: GroupType::Indirect, buckets: vec![outer] };
    pipeline.group_mod(&GroupMod::Add(group), 0).unwrap();
    let flow = flow(0, 1, FlowMatch::any(), vec![FlowAction::Group(2), output(4)]);
    pipeline.flow_mod(&flow_mod(FlowCommand::Add, flow), 0).unwrap();
    let down = PortSettings { is_live: false, ..PortSettings::default() };
    for (is_down, ports) in [(None, [2, 4].to_vec()), (Some(2), vec![3, 4]), (Some(3), vec![4])] {
        if let Some(port) = is_down {
            pipeline.set_port(port, down);
        }
        let events = execute(&mut pipeline, 1);
        assert_eq!(events.ports(), ports);
        let Some(Event::Sent(4, None, last)) = events.0.last() else { panic!("{events:?}") };
        assert_eq!(*last, frame());
    }
    let stats = pipeline.group_stats(Some(1), 0).remove(0);
    assert_eq!((stats.packets, stats.buckets[0].0, stats.buckets[1].0), (3, 1, 1));
}

#[test]
fn tunnels_and_metadata_are_matched_and_written() {
    let mut first = flow(0, 1, matching(&[("tun_id", 5)]), vec![set_field("tun_id", 6)]);
    first.instructions.goto_table = Some(1);
    first.instructions.metadata =
        Some(warpswitch_rules::openflow::MetadataWrite { value: 0xff, mask: 0x0f });
    let second = matching(&[("tun_id", 6), ("metadata", 0x0f)]);
    let mut pipeline = with(vec![first, flow(1, 1, second, vec![output(2)])]);
    let mut events = Events::default();
    pipeline.execute(&frame(), Ingress { tun_id: 5, ..Ingress::from(1) }, 0, &mut events);
    assert_eq!(events.ports(), [2]);
    assert_eq!(execute(&mut pipeline, 1).ports(), []);
}

#[test]
fn packet_outs_execute_their_actions() {
    let mut pipeline = with(vec![flow(0, 1, FlowMatch::any(), vec![output(3)])]);
    let mut events = Events::default();
    let actions = [output(port::TABLE), set_field("ip_src", 1), output(2)];
    pipeline.packet_out(&frame(), port::CONTROLLER, &actions, 0, &mut events).unwrap();
    assert_eq!(events.ports(), [3, 2]);
    assert!(matches!(&events.0[0], Event::Sent(3, None, sent) if *sent == frame()));
    assert!(matches!(&events.0[1], Event::Sent(2, None, sent) if sent[26..30] == [0, 0, 0, 1]));
    let refused = pipeline.packet_out(&frame(), 1, &[set_field("udp_src", 1)], 0, &mut events);
    assert_eq!(refused, Err(Refusal::BadActionMatch));
    assert_eq!(events.0.len(), 2);
}
