//! A prefix: the first bits of an address.

use std::fmt;

use crate::address::Address;
use crate::error::{ErrorKind, RouteError};

/// The addresses that begin with the first `len` bits of `addr`; all further bits are zero.
///
/// Ordered by address, then the shorter one first: a prefix comes before those inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix<A> {
    addr: A,
    len: u8,
}

impl<A: Address> Prefix<A> {
    /// The prefix of `len` bits.
    ///
    /// # Errors
    /// [`ErrorKind::BadPrefix`] if `len` is more than the family has, or a bit behind the first
    /// `len` is set; [`Prefix::containing`] clears these.
    pub fn new(addr: A, len: u8) -> Result<Self, RouteError> {
        if len > A::BITS {
            let message = format!("invalid prefix length {len}; expected at most {}", A::BITS);
            return Err(RouteError::new(ErrorKind::BadPrefix, message));
        }
        if addr.masked(len) != addr {
            let message = format!("{} has bits set beyond the first {len}", addr.to_std());
            return Err(RouteError::new(ErrorKind::BadPrefix, message));
        }
        Ok(Self { addr, len })
    }

    /// The prefix of `len` bits that `addr` lies in; `len` is cut to what the family has.
    pub fn containing(addr: A, len: u8) -> Self {
        let len = len.min(A::BITS);
        Self { addr: addr.masked(len), len }
    }

    /// The first address.
    pub fn addr(self) -> A {
        self.addr
    }

    /// How many bits are fixed.
    #[expect(clippy::len_without_is_empty, reason = "a length in bits, not of a container")]
    pub fn len(self) -> u8 {
        self.len
    }

    /// Whether `addr` lies in it.
    pub fn contains(self, addr: A) -> bool {
        addr.masked(self.len) == self.addr
    }
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr.to_std(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_what_begins_like_it() {
        let net = Prefix::new(0x0a01_0000_u32, 16).unwrap();
        assert!(net.contains(0x0a01_ffff) && !net.contains(0x0a02_0000));
        assert_eq!(net.to_string(), "10.1.0.0/16");
        assert_eq!(Prefix::containing(0x0a01_0203_u32, 16), net);
        assert!(Prefix::new(0u32, 0).unwrap().contains(u32::MAX));
        assert!(Prefix::new(7u32, 32).unwrap().contains(7));
        assert_eq!(Prefix::containing(1u128 << 127 | 1, 1).to_string(), "8000::/1");
    }

    #[test]
    fn bits_outside_are_refused() {
        for (addr, len) in [(0x0a01_0001, 16), (0, 33), (1, 0)] {
            let error = Prefix::<u32>::new(addr, len).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadPrefix);
        }
    }
}
