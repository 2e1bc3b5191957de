//! The portable steps, compiled for processors that count and shift bits in one instruction: most
//! that lack AVX-512.

use super::portable;
use crate::hop::NextHop;
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
fn lookup_v4(image: &Image, addrs: &[u32], out: &mut [NextHop]) {
    portable::lookup(image, addrs, |addr| u128::from(addr) << 96, out);
}

#[target_feature(enable = "bmi1,bmi2,popcnt")]
fn lookup_v6(image: &Image, addrs: &[u128], out: &mut [NextHop]) {
    portable::lookup(image, addrs, |addr| addr, out);
}
