//! The vocabulary of OpenFlow 1.3: match fields and flow keys, actions, instructions and flows.
//!
//! These types have no bytes and no text. The crate `openflow` reads and writes them as messages,
//! [`crate::format::ovs`] as the text of `ovs-ofctl`; `pipeline` executes them.
//!
//! ```
//! use warpswitch_rules::openflow::{FlowAction, FlowMatch, Instructions, field};
//!
//! let mut matching = FlowMatch::any();
//! matching.set(field("eth_type").unwrap(), 0x0800, u128::MAX);
//! matching.set(field("ip_dst").unwrap(), 0x0a000000, 0xff000000);
//! let output = FlowAction::Output { port: 2, max_len: 0 };
//! let instructions = Instructions { apply: vec![output], ..Instructions::default() };
//! assert!(matching.fields().map(|(field, ..)| field.name).eq(["eth_type", "ip_dst"]));
//! assert!(!instructions.is_drop());
//! ```

mod action;
mod change;
mod field;
mod flow;
mod key;
pub mod port;

pub use action::{FlowAction, Instructions, MetadataWrite, Subfield};
pub use change::{
    Band, BandKind, Bucket, FlowCommand, FlowFilter, FlowMod, FlowRemoved, FlowStats, Group,
    GroupMod, GroupType, Meter, MeterMod, PacketIn, PacketInReason, Refusal, RemovalReason,
};
pub use field::{FIELDS, FieldNeeds, MatchField, Oxm, field, field_by_oxm};
pub use flow::{Flow, FlowFlags};
pub use key::{FLOW_WORDS, FlowKey, FlowMatch};
