//! Where a prefix stands: its first 16 bits, then bytes; and the nodes on the way there.

use std::ops::Range;

use super::block::{SLOTS, TABLE_DEPTH};
use super::rib::{DEEP_WEIGHT, ROOT_BITS};
use crate::address::Address;
use crate::prefix::Prefix;

/// The most nodes between the first entries and a prefix: bytes 3 to 16 of an IPv6 address.
pub(super) const DEPTH_MAX: usize = 14;

/// Nodes from the first one down to the one that a prefix belongs to.
#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) nodes: [u32; DEPTH_MAX],
    pub(super) len: usize,
    /// How many of them were there before.
    pub(super) known: usize,
}

impl Path {
    pub(super) fn as_slice(&self) -> &[u32] {
        &self.nodes[..self.len]
    }
}

/// The place of a prefix: first 16 bits, then bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) left: u128,
    pub(super) len: u8,
}

impl Place {
    pub(super) fn of<A: Address>(prefix: Prefix<A>) -> Self {
        Self { left: prefix.addr().to_left(), len: prefix.len() }
    }

    pub(super) fn root(self) -> usize {
        (self.left >> (128 - ROOT_BITS)) as usize
    }

    /// The byte that the node at `depth` (0 for the first) looks at.
    pub(super) fn byte(self, depth: usize) -> u8 {
        (self.left >> (104 - 8 * depth)) as u8
    }

    /// The values that it has a part in of the byte that the node at `depth` looks at.
    pub(super) fn bytes_in(self, depth: usize) -> Range<usize> {
        let byte = usize::from(self.byte(depth));
        let width = SLOTS >> (usize::from(self.len - ROOT_BITS) - 8 * depth).min(8);
        let first = byte / width * width;
        first..first + width
    }

    /// The values that it has a part in of the third byte of an address.
    pub(super) fn thirds(self) -> Range<usize> {
        self.bytes_in(0)
    }

    /// How many nodes lead to it, itself with them.
    pub(super) fn depth(self) -> usize {
        usize::from(self.len - ROOT_BITS).div_ceil(8)
    }

    /// Bits of the prefix in its node's byte, 1 to 8.
    pub(super) fn len_in_node(self) -> u8 {
        (self.len - ROOT_BITS - 1) % 8 + 1
    }
}

/// The node whose list may answer for the last one of `path` too, and what a prefix of that weighs.
pub(super) fn table_above(path: &Path) -> Option<(u32, u16)> {
    match path.as_slice().get(usize::from(TABLE_DEPTH)..)? {
        [] | [_] => None,
        [table, _] => Some((*table, 1)),
        [table, ..] => Some((*table, DEEP_WEIGHT)),
    }
}

/// A range of one byte.
pub(super) fn one(byte: u8) -> Range<usize> {
    usize::from(byte)..usize::from(byte) + 1
}
