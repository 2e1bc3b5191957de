//! Code that is written per instruction set: the only place of this crate with `unsafe`.
//!
//! Policy: a type per instruction set whose value proves that the machine has it (`new() ->
//! Option`), a portable twin that defines the result, and one unsafe operation a block.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod bits;
mod dir24;
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
}

impl Kernel {
    /// Those that this machine has, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let special = [avx512::Avx512::new().map(Self::Avx512), bits::Bits::new().map(Self::Bits)];
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
        }
    }

    /// Whether a table of the first 24 bits is faster than blocks for large tables.
    pub(crate) fn prefers_dir24(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return !matches!(self, Self::Avx512(_)) || avx512::gathers_are_slow();
        #[cfg(not(target_arch = "x86_64"))]
        true
    }

    /// Looks up IPv4 addresses. `image` is a writer's; `out` is as long as `addrs` or longer.
    pub(crate) fn lookup_v4(self, image: &Image, addrs: &[u32], out: &mut [NextHop]) {
        let Some(table) = &image.dir24 else { return self.lookup_blocks(image, addrs, out) };
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.lookup_dir24(table, image, addrs, out),
            _ => {
                let blocks = |addrs: &_, out: &mut _| self.lookup_blocks(image, addrs, out);
                dir24::lookup((table, image), addrs, out, dir24::look, blocks);
            }
        }
    }

    fn lookup_blocks(self, image: &Image, addrs: &[u32], out: &mut [NextHop]) {
        match self {
            Self::Portable => portable::lookup(image, addrs, |addr| u128::from(addr) << 96, out),
            #[cfg(target_arch = "x86_64")]
            Self::Bits(bits) => bits.lookup_v4(image, addrs, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.lookup_v4(image, addrs, out),
        }
    }

    /// Looks up IPv6 addresses.
    pub(crate) fn lookup_v6(self, image: &Image, addrs: &[u128], out: &mut [NextHop]) {
        match self {
            Self::Portable => portable::lookup(image, addrs, |addr| addr, out),
            #[cfg(target_arch = "x86_64")]
            Self::Bits(bits) => bits.lookup_v6(image, addrs, out),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.lookup_v6(image, addrs, out),
        }
    }
}
