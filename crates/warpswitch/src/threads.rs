//! Worker threads and the cores they run on.

use core_affinity::CoreId;

/// Cores that this process may run on, at least one.
pub fn cores() -> Vec<Option<CoreId>> {
    let ids = core_affinity::get_core_ids().unwrap_or_default();
    if ids.is_empty() { vec![None] } else { ids.into_iter().map(Some).collect() }
}

/// Number of threads that use all cores.
pub fn default_threads() -> usize {
    cores().len()
}

/// The core for worker `idx`; with more workers than cores they share. `None` where the system
/// tells of no cores: the worker runs wherever it is put.
pub fn core_for(idx: usize) -> Option<CoreId> {
    let cores = cores();
    cores[idx % cores.len()]
}

/// Keeps the calling thread on the core of worker `idx`.
pub fn pin(idx: usize) {
    if let Some(core) = core_for(idx) {
        // A refusal costs speed, not correctness.
        _ = core_affinity::set_for_current(core);
    }
}
