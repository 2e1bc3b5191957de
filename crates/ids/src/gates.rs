//! Gates: what rules ask of a packet's headers and flow.
//!
//! ```text
//! packet ─► protocol, flow ────────────► a row of bits ─┐
//!           ports, addresses ─► classes ─► rows of bits ┴─► gates that all rows have
//! candidates ─► gate of each rule ─► its bit ─► checks, of few ─► rules whose payload is looked at
//! ```
//! Rules are written for a few services, so most share a gate with others: 3,629 rules of Snort 3's
//! community have 473, 11,552 of ET Open 395. What values are told apart by is known when rules are
//! read, so a packet's ports and addresses are looked up once, five rows of 60 bytes are put
//! together, and a candidate costs the number of its gate and a bit.
//!
//! Source: the bit vectors of Lakshman and Stiliadis, "High-speed policy-based packet forwarding
//! using efficient multi-dimensional range matching" (SIGCOMM 1998), section 3.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use crate::decode::{Carried, Decoded};
use crate::engine::FlowFacts;
use crate::rule::{Check, FlowTest, Header, Proto, Rule};
use rows::{Left, ROWS_BYTES_MAX, Rows};

/// What rules ask beside their payload.
#[derive(Debug)]
struct Gate {
    flow: FlowTest,
    header: Header,
    checks: Box<[Check]>,
}

/// The gates of a list of rules.
#[derive(Debug)]
pub(crate) struct Gates {
    /// The number of each rule's.
    of: Vec<u32>,
    gates: Vec<Gate>,
    rows: Rows,
}

impl Gates {
    /// The gates of rules, in the order of their numbers.
    pub(crate) fn new<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        Self::within(rules, ROWS_BYTES_MAX)
    }

    /// The same with rows of at most so many bytes.
    fn within<'a>(rules: impl Iterator<Item = &'a Rule>, rows_bytes_max: usize) -> Self {
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
        let of = of.collect();
        let rows = Rows::new(&gates, rows_bytes_max);
        Self { of, gates, rows }
    }

    /// Bytes of the rows.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    /// Keeps the candidates whose gates let a packet through. `open` is room for bits of gates.
    pub(crate) fn keep(
        &self,
        (packet, flow): (&Decoded<'_>, &FlowFacts),
        candidates: &mut Vec<u32>,
        open: &mut Vec<u64>,
    ) {
        if candidates.is_empty() {
            return;
        }
        self.rows.of(packet, flow, open);
        // Which ones are refused nobody can foretell: so no branch hangs on it.
        let mut kept = 0;
        for idx in 0..candidates.len() {
            let rule = candidates[idx];
            candidates[kept] = rule;
            kept += usize::from(rows::has(open, self.of[rule as usize]));
        }
        candidates.truncate(kept);
        candidates.retain(|&rule| {
            let gate = self.of[rule as usize];
            let asked = &self.gates[gate as usize];
            match self.rows.left(gate) {
                Left::Nothing => true,
                Left::Checks => asked.checks.iter().all(|check| packet.passes(check)),
                Left::All => asked.allows(packet, flow),
            }
        });
    }
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
