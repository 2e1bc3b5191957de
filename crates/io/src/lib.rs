//! Captures and ports: pcap and pcapng files, read and written frame by frame; interfaces of the
//! kernel, which receive and send bursts ([`PortTable`]).
//!
//! [`CaptureReader`] tells formats apart by content: pcap in both byte orders with micro- or
//! nanoseconds, pcapng with any number of sections and interfaces, either of them gzip'd. Captures
//! may be larger than memory. [`CaptureWriter`] writes them whole or not at all.
//!
//! # Invariants
//! - C1: any bytes are a capture or an [`IoError`] that names the place; nothing panics, and memory
//!   is bounded by [`FRAME_BYTES_MAX`] and a block's options, not by what the bytes claim.
//! - C2: of a capture that ends early, every whole frame is delivered before
//!   [`IoErrorKind::Truncated`].
//! - C3: what was written is read back as it was.
//! - C4: a reader that is told never to wait fails where it would, and then goes on as if it had
//!   waited.
#![deny(unsafe_code)]

mod error;
mod folder;
mod input;
mod pcap;
mod pcapng;
mod ports;
mod reader;
mod source;
#[expect(unsafe_code, reason = "system calls, and memory shared with the kernel")]
mod sys;
mod tunnel;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{IoError, IoErrorKind, capability_fix};
pub use folder::name_folder;
pub use ports::{
    MEMORY_PREFIX, MemoryPort, PEER_SUFFIX, PortTable, TAP_PREFIX, ethernet_address, has_interface,
};
pub use reader::{BurstEnd, CaptureReader, FRAME_BYTES_MAX, Frame};
pub use source::Unpacked;
pub use tunnel::{
    OuterFields, OuterOptions, OuterProtocol, TunnelDatagram, TunnelReceiver, TunnelSender,
};
pub use writer::{CaptureFormat, CaptureOptions, CaptureWriter, UnknownFormat};
