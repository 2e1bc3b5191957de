//! State shared by the per-worker instances of an element.

use std::sync::Arc;

/// `shared`, to change it: copies are there only while workers run, and elements change what they
/// share in handlers, which run between.
///
/// # Panics
/// If a copy is left.
pub(super) fn own<T>(shared: &mut Arc<T>) -> &mut T {
    Arc::get_mut(shared).expect("copies are gone when an element changes")
}
