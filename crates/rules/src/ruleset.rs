//! An immutable, versionless list of rules, and its builder.

use crate::matching::{MatchRef, PortRange};
use crate::rule::{Action, FlagsColumn, Rule, RuleId, RuleRef};
use crate::schema::Schema;

/// The most rules that one set holds; one id is kept for "none".
pub const RULES_MAX: usize = u32::MAX as usize;

/// Rules of one schema in file order. A rule's id is its position.
///
/// Layout: the words of all matches lie in one block, `2 * words` a rule (value, then mask), so
/// that a build reads memory in order; everything that lookups do not need lies apart.
#[derive(Clone, Debug)]
pub struct Ruleset {
    schema: &'static Schema,
    words: Vec<u32>,
    ranges: Vec<[PortRange; 2]>,
    priorities: Vec<u32>,
    actions: Vec<Action>,
    lines: Vec<u32>,
    flags_columns: Vec<Option<FlagsColumn>>,
}

impl Ruleset {
    /// A set without rules.
    pub fn empty(schema: &'static Schema) -> Self {
        RulesetBuilder::new(schema).build()
    }

    /// The layout of the keys it matches.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// What rule `id` matches.
    ///
    /// # Panics
    /// If there is no such rule: a caller bug, not an input. So do all methods that take an id.
    #[inline]
    pub fn matching(&self, id: RuleId) -> MatchRef<'_> {
        let words = self.schema.words;
        let (value, mask) = self.words[id.as_usize() * 2 * words..][..2 * words].split_at(words);
        let ranges = self.ranges[id.as_usize()];
        MatchRef { value, mask, ranges, ports_word: self.schema.ports_word }
    }

    /// Rule `id` as engines see it.
    #[inline]
    pub fn rule(&self, id: RuleId) -> RuleRef<'_> {
        RuleRef { id, priority: self.priority(id), matching: self.matching(id) }
    }

    /// Priority of rule `id`.
    #[inline]
    pub fn priority(&self, id: RuleId) -> u32 {
        self.priorities[id.as_usize()]
    }

    /// Action of rule `id`.
    pub fn action(&self, id: RuleId) -> &Action {
        &self.actions[id.as_usize()]
    }

    /// Source line of rule `id`, 1-based; 0 if it has none.
    pub fn line(&self, id: RuleId) -> u32 {
        self.lines[id.as_usize()]
    }

    /// ClassBench's flags column of rule `id`, if its source had one.
    pub fn flags_column(&self, id: RuleId) -> Option<FlagsColumn> {
        self.flags_columns[id.as_usize()]
    }

    /// An owned copy of rule `id`.
    pub fn to_rule(&self, id: RuleId) -> Rule {
        Rule {
            matching: self.matching(id).to_match(self.schema),
            priority: self.priority(id),
            action: self.action(id).clone(),
            line: self.line(id),
            flags_column: self.flags_column(id),
        }
    }

    /// Every id, in file order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = RuleId> + DoubleEndedIterator + use<> {
        (0..self.len() as u32).map(RuleId)
    }

    /// Every rule, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RuleRef<'_>> + DoubleEndedIterator {
        self.ids().map(|id| self.rule(id))
    }

    /// Every id, the winner of all first.
    pub fn ids_by_precedence(&self) -> Vec<RuleId> {
        let mut ids: Vec<RuleId> = self.ids().collect();
        ids.sort_by_key(|&id| self.rule(id).precedence());
        ids
    }

    /// Bytes of memory it holds, the texts of action lists not counted.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 4
            + self.ranges.capacity() * size_of::<[PortRange; 2]>()
            + self.priorities.capacity() * 4
            + self.actions.capacity() * size_of::<Action>()
            + self.lines.capacity() * 4
            + self.flags_columns.capacity() * size_of::<Option<FlagsColumn>>()
    }
}

/// Collects rules into a [`Ruleset`].
#[derive(Clone, Debug)]
pub struct RulesetBuilder {
    ruleset: Ruleset,
}

impl RulesetBuilder {
    /// A builder without rules.
    pub fn new(schema: &'static Schema) -> Self {
        let ruleset = Ruleset {
            schema,
            words: Vec::new(),
            ranges: Vec::new(),
            priorities: Vec::new(),
            actions: Vec::new(),
            lines: Vec::new(),
            flags_columns: Vec::new(),
        };
        Self { ruleset }
    }

    /// Number of rules so far.
    pub fn len(&self) -> usize {
        self.ruleset.len()
    }

    /// Whether there is no rule so far.
    pub fn is_empty(&self) -> bool {
        self.ruleset.is_empty()
    }

    /// Appends a rule and tells its id.
    ///
    /// # Panics
    /// If the rule is of another schema, or the set is full ([`RULES_MAX`]): parsers check first.
    pub fn push(&mut self, rule: Rule) -> RuleId {
        let set = &mut self.ruleset;
        assert_eq!(rule.matching.schema(), set.schema, "a rule of another schema");
        assert!(set.len() < RULES_MAX, "a rule set holds at most {RULES_MAX} rules");
        let id = RuleId(set.len() as u32);
        let matching = rule.matching.as_ref();
        set.words.extend_from_slice(matching.value);
        set.words.extend_from_slice(matching.mask);
        set.ranges.push(matching.ranges);
        set.priorities.push(rule.priority);
        set.actions.push(rule.action);
        set.lines.push(rule.line);
        set.flags_columns.push(rule.flags_column);
        id
    }

    /// The finished set.
    pub fn build(self) -> Ruleset {
        self.ruleset
    }
}
