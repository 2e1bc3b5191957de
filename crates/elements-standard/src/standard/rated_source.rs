//! Emits copies of one packet at a fixed rate.
//!
//! # Synopsis
//! `RatedSource([DATA, RATE, LIMIT, ACTIVE], LENGTH, STOP, BANDWIDTH)`
//!
//! # Ports
//! One output, push or pull.
//!
//! # Configuration
//! - `DATA`: packet data; default: the 69 bytes of text that Click uses
//! - `RATE`: packets per second, 0 for no limit; default: 10
//! - `LIMIT`: number of packets to emit; default: -1 (unlimited)
//! - `ACTIVE`: whether to emit packets; default: true
//! - `LENGTH`: packet length in bytes: `DATA` is truncated or repeated; default: length of `DATA`
//! - `STOP`: whether to stop the run after the last packet; default: false
//! - `BANDWIDTH`: rate in bytes per second, in place of `RATE`
//!
//! The first packet is emitted at once, the n-th after it n / `RATE` seconds later. Above 1000
//! packets per second, the packets of a millisecond are emitted together, at its end. A source that
//! is late catches up on at most 10 ms or two packets, whichever is more.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `data`, `rate`, `limit`, `active`, `length` | read, write | same as the arguments |
//! | `count` | read | packets |
//! | `reset` | write | sets `count` to 0 and restarts |
//! | `scheduled` | read | whether the task is scheduled |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! RatedSource(RATE 1000, LIMIT 5000, STOP true) -> Counter -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Bandwidth, Bytes};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::packet::PACKET_BYTES_MAX;
use warpswitch_packet::{BATCH_LEN_MAX, Batch};

use super::infinite_source::DATA;
use warpswitch_elements_support::format;
use warpswitch_elements_support::pacer::Pacer;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("RatedSource", "0/1", "a", || Box::<RatedSource>::default()).wakes();

/// See the module.
#[derive(Debug)]
pub struct RatedSource {
    data: Vec<u8>,
    /// Bytes of a packet; negative for those of the data.
    length: i32,
    pacer: Pacer,
    limit: i64,
    active: bool,
    stop: bool,
    count: u64,
    /// The bytes of a packet.
    packet: Vec<u8>,
}

impl Default for RatedSource {
    fn default() -> Self {
        Self {
            data: DATA.to_vec(),
            length: -1,
            pacer: Pacer::new(10),
            limit: -1,
            active: true,
            stop: false,
            count: 0,
            packet: Vec::new(),
        }
    }
}

impl RatedSource {
    fn prepare(&mut self) {
        let len = usize::try_from(self.length).unwrap_or(self.data.len()).min(PACKET_BYTES_MAX);
        self.packet = self.data.iter().copied().cycle().take(len).collect();
        self.packet.resize(len, 0);
    }

    fn has_ended(&self) -> bool {
        u64::try_from(self.limit).is_ok_and(|limit| self.count >= limit)
    }

    fn make(&mut self, cx: &mut Context<'_>, packets_max: usize) -> Batch {
        let now = cx.now();
        let mut packets = packets_max as u64;
        if let Ok(limit) = u64::try_from(self.limit) {
            packets = packets.min(limit - self.count);
        }
        let packets = self.pacer.depart(now, packets);
        let pool = cx.pool();
        let mut batch = pool.batch();
        for _ in 0..packets {
            let mut packet = pool.packet_of(&self.packet);
            packet.set_timestamp_ns(now.0);
            batch.push(packet);
        }
        self.count += packets;
        batch
    }

    /// Starts over, with a packet at once.
    fn restart(&mut self, cx: &mut Context<'_>) {
        self.pacer.restart();
        if self.active && cx.output_is_push(0) {
            cx.schedule_task();
        } else if self.active {
            cx.wake();
        }
    }
}

impl Element for RatedSource {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut data, mut bandwidth) = (Bytes(self.data.clone()), None::<Bandwidth>);
        args.read_p("DATA", &mut data)
            .read_p("RATE", &mut self.pacer.rate)
            .read_p("LIMIT", &mut self.limit)
            .read_p("ACTIVE", &mut self.active)
            .read("LENGTH", &mut self.length)
            .read("DATASIZE", &mut self.length)
            .read("STOP", &mut self.stop)
            .read("BANDWIDTH", &mut bandwidth);
        self.data = data.0;
        if usize::try_from(self.length).is_ok_and(|len| len > PACKET_BYTES_MAX) {
            args.error_at("LENGTH", "too many bytes for a packet");
        }
        if self.data.len() > PACKET_BYTES_MAX {
            args.error_at("DATA", "too many bytes for a packet");
        }
        self.prepare();
        if let Some(bandwidth) = bandwidth.filter(|bandwidth| bandwidth.bytes_per_second > 0) {
            let rate = bandwidth.bytes_per_second / self.packet.len().max(1) as u64;
            self.pacer.rate = u32::try_from(rate).unwrap_or(u32::MAX).max(1);
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if cx.output_is_push(0) {
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        if self.has_ended() {
            if self.stop {
                cx.stop_driver();
            }
            return false;
        }
        let batch = self.make(cx, BATCH_LEN_MAX);
        let made = batch.len();
        cx.emit_batch(0, batch);
        if made == BATCH_LEN_MAX || self.has_ended() {
            cx.schedule_task();
        } else {
            cx.set_timer(0, self.pacer.next(cx.now()));
        }
        made > 0
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        if cx.output_is_push(0) {
            cx.schedule_task();
        } else {
            cx.wake();
        }
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        if !self.active {
            return cx.pool().batch();
        }
        if self.has_ended() {
            if self.stop {
                cx.stop_driver();
            }
            return cx.pool().batch();
        }
        let batch = self.make(cx, packets_max);
        if batch.is_empty() {
            cx.set_timer(0, self.pacer.next(cx.now()));
        }
        batch
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("data").as_is(),
                HandlerSpec::both("rate"),
                HandlerSpec::both("limit"),
                HandlerSpec::both("active"),
                HandlerSpec::both("length"),
                HandlerSpec::read("count"),
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
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "rate" => self.pacer.rate.to_string(),
            "limit" => self.limit.to_string(),
            "active" => self.active.to_string(),
            "length" => self.length.to_string(),
            "scheduled" => cx.task_is_scheduled().to_string(),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "data" => self.data = format::packet_data(value)?,
            "rate" => {
                self.pacer.rate = format::parse(value)?;
                self.restart(cx);
            }
            "limit" => self.limit = format::parse(value)?,
            "active" => {
                self.active = format::parse(value)?;
                self.restart(cx);
            }
            "length" => self.length = format::parse(value)?,
            _ => {
                self.count = 0;
                self.restart(cx);
            }
        }
        self.prepare();
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.count = old.count;
            self.pacer.take_state(&old.pacer);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, run, run_until};

    fn until(ns: i64) -> SimulatedHost {
        SimulatedHost::running(0, ns)
    }

    #[test]
    fn packets_come_at_their_times() {
        let config = "RatedSource(DATA x, RATE 4, LIMIT 3) -> Print(TIMESTAMP true) -> Discard;";
        let expected = "1000000000.000000:    1 | 78\n1000000000.250000:    1 | 78\n\
                        1000000000.500000:    1 | 78\n";
        assert_eq!(run(config, &crate::registry()).1.said(), expected);
    }

    #[test]
    fn rates_are_kept_to_the_packet() {
        for (rate, expected) in [
            ("RATE 1", 10),
            ("RATE 3", 30),
            ("RATE 1000", 10_000),
            ("RATE 123457", 1_234_446 + 1),
            ("LENGTH 100, BANDWIDTH 8kbps", 100),
        ] {
            // Just before the tenth second is over; thousands of a second come at its end.
            let config = format!("RatedSource({rate}) -> c :: Counter -> Discard;");
            let (mut router, _) =
                run_until(&config, &crate::registry(), until(10 * Time::SECOND - 1));
            assert_eq!(router.read("c.count"), Ok(expected.to_string()), "{rate}");
        }
    }

    #[test]
    fn who_asks_is_woken_when_a_packet_is_due() {
        let config = "s :: RatedSource(RATE 100) -> c :: Counter -> u :: Unqueue -> Discard;";
        let (mut router, _) = run_until(config, &crate::registry(), until(Time::SECOND - 1));
        assert_eq!(router.read("c.count"), Ok("100".into()));
        router.write("s.active", "false").expect("it obeys");
        router.run(&mut SimulatedHost::running(Time::SECOND, 5 * Time::SECOND));
        assert_eq!(router.read("c.count"), Ok("100".into()));
    }

    #[test]
    fn it_stops_after_its_last_packet() {
        let config = "RatedSource(RATE 2, LIMIT 3, STOP true) -> c :: Counter -> Discard;
            RatedSource(RATE 1) -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("3".into()));
    }
}
