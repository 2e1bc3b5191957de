//! The shape that this engine gives a set of rules, without the layout that a CPU compares.
//!
//! A device walks the same tables and cuts, and lays leaves out for itself. Rules are named by
//! their *rank*, the place in order of precedence: the smaller one wins.

use std::collections::HashMap;

use warpswitch_rules::{RuleId, RuleRef, Schema};

use super::build::{Bound, build};
use super::leaf::Layout;
use super::list::{Place, RuleList};
use super::state::{State, TAIL_AT};
use crate::arch::turbo::{CUT_FLAG, HashTable, offset};
use crate::store::RuleStore;

/// Tables, cuts and leaves.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Multipliers of the words of a masked key: a hash is `(s ^ s >> 15) * last`, where `s` is the
    /// sum of the products, all in 32 bits.
    pub multipliers: [u32; 16],
    /// See there.
    pub last: u32,
    /// The tables, in the order in which they are searched.
    pub tables: Vec<PlanTable>,
    /// Cuts and leaves. Number 0 is the leaf without rules.
    pub nodes: Vec<PlanNode>,
    /// The node that keys come to after the tables.
    pub tail: u32,
}

/// A hash table over keys under one mask.
#[derive(Clone, Debug)]
pub struct PlanTable {
    /// 1 = hashed; as many words as a key has.
    pub masks: Vec<u32>,
    /// The upper bits of a hash are the number of the bucket: `hash >> shift`.
    pub shift: u32,
    /// The node of each bucket; 0 for an empty one.
    pub buckets: Vec<u32>,
}

/// A leaf or a cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanNode {
    /// Ranks of rules, ascending.
    Leaf {
        /// Those that a key can find.
        ranks: Vec<u32>,
        /// Those that a better one of `ranks` covers for every key that can come here: they matter
        /// once that one goes.
        hidden: Vec<u32>,
    },
    /// The bits of the key under `masks`, packed with the first word's lowest bit last, are the
    /// index of a cell.
    Cut {
        /// 1 = tested; as many words as a key has.
        masks: Vec<u32>,
        /// The node of each cell.
        cells: Vec<u32>,
    },
}

/// Rules under their ranks: one priority, ids that are ranks.
struct Ranked<'a> {
    store: &'a RuleStore,
    places: Vec<u32>,
}

impl RuleList for Ranked<'_> {
    fn schema(&self) -> &'static Schema {
        self.store.schema()
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    fn rule(&self, place: Place) -> RuleRef<'_> {
        let rule = self.store.rule(self.places[place as usize]);
        RuleRef { id: RuleId(place), priority: 0, ..rule }
    }
}

impl Plan {
    /// The plan for the rules of `store`, or `None` if it would pass half a gigabyte.
    pub fn build(store: &RuleStore, hash_seed: u64) -> Option<Self> {
        let ranked = Ranked { store, places: store.places_by_precedence() };
        let bound = Bound { bytes_max: usize::MAX, beside: 0 };
        let built = build(&ranked, bound, hash_seed, true).ok()?;
        Some(Reader::new(&built.state).plan())
    }
}

/// Reads a structure back.
struct Reader<'a> {
    state: &'a State,
    nodes: Vec<PlanNode>,
    /// Nodes by reference: leaves may be shared.
    known: HashMap<u32, u32>,
    rows: Vec<u32>,
}

impl<'a> Reader<'a> {
    fn new(state: &'a State) -> Self {
        let known = HashMap::from([(state.empty, 0)]);
        let empty = PlanNode::Leaf { ranks: Vec::new(), hidden: Vec::new() };
        Self { state, nodes: vec![empty], known, rows: Vec::new() }
    }

    fn plan(mut self) -> Plan {
        let state = self.state;
        let tables = state.tables.iter().map(|table| self.table(table)).collect();
        let tail = self.node(TAIL_AT);
        Plan {
            multipliers: state.multipliers.words,
            last: state.multipliers.last,
            tables,
            nodes: self.nodes,
            tail,
        }
    }

    fn table(&mut self, table: &HashTable) -> PlanTable {
        let buckets = 1usize << (32 - table.shift);
        let buckets = (0..buckets).map(|bucket| self.node(table.at + 2 * bucket)).collect();
        PlanTable { masks: table.masks.clone(), shift: table.shift, buckets }
    }

    /// The node that the word `entry` refers to.
    fn node(&mut self, entry: usize) -> u32 {
        let reference = self.state.words.load(entry);
        if let Some(&node) = self.known.get(&reference) {
            return node;
        }
        let node = match reference & CUT_FLAG {
            0 => self.leaf(entry),
            _ => self.cut(reference),
        };
        self.nodes.push(node);
        let number = self.nodes.len() as u32 - 1;
        self.known.insert(reference, number);
        number
    }

    fn leaf(&mut self, entry: usize) -> PlanNode {
        let mut rows = std::mem::take(&mut self.rows);
        let visible = self.state.read_rows(entry, &mut rows);
        let (columns, id) = (self.state.format.columns(), self.state.format.id_column());
        debug_assert!(self.state.format.layout == Layout::Lanes || rows.len() == visible * columns);
        let mut ranks: Vec<u32> = rows.chunks_exact(columns).map(|row| row[id]).collect();
        let hidden = ranks.split_off(visible);
        self.rows = rows;
        PlanNode::Leaf { ranks, hidden }
    }

    /// A cut's cells may be cuts; deeper than two none are made, so this ends.
    fn cut(&mut self, reference: u32) -> PlanNode {
        let (at, words) = (offset(reference), self.state.format.words);
        let masks: Vec<u32> = (0..words).map(|word| self.state.words.load(at + word)).collect();
        let bits: u32 = masks.iter().map(|mask| mask.count_ones()).sum();
        let cells = (0..1usize << bits).map(|cell| self.node(at + words + cell)).collect();
        PlanNode::Cut { masks, cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::generate::{Family, RulesetSpec, Style};
    use warpswitch_rules::{KeyBatch, linear};

    /// The rank that a walk through the plan finds.
    fn walk(plan: &Plan, store: &RuleStore, places: &[u32], key: &[u32]) -> Option<u32> {
        let in_node = |mut node: u32| loop {
            match &plan.nodes[node as usize] {
                PlanNode::Leaf { ranks, .. } => {
                    let matches =
                        |rank: &&u32| store.rule(places[**rank as usize]).matching.matches(key);
                    return ranks.iter().find(matches).copied();
                }
                PlanNode::Cut { masks, cells } => {
                    let mut index = (0, 0);
                    for (word, mask) in key.iter().zip(masks) {
                        for bit in (0..32).filter(|bit| mask >> bit & 1 == 1) {
                            index.0 |= ((word >> bit & 1) as usize) << index.1;
                            index.1 += 1;
                        }
                    }
                    node = cells[index.0];
                }
            }
        };
        let bucket = |table: &PlanTable| {
            let words = key.iter().zip(&table.masks).zip(&plan.multipliers);
            let sum =
                words.fold(0u32, |sum, ((k, m), by)| sum.wrapping_add((k & m).wrapping_mul(*by)));
            table.buckets[((sum ^ sum >> 15).wrapping_mul(plan.last) >> table.shift) as usize]
        };
        let nodes = plan.tables.iter().map(bucket).chain([plan.tail]);
        nodes.filter_map(in_node).min()
    }

    #[test]
    fn a_walk_through_a_plan_finds_what_the_reference_finds() {
        for (style, family, rules) in [
            (Style::Acl, Family::Ipv4, 400),
            (Style::Fw, Family::Ipv4, 300),
            (Style::Ipc, Family::Ipv6, 200),
            (Style::Acl, Family::Ipv4, 0),
        ] {
            let ruleset = RulesetSpec { style, family, rules, seed: 5 }.generate();
            let store = RuleStore::new(&ruleset);
            let places = store.places_by_precedence();
            let plan = Plan::build(&store, 9).unwrap();
            for rule in ruleset.iter() {
                let key: Vec<u32> = rule.matching.value.to_vec();
                let batch = KeyBatch::new(ruleset.schema(), &key);
                let want = linear::lookup(&ruleset, batch.key(0));
                let got = walk(&plan, &store, &places, &key);
                let got = got.map_or(RuleId::NONE, |rank| store.rule(places[rank as usize]).id);
                assert_eq!(got, want, "{style:?} {family:?} {key:08x?}");
            }
        }
    }
}
