//! Briefs: what gates without rows say of most packets, each in one line of memory.
//!
//! ```text
//! flows │ ports from–to │ ports from–to │ addresses from–to │ addresses from–to
//! ```
//! Rules of an address each, of which there may be tens of thousands, have a gate each. A row would
//! be some kilobytes, of which a candidate needs one bit, and a gate that is asked itself leads to
//! eight places in memory. Here the least and the largest value of its sets lie side by side.
//!
//! # Invariants
//! - B1: a gate that its brief does not allow is closed.
//! - B2: a gate of which nothing is left to be asked ([`Left::Nothing`]) is open if it is allowed.

use super::rows::{flow_class, flow_classes};
use super::{Gate, Left};
use crate::addresses::Addresses;
use crate::decode::Decoded;
use crate::engine::FlowFacts;
use crate::ranges::{Ranges, Set, Value};
use crate::rule::Header;

/// Gates, for packets of each version of IP.
#[derive(Debug)]
pub(super) struct Briefs {
    pub(super) v4: Vec<Brief<u32>>,
    pub(super) v6: Vec<Brief<u128>>,
}

/// What a gate asks, with addresses of one version; ends are included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Brief<T> {
    src: (T, T),
    dst: (T, T),
    src_ports: (u16, u16),
    dst_ports: (u16, u16),
    /// A bit for each [`flow_class`].
    flows: u16,
    pub(super) left: Left,
}

/// What a packet says of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<T> {
    src: T,
    dst: T,
    src_port: u16,
    dst_port: u16,
    flow: u16,
}

impl Briefs {
    pub(super) fn new(gates: &[Gate]) -> Self {
        Self {
            v4: gates.iter().map(|gate| Brief::new(gate, |hosts| &hosts.v4)).collect(),
            v6: gates.iter().map(|gate| Brief::new(gate, |hosts| &hosts.v6)).collect(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.v4[..]) + size_of_val(&self.v6[..])
    }
}

impl<T: Value> Brief<T> {
    fn new(gate: &Gate, of: impl Fn(&Addresses) -> &Ranges<T>) -> Self {
        let Header { src, dst, src_ports, dst_ports, both_ways, .. } = &gate.header;
        let (src, dst) = (of(src), of(dst));
        let is_exact = [src, dst].iter().all(|set| set.ranges_len() <= 1)
            && [src_ports, dst_ports].iter().all(|set| set.ranges_len() <= 1);
        let left = match () {
            () if *both_ways || !is_exact => Left::All,
            () if gate.checks.is_empty() => Left::Nothing,
            () => Left::Checks,
        };
        let (mut src, mut dst) = (ends(src), ends(dst));
        let (mut src_ports, mut dst_ports) = (ends(src_ports), ends(dst_ports));
        if *both_ways {
            (src, src_ports) = (around(src, dst), around(src_ports, dst_ports));
            (dst, dst_ports) = (src, src_ports);
        }
        let flows = flow_classes().filter(|(_, facts)| gate.is_open_for(*facts));
        let flows = flows.fold(0, |flows, (class, _)| flows | 1 << class);
        Self { src, dst, src_ports, dst_ports, flows, left }
    }

    /// Whether a packet is between all ends. Most are not, by this or by that: without branches,
    /// which nobody could foretell.
    #[inline]
    pub(super) fn allows(&self, facts: &Facts<T>) -> bool {
        let is_in = |(low, high): (T, T), value: T| (low <= value) & (value <= high);
        let is_port = |(low, high): (u16, u16), port: u16| (low <= port) & (port <= high);
        is_in(self.src, facts.src)
            & is_in(self.dst, facts.dst)
            & is_port(self.src_ports, facts.src_port)
            & is_port(self.dst_ports, facts.dst_port)
            & (self.flows & facts.flow != 0)
    }
}

impl<T> Facts<T> {
    /// Of a packet whose addresses `number` makes values of.
    pub(super) fn new(
        (packet, flow): (&Decoded<'_>, &FlowFacts),
        number: impl Fn(u128) -> T,
    ) -> Self {
        Self {
            src: number(packet.src_number),
            dst: number(packet.dst_number),
            src_port: packet.src_port,
            dst_port: packet.dst_port,
            flow: 1 << flow_class(packet.carried, flow),
        }
    }
}

/// The least and the largest value; none is between those of an empty set.
fn ends<T: Value>(set: &Ranges<T>) -> (T, T) {
    let low = set.iter().next().map_or(T::MAX, |range| range.0);
    (low, set.iter().next_back().map_or(T::MIN, |range| range.1))
}

/// The ends around both.
fn around<T: Value>(one: (T, T), other: (T, T)) -> (T, T) {
    (one.0.min(other.0), one.1.max(other.1))
}
