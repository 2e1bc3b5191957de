//! The current rules as boxes with answers: which rule wins for a key, and may a box be cached?
//!
//! ```text
//!            ┌─ tree of an earlier version, less the rules removed since ─┐
//! region ────┤                                                            ├─► best match, best
//!            └─ rules inserted since, one by one                         ─┘    conflict
//! ```
//! The paper's *CheckConflict*: a rule *matches* if it covers the region under the same answer; it
//! *conflicts* if it overlaps the region under another answer. The region may be cached if the best
//! match precedes the best conflict. The region then lies in one original rule, and each of its
//! keys has the answer: its winner precedes the conflict, or is the match.
//!
//! # Invariants
//! - R1: tree and overlay together are the rules of `store`. A change goes to the overlay, at the
//!   cost of the change; results are exact while a new tree is built.
//! - R2: [`RuleIndex::begin_rebuild`] starts a second overlay, of the changes after the snapshot.
//!   [`RuleIndex::finish_rebuild`] replaces tree and overlay together.
//! - R3: no rule at all counts as a rule that loses against all others and covers everything.

use std::collections::{HashMap, HashSet};

use warpswitch_classify::RuleChange;
use warpswitch_classify::hypercuts::{
    BoxTree, Dim, Side, Span, TreeOptions, covers, dims_of, meets, sides_of,
};
use warpswitch_classify::parts::RuleStore;
use warpswitch_rules::{Precedence, RuleId, RuleRef, Ruleset, Schema};

use crate::Answer;

/// Changes after which a new tree pays, for small rule sets.
const OVERLAY_LEN_MIN: usize = 64;

/// Bounds of a check that a box may grow: cells of the tree, and rules that overlap the box. Such a
/// check takes some microseconds, most of them for memory that no cache holds.
const CELLS_MAX: usize = 256;
/// See [`CELLS_MAX`].
const SEEN_MAX: usize = 256;

/// Which rules may share an evolving rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Rules of the same action: the answer is the action's number.
    ByAction,
    /// Each rule for itself: the answer is the rule's id.
    ByRule,
}

/// The answer of each rule by [`Merge::ByAction`]: actions are numbered in order of their first
/// rule.
pub fn action_answers(ruleset: &Ruleset) -> Vec<Answer> {
    let mut numbers = HashMap::new();
    let number = |id| {
        let next = Answer(numbers.len() as u32);
        *numbers.entry(ruleset.action(id)).or_insert(next)
    };
    ruleset.ids().map(number).collect()
}

/// Changes since a tree was built.
#[derive(Clone, Debug, Default)]
struct Overlay {
    /// Rules of the tree that are gone.
    removed: HashSet<RuleId>,
    /// By precedence.
    inserted: Vec<(Precedence, Box<[Side]>)>,
}

impl Overlay {
    fn insert(&mut self, precedence: Precedence, sides: Box<[Side]>) {
        let at = self.inserted.partition_point(|(other, _)| *other < precedence);
        self.inserted.insert(at, (precedence, sides));
    }

    fn remove(&mut self, precedence: Precedence) {
        match self.inserted.binary_search_by_key(&precedence, |(other, _)| *other) {
            Ok(at) => drop(self.inserted.remove(at)),
            Err(_) => _ = self.removed.insert(precedence.id()),
        }
    }

    fn len(&self) -> usize {
        self.removed.len() + self.inserted.len()
    }
}

/// The current rules. See the module.
#[derive(Debug)]
pub struct RuleIndex {
    dims: Vec<Dim>,
    store: RuleStore,
    merge: Merge,
    /// Of rules with an action; empty if rules do not merge.
    answers: HashMap<RuleId, Answer>,
    /// Rules that examine each dimension.
    examined_by: Vec<usize>,
    tree_options: TreeOptions,
    tree: BoxTree,
    overlay: Overlay,
    /// Changes since the snapshot of the rebuild in progress.
    next_overlay: Option<Overlay>,
}

/// The rule that wins for a point.
#[derive(Debug)]
pub struct Winner {
    precedence: Precedence,
    /// Empty if no rule matches.
    sides: Vec<Side>,
    /// The smallest box around all keys of the rule; that of all keys if no rule matches.
    reach: Vec<Span>,
}

impl Default for Winner {
    /// No rule.
    fn default() -> Self {
        Self { precedence: Precedence::NONE, sides: Vec::new(), reach: Vec::new() }
    }
}

impl Winner {
    /// The rule.
    pub fn id(&self) -> RuleId {
        self.precedence.id()
    }

    /// The smallest box around all of its keys.
    pub fn reach(&self) -> &[Span] {
        &self.reach
    }
}

/// The rules at the start of a rebuild: its tree can be built without the index.
#[derive(Debug)]
pub struct Snapshot {
    store: RuleStore,
    options: TreeOptions,
}

impl Snapshot {
    /// Builds the tree. Cost: some microseconds for each rule.
    pub fn build(self) -> BoxTree {
        BoxTree::build(&self.store, self.options)
    }
}

impl RuleIndex {
    /// Indexes `ruleset`; see [`action_answers`] for the numbers of actions.
    pub fn new(ruleset: &Ruleset, merge: Merge, tree_options: TreeOptions) -> Self {
        let store = RuleStore::build(ruleset, usize::MAX).expect("no bound to pass");
        let dims = dims_of(ruleset.schema());
        let mut index = Self {
            examined_by: vec![0; dims.len()],
            tree: BoxTree::build(&store, tree_options),
            dims,
            store,
            merge,
            answers: HashMap::new(),
            tree_options,
            overlay: Overlay::default(),
            next_overlay: None,
        };
        if merge == Merge::ByAction {
            index.answers = ruleset.ids().zip(action_answers(ruleset)).collect();
        }
        for rule in ruleset.iter() {
            index.count_examined(rule, |count| *count += 1);
        }
        index
    }

    /// The layout of keys.
    pub fn schema(&self) -> &'static Schema {
        self.store.schema()
    }

    /// The dimensions of regions.
    pub fn dims(&self) -> &[Dim] {
        &self.dims
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Whether the index is empty.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// The answer of a rule of this index; [`Answer::NONE`] for [`RuleId::NONE`].
    ///
    /// A rule without a known action merges with no other: its keys are not cached.
    pub fn answer(&self, id: RuleId) -> Answer {
        match self.merge {
            Merge::ByRule => Answer(id.0),
            Merge::ByAction if id == RuleId::NONE => Answer::NONE,
            Merge::ByAction => self.answers.get(&id).copied().unwrap_or(Answer::MISS),
        }
    }

    /// The smallest region with the key that no rule divides for lack of an examined dimension:
    /// all values of unexamined dimensions, one of each other.
    pub fn point(&self, key: &[u32], region: &mut Vec<Span>) {
        region.clear();
        region.extend(self.dims.iter().zip(&self.examined_by).map(|(dim, &count)| {
            let part = dim.part(key);
            if count == 0 { Span { lo: 0, hi: dim.ones() } } else { Span { lo: part, hi: part } }
        }));
    }

    /// Writes the rule that wins for all keys of a region of [`RuleIndex::point`] to `winner`,
    /// whose memory is reused.
    pub fn find_winner(&self, region: &[Span], winner: &mut Winner) {
        let Winner { precedence: best, sides: best_sides, reach } = winner;
        *best = Precedence::NONE;
        best_sides.clear();
        reach.clear();
        self.visit(region, Precedence::NONE, &mut |precedence, sides| {
            if covers(sides, region) {
                *best = precedence;
                best_sides.clear();
                best_sides.extend_from_slice(sides);
            }
            *best
        });
        if best_sides.is_empty() {
            reach.extend(self.dims.iter().map(|dim| Span { lo: 0, hi: dim.ones() }));
        } else {
            reach.extend(best_sides.iter().map(|side| side.span()));
        }
    }

    /// Whether a region may be cached under the answer of `winner`, as a part of its rule. Cheaper
    /// than [`RuleIndex::accepts`]: it ends at the first conflict, and rejects regions that take
    /// more than a bounded effort.
    pub fn accepts_within(&self, region: &[Span], winner: &Winner) -> bool {
        let answer = self.answer(winner.id());
        if answer == Answer::MISS || !covers(&winner.sides, region) {
            return false;
        }
        let (mut is_rejected, mut seen) = (false, 0);
        let mut see = |precedence: Precedence, _: &[Side]| {
            seen += 1;
            is_rejected |= seen > SEEN_MAX || self.answer(precedence.id()) != answer;
            if is_rejected { Precedence::FIRST } else { winner.precedence }
        };
        let is_complete = self.visit_within(region, winner.precedence, CELLS_MAX, &mut see);
        is_complete && !is_rejected
    }

    /// Whether a region may be cached under `answer`: the paper's CheckConflict.
    pub fn accepts(&self, region: &[Span], answer: Answer) -> bool {
        self.accepts_with(region, answer, usize::MAX)
    }

    /// The same, but rejects regions that take more than a bounded effort.
    pub fn accepts_soon(&self, region: &[Span], answer: Answer) -> bool {
        self.accepts_with(region, answer, CELLS_MAX)
    }

    fn accepts_with(&self, region: &[Span], answer: Answer, cells_max: usize) -> bool {
        if answer == Answer::MISS {
            return false;
        }
        let (mut matched, mut conflict) = (Precedence::NONE, Precedence::NONE);
        let mut see = |precedence: Precedence, sides: &[Side]| {
            if self.answer(precedence.id()) != answer {
                conflict = conflict.min(precedence);
            } else if covers(sides, region) {
                matched = matched.min(precedence);
            }
            matched.min(conflict)
        };
        let is_complete = self.visit_within(region, Precedence::NONE, cells_max, &mut see);
        // R3.
        let has_no_rule = answer == Answer::NONE && conflict == Precedence::NONE;
        is_complete && (matched < conflict || has_no_rule)
    }

    /// Calls `see` for rules that overlap the region, as [`BoxTree::visit`] does.
    fn visit(
        &self,
        region: &[Span],
        bound: Precedence,
        see: &mut dyn FnMut(Precedence, &[Side]) -> Precedence,
    ) {
        self.visit_within(region, bound, usize::MAX, see);
    }

    /// The same as [`BoxTree::visit_within`] does.
    fn visit_within(
        &self,
        region: &[Span],
        mut bound: Precedence,
        cells_max: usize,
        see: &mut dyn FnMut(Precedence, &[Side]) -> Precedence,
    ) -> bool {
        for (precedence, sides) in &self.overlay.inserted {
            if *precedence >= bound {
                break;
            }
            if meets(sides, region) {
                bound = see(*precedence, sides);
            }
        }
        let removed = &self.overlay.removed;
        self.tree.visit_within(region, bound, cells_max, &mut |precedence, sides| {
            if removed.is_empty() || !removed.contains(&precedence.id()) {
                bound = see(precedence, sides);
            }
            bound
        })
    }

    /// Whether a change can alter the answer of some key of `region`.
    pub fn touches(&self, change: &RuleChange<'_>, region: &[Span]) -> bool {
        let (RuleChange::Insert(rule) | RuleChange::Remove(rule)) = *change;
        rule.matching.value.len() != self.schema().words
            || sides_of(&self.dims, rule).zip(region).all(|(side, span)| side.meets(*span))
    }

    /// Makes a change that a classifier over the same rules has made. `answer` is that of an
    /// inserted rule; it is ignored if rules do not merge.
    ///
    /// # Panics
    /// If the rules do not allow the change: the classifier has other rules, a caller bug.
    pub fn apply(&mut self, change: &RuleChange<'_>, answer: Answer) {
        self.store.make(change).expect("a change that the classifier has made");
        let overlays = std::iter::once(&mut self.overlay).chain(&mut self.next_overlay);
        match *change {
            RuleChange::Insert(rule) => {
                let sides: Box<[Side]> = sides_of(&self.dims, rule).collect();
                overlays.for_each(|overlay| overlay.insert(rule.precedence(), sides.clone()));
                self.count_examined(rule, |count| *count += 1);
                if self.merge == Merge::ByAction {
                    self.answers.insert(rule.id, answer);
                }
            }
            RuleChange::Remove(rule) => {
                overlays.for_each(|overlay| overlay.remove(rule.precedence()));
                self.count_examined(rule, |count| *count -= 1);
                self.answers.remove(&rule.id);
            }
        }
    }

    fn count_examined(&mut self, rule: RuleRef<'_>, change: impl Fn(&mut usize)) {
        let sides = sides_of(&self.dims, rule).zip(&self.dims);
        let counts = self.examined_by.iter_mut().zip(sides);
        for (count, (side, dim)) in counts {
            if !side.covers(Span { lo: 0, hi: dim.ones() }) {
                change(count);
            }
        }
    }

    /// Whether so much has changed that a new tree pays, and none is being built.
    pub fn wants_rebuild(&self) -> bool {
        let limit = OVERLAY_LEN_MIN.max(self.store.len() / 8);
        self.next_overlay.is_none() && self.overlay.len() > limit
    }

    /// Starts a rebuild, unless one is in progress.
    pub fn begin_rebuild(&mut self) -> Option<Snapshot> {
        if self.next_overlay.is_some() {
            return None;
        }
        self.next_overlay = Some(Overlay::default());
        Some(Snapshot { store: self.store.clone(), options: self.tree_options })
    }

    /// Ends the rebuild in progress with the tree of its [`Snapshot`].
    ///
    /// # Panics
    /// If no rebuild is in progress: a caller bug.
    pub fn finish_rebuild(&mut self, tree: BoxTree) {
        self.overlay = self.next_overlay.take().expect("a rebuild in progress");
        self.tree = tree;
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        let overlay = self.overlay.inserted.len() * self.dims.len() * size_of::<Side>();
        self.store.bytes() + self.tree.bytes() + overlay
    }
}
