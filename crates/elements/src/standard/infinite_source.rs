//! Makes packets as fast as it can.
//!
//! # Synopsis
//! `InfiniteSource([DATA, LIMIT, BURST, ACTIVE], LENGTH, TIMESTAMP, STOP, END_CALL)`
//!
//! # Ports
//! One output, push or pull.
//!
//! # Configuration
//! - `DATA`: the bytes of every packet; by default 64 bytes of text
//! - `LIMIT`: packets to make, -1 (the default) for no end
//! - `BURST`: packets a batch, 1 by default; more is faster
//! - `ACTIVE`: whether it makes packets, true by default
//! - `LENGTH`: bytes of a packet: `DATA` is cut, or repeated, to as many
//! - `TIMESTAMP`: whether packets get the time, true by default
//! - `STOP`: whether to stop the run after the last packet, false by default
//! - `END_CALL`: a write handler to call after the last packet
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `data`, `limit`, `burst`, `active`, `length` | read, write | as the arguments |
//! | `count` | read | packets |
//! | `reset` | write | starts over |
//! | `end_call` | write | as the argument |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Belongs to one worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 1000, BURST 100) -> Counter -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Bytes, FromArg, NoNames, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("InfiniteSource", "0/1", "a", || Box::new(InfiniteSource::new()));

/// What packets hold unless told: 64 bytes.
const DATA: &[u8] = b"warpswitch made this packet, and it is sixty-four bytes long ok.";

/// See the module.
#[derive(Debug)]
pub struct InfiniteSource {
    data: Vec<u8>,
    length: Option<u32>,
    limit: i64,
    burst: i32,
    count: i64,
    active: bool,
    timestamp: bool,
    stop: bool,
    end_call: String,
    /// The bytes of a packet.
    packet: Vec<u8>,
    /// Whether the last packet was made and all that follows done.
    ended: bool,
}

impl InfiniteSource {
    fn new() -> Self {
        Self {
            data: DATA.to_vec(),
            length: None,
            limit: -1,
            burst: 1,
            count: 0,
            active: true,
            timestamp: true,
            stop: false,
            end_call: String::new(),
            packet: Vec::new(),
            ended: false,
        }
    }

    fn prepare(&mut self) {
        let len = self.length.map_or(self.data.len(), |len| len as usize);
        self.packet = self.data.iter().copied().cycle().take(len).collect();
        self.packet.resize(len, 0);
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
        let pool = cx.pool();
        let mut batch = pool.batch();
        for _ in 0..packets {
            let mut packet = pool.packet_of(&self.packet);
            if self.timestamp {
                packet.set_timestamp_ns(now);
            }
            batch.push(packet);
        }
        self.count += packets as i64;
        batch
    }

    fn end(&mut self, cx: &mut Context<'_>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if !self.end_call.is_empty() {
            crate::calls::write(cx, &self.end_call.clone());
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
        let (mut data, mut end_call) = (Bytes(self.data.clone()), Raw(String::new()));
        args.read_p("DATA", &mut data)
            .read_p("LIMIT", &mut self.limit)
            .read_p("BURST", &mut self.burst)
            .read_p("ACTIVE", &mut self.active)
            .read("LENGTH", &mut self.length)
            .read("TIMESTAMP", &mut self.timestamp)
            .read("STOP", &mut self.stop)
            .read("END_CALL", &mut end_call);
        (self.data, self.end_call) = (data.0, end_call.0);
        if self.length.is_some_and(|len| len as usize > warpswitch_packet::packet::PACKET_BYTES_MAX)
        {
            args.error_at("LENGTH", "too many bytes for a packet");
        }
        self.prepare();
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if cx.output_is_push(0) && self.active {
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        let burst = usize::try_from(self.burst).unwrap_or(BATCH_LEN_MAX);
        let packets = self.left(burst);
        let batch = self.make(cx, packets);
        cx.emit_batch(0, batch);
        if self.left(1) > 0 {
            cx.schedule_task();
        } else {
            self.end(cx);
        }
        packets > 0
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let packets = if self.active { self.left(packets_max) } else { 0 };
        let batch = self.make(cx, packets);
        if self.active && self.left(1) == 0 {
            self.end(cx);
        }
        batch
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
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "limit" => self.limit.to_string(),
            "burst" => self.burst.to_string(),
            "active" => self.active.to_string(),
            "length" => self.packet.len().to_string(),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        fn parse<T: FromArg>(value: &str) -> Result<T, HandlerError> {
            T::from_arg(value.trim(), &NoNames)
                .map_err(|error| HandlerError::failed(error.to_string()))
        }
        match name {
            "data" => self.data = parse::<Bytes>(value)?.0,
            "limit" => self.limit = parse(value)?,
            "burst" => self.burst = parse(value)?,
            "active" => self.active = parse(value)?,
            "length" => self.length = Some(parse(value)?),
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

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.count, self.ended) = (old.count, old.ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

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
}
