//! Size mixes of frames. Sizes do not count the 4-byte check sequence, which captures do not hold.

use std::fmt;
use std::str::FromStr;

use super::frame::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use super::prng::Prng;

/// Sizes of IMIX frames and how many of twelve have each: packets of 46, 576 and 1500 bytes behind
/// Ethernet headers.
const IMIX: [(usize, u64); 3] = [(60, 7), (590, 4), (1514, 1)];

/// How large frames are, in bytes without check sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameSizes {
    /// All the same.
    Fixed(usize),
    /// The simple Internet mix: of twelve frames seven of 60 bytes, four of 590, one of 1514.
    Imix,
    /// Uniform between the two, both included.
    Uniform(usize, usize),
}

/// Text that names no size mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSizes(String);

impl fmt::Display for BadSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid frame size '{}'; expected BYTES, MIN-MAX or imix, with {FRAME_BYTES_MIN} to \
             {FRAME_BYTES_MAX} bytes without frame check sequence",
            self.0
        )
    }
}

impl std::error::Error for BadSizes {}

impl FrameSizes {
    /// Draws a size.
    pub fn draw(&self, prng: &mut Prng) -> usize {
        match *self {
            FrameSizes::Fixed(bytes) => bytes,
            FrameSizes::Uniform(min, max) => {
                let span = max.saturating_sub(min) as u64 + 1;
                min + prng.below(span) as usize
            }
            FrameSizes::Imix => {
                let mut at = prng.below(IMIX.iter().map(|size| size.1).sum());
                let found = IMIX.iter().find(|(_, share)| {
                    let is_here = at < *share;
                    at = at.wrapping_sub(*share);
                    is_here
                });
                found.map_or(FRAME_BYTES_MIN, |size| size.0)
            }
        }
    }
}

impl fmt::Display for FrameSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameSizes::Fixed(bytes) => write!(f, "{bytes}"),
            FrameSizes::Uniform(min, max) => write!(f, "{min}-{max}"),
            FrameSizes::Imix => f.write_str("imix"),
        }
    }
}

impl FromStr for FrameSizes {
    type Err = BadSizes;

    /// Reads `imix`, a size, or `MIN-MAX`.
    fn from_str(text: &str) -> Result<Self, BadSizes> {
        let bad = || BadSizes(text.to_owned());
        let size = |text: &str| {
            let bytes: usize = text.parse().map_err(|_| bad())?;
            let is_allowed = (FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&bytes);
            if is_allowed { Ok(bytes) } else { Err(bad()) }
        };
        match text.split_once('-') {
            _ if text == "imix" => Ok(FrameSizes::Imix),
            Some((min, max)) => {
                let (min, max) = (size(min)?, size(max)?);
                if min <= max { Ok(FrameSizes::Uniform(min, max)) } else { Err(bad()) }
            }
            None => Ok(FrameSizes::Fixed(size(text)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_hold_their_shares() {
        let mut prng = Prng::new(5);
        let mut counts = [0u32; 3];
        for _ in 0..12_000 {
            let bytes = FrameSizes::Imix.draw(&mut prng);
            let idx = IMIX.iter().position(|size| size.0 == bytes);
            counts[idx.unwrap()] += 1;
        }
        for (count, (_, share)) in counts.iter().zip(IMIX) {
            assert!(u64::from(*count).abs_diff(share * 1000) < 250, "{counts:?}");
        }
        let drawn: Vec<_> =
            (0..1000).map(|_| FrameSizes::Uniform(60, 64).draw(&mut prng)).collect();
        assert!((60..=64).all(|bytes| drawn.contains(&bytes)));
        assert!(drawn.iter().all(|bytes| (60..=64).contains(bytes)));
        assert_eq!(FrameSizes::Fixed(99).draw(&mut prng), 99);
    }

    #[test]
    fn names_are_read_back_and_others_refused() {
        for sizes in [FrameSizes::Imix, FrameSizes::Fixed(60), FrameSizes::Uniform(60, 9018)] {
            assert_eq!(sizes.to_string().parse(), Ok(sizes));
        }
        for text in ["", "59", "9019", "64-", "-64", "100-99", "IMIX", "64-128-256", "1e3"] {
            assert!(text.parse::<FrameSizes>().is_err(), "{text}");
        }
    }
}
