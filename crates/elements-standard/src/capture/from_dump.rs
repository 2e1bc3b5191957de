//! Emits the packets of a capture file.
//!
//! # Synopsis
//! `FromDump(FILENAME, [TIMING], STOP, ACTIVE, SAMPLE, FORCE_IP, START, START_AFTER, END,
//! END_AFTER, INTERVAL, END_CALL, MMAP, FILEPOS, BURST)`
//!
//! # Ports
//! Output 0, agnostic: packets. Output 1, optional, push: non-IP packets, with `FORCE_IP` or in a
//! raw IP capture.
//!
//! # Configuration
//! - `FILENAME`: input file, pcap or pcapng, optionally compressed with gzip, detected from the
//!   content; `-` for standard input. On a pipe, initialization blocks until the first packet
//!   arrives; later, an empty pipe is polled 100 times per second
//! - `TIMING`: whether to replay packets with their original timing, default: false
//! - `STOP`: whether to stop the run after the last packet, default: false
//! - `ACTIVE`: whether to emit packets, default: true
//! - `SAMPLE`: probability of emitting a packet, 0 to 1, default: 1
//! - `FORCE_IP`: whether to emit only IP packets, with the network header set, default: false. Raw
//!   IP captures are always handled this way
//! - `START`, `START_AFTER`: first timestamp to emit, absolute or in seconds after the first packet
//! - `END`, `END_AFTER`, `INTERVAL`: end, exclusive: absolute, in seconds after the first packet,
//!   or in seconds after the start: `START`, `START_AFTER` or the first packet
//! - `END_CALL`: write handler to call at the end. Default: `stop` with `STOP`; `active false` if
//!   an end time is reached
//! - `MMAP`: accepted for compatibility, ignored
//! - `FILEPOS`: offset in the uncompressed capture; packets that begin before it are skipped
//! - `BURST`: packets per batch, at most 256. Default: 1 for the first 1024 packets, then 64 where
//!   the output does not depend on it (docs/bursts.md)
//!
//! Packets carry their capture timestamp and the extra length annotation (bytes that were not
//! captured). Their packet type is host; `HostEtherFilter` derives it from the address.
//!
//! An end time, a damaged capture and a change of link type are reported after the packets before
//! them are delivered, regardless of the burst.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//! | `stop` | write | deactivates the element and stops the run |
//! | `encap` | read | link type: `ETHER`, `IP`, ... |
//! | `sampling_prob` | read | probability |
//! | `filename`, `filesize`, `filepos`, `packet_filepos` | read | name, bytes, bytes, bytes |
//! | `count`, `packets` | read | packets |
//! | `reset_counts`, `reset_timing` | write | |
//! | `burst` | read, write | packets per batch, as `BURST` |
//! | `rewind` | write | starts again at the beginning of the file; with `END_CALL`, replays it in a loop |
//! | `extend_interval` | write | seconds to add to the end time |
//!
//! # Drops
//! - `not sampled`: not selected by `SAMPLE`
//! - `no IP header`: not an IP packet, with `FORCE_IP` or in a raw IP capture, and output 1 is not
//!   connected
//!
//! # Threads
//! Runs on one worker. A damaged capture is emitted up to the damage, which is reported and ends
//! the capture.
//!
//! # Example
//! ```text
//! FromDump(in.pcap, STOP true) -> Strip(14) -> CheckIPHeader -> Discard;
//! ```

use warpswitch_elements_support::link::find_ip;
use warpswitch_graph::language::args::{Args, ArgsError, Fixed, FromArg, NoNames, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_io::{BurstEnd, CaptureReader, IoError};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Packet};
use warpswitch_wire::link::LinkType;

use std::time::Duration;

use super::device;
use super::files::{LOOKS_MAX, Look, next_look};
use super::from_ip_summary_dump::{SAMPLE_ALL, check_sample, is_sampled};
use super::link::{encap_of, looks_for_headers, name_of, writes_by_default};
use super::pace::Pace;
use crate::bursts::SourceBurst;
use warpswitch_elements_support::calls::wrong_call;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("FromDump", "0/1-2", "a/ah", || Box::new(FromDump::new()))
        .drops(&["not sampled", "no IP header"])
        .wakes();

/// Numbers of reasons.
const NOT_SAMPLED: usize = 0;
const NO_IP: usize = 1;

/// A time bound, relative until the first packet sets its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    None,
    At(i64),
    AfterFirst(i64),
    /// Behind the first that is given.
    AfterStart(i64),
}

/// See the module.
pub struct FromDump {
    filename: String,
    stop: bool,
    active: bool,
    force_ip: bool,
    sample: u32,
    burst: SourceBurst,
    start: Bound,
    end: Bound,
    /// When it ended, for those who want it to be later.
    end_ns: i64,
    end_call: String,
    file_position: u64,
    pace: Option<Pace>,
    capture: Option<CaptureReader>,
    link: LinkType,
    /// The link type of the first frame, and whether a different one was reported.
    first_link: Option<LinkType>,
    has_other_links: bool,
    filesize: Option<u64>,
    /// Where the packet that was given last began, and where reading is.
    packet_position: u64,
    position: u64,
    count: u64,
    /// The next packet, and how it starts.
    waiting: Option<(Packet, LinkType)>,
    /// A packet at which something is reported, kept until those before it are delivered.
    late: Option<(Packet, LinkType)>,
    /// The error that ended the capture, kept likewise.
    fault: Option<String>,
    /// Whether packets were read that are not delivered yet.
    has_undelivered: bool,
    /// Whether the pipe that is read had nothing when it was looked at last.
    is_dry: bool,
    has_called: bool,
}

impl FromDump {
    fn new() -> Self {
        Self {
            filename: String::new(),
            stop: false,
            active: true,
            force_ip: false,
            sample: SAMPLE_ALL,
            burst: SourceBurst::default(),
            start: Bound::None,
            end: Bound::None,
            end_ns: 0,
            end_call: String::new(),
            file_position: 0,
            pace: None,
            capture: None,
            link: LinkType::Ethernet,
            first_link: None,
            has_other_links: false,
            filesize: None,
            packet_position: 0,
            position: 0,
            count: 0,
            waiting: None,
            late: None,
            fault: None,
            has_undelivered: false,
            is_dry: false,
            has_called: false,
        }
    }

    fn configure_times(&mut self, args: &mut Args<'_>) {
        let (mut start, mut end) = (None::<Duration>, None::<Duration>);
        let (mut start_after, mut end_after) = (None::<Duration>, None::<Duration>);
        let mut interval = None::<Duration>;
        args.read("START", &mut start)
            .read("START_AFTER", &mut start_after)
            .read("END", &mut end)
            .read("END_AFTER", &mut end_after)
            .read("INTERVAL", &mut interval);
        let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        if start.is_some() && start_after.is_some() {
            args.error_by("START_AFTER", "START and START_AFTER are mutually exclusive");
            args.help(
                "leave one of them out: START is a time, START_AFTER counts from the first packet",
            );
        }
        let ends = [end, end_after, interval];
        if ends.iter().flatten().count() > 1 {
            args.error_at("", "END, END_AFTER, and INTERVAL are mutually exclusive");
            args.help(
                "leave all but one out: END is a time, END_AFTER counts from the first packet, \
                 INTERVAL from START or the first packet",
            );
        }
        let after = start_after.map(|time| Bound::AfterFirst(ns(time)));
        self.start = start.map(|time| Bound::At(ns(time))).or(after).unwrap_or(Bound::None);
        self.end = match ends {
            [Some(time), ..] => Bound::At(ns(time)),
            [_, Some(time), _] => Bound::AfterFirst(ns(time)),
            [.., Some(time)] => Bound::AfterStart(ns(time)),
            _ => Bound::None,
        };
    }

    /// Turns times that count from the first packet, seen at `first`, into times.
    fn settle_times(&mut self, first: i64) {
        if let Bound::AfterFirst(after) = self.start {
            self.start = Bound::At(first.saturating_add(after));
        }
        self.end = match self.end {
            Bound::AfterFirst(after) => Bound::At(first.saturating_add(after)),
            Bound::AfterStart(after) => {
                let start = if let Bound::At(start) = self.start { start } else { first };
                Bound::At(start.saturating_add(after))
            }
            end => end,
        };
    }

    /// Reads a frame, unless something is to be reported while packets are undelivered.
    fn read_packet(&mut self, cx: &mut Context<'_>) -> Look<(Packet, LinkType)> {
        if self.has_undelivered && (self.late.is_some() || self.fault.is_some()) {
            return Look::Nothing;
        }
        if let Some(fault) = self.fault.take() {
            cx.say(&fault);
            return Look::Nothing;
        }
        let (packet, link) = match self.late.take() {
            Some(late) => late,
            None => match self.read_frame(cx) {
                Look::Found(read) => read,
                Look::Passed => return Look::Passed,
                Look::Nothing => return Look::Nothing,
            },
        };
        if self.has_undelivered && self.reports_at(&packet, link) {
            self.late = Some((packet, link));
            return Look::Nothing;
        }
        self.judge_packet(cx, packet, link)
    }

    /// Whether something is reported when this packet is read.
    fn reports_at(&self, packet: &Packet, link: LinkType) -> bool {
        let is_over = matches!(self.end, Bound::At(end) if packet.timestamp_ns() >= end);
        let is_other = self.first_link.is_some_and(|first| first != link);
        is_over || is_other && !self.force_ip && !self.has_other_links
    }

    /// Reads a frame from the capture.
    fn read_frame(&mut self, cx: &mut Context<'_>) -> Look<(Packet, LinkType)> {
        let Some(capture) = &mut self.capture else { return Look::Nothing };
        let start = capture.position();
        let frame = match capture.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                self.close();
                return Look::Nothing;
            }
            Err(error) if error.is_later() => {
                self.look_later(cx);
                return Look::Nothing;
            }
            Err(error) => {
                self.fail(cx, &error);
                return Look::Nothing;
            }
        };
        let link = frame.link_type;
        let packet = device::packet_of(cx, &frame);
        (self.packet_position, self.position) = (start, capture.position());
        Look::Found((packet, link))
    }

    /// Whether each frame of the first one's link type is delivered as it is, at once.
    fn delivers_all(&self) -> bool {
        let is_kept = self.waiting.is_some() || self.late.is_some() || self.fault.is_some();
        let is_timed = self.pace.is_some() || self.start != Bound::None || self.end != Bound::None;
        let is_filtered = self.force_ip
            || self.sample < SAMPLE_ALL
            || self.position < self.file_position
            || self.first_link.is_none_or(|link| link == LinkType::RawIp);
        self.capture.is_some() && !is_kept && !is_timed && !is_filtered
    }

    /// Fills `batch` up to `packets`, if [`FromDump::delivers_all`].
    fn read_burst(&mut self, cx: &mut Context<'_>, batch: &mut Batch, packets: usize) {
        let Some(capture) = &mut self.capture else { return };
        let (before, first_link, late) = (batch.len(), self.first_link, &mut self.late);
        let end = capture.read_burst(packets - before, |frame| {
            let packet = device::packet_of(cx, &frame);
            let is_like_first = Some(frame.link_type) == first_link;
            if is_like_first {
                batch.push(packet);
            } else {
                *late = Some((packet, frame.link_type));
            }
            is_like_first
        });
        (self.packet_position, self.position) = (capture.frame_position(), capture.position());
        self.count += (batch.len() - before) as u64;
        self.has_undelivered = !batch.is_empty();
        match end {
            Ok(BurstEnd::Full) => {}
            Ok(BurstEnd::Later) => self.look_later(cx),
            Ok(BurstEnd::End) => self.close(),
            Err(error) => self.fail(cx, &error),
        }
    }

    /// Looks again in a while at a pipe that has nothing now.
    fn look_later(&mut self, cx: &mut Context<'_>) {
        self.is_dry = true;
        cx.set_timer(0, next_look(cx));
    }

    /// Ends the capture, and reports why behind the packets before.
    fn fail(&mut self, cx: &mut Context<'_>, error: &IoError) {
        let fault = format!("{}: {error}", cx.declaration());
        self.close();
        if self.has_undelivered {
            self.fault = Some(fault);
        } else {
            cx.say(&fault);
        }
    }

    /// Passes over a packet that is not to be given, or ends with it.
    fn judge_packet(
        &mut self,
        cx: &mut Context<'_>,
        packet: Packet,
        link: LinkType,
    ) -> Look<(Packet, LinkType)> {
        let time = packet.timestamp_ns();
        self.note_link(cx, link);
        if self.packet_position < self.file_position {
            cx.pool().recycle(packet);
            return Look::Passed;
        }
        self.settle_times(time);
        if let Bound::At(from) = self.start
            && time < from
        {
            cx.pool().recycle(packet);
            return Look::Passed;
        }
        if !self.goes_on(cx, time) {
            cx.pool().recycle(packet);
            return Look::Nothing;
        }
        if !is_sampled(cx, self.sample) {
            cx.drop_packet(packet, NOT_SAMPLED);
            return Look::Passed;
        }
        Look::Found((packet, link))
    }

    /// Warns once if a capture has frames of several link types: downstream elements assume one.
    fn note_link(&mut self, cx: &mut Context<'_>, link: LinkType) {
        let first = *self.first_link.get_or_insert(link);
        if first == link || self.force_ip || std::mem::replace(&mut self.has_other_links, true) {
            return;
        }
        let (name, shown) = (cx.declaration(), self.shown());
        cx.say(&format!(
            "{name}: {shown}: frames of {link} among those of {first}: elements read all of them \
             as {first}; split the capture, or set FORCE_IP true if IP headers are sufficient"
        ));
    }

    /// Whether packets of `time` are still given; at the end, that is called.
    fn goes_on(&mut self, cx: &mut Context<'_>, time: i64) -> bool {
        while let Bound::At(end) = self.end {
            if time < end {
                return true;
            }
            (self.end, self.end_ns) = (Bound::None, end);
            self.call_end(cx);
            if !self.active {
                return false;
            }
        }
        true
    }

    /// Handles the end of the requested time.
    fn call_end(&mut self, cx: &mut Context<'_>) {
        if self.end_call.is_empty() {
            self.active = false;
        }
        self.call(cx);
    }

    /// Calls who is to be called at an end.
    fn call(&mut self, cx: &mut Context<'_>) {
        if self.end_call.is_empty() {
            if self.stop {
                self.active = false;
                cx.stop_driver();
            }
            return;
        }
        let call = self.end_call.clone();
        let (handler, value) = call.trim().split_once(' ').unwrap_or((call.trim(), ""));
        // The router cannot call an element that is running: its own handler is called directly.
        let own = match cx.find_handler(handler) {
            Ok((Some(element), name)) if element == cx.element() => Some(name.to_owned()),
            _ => None,
        };
        match own.map(|name| self.write(cx, &name, value)) {
            Some(Err(error)) => cx.say(&format!("{}: {handler}: {error}", cx.declaration())),
            Some(Ok(_)) => {}
            None => cx.call_handler(&call),
        }
    }

    fn close(&mut self) {
        self.capture = None;
    }

    /// The next packet that is due; none if there is none now.
    fn next_due(&mut self, cx: &mut Context<'_>) -> Look<Packet> {
        let (mut packet, link) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match self.read_packet(cx) {
                Look::Found(read) => read,
                Look::Passed => return Look::Passed,
                Look::Nothing => return Look::Nothing,
            },
        };
        if let Some(pace) = &mut self.pace
            && let Some(until) = pace.wait_until(cx.now(), packet.timestamp_ns())
        {
            cx.set_timer(0, until);
            self.waiting = Some((packet, link));
            return Look::Nothing;
        }
        if (self.force_ip || link == LinkType::RawIp) && !find_ip(&mut packet, link) {
            cx.emit_or_drop(1, packet, NO_IP);
            return Look::Passed;
        }
        self.count += 1;
        Look::Found(packet)
    }

    fn make(&mut self, cx: &mut Context<'_>, packets: usize) -> Batch {
        let mut batch = cx.pool().batch();
        self.is_dry = false;
        for _ in 0..LOOKS_MAX {
            if !self.active || batch.len() >= packets.min(BATCH_LEN_MAX) {
                break;
            }
            self.has_undelivered = !batch.is_empty();
            if self.delivers_all() {
                self.read_burst(cx, &mut batch, packets.min(BATCH_LEN_MAX));
                if self.is_dry {
                    break;
                }
                continue;
            }
            match self.next_due(cx) {
                Look::Found(packet) => batch.push(packet),
                Look::Passed => {}
                Look::Nothing => break,
            }
        }
        self.has_undelivered = false;
        if self.has_ended() && batch.is_empty() && !std::mem::replace(&mut self.has_called, true) {
            self.call(cx);
        }
        batch
    }

    /// Whether a timer checks for more packets.
    fn waits(&self) -> bool {
        self.is_dry || self.waiting.is_some()
    }

    fn has_ended(&self) -> bool {
        let is_kept = self.waiting.is_some() || self.late.is_some() || self.fault.is_some();
        self.capture.is_none() && !is_kept
    }

    /// Warns about frames of an unsupported link type that downstream elements would misread.
    fn tell_unread(&self, cx: &mut Context<'_>) {
        let (name, shown, link) = (cx.declaration(), self.shown(), self.link);
        if let Some(looks) = looks_for_headers(cx) {
            cx.say(&format!(
                "{name}: {shown}: frames of {link}, which '{looks}' does not read: {}",
                LinkType::EXPECTED
            ));
        }
        if let Some(writes) = writes_by_default(cx) {
            let mend = match encap_of(link) {
                Some(encap) => {
                    format!("set ENCAP {encap} there, or USE_ENCAP_FROM with this element's name")
                }
                None => "no ENCAP value for this link type".to_owned(),
            };
            cx.say(&format!(
                "{name}: {shown}: frames of {link}, which '{writes}' writes as Ethernet: {mend}"
            ));
        }
    }

    fn shown(&self) -> &str {
        if self.filename == "-" { "<stdin>" } else { &self.filename }
    }

    /// Restarts at the first frame. The configured times do not change.
    fn rewind(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.filesize.is_none() {
            return Err(format!("{}: a stream cannot be read again", self.shown()));
        }
        self.open()?;
        for (packet, _) in self.waiting.take().into_iter().chain(self.late.take()) {
            cx.pool().recycle(packet);
        }
        if self.end == Bound::None && self.end_ns != 0 {
            self.end = Bound::At(self.end_ns);
        }
        (self.active, self.has_called, self.fault) = (true, false, None);
        if let Some(pace) = &mut self.pace {
            pace.restart();
        }
        Ok(())
    }

    /// Opens the capture.
    fn open(&mut self) -> Result<(), String> {
        let capture = CaptureReader::open(&self.filename)
            .map_err(|error| device::open_error(self.shown(), &error))?;
        self.filesize =
            std::fs::metadata(&self.filename).ok().filter(|m| m.is_file()).map(|m| m.len());
        self.position = capture.position();
        self.capture = Some(capture);
        Ok(())
    }
}

impl Element for FromDump {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut mmap, mut timing) = (false, false);
        let (mut end_call, mut sample) = (Raw::default(), Fixed(SAMPLE_ALL));
        args.read("MMAP", &mut mmap)
            .read_mp("FILENAME", &mut self.filename)
            .read_p("TIMING", &mut timing)
            .read("STOP", &mut self.stop)
            .read("ACTIVE", &mut self.active)
            .read("SAMPLE", &mut sample)
            .read("FORCE_IP", &mut self.force_ip)
            .read("END_CALL", &mut end_call)
            .read("FILEPOS", &mut self.file_position)
            .read("BURST", &mut self.burst.given);
        args.note_input("FILENAME", &self.filename);
        self.configure_times(args);
        self.sample = check_sample(sample, args);
        self.pace = timing.then(Pace::default);
        self.end_call = end_call.0;
        if self.stop && !self.end_call.is_empty() {
            args.error_by("END_CALL", "END_CALL and STOP are mutually exclusive");
            args.help(warpswitch_elements_support::calls::STOP_OR_CALL);
        }
        args.complete()
    }

    fn wrong_calls(&self, cx: &mut Context<'_>) -> Vec<String> {
        wrong_call(cx, "END_CALL", &self.end_call, self.handlers()).into_iter().collect()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.burst.settle(cx);
        self.open()?;
        // The link type is queried before any packet is requested: the first packet determines it.
        for _ in 0..LOOKS_MAX {
            match self.read_packet(cx) {
                Look::Found(first) => {
                    self.link = first.1;
                    self.waiting = Some(first);
                    break;
                }
                Look::Passed => {}
                Look::Nothing => break,
            }
        }
        if let Some(capture) = &mut self.capture
            && !cx.console().may_wait()
        {
            capture.never_wait();
        }
        if let LinkType::Unsupported(number) = self.link {
            let shown = self.shown();
            if self.force_ip {
                return Err(format!("{shown}: unknown linktype {number}; can't force IP packets"));
            }
            self.tell_unread(cx);
        }
        if cx.output_is_push(0) && self.active {
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        let batch = self.make(cx, self.burst.len());
        self.burst.note(batch.len());
        let worked = !batch.is_empty();
        cx.emit_batch(0, batch);
        let is_waiting = self.waits() && !worked;
        if self.active && !is_waiting && (worked || !self.has_ended()) {
            cx.schedule_task();
        }
        worked
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        if self.active && cx.output_is_push(0) {
            cx.schedule_task();
        } else if self.active {
            cx.wake();
        }
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let batch = self.make(cx, packets_max);
        if self.active && batch.is_empty() && !self.waits() && !self.has_ended() {
            cx.wake();
        }
        batch
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("active"),
                HandlerSpec::button("stop"),
                HandlerSpec::read("encap"),
                HandlerSpec::read("sampling_prob"),
                HandlerSpec::read("filename"),
                HandlerSpec::read("filesize"),
                HandlerSpec::read("filepos"),
                HandlerSpec::read("packet_filepos"),
                HandlerSpec::read("count"),
                HandlerSpec::read("packets"),
                HandlerSpec::button("reset_counts"),
                HandlerSpec::button("reset_timing"),
                HandlerSpec::both("burst"),
                HandlerSpec::button("rewind"),
                HandlerSpec::write("extend_interval"),
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
            "encap" => name_of(self.link).to_owned(),
            "sampling_prob" => (f64::from(self.sample) / f64::from(SAMPLE_ALL)).to_string(),
            "filename" => self.shown().to_owned(),
            "filesize" => self.filesize.map_or("-".into(), |bytes| bytes.to_string()),
            "filepos" => self.position.to_string(),
            "packet_filepos" => self.packet_position.to_string(),
            "burst" => self.burst.len().to_string(),
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
            "stop" => {
                self.active = false;
                cx.stop_driver();
            }
            "reset_counts" => self.count = 0,
            "reset_timing" => {
                if let Some(pace) = &mut self.pace {
                    pace.restart();
                }
            }
            "burst" => {
                let burst = value.trim().parse().ok().filter(|burst| *burst > 0);
                let wrong = || HandlerError::failed("'burst' takes a number of packets");
                self.burst.given = Some(burst.ok_or_else(wrong)?);
            }
            "rewind" => {
                self.rewind(cx).map_err(HandlerError::failed)?;
                self.run_timer(cx, 0);
            }
            "extend_interval" => {
                let wrong = |_| HandlerError::failed("'extend_interval' takes a time interval");
                let by = Duration::from_arg(value.trim(), &NoNames).map_err(wrong)?;
                let end = if let Bound::At(end) = self.end { end } else { self.end_ns };
                self.end = Bound::At((Time(end) + by).0);
                self.active = true;
                self.run_timer(cx, 0);
            }
            _ => {
                self.active = bool::from_arg(value.trim(), &NoNames)
                    .map_err(|_| HandlerError::failed("type mismatch"))?;
                self.run_timer(cx, 0);
            }
        }
        Ok(String::new())
    }

    fn held(&self) -> usize {
        usize::from(self.waiting.is_some()) + usize::from(self.late.is_some())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        if old.filename != self.filename {
            return;
        }
        if let Some((packet, _)) = self.waiting.take() {
            cx.pool().recycle(packet);
        }
        (self.capture, self.waiting) = (old.capture.take(), old.waiting.take());
        (self.late, self.fault) = (old.late.take(), old.fault.take());
        (self.first_link, self.has_other_links) = (old.first_link, old.has_other_links);
        (self.position, self.packet_position) = (old.position, old.packet_position);
        (self.count, self.has_called) = (old.count, old.has_called);
        if self.pace.is_some() {
            self.pace = old.pace.take().or(self.pace.take());
        }
        self.run_timer(cx, 0);
    }
}
