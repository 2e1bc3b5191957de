//! Payloads of captures, for what is generated and measured.

use std::path::PathBuf;

use warpswitch_io::CaptureReader;
use warpswitch_wire::parse::{Transport, parse};

use crate::exit::bad_input;

/// The payloads of all TCP segments of captures, one behind the other.
///
/// # Errors
/// A capture that cannot be read; captures without payloads.
pub fn captured(paths: &[PathBuf]) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for path in paths {
        let mut reader = CaptureReader::open(path).map_err(bad_input)?;
        while let Some(frame) = reader.next_frame().map_err(bad_input)? {
            if let Ok(found) = parse(frame.link_type, frame.data, frame.original_bytes)
                && matches!(found.transport, Transport::Tcp { .. })
            {
                bytes.extend_from_slice(found.payload(frame.data));
            }
        }
    }
    if bytes.is_empty() {
        return Err(bad_input("no TCP segment of the captures has a payload"));
    }
    Ok(bytes)
}
