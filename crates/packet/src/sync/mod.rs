//! Structures that threads share, written once over primitives that loom can replace.
//!
//! Built with `--cfg loom`, the very code that ships runs under loom's model of the memory, which
//! tries every order of its atomic steps: `RUSTFLAGS="--cfg loom" cargo test -p warpswitch-packet`.

mod epoch;
mod handoff;
mod left_right;
mod lists;
mod ring;
mod sample;

pub use epoch::{Epochs, Pin};
pub use handoff::{Bell, Handoff, Rested};
pub use left_right::{LeftRight, ReadGuard};
pub use lists::{ListWriter, Lists};
pub use ring::{RingConsumer, RingProducer, ring};
pub use sample::SampleSlot;

#[cfg(loom)]
mod primitives {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };

    /// Lets another thread go on: the model would otherwise try to spin for ever.
    pub(super) fn pause() {
        loom::thread::yield_now();
    }
}

#[cfg(not(loom))]
mod primitives {
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };

    /// Tells the core that it is in a short loop.
    pub(super) fn pause() {
        std::hint::spin_loop();
    }
}
