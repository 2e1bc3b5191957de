//! What the crates with elements share: files, link types, annotations, cached results, messages.
#![forbid(unsafe_code)]

mod anno;
pub mod annotation;
pub mod bucket;
pub mod cached;
pub mod calls;
pub mod digits;
pub mod docs;
pub mod files;
pub mod format;
pub mod link;
pub mod outputs;
pub mod pacer;

pub use anno::Anno;
