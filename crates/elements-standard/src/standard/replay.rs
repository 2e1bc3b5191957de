//! Stores packets in memory and emits them repeatedly.
//!
//! # Synopsis
//! `ReplayUnqueue(STOP, LIMIT, BURST, ACTIVE, QUICK_CLONE, VERBOSE)`
//!
//! # Ports
//! One pull input, one push output. Packets are pulled until the input is empty or `LIMIT` is
//! reached; then the stored packets are emitted in order, from the start again after the last one.
//! Emission pauses while all downstream queues are full.
//!
//! # Configuration
//! - `STOP`: number of replays; default: -1 (unlimited); the run stops after the last one
//! - `LIMIT`: maximum number of packets to store; default: -1 (limited by memory, 1 GiB)
//! - `BURST`: packets per batch; default: 32
//! - `ACTIVE`: whether to load and emit packets; default: true
//! - `QUICK_CLONE`, `VERBOSE`: accepted for compatibility, ignored
//!
//! Packet data, timestamp and packet type are stored. Header offsets and annotations are not: place
//! the element directly after the source.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//! | `burst` | read, write | same as the argument |
//! | `stop` | read, write | remaining replays, -1 for unlimited |
//! | `loaded` | read | stored packets |
//! | `count` | read | emitted packets |
//! | `reset` | write | restarts with the stored packets |
//!
//! # Drops
//! - `no room`: the packet that exceeded the memory limit
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> ReplayUnqueue(STOP 100, BURST 64) -> Strip(14) -> CheckIPHeader -> Discard;
//! ```
//!
//! # Why not packets
//! A packet buffer has kilobytes of room for headers and growth, which would occupy cache for
//! frames of sixty bytes. Stored frames are contiguous and start at cache lines, so a replay reads
//! memory in order, as a network card would have written it. Batches share the frames
//! copy-on-write: an element that modifies a packet copies its frame. If most frames are modified,
//! they are copied up front.

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Frames, Lender, Packet};

use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ReplayUnqueue", "1/1", "l/h", || Box::new(ReplayUnqueue::new()))
        .consumes_as("kept to be replayed")
        .drops(&["no room"]);

/// Number of the reason.
const NO_ROOM: usize = 0;

/// See the module.
#[derive(Debug)]
pub struct ReplayUnqueue {
    /// Frames, while they are loaded.
    loading: Frames,
    is_loaded: bool,
    /// The same, when they all are there.
    lender: Lender,
    /// The frame that is played next.
    next: usize,
    /// Times that are left.
    stop: i64,
    stop_at_start: i64,
    limit: i64,
    burst: u32,
    active: bool,
    count: u64,
    is_woken: bool,
    /// The queues to wait for while they are full.
    queues: Vec<usize>,
}

impl ReplayUnqueue {
    fn new() -> Self {
        Self {
            loading: Frames::default(),
            is_loaded: false,
            lender: Lender::default(),
            next: 0,
            stop: -1,
            stop_at_start: -1,
            limit: -1,
            burst: 32,
            active: true,
            count: 0,
            is_woken: false,
            queues: Vec::new(),
        }
    }

    /// Pulls and keeps at most a batch of packets. Returns whether there were any, or loading is
    /// complete.
    fn load(&mut self, cx: &mut Context<'_>) -> bool {
        let wanted = match usize::try_from(self.limit) {
            Ok(limit) => limit.saturating_sub(self.loading.len()).min(BATCH_LEN_MAX),
            Err(_) => BATCH_LEN_MAX,
        };
        if wanted == 0 {
            self.is_loaded = true;
            return true;
        }
        let mut batch = cx.pull(0, wanted);
        let got = !batch.is_empty();
        self.is_loaded = !got && !self.loading.is_empty();
        for packet in batch.drain() {
            if self.keep(&packet) {
                cx.consume(packet);
            } else {
                self.is_loaded = true;
                cx.drop_packet(packet, NO_ROOM);
            }
        }
        cx.pool().recycle_empty(batch);
        got || self.is_loaded
    }

    /// Copies a packet, if there is room.
    fn keep(&mut self, packet: &Packet) -> bool {
        self.loading.push(packet.data(), packet.timestamp_ns(), packet.packet_type())
    }

    /// Frames that it keeps.
    fn frames(&self) -> usize {
        self.loading.len() + self.lender.frames().len()
    }

    /// The next packets, up to the end.
    fn play(&mut self, cx: &mut Context<'_>) -> Batch {
        let end = (self.next + self.burst as usize).min(self.frames());
        let batch = cx.pool().borrow(&mut self.lender, self.next..end);
        self.count += batch.len() as u64;
        self.next = end;
        batch
    }

    /// Goes back to the start, if it is to play once more.
    fn turn(&mut self) {
        if self.next == self.frames() && self.stop != 0 {
            self.next = 0;
            self.stop = if self.stop > 0 { self.stop - 1 } else { self.stop };
        }
    }

    fn may_work(&self) -> bool {
        self.active && self.burst > 0 && self.limit != 0
    }
}

impl Element for ReplayUnqueue {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut quick_clone, mut verbose) = (false, 0i32);
        args.read("STOP", &mut self.stop)
            .read("LIMIT", &mut self.limit)
            .read("BURST", &mut self.burst)
            .read("ACTIVE", &mut self.active)
            .read("QUICK_CLONE", &mut quick_clone)
            .read("VERBOSE", &mut verbose);
        if self.burst == 0 {
            args.error_at("BURST", "must be at least 1");
        }
        self.stop_at_start = self.stop;
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.is_woken = cx.listen_upstream(0);
        self.queues = cx.listen_downstream(0);
        if self.may_work() {
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.may_work() || cx.are_full(&self.queues) {
            return false;
        }
        if !self.is_loaded {
            let worked = self.load(cx);
            // An input that has no packets at first may wake this element once it has some.
            if worked || !self.is_woken {
                cx.schedule_task();
            }
            if self.is_loaded {
                self.lender = Lender::new(std::mem::take(&mut self.loading));
                self.next = self.frames();
                self.turn();
            }
            return worked;
        }
        if self.next == self.frames() {
            self.active = false;
            cx.stop_driver();
            return false;
        }
        let batch = self.play(cx);
        cx.emit_batch(0, batch);
        // The end comes when its turn comes again: what it played is done with then.
        self.turn();
        cx.schedule_task();
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("active"),
                HandlerSpec::both("burst"),
                HandlerSpec::both("stop"),
                HandlerSpec::read("loaded"),
                HandlerSpec::read("count"),
                HandlerSpec::button("reset"),
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
            "active" => self.active.to_string(),
            "burst" => self.burst.to_string(),
            "stop" => self.stop.to_string(),
            "loaded" => self.frames().to_string(),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let bad = |_| HandlerError::failed("syntax error");
        match name {
            "active" => self.active = parse(value).map_err(bad)?,
            "burst" => self.burst = parse(value).map_err(bad)?,
            "stop" => self.stop = parse(value).map_err(bad)?,
            _ => {
                (self.count, self.stop, self.active) = (0, self.stop_at_start, true);
                if self.is_loaded {
                    self.next = self.frames();
                    self.turn();
                }
            }
        }
        if self.may_work() {
            cx.schedule_task();
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        self.loading = std::mem::take(&mut old.loading);
        self.lender = std::mem::take(&mut old.lender);
        (self.is_loaded, self.count, self.next) = (old.is_loaded, old.count, old.next);
        if self.stop_at_start == old.stop_at_start {
            self.stop = old.stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, run};

    #[test]
    fn frames_are_played_as_often_as_asked_for() {
        let config = r#"InfiniteSource(DATA "a", LENGTH 1, LIMIT 40, BURST 7)
                -> q :: RoundRobinSched; InfiniteSource(LENGTH 200, LIMIT 10) -> [1]q;
            q -> r :: ReplayUnqueue(STOP 3, BURST 16) -> c :: Counter -> Discard;"#;
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!([read("r.loaded"), read("r.count"), read("c.count")], ["50", "150", "150"]);
        // Each time ends with a batch of two.
        assert_eq!((read("c.batches"), read("c.byte_count")), ("12".into(), "6120".into()));
        assert_eq!([read("r.active"), read("r.stop")], ["false", "0"]);
        router.write("r.reset", "").expect("it obeys");
        router.run(&mut SimulatedHost::default());
        assert_eq!(router.read("c.count"), Ok("300".into()));
        assert!(router.packets_made() < 300, "packets are used again");
    }

    #[test]
    fn bytes_and_times_stay_and_limits_hold() {
        let config = "s :: InfiniteSource(DATA abcdef, BURST 9) -> SetTimestamp(5.25)
            -> ReplayUnqueue(STOP 2, LIMIT 3, BURST 2) -> Print(x, 8, TIMESTAMP true) -> Discard;";
        let (mut router, transcript) = run(config, &crate::registry());
        let said = transcript.said();
        assert_eq!(said.lines().count(), 6, "{said}");
        let line = said.lines().next().expect("a line");
        assert!(line.contains("5.25") && line.contains("61626364 6566"), "{line}");
        assert!(said.lines().all(|other| other == line), "{said}");
        assert_eq!(router.read("s.count"), Ok("3".into()));
    }

    #[test]
    fn without_frames_it_waits_and_then_rests() {
        let (mut router, _) = run("Idle -> r :: ReplayUnqueue -> Discard;", &crate::registry());
        assert_eq!(router.read("r.count"), Ok("0".into()));
    }
}
