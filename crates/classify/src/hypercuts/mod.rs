//! HyperCuts: a decision tree whose nodes cut several fields at once.
//!
//! ```text
//! node: region, cuts of some dimensions ── key falls into one cell ─► child
//!   │                                                                   │
//!   └─ common: the rules that span all cells, as a tree of their own    └─► … leaf: few rules
//! ```
//! A rule is a box, one interval a dimension (see `dims`). A node cuts its region into a grid of
//! equal cells; a rule goes to every cell that its box meets. `build` chooses the cuts and
//! limits how often a rule is copied.
//!
//! # Invariants
//! - N1: every rule that a key matches, and that no better rule hides, is in the leaf that the key
//!   reaches or in a leaf of a common tree on its way. A leaf compares whole rules, so boxes that
//!   are wider than their rules cost time, never truth.
//! - N2: rules are numbered by precedence, so a smaller number wins; a tree whose best number does
//!   not beat the best found so far is not entered.
//! - N3: no path is longer than `DEPTH_MAX`, which bounds the trees that wait in a walk.
//!
//! # Source
//! Singh, Baboescu, Varghese, Wang, "Packet classification using multidimensional cutting",
//! SIGCOMM 2003. We differ in one point: rules common to all children are not a list at the node
//! but a tree of their own, which keeps rule sets with many wildcards from growing without bound.

mod build;
mod cuts;
mod dims;
mod visit;

use warpswitch_rules::{KeyBatch, MatchRef, PortRange, RuleId};

use crate::classifier::{Detail, Engine};
use crate::index::{Index, TooLarge};
use crate::store::RuleStore;

pub use build::TreeOptions;
pub use dims::{Dim, Side, Span, covers, dims_of, meets, sides_of};
pub use visit::BoxTree;

/// Levels of a tree, those of common trees on the way included.
const DEPTH_MAX: usize = 32;

/// Keys that walk side by side: their cache misses overlap.
const WALKERS: usize = 16;

/// "No node", "no rule": larger than every number of one.
const NONE: u32 = u32::MAX;

/// A rule as leaves compare it.
#[derive(Clone, Copy, Debug)]
struct LeafRule<const W: usize> {
    value: [u32; W],
    mask: [u32; W],
    ranges: [PortRange; 2],
    id: RuleId,
}

impl<const W: usize> LeafRule<W> {
    #[inline(always)]
    fn matches(&self, key: &[u32; W], ports_word: usize) -> bool {
        let (value, mask) = (&self.value[..], &self.mask[..]);
        let mut differing = 0;
        for word in 0..W {
            differing |= key[word] & mask[word] ^ value[word];
        }
        differing == 0
            && (MatchRef { value: &[], mask: &[], ranges: self.ranges, ports_word }).matches(key)
    }
}

/// One dimension's part in finding the cell of a key.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Where the dimension's number lies in a key: `key[word] >> part_shift & part_mask`.
    word: u8,
    part_shift: u8,
    /// A cell is `1 << cell_shift` wide.
    cell_shift: u8,
    /// The dimension, in the tree's order.
    dim: u8,
    part_mask: u32,
    /// The grid is `lo..=lo + span`; a key outside has only the common tree.
    lo: u32,
    span: u32,
    /// Cells to the next one of this dimension.
    stride: u32,
}

/// An inner node (`rules_len` is 0, `cuts_len` is not) or a leaf.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The best rule of the whole tree below.
    bound: u32,
    /// Inner: the tree of the rules that span all cells, or [`NONE`].
    common: u32,
    /// Inner: the first of its cells in `children`. Leaf: of its rules in `refs`.
    first: u32,
    /// Leaf: number of rules.
    rules_len: u32,
    /// Inner: its cuts.
    cuts_first: u32,
    cuts_len: u32,
}

/// The tree, in flat lists. Rules are numbered by precedence.
#[derive(Debug, Default)]
struct Tree {
    nodes: Vec<Node>,
    cuts: Vec<Cut>,
    /// Cells of inner nodes: a node, or [`NONE`].
    children: Vec<u32>,
    /// Rules of leaves, each leaf's in order of precedence.
    refs: Vec<u32>,
    /// Longest path.
    depth: usize,
    /// Rules that overlap elimination removed, by node: start and length in `hidden`. Empty if the
    /// build does not keep them.
    hidden_of: Vec<(u32, u32)>,
    /// Each node's in order of precedence.
    hidden: Vec<u32>,
}

impl Tree {
    fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.cuts.capacity() * size_of::<Cut>()
            + (self.children.capacity() + self.refs.capacity() + self.hidden.capacity()) * 4
            + self.hidden_of.capacity() * 8
    }
}

/// The tree, and its rules as leaves compare them.
#[derive(Debug)]
pub(crate) struct HyperCuts<const W: usize> {
    ports_word: usize,
    /// By precedence.
    rules: Vec<LeafRule<W>>,
    tree: Tree,
}

/// A key on its way through the tree.
#[derive(Clone, Copy)]
struct Walker {
    node: u32,
    best: u32,
    /// Common trees still to visit; none when a walk has ended.
    waiting: [u32; DEPTH_MAX],
    waiting_len: usize,
}

impl<const W: usize> HyperCuts<W> {
    /// One step of a walk: through a node, or into a leaf and back.
    #[inline(always)]
    fn step(&self, key: &[u32; W], walker: &mut Walker) {
        let node = &self.tree.nodes[walker.node as usize];
        walker.node = NONE;
        if node.bound < walker.best {
            if node.cuts_len == 0 {
                walker.best = self.search_leaf(node, key, walker.best);
            } else {
                if node.common != NONE {
                    walker.waiting[walker.waiting_len] = node.common;
                    walker.waiting_len += 1;
                }
                walker.node = self.child(node, key);
            }
        }
        if walker.node == NONE && walker.waiting_len > 0 {
            walker.waiting_len -= 1;
            walker.node = walker.waiting[walker.waiting_len];
        }
    }

    #[inline(always)]
    fn child(&self, node: &Node, key: &[u32; W]) -> u32 {
        let mut cell = node.first;
        for cut in &self.tree.cuts[node.cuts_first as usize..][..node.cuts_len as usize] {
            let part = key[usize::from(cut.word)] >> cut.part_shift & cut.part_mask;
            let offset = part.wrapping_sub(cut.lo);
            if offset > cut.span {
                return NONE;
            }
            cell += (offset >> cut.cell_shift) * cut.stride;
        }
        self.tree.children[cell as usize]
    }

    #[inline(always)]
    fn search_leaf(&self, leaf: &Node, key: &[u32; W], best: u32) -> u32 {
        let refs = &self.tree.refs[leaf.first as usize..][..leaf.rules_len as usize];
        for &rule in refs {
            if rule >= best {
                break;
            }
            if self.rules[rule as usize].matches(key, self.ports_word) {
                return rule;
            }
        }
        best
    }

    fn search(&self, keys: &[[u32; W]], walkers: &mut [Walker; WALKERS], out: &mut [RuleId]) {
        let start = if self.tree.nodes.is_empty() { NONE } else { 0 };
        for walker in walkers.iter_mut() {
            (walker.node, walker.best) = (start, NONE);
        }
        let mut active: [u8; WALKERS] = std::array::from_fn(|idx| idx as u8);
        let mut active_len = if start == NONE { 0 } else { keys.len() };
        while active_len > 0 {
            let mut kept = 0;
            for at in 0..active_len {
                let idx = active[at];
                let walker = &mut walkers[usize::from(idx)];
                self.step(&keys[usize::from(idx)], walker);
                active[kept] = idx;
                kept += usize::from(walker.node != NONE);
            }
            active_len = kept;
        }
        for (winner, walker) in out.iter_mut().zip(walkers) {
            *winner = self.rules.get(walker.best as usize).map_or(RuleId::NONE, |rule| rule.id);
        }
    }
}

impl<const W: usize> Index for HyperCuts<W> {
    const ENGINE: Engine = Engine::HyperCuts;

    type Device = ();

    fn build((): &(), store: &RuleStore, bytes_max: usize, _: u64) -> Result<Self, TooLarge> {
        build::build(store, bytes_max)
    }

    fn classify(&self, keys: KeyBatch<'_>, out: &mut [RuleId]) {
        let (keys, _) = keys.words().as_chunks::<W>();
        let walker = Walker { node: NONE, best: NONE, waiting: [NONE; DEPTH_MAX], waiting_len: 0 };
        let mut walkers = [walker; WALKERS];
        for (keys, out) in keys.chunks(WALKERS).zip(out.chunks_mut(WALKERS)) {
            self.search(keys, &mut walkers, out);
        }
    }

    fn bytes(&self) -> usize {
        self.rules.capacity() * size_of::<LeafRule<W>>() + self.tree.bytes()
    }

    fn details(&self) -> Vec<Detail> {
        let tree = &self.tree;
        let leaves = tree.nodes.iter().filter(|node| node.cuts_len == 0);
        let leaf_rules_max = leaves.clone().map(|leaf| leaf.rules_len).max().unwrap_or(0);
        let refs_per_rule = tree.refs.len() as f64 / self.rules.len().max(1) as f64;
        vec![
            Detail { name: "nodes", value: tree.nodes.len() as f64 },
            Detail { name: "leaves", value: leaves.count() as f64 },
            Detail { name: "cells", value: tree.children.len() as f64 },
            Detail { name: "depth", value: tree.depth as f64 },
            Detail { name: "leaf_rules_max", value: f64::from(leaf_rules_max) },
            Detail { name: "leaf_entries_per_rule", value: refs_per_rule },
        ]
    }
}
