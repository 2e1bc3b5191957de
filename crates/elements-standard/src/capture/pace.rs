//! Replay of a capture with its original timing.

use std::time::Duration;

use warpswitch_graph::Time;

/// Keeps the distance in time of packets: the first is due at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The time when it began, and the first packet's.
    began: Option<(Time, i64)>,
}

impl Pace {
    /// When a packet that was seen at `timestamp_ns` is due; none if it is now.
    pub(crate) fn wait_until(&mut self, now: Time, timestamp_ns: i64) -> Option<Time> {
        let (began, first) = *self.began.get_or_insert((now, timestamp_ns));
        let after = u64::try_from(timestamp_ns.saturating_sub(first)).unwrap_or(0);
        let due = began + Duration::from_nanos(after);
        (due > now).then_some(due)
    }

    /// Begins again with the next packet.
    pub(crate) fn restart(&mut self) {
        self.began = None;
    }
}
