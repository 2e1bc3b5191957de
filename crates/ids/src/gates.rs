//! Gates: what rules ask of a packet's headers and flow.
//!
//! ```text
//! packet ─► protocol, flow ────────────► a row of bits ─┐
//!           ports, addresses ─► classes ─► rows of bits ┴─► gates that all rows have
//! candidates ─► gate of each rule ─┬─► its bit ───┬─► checks, of few ─► rules whose payload is
//!                                  └─► its brief ─┘                     looked at
//! ```
//! Rules are written for a few services, so most share a gate with others: 3,629 rules of Snort 3's
//! community have 473, 11,552 of ET Open 395. What values are told apart by is known when rules are
//! read, so a packet's ports and addresses are looked up once, five rows of 60 bytes are put
//! together, and a candidate costs the number of its gate and a bit.
//!
//! Lists of indicators are otherwise: 60,000 rules of an address each have as many gates, whose
//! rows would be 7.5 KB long, and have room for 559 classes. So of many gates those have rows that
//! rules share, and the others a [brief](briefs) of 28 bytes each.
//!
//! Source: the bit vectors of Lakshman and Stiliadis, "High-speed policy-based packet forwarding
//! using efficient multi-dimensional range matching" (SIGCOMM 1998), section 3.

mod briefs;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use crate::decode::{Carried, Decoded};
use crate::engine::FlowFacts;
use crate::ranges::Value;
use crate::rule::{Check, FlowTest, Header, Proto, Rule};
use briefs::{Brief, Briefs, Facts};
use rows::{ROWS_BYTES_MAX, Rows, Values};

/// What rules ask beside their payload.
#[derive(Debug)]
struct Gate {
    flow: FlowTest,
    header: Header,
    checks: Box<[Check]>,
}

/// What is left to be asked of a gate that its bits or its brief allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing: it is open.
    Nothing,
    /// Its checks.
    Checks,
    /// Everything.
    All,
}

/// The most gates that have rows whatever they are; of more, those have them that rules share.
const ROW_GATES_MAX: usize = 4096;

/// Room for rows.
#[derive(Clone, Copy, Debug)]
struct Room {
    gates: usize,
    /// Of each array.
    bytes: usize,
}

/// The gates of a list of rules.
#[derive(Debug)]
pub(crate) struct Gates {
    /// The number of each rule's.
    of: Vec<u32>,
    /// First those that have rows.
    gates: Vec<Gate>,
    rows: Rows,
    /// Of those that have rows.
    left: Vec<Left>,
    /// Of the others.
    briefs: Briefs,
}

impl Gates {
    /// The gates of rules, in the order of their numbers.
    pub(crate) fn new<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        Self::within(rules, Room { gates: ROW_GATES_MAX, bytes: ROWS_BYTES_MAX })
    }

    /// The same with so much room.
    fn within<'a>(rules: impl Iterator<Item = &'a Rule>, room: Room) -> Self {
        let mut gates: Vec<Gate> = Vec::new();
        let mut known = HashMap::new();
        let of = rules.map(|rule| {
            let checks = &*rule.checks;
            *known.entry((key(&rule.header), rule.flow, checks)).or_insert_with(|| {
                gates.push(Gate {
                    flow: rule.flow,
                    header: rule.header.clone(),
                    checks: checks.into(),
                });
                gates.len() as u32 - 1
            })
        });
        let mut of: Vec<u32> = of.collect();
        let (values, order, with_rows) = in_order(&gates, &of, room);
        let mut places = vec![0; gates.len()];
        (0..).zip(&order).for_each(|(place, &gate): (u32, _)| places[gate as usize] = place);
        of.iter_mut().for_each(|gate| *gate = places[*gate as usize]);
        let mut moved: Vec<Option<Gate>> = gates.into_iter().map(Some).collect();
        let gates = order.iter().map(|&gate| moved[gate as usize].take().expect("each once"));
        let gates: Vec<Gate> = gates.collect();
        let (in_rows, others) = gates.split_at(with_rows);
        let left = in_rows.iter().map(|gate| match gate.checks.is_empty() {
            true => Left::Nothing,
            false => Left::Checks,
        });
        let (left, rows, briefs) =
            (left.collect(), Rows::new(in_rows, values), Briefs::new(others));
        Self { of, gates, rows, left, briefs }
    }

    /// Bytes of rows and briefs.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.briefs.bytes()
    }

    /// Keeps the candidates whose gates let a packet through. `open` is room for bits of gates.
    pub(crate) fn keep(
        &self,
        about: (&Decoded<'_>, &FlowFacts),
        candidates: &mut Vec<u32>,
        open: &mut Vec<u64>,
    ) {
        if candidates.is_empty() {
            return;
        }
        if !self.left.is_empty() {
            self.rows.of(about.0, about.1, open);
        }
        match about.0.is_ipv6 {
            false => {
                let facts = Facts::new(about, |number| number as u32);
                self.sift(&self.briefs.v4, &facts, about, candidates, open);
            }
            true => {
                let facts = Facts::new(about, |number| number);
                self.sift(&self.briefs.v6, &facts, about, candidates, open);
            }
        }
    }

    /// The same by the bits of those gates that have rows, and the briefs of the others.
    fn sift<T: Value>(
        &self,
        briefs: &[Brief<T>],
        facts: &Facts<T>,
        (packet, flow): (&Decoded<'_>, &FlowFacts),
        candidates: &mut Vec<u32>,
        open: &[u64],
    ) {
        // Which ones are refused nobody can foretell: so no branch hangs on it.
        let mut kept = 0;
        for idx in 0..candidates.len() {
            let rule = candidates[idx];
            candidates[kept] = rule;
            let gate = self.of[rule as usize];
            let is_allowed = match (gate as usize).checked_sub(self.left.len()) {
                None => rows::has(open, gate),
                Some(brief) => briefs[brief].allows(facts),
            };
            kept += usize::from(is_allowed);
        }
        candidates.truncate(kept);
        candidates.retain(|&rule| {
            let gate = self.of[rule as usize] as usize;
            let left = match gate.checked_sub(self.left.len()) {
                None => self.left[gate],
                Some(brief) => briefs[brief].left,
            };
            let asked = &self.gates[gate];
            match left {
                Left::Nothing => true,
                Left::Checks => asked.checks.iter().all(|check| packet.passes(check)),
                Left::All => asked.allows(packet, flow),
            }
        });
    }
}

/// The gates in an order in which the first ones have rows: the values of these, and how many they
/// are. Rows are long where there are many gates, and pay where candidates share them.
fn in_order(gates: &[Gate], of: &[u32], room: Room) -> (Values, Vec<u32>, usize) {
    let mut rules = vec![0u32; gates.len()];
    of.iter().for_each(|&gate| rules[gate as usize] += 1);
    let shares_min = if gates.len() > room.gates { 2 } else { 1 };
    let may_have =
        |&gate: &u32| !gates[gate as usize].header.both_ways && rules[gate as usize] >= shares_min;
    let mut order: Vec<u32> = (0..gates.len() as u32).filter(may_have).collect();
    order.sort_by_key(|&gate| std::cmp::Reverse(rules[gate as usize]));
    order.truncate(room.gates);
    let mut values = Values::new(order.len(), room.bytes);
    order.retain(|&gate| values.add(&gates[gate as usize]));
    let with_rows = order.len();
    let mut has_rows = vec![false; gates.len()];
    order.iter().for_each(|&gate| has_rows[gate as usize] = true);
    order.extend((0..gates.len() as u32).filter(|&gate| !has_rows[gate as usize]));
    (values, order, with_rows)
}

/// What two headers share that ask the same. Sets of addresses and ports that are written alike are
/// one in memory; those that are not only cost a gate more.
fn key(header: &Header) -> (u8, bool, [usize; 4]) {
    let Header { proto, src, src_ports, dst, dst_ports, both_ways } = header;
    let addresses = [src, dst].map(|set| Arc::as_ptr(set).addr());
    let ports = [src_ports, dst_ports].map(|set| Arc::as_ptr(set).addr());
    (*proto as u8, *both_ways, [addresses[0], addresses[1], ports[0], ports[1]])
}

impl Gate {
    /// Whether all but the payload is as rules with this gate want it.
    fn allows(&self, packet: &Decoded<'_>, flow: &FlowFacts) -> bool {
        let Self { flow: test, header, checks } = self;
        test.allows(flow)
            && header.allows(packet)
            && checks.iter().all(|check| packet.passes(check))
    }
}

impl FlowTest {
    fn allows(&self, flow: &FlowFacts) -> bool {
        self.direction.is_none_or(|direction| direction == flow.direction)
            && self.established.is_none_or(|wanted| wanted == flow.is_established)
    }
}

impl Proto {
    fn allows(self, carried: Carried) -> bool {
        match self {
            Self::Ip => true,
            Self::Tcp => carried == Carried::Tcp,
            Self::Udp => carried == Carried::Udp,
            Self::Icmp => carried == Carried::Icmp,
        }
    }
}

impl Header {
    fn allows(&self, packet: &Decoded<'_>) -> bool {
        let (src, dst) = (packet.src(), packet.dst());
        let (src_port, dst_port) = (packet.src_port, packet.dst_port);
        let one_way = |src, src_port, dst, dst_port| {
            self.src_ports.contains(src_port)
                && self.dst_ports.contains(dst_port)
                && self.src.contains(src)
                && self.dst.contains(dst)
        };
        self.proto.allows(packet.carried)
            && (one_way(src, src_port, dst, dst_port)
                || self.both_ways && one_way(dst, dst_port, src, src_port))
    }
}
