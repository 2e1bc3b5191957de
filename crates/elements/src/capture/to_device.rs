//! Sends packets to a device: a capture file.
//!
//! # Synopsis
//! `ToDevice(DEVNAME, BURST, METHOD, QUIET, NO_PAD, DEBUG)`
//!
//! # Ports
//! One pull input; it pulls whenever packets are available. Output 0, optional: sent packets.
//! Output 1, optional: packets that could not be sent.
//!
//! # Configuration
//! - `DEVNAME`: a capture file: `-` for standard output, or a name that contains a `/` or ends in
//!   `.pcap`, `.pcapng`, `.gz`, `.cap` or `.dump`
//! - `BURST`: maximum number of packets per pull, at most 256. Default: 256 where the output does
//!   not depend on it (docs/bursts.md), otherwise 1
//! - the other arguments configure network interfaces: accepted, ignored for captures
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `count`, `packets_sent` | read | packets |
//! | `reset_counts` | write | |
//!
//! # Drops
//! - `not sent`: the write failed, and output 1 is not connected; the first failure is reported
//!
//! # Threads
//! Runs on one worker. The file appears under its name, complete, when the run ends.
//!
//! # Example
//! ```text
//! FromDevice(gen:64:1000, BURST 32) -> Queue -> ToDevice(out.pcap);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_io::CaptureWriter;
use warpswitch_packet::Packet;

use super::device::{self, Name};
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

/// See the module.
#[derive(Debug)]
pub struct ToDevice {
    name: String,
    burst: SinkBurst,
    writer: Option<CaptureWriter<'static>>,
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
            count: 0,
            failure: None,
            is_woken: false,
        }
    }

    /// Sends `packet`. Tells whether it could.
    fn send(&mut self, cx: &mut Context<'_>, packet: &Packet) -> bool {
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
}

impl Element for ToDevice {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut flag, mut word) = (false, Raw::default());
        args.read_mp("DEVNAME", &mut self.name)
            .read("BURST", &mut self.burst.given)
            .read("METHOD", &mut word)
            .read("QUIET", &mut flag)
            .read("NO_PAD", &mut flag)
            .read("DEBUG", &mut flag);
        match Name::parse(&self.name) {
            Ok(Name::Capture(_)) => {}
            Ok(Name::Generator(..)) => args.error_at("DEVNAME", "the generator takes no packets"),
            Err(_) if self.name.is_empty() => {}
            Err(message) => args.error_at("DEVNAME", &message),
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let options = device::options(&self.name, ETHERNET, 0);
        let writer = CaptureWriter::create_as(&self.name, options)
            .map_err(|error| device::create_error(&self.name, &error))?;
        self.writer = Some(writer);
        self.burst.settle(cx);
        self.is_woken = cx.listen_upstream(0);
        cx.schedule_task();
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let mut batch = cx.pull(0, self.burst.len());
        let worked = !batch.is_empty();
        for packet in batch.drain() {
            if !self.send(cx, &packet) {
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

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("count"),
                HandlerSpec::read("packets_sent"),
                HandlerSpec::button("reset_counts"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.count.to_string())
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

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && old.name == self.name
        {
            self.writer = old.writer.take();
            (self.count, self.failure) = (old.count, old.failure.take());
        }
    }

    fn finish(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        let finished = self.writer.take().map_or(Ok(()), CaptureWriter::finish);
        finished.map_err(|error| error.to_string())
    }
}
