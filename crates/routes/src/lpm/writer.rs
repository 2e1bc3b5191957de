//! Changes: from the routes to the blocks that lookups read.
//!
//! A change touches one node, or those below a short prefix. Each gets a new block beside its old
//! one; one store of an entry publishes it, in the block above or among the first entries; then the
//! old block is put aside until its readers have left.
//!
//! # Invariants
//! - W1: a lookup's answer depends on one entry that a change replaces with one store, so it is the
//!   one before or the one after.
//! - W2: a block is retired after the store that makes it unreachable.
//! - W3: room is made sure of before the first store; a change that begins is finished.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpswitch_packet::sync::Epochs;

use super::arena::{Arena, Room, rounded};
use super::block::{Block, SLOTS};
use super::entry::{Entry, INNER};
use super::rib::{NO_HOP, NO_NODE, Nodes, ROOT_BITS, ROOTS, Short};
use crate::address::Address;
use crate::arch::pages::{self, SharedWords};
use crate::error::RouteError;
use crate::prefix::Prefix;

/// The most nodes between the first entries and a prefix: bytes 3 to 16 of an IPv6 address.
const DEPTH_MAX: usize = 14;

/// How many blocks are put aside before the writer looks which are free.
const RETIRED_LEN: usize = 64;

/// Room that is left free at least when everything is written anew.
const SPARE_WORDS: usize = 1 << 13;

/// Nodes from the first one down to the one that a prefix belongs to.
#[derive(Debug, Default)]
struct Path {
    nodes: [u32; DEPTH_MAX],
    len: usize,
    /// How many of them were there before.
    known: usize,
}

impl Path {
    fn as_slice(&self) -> &[u32] {
        &self.nodes[..self.len]
    }
}

/// The place of a prefix: first 16 bits, then bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    left: u128,
    len: u8,
}

impl Place {
    fn of<A: Address>(prefix: Prefix<A>) -> Self {
        Self { left: prefix.addr().to_left(), len: prefix.len() }
    }

    fn root(self) -> usize {
        (self.left >> (128 - ROOT_BITS)) as usize
    }

    /// The byte that the node at `depth` (0 for the first) looks at.
    fn byte(self, depth: usize) -> u8 {
        (self.left >> (104 - 8 * depth)) as u8
    }

    /// How many nodes lead to it, itself with them.
    fn depth(self) -> usize {
        usize::from(self.len - ROOT_BITS).div_ceil(8)
    }

    /// Bits of the prefix in its node's byte, 1 to 8.
    fn len_in_node(self) -> u8 {
        (self.len - ROOT_BITS - 1) % 8 + 1
    }
}

/// All that changes need. One at a time.
#[derive(Debug)]
pub(crate) struct Writer {
    short: Short,
    nodes: Nodes,
    arena: Arena,
    words: Arc<SharedWords>,
    routes: usize,
    block: Block,
    /// Blocks that the next store makes unreachable.
    unlinked: Vec<Room>,
    bytes_max: usize,
}

impl Writer {
    /// No routes, and words that say so.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let words = Arc::new(SharedWords::zeroed(ROOTS + SPARE_WORDS));
        let arena = Arena::new(ROOTS, words.len());
        let short = Short::new();
        let writer = Self {
            short,
            nodes: Nodes::new(),
            arena,
            words,
            routes: 0,
            block: Block::default(),
            unlinked: Vec::new(),
            bytes_max,
        };
        (0..ROOTS).for_each(|root| writer.publish_root(root, Entry::hop(NO_HOP)));
        writer
    }

    pub(crate) fn routes(&self) -> usize {
        self.routes
    }

    /// The words that lookups read. [`Writer::make_room`] replaces them.
    pub(crate) fn words(&self) -> &Arc<SharedWords> {
        &self.words
    }

    /// Bytes of all that lookups and changes use.
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * 8 + self.bytes_beside()
    }

    /// Bytes of the words that lookups can reach.
    pub(crate) fn bytes_live(&self) -> usize {
        (ROOTS + self.arena.live_words()) * 8
    }

    /// Nodes of the structure.
    pub(crate) fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    fn bytes_beside(&self) -> usize {
        self.nodes.bytes(&self.short) + self.arena.bytes()
    }

    /// The hop of exactly this prefix.
    pub(crate) fn get<A: Address>(&self, prefix: Prefix<A>) -> Option<u16> {
        let place = Place::of(prefix);
        if place.len <= ROOT_BITS {
            return self.short.get(place.root(), place.len);
        }
        let path = self.path(place);
        let node = *path.as_slice().get(place.depth() - 1)?;
        self.nodes.get(node).get(place.byte(place.depth() - 1), place.len_in_node())
    }

    /// Puts in a route before anything is published; see [`Writer::write_anew`].
    ///
    /// # Errors
    /// The bound is passed by the routes alone.
    pub(crate) fn enter<A: Address>(
        &mut self,
        prefix: Prefix<A>,
        hop: u16,
    ) -> Result<(), RouteError> {
        let place = Place::of(prefix);
        let old = if place.len <= ROOT_BITS {
            self.set_short(place, hop, |_, _| {})
        } else {
            self.enter_long(place, hop).1
        };
        self.routes += usize::from(old.is_none());
        let bytes = self.bytes_beside();
        if bytes > self.bytes_max {
            return Err(RouteError::memory_bound(bytes, self.bytes_max));
        }
        Ok(())
    }

    /// Puts in a route; the hop that its prefix had. Room was made.
    pub(crate) fn insert<A: Address>(
        &mut self,
        prefix: Prefix<A>,
        hop: u16,
        epochs: &Epochs,
    ) -> Option<u16> {
        let place = Place::of(prefix);
        let old = if place.len <= ROOT_BITS {
            self.set_short(place, hop, |writer, root| writer.refresh_root(root, epochs))
        } else {
            let (path, old) = self.enter_long(place, hop);
            // A new node is reached through the lowest one that was there.
            let level = path.known.max(1) - 1;
            if old != Some(hop) {
                self.refresh_at(place, &path, level, epochs);
            }
            old
        };
        self.routes += usize::from(old.is_none());
        old
    }

    /// Takes out a route; its hop. Room was made.
    pub(crate) fn remove<A: Address>(&mut self, prefix: Prefix<A>, epochs: &Epochs) -> Option<u16> {
        let place = Place::of(prefix);
        let old = if place.len <= ROOT_BITS {
            let old = self.short.get(place.root(), place.len)?;
            self.set_short(place, NO_HOP, |writer, root| writer.refresh_root(root, epochs));
            old
        } else {
            self.remove_long(place, epochs)?
        };
        self.routes -= 1;
        Some(old)
    }

    /// Sets the hop of a short prefix, and calls `changed` for each of its values whose best one is
    /// another now. The hop before.
    fn set_short(
        &mut self,
        place: Place,
        hop: u16,
        mut changed: impl FnMut(&mut Self, usize),
    ) -> Option<u16> {
        let (first, len) = (place.root(), place.len);
        let old = self.short.get(first, len);
        self.short.set(first, len, hop);
        let cover = self.short.cover(first, len);
        for root in first..first + (1 << (ROOT_BITS - len)) {
            if self.short.change_best(root, len, cover) {
                changed(self, root);
            }
        }
        old
    }

    /// The nodes on the way to `place` that are there.
    fn path(&self, place: Place) -> Path {
        let mut path = Path::default();
        let mut next = self.nodes.root(place.root());
        while let Some(node) = next {
            path.nodes[path.len] = node;
            path.len += 1;
            if path.len == place.depth() {
                break;
            }
            next = self.nodes.get(node).child(place.byte(path.len - 1));
        }
        path.known = path.len;
        path
    }

    /// Puts a long prefix into its node, which is made if need be.
    fn enter_long(&mut self, place: Place, hop: u16) -> (Path, Option<u16>) {
        let mut path = self.path(place);
        while path.len < place.depth() {
            let node = self.nodes.add();
            match path.len.checked_sub(1) {
                None => self.nodes.set_root(place.root(), node),
                Some(above) => {
                    let link =
                        |above: &mut super::rib::Node| above.link(place.byte(path.len - 1), node);
                    self.nodes.change(path.nodes[above], link);
                }
            }
            path.nodes[path.len] = node;
            path.len += 1;
        }
        let byte = place.byte(path.len - 1);
        let insert = |node: &mut super::rib::Node| node.insert(byte, place.len_in_node(), hop);
        let old = self.nodes.change(path.nodes[path.len - 1], insert);
        (path, old)
    }

    fn remove_long(&mut self, place: Place, epochs: &Epochs) -> Option<u16> {
        let path = self.path(place);
        let node = *path.as_slice().get(place.depth() - 1)?;
        let byte = place.byte(path.len - 1);
        let old = self.nodes.change(node, |node| node.remove(byte, place.len_in_node()))?;
        let mut level = path.len - 1;
        while self.nodes.get(path.nodes[level]).is_empty() {
            let room = self.nodes.drop(path.nodes[level]);
            self.unlink_room(room);
            if level == 0 {
                self.nodes.set_root(place.root(), NO_NODE);
                self.publish_root(place.root(), Entry::hop(self.short.best(place.root())));
                self.retire(epochs);
                return Some(old);
            }
            level -= 1;
            self.nodes.change(path.nodes[level], |node| node.unlink(place.byte(level)));
        }
        self.refresh_at(place, &path, level, epochs);
        Some(old)
    }

    /// Writes the block of the node at `level` of `path`, and publishes it.
    fn refresh_at(&mut self, place: Place, path: &Path, level: usize, epochs: &Epochs) {
        if level == 0 {
            return self.refresh_root(place.root(), epochs);
        }
        let node = path.nodes[level];
        let entry = self.refresh(node, self.nodes.get(node).inherited);
        let above = self.nodes.get(path.nodes[level - 1]).entry;
        debug_assert!(above.0 & INNER != 0, "it has a child");
        let value = above.value_of(&self.words, place.byte(level - 1));
        // Partner: the load of an inner block's entry in a lookup.
        self.words[above.at() + value].store(entry.0, Ordering::Release);
        self.retire(epochs);
    }

    /// Writes the first node below `root`, if there is one, and publishes what `root` leads to.
    fn refresh_root(&mut self, root: usize, epochs: &Epochs) {
        let entry = self.root_entry(root);
        self.publish_root(root, entry);
        self.retire(epochs);
    }

    fn root_entry(&mut self, root: usize) -> Entry {
        let best = self.short.best(root);
        match self.nodes.root(root) {
            Some(node) => self.refresh(node, best),
            None => Entry::hop(best),
        }
    }

    fn publish_root(&self, root: usize, entry: Entry) {
        // Partner: the load of the first entry in a lookup.
        self.words[root].store(entry.0, Ordering::Release);
    }

    /// Writes the block of `node`, where `inherited` is the hop of what its prefixes do not cover,
    /// and of those below that are new or inherit another hop now. The entry that leads there.
    ///
    /// Recursion: at most as deep as an address has bytes.
    fn refresh(&mut self, node: u32, inherited: u16) -> Entry {
        let slots = self.nodes.get(node).slots(inherited);
        for idx in 0..self.nodes.get(node).children.len() {
            let (slot, child) = self.nodes.get(node).children[idx];
            let hop = slots[usize::from(slot)];
            if self.nodes.get(child).is_new || self.nodes.get(child).inherited != hop {
                self.refresh(child, hop);
            }
        }
        let (entry, room) = self.write_block(node, &slots);
        let node = self.nodes.get_mut(node);
        let old = std::mem::replace(&mut node.room, room);
        node.entry = entry;
        node.inherited = inherited;
        node.is_new = false;
        self.unlink_room(old);
        entry
    }

    fn write_block(&mut self, node: u32, slots: &[u16; SLOTS]) -> (Entry, Room) {
        let nodes = &self.nodes;
        let children = nodes.get(node).children.iter();
        let children = children.map(|&(slot, child)| (slot, nodes.get(child).entry));
        if let Some(hop) = self.block.plan(slots, children) {
            return (Entry::hop(hop), Room { at: 0, words: 0 });
        }
        let words = self.block.words();
        let room = self.arena.take(words.len());
        let at = room.at as usize;
        for (slot, &word) in self.words[at..].iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        (self.block.entry(at), room)
    }

    fn unlink_room(&mut self, room: Room) {
        if room.words > 0 {
            self.unlinked.push(room);
        }
    }

    /// Puts aside what the last store made unreachable.
    fn retire(&mut self, epochs: &Epochs) {
        let epoch = epochs.now();
        for room in self.unlinked.drain(..) {
            self.arena.retire(room, epoch);
        }
        if self.arena.retired_len() >= RETIRED_LEN {
            self.arena.reclaim(epochs.advance());
        }
    }

    /// Makes sure that `prefix` can be changed, writing everything anew if need be: then
    /// [`Writer::words`] are others, and `true` is returned.
    ///
    /// # Errors
    /// The bound forbids it; nothing was changed.
    pub(crate) fn make_room<A: Address>(&mut self, prefix: Prefix<A>) -> Result<bool, RouteError> {
        let need = self.need(Place::of(prefix));
        if self.arena.has_room(need) {
            return Ok(false);
        }
        self.write_anew(need)?;
        Ok(true)
    }

    /// Words that changing a prefix can take at most.
    fn need(&self, place: Place) -> usize {
        if place.len <= ROOT_BITS {
            let roots = place.root()..place.root() + (1 << (ROOT_BITS - place.len));
            let nodes = roots.filter_map(|root| self.nodes.root(root));
            return nodes.map(|node| self.need_below(node)).sum();
        }
        let path = self.path(place);
        let known = path.as_slice().last().map_or(0, |&node| self.need_below(node));
        // A new node has one prefix or one child: three runs at most.
        known + DEPTH_MAX * rounded(4 + 3) + rounded(SLOTS.min(8))
    }

    /// Words that the blocks of `node` and those below can take after one more prefix.
    fn need_below(&self, node: u32) -> usize {
        let node = self.nodes.get(node);
        // A word of a leaf has four values, each of which may become an entry; a prefix adds two.
        let own = 4 * usize::from(node.room.words) + 4 + 4;
        own + node.children.iter().map(|child| self.need_below(child.1)).sum::<usize>()
    }

    /// Writes everything into new words, with room for `need` more.
    ///
    /// # Errors
    /// The bound forbids it; nothing was changed.
    pub(crate) fn write_anew(&mut self, need: usize) -> Result<(), RouteError> {
        let live = self.measure();
        let room = live + live / 2 + need + SPARE_WORDS;
        let words = pages::whole_pages(ROOTS + room);
        let bytes = words * 8 + self.bytes_beside();
        if bytes > self.bytes_max || u32::try_from(words).is_err() {
            return Err(RouteError::memory_bound(bytes, self.bytes_max));
        }
        self.words = Arc::new(SharedWords::zeroed(words));
        self.arena = Arena::new(ROOTS, words);
        for root in 0..ROOTS {
            self.forget_blocks(self.nodes.root(root));
            let entry = self.root_entry(root);
            self.publish_root(root, entry);
        }
        Ok(())
    }

    /// Words that all blocks take.
    fn measure(&mut self) -> usize {
        let mut words = 0;
        let mut block = Block::default();
        for root in 0..ROOTS {
            if let Some(node) = self.nodes.root(root) {
                words += self.measure_below(node, self.short.best(root), &mut block);
            }
        }
        words
    }

    fn measure_below(&self, node: u32, inherited: u16, block: &mut Block) -> usize {
        let node = self.nodes.get(node);
        let slots = node.slots(inherited);
        let children = node.children.iter().map(|&(slot, _)| (slot, Entry(0)));
        let own = match block.plan(&slots, children) {
            Some(_) => 0,
            None => rounded(block.words().len()),
        };
        let below = |&(slot, child): &(u8, u32)| {
            self.measure_below(child, slots[usize::from(slot)], &mut Block::default())
        };
        own + node.children.iter().map(below).sum::<usize>()
    }

    /// Makes nodes forget blocks of words that are no longer used.
    fn forget_blocks(&mut self, node: Option<u32>) {
        let Some(node) = node else { return };
        let children = std::mem::take(&mut self.nodes.get_mut(node).children);
        for (_, child) in &children {
            self.forget_blocks(Some(*child));
        }
        let node = self.nodes.get_mut(node);
        node.children = children;
        node.room = Room { at: 0, words: 0 };
        node.is_new = true;
    }
}
