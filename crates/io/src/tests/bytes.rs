//! Properties over whole files: identity, truncation at every byte, and bytes that mean harm.

use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use proptest::prelude::*;

use super::{FORMATS, Written, expected, read_all, samples, write_all};
use crate::reader::FRAME_BYTES_MAX;
use crate::source::Source;
use crate::{CaptureFormat, CaptureWriter, IoErrorKind};

/// Little-endian words as bytes.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn every_truncation_gives_all_whole_frames_and_then_says_so() {
    let frames = samples();
    for (format, gzip) in FORMATS {
        let whole = write_all(&frames, format, gzip);
        // Where frames end, so that cutting there is no truncation.
        let ends: Vec<usize> =
            (0..=frames.len()).map(|n| write_all(&frames[..n], format, false).len()).collect();
        // pcapng may also end between its two header blocks.
        let is_end = |cut| ends.contains(&cut) || format == CaptureFormat::PcapNg && cut == 28;
        for cut in 0..whole.len() {
            let (found, outcome) = read_all(&whole[..cut]);
            let all = expected(&frames);
            assert_eq!(found, all[..found.len()], "{format} {gzip} {cut}");
            if !gzip {
                let whole_frames = ends.iter().filter(|&&end| end <= cut).count().max(1) - 1;
                assert_eq!(found.len(), whole_frames, "{format} {cut}");
            }
            if !gzip && is_end(cut) {
                assert!(outcome.is_ok(), "{format} {cut}");
            } else {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), IoErrorKind::Truncated, "{format} {gzip} {cut}: {error}");
                assert!(error.to_string().starts_with("test: at byte "), "{error}");
            }
        }
        assert_eq!(read_all(&whole).0, expected(&frames));
    }
}

#[test]
fn lengths_that_mean_harm_are_refused_at_their_place() {
    let pcap = |frame: &[u32]| [words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, 1]), words(frame)];
    let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let interface = [1, 20, 1, 0, 20];
    let pcapng = |block: &[u32]| [words(&section), [words(&interface), words(block)].concat()];
    let too_large = FRAME_BYTES_MAX as u32 + 1;
    let cases = [
        (pcap(&[0, 0, u32::MAX, 60]), 32, "a frame of 4294967295 captured bytes"),
        (pcap(&[0, 0, too_large, 60]), 32, "expected at most 262144"),
        (pcapng(&[6, u32::MAX - 3, 0, 0, 0, 0, 0, 0]), 52, "a block of type 6 with 4294967292"),
        (pcapng(&[6, 0, 0]), 52, "a block of 0 bytes"),
        (pcapng(&[6, 13, 0]), 52, "a block of 13 bytes"),
        (pcapng(&[6, 12, 12]), 52, "an enhanced packet block of 12 bytes"),
        (pcapng(&[3, 12, 12]), 52, "a simple packet block of 12 bytes"),
        (pcapng(&[2, 12, 12]), 52, "a packet block of 12 bytes"),
        (pcapng(&[6, 32, 0, 0, 0, 1, 1, 32]), 68, "a frame of 1 captured bytes"),
        (pcapng(&[6, 32, 0, 0, 0, u32::MAX, 1, 32]), 68, "a frame of 4294967295"),
        (pcapng(&[6, 32, 1, 0, 0, 0, 0, 32]), 56, "undeclared interface 1; the section has"),
        (pcapng(&[6, 32, 0, 0, 0, 0, 0, 28]), 76, "starts with length 32 ends with 28"),
        (pcapng(&[99, 16, 0, 20]), 60, "starts with length 16 ends with 20"),
        (pcapng(&[1, 16, 1, 16]), 48, "an interface description that is too short"),
        (pcapng(&[0x0a0d_0d0a, 28, 7, 1, 0, 0, 28]), 56, "byte-order magic 0x00000007"),
        (pcapng(&[0x0a0d_0d0a, 16, 0x1a2b_3c4d, 16]), 48, "a section header that is too short"),
        (pcapng(&[1, 32, 1, 0, 1 << 16 | 9, 20, 0, 32]), 48, "time resolution 0x14"),
        (pcapng(&[1, 32, 1, 0, 1 << 16 | 9, 0xc0, 0, 32]), 48, "time resolution 0xc0"),
    ];
    for (parts, offset, expected) in cases {
        let (frames, outcome) = read_all(&parts.concat());
        let error = outcome.unwrap_err();
        assert!(frames.is_empty());
        assert_eq!(error.kind(), IoErrorKind::Malformed, "{error}");
        assert_eq!(error.offset(), Some(offset), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn claims_allocate_nothing() {
    // A block that claims 4 GB and is skipped, and a reader that asks for more than there is.
    let section = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
    let bytes = [words(&section), words(&[99, u32::MAX - 3, 0])].concat();
    let error = read_all(&bytes).1.unwrap_err();
    assert_eq!(error.kind(), IoErrorKind::Truncated);
    assert!(error.to_string().contains("12 of 4294967292 bytes present"), "{error}");

    let mut source = Source::new("test", std::io::repeat(0)).unwrap();
    let mut left = 1 << 30;
    source.skip(&mut left).unwrap();
    assert_eq!(left, 0);
    assert!(source.window().len() <= 256 << 10);
    assert_eq!(source.offset(), 1 << 30);
}

#[test]
fn other_files_are_named_as_such() {
    let cases: [(&[u8], IoErrorKind, &str); 5] = [
        (b"", IoErrorKind::Truncated, "the file is empty"),
        (b"\xd4\xc3", IoErrorKind::Truncated, "2 of 4 bytes present"),
        (b"GET / HTTP/1.1", IoErrorKind::NotACapture, "starts with 47 45 54 20"),
        (b"\x28\xb5\x2f\xfd\x00", IoErrorKind::NotACapture, "starts with 28 b5 2f fd"),
        (b"\xa1\xb2\xcd\x34", IoErrorKind::Unsupported, "big-endian"),
    ];
    for (bytes, kind, expected) in cases {
        let error = read_all(bytes).1.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn what_a_format_cannot_hold_is_refused_and_nothing_of_it_written() {
    for (format, gzip) in FORMATS {
        let mut bytes = Vec::new();
        let mut writer = CaptureWriter::from_write(&mut bytes, format, gzip).unwrap();
        writer.write_frame(5, &[1, 2, 3]).unwrap();
        let error = writer.write_frame(5, &vec![0; FRAME_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(error.kind(), IoErrorKind::Unwritable);
        if format == CaptureFormat::Pcap {
            let error = writer.write_frame(u64::MAX, &[4]).unwrap_err();
            assert_eq!(error.kind(), IoErrorKind::Unwritable);
            assert!(error.to_string().contains("use pcapng"), "{error}");
        }
        writer.write_frame(6, &vec![9; FRAME_BYTES_MAX]).unwrap();
        writer.finish().unwrap();
        let (frames, outcome) = read_all(&bytes);
        outcome.unwrap();
        assert_eq!(frames.iter().map(|f| f.data.len()).collect::<Vec<_>>(), [3, FRAME_BYTES_MAX]);
    }
}

#[test]
fn the_same_frames_give_the_same_bytes() {
    for (format, gzip) in FORMATS {
        assert_eq!(write_all(&samples(), format, gzip), write_all(&samples(), format, gzip));
    }
}

/// Time, captured bytes and original length of every frame, as pcap-parser's own reader has them.
fn read_by_another_reader(bytes: &[u8]) -> Vec<(u64, Vec<u8>, usize)> {
    let mut reader = create_reader(1 << 20, std::io::Cursor::new(bytes)).unwrap();
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((consumed, block)) => {
                match block {
                    PcapBlockOwned::Legacy(b) => {
                        let ns = u64::from(b.ts_sec) * 1_000_000_000 + u64::from(b.ts_usec);
                        frames.push((ns, b.data.to_vec(), b.origlen as usize));
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(b)) => {
                        let ns = u64::from(b.ts_high) << 32 | u64::from(b.ts_low);
                        frames.push((ns, b.packet_data().to_vec(), b.origlen as usize));
                    }
                    _ => {}
                }
                reader.consume(consumed);
            }
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(PcapError::Eof) => return frames,
            Err(error) => panic!("{error}"),
        }
    }
}

fn frames() -> impl Strategy<Value = Vec<Written>> {
    let frame = (
        0..4_000_000_000_000_000_000u64,
        prop::collection::vec(any::<u8>(), 0..300),
        0usize..2_000,
    );
    prop::collection::vec(frame, 0..20)
}

proptest! {
    #[test]
    fn what_was_written_is_read_back(frames in frames(), which in 0usize..4) {
        let (format, gzip) = FORMATS[which];
        let (found, outcome) = read_all(&write_all(&frames, format, gzip));
        prop_assert!(outcome.is_ok());
        prop_assert_eq!(found, expected(&frames));
    }

    #[test]
    fn another_reader_reads_the_same(frames in frames(), is_ng in any::<bool>()) {
        let format = if is_ng { CaptureFormat::PcapNg } else { CaptureFormat::Pcap };
        let found = read_by_another_reader(&write_all(&frames, format, false));
        let whole = |(ns, data, cut): &Written| (*ns, data.clone(), data.len() + cut);
        prop_assert_eq!(found, frames.iter().map(whole).collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = read_all(&bytes);
    }

    #[test]
    fn damaged_captures_are_survived(
        frames in frames(),
        which in 0usize..4,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (format, gzip) = FORMATS[which];
        let mut bytes = write_all(&frames, format, gzip);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (found, _) = read_all(&bytes);
        prop_assert!(found.iter().all(|frame| frame.data.len() <= FRAME_BYTES_MAX));
    }

    #[test]
    fn blocks_of_any_words_are_survived(
        blocks in prop::collection::vec(
            (0u32..8, prop::collection::vec(prop_oneof![0u32..64, any::<u32>()], 0..12)),
            0..8,
        ),
        is_big_endian in any::<bool>(),
    ) {
        let mut all = vec![0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
        all.extend([1, 20, 1, 0, 20]);
        for (kind, body) in blocks {
            let bytes = body.len() as u32 * 4 + 12;
            all.extend([kind, bytes].into_iter().chain(body).chain([bytes]));
        }
        let bytes: Vec<u8> = all.iter().flat_map(|word| match is_big_endian {
            true => word.to_be_bytes(),
            false => word.to_le_bytes(),
        }).collect();
        let _ = read_all(&bytes);
    }
}
