//! Classification and routes on NVIDIA cards, and on a pool of host threads that works as a card
//! does.
//!
//! ```text
//! rules ─► Image: flat words ─┬─► card: kernel ◄─ slots: pinned buffers, a stream each
//!                             └─► host: the same function in Rust, slots over threads
//! keys ─► Ring: submit, submit, … ─► answers, in the order of submission
//! ```
//! - [`image`] lays an [`Algorithm`] out as words that kernels and the host read alike.
//! - [`routes`] does the same for longest-prefix match, [`scan`] for patterns in payloads; [`work`]
//!   is what they have in common.
//! - [`device`] is a place to run: a card, or [`host`] threads. It has slots; a slot takes a batch
//!   of keys and has answers later. [`ring`] keeps the order.
//! - [`resident`] answers frames of some hundred keys within microseconds, by a kernel that stays.
//! - [`engine`] makes a `Classifier` on a device; a batch sees one version. [`live`] changes images
//!   by patches, where an image can be changed.
//! - [`split`] lays small batches over a card by dividing the rules as well as the keys.
//! - [`auto`] sends each batch to the cores or to a device, whichever costs less.
//! - [`kernels`] embeds the sources under `kernels/`, [`driver`] compiles them for the card that is
//!   there, [`cache`] keeps what was compiled on disk.
//! - [`survey()`] says what this machine has, and what it lacks.
//!
//! Nothing here needs CUDA to build, and without a card or a driver everything but a card works:
//! each thing that may be missing is an [`ErrorKind`] with a remedy.
//!
//! A card that fails is *retired*: its device answers everything on the host from then on, with the
//! same images and so the same answers.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod auto;
pub mod cache;
pub mod chain;
mod copies;
pub mod deadline;
pub mod device;
pub mod driver;
pub mod engine;
mod error;
pub mod host;
pub mod image;
pub mod kernels;
pub mod live;
pub mod packed;
mod ranges;
pub mod resident;
pub mod ring;
pub mod routes;
pub mod scan;
pub mod slot;
pub mod split;
mod survey;
#[cfg(test)]
mod testing;
pub mod work;

pub use chain::{Chain, ChainRoom};
pub use copies::COPIES;
pub use device::{Device, Slot};
pub use driver::{HostMemory, SharedBytes};
pub use error::{ErrorKind, GpuError};
pub use image::{Algorithm, Image};
pub use survey::{CardInfo, Compiler, Survey, survey};
