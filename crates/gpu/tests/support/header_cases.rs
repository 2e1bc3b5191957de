//! IPv4 packets, good and bad, and what must become of them: by `wire`'s checks and a checksum that
//! is made anew, not updated.

use warpswitch_gpu::routes::{SLICE_BYTES, Slice, Verdict};
use warpswitch_routes::{NextHop, RouteTable};
use warpswitch_wire::ParseError;
use warpswitch_wire::ipv4::Ipv4;

use super::route_cases::{self, Seeds, addresses};

/// A table that leaves addresses without a route.
pub fn table(routes: usize, seed: u64) -> RouteTable<u32> {
    let table: RouteTable<u32> = route_cases::table(routes, seed);
    table.iter().filter(|(prefix, _)| prefix.len() > 12).collect()
}

/// Packets to addresses near the table's prefixes, every second one with a fault.
pub fn packets(table: &RouteTable<u32>, len: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut seeds = Seeds(seed);
    let addrs = addresses(table, len, seed);
    addrs.iter().map(|&dst| packet(dst, &mut seeds)).collect()
}

fn packet(dst: u32, seeds: &mut Seeds) -> Vec<u8> {
    let draw = seeds.next();
    let words = if draw.is_multiple_of(2) { 5 } else { 5 + (draw >> 8) as u8 % 11 };
    let bytes = usize::from(words) * 4 + (draw >> 16) as usize % 40;
    let mut packet: Vec<u8> = (0..bytes).map(|_| seeds.next() as u8).collect();
    packet[0] = 0x40 | words;
    packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    if (draw >> 24).is_multiple_of(4) {
        packet[8] = (draw >> 32) as u8 % 4;
    }
    packet[16..20].copy_from_slice(&dst.to_be_bytes());
    Ipv4::new_unchecked(&mut packet).fill_checksum();
    // Bytes behind the packet, as Ethernet pads.
    let padding = (draw >> 40) as usize % 3 * 7;
    packet.resize(bytes + padding, 0xaa);
    match (draw >> 48) % 16 {
        0 => packet[(draw >> 52) as usize % 20] ^= 1 << (draw >> 60 & 7),
        1 => packet.truncate((draw >> 52) as usize % 70),
        2 => packet[0] = (packet[0] & 0x0f) | (draw >> 52) as u8 & 0xf0,
        3 => packet[0] = 0x40 | (draw >> 52) as u8 & 0x0f,
        4 => packet[2..4].copy_from_slice(&((draw >> 52) as u16 % 90).to_be_bytes()),
        5 => packet[10..12].copy_from_slice(&((draw >> 52) as u16).to_be_bytes()),
        6 => packet.clear(),
        7 => {
            let at = packet.len() - 1;
            packet[at] ^= 0x40;
        }
        _ => {}
    }
    packet
}

/// What must become of a packet: verdict, hop, and its first bytes.
pub fn expected(packet: &[u8], table: &RouteTable<u32>) -> (Verdict, NextHop, [u8; SLICE_BYTES]) {
    let mut packet = packet.to_vec();
    let (verdict, hop) = outcome(&mut packet, table);
    packet.resize(packet.len().max(SLICE_BYTES), 0);
    let first = packet.first_chunk().expect("it was made as long");
    (verdict, hop, *first)
}

fn outcome(packet: &mut [u8], table: &RouteTable<u32>) -> (Verdict, NextHop) {
    let is_tiny = packet.len() < 20;
    let mut view = Ipv4::new_unchecked(packet);
    let fault = match view.check() {
        Ok(()) if !view.is_checksum_right() => Some(Verdict::BadChecksum),
        Ok(()) => None,
        Err(ParseError::Ipv4Truncated) if is_tiny => Some(Verdict::Tiny),
        Err(ParseError::Ipv4Version) => Some(Verdict::BadVersion),
        Err(ParseError::Ipv4HeaderLength) => Some(Verdict::BadHeaderLength),
        Err(_) => Some(Verdict::BadLength),
    };
    if let Some(fault) = fault {
        return (fault, NextHop::NONE);
    }
    let hop = table.lookup(view.dst().to_bits());
    if !hop.is_some() {
        return (Verdict::NoRoute, hop);
    }
    if view.ttl() <= 1 {
        return (Verdict::Expired, hop);
    }
    view.set_ttl(view.ttl() - 1);
    view.fill_checksum();
    (Verdict::SentOn, hop)
}

/// Compares what came back with what must have; how many of each verdict there were.
pub fn check(
    out: &[Slice],
    packets: &[Vec<u8>],
    table: &RouteTable<u32>,
    what: &str,
) -> [usize; Verdict::ALL.len()] {
    assert_eq!(out.len(), packets.len(), "{what}");
    let mut counts = [0; Verdict::ALL.len()];
    for (slice, packet) in out.iter().zip(packets) {
        let (verdict, hop) = slice.outcome();
        let found = (verdict, hop, slice.bytes());
        assert_eq!(found, expected(packet, table), "{what}: {packet:02x?}");
        counts[verdict as usize] += 1;
    }
    counts
}
