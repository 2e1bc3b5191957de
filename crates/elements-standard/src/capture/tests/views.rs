//! Tests of field extraction from truncated and malformed packets.

use warpswitch_packet::{Header, Packet};

use crate::capture::summary::view::Manner;
use crate::capture::summary::{find, write};

/// All fields that are written.
const FIELDS: &str = "timestamp ts_sec ts_usec ts_usec1 first_timestamp count link direction \
    aggregate wire_len eth_src eth_dst eth_type ip_src ip_dst ip_tos ip_dscp ip_ecn ip_ttl ip_frag \
    ip_fragoff ip_id ip_sum ip_proto ip_hl ip_len ip_capture_len ip_opt sport dport tcp_seq \
    tcp_ack tcp_off tcp_flags tcp_window tcp_urp tcp_opt tcp_ntopt tcp_sack udp_len icmp_type \
    icmp_type_name icmp_code icmp_code_name icmp_flowid icmp_seq icmp_nextmtu payload payload_len \
    payload_md5 payload_md5_hex";

/// The line for an IP packet of `bytes`, and the error reported for it.
fn shown(bytes: &[u8], fields: &str) -> (String, String) {
    let mut packet = Packet::new();
    packet.set_data(bytes);
    packet.set_header(Header::Network, 0);
    packet.set_header(Header::Transport, bytes.len().min(20));
    let specs: Vec<_> = fields.split_whitespace().map(|name| find(name).expect(name)).collect();
    let manner = Manner { tells_bad: true, careful_truncation: false, extra_length: true };
    let (mut line, mut bad, mut record) = (String::new(), String::new(), Vec::new());
    write::line(&packet, &specs, manner, &mut line, &mut bad);
    write::record(&packet, &specs, manner, &mut record, &mut String::new());
    assert!(record.len() > 4);
    (line.trim_end().to_owned(), bad.trim_end().to_owned())
}

/// A segment with ports 2 and 3, urgent pointer 4 and window scale 10.
#[rustfmt::skip]
const SEGMENT: [u8; 44] = [
    0x45, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0, 1, 0, 0, 1, 2, 0, 0, 2,
    0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0x60, 0, 0, 0, 0, 0, 0, 4, 3, 3, 10, 0,
];

#[test]
fn a_short_packet_shows_what_is_there() {
    let check = |bytes: usize, line: &str, bad: &str| {
        let found = shown(&SEGMENT[..bytes], "sport dport tcp_urp tcp_opt");
        assert_eq!((found.0.as_str(), found.1.as_str()), (line, bad), "{bytes}");
    };
    check(44, "2 3 4 wscale10", "");
    check(41, "2 3 4 -", "!bad truncated TCP header");
    check(38, "2 3 - -", "!bad truncated TCP header");
    check(23, "2 - - -", "!bad truncated TCP/UDP header");
    check(20, "- - - -", "!bad truncated TCP/UDP header");
    check(5, "- - - -", "!bad truncated TCP/UDP header");
    check(3, "- - - -", "!bad truncated IP header");
    check(0, "- - - -", "!bad truncated IP header");
}

#[test]
fn headers_that_are_wrong_are_not_believed() {
    let check = |changes: &[(usize, u8)], fields: &str, line: &str, bad: &str| {
        let mut bytes = SEGMENT;
        for &(at, byte) in changes {
            bytes[at] = byte;
        }
        let found = shown(&bytes, fields);
        assert_eq!((found.0.as_str(), found.1.as_str()), (line, bad), "{changes:?}");
    };
    check(&[(0, 0x65)], "src sport", "- -", "!bad IP version 6");
    check(&[(0, 0x44)], "src", "-", "!bad IP header length 4");
    check(&[(3, 19)], "src", "-", "!bad IP length 19");
    check(&[(32, 0x40)], "src tcp_seq", "1.0.0.1 -", "!bad TCP header length 4");
    check(&[(7, 1)], "frag sport", "f -", "!bad fragmented TCP/UDP header");
    // Another protocol's packet is nothing wrong; nor is padding.
    check(&[(9, 1)], "sport tcp_seq icmp_type", "- - 0", "");
    check(&[(3, 40)], "len ip_capture_len tcp_urp", "40 40 4", "");
    check(&[(41, 99)], "tcp_opt", "?", "");
    check(&[(12, 1), (9, 47)], "payload_len sport", "24 -", "");
}

/// Whatever the bytes are, there is a line with all columns and a record.
#[test]
fn any_bytes_are_shown() {
    let count = FIELDS.split_whitespace().count();
    let mut word = 1u32;
    for round in 0..3000u32 {
        let mut bytes = [0u8; 96];
        for byte in &mut bytes {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (word >> 24) as u8;
        }
        bytes[0] = 0x45 + (round % 11) as u8;
        bytes[9] = [1, 6, 17, 33, 47, 136][round as usize % 6];
        if round % 3 > 0 {
            (bytes[2], bytes[6], bytes[7]) = (0, 0, 0);
        }
        let (line, _) = shown(&bytes[..(round % 97) as usize], FIELDS);
        // A payload may hold spaces.
        assert!(line.split(' ').count() >= count, "{line}");
    }
}
