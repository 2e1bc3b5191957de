//! Messages of OpenFlow: the decoder, and the agent's state machine.
//!
//! The input is a list of operations: one byte that selects the operation and the controller, one
//! byte of length, and so many bytes. The bytes of most operations become a message, whose type is
//! the first of them.

use warpswitch_openflow::{
    Agent, AgentConfig, ConnectionId, Header, MESSAGE_BYTES_MAX, Message, VERSION,
};
use warpswitch_rules::openflow::{FLOW_WORDS, PacketIn, PacketInReason};

/// The switch of the agent's own tests.
#[path = "../../../crates/openflow/tests/common/mod.rs"]
mod common;

use common::ListSwitch;

const CONTROLLERS: usize = 3;
const OUTPUT_BYTES_MAX: usize = 4096;
const PACKET_INS_MAX: usize = 4;

/// The most bytes that wait for a controller: the limit, one reply beyond it (here all flows, or
/// the abilities of all tables), and messages that do not count.
const WAITING_BYTES_MAX: usize = OUTPUT_BYTES_MAX + 8 * MESSAGE_BYTES_MAX;

/// Decodes the input as one message, then plays it to an agent.
pub fn openflow(data: &[u8]) {
    check_message(data);
    let mut agent = Agent::new(AgentConfig {
        output_bytes_max: OUTPUT_BYTES_MAX,
        packet_ins_max: PACKET_INS_MAX,
        buffers: 4,
        bundles_max: 2,
        bundle_bytes_max: 4096,
        ..AgentConfig::default()
    });
    let mut switch = ListSwitch::default();
    let mut ids: Vec<ConnectionId> = (0..CONTROLLERS).map(|_| agent.connect(0)).collect();
    let mut now_ns = 0;
    let mut rest = data;
    while let Some((&[operation, len], behind)) = rest.split_first_chunk() {
        let (bytes, behind) = behind.split_at(behind.len().min(len.into()));
        rest = behind;
        now_ns += u64::from(len) << 20;
        let controller = usize::from(operation >> 4) % CONTROLLERS;
        let id = ids[controller];
        match operation & 7 {
            0 => agent.receive(id, bytes, now_ns, &mut switch),
            1 => {
                now_ns += 1 << 34;
                agent.tick(now_ns);
            }
            2 => check_packet_in(&mut agent, &ids, &packet_in(bytes), now_ns),
            3 => agent.sent(id, len.into()),
            4 => {
                agent.disconnect(id);
                ids[controller] = agent.connect(now_ns);
            }
            5 => agent.receive(id, &message(0, &[]), now_ns, &mut switch),
            _ => {
                let (&kind, body) = bytes.split_first().unwrap_or((&0, &[]));
                let message = message(kind, body);
                check_message(&message);
                agent.receive(id, &message, now_ns, &mut switch);
            }
        }
        assert!(agent.transmit(id).len() <= WAITING_BYTES_MAX, "unbounded output");
    }
    ids.iter().for_each(|&id| check_whole(&mut agent, id));
}

/// What is decoded can be encoded, and is decoded and encoded to the same again.
fn check_message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    let encoded = message.encode(7);
    if encoded.len() > MESSAGE_BYTES_MAX {
        // A reply of several messages.
        return;
    }
    let again = Message::decode(&encoded).expect("own encoding");
    assert_eq!(again.encode(7), encoded, "{message:?}");
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = 8 + body.len() as u16;
    let [high, low] = len.to_be_bytes();
    [&[VERSION, kind, high, low, 0, 0, 0, 7], body].concat()
}

fn packet_in(bytes: &[u8]) -> PacketIn {
    PacketIn {
        reason: PacketInReason::NoMatch,
        table: 0,
        cookie: 0,
        max_len: 16,
        key: [1; FLOW_WORDS],
        frame: bytes.to_vec(),
    }
}

/// A controller loses a packet-in only when packet-ins or bytes up to a limit wait for it.
fn check_packet_in(agent: &mut Agent, ids: &[ConnectionId], packet: &PacketIn, now_ns: u64) {
    let dropped = |agent: &Agent, id| agent.stats(id).map_or(0, |stats| stats.packet_ins_dropped);
    let before: Vec<_> =
        ids.iter().map(|&id| (id, dropped(agent, id), agent.transmit(id).len())).collect();
    agent.packet_in(packet, now_ns);
    for (id, dropped_before, waiting) in before {
        let Some(stats) = agent.stats(id) else { continue };
        assert!(
            stats.packet_ins_dropped == dropped_before
                || waiting > OUTPUT_BYTES_MAX
                || stats.packet_ins >= PACKET_INS_MAX as u64,
        );
    }
}

/// Whatever waits ends with a whole message; its beginning may have been sent.
fn check_whole(agent: &mut Agent, id: ConnectionId) {
    let fresh = agent.connect(0);
    let mut rest = agent.transmit(fresh);
    while let Some(header) = Header::read(rest) {
        rest = &rest[usize::from(header.len)..];
    }
    assert!(rest.is_empty());
    agent.disconnect(fresh);
    agent.disconnect(id);
    assert!(agent.transmit(id).is_empty());
}
