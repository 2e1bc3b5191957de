//! What a lookup gives.

use std::fmt;

/// The number of a next hop, as the caller numbers them, or [`NextHop::NONE`].
///
/// Sixteen bits: a lookup's speed is the memory that it touches, and no router has 65,535
/// neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NextHop(pub u16);

impl NextHop {
    /// No route.
    pub const NONE: Self = Self(u16::MAX);

    /// Whether there is a route.
    #[inline]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

impl Default for NextHop {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_some() { self.0.fmt(f) } else { f.write_str("none") }
    }
}
