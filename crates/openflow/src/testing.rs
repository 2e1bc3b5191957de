//! Helpers of this crate's tests.

/// Bytes of hexadecimal digits; spaces are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().filter_map(|byte| char::from(byte).to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
