//! The two families of addresses, behind one trait.

use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod sealed {
    use crate::arch::Kernel;
    use crate::hop::NextHop;
    use crate::lpm::entry::Image;

    pub trait Sealed: Sized {
        /// Looks up a batch in a writer's image.
        fn lookup(kernel: Kernel, image: &Image, addrs: &[Self], out: &mut [NextHop]);
    }

    impl Sealed for u32 {
        fn lookup(kernel: Kernel, image: &Image, addrs: &[Self], out: &mut [NextHop]) {
            kernel.lookup_v4(image, addrs, out);
        }
    }

    impl Sealed for u128 {
        fn lookup(kernel: Kernel, image: &Image, addrs: &[Self], out: &mut [NextHop]) {
            kernel.lookup_v6(image, addrs, out);
        }
    }
}

/// An IPv4 (`u32`) or IPv6 (`u128`) address as a number in host order: the first byte on the wire
/// is the most significant one. Sealed.
pub trait Address: sealed::Sealed + Copy + Ord + Hash + Debug + Send + Sync + 'static {
    /// Bits of an address, and the longest length of a prefix.
    const BITS: u8;

    /// How the standard library calls such an address; it knows how to print one.
    type Std: Display + Into<IpAddr>;

    /// The address, aligned to the left of 128 bits.
    fn to_left(self) -> u128;

    /// The address whose bits stand at the left of `bits`.
    fn from_left(bits: u128) -> Self;

    /// The address as the standard library's type.
    fn to_std(self) -> Self::Std;

    /// The address, if it is one of this family.
    fn from_ip(ip: IpAddr) -> Option<Self>;

    /// The address with all bits behind the first `len` cleared.
    fn masked(self, len: u8) -> Self {
        Self::from_left(self.to_left() & mask(len))
    }
}

/// The first `len` of 128 bits.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

impl Address for u32 {
    const BITS: u8 = 32;
    type Std = Ipv4Addr;

    fn to_left(self) -> u128 {
        u128::from(self) << 96
    }

    fn from_left(bits: u128) -> Self {
        (bits >> 96) as u32
    }

    fn to_std(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self)
    }

    fn from_ip(ip: IpAddr) -> Option<Self> {
        match ip {
            IpAddr::V4(ip) => Some(ip.to_bits()),
            IpAddr::V6(_) => None,
        }
    }
}

impl Address for u128 {
    const BITS: u8 = 128;
    type Std = Ipv6Addr;

    fn to_left(self) -> u128 {
        self
    }

    fn from_left(bits: u128) -> Self {
        bits
    }

    fn to_std(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self)
    }

    fn from_ip(ip: IpAddr) -> Option<Self> {
        match ip {
            IpAddr::V6(ip) => Some(ip.to_bits()),
            IpAddr::V4(_) => None,
        }
    }
}
