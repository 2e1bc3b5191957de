//! Flows: identifiers, rewritten identifiers, connection state and timeouts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv4Addr;

use warpswitch_wire::checksum::Sum;

use super::seq::SeqShifts;

/// Whose packets: addresses and ports, in the machine's order. Places that a rewriter does not
/// look at are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowId {
    /// Source address.
    pub(crate) src: u32,
    /// Source port; of a ping, its identifier.
    pub(crate) src_port: u16,
    /// Destination address.
    pub(crate) dst: u32,
    /// Destination port.
    pub(crate) dst_port: u16,
}

impl FlowId {
    /// Whose answers come back.
    pub(crate) fn reverse(self) -> Self {
        let Self { src, src_port, dst, dst_port } = self;
        Self { src: dst, src_port: dst_port, dst: src, dst_port: src_port }
    }

    /// The source address.
    pub(crate) fn src(self) -> Ipv4Addr {
        self.src.into()
    }

    /// The destination address.
    pub(crate) fn dst(self) -> Ipv4Addr {
        self.dst.into()
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = (self.src(), self.dst());
        write!(f, "({src}, {}, {dst}, {})", self.src_port, self.dst_port)
    }
}

/// A table of a set of flows: every rewriter that shares the set has two, the second for UDP where
/// that is kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TableId(pub(super) u16);

impl TableId {
    /// The table of member number `member`.
    pub(super) fn new(member: usize, is_udp: bool) -> Self {
        Self((member as u16) << 1 | u16::from(is_udp))
    }

    /// The member whose table it is.
    pub(super) fn member(self) -> usize {
        usize::from(self.0 >> 1)
    }

    /// Whether it is the second table.
    pub(super) fn is_udp(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What packets are looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey {
    pub(super) table: TableId,
    pub(super) id: FlowId,
}

impl Hash for FlowKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let FlowId { src, src_port, dst, dst_port } = self.id;
        let ports = u64::from(src_port) << 16 | u64::from(dst_port);
        state.write_u64(u64::from(src) << 32 | u64::from(dst));
        state.write_u64(u64::from(self.table.0) << 32 | ports);
    }
}

/// The direction of the packet that made the flow.
pub(super) const FORWARD: usize = 0;
/// The direction of its answers.
pub(super) const REPLY: usize = 1;

/// How the state of a flow is tracked, which determines how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Track {
    /// Not at all.
    Plain,
    /// By packets in both directions.
    Udp,
    /// By flags and payload.
    Tcp,
}

/// How long flows are kept after their last packet, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// As a rule.
    pub(super) idle_ms: i64,
    /// If it went both ways: payload for TCP, three packets for UDP.
    pub(super) busy_ms: i64,
    /// If TCP has ended it, by FIN in both directions or by RST.
    pub(super) done_ms: i64,
    /// However many other flows there are.
    pub(super) guarantee_ms: i64,
}

/// One flow, both directions.
#[derive(Debug)]
pub(super) struct Flow {
    /// What its packets look like when they come, by direction.
    pub(super) ids: [FlowId; 2],
    /// Where they leave, by direction.
    pub(super) outputs: [u32; 2],
    pub(super) table: TableId,
    pub(super) proto: u8,
    /// Whether nothing may evict it yet.
    pub(super) is_guaranteed: bool,
    /// Packets or flags seen so far, in the encoding of its [`Track`].
    pub(super) seen: u8,
    /// What replies get as annotation.
    pub(super) reply_anno: u8,
    /// The input spec that made it.
    pub(super) input: u32,
    /// Its place in the heap.
    pub(super) place: u32,
    /// When the guarantee, or else the flow, ends.
    pub(super) expiry_ms: i64,
    /// What is added to the IP checksum's sum.
    pub(super) ip_delta: u16,
    /// What is added to the sum of the checksum behind.
    pub(super) l4_delta: u16,
    /// Shifts of sequence numbers, rarely.
    pub(super) shifts: Option<Box<SeqShifts>>,
}

const SEEN_REPLY: u8 = 1;
const UDP_PACKET: u8 = 2;
const UDP_PACKETS_MAX: u8 = 6;

/// The state of TCP, by direction: bit 0 or 1 over, bit 2 or 3 payload seen.
const TCP_DONE: u8 = 1;
const TCP_DATA: u8 = 4;

impl Flow {
    /// What its packets look like when they leave, by direction.
    #[inline]
    pub(super) fn rewritten(&self, direction: usize) -> FlowId {
        self.ids[1 - direction].reverse()
    }

    /// The same flow, for another set.
    pub(super) fn moved(&self) -> Self {
        Self { shifts: self.shifts.clone(), ..*self }
    }

    /// Computes what the checksums change by.
    pub(super) fn prepare(&mut self, is_ping: bool) {
        let (old, new) = (self.ids[FORWARD], self.rewritten(FORWARD));
        let addresses = Sum::ZERO.add_u32(!old.src).add_u32(new.src);
        let addresses = addresses.add_u32(!old.dst).add_u32(new.dst);
        let ports = |sum: Sum| sum.add_u16(!old.src_port).add_u16(new.src_port);
        let both = |sum: Sum| ports(sum).add_u16(!old.dst_port).add_u16(new.dst_port);
        // A sum of all ones is zero: nothing changes.
        let delta = |sum: Sum| if sum.fold() == 0xffff { 0 } else { sum.fold() };
        self.ip_delta = delta(addresses);
        self.l4_delta = delta(if is_ping { ports(Sum::ZERO) } else { both(addresses) });
    }

    /// Follows a UDP packet.
    #[inline]
    pub(super) fn see_udp(&mut self, direction: usize) {
        if direction == REPLY {
            self.seen |= SEEN_REPLY;
        }
        if self.seen < UDP_PACKETS_MAX {
            self.seen += UDP_PACKET;
        }
    }

    /// Follows a TCP segment.
    #[inline]
    pub(super) fn see_tcp(&mut self, direction: usize, flags: u8, has_payload: bool) {
        const FIN: u8 = 1;
        const SYN: u8 = 2;
        const RST: u8 = 4;
        if flags & RST != 0 {
            self.seen |= TCP_DONE * 3;
        } else if flags & FIN != 0 {
            self.seen |= TCP_DONE << direction;
        } else if flags & SYN != 0 || has_payload {
            self.seen &= !(TCP_DONE << direction);
        }
        if has_payload {
            self.seen |= TCP_DATA << direction;
        }
    }

    /// How long it is kept if nothing comes.
    #[inline]
    pub(super) fn idle_ms(&self, track: Track, limits: &Limits) -> i64 {
        let (all_done, all_data) = (TCP_DONE * 3, TCP_DATA * 3);
        match track {
            Track::Tcp if self.seen & all_done == all_done => limits.done_ms,
            Track::Tcp if self.seen & all_data == all_data => limits.busy_ms,
            Track::Udp if self.seen > UDP_PACKETS_MAX => limits.busy_ms,
            _ => limits.idle_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_decides_how_long_a_flow_is_kept() {
        let limits = Limits { idle_ms: 1, busy_ms: 2, done_ms: 3, guarantee_ms: 0 };
        let flow = || Flow {
            ids: [FlowId::default(); 2],
            outputs: [0; 2],
            table: TableId(0),
            proto: 0,
            is_guaranteed: false,
            seen: 0,
            reply_anno: 0,
            input: 0,
            place: 0,
            expiry_ms: 0,
            ip_delta: 0,
            l4_delta: 0,
            shifts: None,
        };
        let tcp = |segments: &[(usize, u8, bool)]| {
            let mut flow = flow();
            for &(direction, flags, has_payload) in segments {
                flow.see_tcp(direction, flags, has_payload);
            }
            flow.idle_ms(Track::Tcp, &limits)
        };
        assert_eq!(tcp(&[(0, 2, false), (1, 18, false)]), 1);
        assert_eq!(tcp(&[(0, 16, true), (0, 16, true)]), 1);
        assert_eq!(tcp(&[(0, 16, true), (1, 16, true)]), 2);
        assert_eq!(tcp(&[(0, 16, true), (1, 16, true), (0, 17, false)]), 2);
        assert_eq!(tcp(&[(0, 17, false), (1, 17, true)]), 3);
        assert_eq!(tcp(&[(1, 4, false)]), 3);
        assert_eq!(tcp(&[(0, 4, false), (0, 2, false)]), 1, "it begins again");
        let udp = |directions: &[usize]| {
            let mut flow = flow();
            directions.iter().for_each(|&direction| flow.see_udp(direction));
            flow.idle_ms(Track::Udp, &limits)
        };
        assert_eq!((udp(&[0, 0, 0, 0]), udp(&[0, 1]), udp(&[0, 0, 1])), (1, 1, 2));
        assert_eq!(udp(&[0, 0, 0, 0, 0, 1]), 2);
    }
}
