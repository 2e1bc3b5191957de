//! Captures that may still be written: what there is now is not kept waiting for more.

use std::path::Path;
use std::thread;
use std::time::Duration;

use warpswitch_io::CaptureReader;

use crate::exit::bad_input;
use crate::load;

/// Between two looks at a pipe that has nothing.
const LOOK: Duration = Duration::from_millis(10);

/// What is written waits so long at most while there is always more to read.
pub const FLUSH: Duration = Duration::from_secs(1);

/// Opens a capture, `-` is the standard input: a look at it does not wait for who writes to a pipe.
///
/// # Errors
/// Bad input if it cannot be read or is no capture.
pub fn open(path: &Path) -> anyhow::Result<CaptureReader> {
    let reader = CaptureReader::open_as(&load::display_name(path), path);
    let mut reader = reader.map_err(bad_input)?;
    reader.never_wait();
    Ok(reader)
}

/// Lets some time go by before the next look at a pipe that had nothing.
pub fn wait() {
    thread::sleep(LOOK);
}

/// Whether a capture comes as a stream, which may never end: the standard input, or a pipe.
pub fn is_stream(path: &Path) -> bool {
    crate::output::is_dash(path) || path.metadata().is_ok_and(|metadata| !metadata.is_file())
}
