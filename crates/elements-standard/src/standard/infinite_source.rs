//! Emits copies of one packet as fast as possible.
//!
//! # Synopsis
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE], LENGTH, TIMESTAMP, STOP, END_CALL)`
//!
//! # Ports
//! One output, push or pull. A push output pauses while all downstream queues are full.
//!
//! # Configuration
//! - `DATA`: packet data; default: the 69 bytes of text that Click uses
//! - `LIMIT`: number of packets to emit; default: -1 (unlimited)
//! - `BURST`: packets per batch, at most 256. Default: 1 for the first 1024 packets, then 64 where
//!   the output does not depend on it (docs/bursts.md); always 1 if packets reach a queue
//! - `ACTIVE`: whether to emit packets; default: true
//! - `LENGTH`: packet length in bytes: `DATA` is truncated or repeated; default: length of `DATA`
//! - `TIMESTAMP`: whether to set the timestamp to the current time; default: true
//! - `STOP`: whether to stop the run after the last packet; default: false
//! - `END_CALL`: write handler to call after the last packet; not with `STOP`
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `data`, `limit`, `burst`, `active`, `length` | read, write | same as the arguments |
//! | `count` | read | packets |
//! | `reset` | write | sets `count` to 0 and restarts |
//! | `end_call` | write | same as the argument |
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
//! InfiniteSource(LIMIT 1000, BURST 100) -> Counter -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Bytes, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::packet::PACKET_BYTES_MAX;
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Frames, Lender, PacketType};

use crate::bursts::SourceBurst;
use warpswitch_elements_support::calls::wrong_call;
use warpswitch_elements_support::format::{packet_data, parse};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("InfiniteSource", "0/1", "a", || Box::new(InfiniteSource::new())).wakes();

/// The default packet data. Click's text: tests and scripts compare its bytes and its length.
pub(super) const DATA: &[u8] =
    b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// See the module.
#[derive(Debug)]
pub struct InfiniteSource {
    data: Vec<u8>,
    length: Option<u32>,
    limit: i64,
    burst: SourceBurst,
    count: i64,
    active: bool,
    timestamp: bool,
    stop: bool,
    end_call: String,
    /// What all packets are.
    lender: Lender,
    /// Whether the last packet was made and all that follows done.
    ended: bool,
    /// The queues to wait for while they are full.
    queues: Vec<usize>,
}

impl InfiniteSource {
    fn new() -> Self {
        Self {
            data: DATA.to_vec(),
            length: None,
            limit: -1,
            burst: SourceBurst::default(),
            count: 0,
            active: true,
            timestamp: true,
            stop: false,
            end_call: String::new(),
            lender: Lender::default(),
            ended: false,
            queues: Vec::new(),
        }
    }

    fn prepare(&mut self) {
        let len = self.length.map_or(self.data.len(), |len| len as usize);
        let mut packet: Vec<u8> = self.data.iter().copied().cycle().take(len).collect();
        // No data can be repeated: these are zeros.
        packet.resize(len, 0);
        let mut frames = Frames::default();
        assert!(frames.push(&packet, 0, PacketType::Host), "longer ones are refused");
        self.lender = Lender::new(frames);
    }

    /// Packets that it may yet make, of `wanted`.
    fn left(&self, wanted: usize) -> usize {
        match u64::try_from(self.limit) {
            Ok(limit) => wanted.min(limit.saturating_sub(self.count as u64) as usize),
            Err(_) => wanted,
        }
    }

    fn make(&mut self, cx: &mut Context<'_>, packets: usize) -> Batch {
        let now = cx.now().0;
        let now = if self.timestamp { now } else { 0 };
        let batch = cx.pool().borrow_one(&mut self.lender, 0, packets, now);
        self.count += packets as i64;
        batch
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if !self.end_call.is_empty() {
            cx.call_handler(&self.end_call.clone());
        }
        if self.stop {
            cx.stop_driver();
        }
    }
}

impl Element for InfiniteSource {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut burst = None::<i32>;
        let (mut data, mut end_call) = (Bytes(self.data.clone()), Raw(String::new()));
        args.read_p("DATA", &mut data)
            .read_p("LIMIT", &mut self.limit)
            .read_p("BURST", &mut burst)
            .read_p("ACTIVE", &mut self.active)
            .read("LENGTH", &mut self.length)
            .read("DATASIZE", &mut self.length)
            .read("TIMESTAMP", &mut self.timestamp)
            .read("STOP", &mut self.stop)
            .read("END_CALL", &mut end_call);
        (self.data, self.end_call) = (data.0, end_call.0);
        if self.length.is_some_and(|len| len as usize > PACKET_BYTES_MAX) {
            args.error_at("LENGTH", "too many bytes for a packet");
        } else if self.data.len() > PACKET_BYTES_MAX {
            args.error_at("DATA", "too many bytes for a packet");
        } else {
            self.prepare();
        }
        args.consume()?;
        self.burst.given = burst.and_then(|burst| u32::try_from(burst).ok());
        if burst.is_some_and(|burst| burst < 1) {
            args.error_at("", "burst size must be >= 1");
        } else if self.stop && !self.end_call.is_empty() {
            args.error_by("END_CALL", "END_CALL and STOP are mutually exclusive");
            args.help(warpswitch_elements_support::calls::STOP_OR_CALL);
        }
        args.complete()
    }

    fn wrong_calls(&self, cx: &mut Context<'_>) -> Vec<String> {
        wrong_call(cx, "END_CALL", &self.end_call, self.handlers()).into_iter().collect()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.burst.settle_without_queues(cx);
        if cx.output_is_push(0) {
            self.queues = cx.listen_downstream(0);
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active || cx.are_full(&self.queues) {
            return false;
        }
        let packets = self.left(self.burst.len());
        self.burst.note(packets);
        let batch = self.make(cx, packets);
        cx.emit_batch(0, batch);
        // The end comes when its turn comes again: what it made is done with then.
        if packets > 0 {
            cx.schedule_task();
        } else {
            self.end(cx);
        }
        packets > 0
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let packets_max = packets_max.min(BATCH_LEN_MAX);
        let packets = if self.active { self.left(packets_max) } else { 0 };
        if self.active && packets == 0 {
            self.end(cx);
        }
        self.make(cx, packets)
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("data").as_is(),
                HandlerSpec::both("limit"),
                HandlerSpec::both("burst"),
                HandlerSpec::both("active"),
                HandlerSpec::both("length"),
                HandlerSpec::read("count"),
                HandlerSpec::button("reset"),
                HandlerSpec::write("end_call"),
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
            "limit" => self.limit.to_string(),
            "burst" => {
                self.burst.given.map_or(self.burst.len(), |given| given as usize).to_string()
            }
            "active" => self.active.to_string(),
            "length" => self.length.map_or("-1".to_owned(), |length| length.to_string()),
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
            "data" => self.data = packet_data(value)?,
            "limit" => {
                let bad = |_| HandlerError::failed("limit parameter must be integer");
                self.limit = parse(value).map_err(bad)?;
            }
            "burst" => {
                let bad = || HandlerError::failed("burstsize parameter must be integer >= 1");
                let burst = parse::<i32>(value).ok().filter(|&burst| burst >= 1).ok_or_else(bad)?;
                self.burst.given = Some(burst as u32);
            }
            "active" => {
                let bad = |_| HandlerError::failed("active parameter must be boolean");
                self.active = parse(value).map_err(bad)?;
            }
            "length" => {
                let bad = || HandlerError::failed("length must be integer");
                let length = parse::<i64>(value).map_err(|_| bad())?;
                let length = (length >= 0).then_some(length.min(PACKET_BYTES_MAX as i64));
                self.length = length.map(|length| length as u32);
            }
            "end_call" => self.end_call = value.trim().to_owned(),
            _ => self.count = 0,
        }
        self.prepare();
        if self.active && self.left(1) > 0 {
            self.ended = false;
            if cx.output_is_push(0) {
                cx.schedule_task();
            } else {
                cx.wake();
            }
        }
        Ok(String::new())
    }

    fn is_quiet(&self) -> Option<bool> {
        // The end is told to who asks once more.
        Some(!self.active || self.ended && self.left(1) == 0)
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.count, self.ended) = (old.count, old.ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn simulated_time_reaches_timers_beside_an_endless_source() {
        let config = "i :: InfiniteSource -> Discard; Script(wait 1ms, stop);";
        let (mut router, _) = run(config, &crate::registry());
        let count: u64 = router.read("i.count").expect("it is there").parse().expect("a number");
        assert!(count > 0, "the source ran until the timer expired");
    }

    #[test]
    fn default_packets_have_the_length_of_clicks() {
        for source in ["InfiniteSource(LIMIT 1)", "RatedSource(LIMIT 1)", "TimedSource(LIMIT 1)"] {
            let config =
                format!("{source} -> c :: Counter -> Print(a, 69, CONTENTS ASCII) -> Discard");
            let (mut router, transcript) = run(&config, &crate::registry());
            assert_eq!(router.read("c.byte_count"), Ok("69".into()), "{source}");
            let text = transcript.said().replace([' ', '\n'], "");
            assert!(text.contains("atleast64byteslong.Well,nowitis."), "{source}: {text}");
        }
    }

    #[test]
    fn it_makes_what_it_is_told_and_stops() {
        let config = r#"s :: InfiniteSource(DATA \<010203>, LIMIT 1000, BURST 64, STOP true)
            -> c :: Counter -> Discard;
            InfiniteSource(LENGTH 5, LIMIT 2) -> d :: Counter -> Discard;"#;
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.byte_count"), Ok("3000".into()));
        assert_eq!(router.read("d.byte_count"), Ok("10".into()));
        assert_eq!(router.read("c.batches"), Ok("16".into()));
        assert!(router.packets_made() <= 70, "packets are used again");
    }

    #[test]
    fn no_number_makes_it_take_more_memory_than_a_batch() {
        let config = "s :: InfiniteSource(LIMIT 100000, BURST 2147483647) -> c :: Counter
            -> Discard;";
        let pulled = "s :: InfiniteSource(LIMIT 100000) -> Unqueue(BURST 2147483647)
            -> c :: Counter -> Discard;";
        for config in [config, pulled] {
            let (mut router, _) = run(config, &crate::registry());
            assert_eq!(router.read("c.count"), Ok("100000".into()));
            assert!(router.packets_made() <= 512, "a batch at a time");
            assert!(router.write("s.data", &"x".repeat(1 << 20)).is_err());
        }
        let config = "InfiniteSource(DATA \"\", LENGTH 5, LIMIT 3) -> c :: Counter -> Discard;";
        let (mut empty, _) = run(config, &crate::registry());
        assert_eq!(empty.read("c.byte_count"), Ok("15".into()), "zeros where there is no data");
        let long = format!("InfiniteSource(DATA {}) -> Discard;", "x".repeat(300_000));
        for config in ["InfiniteSource(LENGTH 4294967295) -> Discard;", &long] {
            let errors = router(config, &crate::registry()).err().expect("it is wrong").to_click();
            assert!(errors.contains("too many bytes for a packet"), "{errors}");
        }
    }
}
