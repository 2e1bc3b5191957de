//! The table of flows: who is the client, whether a connection stands, and when a flow ends.
//!
//! Three lists, each by last packet, the latest first: flows that only began (half-open
//! connections, datagrams without an answer), flows that stand, and flows that were closed. Each
//! list has its time-out, so what timed out is at a list's end. Where room is needed the closed go
//! first, then those that only began: a flood of half-open connections takes its own kind's places.

use std::collections::HashMap;

use crate::decode::{Carried, Decoded};
use crate::rule::Direction;
use crate::stream::{Half, PENDING_MAX};

/// No flow.
const NONE: u32 = u32::MAX;

/// Bits of TCP's flags.
const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const ACK: u16 = 0x10;

/// Both ends of a flow, the lower one first, and what is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    low: (u128, u16),
    high: (u128, u16),
    ip_proto: u8,
    vlan: u16,
}

/// Which list a flow is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Begun,
    Stands,
    Closed,
}

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    key: Key,
    /// Numbers count up from 1: no two flows of a run have the same.
    pub id: u64,
    pub phase: Phase,
    /// The client's end is the lower one.
    client_is_low: bool,
    last_ns: u64,
    /// The search that its latest text waits for, or waited for.
    pub search: u64,
    /// Whether the client, and the server, sent something.
    seen: [bool; 2],
    /// What the client sends, and what the server sends; only of TCP.
    pub halves: [Half; 2],
    /// A packet of the flow without its payload, and which way it went.
    pub template: (Decoded<'static>, Direction),
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
}

/// How long flows are kept without a packet, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Of flows that only began.
    pub begun_ns: u64,
    /// Of flows that stand.
    pub stands_ns: u64,
    /// Of connections that were closed: for what is still on its way.
    pub closed_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        Self { begun_ns: 30 * SECOND, stands_ns: 600 * SECOND, closed_ns: 10 * SECOND }
    }
}

/// All flows.
#[derive(Debug)]
pub(crate) struct Flows {
    places: HashMap<Key, u32>,
    flows: Vec<Flow>,
    free: Vec<u32>,
    lists: [List; 3],
    pub created: u64,
    pub midstream: u64,
}

/// What a packet is to its flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub place: u32,
    pub direction: Direction,
    pub is_established: bool,
    /// A reset that is to be believed.
    pub is_reset: bool,
}

/// The index of a side's half.
pub(crate) fn side(direction: Direction) -> usize {
    match direction {
        Direction::ToServer => 0,
        Direction::ToClient => 1,
    }
}

impl Flow {
    pub(crate) fn is_established(&self) -> bool {
        self.phase == Phase::Stands || self.phase == Phase::Closed && self.seen == [true; 2]
    }

    /// Bytes of memory that grow with its traffic.
    pub(crate) fn bytes(&self) -> usize {
        self.halves[0].bytes() + self.halves[1].bytes()
    }
}

impl Flows {
    /// Bytes that a flow takes beside its streams, its place in the table twice over for growth,
    /// and the rules that its streams remember.
    pub(crate) const BYTES_EACH: usize =
        2 * (size_of::<Flow>() + size_of::<Key>() + 8 + PENDING_MAX * size_of::<(u32, u64)>());

    /// Rules have other numbers from now on: streams remember none.
    pub(crate) fn forget_rules(&mut self) {
        for half in self.flows.iter_mut().flat_map(|flow| &mut flow.halves) {
            half.forget_rules();
        }
    }

    pub(crate) fn new() -> Self {
        let list = List { newest: NONE, oldest: NONE };
        Self {
            places: HashMap::new(),
            flows: Vec::new(),
            free: Vec::new(),
            lists: [list; 3],
            created: 0,
            midstream: 0,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Flow {
        &mut self.flows[place as usize]
    }

    /// The flow at a place, if it is still the one of that number.
    pub(crate) fn of_id(&mut self, place: u32, id: u64) -> Option<&mut Flow> {
        self.flows.get_mut(place as usize).filter(|flow| flow.id == id)
    }

    /// A flow that has timed out, if there is one.
    pub(crate) fn timed_out(&self, now_ns: u64, timeouts: &Timeouts) -> Option<u32> {
        let limits = [timeouts.begun_ns, timeouts.stands_ns, timeouts.closed_ns];
        self.lists.iter().zip(limits).find_map(|(list, limit)| {
            let flow = self.flows.get(list.oldest as usize)?;
            (flow.last_ns.saturating_add(limit) <= now_ns).then_some(list.oldest)
        })
    }

    /// The flow that is missed least, other than `spared`.
    pub(crate) fn least(&self, spared: Option<u32>) -> Option<u32> {
        let order = [Phase::Closed, Phase::Begun, Phase::Stands];
        order.into_iter().find_map(|phase| {
            let oldest = self.lists[phase as usize].oldest;
            let place = match spared == Some(oldest) && oldest != NONE {
                true => self.flows[oldest as usize].newer,
                false => oldest,
            };
            (place != NONE).then_some(place)
        })
    }

    /// The flow of a packet, if it has one.
    pub(crate) fn find(&self, packet: &Decoded<'_>) -> Option<u32> {
        self.places.get(&key(packet).0).copied()
    }

    /// Whether a packet begins its flow anew: a connection's first packet after the last one ended.
    pub(crate) fn is_anew(&self, place: u32, packet: &Decoded<'_>) -> bool {
        let is_syn = packet.tcp.flags & (SYN | ACK | RST) == SYN;
        packet.carried == Carried::Tcp
            && is_syn
            && self.flows[place as usize].phase == Phase::Closed
    }

    /// Puts in a flow that begins with `packet`, which has none.
    pub(crate) fn insert(&mut self, packet: &Decoded<'_>, now_ns: u64) -> u32 {
        let (key, src_is_low) = key(packet);
        let is_tcp = packet.carried == Carried::Tcp;
        let flags = packet.tcp.flags;
        let is_midstream = is_tcp && flags & (SYN | ACK) != SYN;
        // Within a connection: who answers a SYN is the server, and so is who has a known port.
        let from_server =
            is_midstream && (flags & SYN != 0 || packet.src_port < 1024 && packet.dst_port >= 1024);
        self.created += 1;
        self.midstream += u64::from(is_midstream);
        let stands = is_midstream && flags & (SYN | RST) == 0;
        let flow = Flow {
            key,
            id: self.created,
            phase: if stands { Phase::Stands } else { Phase::Begun },
            client_is_low: src_is_low != from_server,
            last_ns: now_ns,
            search: 0,
            seen: [false; 2],
            halves: Default::default(),
            template: (Decoded { payload: &[], ..*packet }, Direction::ToServer),
            newer: NONE,
            older: NONE,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.flows[place as usize] = flow;
                place
            }
            None => {
                self.flows.push(flow);
                (self.flows.len() - 1) as u32
            }
        };
        self.places.insert(key, place);
        self.link(place);
        place
    }

    /// Notes a packet of the flow at `place`.
    pub(crate) fn note(&mut self, place: u32, packet: &Decoded<'_>, now_ns: u64) -> Seen {
        let (_, src_is_low) = key(packet);
        self.unlink(place);
        let flow = &mut self.flows[place as usize];
        flow.last_ns = flow.last_ns.max(now_ns);
        let direction = match src_is_low == flow.client_is_low {
            true => Direction::ToServer,
            false => Direction::ToClient,
        };
        flow.seen[side(direction)] = true;
        flow.template = (Decoded { payload: &[], ..*packet }, direction);
        let mut is_reset = false;
        if packet.carried == Carried::Tcp {
            is_reset = flow.note_tcp(packet, direction);
        } else if flow.seen == [true; 2] {
            flow.phase = Phase::Stands;
        }
        let is_established = flow.is_established();
        self.link(place);
        Seen { place, direction, is_established, is_reset }
    }

    /// Takes out the flow at `place`, which may not be used any more.
    pub(crate) fn remove(&mut self, place: u32) {
        self.unlink(place);
        let flow = &mut self.flows[place as usize];
        flow.halves = Default::default();
        flow.id = 0;
        let key = flow.key;
        self.places.remove(&key);
        self.free.push(place);
    }

    fn link(&mut self, place: u32) {
        let list = &mut self.lists[self.flows[place as usize].phase as usize];
        let older = std::mem::replace(&mut list.newest, place);
        if older == NONE {
            list.oldest = place;
        } else {
            self.flows[older as usize].newer = place;
        }
        let flow = &mut self.flows[place as usize];
        (flow.newer, flow.older) = (NONE, older);
    }

    fn unlink(&mut self, place: u32) {
        let flow = &self.flows[place as usize];
        let (newer, older, phase) = (flow.newer, flow.older, flow.phase as usize);
        match newer {
            NONE => self.lists[phase].newest = older,
            newer => self.flows[newer as usize].older = older,
        }
        match older {
            NONE => self.lists[phase].oldest = newer,
            older => self.flows[older as usize].newer = newer,
        }
    }
}

impl Flow {
    /// Moves a connection on. Tells whether the packet is a reset that is to be believed: one where
    /// the side that sends it is.
    fn note_tcp(&mut self, packet: &Decoded<'_>, direction: Direction) -> bool {
        let tcp = &packet.tcp;
        let (mine, other) = (side(direction), 1 - side(direction));
        if tcp.flags & RST != 0 {
            // Where a SYN is refused, nothing was ever sent by who refuses it.
            let believed = self.halves[mine].expects(tcp.seq) || !self.halves[mine].is_open();
            if believed {
                self.phase = Phase::Closed;
            }
            return believed;
        }
        if tcp.flags & SYN != 0 {
            let is_answer = tcp.flags & ACK != 0;
            self.halves[mine].open(tcp.seq.wrapping_add(1), true);
            if is_answer {
                self.halves[other].open(tcp.ack, true);
            }
            // Of several SYNs the one counts that is answered, until then the last one.
            if self.phase == Phase::Begun && is_answer {
                self.halves[mine].open_anew(tcp.seq.wrapping_add(1));
                self.halves[other].open_anew(tcp.ack);
            } else if self.phase == Phase::Begun && !self.halves[other].is_open() {
                self.halves[mine].open_anew(tcp.seq.wrapping_add(1));
            }
        } else if tcp.flags & ACK != 0
            && self.phase == Phase::Begun
            && direction == Direction::ToServer
        {
            self.phase = Phase::Stands;
        }
        if tcp.flags & FIN != 0 {
            self.halves[mine].has_fin = true;
            if self.halves[other].has_fin {
                self.phase = Phase::Closed;
            }
        }
        false
    }
}

/// The key of a packet's flow, and whether its source is the lower end. Messages that have an
/// identifier are told apart by it.
fn key(packet: &Decoded<'_>) -> (Key, bool) {
    let echo = packet.icmp_echo.map_or(0, |echo| echo.0);
    let (src_port, dst_port) = match packet.carried {
        Carried::Icmp => (echo, echo),
        _ => (packet.src_port, packet.dst_port),
    };
    let (src, dst) = ((packet.src_number, src_port), (packet.dst_number, dst_port));
    let src_is_low = src <= dst;
    let (low, high) = if src_is_low { (src, dst) } else { (dst, src) };
    let vlan = packet.vlan.unwrap_or(u16::MAX);
    (Key { low, high, ip_proto: packet.ip_proto, vlan }, src_is_low)
}
