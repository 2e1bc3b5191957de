//! What a pipeline does, by the specification.

mod changes;
mod differential;
mod packets;

use warpswitch_rules::openflow::{
    Bucket, FlowAction, FlowCommand, FlowMatch, Group, GroupMod, GroupType, Refusal, port,
};

use crate::testing::{Event, Events, ethernet, flow, flow_mod, ipv4, matching, output, set_field};
use crate::{Pipeline, PipelineOptions};

#[test]
fn main_path() {
    let mut pipeline = Pipeline::new(PipelineOptions::default());
    let group = Group {
        id: 7,
        kind: GroupType::All,
        buckets: [2, 3]
            .map(|port| Bucket {
                weight: 0,
                watch_port: port::ANY,
                watch_group: port::GROUP_ANY,
                actions: vec![set_field("eth_dst", u128::from(port)), output(port)],
            })
            .to_vec(),
    };
    pipeline.group_mod(&GroupMod::Add(group), 0).unwrap();
    let mut first =
        flow(0, 5, matching(&[("eth_type", 0x800)]), vec![FlowAction::PushVlan(0x8100)]);
    first.instructions.goto_table = Some(3);
    first.instructions.write = vec![output(4)];
    pipeline.flow_mod(&flow_mod(FlowCommand::Add, first), 0).unwrap();
    let second = flow(3, 5, FlowMatch::any(), vec![FlowAction::Group(7), FlowAction::DecNwTtl]);
    assert_eq!(
        pipeline.flow_mod(&flow_mod(FlowCommand::Add, second.clone()), 0),
        Err(Refusal::BadActionMatch)
    );
    let mut second = second;
    second.matching = matching(&[("eth_type", 0x800)]);
    pipeline.flow_mod(&flow_mod(FlowCommand::Add, second), 0).unwrap();
    let frame = ethernet(&[], 0x800, &ipv4(6));
    let mut events = Events::default();
    pipeline.execute(&frame, 1, 0, &mut events);
    assert_eq!(events.ports(), [2, 3, 4]);
    let Event::Sent(_, None, sent) = &events.0[1] else { panic!("{events:?}") };
    assert_eq!((&sent[..6], sent.len()), (&[0, 0, 0, 0, 0, 3][..], frame.len() + 4));
    let Event::Sent(_, None, sent) = &events.0[2] else { panic!("{events:?}") };
    assert_eq!((&sent[..6], sent[26]), (&frame[..6], 63));
}
