//! The writer's own view of the routes: which prefixes there are, by byte of the address.
//!
//! ```text
//! lengths 0 … 16    a heap: the hop of prefix p of length l at (1 << l) + p
//! lengths 17 … 24   a node for each first 16 bits that have longer prefixes
//! lengths 25 … 32   a node for each first 24 bits that have longer prefixes, and so on
//! ```

use warpswitch_routes::{Address, Prefix};

/// No node.
pub(super) const NO_NODE: u32 = u32::MAX;
/// No route.
pub(super) const NO_HOP: u16 = u16::MAX;
/// Bits of an address that the first step looks at.
pub(super) const ROOT_BITS: u8 = 16;
/// Values of these bits.
pub(super) const ROOTS: usize = 1 << ROOT_BITS;
/// Nodes on the way to the longest prefix.
pub(super) const DEPTH_MAX: usize = 14;
/// Values of a byte.
pub(super) const VALUES: usize = 256;

/// Where a prefix ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    left: u128,
    pub(super) len: u8,
}

impl Place {
    pub(super) fn of<A: Address>(prefix: Prefix<A>) -> Self {
        Self { left: prefix.addr().to_left(), len: prefix.len() }
    }

    /// Whether the first step finds it.
    pub(super) fn is_short(self) -> bool {
        self.len <= ROOT_BITS
    }

    /// The first 16 bits.
    pub(super) fn root(self) -> usize {
        (self.left >> (128 - ROOT_BITS)) as usize
    }

    /// Nodes on the way to a long prefix, its own counted.
    pub(super) fn depth(self) -> usize {
        usize::from(self.len - ROOT_BITS).div_ceil(8)
    }

    /// The byte that the node at `level` looks at.
    pub(super) fn byte(self, level: usize) -> u8 {
        (self.left >> (104 - 8 * level)) as u8
    }

    /// Its place in its node's heap.
    pub(super) fn end(self) -> u16 {
        let len = (self.len - 1) % 8 + 1;
        (1 << len) + u16::from(self.byte(self.depth() - 1) >> (8 - len))
    }
}

/// The prefixes that end in one byte of the address, below one value of the bytes before.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Place in a heap of the byte's prefixes, and hop; in order, so shorter ones come first.
    ends: Vec<(u16, u16)>,
    /// Nodes of longer prefixes, by the value of this byte, in order.
    pub(super) children: Vec<(u8, u32)>,
    /// The hop for what no prefix of it covers.
    pub(super) inherited: u16,
    /// What leads to its block, once it is written.
    pub(super) entry: u32,
    pub(super) is_written: bool,
}

impl Default for Node {
    fn default() -> Self {
        let entry = u32::from(NO_HOP);
        let (ends, children) = (Vec::new(), Vec::new());
        Self { ends, children, inherited: NO_HOP, entry, is_written: false }
    }
}

impl Node {
    /// Whether nothing ends here or below.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.children.is_empty()
    }

    /// The hop of a prefix.
    pub(super) fn get(&self, end: u16) -> Option<u16> {
        let at = self.ends.binary_search_by_key(&end, |e| e.0).ok()?;
        Some(self.ends[at].1)
    }

    /// Puts a prefix in, or takes it out; the hop that it had.
    pub(super) fn set(&mut self, end: u16, hop: Option<u16>) -> Option<u16> {
        match (self.ends.binary_search_by_key(&end, |e| e.0), hop) {
            (Ok(at), Some(hop)) => Some(std::mem::replace(&mut self.ends[at].1, hop)),
            (Ok(at), None) => Some(self.ends.remove(at).1),
            (Err(at), Some(hop)) => {
                self.ends.insert(at, (end, hop));
                None
            }
            (Err(_), None) => None,
        }
    }

    /// The hop of each value of the byte, as entries, longer prefixes aside.
    pub(super) fn hops(&self) -> [u32; VALUES] {
        let mut hops = [u32::from(self.inherited); VALUES];
        for &(end, hop) in &self.ends {
            let len = end.ilog2();
            let width = VALUES >> len;
            let first = (usize::from(end) - (1 << len)) * width;
            hops[first..first + width].fill(u32::from(hop));
        }
        hops
    }

    /// The node below `byte`.
    pub(super) fn child(&self, byte: u8) -> Option<u32> {
        let at = self.children.binary_search_by_key(&byte, |child| child.0).ok()?;
        Some(self.children[at].1)
    }

    /// Links a node below `byte`, where there is none.
    pub(super) fn link(&mut self, byte: u8, node: u32) {
        let at = self.children.partition_point(|child| child.0 < byte);
        self.children.insert(at, (byte, node));
    }

    /// Unlinks the node below `byte`.
    pub(super) fn unlink(&mut self, byte: u8) {
        self.children.retain(|child| child.0 != byte);
    }

    /// Bytes beside the node itself.
    pub(super) fn bytes(&self) -> usize {
        self.ends.capacity() * 4 + self.children.capacity() * size_of::<(u8, u32)>()
    }
}

/// The routes of length 0 to 16.
#[derive(Debug)]
pub(super) struct Short {
    /// Hop of each prefix, [`NO_HOP`] for none, in the order of a heap from 1 on.
    heap: Vec<u16>,
    /// For each value of the first 16 bits, the hop of the longest prefix, and its length.
    best: Vec<(u16, u8)>,
}

impl Short {
    pub(super) fn new() -> Self {
        Self { heap: vec![NO_HOP; 2 * ROOTS], best: vec![(NO_HOP, 0); ROOTS] }
    }

    /// The hop for a value where nothing longer matches.
    pub(super) fn best(&self, root: usize) -> u16 {
        self.best[root].0
    }

    fn place(place: Place) -> usize {
        (1 << place.len) + (place.root() >> (ROOT_BITS - place.len))
    }

    /// The hop of a prefix.
    pub(super) fn get(&self, place: Place) -> Option<u16> {
        Some(self.heap[Self::place(place)]).filter(|&hop| hop != NO_HOP)
    }

    /// Puts a prefix in, or takes it out; the hop that it had. Appends the values whose best hop
    /// is another now to `changed`.
    pub(super) fn set(
        &mut self,
        place: Place,
        hop: Option<u16>,
        changed: &mut Vec<usize>,
    ) -> Option<u16> {
        let mut at = Self::place(place);
        let old = self.get(place);
        self.heap[at] = hop.unwrap_or(NO_HOP);
        while at > 1 && self.heap[at] == NO_HOP {
            at >>= 1;
        }
        // The root of the heap says "none" by itself, at length 0.
        let cover = (self.heap[at], at.ilog2() as u8);
        let first = place.root();
        for root in first..first + (1 << (ROOT_BITS - place.len)) {
            let best = &mut self.best[root];
            if best.1 <= place.len && *best != cover {
                if best.0 != cover.0 {
                    changed.push(root);
                }
                *best = cover;
            }
        }
        old
    }

    pub(super) fn bytes(&self) -> usize {
        self.heap.len() * 2 + self.best.len() * size_of::<(u16, u8)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(addr: u32, len: u8) -> Place {
        Place::of(Prefix::new(addr, len).unwrap())
    }

    #[test]
    fn places_name_bytes_and_heaps() {
        let host = place(0x0a01_0203, 32);
        assert_eq!((host.root(), host.depth()), (0x0a01, 2));
        assert_eq!((host.byte(0), host.byte(1), host.end()), (2, 3, 0x103));
        let net = place(0x0a01_8000, 17);
        assert_eq!((net.depth(), net.end(), net.is_short()), (1, 3, false));
        assert!(place(0x0a01_0000, 16).is_short());
        let last = Place::of(Prefix::new(0xffu128, 128).unwrap());
        assert_eq!((last.depth(), last.byte(13), last.end()), (DEPTH_MAX, 0xff, 0x1ff));
    }

    #[test]
    fn longer_prefixes_cover_shorter_ones() {
        let mut node = Node { inherited: 7, ..Node::default() };
        assert_eq!(node.set(0x1ff, Some(3)), None);
        assert_eq!(node.set(3, Some(2)), None);
        assert_eq!(node.set(3, Some(1)), Some(2));
        let hops = node.hops();
        for (value, hop) in [(0, 7), (0x7f, 7), (0x80, 1), (0xfe, 1), (0xff, 3)] {
            assert_eq!(hops[value], hop, "{value}");
        }
        assert_eq!((node.set(3, None), node.set(3, None)), (Some(1), None));
        assert_eq!((node.get(0x1ff), node.get(3)), (Some(3), None));
    }

    #[test]
    fn short_prefixes_say_which_values_change() {
        let mut short = Short::new();
        let mut set = |addr, len, hop| {
            let mut changed = Vec::new();
            let old = short.set(place(addr, len), hop, &mut changed);
            (old, changed.len())
        };
        assert_eq!(set(0x0a01_0000, 16, Some(3)), (None, 1));
        assert_eq!(set(0, 0, Some(1)), (None, ROOTS - 1));
        assert_eq!(set(0x0a00_0000, 8, Some(1)), (None, 0), "the same hop");
        assert_eq!(set(0x0a00_0000, 8, Some(2)), (Some(1), 255));
        assert_eq!(set(0x0a01_0000, 16, None), (Some(3), 1));
        assert_eq!(set(0, 0, None), (Some(1), ROOTS - 256));
        assert_eq!((short.best(0x0a01), short.best(0)), (2, NO_HOP));
    }
}
