//! Code that is written per instruction set: the only place of this crate with `unsafe`.
//!
//! Policy: a type per instruction set whose value proves that the machine has it (`new() ->
//! Option`), a portable twin that defines the result, and one unsafe operation a block.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bits;
mod portable;

use crate::hop::NextHop;
use crate::lpm::entry::Image;

/// The code that looks up.
#[derive(Clone, Copy, Debug)]
pub enum Kernel {
    /// For any processor.
    Portable,
    /// The same, with instructions for bits.
    #[cfg(target_arch = "x86_64")]
    Bits(bits::Bits),
    /// Sixteen addresses at once.
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
    /// The same, but IPv4 tables are plain and read by a load for each address.
    #[cfg(target_arch = "x86_64")]
    Avx512Plain(avx512::Avx512),
}

impl Kernel {
    /// Those that this machine has, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let special = {
            let avx512 = avx512::Avx512::new();
            let mut both = [avx512.map(Self::Avx512), avx512.map(Self::Avx512Plain)];
            if avx512::gathers_are_slow() {
                both.reverse();
            }
            let [first, second] = both;
            [first, second, bits::Bits::new().map(Self::Bits)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let special: [Option<Self>; 0] = [];
        special.into_iter().flatten().chain([Self::Portable])
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Bits(_) => "bits",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Plain(_) => "avx512-plain",
        }
    }

    /// Whether IPv4 tables are to be plain.
    pub(crate) fn prefers_plain(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return matches!(self, Self::Avx512Plain(_));
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Looks up IPv4 addresses. `image` is a writer's; `out` is as long as `addrs` or longer.
    pub(crate) fn lookup_v4(self, image: &Image, addrs: &[u32], out: &mut [NextHop]) {
        match self {
            Self::Portable => portable::lookup(image, addrs, |addr| u128::from(addr) << 96, out),
            #[cfg(target_arch = "x86_64")]
            Self::Bits(bits) => bits.lookup_v4(image, addrs, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) | Self::Avx512Plain(avx512) => avx512.lookup_v4(image, addrs, out),
        }
    }

    /// Looks up IPv6 addresses.
    pub(crate) fn lookup_v6(self, image: &Image, addrs: &[u128], out: &mut [NextHop]) {
        match self {
            Self::Portable => portable::lookup(image, addrs, |addr| addr, out),
            #[cfg(target_arch = "x86_64")]
            Self::Bits(bits) => bits.lookup_v6(image, addrs, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) | Self::Avx512Plain(avx512) => avx512.lookup_v6(image, addrs, out),
        }
    }
}
