//! The agent's state machine: handshake, errors, roles, buffers, bundles and bounds.

mod common;

use common::{ListSwitch, hex, received};
use warpswitch_openflow::{
    Agent, AgentConfig, AsyncConfig, BundleControl, BundleStep, ConnectionId, ErrorCode,
    ErrorMessage, ExperimenterMessage, FlowModMessage, Hello, Message, MultipartRequest, NO_BUFFER,
    PacketOut, PortChange, PortStatus, Role, RoleMessage, VERSION,
};
use warpswitch_rules::openflow::{
    FLOW_WORDS, Flow, FlowAction, FlowCommand, FlowMatch, FlowMod, FlowRemoved, FlowStats,
    Instructions, PacketIn, PacketInReason, RemovalReason, port,
};

const SECOND_NS: u64 = 1_000_000_000;

/// An agent whose controllers are connected, with its switch.
struct Setup {
    agent: Agent,
    switch: ListSwitch,
    ids: Vec<ConnectionId>,
}

impl Setup {
    fn new(controllers: usize, config: AgentConfig) -> Self {
        let mut agent = Agent::new(config);
        let mut switch = ListSwitch::default();
        let hello = Message::Hello(Hello { version: VERSION, bitmap: None }).encode(1);
        let ids = (0..controllers).map(|_| agent.connect(0)).collect::<Vec<_>>();
        for &id in &ids {
            agent.receive(id, &hello, 0, &mut switch);
            assert!(matches!(received(&mut agent, id)[..], [(_, Message::Hello(_))]));
            assert!(agent.is_open(id));
        }
        Self { agent, switch, ids }
    }

    /// The replies to a message of controller `controller`.
    fn send(&mut self, controller: usize, message: &Message) -> Vec<Message> {
        self.send_bytes(controller, &message.encode(77))
    }

    fn send_bytes(&mut self, controller: usize, bytes: &[u8]) -> Vec<Message> {
        let id = self.ids[controller];
        self.agent.receive(id, bytes, 5, &mut self.switch);
        self.replies(controller)
    }

    fn replies(&mut self, controller: usize) -> Vec<Message> {
        let messages = received(&mut self.agent, self.ids[controller]);
        messages.into_iter().map(|(_, message)| message).collect()
    }

    #[track_caller]
    fn check_error(&mut self, controller: usize, message: &Message, error: ErrorCode) {
        let bytes = message.encode(77);
        let data = bytes[..bytes.len().min(64)].to_vec();
        let replies = self.send_bytes(controller, &bytes);
        assert_eq!(replies, [Message::Error(ErrorMessage { error, data })]);
    }
}

fn one() -> Setup {
    Setup::new(1, AgentConfig::default())
}

fn add_flow(table: u8, matching: FlowMatch, buffer_id: u32) -> Message {
    let flow = Flow { table, ..Flow::new(5, matching, Instructions::default()) };
    let change = FlowMod {
        command: FlowCommand::Add,
        flow,
        cookie_mask: 0,
        out_port: port::ANY,
        out_group: port::GROUP_ANY,
    };
    Message::FlowMod(FlowModMessage { change, buffer_id })
}

fn packet_in(max_len: u16) -> PacketIn {
    let mut key = [0; FLOW_WORDS];
    key[0] = 2;
    PacketIn {
        reason: PacketInReason::Action,
        table: 1,
        cookie: 9,
        max_len,
        key,
        frame: (0..100).collect(),
    }
}

#[test]
fn negotiates_openflow_1_3_or_reports_why_not() {
    for (bytes, is_open) in [
        ("04000008 00000001", true),
        ("06000008 00000001", true),
        ("06000010 00000001 00010008 00000012", true),
        ("01000008 00000001", false),
        ("03000008 00000001", false),
        ("06000010 00000001 00010008 00000040", false),
        ("06000010 00000001 00010003 00000040", true),
        ("04050008 00000001", false),
        ("04010008 00000001", false),
    ] {
        let mut agent = Agent::new(AgentConfig::default());
        let id = agent.connect(0);
        agent.sent(id, agent.transmit(id).len());
        agent.receive(id, &hex(bytes), 0, &mut ListSwitch::default());
        assert_eq!(agent.is_open(id), is_open, "{bytes}");
        assert_eq!(agent.close_reason(id).is_some(), !is_open, "{bytes}");
        let is_error = bytes.starts_with("0401");
        let error = agent.transmit(id).to_vec();
        assert_eq!(error.is_empty(), is_open || is_error, "{bytes}");
        if !error.is_empty() {
            let version = if bytes.starts_with("01") { 1 } else { 4 };
            assert_eq!((error[0], error[1], &error[8..12]), (version, 1, &[0; 4][..]));
        }
        assert!(is_open || !agent.wants_input(id), "{bytes}");
    }
}

#[test]
fn messages_may_come_in_pieces() {
    let mut setup = one();
    let bytes = [Message::EchoRequest(vec![1, 2, 3]).encode(7), Message::BarrierRequest.encode(8)];
    let mut replies = Vec::new();
    for byte in bytes.concat() {
        replies.extend(setup.send_bytes(0, &[byte]));
    }
    assert_eq!(replies, [Message::EchoReply(vec![1, 2, 3]), Message::BarrierReply]);
    assert_eq!(setup.switch.barriers, 1);
}

#[test]
fn malformed_messages_get_their_error_and_their_beginning() {
    use ErrorCode as E;
    for (bytes, error) in [
        ("05050008 00000001", E::REQUEST_BAD_VERSION),
        ("04630008 00000001", E::REQUEST_BAD_TYPE),
        (
            "04060020 00000001 00000000 00000000 00000000 00000000 00000000 00000000",
            E::REQUEST_BAD_TYPE,
        ),
        ("040a000a 00000001 0000", E::REQUEST_BAD_TYPE),
        ("0405000c 00000001 00000000", E::REQUEST_BAD_LEN),
        ("04140009 00000001 00", E::REQUEST_BAD_LEN),
        ("040e0010 00000001 00000000 00000000", E::REQUEST_BAD_LEN),
        ("04120010 00000001 00630000 00000000", E::REQUEST_BAD_MULTIPART),
        ("04120010 00000001 00000001 00000000", E::REQUEST_MULTIPART_BUFFER_OVERFLOW),
        ("04120010 00000001 ffff0000 00000000", E::REQUEST_BAD_LEN),
        ("04120018 00000001 ffff0000 00000000 00001234 00000000", E::REQUEST_BAD_EXPERIMENTER),
        ("04120018 00000001 ffff0000 00000000 00002320 00000000", E::REQUEST_BAD_EXP_TYPE),
        ("04040010 00000001 00001234 00000000", E::REQUEST_BAD_EXPERIMENTER),
        ("04040010 00000001 00002320 00007777", E::REQUEST_BAD_EXP_TYPE),
        ("040d0018 00000001 ffffffff 00000000 0000 000000000000", E::REQUEST_BAD_PORT),
        ("040d0018 00000001 ffffffff 00000001 0008 000000000000", E::REQUEST_BAD_LEN),
        ("040f0010 00000001 0005 00 00 00000001", E::GROUP_BAD_COMMAND),
        ("040f0010 00000001 0000 09 00 00000001", E::GROUP_BAD_TYPE),
        ("040f0010 00000001 0000 00 00 ffffff01", E::GROUP_INVALID),
        ("040f0018 00000001 0000 00 00 00000001 0000 0000 00000000", E::GROUP_BAD_BUCKET),
        ("041d0010 00000001 0003 0001 00000001", E::METER_BAD_COMMAND),
        ("041d0010 00000001 0000 0003 00000001", E::METER_BAD_FLAGS),
        ("041d0010 00000001 0000 0001 00000000", E::METER_INVALID),
        (
            "041d0020 00000001 0000 0001 00000001 0009 0010 00000001 00000000 00000000",
            E::METER_BAD_BAND,
        ),
        ("0409000c 00000001 0007 0080", E::CONFIG_BAD_FLAGS),
        ("0409000c 00000001 0001 0080", E::CONFIG_BAD_FLAGS),
        ("04180018 00000001 00000009 00000000 0000000000000000", E::ROLE_BAD_ROLE),
        ("04110010 00000001 09000000 00000000", E::TABLE_BAD_TABLE),
        ("04110010 00000001 ff000000 00000010", E::TABLE_BAD_CONFIG),
        ("04160010 00000001 00000009 00000000", E::QUEUE_BAD_PORT),
    ] {
        let bytes = hex(bytes);
        let replies = one().send_bytes(0, &bytes);
        assert_eq!(replies, [Message::Error(ErrorMessage { error, data: bytes })], "{error}");
    }
}

#[test]
fn flow_mods_are_checked_before_the_switch_gets_them() {
    use ErrorCode as E;
    let base = add_flow(0, FlowMatch::any(), NO_BUFFER).encode(1);
    // Offsets: 24 table, 25 command, 44 flags, 48 match type, 50 match length.
    for (at, value, error) in [
        (24, 0xff, E::FLOW_BAD_TABLE_ID),
        (24, 0x09, E::FLOW_BAD_TABLE_ID),
        (25, 0x07, E::FLOW_BAD_COMMAND),
        (44, 0x80, E::FLOW_BAD_FLAGS),
        (48, 0x01, E::MATCH_BAD_TYPE),
        (51, 0x03, E::MATCH_BAD_LEN),
        (51, 0x20, E::MATCH_BAD_LEN),
    ] {
        let mut bytes = base.clone();
        bytes[at] = value;
        let mut setup = one();
        let replies = setup.send_bytes(0, &bytes);
        assert_eq!(replies, [Message::Error(ErrorMessage { error, data: bytes })], "{at}");
        assert!(setup.switch.flows.is_empty());
    }
    let mut setup = one();
    assert_eq!(setup.send_bytes(0, &base), []);
    assert_eq!(setup.switch.flows.len(), 1);
}

#[test]
fn lost_framing_closes_the_connection() {
    let mut setup = one();
    let bytes = hex("04050007 00000009 0405000800000001");
    let replies = setup.send_bytes(0, &bytes);
    let error = ErrorCode::REQUEST_BAD_LEN;
    assert_eq!(replies, [Message::Error(ErrorMessage { error, data: bytes[..8].to_vec() })]);
    assert!(setup.agent.close_reason(setup.ids[0]).is_some());
    assert_eq!(setup.send(0, &Message::FeaturesRequest), []);
}

#[test]
fn errors_and_late_hellos_get_no_reply() {
    let mut setup = one();
    for bytes in ["04010008 00000001", "0401000c 00000001 00010001", "04000008 00000001"] {
        assert_eq!(setup.send_bytes(0, &hex(bytes)), [], "{bytes}");
    }
}

#[test]
fn a_new_master_makes_the_old_one_a_slave_that_may_not_write() {
    let mut setup = Setup::new(2, AgentConfig::default());
    let role = |role, generation_id| Message::RoleRequest(RoleMessage { role, generation_id });
    let reply = |role, generation_id| Message::RoleReply(RoleMessage { role, generation_id });
    assert_eq!(setup.send(0, &role(Role::NoChange, 0)), [reply(Role::Equal, u64::MAX)]);
    let last = u64::MAX - 1;
    assert_eq!(setup.send(0, &role(Role::Master, last)), [reply(Role::Master, last)]);
    // Generation ids wrap around.
    assert_eq!(setup.send(1, &role(Role::Master, 1)), [reply(Role::Master, 1)]);
    assert_eq!(setup.send(0, &role(Role::NoChange, 0)), [reply(Role::Slave, 1)]);
    setup.check_error(0, &role(Role::Master, last), ErrorCode::ROLE_STALE);
    let write = add_flow(0, FlowMatch::any(), NO_BUFFER);
    setup.check_error(0, &write, ErrorCode::REQUEST_IS_SLAVE);
    let packet =
        PacketOut { buffer_id: NO_BUFFER, in_port: 1, actions: Vec::new(), data: vec![0; 60] };
    setup.check_error(0, &Message::PacketOut(packet), ErrorCode::REQUEST_IS_SLAVE);
    assert_eq!(setup.send(1, &write), []);
    let table = Message::MultipartRequest(MultipartRequest::Table);
    assert!(matches!(setup.send(0, &table)[..], [Message::MultipartReply(_)]));
}

#[test]
fn asynchronous_messages_follow_role_and_configuration() {
    let mut setup = Setup::new(2, AgentConfig::default());
    let slave = Message::RoleRequest(RoleMessage { role: Role::Slave, generation_id: 1 });
    setup.send(1, &slave);
    let port = setup.switch.ports[0].clone();
    let status = PortStatus { change: PortChange::Modified, port };
    let mut flow = Flow::new(5, FlowMatch::any(), Instructions::default());
    let mut report = |setup: &mut Setup, send_flow_removed| {
        flow.flags.send_flow_removed = send_flow_removed;
        let stats = FlowStats { flow: flow.clone(), packets: 1, bytes: 2, age_ns: 3 };
        setup.agent.flow_removed(&FlowRemoved { stats, reason: RemovalReason::IdleTimeout });
        setup.agent.port_status(&status);
        setup.agent.packet_in(&packet_in(port::NO_BUFFER), 0);
        [0, 1].map(|controller| setup.replies(controller).len())
    };
    assert_eq!(report(&mut setup, true), [3, 1]);
    assert_eq!(report(&mut setup, false), [2, 1]);
    let mut config = AsyncConfig::default();
    config.master.packet_in = 0b101;
    config.slave.packet_in = 0b010;
    for controller in [0, 1] {
        assert_eq!(setup.send(controller, &Message::SetAsync(config)), []);
    }
    assert_eq!(setup.send(0, &Message::GetAsyncRequest), [Message::GetAsyncReply(config)]);
    assert_eq!(report(&mut setup, true), [2, 2]);
}

#[test]
fn buffers_hold_packets_of_which_a_part_is_sent() {
    let mut setup = one();
    setup.agent.packet_in(&packet_in(20), 0);
    setup.agent.packet_in(&packet_in(200), 0);
    let replies = setup.replies(0);
    let [Message::PacketIn(part), Message::PacketIn(whole)] = &replies[..] else {
        panic!("{replies:?}")
    };
    assert_eq!((part.data.len(), part.total_len, whole.data.len()), (20, 100, 100));
    assert_eq!(whole.buffer_id, NO_BUFFER);
    assert_eq!((part.cookie, part.table, part.reason), (9, 1, PacketInReason::Action));
    assert_eq!(format!("{:?}", part.matching), r#"{"in_port": "0x2"}"#);

    let packet = |buffer_id| {
        let actions = vec![FlowAction::Output { port: 1, max_len: 0 }];
        Message::PacketOut(PacketOut { buffer_id, in_port: 2, actions, data: Vec::new() })
    };
    setup.check_error(0, &packet(part.buffer_id + 1), ErrorCode::REQUEST_BUFFER_UNKNOWN);
    assert_eq!(setup.send(0, &packet(part.buffer_id)), []);
    setup.check_error(0, &packet(part.buffer_id), ErrorCode::REQUEST_BUFFER_EMPTY);
    let frame: Vec<u8> = (0..100).collect();
    let actions = vec![FlowAction::Output { port: 1, max_len: 0 }];
    assert_eq!(setup.switch.sent, [(2, actions, frame.clone())]);

    setup.agent.packet_in(&packet_in(20), 0);
    setup.send(0, &add_flow(0, FlowMatch::any(), part.buffer_id + 1));
    let to_table = vec![FlowAction::Output { port: port::TABLE, max_len: port::NO_BUFFER }];
    assert_eq!(setup.switch.sent[1], (2, to_table, frame));
    let late = add_flow(1, FlowMatch::any(), 5);
    setup.check_error(0, &late, ErrorCode::REQUEST_BUFFER_UNKNOWN);
    assert_eq!(setup.switch.flows.len(), 2);
    let Message::FlowMod(mut deletion) = late else { unreachable!("a flow-mod") };
    deletion.change.command = FlowCommand::Delete;
    assert_eq!(setup.send(0, &Message::FlowMod(deletion)), []);
    assert_eq!(setup.switch.flows.len(), 1);
}

#[test]
fn a_switch_without_buffers_sends_whole_packets() {
    let mut setup = Setup::new(1, AgentConfig { buffers: 0, ..AgentConfig::default() });
    setup.agent.packet_in(&packet_in(20), 0);
    let replies = setup.replies(0);
    assert!(matches!(&replies[..], [Message::PacketIn(packet)]
        if packet.buffer_id == NO_BUFFER && packet.data.len() == 100));
}

#[test]
fn packets_for_a_slow_controller_are_dropped_and_replies_are_not() {
    let mut setup = Setup::new(1, AgentConfig { packet_ins_max: 3, ..AgentConfig::default() });
    let id = setup.ids[0];
    for _ in 0..5 {
        setup.agent.packet_in(&packet_in(port::NO_BUFFER), 0);
    }
    let request = Message::EchoRequest(Vec::new()).encode(1);
    setup.agent.receive(id, &request, 0, &mut setup.switch);
    let stats = setup.agent.stats(id).unwrap();
    assert_eq!((stats.packet_ins, stats.packet_ins_dropped), (3, 2));
    assert_eq!(setup.replies(0).len(), 4);
    setup.agent.packet_in(&packet_in(port::NO_BUFFER), 0);
    assert_eq!(setup.replies(0).len(), 1);
}

#[test]
fn packets_for_a_slow_controller_are_limited_in_bytes() {
    let config = AgentConfig { output_bytes_max: 200, ..AgentConfig::default() };
    let mut setup = Setup::new(1, config);
    for _ in 0..5 {
        // Each takes more than 100 bytes.
        setup.agent.packet_in(&packet_in(port::NO_BUFFER), 0);
    }
    let stats = setup.agent.stats(setup.ids[0]).unwrap();
    assert_eq!((stats.packet_ins, stats.packet_ins_dropped), (2, 3));
    assert_eq!(setup.replies(0).len(), 2);
}

#[test]
fn requests_wait_while_replies_are_not_read() {
    let mut setup = Setup::new(1, AgentConfig { output_bytes_max: 100, ..AgentConfig::default() });
    let id = setup.ids[0];
    let request = Message::EchoRequest(vec![0; 92]).encode(1);
    setup.agent.receive(id, &request.repeat(5), 0, &mut setup.switch);
    assert!(!setup.agent.wants_input(id));
    let mut replies = 0;
    while !setup.agent.transmit(id).is_empty() {
        replies += setup.replies(0).len();
        setup.agent.receive(id, &[], 0, &mut setup.switch);
    }
    assert_eq!(replies, 5);
    setup.agent.receive(id, &request.repeat(2000), 0, &mut setup.switch);
    assert_eq!(setup.agent.close_reason(id), Some("too many requests wait"));
}

#[test]
fn silence_is_probed_and_then_closes_the_connection() {
    let mut setup = one();
    let id = setup.ids[0];
    let silent = setup.agent.connect(0);
    setup.agent.tick(14 * SECOND_NS);
    assert_eq!(setup.replies(0), []);
    setup.agent.tick(15 * SECOND_NS);
    assert_eq!(setup.replies(0), [Message::EchoRequest(Vec::new())]);
    assert_eq!(setup.agent.close_reason(silent), Some("no hello message"));
    let reply = Message::EchoReply(Vec::new()).encode(0);
    setup.agent.receive(id, &reply, 20 * SECOND_NS, &mut setup.switch);
    setup.agent.tick(34 * SECOND_NS);
    assert_eq!(setup.replies(0), []);
    setup.agent.tick(35 * SECOND_NS);
    setup.agent.tick(49 * SECOND_NS);
    assert!(setup.agent.is_open(id));
    setup.agent.tick(50 * SECOND_NS);
    assert_eq!(setup.agent.close_reason(id), Some("no answer to an echo request"));
}

fn control(bundle: u32, step: BundleStep, flags: u16) -> Message {
    let control = BundleControl { bundle, step, is_reply: false, flags };
    Message::Experimenter(ExperimenterMessage::BundleControl(control))
}

fn add(bundle: u32, flags: u16, message: &Message) -> Message {
    let message = message.encode(77);
    Message::Experimenter(ExperimenterMessage::BundleAdd { bundle, flags, message })
}

#[test]
fn bundles_change_everything_or_nothing() {
    let mut setup = one();
    let good = add_flow(0, FlowMatch::any(), NO_BUFFER);
    let bad = add_flow(9, FlowMatch::any(), NO_BUFFER);
    setup.send(0, &control(1, BundleStep::Open, 3));
    assert_eq!(setup.send(0, &add(1, 3, &good)), []);
    assert_eq!(setup.send(0, &add(1, 3, &bad)), []);
    let replies = setup.send(0, &control(1, BundleStep::Commit, 3));
    let errors = replies.iter().map(|reply| match reply {
        Message::Error(error) => error.error,
        _ => panic!("{reply:?}"),
    });
    let expected = [ErrorCode::FLOW_BAD_TABLE_ID, ErrorCode::BUNDLE_MESSAGE_FAILED];
    assert!(errors.eq(expected), "{replies:?}");
    assert!(setup.switch.flows.is_empty());
    // A bundle is opened by its first message, too.
    assert_eq!(setup.send(0, &add(1, 3, &good)), []);
    assert_eq!(setup.send(0, &control(1, BundleStep::Commit, 3)).len(), 1);
    assert_eq!(setup.switch.flows.len(), 1);
}

#[test]
fn bundle_messages_are_checked() {
    use ErrorCode as E;
    let mut setup = Setup::new(1, AgentConfig { bundles_max: 1, ..AgentConfig::default() });
    let flow = add_flow(0, FlowMatch::any(), NO_BUFFER);
    setup.check_error(0, &control(1, BundleStep::Commit, 3), E::BUNDLE_BAD_ID);
    setup.check_error(0, &control(1, BundleStep::Discard, 3), E::BUNDLE_BAD_ID);
    assert_eq!(setup.send(0, &control(1, BundleStep::Open, 3)).len(), 1);
    setup.check_error(0, &control(1, BundleStep::Open, 3), E::BUNDLE_EXISTS);
    setup.check_error(0, &control(2, BundleStep::Open, 3), E::BUNDLE_OUT_OF_BUNDLES);
    setup.check_error(0, &add(1, 1, &flow), E::BUNDLE_BAD_FLAGS);
    let echo = Message::EchoRequest(Vec::new());
    setup.check_error(0, &add(1, 3, &echo), E::BUNDLE_MESSAGE_UNSUPPORTED);
    let message = flow.encode(5);
    let other_xid = ExperimenterMessage::BundleAdd { bundle: 1, flags: 3, message };
    setup.check_error(0, &Message::Experimenter(other_xid), E::BUNDLE_MESSAGE_BAD_XID);
    let message = vec![4, 14, 0, 9, 0];
    let short = ExperimenterMessage::BundleAdd { bundle: 1, flags: 3, message };
    setup.check_error(0, &Message::Experimenter(short), E::BUNDLE_MESSAGE_BAD_LEN);
    assert_eq!(setup.send(0, &control(1, BundleStep::Close, 3)).len(), 1);
    setup.check_error(0, &control(1, BundleStep::Close, 3), E::BUNDLE_CLOSED);
    setup.check_error(0, &add(1, 3, &flow), E::BUNDLE_CLOSED);
    assert_eq!(setup.send(0, &control(1, BundleStep::Discard, 3)).len(), 1);
    assert!(setup.switch.flows.is_empty());
}
