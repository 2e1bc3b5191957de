//! Emits packets received from a device: an interface, a capture file, or the packet generator.
//!
//! # Synopsis
//! `FromDevice(DEVNAME, [PROMISC, SNAPLEN], SNIFFER, FORCE_IP, BURST, ACTIVE, STOP, TIMESTAMP,
//! METHOD, QUEUES, PROTOCOL, OUTBOUND, HEADROOM, ENCAP, CAPTURE, BPF_FILTER)`, and `PollDevice`
//! with the same arguments
//!
//! # Ports
//! Output 0, push: packets. Output 1, optional, push: non-IP packets, with `FORCE_IP`.
//!
//! # Configuration
//! - `DEVNAME`: the name of an Ethernet interface; `tap:NAME`, a TAP device that the run creates;
//!   `mem:NAME` and `mem:NAME:peer`, the two ends of a link in memory, which holds 4096 frames in
//!   each direction; a capture file: `-` for standard input, or a name that contains a `/` or ends
//!   in `.pcap`, `.pcapng`, `.gz`, `.cap` or `.dump`; or the generator `gen:[BYTES[:COUNT]]`, which
//!   emits `COUNT` UDP frames of `BYTES` bytes, 42 to 9000; defaults: 64 bytes, no end
//! - `PROMISC`: whether to receive frames for other hosts, default: false
//! - `SNAPLEN`: maximum number of bytes emitted per packet, default: all
//! - `FORCE_IP`: whether to emit only IP packets, with the network header set, default: false
//! - `BURST`: packets per batch, at most 256. Default for an interface: 64 where the output does
//!   not depend on it (docs/bursts.md), otherwise 1; for files 1 for the first 1024 packets
//! - `METHOD`: how an interface is reached: `AFPACKET` delivers each frame at once,
//!   `AFPACKET_BLOCKS` in blocks, up to a millisecond late, `AFXDP` before the kernel, which does
//!   not receive it; default `AUTO`: `AFXDP` if the driver supports XDP, this element receives all
//!   queues, the kernel has no address on the interface and `SNIFFER true` is not given, otherwise
//!   `AFPACKET` (docs/interfaces.md). Names of Click's methods mean `AUTO`
//! - `QUEUES`: number of receive queues of an interface, 1 to 64, default: 1. Each becomes an
//!   element, `NAME/0`, `NAME/1` and so on, for workers of their own (`-j`). Packets of a flow
//!   arrive at one queue, in order: the kernel distributes them, or with `AFXDP` the card, which
//!   must have as many queues (`ethtool -L`)
//! - `TIMESTAMP`: whether to set the time of arrival, default: true
//! - `ACTIVE`: whether to emit packets, default: true
//! - `STOP`: whether to stop the run after the last packet of a file, default: false
//! - `SNIFFER`: whether the kernel handles the frames of the interface as well, default: true. With
//!   `false` the kernel drops all of them, until the run ends: also those of your SSH session
//!   (docs/interfaces.md). Not with `METHOD AFXDP`, where the kernel never receives them
//! - `OUTBOUND`: whether to emit frames that the kernel sends on the interface, too, with packet
//!   type `OUTGOING`; default: false. Frames of `ToDevice` are not among them
//! - `PROTOCOL`: EtherType of the frames to emit, behind VLAN tags that the card removes; default:
//!   0 (all)
//! - `BPF_FILTER`: not supported on interfaces: use `IPFilter` or `Classifier`
//! - `HEADROOM`, `ENCAP`, `CAPTURE`: accepted, ignored
//!
//! Links in memory connect parts of a configuration, without privileges and without the kernel.
//! An interface needs `CAP_NET_RAW`, a TAP device `CAP_NET_ADMIN`, `SNIFFER false` also `CAP_BPF`
//! and `CAP_NET_ADMIN`. A sender on the same machine may leave checksums and segmentation to the
//! device: such packets of up to 64 KiB pass whole, and are completed in front of elements that do
//! not accept them (docs/interfaces.md). When the interface goes down or disappears, the element
//! reports it and continues when the interface returns.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//! | `count` | read | packets |
//! | `reset_counts` | write | |
//! | `encap` | read | link type |
//! | `kernel_drops` | read | frames that the kernel dropped as the element was too slow |
//! | `checksums`, `segmented` | read | frames that lack a checksum, or are to be segmented |
//! | `unusable` | read | frames to be segmented in an unknown way, or cut by the kernel |
//! | `link` | read | `up`, `down` or `removed`; empty for files |
//! | `method` | read | how an interface is reached: a METHOD, `AFXDP` with `copies` or `zero copy` |
//!
//! # Drops
//! - `no IP header`: not an IP packet, with `FORCE_IP`, and output 1 is not connected
//!
//! # Threads
//! Runs on one worker, which polls a busy interface and sleeps while it is idle. With `AFXDP` it
//! rests for 5 us after a burst of fewer than 32 frames, for larger bursts. With `QUEUES`, each
//! queue has a worker. Pauses while a `Batcher` downstream is full or a `Debatcher` has a
//! backlog; frames wait, and are dropped, at the interface.
//!
//! # Example
//! ```text
//! FromDevice(eth0, PROMISC true) -> Queue -> ToDevice(eth1);
//! FromDevice(gen:64:1000, BURST 32) -> Queue -> ToDevice(out.pcap);
//! ```

use std::time::Duration;

use warpswitch_elements_support::link::find_ip;
use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Readiness, Time,
    gso,
};
use warpswitch_io::CaptureReader;
use warpswitch_packet::{Packet, PortMethod, PortSpec, RxCounts, RxPort};
use warpswitch_wire::link::LinkType;

use super::device::{self, Generator, Name};
use super::files::next_look;
use super::link::{name_of, set_packet_type};
use super::port::{self, LINK_TIMER, LinkMonitor};
use crate::bursts::SourceBurst;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("FromDevice", "0/1-2", "h", || Box::new(FromDevice::new()))
        .drops(&["no IP header"])
        .replicas(port::queues_of);

/// The class under its name of Click's kernel driver.
pub static POLL_CLASS: ElementClass =
    ElementClass::new("PollDevice", "0/1-2", "h", || Box::new(FromDevice::new()))
        .drops(&["no IP header"])
        .replicas(port::queues_of);

/// Number of the reason.
const NO_IP: usize = 0;

/// Frames of a burst behind which there are probably more: the port does not rest.
const LARGE_BURST: usize = 32;

/// Where packets come from.
enum Source {
    Nothing,
    Capture(Box<CaptureReader>),
    Generator(Generator),
    Port(Box<dyn RxPort>),
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
    /// The interface, if it is one.
    spec: PortSpec,
    /// Elements downstream for which it pauses, if it is an interface.
    holders: Vec<usize>,
    /// [`RxPort::rest`] of the interface; zero where time is simulated, as none passes meanwhile.
    rest: Duration,
    /// When it looks at the interface again.
    rests_until: Time,
    monitor: LinkMonitor,
    sets_times: bool,
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
            spec: PortSpec::default(),
            holders: Vec::new(),
            rest: Duration::ZERO,
            rests_until: Time::default(),
            monitor: LinkMonitor::default(),
            sets_times: true,
            link: LinkType::Ethernet,
            count: 0,
        }
    }

    fn next_packet(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let frame = match &mut self.source {
            Source::Nothing | Source::Port(_) => return None,
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

    /// Reads the arguments of an interface.
    fn read_port(&mut self, args: &mut Args<'_>) {
        let (mut sniffs, mut ether_type, mut filter) = (None::<bool>, 0u16, String::new());
        self.spec.method = port::read_method(args);
        self.spec.queue = port::read_queue(args);
        args.read("SNIFFER", &mut sniffs)
            .read("OUTBOUND", &mut self.spec.receives_outgoing)
            .read("PROTOCOL", &mut ether_type)
            .read("BPF_FILTER", &mut filter);
        let name = Name::parse(&self.name);
        let is_interface = name.as_ref().is_ok_and(|name| name.is_interface());
        if self.spec.queue.count > 1 && !is_interface {
            args.error_at("QUEUES", "only interfaces of the kernel have several");
        }
        let Ok(Name::Port(device)) = name else { return };
        self.spec.device = device.to_owned();
        self.spec.is_exclusive = sniffs == Some(false);
        if sniffs == Some(true) && self.spec.method == PortMethod::Auto {
            // Others keep frames from the kernel.
            self.spec.method = PortMethod::AfPacket;
        }
        self.spec.ether_type = Some(ether_type).filter(|&ether_type| ether_type != 0);
        if !filter.is_empty() {
            let help = "not supported on interfaces: filter with IPFilter or Classifier";
            args.error_at("BPF_FILTER", help);
        }
        let unsupported = match self.spec.method {
            _ if !is_interface => "not supported on TAP devices and links in memory",
            PortMethod::AfXdp => "not supported with METHOD AFXDP; use AFPACKET",
            _ => return,
        };
        let is_set = [
            ("OUTBOUND", self.spec.receives_outgoing),
            ("PROTOCOL", self.spec.ether_type.is_some()),
        ];
        for (keyword, _) in is_set.iter().filter(|(_, is_set)| *is_set) {
            args.error_at(keyword, unsupported);
        }
    }

    /// Receives a burst from an interface.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let Source::Port(port) = &mut self.source else { return false };
        if cx.is_any_full(&self.holders) {
            // Scheduled again when they have room.
            return false;
        }
        if cx.now() < self.rests_until
            && let Some(fd) = port.wake_fd()
        {
            cx.watch(fd, Readiness::Readable);
            return false;
        }
        let mut batch = cx.pool().batch();
        let frames_max = self.burst.live_len();
        let frames = port.receive(cx.pool(), &mut batch, frames_max);
        if frames < LARGE_BURST.min(frames_max) {
            self.rests_until = cx.now() + self.rest;
        }
        let now = cx.now().0;
        // Not all methods record the time of arrival.
        let lacks_times = batch.iter().next().is_some_and(|packet| packet.timestamp_ns() == 0);
        if lacks_times && self.sets_times {
            batch.iter_mut().for_each(|packet| packet.set_timestamp_ns(now));
        }
        if frames == 0 {
            if let Some(fd) = port.wake_fd() {
                cx.watch(fd, Readiness::Readable);
            }
            cx.pool().recycle_empty(batch);
            return false;
        }
        cx.schedule_task();
        if self.snap_bytes > 0 || self.force_ip || !self.sets_times {
            for mut packet in batch.drain() {
                if !self.sets_times {
                    packet.set_timestamp_ns(0);
                }
                if self.snap_bytes > 0 && packet.has_gso() {
                    let mut segments = Vec::new();
                    gso::complete(cx.pool(), packet, |_, segment| segments.push(segment));
                    segments.into_iter().for_each(|segment| self.emit(cx, segment));
                } else {
                    self.emit(cx, packet);
                }
            }
            cx.pool().recycle_empty(batch);
        } else {
            self.count += batch.len() as u64;
            cx.emit_batch(0, batch);
        }
        true
    }

    /// Emits a packet, cut to `SNAPLEN` and with its IP header found if that is wanted.
    fn emit(&mut self, cx: &mut Context<'_>, mut packet: Packet) {
        if self.snap_bytes > 0 {
            packet.take(packet.len().saturating_sub(self.snap_bytes));
        }
        if self.force_ip && !find_ip(&mut packet, self.link) {
            return cx.emit_or_drop(1, packet, NO_IP);
        }
        self.count += 1;
        cx.emit(0, packet);
    }

    /// Counters of the interface; none for files.
    fn port_counts(&mut self) -> RxCounts {
        match &mut self.source {
            Source::Port(port) => port.counts(),
            _ => RxCounts::default(),
        }
    }

    /// Checks the link of the interface and reports changes.
    fn check_link(&mut self, cx: &mut Context<'_>) {
        let Source::Port(port) = &mut self.source else { return };
        let (state, error) = (port.check_link(), port.reopen_error());
        self.monitor.note(cx, &self.name, state, error);
    }
}

impl Element for FromDevice {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut word = Raw::default();
        args.read_mp("DEVNAME", &mut self.name)
            .read_p("PROMISC", &mut self.spec.is_promiscuous)
            .read_p("SNAPLEN", &mut self.snap_bytes)
            .read("FORCE_IP", &mut self.force_ip)
            .read("BURST", &mut self.burst.given)
            .read("ACTIVE", &mut self.active)
            .read("STOP", &mut self.stop);
        args.read("TIMESTAMP", &mut self.sets_times);
        for keyword in ["CAPTURE", "HEADROOM", "ENCAP"] {
            args.read(keyword, &mut word);
        }
        self.read_port(args);
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
            Name::Port(_) => {
                self.holders = cx.listen_downstream_live(0);
                let opened = cx.console().open_rx(&self.spec);
                let port = opened.map_err(|error| port::open_error(&error))?;
                if !cx.console().may_wait() {
                    self.rest = port.rest();
                }
                Source::Port(port)
            }
        };
        self.check_link(cx);
        if self.active {
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        if matches!(self.source, Source::Port(_)) {
            return self.receive(cx);
        }
        let mut worked = false;
        self.is_dry = false;
        for _ in 0..self.burst.len() {
            self.burst.note(1);
            let Some(packet) = self.next_packet(cx) else { break };
            worked = true;
            self.emit(cx, packet);
        }
        if worked {
            cx.schedule_task();
        } else if self.stop && !self.is_dry {
            cx.stop_driver();
        }
        worked
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, timer: usize) {
        if timer == LINK_TIMER {
            self.check_link(cx);
        }
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
                HandlerSpec::read("checksums"),
                HandlerSpec::read("segmented"),
                HandlerSpec::read("unusable"),
                HandlerSpec::read("link"),
                HandlerSpec::read("method"),
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
            "link" => self.monitor.name().to_owned(),
            "method" => match &self.source {
                Source::Port(port) => port.method().to_owned(),
                _ => String::new(),
            },
            "kernel_drops" => self.port_counts().dropped.to_string(),
            "checksums" => self.port_counts().checksums.to_string(),
            "segmented" => self.port_counts().segmented.to_string(),
            "unusable" => self.port_counts().unusable.to_string(),
            _ => return Err(HandlerError::Missing),
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
            self.count = old.count;
            // The host has both configurations share the port.
            if matches!(self.source, Source::Port(_)) {
                return;
            }
            self.source = std::mem::replace(&mut old.source, Source::Nothing);
            self.link = old.link;
        }
    }
}
