//! Sends packets to a device: an interface or a capture file.
//!
//! # Synopsis
//! `ToDevice(DEVNAME, BURST, DELAY_MAX, METHOD, QUIET, NO_PAD, DEBUG)`
//!
//! # Ports
//! One pull input; it pulls whenever packets are available. Output 0, optional: sent packets.
//! Output 1, optional: packets that could not be sent.
//!
//! # Configuration
//! - `DEVNAME`: the name of an Ethernet interface; `tap:NAME`, a TAP device that the run creates;
//!   `mem:NAME` or `mem:NAME:peer`, an end of a link in memory, as of `FromDevice`; or a capture
//!   file: `-` for standard output, or a name that contains a `/` or ends in `.pcap`,
//!   `.pcapng`, `.gz`, `.cap` or `.dump`
//! - `BURST`: maximum number of packets per pull, at most 256. Default: 256 where the output does
//!   not depend on it (docs/bursts.md), otherwise 1
//! - `DELAY_MAX`: the longest time that a packet waits until there are `BURST` packets to send to
//!   an interface at once; default: 0, packets are sent as they come
//! - `METHOD`: as of `FromDevice`
//! - `QUIET`, `NO_PAD`, `DEBUG`: accepted, ignored; the device pads short frames  An interface
//!   needs `CAP_NET_RAW`, a TAP device `CAP_NET_ADMIN`. Frames are sent past the queueing
//!   discipline of the kernel, in the order in which they are pulled. If the interface has no room,
//!   the element waits and holds up to a burst. When it goes down or disappears, the element
//!   reports it, drops packets, and continues when the interface returns.
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `count`, `packets_sent` | read | packets |
//! | `reset_counts` | write | |
//! | `link` | read | `up`, `down` or `removed`; empty for files |
//!
//! # Drops
//! - `not sent`: the frame is longer than the interface allows, the link is down, or a write
//!   failed; and output 1 is not connected. The first failed write is reported
//!
//! # Threads
//! Runs on one worker. A file appears under its name, complete, when the run ends.
//!
//! # Example
//! ```text
//! FromDevice(eth0, PROMISC true) -> Queue -> ToDevice(eth1);
//! FromDevice(gen:64:1000, BURST 32) -> Queue -> ToDevice(out.pcap);
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Readiness, Time,
    gso,
};
use warpswitch_io::CaptureWriter;
use warpswitch_packet::gso::any_gso;
use warpswitch_packet::{Batch, Packet, PortSpec, Transmitted, TxPort};

use super::device::{self, Name};
use super::port::{self, LINK_TIMER, LinkMonitor};
use crate::bursts::SinkBurst;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ToDevice", "1/0-2", "l/h", || Box::new(ToDevice::new()))
        .consumes_as("sent")
        .drops(&["not sent"]);

/// Number of the reason.
const NOT_SENT: usize = 0;
/// The link type of Ethernet.
const ETHERNET: u32 = 1;
/// The timer, and the interval, of attempts where no descriptor reports room.
const RETRY_TIMER: usize = 0;
const RETRY: Duration = Duration::from_micros(100);
/// The timer of packets that wait for a full burst.
const FLUSH_TIMER: usize = 2;

/// See the module.
pub struct ToDevice {
    name: String,
    burst: SinkBurst,
    writer: Option<CaptureWriter<'static>>,
    /// The interface, if it is one.
    spec: PortSpec,
    port: Option<Box<dyn TxPort>>,
    monitor: LinkMonitor,
    /// Packets that the interface had no room for.
    pending: Option<Batch>,
    delay_max: Duration,
    /// Packets that wait for a full burst, and when they are sent without.
    waiting: Option<Batch>,
    flush_at: Time,
    /// Places in a batch of packets that were refused.
    refused: Vec<usize>,
    count: u64,
    failure: Option<String>,
    is_woken: bool,
}

impl ToDevice {
    fn new() -> Self {
        Self {
            name: String::new(),
            burst: SinkBurst::default(),
            writer: None,
            spec: PortSpec::default(),
            port: None,
            monitor: LinkMonitor::default(),
            pending: None,
            delay_max: Duration::ZERO,
            waiting: None,
            flush_at: Time::default(),
            refused: Vec::new(),
            count: 0,
            failure: None,
            is_woken: false,
        }
    }

    /// Writes `packet` to the file. Returns whether it could.
    fn write(&mut self, cx: &mut Context<'_>, packet: &Packet) -> bool {
        let Some(writer) = &mut self.writer else { return false };
        let time = match packet.timestamp_ns() {
            0 => cx.now().0,
            time => time,
        };
        let sent = writer.write_frame(u64::try_from(time).unwrap_or(0), packet.data());
        if let Err(error) = sent {
            if self.failure.is_none() {
                cx.say(&format!("{}: {error}", cx.declaration()));
                self.failure = Some(error.to_string());
            }
            return false;
        }
        self.count += 1;
        true
    }

    /// Sends the pending packets, or pulled ones, to the interface.
    fn transmit(&mut self, cx: &mut Context<'_>) -> bool {
        let mut batch = match self.pending.take() {
            Some(pending) => pending,
            None if self.delay_max.is_zero() => cx.pull(0, self.burst.len()),
            None => match self.gather(cx) {
                Ok(batch) => batch,
                Err(has_pulled) => return has_pulled,
            },
        };
        let Some(port) = &mut self.port else { return false };
        if any_gso() && !port.accepts_gso() {
            // Left from a configuration whose port accepted them.
            complete_all(cx, &mut batch);
        }
        let (mut done, mut is_full) = (0, false);
        self.refused.clear();
        while done < batch.len() && !is_full {
            match port.send(&batch.as_slice()[done..]) {
                Transmitted::Frames(count) => done += count,
                Transmitted::Refused => {
                    self.refused.push(done);
                    done += 1;
                }
                Transmitted::Full => is_full = true,
            }
        }
        if is_full {
            let mut left = cx.pool().batch();
            left.extend(batch.drain_from(done));
            self.pending = Some(left);
            match port.wake_fd() {
                Some(fd) => cx.watch(fd, Readiness::Writable),
                None => cx.set_timer(RETRY_TIMER, cx.now() + RETRY),
            }
        } else if done > 0 || !self.is_woken {
            cx.schedule_task();
        }
        self.count += (done - self.refused.len()) as u64;
        self.finish_sent(cx, batch);
        done > 0
    }

    /// Pulls packets until there is a burst, or the first has waited for `DELAY_MAX`; otherwise
    /// returns whether any were pulled.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<Batch, bool> {
        let (burst, now) = (self.burst.len(), cx.now());
        let mut waiting = self.waiting.take().unwrap_or_else(|| cx.pool().batch());
        let mut pulled = cx.pull(0, burst.saturating_sub(waiting.len()));
        let has_pulled = !pulled.is_empty();
        if has_pulled && waiting.is_empty() {
            self.flush_at = now + self.delay_max;
            cx.set_timer(FLUSH_TIMER, self.flush_at);
        }
        waiting.append(&mut pulled);
        cx.pool().recycle_empty(pulled);
        let is_due = waiting.len() >= burst || !waiting.is_empty() && now >= self.flush_at;
        if is_due {
            cx.clear_timer(FLUSH_TIMER);
            return Ok(waiting);
        }
        if has_pulled || !self.is_woken {
            cx.schedule_task();
        }
        self.waiting = Some(waiting);
        Err(has_pulled)
    }

    /// Passes sent packets to output 0 and refused ones to output 1, or puts them back.
    fn finish_sent(&mut self, cx: &mut Context<'_>, mut batch: Batch) {
        if self.refused.is_empty() && !cx.has_output(0) {
            return cx.consume_batch(batch);
        }
        let mut refused = self.refused.iter().copied().peekable();
        for (place, packet) in batch.drain().enumerate() {
            if refused.next_if_eq(&place).is_some() {
                cx.emit_or_drop(1, packet, NOT_SENT);
            } else if cx.has_output(0) {
                cx.emit(0, packet);
            } else {
                cx.consume(packet);
            }
        }
        cx.consume_batch(batch);
    }

    /// Checks the link of the interface and reports changes.
    fn check_link(&mut self, cx: &mut Context<'_>) {
        let Some(port) = &mut self.port else { return };
        let (state, error) = (port.check_link(), port.reopen_error());
        self.monitor.note(cx, &self.name, state, error);
    }
}

/// Completes checksums and segments packets where that is left to do.
fn complete_all(cx: &mut Context<'_>, batch: &mut Batch) {
    if batch.lent_frames().is_none() && batch.iter().any(Packet::has_gso) {
        let packets: Vec<Packet> = batch.drain().collect();
        for packet in packets {
            gso::complete(cx.pool(), packet, |_, packet| batch.push(packet));
        }
    }
}

impl Element for ToDevice {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut flag = false;
        args.read_mp("DEVNAME", &mut self.name)
            .read("BURST", &mut self.burst.given)
            .read("DELAY_MAX", &mut self.delay_max)
            .read("QUIET", &mut flag)
            .read("NO_PAD", &mut flag)
            .read("DEBUG", &mut flag);
        self.spec.method = port::read_method(args);
        match Name::parse(&self.name) {
            Ok(Name::Capture(_)) => {}
            Ok(Name::Port(name)) => self.spec.device = name.to_owned(),
            Ok(Name::Generator(..)) => args.error_at("DEVNAME", "the generator takes no packets"),
            Err(_) if self.name.is_empty() => {}
            Err(message) => args.error_at("DEVNAME", &message),
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.spec.device.is_empty() {
            let options = device::options(&self.name, ETHERNET, 0);
            let writer = CaptureWriter::create_as(&self.name, options)
                .map_err(|error| device::create_error(&self.name, &error))?;
            self.writer = Some(writer);
        } else {
            let opened = cx.console().open_tx(&self.spec);
            self.port = Some(opened.map_err(|error| port::open_error(&error))?);
            self.check_link(cx);
        }
        self.burst.settle(cx);
        self.is_woken = cx.listen_upstream(0);
        cx.schedule_task();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if self.port.is_some() {
            return self.transmit(cx);
        }
        let mut batch = cx.pull(0, self.burst.len());
        let worked = !batch.is_empty();
        for packet in batch.drain() {
            if !self.write(cx, &packet) {
                cx.emit_or_drop(1, packet, NOT_SENT);
            } else if cx.has_output(0) {
                cx.emit(0, packet);
            } else {
                cx.consume(packet);
            }
        }
        cx.consume_batch(batch);
        if worked || !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, timer: usize) {
        if timer == LINK_TIMER {
            self.check_link(cx);
        }
        cx.schedule_task();
    }

    fn accepts_gso(&self) -> bool {
        self.port.as_ref().is_some_and(|port| port.accepts_gso())
    }

    fn held(&self) -> usize {
        [&self.pending, &self.waiting].into_iter().flatten().map(Batch::len).sum()
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("count"),
                HandlerSpec::read("packets_sent"),
                HandlerSpec::button("reset_counts"),
                HandlerSpec::read("link"),
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
            "link" => self.monitor.name().to_owned(),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        self.count = 0;
        Ok(String::new())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && old.name == self.name
        {
            // The host has both configurations share the port of an interface.
            self.writer = old.writer.take();
            (self.pending, self.waiting) = (old.pending.take(), old.waiting.take());
            if self.waiting.is_some() {
                // They have waited for some time already.
                self.flush_at = old.flush_at;
                cx.set_timer(FLUSH_TIMER, self.flush_at);
            }
            (self.count, self.failure) = (old.count, old.failure.take());
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.waiting.as_ref().is_some_and(|waiting| !waiting.is_empty()) {
            self.flush_at = cx.now();
            self.transmit(cx);
        }
        let finished = self.writer.take().map_or(Ok(()), CaptureWriter::finish);
        finished.map_err(|error| error.to_string())
    }
}
