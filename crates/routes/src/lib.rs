//! Longest-prefix match: addresses in, numbers of next hops out.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`RouteTable`] | the reference: a map of prefixes per length |
//! | [`Ipv4Lpm`], [`Ipv6Lpm`] | the same answers for batches, changed while others look up |
//! | [`text`] | routes as Click, `ip route` and lists write them |
//!
//! Addresses are numbers in host order, `u32` and `u128`; see [`Address`].
#![deny(unsafe_op_in_unsafe_fn)]

mod address;
mod arch;
mod change;
mod error;
mod hop;
mod lpm;
mod prefix;
mod table;
pub mod text;

pub use address::Address;
pub use change::RouteChange;
pub use error::{ErrorKind, RouteError};
pub use hop::NextHop;
pub use lpm::{Ipv4Lpm, Ipv6Lpm, Lpm, LpmForm, LpmOptions, LpmStats};
pub use prefix::Prefix;
pub use table::RouteTable;
