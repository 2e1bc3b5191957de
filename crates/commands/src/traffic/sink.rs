//! The sink: recognizes frames by their probe, counts them, records their latency.

use hdrhistogram::Histogram;
use serde::Serialize;
use warpswitch_packet::{Batch, Pool, RxPort};

use super::probe::{Probe, Purpose};
use super::tracker::{Arrival, Tracker};
use crate::human::rounded;

/// Frames of one call of a port.
const FRAMES_PER_CALL: usize = 256;
/// Frames wait no longer in a port. A larger or negative wait means that the wall clock was set.
const WAIT_NS_MAX: i64 = 1_000_000_000;
/// Two clocks read within this time show the same moment.
const GAP_NS_MAX: u64 = 1_000;
/// How often two clocks are read that show different moments.
const READINGS_MAX: usize = 4;
/// Larger latencies count as this one.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// Counters of a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Frames of the run, each once.
    pub frames: u64,
    /// Other frames: of other senders, or of an earlier run.
    pub foreign: u64,
    /// Frames by which devices learn addresses.
    pub learning: u64,
    /// When the latest frame of the run arrived.
    pub last_ns: u64,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub min_us: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

/// See the module.
#[derive(Debug)]
pub struct Sink {
    /// The run; the first one received if none.
    run: Option<u16>,
    tracker: Tracker,
    latency: Histogram<u64>,
    counts: SinkCounts,
    pool: Pool,
    /// The wall clock, which ports take time stamps from.
    wall_ns: Option<fn() -> i64>,
    /// Whether the last frame received had a time stamp.
    has_stamps: bool,
}

impl Sink {
    /// A sink for frames of `run`, or of the first run that it receives.
    pub fn new(run: Option<u16>, tracker: Tracker) -> Self {
        let latency = Histogram::new_with_max(LATENCY_NS_MAX, DIGITS);
        Self {
            run,
            tracker,
            latency: latency.expect("the bounds are fixed"),
            counts: SinkCounts::default(),
            pool: Pool::new(),
            wall_ns: None,
            has_stamps: false,
        }
    }

    /// Measures latencies to the arrival of frames at the interface, as far as ports record it by
    /// the wall clock `wall_ns`, instead of to their receipt by this thread.
    pub fn until_arrival(self, wall_ns: fn() -> i64) -> Self {
        Self { wall_ns: Some(wall_ns), ..self }
    }

    /// Whether latencies do not depend on when frames are received.
    pub fn has_arrival_times(&self) -> bool {
        self.wall_ns.is_some() && self.has_stamps
    }

    /// The time by `clock` and by the wall clock. A thread that is interrupted between two readings
    /// repeats them, lest the pause counts as a wait of the frames.
    fn now(&self, clock: &mut dyn FnMut() -> u64) -> (u64, Option<i64>) {
        let mut before_ns = clock();
        let Some(wall_clock) = self.wall_ns else { return (before_ns, None) };
        let readings = std::iter::repeat_with(|| {
            let (wall_ns, now_ns) = (wall_clock(), clock());
            let gap_ns = now_ns - before_ns;
            before_ns = now_ns;
            (gap_ns, now_ns, wall_ns)
        });
        let mut closest = (u64::MAX, 0, 0);
        for reading in readings.take(READINGS_MAX) {
            closest = closest.min(reading);
            if closest.0 < GAP_NS_MAX {
                break;
            }
        }
        (closest.1, Some(closest.2))
    }

    /// How long a frame with time stamp `stamp_ns` waited until `wall_ns`.
    fn wait_ns(stamp_ns: i64, wall_ns: Option<i64>) -> u64 {
        let wait_ns = wall_ns.filter(|_| stamp_ns > 0).map_or(0, |wall_ns| wall_ns - stamp_ns);
        if (0..WAIT_NS_MAX).contains(&wait_ns) { wait_ns as u64 } else { 0 }
    }

    /// Receives frames; `other` gets those without a probe. Returns how many arrived.
    pub fn step(
        &mut self,
        clock: &mut dyn FnMut() -> u64,
        rx: &mut dyn RxPort,
        mut other: impl FnMut(&[u8]),
    ) -> usize {
        let mut batch: Batch = self.pool.batch();
        let received = rx.receive(&mut self.pool, &mut batch, FRAMES_PER_CALL);
        let (now_ns, wall_ns) = self.now(clock);
        for packet in batch.iter() {
            self.has_stamps = packet.timestamp_ns() > 0;
            match Probe::read(packet.data()) {
                Some(probe) => {
                    let wait_ns = Self::wait_ns(packet.timestamp_ns(), wall_ns);
                    self.record(probe, now_ns.saturating_sub(wait_ns));
                }
                None => {
                    self.counts.foreign += 1;
                    other(packet.data());
                }
            }
        }
        self.pool.recycle_batch(batch);
        received
    }

    fn record(&mut self, probe: Probe, now_ns: u64) {
        if probe.purpose == Purpose::Learn {
            self.counts.learning += 1;
            return;
        }
        let run = *self.run.get_or_insert(probe.run);
        let arrival = match run == probe.run {
            true => self.tracker.record(probe.flow, probe.sequence),
            false => Arrival::NoFlow,
        };
        match arrival {
            Arrival::First => {
                self.counts.frames += 1;
                self.latency.saturating_record(probe.age_ns(now_ns));
            }
            Arrival::Duplicate => {}
            Arrival::NoFlow => {
                self.counts.foreign += 1;
                return;
            }
        }
        self.counts.last_ns = now_ns;
    }

    /// The counters.
    pub fn counts(&self) -> SinkCounts {
        self.counts
    }

    /// The counters of the flows.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// The latencies, if any frame arrived.
    pub fn latency(&self) -> Option<Latency> {
        Latency::of(&self.latency)
    }
}

impl Latency {
    /// Of nanoseconds, if there are any.
    pub fn of(ns: &Histogram<u64>) -> Option<Self> {
        let us = |ns: u64| rounded(ns as f64 / 1e3, 3);
        (!ns.is_empty()).then(|| Self {
            min_us: us(ns.min()),
            mean_us: rounded(ns.mean() / 1e3, 3),
            p50_us: us(ns.value_at_quantile(0.5)),
            p99_us: us(ns.value_at_quantile(0.99)),
            max_us: us(ns.max()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn waits_are_those_of_plausible_time_stamps() {
        let wait = |stamp_ns, wall_ns| Sink::wait_ns(stamp_ns, wall_ns);
        assert_eq!(wait(1_000, Some(51_000)), 50_000);
        assert_eq!(wait(1_000, None), 0, "without a wall clock");
        assert_eq!(wait(0, Some(51_000)), 0, "without a time stamp");
        assert_eq!(wait(51_000, Some(1_000)), 0, "the clock was set back");
        assert_eq!(wait(1_000, Some(WAIT_NS_MAX + 1_000)), 0, "the clock was set forward");
    }

    thread_local! {
        static READINGS: Cell<u64> = const { Cell::new(0) };
        static PAUSE_BEFORE: Cell<u64> = const { Cell::new(0) };
    }

    /// Either clock: 20 ns between readings, 1 ms before one of them.
    fn read() -> u64 {
        let number = READINGS.get() + 1;
        READINGS.set(number);
        let pause_ns = if number >= PAUSE_BEFORE.get() { 1_000_000 } else { 0 };
        20 * number + pause_ns
    }

    #[test]
    fn a_pause_between_readings_is_no_wait() {
        let sink = Sink::new(None, Tracker::new(1, None)).until_arrival(|| read() as i64);
        for pause_before in 1..10 {
            READINGS.set(0);
            PAUSE_BEFORE.set(pause_before);
            let (now_ns, wall_ns) = sink.now(&mut read);
            assert_eq!(now_ns as i64 - wall_ns.unwrap(), 20, "a pause before {pause_before}");
        }
    }
}
