//! The writer's own view of the routes: which prefixes there are, per byte of the address.
//!
//! ```text
//! lengths 0 … 16    a heap: hop of prefix p of length l at (1 << l) + p, and each value's best
//! lengths 17 … 24   a node for each first 16 bits that have such prefixes
//! lengths 25 … 32   a node for each first 24 bits that have such prefixes, and so on
//! ```
//! A node knows its prefixes as 510 bits in the order of a heap, and their hops in that order.

use super::arena::Room;
use super::block::SLOTS;
use super::entry::Entry;

/// No node.
pub(crate) const NO_NODE: u32 = u32::MAX;

/// No route.
pub(crate) const NO_HOP: u16 = u16::MAX;

/// Bits of an address that the first step looks at.
pub(crate) const ROOT_BITS: u8 = 16;

/// Values of these bits.
pub(crate) const ROOTS: usize = 1 << ROOT_BITS;

/// Two bytes with so many prefixes or fewer may share a list: more of them hardly ever fit.
pub(crate) const MERGED_ENDS_MAX: usize = 21;

/// What a prefix weighs that forbids this.
pub(crate) const DEEP_WEIGHT: u16 = MERGED_ENDS_MAX as u16 + 1;

/// What block answers for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// None, or one that must be written anew.
    Not,
    /// None: the table of the first 24 bits does.
    InDir24,
    /// Its own.
    Own,
    /// Its own, for its children too, which have none then.
    Merged,
}

/// The prefixes that end in one byte of the address, below one value of the bytes before. Two cache
/// lines: a change waits for little else than nodes.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Node {
    /// Bit `(1 << l) + p` stands for the prefix whose last `l` bits, 1 to 8, are `p`.
    present: [u64; 8],
    /// Their hops, in the order of the bits.
    hops: Vec<u16>,
    /// Nodes of longer prefixes, by the value of this byte, in order.
    pub(crate) children: Vec<(u8, u32)>,
    /// What leads to the node's block, and the hop for what no prefix of it covers.
    pub(crate) entry: Entry,
    pub(crate) inherited: u16,
    /// Where the block lies; no words if the entry is a hop.
    pub(crate) room: Room,
    pub(crate) written: Written,
    /// How many nodes lead to it.
    pub(crate) depth: u8,
    /// What the prefixes below weigh together, kept for nodes that may be merged: 1 each that ends
    /// right below, [`DEEP_WEIGHT`] each that ends further down. The largest number stays.
    below: u16,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            present: [0; 8],
            hops: Vec::new(),
            children: Vec::new(),
            entry: Entry::hop(NO_HOP),
            inherited: NO_HOP,
            room: Room { at: 0, words: 0 },
            written: Written::Not,
            depth: 0,
            below: 0,
        }
    }
}

impl Node {
    /// Whether nothing ends here or below.
    pub(crate) fn is_empty(&self) -> bool {
        self.hops.is_empty() && self.children.is_empty()
    }

    /// A prefix of that weight came below.
    pub(crate) fn add_below(&mut self, weight: u16) {
        self.below = self.below.saturating_add(weight);
    }

    /// A prefix of that weight went.
    pub(crate) fn take_below(&mut self, weight: u16) {
        if self.below < u16::MAX {
            self.below -= weight;
        }
    }

    /// Whether it stands for the third byte of an address, and none follow.
    pub(crate) fn is_last_of_24_bits(&self) -> bool {
        self.depth == 0 && self.children.is_empty()
    }

    /// How many prefixes and nodes end in it or go on below.
    pub(crate) fn ends(&self) -> usize {
        self.hops.len() + self.children.len()
    }

    /// How many prefixes stand before heap place `at`, and whether one stands there.
    fn find(&self, at: usize) -> (usize, bool) {
        let (idx, bit) = (at / 64, at % 64);
        let before: u32 = self.present[..idx].iter().map(|word| word.count_ones()).sum();
        let here = self.present[idx] & ((1 << bit) - 1);
        ((before + here.count_ones()) as usize, self.present[idx] >> bit & 1 != 0)
    }

    /// Puts in the prefix whose last `len` bits, 1 to 8, begin `byte`; its hop before.
    pub(crate) fn insert(&mut self, byte: u8, len: u8, hop: u16) -> Option<u16> {
        let at = heap_place(byte, len);
        match self.find(at) {
            (rank, true) => Some(std::mem::replace(&mut self.hops[rank], hop)),
            (rank, false) => {
                self.present[at / 64] |= 1 << (at % 64);
                self.hops.insert(rank, hop);
                None
            }
        }
    }

    /// The hop of a prefix.
    pub(crate) fn get(&self, byte: u8, len: u8) -> Option<u16> {
        let (rank, is_there) = self.find(heap_place(byte, len));
        is_there.then(|| self.hops[rank])
    }

    /// Takes out a prefix; its hop.
    pub(crate) fn remove(&mut self, byte: u8, len: u8) -> Option<u16> {
        let at = heap_place(byte, len);
        let (rank, is_there) = self.find(at);
        is_there.then(|| {
            self.present[at / 64] &= !(1 << (at % 64));
            self.hops.remove(rank)
        })
    }

    /// The hop of each value of the byte, longer prefixes aside.
    pub(crate) fn slots(&self, inherited: u16) -> [u16; SLOTS] {
        let mut slots = [inherited; SLOTS];
        let mut hops = self.hops.iter();
        // Shorter prefixes come first, so longer ones overwrite them.
        for (idx, &word) in self.present[..4].iter().enumerate() {
            for bit in set_bits(word) {
                let at = 64 * idx + bit;
                let len = at.ilog2();
                let width = SLOTS >> len;
                let hop = hops.next().expect("a hop for each bit");
                slots[(at - (1 << len)) * width..][..width].fill(*hop);
            }
        }
        // Most prefixes are as long as they can be, and have one value each.
        for (values, &word) in slots.chunks_exact_mut(64).zip(&self.present[4..]) {
            for bit in set_bits(word) {
                values[bit] = *hops.next().expect("a hop for each bit");
            }
        }
        slots
    }

    /// The hop of one value of the byte, longer prefixes aside.
    pub(crate) fn slot(&self, byte: u8, inherited: u16) -> u16 {
        (1..=8).rev().find_map(|len| self.get(byte, len)).unwrap_or(inherited)
    }

    /// The prefixes: first value of the byte, length (1 to 8), hop.
    fn prefixes(&self) -> impl Iterator<Item = (u8, u8, u16)> + '_ {
        let words = self.present.iter().enumerate();
        let places = words.flat_map(|(idx, &word)| set_bits(word).map(move |bit| 64 * idx + bit));
        places.zip(&self.hops).map(|(at, &hop)| {
            let len = at.ilog2() as u8;
            (((at - (1 << len)) << (8 - len)) as u8, len, hop)
        })
    }

    /// The node below `byte`.
    pub(crate) fn child(&self, byte: u8) -> Option<u32> {
        let place = self.children.binary_search_by_key(&byte, |child| child.0).ok()?;
        Some(self.children[place].1)
    }

    /// Links a node below `byte`, where there is none.
    pub(crate) fn link(&mut self, byte: u8, node: u32) {
        let place = self.children.partition_point(|child| child.0 < byte);
        self.children.insert(place, (byte, node));
    }

    /// Unlinks the node below `byte`.
    pub(crate) fn unlink(&mut self, byte: u8) {
        self.children.retain(|child| child.0 != byte);
    }

    /// Bytes beside the node itself.
    fn bytes(&self) -> usize {
        self.hops.capacity() * 2 + self.children.capacity() * size_of::<(u8, u32)>()
    }
}

/// From `first` on it is `hop`, whatever was said of `first` before.
fn put_run(runs: &mut Vec<(u16, u16)>, first: u16, hop: u16) {
    match runs.last_mut() {
        Some(last) if last.0 == first => last.1 = hop,
        _ => runs.push((first, hop)),
    }
}

/// The places of set bits, in order.
#[inline(always)]
pub(crate) fn set_bits(word: u64) -> impl Iterator<Item = usize> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(bit)
    })
}

/// The place of the prefix whose last `len` bits, 1 to 8, begin `byte`.
fn heap_place(byte: u8, len: u8) -> usize {
    (1 << len) + (usize::from(byte) >> (8 - len))
}

/// The routes of length 0 to 16.
#[derive(Debug)]
pub(crate) struct Short {
    /// Hop of each prefix, [`NO_HOP`] for none, in the order of a heap from 1 on.
    heap: Vec<u16>,
    /// For each value of the first 16 bits, the hop of the longest prefix, and its length.
    best: Vec<(u16, u8)>,
}

impl Short {
    pub(crate) fn new() -> Self {
        Self { heap: vec![NO_HOP; 2 * ROOTS], best: vec![(NO_HOP, 0); ROOTS] }
    }

    /// The hop for a value where nothing longer matches.
    pub(crate) fn best(&self, root: usize) -> u16 {
        self.best[root].0
    }

    fn place(root: usize, len: u8) -> usize {
        (1 << len) + (root >> (ROOT_BITS - len))
    }

    /// The hop of a prefix.
    pub(crate) fn get(&self, root: usize, len: u8) -> Option<u16> {
        Some(self.heap[Self::place(root, len)]).filter(|&hop| hop != NO_HOP)
    }

    /// Puts in a prefix, or takes it out with [`NO_HOP`]. Its values' best ones are changed by
    /// [`Short::change_best`].
    pub(crate) fn set(&mut self, root: usize, len: u8, hop: u16) {
        self.heap[Self::place(root, len)] = hop;
    }

    /// Whether a prefix of length `len` is or would be the best one of `root`.
    pub(crate) fn is_best(&self, root: usize, len: u8) -> bool {
        self.best[root].1 <= len
    }

    /// The hop that the values of a prefix would have without it.
    pub(crate) fn above(&self, root: usize, len: u8) -> u16 {
        len.checked_sub(1).map_or(NO_HOP, |len| self.cover(root, len).0)
    }

    /// The hop and length that the values of a prefix have if nothing longer matches.
    pub(crate) fn cover(&self, root: usize, len: u8) -> (u16, u8) {
        let mut place = Self::place(root, len);
        while place > 0 {
            if self.heap[place] != NO_HOP {
                return (self.heap[place], place.ilog2() as u8);
            }
            place >>= 1;
        }
        (NO_HOP, 0)
    }

    /// Tells `root` that a prefix of length `len` over it came, went or has another hop; whether
    /// its best one changes.
    pub(crate) fn change_best(&mut self, root: usize, len: u8, cover: (u16, u8)) -> bool {
        let best = &mut self.best[root];
        let changes = best.1 <= len && *best != cover;
        if changes {
            *best = cover;
        }
        changes
    }

    fn bytes(&self) -> usize {
        self.heap.capacity() * 2 + self.best.capacity() * size_of::<(u16, u8)>()
    }
}

/// All nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    list: Vec<Node>,
    free: Vec<u32>,
    roots: Vec<u32>,
    /// Bytes beside the nodes, as of the last change of each.
    bytes_beside: usize,
}

impl Nodes {
    pub(crate) fn new() -> Self {
        let roots = vec![NO_NODE; ROOTS];
        Self { list: Vec::new(), free: Vec::new(), roots, bytes_beside: 0 }
    }

    pub(crate) fn root(&self, root: usize) -> Option<u32> {
        Some(self.roots[root]).filter(|&node| node != NO_NODE)
    }

    pub(crate) fn set_root(&mut self, root: usize, node: u32) {
        self.roots[root] = node;
    }

    pub(crate) fn get(&self, node: u32) -> &Node {
        &self.list[node as usize]
    }

    pub(crate) fn get_mut(&mut self, node: u32) -> &mut Node {
        &mut self.list[node as usize]
    }

    /// Changes a node, keeping account of its bytes.
    pub(crate) fn change<R>(&mut self, node: u32, change: impl FnOnce(&mut Node) -> R) -> R {
        let node = &mut self.list[node as usize];
        let before = node.bytes();
        let result = change(node);
        self.bytes_beside = self.bytes_beside + node.bytes() - before;
        result
    }

    /// Whether at most [`MERGED_ENDS_MAX`] prefixes end in `node` and right below, and none deeper.
    pub(crate) fn has_few_ends(&self, node: u32) -> bool {
        let node = self.get(node);
        node.hops.len() + usize::from(node.below) <= MERGED_ENDS_MAX
    }

    /// The runs of the two bytes that `node` and its children look at, as first value and hop, if
    /// they have few prefixes. Whether they have.
    pub(crate) fn merge(&self, node: u32, inherited: u16, runs: &mut Vec<(u16, u16)>) -> bool {
        if !self.has_few_ends(node) {
            return false;
        }
        let node = self.get(node);
        // First value, length and hop; shorter ones come first, so that longer ones lie in them.
        let mut prefixes = [(0u16, 0u8, 0u16); MERGED_ENDS_MAX];
        let own = node.prefixes().map(|(byte, len, hop)| (u16::from(byte) << 8, len, hop));
        let below = node.children.iter().flat_map(|&(at, child)| {
            let first = u16::from(at) << 8;
            let prefixes = self.get(child).prefixes();
            prefixes.map(move |(byte, len, hop)| (first | u16::from(byte), 8 + len, hop))
        });
        let mut ends = 0;
        for (place, prefix) in prefixes.iter_mut().zip(own.chain(below)) {
            *place = prefix;
            ends += 1;
        }
        let prefixes = &mut prefixes[..ends];
        prefixes.sort_unstable();
        runs.clear();
        runs.push((0, inherited));
        // Prefixes that the sweep is in, each longer than the last: where it ends, and its hop.
        let mut open = [(0u32, 0u16); 16];
        let mut depth = 0;
        let leave = |runs: &mut Vec<_>, open: &[(u32, u16)], depth: &mut usize, at: u32| {
            while *depth > 0 && open[*depth - 1].0 <= at {
                let end = open[*depth - 1].0;
                *depth -= 1;
                let hop = depth.checked_sub(1).map_or(inherited, |outer| open[outer].1);
                if let Ok(end) = u16::try_from(end) {
                    put_run(runs, end, hop);
                }
            }
        };
        for &(first, len, hop) in prefixes.iter() {
            leave(runs, &open, &mut depth, u32::from(first));
            put_run(runs, first, hop);
            open[depth] = (u32::from(first) + (1 << (16 - len)), hop);
            depth += 1;
        }
        leave(runs, &open, &mut depth, 1 << 16);
        runs.dedup_by_key(|run| run.1);
        true
    }

    /// An empty node, to which `depth` others lead.
    pub(crate) fn add(&mut self, depth: u8) -> u32 {
        if let Some(node) = self.free.pop() {
            self.get_mut(node).depth = depth;
            return node;
        }
        self.list.push(Node { depth, ..Node::default() });
        u32::try_from(self.list.len() - 1).expect("fewer nodes than words of an arena")
    }

    /// Bytes that adding `count` nodes, and a prefix to one, can take at most.
    pub(crate) fn growth(&self, count: usize) -> usize {
        let has_room = self.list.len() + count <= self.list.capacity() + self.free.len();
        let more = if has_room { 0 } else { self.list.capacity().max(count) };
        // Lists within nodes double, too: hops of a full node, and links from one to the next.
        more * size_of::<Node>() + 2 * 512 + count * 8 * size_of::<(u8, u32)>()
    }

    /// Gives back a node; where its block lay.
    pub(crate) fn drop(&mut self, node: u32) -> Room {
        let room = self.get(node).room;
        self.change(node, |node| *node = Node::default());
        self.free.push(node);
        room
    }

    /// Nodes in use.
    pub(crate) fn len(&self) -> usize {
        self.list.len() - self.free.len()
    }

    pub(crate) fn bytes(&self, short: &Short) -> usize {
        let lists = self.list.capacity() * size_of::<Node>() + self.free.capacity() * 4;
        lists + self.roots.capacity() * 4 + self.bytes_beside + short.bytes()
    }
}

const _: () = assert!(size_of::<Node>() == 128, "two cache lines");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_keeps_prefixes_and_their_hops_together() {
        let mut node = Node::default();
        assert_eq!(node.insert(0x80, 1, 10), None);
        assert_eq!(node.insert(0xff, 8, 12), None);
        assert_eq!(node.insert(0xc0, 2, 11), None);
        assert_eq!(node.insert(0xc0, 2, 13), Some(11));
        let slots = node.slots(7);
        for (slot, hop) in [(0, 7), (0x7f, 7), (0x80, 10), (0xc0, 13), (0xfe, 13), (0xff, 12)] {
            assert_eq!(slots[slot], hop, "slot {slot:#x}");
        }
        assert_eq!((node.get(0x80, 1), node.get(0, 1)), (Some(10), None));
        assert_eq!((node.remove(0x80, 1), node.remove(0x80, 1)), (Some(10), None));
        assert_eq!(node.slots(7)[0x80], 7);
        assert!(!node.is_empty());
    }

    #[test]
    fn short_prefixes_cover_what_longer_ones_leave() {
        let mut short = Short::new();
        for (root, len, hop) in [(0, 0, 1), (0x0a00, 8, 2), (0x0a01, 16, 3)] {
            short.set(root, len, hop);
            let width = 1 << (ROOT_BITS - len);
            for value in root..root + width {
                short.change_best(value, len, (hop, len));
            }
        }
        assert_eq!([0, 0x0a00, 0x0a01].map(|root| short.best(root)), [1, 2, 3]);
        short.set(0x0a01, 16, NO_HOP);
        assert_eq!(short.cover(0x0a01, 16), (2, 8));
        assert!(short.change_best(0x0a01, 16, (2, 8)));
        assert!(!short.change_best(0x0a01, 16, (2, 8)));
        assert_eq!(short.best(0x0a01), 2);
    }
}
