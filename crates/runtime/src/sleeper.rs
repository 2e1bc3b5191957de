//! How a worker sleeps: in `poll(2)`, until a descriptor is ready or another worker wakes it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use warpswitch_graph::{Readiness, Sleeper, Watch};

/// See the module.
pub(crate) struct PollSleeper {
    /// Readable from a wake-up until the end of the next sleep.
    wake: OwnedFd,
}

impl PollSleeper {
    /// A sleeper, if the system has a descriptor left.
    pub(crate) fn make() -> Option<Arc<dyn Sleeper>> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        eventfd(0, flags).ok().map(|wake| Arc::new(Self { wake }) as Arc<dyn Sleeper>)
    }
}

impl Sleeper for PollSleeper {
    fn sleep(&self, watches: &[Watch], timeout: Option<Duration>) {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        fds.extend(watches.iter().map(poll_fd));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // The caller looks for work afterwards, so an interrupted sleep needs no retry.
        _ = poll(&mut fds, timeout.as_ref());
        // It fails if nobody woke the worker.
        _ = rustix::io::read(&self.wake, &mut [0; 8][..]);
    }

    fn wake(&self) {
        // It fails if the counter is at its maximum, when the worker is awake for certain.
        _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// What to poll for a watch.
pub(crate) fn poll_fd(watch: &Watch) -> PollFd<'_> {
    let flags = match watch.readiness {
        Readiness::Readable => PollFlags::IN,
        Readiness::Writable => PollFlags::OUT,
    };
    PollFd::new(&watch.fd, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_before_the_sleep_ends_it() {
        let sleeper = PollSleeper::make().expect("there are descriptors");
        sleeper.wake();
        sleeper.wake();
        // Without a time-out it would last for ever.
        sleeper.sleep(&[], None);
        std::thread::scope(|scope| {
            scope.spawn(|| sleeper.sleep(&[], None));
            sleeper.wake();
        });
    }
}
