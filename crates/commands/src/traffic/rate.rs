//! Rates: packets per second, or bits per second on the wire.

use std::fmt;
use std::str::FromStr;

use crate::human;

/// Bytes of the frame check sequence, which interfaces add.
pub const FCS_BYTES: usize = 4;
/// Bytes between frames on the wire: preamble, start delimiter, gap.
const GAP_BYTES: usize = 20;

/// Bytes of link time that a frame takes; `frame_bytes` excludes the frame check sequence.
pub fn wire_bytes(frame_bytes: usize) -> u64 {
    (frame_bytes + FCS_BYTES + GAP_BYTES) as u64
}

/// Offered load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Packets per second.
    Packets(u64),
    /// Bits per second on the wire, see [`wire_bytes`].
    Bits(u64),
    /// As fast as the sender can.
    Max,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("invalid rate '{text}'; expected 100k, 1.5Mbit or max");
        if text == "max" {
            return Ok(Self::Max);
        }
        let (number, is_bits) = match text.strip_suffix("bit") {
            Some(number) => (number, true),
            None => (text.strip_suffix("pps").unwrap_or(text), false),
        };
        let (digits, scale) = match number.char_indices().last() {
            Some((at, 'k' | 'K')) => (&number[..at], 1e3),
            Some((at, 'M')) => (&number[..at], 1e6),
            Some((at, 'G')) => (&number[..at], 1e9),
            _ => (number, 1.0),
        };
        // `f64` also reads signs, exponents and "inf".
        if !digits.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(invalid());
        }
        let value = digits.parse::<f64>().map_err(|_| invalid())? * scale;
        if !(1.0..=1e13).contains(&value) {
            return Err(format!("rate '{text}' is out of range; expected 1 to 10,000G"));
        }
        let value = value.round() as u64;
        Ok(if is_bits { Self::Bits(value) } else { Self::Packets(value) })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Packets(rate) => f.write_str(&human::rate(rate as f64)),
            Self::Bits(rate) => f.write_str(&human::bit_rate(rate as f64)),
            Self::Max => f.write_str("max"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_packets_bits_and_max() {
        for (text, expected) in [
            ("1", Rate::Packets(1)),
            ("100k", Rate::Packets(100_000)),
            ("1.488Mpps", Rate::Packets(1_488_000)),
            ("1Mbit", Rate::Bits(1_000_000)),
            ("2.5Gbit", Rate::Bits(2_500_000_000)),
            ("max", Rate::Max),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "k", "0", "-1", "1e9", "inf", "1Tbit", "bit", "99999G", "1 k"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn smallest_frame_takes_84_bytes_of_the_wire() {
        assert_eq!(wire_bytes(60), 84);
        assert_eq!(wire_bytes(1514), 1538);
    }
}
