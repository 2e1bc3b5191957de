//! Emits packets received from a device: a capture file, or the packet generator.
//!
//! # Synopsis
//! `FromDevice(DEVNAME, [PROMISC, SNAPLEN], SNIFFER, FORCE_IP, BURST, ACTIVE, STOP, TIMESTAMP,
//! METHOD, PROTOCOL, OUTBOUND, HEADROOM, ENCAP, BPF_FILTER)`
//!
//! # Ports
//! Output 0, push: packets. Output 1, optional, push: non-IP packets, with `FORCE_IP`.
//!
//! # Configuration
//! - `DEVNAME`: a capture file: `-` for standard input, or a name that contains a `/` or ends in
//!   `.pcap`, `.pcapng`, `.gz`, `.cap` or `.dump`; or the generator `gen:[BYTES[:COUNT]]`, which
//!   emits `COUNT` UDP frames of `BYTES` bytes, 42 to 9000; defaults: 64 bytes, no end
//! - `SNAPLEN`: maximum number of bytes emitted per packet, default: all
//! - `FORCE_IP`: whether to emit only IP packets, with the network header set, default: false
//! - `BURST`: packets per batch, at most 256. Default: 1 for the first 1024 packets, then 64 where
//!   the output does not depend on it (docs/bursts.md)
//! - `ACTIVE`: whether to emit packets, default: true
//! - `STOP`: whether to stop the run after the last packet, default: false
//! - the other arguments configure network interfaces: accepted, ignored for captures
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//! | `count` | read | packets |
//! | `reset_counts` | write | |
//! | `encap` | read | link type |
//! | `kernel_drops` | read | always 0 |
//!
//! # Drops
//! - `no IP header`: not an IP packet, with `FORCE_IP`, and output 1 is not connected
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! FromDevice(gen:64:1000, BURST 32) -> Queue -> ToDevice(out.pcap);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_io::CaptureReader;
use warpswitch_packet::Packet;
use warpswitch_wire::link::LinkType;

use super::device::{self, Generator, Name};
use super::files::next_look;
use super::link::{find_ip, name_of, set_packet_type};
use crate::bursts::SourceBurst;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("FromDevice", "0/1-2", "h", || Box::new(FromDevice::new()))
        .drops(&["no IP header"]);

/// Number of the reason.
const NO_IP: usize = 0;

/// Where packets come from.
enum Source {
    Nothing,
    Capture(Box<CaptureReader>),
    Generator(Generator),
}

/// See the module.
pub struct FromDevice {
    name: String,
    snap_bytes: usize,
    force_ip: bool,
    burst: SourceBurst,
    active: bool,
    stop: bool,
    /// Whether the pipe that is read had nothing when it was looked at last.
    is_dry: bool,
    source: Source,
    link: LinkType,
    count: u64,
}

impl FromDevice {
    fn new() -> Self {
        Self {
            name: String::new(),
            snap_bytes: 0,
            force_ip: false,
            burst: SourceBurst::default(),
            active: true,
            stop: false,
            is_dry: false,
            source: Source::Nothing,
            link: LinkType::Ethernet,
            count: 0,
        }
    }

    fn next_packet(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let frame = match &mut self.source {
            Source::Nothing => return None,
            Source::Generator(generator) => return generator.next(cx),
            Source::Capture(capture) => capture.next_frame(),
        };
        match frame {
            Ok(Some(frame)) => {
                self.link = frame.link_type;
                let mut packet = device::packet_of(cx, &frame);
                if self.link == LinkType::Ethernet {
                    set_packet_type(&mut packet);
                }
                return Some(packet);
            }
            Ok(None) => {}
            Err(error) if error.is_later() => {
                self.is_dry = true;
                cx.set_timer(0, next_look(cx));
                return None;
            }
            Err(error) => cx.say(&format!("{}: {error}", cx.declaration())),
        }
        self.source = Source::Nothing;
        None
    }
}

impl Element for FromDevice {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut flag, mut word) = (false, Raw::default());
        args.read_mp("DEVNAME", &mut self.name)
            .read_p("PROMISC", &mut flag)
            .read_p("SNAPLEN", &mut self.snap_bytes)
            .read("FORCE_IP", &mut self.force_ip)
            .read("BURST", &mut self.burst.given)
            .read("ACTIVE", &mut self.active)
            .read("STOP", &mut self.stop);
        for keyword in ["SNIFFER", "OUTBOUND", "TIMESTAMP"] {
            args.read(keyword, &mut flag);
        }
        for keyword in ["METHOD", "CAPTURE", "PROTOCOL", "HEADROOM", "ENCAP", "BPF_FILTER"] {
            args.read(keyword, &mut word);
        }
        if let Err(message) = Name::parse(&self.name)
            && !self.name.is_empty()
        {
            args.error_at("DEVNAME", &message);
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.burst.settle(cx);
        self.source = match Name::parse(&self.name)? {
            Name::Capture(name) => {
                let mut capture =
                    CaptureReader::open(name).map_err(|error| device::open_error(name, &error))?;
                if !cx.console().may_wait() {
                    capture.never_wait();
                }
                Source::Capture(Box::new(capture))
            }
            Name::Generator(bytes, count) => Source::Generator(Generator::new(bytes, count)),
        };
        if self.active {
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        let mut worked = false;
        self.is_dry = false;
        for _ in 0..self.burst.len() {
            self.burst.note(1);
            let Some(mut packet) = self.next_packet(cx) else { break };
            worked = true;
            if self.snap_bytes > 0 {
                packet.take(packet.len().saturating_sub(self.snap_bytes));
            }
            if self.force_ip && !find_ip(&mut packet, self.link) {
                cx.emit_or_drop(1, packet, NO_IP);
                continue;
            }
            self.count += 1;
            cx.emit(0, packet);
        }
        if worked {
            cx.schedule_task();
        } else if self.stop && !self.is_dry {
            cx.stop_driver();
        }
        worked
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        if self.active {
            cx.schedule_task();
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("active"),
                HandlerSpec::read("count"),
                HandlerSpec::button("reset_counts"),
                HandlerSpec::read("encap"),
                HandlerSpec::read("kernel_drops"),
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
            "count" => self.count.to_string(),
            "encap" => name_of(self.link).to_owned(),
            _ => "0".to_owned(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if name == "reset_counts" {
            self.count = 0;
            return Ok(String::new());
        }
        self.active = bool::from_arg(value.trim(), &NoNames)
            .map_err(|_| HandlerError::failed("type mismatch"))?;
        if self.active {
            cx.schedule_task();
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && old.name == self.name
        {
            self.source = std::mem::replace(&mut old.source, Source::Nothing);
            (self.link, self.count) = (old.link, old.count);
        }
    }
}
