//! What workers share: the packets and the pool that they come from, and the structures through
//! which one writer hands changes to many readers.
#![forbid(unsafe_code)]

pub mod packet;
mod pool;
pub mod sync;

pub use packet::{Header, Packet, PacketType, annotation};
pub use pool::{BATCH_LEN_MAX, Batch, Depot, Pool};
