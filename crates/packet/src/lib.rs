//! What workers share: the packets and the pool that they come from, and the structures through
//! which one writer hands changes to many readers.
#![deny(unsafe_code)]

pub mod packet;
#[expect(unsafe_code, reason = "the memory that structures share is allocated by hand")]
pub mod pages;
mod pool;
pub mod sync;

pub use packet::{Header, Packet, PacketType, annotation};
pub use pool::{BATCH_LEN_MAX, Batch, Depot, Pool};
