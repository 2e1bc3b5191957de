//! Changes: from the routes to the words that lookups read.
//!
//! A change touches the block of one node, or those below a short prefix; where a block's kind or
//! place changes, the block above gets another entry, and so on upwards. All of it happens in the
//! writer's model, whose notes become a patch.
//!
//! # Invariants
//! - W1: the entry of a node that is written leads to a block of its values; nodes that one value
//!   covers have no block.
//! - W2: a change that would pass the bound is taken back, and everything laid out anew.

use crate::image::abi::{ROUTE_INNER, ROUTE_LEAF, ROUTE_LINE, UNIT_WORDS};
use crate::image::{Model, Patch, VIEW_NUMBERS};

use super::image::{BLOCKS, entry, kind, place};
use super::rib::{DEPTH_MAX, NO_HOP, NO_NODE, Node, Place, ROOTS, Short, VALUES};

/// Runs of a line.
const LINE_RUNS: usize = 6;
/// Units that are free at least after everything was laid out.
const SPARE_UNITS: usize = 1 << 10;
/// An entry reaches so many units; addresses of words have 32 bits.
const UNITS_MAX: usize = (1 << 32) / UNIT_WORDS - 1;

/// All that changes need.
#[derive(Debug)]
pub(super) struct Writer {
    short: Short,
    /// The node of each value of the first 16 bits, or [`NO_NODE`].
    roots: Vec<u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Bytes of nodes' own lists.
    lists_bytes: usize,
    routes: usize,
    room: Room,
    model: Model,
    /// Copies of the words that there are or will be, the model counted.
    copies: usize,
    bytes_max: usize,
    /// Values that the change under way has given another hop.
    changed: Vec<usize>,
    is_laid_out: bool,
    /// Whether the words are more, or others, than those that were published last.
    is_anew: bool,
}

/// Which units blocks have.
#[derive(Debug, Default)]
struct Room {
    /// Units from here on were never used.
    top: usize,
    /// Free blocks by kind.
    free: [Vec<u32>; BLOCKS.len()],
}

impl Room {
    fn bytes(&self) -> usize {
        self.free.iter().map(|list| list.capacity() * 4).sum()
    }
}

impl Writer {
    /// No routes. `copies` of the words there will be, the writer's own counted; all and what
    /// changes need shall take `bytes_max` bytes at most.
    pub(super) fn new(copies: usize, bytes_max: usize) -> Self {
        Self {
            short: Short::new(),
            roots: vec![NO_NODE; ROOTS],
            nodes: Vec::new(),
            free: Vec::new(),
            lists_bytes: 0,
            routes: 0,
            room: Room::default(),
            model: Model::new([0; VIEW_NUMBERS]),
            copies,
            bytes_max,
            changed: Vec::new(),
            is_laid_out: false,
            is_anew: false,
        }
    }

    pub(super) fn routes(&self) -> usize {
        self.routes
    }

    pub(super) fn words(&self) -> &[u32] {
        self.model.words()
    }

    /// Bytes of everything.
    pub(super) fn bytes(&self) -> usize {
        let nodes = self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * 4;
        let beside = nodes + self.lists_bytes + self.roots.len() * 4 + self.short.bytes();
        self.model.words().len() * 4 * self.copies + beside + self.room.bytes()
    }

    /// Bytes that were laid out and are in use.
    pub(super) fn bytes_live(&self) -> usize {
        let free = self.room.free.iter().zip(BLOCKS);
        let free: usize = free.map(|(list, (_, units))| list.len() * units).sum();
        (self.room.top - free) * UNIT_WORDS * 4
    }

    /// The bytes, if they pass the bound or what entries reach.
    pub(super) fn excess(&self) -> Option<usize> {
        let bytes = self.bytes();
        (bytes > self.bytes_max || self.room.top > UNITS_MAX).then_some(bytes)
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The hop of exactly this prefix.
    pub(super) fn get(&self, at: Place) -> Option<u16> {
        if at.is_short() {
            return self.short.get(at);
        }
        let (path, known) = self.path(at);
        (known == at.depth()).then(|| self.nodes[path[known - 1] as usize].get(at.end()))?
    }

    /// Puts a prefix in, or takes it out; the hop that it had.
    ///
    /// # Errors
    /// The bytes that it would take. Nothing has changed then.
    pub(super) fn change(&mut self, at: Place, hop: Option<u16>) -> Result<Option<u16>, usize> {
        let before = self.bytes();
        let old = self.set(at, hop);
        match self.excess().filter(|&bytes| bytes > before) {
            None => Ok(old),
            Some(bytes) => {
                self.set(at, old);
                self.lay_out();
                Err(bytes)
            }
        }
    }

    /// The same without a look at the bound.
    pub(super) fn set(&mut self, at: Place, hop: Option<u16>) -> Option<u16> {
        let old = if at.is_short() { self.set_short(at, hop) } else { self.set_long(at, hop) };
        self.routes = self.routes + usize::from(hop.is_some()) - usize::from(old.is_some());
        old
    }

    fn set_short(&mut self, at: Place, hop: Option<u16>) -> Option<u16> {
        let mut changed = std::mem::take(&mut self.changed);
        let old = self.short.set(at, hop, &mut changed);
        if self.is_laid_out {
            changed.iter().for_each(|&root| self.refresh_root(root));
        }
        changed.clear();
        self.changed = changed;
        old
    }

    /// The nodes on the way to `at`, and how many of them are there.
    fn path(&self, at: Place) -> ([u32; DEPTH_MAX], usize) {
        let (mut path, mut known) = ([NO_NODE; DEPTH_MAX], 0);
        let mut next = Some(self.roots[at.root()]).filter(|&node| node != NO_NODE);
        while let Some(node) = next {
            path[known] = node;
            known += 1;
            if known == at.depth() {
                break;
            }
            next = self.nodes[node as usize].child(at.byte(known - 1));
        }
        (path, known)
    }

    fn set_long(&mut self, at: Place, hop: Option<u16>) -> Option<u16> {
        let (mut path, known) = self.path(at);
        if hop.is_none() && known < at.depth() {
            return None;
        }
        for level in known..at.depth() {
            path[level] = self.add();
            match level.checked_sub(1) {
                None => self.roots[at.root()] = path[level],
                Some(above) => {
                    let node = path[level];
                    self.edit(path[above], |above| above.link(at.byte(level - 1), node));
                }
            }
        }
        let old = self.edit(path[at.depth() - 1], |node| node.set(at.end(), hop));
        if old == hop || !self.is_laid_out {
            return old;
        }
        // A new node is reached through the lowest one that was there.
        let mut level = known.max(1) - 1;
        while self.nodes[path[level] as usize].is_empty() {
            self.drop(path[level]);
            if level == 0 {
                self.roots[at.root()] = NO_NODE;
                self.refresh_root(at.root());
                return old;
            }
            level -= 1;
            self.edit(path[level], |node| node.unlink(at.byte(level)));
        }
        while level > 0 && self.refresh(path[level]) {
            level -= 1;
        }
        if level == 0 {
            self.nodes[path[0] as usize].inherited = self.short.best(at.root());
            self.refresh(path[0]);
            self.model.set(at.root(), self.nodes[path[0] as usize].entry);
        }
        old
    }

    /// An empty node.
    fn add(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            u32::try_from(self.nodes.len() - 1).expect("fewer nodes than units of an image")
        })
    }

    /// Gives a node and its block back.
    fn drop(&mut self, node: u32) {
        let former = self.nodes[node as usize].entry;
        self.give(former);
        self.edit(node, |node| *node = Node::default());
        self.free.push(node);
    }

    /// Changes a node, keeping account of its bytes.
    fn edit<R>(&mut self, node: u32, change: impl FnOnce(&mut Node) -> R) -> R {
        let node = &mut self.nodes[node as usize];
        let before = node.bytes();
        let result = change(node);
        self.lists_bytes = self.lists_bytes + node.bytes() - before;
        result
    }

    /// Lays everything out anew, with free room where the bound allows for it.
    pub(super) fn lay_out(&mut self) {
        for node in &mut self.nodes {
            (node.entry, node.is_written) = (u32::from(NO_HOP), false);
        }
        self.room = Room { top: ROOTS / UNIT_WORDS, ..Room::default() };
        self.model.start(vec![0; ROOTS]);
        (self.is_laid_out, self.is_anew) = (true, true);
        for root in 0..ROOTS {
            self.refresh_root(root);
        }
        let used = self.room.top;
        self.make_room(used + used / 4 + SPARE_UNITS, used);
        // Every copy is a new one.
        self.model.forget();
    }

    /// Makes the words as many units long as are `wanted`, or as the bound allows for, but `needed`
    /// in any case.
    fn make_room(&mut self, wanted: usize, needed: usize) {
        let unit_bytes = UNIT_WORDS * 4 * self.copies;
        let units = self.model.words().len() / UNIT_WORDS;
        let beside = self.bytes() - units * unit_bytes;
        let allowed = self.bytes_max.saturating_sub(beside) / unit_bytes;
        let units = wanted.min(allowed.min(UNITS_MAX)).max(needed).max(units);
        self.model.grow(units * UNIT_WORDS);
        self.is_anew = true;
    }

    /// Brings what a value of the first 16 bits leads to up to date.
    fn refresh_root(&mut self, root: usize) {
        let (node, best) = (self.roots[root], self.short.best(root));
        let entry = if node == NO_NODE {
            u32::from(best)
        } else {
            let known = &mut self.nodes[node as usize];
            if !known.is_written || known.inherited != best {
                known.inherited = best;
                self.refresh(node);
            }
            self.nodes[node as usize].entry
        };
        self.model.set(root, entry);
    }

    /// Writes the block of a node, and those below that inherit another hop now or have none yet.
    /// Whether its entry is another now.
    fn refresh(&mut self, at: u32) -> bool {
        let node = &mut self.nodes[at as usize];
        let mut values = node.hops();
        let (former, was_written) = (node.entry, node.is_written);
        let children = std::mem::take(&mut node.children);
        for &(byte, child) in &children {
            let value = &mut values[usize::from(byte)];
            let below = &mut self.nodes[child as usize];
            if !below.is_written || u32::from(below.inherited) != *value {
                below.inherited = *value as u16;
                self.refresh(child);
            }
            *value = self.nodes[child as usize].entry;
        }
        let entry = self.write(former, &values);
        let node = &mut self.nodes[at as usize];
        (node.children, node.entry, node.is_written) = (children, entry, true);
        !was_written || entry != former
    }

    /// Writes the block of a node whose entry was `former`; its entry now.
    fn write(&mut self, former: u32, values: &[u32; VALUES]) -> u32 {
        let runs = 1 + values.windows(2).filter(|two| two[0] != two[1]).count();
        let is_last = values.iter().all(|&value| kind(value) == 0);
        let wanted = match runs {
            1 if is_last => {
                self.give(former);
                return values[0];
            }
            ..=LINE_RUNS => ROUTE_LINE,
            _ if is_last => ROUTE_LEAF,
            _ => ROUTE_INNER,
        };
        let unit = if kind(former) == wanted {
            place(former)
        } else {
            self.give(former);
            self.take(wanted)
        };
        let at = unit as usize * UNIT_WORDS;
        match wanted {
            ROUTE_LINE => self.model.write(at, &line(values)),
            ROUTE_LEAF => {
                for (idx, two) in values.chunks_exact(2).enumerate() {
                    self.model.set(at + idx, two[0] | two[1] << 16);
                }
            }
            _ => self.model.write(at, values),
        }
        entry(wanted, unit)
    }

    fn take(&mut self, wanted: u32) -> u32 {
        let which = BLOCKS.iter().position(|block| block.0 == wanted).expect("a kind of block");
        if let Some(unit) = self.room.free[which].pop() {
            return unit;
        }
        let unit = self.room.top;
        self.room.top += BLOCKS[which].1;
        let (top, units) = (self.room.top, self.model.words().len() / UNIT_WORDS);
        if top > units {
            self.make_room(top + units / 4, top);
        }
        u32::try_from(unit).expect("fewer units than entries reach")
    }

    fn give(&mut self, former: u32) {
        if let Some(which) = BLOCKS.iter().position(|block| block.0 == kind(former)) {
            self.room.free[which].push(place(former));
        }
    }

    /// Whether anything changed since the last patch, and whether a patch cannot say it.
    pub(super) fn is_changed(&self) -> (bool, bool) {
        (self.model.is_changed() || self.is_anew, self.is_anew)
    }

    /// See [`Model::patch`].
    pub(super) fn patch(&mut self, patch: &mut Patch) {
        self.model.patch(patch);
        self.is_anew = false;
    }
}

/// The words of a line.
fn line(values: &[u32; VALUES]) -> [u32; UNIT_WORDS] {
    let (mut starts, mut entries, mut len) = ([u8::MAX; 8], [values[0]; LINE_RUNS], 0);
    for (byte, two) in (1..=u8::MAX).zip(values.windows(2)) {
        if two[0] != two[1] {
            starts[len] = byte;
            len += 1;
            entries[len..].fill(two[1]);
        }
    }
    let starts = u64::from_le_bytes(starts);
    let mut words = [0; UNIT_WORDS];
    (words[0], words[1]) = (starts as u32, (starts >> 32) as u32);
    words[2..].copy_from_slice(&entries);
    words
}
