//! Tests of reading and writing together.

mod bursts;
mod bytes;
mod files;
mod variants;

use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpswitch_wire::link::LinkType;

use crate::{CaptureFormat, CaptureReader, CaptureWriter, IoError};

/// A frame that was read, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Read {
    data: Vec<u8>,
    timestamp_ns: u64,
    original_bytes: usize,
    link_type: LinkType,
}

/// A frame to write: time, bytes, bytes that were cut off.
type Written = (u64, Vec<u8>, usize);

const FORMATS: [(CaptureFormat, bool); 4] = [
    (CaptureFormat::Pcap, false),
    (CaptureFormat::PcapNg, false),
    (CaptureFormat::Pcap, true),
    (CaptureFormat::PcapNg, true),
];

/// All frames, and how reading ended.
fn read_all(bytes: &[u8]) -> (Vec<Read>, Result<(), IoError>) {
    match CaptureReader::from_read("test", Cursor::new(bytes.to_vec())) {
        Ok(reader) => read_on(reader),
        Err(error) => (Vec::new(), Err(error)),
    }
}

/// Has nothing before it has a few bytes, from when it is told to.
struct Hesitant {
    bytes: Cursor<Vec<u8>>,
    hesitates: Arc<AtomicBool>,
    is_ready: bool,
}

impl io::Read for Hesitant {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.is_ready = !self.is_ready;
        if self.hesitates.load(Ordering::Relaxed) && !self.is_ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let few = if self.bytes.position() < 2_000 { 7 } else { 4_099 };
        let len = out.len().min(few);
        self.bytes.read(&mut out[..len])
    }
}

/// The same of an input that has nothing now and then once it was opened.
fn read_hesitantly(bytes: &[u8]) -> (Vec<Read>, Result<(), IoError>) {
    let hesitates = Arc::new(AtomicBool::new(false));
    let input = Hesitant {
        bytes: Cursor::new(bytes.to_vec()),
        hesitates: hesitates.clone(),
        is_ready: false,
    };
    let reader = CaptureReader::from_read("hesitant", input).unwrap();
    hesitates.store(true, Ordering::Relaxed);
    read_on(reader)
}

fn read_on(mut reader: CaptureReader) -> (Vec<Read>, Result<(), IoError>) {
    let mut frames = Vec::new();
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => frames.push(Read {
                data: frame.data.to_vec(),
                timestamp_ns: frame.timestamp_ns,
                original_bytes: frame.original_bytes,
                link_type: frame.link_type,
            }),
            Ok(None) => return (frames, Ok(())),
            Err(error) if error.is_later() => {}
            Err(error) => {
                assert_eq!(reader.next_frame().unwrap(), None, "an error is the end");
                return (frames, Err(error));
            }
        }
    }
}

fn write_all(frames: &[Written], format: CaptureFormat, gzip: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = CaptureWriter::from_write(&mut bytes, format, gzip).unwrap();
    for (timestamp_ns, data, cut) in frames {
        writer.write_cut_frame(*timestamp_ns, data, data.len() + cut).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

fn expected(frames: &[Written]) -> Vec<Read> {
    let read = |(timestamp_ns, data, cut): &Written| Read {
        data: data.clone(),
        timestamp_ns: *timestamp_ns,
        original_bytes: data.len() + cut,
        link_type: LinkType::Ethernet,
    };
    frames.iter().map(read).collect()
}

/// Frames of several lengths, none a whole number of words, empty, and larger than one read.
fn samples() -> Vec<Written> {
    let lengths = [60, 0, 61, 1514, 2, 63];
    let sample = |(idx, &length): (usize, &usize)| {
        let data = (0..length).map(|at| (at * 7 + idx) as u8).collect();
        (1_700_000_000_123_456_789 + idx as u64, data, idx % 3)
    };
    lengths.iter().enumerate().map(sample).collect()
}
