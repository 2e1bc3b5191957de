//! The rules that overlap a box, found through the tree.
//!
//! ```text
//! region ─► node ─┬─ rules hidden at this node           each rule that overlaps the region,
//!                 ├─ common tree                    ─►   until none can precede the bound
//!                 └─ cells that meet the region ─► … leaves
//! ```
//! # Invariants
//! - V1: the visit is exact: every rule that overlaps the region and precedes the bound is seen.
//!   A key in both leads to a node where the rule is in the leaf, or where overlap elimination
//!   removed it; the tree keeps the removed rules beside their node for this purpose. Parts of the
//!   region outside of a node's grid meet only its common tree, as for single keys.
//! - V2: a node's rules, hidden ones included, do not precede `bound` of the node, since a rule is
//!   hidden by a better one. So the bound skips whole nodes.
//!
//! A rule that was copied to several leaves may be seen several times.

use warpswitch_rules::Precedence;

use super::build::{TreeOptions, build_with_hidden};
use super::dims::{Boxes, Dim, Side, Span, dims_of, meets, sides_of};
use super::{Cut, NONE, Tree};
use crate::store::RuleStore;

/// A HyperCuts tree that finds the rules of a box.
///
/// A *region* has one span for each dimension of the schema, in the order of [`dims_of`].
#[derive(Debug)]
pub struct BoxTree {
    tree: Tree,
    dims: Vec<Dim>,
    /// The schema's dimension of each of the tree's.
    tree_dims: Vec<usize>,
    /// By precedence.
    precedences: Vec<Precedence>,
    /// `dims.len()` a rule.
    sides: Vec<Side>,
}

/// What a visit does with a rule: its precedence and sides in, the new bound out.
type See<'a> = &'a mut dyn FnMut(Precedence, &[Side]) -> Precedence;

struct Visit<'a> {
    tree: &'a BoxTree,
    region: &'a [Span],
    bound: Precedence,
    /// Cells that may still be entered.
    cells_left: usize,
    see: See<'a>,
}

impl BoxTree {
    /// Builds the tree over the rules of `store`.
    pub fn build(store: &RuleStore, options: TreeOptions) -> Self {
        let places = store.places_by_precedence();
        let boxes = Boxes::new(store, &places);
        let dims = dims_of(store.schema());
        let position = |dim| dims.iter().position(|other| other == dim);
        let tree_dims = boxes.dims.iter().filter_map(position).collect();
        let rules = || places.iter().map(|&place| store.rule(place));
        Self {
            tree: build_with_hidden(&boxes, places.len(), options),
            tree_dims,
            precedences: rules().map(|rule| rule.precedence()).collect(),
            sides: rules().flat_map(|rule| sides_of(&dims, rule)).collect(),
            dims,
        }
    }

    /// The dimensions of regions.
    pub fn dims(&self) -> &[Dim] {
        &self.dims
    }

    /// Number of nodes.
    pub fn nodes_len(&self) -> usize {
        self.tree.nodes.len()
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.tree.bytes()
            + self.precedences.capacity() * size_of::<Precedence>()
            + self.sides.capacity() * size_of::<Side>()
    }

    /// Calls `see` for rules that overlap `region` and precede `bound`; each call returns the
    /// bound from then on. Rules come in no particular order, and may come more than once.
    ///
    /// Cost: the nodes that meet the region and hold a rule that precedes the bound.
    ///
    /// # Panics
    /// If `region` has fewer spans than there are dimensions: a caller bug.
    pub fn visit(&self, region: &[Span], bound: Precedence, see: See<'_>) {
        self.visit_within(region, bound, usize::MAX, see);
    }

    /// The same for a bounded cost: enters at most so many cells of nodes. Returns whether that was
    /// enough; else rules may be missing.
    ///
    /// # Panics
    /// As [`BoxTree::visit`].
    pub fn visit_within(
        &self,
        region: &[Span],
        bound: Precedence,
        cells_max: usize,
        see: See<'_>,
    ) -> bool {
        assert!(region.len() >= self.dims.len(), "one span for each dimension");
        let mut visit = Visit { tree: self, region, bound, cells_left: cells_max, see };
        if !self.tree.nodes.is_empty() {
            visit.node(0);
        }
        visit.cells_left > 0
    }
}

impl Visit<'_> {
    fn node(&mut self, idx: u32) {
        let tree = &self.tree.tree;
        let node = tree.nodes[idx as usize];
        if self.tree.precedences[node.bound as usize] >= self.bound {
            return;
        }
        if node.cuts_len == 0 {
            self.list(&tree.refs[node.first as usize..][..node.rules_len as usize]);
        } else {
            if node.common != NONE {
                self.node(node.common);
            }
            let cuts = &tree.cuts[node.cuts_first as usize..][..node.cuts_len as usize];
            self.cells(cuts, node.first);
        }
        let (first, len) = tree.hidden_of[idx as usize];
        self.list(&tree.hidden[first as usize..][..len as usize]);
    }

    /// The cells that meet the region, dimension by dimension.
    fn cells(&mut self, cuts: &[Cut], cell: u32) {
        if self.cells_left == 0 {
            return;
        }
        let Some((cut, rest)) = cuts.split_first() else {
            self.cells_left -= 1;
            let child = self.tree.tree.children[cell as usize];
            if child != NONE {
                self.node(child);
            }
            return;
        };
        let grid = Span { lo: cut.lo, hi: cut.lo + cut.span };
        let both = self.region[self.tree.tree_dims[usize::from(cut.dim)]].clipped(grid);
        if both.lo > both.hi {
            return;
        }
        let cells = (both.lo - cut.lo) >> cut.cell_shift..=(both.hi - cut.lo) >> cut.cell_shift;
        for at in cells {
            self.cells(rest, cell + at * cut.stride);
        }
    }

    /// Rules in order of precedence.
    fn list(&mut self, rules: &[u32]) {
        let dims_len = self.tree.dims.len();
        for &rule in rules {
            let precedence = self.tree.precedences[rule as usize];
            if precedence >= self.bound {
                return;
            }
            let sides = &self.tree.sides[rule as usize * dims_len..][..dims_len];
            if meets(sides, self.region) {
                self.bound = (self.see)(precedence, sides);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use warpswitch_rules::generate::{Family, Prng, RulesetSpec, Style};
    use warpswitch_rules::schema::{IPV4_5TUPLE, OPENFLOW12};
    use warpswitch_rules::{Action, Field, Match, Rule, RuleId, Ruleset, RulesetBuilder};

    use super::*;
    use crate::hypercuts::covers;

    /// The rules of a region, and whether each covers it.
    type Found = BTreeMap<Precedence, bool>;

    fn visited(tree: &BoxTree, region: &[Span]) -> Found {
        let mut found = Found::new();
        tree.visit(region, Precedence::NONE, &mut |precedence, sides| {
            found.insert(precedence, covers(sides, region));
            Precedence::NONE
        });
        found
    }

    fn reference(ruleset: &Ruleset, dims: &[Dim], region: &[Span]) -> Found {
        let sides = |rule| sides_of(dims, rule).collect::<Vec<_>>();
        let rules = ruleset.iter().map(|rule| (rule.precedence(), sides(rule)));
        let meeting = rules.filter(|(_, sides)| meets(sides, region));
        meeting.map(|(precedence, sides)| (precedence, covers(&sides, region))).collect()
    }

    /// The rule that a conflict check ends with: the best that covers the region under one action,
    /// or overlaps it under another. Actions are the rule ids modulo `actions`.
    fn conflict(tree: &BoxTree, region: &[Span], action: u32, actions: u32) -> Precedence {
        let mut bound = Precedence::NONE;
        tree.visit(region, bound, &mut |precedence, sides| {
            assert!(precedence < bound, "a rule that does not precede the bound");
            if precedence.id().0 % actions != action || covers(sides, region) {
                bound = precedence;
            }
            bound
        });
        bound
    }

    fn reference_conflict(found: &Found, action: u32, actions: u32) -> Precedence {
        let ends = |(precedence, covers): (&Precedence, &bool)| {
            (precedence.id().0 % actions != action || *covers).then_some(*precedence)
        };
        found.iter().find_map(ends).unwrap_or(Precedence::NONE)
    }

    /// A region around parts of a few rules, or between random values.
    fn random_region(ruleset: &Ruleset, dims: &[Dim], prng: &mut Prng) -> Vec<Span> {
        let draw = |dim: &Dim, prng: &mut Prng| {
            let rule = ruleset.rule(RuleId(prng.below(ruleset.len() as u64) as u32));
            let open = dim.ones() & !dim.part(rule.matching.mask);
            dim.part(rule.matching.value) | prng.next_u64() as u32 & open
        };
        let mut span = |dim: &Dim| {
            let (a, b) = (draw(dim, &mut *prng), draw(dim, &mut *prng));
            match prng.below(4) {
                0 => Span { lo: 0, hi: dim.ones() },
                1 => Span { lo: a, hi: a },
                2 => Span { lo: a, hi: a.saturating_add(b & 0xff).min(dim.ones()) },
                _ => Span { lo: a.min(b), hi: a.max(b) },
            }
        };
        dims.iter().map(&mut span).collect()
    }

    /// Rules over few values of some fields: many overlaps, masks with holes, equal rules.
    fn dense(rules: u32, prng: &mut Prng) -> Ruleset {
        let mut builder = RulesetBuilder::new(&OPENFLOW12);
        for _ in 0..rules {
            let mut matching = Match::any(&OPENFLOW12);
            let low = prng.below(16) as u16;
            match prng.below(4) {
                0 => _ = matching.set_range(Field::L4Src, low, low + prng.below(9) as u16),
                1 => _ = matching.set_range(Field::L4Dst, low, low + prng.below(9) as u16),
                _ => {}
            }
            let bits = |prng: &mut Prng| u128::from(prng.below(16));
            matching.set_mask(Field::Ipv4Dst, bits(prng), bits(prng));
            matching.set_mask(Field::EthSrc, bits(prng) << 30, bits(prng) << 30);
            matching.set_prefix(Field::Ipv4Src, bits(prng) << 28, prng.below(5) as usize);
            let priority = prng.below(3) as u32;
            builder.push(Rule { priority, ..Rule::new(matching, Action::Pass) });
        }
        builder.build()
    }

    #[test]
    fn visits_exactly_the_rules_that_overlap_a_box() {
        let mut prng = Prng::new(7);
        let mut sets: Vec<Ruleset> =
            (0..12).map(|n| dense([1, 20, 150, 600][n % 4], &mut prng)).collect();
        for (style, family) in
            [(Style::Acl, Family::Ipv4), (Style::Fw, Family::Ipv4), (Style::Ipc, Family::Ipv6)]
        {
            sets.push(RulesetSpec { style, family, rules: 700, seed: 3 }.generate());
        }
        let mut hidden = 0;
        for ruleset in &sets {
            let store = RuleStore::new(ruleset);
            for bucket_len in [1, 4, 16] {
                let tree = BoxTree::build(&store, TreeOptions { bucket_len });
                hidden += tree.tree.hidden.len();
                for _ in 0..150 {
                    let region = random_region(ruleset, tree.dims(), &mut prng);
                    let found = reference(ruleset, tree.dims(), &region);
                    assert_eq!(visited(&tree, &region), found, "{region:?}");
                    for actions in [1, 3, u32::MAX] {
                        let action = prng.below(ruleset.len() as u64) as u32 % actions;
                        let expected = reference_conflict(&found, action, actions);
                        let ended = conflict(&tree, &region, action, actions);
                        assert_eq!(ended, expected, "{region:?}");
                    }
                }
            }
        }
        assert!(hidden > 1000, "overlap elimination was tested: {hidden}");
    }

    #[test]
    fn a_set_without_rules_has_nothing_to_see() {
        let store = RuleStore::new(&Ruleset::empty(&IPV4_5TUPLE));
        let tree = BoxTree::build(&store, TreeOptions::default());
        let region: Vec<Span> =
            tree.dims().iter().map(|dim| Span { lo: 0, hi: dim.ones() }).collect();
        assert_eq!((visited(&tree, &region), tree.nodes_len()), (Found::new(), 0));
    }

    /// Table 1 of the Storm paper in the lowest bits of a 5-tuple.
    fn paper_rules() -> Ruleset {
        /// Prefix of F1, prefix of F2 (value and length of four bits), F3, F4 and F5.
        type Row = ((u128, usize), (u128, usize), Option<u16>, Option<u16>, u128);
        let rows: [Row; 8] = [
            ((0, 3), (0b1110, 3), Some(2), None, 0),
            ((0, 3), (0b1000, 2), Some(1), Some(2), 1),
            ((0, 3), (0b0100, 2), None, Some(3), 1),
            ((0, 1), (0b1000, 1), None, Some(1), 0),
            ((0, 1), (0, 1), Some(2), None, 0),
            ((0, 3), (0, 1), None, Some(1), 0),
            ((0, 0), (0, 0), None, None, 0),
            ((0, 0), (0, 0), None, None, 1),
        ];
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for (src, dst, l4_src, l4_dst, proto) in rows {
            let mut matching = Match::any(&IPV4_5TUPLE);
            matching.set_prefix(Field::Ipv4Src, src.0, 28 + src.1);
            matching.set_prefix(Field::Ipv4Dst, dst.0, 28 + dst.1);
            let mut port = |field, value: Option<u16>| {
                let (lo, hi) = value.map_or((0, 3), |value| (value, value));
                matching.set_range(field, lo, hi);
            };
            port(Field::L4Src, l4_src);
            port(Field::L4Dst, l4_dst);
            matching.set_exact(Field::IpProto, proto);
            builder.push(Rule::new(matching, Action::Pass));
        }
        builder.build()
    }

    #[test]
    fn the_worked_example_of_the_paper_is_accepted_by_rule_4() {
        const ACTIONS: [u32; 8] = [0, 1, 0, 2, 1, 1, 3, 4];
        let ruleset = paper_rules();
        let store = RuleStore::new(&ruleset);
        let one_leaf = BoxTree::build(&store, TreeOptions::default());
        assert_eq!(one_leaf.nodes_len(), 1);
        // Leaves of the figure hold three rules at most.
        let tree = BoxTree::build(&store, TreeOptions { bucket_len: 3 });
        let root: Vec<usize> = tree.tree.cuts[..tree.tree.nodes[0].cuts_len as usize]
            .iter()
            .map(|cut| tree.tree_dims[usize::from(cut.dim)])
            .collect();
        assert!(root.contains(&1), "the root cuts F2: {root:?}");
        let span = |lo, hi| Span { lo, hi };
        // (01*, 01*, 10, *, *) under action 1, within the part of F5 that its rules have.
        let flags = span(0, tree.dims()[5].ones());
        let region = [span(4, 7), span(4, 7), span(2, 2), span(0, 3), span(0, 0), flags];
        let check = |region: &[Span]| {
            let (mut matched, mut conflict) = (Precedence::NONE, Precedence::NONE);
            tree.visit(region, Precedence::NONE, &mut |precedence, sides| {
                if ACTIONS[precedence.id().as_usize()] != 1 {
                    conflict = conflict.min(precedence);
                } else if covers(sides, region) {
                    matched = matched.min(precedence);
                }
                matched.min(conflict)
            });
            (matched.id().0, matched < conflict)
        };
        assert_eq!(check(&region), (4, true));
        // One more value of F2 meets rule 3 first.
        let mut wider = region;
        wider[1].hi = 8;
        assert!(!check(&wider).1);
    }
}
