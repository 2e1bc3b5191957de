//! Rows of bits: for each protocol and flow, and each class of ports and addresses, the gates that
//! let it through.
//!
//! ```text
//! firsts   0 │ 22 │ 23 │ 80 │ 81 │ …           where a class of values begins
//! rows     a bit a gate │ a bit a gate │ …      of each class
//! ```
//! # Invariants
//! - R1: a bit that is not set is a gate that is closed, whatever rules there are.
//! - R2: a gate of which nothing is left to be asked ([`Left::Nothing`]) is open if all are set.
//! - R3: the rows of an array take at most as many bytes as was said. Gates whose values would need
//!   more classes have their bits set for all values, and are asked themselves.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use super::Gate;
use crate::addresses::Addresses;
use crate::decode::{Carried, Decoded};
use crate::engine::FlowFacts;
use crate::ranges::{Ranges, Value};
use crate::rule::Direction;

/// Bytes of the rows of one array, of six: 4,096 gates and 8,192 classes.
pub(super) const ROWS_BYTES_MAX: usize = 4 << 20;

/// The protocols, both ways of a flow, and whether it is established.
const FLOWS: usize = 4 * 2 * 2;

/// Bits of gates.
#[derive(Debug)]
pub(super) struct Rows {
    /// Words of a row.
    words: usize,
    /// By [`flow_class`].
    flows: Vec<u64>,
    src: Hosts,
    dst: Hosts,
    src_ports: Classes<u16>,
    dst_ports: Classes<u16>,
    /// By gate.
    left: Vec<Left>,
}

/// What is left to be asked of a gate whose bits are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing: it is open.
    Nothing,
    /// Its checks.
    Checks,
    /// Everything: it is open both ways, which are few, or there was no room for its values.
    All,
}

/// Rows by addresses, those of each family apart.
#[derive(Debug)]
struct Hosts {
    v4: Classes<u32>,
    v6: Classes<u128>,
}

/// Rows by the classes of a value.
#[derive(Debug)]
struct Classes<T> {
    /// The least value of each class, in order, from [`Value::MIN`].
    firsts: Vec<T>,
    rows: Vec<u64>,
    words: usize,
}

impl Rows {
    /// The rows of gates, `bytes_max` for each array at most.
    pub(super) fn new(gates: &[Gate], bytes_max: usize) -> Self {
        let words = gates.len().div_ceil(64).max(1);
        let classes_max = bytes_max / (8 * words);
        let left = gates.iter().map(|gate| match gate {
            Gate { header, .. } if header.both_ways => Left::All,
            Gate { checks, .. } if checks.is_empty() => Left::Nothing,
            _ => Left::Checks,
        });
        let mut left: Vec<Left> = left.collect();
        let mut of = Builder { gates, words, classes_max, left: &mut left };
        let src = of.hosts(|gate| &gate.header.src);
        let dst = of.hosts(|gate| &gate.header.dst);
        let src_ports = of.classes(|gate| &gate.header.src_ports);
        let dst_ports = of.classes(|gate| &gate.header.dst_ports);
        let mut flows = vec![0; FLOWS * words];
        for (class, facts) in flow_classes() {
            for (idx, gate) in gates.iter().enumerate() {
                if gate.is_open_for(facts) {
                    set(&mut flows[class * words..], idx);
                }
            }
        }
        Self { words, flows, src, dst, src_ports, dst_ports, left }
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        let classes = self.src.bytes() + self.dst.bytes();
        classes + self.src_ports.bytes() + self.dst_ports.bytes() + 8 * self.flows.len()
    }

    /// Writes to `out` the bits of all gates that all rows of a packet have.
    pub(super) fn of(&self, packet: &Decoded<'_>, flow: &FlowFacts, out: &mut Vec<u64>) {
        let class = flow_class(packet.carried, flow);
        let flow = &self.flows[class * self.words..][..self.words];
        let dst_ports = self.dst_ports.row(packet.dst_port);
        let src_ports = self.src_ports.row(packet.src_port);
        let (src, dst) = (self.src.row(packet.src()), self.dst.row(packet.dst()));
        out.clear();
        let ports = dst_ports.iter().zip(src_ports).map(|(a, b)| a & b);
        let hosts = src.iter().zip(dst).map(|(a, b)| a & b);
        out.extend(
            flow.iter().zip(ports).zip(hosts).map(|((flow, ports), hosts)| flow & ports & hosts),
        );
    }

    /// What is left to be asked of a gate whose bit is set.
    pub(super) fn left(&self, gate: u32) -> Left {
        self.left[gate as usize]
    }
}

/// Whether a gate's bit is set.
#[inline]
pub(super) fn has(bits: &[u64], gate: u32) -> bool {
    bits[gate as usize / 64] >> (gate % 64) & 1 != 0
}

/// What classes are made of.
struct Builder<'a> {
    gates: &'a [Gate],
    words: usize,
    classes_max: usize,
    left: &'a mut [Left],
}

impl Builder<'_> {
    fn hosts(&mut self, values: impl Fn(&Gate) -> &Addresses) -> Hosts {
        Hosts {
            v4: self.classes(|gate| &values(gate).v4),
            v6: self.classes(|gate| &values(gate).v6),
        }
    }

    /// The classes of what gates let through. Gates that would need more than there may be let
    /// everything through here.
    fn classes<T: Value>(&mut self, values: impl Fn(&Gate) -> &Ranges<T>) -> Classes<T> {
        let mut firsts = BTreeSet::from([T::MIN]);
        // Whether the values of a set had room, by where it lies: gates share sets.
        let mut known: HashMap<*const Ranges<T>, bool> = HashMap::new();
        for (gate, left) in self.gates.iter().zip(&mut *self.left) {
            if *left == Left::All {
                continue;
            }
            let has_room = *known.entry(values(gate)).or_insert_with(|| {
                let bounds = values(gate).iter().flat_map(bounds);
                let new = bounds.filter(|first| !firsts.contains(first));
                let new: Vec<T> = new.take(self.classes_max + 1).collect();
                let has_room = firsts.len() + new.len() <= self.classes_max;
                if has_room {
                    firsts.extend(new);
                }
                has_room
            });
            if !has_room {
                *left = Left::All;
            }
        }
        let firsts: Vec<T> = firsts.into_iter().collect();
        let rows = vec![0; firsts.len() * self.words];
        let mut classes = Classes { firsts, rows, words: self.words };
        for (idx, (gate, left)) in self.gates.iter().zip(&*self.left).enumerate() {
            match left {
                Left::All => classes.open(idx, T::MIN, T::MAX),
                _ => values(gate).iter().for_each(|(low, high)| classes.open(idx, low, high)),
            }
        }
        classes
    }
}

impl Hosts {
    /// The row of an address.
    #[inline]
    fn row(&self, address: IpAddr) -> &[u64] {
        match address {
            IpAddr::V4(address) => self.v4.row(address.into()),
            IpAddr::V6(address) => self.v6.row(address.into()),
        }
    }

    fn bytes(&self) -> usize {
        self.v4.bytes() + self.v6.bytes()
    }
}

impl<T: Value> Classes<T> {
    /// Sets a gate's bit for all values from `low` to `high`, where classes begin and end.
    fn open(&mut self, gate: usize, low: T, high: T) {
        let from = self.firsts.partition_point(|&first| first < low);
        let to = self.firsts.partition_point(|&first| first <= high);
        for row in self.rows[from * self.words..to * self.words].chunks_exact_mut(self.words) {
            set(row, gate);
        }
    }

    /// The row of a value. Cost: logarithmic in the classes.
    #[inline]
    fn row(&self, value: T) -> &[u64] {
        let behind = self.firsts.partition_point(|&first| first <= value);
        &self.rows[(behind - 1) * self.words..][..self.words]
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.firsts[..]) + size_of_val(&self.rows[..])
    }
}

/// Where values begin to be in a range, and to be out of it again.
fn bounds<T: Value>((low, high): (T, T)) -> impl Iterator<Item = T> {
    [Some(low), (high < T::MAX).then(|| high.next())].into_iter().flatten()
}

fn set(row: &mut [u64], gate: usize) {
    row[gate / 64] |= 1 << (gate % 64);
}

/// The number of what a packet is by protocol and flow.
fn flow_class(carried: Carried, flow: &FlowFacts) -> usize {
    let is_to_client = usize::from(flow.direction == Direction::ToClient);
    carried as usize * 4 + is_to_client * 2 + usize::from(flow.is_established)
}

/// All of these.
pub(super) fn flow_classes() -> impl Iterator<Item = (usize, (Carried, FlowFacts))> {
    let protocols = [Carried::Tcp, Carried::Udp, Carried::Icmp, Carried::Other];
    protocols.into_iter().flat_map(|carried| {
        [Direction::ToServer, Direction::ToClient].into_iter().flat_map(move |direction| {
            [false, true].map(|is_established| {
                let facts = FlowFacts { direction, is_established };
                (flow_class(carried, &facts), (carried, facts))
            })
        })
    })
}

impl Gate {
    /// Whether it lets packets of such a protocol and flow through.
    fn is_open_for(&self, (carried, flow): (Carried, FlowFacts)) -> bool {
        self.flow.allows(&flow) && self.header.proto.allows(carried)
    }
}
