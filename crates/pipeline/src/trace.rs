//! Recording of a traversal, and of what the key at entry does not show any more.
//!
//! Bits are examined in the packet as it is at that moment; the record is about the packet as it
//! came. Both agree because of what actions do to a bit:
//! - it stays, or gets a constant: examining it in the packet that came is enough, or too much;
//! - it gets the value of other bits: those are examined when it does, and the value is recorded;
//! - it comes from bytes behind the key's view (`opaque`), e.g. the tag under a tag that was
//!   removed: a lookup of it makes the traversal uncacheable;
//! - a TTL is decremented: a lookup of one of its bits depends on all of them.

use warpswitch_flow::{Shape, Step, Traversal, Visit};
use warpswitch_rules::openflow::{FLOW_WORDS, FlowAction, FlowKey, MatchField, Oxm};
use warpswitch_wire::parse::VLAN_TAGS_MAX;

use crate::frame::parse::HEADER_WORDS_START;

/// The word of the EtherType and the VLAN tag, and the tag's bits.
const TAG_WORD: usize = 28;
const TAG_BITS: u32 = 0xffff;
/// The word and bits of the TTL.
const TTL_WORD: usize = 29;
const TTL_BITS: u32 = 0xff;
/// The word of the transport ports.
const PORTS_WORD: usize = 39;
/// The word and bits of the DSCP.
const DSCP_WORD: usize = 40;
const DSCP_BITS: u32 = 0x00fc_0000;

/// A traversal being recorded.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) traversal: Traversal,
    /// Bits whose value is no function of the key at entry.
    opaque: FlowKey,
    is_ttl_decremented: bool,
    /// `opaque` of packets put aside.
    saved: Vec<FlowKey>,
}

impl Trace {
    pub(crate) fn new(key: &FlowKey, shape: Shape) -> Self {
        Self {
            traversal: Traversal::new(key, shape),
            opaque: [0; FLOW_WORDS],
            is_ttl_decremented: false,
            saved: Vec::new(),
        }
    }

    /// The packet enters a table, and its key has these bits examined there.
    pub(crate) fn visit(&mut self, table: u8, key: &FlowKey, examined: &FlowKey) {
        // Outputs never lead back to the input port, so all that follows depends on it.
        let mut bits = [0; FLOW_WORDS];
        bits[0] = u32::MAX;
        self.traversal.visits.push(Visit {
            table,
            flow: None,
            key: *key,
            examined: bits,
            steps_before: self.traversal.steps.len() as u32,
        });
        self.examine(examined);
    }

    /// Notes that these bits decide what follows.
    pub(crate) fn examine(&mut self, bits: &FlowKey) {
        let Some(visit) = self.traversal.visits.last_mut() else { return };
        let words = visit.examined.iter_mut().zip(bits).zip(&self.opaque);
        for ((examined, &bits), &opaque) in words {
            *examined |= bits;
            if bits & opaque != 0 {
                self.traversal.is_cacheable = false;
            }
        }
        if self.is_ttl_decremented && bits[TTL_WORD] & TTL_BITS != 0 {
            visit.examined[TTL_WORD] |= TTL_BITS;
        }
    }

    /// Records a step.
    pub(crate) fn push(&mut self, step: Step) {
        match &step {
            Step::Save => self.saved.push(self.opaque),
            Step::Restore => self.opaque = self.saved.pop().unwrap_or(self.opaque),
            Step::Set { field, .. } => self.note_set(field),
            Step::Edit(action) => self.note_edit(action),
            _ => {}
        }
        self.traversal.steps.push(step);
    }

    /// The flow that matched in the last table, and its priority.
    pub(crate) fn matched(&mut self, flow: u32, priority: u16) {
        if let Some(visit) = self.traversal.visits.last_mut() {
            visit.flow = Some((flow, priority));
        }
    }

    /// A meter changed the DSCP, or left it.
    pub(crate) fn note_remark(&mut self) {
        self.opaque[DSCP_WORD] |= DSCP_BITS;
    }

    /// Others may not repeat this.
    pub(crate) fn give_up(&mut self) {
        self.traversal.is_cacheable = false;
    }

    /// Fields that decide what follows them uncover it anew.
    fn note_set(&mut self, field: &MatchField) {
        match (field.oxm.class, field.oxm.number) {
            (Oxm::BASIC, 5) => self.uncover(TAG_WORD + 1),
            (Oxm::BASIC, 10 | 29 | 30) => {
                self.uncover(PORTS_WORD);
            }
            (Oxm::NXM, 4) => self.opaque[TAG_WORD] |= TAG_BITS,
            _ => {}
        }
    }

    fn note_edit(&mut self, action: &FlowAction) {
        match action {
            FlowAction::PopVlan => {
                self.opaque[TAG_WORD] |= TAG_BITS;
                // Under more tags than are looked at, the EtherType comes into view as well.
                if self.traversal.shape.number >> 8 & 0xff >= VLAN_TAGS_MAX as u32 {
                    self.uncover(TAG_WORD);
                }
            }
            FlowAction::PopMpls(_) => self.uncover(TAG_WORD),
            FlowAction::PopPbb => self.uncover(HEADER_WORDS_START),
            FlowAction::DecNwTtl => self.is_ttl_decremented = true,
            _ => {}
        }
    }

    fn uncover(&mut self, first_word: usize) {
        self.opaque[first_word..].fill(u32::MAX);
    }
}
