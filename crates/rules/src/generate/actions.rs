//! Actions for generated rules: drawn for each rule in given proportions.
//!
//! ClassBench's rules have none, so all of them would be interchangeable: a cache could merge any
//! two. A mix makes sets like real ones, where a part of the rules denies.

use std::fmt;
use std::str::FromStr;

use super::prng::{Prng, Weights};
use crate::rule::Action;
use crate::ruleset::{Ruleset, RulesetBuilder};

/// The most parts of a proportion.
const PART_MAX: u32 = 1_000_000;

/// Actions, the proportion of each, and which of all such draws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionMix {
    actions: Vec<(Action, u32)>,
    /// Seed of the draw; that of the rules if there is none.
    seed: Option<u64>,
}

/// Text that is no mix of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadActions(String);

impl fmt::Display for BadActions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; expected 'NAME:NAME=PARTS:PARTS' with an optional ',SEED', each NAME one of \
             permit (or pass), deny (or drop) or markN, each PARTS at most {PART_MAX} and not all \
             0, such as 'permit:deny=70:30,1'",
            self.0
        )
    }
}

impl std::error::Error for BadActions {}

impl ActionMix {
    /// The same rules with drawn actions; `seed` is that of the rules.
    pub fn apply(&self, ruleset: &Ruleset, seed: u64) -> Ruleset {
        let mut prng = Prng::new(self.seed.unwrap_or(seed));
        let weights = Weights::new(self.actions.iter().map(|(_, parts)| *parts));
        let mut builder = RulesetBuilder::new(ruleset.schema());
        for id in ruleset.ids() {
            let mut rule = ruleset.to_rule(id);
            rule.action = self.actions[weights.draw(&mut prng)].0.clone();
            builder.push(rule);
        }
        builder.build()
    }
}

fn action(name: &str) -> Option<Action> {
    match name {
        "permit" | "pass" => Some(Action::Pass),
        "deny" | "drop" => Some(Action::Drop),
        _ => name.strip_prefix("mark")?.parse().ok().map(Action::Mark),
    }
}

impl FromStr for ActionMix {
    type Err = BadActions;

    /// Reads `NAME:NAME=PARTS:PARTS,SEED`.
    fn from_str(text: &str) -> Result<Self, BadActions> {
        let bad = |what: String| BadActions(what);
        let (mix, seed) = match text.split_once(',') {
            None => (text, None),
            Some((mix, seed)) => {
                let parsed = seed.parse().map_err(|_| bad(format!("invalid seed '{seed}'")))?;
                (mix, Some(parsed))
            }
        };
        let Some((names, parts)) = mix.split_once('=') else {
            return Err(bad(format!("no proportions in '{mix}'")));
        };
        let (names, parts): (Vec<&str>, Vec<&str>) =
            (names.split(':').collect(), parts.split(':').collect());
        if names.len() != parts.len() {
            let (names, parts) = (names.len(), parts.len());
            return Err(bad(format!("{names} actions and {parts} proportions")));
        }
        let mut actions = Vec::new();
        for (name, parts) in names.into_iter().zip(parts) {
            let action = action(name).ok_or_else(|| bad(format!("unknown action '{name}'")))?;
            let parsed = parts.parse().ok().filter(|parts| *parts <= PART_MAX);
            let parts = parsed.ok_or_else(|| bad(format!("invalid proportion '{parts}'")))?;
            actions.push((action, parts));
        }
        let sum = actions.iter().try_fold(0u32, |sum, (_, parts)| sum.checked_add(*parts));
        match sum {
            None => Err(bad("proportions that are too large together".to_owned())),
            Some(0) => Err(bad("proportions that are all 0".to_owned())),
            Some(_) => Ok(Self { actions, seed }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Family, RulesetSpec, Style};

    #[test]
    fn actions_follow_their_proportions_and_nothing_else_changes() {
        let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 4000, seed: 1 };
        let ruleset = spec.generate();
        let mix: ActionMix = "permit:deny:mark7=70:20:10,5".parse().unwrap();
        let mixed = mix.apply(&ruleset, 1);
        let count = |action| mixed.ids().filter(|&id| *mixed.action(id) == action).count();
        assert!((2700..2900).contains(&count(Action::Pass)), "{}", count(Action::Pass));
        assert!((330..470).contains(&count(Action::Mark(7))), "{}", count(Action::Mark(7)));
        assert!(mixed.iter().eq(ruleset.iter()));
        let actions =
            |set: &Ruleset| set.ids().map(|id| set.action(id).clone()).collect::<Vec<_>>();
        assert_eq!(actions(&mix.apply(&ruleset, 2)), actions(&mixed), "the mix has its own seed");
        let unseeded: ActionMix = "permit:deny=1:1".parse().unwrap();
        assert_ne!(actions(&unseeded.apply(&ruleset, 1)), actions(&unseeded.apply(&ruleset, 2)));
    }

    #[test]
    fn reads_mixes_and_rejects_other_texts() {
        let read = |text: &str| text.parse::<ActionMix>();
        assert_eq!(read("pass:drop=2:1,3"), read("permit:deny=2:1,3"), "the names in rules");
        assert!("permit=1".parse::<ActionMix>().is_ok());
        assert!("permit:deny=0:1".parse::<ActionMix>().is_ok());
        for text in [
            "",
            "permit",
            "permit:deny=70",
            "permit:deny=0:0",
            "permit:deny=70:-1",
            "permit:deny=70:30,x",
            "allow=1",
            "mark=1",
            "permit=1000001",
            "permit:deny=70:30,1,2",
        ] {
            assert!(text.parse::<ActionMix>().is_err(), "{text}");
        }
    }
}
