//! Where a build takes its rules from: a rule set, or the rows of a structure that is rebuilt.

use warpswitch_rules::{Precedence, RuleId, RuleRef, Ruleset, Schema};

use super::rows::Row;

/// Place of a rule in a list; not its id.
pub(crate) type Place = u32;

/// Rules by place.
pub(crate) trait RuleList {
    /// The schema of all of them.
    fn schema(&self) -> &'static Schema;

    /// How many there are.
    fn len(&self) -> usize;

    /// The rule at `place`.
    fn rule(&self, place: Place) -> RuleRef<'_>;

    /// All places, the winner of all first.
    fn places_by_precedence(&self) -> Vec<Place> {
        let mut keyed: Vec<(Precedence, Place)> =
            (0..self.len() as Place).map(|place| (self.rule(place).precedence(), place)).collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, place)| place).collect()
    }
}

impl RuleList for Ruleset {
    fn schema(&self) -> &'static Schema {
        Ruleset::schema(self)
    }

    fn len(&self) -> usize {
        Ruleset::len(self)
    }

    fn rule(&self, place: Place) -> RuleRef<'_> {
        Ruleset::rule(self, RuleId(place))
    }
}

/// Rules that were read back.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) schema: &'static Schema,
    pub(crate) rows: Vec<Row>,
}

impl RuleList for Collected {
    fn schema(&self) -> &'static Schema {
        self.schema
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn rule(&self, place: Place) -> RuleRef<'_> {
        self.rows[place as usize].as_rule()
    }
}
