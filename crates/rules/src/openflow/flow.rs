//! A flow: what `ovs-ofctl add-flow` gives and `dump-flows` prints, without counters.

use super::action::Instructions;
use super::key::FlowMatch;

/// The flags of a flow (specification 1.3.5, section 7.3.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowFlags {
    /// Report to the controller when the flow is removed.
    pub send_flow_removed: bool,
    /// Refuse the flow if one of the same priority overlaps it.
    pub check_overlap: bool,
    /// Reset the counters of a modified flow.
    pub reset_counts: bool,
    /// Do not count packets.
    pub no_packet_counts: bool,
    /// Do not count bytes.
    pub no_byte_counts: bool,
}

/// An entry of a flow table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The table that it is in.
    pub table: u8,
    /// Larger wins; among flows of one priority that match a packet, the one added first.
    pub priority: u16,
    /// Which packets it matches.
    pub matching: FlowMatch,
    /// A number that belongs to the controller.
    pub cookie: u64,
    /// Seconds without a packet after which it is removed; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it is removed; 0 for never.
    pub hard_timeout: u16,
    /// A table that evicts flows removes those of less importance first.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// What happens to packets.
    pub instructions: Instructions,
}

impl Flow {
    /// The default priority of flow text.
    pub const DEFAULT_PRIORITY: u16 = 0x8000;

    /// A flow in table 0 without time-outs and flags.
    pub fn new(priority: u16, matching: FlowMatch, instructions: Instructions) -> Self {
        Self {
            table: 0,
            priority,
            matching,
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::default(),
            instructions,
        }
    }
}
