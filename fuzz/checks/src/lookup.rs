//! Differential classification: random rules and keys, every engine against the reference, before,
//! between and after random changes.
//!
//! The input is read as a list of choices (`arbitrary`), small numbers first: rules that share
//! prefixes, ports and priorities are the ones that go wrong.

use arbitrary::{Result, Unstructured};
use warpswitch_classify::{BuildOptions, Classifier, Engine, ErrorKind, build};
use warpswitch_rules::schema::SCHEMAS;
use warpswitch_rules::{
    Action, KeyBuf, Match, Precedence, Rule, RuleId, RuleRef, Ruleset, RulesetBuilder, Schema,
};

const RULES_MAX: usize = 40;
const KEYS_MAX: usize = 70;
const STEPS_MAX: usize = 24;

/// A rule that is in the engines, or was or will be.
struct Entry {
    id: RuleId,
    priority: u32,
    matching: Match,
    is_in: bool,
}

impl Entry {
    fn as_ref(&self) -> RuleRef<'_> {
        RuleRef { id: self.id, priority: self.priority, matching: self.matching.as_ref() }
    }
}

/// Builds every engine over random rules, changes them at random, compares all answers.
pub fn classify(data: &[u8]) {
    // An input that ends early is a shorter run, no failure.
    _ = run(&mut Unstructured::new(data));
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let schema = *input.choose(&SCHEMAS)?;
    let options = BuildOptions { hash_seed: input.arbitrary()?, ..BuildOptions::default() };
    let rules_len = input.int_in_range(0..=RULES_MAX)?;
    let mut entries = Vec::with_capacity(rules_len + STEPS_MAX);
    for idx in 0..rules_len {
        entries.push(entry(input, schema, idx as u32, true)?);
    }
    let engines = build_all(&ruleset(schema, &entries), &options);
    let keys = keys(input, schema, &entries)?;
    compare(&engines, &entries, &keys);
    for _ in 0..input.int_in_range(0..=STEPS_MAX)? {
        if entries.is_empty() || input.ratio(1, 3)? {
            let next = entries.len() as u32;
            entries.push(entry(input, schema, next, false)?);
        }
        let at = input.choose_index(entries.len())?;
        change(&engines, &mut entries[at]);
        compare(&engines, &entries, &keys);
    }
    Ok(())
}

fn ruleset(schema: &'static Schema, entries: &[Entry]) -> Ruleset {
    let mut builder = RulesetBuilder::new(schema);
    for entry in entries {
        let rule = Rule::new(entry.matching, Action::Pass);
        builder.push(Rule { priority: entry.priority, ..rule });
    }
    builder.build()
}

fn build_all(ruleset: &Ruleset, options: &BuildOptions) -> Vec<Box<dyn Classifier>> {
    let mut engines = Vec::with_capacity(Engine::ALL.len());
    for engine in Engine::ALL {
        match build(engine, ruleset, options) {
            Ok(built) => engines.push(built),
            // Without a bound the only reason to refuse is one that the engine states.
            Err(error) => assert_eq!(error.kind(), ErrorKind::MemoryBound, "{engine}: {error}"),
        }
        // A bound is kept or the build refused; it never aborts.
        let bound = BuildOptions { bytes_max: 4096, ..*options };
        if let Ok(small) = build(engine, ruleset, &bound) {
            assert!(small.bytes() <= bound.bytes_max, "{engine}: {} bytes", small.bytes());
        }
    }
    engines
}

/// Takes the rule out of all engines if it is in, else puts it in; and tries what must be refused.
fn change(engines: &[Box<dyn Classifier>], entry: &mut Entry) {
    for engine in engines {
        let name = engine.engine();
        let len = engine.len();
        if entry.is_in {
            let again = engine.insert(entry.as_ref()).expect_err("it is in");
            assert_eq!(again.kind(), ErrorKind::DuplicateRule, "{name}");
            engine.remove(entry.as_ref()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(engine.len(), len - 1, "{name}");
        } else {
            let missing = engine.remove(entry.as_ref()).expect_err("it is not in");
            assert_eq!(missing.kind(), ErrorKind::UnknownRule, "{name}");
            engine.insert(entry.as_ref()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(engine.len(), len + 1, "{name}");
        }
    }
    entry.is_in = !entry.is_in;
}

fn compare(engines: &[Box<dyn Classifier>], entries: &[Entry], keys: &KeyBuf) {
    let batch = keys.as_batch();
    let winner = |key: &[u32]| {
        let matching = entries.iter().filter(|e| e.is_in && e.matching.as_ref().matches(key));
        matching.map(|e| e.as_ref().precedence()).min().unwrap_or(Precedence::NONE).id()
    };
    let expected: Vec<RuleId> = batch.iter().map(winner).collect();
    let mut answers = vec![RuleId(7_777_777); batch.len()];
    for engine in engines {
        answers.fill(RuleId(7_777_777));
        engine.classify(batch, &mut answers);
        for (idx, (got, want)) in answers.iter().zip(&expected).enumerate() {
            let name = engine.engine();
            assert_eq!(got, want, "{name}, key {idx}: {:x?}", batch.key(idx));
        }
    }
}

/// A rule that demands something of some fields.
fn entry(
    input: &mut Unstructured<'_>,
    schema: &'static Schema,
    id: u32,
    is_in: bool,
) -> Result<Entry> {
    let mut matching = Match::any(schema);
    for spec in schema.fields {
        let is_port = spec.bit_offset / 32 == schema.ports_word;
        match input.int_in_range(0..=5u8)? {
            0 => _ = matching.set_exact(spec.field, value(input, spec.bits)?),
            1 => {
                let len = input.int_in_range(0..=spec.bits)?;
                matching.set_prefix(spec.field, value(input, spec.bits)?, len);
            }
            2 => _ = matching.set_mask(spec.field, value(input, spec.bits)?, input.arbitrary()?),
            3 if is_port => {
                let (a, b): (u16, u16) = input.arbitrary()?;
                matching.set_range(spec.field, a.min(b), a.max(b));
            }
            _ => {}
        }
    }
    let few = u32::from(id.is_multiple_of(3));
    let priority = if input.ratio(1, 8)? { input.arbitrary()? } else { few };
    Ok(Entry { id: RuleId(id), priority, matching, is_in })
}

/// Mostly one of a few values, so that rules meet.
fn value(input: &mut Unstructured<'_>, bits: usize) -> Result<u128> {
    let few = u128::from(input.int_in_range(0..=3u8)?);
    Ok(match input.int_in_range(0..=3u8)? {
        0 => few,
        1 => few << (bits - 2),
        2 => !few,
        _ => input.arbitrary()?,
    })
}

/// Keys inside of rules, with the bits that the rule leaves open drawn at random; and any keys.
fn keys(input: &mut Unstructured<'_>, schema: &'static Schema, rules: &[Entry]) -> Result<KeyBuf> {
    let used = schema.used_bits();
    let mut keys = KeyBuf::new(schema);
    for _ in 0..input.int_in_range(0..=KEYS_MAX)? {
        let mut key = vec![0u32; schema.words];
        for word in &mut key {
            *word = input.arbitrary()?;
        }
        if !rules.is_empty() && input.ratio(3, 4)? {
            aim(&mut key, &rules[input.choose_index(rules.len())?]);
        }
        key.iter_mut().zip(used).for_each(|(word, used)| *word &= used);
        keys.push(&key);
    }
    Ok(keys)
}

/// Moves a key into what the rule matches, or, for ports, to one of the range's ends.
fn aim(key: &mut [u32], entry: &Entry) {
    let matching = entry.matching.as_ref();
    for ((word, value), mask) in key.iter_mut().zip(matching.value).zip(matching.mask) {
        *word = *word & !mask | value;
    }
    let ports = &mut key[matching.ports_word];
    for (side, range) in matching.ranges.iter().enumerate() {
        let shift = 16 * (1 - side);
        let port = (*ports >> shift) as u16;
        if !range.contains(port) {
            let end = if port & 1 == 0 { range.lo } else { range.hi };
            *ports = *ports & !(0xffff << shift) | u32::from(end) << shift;
        }
    }
}
