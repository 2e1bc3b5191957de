//! A `classify` engine over the words that the flows of one table examine, for bursts.
//!
//! ```text
//! keys ─► bits that all flows demand alike? ─► the other words, 4, 10 or 16 ─► turbo ─┐
//!                                                                            rest ────┼─► best
//!                                                                   flows without match
//! ```
//! Flows of one table mostly demand the same EtherType, and often the same protocol. These common
//! bits are compared once for a key. What is left of a table of 5-tuples are four words, which
//! `turbo` compares in its narrowest form.
//!
//! Bytes for a packet: 16, 40 or 64 of the key; what `turbo` reads, two to four cache lines; 4 for
//! the place of the winner, and 16 for its rank if another flow may be better. The lower bound is
//! one line for the winner and one for the way to it.
//!
//! # Changes
//! A flow that fits comes into the engine in place; others into the rest, a tuple-space search that
//! each key is looked up in as well. The engine is built anew, for the words that flows examine by
//! then, when the rest has had more than [`REST_MIN`] new flows and an eighth of all: so a flow
//! costs a share of builds that does not grow with the table. The tuple-space index of the table
//! has every flow at all times; it answers recorded walks and is the oracle in tests.
//!
//! # Invariants
//! - E1: a flow is in the engine, in the rest, or among those without a match; never in two.
//! - E2: of two flows of one priority in the engine, the older has the lower id.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use warpswitch_classify::{BuildOptions, Classifier};
use warpswitch_flow::PackedKey;
use warpswitch_flow::flow_hash::FlowHash;
use warpswitch_flow::programs::NO_FLOW;
use warpswitch_rules::openflow::{FLOW_WORDS, FlowMatch};
use warpswitch_rules::{Action, KeyBatch, MatchRef, PortRange, Rule, RuleId, RuleRef};
use warpswitch_rules::{RulesetBuilder, Schema};

use super::form::{Form, Projections};
use super::tuple::{Rank, TupleIndex};
use crate::engines::TableEngines;
use crate::flows::Flows;

/// Flows that may come into the rest, beside an eighth of all, before the engine is built anew.
const REST_MIN: usize = 32;
/// Ids that may be of flows that are gone, beside as many as there are flows.
const IDS_MIN: usize = 1 << 16;
/// The most bytes of an engine; a table that would need more is left to the rest.
const BYTES_MAX: usize = 2 << 30;

/// A flow that may win.
#[derive(Clone, Copy, Debug)]
struct Ranked {
    rank: Rank,
    place: u32,
}

/// See the module.
pub(crate) struct TableEngine {
    form: Form,
    /// Of `form`.
    projections: Projections,
    classifier: Option<Box<dyn Classifier>>,
    /// Places of flows by rule id.
    places: Vec<u32>,
    /// Their ranks.
    ranks: Vec<Rank>,
    /// Rule ids by place.
    ids: HashMap<u32, u32>,
    /// The order of adding of the newest flow in it: E2. An older one, which an undone change puts
    /// back, comes into the rest.
    newest: Option<u64>,
    /// No flow in it is of a lower rank: those that every packet matches mostly are.
    lowest: Option<Rank>,
    rest: TupleIndex,
    rest_len: usize,
    /// Flows that came into the rest since the build.
    rest_new: usize,
    /// Flows that every packet matches, the best one first.
    any: Vec<Ranked>,
    /// Keys of a burst in the engine's form, and its answers.
    words: Vec<u32>,
    answers: Vec<RuleId>,
    /// Whether the keys have the bits that all flows demand.
    are_common: Vec<bool>,
    hash: Arc<FlowHash>,
    engines: TableEngines,
}

impl std::fmt::Debug for TableEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableEngine({} flows, {} in the rest)", self.ids.len(), self.rest_len)
    }
}

impl TableEngine {
    /// An engine over the flows at `places`.
    pub(crate) fn new(
        flows: &Flows,
        places: &[u32],
        hash: &Arc<FlowHash>,
        engines: &TableEngines,
    ) -> Self {
        let mut engine = Self {
            form: Form::default(),
            projections: Projections::default(),
            classifier: None,
            places: Vec::new(),
            ranks: Vec::new(),
            ids: HashMap::new(),
            newest: None,
            lowest: None,
            rest: TupleIndex::new(hash.clone()),
            rest_len: 0,
            rest_new: 0,
            any: Vec::new(),
            words: Vec::new(),
            answers: Vec::new(),
            are_common: Vec::new(),
            hash: hash.clone(),
            engines: engines.clone(),
        };
        engine.build(flows, places);
        engine
    }

    /// Whether it should be built anew before it is used again.
    pub(crate) fn is_worn(&self) -> bool {
        let len = self.ids.len() + self.rest_len;
        self.rest_new > REST_MIN + len / 8 || self.places.len() > IDS_MIN + 2 * self.ids.len()
    }

    /// Builds everything anew.
    pub(crate) fn build(&mut self, flows: &Flows, places: &[u32]) {
        self.any.clear();
        self.places.clear();
        self.ranks.clear();
        self.ids.clear();
        (self.classifier, self.newest, self.lowest) = (None, None, None);
        (self.rest, self.rest_len) = (TupleIndex::new(self.hash.clone()), 0);
        let matching = |place: u32| &flows.get(place).flow.matching;
        let mut places = places.to_vec();
        places.sort_unstable_by_key(|&place| flows.get(place).order);
        let (any, others): (Vec<u32>, Vec<u32>) =
            places.into_iter().partition(|&place| is_any(matching(place)));
        any.into_iter().for_each(|place| self.insert_any(flows, place));
        self.form = Form::of(others.iter().map(|&place| matching(place)));
        self.projections.clear();
        let mut builder = RulesetBuilder::new(self.form.schema);
        for place in others {
            if !self.form.holds(matching(place)) {
                self.insert_rest(flows, place);
                continue;
            }
            let rank = rank(flows, place);
            let rule = WordRule::new(&self.form, matching(place));
            let matching = rule.matching(self.form.schema).to_match(self.form.schema);
            let mut rule = Rule::new(matching, Action::Pass);
            rule.priority = rank.0.into();
            builder.push(rule);
            self.push(place, rank);
        }
        let options = BuildOptions { bytes_max: BYTES_MAX, hash_seed: self.hash.seed() };
        match self.engines.build(&builder.build(), &options) {
            Ok(classifier) => self.classifier = Some(classifier),
            Err(_) => self.leave_engine(flows),
        }
        self.rest_new = 0;
    }

    pub(crate) fn insert(&mut self, flows: &Flows, place: u32) {
        let matching = &flows.get(place).flow.matching;
        if is_any(matching) {
            return self.insert_any(flows, place);
        }
        let rank = rank(flows, place);
        let id = self.places.len() as u32;
        let is_newest = self.newest.is_none_or(|newest| newest < rank.1.0);
        if is_newest && let (true, Some(classifier)) = (self.form.admit(matching), &self.classifier)
        {
            self.projections.clear();
            let rule = WordRule::new(&self.form, matching);
            let matching = rule.matching(self.form.schema);
            let rule = RuleRef { id: RuleId(id), priority: rank.0.into(), matching };
            if classifier.insert(rule).is_ok() {
                self.push(place, rank);
                return;
            }
        }
        self.insert_rest(flows, place);
    }

    /// Notes a flow with the next id.
    fn push(&mut self, place: u32, rank: Rank) {
        self.newest = Some(rank.1.0);
        self.lowest = Some(self.lowest.map_or(rank, |lowest| lowest.min(rank)));
        self.ids.insert(place, self.places.len() as u32);
        self.places.push(place);
        self.ranks.push(rank);
    }

    pub(crate) fn remove(&mut self, flows: &Flows, place: u32) {
        let matching = &flows.get(place).flow.matching;
        if is_any(matching) {
            return self.any.retain(|ranked| ranked.place != place);
        }
        let (Some(id), Some(classifier)) = (self.ids.remove(&place), &self.classifier) else {
            self.rest_len -= 1;
            return self.rest.remove(flows, place);
        };
        let rule = WordRule::new(&self.form, matching);
        let matching = rule.matching(self.form.schema);
        let priority = self.ranks[id as usize].0.into();
        if classifier.remove(RuleRef { id: RuleId(id), priority, matching }).is_err() {
            // An engine that builds anew for a change may have no memory for that, and would go on
            // finding the flow.
            self.leave_engine(flows);
        }
    }

    /// Drops the engine until the next build: the rest takes its flows.
    fn leave_engine(&mut self, flows: &Flows) {
        (self.classifier, self.newest, self.lowest) = (None, None, None);
        self.places.clear();
        self.ranks.clear();
        for place in std::mem::take(&mut self.ids).into_keys() {
            self.insert_rest(flows, place);
        }
    }

    fn insert_rest(&mut self, flows: &Flows, place: u32) {
        self.rest.insert(flows, place);
        self.rest_len += 1;
        self.rest_new += 1;
    }

    fn insert_any(&mut self, flows: &Flows, place: u32) {
        let ranked = Ranked { rank: rank(flows, place), place };
        let at = self.any.partition_point(|other| other.rank > ranked.rank);
        self.any.insert(at, ranked);
    }

    /// The winners of the keys of `group`, in its order; [`NO_FLOW`] for none.
    pub(crate) fn find(&mut self, keys: &[PackedKey], group: &[u32], winners: &mut Vec<u32>) {
        winners.clear();
        self.ask_classifier(keys, group);
        let is_any_lower = |any: &Ranked| self.lowest.is_none_or(|lowest| any.rank < lowest);
        if self.any.first().is_none_or(is_any_lower) && self.rest_len == 0 {
            let others = self.any.first().map_or(NO_FLOW, |any| any.place);
            winners.extend(self.answers.iter().map(|id| match id.is_some() {
                true => self.places[id.as_usize()],
                false => others,
            }));
            return;
        }
        for (&idx, &id) in group.iter().zip(&self.answers) {
            let mut best = self.any.first().copied();
            let mut offer = |ranked: Ranked| {
                if best.is_none_or(|best| ranked.rank > best.rank) {
                    best = Some(ranked);
                }
            };
            if id.is_some() {
                let (rank, place) = (self.ranks[id.as_usize()], self.places[id.as_usize()]);
                offer(Ranked { rank, place });
            }
            if self.rest_len > 0
                && let Some((rank, place)) = self.rest.best(&keys[idx as usize].to_key())
            {
                offer(Ranked { rank, place });
            }
            winners.push(best.map_or(NO_FLOW, |ranked| ranked.place));
        }
    }

    /// Sets `answers` to what the classifier finds for the keys of `group`.
    fn ask_classifier(&mut self, keys: &[PackedKey], group: &[u32]) {
        let Self { form, projections, words, answers, are_common, .. } = self;
        answers.clear();
        answers.resize(group.len(), RuleId::NONE);
        let has_flows = !self.ids.is_empty();
        let Some(classifier) = self.classifier.as_ref().filter(|_| has_flows) else { return };
        let width = form.schema.words;
        // What stood there is overwritten.
        words.resize(width * group.len(), 0);
        are_common.resize(group.len(), false);
        let mut done = 0;
        while let Some(&first) = group.get(done) {
            let projection = projections.of(form, keys[first as usize].shape());
            let (words, are_common) = (&mut words[width * done..], &mut are_common[done..]);
            done += projection.write(keys, &group[done..], words, are_common);
        }
        classifier.classify(KeyBatch::new(form.schema, words), answers);
        for (answer, &is_common) in answers.iter_mut().zip(&*are_common) {
            *answer = if is_common { *answer } else { RuleId::NONE };
        }
    }
}

fn rank(flows: &Flows, place: u32) -> Rank {
    let entry = flows.get(place);
    (entry.flow.priority, Reverse(entry.order))
}

fn is_any(matching: &FlowMatch) -> bool {
    *matching.mask() == [0; FLOW_WORDS]
}

/// A match in the words of a form.
struct WordRule {
    value: Vec<u32>,
    mask: Vec<u32>,
    ranges: [PortRange; 2],
}

impl WordRule {
    fn new(form: &Form, matching: &FlowMatch) -> Self {
        let (mut value, mut mask) = (Vec::new(), Vec::new());
        form.write_match(matching, &mut value, &mut mask);
        let ports = form.schema.ports_word;
        let ranges = [16, 0].map(|shift| {
            let (value, mask) = ((value[ports] >> shift) as u16, (mask[ports] >> shift) as u16);
            let host = !mask;
            // The normal form of a match: a prefix is a range as well.
            match host & host.wrapping_add(1) {
                0 => PortRange { lo: value, hi: value | host },
                _ => PortRange::ANY,
            }
        });
        Self { value, mask, ranges }
    }

    fn matching(&self, schema: &Schema) -> MatchRef<'_> {
        let Self { value, mask, ranges } = self;
        MatchRef { value, mask, ranges: *ranges, ports_word: schema.ports_word }
    }
}
