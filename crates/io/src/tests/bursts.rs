//! Bursts of frames: the same frames as one by one, and why a burst ends.

use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{FORMATS, Hesitant, samples, write_all};
use crate::{BurstEnd, CaptureFormat, CaptureReader, IoErrorKind};

#[test]
fn bursts_bring_all_frames_in_order() {
    let samples = samples();
    for (format, gzip) in FORMATS {
        let bytes = write_all(&samples, format, gzip);
        for frames_max in 1..=samples.len() + 1 {
            let mut reader = CaptureReader::from_read("test", Cursor::new(bytes.clone())).unwrap();
            let mut read = Vec::new();
            loop {
                let before = read.len();
                let end = reader.read_burst(frames_max, |frame| {
                    read.push((frame.timestamp_ns, frame.data.to_vec()));
                    true
                });
                match end.unwrap() {
                    BurstEnd::Full => assert_eq!(read.len() - before, frames_max),
                    other => {
                        assert_eq!(other, BurstEnd::End);
                        break;
                    }
                }
            }
            let expected: Vec<_> =
                samples.iter().map(|(time, data, _)| (*time, data.clone())).collect();
            assert_eq!(read, expected, "bursts of {frames_max}");
        }
    }
}

#[test]
fn a_burst_ends_where_its_reader_wants_no_more() {
    let bytes = write_all(&samples(), CaptureFormat::Pcap, false);
    let mut reader = CaptureReader::from_read("test", Cursor::new(bytes)).unwrap();
    let mut lengths = Vec::new();
    let end = reader.read_burst(99, |frame| {
        lengths.push(frame.data.len());
        !frame.data.is_empty()
    });
    assert_eq!((end.unwrap(), lengths), (BurstEnd::Full, vec![60, 0]));
    // Behind the file header: a frame header and 60 bytes, then another frame header.
    assert_eq!((reader.frame_position(), reader.position()), (24 + 76, 24 + 76 + 16));
}

#[test]
fn a_burst_ends_where_there_is_nothing_yet() {
    let bytes = write_all(&samples(), CaptureFormat::Pcap, false);
    let hesitates = Arc::new(AtomicBool::new(false));
    let input =
        Hesitant { bytes: Cursor::new(bytes), hesitates: hesitates.clone(), is_ready: false };
    let mut reader = CaptureReader::from_read("hesitant", input).unwrap();
    hesitates.store(true, Ordering::Relaxed);
    let (mut frames, mut pauses) = (0, 0);
    while let BurstEnd::Later | BurstEnd::Full = reader
        .read_burst(99, |_| {
            frames += 1;
            true
        })
        .unwrap()
    {
        pauses += 1;
    }
    assert_eq!(frames, samples().len());
    assert!(pauses > 1, "{pauses} pauses");
}

#[test]
fn whole_frames_come_before_the_error() {
    let bytes = write_all(&samples(), CaptureFormat::Pcap, false);
    let cut = bytes[..bytes.len() - 1].to_vec();
    let mut reader = CaptureReader::from_read("test", Cursor::new(cut)).unwrap();
    let mut frames = 0;
    let error = reader.read_burst(99, |_| {
        frames += 1;
        true
    });
    assert_eq!(error.unwrap_err().kind(), IoErrorKind::Truncated);
    assert_eq!(frames, samples().len() - 1);
    assert_eq!(reader.read_burst(99, |_| true).unwrap(), BurstEnd::End);
}
