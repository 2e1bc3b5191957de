//! Packets that arrive at a worker at a steady rate, as at a queue of a network card.
//!
//! ```text
//! clock ─► waiting += time · rate ─┬─ up to a batch: taken
//!                                  └─ more than the queue holds: lost
//! ```
//! Only their number exists: a worker that takes some reads so many keys of the trace. So no thread
//! has to send, and no source limits the rate.
//!
//! A queue of 1,000 packets holds some 10 µs of traffic at 100 million packets a second, and the
//! system takes a core away for longer. Such an interruption is found by its length, compared with
//! the usual time of as many packets: few together take longer each than many. The queue stands
//! still meanwhile. A run counts only if all threads together did the work in wall time, see
//! [`router`](super::router).

use std::time::{Duration, Instant};

/// A gap this much longer than expected is an interruption.
const INTERRUPTION_NS: f64 = 10_000.0;
/// See [`INTERRUPTION_NS`]; so many times the usual time may pass in addition.
const USUAL_TIMES: f64 = 4.0;
/// Weight of a new time in the mean.
const WEIGHT: f64 = 0.125;
/// A time counts at most so many times the mean.
const OUTLIER: f64 = 2.0;
/// Classes of numbers of packets: 1, 2, 3 to 4, 5 to 8, and so on.
const SIZES: usize = 16;

/// The queue of one worker.
#[derive(Debug)]
pub struct Arrivals {
    waiting: f64,
    queue_len: f64,
    last: Instant,
    /// Usual time of a packet by how many are handled together; 0 before the first.
    packet_ns: [f64; SIZES],
    /// Packets handled since `last`.
    handled: usize,
    lost: f64,
    interrupted: Duration,
}

impl Arrivals {
    /// An empty queue for so many packets.
    pub fn new(queue_len: usize, now: Instant) -> Self {
        Self {
            waiting: 0.0,
            queue_len: queue_len as f64,
            last: now,
            packet_ns: [0.0; SIZES],
            handled: 0,
            lost: 0.0,
            interrupted: Duration::ZERO,
        }
    }

    /// Takes at most `batch` of the packets that have arrived until `now`, given so many a second
    /// since the last call.
    pub fn take(&mut self, now: Instant, rate: f64, batch: usize) -> usize {
        let ns = self.arrival_ns(now);
        self.waiting += ns * rate / 1e9;
        if self.waiting > self.queue_len {
            self.lost += self.waiting - self.queue_len;
            self.waiting = self.queue_len;
        }
        let taken = (self.waiting as usize).min(batch);
        self.waiting -= taken as f64;
        self.handled = taken;
        taken
    }

    /// Notes packets that the worker handled beside those that it took.
    pub fn note_handled(&mut self, packets: usize) {
        self.handled += packets;
    }

    /// The time since the last call in which packets arrived.
    fn arrival_ns(&mut self, now: Instant) -> f64 {
        let gap = now.saturating_duration_since(self.last);
        self.last = now;
        // Not `as_nanos`: a conversion of 128 bits costs as much as some lookups.
        let ns = gap.as_secs() as f64 * 1e9 + f64::from(gap.subsec_nanos());
        let (mut usual, mut is_known) = (0.0, true);
        if self.handled > 0 {
            let size = self.handled.next_power_of_two().trailing_zeros() as usize;
            let mean = &mut self.packet_ns[size.min(SIZES - 1)];
            let (handled, cost) = (self.handled as f64, ns / self.handled as f64);
            (usual, is_known) = (handled * *mean, *mean > 0.0);
            *mean = match *mean {
                0.0 => cost,
                mean => mean + WEIGHT * (cost.min(OUTLIER * mean) - mean),
            };
        }
        if is_known && ns > USUAL_TIMES * usual + INTERRUPTION_NS {
            self.interrupted += gap;
            return usual;
        }
        ns
    }

    /// Starts to count losses and interruptions anew.
    pub fn forget_losses(&mut self) {
        (self.lost, self.interrupted) = (0.0, Duration::ZERO);
    }

    /// Packets that found the queue full.
    pub fn lost(&self) -> u64 {
        self.lost.ceil() as u64
    }

    /// Time of interruptions.
    pub fn interrupted(&self) -> Duration {
        self.interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_up_to_the_length_of_the_queue() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(100, start);
        let at = |us| start + Duration::from_micros(us);
        // 10 packets a microsecond.
        assert_eq!(arrivals.take(at(5), 1e7, 32), 32);
        assert_eq!(arrivals.take(at(6), 1e7, 32), 28);
        assert_eq!((arrivals.take(at(6), 1e7, 32), arrivals.lost()), (0, 0));
        // 80 packets, then 80 more for the 48 left, of which 100 fit.
        assert_eq!(arrivals.take(at(14), 1e7, 32), 32);
        assert_eq!(arrivals.take(at(22), 1e7, 256), 100);
        assert_eq!(arrivals.lost(), 28);
    }

    #[test]
    fn interruptions_stop_the_clock() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(100, start);
        let mut now = start;
        for _ in 0..10 {
            now += Duration::from_micros(1);
            arrivals.take(now, 1e7, 10);
        }
        now += Duration::from_millis(5);
        arrivals.take(now, 1e7, 10);
        assert_eq!((arrivals.lost(), arrivals.interrupted()), (0, Duration::from_millis(5)));
    }

    #[test]
    fn what_is_usual_depends_on_the_number_of_packets() {
        let start = Instant::now();
        let mut arrivals = Arrivals::new(1000, start);
        let mut now = start;
        let mut after = |arrivals: &mut Arrivals, ns, handled| {
            now += Duration::from_nanos(ns);
            arrivals.take(now, 0.0, 0);
            arrivals.note_handled(handled);
        };
        // 100 ns for one packet, 1000 ns for 200.
        for _ in 0..100 {
            after(&mut arrivals, 1000, 1);
            after(&mut arrivals, 100, 200);
        }
        after(&mut arrivals, 15_000, 0);
        assert_eq!(arrivals.interrupted(), Duration::from_micros(15));
    }
}
