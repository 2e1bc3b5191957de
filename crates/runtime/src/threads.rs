//! Worker threads and the cores that they run on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use core_affinity::CoreId;
use warpswitch_graph::{Router, Workers};

use crate::sleeper::PollSleeper;

/// Cores that this process may run on, at least one. Read once, before any thread is pinned: a
/// pinned thread sees only its own core.
pub fn cores() -> &'static [Option<CoreId>] {
    static CORES: OnceLock<Vec<Option<CoreId>>> = OnceLock::new();
    CORES.get_or_init(|| {
        let ids = core_affinity::get_core_ids().unwrap_or_default();
        if ids.is_empty() { vec![None] } else { ids.into_iter().map(Some).collect() }
    })
}

/// Number of threads that use all cores.
pub fn default_threads() -> usize {
    cores().len()
}

/// Index of the core of worker 0.
static FIRST_CORE: AtomicUsize = AtomicUsize::new(0);

/// Assigns core `first` of [`cores`] to worker 0, and the following cores to the other workers.
pub fn begin_at(first: usize) {
    // Threads started later read it; no other memory depends on it.
    FIRST_CORE.store(first, Ordering::Relaxed);
}

/// The core of worker `idx`; more workers than cores share. `None` if the system lists no cores:
/// the scheduler places the worker.
pub fn core_for(idx: usize) -> Option<CoreId> {
    let cores = cores();
    cores[FIRST_CORE.load(Ordering::Relaxed).wrapping_add(idx) % cores.len()]
}

/// Runs `router` with `workers` pinned workers. The calling thread is worker 0. One worker is not
/// pinned.
pub fn use_workers(router: &mut Router, workers: usize) {
    if workers > 1 {
        pin(0);
        router.use_workers(Workers { count: workers, start, sleeper: PollSleeper::make });
    }
}

/// Starts the thread of worker `idx`, on its core.
fn start(idx: usize, work: Box<dyn FnOnce() + Send>) -> JoinHandle<()> {
    let thread = std::thread::Builder::new().name(format!("worker {idx}"));
    let started = thread.spawn(move || {
        pin(idx);
        work();
    });
    started.expect("the system has room for a thread")
}

/// Runs `work` on as many threads as there are cores, the calling thread among them, and waits for
/// all. The threads inherit the core of the calling thread if it is pinned.
pub fn do_by_many(work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 1..default_threads() {
            // Fewer threads if the system has no room for more.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Pins the calling thread to the core of worker `idx`.
pub fn pin(idx: usize) {
    if let Some(core) = core_for(idx) {
        // A failure costs speed, not correctness.
        _ = core_affinity::set_for_current(core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_thread_lists_all_cores() {
        let all = cores();
        let seen = std::thread::spawn(|| {
            pin(0);
            (cores(), core_for(1))
        });
        assert_eq!(seen.join().expect("it ends"), (all, all[1 % all.len()]));
    }
}
