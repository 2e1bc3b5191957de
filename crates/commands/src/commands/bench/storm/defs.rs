//! The experiments of `bench/defs/storm`: rule sets, traces and sizes of queues.

use anyhow::{Context, anyhow};
use serde::Deserialize;
use warpswitch_classify::{BuildOptions, Classifier, Engine, build};
use warpswitch_flow::rule_index::{Merge, action_answers};
use warpswitch_flow::{Answer, StormCache, StormOptions};
use warpswitch_rules::generate::{
    ActionMix, Family, HotRulesSpec, Point, PopularitySpec, RulesetSpec, Style, SyntheticSpec,
    TraceSpec, Zipf,
};
use warpswitch_rules::{KeyBuf, RuleId, Ruleset};

const TEXT: &str = include_str!("../../../../../../bench/defs/storm/experiments.toml");

/// All experiments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiments {
    /// Size of a frame, for Gbit/s.
    pub frame_bytes: usize,
    /// Keys that travel together.
    pub batch_keys: usize,
    /// Packets that wait in a queue.
    pub queue_keys: usize,
    /// Misses that travel together, at least.
    pub miss_keys: usize,
    /// Packets in a millisecond of figure 8.
    pub keys_per_ms: usize,
    engine: String,
    /// The rule sets, R1 to R7.
    #[serde(rename = "ruleset")]
    pub rulesets: Vec<RulesetDef>,
    /// The traces, T1 to T5.
    #[serde(rename = "trace")]
    pub traces: Vec<TraceDef>,
    /// Rule sets and engines that the cost gate is measured on.
    #[serde(rename = "case")]
    pub cases: Vec<CaseDef>,
}

/// A generated rule set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesetDef {
    pub name: String,
    style: String,
    pub rules: usize,
    actions: String,
    seed: u64,
}

/// A generated trace over any rule set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceDef {
    pub name: String,
    zipf: String,
    hot_rules: usize,
    flows: usize,
    keys_per_shift: u64,
    seed: u64,
}

/// A rule set and an engine for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseDef {
    pub name: String,
    engine: String,
    /// `acl`, `fw` or `ipc`; none for rules of OpenFlow.
    style: Option<String>,
    #[serde(default)]
    family: Option<String>,
    rules: usize,
    /// Masks of the rules of OpenFlow.
    #[serde(default)]
    tuples: usize,
    seed: u64,
}

impl CaseDef {
    /// The rules, at most so many.
    ///
    /// # Errors
    /// A bad definition.
    pub fn ruleset(&self, rules_max: usize) -> anyhow::Result<Ruleset> {
        let rules = self.rules.min(rules_max);
        let Some(style) = &self.style else {
            let tuples = self.tuples.min(rules);
            let (full, overlap) = (tuples, 1);
            let spec = SyntheticSpec { rules, tuples, full, overlap, fields: 12, seed: self.seed };
            return spec.generate().map_err(|error| anyhow!("{}: {error}", self.name));
        };
        let style: Style = style.parse().map_err(|error| anyhow!("{}: {error}", self.name))?;
        let family = self.family.as_deref().unwrap_or("ipv4");
        let family: Family = family.parse().map_err(|error| anyhow!("{}: {error}", self.name))?;
        Ok(RulesetSpec { style, family, rules, seed: self.seed }.generate())
    }

    /// An engine over its rules.
    ///
    /// # Errors
    /// A bad definition, or rules that need too much memory.
    pub fn build(&self, ruleset: &Ruleset) -> anyhow::Result<Box<dyn Classifier>> {
        let engine: Engine = self.engine.parse().map_err(|error| anyhow!("{error}"))?;
        Ok(build(engine, ruleset, &BuildOptions::default())?)
    }
}

/// A rule set with copies of its engine.
pub struct RulesUnderTest {
    pub name: String,
    pub ruleset: Ruleset,
    copies: Vec<Box<dyn Classifier>>,
    answers: Vec<Answer>,
}

impl RulesUnderTest {
    /// The engine of a worker.
    pub fn copy(&self, worker: usize) -> &dyn Classifier {
        &*self.copies[worker % self.copies.len()]
    }

    /// The action of a rule, by number.
    pub fn answer(&self, id: RuleId) -> Answer {
        self.answers.get(id.as_usize()).copied().unwrap_or(Answer::NONE)
    }

    /// An empty cache of so many rules, which merges rules of the same action as the paper does.
    pub fn cache(&self, cached_max: usize) -> StormCache {
        self.cache_with(&StormOptions { cached_max, ..StormOptions::default() })
    }

    /// The same with other options.
    pub fn cache_with(&self, options: &StormOptions) -> StormCache {
        let options = StormOptions { merge: Merge::ByAction, ..*options };
        StormCache::new(&self.ruleset, &options)
    }
}

impl Experiments {
    /// The shipped experiments.
    ///
    /// # Errors
    /// If the file does not fit this version: a bug, which a test finds.
    pub fn read() -> anyhow::Result<Self> {
        toml::from_str(TEXT).context("bench/defs/storm/experiments.toml")
    }

    /// The rule set of this name, with so many copies of the engine.
    ///
    /// # Errors
    /// An unknown name or a bad definition.
    pub fn rules(&self, name: &str, copies: usize) -> anyhow::Result<RulesUnderTest> {
        let found = self.rulesets.iter().find(|ruleset| ruleset.name == name);
        let def = found.ok_or_else(|| anyhow!("no rule set {name} in the definitions"))?;
        let style: Style = def.style.parse().map_err(|error| anyhow!("{name}: {error}"))?;
        let mix: ActionMix = def.actions.parse().map_err(|error| anyhow!("{name}: {error}"))?;
        let spec = RulesetSpec { style, family: Family::Ipv4, rules: def.rules, seed: def.seed };
        let ruleset = mix.apply(&spec.generate(), def.seed);
        let engine: Engine = self.engine.parse().map_err(|error| anyhow!("{error}"))?;
        let copy = |_| build(engine, &ruleset, &BuildOptions::default());
        let copies: Result<Vec<_>, _> = (0..copies.max(1)).map(copy).collect();
        let (copies, answers) = (copies?, action_answers(&ruleset));
        Ok(RulesUnderTest { name: name.to_owned(), ruleset, copies, answers })
    }
}

impl TraceDef {
    /// So many packets over a rule set.
    ///
    /// # Errors
    /// A bad definition.
    pub fn keys(&self, ruleset: &Ruleset, count: usize) -> anyhow::Result<KeyBuf> {
        let spec = HotRulesSpec {
            keys: count,
            zipf: self.zipf()?,
            hot_rules: self.hot_rules,
            flows: self.flows,
            keys_per_shift: Some(self.keys_per_shift),
            point: Point::Inside,
            realisable: false,
            seed: self.seed,
        };
        let mut keys = KeyBuf::with_capacity(ruleset.schema(), count);
        spec.generate(ruleset).fill(&mut keys, count);
        Ok(keys)
    }

    /// The same number of flows drawn from all rules, with the same law and no shift.
    ///
    /// # Errors
    /// A bad definition.
    pub fn flow_keys(&self, ruleset: &Ruleset, count: usize) -> anyhow::Result<KeyBuf> {
        let flows = spread_keys(ruleset, self.flows, self.seed);
        let zipf = self.zipf()?;
        let spec = PopularitySpec { keys: count, zipf, keys_per_shift: None, seed: self.seed };
        let mut keys = KeyBuf::with_capacity(ruleset.schema(), count);
        spec.generate(flows).fill(&mut keys, count);
        Ok(keys)
    }

    fn zipf(&self) -> anyhow::Result<Zipf> {
        self.zipf.parse().map_err(|error| anyhow!("{}: {error}", self.name))
    }
}

/// Keys spread evenly over the rules, each drawn for itself.
pub fn spread_keys(ruleset: &Ruleset, count: usize, seed: u64) -> KeyBuf {
    let point = Point::Inside;
    let spec = TraceSpec { keys: count, point, locality: None, realisable: false, seed };
    let mut keys = KeyBuf::with_capacity(ruleset.schema(), count);
    spec.generate(ruleset).fill(&mut keys, count);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 4 of the paper, and five traces.
    #[test]
    fn sizes_are_those_of_the_paper() {
        let experiments = Experiments::read().expect("the shipped file");
        let sizes: Vec<usize> = experiments.rulesets.iter().map(|def| def.rules).collect();
        assert_eq!(sizes, [460, 711, 852, 1036, 1802, 4415, 9603]);
        assert_eq!(experiments.traces.len(), 5);
        let rules = experiments.rules("R1", 1).expect("a valid definition");
        assert_eq!(rules.ruleset.len(), 460);
        for trace in &experiments.traces {
            assert_eq!(trace.keys(&rules.ruleset, 100).expect("a trace").len(), 100);
            assert_eq!(trace.flow_keys(&rules.ruleset, 100).expect("a trace").len(), 100);
        }
        assert!(experiments.rules("R8", 1).is_err());
        for case in &experiments.cases {
            let ruleset = case.ruleset(100).expect("a valid definition");
            assert_eq!(ruleset.len(), 100, "{}", case.name);
            case.build(&ruleset).expect("an engine");
        }
    }
}
