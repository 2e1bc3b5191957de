//! Frames for tests: TCP and UDP over IPv4 and IPv6, with right lengths and no checksums.

use std::net::IpAddr;

/// One end of a flow.
#[derive(Clone, Copy, Debug)]
pub struct End(pub &'static str, pub u16);

/// A client and a server.
pub const CLIENT: End = End("10.0.0.1", 40000);
/// The server.
pub const SERVER: End = End("192.0.2.80", 80);

pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// An Ethernet frame with an IP packet.
pub fn ip(src: &str, dst: &str, proto: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    match (src.parse().unwrap(), dst.parse().unwrap()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((20 + transport.len() as u16).to_be_bytes());
            frame.extend([0, 7, 0, 0, 64, proto, 0, 0]);
            frame.extend(src.octets());
            frame.extend(dst.octets());
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([proto, 64]);
            frame.extend(src.octets());
            frame.extend(dst.octets());
        }
        _ => panic!("two families"),
    }
    frame.extend(transport);
    frame
}

/// A TCP segment.
pub fn tcp(src: End, dst: End, flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(src.1.to_be_bytes());
    segment.extend(dst.1.to_be_bytes());
    segment.extend(seq.to_be_bytes());
    segment.extend(ack.to_be_bytes());
    segment.extend([0x50, flags, 0x10, 0, 0, 0, 0, 0]);
    segment.extend(payload);
    ip(src.0, dst.0, 6, &segment)
}

/// A UDP datagram.
pub fn udp(src: End, dst: End, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(src.1.to_be_bytes());
    datagram.extend(dst.1.to_be_bytes());
    datagram.extend((8 + payload.len() as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ip(src.0, dst.0, 17, &datagram)
}

/// The three packets that begin a connection, whose next bytes are 1001 and 5001.
pub fn handshake(client: End, server: End) -> Vec<Vec<u8>> {
    vec![
        tcp(client, server, SYN, 1000, 0, b""),
        tcp(server, client, SYN | ACK, 5000, 1001, b""),
        tcp(client, server, ACK, 1001, 5001, b""),
    ]
}

/// A connection whose client sends these segments, each at its place in the stream.
pub fn connection(segments: &[(u32, &[u8])]) -> Vec<Vec<u8>> {
    let mut frames = handshake(CLIENT, SERVER);
    frames.extend(
        segments.iter().map(|(at, bytes)| tcp(CLIENT, SERVER, ACK, 1001 + at, 5001, bytes)),
    );
    frames
}

/// The same frame with a VLAN tag.
pub fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend([0x81, 0x00]);
    tagged.extend(vlan.to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

/// The fragments of a frame, so many times eight bytes of data in each, and the rest.
pub fn cut(frame: &[u8], cuts: &[usize], id: u16) -> Vec<Vec<u8>> {
    let is_ipv6 = frame[12..14] == [0x86, 0xdd];
    let (front, data) = frame.split_at(14 + if is_ipv6 { 40 } else { 20 });
    let (mut parts, mut start) = (Vec::new(), 0usize);
    for cut in cuts.iter().map(|cut| 8 * cut).chain([usize::MAX]) {
        let end = data.len().min(start.saturating_add(cut));
        let more = u16::from(end < data.len());
        let mut part = front.to_vec();
        if is_ipv6 {
            part[18..20].copy_from_slice(&((end - start + 8) as u16).to_be_bytes());
            part[20] = 44;
            part.extend([front[20], 0]);
            part.extend((start as u16 | more).to_be_bytes());
            part.extend(u32::from(id).to_be_bytes());
        } else {
            part[16..18].copy_from_slice(&((20 + end - start) as u16).to_be_bytes());
            part[18..20].copy_from_slice(&id.to_be_bytes());
            part[20..22].copy_from_slice(&((start as u16 / 8) | (more << 13)).to_be_bytes());
        }
        part.extend(&data[start..end]);
        parts.push(part);
        start = end;
        if start == data.len() {
            break;
        }
    }
    parts
}
