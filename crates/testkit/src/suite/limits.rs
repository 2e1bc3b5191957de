//! Memory bounds.

use warpswitch_classify::{BuildOptions, ErrorKind};
use warpswitch_rules::schema::{IPV4_5TUPLE, SCHEMAS};
use warpswitch_rules::{Action, Field, Match, Rule, RuleId, RuleRef, RulesetBuilder};

use super::{Build, OPTIONS, answers, assert_answers, expected};
use crate::dense;
use crate::random::Random;

/// Rules inserted towards a bound.
const INSERTS_MAX: u128 = 200;

/// A bound is kept or the build is refused with the rules that cost most; a change that would
/// break it is refused and changes nothing.
pub fn memory_bounds_hold(build: Build<'_>) {
    for schema in SCHEMAS {
        let ruleset = dense::ruleset(schema, 60, 6, 101);
        let keys = dense::keys_near(&ruleset, 200, 102);
        let unbounded = build(&ruleset, &OPTIONS).expect("no bound was given").bytes();
        assert!(unbounded > 0);
        for bytes_max in [0, 1, 100, unbounded / 4, unbounded / 2, unbounded - 1] {
            match build(&ruleset, &BuildOptions { bytes_max, ..OPTIONS }) {
                Ok(classifier) => assert!(classifier.bytes() <= bytes_max),
                Err(refused) => {
                    assert_eq!(refused.kind(), ErrorKind::MemoryBound);
                    assert!(!refused.rules().is_empty(), "{refused}");
                    assert!(refused.rules().iter().all(|id| id.as_usize() < ruleset.len()));
                }
            }
        }
        let bytes_max = unbounded + unbounded / 8;
        let bounded = BuildOptions { bytes_max, ..OPTIONS };
        let classifier = build(&ruleset, &bounded).expect("more than it needs");
        let mut random = Random::new(103);
        let refused = (0..INSERTS_MAX).find_map(|n| {
            let mut matching = dense::matching(schema, 6, &mut random);
            matching.set_exact(Field::L4Src, n).set_exact(Field::L4Dst, n >> 4);
            let rule =
                RuleRef { id: RuleId(1000 + n as u32), priority: 0, matching: matching.as_ref() };
            let refused = classifier.insert(rule).err();
            assert!(n % 8 != 0 || classifier.bytes() <= bytes_max, "after {n} inserts");
            refused.map(|error| (error, n as usize))
        });
        assert!(classifier.bytes() <= bytes_max);
        // An engine with much room to spare may take them all.
        let inserted = match refused {
            Some((error, inserted)) => {
                assert_eq!(error.kind(), ErrorKind::MemoryBound);
                inserted
            }
            None => INSERTS_MAX as usize,
        };
        assert_eq!(classifier.len(), ruleset.len() + inserted);
        // The new rules have the lowest priority and higher ids than all others.
        let found = answers(&*classifier, keys.as_batch());
        let old = |id: &RuleId| if id.0 >= 1000 { RuleId::NONE } else { *id };
        let found: Vec<RuleId> = found.iter().map(old).collect();
        assert_answers(schema.name, keys.as_batch(), &found, &expected(&ruleset, keys.as_batch()));
    }
}

/// Rules whose ranges become as many prefixes as ranges can: built right, or refused.
pub fn wide_rules_are_refused_not_fatal(build: Build<'_>) {
    let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
    for n in 0..3000 {
        let mut matching = Match::any(&IPV4_5TUPLE);
        matching.set_range(Field::L4Src, 1, 65534).set_range(Field::L4Dst, 1, 65534);
        if n % 2 == 0 {
            matching.set_exact(Field::Ipv4Src, n);
        }
        builder.push(Rule::new(matching, Action::Pass));
    }
    let ruleset = builder.build();
    let bytes_max = 16 << 20;
    match build(&ruleset, &BuildOptions { bytes_max, ..OPTIONS }) {
        Ok(classifier) => {
            assert!(classifier.bytes() <= bytes_max);
            let keys = dense::keys_near(&ruleset, 300, 112);
            let found = answers(&*classifier, keys.as_batch());
            let expected = expected(&ruleset, keys.as_batch());
            assert_answers("wide rules", keys.as_batch(), &found, &expected);
        }
        Err(refused) => {
            assert_eq!(refused.kind(), ErrorKind::MemoryBound);
            assert!(!refused.rules().is_empty());
        }
    }
}
