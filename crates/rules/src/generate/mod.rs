//! Rule sets, traces and frames that are made, not found.
//!
//! | what | specification |
//! | --- | --- |
//! | rule sets in the style of ClassBench: access lists, firewalls, IP chains | [`RulesetSpec`] |
//! | GSwitch's synthetic sets: N rules in C masks, Cm of which match a key | [`SyntheticSpec`] |
//! | actions of rules in given proportions | [`ActionMix`] |
//! | traces: keys at the corners or inside of rules, independent or in runs | [`TraceSpec`] |
//! | traces of flows whose popularity follows Zipf's law and shifts | [`PopularitySpec`] |
//! | traces with a few hot rules at a time and many flows in each | [`HotRulesSpec`] |
//! | frames that have given keys, in a mix of sizes | [`frame_for_key`], [`FrameSizes`] |
//! | frames that have the header fields of flow keys | [`frame_for_flow`] |
//!
//! A specification is plain data with a seed; the same one yields the same bytes on every machine
//! (see [`Prng`]).

mod actions;
mod address;
mod classbench;
mod flow_frame;
mod frame;
mod hot_rules;
mod locality;
mod payloads;
mod popularity;
mod prng;
mod realise;
mod sizes;
mod synthetic;
mod tables;
mod trace;
mod transport;

pub use actions::{ActionMix, BadActions};
pub use classbench::{Family, RulesetSpec, Style, UnknownName};
pub use flow_frame::frame_for_flow;
pub use frame::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, FrameMaker, frame_for_key};
pub use hot_rules::{HOT_RULES_MAX, HotRulesSpec, HotRulesTrace};
pub use locality::{BadPareto, Pareto, RUN_MAX};
pub use payloads::Payloads;
pub use popularity::{BadZipf, FLOWS_MAX, PopularTrace, PopularitySpec, Zipf};
pub use prng::Prng;
pub use sizes::{BadSizes, FrameSizes};
pub use synthetic::{SpecError, SyntheticSpec};
pub use trace::{Point, TraceGenerator, TraceSpec};

#[cfg(test)]
mod tests {
    //! Seeds that people have written down must mean the same for ever: digests of one product of
    //! each generator.

    use super::prng::mix;
    use super::*;
    use crate::key::KeyBuf;
    use crate::ruleset::Ruleset;

    /// A number that changes with any word of any rule, any action and the order of rules.
    fn digest(ruleset: &Ruleset) -> u64 {
        ruleset.iter().fold(0, |h, rule| {
            let m = rule.matching;
            let ranges = m.ranges.map(|r| u32::from(r.lo) << 16 | u32::from(r.hi));
            let h = digest_words(h, m.value.iter().chain(m.mask).chain(&ranges));
            let flags = ruleset.flags_column(rule.id).map_or(0, |f| u64::from(f.value) << 16);
            let action = ruleset.action(rule.id).to_string();
            action.bytes().fold(mix(h ^ flags), |h, b| mix(h ^ u64::from(b)))
        })
    }

    fn digest_words<'a>(start: u64, words: impl IntoIterator<Item = &'a u32>) -> u64 {
        words.into_iter().fold(start, |h, &word| mix(h ^ u64::from(word)))
    }

    fn check(what: &str, found: u64, expected: u64) {
        assert_eq!(found, expected, "{what} is {found:#x}");
    }

    #[test]
    fn a_seed_names_one_thing_for_ever() {
        let set = |style, family| RulesetSpec { style, family, rules: 1_000, seed: 42 }.generate();
        let acl = set(Style::Acl, Family::Ipv4);
        check("acl ipv4", digest(&acl), 0x599b_f11d_6cd3_1dc6);
        check("fw ipv4", digest(&set(Style::Fw, Family::Ipv4)), 0xc3f0_e689_e932_859d);
        let ipc = set(Style::Ipc, Family::Ipv6);
        check("ipc ipv6", digest(&ipc), 0x5624_9dde_384e_a0e4);

        for (fields, rules, keys) in [
            (5, 0xa4dc_6d78_a4a5_b001, 0x0c66_5182_c694_51b4),
            (12, 0x4e60_dbbe_a3d6_6cdd, 0x7458_603b_d800_6fe5),
        ] {
            let spec =
                SyntheticSpec { rules: 500, tuples: 40, full: 20, overlap: 7, fields, seed: 42 };
            check("synthetic", digest(&spec.generate().unwrap()), rules);
            check("its keys", digest_words(0, spec.keys(200).unwrap().as_batch().words()), keys);
        }

        let traces = [
            (Point::Inside, None, false, 0xd825_cf20_8601_7285),
            (Point::Corner, Some(Pareto::CLASSBENCH), false, 0x58b4_4b1b_98f1_567a),
            (Point::Inside, Some(Pareto::CLASSBENCH), true, 0x04f5_0949_59cb_8598),
        ];
        let mut sizes = Prng::new(42);
        let (mut frame, mut frames) = (Vec::new(), 0);
        for (ruleset, (point, locality, realisable, expected)) in
            [&acl, &acl, &ipc].into_iter().zip(traces)
        {
            let spec = TraceSpec { keys: 500, point, locality, realisable, seed: 42 };
            let mut keys = KeyBuf::new(ruleset.schema());
            spec.generate(ruleset).fill(&mut keys, usize::MAX);
            check("trace", digest_words(0, keys.as_batch().words()), expected);
            for key in keys.as_batch().iter() {
                let bytes = FrameSizes::Imix.draw(&mut sizes);
                frame_for_key(ruleset.schema(), key, bytes, &mut frame);
                frames = frame.iter().fold(frames, |h, &byte| mix(h ^ u64::from(byte)));
            }
        }
        check("frames", frames, 0x7519_ce4a_84bf_5d24);
    }
}
