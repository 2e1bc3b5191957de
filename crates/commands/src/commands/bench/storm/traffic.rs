//! The packets of a moment: which part of a trace is read.
//!
//! ```text
//! trace ───────────[ window ]─────────► time, 7,500 packets a millisecond
//!                    └─ parts in turn, by all workers
//! ```
//! What is popular changes with time, and no faster because a router is faster. So a trace with
//! popular rules moves on at the rate of the paper's traces, whatever the rate of packets; workers
//! repeat the packets of a window of some milliseconds. Other traces are read from start to end.

use std::ops::Range;
use std::time::Instant;

use warpswitch_rules::{KeyBatch, KeyBuf};

/// Keys of a part, which a worker takes at once: the shared cursor is rarely moved.
pub const PART_KEYS: usize = 1024;

/// Parts of the window.
const WINDOW_PARTS: usize = 32;

/// When a trace began, and its rate.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub began: Instant,
    pub keys_per_ms: usize,
}

/// A trace, and how it is read.
#[derive(Clone, Copy)]
pub struct Traffic<'a> {
    pub keys: KeyBatch<'a>,
    /// None for a trace that is read from start to end.
    clock: Option<Clock>,
}

impl<'a> Traffic<'a> {
    /// A trace that moves on with the time and begins again at its end.
    pub fn by_time(keys: &'a KeyBuf, clock: Clock) -> Self {
        Self { keys: keys.as_batch(), clock: Some(clock) }
    }

    /// A trace that is read from start to end.
    pub fn in_order(keys: &'a KeyBuf) -> Self {
        Self { keys: keys.as_batch(), clock: None }
    }

    /// Number of parts.
    pub fn parts(&self) -> usize {
        (self.keys.len() / PART_KEYS).max(1)
    }

    /// The part that is read `turn`-th, at `now`.
    pub fn part(&self, turn: usize, now: Instant) -> Range<usize> {
        let parts = self.parts();
        let at = self.clock.map_or(turn, |clock| {
            let ms = now.saturating_duration_since(clock.began).as_secs_f64() * 1e3;
            let place = (ms * clock.keys_per_ms as f64) as usize / PART_KEYS;
            place + turn % WINDOW_PARTS.min(parts)
        });
        let first = at % parts * PART_KEYS;
        first..(first + PART_KEYS).min(self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use warpswitch_rules::schema::IPV4_5TUPLE;

    use super::*;

    fn keys(len: usize) -> KeyBuf {
        let mut keys = KeyBuf::new(&IPV4_5TUPLE);
        (0..len).for_each(|number| keys.push(&[number as u32, 0, 0, 0]));
        keys
    }

    #[test]
    fn a_trace_in_order_ignores_the_time() {
        let keys = keys(3 * PART_KEYS + 5);
        let traffic = Traffic::in_order(&keys);
        let now = Instant::now();
        let firsts: Vec<usize> = (0..4).map(|turn| traffic.part(turn, now).start).collect();
        assert_eq!(firsts, [0, PART_KEYS, 2 * PART_KEYS, 0]);
    }

    #[test]
    fn a_trace_by_time_moves_whatever_the_turn() {
        let keys = keys(100 * PART_KEYS);
        let began = Instant::now();
        let traffic = Traffic::by_time(&keys, Clock { began, keys_per_ms: PART_KEYS });
        let part =
            |turn, ms| traffic.part(turn, began + Duration::from_millis(ms)).start / PART_KEYS;
        assert_eq!([part(0, 0), part(31, 0), part(32, 0), part(1000, 0)], [0, 31, 0, 8]);
        assert_eq!([part(0, 7), part(1, 7), part(31, 90), part(0, 100)], [7, 8, 21, 0]);
    }

    #[test]
    fn short_traces_are_one_part() {
        let keys = keys(10);
        let clock = Clock { began: Instant::now(), keys_per_ms: 7500 };
        for traffic in [Traffic::in_order(&keys), Traffic::by_time(&keys, clock)] {
            assert_eq!(traffic.part(5, Instant::now() + Duration::from_secs(3)), 0..10);
        }
    }
}
