//! Worker threads of the runtime, with a warning where they share cores.

use warpswitch_graph::Router;
pub use warpswitch_runtime::threads::{begin_at, default_threads, do_by_many, pin};

use crate::{human, term};

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
