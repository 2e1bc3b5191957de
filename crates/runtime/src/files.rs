//! Input files: their display names, and their type from the first bytes.

use std::path::Path;

/// A NUL among this many first bytes marks a binary file.
const BINARY_PREFIX_BYTES: usize = 1024;

/// Whether a path stands for the standard streams.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The name of an input in messages.
pub fn display_name(path: &Path) -> String {
    if is_dash(path) { "<stdin>".into() } else { path.display().to_string() }
}

/// Whether a file that begins with `start` is binary.
pub fn is_binary(start: &[u8]) -> bool {
    start.iter().take(BINARY_PREFIX_BYTES).any(|&byte| byte == 0)
}

/// Whether a file that begins with `start` is compressed by gzip.
pub fn is_gzip(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b])
}

/// The capture format that the first four bytes identify; `None` for other files.
pub fn capture_kind(start: &[u8]) -> Option<&'static str> {
    let magic = u32::from_be_bytes(*start.first_chunk()?);
    match magic {
        0xa1b2_c3d4 | 0xd4c3_b2a1 | 0xa1b2_3c4d | 0x4d3c_b2a1 => Some("pcap"),
        0x0a0d_0d0a => Some("pcapng"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifies_files_by_their_first_bytes() {
        assert_eq!(capture_kind(&[0xd4, 0xc3, 0xb2, 0xa1, 2]), Some("pcap"));
        assert_eq!(capture_kind(&[0x0a, 0x0d, 0x0d, 0x0a]), Some("pcapng"));
        assert_eq!(capture_kind(b"Idl"), None);
        assert!(is_gzip(&[0x1f, 0x8b, 8]) && !is_gzip(b"Idle;"));
        assert!(is_binary(b"a\0b") && !is_binary(b"Idle;"));
    }
}
