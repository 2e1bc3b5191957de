//! Lookups by the first 24 bits: a load of a byte for each address, and the rest of the work on
//! vectors.
//!
//! On purpose no gather: a processor has more loads under way than one of these starts. And lines
//! are asked for before any of them is read: what has been asked for waits in no queue of the core
//! for its answer, so twice as many are under way. `docs/routes.md` has the figures.

use std::sync::atomic::Ordering;

use warpswitch_packet::pages::prefetch;

use super::portable;
use crate::hop::NextHop;
use crate::lpm::dir24::{BELOW, Dir24, Table};
use crate::lpm::entry::{Image, NO_BYTE};

/// Addresses that are looked up together.
pub(super) const GROUP: usize = 64;

/// Addresses whose lines are asked for before the first is read: a third of the first-level cache.
const BATCH: usize = 4 * GROUP;

/// So many addresses of a group with longer prefixes are answered together, fewer one by one.
const BLOCKS_MIN: usize = 8;

/// Addresses of a cache line.
const LINE_LEN: usize = 16;

/// What is known of the first 24 bits of `addr`.
#[inline(always)]
pub(super) fn byte(table: &Table, addr: u32) -> u8 {
    // Partner: the release store of a byte. Who finds `BELOW` must find the entry that was stored
    // before it; that the entry's load acquires, too, does not order it behind this one.
    table[(addr >> 8) as usize].load(Ordering::Acquire)
}

/// Looks up. `look` does so for a group and says which addresses have longer prefixes, `blocks`
/// answers these. Inlined, so that callers have it compiled for instructions of theirs.
#[inline(always)]
pub(super) fn lookup(
    (table, image): (&Dir24, &Image),
    addrs: &[u32],
    out: &mut [NextHop],
    look: impl Fn(&Table, &[u32; GROUP], &mut [NextHop; GROUP]) -> u64,
    blocks: impl Fn(&[u32], &mut [NextHop]),
) {
    let table = table.bytes();
    let out = &mut out[..addrs.len()];
    for (addrs, out) in addrs.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
        for (idx, &addr) in addrs.iter().enumerate() {
            if idx % LINE_LEN == 0 {
                prefetch(addrs, idx + BATCH);
            }
            prefetch(table, (addr >> 8) as usize);
        }
        let (groups, tail) = addrs.as_chunks::<GROUP>();
        let (out_groups, out_tail) = out.as_chunks_mut::<GROUP>();
        for (addrs, out) in groups.iter().zip(out_groups) {
            let below = look(table, addrs, out);
            if below != 0 {
                look_below(below, image, addrs, out, &blocks);
            }
        }
        for (hop, &addr) in out_tail.iter_mut().zip(tail) {
            *hop = match byte(table, addr) {
                BELOW => portable::lookup_one_v4(image, addr),
                NO_BYTE => NextHop::NONE,
                byte => NextHop(byte.into()),
            };
        }
    }
}

/// [`lookup`]'s `look` for any processor.
#[inline(always)]
pub(super) fn look(table: &Table, addrs: &[u32; GROUP], out: &mut [NextHop; GROUP]) -> u64 {
    let mut bytes = [0; GROUP];
    for (byte, &addr) in bytes.iter_mut().zip(addrs) {
        *byte = self::byte(table, addr);
    }
    let mut any = 0;
    for (hop, &byte) in out.iter_mut().zip(&bytes) {
        *hop = if byte == NO_BYTE { NextHop::NONE } else { NextHop(byte.into()) };
        any |= u8::from(byte == BELOW);
    }
    if any == 0 { 0 } else { below(&bytes) }
}

#[cold]
fn below(bytes: &[u8; GROUP]) -> u64 {
    (0..).zip(bytes).fold(0, |lanes, (lane, &byte)| lanes | u64::from(byte == BELOW) << lane)
}

/// Answers the addresses of `lanes`, of whose first 24 bits the table does not know enough.
#[cold]
fn look_below(
    mut lanes: u64,
    image: &Image,
    addrs: &[u32; GROUP],
    out: &mut [NextHop; GROUP],
    blocks: &impl Fn(&[u32], &mut [NextHop]),
) {
    let (mut below, mut at, mut len) = ([0; GROUP], [0; GROUP], 0);
    while lanes != 0 {
        at[len] = lanes.trailing_zeros() as usize;
        below[len] = addrs[at[len]];
        lanes &= lanes - 1;
        len += 1;
    }
    let (below, at) = (&below[..len], &at[..len]);
    if len < BLOCKS_MIN {
        for (&addr, &lane) in below.iter().zip(at) {
            out[lane] = portable::lookup_one_v4(image, addr);
        }
        return;
    }
    let mut hops = [NextHop::NONE; GROUP];
    blocks(below, &mut hops);
    for (&lane, hop) in at.iter().zip(hops) {
        out[lane] = hop;
    }
}
