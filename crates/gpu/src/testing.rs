//! What tests of published versions share.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Has two readers ask for `answers` while `change` makes change 0, 1 and so on: each time these
/// are those of one of `versions`, of which there is one before all changes and one behind each,
/// and none that was over when the reader asked, or had not begun when it had its answers.
pub fn readers_see_whole_versions<V: PartialEq + Debug + Sync>(
    versions: &[V],
    answers: impl Fn() -> V + Sync,
    mut change: impl FnMut(usize),
) {
    let (announced, confirmed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let first = confirmed.load(Ordering::SeqCst);
                    let found = answers();
                    let last = announced.load(Ordering::SeqCst);
                    let is_one = versions[first..=last].contains(&found);
                    assert!(is_one, "of no version in {first}..={last}");
                }
            });
        }
        for number in 0..versions.len() - 1 {
            announced.store(number + 1, Ordering::SeqCst);
            change(number);
            confirmed.store(number + 1, Ordering::SeqCst);
        }
        stop.store(true, Ordering::SeqCst);
    });
}
