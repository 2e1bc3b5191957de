//! A byte for each value of the first 24 bits of an IPv4 address.
//!
//! ```text
//! byte 0 … 253   number of the hop
//! byte 254       a longer prefix: the block of the fourth byte knows more
//! byte 255       no route
//! ```
//! Nearly all lookups are one load from it. It costs memory, 16 MB, and gives speed where tables
//! are large and a load from the third-level cache is cheap beside the steps through blocks. Blocks
//! of the third byte are there only for values of 16 bits with prefixes longer than 24.
//!
//! # Invariants
//! - D1: a byte changes by one store, after what it leads to was written.
//! - D2: a byte is [`BELOW`] only while the first entry leads to blocks that know more.
//!
//! # Source
//! Gupta, Lin, McKeown, "Routing Lookups in Hardware at Memory Access Speeds", INFOCOM 1998 (the
//! scheme DIR-24-8). Ours has one byte where theirs and DPDK's have two or four, which halves the
//! lines that lookups touch, and blocks in place of the second table.

use std::sync::atomic::{AtomicU8, Ordering};

use warpswitch_packet::pages::SharedWords;

use super::entry::{Entry, NO_BYTE};
use super::rib::NO_HOP;

/// Blocks know more.
pub(crate) const BELOW: u8 = NO_BYTE - 1;

/// Values of the first 24 bits.
const LEN: usize = 1 << 24;

/// What lookups read.
pub(crate) type Table = [AtomicU8; LEN];

/// The table.
#[derive(Debug)]
pub(crate) struct Dir24(SharedWords);

impl Dir24 {
    /// Bytes that it takes.
    pub(crate) const BYTES: usize = LEN;

    /// Hop 0 for all, until each root was put.
    pub(crate) fn new() -> Self {
        Self(SharedWords::zeroed(LEN / 4))
    }

    /// The bytes, by the first 24 bits.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &Table {
        self.0.bytes().first_chunk().expect("it was made with so many")
    }

    /// What the values of the third byte from `third` on lead to below `root`, the first 16 bits.
    pub(crate) fn put(&self, root: usize, third: usize, bytes: &[u8]) {
        let slots = &self.bytes()[root << 8..][third..third + bytes.len()];
        for (slot, &byte) in slots.iter().zip(bytes) {
            // Lines that stay as they are stay with the readers that have them.
            if slot.load(Ordering::Relaxed) != byte {
                // Partner: the load of a byte in a lookup, which then finds what lies below.
                slot.store(byte, Ordering::Release);
            }
        }
    }
}

/// The byte of a hop; [`NO_BYTE`] for none.
pub(crate) fn byte_of_hop(hop: u16) -> u8 {
    debug_assert!(hop < BELOW.into() || hop == NO_HOP, "a table of wide hops");
    hop as u8
}

/// The byte of what follows the first 24 bits.
pub(crate) fn byte_of(entry: Entry) -> u8 {
    if entry.is_hop() { byte_of_hop(entry.hop_number()) } else { BELOW }
}
