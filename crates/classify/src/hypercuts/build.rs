//! Building the tree, largest node first.
//!
//! For each node, in this order:
//! 1. *rule overlap elimination*: a rule that a better one hides within the region goes;
//! 2. few rules left, or no cut that helps: a leaf;
//! 3. *region compaction*: the region shrinks to the box around its rules;
//! 4. the cuts ([`cuts`](super::cuts));
//! 5. *common rules upward*: rules that span all cells become the node's common tree;
//! 6. *node merging*: cells with the same rules share one child, whose region covers them all.
//!
//! Two limits keep the size in hand. The caller's bound refuses the build, with the rules that are
//! copied most. Before that, a tree of more than [`WORDS_PER_RULE_MAX`] words a rule is not cut any
//! further: since the largest nodes are cut first, what is left are the small ones, which become
//! leaves a little larger than wished.

use std::collections::{BinaryHeap, HashMap};

use warpswitch_rules::PortRange;

use super::cuts::{self, Choice};
use super::dims::{Boxes, Span};
use super::{Cut, DEPTH_MAX, HyperCuts, LeafRule, NONE, Node, Tree};
use crate::index::TooLarge;
use crate::store::{RuleStore, dearest_rules};

/// How a tree is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// A node of at most this many rules becomes a leaf: the paper's bucket size.
    pub bucket_len: usize,
}

impl Default for TreeOptions {
    /// Buckets of 16 rules.
    fn default() -> Self {
        Self { bucket_len: 16 }
    }
}

/// Words of cells and leaf entries for each rule, on average.
const WORDS_PER_RULE_MAX: usize = 32;

/// Rules of a node among which every pair is looked at for overlap.
const PAIRS_LEN_MAX: usize = 64;

/// A node that is not built yet. Ordered by its number of rules.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    rules_len: usize,
    /// Its place in `nodes`.
    node: u32,
    depth: usize,
    rules: Vec<u32>,
    region: Vec<Span>,
}

struct Builder<'a> {
    boxes: &'a Boxes,
    options: TreeOptions,
    keeps_hidden: bool,
    rules_len: usize,
    /// Bytes of each rule beside the tree.
    rule_bytes: usize,
    tree: Tree,
    works: BinaryHeap<Work>,
    /// Rules in `works`: leaf entries, if nothing more is cut.
    pending_refs: usize,
}

pub(super) fn build<const W: usize>(
    store: &RuleStore,
    bytes_max: usize,
) -> Result<HyperCuts<W>, TooLarge> {
    let places = store.places_by_precedence();
    let ids = || places.iter().map(|&place| store.rule(place).id);
    let rule_bytes = size_of::<LeafRule<W>>();
    let bytes_min = places.len() * (rule_bytes + 4);
    if bytes_min > bytes_max {
        let rules = dearest_rules(ids().map(|id| (1, id)));
        return Err(TooLarge { bytes: bytes_min, rules });
    }
    let boxes = Boxes::new(store, &places);
    let mut builder = Builder::new(&boxes, places.len(), TreeOptions::default(), false);
    builder.rule_bytes = rule_bytes;
    if let Err(copies) = builder.grow(bytes_max) {
        let rules = dearest_rules(copies.into_iter().zip(ids()));
        return Err(TooLarge { bytes: builder.bytes(), rules });
    }
    let tree = builder.finish();
    let rules = places.iter().map(|&place| leaf_rule(store, place)).collect();
    Ok(HyperCuts { ports_word: store.schema().ports_word, rules, tree })
}

/// The tree over `rules_len` boxes, with the rules that overlap elimination removed kept aside.
pub(super) fn build_with_hidden(boxes: &Boxes, rules_len: usize, options: TreeOptions) -> Tree {
    let mut builder = Builder::new(boxes, rules_len, options, true);
    builder.grow(usize::MAX).expect("no bound to pass");
    builder.finish()
}

fn leaf_rule<const W: usize>(store: &RuleStore, place: u32) -> LeafRule<W> {
    let rule = store.rule(place);
    let ranges: [PortRange; 2] = rule.matching.ranges;
    LeafRule {
        value: std::array::from_fn(|word| rule.matching.value[word]),
        mask: std::array::from_fn(|word| rule.matching.mask[word]),
        ranges,
        id: rule.id,
    }
}

impl<'a> Builder<'a> {
    fn new(boxes: &'a Boxes, rules_len: usize, options: TreeOptions, keeps_hidden: bool) -> Self {
        let mut builder = Self {
            boxes,
            options,
            keeps_hidden,
            rules_len,
            rule_bytes: 0,
            tree: Tree::default(),
            works: BinaryHeap::new(),
            pending_refs: 0,
        };
        builder.add_node((0..rules_len as u32).collect(), boxes.everything(), 1);
        builder
    }

    /// Builds node after node.
    ///
    /// # Errors
    /// If the tree would pass `bytes_max`: how often each rule is copied.
    fn grow(&mut self, bytes_max: usize) -> Result<(), Vec<usize>> {
        while let Some(work) = self.works.pop() {
            self.pending_refs -= work.rules_len;
            self.build_node(work);
            if self.bytes() > bytes_max {
                return Err(self.copies());
            }
        }
        Ok(())
    }

    fn finish(self) -> Tree {
        let mut tree = self.tree;
        tree.nodes.shrink_to_fit();
        tree.cuts.shrink_to_fit();
        tree.children.shrink_to_fit();
        tree.refs.shrink_to_fit();
        tree.hidden.shrink_to_fit();
        tree
    }

    /// Bytes of the tree if nothing more is cut.
    fn bytes(&self) -> usize {
        let tree = &self.tree;
        self.rules_len * self.rule_bytes
            + tree.nodes.len() * size_of::<Node>()
            + tree.cuts.len() * size_of::<Cut>()
            + self.words() * 4
    }

    /// Cells and leaf entries, those to come included.
    fn words(&self) -> usize {
        self.tree.children.len() + self.tree.refs.len() + self.pending_refs
    }

    /// How often each rule is in a leaf or waits to be.
    fn copies(&self) -> Vec<usize> {
        let mut copies = vec![0; self.rules_len];
        let waiting = self.works.iter().flat_map(|work| &work.rules);
        self.tree.refs.iter().chain(waiting).for_each(|&rule| copies[rule as usize] += 1);
        copies
    }

    /// Reserves a node for these rules, or none for none.
    fn add_node(&mut self, rules: Vec<u32>, region: Vec<Span>, depth: usize) -> u32 {
        let Some(&bound) = rules.first() else { return NONE };
        let node = self.tree.nodes.len() as u32;
        self.tree.nodes.push(Node {
            bound,
            common: NONE,
            first: 0,
            rules_len: 0,
            cuts_first: 0,
            cuts_len: 0,
        });
        if self.keeps_hidden {
            self.tree.hidden_of.push((0, 0));
        }
        self.pending_refs += rules.len();
        self.works.push(Work { rules_len: rules.len(), node, depth, rules, region });
        node
    }

    fn build_node(&mut self, mut work: Work) {
        self.tree.depth = self.tree.depth.max(work.depth);
        let all = if self.keeps_hidden { work.rules.clone() } else { Vec::new() };
        self.drop_hidden(&mut work);
        self.keep_hidden(&all, &work);
        let small = work.rules.len() <= self.options.bucket_len || work.depth == DEPTH_MAX;
        let budget = WORDS_PER_RULE_MAX * self.rules_len;
        if small || self.words() + work.rules.len() > budget {
            return self.make_leaf(&work);
        }
        work.region = self.boxes.hull(&work.rules, &work.region);
        match cuts::choose(self.boxes, &work.rules, &work.region) {
            Some(choices) => self.make_inner(work, &choices),
            None => self.make_leaf(&work),
        }
    }

    /// Rule overlap elimination. The rules are in order of precedence.
    fn drop_hidden(&self, work: &mut Work) {
        let (rules, region) = (&mut work.rules, &work.region);
        if let Some(last) = rules.iter().position(|&rule| self.boxes.fills(rule, region)) {
            rules.truncate(last + 1);
        }
        if rules.len() <= PAIRS_LEN_MAX {
            let mut kept: Vec<u32> = Vec::with_capacity(rules.len());
            for &rule in rules.iter() {
                if !kept.iter().any(|&better| self.boxes.hides(better, rule, region)) {
                    kept.push(rule);
                }
            }
            *rules = kept;
        }
    }

    /// Notes the rules of `all` that `work` lacks.
    fn keep_hidden(&mut self, all: &[u32], work: &Work) {
        if all.len() <= work.rules.len() {
            return;
        }
        let first = self.tree.hidden.len();
        let mut kept = work.rules.iter().peekable();
        let hidden = all.iter().filter(|&rule| kept.next_if_eq(&rule).is_none());
        self.tree.hidden.extend(hidden);
        let len = self.tree.hidden.len() - first;
        self.tree.hidden_of[work.node as usize] = (first as u32, len as u32);
    }

    fn make_leaf(&mut self, work: &Work) {
        let node = &mut self.tree.nodes[work.node as usize];
        node.first = self.tree.refs.len() as u32;
        node.rules_len = work.rules.len() as u32;
        self.tree.refs.extend_from_slice(&work.rules);
    }

    fn make_inner(&mut self, work: Work, choices: &[Choice]) {
        let (common, cells) = self.distribute(&work.rules, choices);
        let node = &mut self.tree.nodes[work.node as usize];
        node.first = self.tree.children.len() as u32;
        node.cuts_first = self.tree.cuts.len() as u32;
        node.cuts_len = choices.len() as u32;
        let first = self.tree.children.len();
        self.tree.children.resize(first + cells.len(), NONE);
        let mut stride = cells.len();
        for choice in choices {
            stride /= choice.cells();
            self.tree.cuts.push(self.cut(choice, stride as u32));
        }
        let common = self.add_node(common, work.region.clone(), work.depth + 1);
        self.tree.nodes[work.node as usize].common = common;
        // Node merging: equal lists, one child.
        let mut groups: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut children: Vec<(Vec<usize>, Vec<Span>)> = Vec::new();
        for (cell, rules) in cells.into_iter().enumerate().filter(|(_, rules)| !rules.is_empty()) {
            let region = cell_region(cell, choices, &work.region);
            let group = *groups.entry(rules).or_insert(children.len());
            match children.get_mut(group) {
                None => children.push((vec![cell], region)),
                Some((cells, joined)) => {
                    cells.push(cell);
                    joined.iter_mut().zip(region).for_each(|(all, one)| *all = all.joined(one));
                }
            }
        }
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); children.len()];
        groups.into_iter().for_each(|(rules, group)| lists[group] = rules);
        for (rules, (cells, region)) in lists.into_iter().zip(children) {
            let child = self.add_node(rules, region, work.depth + 1);
            cells.into_iter().for_each(|cell| self.tree.children[first + cell] = child);
        }
    }

    /// The rules that span all cells, and the others by cell.
    fn distribute(&self, rules: &[u32], choices: &[Choice]) -> (Vec<u32>, Vec<Vec<u32>>) {
        let mut common = Vec::new();
        let mut cells = vec![Vec::new(); choices.iter().map(Choice::cells).product()];
        for &rule in rules {
            let spans = self.boxes.of(rule);
            let blocks: Vec<(usize, usize)> =
                choices.iter().map(|choice| choice.cells_of(spans[choice.dim])).collect();
            if cuts::spans_all(&blocks, choices) {
                common.push(rule);
                continue;
            }
            let mut at: Vec<usize> = blocks.iter().map(|&(first, _)| first).collect();
            'cells: loop {
                let pairs = at.iter().zip(choices);
                let cell = pairs.fold(0, |cell, (at, choice)| cell * choice.cells() + at);
                cells[cell].push(rule);
                // The next cell of the block, like the digits of a number.
                for dim in (0..at.len()).rev() {
                    if at[dim] < blocks[dim].1 {
                        at[dim] += 1;
                        continue 'cells;
                    }
                    at[dim] = blocks[dim].0;
                }
                break;
            }
        }
        (common, cells)
    }

    fn cut(&self, choice: &Choice, stride: u32) -> Cut {
        let dim = &self.boxes.dims[choice.dim];
        let region = choice.region;
        Cut {
            word: dim.word as u8,
            part_shift: dim.shift as u8,
            cell_shift: choice.shift as u8,
            dim: choice.dim as u8,
            part_mask: dim.ones(),
            lo: region.lo,
            span: region.hi - region.lo,
            stride,
        }
    }
}

/// The region of one cell of a grid.
fn cell_region(mut cell: usize, choices: &[Choice], region: &[Span]) -> Vec<Span> {
    let mut region = region.to_vec();
    for choice in choices.iter().rev() {
        region[choice.dim] = choice.span_of(cell % choice.cells());
        cell /= choice.cells();
    }
    region
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::schema::IPV4_5TUPLE;
    use warpswitch_rules::{Action, Field, Match, Rule, Ruleset, RulesetBuilder};

    /// Rules with one wide range each, in turns in another field: the worst for copies.
    fn crossing_rules(rules: u32) -> Ruleset {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for n in 0..rules {
            let mut matching = Match::any(&IPV4_5TUPLE);
            let low = (n * 37 % 1000) as u16;
            match n % 4 {
                0 => matching.set_range(Field::L4Src, low, low + 30_000),
                1 => matching.set_range(Field::L4Dst, low, low + 30_000),
                2 => matching.set_prefix(Field::Ipv4Src, u128::from(n) << 8, 24),
                _ => matching.set_prefix(Field::Ipv4Dst, u128::from(n) << 8, 24),
            };
            builder.push(Rule::new(matching, Action::Pass));
        }
        builder.build()
    }

    /// Every node is reached once or more, and holds what its parent promised.
    fn verify(tree: &Tree) {
        let mut seen = vec![false; tree.nodes.len()];
        let mut stack = vec![(0u32, 1, 0u32)];
        while let Some((idx, depth, bound_min)) = stack.pop() {
            let node = &tree.nodes[idx as usize];
            seen[idx as usize] = true;
            assert!(depth <= DEPTH_MAX && depth <= tree.depth);
            assert!(node.bound >= bound_min, "a child is better than its parent");
            if node.cuts_len == 0 {
                let refs = &tree.refs[node.first as usize..][..node.rules_len as usize];
                assert!(refs.is_sorted());
                assert_eq!(refs.first(), Some(&node.bound));
                continue;
            }
            let cuts = &tree.cuts[node.cuts_first as usize..][..node.cuts_len as usize];
            let cells: u32 = cuts.iter().map(|cut| (cut.span >> cut.cell_shift) + 1).product();
            let children = &tree.children[node.first as usize..][..cells as usize];
            let below = children.iter().chain([&node.common]).filter(|&&child| child != NONE);
            stack.extend(below.map(|&child| (child, depth + 1, node.bound)));
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn copies_stay_within_their_limit() {
        for rules in [1, 16, 17, 300, 3000] {
            let store = RuleStore::new(&crossing_rules(rules));
            let tree = build::<4>(&store, usize::MAX).unwrap().tree;
            verify(&tree);
            let words = tree.refs.len() + tree.children.len();
            let limit = WORDS_PER_RULE_MAX * (rules as usize).max(1);
            assert!(words <= 2 * limit, "{words} words for {rules} rules");
        }
    }

    #[test]
    fn a_bound_names_the_rules_that_are_copied_most() {
        let ruleset = crossing_rules(3000);
        let store = RuleStore::new(&ruleset);
        let bytes_max = 3000 * (size_of::<LeafRule<4>>() + 8);
        let refused = build::<4>(&store, bytes_max).expect_err("too little for copies");
        assert!(refused.bytes > bytes_max);
        let worst = refused.rules[0];
        assert!(worst.0 % 4 < 2, "rule {worst} is a prefix, ranges are copied more");
    }
}
