//! The rules of a classifier as its writer knows them: by id, whole, with room reused.
//!
//! Lookups never come here. It answers "is there such a rule already", and it is what engines that
//! cannot change in place are built from again.

use std::collections::HashMap;

use warpswitch_rules::{MatchRef, PortRange, Precedence, RuleId, RuleRef, Ruleset, Schema};

use crate::classifier::RuleChange;
use crate::error::{ClassifyError, ErrorKind};

/// Sizes of a store's lists.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    places: usize,
    map: usize,
}

/// Rules by id. A rule lies at a *place*; the place of a removed rule is used again.
#[derive(Clone, Debug)]
pub struct RuleStore {
    schema: &'static Schema,
    places: HashMap<RuleId, u32>,
    free: Vec<u32>,
    /// `2 * words` a place: value, then mask.
    words: Vec<u32>,
    ranges: Vec<[PortRange; 2]>,
    precedences: Vec<Precedence>,
}

impl RuleStore {
    /// The rules of `ruleset`, within `bytes_max`.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryBound`], before the memory is taken.
    pub fn build(ruleset: &Ruleset, bytes_max: usize) -> Result<Self, ClassifyError> {
        let bytes = Self::bytes_for(ruleset.schema(), ruleset.len());
        if bytes > bytes_max {
            let rules = dearest_rules(ruleset.ids().map(|id| (1, id)));
            return Err(ClassifyError::memory_bound(bytes, bytes_max, rules));
        }
        Ok(Self::new(ruleset))
    }

    /// The rules of `ruleset`.
    pub(crate) fn new(ruleset: &Ruleset) -> Self {
        let (rules, words) = (ruleset.len(), ruleset.schema().words);
        let mut store = Self {
            schema: ruleset.schema(),
            places: HashMap::with_capacity(rules),
            free: Vec::new(),
            words: Vec::with_capacity(rules * 2 * words),
            ranges: Vec::with_capacity(rules),
            precedences: Vec::with_capacity(rules),
        };
        for rule in ruleset.iter() {
            store.put(rule);
        }
        store
    }

    /// The bytes that a store of `rules` rules takes.
    fn bytes_for(schema: &Schema, rules: usize) -> usize {
        rules * (8 * schema.words + size_of::<[PortRange; 2]>() + size_of::<Precedence>())
            + map_bytes(rules)
    }

    /// The layout of the keys that its rules match.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The rule at a place that is in use.
    ///
    /// # Panics
    /// If there is no such place: a caller bug.
    pub fn rule(&self, place: u32) -> RuleRef<'_> {
        let (idx, words) = (place as usize, self.schema.words);
        let (value, mask) = self.words[idx * 2 * words..][..2 * words].split_at(words);
        let matching =
            MatchRef { value, mask, ranges: self.ranges[idx], ports_word: self.schema.ports_word };
        let precedence = self.precedences[idx];
        RuleRef { id: precedence.id(), priority: !((precedence.0 >> 32) as u32), matching }
    }

    /// The rule of an id.
    pub fn get(&self, id: RuleId) -> Option<RuleRef<'_>> {
        self.places.get(&id).map(|&place| self.rule(place))
    }

    /// Places in use, the winner of all first.
    pub fn places_by_precedence(&self) -> Vec<u32> {
        let mut places: Vec<u32> = self.places.values().copied().collect();
        places.sort_unstable_by_key(|&place| self.precedences[place as usize]);
        places
    }

    /// Whether a rule may be added, by its id and schema.
    ///
    /// # Errors
    /// [`ErrorKind::SchemaMismatch`], [`ErrorKind::DuplicateRule`].
    pub fn check_insert(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        self.check_schema(rule)?;
        if self.places.contains_key(&rule.id) {
            let message = format!("rule {} already exists", rule.id);
            return Err(ClassifyError::new(ErrorKind::DuplicateRule, message));
        }
        Ok(())
    }

    /// Adds a rule that passed [`RuleStore::check_insert`].
    pub fn insert(&mut self, rule: RuleRef<'_>) {
        debug_assert!(self.check_insert(rule).is_ok());
        self.put(rule);
    }

    /// Bytes that the store will take after one more [`RuleStore::insert`].
    pub fn bytes_after_insert(&self) -> usize {
        let (places, used) = (self.ranges.capacity(), self.ranges.len());
        let places_after =
            if self.free.is_empty() && used == places { grown(places) } else { places };
        let map_after = self.places.capacity().max(self.places.len() + 1);
        places_after * self.place_bytes() + self.free.capacity() * 4 + map_bytes(map_after)
    }

    /// Undoes the last [`RuleStore::insert`], the memory it took included.
    pub fn take_back(&mut self, rule: RuleRef<'_>, former: Room) {
        let place = self.places.remove(&rule.id).expect("the rule was inserted last");
        if place as usize + 1 == self.ranges.len() {
            self.ranges.pop();
            self.precedences.pop();
            self.words.truncate(self.ranges.len() * 2 * self.schema.words);
        } else {
            self.free.push(place);
        }
        self.ranges.shrink_to(former.places);
        self.precedences.shrink_to(former.places);
        self.words.shrink_to(former.places * 2 * self.schema.words);
        self.places.shrink_to(former.map);
    }

    /// Makes a change that the rules allow.
    ///
    /// # Errors
    /// As for [`RuleStore::check_insert`] and [`RuleStore::remove`]; nothing has changed then.
    pub fn make(&mut self, change: &RuleChange<'_>) -> Result<(), ClassifyError> {
        match *change {
            RuleChange::Insert(rule) => {
                self.check_insert(rule)?;
                self.insert(rule);
                Ok(())
            }
            RuleChange::Remove(rule) => self.remove(rule),
        }
    }

    /// Undoes its last changes, the memory that they took included; `former` is the room it had
    /// before them.
    pub fn undo(&mut self, changes: &[RuleChange<'_>], former: Room) {
        let is_insert = |change: &RuleChange<'_>| matches!(change, RuleChange::Insert(_));
        let first = changes.iter().position(is_insert);
        for (place, change) in changes.iter().enumerate().rev() {
            match *change {
                // Memory is given back once, not for each.
                RuleChange::Insert(rule) if first == Some(place) => self.take_back(rule, former),
                RuleChange::Insert(rule) => self.take_back(rule, self.room()),
                RuleChange::Remove(rule) => self.insert(rule),
            }
        }
    }

    /// What [`RuleStore::take_back`] goes back to.
    pub fn room(&self) -> Room {
        Room { places: self.ranges.capacity(), map: self.places.capacity() }
    }

    /// Takes a rule out.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownRule`] if no rule has this id, or it has another priority or match;
    /// nothing has changed then.
    pub fn remove(&mut self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        match self.places.get(&rule.id) {
            Some(&place) if self.rule(place) == rule => {
                self.places.remove(&rule.id);
                self.free.push(place);
                Ok(())
            }
            found => {
                let known = match found {
                    Some(_) => "has another priority or match",
                    None => "does not exist",
                };
                let message = format!("rule {} {known}", rule.id);
                Err(ClassifyError::new(ErrorKind::UnknownRule, message))
            }
        }
    }

    /// Bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        self.ranges.capacity() * self.place_bytes()
            + self.free.capacity() * 4
            + map_bytes(self.places.capacity())
    }

    fn place_bytes(&self) -> usize {
        8 * self.schema.words + size_of::<[PortRange; 2]>() + size_of::<Precedence>()
    }

    fn check_schema(&self, rule: RuleRef<'_>) -> Result<(), ClassifyError> {
        let matching = rule.matching;
        let fits = matching.value.len() == self.schema.words
            && matching.mask.len() == self.schema.words
            && matching.ports_word == self.schema.ports_word;
        let message = match (fits, rule.id.is_some()) {
            (true, true) => return Ok(()),
            (true, false) => "the id reserved for 'no rule' cannot be the id of a rule".to_owned(),
            (false, _) => format!(
                "rule {} has {} words with the ports in word {}; {} has {} and {}",
                rule.id,
                matching.value.len(),
                matching.ports_word,
                self.schema.name,
                self.schema.words,
                self.schema.ports_word
            ),
        };
        Err(ClassifyError::new(ErrorKind::SchemaMismatch, message))
    }

    fn put(&mut self, rule: RuleRef<'_>) {
        let words = self.schema.words;
        let place = self.free.pop().unwrap_or_else(|| {
            let place = self.ranges.len() as u32;
            if self.ranges.len() == self.ranges.capacity() {
                let added = grown(self.ranges.len()) - self.ranges.len();
                self.words.reserve_exact(added * 2 * words);
                self.ranges.reserve_exact(added);
                self.precedences.reserve_exact(added);
            }
            self.words.resize(self.words.len() + 2 * words, 0);
            self.ranges.push([PortRange::ANY; 2]);
            self.precedences.push(Precedence::NONE);
            place
        });
        let idx = place as usize;
        let (value, mask) = self.words[idx * 2 * words..][..2 * words].split_at_mut(words);
        value.copy_from_slice(rule.matching.value);
        mask.copy_from_slice(rule.matching.mask);
        self.ranges[idx] = rule.matching.ranges;
        self.precedences[idx] = rule.precedence();
        self.places.insert(rule.id, place);
    }
}

/// The room that lists of `len` rules or tuples grow to: by an eighth, so that a bound on memory
/// is met closely.
pub(crate) fn grown(len: usize) -> usize {
    len + len / 8 + 4
}

fn map_bytes(entries: usize) -> usize {
    map_buckets(entries) * (size_of::<(RuleId, u32)>() + 1)
}

/// Buckets of a hash map with room for `entries`: a power of two, at most seven in eight used.
/// Each has one byte of control beside it.
pub(crate) fn map_buckets(entries: usize) -> usize {
    match entries {
        0 => 0,
        1..4 => 4,
        4..8 => 8,
        n => (n * 8 / 7).next_power_of_two(),
    }
}

/// The most expensive rules by `cost`, dearest first: what an error names.
pub(crate) fn dearest_rules(costs: impl Iterator<Item = (usize, RuleId)>) -> Vec<RuleId> {
    const NAMED_MAX: usize = 16;
    let mut worst: Vec<(usize, RuleId)> = Vec::new();
    for (cost, id) in costs {
        let at = worst.partition_point(|&(c, _)| c >= cost);
        if at < NAMED_MAX {
            worst.truncate(NAMED_MAX - 1);
            worst.insert(at, (cost, id));
        }
    }
    worst.into_iter().map(|(_, id)| id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::schema::IPV4_5TUPLE;
    use warpswitch_rules::{Field, Match};

    fn dst_port(port: u128) -> Match {
        let mut matching = Match::any(&IPV4_5TUPLE);
        matching.set_exact(Field::L4Dst, port);
        matching
    }

    #[test]
    fn a_rule_is_found_again_only_as_it_was_inserted() {
        let mut store = RuleStore::new(&Ruleset::empty(&IPV4_5TUPLE));
        let (eighty, other) = (dst_port(80), dst_port(81));
        let rule = RuleRef { id: RuleId(7), priority: 3, matching: eighty.as_ref() };
        store.insert(rule);
        assert_eq!(store.check_insert(rule).unwrap_err().kind(), ErrorKind::DuplicateRule);
        for wrong in [
            RuleRef { id: RuleId(8), ..rule },
            RuleRef { priority: 4, ..rule },
            RuleRef { matching: other.as_ref(), ..rule },
        ] {
            assert_eq!(store.remove(wrong).unwrap_err().kind(), ErrorKind::UnknownRule);
        }
        store.remove(rule).unwrap();
        assert_eq!(store.remove(rule).unwrap_err().kind(), ErrorKind::UnknownRule);
        let again = RuleRef { id: RuleId(9), ..rule };
        store.insert(again);
        let places = store.places_by_precedence();
        assert_eq!(places, [0], "the place is used again");
        assert_eq!(store.rule(places[0]), again);
    }

    #[test]
    fn bytes_are_foretold_and_taken_back() {
        let mut store = RuleStore::new(&Ruleset::empty(&IPV4_5TUPLE));
        let any = Match::any(&IPV4_5TUPLE);
        for n in 0..1000 {
            let rule = RuleRef { id: RuleId(n), priority: 0, matching: any.as_ref() };
            let (before, room, foretold) =
                (store.bytes(), store.room(), store.bytes_after_insert());
            store.insert(rule);
            assert_eq!(store.bytes(), foretold, "{n} rules");
            store.take_back(rule, room);
            assert_eq!((store.bytes(), store.len()), (before, n as usize));
            store.insert(rule);
        }
    }

    #[test]
    fn the_dearest_come_first_and_ties_keep_their_order() {
        let costs = (0..100).map(|n| (n % 7, RuleId(n as u32)));
        let ids = dearest_rules(costs);
        assert_eq!(ids.len(), 16);
        assert_eq!(ids[..3], [RuleId(6), RuleId(13), RuleId(20)]);
        assert_eq!(ids[14..], [RuleId(5), RuleId(12)]);
    }
}
