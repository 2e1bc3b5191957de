//! Worker threads and the cores they run on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use core_affinity::CoreId;
use warpswitch_graph::{Router, Workers};

use crate::{human, term};

/// Cores that this process may run on, at least one: those that it began with, as a thread that
/// was pinned sees only its own.
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

/// Warns where so many threads have no core each.
pub fn warn_of_sharing(threads: usize) {
    let cores = default_threads();
    if threads > cores {
        let cores = human::counted(cores, "core");
        term::warning(format!("{} share {cores}", human::counted(threads, "thread")));
    }
}

/// Which of the cores worker 0 has.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// Gives worker 0 core number `first` of [`cores`], and the others those that follow.
pub fn begin_at(first: usize) {
    // Threads that are started later see it; no other memory goes with it.
    FIRST.store(first, Ordering::Relaxed);
}

/// The core for worker `idx`; with more workers than cores they share. `None` where the system
/// tells of no cores: the worker runs wherever it is put.
pub fn core_for(idx: usize) -> Option<CoreId> {
    let cores = cores();
    cores[FIRST.load(Ordering::Relaxed).wrapping_add(idx) % cores.len()]
}

/// Has `workers` workers run `router`, each on a core of its own, the calling thread the first.
pub fn staff(router: &mut Router, workers: usize) {
    if workers > 1 {
        warn_of_sharing(workers);
        pin(0);
        router.use_workers(Workers { count: workers, start });
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

/// Has as many threads as there are cores do `work`, the calling one among them, and waits for all.
/// They run where the calling one does: beside workers, on its core.
pub fn do_by_many(work: &(dyn Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 1..default_threads() {
            // Where the system has no room for a thread there are fewer.
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Keeps the calling thread on the core of worker `idx`.
pub fn pin(idx: usize) {
    if let Some(core) = core_for(idx) {
        // A refusal costs speed, not correctness.
        _ = core_affinity::set_for_current(core);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_knows_all_cores_yet() {
        let all = cores();
        let seen = std::thread::spawn(|| {
            pin(0);
            (cores(), core_for(1))
        });
        assert_eq!(seen.join().expect("it ends"), (all, all[1 % all.len()]));
    }
}
