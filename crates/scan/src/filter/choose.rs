//! Which window of a pattern the filter looks for: one that traffic seldom has.
//!
//! Traffic is not at hand when a scanner is built. What patterns share, traffic has as well
//! ("User-Agent: "), runs of one byte are common in bodies, and letters are common in text.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// How often each 4-byte string stands in the patterns.
#[derive(Clone, Debug)]
pub struct Common {
    /// With a hasher that is the same in every run.
    counts: HashMap<u32, u32, BuildHasherDefault<DefaultHasher>>,
}

/// Folded bytes that are the most frequent in text and in headers.
const FREQUENT: &[u8] = b" etaonisrhldcu\0\xff";

/// So far into a pattern windows are looked for.
const PLACES_MAX: usize = 256;

impl Common {
    /// Counts those of folded patterns.
    pub fn new<'a>(patterns: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut counts = HashMap::default();
        for bytes in patterns {
            for window in bytes.windows(4) {
                let window = u32::from_le_bytes(window.try_into().expect("four bytes"));
                *counts.entry(window).or_insert(0) += 1;
            }
        }
        Self { counts }
    }

    /// Where the window of `window_bytes`, or the `places` of them that begin side by side, is the
    /// least common; the first such place. `bytes` is folded, and long enough for one.
    ///
    /// # Panics
    /// If `bytes` or the window is shorter than four bytes, or the places do not fit: caller bugs.
    pub fn rarest(&self, bytes: &[u8], window_bytes: usize, places: usize) -> usize {
        let bytes = &bytes[..bytes.len().min(PLACES_MAX)];
        let counts: Vec<u32> = bytes.windows(4).map(|four| self.count(four)).collect();
        let fours = counts.windows(window_bytes - 3);
        let weights = bytes.windows(window_bytes).zip(fours);
        let weights: Vec<u32> = weights.map(|(window, counts)| weight(window, counts)).collect();
        let starts = weights.windows(places).map(|weights| weights.iter().sum::<u32>());
        starts.enumerate().min_by_key(|&(_, weight)| weight).map_or(0, |(start, _)| start)
    }

    fn count(&self, four: &[u8]) -> u32 {
        let four = u32::from_le_bytes(four.try_into().expect("four bytes"));
        self.counts.get(&four).copied().unwrap_or(0)
    }
}

/// The more, the more common. The rarest four bytes of a window count.
fn weight(window: &[u8], counts: &[u32]) -> u32 {
    let shared = counts.iter().copied().min().unwrap_or(0);
    let frequent = window.iter().filter(|byte| FREQUENT.contains(byte)).count() as u32;
    let letters = window.iter().filter(|byte| byte.is_ascii_alphabetic()).count() as u32;
    let kinds = window.iter().enumerate().filter(|(idx, byte)| !window[..*idx].contains(byte));
    // Few different bytes are the worst.
    let plain = if 2 * kinds.count() <= window.len() { 1000 } else { 0 };
    8 * shared.min(1000) + 2 * frequent + letters + plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_or_plain_is_avoided() {
        let patterns: [&[u8]; 3] =
            [b"user-agent: zqx\x01y", b"user-agent: other", b"user-agent: more"];
        let common = Common::new(patterns.into_iter());
        assert!(common.rarest(patterns[0], 4, 1) >= 12);
        assert_eq!(common.rarest(b"\0\0\0\0\0\0\0\0\x01\x02\x03\x04", 4, 1), 8);
        assert_eq!(common.rarest(b"abcd", 4, 1), 0);
        assert_eq!(common.rarest(b"abcdefghijk", 8, 4), 0);
    }
}
