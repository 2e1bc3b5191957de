//! One rule: a match, a priority, an action, and the line it came from.

use std::fmt;
use std::sync::Arc;

use crate::matching::{Match, MatchRef};

/// A rule's place in its rule set: the 0-based position in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct RuleId(pub u32);

impl RuleId {
    /// "No rule matches". Larger than every real id.
    pub const NONE: RuleId = RuleId(u32::MAX);

    /// Whether this names a rule.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The id as an index.
    pub fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for RuleId {
    /// The id as commands print it: `-1` for [`RuleId::NONE`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_some() { self.0.fmt(f) } else { f.write_str("-1") }
    }
}

/// A number that orders rules by who wins: the smaller one does.
///
/// Larger priority first, then the lower id: the upper half is the inverted priority, the lower
/// half the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Precedence(pub u64);

impl Precedence {
    /// Loses against every rule.
    pub const NONE: Precedence = Precedence(u64::MAX);

    /// Wins against every other rule.
    pub const FIRST: Precedence = Precedence(0);

    /// The precedence of rule `id` with `priority`.
    #[inline]
    pub fn new(priority: u32, id: RuleId) -> Self {
        Self(u64::from(!priority) << 32 | u64::from(id.0))
    }

    /// The rule it belongs to; [`RuleId::NONE`] for [`Precedence::NONE`].
    #[inline]
    pub fn id(self) -> RuleId {
        RuleId(self.0 as u32)
    }
}

/// What a rule says to do with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Let it through.
    Pass,
    /// Discard it.
    Drop,
    /// Let it through with this mark.
    Mark(u32),
    /// Send it out of this switch port.
    Output(u32),
    /// A list of `ovs-ofctl` actions in their canonical text, kept and not interpreted here.
    List(Arc<str>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Pass => f.write_str("pass"),
            Action::Drop => f.write_str("drop"),
            Action::Mark(mark) => write!(f, "mark:{mark}"),
            Action::Output(port) => write!(f, "output:{port}"),
            Action::List(text) => f.write_str(text),
        }
    }
}

/// The flags column of a ClassBench filter, kept as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlagsColumn {
    /// The part before the slash.
    pub value: u16,
    /// The part behind it.
    pub mask: u16,
}

/// An owned rule, for building and changing rule sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it matches.
    pub matching: Match,
    /// Larger wins; at a tie the lower rule id does.
    pub priority: u32,
    /// What it says to do.
    pub action: Action,
    /// The 1-based line of its source text, or 0.
    pub line: u32,
    /// ClassBench's flags column, if the source had one.
    pub flags_column: Option<FlagsColumn>,
}

impl Rule {
    /// A rule with priority 0, no source line and no flags column.
    pub fn new(matching: Match, action: Action) -> Self {
        Self { matching, priority: 0, action, line: 0, flags_column: None }
    }
}

/// What an engine needs to know of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleRef<'a> {
    /// Its id: what a lookup returns.
    pub id: RuleId,
    /// Larger wins; at a tie the lower id does.
    pub priority: u32,
    /// What it matches.
    pub matching: MatchRef<'a>,
}

impl RuleRef<'_> {
    /// Orders it among all rules.
    #[inline]
    pub fn precedence(&self) -> Precedence {
        Precedence::new(self.priority, self.id)
    }
}
