//! Sets packet timestamps.
//!
//! # Synopsis
//! `SetTimestamp([TIMESTAMP], FIRST)`, `SetTimestampDelta(TYPE)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `TIMESTAMP`: timestamp in seconds since 1970; default: current time
//! - `FIRST`: whether to set the first timestamp annotation (first packet of the flow) instead of
//!   the timestamp; default: false
//! - `TYPE`: new timestamp: `RANGE`, time since the first packet; `NOW`, age of the packet;
//!   `FIRST`, time since the first packet of the flow; default: `RANGE`
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `first` | read | timestamp of the first packet, `SetTimestampDelta` only |
//! | `reset` | write | makes the next packet the first one, `SetTimestampDelta` only |
//!
//! # Drops
//! None. `SetTimestampDelta` forwards packets without a timestamp unchanged.
//!
//! # Threads
//! Runs on one worker. `SetTimestamp` reads the clock once per batch.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> SetTimestampDelta -> Print(TIMESTAMP true) -> Discard;
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet, annotation};

use warpswitch_elements_support::format;

/// The class `SetTimestamp`.
pub static CLASS: ElementClass =
    ElementClass::new("SetTimestamp", "1/1", "a/a", || Box::<SetTimestamp>::default());
/// The class `SetTimestampDelta`.
pub static DELTA: ElementClass =
    ElementClass::new("SetTimestampDelta", "1/1", "a/a", || Box::<SetTimestampDelta>::default());

pub(super) fn first_timestamp_ns(packet: &Packet) -> i64 {
    let at = annotation::FIRST_TIMESTAMP;
    let bytes = packet.annotations()[at..at + 8].try_into().expect("eight bytes");
    i64::from_ne_bytes(bytes)
}

pub(super) fn set_first_timestamp_ns(packet: &mut Packet, ns: i64) {
    let at = annotation::FIRST_TIMESTAMP;
    packet.annotations_mut()[at..at + 8].copy_from_slice(&ns.to_ne_bytes());
}

/// See the module.
#[derive(Debug, Default)]
pub struct SetTimestamp {
    timestamp: Option<Duration>,
    is_first: bool,
}

impl Element for SetTimestamp {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut is_delta = false;
        args.read_p("TIMESTAMP", &mut self.timestamp)
            .read("FIRST", &mut self.is_first)
            .read("DELTA", &mut is_delta);
        args.complete()?;
        if is_delta {
            let instead = "use SetTimestampDelta(TYPE FIRST)";
            args.error_at("", &format!("SetTimestamp(DELTA) is deprecated, {instead}"));
        }
        args.consume()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let given = self.timestamp.map(|at| i64::try_from(at.as_nanos()).unwrap_or(i64::MAX));
        let ns = given.unwrap_or_else(|| cx.read_clock().0);
        for packet in batch.iter_mut() {
            if self.is_first {
                set_first_timestamp_ns(packet, ns);
            } else {
                packet.set_timestamp_ns(ns);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Since {
    #[default]
    FirstPacket,
    Now,
    FirstOfFlow,
}

/// See the module.
#[derive(Debug, Default)]
pub struct SetTimestampDelta {
    since: Since,
    /// The first packet's time; 0 if there was none.
    first_ns: i64,
}

impl Element for SetTimestampDelta {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut kind = Word("RANGE".to_owned());
        args.read("TYPE", &mut kind).complete()?;
        match &kind.0[..] {
            "RANGE" => self.since = Since::FirstPacket,
            "NOW" => self.since = Since::Now,
            "FIRST" => self.since = Since::FirstOfFlow,
            _ => args.error_at("", "bad TYPE"),
        }
        args.consume()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let now = cx.now().0;
        for packet in batch.iter_mut() {
            let ns = packet.timestamp_ns();
            if ns == 0 {
                continue;
            }
            packet.set_timestamp_ns(match self.since {
                Since::FirstPacket => {
                    if self.first_ns == 0 {
                        self.first_ns = ns;
                    }
                    ns.saturating_sub(self.first_ns)
                }
                Since::Now => now.saturating_sub(ns),
                Since::FirstOfFlow => ns.saturating_sub(first_timestamp_ns(packet)),
            });
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("first"), HandlerSpec::button("reset")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(format::timestamp(self.first_ns))
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        self.first_ns = 0;
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.first_ns = old.first_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    /// The times of three packets that are made a quarter of a second apart.
    fn times(elements: &str) -> Vec<String> {
        let config = format!(
            "RatedSource(RATE 4, LIMIT 3) -> {elements}
             -> Print(TIMESTAMP true, CONTENTS NONE) -> Discard;"
        );
        let (_, transcript) = run(&config, &crate::registry());
        let said = transcript.said();
        said.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    }

    #[test]
    fn times_are_set_and_counted_from_elsewhere() {
        for (elements, expected) in [
            ("SetTimestamp(7.5)", ["7.500000", "7.500000", "7.500000"]),
            (
                "SetTimestamp(7) -> SetTimestamp",
                ["1000000000.000000", "1000000000.250000", "1000000000.500000"],
            ),
            ("SetTimestampDelta", ["0.000000", "0.250000", "0.500000"]),
            (
                "SetTimestamp(1) -> SetTimestampDelta(TYPE NOW)",
                ["999999999.000000", "999999999.250000", "999999999.500000"],
            ),
            (
                "SetTimestamp(1.000000001, FIRST true) -> SetTimestampDelta(TYPE FIRST)",
                ["999999998.999999999", "999999999.249999999", "999999999.499999999"],
            ),
            ("SetTimestamp(0) -> SetTimestampDelta", ["0.000000"; 3]),
            (
                "SetTimestamp(5) -> SetTimestamp(8, FIRST true) -> SetTimestampDelta(TYPE FIRST)",
                ["-3.000000"; 3],
            ),
        ] {
            assert_eq!(times(elements), expected, "{elements}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused() {
        for (element, message) in [
            ("SetTimestampDelta(TYPE x)", "bad TYPE"),
            ("SetTimestamp(DELTA true)", "use SetTimestampDelta(TYPE FIRST)"),
        ] {
            let config = format!("Idle -> {element} -> Discard");
            let errors = router(&config, &crate::registry()).err().expect("it is wrong");
            assert!(errors.to_click().contains(message), "{}", errors.to_click());
        }
    }
}
