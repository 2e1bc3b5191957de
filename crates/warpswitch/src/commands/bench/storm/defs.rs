//! The experiments of `bench/defs/storm`: rule sets, traces and sizes of queues.

use anyhow::{Context, anyhow};
use serde::Deserialize;
use warpswitch_classify::{BuildOptions, Classifier, Engine, build};
use warpswitch_flow::rule_index::{Merge, action_answers};
use warpswitch_flow::{Answer, StormCache, StormOptions};
use warpswitch_rules::generate::{
    ActionMix, Family, HotRulesSpec, Point, RulesetSpec, Style, Zipf,
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
    /// Packets that wait in all queues of one kind.
    pub queue_keys: usize,
    /// Packets in a millisecond of figure 8.
    pub keys_per_ms: usize,
    engine: String,
    /// The rule sets, R1 to R7.
    #[serde(rename = "ruleset")]
    pub rulesets: Vec<RulesetDef>,
    /// The traces, T1 to T5.
    #[serde(rename = "trace")]
    pub traces: Vec<TraceDef>,
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

/// A rule set with its engine.
pub struct RulesUnderTest {
    pub name: String,
    pub ruleset: Ruleset,
    pub full: Box<dyn Classifier>,
    answers: Vec<Answer>,
}

impl RulesUnderTest {
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

    /// The rule set of this name.
    ///
    /// # Errors
    /// An unknown name or a bad definition.
    pub fn rules(&self, name: &str) -> anyhow::Result<RulesUnderTest> {
        let found = self.rulesets.iter().find(|ruleset| ruleset.name == name);
        let def = found.ok_or_else(|| anyhow!("no rule set {name} in the definitions"))?;
        let style: Style = def.style.parse().map_err(|error| anyhow!("{name}: {error}"))?;
        let mix: ActionMix = def.actions.parse().map_err(|error| anyhow!("{name}: {error}"))?;
        let spec = RulesetSpec { style, family: Family::Ipv4, rules: def.rules, seed: def.seed };
        let ruleset = mix.apply(&spec.generate(), def.seed);
        let engine: Engine = self.engine.parse().map_err(|error| anyhow!("{error}"))?;
        let full = build(engine, &ruleset, &BuildOptions::default())?;
        let answers = action_answers(&ruleset);
        Ok(RulesUnderTest { name: name.to_owned(), ruleset, full, answers })
    }

    /// So many packets of a trace over a rule set.
    ///
    /// # Errors
    /// A bad definition.
    pub fn keys(
        &self,
        trace: &TraceDef,
        rules: &RulesUnderTest,
        count: usize,
    ) -> anyhow::Result<KeyBuf> {
        let zipf: Zipf = trace.zipf.parse().map_err(|error| anyhow!("{}: {error}", trace.name))?;
        let spec = HotRulesSpec {
            keys: count,
            zipf,
            hot_rules: trace.hot_rules,
            flows: trace.flows,
            keys_per_shift: Some(trace.keys_per_shift),
            point: Point::Inside,
            realisable: false,
            seed: trace.seed,
        };
        let mut keys = KeyBuf::with_capacity(rules.ruleset.schema(), count);
        spec.generate(&rules.ruleset).fill(&mut keys, count);
        Ok(keys)
    }
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
        let rules = experiments.rules("R1").expect("a valid definition");
        assert_eq!(rules.ruleset.len(), 460);
        for trace in &experiments.traces {
            assert_eq!(experiments.keys(trace, &rules, 100).expect("a trace").len(), 100);
        }
        assert!(experiments.rules("R8").is_err());
    }
}
