//! The named reasons why a frame has no key, and their counters.

use std::fmt;

use warpswitch_wire::ParseError;

/// Why a frame has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoKey {
    /// The schema is for IPv4 and the frame holds something else.
    NotIpv4,
    /// The schema is for IPv6 and the frame holds something else.
    NotIpv6,
    /// The frame cannot be parsed.
    Unparsable(ParseError),
}

impl NoKey {
    /// Number of reasons.
    pub const COUNT: usize = 2 + ParseError::ALL.len();

    /// Every reason, in order of [`NoKey::as_usize`].
    pub const ALL: [NoKey; NoKey::COUNT] = {
        let mut all = [NoKey::NotIpv4; NoKey::COUNT];
        all[1] = NoKey::NotIpv6;
        let mut i = 0;
        while i < ParseError::ALL.len() {
            all[2 + i] = NoKey::Unparsable(ParseError::ALL[i]);
            i += 1;
        }
        all
    };

    /// The reason's place in [`NoKey::ALL`], to index counters.
    pub const fn as_usize(self) -> usize {
        match self {
            NoKey::NotIpv4 => 0,
            NoKey::NotIpv6 => 1,
            NoKey::Unparsable(error) => 2 + error.as_usize(),
        }
    }

    /// A stable name in `snake_case`, for counters and machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            NoKey::NotIpv4 => "not_ipv4",
            NoKey::NotIpv6 => "not_ipv6",
            NoKey::Unparsable(error) => error.name(),
        }
    }
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoKey::NotIpv4 => f.write_str("the frame holds no IPv4 packet"),
            NoKey::NotIpv6 => f.write_str("the frame holds no IPv6 packet"),
            NoKey::Unparsable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NoKey {}

/// How many frames had no key, by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoKeyCounts {
    counts: [u64; NoKey::COUNT],
}

impl Default for NoKeyCounts {
    fn default() -> Self {
        Self { counts: [0; NoKey::COUNT] }
    }
}

impl NoKeyCounts {
    /// Counts a frame.
    #[inline]
    pub fn add(&mut self, reason: NoKey) {
        self.counts[reason.as_usize()] += 1;
    }

    /// Number of frames without key.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each reason that occurred and how often.
    pub fn iter(&self) -> impl Iterator<Item = (NoKey, u64)> {
        NoKey::ALL.into_iter().zip(self.counts).filter(|&(_, count)| count > 0)
    }
}
