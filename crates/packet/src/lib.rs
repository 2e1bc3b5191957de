//! What workers share: the packets and the pool that they come from, and the structures through
//! which one writer hands changes to many readers.
#![deny(unsafe_code)]

mod batch;
mod cached;
pub mod columns;
#[expect(unsafe_code, reason = "instructions that need not be there")]
mod deal;
pub mod gso;
#[expect(unsafe_code, reason = "where a frame is was checked when it was kept")]
pub mod lend;
mod numbers;
pub mod packet;
#[expect(unsafe_code, reason = "the memory that structures share is allocated by hand")]
pub mod pages;
#[expect(unsafe_code, reason = "packets read what others lend them")]
mod parts;
mod pool;
pub mod port;
pub mod sync;
mod view;

pub use batch::{BATCH_LEN_MAX, Batch};
pub use cached::{CACHED_RESULTS, CachedResult};
pub use columns::{Column, header_word};
pub use gso::Gso;
pub use lend::{Frames, Lender, LentFrames, Numbered, Span};
pub use packet::{Header, Packet, PacketType, annotation};
pub use pool::{Depot, LARGE_BYTES, Pool};
pub use port::{
    LinkState, PortMethod, PortQueue, PortSpec, RxCounts, RxPort, TapOptions, Transmitted,
    TxCounts, TxPort,
};
pub use view::{PacketView, PacketViews};
