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

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpswitch_packet::pages::{self, SharedWords};
use warpswitch_packet::sync::Epochs;

use super::arena::{Arena, GRAIN, LINE_GRAIN, Room};
use super::block::{
    BEHIND_WORDS, BLOCK_WORDS_MAX, Block, PAIR_RUNS_MAX, PAIRS_WORDS_MAX, SLOTS, TABLE_DEPTH,
    list_runs_max,
};
use super::entry::{
    Entry, FLAT_LEN, Format, INNER, Image, LEAF, LINE_WORDS, NO_BYTE, direct_words, flat_bits,
    flat_idx,
};
use super::place::{DEPTH_MAX, Path, Place, one, table_above};
use super::rib::{MERGED_ENDS_MAX, NO_HOP, NO_NODE, Node, Nodes, ROOT_BITS, ROOTS, Short, Written};
use crate::address::Address;
use crate::error::RouteError;
use crate::prefix::Prefix;

/// Words that one change of a long prefix takes at most where nothing lies below its node: the
/// blocks of all nodes on the way and, of a list that is given up, those of the nodes in it.
const NEED_MAX: usize =
    (DEPTH_MAX + 2 + MERGED_ENDS_MAX) * BLOCK_WORDS_MAX.next_multiple_of(LINE_GRAIN);

/// How many blocks more are put aside before the writer looks which are free.
const RETIRED_LEN: usize = 256;

/// Room that is left free at least when everything is written anew.
const SPARE_WORDS: usize = 1 << 13;

/// Words behind the last block: a vector load of a hop takes four bytes from where it stands, and
/// what looks for no list reads the last line.
const SLACK_WORDS: usize = LINE_WORDS;

/// What the places in entries reach; offsets of bytes must be below 2^31, too.
const WORDS_MAX: usize = 1 << 28;

/// A value of the first 16 bits gets a flat table if so many prefixes or nodes lie in the next two
/// bytes; at most so many values.
const FLAT_ENDS_MIN: usize = 64;
const FLATS_MAX: usize = 128;

/// Whether a hop needs 16 bits in a leaf.
fn is_wide(hop: u16) -> bool {
    hop != NO_HOP && hop >= u16::from(NO_BYTE)
}

/// All that changes need. One at a time.
#[derive(Debug)]
pub(crate) struct Writer {
    short: Short,
    nodes: Nodes,
    arena: Arena,
    image: Arc<Image>,
    routes: usize,
    /// Routes whose hop does not fit 8 bits.
    wide_hops: usize,
    block: Block,
    /// Runs of the node that is being merged.
    runs: Vec<(u16, u16)>,
    /// What blocks are a multiple of, in words.
    grain: usize,
    /// How many blocks may be put aside before the next look at which are free.
    reclaim_at: usize,
    /// Blocks that the next store makes unreachable.
    unlinked: Vec<Room>,
    bytes_max: usize,
    /// Whether images are plain if they may be so large.
    wants_plain: bool,
    /// The most flat tables; none for IPv4, where all would be leaves.
    flats_max: usize,
    /// Where flat tables begin, by the value of the first 16 bits.
    flats: BTreeMap<usize, usize>,
}

impl Writer {
    /// No routes of addresses of `addr_bits`, and words that say so.
    pub(crate) fn new(bytes_max: usize, addr_bits: u8, wants_plain: bool) -> Self {
        let words = SharedWords::zeroed(ROOTS + SPARE_WORDS);
        let is_long = addr_bits > 32;
        let grain = if is_long { LINE_GRAIN } else { GRAIN };
        let arena = Arena::new(ROOTS, words.len() - SLACK_WORDS, grain);
        let short = Short::new();
        let writer = Self {
            short,
            nodes: Nodes::new(),
            arena,
            image: Arc::new(Image { words, format: Format { is_narrow: true, is_plain: false } }),
            routes: 0,
            wide_hops: 0,
            block: Block::default(),
            runs: Vec::new(),
            grain,
            reclaim_at: RETIRED_LEN,
            unlinked: Vec::new(),
            bytes_max,
            wants_plain: wants_plain && !is_long,
            flats_max: if is_long { FLATS_MAX } else { 0 },
            flats: BTreeMap::new(),
        };
        (0..ROOTS).for_each(|root| writer.publish_root(root, Entry::hop(NO_HOP)));
        writer
    }

    pub(crate) fn routes(&self) -> usize {
        self.routes
    }

    /// What lookups read. [`Writer::make_room`] replaces it.
    pub(crate) fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// Bytes of all that lookups and changes use.
    pub(crate) fn bytes(&self) -> usize {
        self.image.words.len() * 4 + self.bytes_beside()
    }

    /// Bytes of the words that lookups can reach.
    pub(crate) fn bytes_live(&self) -> usize {
        (ROOTS + self.flats.len() * FLAT_LEN + self.arena.live_words()) * 4
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
        self.count(old, Some(hop));
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
        self.count(old, Some(hop));
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
        self.count(Some(old), None);
        Some(old)
    }

    /// Keeps account of a prefix whose hop was `old` and is `new`.
    fn count(&mut self, old: Option<u16>, new: Option<u16>) {
        let wide = |hop: Option<u16>| usize::from(hop.is_some_and(is_wide));
        self.routes = self.routes + usize::from(new.is_some()) - usize::from(old.is_some());
        self.wide_hops = self.wide_hops + wide(new) - wide(old);
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
            let node = self.nodes.add(path.len as u8);
            match path.len.checked_sub(1) {
                None => self.nodes.set_root(place.root(), node),
                Some(above) => {
                    let link = |above: &mut Node| above.link(place.byte(path.len - 1), node);
                    self.nodes.change(path.nodes[above], link);
                }
            }
            path.nodes[path.len] = node;
            path.len += 1;
        }
        let byte = place.byte(path.len - 1);
        let insert = |node: &mut Node| node.insert(byte, place.len_in_node(), hop);
        let old = self.nodes.change(path.nodes[path.len - 1], insert);
        if let Some((table, weight)) = table_above(&path).filter(|_| old.is_none()) {
            self.nodes.get_mut(table).add_below(weight);
        }
        (path, old)
    }

    fn remove_long(&mut self, place: Place, epochs: &Epochs) -> Option<u16> {
        let path = self.path(place);
        let node = *path.as_slice().get(place.depth() - 1)?;
        let byte = place.byte(path.len - 1);
        let old = self.nodes.change(node, |node| node.remove(byte, place.len_in_node()))?;
        if let Some((table, weight)) = table_above(&path) {
            self.nodes.get_mut(table).take_below(weight);
        }
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
        let table = usize::from(TABLE_DEPTH);
        // What lies below a merged node has no block of its own.
        let level = if level == table + 1 && self.may_be_merged(path.nodes[table]) {
            self.nodes.get_mut(path.nodes[level]).written = Written::Not;
            table
        } else {
            level
        };
        let flat = self.flats.get(&place.root()).copied();
        match flat {
            Some(at) if level < 2 && path.known > 0 => {
                // Below the lowest node that stays, no others change than the prefix's own.
                let own = |level: usize| match place.depth() - 1 {
                    last if last == level => place.bytes_in(level),
                    _ => one(place.byte(level)),
                };
                let second = if place.depth() == 1 { 0..SLOTS } else { own(1) };
                let inherited = self.short.best(place.root());
                self.refresh_flat(path.nodes[0], inherited, at, own(0), second);
                return self.retire(epochs);
            }
            _ if level == 0 => return self.refresh_root(place.root(), epochs),
            _ => {}
        }
        let node = path.nodes[level];
        let entry = self.refresh(node, self.nodes.get(node).inherited);
        if let Some(at) = flat.filter(|_| level == 2) {
            self.publish(at + flat_idx((place.left >> 96) as u16), entry);
            return self.retire(epochs);
        }
        let mut above = self.nodes.get(path.nodes[level - 1]).entry;
        if above.0 & LEAF != 0 {
            above = self.image.behind(above);
        }
        debug_assert!(above.0 & INNER != 0, "it has a child");
        let value = above.entry_of(&self.image.words, place.byte(level - 1));
        self.publish(value, entry);
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
        match (self.nodes.root(root), self.flats.get(&root)) {
            (Some(node), Some(&at)) => {
                self.fill_flat(node, best, at);
                Entry::flat(at)
            }
            (Some(node), None) => self.refresh(node, best),
            (None, _) => Entry::hop(best),
        }
    }

    fn publish_root(&self, root: usize, entry: Entry) {
        self.publish(root, entry);
    }

    /// Replaces the entry at word `at`.
    fn publish(&self, at: usize, entry: Entry) {
        // Partner: the load of an entry in a lookup.
        self.image.words[at].store(entry.0, Ordering::Release);
    }

    /// Writes all entries of the flat table that begins at `at`, whose node is `node`.
    fn fill_flat(&mut self, node: u32, inherited: u16, at: usize) {
        let slots = self.flat_slots(node, inherited);
        let mut entries = Vec::with_capacity(FLAT_LEN);
        for (byte, &hop) in slots.iter().enumerate() {
            entries.extend(self.flat_part(node, byte as u8, hop));
        }
        // In the table's order: in the other one, lines of one set of the cache follow each other.
        for idx in 0..FLAT_LEN {
            self.put_entry(at + idx, entries[flat_bits(idx)]);
        }
    }

    /// Writes the entries of some first and second bytes into the flat table that begins at `at`,
    /// whose node is `node`.
    fn refresh_flat(
        &mut self,
        node: u32,
        inherited: u16,
        at: usize,
        bytes: Range<usize>,
        second: Range<usize>,
    ) {
        let slots = self.flat_slots(node, inherited);
        for byte in bytes {
            let entries = self.flat_part(node, byte as u8, slots[byte]);
            for second in second.clone() {
                self.put_entry(at + flat_idx((SLOTS * byte + second) as u16), entries[second]);
            }
        }
    }

    /// What the first bytes of a flat table inherit, whose node is `node`.
    fn flat_slots(&mut self, node: u32, inherited: u16) -> [u16; SLOTS] {
        let node = self.nodes.get_mut(node);
        node.inherited = inherited;
        node.written = Written::Own;
        node.slots(inherited)
    }

    /// The entries of the second byte of a flat table, whose node is `top`, below one value of the
    /// first.
    fn flat_part(&mut self, top: u32, byte: u8, inherited: u16) -> [Entry; SLOTS] {
        let Some(node) = self.nodes.get(top).child(byte) else {
            return [Entry::hop(inherited); SLOTS];
        };
        let slots = self.nodes.get(node).slots(inherited);
        self.refresh_children(node, &slots);
        let entries = self.entries(self.nodes.get(node), &slots);
        let node = self.nodes.get_mut(node);
        node.inherited = inherited;
        node.written = Written::Own;
        entries
    }

    /// Replaces the entries from word `at` on that are others.
    fn put_entries(&self, at: usize, entries: [Entry; SLOTS]) {
        for (at, entry) in (at..).zip(entries) {
            self.put_entry(at, entry);
        }
    }

    /// Replaces the entry at word `at` if it is another.
    #[inline(always)]
    fn put_entry(&self, at: usize, entry: Entry) {
        let word = &self.image.words[at];
        if word.load(Ordering::Relaxed) != entry.0 {
            // Partner: the load of an entry in a lookup.
            word.store(entry.0, Ordering::Release);
        }
    }

    /// Writes the block of `node`, where `inherited` is the hop of what its prefixes do not cover,
    /// and of those below that are new or inherit another hop now. The entry that leads there.
    ///
    /// Recursion: at most as deep as an address has bytes.
    fn refresh(&mut self, node: u32, inherited: u16) -> Entry {
        let is_merged = self.merge(node, inherited);
        let hop = if is_merged {
            self.forget_children(node);
            self.block.plan_list(&self.runs, self.image.format.is_narrow)
        } else {
            let slots = self.nodes.get(node).slots(inherited);
            self.refresh_children(node, &slots);
            if let Some(entry) = self.refresh_table(node, &slots) {
                let node = self.nodes.get_mut(node);
                node.inherited = inherited;
                node.written = Written::Own;
                return entry;
            }
            self.plan(node, &slots)
        };
        let (entry, room) = match hop {
            Some(hop) => (Entry::hop(hop), Room { at: 0, words: 0 }),
            None => self.write_block(),
        };
        let node = self.nodes.get_mut(node);
        let old = std::mem::replace(&mut node.room, room);
        node.entry = entry;
        node.inherited = inherited;
        node.written = if is_merged { Written::Merged } else { Written::Own };
        self.unlink_room(old);
        entry
    }

    /// Writes the children of `node` that are new or whose slot has another hop now.
    fn refresh_children(&mut self, node: u32, slots: &[u16; SLOTS]) {
        for idx in 0..self.nodes.get(node).children.len() {
            let (slot, child) = self.nodes.get(node).children[idx];
            let hop = slots[usize::from(slot)];
            let child_node = self.nodes.get(child);
            if child_node.written == Written::Not || child_node.inherited != hop {
                self.refresh(child, hop);
            }
        }
    }

    /// Replaces the entries of the table of `node` that are others, if it has one and needs one.
    fn refresh_table(&self, node: u32, slots: &[u16; SLOTS]) -> Option<Entry> {
        let node = self.nodes.get(node);
        let is_table =
            node.depth == TABLE_DEPTH && node.entry.0 & INNER != 0 && node.written == Written::Own;
        if !is_table || node.children.is_empty() {
            return None;
        }
        self.put_entries(node.room.at as usize, self.entries(node, slots));
        Some(node.entry)
    }

    /// What the values of the byte of `node` lead to.
    fn entries(&self, node: &Node, slots: &[u16; SLOTS]) -> [Entry; SLOTS] {
        let mut entries = slots.map(Entry::hop);
        for &(slot, child) in &node.children {
            entries[usize::from(slot)] = self.nodes.get(child).entry;
        }
        entries
    }

    /// Whether one list answers for `node` and what is below; then its runs are found.
    fn merge(&mut self, node: u32, inherited: u16) -> bool {
        self.nodes.get(node).depth == TABLE_DEPTH
            && self.nodes.merge(node, inherited, &mut self.runs)
            && self.runs.len() <= list_runs_max(self.image.format.is_narrow)
    }

    /// Whether a change below `node` may change whether it is merged.
    fn may_be_merged(&self, node: u32) -> bool {
        self.nodes.get(node).written == Written::Merged || self.nodes.has_few_ends(node)
    }

    /// The children of `node` are merged into it: their blocks are given up.
    fn forget_children(&mut self, node: u32) {
        for idx in 0..self.nodes.get(node).children.len() {
            let (_, child) = self.nodes.get(node).children[idx];
            let child = self.nodes.get_mut(child);
            let room = std::mem::replace(&mut child.room, Room { at: 0, words: 0 });
            child.written = Written::Not;
            self.unlink_room(room);
        }
    }

    /// Plans the block of `node`; the hop of all slots, if there is no need for one.
    fn plan(&mut self, node: u32, slots: &[u16; SLOTS]) -> Option<u16> {
        let nodes = &self.nodes;
        let node = nodes.get(node);
        let children = node.children.iter();
        let children = children.map(|&(slot, child)| (slot, nodes.get(child).entry));
        self.block.plan(node.depth, slots, children, self.image.format)
    }

    /// Writes the block that is planned.
    fn write_block(&mut self) -> (Entry, Room) {
        let room = self.arena.take(self.block.len());
        let at = room.at as usize;
        for (slot, word) in self.image.words[at..].iter().zip(self.block.words_at(at)) {
            slot.store(*word, Ordering::Relaxed);
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
        if self.arena.retired_len() >= self.reclaim_at {
            self.arena.reclaim(epochs.advance());
            // A reader that was put to sleep holds all back; it is not asked at each change.
            self.reclaim_at = self.arena.retired_len() + RETIRED_LEN;
        }
    }

    /// Makes sure that `prefix` can get `hop`, or lose its own if that is [`NO_HOP`], writing
    /// everything anew if need be: then [`Writer::image`] is another one, and `true` is returned.
    ///
    /// # Errors
    /// The bound forbids it; nothing was changed.
    pub(crate) fn make_room<A: Address>(
        &mut self,
        prefix: Prefix<A>,
        hop: u16,
    ) -> Result<bool, RouteError> {
        let bytes = self.bytes() + self.nodes.growth(DEPTH_MAX);
        if hop != NO_HOP && bytes > self.bytes_max {
            return Err(RouteError::memory_bound(bytes, self.bytes_max));
        }
        let place = Place::of(prefix);
        let is_wider = self.image.format.is_narrow && is_wide(hop);
        if !is_wider && self.arena.has_room(NEED_MAX) && self.ends_the_tree(place) {
            return Ok(false);
        }
        let is_plain = self.image.format.is_plain;
        let mut need = self.need(place, hop, is_plain);
        debug_assert!(need <= NEED_MAX || !self.ends_the_tree(place), "{need} words");
        if self.arena.has_room(need) && !is_wider {
            return Ok(false);
        }
        if self.wants_plain {
            // The new image may be what this one is not.
            need = need.max(self.need(place, hop, !is_plain));
        }
        self.write_anew(need, hop)?;
        Ok(true)
    }

    /// Whether nothing lies below the node of a long prefix: then [`Writer::need`] is at most
    /// [`NEED_MAX`], which is quicker to know than the need itself, as that asks all nodes on the
    /// way.
    fn ends_the_tree(&self, place: Place) -> bool {
        if place.len <= ROOT_BITS {
            return false;
        }
        let path = self.path(place);
        let last = path.as_slice().last();
        path.len < place.depth()
            || last.is_some_and(|&node| self.nodes.get(node).children.is_empty())
    }

    /// Words that giving a prefix `hop`, or taking its own if there is none, takes at most in an
    /// image that is plain or is not.
    fn need(&self, place: Place, hop: u16, is_plain: bool) -> usize {
        if place.len <= ROOT_BITS {
            let is_narrow = self.image.format.is_narrow && !is_wide(hop);
            let format = Format { is_narrow, is_plain };
            let first = place.root();
            let hop = if hop == NO_HOP { self.short.above(first, place.len) } else { hop };
            let mut block = Block::default();
            let roots = first..first + (1 << (ROOT_BITS - place.len));
            let nodes = roots
                .filter(|&root| self.short.is_best(root, place.len))
                .filter_map(|root| self.nodes.root(root));
            return nodes.map(|node| self.measure_below(node, hop, format, &mut block)).sum();
        }
        let path = self.path(place);
        // A new node has one prefix or one child, hence three starts at most.
        let new = (path.len..place.depth()).map(|depth| self.words_max(depth as u8, 3));
        let Some(&node) = path.as_slice().last() else { return new.sum() };
        let table = path.as_slice().get(usize::from(TABLE_DEPTH)).copied();
        let merged = table.filter(|&table| self.may_be_merged(table));
        // Any node of the path may be the lowest that stays, and nodes of a list may get blocks.
        let own = path.as_slice().iter().map(|&node| self.need_of(node)).sum::<usize>();
        let need = own + new.sum::<usize>() + self.arena.rounded(LINE_WORDS);
        let need = need + merged.map_or(0, |table| self.need_below(table));
        if path.len < place.depth() {
            return need;
        }
        // The prefix's own node: what lies below the prefix may inherit another hop.
        let bytes = place.bytes_in(path.len - 1);
        let children = self.nodes.get(node).children.iter();
        let below = children.filter(|child| bytes.contains(&usize::from(child.0)));
        need + below.map(|child| self.need_below(child.1)).sum::<usize>()
    }

    /// Words that the blocks of `node` and those below can take.
    fn need_below(&self, node: u32) -> usize {
        let children = self.nodes.get(node).children.iter();
        self.need_of(node) + children.map(|child| self.need_below(child.1)).sum::<usize>()
    }

    /// Words that the block of `node` can take after one more prefix.
    fn need_of(&self, node: u32) -> usize {
        let node = self.nodes.get(node);
        // Each prefix and child has two starts.
        self.words_max(node.depth, 2 * (node.ends() + 1) + 1)
    }

    /// The most words of a block with so many starts, for a node that `depth` others lead to.
    fn words_max(&self, depth: u8, starts: usize) -> usize {
        // Eight pairs, and each of these has a start.
        let pairs = if starts > PAIR_RUNS_MAX { PAIRS_WORDS_MAX } else { 16 + 8 + starts };
        let may_be_plain = depth == 0 && self.wants_plain;
        let pairs = pairs.max(if may_be_plain { direct_words(false) } else { 0 });
        self.arena.rounded(match depth {
            TABLE_DEPTH => SLOTS,
            depth if depth == TABLE_DEPTH + 1 => direct_words(false) + BEHIND_WORDS + pairs,
            _ => pairs,
        })
    }

    /// Writes everything into new words, with room for `need` more, and for `hop`.
    ///
    /// # Errors
    /// The bound forbids it; nothing was changed.
    pub(crate) fn write_anew(&mut self, need: usize, hop: u16) -> Result<(), RouteError> {
        let is_narrow = self.wide_hops == 0 && !is_wide(hop);
        let mut format = Format { is_narrow, is_plain: self.wants_plain };
        let room = |live: usize| live + live / 2 + need + SPARE_WORDS + SLACK_WORDS;
        let mut room_words = room(self.measure(format));
        if format.is_plain && (ROOTS + room_words) * 4 + self.bytes_beside() > self.bytes_max / 2 {
            // That is for speed alone, too.
            format.is_plain = false;
            room_words = room(self.measure(format));
        }
        let mut flats = self.choose_flats();
        let size = |flats: usize| pages::whole_pages(ROOTS + flats * FLAT_LEN + room_words);
        if size(flats.len()) * 4 + self.bytes_beside() > self.bytes_max {
            // They are for speed alone.
            flats.clear();
        }
        let words = size(flats.len());
        let bytes = words * 4 + self.bytes_beside();
        if bytes > self.bytes_max || words > WORDS_MAX {
            return Err(RouteError::memory_bound(bytes, self.bytes_max));
        }
        self.image = Arc::new(Image { words: SharedWords::zeroed(words), format });
        let first = ROOTS + flats.len() * FLAT_LEN;
        self.arena = Arena::new(first, words - SLACK_WORDS, self.grain);
        self.reclaim_at = RETIRED_LEN;
        self.flats = flats.into_iter().zip((ROOTS..).step_by(FLAT_LEN)).collect();
        for root in 0..ROOTS {
            self.forget_blocks(self.nodes.root(root));
            let entry = self.root_entry(root);
            self.publish_root(root, entry);
        }
        Ok(())
    }

    /// The values of the first 16 bits that get flat tables: those with the most in them.
    fn choose_flats(&self) -> Vec<usize> {
        let ends = |node: u32| self.nodes.get(node).ends();
        let below = |node: u32| {
            let children = self.nodes.get(node).children.iter();
            ends(node) + children.map(|child| ends(child.1)).sum::<usize>()
        };
        let mut flats: Vec<_> = (0..ROOTS)
            .filter_map(|root| Some((std::cmp::Reverse(below(self.nodes.root(root)?)), root)))
            .filter(|(ends, _)| ends.0 >= FLAT_ENDS_MIN)
            .collect();
        flats.sort_unstable();
        flats.truncate(self.flats_max);
        flats.into_iter().map(|(_, root)| root).collect()
    }

    /// Words that all blocks take.
    fn measure(&self, format: Format) -> usize {
        let mut words = 0;
        let mut block = Block::default();
        for root in 0..ROOTS {
            if let Some(node) = self.nodes.root(root) {
                words += self.measure_below(node, self.short.best(root), format, &mut block);
            }
        }
        words
    }

    fn measure_below(&self, node: u32, inherited: u16, format: Format, block: &mut Block) -> usize {
        let is_narrow = format.is_narrow;
        if self.nodes.get(node).depth == TABLE_DEPTH {
            let mut runs = Vec::new();
            if self.nodes.merge(node, inherited, &mut runs)
                && runs.len() <= list_runs_max(is_narrow)
            {
                let is_list = block.plan_list(&runs, is_narrow).is_none();
                return if is_list { self.arena.rounded(block.len()) } else { 0 };
            }
        }
        let node = self.nodes.get(node);
        let slots = node.slots(inherited);
        let children = node.children.iter().map(|&(slot, _)| (slot, Entry(0)));
        let own = match block.plan(node.depth, &slots, children, format) {
            Some(_) => 0,
            None => self.arena.rounded(block.len()),
        };
        let below = |&(slot, child): &(u8, u32)| {
            self.measure_below(child, slots[usize::from(slot)], format, &mut Block::default())
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
        node.written = Written::Not;
    }
}
