//! Shifts packet timestamps.
//!
//! # Synopsis
//! `AdjustTimestamp(TIME, FIRST, ALL)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `TIME`: time to add; a leading `-` subtracts it
//! - `FIRST`: whether to shift the first timestamp annotation (first packet of the flow) instead of
//!   the timestamp; default: false
//! - `ALL`: whether to shift packets without a timestamp too, from 1970 on; default: false
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> AdjustTimestamp(-1h) -> ToDump(earlier.pcap);
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Word};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;

use super::set_timestamp::{first_timestamp_ns, set_first_timestamp_ns};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("AdjustTimestamp", "1/1", "a/a", || Box::<AdjustTimestamp>::default());

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct AdjustTimestamp {
    shift_ns: i64,
    is_first: bool,
    all: bool,
}

/// A time with or without a sign, in nanoseconds.
fn shift_of(text: &str) -> Option<i64> {
    let (is_negative, time) = match text.strip_prefix('-') {
        Some(time) => (true, time),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let ns = i64::try_from(Duration::from_arg(time, &NoNames).ok()?.as_nanos()).ok()?;
    Some(if is_negative { -ns } else { ns })
}

impl Element for AdjustTimestamp {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut time = Word::default();
        args.read_mp("TIME", &mut time)
            .read("FIRST", &mut self.is_first)
            .read("ALL", &mut self.all);
        match shift_of(&time.0) {
            Some(shift_ns) => self.shift_ns = shift_ns,
            None if time.0.is_empty() => {}
            None => args.error_at("TIME", "invalid time"),
        }
        args.complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let before =
                if self.is_first { first_timestamp_ns(packet) } else { packet.timestamp_ns() };
            if before == 0 && !self.all {
                continue;
            }
            let after = before.saturating_add(self.shift_ns);
            if self.is_first {
                set_first_timestamp_ns(packet, after);
            } else {
                packet.set_timestamp_ns(after);
            }
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    fn times(adjust: &str) -> String {
        let config = format!(
            "FromIPSummaryDump(DATA \"!data ts\n0\n5.5\n1\n\", STOP true) -> {adjust}
             -> ToIPSummaryDump(-, FIELDS ts, HEADER false)"
        );
        String::from_utf8(run(&config, &crate::registry()).1.printed()).expect("text")
    }

    #[test]
    fn times_are_shifted_and_packets_without_one_as_asked_for() {
        assert_eq!(times("AdjustTimestamp(-1)"), "0.000000\n4.500000\n0.000000\n");
        assert_eq!(times("AdjustTimestamp(+1.5)"), "0.000000\n7.000000\n2.500000\n");
        assert_eq!(times("AdjustTimestamp(100ms, ALL true)"), "0.100000\n5.600000\n1.100000\n");
        let first = "AdjustTimestamp(1, FIRST true, ALL true) -> SetTimestampDelta(TYPE FIRST)";
        assert_eq!(times(first), "0.000000\n4.500000\n0.000000\n");
    }

    #[test]
    fn what_is_no_time_is_told() {
        for wrong in ["AdjustTimestamp", "AdjustTimestamp(x)", "AdjustTimestamp(--1)"] {
            let config = format!("Idle -> {wrong} -> Discard");
            assert!(router(&config, &crate::registry()).is_err(), "{wrong}");
        }
    }
}
