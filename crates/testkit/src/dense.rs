//! Rules and keys over few values, so that nearly every rule overlaps others and nearly every key
//! meets several: where engines go wrong.
//!
//! Every field of a schema is reduced to three bits, its two uppermost and its lowest. Rules demand
//! some of them in every way that a rule can (exact, prefix, mask, range, any); keys carry them.

use warpswitch_rules::schema::FieldSpec;
use warpswitch_rules::{Action, Field, KeyBuf, Match, Rule, Ruleset, RulesetBuilder, Schema};

use crate::random::Random;

/// Values that a field takes here.
pub const VALUES: u8 = 8;

/// What a dense rule demands of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing.
    Any,
    /// Value number `.0`.
    Exact(u8),
    /// The first 1, 2, or all but one bits of value number `.0`.
    Prefix(u8, u8),
    /// Those of the three bits of value number `.0` that are set in `.1`.
    Mask(u8, u8),
    /// The ports between two values; [`Demand::Any`] for other fields.
    Range(u8, u8),
}

/// The value of a field that number `value` stands for.
pub fn spread(spec: &FieldSpec, value: u8) -> u128 {
    let value = u128::from(value % VALUES);
    (value >> 1) << (spec.bits - 2) | value & 1
}

/// Demands `demand` of the field.
pub fn set_demand(matching: &mut Match, spec: &FieldSpec, demand: Demand) {
    match demand {
        Demand::Any => {}
        Demand::Exact(value) => _ = matching.set_exact(spec.field, spread(spec, value)),
        Demand::Prefix(value, len) => {
            let len = [1, 2, spec.bits - 1][usize::from(len % 3)];
            matching.set_prefix(spec.field, spread(spec, value), len);
        }
        Demand::Mask(value, mask) => {
            matching.set_mask(spec.field, spread(spec, value), spread(spec, mask));
        }
        Demand::Range(a, b) if is_port(spec.field) => {
            let (a, b) = (spread(spec, a) as u16, spread(spec, b) as u16);
            matching.set_range(spec.field, a.min(b), a.max(b));
        }
        Demand::Range(..) => {}
    }
}

fn is_port(field: Field) -> bool {
    matches!(field, Field::L4Src | Field::L4Dst)
}

/// A random demand; `wild` of eight demand nothing.
fn demand(random: &mut Random, wild: usize) -> Demand {
    if random.chance(wild, 8) {
        return Demand::Any;
    }
    let (a, b) = (random.below(8) as u8, random.below(8) as u8);
    match random.below(4) {
        0 => Demand::Exact(a),
        1 => Demand::Prefix(a, b),
        2 => Demand::Mask(a, b),
        _ => Demand::Range(a, b),
    }
}

/// A random dense match; `wild` of eight fields are not examined.
pub fn matching(schema: &'static Schema, wild: usize, random: &mut Random) -> Match {
    let mut matching = Match::any(schema);
    for spec in schema.fields {
        set_demand(&mut matching, spec, demand(random, wild));
    }
    matching
}

/// A dense rule set with many equal priorities; about one rule in eight repeats an earlier match,
/// and a few match everything.
pub fn ruleset(schema: &'static Schema, rules: usize, wild: usize, seed: u64) -> Ruleset {
    let mut random = Random::new(seed);
    let mut builder = RulesetBuilder::new(schema);
    let mut matches: Vec<Match> = Vec::new();
    for _ in 0..rules {
        let matching = match random.below(64) {
            0 => Match::any(schema),
            1..8 if !matches.is_empty() => matches[random.below(matches.len())],
            _ => matching(schema, wild, &mut random),
        };
        matches.push(matching);
        let priority = random.below(4) as u32;
        builder.push(Rule { priority, ..Rule::new(matching, Action::Pass) });
    }
    builder.build()
}

/// Random dense keys.
pub fn keys(schema: &'static Schema, count: usize, seed: u64) -> KeyBuf {
    let mut random = Random::new(seed);
    let mut keys = KeyBuf::with_capacity(schema, count);
    for _ in 0..count {
        let mut key = vec![0; schema.words];
        for spec in schema.fields {
            spec.write(&mut key, spread(spec, random.below(8) as u8));
        }
        keys.push(&key);
    }
    keys
}

/// Keys at and beside the rules: inside a random rule, at one of its corners, or there with one
/// bit flipped.
pub fn keys_near(ruleset: &Ruleset, count: usize, seed: u64) -> KeyBuf {
    let schema = ruleset.schema();
    let mut random = Random::new(seed);
    let used = schema.used_bits();
    let mut keys = KeyBuf::with_capacity(schema, count);
    for _ in 0..count {
        let mut key: Vec<u32> =
            (0..schema.words).map(|word| used[word] & random.draw() as u32).collect();
        if !ruleset.is_empty() {
            let id = warpswitch_rules::RuleId(random.below(ruleset.len()) as u32);
            move_into(&mut key, ruleset, id, &mut random);
        }
        if random.chance(1, 4) {
            let spec = &schema.fields[random.below(schema.fields.len())];
            let flipped = spec.read(&key) ^ (1 << random.below(spec.bits));
            spec.write(&mut key, flipped);
        }
        keys.push(&key);
    }
    keys
}

/// Makes `key` match rule `id`: its other bits stay, or all become 0 or 1.
fn move_into(
    key: &mut [u32],
    ruleset: &Ruleset,
    id: warpswitch_rules::RuleId,
    random: &mut Random,
) {
    let matching = ruleset.matching(id);
    let used = ruleset.schema().used_bits();
    let corner = random.below(3);
    for word in 0..key.len() {
        let other = [key[word], 0, used[word]][corner];
        key[word] = matching.value[word] | other & !matching.mask[word];
    }
    for (side, field) in [Field::L4Src, Field::L4Dst].into_iter().enumerate() {
        let range = matching.ranges[side];
        if range.as_prefix_mask().is_none() {
            let span = usize::from(range.hi - range.lo) + 1;
            let offset = [random.below(span), 0, span - 1][corner];
            let spec = ruleset.schema().field(field).expect("every schema has ports");
            spec.write(key, u128::from(range.lo) + offset as u128);
        }
    }
}
