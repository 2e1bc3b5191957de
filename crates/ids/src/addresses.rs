//! Sets of addresses, those of IPv4 and of IPv6 apart.
//!
//! ```text
//! any            0.0.0.0–255.255.255.255   ::–ffff:…
//! 10.0.0.0/8     10.0.0.0–10.255.255.255   none
//! !10.0.0.0/8    the others                ::–ffff:…
//! ::/0           none                      ::–ffff:…
//! ```
//! A prefix of one family says nothing of packets of the other one, as in Snort and Suricata: what
//! negates it has all of these. An IPv4 address is not the IPv6 one that it may be mapped to.

use std::net::IpAddr;

use crate::ranges::{Ranges, Set};

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Addresses of both families.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// Those of IPv4.
    pub v4: Ranges<u32>,
    /// Those of IPv6.
    pub v6: Ranges<u128>,
}

impl Addresses {
    /// Those from `low` to `high`, which are of one family; none if `low` is above it or of the
    /// other one.
    pub fn range(low: IpAddr, high: IpAddr) -> Self {
        let (mut v4, mut v6) = (Ranges::none(), Ranges::none());
        match (low, high) {
            (IpAddr::V4(low), IpAddr::V4(high)) => v4 = Ranges::range(low.into(), high.into()),
            (IpAddr::V6(low), IpAddr::V6(high)) => v6 = Ranges::range(low.into(), high.into()),
            _ => {}
        }
        Self { v4, v6 }
    }

    /// Those of one family.
    pub fn of(&self, family: Family) -> Self {
        match family {
            Family::V4 => Self { v4: self.v4.clone(), v6: Ranges::none() },
            Family::V6 => Self { v4: Ranges::none(), v6: self.v6.clone() },
        }
    }

    /// Whether `address` is among them. Cost: logarithmic in the ranges of its family.
    #[inline]
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(address.into()),
            IpAddr::V6(address) => self.v6.contains(address.into()),
        }
    }
}

impl Set for Addresses {
    fn all() -> Self {
        Self { v4: Ranges::all(), v6: Ranges::all() }
    }

    fn complement(&self) -> Self {
        Self { v4: self.v4.complement(), v6: self.v6.complement() }
    }

    fn union(&self, other: &Self) -> Self {
        Self { v4: self.v4.union(&other.v4), v6: self.v6.union(&other.v6) }
    }

    fn ranges_len(&self) -> usize {
        self.v4.ranges_len() + self.v6.ranges_len()
    }
}
