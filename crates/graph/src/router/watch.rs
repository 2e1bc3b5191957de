//! Descriptors that elements wait for: adaptive polling of ports.
//!
//! ```text
//! task finds its port empty ─► Context::watch ─┬─ the worker has other work ─► next turn
//!                                              ├─ it worked a moment ago ────► next turn
//!                                              └─ it is idle ─► Host::wait_for: poll(2)
//! ```
//! A watch holds until the element's task is scheduled, which happens when the descriptor is ready
//! or earlier. A busy worker looks at empty ports once a turn, which costs no system call; an idle
//! one spins if that was enough lately ([`Spin`]), and then sleeps. Where several workers run, each
//! sleeps by a [`Sleeper`], on its own descriptors and until another worker wakes it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::worker::Worker;
use crate::time::Time;

/// How long a worker polls its ports after its last work before it sleeps. Waking it takes tens of
/// microseconds, and time of the sender.
const SPIN: Duration = Duration::from_micros(200);
/// The longest rest of a worker with watches that has no [`Sleeper`].
pub(super) const REST: Duration = Duration::from_micros(200);

/// What an element waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Data can be read.
    Readable,
    /// Data can be written.
    Writable,
}

/// A descriptor that an element waits for.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The descriptor.
    pub fd: Arc<OwnedFd>,
    /// The readiness that wakes the element.
    pub readiness: Readiness,
    element: u32,
}

/// Decides when an idle worker spins: if the last wait was short enough for it. At low rates, where
/// it would spin in vain, the worker sleeps at once.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    /// Since when there is nothing to do.
    idle_since: Option<Time>,
    /// The last wait for work, spinning or asleep.
    waited: Duration,
}

impl Spin {
    /// Ends a wait, if there was one.
    #[inline]
    pub(super) fn note_work(&mut self, now: Time) {
        if let Some(since) = self.idle_since.take() {
            self.waited = now - since;
        }
    }

    /// Whether a worker without work looks for some again.
    fn goes_on(&mut self, now: Time) -> bool {
        let since = *self.idle_since.get_or_insert(now);
        self.waited < SPIN && now - since < SPIN
    }
}

/// How a worker sleeps that waits for descriptors and for other workers.
pub trait Sleeper: Send + Sync {
    /// Sleeps until a descriptor is ready, [`Sleeper::wake`] was called since the last sleep, or
    /// `timeout` is over. May return early.
    fn sleep(&self, watches: &[Watch], timeout: Option<Duration>);

    /// Wakes the worker, also one that is about to sleep.
    fn wake(&self);
}

impl Worker {
    /// Has the task of `element` scheduled when `fd` is ready. Replaces an earlier watch of the
    /// element for the same readiness.
    pub(crate) fn watch(&mut self, element: usize, fd: Arc<OwnedFd>, readiness: Readiness) {
        let watch = Watch { fd, readiness, element: element as u32 };
        let is_same = |old: &&mut Watch| old.element == watch.element && old.readiness == readiness;
        match self.watches.iter_mut().find(is_same) {
            Some(old) => *old = watch,
            None => self.watches.push(watch),
        }
    }

    /// Schedules the tasks of all elements that watch a descriptor, and ends the watches.
    #[inline]
    pub(crate) fn wake_watchers(&mut self) {
        while let Some(watch) = self.watches.pop() {
            self.schedule_task(watch.element as usize);
        }
    }

    /// Whether ports are to be polled again instead of sleeping.
    pub(super) fn spins(&mut self) -> bool {
        !self.watches.is_empty() && self.spin.goes_on(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_after_short_waits_only() {
        let (mut spin, mut now) = (Spin::default(), Time::default());
        // The length of a wait, and whether the worker spins at its start and at its end.
        let (short, long) = (SPIN / 4, 2 * SPIN);
        for (wait, starts, ends) in [
            (short, true, true),
            (long, true, false),
            (long, false, false),
            (short, false, false),
            (short, true, true),
            (Duration::ZERO, true, true),
            (SPIN, true, false),
            (Duration::ZERO, false, false),
        ] {
            assert_eq!(spin.goes_on(now), starts, "{wait:?}");
            now = now + wait;
            assert_eq!(spin.goes_on(now), ends, "{wait:?}");
            spin.note_work(now);
            // Work without a wait.
            spin.note_work(now + long);
        }
    }
}
