//! Actions and instructions (specification 1.3.5, sections 5.9 to 5.12), with the extensions of
//! Open vSwitch that have a meaning here.

use super::field::MatchField;

/// Some bits of a field, as `reg0[0..15]` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subfield {
    /// The field.
    pub field: &'static MatchField,
    /// Its least significant bit that is meant, counted from the field's least significant bit.
    pub offset: u8,
    /// How many bits.
    pub bits: u8,
}

impl Subfield {
    /// All bits of a field.
    pub fn whole(field: &'static MatchField) -> Self {
        Self { field, offset: 0, bits: field.range.bits as u8 }
    }

    /// The bits' places in a flow key.
    pub fn range(self) -> crate::schema::BitRange {
        let whole = self.field.range;
        let (offset, bits) = (usize::from(self.offset), usize::from(self.bits));
        crate::schema::BitRange { offset: whole.offset + whole.bits - offset - bits, bits }
    }
}

/// One action on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowAction {
    /// Sends a copy out of a port; to the controller, at most `max_len` bytes of it.
    Output {
        /// The port, also a reserved one ([`super::port`]).
        port: u32,
        /// Bytes for a controller; [`super::port::NO_BUFFER`] sends the whole packet.
        max_len: u16,
    },
    /// Sends a copy out of the port whose number the bits hold (Open vSwitch).
    OutputBits {
        /// Where the port number is.
        source: Subfield,
        /// As in [`FlowAction::Output`].
        max_len: u16,
    },
    /// Sends a copy to the controllers (Open vSwitch: `controller(…)`).
    Controller {
        /// Bytes to send.
        max_len: u16,
        /// The controller that gets it; 0 for the default.
        id: u16,
        /// The reason in the packet-in message.
        reason: u8,
    },
    /// Processes the packet by a group.
    Group(u32),
    /// Selects a queue of the ports that the packet leaves by.
    SetQueue(u32),
    /// Selects the port's default queue again (Open vSwitch).
    PopQueue,
    /// Adds a VLAN tag with this EtherType.
    PushVlan(u16),
    /// Removes the outermost VLAN tag.
    PopVlan,
    /// Adds an MPLS label with this EtherType.
    PushMpls(u16),
    /// Removes the outermost MPLS label; the EtherType of what follows it.
    PopMpls(u16),
    /// Adds a PBB service tag (I-TAG) with this EtherType and outer Ethernet addresses.
    PushPbb(u16),
    /// Removes the PBB service tag and the outer Ethernet addresses.
    PopPbb,
    /// Sets the TTL of the outermost MPLS label.
    SetMplsTtl(u8),
    /// Decrements it; a packet whose TTL ends goes to the controllers and no further.
    DecMplsTtl,
    /// Sets the TTL or hop limit.
    SetNwTtl(u8),
    /// Decrements it; a packet whose TTL ends goes to the controllers and no further.
    DecNwTtl,
    /// Copies the TTL from the next to the outermost header that has one.
    CopyTtlOut,
    /// Copies the TTL from the outermost to the next header that has one.
    CopyTtlIn,
    /// Sets a field, where `mask` is 1, if the packet has it.
    SetField {
        /// The field.
        field: &'static MatchField,
        /// Its value.
        value: u128,
        /// The bits to set; all of them in standard OpenFlow 1.3.
        mask: u128,
    },
    /// Copies bits between fields (Open vSwitch; an ONF extension of 1.3).
    Move {
        /// Where from.
        source: Subfield,
        /// Where to; of the same length.
        target: Subfield,
    },
    /// Executes the flow that matches in another table, as the packet is now, and goes on behind
    /// this action (Open vSwitch).
    Resubmit {
        /// The `in_port` of that lookup; the present one if absent.
        port: Option<u32>,
        /// The table; the present one if absent.
        table: Option<u8>,
    },
    /// Pushes bits onto a stack that lives as long as the packet (Open vSwitch).
    StackPush(Subfield),
    /// Pops bits off it; zero bits if it is empty.
    StackPop(Subfield),
    /// Ends the action lists of this packet, also those that led here by `resubmit`.
    Exit,
    /// Bytes without any effect (Open vSwitch).
    Note(Vec<u8>),
}

/// New bits of the metadata field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataWrite {
    /// The bits.
    pub value: u64,
    /// Which bits are written.
    pub mask: u64,
}

/// The instructions of a flow, which are executed in the order of these members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Meter by which the packet is counted and perhaps dropped.
    pub meter: Option<u32>,
    /// Actions that are executed at once, in this order.
    pub apply: Vec<FlowAction>,
    /// Empties the action set.
    pub clear: bool,
    /// Actions that are merged into the action set.
    pub write: Vec<FlowAction>,
    /// Writes metadata.
    pub metadata: Option<MetadataWrite>,
    /// Table in which processing goes on.
    pub goto_table: Option<u8>,
}

impl Instructions {
    /// Whether nothing is done: the packet is dropped unless an action set was written before.
    pub fn is_drop(&self) -> bool {
        *self == Self::default()
    }
}
