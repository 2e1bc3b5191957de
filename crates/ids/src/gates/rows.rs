//! Rows of bits: for each protocol and flow, and each class of ports and addresses, the gates that
//! let it through.
//!
//! ```text
//! firsts   0 │ 22 │ 23 │ 80 │ 81 │ …           where a class of values begins
//! rows     a bit a gate │ a bit a gate │ …      of each class
//! ```
//! # Invariants
//! - R1: a gate without checks is open if its bits are set in all rows, and else closed.
//! - R2: the rows of an array take at most as many bytes as was said. Gates whose values would need
//!   more classes have no bits.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use super::Gate;
use crate::addresses::Addresses;
use crate::decode::{Carried, Decoded};
use crate::engine::FlowFacts;
use crate::ranges::{Ranges, Value};
use crate::rule::{Direction, Header};

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
    /// The rows of gates that `values` has room for.
    pub(super) fn new(gates: &[Gate], values: Values) -> Self {
        let words = gates.len().div_ceil(64);
        let src = values.src.rows(words, gates, |gate| &gate.header.src);
        let dst = values.dst.rows(words, gates, |gate| &gate.header.dst);
        let src_ports = values.src_ports.rows(words, gates, |gate| &gate.header.src_ports);
        let dst_ports = values.dst_ports.rows(words, gates, |gate| &gate.header.dst_ports);
        let mut flows = vec![0; FLOWS * words];
        for (class, facts) in flow_classes() {
            for (idx, gate) in gates.iter().enumerate() {
                if gate.is_open_for(facts) {
                    set(&mut flows[class * words..], idx);
                }
            }
        }
        Self { words, flows, src, dst, src_ports, dst_ports }
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
}

/// Whether a gate's bit is set.
#[inline]
pub(super) fn has(bits: &[u64], gate: u32) -> bool {
    bits[gate as usize / 64] >> (gate % 64) & 1 != 0
}

/// Where classes of values begin, as far as there is room for them.
#[derive(Debug)]
pub(super) struct Values {
    src: HostValues,
    dst: HostValues,
    src_ports: Firsts<u16>,
    dst_ports: Firsts<u16>,
}

/// The same of addresses.
#[derive(Debug)]
struct HostValues {
    v4: Firsts<u32>,
    v6: Firsts<u128>,
}

/// The least values of classes.
#[derive(Debug)]
struct Firsts<T> {
    firsts: BTreeSet<T>,
    max: usize,
    /// Where sets lie whose values there are: gates share sets.
    known: HashSet<*const Ranges<T>>,
}

impl Values {
    /// None, with room for so many gates.
    pub(super) fn new(gates_max: usize, bytes_max: usize) -> Self {
        let max = bytes_max / (8 * gates_max.div_ceil(64).max(1));
        Self {
            src: HostValues::new(max),
            dst: HostValues::new(max),
            src_ports: Firsts::new(max),
            dst_ports: Firsts::new(max),
        }
    }

    /// Adds what a gate tells apart, if there is room for all of it.
    pub(super) fn add(&mut self, gate: &Gate) -> bool {
        let Header { src, dst, src_ports, dst_ports, .. } = &gate.header;
        let has_room = self.src.has_room(src)
            && self.dst.has_room(dst)
            && self.src_ports.has_room(src_ports)
            && self.dst_ports.has_room(dst_ports);
        if has_room {
            self.src.add(src);
            self.dst.add(dst);
            self.src_ports.add(src_ports);
            self.dst_ports.add(dst_ports);
        }
        has_room
    }
}

impl HostValues {
    fn new(max: usize) -> Self {
        Self { v4: Firsts::new(max), v6: Firsts::new(max) }
    }

    fn has_room(&self, hosts: &Addresses) -> bool {
        self.v4.has_room(&hosts.v4) && self.v6.has_room(&hosts.v6)
    }

    fn add(&mut self, hosts: &Addresses) {
        self.v4.add(&hosts.v4);
        self.v6.add(&hosts.v6);
    }

    fn rows(self, words: usize, gates: &[Gate], of: impl Fn(&Gate) -> &Addresses) -> Hosts {
        Hosts {
            v4: self.v4.rows(words, gates, |gate| &of(gate).v4),
            v6: self.v6.rows(words, gates, |gate| &of(gate).v6),
        }
    }
}

impl<T: Value> Firsts<T> {
    fn new(max: usize) -> Self {
        Self { firsts: BTreeSet::from([T::MIN]), max, known: HashSet::new() }
    }

    fn has_room(&self, set: &Ranges<T>) -> bool {
        if self.known.contains(&std::ptr::from_ref(set)) {
            return true;
        }
        let new = set.iter().flat_map(bounds).filter(|first| !self.firsts.contains(first));
        self.firsts.len() + new.take(self.max + 1).count() <= self.max
    }

    fn add(&mut self, set: &Ranges<T>) {
        if self.known.insert(std::ptr::from_ref(set)) {
            self.firsts.extend(set.iter().flat_map(bounds));
        }
    }

    fn rows(self, words: usize, gates: &[Gate], of: impl Fn(&Gate) -> &Ranges<T>) -> Classes<T> {
        let firsts: Vec<T> = self.firsts.into_iter().collect();
        let rows = vec![0; firsts.len() * words];
        let mut classes = Classes { firsts, rows, words };
        for (idx, gate) in gates.iter().enumerate() {
            of(gate).iter().for_each(|(low, high)| classes.open(idx, low, high));
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
        for class in from..to {
            set(&mut self.rows[class * self.words..], gate);
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
pub(super) fn flow_class(carried: Carried, flow: &FlowFacts) -> usize {
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
    pub(super) fn is_open_for(&self, (carried, flow): (Carried, FlowFacts)) -> bool {
        self.flow.allows(&flow) && self.header.proto.allows(carried)
    }
}
