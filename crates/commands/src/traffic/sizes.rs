//! Frame sizes as RFC 2544 counts them: with the frame check sequence.

use std::fmt;
use std::str::FromStr;

use super::rate::{FCS_BYTES, wire_bytes};

/// Sizes that RFC 2544, 9.1 allows on Ethernet.
const FRAME_BYTES: std::ops::RangeInclusive<usize> = 64..=1518;
/// The simple Internet mix: of twelve frames seven of 64 bytes, four of 594, one of 1518; large
/// frames spread evenly.
const IMIX: [usize; 12] = [64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64];

/// One size, or a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSize {
    /// All frames are alike.
    Fixed(usize),
    /// See [`IMIX`].
    Imix,
}

impl FrameSize {
    /// The sizes of consecutive frames, repeated, without frame check sequence.
    pub fn cycle(self) -> Vec<usize> {
        match self {
            Self::Fixed(bytes) => vec![bytes - FCS_BYTES],
            Self::Imix => IMIX.map(|bytes| bytes - FCS_BYTES).to_vec(),
        }
    }

    /// What the frames are called, for people.
    pub fn frames(self) -> String {
        match self {
            Self::Fixed(bytes) => format!("{bytes} bytes"),
            Self::Imix => "IMIX frames".to_owned(),
        }
    }
}

/// Mean bytes on the wire of a frame.
pub fn mean_wire_bytes(size: FrameSize) -> f64 {
    let cycle = size.cycle();
    let sum: u64 = cycle.iter().map(|&bytes| wire_bytes(bytes)).sum();
    sum as f64 / cycle.len() as f64
}

impl FromStr for FrameSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Self::Imix);
        }
        match text.parse() {
            Ok(bytes) if FRAME_BYTES.contains(&bytes) => Ok(Self::Fixed(bytes)),
            _ => Err(format!(
                "invalid frame size '{text}'; expected {} to {} bytes, which include the frame \
                 check sequence, or IMIX",
                FRAME_BYTES.start(),
                FRAME_BYTES.end()
            )),
        }
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bytes) => bytes.fmt(f),
            Self::Imix => f.write_str("IMIX"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imix_has_7_4_and_1_of_twelve() {
        let cycle = FrameSize::Imix.cycle();
        let count = |bytes| cycle.iter().filter(|&&size| size == bytes).count();
        assert_eq!((cycle.len(), count(60), count(590), count(1514)), (12, 7, 4, 1));
    }

    #[test]
    fn rejects_sizes_that_ethernet_does_not_have() {
        assert_eq!("64".parse(), Ok(FrameSize::Fixed(64)));
        assert_eq!("imix".parse(), Ok(FrameSize::Imix));
        for text in ["63", "1519", "", "x", "-64"] {
            assert!(text.parse::<FrameSize>().is_err(), "{text}");
        }
    }
}
