//! A set of flows: lookup tables, expiry and eviction.
//!
//! ```text
//! (table, identifier) ─► map ─► flow, direction      both directions of a flow are in the map
//! flow ─► one of two heaps: guaranteed, best effort  by when the guarantee, or the flow, ends
//! table ─► taken ports and addresses                 where its patterns choose from ranges
//! ```
//! Several rewriters may share a set and its capacity; each is a *member* with its own tables. When
//! the number of flows exceeds the capacity, the best-effort flow that expires first is evicted; if
//! all flows are guaranteed, the new flow is rejected.
//!
//! # Invariants
//! - N1: a flow is in exactly one heap, the one for its `is_guaranteed`.
//! - N2: the map has one entry per key; an overwritten entry of a flow belongs to another flow, or
//!   to the other direction of the same flow.
//! - N3: keys in the map that are covered by a range of their table are marked as taken.

use std::collections::HashMap;

use super::flow::{FORWARD, Flow, FlowId, FlowKey, Limits, REPLY, TableId, Track};
use super::heap::Heap;
use super::keyed::Seed;
use super::used::{Line, UsedSet};

/// Flows of a set, whatever its capacity: who sends packets must not decide how much memory is
/// used.
pub(super) const FLOWS_MAX: usize = 1 << 22;
/// Rewriters that share a set.
pub(super) const MEMBERS_MAX: usize = 1 << 12;

/// Which rewriter it is, as far as flows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// TCP and UDP, in a table each.
    Ip,
    /// TCP.
    Tcp,
    /// UDP and what has its ports in the same place.
    Udp,
    /// Source addresses.
    Address,
    /// Pairs of addresses.
    AddressPair,
    /// ICMP echo.
    Ping,
}

impl Kind {
    /// How flows of a table are followed.
    #[inline]
    pub(super) fn track(self, table: TableId) -> Track {
        match self {
            Kind::Ip if table.is_udp() => Track::Udp,
            Kind::Ip | Kind::Tcp => Track::Tcp,
            Kind::Udp => Track::Udp,
            Kind::Address | Kind::AddressPair | Kind::Ping => Track::Plain,
        }
    }
}

/// What one input spec did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Flows that it made and that still exist.
    pub(super) flows: u32,
    /// Flows that it could not make.
    pub(super) failures: u32,
}

/// Ports or addresses that a pattern chooses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    /// Whether it is about ports.
    pub(super) is_port: bool,
    /// The address whose ports they are; none if it is every source's own.
    pub(super) address: Option<u32>,
    pub(super) first: u32,
    pub(super) last: u32,
}

/// A rewriter whose flows are in the set.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) kind: Kind,
    /// Name of the element.
    pub(super) name: String,
    /// For each of the two tables.
    pub(super) limits: [Limits; 2],
    pub(super) tallies: Vec<Tally>,
    /// What its patterns choose from.
    pub(super) ranges: Vec<Range>,
}

/// A flow that is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewFlow {
    pub(super) table: TableId,
    pub(super) proto: u8,
    pub(super) input: u32,
    pub(super) id: FlowId,
    pub(super) rewritten: FlowId,
    pub(super) outputs: [u32; 2],
}

/// See the module.
#[derive(Debug)]
pub(super) struct FlowSet {
    is_seeded: bool,
    map: HashMap<FlowKey, u32, Seed>,
    flows: Vec<Flow>,
    /// Places of `flows` that are not in use.
    spare: Vec<u32>,
    heaps: [Heap; 2],
    used: UsedSet,
    members: Vec<Member>,
    capacity: i32,
}

impl Default for FlowSet {
    fn default() -> Self {
        Self {
            is_seeded: false,
            map: HashMap::default(),
            flows: Vec::new(),
            spare: Vec::new(),
            heaps: Default::default(),
            used: UsedSet::default(),
            members: Vec::new(),
            capacity: i32::MAX,
        }
    }
}

/// An entry of the map: the flow, and the direction in the lowest bit.
fn entry_of(flow: u32, direction: usize) -> u32 {
    flow << 1 | direction as u32
}

/// Members and sizes.
impl FlowSet {
    /// Adds a member and gives its number; none if there are too many.
    pub(super) fn add_member(
        &mut self,
        member: Member,
        mut random: impl FnMut() -> u32,
    ) -> Option<usize> {
        if !std::mem::replace(&mut self.is_seeded, true) {
            // There are no flows yet.
            self.map = HashMap::with_hasher(Seed::new(&mut random));
            self.used = UsedSet::new(Seed::new(&mut random));
        }
        (self.members.len() < MEMBERS_MAX).then(|| {
            self.members.push(member);
            self.members.len() - 1
        })
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// What the input spec `input` of a member did.
    pub(super) fn tally(&mut self, member: usize, input: usize) -> &mut Tally {
        &mut self.members[member].tallies[input]
    }

    /// Changes what the patterns of a member choose from.
    pub(super) fn set_ranges(&mut self, member: usize, ranges: Vec<Range>) {
        self.members[member].ranges = ranges;
        for is_udp in [false, true] {
            self.used.clear(TableId::new(member, is_udp));
        }
        let places: Vec<u32> = self.all().collect();
        for flow in places {
            let table = self.flows[flow as usize].table;
            for direction in [FORWARD, REPLY] {
                let id = self.flows[flow as usize].ids[direction];
                if table.member() == member && self.is_mapped(flow, direction) {
                    self.take(table, id, direction, true);
                }
            }
        }
    }

    /// Number of flows.
    pub(super) fn len(&self) -> usize {
        self.heaps.iter().map(Heap::len).sum()
    }

    pub(super) fn capacity(&self) -> i32 {
        self.capacity
    }

    pub(super) fn set_capacity(&mut self, capacity: i32) {
        self.capacity = capacity.max(0);
    }

    fn room(&self) -> usize {
        (self.capacity as usize).min(FLOWS_MAX)
    }
}

/// Looking up.
impl FlowSet {
    /// The flow that packets of `id` belong to, and their direction.
    #[inline]
    pub(super) fn find(&self, table: TableId, id: FlowId) -> Option<(u32, usize)> {
        let entry = *self.map.get(&FlowKey { table, id })?;
        Some((entry >> 1, (entry & 1) as usize))
    }

    #[inline]
    pub(super) fn flow(&self, flow: u32) -> &Flow {
        &self.flows[flow as usize]
    }

    #[inline]
    pub(super) fn flow_mut(&mut self, flow: u32) -> &mut Flow {
        &mut self.flows[flow as usize]
    }

    /// All flows, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.heaps.iter().flat_map(Heap::flows)
    }

    /// Whether packets of that direction are found as this flow's.
    pub(super) fn is_mapped(&self, flow: u32, direction: usize) -> bool {
        let Flow { table, ids, .. } = &self.flows[flow as usize];
        self.find(*table, ids[direction]) == Some((flow, direction))
    }

    /// The first port or address of `first..=last` that is free on `line`.
    pub(super) fn next_free(&self, line: Line, first: u32, last: u32) -> Option<u32> {
        self.used.next_free(line, first, last)
    }

    /// Whether a port or address is free on `line`.
    #[cfg(test)]
    fn is_free(&self, line: Line, at: u32) -> bool {
        self.used.is_free(line, at)
    }

    /// The line of ports that answers to `id` come to.
    pub(super) fn port_line(&self, table: TableId, id: FlowId) -> Line {
        // A ping's answer repeats the identifier, so only one side has a port.
        let is_ping = self.members[table.member()].kind == Kind::Ping;
        let src_port = if is_ping { 0 } else { id.src_port };
        Line::of_ports(table, FlowId { src_port, ..id })
    }
}

/// Coming and going.
impl FlowSet {
    /// Makes a flow. None if there is no room for it, which is counted as a failure.
    pub(super) fn add(&mut self, new: NewFlow, now_ms: i64) -> Option<u32> {
        let NewFlow { table, proto, input, id, rewritten, outputs } = new;
        let member = &self.members[table.member()];
        let (is_ping, limits) = (member.kind == Kind::Ping, member.limits(table));
        let is_guaranteed = limits.guarantee_ms > 0;
        let kept_ms = if is_guaranteed { limits.guarantee_ms } else { limits.idle_ms };
        let mut flow = Flow {
            ids: [id, rewritten.reverse()],
            outputs,
            table,
            proto,
            is_guaranteed,
            seen: 0,
            reply_anno: 0,
            input,
            place: 0,
            expiry_ms: now_ms.saturating_add(kept_ms),
            ip_delta: 0,
            l4_delta: 0,
            shifts: None,
        };
        flow.prepare(is_ping);
        self.store(flow, now_ms)
    }

    /// Puts a flow in, whose keys may be those of others: they go.
    pub(super) fn store(&mut self, flow: Flow, now_ms: i64) -> Option<u32> {
        let (table, ids, input) = (flow.table, flow.ids, flow.input as usize);
        for id in ids {
            if let Some((other, _)) = self.find(table, id) {
                self.destroy(other);
            }
        }
        let is_guaranteed = flow.is_guaranteed;
        let at = match self.spare.pop() {
            Some(at) => {
                self.flows[at as usize] = flow;
                at
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        for direction in [FORWARD, REPLY] {
            self.map.insert(FlowKey { table, id: ids[direction] }, entry_of(at, direction));
            self.take(table, ids[direction], direction, true);
        }
        self.heaps[usize::from(is_guaranteed)].push(&mut self.flows, at);
        self.members[table.member()].tallies[input].flows += 1;
        if self.len() > self.room() && self.evict_for(at, now_ms) {
            self.members[table.member()].tallies[input].failures += 1;
            return None;
        }
        Some(at)
    }

    /// Evicts one flow to make room for `new`. Returns whether it was `new` itself.
    fn evict_for(&mut self, new: u32, now_ms: i64) -> bool {
        self.end_guarantees(now_ms);
        let victim = self.heaps[0].first(&mut self.flows).unwrap_or(new);
        self.destroy(victim);
        victim == new
    }

    /// Flows whose guarantee is over become best effort.
    fn end_guarantees(&mut self, now_ms: i64) {
        while let Some(flow) = self.heaps[1].first(&mut self.flows)
            && self.flows[flow as usize].expiry_ms <= now_ms
        {
            let end_ms = self.end_ms(flow);
            self.keep(flow, false, end_ms);
        }
    }

    /// When a flow ends if nothing comes, its guarantee aside.
    pub(super) fn end_ms(&self, flow: u32) -> i64 {
        let flow = &self.flows[flow as usize];
        if !flow.is_guaranteed {
            return flow.expiry_ms;
        }
        let (track, limits) = self.terms(flow.table);
        let rest_ms = flow.idle_ms(track, &limits).saturating_sub(limits.guarantee_ms);
        flow.expiry_ms.saturating_add(rest_ms)
    }

    fn terms(&self, table: TableId) -> (Track, Limits) {
        let member = &self.members[table.member()];
        (member.kind.track(table), member.limits(table))
    }

    /// Keeps a flow until then, guaranteed or not.
    fn keep(&mut self, flow: u32, is_guaranteed: bool, expiry_ms: i64) {
        let (was_guaranteed, place) = {
            let flow = &mut self.flows[flow as usize];
            flow.expiry_ms = expiry_ms;
            (std::mem::replace(&mut flow.is_guaranteed, is_guaranteed), flow.place as usize)
        };
        if was_guaranteed == is_guaranteed {
            self.heaps[usize::from(is_guaranteed)].changed(&mut self.flows, place);
        } else {
            self.heaps[usize::from(was_guaranteed)].remove(&mut self.flows, place);
            self.heaps[usize::from(is_guaranteed)].push(&mut self.flows, flow);
        }
    }

    /// Notes that a packet of the flow passed.
    #[inline]
    pub(super) fn touch(&mut self, flow: u32, now_ms: i64) {
        let (track, limits) = self.terms(self.flows[flow as usize].table);
        if limits.guarantee_ms > 0 {
            self.keep(flow, true, now_ms.saturating_add(limits.guarantee_ms));
        } else {
            let idle_ms = self.flows[flow as usize].idle_ms(track, &limits);
            self.keep(flow, false, now_ms.saturating_add(idle_ms));
        }
    }

    /// Takes a flow out.
    pub(super) fn destroy(&mut self, at: u32) {
        let Flow { table, ids, is_guaranteed, place, input, .. } = self.flows[at as usize];
        for direction in [FORWARD, REPLY] {
            if self.is_mapped(at, direction) {
                self.map.remove(&FlowKey { table, id: ids[direction] });
                self.take(table, ids[direction], direction, false);
            }
        }
        self.heaps[usize::from(is_guaranteed)].remove(&mut self.flows, place as usize);
        let tally = &mut self.members[table.member()].tallies[input as usize];
        tally.flows = tally.flows.saturating_sub(1);
        self.flows[at as usize].shifts = None;
        self.spare.push(at);
    }

    /// Takes out what has ended, and what is above the capacity.
    pub(super) fn reap(&mut self, now_ms: i64) {
        self.end_guarantees(now_ms);
        while let Some(flow) = self.heaps[0].first(&mut self.flows)
            && self.flows[flow as usize].expiry_ms <= now_ms
        {
            self.destroy(flow);
        }
        self.shrink_to(self.room());
    }

    /// Takes out all flows.
    pub(super) fn clear(&mut self) {
        self.shrink_to(0);
    }

    /// The members and the flows, in the order of their places.
    pub(super) fn into_flows(self) -> (Vec<Member>, Vec<Flow>) {
        let mut places: Vec<u32> = self.all().collect();
        places.sort_unstable();
        let flows = places.iter().map(|&flow| self.flow(flow).moved()).collect();
        (self.members, flows)
    }

    fn shrink_to(&mut self, flows: usize) {
        while self.len() > flows {
            let [best_effort, guaranteed] = &mut self.heaps;
            let first = best_effort.first(&mut self.flows);
            let Some(flow) = first.or_else(|| guaranteed.first(&mut self.flows)) else { return };
            self.destroy(flow);
        }
    }

    /// Notes that the port or address of a key is taken, or free again.
    fn take(&mut self, table: TableId, id: FlowId, direction: usize, is_taken: bool) {
        let member = &self.members[table.member()];
        if member.ranges.is_empty() || member.kind == Kind::Ping && direction == FORWARD {
            return;
        }
        let covers = |is_port| member.ranges.iter().any(|range| range.covers(id, is_port));
        let port_line = covers(true).then(|| (self.port_line(table, id), id.dst_port.into()));
        let line = covers(false).then(|| (Line::of_addresses(table, id), id.dst));
        for (line, at) in port_line.into_iter().chain(line) {
            if is_taken { self.used.insert(line, at) } else { self.used.remove(line, at) }
        }
    }
}

impl Member {
    fn limits(&self, table: TableId) -> Limits {
        self.limits[usize::from(table.is_udp())]
    }
}

impl Range {
    fn covers(&self, id: FlowId, is_port: bool) -> bool {
        let at = if is_port { id.dst_port.into() } else { id.dst };
        self.is_port == is_port
            && (self.first..=self.last).contains(&at)
            && (!is_port || self.address.is_none_or(|address| address == id.dst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { idle_ms: 300, busy_ms: 300, done_ms: 300, guarantee_ms: 10 };

    fn set(capacity: i32) -> FlowSet {
        let mut set = FlowSet::default();
        set.set_capacity(capacity);
        let ranges = vec![Range { is_port: true, address: Some(9), first: 0, last: 65535 }];
        let member = Member {
            kind: Kind::Udp,
            name: String::new(),
            limits: [LIMITS; 2],
            tallies: vec![Tally::default()],
            ranges,
        };
        assert_eq!(set.add_member(member, || 5), Some(0));
        set
    }

    fn new(n: u16) -> NewFlow {
        let id = FlowId { src: 1, src_port: n, dst: 2, dst_port: 80 };
        let rewritten = FlowId { src: 9, ..id };
        NewFlow { table: TableId(0), proto: 17, input: 0, id, rewritten, outputs: [0, 1] }
    }

    /// What must hold whatever happened.
    fn verify(set: &FlowSet) {
        let mut keys = 0;
        for flow in set.all() {
            for direction in [FORWARD, REPLY] {
                let id = set.flow(flow).ids[direction];
                keys += usize::from(set.is_mapped(flow, direction));
                let line = set.port_line(TableId(0), id);
                assert_eq!(set.is_free(line, id.dst_port.into()), id.dst != 9, "N3");
            }
        }
        assert_eq!(keys, set.map.len(), "N2");
        assert_eq!(set.len() + set.spare.len(), set.flows.len(), "N1");
        assert_eq!(set.members[0].tallies[0].flows as usize, set.len());
    }

    /// Adds, uses and expires flows in a pseudo-random order, and compares the set with a slow
    /// model, a list.
    #[test]
    fn the_right_ones_go() {
        let mut set = set(20);
        // Number, guaranteed until, ends at.
        let mut model: Vec<(u16, i64, i64)> = Vec::new();
        let mut state = 7u32;
        let mut now_ms = 0;
        for _ in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Never the same time twice, so that the order is one.
            now_ms += 1 + i64::from(state >> 30);
            let n = (state >> 12) as u16 % 60;
            let known = model.iter().position(|flow| flow.0 == n);
            let found = set.find(TableId(0), new(n).id);
            assert_eq!(found.is_some(), known.is_some(), "{n} at {now_ms}");
            let ends = (n, now_ms + LIMITS.guarantee_ms, now_ms + LIMITS.idle_ms);
            match (found, known) {
                (Some((flow, _)), Some(at)) => {
                    set.touch(flow, now_ms);
                    model[at] = ends;
                }
                _ => {
                    model.push(ends);
                    if model.len() > 20 {
                        let loose = model.iter().filter(|flow| flow.1 <= now_ms);
                        let victim = loose.min_by_key(|flow| flow.2).map_or(n, |flow| flow.0);
                        model.retain(|flow| flow.0 != victim);
                    }
                    let added = set.add(new(n), now_ms);
                    assert_eq!(added.is_some(), model.iter().any(|flow| flow.0 == n));
                }
            }
            if state.is_multiple_of(97) {
                now_ms += 150;
                set.reap(now_ms);
                model.retain(|flow| flow.2 > now_ms);
            }
            assert_eq!(set.len(), model.len());
        }
        verify(&set);
        set.clear();
        verify(&set);
        assert!(set.map.is_empty());
    }

    #[test]
    fn who_comes_later_takes_the_key() {
        let mut set = set(10);
        set.add(new(1), 0);
        // The answers to this one look like those to the first.
        let id = FlowId { src: 5, ..new(1).id };
        let second = set.add(NewFlow { id, ..new(1) }, 0).expect("there is room");
        assert_eq!((set.len(), set.find(TableId(0), new(1).id)), (1, None));
        assert_eq!(set.find(TableId(0), new(1).rewritten.reverse()), Some((second, REPLY)));
        // A flow whose answers look like itself.
        let id = FlowId { src: 9, src_port: 7, dst: 9, dst_port: 7 };
        let own = set.add(NewFlow { id, rewritten: id, ..new(1) }, 0).expect("there is room");
        assert_eq!(set.find(TableId(0), id), Some((own, REPLY)));
        verify(&set);
        set.set_ranges(0, Vec::new());
        assert!(set.is_free(set.port_line(TableId(0), id), 7));
        set.clear();
        assert!(set.map.is_empty());
    }
}
