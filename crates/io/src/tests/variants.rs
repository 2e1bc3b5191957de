//! Every variant of the formats, built by hand.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use warpswitch_wire::link::LinkType;

use super::{Read, expected, read_all, read_hesitantly, samples, write_all};
use crate::{CaptureFormat, IoErrorKind};

/// Bytes in one byte order.
#[derive(Clone)]
struct Build {
    is_big_endian: bool,
    bytes: Vec<u8>,
}

impl Build {
    fn new(is_big_endian: bool) -> Self {
        Self { is_big_endian, bytes: Vec::new() }
    }

    fn half(mut self, value: u16) -> Self {
        let bytes = if self.is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    fn word(mut self, value: u32) -> Self {
        let bytes = if self.is_big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    fn words(self, values: &[u32]) -> Self {
        values.iter().fold(self, |build, &value| build.word(value))
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// A block of pcapng around `body`.
    fn block(self, kind: u32, body: impl FnOnce(Build) -> Build) -> Self {
        let mut body = body(Build::new(self.is_big_endian)).bytes;
        body.resize(body.len().next_multiple_of(4), 0);
        let length = body.len() as u32 + 12;
        self.word(kind).word(length).bytes(&body).word(length)
    }

    fn section(self) -> Self {
        self.block(0x0a0d_0d0a, |b| b.word(0x1a2b_3c4d).half(1).half(0).words(&[u32::MAX; 2]))
    }

    /// An interface with options, each a code and a value.
    fn interface(self, link_type: u16, snap: u32, options: &[(u16, &[u8])]) -> Self {
        self.block(1, |b| {
            let b = b.half(link_type).half(0).word(snap);
            options.iter().fold(b, |b, (code, value)| {
                let padding = value.len().wrapping_neg() % 4;
                b.half(*code).half(value.len() as u16).bytes(value).bytes(&[0; 3][..padding])
            })
        })
    }

    fn enhanced(self, interface: u32, ticks: u64, data: &[u8], original: u32) -> Self {
        let (high, low) = ((ticks >> 32) as u32, ticks as u32);
        let head = [interface, high, low, data.len() as u32, original];
        self.block(6, |b| b.words(&head).bytes(data))
    }
}

fn frame(data: &[u8], timestamp_ns: u64, original_bytes: usize) -> Read {
    Read { data: data.to_vec(), timestamp_ns, original_bytes, link_type: LinkType::Ethernet }
}

fn check(build: Build, expected: &[Read]) {
    let (found, outcome) = read_all(&build.bytes);
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found, expected);
    let (found, outcome) = read_hesitantly(&build.bytes);
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found, expected);
}

#[test]
fn pcap_in_both_orders_and_units() {
    for is_big_endian in [false, true] {
        for (magic, unit_ns) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let build = Build::new(is_big_endian).word(magic).half(2).half(4);
            // The link type's upper bits tell of frame check sequences.
            let build = build.words(&[0, 0, 96, 0x5400_0001]);
            let build = build.words(&[7, 999_999, 3, 60]).bytes(b"abc");
            let build = build.words(&[8, 1, 0, 0]);
            let seven = 7_000_000_000 + 999_999 * unit_ns;
            check(build, &[frame(b"abc", seven, 60), frame(b"", 8_000_000_000 + unit_ns, 0)]);
        }
    }
}

#[test]
fn modified_pcap_has_longer_frame_headers() {
    let build = Build::new(false).word(0xa1b2_cd34).half(2).half(4).words(&[0, 0, 96, 1]);
    let build = build.words(&[7, 5, 2, 2, 0xdead, 0xbeef]).bytes(b"hi");
    check(build, &[frame(b"hi", 7_000_005_000, 2)]);
}

#[test]
fn link_types_are_told() {
    let cases = [
        (1, LinkType::Ethernet),
        (101, LinkType::RawIp),
        (113, LinkType::Sll),
        (276, LinkType::Sll2),
        (0, LinkType::Loopback),
        (105, LinkType::Unsupported(105)),
    ];
    for (number, link_type) in cases {
        let pcap = Build::new(false).word(0xa1b2_c3d4).half(2).half(4);
        let pcap = pcap.words(&[0, 0, 96, number]).words(&[0, 0, 1, 1]).bytes(b"x");
        check(pcap, &[Read { link_type, ..frame(b"x", 0, 1) }]);
        let pcapng = Build::new(true).section().interface(number as u16, 0, &[]);
        check(pcapng.enhanced(0, 0, b"x", 1), &[Read { link_type, ..frame(b"x", 0, 1) }]);
    }
}

#[test]
fn pcapng_interfaces_have_their_own_clocks() {
    for is_big_endian in [false, true] {
        let offset = if is_big_endian { 100i64.to_be_bytes() } else { 100i64.to_le_bytes() };
        let build = Build::new(is_big_endian).section();
        let build = build.interface(1, 0, &[]);
        let build = build.interface(1, 0, &[(2, b"eth7"), (9, &[9]), (0, b"")]);
        let build = build.interface(1, 0, &[(9, &[0x80 | 10]), (14, &offset)]);
        let build = build.enhanced(0, 3_000_001, b"us", 2);
        let build = build.enhanced(1, 5_000_000_000_007, b"ns", 60);
        let build = build.enhanced(2, 1024 + 512, b"binary", 6);
        // Behind the end of options nothing counts.
        let build = build.interface(1, 0, &[(0, b""), (9, &[0])]);
        let build = build.enhanced(3, 9_000_000, b"default", 7);
        check(
            build,
            &[
                frame(b"us", 3_000_001_000, 2),
                frame(b"ns", 5_000_000_000_007, 60),
                frame(b"binary", 101_500_000_000, 6),
                frame(b"default", 9_000_000_000, 7),
            ],
        );
    }
}

#[test]
fn times_out_of_range_are_cut_to_it() {
    let before = (-5i64).to_le_bytes();
    let build = Build::new(false).section().interface(1, 0, &[(9, &[0])]);
    let build = build.interface(1, 0, &[(14, &before)]);
    let build = build.enhanced(0, u64::MAX, b"late", 4).enhanced(1, 1, b"early", 5);
    check(build, &[frame(b"late", u64::MAX, 4), frame(b"early", 0, 5)]);
}

#[test]
fn sections_start_anew_and_may_change_their_order() {
    let first = Build::new(false).section().interface(101, 0, &[]).enhanced(0, 0, b"one", 3);
    let second = Build::new(true).section().interface(1, 0, &[]).enhanced(0, 2, b"two", 3);
    let both = Build { bytes: [&first.bytes[..], &second.bytes].concat(), ..first.clone() };
    let one = Read { link_type: LinkType::RawIp, ..frame(b"one", 0, 3) };
    check(both, &[one, frame(b"two", 2_000, 3)]);
    // The first section's interfaces are gone.
    let stale = Build { bytes: first.bytes.clone(), ..first }.section().enhanced(0, 0, b"x", 1);
    let error = read_all(&stale.bytes).1.unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::Malformed);
}

#[test]
fn blocks_of_no_interest_are_passed_over_whatever_they_hold() {
    for is_big_endian in [false, true] {
        let mut build = Build::new(is_big_endian).section().interface(1, 0, &[]);
        for kind in [4, 5, 9, 10, 0xbad, 0x4000_0bad, 0x8000_0001, 77] {
            // Larger than any block that is read, and nonsense in blocks of known kinds.
            let body = vec![0xff; if kind == 77 { 3 << 20 } else { 21 }];
            build = build.block(kind, |b| b.bytes(&body));
        }
        check(build.enhanced(0, 1, b"end", 3), &[frame(b"end", 1_000, 3)]);
    }
}

#[test]
fn simple_and_obsolete_packets() {
    for is_big_endian in [false, true] {
        let build = Build::new(is_big_endian).section().interface(1, 4, &[]);
        let build = build.block(3, |b| b.word(3).bytes(b"abc"));
        let build = build.block(3, |b| b.word(100).bytes(b"abcd"));
        let build = build.block(2, |b| b.half(0).half(9).words(&[0, 70, 5, 1500]).bytes(b"olden"));
        check(build, &[frame(b"abc", 0, 3), frame(b"abcd", 0, 100), frame(b"olden", 70_000, 1500)]);
    }
}

#[test]
fn versions_of_the_future_are_refused() {
    let pcap = Build::new(false).word(0xa1b2_c3d4).half(3).half(0).words(&[0, 0, 96, 1]);
    let body = |b: Build| b.word(0x1a2b_3c4d).half(2).half(0).words(&[u32::MAX; 2]);
    let pcapng = Build::new(false).block(0x0a0d_0d0a, body);
    for (build, expected) in [(pcap, "pcap version 3.0"), (pcapng, "pcapng version 2.0")] {
        let error = read_all(&build.bytes).1.unwrap_err();
        assert_eq!(error.kind(), IoErrorKind::Unsupported);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn gzip_in_several_members_is_one_stream_and_damage_is_named() {
    let whole = write_all(&samples(), CaptureFormat::PcapNg, false);
    let mut packed = Vec::new();
    for part in whole.chunks(whole.len() / 3 + 1) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(part).unwrap();
        packed.extend(encoder.finish().unwrap());
    }
    assert_eq!(read_all(&packed).0, expected(&samples()));
    assert_eq!(read_hesitantly(&packed).0, expected(&samples()));

    let mut damaged = write_all(&samples(), CaptureFormat::Pcap, true);
    let checksum = damaged.len() - 8;
    damaged[checksum] ^= 1;
    let (found, outcome) = read_all(&damaged);
    assert_eq!(found, expected(&samples()));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::Malformed);
    assert!(error.to_string().contains("gzip"), "{error}");
}
