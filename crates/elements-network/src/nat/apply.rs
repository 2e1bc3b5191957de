//! Packet access: the fields that a rewriter reads, and the rewrite.
//!
//! Checksums are updated incrementally (RFC 1624), so an invalid one stays invalid. A zero UDP
//! checksum means none and stays zero; any other checksum never becomes zero.

use std::net::Ipv4Addr;

use warpswitch_packet::Packet;
use warpswitch_packet::packet::Header;
use warpswitch_wire::checksum::{Sum, update_bytes, update_u32};
use warpswitch_wire::ipv4::Ipv4;
use warpswitch_wire::tcp::{self, Tcp};
use warpswitch_wire::udp::Udp;

use super::flow::{FORWARD, Flow, FlowId};
use super::set::Kind;

/// Protocol number of ICMP.
pub(super) const ICMP: u8 = 1;
/// Protocol number of TCP.
pub(super) const TCP: u8 = 6;
/// Protocol number of UDP.
pub(super) const UDP: u8 = 17;
/// Protocol number of DCCP, whose ports lie where UDP's do.
pub(super) const DCCP: u8 = 33;

/// Bytes of a TCP header that reach to the end of its checksum.
pub(super) const TCP_CHECKSUM_END: usize = 18;
/// Bytes that ports and, for UDP, the checksum take.
pub(super) const PORTS_END: usize = 8;
/// Bytes of an ICMP echo that reach to the end of its identifier.
pub(super) const ECHO_END: usize = 6;
/// The ICMP type "echo request".
pub(super) const ECHO: u8 = 8;
/// The ICMP type "echo reply".
pub(super) const ECHO_REPLY: u8 = 0;

/// Header fields of a packet that a rewriter needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) proto: u8,
    /// Whether what follows the IP header begins with a header of its own.
    pub(super) is_first: bool,
    pub(super) header_bytes: usize,
    /// Bytes behind the IP header.
    pub(super) l4_bytes: usize,
    /// The total length in the IP header.
    pub(super) total_bytes: usize,
    /// Addresses, and ports if there are some.
    pub(super) id: FlowId,
    /// The type of an ICMP message.
    pub(super) icmp_type: u8,
}

impl Shape {
    /// Reads what starts with an IP header; none if it does not.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let ip = Ipv4::new_unchecked(bytes);
        ip.check_header().ok()?;
        let header_bytes = ip.header_bytes();
        let l4 = &bytes[header_bytes..];
        let proto = ip.proto().0;
        let is_first = ip.fragment_offset() == 0;
        let mut id = FlowId { src: ip.src().into(), dst: ip.dst().into(), ..FlowId::default() };
        let has_ports = matches!(proto, TCP | UDP | DCCP) && l4.len() >= PORTS_END;
        let is_icmp = proto == ICMP && l4.len() >= ECHO_END;
        let mut icmp_type = u8::MAX;
        if is_first && has_ports {
            let ports = Udp::new_unchecked(l4);
            (id.src_port, id.dst_port) = (ports.src_port(), ports.dst_port());
        } else if is_first && is_icmp {
            icmp_type = l4[0];
            id.src_port = u16::from_be_bytes([l4[4], l4[5]]);
        }
        let (l4_bytes, total_bytes) = (l4.len(), ip.total_bytes());
        Some(Self { proto, is_first, header_bytes, l4_bytes, total_bytes, id, icmp_type })
    }

    /// Whether it is the first fragment, or all, of a packet of `proto` with ports.
    pub(super) fn has_ports(&self) -> bool {
        let is_known = matches!(self.proto, TCP | UDP | DCCP);
        is_known && self.is_first && self.l4_bytes >= PORTS_END
    }

    /// Whether it is an ICMP echo, request or reply.
    pub(super) fn is_echo(&self) -> bool {
        matches!(self.icmp_type, ECHO | ECHO_REPLY)
    }
}

/// The identifier that is kept as the other port of a ping with identifier `id`: it distinguishes
/// requests from replies. It equals Click's on a little-endian machine, which adds one to the
/// identifier in network byte order.
pub(super) fn ping_peer(id: u16) -> u16 {
    id.swap_bytes().wrapping_add(1).swap_bytes()
}

/// The checksum after what it covers changed by `delta`, or, for replies, changed back.
#[inline]
fn adjusted(checksum: u16, delta: u16, direction: usize) -> u16 {
    if delta == 0 {
        return checksum;
    }
    let delta = if direction == FORWARD { delta } else { !delta };
    Sum::ZERO.add_u16(!checksum).add_u16(delta).checksum()
}

/// A partial checksum, the sum of the pseudo header, after the addresses changed by `delta`.
#[inline]
fn adjusted_partial(sum: u16, delta: u16, direction: usize) -> u16 {
    !adjusted(!sum, delta, direction)
}

/// Rewrites `packet`, of which `shape` was read, as a packet of `flow` in `direction`.
pub(super) fn apply(
    flow: &mut Flow,
    kind: Kind,
    direction: usize,
    shape: &Shape,
    packet: &mut Packet,
) {
    let new = flow.rewritten(direction);
    let is_partial = packet.has_gso();
    let bytes = packet.from_header_mut(Header::Network);
    let mut ip = Ipv4::new_unchecked(&mut *bytes);
    if kind != Kind::Address || direction == FORWARD {
        ip.set_src(new.src());
    }
    if kind != Kind::Address || direction != FORWARD {
        ip.set_dst(new.dst());
    }
    let checksum = adjusted(ip.checksum(), flow.ip_delta, direction);
    ip.set_checksum(checksum);
    if !shape.is_first {
        return;
    }
    let l4 = &mut bytes[shape.header_bytes..];
    match (kind, shape.proto) {
        (Kind::Ping, _) => apply_ping(flow, direction, new, l4),
        (Kind::Ip | Kind::Tcp | Kind::Udp, _) => {
            let mut ports = Udp::new_unchecked(&mut *l4);
            ports.set_src_port(new.src_port);
            ports.set_dst_port(new.dst_port);
            fix_l4_checksum(flow, direction, shape, l4, is_partial);
            if shape.proto == TCP && kind != Kind::Udp {
                follow_tcp(flow, direction, shape, l4, is_partial);
            } else {
                flow.see_udp(direction);
            }
        }
        (Kind::Address | Kind::AddressPair, _) => {
            fix_l4_checksum(flow, direction, shape, l4, is_partial);
        }
    }
}

fn fix_l4_checksum(flow: &Flow, direction: usize, shape: &Shape, l4: &mut [u8], is_partial: bool) {
    let checksum_at = if shape.proto == TCP { TCP_CHECKSUM_END - 2 } else { PORTS_END - 2 };
    if is_partial && let Some(field) = l4.get_mut(checksum_at..checksum_at + 2) {
        let sum = u16::from_be_bytes([field[0], field[1]]);
        let sum = adjusted_partial(sum, flow.ip_delta, direction);
        field.copy_from_slice(&sum.to_be_bytes());
    } else if shape.proto == TCP && l4.len() >= TCP_CHECKSUM_END {
        let mut tcp = Tcp::new_unchecked(l4);
        let checksum = adjusted(tcp.checksum(), flow.l4_delta, direction);
        tcp.set_checksum(checksum);
    } else if shape.proto == UDP && l4.len() >= PORTS_END {
        let mut udp = Udp::new_unchecked(l4);
        if udp.checksum() != 0 {
            let checksum = match adjusted(udp.checksum(), flow.l4_delta, direction) {
                0 => 0xffff,
                checksum => checksum,
            };
            udp.set_checksum(checksum);
        }
    }
}

fn apply_ping(flow: &Flow, direction: usize, new: FlowId, l4: &mut [u8]) {
    let Some(header) = l4.first_chunk_mut::<ECHO_END>() else { return };
    let id = if direction == FORWARD { new.src_port } else { new.dst_port };
    let checksum = u16::from_be_bytes([header[2], header[3]]);
    let checksum = adjusted(checksum, flow.l4_delta, direction);
    header[2..4].copy_from_slice(&checksum.to_be_bytes());
    header[4..6].copy_from_slice(&id.to_be_bytes());
    // The difference yields a wrong checksum for a message that is all zero.
    if checksum == 0 && l4.iter().all(|&byte| byte == 0) {
        l4[2..4].fill(0xff);
    }
}

/// Follows the state of a connection, and shifts its sequence numbers where they are shifted.
fn follow_tcp(flow: &mut Flow, direction: usize, shape: &Shape, l4: &mut [u8], is_partial: bool) {
    if l4.len() < TCP_CHECKSUM_END {
        return;
    }
    let (tcp_bytes, flags) = (usize::from(l4[12] >> 4) * 4, l4[13]);
    let has_payload = shape.header_bytes + tcp_bytes < shape.total_bytes;
    flow.see_tcp(direction, flags, has_payload);
    let Some(shifts) = &mut flow.shifts else { return };
    if tcp_bytes < tcp::HEADER_BYTES || l4.len() < tcp_bytes {
        return;
    }
    let word =
        |l4: &[u8], at: usize| u32::from_be_bytes([l4[at], l4[at + 1], l4[at + 2], l4[at + 3]]);
    let (seq, ack) = (word(l4, 4), word(l4, 8));
    let mut checksum = Tcp::new_unchecked(&*l4).checksum();
    shifts.advance(direction, seq);
    if shifts.applies(direction) {
        let new = shifts.seq(direction, seq);
        checksum = update_u32(checksum, seq, new);
        l4[4..8].copy_from_slice(&new.to_be_bytes());
    }
    if shifts.applies(1 - direction) {
        let new = shifts.ack(direction, ack);
        checksum = update_u32(checksum, ack, new);
        l4[8..12].copy_from_slice(&new.to_be_bytes());
        let options = &mut l4[tcp::HEADER_BYTES..tcp_bytes];
        let mut old = [0; tcp::OPTIONS_BYTES_MAX];
        let old = &mut old[..options.len()];
        old.copy_from_slice(options);
        shift_sack(options, |edge| shifts.ack(direction, edge));
        checksum = update_bytes(checksum, old, options);
    }
    // A partial checksum does not cover sequence numbers.
    if !is_partial {
        Tcp::new_unchecked(l4).set_checksum(checksum);
    }
}

/// Shifts the edges of the blocks of a selective acknowledgement.
fn shift_sack(options: &mut [u8], shift: impl Fn(u32) -> u32) {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const SACK: u8 = 5;
    let mut at = 0;
    while at < options.len() {
        let bytes = match options[at] {
            END => return,
            NOP => 1,
            _ => options.get(at + 1).map_or(0, |&bytes| usize::from(bytes)),
        };
        if options[at] != NOP && bytes < 2 || at + bytes > options.len() {
            return;
        }
        if options[at] == SACK {
            if bytes % 8 != 2 {
                return;
            }
            for edge in options[at + 2..at + bytes].as_chunks_mut::<4>().0 {
                *edge = shift(u32::from_be_bytes(*edge)).to_be_bytes();
            }
        }
        at += bytes;
    }
}

/// The destination that a packet has after [`apply`], for its annotation.
pub(super) fn new_destination(flow: &Flow, direction: usize) -> Ipv4Addr {
    flow.rewritten(direction).dst()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_acknowledgements_are_found() {
        let check = |options: &[u8], expect: &[u8]| {
            let mut changed = options.to_vec();
            shift_sack(&mut changed, |edge| edge + 1);
            assert_eq!(changed, expect, "{options:?}");
        };
        check(&[1, 1, 5, 10, 0, 0, 0, 7, 0, 0, 1, 0], &[1, 1, 5, 10, 0, 0, 0, 8, 0, 0, 1, 1]);
        // After another option, at an odd place.
        check(
            &[3, 3, 9, 5, 10, 0, 0, 0, 7, 0, 0, 0, 9],
            &[3, 3, 9, 5, 10, 0, 0, 0, 8, 0, 0, 0, 10],
        );
        // Behind the end, cut off, of a strange length, of no length.
        for options in [
            &[0, 5, 10, 0, 0, 0, 7, 0, 0, 0, 9, 0][..],
            &[5, 10, 0, 0, 0, 7],
            &[5, 9, 0, 0, 0, 7, 0, 0, 0],
            &[8, 0, 5, 10, 0, 0, 0, 7, 0, 0, 0, 9],
            &[5],
            &[8],
            &[],
        ] {
            check(options, options);
        }
    }

    #[test]
    fn the_other_port_of_a_ping_is_clicks() {
        assert_eq!([0x0a00, 0x000a, 0xffff, 0xff00].map(ping_peer), [0x0b00, 0x010a, 0, 1]);
    }
}
