//! Changes that controllers request of a pipeline, reasons for refusals, and its reports
//! (specification 1.3.5, sections 6.4 to 6.7 and 7.4).

use super::action::FlowAction;
use super::flow::Flow;
use super::key::{FlowKey, FlowMatch};

/// What a flow-mod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Adds a flow, or replaces the one with the same table, match and priority.
    Add,
    /// Gives new instructions to all flows that the match contains.
    Modify,
    /// Gives new instructions to the flow with exactly this match and priority.
    ModifyStrict,
    /// Removes all flows that the match contains.
    Delete,
    /// Removes the flow with exactly this match and priority.
    DeleteStrict,
}

impl FlowCommand {
    /// Whether flows are removed.
    pub fn is_deletion(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteStrict)
    }
}

/// A change of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// What to do.
    pub command: FlowCommand,
    /// The flow, or the table, match and priority of those to change. In deletions the table may
    /// be [`super::port::TABLE_ALL`].
    pub flow: Flow,
    /// Only flows whose cookie equals that of `flow` in these bits are modified or removed.
    pub cookie_mask: u64,
    /// Only flows with an output to this port are removed; [`super::port::ANY`] for all.
    pub out_port: u32,
    /// Only flows that refer to this group are removed; [`super::port::GROUP_ANY`] for all.
    pub out_group: u32,
}

/// Which flows a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowFilter {
    /// The table, or [`super::port::TABLE_ALL`].
    pub table: u8,
    /// Flows that this match contains.
    pub matching: FlowMatch,
    /// Flows with this cookie …
    pub cookie: u64,
    /// … in these bits.
    pub cookie_mask: u64,
    /// Flows with an output to this port; [`super::port::ANY`] for all.
    pub out_port: u32,
    /// Flows that refer to this group; [`super::port::GROUP_ANY`] for all.
    pub out_group: u32,
}

/// How a group uses its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupType {
    /// Every bucket gets a copy.
    All,
    /// One bucket by a hash of the flow, in proportion to the weights.
    Select,
    /// The one bucket.
    Indirect,
    /// The first bucket that is live.
    FastFailover,
}

/// Actions of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Share of the traffic; in select groups only.
    pub weight: u16,
    /// Port whose state decides whether the bucket is live; [`super::port::ANY`] for none.
    pub watch_port: u32,
    /// Group whose liveness decides; [`super::port::GROUP_ANY`] for none.
    pub watch_group: u32,
    /// An action set.
    pub actions: Vec<FlowAction>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// How it uses its buckets.
    pub kind: GroupType,
    /// Its buckets.
    pub buckets: Vec<Bucket>,
}

/// A change of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupMod {
    /// Adds a group.
    Add(Group),
    /// Replaces a group.
    Modify(Group),
    /// Removes a group, or all for [`super::port::GROUP_ALL`], and the flows that refer to it.
    Delete(u32),
}

/// What happens to packets above a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandKind {
    /// They are dropped.
    Drop,
    /// Their drop precedence in the DSCP field is raised by so many levels.
    DscpRemark(u8),
}

/// One rate of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// In kbit/s, or packets a second.
    pub rate: u32,
    /// Size of bursts, in kbit or packets.
    pub burst: u32,
    /// What happens above the rate.
    pub kind: BandKind,
}

/// A meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Its number.
    pub id: u32,
    /// Whether rates are packets a second instead of kbit/s.
    pub in_packets: bool,
    /// Whether `burst` of the bands has a meaning.
    pub has_burst: bool,
    /// Whether it keeps counters.
    pub has_stats: bool,
    /// Its bands; the one with the highest rate below the measured rate applies.
    pub bands: Vec<Band>,
}

/// A change of meters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeterMod {
    /// Adds a meter.
    Add(Meter),
    /// Replaces a meter.
    Modify(Meter),
    /// Removes a meter, or all for `0xffffffff`, and the flows that refer to it.
    Delete(u32),
}

/// Why a change is refused. The crate `openflow` has the error type and code of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The table holds no more flows.
    TableFull,
    /// There is no such table.
    NoSuchTable,
    /// A flow of the same priority overlaps, and the flow has the flag for that check.
    Overlap,
    /// A goto to a table that is not behind this one, or does not exist.
    BadGoto,
    /// An output to a port number that no port can have.
    BadOutPort,
    /// An action refers to a group that does not exist.
    BadOutGroup,
    /// An instruction refers to a meter that does not exist.
    BadMeter,
    /// An action does not fit the packets that the flow matches.
    BadActionMatch,
    /// An action has a value that it may not have.
    BadActionArgument,
    /// An action of a set can only be in a list.
    BadActionSet,
    /// The field of a set-field action cannot be set.
    BadSetField,
    /// More actions than a flow may have.
    TooManyActions,
    /// The group exists.
    GroupExists,
    /// The group does not exist.
    UnknownGroup,
    /// The group's buckets do not fit its kind.
    InvalidGroup,
    /// Weights in a group that is no select group, or a select group's weight of zero.
    WeightUnsupported,
    /// No more groups fit.
    OutOfGroups,
    /// Too many buckets.
    OutOfBuckets,
    /// The group refers to itself by way of others.
    GroupLoop,
    /// A bucket watches a port or group that does not exist.
    BadWatch,
    /// The meter exists.
    MeterExists,
    /// The meter does not exist.
    UnknownMeter,
    /// The number is no meter's number.
    InvalidMeter,
    /// A rate of zero.
    BadRate,
    /// A band's values are impossible.
    BadBand,
    /// Too many bands.
    OutOfBands,
    /// No more meters fit.
    OutOfMeters,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TableFull => "the table is full",
            Self::NoSuchTable => "there is no such table",
            Self::Overlap => "a flow of the same priority overlaps (check_overlap)",
            Self::BadGoto => "goto_table must lead to a later table that exists",
            Self::BadOutPort => "no port can have the number of an output",
            Self::BadOutGroup => "an action refers to a group that does not exist",
            Self::BadMeter => "an instruction refers to a meter that does not exist",
            Self::BadActionMatch => "an action does not fit the packets that the flow matches",
            Self::BadActionArgument => "an action has an impossible value",
            Self::BadActionSet => "write_actions has an action that can only be applied at once",
            Self::BadSetField => "a field of set_field cannot be set",
            Self::TooManyActions => "too many actions",
            Self::GroupExists => "the group exists",
            Self::UnknownGroup => "the group does not exist",
            Self::InvalidGroup => "the buckets do not fit the type of the group",
            Self::WeightUnsupported => {
                "weights need a group of type select, and are not zero there"
            }
            Self::OutOfGroups => "no more groups fit",
            Self::OutOfBuckets => "too many buckets",
            Self::GroupLoop => "the group leads to itself",
            Self::BadWatch => "a bucket watches a port or group that does not exist",
            Self::MeterExists => "the meter exists",
            Self::UnknownMeter => "the meter does not exist",
            Self::InvalidMeter => "no meter can have this number",
            Self::BadRate => "the rate of a band is zero",
            Self::BadBand => "a band has impossible values",
            Self::OutOfBands => "too many bands",
            Self::OutOfMeters => "no more meters fit",
        })
    }
}

/// Why a flow went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// No packet came for its idle time-out.
    IdleTimeout,
    /// Its hard time-out passed.
    HardTimeout,
    /// A controller removed it.
    Delete,
    /// The group that it refers to was removed.
    GroupDelete,
    /// The meter that it refers to was removed.
    MeterDelete,
    /// The table evicted it.
    Eviction,
}

/// A flow with what it has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// The flow.
    pub flow: Flow,
    /// Packets that it matched.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds since it was added.
    pub age_ns: u64,
}

/// A flow that went away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The flow, with its last counters.
    pub stats: FlowStats,
    /// Why.
    pub reason: RemovalReason,
}

/// Why a packet is sent to controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInReason {
    /// The flow of a table miss sent it.
    NoMatch,
    /// An output action sent it.
    Action,
    /// Its TTL ended.
    InvalidTtl,
}

/// A packet for the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Why it is sent.
    pub reason: PacketInReason,
    /// The table whose flow sent it.
    pub table: u8,
    /// That flow's cookie.
    pub cookie: u64,
    /// Bytes that the controller wants.
    pub max_len: u16,
    /// Input port, metadata, tunnel id and registers: the pipeline fields of this key.
    pub key: FlowKey,
    /// The frame, whole.
    pub frame: Vec<u8>,
}
