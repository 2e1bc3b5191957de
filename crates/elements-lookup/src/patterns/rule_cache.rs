//! Answers frames from a cache of evolving rules, ahead of the classifier whose rules they are.
//!
//! # Synopsis
//! `RuleCache(FOR ELEMENT [, LOOKUP N, CACHED_RULES N, ANNO PLACE])`
//!
//! # Ports
//! One input, one output; push. Requires whole frames, starting at the Ethernet header.
//!
//! # Configuration
//! - `FOR`: the `SDNClassifier` downstream whose lookups it saves. Frames that hit carry their
//!   result there; the element uses it unless the frame was modified or the rules changed
//! - `LOOKUP`: result slot of the packet (0 or 1) to write; default: 0. All elements that compute
//!   results for one classifier must use the same slot
//! - `CACHED_RULES`: maximum number of rules in the cache, 10 to 30; default: 20
//! - `ANNO`: offset of a 4-byte annotation to write 1 to for frames that miss, else 0, for
//!   `CHK_ANNO` of elements that handle misses only; default: none is written
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `hit_ratio` | read | share of frames that the cache answered, 0 to 1 |
//! | `hits` | read | frames that it answered |
//! | `cached_rules` | read | number of rules in the cache |
//! | `swaps` | read | number of versions of the cache |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on the worker of its classifier. Source: Ma, Banerjee, Lu, Estan, SIGMETRICS 2010.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> RuleCache(FOR sdn) -> Queue -> Unqueue
//!   -> sdn :: SDNClassifier(RULES web.flows); sdn [0] -> Discard; sdn [1] -> Discard;
//! ```

use std::sync::Arc;

use warpswitch_classify::RuleChange as EngineChange;
use warpswitch_flow::storm::{CACHED_MAX_MAX, CACHED_MAX_MIN};
use warpswitch_flow::{Answer, Misses, StormCache, StormOptions};
use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, CACHED_RESULTS, CachedResult, Column, annotation};
use warpswitch_rules::extract::Extractor;
use warpswitch_rules::{KeyBatch, Rule, RuleId, RuleRef};
use warpswitch_wire::link::LinkType;

use super::sdn_classifier::{RuleChange, SdnClassifier, frame_key};
use warpswitch_elements_support::cached::{CachedLookup, TableFollower, TableVersion};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("RuleCache", "1/1", "h/h", || Box::<RuleCache>::default());

/// The last offset of a 4-byte annotation.
const ANNO_MAX: u32 = 44;

/// The cache, which follows the changes of its classifier's rules.
#[derive(Debug)]
struct FollowingCache(StormCache);

impl TableFollower<RuleChange> for FollowingCache {
    fn follow(&self, changes: &[RuleChange]) -> bool {
        fn rule_ref(id: RuleId, rule: &Rule) -> RuleRef<'_> {
            RuleRef { id, priority: rule.priority, matching: rule.matching.as_ref() }
        }
        fn engine_change(change: &RuleChange) -> EngineChange<'_> {
            match change {
                RuleChange::Insert(id, rule) => EngineChange::Insert(rule_ref(*id, rule)),
                RuleChange::Remove(id, rule) => EngineChange::Remove(rule_ref(*id, rule)),
            }
        }
        // The classifier has changed, and its new version makes earlier results void.
        for change in changes.iter().map(engine_change) {
            let pending = self.0.begin_change(&[change]);
            pending.finish(&[change], &[]);
        }
        if let Some(snapshot) = self.0.begin_rebuild() {
            self.0.finish_rebuild(snapshot.build());
        }
        true
    }
}

/// The parts of the classifier that the element uses.
struct Target {
    cache: Arc<FollowingCache>,
    version: Arc<TableVersion>,
    owner: u16,
    extractor: Extractor,
}

/// Element `RuleCache`.
#[derive(Default)]
pub struct RuleCache {
    element: usize,
    slot: usize,
    cached_max: usize,
    anno: Option<usize>,
    target: Option<Target>,
    keys: Vec<u32>,
    keyless: Vec<usize>,
    found: Vec<Answer>,
    misses: Misses,
    results: Vec<[CachedResult; CACHED_RESULTS]>,
    missed: Vec<u32>,
}

impl RuleCache {
    /// Looks the frames of a batch up in the cache.
    fn look_up(&mut self, target: &Target, batch: &Batch) {
        let schema = target.extractor.schema();
        self.keys.resize(self.keys.len().max(batch.len() * schema.words), 0);
        self.keyless.clear();
        self.found.clear();
        self.found.resize(batch.len(), Answer::MISS);
        let keys = &mut self.keys[..batch.len() * schema.words];
        let packets = batch.iter();
        let frames = packets.map(|p| (p.data(), u32::from(p.anno_u8(annotation::PAINT))));
        target.extractor.extract_each(frames, keys, |idx| self.keyless.push(idx));
        let (cache, keys) = (&target.cache.0, KeyBatch::new(schema, keys));
        self.misses.clear();
        cache.look_up_cached(keys, &mut self.found, |answer| answer, &mut self.misses);
        cache.sample_batch(keys, true);
        // Their keys are old ones.
        self.keyless.iter().for_each(|&idx| self.found[idx] = Answer::MISS);
    }

    /// Stores the results of hits with their frames.
    fn publish(&mut self, target: &Target, batch: &mut Batch) {
        let (version, owner) = (target.version.get(), target.owner);
        self.results.clear();
        self.missed.clear();
        for (packet, answer) in batch.iter().zip(&self.found) {
            let mut results: [CachedResult; CACHED_RESULTS] =
                std::array::from_fn(|slot| packet.cached(slot).unwrap_or_default());
            let key = frame_key(packet).filter(|_| *answer != Answer::MISS);
            results[self.slot] = key.map_or(CachedResult::NONE, |key| CachedResult {
                version,
                key,
                answer: answer.0,
                owner,
            });
            self.missed.push(u32::from(key.is_none()));
            self.results.push(results);
        }
        batch.set_results(&self.results);
        if let Some(place) = self.anno {
            batch.set_annos(place, Column::Each(&self.missed));
        }
    }
}

impl Element for RuleCache {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut element, mut slot, mut anno) = (ElementRef(0), 0u32, None::<u32>);
        let mut cached_max = StormOptions::default().cached_max as u32;
        args.read_mp("FOR", &mut element)
            .read("LOOKUP", &mut slot)
            .read("CACHED_RULES", &mut cached_max)
            .read("ANNO", &mut anno);
        if slot as usize >= CACHED_RESULTS {
            args.error_at("LOOKUP", &format!("expected a number below {CACHED_RESULTS}"));
        }
        let limits = CACHED_MAX_MIN as u32..=CACHED_MAX_MAX as u32;
        if !limits.contains(&cached_max) {
            let text = format!("expected a number from {} to {}", limits.start(), limits.end());
            args.error_at("CACHED_RULES", &text);
        }
        if anno.is_some_and(|place| place > ANNO_MAX) {
            args.error_at("ANNO", &format!("expected an offset from 0 to {ANNO_MAX}"));
        }
        args.complete()?;
        if context.graph.elements[element.0].class != "SDNClassifier" {
            args.error_at("FOR", "expected an SDNClassifier");
        }
        (self.element, self.slot) = (element.0, slot as usize);
        (self.cached_max, self.anno) = (cached_max as usize, anno.map(|place| place as usize));
        args.consume()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let (slot, cached_max) = (self.slot, self.cached_max);
        let join = |element: &mut SdnClassifier, _: &mut Context<'_>| {
            let ruleset = element.ruleset().ok_or("FOR: it has no rules")?;
            let results = element.results();
            let owner = results.accept_parts(slot, &Arc::default());
            let owner = owner.ok_or("LOOKUP: other results for FOR use another slot")?;
            let cache = results.follower::<FollowingCache>().unwrap_or_else(|| {
                let options = StormOptions { cached_max, ..StormOptions::default() };
                let cache = Arc::new(FollowingCache(StormCache::new(&ruleset, &options)));
                results.follow(cache.clone());
                cache
            });
            let extractor = Extractor::new(ruleset.schema(), LinkType::Ethernet);
            Ok::<_, String>(Target { cache, version: results.version().clone(), owner, extractor })
        };
        let joined = cx.with_element(self.element, join);
        self.target = Some(joined.ok_or("FOR: not an SDNClassifier")??);
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        if let Some(target) = self.target.take() {
            self.look_up(&target, &batch);
            self.publish(&target, &mut batch);
            self.target = Some(target);
        }
        cx.emit_batch(0, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("hit_ratio"),
                HandlerSpec::read("hits"),
                HandlerSpec::read("cached_rules"),
                HandlerSpec::read("swaps"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let target = self.target.as_ref().ok_or(HandlerError::Missing)?;
        let stats = target.cache.0.stats();
        Ok(match name {
            "hit_ratio" => format!("{:.4}", stats.hit_ratio()),
            "hits" => stats.hits.to_string(),
            "cached_rules" => stats.weights.len().to_string(),
            _ => stats.swaps.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, router};

    use crate::patterns::sdn_classifier::tests::{FLOWS, File, source};

    /// Frames of a rule hit, others between them do not, and rules change meanwhile.
    #[test]
    fn the_classifier_looks_up_what_missed_only() {
        let file = File::new("rule-cache", FLOWS);
        let config = format!(
            "s :: {} -> cache :: RuleCache(sdn);
            InfiniteSource(DATA short, LIMIT 100, BURST 1) -> cache;
            cache -> sdn :: SDNClassifier({}, MISS 2);
            sdn -> a :: Discard; sdn [1] -> b :: Discard; sdn [2] -> c :: Discard;",
            source(80, 10_000),
            file.0.display()
        );
        let (mut router, _) = router(&config, &crate::registry()).expect("a valid configuration");
        let again = |router: &mut warpswitch_graph::Router| {
            router.write("s.reset", "").expect("a handler");
            router.run(&mut SimulatedHost::default());
            ["a.count", "b.count", "c.count"].map(|count| router.read(count).expect("a handler"))
        };
        assert_eq!(again(&mut router), ["0", "10000", "100"]);
        let number = |router: &mut warpswitch_graph::Router, handler: &str| {
            let value = router.read(handler).expect("a handler");
            value.parse::<f64>().expect("a number")
        };
        let (hits, ahead) = (number(&mut router, "cache.hits"), number(&mut router, "sdn.ahead"));
        assert!(hits > 5000.0 && ahead > 5000.0 && ahead <= hits, "{hits} {ahead}");
        assert!(number(&mut router, "cache.hit_ratio") > 0.5);
        assert_eq!(router.read("cache.cached_rules"), Ok("1".into()));
        // No cached result is used once it is wrong.
        router.write("sdn.add", "priority=10,tcp,tp_dst=80 actions=output:0").expect("a rule");
        assert_eq!(again(&mut router), ["10000", "10000", "100"]);
        router.write("sdn.remove", "4").expect("rule 4");
        assert_eq!(again(&mut router), ["10000", "20000", "100"]);
        assert!(number(&mut router, "sdn.ahead") > ahead);
    }

    #[test]
    fn rejects_elements_without_rules_and_bad_numbers() {
        let expected = [
            ("RuleCache(d)", "expected an SDNClassifier"),
            ("RuleCache(d, LOOKUP 2)", "expected a number below 2"),
            ("RuleCache(d, CACHED_RULES 9)", "expected a number from 10 to 30"),
            ("RuleCache(d, ANNO 45)", "expected an offset from 0 to 44"),
        ];
        for (element, error) in expected {
            let config = format!("InfiniteSource(LIMIT 1) -> {element} -> d :: Discard;");
            let errors = router(&config, &crate::registry()).err().expect("an error");
            assert!(format!("{errors:?}").contains(error), "{element}: {errors:?}");
        }
    }
}
