//! CUDA's driver and its compiler, in three levels; the one room of this crate for `unsafe`.
//!
//! | level | file | is |
//! | --- | --- | --- |
//! | raw | `raw` | `cudarc`'s bindings, loaded at run time, behind the question whether they are there |
//! | results | `call` | what a call returned, as this crate's error with the call's name |
//! | safe | `card`, `pool`, `memory`, `program`, `slot`, `patcher`, `resident`, `compile` | owners that free what they hold |
//!
//! # Why it is sound
//! - A library that is missing makes `cudarc` panic, so every way in asks `raw` first.
//! - Memory that the card writes behind our back is only reachable through [`CardSlot`], which
//!   lends it out while no work of the slot is under way, and through [`ResidentKernel`], as
//!   atomics.
//! - Kernels get addresses of buffers that their owner keeps alive until the work is done. What
//!   they read beyond these is decided by images, which only this crate's builders make; a wrong
//!   address is an error of the card, not a write into this process: the only memory of the host
//!   that a kernel can write to is pinned memory of slots. [`HostMemory`] is only read.

mod call;
mod card;
mod chain;
mod compile;
mod completion;
mod memory;
mod patcher;
mod pool;
mod program;
mod raw;
mod resident;
mod slot;
mod timing;

pub use card::{Card, card_count, driver_version};
pub use chain::CardChain;
pub use compile::{compile, compiler_version};
pub use memory::{DeviceWords, HostMemory, SharedBytes};
pub use patcher::Patcher;
pub use pool::{MemoryUse, pool_bytes_max};
pub use program::{LaunchShape, Program};
pub use resident::{HEAD_WORDS, ResidentKernel, ResidentPlan};
pub use slot::{CardSlot, LoadedImage, SplitKernel, Transfer};
pub use timing::KernelTimer;
