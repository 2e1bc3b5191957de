//! Changes: from the routes to the blocks that lookups read.
//!
//! A change touches one node, or those below a short prefix. Each gets a new block beside its old
//! one; one store of an entry publishes it, in the block above or among the first entries; then the
//! old block is put aside until its readers have left.
//!
//! # Invariants
//! - W1: a lookup's answer depends on one entry that a change replaces with one store, so it is the
//!   one before or the one after. A byte of the table of the first 24 bits is written after what it
//!   leads to, and a node that had a block for it keeps one until everything is written anew.
//! - W2: a block is retired after the store that makes it unreachable.
//! - W3: room is made sure of before the first store; a change that begins is finished.

mod room;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpswitch_packet::pages::SharedWords;
use warpswitch_packet::sync::Epochs;

use super::arena::{Arena, GRAIN, LINE_GRAIN, Room};
use super::block::{Block, SLOTS, TABLE_DEPTH, list_runs_max};
use super::dir24::{BELOW, Dir24, byte_of, byte_of_hop};
use super::entry::{Entry, FLAT_LEN, INNER, Image, LEAF, NO_BYTE, flat_bits, flat_idx};
use super::place::{Path, Place, one, table_above};
use super::rib::{NO_HOP, NO_NODE, Node, Nodes, ROOT_BITS, ROOTS, Short, Written};
use crate::address::Address;
use crate::error::RouteError;
use crate::prefix::Prefix;
use room::{FLATS_MAX, SLACK_WORDS, SPARE_WORDS};

/// How many blocks more are put aside before the writer looks which are free.
const RETIRED_LEN: usize = 256;

/// So many values of a byte are looked up one by one, more all together.
const FEW_THIRDS: usize = 4;

/// All values of a byte.
const ALL: Range<usize> = 0..SLOTS;

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
    /// The least of these hops.
    wide_min: u16,
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
    /// How many routes make a table of the first 24 bits worth while, if any number does.
    dir24_min: Option<usize>,
    /// The most flat tables; none for IPv4, where all would be leaves.
    flats_max: usize,
    /// Where flat tables begin, by the value of the first 16 bits.
    flats: BTreeMap<usize, usize>,
}

impl Writer {
    /// No routes of addresses of `addr_bits`, and words that say so.
    ///
    /// With `dir24_min` routes or more, images of IPv4 routes have a table of the first 24 bits if
    /// hops fit a byte and the bound leaves as much again; never if it is `None`.
    pub(crate) fn new(bytes_max: usize, addr_bits: u8, dir24_min: Option<usize>) -> Self {
        let words = SharedWords::zeroed(ROOTS + SPARE_WORDS);
        let is_long = addr_bits > 32;
        let grain = if is_long { LINE_GRAIN } else { GRAIN };
        let arena = Arena::new(ROOTS, words.len() - SLACK_WORDS, grain);
        let short = Short::new();
        let writer = Self {
            short,
            nodes: Nodes::new(),
            arena,
            image: Arc::new(Image { words, is_narrow: true, dir24: None }),
            routes: 0,
            wide_hops: 0,
            wide_min: u16::from(if is_long { NO_BYTE } else { BELOW }),
            block: Block::default(),
            runs: Vec::new(),
            grain,
            reclaim_at: RETIRED_LEN,
            unlinked: Vec::new(),
            bytes_max,
            dir24_min: dir24_min.filter(|_| !is_long),
            flats_max: if is_long { FLATS_MAX } else { 0 },
            flats: BTreeMap::new(),
        };
        (0..ROOTS).for_each(|root| writer.publish(root, Entry::hop(NO_HOP)));
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
        self.image.words.len() * 4 + self.dir24_bytes() + self.bytes_beside()
    }

    /// Bytes of the words that lookups can reach.
    pub(crate) fn bytes_live(&self) -> usize {
        (ROOTS + self.flats.len() * FLAT_LEN + self.arena.live_words()) * 4 + self.dir24_bytes()
    }

    /// Nodes of the structure.
    pub(crate) fn nodes_len(&self) -> usize {
        self.nodes.len()
    }

    fn dir24_bytes(&self) -> usize {
        if self.image.dir24.is_some() { Dir24::BYTES } else { 0 }
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
            self.set_short(place, hop, |writer, root| writer.refresh_root(root, ALL, epochs))
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
            self.set_short(place, NO_HOP, |writer, root| writer.refresh_root(root, ALL, epochs));
            old
        } else {
            self.remove_long(place, epochs)?
        };
        self.count(Some(old), None);
        Some(old)
    }

    /// Whether a hop needs 16 bits in a leaf, or has no byte in a table of the first 24 bits.
    fn is_wide(&self, hop: u16) -> bool {
        hop != NO_HOP && hop >= self.wide_min
    }

    /// Keeps account of a prefix whose hop was `old` and is `new`.
    fn count(&mut self, old: Option<u16>, new: Option<u16>) {
        let wide = |hop: Option<u16>| usize::from(hop.is_some_and(|hop| self.is_wide(hop)));
        let (old_wide, new_wide) = (wide(old), wide(new));
        self.routes = self.routes + usize::from(new.is_some()) - usize::from(old.is_some());
        self.wide_hops = self.wide_hops + new_wide - old_wide;
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
                let hop = self.short.best(place.root());
                self.publish_root(place.root(), Entry::hop(hop), place.thirds());
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
            _ if level == 0 => return self.refresh_root(place.root(), place.thirds(), epochs),
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
        // What lies below a value of 24 bits may have been one hop, or be one now.
        self.refresh_dir24(place.root(), place.thirds());
        self.retire(epochs);
    }

    /// Writes the first node below `root`, if there is one, and publishes what `root` leads to;
    /// answers change for `thirds`, values of the third byte, alone.
    fn refresh_root(&mut self, root: usize, thirds: Range<usize>, epochs: &Epochs) {
        let entry = self.root_entry(root);
        self.publish_root(root, entry, thirds);
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

    fn publish_root(&self, root: usize, entry: Entry, thirds: Range<usize>) {
        self.publish(root, entry);
        self.refresh_dir24(root, thirds);
    }

    /// Replaces the entry at word `at`.
    fn publish(&self, at: usize, entry: Entry) {
        // Partner: the load of an entry in a lookup.
        self.image.words[at].store(entry.0, Ordering::Release);
    }

    /// Writes what the values `thirds` of the third byte below `root` lead to into the table of the
    /// first 24 bits, if there is one. Blocks below were written.
    fn refresh_dir24(&self, root: usize, thirds: Range<usize>) {
        let Some(table) = &self.image.dir24 else { return };
        let best = self.short.best(root);
        let node = self.nodes.root(root).map(|node| self.nodes.get(node));
        let (first, end) = (thirds.start, thirds.end);
        let mut bytes = [byte_of_hop(best); SLOTS];
        if let Some(node) = node {
            if thirds.len() <= FEW_THIRDS {
                thirds.for_each(|at| bytes[at] = byte_of_hop(node.slot(at as u8, best)));
            } else {
                bytes = node.slots(best).map(byte_of_hop);
            }
            for &(third, child) in &node.children {
                bytes[usize::from(third)] = byte_of(self.nodes.get(child).entry);
            }
        }
        table.put(root, first, &bytes[first..end]);
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
        let is_in_dir24 = self.is_in_dir24_alone(node);
        let hop = if is_merged {
            self.forget_children(node);
            self.block.plan_list(&self.runs, self.image.is_narrow)
        } else if is_in_dir24 {
            Some(inherited)
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
        node.written = match (is_merged, is_in_dir24) {
            (true, _) => Written::Merged,
            (_, true) => Written::InDir24,
            _ => Written::Own,
        };
        self.unlink_room(old);
        entry
    }

    /// Whether the table of the first 24 bits answers for `node`, so that it needs no block: none
    /// follow it, and it had none in this image. Who found [`BELOW`] may still look for one.
    fn is_in_dir24_alone(&self, node: u32) -> bool {
        let node = self.nodes.get(node);
        self.image.dir24.is_some()
            && node.is_last_of_24_bits()
            && matches!(node.written, Written::Not | Written::InDir24)
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
            && self.runs.len() <= list_runs_max(self.image.is_narrow)
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
        self.block.plan(node.depth, slots, children, self.image.is_narrow)
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
}
