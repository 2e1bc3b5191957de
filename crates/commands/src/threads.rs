//! Worker threads of the runtime, with a warning where they share cores.

use std::time::Duration;

use warpswitch_graph::Router;
pub use warpswitch_runtime::threads::{begin_at, default_threads, do_by_many, pin};

use crate::{human, term};

/// Looks before a waiting thread yields, and before it sleeps.
const SPINS: u32 = 64;
/// See [`SPINS`].
const YIELDS: u32 = 16;
/// Sleep of a thread with nothing to do.
const SLEEP: Duration = Duration::from_micros(50);

/// Waits longer each time: spins, yields, sleeps.
#[derive(Debug, Default)]
pub struct Backoff {
    waits: u32,
}

impl Backoff {
    /// Waits once.
    pub fn wait(&mut self) {
        self.waits = self.waits.saturating_add(1);
        match self.waits {
            ..=SPINS => std::hint::spin_loop(),
            waits if waits <= SPINS + YIELDS => std::thread::yield_now(),
            _ => std::thread::sleep(SLEEP),
        }
    }
}

/// Warns if `threads` exceed the cores.
pub fn warn_of_sharing(threads: usize) {
    let cores = default_threads();
    if threads > cores {
        let cores = human::counted(cores, "core");
        term::warning(format!("{} share {cores}", human::counted(threads, "thread")));
    }
}

/// Runs `router` with `workers` pinned workers; warns if they share cores.
pub fn use_workers(router: &mut Router, workers: usize) {
    if workers > 1 {
        warn_of_sharing(workers);
    }
    warpswitch_runtime::threads::use_workers(router, workers);
}
