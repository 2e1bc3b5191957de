//! A fingerprint of a run's answers, to compare engines, versions and machines.
//!
//! 64-bit FNV-1a over the answers in packet order, each as a little-endian `i32`: the 0-based index
//! of the winning rule, or -1.
//!
//! # Source
//! Fowler, Noll, Vo, "The FNV Non-Cryptographic Hash Algorithm", RFC 9923.

use std::fmt;

use warpswitch_rules::RuleId;

/// The fingerprint of the answers so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Of no answers.
    pub fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    /// Adds answers.
    pub fn update(&mut self, answers: &[RuleId]) {
        // The id of "none" is all ones, as is -1.
        self.update_words(answers.iter().map(|answer| answer.0));
    }

    /// Adds answers that are words.
    pub fn update_words(&mut self, words: impl IntoIterator<Item = u32>) {
        let mut hash = self.0;
        for word in words {
            for byte in word.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        self.0 = hash;
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_hash_as_their_bytes() {
        // The published hash of "foob", read as one answer.
        let mut digest = Digest::new();
        assert_eq!(digest.to_string(), "0xcbf29ce484222325");
        digest.update(&[RuleId(u32::from_le_bytes(*b"foob"))]);
        assert_eq!(digest.to_string(), "0xdd120e790c2512af");
        let mut parts = Digest::new();
        parts.update(&[RuleId(7)]);
        parts.update(&[RuleId::NONE]);
        digest = Digest::new();
        digest.update(&[RuleId(7), RuleId::NONE]);
        assert_eq!(digest, parts);
    }
}
