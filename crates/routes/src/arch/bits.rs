//! The portable steps, compiled for processors that count and shift bits in one instruction: most
//! that lack AVX-512.

use super::{dir24, portable};
use crate::hop::NextHop;
use crate::lpm::dir24::Dir24;
use crate::lpm::entry::Image;

/// Proof that the machine has BMI1, BMI2 and POPCNT.
#[derive(Clone, Copy, Debug)]
pub struct Bits(());

impl Bits {
    pub(super) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has.then_some(Self(()))
    }

    /// By the table of the first 24 bits.
    pub(super) fn lookup_dir24(
        self,
        table: &Dir24,
        image: &Image,
        addrs: &[u32],
        out: &mut [NextHop],
    ) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { lookup_dir24(self, table, image, addrs, out) };
    }

    pub(super) fn lookup_v4(self, image: &Image, addrs: &[u32], out: &mut [NextHop]) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { lookup_v4(image, addrs, out) };
    }

    pub(super) fn lookup_v6(self, image: &Image, addrs: &[u128], out: &mut [NextHop]) {
        // SAFETY: `self` proves that the machine has the features.
        unsafe { lookup_v6(image, addrs, out) };
    }
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn lookup_dir24(bits: Bits, table: &Dir24, image: &Image, addrs: &[u32], out: &mut [NextHop]) {
    let blocks = |addrs: &_, out: &mut _| bits.lookup_v4(image, addrs, out);
    dir24::lookup((table, image), addrs, out, dir24::look, blocks);
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn lookup_v4(image: &Image, addrs: &[u32], out: &mut [NextHop]) {
    portable::lookup(image, addrs, |addr| u128::from(addr) << 96, out);
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn lookup_v6(image: &Image, addrs: &[u128], out: &mut [NextHop]) {
    portable::lookup(image, addrs, |addr| addr, out);
}
