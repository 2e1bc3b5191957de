//! Code shared by captures and devices: names, open errors, packets from frames, the generator.

use std::error::Error;
use std::io;

use warpswitch_elements_support::files::reason;
use warpswitch_graph::Context;
use warpswitch_io::{
    CaptureFormat, CaptureOptions, FRAME_BYTES_MAX, Frame, IoError, IoErrorKind, MEMORY_PREFIX,
    PEER_SUFFIX, TAP_PREFIX,
};
use warpswitch_packet::{Header, Packet, annotation};
use warpswitch_wire::checksum::checksum;

use super::port::DEVICES;

/// Bytes of the name of an interface, with its end.
const INTERFACE_BYTES: usize = 16;

fn system(error: &IoError) -> Option<&io::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Why the capture that messages call `shown` cannot be opened.
pub(crate) fn open_error(shown: &str, error: &IoError) -> String {
    match (error.kind(), system(error)) {
        (_, Some(system)) => format!("{shown}: {}", reason(system)),
        (IoErrorKind::NotACapture, _) => format!("{shown}: not a tcpdump file (bad magic number)"),
        _ => error.to_string(),
    }
}

/// Why the capture `name` cannot be begun.
pub(crate) fn create_error(name: &str, error: &IoError) -> String {
    match system(error) {
        Some(system) => format!("{name}: {}", reason(system)),
        None => error.to_string(),
    }
}

/// How a capture of this name is written; `snap_bytes` of 0 are all.
pub(crate) fn options(name: &str, link_type: u32, snap_bytes: u32) -> CaptureOptions {
    let (name, gzip) = match name.strip_suffix(".gz") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let is_pcapng = name.ends_with(".pcapng");
    let format = if is_pcapng { CaptureFormat::PcapNg } else { CaptureFormat::Pcap };
    let snap_bytes = if snap_bytes == 0 { FRAME_BYTES_MAX as u32 } else { snap_bytes };
    CaptureOptions { format, gzip, link_type, snap_bytes }
}

/// A packet of a frame: its time, and bytes that were not captured.
pub(crate) fn packet_of(cx: &mut Context<'_>, frame: &Frame<'_>) -> Packet {
    let mut packet = cx.pool().packet_of(frame.data);
    packet.set_timestamp_ns(i64::try_from(frame.timestamp_ns).unwrap_or(i64::MAX));
    let extra = frame.original_bytes.saturating_sub(frame.data.len()) as u32;
    packet.set_anno_u32(annotation::EXTRA_LEN, extra);
    packet.set_header(Header::Mac, 0);
    packet
}

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name<'a> {
    /// A capture file.
    Capture(&'a str),
    /// The generator: bytes of a frame, and how many there are.
    Generator(usize, u64),
    /// An interface, `tap:NAME`, `mem:NAME` or `mem:NAME:peer`.
    Port(&'a str),
}

impl<'a> Name<'a> {
    /// Reads the name of a device.
    ///
    /// # Errors
    /// Why there is no such device.
    pub(crate) fn parse(name: &'a str) -> Result<Self, String> {
        let is_file = name == "-"
            || name.contains('/')
            || [".pcap", ".pcapng", ".gz", ".cap", ".dump"].iter().any(|end| name.ends_with(end));
        if is_file {
            return Ok(Name::Capture(name));
        }
        let Some(rest) = name.strip_prefix("gen:") else {
            let of_link = name.strip_prefix(MEMORY_PREFIX);
            let of_link = of_link.map(|name| name.strip_suffix(PEER_SUFFIX).unwrap_or(name));
            let interface = of_link.or(name.strip_prefix(TAP_PREFIX)).unwrap_or(name);
            let is_name = (1..INTERFACE_BYTES).contains(&interface.len())
                && !interface.contains(|c: char| c.is_whitespace() || c == ':');
            return match is_name {
                true => Ok(Name::Port(name)),
                false => Err(format!("no device '{name}': {DEVICES}")),
            };
        };
        let (bytes, count) = rest.split_once(':').unwrap_or((rest, ""));
        let number = |text: &str, usual: u64| match text {
            "" => Some(usual),
            text => text.parse::<u64>().ok(),
        };
        let bytes = number(bytes, 64).filter(|bytes| (42..=9000).contains(bytes));
        match (bytes, number(count, u64::MAX)) {
            (Some(bytes), Some(count)) => Ok(Name::Generator(bytes as usize, count)),
            _ => Err(format!("'{name}': expected gen:[BYTES[:COUNT]] with 42 to 9000 bytes")),
        }
    }
}

impl Name<'_> {
    /// Whether the name is that of an interface of the kernel.
    pub(crate) fn is_interface(self) -> bool {
        let own = [TAP_PREFIX, MEMORY_PREFIX];
        matches!(self, Name::Port(name) if !own.iter().any(|prefix| name.starts_with(prefix)))
    }
}

/// Makes frames: UDP from 10.0.0.1 to port 1025 of 10.0.1.1 on Ethernet, from ports 1024 and up.
#[derive(Debug)]
pub(crate) struct Generator {
    frame: Vec<u8>,
    left: u64,
    made: u64,
}

impl Generator {
    /// One that makes `count` frames of `bytes` bytes.
    pub(crate) fn new(bytes: usize, count: u64) -> Self {
        let mut frame = vec![0; bytes];
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let (ip_bytes, udp_bytes) = (bytes as u16 - 14, bytes as u16 - 34);
        frame[14..34]
            .copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1]);
        frame[16..18].copy_from_slice(&ip_bytes.to_be_bytes());
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[36..40].copy_from_slice(&[4, 1, (udp_bytes >> 8) as u8, udp_bytes as u8]);
        Self { frame, left: count, made: 0 }
    }

    /// The next frame, of another flow than those before as far as ports go; none at the end.
    pub(crate) fn next(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.left = self.left.checked_sub(1)?;
        let port = 1024 + (self.made % 0xfc00) as u16;
        self.made += 1;
        self.frame[34..36].copy_from_slice(&port.to_be_bytes());
        let now = cx.now().0;
        let mut packet = cx.pool().packet_of(&self.frame);
        packet.set_timestamp_ns(now);
        packet.set_header(Header::Mac, 0);
        Some(packet)
    }
}
