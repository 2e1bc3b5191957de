//! How much room changes take, and writing everything anew where there is too little.

use std::sync::Arc;

use warpswitch_packet::pages::{self, SharedWords};

use super::{ALL, RETIRED_LEN, Writer};
use crate::address::Address;
use crate::error::RouteError;
use crate::lpm::arena::{Arena, LINE_GRAIN, Room};
use crate::lpm::block::{
    BEHIND_WORDS, BLOCK_WORDS_MAX, Block, PAIR_RUNS_MAX, PAIRS_WORDS_MAX, SLOTS, TABLE_DEPTH,
    list_runs_max,
};
use crate::lpm::dir24::Dir24;
use crate::lpm::entry::{Entry, FLAT_LEN, Image, LINE_WORDS, direct_words};
use crate::lpm::place::{DEPTH_MAX, Place};
use crate::lpm::rib::{MERGED_ENDS_MAX, NO_HOP, ROOT_BITS, ROOTS, Written};
use crate::prefix::Prefix;

/// Words that one change of a long prefix takes at most where nothing lies below its node: the
/// blocks of all nodes on the way and, of a list that is given up, those of the nodes in it.
const NEED_MAX: usize =
    (DEPTH_MAX + 2 + MERGED_ENDS_MAX) * BLOCK_WORDS_MAX.next_multiple_of(LINE_GRAIN);

/// Room that is left free at least when everything is written anew.
pub(super) const SPARE_WORDS: usize = 1 << 13;

/// The same beside a table of the first 24 bits: few blocks are live there, yet as many as
/// elsewhere come and go.
const DIR24_SPARE_WORDS: usize = 1 << 18;

/// Words behind the last block: a vector load of a hop takes four bytes from where it stands, and
/// what looks for no list reads the last line.
pub(super) const SLACK_WORDS: usize = LINE_WORDS;

/// What the places in entries reach; offsets of bytes must be below 2^31, too.
const WORDS_MAX: usize = 1 << 28;

/// A value of the first 16 bits gets a flat table if so many prefixes or nodes lie in the next two
/// bytes; at most so many values.
const FLAT_ENDS_MIN: usize = 64;
pub(super) const FLATS_MAX: usize = 128;

impl Writer {
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
        // Removals make no nodes.
        let growth = if hop == NO_HOP { 0 } else { self.nodes.growth(DEPTH_MAX) };
        let bytes = self.bytes() + growth;
        let least = bytes - self.dir24_bytes();
        if hop != NO_HOP && least > self.bytes_max {
            return Err(RouteError::memory_bound(least, self.bytes_max));
        }
        let place = Place::of(prefix);
        // A hop that fits no byte; or the table of the first 24 bits, which is for speed alone, has
        // to make room.
        let is_tight = hop != NO_HOP && bytes > self.bytes_max;
        let is_other = self.image.is_narrow && self.is_wide(hop) || is_tight;
        if !is_other && self.arena.has_room(NEED_MAX) && self.ends_the_tree(place) {
            return Ok(false);
        }
        let has_dir24 = self.image.dir24.is_some();
        let need = self.need(place, hop, has_dir24);
        debug_assert!(need <= NEED_MAX || !self.ends_the_tree(place), "{need} words");
        if self.arena.has_room(need) && !is_other {
            return Ok(false);
        }
        // The new image may be what this one is not.
        let need = if has_dir24 { self.need(place, hop, false) } else { need };
        self.write_anew(need, hop, growth)?;
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
    /// image that has a table of the first 24 bits or has none.
    fn need(&self, place: Place, hop: u16, has_dir24: bool) -> usize {
        if place.len <= ROOT_BITS {
            let is_narrow = self.image.is_narrow && !self.is_wide(hop);
            let first = place.root();
            let hop = if hop == NO_HOP { self.short.above(first, place.len) } else { hop };
            let mut block = Block::default();
            let roots = first..first + (1 << (ROOT_BITS - place.len));
            let nodes = roots
                .filter(|&root| self.short.is_best(root, place.len))
                .filter_map(|root| self.nodes.root(root));
            return nodes
                .map(|node| self.measure_root(node, hop, is_narrow, has_dir24, &mut block))
                .sum();
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
        self.arena.rounded(match depth {
            TABLE_DEPTH => SLOTS,
            depth if depth == TABLE_DEPTH + 1 => direct_words(false) + BEHIND_WORDS + pairs,
            _ => pairs,
        })
    }

    /// Writes everything into new words, with room for `need` more, for `hop`, and below the bound
    /// for nodes of `growth` more bytes.
    ///
    /// # Errors
    /// The bound forbids it; nothing was changed.
    pub(crate) fn write_anew(
        &mut self,
        need: usize,
        hop: u16,
        growth: usize,
    ) -> Result<(), RouteError> {
        let is_narrow = self.wide_hops == 0 && !self.is_wide(hop);
        let size = |has_dir24: bool| {
            let live = self.measure(is_narrow, has_dir24);
            let spare = if has_dir24 { DIR24_SPARE_WORDS } else { SPARE_WORDS };
            live + live / 2 + need + spare + SLACK_WORDS
        };
        let mut has_dir24 = is_narrow && self.dir24_min.is_some_and(|min| self.routes >= min);
        let mut room_words = size(has_dir24);
        let beside = self.bytes_beside() + growth;
        // It is for speed alone, and is to leave room for routes.
        if has_dir24 && (ROOTS + room_words) * 4 + beside + Dir24::BYTES > self.bytes_max / 2 {
            has_dir24 = false;
            room_words = size(has_dir24);
        }
        let mut flats = self.choose_flats();
        let size = |flats: usize| pages::whole_pages(ROOTS + flats * FLAT_LEN + room_words);
        if size(flats.len()) * 4 + beside > self.bytes_max {
            // They are for speed alone, too.
            flats.clear();
        }
        let words = size(flats.len());
        let bytes = words * 4 + beside;
        if bytes > self.bytes_max || words > WORDS_MAX {
            return Err(RouteError::memory_bound(bytes, self.bytes_max));
        }
        self.image = Arc::new(Image {
            words: SharedWords::zeroed(words),
            is_narrow,
            dir24: has_dir24.then(Dir24::new),
        });
        let first = ROOTS + flats.len() * FLAT_LEN;
        self.arena = Arena::new(first, words - SLACK_WORDS, self.grain);
        self.reclaim_at = RETIRED_LEN;
        self.flats = flats.into_iter().zip((ROOTS..).step_by(FLAT_LEN)).collect();
        for root in 0..ROOTS {
            self.forget_blocks(self.nodes.root(root));
            let entry = self.root_entry(root);
            self.publish_root(root, entry, ALL);
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
    fn measure(&self, is_narrow: bool, has_dir24: bool) -> usize {
        let mut words = 0;
        let mut block = Block::default();
        for root in 0..ROOTS {
            if let Some(node) = self.nodes.root(root) {
                words += self.measure_root(
                    node,
                    self.short.best(root),
                    is_narrow,
                    has_dir24,
                    &mut block,
                );
            }
        }
        words
    }

    /// Words of the block of a node of the third byte, which may need none, and of those below.
    fn measure_root(
        &self,
        node: u32,
        inherited: u16,
        is_narrow: bool,
        has_dir24: bool,
        block: &mut Block,
    ) -> usize {
        let of = self.nodes.get(node);
        if has_dir24 && of.is_last_of_24_bits() && of.written != Written::Own {
            return 0;
        }
        self.measure_below(node, inherited, is_narrow, block)
    }

    fn measure_below(
        &self,
        node: u32,
        inherited: u16,
        is_narrow: bool,
        block: &mut Block,
    ) -> usize {
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
        let own = match block.plan(node.depth, &slots, children, is_narrow) {
            Some(_) => 0,
            None => self.arena.rounded(block.len()),
        };
        let below = |&(slot, child): &(u8, u32)| {
            self.measure_below(child, slots[usize::from(slot)], is_narrow, &mut Block::default())
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
