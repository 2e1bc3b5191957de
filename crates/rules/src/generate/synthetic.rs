//! GSwitch's synthetic rule sets: so many rules in so many tuples, and so many of those match.
//!
//! | letter | here | means |
//! | --- | --- | --- |
//! | N | `rules` | rules |
//! | C | `tuples` | distinct masks (its classes are our tuples) |
//! | F | `full` | tuples that hold (N − (C − F)) / F rules each; the others hold a single rule |
//! | Cm | `overlap` | tuples that a key of [`SyntheticSpec::keys`] matches |
//!
//! A mask wildcards a subset of the fields; no two tuples have the same. Twelve fields have enough
//! subsets. Five have 31, so there the addresses are prefixes of any multiple of four bits.
//!
//! ```text
//! the first bit of every field    0: base packets and what is derived from them
//!                                 1: all other rules, in each field that their mask examines
//! the first Cm tuples             rule g of each = base packet g & mask; none examines the
//!                                 reserved field
//! key                             base packet g; what no Cm tuple examines at random, but for
//!                                 the first bits
//! ```
//! # Invariants
//! - S1: a key matches exactly one rule of each of the Cm tuples: base packets differ under each of
//!   their masks. It matches no other tuple: those examine some first bit, and it is 1 there.
//! - S2: no two rules match the same keys.
//!
//! # Source
//! Varvello, Laufer, Zhang, Lakshman, "Multi-layer packet classification with graphics processing
//! units", CoNEXT 2014, sections VI and VII-C.

use std::collections::HashSet;
use std::fmt;

use super::prng::{Prng, mix};
use crate::key::KeyBuf;
use crate::matching::Match;
use crate::rule::{Action, Rule};
use crate::ruleset::{Ruleset, RulesetBuilder};
use crate::schema::{Field, IPV4_5TUPLE, OPENFLOW12, Schema, WORDS_MAX};

/// The most parts of a key that masks treat apart.
const PARTS_MAX: usize = 12;

/// Draws before a specification counts as impossible.
const DRAWS_MAX: u32 = 20_000;

/// A field, or the part of it that is a field of its own in OpenFlow 1.0.
#[derive(Clone, Copy, Debug)]
struct Part {
    field: Field,
    /// All bits of the part, within the field.
    bits: u128,
}

/// Values of all parts.
type Values = [u128; PARTS_MAX];

const fn part(field: Field, bits: u128) -> Part {
    Part { field, bits }
}

/// Connections; the last is the reserved one.
const PARTS_5: [Part; 5] = [
    part(Field::Ipv4Src, 0xffff_ffff),
    part(Field::Ipv4Dst, 0xffff_ffff),
    part(Field::L4Dst, 0xffff),
    part(Field::IpProto, 0xff),
    part(Field::L4Src, 0xffff),
];

/// OpenFlow 1.0, where priority and VLAN id are two fields; the last is the reserved one.
const PARTS_12: [Part; 12] = [
    part(Field::EthSrc, 0xffff_ffff_ffff),
    part(Field::EthDst, 0xffff_ffff_ffff),
    part(Field::EthType, 0xffff),
    part(Field::VlanTci, 0x1fff),
    part(Field::VlanTci, 0xe000),
    part(Field::Ipv4Src, 0xffff_ffff),
    part(Field::Ipv4Dst, 0xffff_ffff),
    part(Field::IpProto, 0xff),
    part(Field::IpTos, 0xff),
    part(Field::L4Src, 0xffff),
    part(Field::L4Dst, 0xffff),
    part(Field::InPort, 0xffff_ffff),
];

/// Names one of GSwitch's synthetic rule sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SyntheticSpec {
    /// N: number of rules.
    pub rules: usize,
    /// C: number of distinct masks.
    pub tuples: usize,
    /// F: number of tuples that share the rules evenly; each other has one rule.
    pub full: usize,
    /// Cm: number of tuples that match a key of [`SyntheticSpec::keys`].
    pub overlap: usize,
    /// 5 (keys of [`IPV4_5TUPLE`]) or 12 (of [`OPENFLOW12`]).
    pub fields: usize,
    /// Which of all such sets.
    pub seed: u64,
}

/// A specification that no rule set meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

impl SyntheticSpec {
    /// The rule set, in random order. All priorities are zero.
    ///
    /// Cost: about 1 µs a rule, and `overlap` times the rules of a tuple.
    ///
    /// # Errors
    /// If the parameters contradict each other, or there are not so many masks with room for so
    /// many rules; the text says which parameter and what it may be.
    pub fn generate(&self) -> Result<Ruleset, SpecError> {
        let plan = Plan::new(self)?;
        let mut rules = plan.rules()?;
        let mut prng = plan.prng(Stream::Order);
        prng.shuffle(&mut rules);
        let mut builder = RulesetBuilder::new(self.schema()?);
        for rule in rules {
            builder.push(rule);
        }
        Ok(builder.build())
    }

    /// `keys` keys, each of which matches exactly `overlap` rules of the set.
    ///
    /// # Errors
    /// As [`SyntheticSpec::generate`].
    pub fn keys(&self, keys: usize) -> Result<KeyBuf, SpecError> {
        let plan = Plan::new(self)?;
        let mut prng = plan.prng(Stream::Keys);
        let schema = self.schema()?;
        let mut out = KeyBuf::with_capacity(schema, keys);
        let mut examined: Values = [0; PARTS_MAX];
        for mask in &plan.masks[..self.overlap] {
            for (all, bits) in examined.iter_mut().zip(mask) {
                *all |= bits;
            }
        }
        for _ in 0..keys {
            let base = &plan.bases[prng.index(plan.bases.len())];
            let mut key = [0; WORDS_MAX];
            for (idx, part) in plan.parts.iter().enumerate() {
                let mut random = prng.next_u128() & part.bits & !examined[idx];
                if !plan.is_reserved(idx) {
                    random &= !first_bit(part.bits);
                }
                or_into(schema, &mut key, part, base[idx] & examined[idx] | random);
            }
            out.push(&key);
        }
        Ok(out)
    }

    /// The layout of the keys.
    ///
    /// # Errors
    /// If `fields` is neither 5 nor 12.
    pub fn schema(&self) -> Result<&'static Schema, SpecError> {
        match self.fields {
            5 => Ok(&IPV4_5TUPLE),
            12 => Ok(&OPENFLOW12),
            other => Err(SpecError(format!("invalid number of fields {other}; expected 5 or 12"))),
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        let Self { rules, tuples, full, overlap, .. } = *self;
        self.schema()?;
        let limits = [
            ("full tuples (F)", full, 1, tuples),
            ("tuples that match a key (Cm)", overlap, 1, tuples),
            ("tuples (C)", tuples, 1, rules),
            ("rules (N)", rules, 1, crate::ruleset::RULES_MAX),
        ];
        for (what, value, min, max) in limits {
            if !(min..=max).contains(&value) {
                return Err(SpecError(format!("{value} {what}: at least {min}, at most {max}")));
            }
        }
        Ok(())
    }
}

/// Which of the independent streams of random numbers.
#[derive(Clone, Copy)]
enum Stream {
    Masks,
    Bases,
    Rules,
    Order,
    Keys,
}

/// Everything but the rules that are not derived from base packets.
struct Plan {
    spec: SyntheticSpec,
    parts: &'static [Part],
    /// Rules of each tuple.
    sizes: Vec<usize>,
    masks: Vec<Values>,
    /// As many as the smallest of the tuples that overlap has rules.
    bases: Vec<Values>,
}

impl Plan {
    fn new(spec: &SyntheticSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let parts: &'static [Part] = if spec.fields == 5 { &PARTS_5 } else { &PARTS_12 };
        let shared = spec.rules - (spec.tuples - spec.full);
        let size = |tuple| match tuple {
            t if t >= spec.full => 1,
            t => shared / spec.full + usize::from(t < shared % spec.full),
        };
        let sizes = (0..spec.tuples).map(size).collect();
        let mut plan = Self { spec: *spec, parts, sizes, masks: Vec::new(), bases: Vec::new() };
        plan.draw_masks()?;
        plan.draw_bases()?;
        Ok(plan)
    }

    fn prng(&self, stream: Stream) -> Prng {
        Prng::new(mix(self.spec.seed) ^ mix(stream as u64))
    }

    fn is_reserved(&self, part: usize) -> bool {
        part + 1 == self.parts.len()
    }

    fn draw_masks(&mut self) -> Result<(), SpecError> {
        let mut prng = self.prng(Stream::Masks);
        let mut seen = HashSet::new();
        for tuple in 0..self.spec.tuples {
            let found = (0..DRAWS_MAX).find_map(|_| {
                let mask = self.draw_mask(&mut prng, tuple < self.spec.overlap);
                (self.has_room(&mask, tuple) && seen.insert(mask)).then_some(mask)
            });
            let mask = found.ok_or_else(|| {
                let (tuples, fields, size) =
                    (self.spec.tuples, self.spec.fields, self.sizes[tuple]);
                SpecError(format!(
                    "{tuples} tuples (C): {fields} fields have only about {tuple} masks with room \
                     for {size} rules; use fewer tuples, or fewer rules in each"
                ))
            })?;
            self.masks.push(mask);
        }
        Ok(())
    }

    /// Every field examined or not, by a coin each.
    fn draw_mask(&self, prng: &mut Prng, overlaps: bool) -> Values {
        let mut mask = [0; PARTS_MAX];
        for (idx, part) in self.parts.iter().enumerate() {
            let is_address = matches!(part.field, Field::Ipv4Src | Field::Ipv4Dst);
            mask[idx] = match prng.below(2) {
                _ if overlaps && self.is_reserved(idx) => 0,
                0 => 0,
                _ if is_address && self.spec.fields == 5 => {
                    let host_bits = 4 * prng.below(8);
                    part.bits >> host_bits << host_bits
                }
                _ => part.bits,
            };
        }
        mask
    }

    /// Whether a mask has several times the values that its tuple has rules, so that drawing
    /// distinct ones ends soon.
    fn has_room(&self, mask: &Values, tuple: usize) -> bool {
        let open = mask.iter().take(self.parts.len() - 1).filter(|&&bits| bits != 0);
        let first_bits = open.count() as u32;
        let reserved = mask[self.parts.len() - 1].count_ones();
        let examined: u32 = mask.iter().map(|bits| bits.count_ones()).sum();
        let room = examined - first_bits;
        let spare = if tuple < self.spec.overlap { 7 } else { 3 };
        first_bits > 0
            && (self.sizes[tuple] == 1 && tuple >= self.spec.overlap
                || room >= self.sizes[tuple].ilog2() + spare)
            && (tuple >= self.spec.overlap || reserved == 0)
    }

    fn draw_bases(&mut self) -> Result<(), SpecError> {
        let mut prng = self.prng(Stream::Bases);
        let masks = &self.masks[..self.spec.overlap];
        let count = self.sizes[..self.spec.overlap].iter().copied().min().unwrap_or(0);
        let mut seen = HashSet::new();
        for _ in 0..count {
            let found = (0..DRAWS_MAX).find_map(|_| {
                let base = self.draw_values(&mut prng, false);
                let prints: Vec<u64> = masks
                    .iter()
                    .enumerate()
                    .map(|(tuple, mask)| fingerprint(tuple, &base, mask))
                    .collect();
                prints.iter().all(|print| !seen.contains(print)).then_some((base, prints))
            });
            let (base, prints) = found.ok_or_else(|| {
                let (overlap, count) = (self.spec.overlap, count);
                SpecError(format!(
                    "{overlap} tuples that match a key (Cm): no {count} packets differ under the \
                     masks of all of them; use a smaller Cm, or fewer rules in each tuple"
                ))
            })?;
            seen.extend(prints);
            self.bases.push(base);
        }
        Ok(())
    }

    /// Random values of all parts whose first bits, the reserved field's aside, are all `first`.
    fn draw_values(&self, prng: &mut Prng, first: bool) -> Values {
        let mut values = [0; PARTS_MAX];
        for (idx, part) in self.parts.iter().enumerate() {
            let random = prng.next_u128() & part.bits;
            values[idx] = match first_bit(part.bits) {
                _ if self.is_reserved(idx) => random,
                bit if first => random | bit,
                bit => random & !bit,
            };
        }
        values
    }

    fn rules(&self) -> Result<Vec<Rule>, SpecError> {
        let mut prng = self.prng(Stream::Rules);
        let mut rules = Vec::with_capacity(self.spec.rules);
        let mut seen = HashSet::with_capacity(self.spec.rules);
        for (tuple, mask) in self.masks.iter().enumerate() {
            let derived = if tuple < self.spec.overlap { &self.bases[..] } else { &[] };
            for rule in 0..self.sizes[tuple] {
                let values = match derived.get(rule) {
                    Some(base) => *base,
                    None => loop {
                        let values = self.draw_values(&mut prng, true);
                        if seen.insert(fingerprint(tuple, &values, mask)) {
                            break values;
                        }
                    },
                };
                let action = Action::Output(1 + prng.below(16) as u32);
                rules.push(Rule::new(self.matching(&values, mask)?, action));
            }
        }
        Ok(rules)
    }

    fn matching(&self, values: &Values, mask: &Values) -> Result<Match, SpecError> {
        let schema = self.spec.schema()?;
        let mut matching = Match::any(schema);
        for (idx, part) in self.parts.iter().enumerate() {
            // Two parts may share a field: add to what the first has set.
            let others = |v: &Values| {
                let same = self.parts.iter().zip(v).filter(|(p, _)| p.field == part.field);
                same.fold(0, |all, (_, bits)| all | bits)
            };
            let is_first = self.parts[..idx].iter().all(|p| p.field != part.field);
            if is_first {
                matching.set_mask(part.field, others(values), others(mask));
            }
        }
        Ok(matching)
    }
}

/// The most significant bit of a part.
fn first_bit(bits: u128) -> u128 {
    1 << bits.ilog2()
}

/// A number that differs for values that differ under the mask, all but certainly.
fn fingerprint(tuple: usize, values: &Values, mask: &Values) -> u64 {
    let masked = values.iter().zip(mask).map(|(value, bits)| value & bits);
    masked.fold(mix(tuple as u64), |h, v| mix(mix(h ^ v as u64) ^ (v >> 64) as u64))
}

/// Sets bits of a field in a key.
fn or_into(schema: &Schema, key: &mut [u32], part: &Part, bits: u128) {
    if let Some(spec) = schema.field(part.field) {
        let value = spec.read(key) | bits;
        spec.write(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn spec(n: usize, c: usize, f: usize, cm: usize, fields: usize) -> SyntheticSpec {
        SyntheticSpec { rules: n, tuples: c, full: f, overlap: cm, fields, seed: 1 }
    }

    fn check(spec: &SyntheticSpec) {
        let ruleset = spec.generate().unwrap_or_else(|error| panic!("{spec:?}: {error}"));
        assert_eq!(ruleset.len(), spec.rules, "N of {spec:?}");

        let mut sizes: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut distinct = HashSet::new();
        for rule in ruleset.iter() {
            *sizes.entry(rule.matching.mask.to_vec()).or_default() += 1;
            distinct.insert((rule.matching.value.to_vec(), rule.matching.mask.to_vec()));
        }
        assert_eq!(distinct.len(), spec.rules, "duplicates in {spec:?}");
        assert_eq!(sizes.len(), spec.tuples, "C of {spec:?}");

        let even = (spec.rules - (spec.tuples - spec.full)) / spec.full;
        let full = sizes.values().filter(|&&size| size == even || size == even + 1).count();
        let single = sizes.values().filter(|&&size| size == 1).count();
        if even > 1 {
            assert_eq!((full, single), (spec.full, spec.tuples - spec.full), "F of {spec:?}");
        } else {
            assert!(sizes.values().all(|&size| size <= 2));
        }

        let keys = spec.keys(50).unwrap();
        assert_eq!(keys.len(), 50);
        let mut seen = HashSet::new();
        for key in keys.as_batch().iter() {
            let matching: Vec<_> = ruleset.iter().filter(|r| r.matching.matches(key)).collect();
            let masks: HashSet<_> = matching.iter().map(|r| r.matching.mask).collect();
            assert_eq!(matching.len(), spec.overlap, "Cm of {spec:?}");
            assert_eq!(masks.len(), spec.overlap, "Cm of {spec:?}");
            seen.insert(key.to_vec());
        }
        assert!(seen.len() > 40, "keys repeat: {}", seen.len());
    }

    #[test]
    fn each_parameter_does_what_it_says() {
        for fields in [5, 12] {
            for (n, c, f, cm) in [
                (1, 1, 1, 1),
                (2, 2, 1, 2),
                (256, 1, 1, 1),
                (1024, 128, 4, 1),
                (1024, 128, 128, 1),
                (1024, 128, 128, 16),
                (1024, 16, 16, 16),
                (1000, 33, 7, 9),
                (8192, 64, 32, 40),
            ] {
                check(&spec(n, c, f, cm, fields));
            }
        }
        check(&spec(1024, 128, 128, 128, 12));
        check(&spec(32_768, 512, 512, 8, 12));
    }

    #[test]
    fn contradictions_are_refused_with_the_limit() {
        for (spec, expected) in [
            (spec(10, 20, 1, 1, 5), "20 tuples (C): at least 1, at most 10"),
            (spec(0, 0, 0, 0, 5), "0 full tuples (F): at least 1, at most 0"),
            (spec(10, 5, 6, 1, 5), "6 full tuples (F): at least 1, at most 5"),
            (spec(10, 5, 5, 6, 5), "6 tuples that match a key (Cm): at least 1, at most 5"),
            (spec(10, 5, 5, 1, 7), "invalid number of fields 7; expected 5 or 12"),
        ] {
            assert_eq!(spec.generate().unwrap_err().to_string(), expected);
            assert_eq!(spec.keys(1).unwrap_err().to_string(), expected);
        }
        let crowded = spec(8_000, 8_000, 8_000, 1, 12).generate().unwrap_err();
        assert!(crowded.to_string().contains("use fewer tuples"), "{crowded}");
    }

    #[test]
    fn seeds_tell_sets_apart() {
        let first = spec(64, 8, 8, 2, 12);
        let second = SyntheticSpec { seed: 2, ..first };
        let values = |spec: &SyntheticSpec| {
            let ruleset = spec.generate().unwrap();
            ruleset.iter().flat_map(|r| r.matching.value.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(values(&first), values(&first));
        assert_ne!(values(&first), values(&second));
    }
}
