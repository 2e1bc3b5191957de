//! Writes packets to a capture file.
//!
//! # Synopsis
//! `ToDump(FILENAME, [SNAPLEN, ENCAP], USE_ENCAP_FROM, EXTRA_LENGTH, UNBUFFERED, BURST)`
//!
//! # Ports
//! One input, agnostic. Output 0, optional: all packets. With a pull input and no output, it pulls
//! whenever packets are available.
//!
//! # Configuration
//! - `FILENAME`: output file; `-` for standard output. The format is pcapng if the name ends in
//!   `.pcapng`, otherwise pcap; compressed with gzip if the name ends in `.gz`, as in
//!   `out.pcapng.gz`
//! - `SNAPLEN`: maximum number of bytes written per packet, default: 2000; 0 for all
//! - `ENCAP`: link type of the capture: `ETHER`, `IP`, `LINUX_SLL`, `LINUX_SLL2`, `NULL`, ...
//!   Default: `IP` if the first packet starts with its network header, as after
//!   `Strip(14) -> CheckIPHeader` or from a raw IP capture in `FromDump`; otherwise `ETHER`. Warns
//!   if none of the first 1000 packets is IP in this encapsulation and most of them are in another
//! - `USE_ENCAP_FROM`: elements whose `encap` handler returns the link type
//! - `EXTRA_LENGTH`: whether the original length includes the extra length annotation (bytes that
//!   were not captured), default: true
//! - `UNBUFFERED`: accepted for compatibility, ignored: the file appears complete
//! - `BURST`: maximum number of packets per pull, at most 256. Default: 256 where the output does
//!   not depend on it (docs/bursts.md), otherwise 1
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `filename` | read | |
//! | `count` | read | packets |
//! | `reset_counts` | write | |
//!
//! # Drops
//! None. A packet that the format cannot represent, because of its length or timestamp, is not
//! written; the first one is reported.
//!
//! # Threads
//! Runs on one worker. The file appears under its name, complete, when the run ends. A write error
//! is reported immediately, and no file appears.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> ToDump(out.pcapng.gz);
//! ```

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use warpswitch_elements_support::link::look;
use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{Args, ArgsError, Raw, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Phase,
};
use warpswitch_io::{CaptureOptions, CaptureWriter, FRAME_BYTES_MAX, IoErrorKind};
use warpswitch_packet::{Batch, Packet, annotation};
use warpswitch_wire::link::LinkType;
use warpswitch_wire::link_watch::{LinkWatch, OddLink};

use super::device;
use super::link::{expected_encap, name_of, number_of, starts_with_ip};
use crate::bursts::SinkBurst;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ToDump", "1/0-1", "a", || Box::new(ToDump::new()))
        .consumes_as("written")
        .phase(Phase::Last);

/// The link types of Ethernet and of IP headers.
const ETHERNET: u32 = 1;
const RAW_IP: u32 = 101;

/// What is on its way to the run's standard output.
#[derive(Clone, Debug, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn take(&self) -> Vec<u8> {
        self.0.lock().map_or_else(|_| Vec::new(), |mut bytes| std::mem::take(&mut *bytes))
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.0.lock().map_err(|_| io::Error::other("a thread failed"))?;
        held.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See the module.
#[derive(Debug)]
pub struct ToDump {
    filename: String,
    snap_bytes: u32,
    extra_length: bool,
    link_type: u32,
    /// Whether the arguments specify the encapsulation.
    says_encap: bool,
    /// If they do not, detects packets of another link type than the file declares.
    watch: LinkWatch,
    encap_from: Vec<String>,
    burst: SinkBurst,
    writer: Option<CaptureWriter<'static>>,
    printed: Option<Printed>,
    count: u64,
    failure: Option<String>,
    has_complained: bool,
    is_woken: bool,
}

impl ToDump {
    fn new() -> Self {
        Self {
            filename: String::new(),
            snap_bytes: 2000,
            extra_length: true,
            link_type: ETHERNET,
            says_encap: false,
            watch: LinkWatch::default(),
            encap_from: Vec::new(),
            burst: SinkBurst::default(),
            writer: None,
            printed: None,
            count: 0,
            failure: None,
            has_complained: false,
            is_woken: false,
        }
    }

    fn options(&self) -> CaptureOptions {
        device::options(&self.filename, self.link_type, self.snap_bytes)
    }

    fn ask_for_encap(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let mut found: Vec<(String, String)> = Vec::new();
        for name in &self.encap_from {
            let handler = format!("{name}.encap");
            let asked = cx.find_handler(&handler).and_then(|(element, handler)| {
                let handler = handler.to_owned();
                cx.read_handler(element, &handler, "")
            });
            let encap = asked.map_err(|_| format!("'{name}' has no 'encap' read handler"))?;
            let encap = encap.trim().to_owned();
            self.link_type = number_of(&encap).ok_or_else(|| {
                format!("'{name}.encap' did not return a valid encapsulation type")
            })?;
            found.push((name.clone(), encap));
        }
        if found.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            let lines = found.iter().map(|(name, encap)| format!("\n  {name} has {encap}"));
            return Err(format!(
                "source encapsulation types disagree:{}",
                lines.collect::<String>()
            ));
        }
        Ok(())
    }

    /// Sets the link type of the file from the first packet, unless the arguments specify it.
    fn choose_link(&mut self, first: &Packet) {
        if !self.says_encap
            && starts_with_ip(first)
            && self.writer.as_mut().is_some_and(|writer| writer.set_link_type(RAW_IP))
        {
            self.link_type = RAW_IP;
        }
    }

    /// Warns about packets of another link type than the file declares.
    fn tell_link(&self, cx: &mut Context<'_>, odd: Option<OddLink>) {
        let Some(OddLink { packets, otherwise, link }) = odd else { return };
        let (is, says) = (link, LinkType::from_capture(self.link_type));
        cx.say(&format!(
            "{}: {} declares {says}, but {otherwise} of the first {packets} packets are {is}: \
             set ENCAP {}, or USE_ENCAP_FROM with the name of their source",
            cx.declaration(),
            self.filename,
            name_of(link),
        ));
    }

    fn write_packet(&mut self, cx: &mut Context<'_>, packet: &Packet) {
        let Some(writer) = &mut self.writer else { return };
        let time = match packet.timestamp_ns() {
            0 => cx.now().0,
            time => time,
        };
        let data = packet.data();
        let limit = match self.snap_bytes as usize {
            0 => FRAME_BYTES_MAX,
            limit => limit.min(FRAME_BYTES_MAX),
        };
        let extra = if self.extra_length { packet.anno_u32(annotation::EXTRA_LEN) } else { 0 };
        let original = data.len() + extra as usize;
        let time = u64::try_from(time).unwrap_or(0);
        match writer.write_cut_frame(time, &data[..data.len().min(limit)], original) {
            Ok(()) => self.count += 1,
            Err(error) if error.kind() == IoErrorKind::Unwritable => {
                if !std::mem::replace(&mut self.has_complained, true) {
                    cx.say(&format!("{}: {error}", cx.declaration()));
                }
            }
            Err(error) => {
                cx.say(&format!("{}: {error}; writing stopped", cx.declaration()));
                self.failure = Some(error.to_string());
                self.writer = None;
            }
        }
    }

    fn write_batch(&mut self, cx: &mut Context<'_>, batch: &Batch) {
        if !self.says_encap && !self.watch.is_over() {
            if let Some(first) = batch.iter().next().filter(|_| self.count == 0) {
                self.choose_link(first);
            }
            let link = LinkType::from_capture(self.link_type);
            let odd = batch.iter().find_map(|packet| look(&mut self.watch, link, packet));
            self.tell_link(cx, odd);
        }
        for packet in batch.iter() {
            self.write_packet(cx, packet);
        }
        if let Some(printed) = &self.printed {
            let bytes = printed.take();
            if !bytes.is_empty() {
                cx.print(&bytes);
            }
        }
    }
}

impl Element for ToDump {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut encap, mut encap_from) = (None::<Word>, None::<Raw>);
        let mut unbuffered = false;
        args.read_mp("FILENAME", &mut self.filename)
            .read_p("SNAPLEN", &mut self.snap_bytes)
            .read_p("ENCAP", &mut encap)
            .read("USE_ENCAP_FROM", &mut encap_from)
            .read("EXTRA_LENGTH", &mut self.extra_length)
            .read("UNBUFFERED", &mut unbuffered)
            .read("BURST", &mut self.burst.given);
        args.note_output("FILENAME", &self.filename);
        self.says_encap = encap.is_some() || encap_from.is_some();
        match (&encap, &encap_from) {
            (Some(_), Some(_)) => {
                let message = "specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'";
                args.error_by("USE_ENCAP_FROM", message);
                args.help("omit ENCAP to use the encapsulation of the named elements");
            }
            (Some(encap), None) => match number_of(&encap.0) {
                Some(number) => self.link_type = number,
                None => {
                    args.error_by("ENCAP", "bad encapsulation type");
                    args.help(expected_encap(&encap.0));
                }
            },
            (None, Some(names)) => {
                self.encap_from = split_words(&names.0);
                if self.encap_from.is_empty() {
                    args.error_at("", "element names missing after 'USE_ENCAP_FROM'");
                }
            }
            (None, None) => {}
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.ask_for_encap(cx)?;
        let made = if self.filename == "-" {
            let printed = Printed::default();
            self.printed = Some(printed.clone());
            CaptureWriter::from_write_as(printed, self.options())
        } else {
            CaptureWriter::create_as(&self.filename, self.options())
        };
        let writer = made.map_err(|error| device::create_error(&self.filename, &error))?;
        self.writer = Some(writer);
        if self.filename == "-" {
            self.filename = "<stdout>".into();
        }
        if cx.input_is_pull(0) && !cx.has_output(0) {
            self.burst.settle(cx);
            self.is_woken = cx.listen_upstream(0);
            cx.schedule_task();
        }
        Ok(())
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        self.write_batch(cx, batch);
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.write_batch(cx, &batch);
        if cx.has_output(0) {
            cx.emit_batch(0, batch);
        } else {
            cx.consume_batch(batch);
        }
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let batch = cx.pull(0, self.burst.len());
        let worked = !batch.is_empty();
        self.write_batch(cx, &batch);
        cx.consume_batch(batch);
        if worked || !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("filename"),
                HandlerSpec::read("count"),
                HandlerSpec::button("reset_counts"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "count" { self.count.to_string() } else { self.filename.clone() })
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
        let Some(old) = old.downcast_mut::<Self>() else { return };
        let is_same_link = match (old.says_encap, self.says_encap) {
            (false, false) => true,
            says => says == (true, true) && old.link_type == self.link_type,
        };
        if old.filename != self.filename || !is_same_link {
            return;
        }
        self.link_type = old.link_type;
        self.watch = std::mem::take(&mut old.watch);
        // What was begun for this one goes: nothing is in it.
        (self.writer, self.printed) = (old.writer.take(), old.printed.take());
        (self.count, self.failure) = (old.count, old.failure.take());
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if !self.says_encap {
            let odd = self.watch.end();
            self.tell_link(cx, odd);
        }
        let finished = self.writer.take().map_or(Ok(()), CaptureWriter::finish);
        if let Some(printed) = self.printed.take() {
            cx.print(&printed.take());
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        finished.map_err(|error| error.to_string())
    }
}
