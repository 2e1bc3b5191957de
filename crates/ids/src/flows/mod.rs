//! The table of flows: who is the client, whether a connection stands, and when a flow ends.
//!
//! Three lists, each by last packet, the latest first: flows that only began (half-open
//! connections, datagrams without an answer), flows that stand, and flows that were closed. Each
//! list has its time-out, so what timed out is at a list's end. Where room is needed the closed go
//! first, then those that only began: a flood of half-open connections takes its own kind's places.
//!
//! # Layout
//! A flow's record is three lines: what every packet reads and writes, and a line for each half of
//! a TCP connection. Its place in its list is in memory of its own, eight bytes a flow, because who
//! is taken out of a list or put in front of it writes to its neighbours there, which are any
//! flows: those writes stay in the caches.

mod table;

use warpswitch_packet::pages;

use crate::decode::{Carried, Decoded, NO_VLAN};
use crate::flowbits::BitTable;
use crate::rule::Direction;
use crate::stream::{Cold, Half, PENDING_MAX};

use table::{Key, NONE, Table};

/// Bits of TCP's flags.
const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const ACK: u16 = 0x10;

/// Which list a flow is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Begun,
    Stands,
    Closed,
}

/// Both sides, as a flow's record has seen them.
const BOTH: u8 = 0b11;

/// A flow.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Flow {
    key: Key,
    /// Numbers count up from 1: no two flows of a run have the same.
    pub id: u64,
    last_ns: u64,
    /// The search that its latest text waits for, or waited for: the low half of its number. One
    /// that is as old as this can hold is done once too often, which changes nothing.
    pub search: u32,
    pub phase: Phase,
    /// The client's end is the lower one.
    client_is_low: bool,
    /// Which sides sent something, a bit for each.
    seen: u8,
    /// A rule with `pass` took back all that is told of it from then on.
    pub is_passed: bool,
    /// What the client sends, and what the server sends; only of TCP.
    pub halves: [Half; 2],
}

// What each packet needs is one line, each half another.
const _: () = assert!(size_of::<Flow>() == 3 * 64);

/// A flow's neighbours in its list.
#[derive(Clone, Copy, Debug)]
struct Link {
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
    table: Table,
    flows: Vec<Flow>,
    /// Of each flow.
    links: Vec<Link>,
    free: Vec<u32>,
    lists: [List; 3],
    /// Before this time no flow times out.
    quiet_until_ns: u64,
    /// Bits of each flow.
    pub bits: BitTable,
    pub created: u64,
    pub midstream: u64,
}

/// What finds a packet's flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    key: Key,
    tag: u32,
    /// The table's hash that the tag is of.
    draw: u64,
    /// Whether the packet's source is the lower end.
    src_is_low: bool,
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
        self.phase == Phase::Stands || self.phase == Phase::Closed && self.seen == BOTH
    }

    fn direction(&self, address: &Address) -> Direction {
        match address.src_is_low == self.client_is_low {
            true => Direction::ToServer,
            false => Direction::ToClient,
        }
    }

    /// Bytes of memory that grow with its traffic.
    pub(crate) fn bytes(&self) -> usize {
        self.halves[0].bytes() + self.halves[1].bytes()
    }
}

impl Flows {
    /// Bytes that a flow takes beside its streams: its record and its place in a list twice over
    /// for growth, its place in the table, and what its halves keep beside the stream.
    pub(crate) const BYTES_EACH: usize = 2
        * (size_of::<Flow>() + size_of::<Link>() + size_of::<u32>())
        + Table::BYTES_EACH
        + 2 * (size_of::<Cold>() + PENDING_MAX * size_of::<(u32, u64)>());

    /// Rules are others from now on: streams remember none, and what one of them let pass does not
    /// for another.
    pub(crate) fn forget_rules(&mut self) {
        for flow in &mut self.flows {
            flow.is_passed = false;
            flow.halves.iter_mut().for_each(Half::forget_rules);
        }
    }

    /// Time-outs may be others from now on.
    pub(crate) fn forget_timeouts(&mut self) {
        self.quiet_until_ns = 0;
    }

    /// No flows; each will have so many bits.
    pub(crate) fn new(bit_names: usize) -> Self {
        let list = List { newest: NONE, oldest: NONE };
        Self {
            table: Table::new(),
            flows: Vec::new(),
            links: Vec::new(),
            free: Vec::new(),
            lists: [list; 3],
            quiet_until_ns: 0,
            bits: BitTable::new(bit_names),
            created: 0,
            midstream: 0,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Flow {
        &mut self.flows[place as usize]
    }

    /// The flow at a place, if it is still the one of that number.
    pub(crate) fn of_id(&mut self, place: u32, id: u64) -> Option<&mut Flow> {
        self.flows.get_mut(place as usize).filter(|flow| flow.id == id)
    }

    /// A flow that has timed out, if there is one. Lists are by last packet, and the time given
    /// never goes back: so where none has timed out, none does before the oldest flow or one that
    /// begins now may.
    pub(crate) fn timed_out(&mut self, now_ns: u64, timeouts: &Timeouts) -> Option<u32> {
        if now_ns < self.quiet_until_ns {
            return None;
        }
        let limits = [timeouts.begun_ns, timeouts.stands_ns, timeouts.closed_ns];
        let mut quiet_until_ns = u64::MAX;
        for (list, limit) in self.lists.iter().zip(limits) {
            let oldest = self.flows.get(list.oldest as usize);
            let end_ns = oldest.map_or(now_ns, |flow| flow.last_ns).saturating_add(limit);
            if oldest.is_some() && end_ns <= now_ns {
                return Some(list.oldest);
            }
            quiet_until_ns = quiet_until_ns.min(end_ns);
        }
        self.quiet_until_ns = quiet_until_ns;
        None
    }

    /// The flow that is missed least, other than `spared`.
    pub(crate) fn least(&self, spared: Option<u32>) -> Option<u32> {
        let order = [Phase::Closed, Phase::Begun, Phase::Stands];
        order.into_iter().find_map(|phase| {
            let oldest = self.lists[phase as usize].oldest;
            let place = match spared == Some(oldest) && oldest != NONE {
                true => self.links[oldest as usize].newer,
                false => oldest,
            };
            (place != NONE).then_some(place)
        })
    }

    /// What finds the flow of a packet, and asks for the line that its place is in.
    pub(crate) fn address(&self, packet: &Decoded<'_>) -> Address {
        let (key, src_is_low) = key(packet);
        let tag = self.table.tag(&key);
        self.table.prefetch(tag);
        Address { key, tag, draw: self.table.redrawn, src_is_low }
    }

    /// Asks for the record of a packet's flow, if there seems to be one, and tells where that is.
    pub(crate) fn prefetch(&self, address: &Address, is_tcp: bool) -> u32 {
        let place = self.table.hint(address.tag);
        if let Some(flow) = self.flows.get(place as usize) {
            pages::prefetch(std::slice::from_ref(flow), 0);
            if is_tcp {
                pages::prefetch(&flow.halves, 0);
                pages::prefetch(&flow.halves, 1);
            }
            pages::prefetch(&self.links, place as usize);
        }
        place
    }

    /// Asks for the window of the stream that a packet seems to belong to.
    pub(crate) fn prefetch_window(&self, hint: u32, address: &Address) {
        if let Some(flow) = self.flows.get(hint as usize) {
            let direction = flow.direction(address);
            flow.halves[side(direction)].prefetch_window();
        }
    }

    /// The flow of a packet, if it has one.
    pub(crate) fn find(&self, address: &Address) -> Option<u32> {
        let tag = match self.table.redrawn == address.draw {
            true => address.tag,
            false => self.table.tag(&address.key),
        };
        self.table.find(tag, |place| self.flows[place as usize].key == address.key)
    }

    /// Whether a packet begins its flow anew: a connection's first packet after the last one ended.
    pub(crate) fn is_anew(&self, place: u32, packet: &Decoded<'_>) -> bool {
        let is_syn = packet.tcp.flags & (SYN | ACK | RST) == SYN;
        packet.carried == Carried::Tcp
            && is_syn
            && self.flows[place as usize].phase == Phase::Closed
    }

    /// Puts in a flow that begins with `packet`, which has none.
    pub(crate) fn insert(&mut self, packet: &Decoded<'_>, address: &Address, now_ns: u64) -> u32 {
        let &Address { key, src_is_low, .. } = address;
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
            seen: 0,
            is_passed: false,
            halves: Default::default(),
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.flows[place as usize] = flow;
                place
            }
            None => {
                self.flows.push(flow);
                self.links.push(Link { newer: NONE, older: NONE });
                (self.flows.len() - 1) as u32
            }
        };
        self.table.insert(&key, place, |place| self.flows[place as usize].key);
        self.link(place);
        place
    }

    /// Notes a packet of the flow at `place`.
    pub(crate) fn note(
        &mut self,
        place: u32,
        packet: &Decoded<'_>,
        address: &Address,
        now_ns: u64,
    ) -> Seen {
        let flow = &mut self.flows[place as usize];
        let phase = flow.phase;
        flow.last_ns = flow.last_ns.max(now_ns);
        let direction = flow.direction(address);
        flow.seen |= 1 << side(direction);
        let mut is_reset = false;
        if packet.carried == Carried::Tcp {
            is_reset = flow.note_tcp(packet, direction);
        } else if flow.seen == BOTH {
            flow.phase = Phase::Stands;
        }
        let (is_established, now) = (flow.is_established(), flow.phase);
        if phase != now || self.lists[now as usize].newest != place {
            self.unlink(place, phase);
            self.link(place);
        }
        Seen { place, direction, is_established, is_reset }
    }

    /// Takes out the flow at `place`, which may not be used any more.
    pub(crate) fn remove(&mut self, place: u32) {
        self.unlink(place, self.flows[place as usize].phase);
        let flow = &mut self.flows[place as usize];
        flow.halves = Default::default();
        flow.id = 0;
        self.table.remove(&flow.key, place);
        self.bits.clear(place);
        self.free.push(place);
    }

    fn link(&mut self, place: u32) {
        let list = &mut self.lists[self.flows[place as usize].phase as usize];
        let older = std::mem::replace(&mut list.newest, place);
        if older == NONE {
            list.oldest = place;
        } else {
            self.links[older as usize].newer = place;
        }
        self.links[place as usize] = Link { newer: NONE, older };
    }

    /// Takes a flow out of the list of `phase`.
    fn unlink(&mut self, place: u32, phase: Phase) {
        let Link { newer, older } = self.links[place as usize];
        match newer {
            NONE => self.lists[phase as usize].newest = older,
            newer => self.links[newer as usize].older = older,
        }
        match older {
            NONE => self.lists[phase as usize].oldest = newer,
            older => self.links[older as usize].newer = newer,
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
    let is_mapped = |number: u128| number >> 32 == 0xffff;
    let vlans = match packet.is_ipv6 && is_mapped(low.0) && is_mapped(high.0) {
        // Numbers of IPv4, which nobody may send as IPv6: where no outer tag is with an inner one,
        // they meet no flow of IPv4.
        true => [NO_VLAN, packet.vlans[0] % NO_VLAN],
        false => packet.vlans,
    };
    let [outer, inner] = vlans.map(u64::from);
    let ports = u64::from(low.1) << 48 | u64::from(high.1) << 32;
    let rest = ports | inner << 20 | outer << 8 | u64::from(packet.ip_proto);
    let words = |number: u128| [(number >> 64) as u64, number as u64];
    let ([a, b], [c, d]) = (words(low.0), words(high.0));
    ([a, b, c, d, rest], src_is_low)
}

#[cfg(test)]
mod tests {
    use warpswitch_wire::link::LinkType;

    use super::*;
    use crate::decode::decode;
    use crate::tests::frames::{End, tagged, udp};

    #[test]
    fn addresses_of_ipv4_in_ipv6_are_other_flows() {
        let frames = [
            udp(End("10.0.0.1", 9), End("10.0.0.2", 53), b"q"),
            udp(End("::ffff:10.0.0.1", 9), End("::ffff:10.0.0.2", 53), b"q"),
        ];
        let decoded =
            |frame: &[u8]| decode(LinkType::Ethernet, frame, frame.len()).map(|it| key(&it));
        let [four, mapped] = frames.each_ref().map(|frame| decoded(frame));
        assert_ne!(four, mapped);
        let tags = |vlan| frames.each_ref().map(|frame| decoded(&tagged(frame, vlan)));
        let ([four_tagged, mapped_tagged], [_, other_tagged]) = (tags(5), tags(6));
        assert!(four_tagged != mapped_tagged && mapped_tagged != other_tagged);
    }

    /// Flows that all meet in the table, and addresses that were taken before it drew another hash.
    #[test]
    fn addresses_find_their_flows_whatever_the_table_draws() {
        let frames: Vec<Vec<u8>> =
            (1..600).map(|port| udp(End("10.0.0.1", port), End("10.0.0.2", 53), b"q")).collect();
        let packets: Vec<Decoded<'_>> = frames
            .iter()
            .map(|frame| decode(LinkType::Ethernet, frame, frame.len()).unwrap())
            .collect();
        let mut flows = Flows { table: Table::broken(), ..Flows::new(0) };
        let addresses: Vec<Address> = packets.iter().map(|packet| flows.address(packet)).collect();
        let mut places = Vec::new();
        for (packet, address) in packets.iter().zip(&addresses) {
            assert_eq!(flows.find(address), None);
            places.push(flows.insert(packet, address, 1));
        }
        // What is drawn may once in a while have keys meet, too.
        assert!(flows.len() == 599 && flows.table.redrawn >= 1);
        for (address, place) in addresses.iter().zip(places) {
            assert_eq!(flows.find(address), Some(place));
            flows.remove(place);
            assert_eq!(flows.find(address), None);
        }
        assert_eq!((flows.len(), flows.least(None)), (0, None));
    }
}
