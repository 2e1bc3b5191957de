//! Flows and frames of the benchmark, from rule sets in the style of ClassBench.

use std::sync::Arc;

use warpswitch_rules::expand::masked_entries;
use warpswitch_rules::generate::{FrameMaker, Point, PopularitySpec, Prng, TraceSpec, Zipf};
use warpswitch_rules::openflow::{
    FLOW_WORDS, Flow, FlowAction, FlowKey, FlowMatch, Instructions, field,
};
use warpswitch_rules::{KeyBuf, Ruleset};

use crate::commands::bench::switch::ports::{FrameTable, PORTS};

/// Bytes of a frame without check sequence: the shortest.
pub const FRAME_BYTES: usize = 60;
/// The port that receives; the others send.
pub const PORT_IN: u32 = 1;
/// The words of a flow key with the fields of a 5-tuple key, in its order.
const TUPLE_WORDS: [usize; 4] = [34, 38, 39, 40];
/// The largest priority of a rule; the flow of packets without a rule has 0.
const PRIORITY_MAX: usize = 65_000;
/// The exponent of popularity of skewed traffic, in thousandths.
const SKEW_MILLI: u32 = 1_100;
const TCP: u32 = 6;
const UDP: u32 = 17;

/// The flows of a rule set in one table: port ranges become prefixes, and rules on the ports of any
/// protocol become one flow each for TCP and UDP. Packets without a rule go on as well.
pub fn flows_of(ruleset: &Ruleset, table: u8, next: Option<u8>) -> Vec<Flow> {
    let order = ruleset.ids_by_precedence();
    let mut flows = Vec::new();
    for (rank, &id) in order.iter().enumerate() {
        let priority = (PRIORITY_MAX - rank * (PRIORITY_MAX - 1) / order.len()) as u16;
        let port = PORT_IN + 1 + rank as u32 % (PORTS as u32 - 1);
        for entry in masked_entries(ruleset.matching(id)) {
            let (mut value, mut mask) = ([0; FLOW_WORDS], [0; FLOW_WORDS]);
            for (from, &to) in TUPLE_WORDS.iter().enumerate() {
                (value[to], mask[to]) = (entry.value[from], entry.mask[from]);
            }
            for matching in completed(value, mask) {
                flows.push(flow(table, priority, matching, next, port));
            }
        }
    }
    flows.push(flow(table, 0, FlowMatch::any(), next, PORTS as u32));
    flows
}

/// A flow that outputs in the last table, and leads to the next one before it.
fn flow(table: u8, priority: u16, matching: FlowMatch, next: Option<u8>, port: u32) -> Flow {
    let output = FlowAction::Output { port, max_len: 0 };
    let apply = if next.is_none() { vec![output] } else { Vec::new() };
    let instructions = Instructions { apply, goto_table: next, ..Instructions::default() };
    Flow { table, ..Flow::new(priority, matching, instructions) }
}

/// The match with what OpenFlow requires beside its fields: the EtherType, and a protocol with
/// ports.
fn completed(value: FlowKey, mask: FlowKey) -> Vec<FlowMatch> {
    let with_proto = |proto: Option<u32>| {
        let (mut value, mut mask) = (value, mask);
        if let Some(proto) = proto {
            value[40] = value[40] & 0x00ff_ffff | proto << 24;
            mask[40] |= 0xff00_0000;
        }
        // Flags are those of TCP alone.
        if mask[40] >> 24 != 0xff || value[40] >> 24 != TCP {
            mask[40] &= !0xfff;
        }
        let mut matching = FlowMatch::new(&value, &mask);
        let eth_type = field("eth_type").expect("a field of OpenFlow");
        matching.set(eth_type, 0x0800, u128::MAX);
        matching
    };
    match mask[39] != 0 && mask[40] >> 24 != 0xff {
        true => vec![with_proto(Some(TCP)), with_proto(Some(UDP))],
        false => vec![with_proto(None)],
    }
}

/// Different keys inside the rules of these sets, in turns, that frames can have.
pub fn keys_inside(rulesets: &[&Ruleset], count: usize, seed: u64) -> KeyBuf {
    let mut keys = KeyBuf::with_capacity(rulesets[0].schema(), count);
    for (number, ruleset) in rulesets.iter().enumerate() {
        let share = count * (number + 1) / rulesets.len() - count * number / rulesets.len();
        let (point, seed) = (Point::Inside, seed + number as u64);
        let spec = TraceSpec { keys: share, point, locality: None, realisable: true, seed };
        spec.generate(ruleset).fill(&mut keys, usize::MAX);
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    Prng::new(seed).shuffle(&mut order);
    let mut shuffled = KeyBuf::with_capacity(keys.schema(), keys.len());
    order.iter().for_each(|&idx| shuffled.push(keys.as_batch().key(idx)));
    shuffled
}

/// Keys of these flows as skewed traffic has them, four for each flow.
pub fn skewed(flows: KeyBuf, seed: u64) -> KeyBuf {
    let zipf = Zipf::new(SKEW_MILLI).expect("a possible exponent");
    let keys = 4 * flows.len();
    let mut trace = KeyBuf::with_capacity(flows.schema(), keys);
    let spec = PopularitySpec { keys, zipf, keys_per_shift: None, seed };
    spec.generate(flows).fill(&mut trace, usize::MAX);
    trace
}

/// The frames of 5-tuple keys.
pub fn frames_of(keys: &KeyBuf) -> Arc<FrameTable> {
    let mut table = FrameTable::new(FRAME_BYTES);
    let maker = FrameMaker::new(keys.schema());
    let mut frame = Vec::new();
    for key in keys.as_batch().iter() {
        if maker.frame(key, FRAME_BYTES, &mut frame) && frame.len() == FRAME_BYTES {
            table.push(&frame);
        }
    }
    Arc::new(table)
}

/// A whole 5-tuple as a match.
pub fn exact(key: &[u32]) -> FlowMatch {
    let (mut value, mut mask) = ([0; FLOW_WORDS], [0; FLOW_WORDS]);
    for (from, &to) in TUPLE_WORDS.iter().enumerate() {
        (value[to], mask[to]) = (key[from], u32::MAX);
    }
    (value[40], mask[40]) = (key[3] & 0xff00_0000, 0xff00_0000);
    completed(value, mask).swap_remove(0)
}

/// Flows that each examine one field, so that packets may miss them at any bit: what traffic for a
/// tuple-space explosion needs.
pub fn exploding(ruleset: &Ruleset) -> Vec<Flow> {
    let mut flows = flows_of(ruleset, 0, None);
    let single = [("ip_src", 0x0a00_0001), ("tcp_src", 0x8235), ("tcp_dst", 80)];
    for (name, allowed) in single {
        let mut matching = FlowMatch::any();
        let mut set = |name: &str, value| {
            matching.set(field(name).expect("a field of OpenFlow"), value, u128::MAX);
        };
        set("eth_type", 0x0800);
        set("nw_proto", u128::from(TCP));
        set(name, allowed);
        flows.push(flow(0, u16::MAX, matching, None, PORTS as u32));
    }
    flows
}

/// Keys that differ from the allowed values of [`exploding`] first at every combination of bits,
/// in random order.
pub fn explosion(ruleset: &Ruleset, seed: u64) -> KeyBuf {
    let mut keys = Vec::new();
    for (src, sport, dport) in (0..32 * 16 * 16).map(|n| (n >> 8, n >> 4 & 15, n & 15)) {
        let ports = (0x8235 ^ 0x8000 >> sport) << 16 | (80 ^ 0x8000 >> dport);
        keys.push([0x0a00_0001 ^ 0x8000_0000 >> src, 0x0a00_0002, ports, TCP << 24]);
    }
    Prng::new(seed).shuffle(&mut keys);
    let mut buf = KeyBuf::with_capacity(ruleset.schema(), keys.len());
    keys.iter().for_each(|key| buf.push(key));
    buf
}
