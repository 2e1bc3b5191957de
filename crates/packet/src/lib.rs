//! What workers share: the buffers that packets lie in, the queues between threads, and the
//! structures through which one writer hands changes to many readers.
//!
//! So far the last of these: [`sync`].
#![forbid(unsafe_code)]

pub mod sync;
