//! Gates: what rules ask of a packet's headers and flow, each looked at once a packet.
//!
//! ```text
//! candidates ─► gate of each rule ─┬─► its verdict of this packet, if another rule had it
//!                                  └─► flow, protocol, ports, addresses, checks ─► verdict
//! ```
//! Rules are written for a few services, so most share a gate with others: 3,629 rules of Snort 3's
//! community have 473, 11,552 of ET Open 395. A candidate then costs two numbers from short lists,
//! where a gate of its own would be a line of memory and the sets that it leads to.

use std::collections::HashMap;
use std::sync::Arc;

use crate::decode::{Carried, Decoded};
use crate::engine::FlowFacts;
use crate::rule::{Check, FlowTest, Header, Proto, Rule};

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
}

/// What gates said of the packet at hand.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    /// By gate: twice the round in which it was asked, and one more if it let the packet through.
    asked: Vec<u32>,
    round: u32,
}

impl Gates {
    /// The gates of rules, in the order of their numbers.
    pub(crate) fn new<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let mut gates: Vec<Gate> = Vec::new();
        let mut known: HashMap<_, Vec<u32>> = HashMap::new();
        let of = rules.map(|rule| {
            let checks = &*rule.checks;
            let alike = known.entry(key(&rule.header)).or_default();
            let is_same = |&&gate: &&u32| {
                let Gate { flow, checks: others, .. } = &gates[gate as usize];
                *flow == rule.flow && **others == *checks
            };
            if let Some(gate) = alike.iter().find(is_same) {
                return *gate;
            }
            let gate = gates.len() as u32;
            alike.push(gate);
            gates.push(Gate {
                flow: rule.flow,
                header: rule.header.clone(),
                checks: checks.into(),
            });
            gate
        });
        Self { of: of.collect(), gates }
    }

    /// Keeps the candidates whose gates let a packet through.
    pub(crate) fn keep(
        &self,
        (packet, flow): (&Decoded<'_>, &FlowFacts),
        candidates: &mut Vec<u32>,
        verdicts: &mut Verdicts,
    ) {
        let round = verdicts.begin(self.gates.len());
        candidates.retain(|&rule| {
            let gate = self.of[rule as usize] as usize;
            let asked = &mut verdicts.asked[gate];
            if *asked >> 1 != round {
                *asked = round << 1 | u32::from(self.gates[gate].allows(packet, flow));
            }
            *asked & 1 == 1
        });
    }
}

impl Verdicts {
    /// Begins a packet. Returns the number of its round, in which no gate was asked.
    fn begin(&mut self, gates: usize) -> u32 {
        self.round += 1;
        if self.asked.len() != gates || self.round > u32::MAX >> 1 {
            self.asked.clear();
            self.asked.resize(gates, 0);
            self.round = 1;
        }
        self.round
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
        test.direction.is_none_or(|direction| direction == flow.direction)
            && test.established.is_none_or(|wanted| wanted == flow.is_established)
            && header.allows(packet)
            && checks.iter().all(|check| packet.passes(check))
    }
}

impl Header {
    fn allows(&self, packet: &Decoded<'_>) -> bool {
        let (src, dst) = (packet.src_number, packet.dst_number);
        let (src_port, dst_port) = (packet.src_port, packet.dst_port);
        let one_way = |src, src_port, dst, dst_port| {
            self.src_ports.contains(src_port)
                && self.dst_ports.contains(dst_port)
                && self.src.contains(src)
                && self.dst.contains(dst)
        };
        let has_proto = match self.proto {
            Proto::Ip => true,
            Proto::Tcp => packet.carried == Carried::Tcp,
            Proto::Udp => packet.carried == Carried::Udp,
            Proto::Icmp => packet.carried == Carried::Icmp,
        };
        has_proto
            && (one_way(src, src_port, dst, dst_port)
                || self.both_ways && one_way(dst, dst_port, src, src_port))
    }
}
