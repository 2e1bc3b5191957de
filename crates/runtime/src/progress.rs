//! Progress reports of a run, for programs that draw a progress bar.

use std::time::{Duration, Instant};

use warpswitch_graph::Router;

/// The state of a run in progress.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RunProgress {
    /// Wall-clock time since the start.
    pub elapsed: Duration,
    /// Packets that entered elements, summed over all elements.
    pub packets: u64,
    /// Packets that elements hold, in queues for instance.
    pub held: usize,
}

/// Receives progress reports. Closures implement it.
pub trait Progress {
    /// Called on the thread that runs the configuration: return soon.
    fn report(&mut self, progress: &RunProgress);
}

impl<F: FnMut(&RunProgress)> Progress for F {
    fn report(&mut self, progress: &RunProgress) {
        self(progress);
    }
}

/// Limits reports to one per interval. Idle runs report nothing.
pub(crate) struct ProgressReporter {
    target: Box<dyn Progress + Send>,
    interval: Duration,
    start: Instant,
    next: Instant,
}

impl ProgressReporter {
    pub(crate) fn new(target: Box<dyn Progress + Send>, interval: Duration) -> Self {
        let start = Instant::now();
        Self { target, interval, start, next: start }
    }

    /// Whether the next report is due.
    pub(crate) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    pub(crate) fn report_if_due(&mut self, router: &Router) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now.checked_add(self.interval).unwrap_or(now);
        let elements = 0..router.graph().elements.len();
        let packets = elements.map(|idx| router.stats(idx).packets).sum();
        let held = router.standing().iter().map(|(_, packets)| packets).sum();
        let elapsed = now.duration_since(self.start);
        self.target.report(&RunProgress { elapsed, packets, held });
    }
}
