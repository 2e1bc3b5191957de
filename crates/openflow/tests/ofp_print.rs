//! The switch's own messages, as bytes and as `ovs-ofctl ofp-print` prints them.

mod common;

use std::process::Command;

use common::{ListSwitch, digits, hex};
use warpswitch_openflow::{
    AsyncConfig, BundleControl, BundleStep, Datapath, ErrorCode, ErrorMessage, ExperimenterMessage,
    Features, FragmentPolicy, Hello, Message, MultipartReply, NO_BUFFER, PacketInMessage,
    PortChange, PortStatus, Role, RoleMessage, SwitchConfig, SwitchDescription, VERSION,
    capability,
};
use warpswitch_rules::openflow::{
    Flow, FlowMatch, FlowRemoved, FlowStats, Instructions, PacketInReason, RemovalReason, field,
};

#[track_caller]
fn check(message: &Message, bytes: &str, printed: &[&str]) {
    let encoded = message.encode(1);
    if !bytes.is_empty() {
        assert_eq!(digits(&encoded), digits(&hex(bytes)), "{message:?}");
    }
    let output = Command::new("ovs-ofctl").args(["ofp-print", &digits(&encoded)]).output();
    let Ok(output) = output else {
        eprintln!("bytes only: ovs-ofctl is not installed (apt install openvswitch-common)");
        return;
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    for part in printed {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(!text.contains("***"), "{text}");
}

fn match_of(name: &str, value: u128) -> FlowMatch {
    let mut matching = FlowMatch::any();
    matching.set(field(name).expect("field"), value, u128::MAX);
    matching
}

#[test]
fn session_messages() {
    check(
        &Message::Hello(Hello { version: VERSION, bitmap: Some(1 << VERSION) }),
        "04000010 00000001 00010008 00000010",
        &["OFPT_HELLO (OF1.3)", "version bitmap: 0x04"],
    );
    let error = ErrorCode::MATCH_BAD_PREREQ;
    check(
        &Message::Error(ErrorMessage { error, data: hex("0405000800000001") }),
        "04010014 00000001 0004 0009 04050008 00000001",
        &["OFPBMC_BAD_PREREQ"],
    );
    let error = ErrorCode::BUNDLE_CLOSED;
    check(
        &Message::Error(ErrorMessage { error, data: hex("0405000800000001") }),
        "04010018 00000001 ffff 0900 4f4e4600 04050008 00000001",
        &["OFPBFC_BUNDLE_CLOSED"],
    );
    let features = Features {
        datapath_id: 0xab,
        buffers: 256,
        tables: 254,
        auxiliary: 0,
        capabilities: capability::FLOW_STATS | capability::PORT_STATS,
    };
    check(
        &Message::FeaturesReply(features),
        "04060020 00000001 00000000000000ab 00000100 fe 00 0000 00000005 00000000",
        &["dpid:00000000000000ab", "n_tables:254, n_buffers:256", "FLOW_STATS PORT_STATS"],
    );
    check(
        &Message::GetConfigReply(SwitchConfig { fragments: FragmentPolicy::Drop, miss_len: 128 }),
        "0408000c 00000001 0001 0080",
        &["frags=drop miss_send_len=128"],
    );
    check(
        &Message::RoleReply(RoleMessage { role: Role::Master, generation_id: 7 }),
        "04190018 00000001 00000002 00000000 0000000000000007",
        &["role=primary generation_id=7"],
    );
    check(
        &Message::GetAsyncReply(AsyncConfig::default()),
        "041b0020 00000001 00000007 00000000 00000007 00000007 0000000f 00000000",
        &["PACKET_IN: no_match action invalid_ttl", "FLOW_REMOVED: idle hard delete group_delete"],
    );
    check(&Message::BarrierReply, "04150008 00000001", &["OFPT_BARRIER_REPLY"]);
    check(&Message::EchoReply(vec![1]), "04030009 00000001 01", &["1 bytes of payload"]);
}

#[test]
fn asynchronous_messages() {
    check(
        &Message::PacketIn(PacketInMessage {
            buffer_id: NO_BUFFER,
            total_len: 4,
            reason: PacketInReason::InvalidTtl,
            table: 3,
            cookie: 5,
            matching: match_of("in_port", 7),
            data: vec![0; 4],
        }),
        "040a002e 00000001 ffffffff 0004 02 03 0000000000000005 0001000c 80000004 00000007 \
         00000000 0000 00000000",
        &["table_id=3 cookie=0x5 total_len=4 in_port=7 (via invalid_ttl) data_len=4"],
    );
    let flow = Flow {
        table: 2,
        cookie: 9,
        idle_timeout: 60,
        hard_timeout: 90,
        ..Flow::new(5, match_of("metadata", 1), Instructions::default())
    };
    let stats = FlowStats { flow, packets: 4, bytes: 240, age_ns: 61_500_000_000 };
    check(
        &Message::FlowRemoved(FlowRemoved { stats, reason: RemovalReason::IdleTimeout }),
        "040b0040 00000001 0000000000000009 0005 00 02 0000003d 1dcd6500 003c 005a \
         0000000000000004 00000000000000f0 00010010 80000408 0000000000000001",
        &["metadata=0x1 reason=idle table_id=2 cookie:0x9 duration61.500s idle60 hard90 pkts4"],
    );
    let port = ListSwitch::default().ports[0].clone();
    check(
        &Message::PortStatus(PortStatus { change: PortChange::Removed, port }),
        "",
        &["DEL: 1(eth1): addr:02:00:00:00:00:01", "speed: 10000 Mbps now"],
    );
    let control = BundleControl { bundle: 2, step: BundleStep::Commit, is_reply: true, flags: 3 };
    check(
        &Message::Experimenter(ExperimenterMessage::BundleControl(control)),
        "04040018 00000001 4f4e4600 000008fc 00000002 0005 0003",
        &["bundle_id=0x2 type=COMMIT_REPLY flags=atomic ordered"],
    );
}

#[test]
fn long_replies_are_split_between_entries() {
    let flow = Flow::new(5, match_of("metadata", 1), Instructions::default());
    let stats = FlowStats { flow, packets: 4, bytes: 240, age_ns: 1 };
    let reply = MultipartReply::Flow(vec![stats.clone(); 3000]).encode(6);
    let mut rest = &reply[..];
    let (mut flows, mut flags) = (0, Vec::new());
    while !rest.is_empty() {
        let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        let (message, behind) = rest.split_at(len);
        flags.push(message[11]);
        match Message::decode(message) {
            Ok(Message::MultipartReply(MultipartReply::Flow(list))) => {
                assert!(list.iter().all(|entry| *entry == stats));
                flows += list.len();
            }
            other => panic!("{other:?}"),
        }
        rest = behind;
    }
    assert_eq!((flows, flags), (3000, vec![1, 1, 0]));
    assert_eq!(MultipartReply::Flow(Vec::new()).encode(6).len(), 16);
}

#[test]
fn multipart_replies() {
    let description = SwitchDescription {
        manufacturer: "m".repeat(300),
        hardware: "hardware".into(),
        software: "software".into(),
        serial: "serial".into(),
        datapath: "path".into(),
    };
    let reply = MultipartReply::Description(description);
    assert_eq!(reply.encode(1).len(), 1056 + 16);
    let printed = ["Hardware: hardware", "Serial Num: serial", "DP Description: path"];
    check(&Message::MultipartReply(reply), "", &printed);
    let switch = ListSwitch::default();
    let queues = MultipartReply::Queue(switch.queues(0));
    check(&Message::MultipartReply(queues), "", &["port 1 queue 5: bytes=128, pkts=2, errors=0"]);
    let reply = Message::QueueGetConfigReply { port: 1, queues: switch.queues(0) };
    check(
        &reply,
        "04170020 00000001 00000001 00000000 00000005 00000001 0010 000000000000",
        &["port=1", "queue 5:"],
    );
}
