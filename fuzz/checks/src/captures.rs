//! Captures: any bytes give frames, an end, or an error; never more frames than bytes.

use warpswitch_io::CaptureReader;

/// The most frames that are read: a gzip'd input can hold many.
const FRAMES_MAX: usize = 10_000;

/// Reads the bytes as a capture of any kind.
pub fn capture(data: &[u8]) {
    let Ok(mut reader) = CaptureReader::from_read("input", std::io::Cursor::new(data.to_vec()))
    else {
        return;
    };
    for _ in 0..FRAMES_MAX {
        match reader.next_frame() {
            Ok(Some(frame)) => assert!(frame.data.len() <= frame.original_bytes),
            Ok(None) => return,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
}
