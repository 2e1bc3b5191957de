//! Traces: keys drawn from the rules of a set.
//!
//! A rule is drawn uniformly, then a point that it matches: one of its corners, or one anywhere
//! inside. Independent points are the hardest traffic for any cache; with [`Pareto`] locality each
//! key repeats for a run. The keys come batch by batch, so a trace of any length takes no memory.
//!
//! Rules may demand what no frame has (a port of a protocol without ports), and the bits that a
//! rule leaves open would mostly make such keys when filled at random. With
//! [`TraceSpec::realisable`] the open fields are filled as real traffic fills them, and what is
//! still impossible is put right by [`super::realise`], if need be against the rule.

use super::locality::Pareto;
use super::prng::Prng;
use super::realise::Realiser;
use crate::key::KeyBuf;
use crate::matching::MatchRef;
use crate::rule::RuleId;
use crate::ruleset::Ruleset;
use crate::schema::{Schema, WORDS_MAX};

/// Where in a rule a key is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// At a corner: every open field at its lowest or its highest value, either as likely.
    Corner,
    /// Anywhere, uniformly.
    Inside,
}

/// Names one trace of a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceSpec {
    /// Number of keys.
    pub keys: usize,
    /// Where in its rule each key lies.
    pub point: Point,
    /// How long runs of equal keys are; independent keys without.
    pub locality: Option<Pareto>,
    /// Whether every key must be one that some frame has.
    pub realisable: bool,
    /// Which of all such traces.
    pub seed: u64,
}

impl TraceSpec {
    /// The trace over `ruleset`; of a set without rules, keys from the whole key space.
    pub fn generate<'a>(&self, ruleset: &'a Ruleset) -> TraceGenerator<'a> {
        TraceGenerator {
            spec: *self,
            ruleset,
            prng: Prng::new(self.seed),
            realiser: Realiser::new(ruleset.schema()),
            used: ruleset.schema().used_bits(),
            key: [0; WORDS_MAX],
            rule: RuleId::NONE,
            repeats: 0,
            keys_left: self.keys,
        }
    }
}

/// A trace on its way.
#[derive(Clone, Debug)]
pub struct TraceGenerator<'a> {
    spec: TraceSpec,
    ruleset: &'a Ruleset,
    prng: Prng,
    realiser: Realiser,
    used: [u32; WORDS_MAX],
    /// The key of the present run.
    key: [u32; WORDS_MAX],
    /// The rule that it was drawn from.
    rule: RuleId,
    /// How often it is still to come.
    repeats: u32,
    keys_left: usize,
}

impl TraceGenerator<'_> {
    /// The layout of the keys.
    pub fn schema(&self) -> &'static Schema {
        self.ruleset.schema()
    }

    /// Keys still to come.
    pub fn keys_left(&self) -> usize {
        self.keys_left
    }

    /// The next key.
    pub fn next_key(&mut self) -> Option<&[u32]> {
        self.keys_left = self.keys_left.checked_sub(1)?;
        if self.repeats == 0 {
            self.draw_key();
            let prng = &mut self.prng;
            self.repeats = self.spec.locality.map_or(1, |pareto| pareto.draw(prng));
        }
        self.repeats -= 1;
        Some(&self.key[..self.ruleset.schema().words])
    }

    /// Appends at most `keys_max` keys to `keys` and tells how many; 0 is the end.
    ///
    /// # Panics
    /// If `keys` is of another schema: a caller bug, not an input.
    pub fn fill(&mut self, keys: &mut KeyBuf, keys_max: usize) -> usize {
        assert_eq!(keys.schema(), self.schema(), "keys of another schema");
        let count = keys_max.min(self.keys_left);
        for _ in 0..count {
            if let Some(key) = self.next_key() {
                keys.push(key);
            }
        }
        count
    }

    /// Draws a key outside of runs and returns its rule; [`RuleId::NONE`] if the set has none.
    pub(super) fn draw(&mut self) -> RuleId {
        self.draw_key();
        self.rule
    }

    /// The key drawn last.
    pub(super) fn drawn(&self) -> [u32; WORDS_MAX] {
        self.key
    }

    /// The rules that keys are drawn from.
    pub(super) fn ruleset(&self) -> &Ruleset {
        self.ruleset
    }

    /// Corrects a key that no frame has, if the trace must not have such keys.
    pub(super) fn realise(&self, key: &mut [u32]) {
        if self.spec.realisable {
            self.realiser.realise(key);
        }
    }

    fn draw_key(&mut self) {
        let schema = self.ruleset.schema();
        if self.ruleset.is_empty() {
            for (word, used) in self.key.iter_mut().zip(self.used) {
                *word = self.prng.next_u64() as u32 & used;
            }
            if self.spec.realisable {
                let open = [0; WORDS_MAX];
                self.realiser.fill_open(&mut self.key, &open, &mut self.prng);
                self.realiser.realise(&mut self.key);
            }
            return;
        }
        self.rule = RuleId(self.prng.index(self.ruleset.len()) as u32);
        let matching = self.ruleset.matching(self.rule);
        match self.spec.point {
            Point::Inside => self.draw_inside(&matching),
            Point::Corner => self.draw_corner(&matching),
        }
        if self.spec.realisable {
            self.realiser.fill_open(&mut self.key[..schema.words], matching.mask, &mut self.prng);
            self.keep_ports(&matching);
            self.realiser.realise(&mut self.key[..schema.words]);
        }
    }

    fn draw_inside(&mut self, matching: &MatchRef<'_>) {
        for (at, word) in self.key[..matching.mask.len()].iter_mut().enumerate() {
            let random = self.prng.next_u64() as u32;
            *word = matching.value[at] | random & self.used[at] & !matching.mask[at];
        }
        for side in 0..2 {
            let range = matching.ranges[side];
            // Where a mask that is no prefix is the demand, the range is open and says nothing.
            if range.as_prefix_mask().is_none() {
                let width = u64::from(range.hi - range.lo) + 1;
                let port = range.lo + self.prng.below(width) as u16;
                self.set_port(matching.ports_word, side, port);
            }
        }
    }

    fn draw_corner(&mut self, matching: &MatchRef<'_>) {
        let schema = self.ruleset.schema();
        let words = matching.mask.len();
        self.key[..words].copy_from_slice(matching.value);
        // A bit a field; more fields than bits there are none.
        let mut high = self.prng.next_u64();
        for spec in schema.fields {
            if high & 1 == 1 {
                let open = spec.value_max() & !spec.read(matching.mask);
                let value = spec.read(&self.key[..words]) | open;
                spec.write(&mut self.key[..words], value);
            }
            high >>= 1;
        }
        for side in 0..2 {
            let range = matching.ranges[side];
            if range.as_prefix_mask().is_none() {
                let port = if high & 1 == 1 { range.hi } else { range.lo };
                self.set_port(matching.ports_word, side, port);
            }
            high >>= 1;
        }
    }

    /// Puts ports back that filling the open fields may have moved out of a range.
    fn keep_ports(&mut self, matching: &MatchRef<'_>) {
        for side in 0..2 {
            let shift = 16 * (1 - side);
            let port = (self.key[matching.ports_word] >> shift) as u16;
            let range = matching.ranges[side];
            if !range.contains(port) {
                self.set_port(matching.ports_word, side, range.lo);
            }
        }
    }

    fn set_port(&mut self, word: usize, side: usize, port: u16) {
        let shift = 16 * (1 - side);
        self.key[word] = self.key[word] & !(0xffff << shift) | u32::from(port) << shift;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Family, RulesetSpec, Style};
    use crate::linear;
    use crate::matching::Match;
    use crate::rule::{Action, Rule};
    use crate::ruleset::RulesetBuilder;
    use crate::schema::{Field, IPV4_5TUPLE, OPENFLOW12, SCHEMAS};

    fn spec(keys: usize, point: Point, realisable: bool) -> TraceSpec {
        TraceSpec { keys, point, locality: None, realisable, seed: 3 }
    }

    fn collect(spec: &TraceSpec, ruleset: &Ruleset, batch: usize) -> KeyBuf {
        let mut generator = spec.generate(ruleset);
        let mut keys = KeyBuf::new(ruleset.schema());
        while generator.fill(&mut keys, batch) > 0 {}
        assert_eq!(generator.keys_left(), 0);
        keys
    }

    /// One rule of every match kind.
    fn one_of_each_kind() -> Ruleset {
        let mut builder = RulesetBuilder::new(&OPENFLOW12);
        let mut push = |set: &dyn Fn(&mut Match)| {
            let mut m = Match::any(&OPENFLOW12);
            set(&mut m);
            builder.push(Rule::new(m, Action::Pass));
        };
        push(&|m| _ = m.set_exact(Field::InPort, 3));
        push(&|m| _ = m.set_exact(Field::EthType, 0x0800).set_range(Field::L4Src, 7, 9));
        push(&|m| _ = m.set_mask(Field::L4Dst, 0x0505, 0x0f0f).set_exact(Field::IpProto, 17));
        push(&|m| _ = m.set_prefix(Field::Ipv4Dst, 0x0a00_0000, 8).set_exact(Field::TcpFlags, 2));
        push(&|m| _ = m.set_mask(Field::VlanTci, 0x1005, 0x1fff));
        push(&|m| _ = m.set_exact(Field::EthType, 0x0806).set_exact(Field::IpProto, 1));
        builder.build()
    }

    #[test]
    fn every_key_lies_in_a_rule() {
        let mut sets = vec![one_of_each_kind()];
        for style in Style::ALL {
            let family = if style == Style::Fw { Family::Ipv6 } else { Family::Ipv4 };
            sets.push(RulesetSpec { style, family, rules: 300, seed: 1 }.generate());
        }
        for ruleset in &sets {
            for (point, realisable) in [
                (Point::Corner, false),
                (Point::Inside, false),
                (Point::Corner, true),
                (Point::Inside, true),
            ] {
                let keys = collect(&spec(500, point, realisable), ruleset, 64);
                assert_eq!(keys.len(), 500);
                let used = ruleset.schema().used_bits();
                for key in keys.as_batch().iter() {
                    assert!(linear::lookup(ruleset, key).is_some(), "{key:x?}");
                    assert!(key.iter().zip(used).all(|(word, used)| word & !used == 0));
                }
            }
        }
    }

    #[test]
    fn corners_are_extremes_and_insides_are_spread() {
        let mut m = Match::any(&IPV4_5TUPLE);
        m.set_prefix(Field::Ipv4Src, 0x0a00_0000, 24).set_range(Field::L4Dst, 100, 299);
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        builder.push(Rule::new(m, Action::Pass));
        let ruleset = builder.build();
        let corners = collect(&spec(200, Point::Corner, false), &ruleset, 7);
        for key in corners.as_batch().iter() {
            assert!([0x0a00_0000, 0x0a00_00ff].contains(&key[0]), "{key:x?}");
            assert!([100, 299].contains(&(key[2] & 0xffff)));
            assert!([0, 0xffff].contains(&(key[2] >> 16)));
        }
        let inside = collect(&spec(20_000, Point::Inside, false), &ruleset, 1000);
        let mut hits = [0u32; 200];
        for key in inside.as_batch().iter() {
            hits[(key[2] & 0xffff) as usize - 100] += 1;
        }
        assert!(hits.iter().all(|&count| (50..160).contains(&count)), "{hits:?}");
    }

    #[test]
    fn batches_do_not_change_a_trace_and_seeds_do() {
        let ruleset = one_of_each_kind();
        let locality = Some(Pareto::CLASSBENCH);
        let spec = TraceSpec { locality, ..spec(1_000, Point::Inside, false) };
        let whole = collect(&spec, &ruleset, 1_000);
        assert_eq!(whole.as_batch().words(), collect(&spec, &ruleset, 13).as_batch().words());
        let other = collect(&TraceSpec { seed: 4, ..spec }, &ruleset, 13);
        assert_ne!(whole.as_batch().words(), other.as_batch().words());
    }

    #[test]
    fn locality_makes_runs() {
        let ruleset = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 500, seed: 1 };
        let ruleset = ruleset.generate();
        let runs = |locality| {
            let spec = TraceSpec { locality, ..spec(50_000, Point::Inside, false) };
            let keys = collect(&spec, &ruleset, 512);
            let batch = keys.as_batch();
            1 + (1..batch.len()).filter(|&i| batch.key(i) != batch.key(i - 1)).count()
        };
        assert!(runs(None) > 49_900);
        let local = runs(Some(Pareto::CLASSBENCH));
        assert!((8_000..40_000).contains(&local), "{local}");
    }

    #[test]
    fn sets_without_rules_still_have_traces() {
        for schema in SCHEMAS {
            for realisable in [false, true] {
                let keys = collect(&spec(9, Point::Inside, realisable), &Ruleset::empty(schema), 4);
                assert_eq!(keys.len(), 9, "{}", schema.name);
            }
        }
    }

    #[test]
    fn impossible_demands_are_put_right() {
        // A port of a protocol without ports: no frame has such a key.
        let mut m = Match::any(&IPV4_5TUPLE);
        m.set_exact(Field::IpProto, 1).set_exact(Field::L4Dst, 80).set_exact(Field::TcpFlags, 2);
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        builder.push(Rule::new(m, Action::Pass));
        let ruleset = builder.build();
        let keys = collect(&spec(5, Point::Inside, true), &ruleset, 5);
        for key in keys.as_batch().iter() {
            assert_eq!((key[2], key[3]), (0, 1 << 24));
            assert_eq!(linear::lookup(&ruleset, key), RuleId::NONE);
        }
    }
}
