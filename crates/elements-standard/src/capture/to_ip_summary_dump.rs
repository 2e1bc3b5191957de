//! Writes an IP summary dump: one line per packet with the selected fields.
//!
//! # Synopsis
//! `ToIPSummaryDump(FILENAME, FIELDS, HEADER, VERBOSE, BANNER, BINARY, MULTIPACKET, BAD_PACKETS,
//! CAREFUL_TRUNC, EXTRA_LENGTH, BURST)`
//!
//! # Ports
//! One input, push or pull; a pull input pulls whenever packets are available. Output 0, optional,
//! push: all packets.
//!
//! # Configuration
//! - `FILENAME`: output file; `-` for standard output
//! - `FIELDS` (or `CONTENTS`, `DATA`): field names, default: `timestamp ip_src`
//! - `HEADER`: whether to write the header lines that describe the format, default: true
//! - `VERBOSE`: whether the header includes the start time of the run, default: false
//! - `BANNER`: text of a `!creator` line
//! - `BINARY`: whether to write binary records, default: false
//! - `MULTIPACKET`: whether to write several lines for a packet that represents several, default:
//!   false; always false if `count` is a field
//! - `BAD_PACKETS`: whether to write a `!bad ...` line before malformed packets, default: false
//! - `CAREFUL_TRUNC`: whether truncated packets are malformed, default: true
//! - `EXTRA_LENGTH`: whether lengths include the extra length annotation (bytes that were not
//!   captured), default: true
//! - `BURST`: maximum number of packets per pull, at most 256. Default: 256 where the output does
//!   not depend on it (docs/bursts.md), otherwise 1
//!
//! Fields: `timestamp` (`ts`), `ntimestamp`, `ts_sec`, `ts_usec`, `ts_usec1`, `first_timestamp`,
//! `count`, `link`, `paint`, `direction`, `aggregate`, `wire_len`, `eth_src`, `eth_dst`,
//! `eth_type`, `ip_src`, `ip_dst`, `ip_tos`, `ip_dscp`, `ip_ecn`, `ip_ttl`, `ip_frag`,
//! `ip_fragoff`, `ip_id`, `ip_sum`, `ip_proto`, `ip_hl`, `ip_len`, `ip_capture_len`, `ip_opt`,
//! `sport`, `dport`, `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_flags`, `tcp_window`, `tcp_urp`,
//! `tcp_opt`, `tcp_ntopt`, `tcp_sack`, `udp_len`, `icmp_type`, `icmp_code`, `icmp_type_name`,
//! `icmp_code_name`, `icmp_flowid`, `icmp_seq`, `icmp_nextmtu`, `payload`, `payload_len`,
//! `payload_md5`, `payload_md5_hex`; the prefix `ip_` is optional, except in `ip_capture_len`.
//! Values that a packet does not have are `-`.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `flush` | write | flushes buffered output to the file |
//! | `filename` | read | |
//! | `count` | read | packets |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker. The file is written under its name during the run. A write error is reported
//! immediately, ends the output, and makes the run fail.
//!
//! # Example
//! ```text
//! FromDump(in.pcap, FORCE_IP true, STOP true)
//!     -> ToIPSummaryDump(-, FIELDS timestamp ip_src sport ip_dst dport ip_proto ip_len);
//! ```

use warpswitch_elements_support::annotation as own_annotation;
use warpswitch_elements_support::files::{Output, reason};
use warpswitch_graph::language::args::split::{split_words, unquote};
use warpswitch_graph::language::args::{Args, ArgsError, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet, annotation};

use super::summary::view::{Manner, first_timestamp};
use super::summary::{self, MINOR_VERSION, Spec, Width, write};
use crate::bursts::SinkBurst;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ToIPSummaryDump", "1/0-1", "a/h", || Box::new(ToIpSummaryDump::new()))
        .consumes_as("written");

/// See the module.
#[derive(Debug)]
pub struct ToIpSummaryDump {
    filename: String,
    fields: Vec<&'static Spec>,
    manner: Manner,
    multipacket: bool,
    binary: bool,
    header: bool,
    verbose: bool,
    banner: String,
    burst: SinkBurst,
    output: Option<Output>,
    count: u64,
    is_woken: bool,
    /// Lines that come before the first packet.
    pending: String,
    /// What could not be written.
    failure: Option<String>,
    /// What is written next.
    text: String,
    bytes: Vec<u8>,
    bad: String,
}

impl ToIpSummaryDump {
    fn new() -> Self {
        let manner = Manner { tells_bad: false, careful_truncation: true, extra_length: true };
        Self {
            filename: String::new(),
            fields: Vec::new(),
            manner,
            multipacket: false,
            binary: false,
            header: true,
            verbose: false,
            banner: String::new(),
            burst: SinkBurst::default(),
            output: None,
            count: 0,
            is_woken: false,
            pending: String::new(),
            failure: None,
            text: String::new(),
            bytes: Vec::new(),
            bad: String::new(),
        }
    }

    fn read_fields(&mut self, text: &str, args: &mut Args<'_>) {
        for word in split_words(text) {
            let name = String::from_utf8_lossy(&unquote(&word)).into_owned();
            let Some(spec) = summary::find(&name) else {
                args.error_at("", &format!("unknown content type '{name}'"));
                continue;
            };
            if self.binary && spec.width == Width::TextOnly {
                args.error_at("", &format!("cannot use field {name} with BINARY"));
            }
            self.multipacket &= spec.name != "count";
            self.fields.push(spec);
        }
        if self.fields.is_empty() {
            args.error_at("", "no contents specified");
        }
    }

    fn header_lines(&self, cx: &Context<'_>) -> String {
        let mut lines = format!("!IPSummaryDump 1.{MINOR_VERSION}\n");
        if !self.banner.is_empty() {
            lines.push_str("!creator ");
            write::quote(self.banner.as_bytes(), &mut lines);
            lines.push('\n');
        }
        if self.verbose {
            lines.push_str("!runtime ");
            write::time_text(cx.now().0, &mut lines);
            lines.push('\n');
        }
        lines.push_str(&self.data_line());
        lines.push_str(if self.binary { "!binary\n" } else { "" });
        lines
    }

    /// The line that names the columns.
    fn data_line(&self) -> String {
        let mut line = "!data".to_owned();
        for spec in &self.fields {
            let is_plain = spec.name == "ntimestamp" && !self.binary;
            line.push(' ');
            line.push_str(if is_plain { "timestamp" } else { spec.name });
        }
        line + "\n"
    }

    /// Adds what is to be written of `packet`.
    fn describe(&mut self, packet: &Packet) {
        self.bad.clear();
        if self.binary {
            let start = self.bytes.len();
            write::record(packet, &self.fields, self.manner, &mut self.bytes, &mut self.bad);
            if !self.bad.is_empty() {
                let record = self.bytes.split_off(start);
                write::text_record(&self.bad, &mut self.bytes);
                self.bytes.extend(record);
            }
        } else {
            let start = self.text.len();
            write::line(packet, &self.fields, self.manner, &mut self.text, &mut self.bad);
            self.text.insert_str(start, &self.bad);
        }
        self.count += 1;
    }

    /// Describes each of the packets that `packet` stands for.
    fn describe_all(&mut self, packet: &mut Packet) {
        let extra = packet.anno_u32(own_annotation::EXTRA_PACKETS);
        if !self.multipacket || extra == 0 {
            return self.describe(packet);
        }
        let (count, bytes) = (u64::from(extra) + 1, packet.len() as u64);
        let extra_bytes = packet.anno_u32(annotation::EXTRA_LEN);
        let counted = if self.manner.extra_length { u64::from(extra_bytes) } else { 0 };
        let mut total = (bytes + counted).max(count * bytes);
        let (first, last) = (first_timestamp(packet), packet.timestamp_ns());
        let step = if first == 0 { 0 } else { (last - first) / i64::from(extra) };
        packet.set_timestamp_ns(if first == 0 { last } else { first });
        packet.set_anno_u32(own_annotation::EXTRA_PACKETS, 0);
        for left in (1..=count).rev() {
            let share = total / left;
            total -= share;
            packet.set_anno_u32(annotation::EXTRA_LEN, (share - bytes) as u32);
            self.describe(packet);
            let next = if left == 2 { last } else { packet.timestamp_ns() + step };
            packet.set_timestamp_ns(next);
        }
        packet.set_timestamp_ns(last);
        packet.set_anno_u32(annotation::EXTRA_LEN, extra_bytes);
        packet.set_anno_u32(own_annotation::EXTRA_PACKETS, extra);
    }

    fn write_out(&mut self, cx: &mut Context<'_>) {
        let bytes = if self.binary { &self.bytes[..] } else { self.text.as_bytes() };
        let written = match &mut self.output {
            Some(output) if self.failure.is_none() => {
                let pending = std::mem::take(&mut self.pending);
                output.write(cx, pending.as_bytes()).and_then(|()| output.write(cx, bytes))
            }
            _ => Ok(()),
        };
        self.check(cx, written);
        self.text.clear();
        self.bytes.clear();
    }

    fn check(&mut self, cx: &mut Context<'_>, done: std::io::Result<()>) {
        if let Err(error) = done {
            let message = format!("{}: {}", self.filename, reason(&error));
            cx.say(&format!("{}: {message}; writing stopped", cx.declaration()));
            self.failure.get_or_insert(message);
        }
    }

    fn take(&mut self, cx: &mut Context<'_>, mut batch: Batch) {
        if self.failure.is_none() {
            for packet in batch.iter_mut() {
                self.describe_all(packet);
            }
            self.write_out(cx);
        }
        if cx.has_output(0) {
            cx.emit_batch(0, batch);
        } else {
            cx.consume_batch(batch);
        }
    }
}

impl Element for ToIpSummaryDump {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut fields = Raw("timestamp ip_src".into());
        args.read_mp("FILENAME", &mut self.filename)
            .read("FIELDS", &mut fields)
            .read("CONTENTS", &mut fields)
            .read("DATA", &mut fields)
            .read("VERBOSE", &mut self.verbose)
            .read("HEADER", &mut self.header)
            .read("BANNER", &mut self.banner)
            .read("MULTIPACKET", &mut self.multipacket)
            .read("BAD_PACKETS", &mut self.manner.tells_bad)
            .read("CAREFUL_TRUNC", &mut self.manner.careful_truncation)
            .read("EXTRA_LENGTH", &mut self.manner.extra_length)
            .read("BINARY", &mut self.binary)
            .read("BURST", &mut self.burst.given);
        args.note_output("FILENAME", &self.filename);
        self.read_fields(&fields.0, args);
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let output = Output::create(&self.filename);
        self.output =
            Some(output.map_err(|error| format!("{}: {}", self.filename, reason(&error)))?);
        if self.filename == "-" {
            self.filename = "<stdout>".into();
        }
        if self.header {
            self.pending = self.header_lines(cx);
        }
        if cx.input_is_pull(0) {
            self.burst.settle(cx);
            self.is_woken = cx.listen_upstream(0);
            cx.schedule_task();
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.take(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let batch = cx.pull(0, self.burst.len());
        let worked = !batch.is_empty();
        self.take(cx, batch);
        if worked || !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::button("flush"),
                HandlerSpec::read("filename"),
                HandlerSpec::read("count"),
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
        cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        self.write_out(cx);
        let flushed = self.output.as_mut().map_or(Ok(()), Output::flush);
        self.check(cx, flushed);
        self.failure.clone().map_or(Ok(String::new()), |failure| Err(HandlerError::failed(failure)))
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        if (&old.filename, old.binary) != (&self.filename, self.binary) {
            return;
        }
        self.output = old.output.take();
        (self.count, self.failure) = (old.count, old.failure.take());
        let names = |fields: &[&'static Spec]| fields.iter().map(|s| s.name).collect::<Vec<_>>();
        if names(&old.fields) == names(&self.fields) {
            self.pending = std::mem::take(&mut old.pending);
        } else if old.pending.is_empty() && !self.binary {
            self.pending = self.data_line();
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.write_out(cx);
        let flushed = self.output.as_mut().map_or(Ok(()), Output::flush);
        self.check(cx, flushed);
        self.output = None;
        self.failure.take().map_or(Ok(()), Err)
    }
}
