//! Ports of a switch that read a capture and write what is sent to another:
//! `pcap:IN.pcap[:OUT.pcap]`.
//!
//! Frames of all captures enter the switch one by one in the order of their time stamps, at a tie
//! in the order of the ports. A frame that leaves has the time stamp of the last one that entered.
//! So the same captures and flows give the same bytes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpswitch_graph::FileId;
use warpswitch_io::{CaptureFormat, CaptureReader, CaptureWriter, IoError};
use warpswitch_packet::{Batch, Packet, Pool, RxCounts, RxPort, Transmitted, TxPort};
use warpswitch_wire::link::LinkType;

use crate::error::{Error, ErrorKind};

/// What the names of such ports start with.
const PREFIX: &str = "pcap:";

/// The capture ports of one switch.
#[derive(Debug, Default)]
pub(crate) struct CapturePorts(Arc<Mutex<Timeline>>);

/// What the ports share.
#[derive(Debug, Default)]
struct Timeline {
    /// The time of the next frame of each port that has one.
    next: HashMap<usize, u64>,
    /// How many ports there are.
    ports_len: usize,
    /// The time of the last frame that entered.
    last: u64,
    /// Whether a frame entered since the first port was looked at. Frames leave before it is
    /// looked at again, so each has the time of the one that caused it.
    is_taken: bool,
    writers: Vec<Option<CaptureWriter<'static>>>,
    /// The first error while reading or writing.
    error: Option<String>,
}

/// A frame that was read ahead.
#[derive(Debug)]
struct NextFrame {
    timestamp_ns: u64,
    bytes: Vec<u8>,
}

/// The side that reads.
pub(crate) struct CaptureRx {
    timeline: Arc<Mutex<Timeline>>,
    port: usize,
    name: String,
    /// The path of the capture.
    input: String,
    reader: CaptureReader,
    next: Option<NextFrame>,
    counts: RxCounts,
}

/// The side that writes.
pub(crate) struct CaptureTx {
    timeline: Arc<Mutex<Timeline>>,
    port: usize,
}

/// Whether a port of this name is one of these.
pub(crate) fn is_capture_port(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The captures that a port reads and writes.
fn captures_of(name: &str) -> Option<(&str, Option<&str>)> {
    let paths = name.strip_prefix(PREFIX)?;
    Some(match paths.split_once(':') {
        Some((input, output)) => (input, Some(output)),
        None => (paths, None),
    })
}

/// Checks that each port names its captures, and that none writes one that another one writes, or
/// that is read.
///
/// # Errors
/// [`ErrorKind::Configuration`].
pub(crate) fn check_captures(ports: &[String]) -> Result<(), Error> {
    let captures = || ports.iter().filter_map(|port| captures_of(port));
    if captures().any(|(input, output)| input.is_empty() || output == Some("")) {
        let message = "empty name of a capture; expected pcap:IN.pcap[:OUT.pcap]";
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    let mut written = Vec::new();
    for output in captures().filter_map(|(_, output)| output) {
        let Some(file) = FileId::of(output) else { continue };
        let is_read = captures().any(|(input, _)| FileId::of(input).as_ref() == Some(&file));
        if is_read || written.contains(&file) {
            let why = if is_read { "which a port reads" } else { "which another port writes" };
            let message = format!("would overwrite {output}, {why}: use a separate file");
            return Err(Error::new(ErrorKind::Configuration, message));
        }
        written.push(file);
    }
    Ok(())
}

fn lock(timeline: &Mutex<Timeline>) -> MutexGuard<'_, Timeline> {
    timeline.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CapturePorts {
    /// Opens a port.
    ///
    /// # Errors
    /// A capture that cannot be read or written.
    pub(crate) fn open(&self, name: &str) -> Result<(CaptureRx, CaptureTx), Error> {
        let (input, output) = captures_of(name).unwrap_or((name, None));
        let cannot = |kind| {
            move |why: IoError| Error::caused(kind, format!("cannot open port '{name}'"), why)
        };
        let reader = CaptureReader::open(input).map_err(cannot(ErrorKind::Configuration))?;
        let create = |path: &str| CaptureWriter::create(path, format_of(path), is_gzip(path));
        let writer = output.map(create).transpose().map_err(cannot(ErrorKind::System))?;
        let mut timeline = lock(&self.0);
        let port = timeline.ports_len;
        timeline.ports_len += 1;
        timeline.writers.push(writer);
        drop(timeline);
        let mut rx = CaptureRx {
            timeline: self.0.clone(),
            port,
            name: name.to_owned(),
            input: input.to_owned(),
            reader,
            next: None,
            counts: RxCounts::default(),
        };
        rx.read_ahead();
        Ok((rx, CaptureTx { timeline: self.0.clone(), port }))
    }

    /// How many ports there are.
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).ports_len
    }

    /// Whether all frames have entered.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.0).next.is_empty()
    }

    /// Ends the captures that are written.
    ///
    /// # Errors
    /// The first error while a capture was read or written.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let mut timeline = lock(&self.0);
        for writer in std::mem::take(&mut timeline.writers).into_iter().flatten() {
            if let Err(error) = writer.finish() {
                timeline.error.get_or_insert(error.to_string());
            }
        }
        match timeline.error.take() {
            Some(why) => Err(Error::new(ErrorKind::System, why)),
            None => Ok(()),
        }
    }
}

fn is_gzip(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "gz")
}

fn format_of(path: &str) -> CaptureFormat {
    let path = path.strip_suffix(".gz").unwrap_or(path);
    match Path::new(path).extension().is_some_and(|extension| extension == "pcapng") {
        true => CaptureFormat::PcapNg,
        false => CaptureFormat::Pcap,
    }
}

impl CaptureRx {
    /// Reads the next Ethernet frame; frames of other links are counted, and an error at the end.
    fn read_ahead(&mut self) {
        let mut timeline = lock(&self.timeline);
        self.next = loop {
            match self.reader.next_frame() {
                Ok(Some(frame)) if frame.link_type == LinkType::Ethernet => {
                    let bytes = frame.data.to_vec();
                    break Some(NextFrame { timestamp_ns: frame.timestamp_ns, bytes });
                }
                Ok(Some(frame)) => {
                    self.counts.unusable += 1;
                    timeline.error.get_or_insert_with(|| {
                        let (input, link) = (&self.input, frame.link_type);
                        format!("{input}: skipped frames that are {link}; expected Ethernet")
                    });
                }
                Ok(None) => break None,
                Err(error) => {
                    timeline.error.get_or_insert(error.to_string());
                    break None;
                }
            }
        };
        match &self.next {
            Some(next) => timeline.next.insert(self.port, next.timestamp_ns),
            None => timeline.next.remove(&self.port),
        };
    }

    /// Whether its next frame is the next one of all ports.
    fn is_first(&self, timestamp_ns: u64) -> bool {
        let timeline = lock(&self.timeline);
        if timeline.is_taken {
            return false;
        }
        let first = timeline.next.iter().map(|(&port, &time)| (time, port)).min();
        first == Some((timestamp_ns, self.port))
    }
}

impl RxPort for CaptureRx {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        if self.port == 0 {
            lock(&self.timeline).is_taken = false;
        }
        let Some(next) = self.next.take_if(|_| frames_max > 0) else { return 0 };
        if !self.is_first(next.timestamp_ns) {
            self.next = Some(next);
            return 0;
        }
        let mut timeline = lock(&self.timeline);
        (timeline.last, timeline.is_taken) = (next.timestamp_ns, true);
        drop(timeline);
        batch.push(pool.packet_of(&next.bytes));
        self.read_ahead();
        1
    }

    fn device(&self) -> String {
        self.name.clone()
    }

    fn counts(&mut self) -> RxCounts {
        self.counts
    }
}

impl TxPort for CaptureTx {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let mut timeline = lock(&self.timeline);
        let Timeline { writers, last, error, .. } = &mut *timeline;
        let Some(Some(writer)) = writers.get_mut(self.port) else {
            return Transmitted::Frames(packets.len());
        };
        for packet in packets {
            if let Err(why) = writer.write_frame(*last, packet.data()) {
                error.get_or_insert(why.to_string());
                return Transmitted::Refused;
            }
        }
        Transmitted::Frames(packets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of frames of 60 bytes, whose first byte numbers them, at these times.
    fn capture(path: &Path, frames: &[(u64, u8)]) {
        let mut writer = CaptureWriter::create(path, CaptureFormat::Pcap, false).unwrap();
        for &(time, number) in frames {
            writer.write_frame(time, &[number; 60]).unwrap();
        }
        writer.finish().unwrap();
    }

    #[test]
    fn frames_enter_in_the_order_of_their_time_and_leave_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        capture(&path("a"), &[(1, 1), (4, 4)]);
        capture(&path("b"), &[(2, 2), (3, 3), (4, 5)]);
        let ports = CapturePorts::default();
        let name = |name: &str| format!("pcap:{0}:{0}.out", path(name).display());
        let mut open: Vec<_> = ["a", "b"].map(|port| ports.open(&name(port)).unwrap()).into();
        let (mut pool, mut batch) = (Pool::new(), Batch::new());
        let mut order = Vec::new();
        while !ports.is_over() {
            for (rx, tx) in &mut open {
                if rx.receive(&mut pool, &mut batch, 64) > 0 {
                    let packet = batch.drain().next().unwrap();
                    order.push(packet.data()[0]);
                    assert_eq!(tx.send(std::slice::from_ref(&packet)), Transmitted::Frames(1));
                    pool.recycle(packet);
                }
            }
        }
        assert_eq!(order, [1, 2, 3, 4, 5]);
        ports.finish().unwrap();
        let mut written = CaptureReader::open(path("b.out")).unwrap();
        let mut times = Vec::new();
        while let Some(frame) = written.next_frame().unwrap() {
            times.push(frame.timestamp_ns);
        }
        assert_eq!(times, [2, 3, 4]);
    }

    #[test]
    fn frames_of_other_links_are_skipped_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cooked");
        capture(&path, &[(1, 1), (2, 2)]);
        let mut bytes = std::fs::read(&path).unwrap();
        // The link type in the header of the file: Linux cooked.
        bytes[20] = 113;
        std::fs::write(&path, &bytes).unwrap();
        let ports = CapturePorts::default();
        let (mut rx, _) = ports.open(&format!("pcap:{}", path.display())).unwrap();
        assert!(ports.is_over());
        assert_eq!(rx.counts().unusable, 2);
        let error = ports.finish().unwrap_err().to_string();
        assert!(error.contains("are Linux cooked; expected Ethernet"), "{error}");
    }

    #[test]
    fn captures_need_names() {
        let check = |port: &str| check_captures(&["mem:a".to_owned(), port.to_owned()]);
        assert!(check("pcap:a").is_ok() && check("mem:").is_ok());
        for port in ["pcap:", "pcap:a:", "pcap::b"] {
            assert!(check(port).unwrap_err().is_input(), "{port}");
        }
    }

    #[test]
    fn captures_that_cannot_be_read_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let ports = CapturePorts::default();
        assert!(ports.open("pcap:/nowhere").is_err());
        let path = folder.path().join("cut");
        capture(&path, &[(1, 1), (2, 2)]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let (mut rx, _) = ports.open(&format!("pcap:{}", path.display())).unwrap();
        assert_eq!(rx.receive(&mut Pool::new(), &mut Batch::new(), 64), 1);
        assert!(ports.is_over());
        assert!(ports.finish().is_err());
    }
}
