//! Delays packets like a serial link: by transmission time and latency.
//!
//! # Synopsis
//! `LinkUnqueue(LATENCY, BANDWIDTH)`
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Configuration
//! - `LATENCY`: propagation delay of the link
//! - `BANDWIDTH`: bytes per second, at least 100; 0 for no limit
//!
//! A packet is pulled when the link is free. Packets are transmitted one after another;
//! transmission time covers the packet's bytes and its extra length annotation, the bytes that were
//! cut off. The packets in flight are those of one `LATENCY`, at most 256.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `latency` | read, write | time; a write drops packets in flight |
//! | `bandwidth` | read, write | bytes per second, at least 100; a write drops packets in flight |
//! | `size` | read | packets in flight |
//! | `reset` | write | drops packets in flight |
//! | `scheduled` | read | whether the task is scheduled |
//!
//! # Drops
//! - `reset`: packet in flight when `latency`, `bandwidth` or `reset` was written
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! RatedSource -> Queue -> LinkUnqueue(5ms, 1Mbps) -> Discard;
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, Bandwidth};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::{BATCH_LEN_MAX, Packet, annotation};

use warpswitch_elements_support::format;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("LinkUnqueue", "1/1", "l/h", || Box::<LinkUnqueue>::default())
        .drops(&["reset"]);

/// The smallest bandwidth, in bytes a second.
const BANDWIDTH_MIN: u64 = 100;

/// See the module.
#[derive(Debug, Default)]
pub struct LinkUnqueue {
    latency: Duration,
    bytes_per_second: u64,
    /// On the way, with the times at which they leave.
    packets: VecDeque<Packet>,
    /// Whether packets came without a pause, so that the next one begins where the last one ends.
    is_busy: bool,
    is_woken: bool,
}

impl LinkUnqueue {
    /// Packets on the way.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// How long the bytes of `packet` take.
    fn duration(&self, packet: &Packet) -> Duration {
        let bytes = packet.len() as u64 + u64::from(packet.anno_u32(annotation::EXTRA_LEN));
        let ns = (bytes * Time::SECOND as u64).checked_div(self.bytes_per_second).unwrap_or(0);
        Duration::from_nanos(ns)
    }

    /// When the last packet leaves.
    fn last(&self) -> Option<Time> {
        self.packets.back().map(|packet| Time(packet.timestamp_ns()))
    }

    /// Takes packets as long as there is room on the link. Returns whether there were any.
    fn take(&mut self, cx: &mut Context<'_>) -> bool {
        let arrival = cx.now() + self.latency;
        let mut worked = false;
        while self.last().is_none_or(|last| last <= arrival) && self.packets.len() < BATCH_LEN_MAX {
            let mut got = cx.pull(0, 1);
            let packet = got.drain().next();
            cx.pool().recycle_empty(got);
            let Some(mut packet) = packet else {
                self.is_busy = false;
                break;
            };
            let begin = self.last().filter(|_| self.is_busy).unwrap_or(arrival);
            packet.set_timestamp_ns((begin + self.duration(&packet)).0);
            self.packets.push_back(packet);
            (self.is_busy, worked) = (true, true);
        }
        worked
    }

    fn reset(&mut self, cx: &mut Context<'_>) {
        for packet in self.packets.drain(..) {
            cx.drop_packet(packet, 0);
        }
        cx.clear_timer(0);
        cx.schedule_task();
    }
}

impl Element for LinkUnqueue {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut bandwidth = Bandwidth::default();
        args.read_mp("LATENCY", &mut self.latency).read_mp("BANDWIDTH", &mut bandwidth);
        self.bytes_per_second = bandwidth.bytes_per_second;
        if (1..BANDWIDTH_MIN).contains(&self.bytes_per_second) {
            let message = "bandwidth too small, minimum 100Bps, or 0 to disable bandwidth";
            args.error_at("", message);
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.is_woken = cx.listen_upstream(0);
        cx.schedule_task();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let mut worked = self.take(cx);
        let now = cx.now();
        let mut batch = cx.pool().batch();
        while let Some(packet) = self.packets.pop_front_if(|p| p.timestamp_ns() <= now.0) {
            batch.push(packet);
            worked = true;
        }
        cx.emit_batch(0, batch);
        let (Some(first), Some(last)) = (self.packets.front(), self.packets.back()) else {
            if worked || !self.is_woken {
                cx.schedule_task();
            }
            return worked;
        };
        let mut next = first.timestamp_ns();
        if self.is_busy || !self.is_woken {
            // The link takes another packet by then.
            next = next.min(Time(last.timestamp_ns()).0 - self.latency.as_nanos() as i64);
        }
        if next <= now.0 {
            cx.schedule_task();
        } else {
            cx.set_timer(0, Time(next));
        }
        worked
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        cx.schedule_task();
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("latency"),
                HandlerSpec::both("bandwidth"),
                HandlerSpec::read("size"),
                HandlerSpec::button("reset"),
                HandlerSpec::read("scheduled"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "latency" => format::interval(self.latency),
            "bandwidth" => self.bytes_per_second.to_string(),
            "scheduled" => cx.task_is_scheduled().to_string(),
            _ => self.packets.len().to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if name == "latency" {
            let bad = |_| HandlerError::failed("latency must be a timestamp");
            self.latency = format::parse(value).map_err(bad)?;
        } else if name == "bandwidth" {
            let bad = |_| HandlerError::failed("invalid bandwidth");
            let bandwidth: Bandwidth = format::parse(value).map_err(bad)?;
            if bandwidth.bytes_per_second < BANDWIDTH_MIN {
                return Err(HandlerError::failed("bandwidth too small, minimum 100Bps"));
            }
            self.bytes_per_second = bandwidth.bytes_per_second;
        }
        self.reset(cx);
        Ok(String::new())
    }

    fn held(&self) -> usize {
        self.packets.len()
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.packets.extend(old.packets.drain(..));
            self.is_busy = old.is_busy;
            cx.schedule_task();
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, router, run};

    /// The times, in microseconds, at which packets of so many bytes leave.
    fn times(lens: &[usize], link: &str) -> Vec<u64> {
        let mut config = format!(
            "q :: Queue -> u :: LinkUnqueue({link}) -> Print(TIMESTAMP true, CONTENTS NONE)
             -> SetTimestamp -> Discard;"
        );
        for len in lens {
            config += &format!("InfiniteSource(LENGTH {len}, LIMIT 1) -> q;");
        }
        let (router, transcript) = run(&config, &crate::registry());
        assert_eq!(router.standing(), []);
        let said = transcript.said();
        let micros = |line: &str| line.split_once(':')?.0.split_once('.')?.1.parse().ok();
        said.lines().filter_map(micros).collect()
    }

    #[test]
    fn bytes_take_their_time_one_after_another() {
        // 12,500 bytes a second: 20 bytes are 1.6 ms, 1600 are 128 ms.
        assert_eq!(
            times(&[20, 20, 1600, 20, 1600, 20], "0.005s, 100kbps"),
            [6_600, 8_200, 136_200, 137_800, 265_800, 267_400]
        );
        assert_eq!(times(&[20, 1600], "3ms, 0"), [3_000, 3_000]);
    }

    #[test]
    fn a_reset_drops_what_is_on_the_way() {
        let config = "InfiniteSource(LIMIT 3, BURST 3, LENGTH 100) -> q :: Queue
            -> u :: LinkUnqueue(1s, 1000Bps) -> c :: Counter -> Discard;";
        let (mut router, _) = router(config, &crate::registry()).expect("it is right");
        router.run(&mut SimulatedHost::running(0, 500_000_000));
        assert_eq!(
            (router.read("u.size"), router.read("u.latency")),
            (Ok("3".into()), Ok("1.000000s".into()))
        );
        router.write("u.bandwidth", "1Mbps").expect("it obeys");
        assert_eq!(router.read("u.drops_by_reason"), Ok("3\treset\n".into()));
        assert!(router.write("u.bandwidth", "10Bps").is_err());
        assert_eq!(
            (router.read("u.bandwidth"), router.packets_unaccounted()),
            (Ok("125000".into()), 0)
        );
    }
}
