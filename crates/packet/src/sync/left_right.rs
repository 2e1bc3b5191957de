//! Two copies of a structure: readers use one while the writer changes the other.
//!
//! ```text
//!            active = 0                         active = 1
//! readers ─► copy 0 (v)        flip   ┌──────── copy 0 (v) ◄─ the same change again, once
//!            copy 1 (v) ◄─ change to  └readers► copy 1 (v+1)   the last reader has left
//!                          v+1
//! ```
//! A change costs twice what it costs on one copy, and nothing is ever rebuilt or reclaimed later.
//!
//! # Invariants
//! - L1: the writer changes a copy only while `active` names the other one, and holds the copy's
//!   write lock while it does.
//! - L2: a reader uses a copy only if `active` named it at some moment while the reader held the
//!   copy's read lock. By L1 the copy held the newest published version at that moment, and nobody
//!   changes it until the reader leaves. So versions never go backwards, not even for a reader that
//!   slept between reading `active` and taking the lock.
//! - L3: readers never block: they only try the lock, and a failed try means that the writer has
//!   flipped since `active` was read.
//!
//! # Why not pointers and epochs
//! A lookup serves a whole batch, so two uncontended atomic steps for each are nothing; and this
//! needs no `unsafe` and no deferred freeing, which would leave memory use open.

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::{PoisonError, TryLockError};

use super::primitives::{
    AtomicUsize, Mutex, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard, pause,
};

/// A structure in two copies: any number of readers, and writers who take turns.
#[derive(Debug)]
pub struct LeftRight<T> {
    /// Which copy readers enter. Stored with release by [`LeftRight::change`], loaded with acquire
    /// by [`LeftRight::read`].
    active: AtomicUsize,
    copies: [Padded<RwLock<T>>; 2],
    /// Held for the whole of a change.
    turn: Mutex<()>,
}

/// Keeps each lock word on cache lines of its own (two, for cores that fetch pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// A reader's hold on one version.
#[derive(Debug)]
pub struct ReadGuard<'a, T> {
    copy: RwLockReadGuard<'a, T>,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.copy
    }
}

impl<T> LeftRight<T> {
    /// Shares `left` and `right`, which must be equal in all that readers can see.
    pub fn new(left: T, right: T) -> Self {
        Self {
            active: AtomicUsize::new(0),
            copies: [Padded(RwLock::new(left)), Padded(RwLock::new(right))],
            turn: Mutex::new(()),
        }
    }

    /// Enters the newest version. Hold the guard for one batch, not longer: writers wait for it.
    ///
    /// Cost: two atomic reads and two atomic updates. Threads: never blocks; tries again only if a
    /// change was published in between.
    pub fn read(&self) -> ReadGuard<'_, T> {
        loop {
            let active = self.active.load(Ordering::Acquire);
            let copy = match self.copies[active].0.try_read() {
                Ok(copy) => Some(copy),
                // Whoever panicked was a writer; its change was never published (see `change`) or
                // is a repetition that the published copy already has.
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            // L2: the second look happens with the lock held.
            if let Some(copy) = copy
                && self.active.load(Ordering::Acquire) == active
            {
                return ReadGuard { copy };
            }
            pause();
        }
    }

    /// Changes both copies: `first` on the idle one, then, once that is published, `again` on the
    /// other. Both must have the same effect on all that readers can see. Returns when every later
    /// [`LeftRight::read`] sees the change and no reader is left in the version before.
    ///
    /// Must not be called by a thread that holds a [`ReadGuard`] of this structure: it would wait
    /// for itself.
    ///
    /// # Errors
    /// What `first` returns; it must have left its copy as it was, and nothing is published.
    /// # Panics
    /// If an earlier change panicked half-way: the copies may differ.
    pub fn change<E>(
        &self,
        first: impl FnOnce(&mut T) -> Result<(), E>,
        again: impl FnOnce(&mut T),
    ) -> Result<(), E> {
        let _turn = self.turn.lock().expect("an earlier change panicked");
        // Only the holder of the turn stores to `active`, so this load needs no order.
        let idle = 1 - self.active.load(Ordering::Relaxed);
        first(&mut self.write(idle))?;
        self.active.store(idle, Ordering::Release);
        again(&mut self.write(1 - idle));
        Ok(())
    }

    /// [`LeftRight::change`] by a step that cannot fail.
    pub fn change_always(&self, apply: impl Fn(&mut T)) {
        let first = |copy: &mut T| {
            apply(copy);
            Ok::<_, Infallible>(())
        };
        let Ok(()) = self.change(first, |copy| apply(copy));
    }

    /// Sets the idle copy and publishes it, or does nothing if a reader is in it; never waits.
    /// `set` must not depend on what the copy holds. The other copy keeps the version before, which
    /// readers may be in until [`LeftRight::wait_for_old_readers`] returns. So where this is used,
    /// the steps of [`LeftRight::change`] must set all that readers can see, too.
    ///
    /// Returns whether it is published.
    pub fn try_replace(&self, set: impl FnOnce(&mut T)) -> bool {
        let Ok(_turn) = self.turn.try_lock() else { return false };
        let idle = 1 - self.active.load(Ordering::Relaxed);
        match self.copies[idle].0.try_write() {
            Ok(mut copy) => set(&mut copy),
            Err(TryLockError::Poisoned(poisoned)) => set(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return false,
        }
        self.active.store(idle, Ordering::Release);
        true
    }

    /// Waits until no reader is left in a version before the newest one.
    ///
    /// Must not be called by a thread that holds a [`ReadGuard`] of this structure.
    ///
    /// # Panics
    /// As [`LeftRight::change`].
    pub fn wait_for_old_readers(&self) {
        let _turn = self.turn.lock().expect("an earlier change panicked");
        drop(self.write(1 - self.active.load(Ordering::Relaxed)));
    }

    /// Waits until the readers of a copy have left it. New ones do not come: the copy is idle.
    fn write(&self, copy: usize) -> RwLockWriteGuard<'_, T> {
        self.copies[copy].0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_refused_change_is_not_seen_and_the_next_one_is() {
        let shared = LeftRight::new(1, 1);
        assert_eq!(shared.change(|_| Err("no"), |_| unreachable!()), Err("no"));
        assert_eq!(*shared.read(), 1);
        for step in 0..3 {
            shared.change_always(|v| *v += 1);
            assert_eq!(*shared.read(), 2 + step);
        }
    }

    #[test]
    fn readers_see_whole_versions_that_never_go_back() {
        let shared = LeftRight::new([0u64; 8], [0; 8]);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let version = shared.read();
                        assert!(version.iter().all(|&v| v == version[0]), "{:?}", *version);
                        assert!(version[0] >= last);
                        last = version[0];
                    }
                });
            }
            let bump = |copy: &mut [u64; 8]| copy.iter_mut().for_each(|v| *v += 1);
            for expected in 1..=2000 {
                shared.change_always(bump);
                assert_eq!(shared.read()[0], expected);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_replacement_does_not_wait_for_readers() {
        let shared = LeftRight::new(0, 0);
        let reader = shared.read();
        assert!(shared.try_replace(|v| *v = 1));
        // The reader is in the copy that is idle now.
        assert!(!shared.try_replace(|_| unreachable!()));
        assert_eq!((*reader, *shared.read()), (0, 1));
        drop(reader);
        shared.wait_for_old_readers();
        assert!(shared.try_replace(|v| *v = 2));
        assert_eq!(*shared.read(), 2);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Both words of a copy must agree, and versions must not go back.
    fn look_twice(shared: &LeftRight<[u32; 2]>) {
        let mut last = 0;
        for _ in 0..2 {
            let copy = shared.read();
            assert_eq!(copy[0], copy[1]);
            assert!(copy[0] >= last);
            last = copy[0];
        }
    }

    fn bump(copy: &mut [u32; 2]) {
        copy[0] += 1;
        copy[1] += 1;
    }

    /// Every order of one writer and `readers` readers, within loom's usual bound.
    fn check(readers: usize, changes: u32) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Arc::new(LeftRight::new([0; 2], [0; 2]));
            let threads: Vec<_> = (0..readers)
                .map(|_| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || look_twice(&shared))
                })
                .collect();
            for expected in 1..=changes {
                shared.change_always(bump);
                assert_eq!(*shared.read(), [expected; 2], "a finished change is seen");
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn one_reader_two_changes() {
        check(1, 2);
    }

    #[test]
    fn two_readers_one_change() {
        check(2, 1);
    }

    /// Replacements with a reader: whole versions, and none before the newest one once old readers
    /// have been waited for.
    #[test]
    fn replacements_are_whole_and_old_versions_end() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new(LeftRight::new([0; 2], [0; 2]));
            let is_over = Arc::new(loom::sync::atomic::AtomicBool::new(false));
            let reader = {
                let (shared, is_over) = (shared.clone(), is_over.clone());
                loom::thread::spawn(move || {
                    let copy = shared.read();
                    let is_old = copy[0] == 0;
                    assert_eq!(copy[0], copy[1]);
                    assert!(!(is_old && is_over.load(Ordering::Acquire)), "an old version is read");
                })
            };
            assert!(shared.try_replace(|copy| *copy = [1; 2]));
            shared.wait_for_old_readers();
            is_over.store(true, Ordering::Release);
            if shared.try_replace(|copy| *copy = [2; 2]) {
                assert_eq!(*shared.read(), [2; 2]);
            }
            reader.join().unwrap();
        });
    }
}
