//! The steps of a lookup for any processor. Defines what the others must give.
//!
//! Many addresses go through a step before the next one begins: the loads of different addresses do
//! not wait for each other.

use std::sync::atomic::Ordering;

use crate::hop::NextHop;
use crate::lpm::entry::{Entry, INNER, Image, LEAF};

/// Addresses that go through a step together.
const GROUP: usize = 32;

/// Looks up addresses given as numbers aligned to the left of 128 bits. Inlined, so that callers
/// may have it compiled for instructions of theirs.
#[inline(always)]
pub(super) fn lookup<A: Copy>(
    image: &Image,
    addrs: &[A],
    left: impl Fn(A) -> u128,
    out: &mut [NextHop],
) {
    let mut entries = [Entry(0); GROUP];
    for (addrs, out) in addrs.chunks(GROUP).zip(out.chunks_mut(GROUP)) {
        let entries = &mut entries[..addrs.len()];
        let mut kinds = 0;
        for (entry, &addr) in entries.iter_mut().zip(addrs) {
            *entry = image.first_32((left(addr) >> 96) as u32);
            kinds |= entry.0;
        }
        if kinds & (LEAF | INNER) != 0 {
            kinds = 0;
            for (entry, &addr) in entries.iter_mut().zip(addrs) {
                *entry = image.third_16(*entry, (left(addr) >> 80) as u16);
                kinds |= entry.0;
            }
        }
        let mut shift = 72;
        while kinds & (LEAF | INNER) != 0 {
            kinds = 0;
            for (entry, &addr) in entries.iter_mut().zip(addrs) {
                *entry = image.next(*entry, (left(addr) >> shift) as u8);
                kinds |= entry.0;
            }
            shift -= 8;
        }
        for (out, entry) in out.iter_mut().zip(entries) {
            *out = NextHop(entry.hop_number());
        }
    }
}

/// Looks up one IPv4 address: by its first 16 bits, its third byte, its fourth.
#[inline(always)]
pub(super) fn lookup_one_v4(image: &Image, addr: u32) -> NextHop {
    let [high, low, third, fourth] = addr.to_be_bytes();
    let first = &image.words[usize::from(u16::from_be_bytes([high, low]))];
    // Partner: the release store that publishes a first entry.
    let first = Entry(first.load(Ordering::Acquire));
    NextHop(image.next(image.next(first, third), fourth).hop_number())
}

/// Looks up one address, aligned to the left of 128 bits.
pub(super) fn lookup_one(image: &Image, left: u128) -> NextHop {
    let mut entry = image.first_32((left >> 96) as u32);
    entry = image.third_16(entry, (left >> 80) as u16);
    let mut rest = left << 48;
    while !entry.is_hop() {
        entry = image.next(entry, (rest >> 120) as u8);
        rest <<= 8;
    }
    NextHop(entry.hop_number())
}
