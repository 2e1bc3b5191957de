//! Emits packets built from the lines of an IP summary dump.
//!
//! # Synopsis
//! `FromIPSummaryDump([FILENAME], STOP, TIMING, ACTIVE, ZERO, CHECKSUM, PROTO, MULTIPACKET, SAMPLE,
//! FIELDS, FLOWID, ALLOW_NONEXISTENT, DATA, BURST)`
//!
//! # Ports
//! One output, agnostic.
//!
//! # Configuration
//! - `FILENAME`: input file, optionally compressed with gzip; `-` for standard input. Pipes are
//!   read as in `FromDump`
//! - `STOP`: whether to stop the run after the last packet, default: false
//! - `TIMING`: whether to replay packets with their original timing, default: false
//! - `ACTIVE`: whether to emit packets, default: true
//! - `ZERO`: accepted for compatibility, ignored: missing fields are always zero
//! - `CHECKSUM`: whether to set checksums and pad packets to the length in their headers, default:
//!   false. Without it, packets contain only the given fields, and the extra length annotation
//!   holds the rest
//! - `PROTO`: IP protocol if the dump has none, default: 6
//! - `MULTIPACKET`: whether to emit several packets for a line that represents several, default:
//!   false
//! - `SAMPLE`: probability of emitting a packet, 0 to 1, default: 1
//! - `FIELDS` (or `CONTENTS`, `DEFAULT_FIELDS`, `DEFAULT_CONTENTS`): columns until the first
//!   `!data` line; see `ToIPSummaryDump`
//! - `FLOWID` (or `DEFAULT_FLOWID`): `SRC SPORT DST DPORT [PROTO]`, defaults for missing columns
//! - `ALLOW_NONEXISTENT`: whether to accept a missing or empty file, default: false
//! - `DATA`: the dump itself, instead of a file
//! - `BURST`: packets per batch, at most 256. Default: 1 for the first 1024 packets, then 64 where
//!   the output does not depend on it (docs/bursts.md)
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//! | `stop` | write | deactivates the element and stops the run |
//! | `encap` | read | `IP` |
//! | `sampling_prob` | read | probability |
//! | `filename`, `filesize`, `filepos` | read | name, bytes, bytes |
//! | `count` | read | packets |
//!
//! # Drops
//! - `not sampled`: not selected by `SAMPLE`
//!
//! Lines that cannot be parsed are skipped; the first one is reported.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! FromIPSummaryDump(STOP true, CHECKSUM true, DATA "!data src sport dst dport proto
//! 18.26.4.44 30 10.0.0.4 40 T") -> CheckIPHeader -> Discard;
//! ```

use std::net::Ipv4Addr;

use warpswitch_elements_support::annotation as own_annotation;
use warpswitch_elements_support::files::reason;
use warpswitch_graph::language::args::split::{split_words, unquote};
use warpswitch_graph::language::args::{
    Args, ArgsError, Bytes, Fixed, FromArg, Names, NoNames, Raw,
};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Header, Packet, annotation};

use super::files::{LOOKS_MAX, Lines, Look, is_later, next_look};
use super::pace::Pace;
use super::summary::read::{Defaults, Draft, FlowId, parse, parse_binary};
use super::summary::view::first_timestamp;
use super::summary::{self, MINOR_VERSION, NOTHING, Spec, names};
use crate::bursts::SourceBurst;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("FromIPSummaryDump", "0/1", "a", || Box::new(FromIpSummaryDump::new()))
        .wakes()
        .drops(&["not sampled"]);

/// Bits behind the point of a probability.
pub(super) const SAMPLE_BITS: u32 = 28;
/// The share of all.
pub(super) const SAMPLE_ALL: u32 = 1 << SAMPLE_BITS;
/// The most columns of a dump.
const COLUMNS_MAX: usize = 256;

/// A packet that stands for several which are yet to be made.
#[derive(Debug)]
struct Several {
    packet: Packet,
    /// Bytes of each but the last, and times between them.
    bytes: u64,
    step_ns: i64,
    last_ns: i64,
}

/// See the module.
#[derive(Debug)]
pub struct FromIpSummaryDump {
    filename: String,
    data: Option<Vec<u8>>,
    stop: bool,
    active: bool,
    checksum: bool,
    multipacket: bool,
    allow_nonexistent: bool,
    sample: u32,
    burst: SourceBurst,
    defaults: Defaults,
    /// The columns, and the order in which they are applied.
    columns: Vec<&'static Spec>,
    order: Vec<usize>,
    is_binary: bool,
    lines: Option<Lines>,
    filesize: Option<u64>,
    /// Bytes of the file that were read when it ended.
    position: u64,
    count: u64,
    has_complained: bool,
    /// A packet whose time has not come.
    waiting: Option<Packet>,
    several: Option<Several>,
    /// Whether the pipe that is read had nothing when it was looked at last.
    is_dry: bool,
    pace: Option<Pace>,
    line: String,
    record: Vec<u8>,
    scratch: Vec<u8>,
}

impl FromIpSummaryDump {
    fn new() -> Self {
        let minor_version = MINOR_VERSION;
        Self {
            filename: String::new(),
            data: None,
            stop: false,
            active: true,
            checksum: false,
            multipacket: false,
            allow_nonexistent: false,
            sample: SAMPLE_ALL,
            burst: SourceBurst::default(),
            defaults: Defaults { proto: 6, flow_id: None, aggregate: None, minor_version },
            columns: Vec::new(),
            order: Vec::new(),
            is_binary: false,
            lines: None,
            filesize: None,
            position: 0,
            count: 0,
            has_complained: false,
            waiting: None,
            several: None,
            is_dry: false,
            pace: None,
            line: String::new(),
            record: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Takes the columns from words; gives what is wrong.
    fn set_columns(&mut self, words: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        self.columns.clear();
        for word in words.iter().take(COLUMNS_MAX) {
            let name = String::from_utf8_lossy(&unquote(word)).into_owned();
            let spec = match summary::find(&name).filter(|spec| spec.is_input) {
                Some(spec) => spec,
                None if name == "none" => &NOTHING,
                None => {
                    wrong.push(format!("warning: unknown content type '{name}'"));
                    &NOTHING
                }
            };
            self.columns.push(spec);
        }
        if self.columns.is_empty() {
            wrong.push("no contents specified".into());
        }
        self.order = (0..self.columns.len()).collect();
        self.order.sort_by_key(|&at| self.columns[at].order);
        wrong
    }

    /// Takes `SRC SPORT DST DPORT [PROTO]`; gives what is wrong.
    fn set_flow_id(&mut self, words: &[String], names: &dyn Names) -> Vec<String> {
        let address = |word: &str| match word {
            "-" => Some(Ipv4Addr::UNSPECIFIED),
            word => Ipv4Addr::from_arg(word, names).ok(),
        };
        let port = |word: &str| match word {
            "-" => Some(0),
            word => u16::from_arg(word, names).ok(),
        };
        let flow_id = match words {
            [src, sport, dst, dport, ..] => (|| {
                let (src, sport) = (address(src)?, port(sport)?);
                Some(FlowId { src, sport, dst: address(dst)?, dport: port(dport)? })
            })(),
            _ => None,
        };
        self.defaults.flow_id = flow_id;
        match (flow_id, words.get(4)) {
            (None, _) => vec!["bad !flowid specification".into()],
            (Some(_), Some(proto)) => self.set_proto(std::slice::from_ref(proto), "!flowid"),
            (Some(_), None) => Vec::new(),
        }
    }

    fn set_proto(&mut self, words: &[String], line: &str) -> Vec<String> {
        match words {
            [word] => match names::protocol(word) {
                Some(proto) => self.defaults.proto = proto,
                None => return vec![format!("bad protocol in {line}")],
            },
            _ => return vec![format!("bad {line}")],
        }
        Vec::new()
    }

    /// Obeys a line that begins with `!`.
    fn obey(&mut self, cx: &mut Context<'_>, line: &str) {
        let mut words = split_words(line);
        let command = if words.is_empty() { String::new() } else { words.remove(0) };
        let wrong = match command.as_str() {
            "!data" | "!contents" => self.set_columns(&words),
            "!flowid" => self.set_flow_id(&words, &cx.names()),
            "!proto" => self.set_proto(&words, "!proto"),
            "!aggregate" => {
                let number = words.first().and_then(|word| u32::from_arg(word, &NoNames).ok());
                self.defaults.aggregate = number.filter(|_| words.len() == 1);
                let is_wrong = self.defaults.aggregate.is_none();
                is_wrong.then(|| "bad !aggregate specification".to_owned()).into_iter().collect()
            }
            "!binary" => {
                self.is_binary = true;
                if let Some(lines) = &mut self.lines {
                    lines.restart_numbers();
                }
                Vec::new()
            }
            _ => Vec::new(),
        };
        for message in wrong {
            self.tell(cx, &message);
        }
    }

    /// Reports a message about the line that was read last.
    fn tell(&self, cx: &mut Context<'_>, message: &str) {
        let place = self.lines.as_ref().map(|lines| {
            let record = if self.is_binary { "record " } else { "" };
            format!("{}:{record}{}: ", lines.name(), lines.number())
        });
        cx.say(&format!("{}{message}", place.unwrap_or_default()));
    }

    fn complain(&mut self, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.has_complained, true) {
            let message = match self.columns.is_empty() {
                true => "no '!data' provided",
                false => "packet parse error",
            };
            self.tell(cx, message);
        }
    }

    /// Reads on until there is a packet; none at the end.
    /// Reads a line or record.
    fn next_packet(&mut self, cx: &mut Context<'_>) -> Look<Packet> {
        let Some(lines) = &mut self.lines else { return Look::Nothing };
        let found = if self.is_binary {
            lines.record(&mut self.record).map(|found| found.map(|is_text| !is_text))
        } else {
            lines.line(&mut self.line).map(|found| found.then_some(false))
        };
        let is_record = match found {
            Ok(Some(is_record)) => is_record,
            Ok(None) => {
                self.close();
                return Look::Nothing;
            }
            Err(error) if is_later(&error) => {
                self.is_dry = true;
                cx.set_timer(0, next_look(cx));
                return Look::Nothing;
            }
            Err(error) => {
                self.tell(cx, &reason(&error));
                self.close();
                return Look::Nothing;
            }
        };
        if self.is_binary && !is_record {
            self.line = String::from_utf8_lossy(&self.record).trim_end().to_owned();
        }
        let line = std::mem::take(&mut self.line);
        let packet = match line.as_bytes().first() {
            _ if is_record => self.packet_of_record(cx),
            Some(b'!') => {
                self.obey(cx, &line);
                None
            }
            None | Some(b'#') => None,
            Some(_) => self.packet_of_line(cx, &line),
        };
        self.line = line;
        packet.map_or(Look::Passed, Look::Found)
    }

    fn close(&mut self) {
        if let Some(lines) = self.lines.take() {
            self.position = lines.position();
        }
    }

    fn packet_of_line(&mut self, cx: &mut Context<'_>, line: &str) -> Option<Packet> {
        let words = words_of(line, self.columns.len());
        let mut draft = Draft::new(std::mem::take(&mut self.scratch), self.defaults);
        let mut has_any = false;
        for &at in &self.order {
            let spec = self.columns[at];
            let Some(&word) = words.get(at).filter(|word| !matches!(**word, "" | "-")) else {
                continue;
            };
            if std::ptr::eq(spec, &NOTHING) {
                continue;
            }
            if let Some(input) = parse(spec, word, &draft, &cx.names()) {
                draft.apply(spec.field, &input);
                has_any = true;
            }
        }
        if !has_any && !line.trim().is_empty() {
            self.complain(cx);
        }
        self.finish_packet(cx, draft, has_any)
    }

    fn packet_of_record(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let mut draft = Draft::new(std::mem::take(&mut self.scratch), self.defaults);
        let mut rest = &self.record[..];
        let inputs: Vec<_> =
            self.columns.iter().map(|spec| parse_binary(spec, &mut rest)).collect();
        let mut has_any = false;
        for &at in &self.order {
            if let Some(input) = &inputs[at] {
                draft.apply(self.columns[at].field, input);
                has_any = true;
            }
        }
        if !has_any {
            self.complain(cx);
        }
        self.finish_packet(cx, draft, has_any)
    }

    fn finish_packet(
        &mut self,
        cx: &mut Context<'_>,
        mut draft: Draft,
        is_packet: bool,
    ) -> Option<Packet> {
        let packet = is_packet.then(|| {
            let mut packet = cx.pool().packet();
            draft.finish(&mut packet, self.checksum);
            packet
        });
        self.scratch = draft.into_bytes();
        packet
    }

    /// The next packet that is due.
    fn next_due(&mut self, cx: &mut Context<'_>) -> Look<Packet> {
        let held = self.waiting.take().or_else(|| self.next_of_several(cx));
        let packet = match held {
            Some(packet) => packet,
            None => match self.next_packet(cx) {
                Look::Found(packet) => self.begin_several(cx, packet),
                nothing => return nothing,
            },
        };
        if let Some(pace) = &mut self.pace
            && let Some(until) = pace.wait_until(cx.now(), packet.timestamp_ns())
        {
            cx.set_timer(0, until);
            self.waiting = Some(packet);
            return Look::Nothing;
        }
        Look::Found(packet)
    }

    /// Begins with the packets that `packet` stands for; gives the first.
    fn begin_several(&mut self, cx: &mut Context<'_>, mut packet: Packet) -> Packet {
        let extra = packet.anno_u32(own_annotation::EXTRA_PACKETS);
        if !self.multipacket || extra == 0 {
            return packet;
        }
        let len = packet.len() as u64;
        let total = len + u64::from(packet.anno_u32(annotation::EXTRA_LEN));
        let bytes = (total / (u64::from(extra) + 1)).max(len);
        let rest = total.saturating_sub(bytes * u64::from(extra)).max(len);
        packet.set_anno_u32(annotation::EXTRA_LEN, (rest - len) as u32);
        let (first, last_ns) = (first_timestamp(&packet), packet.timestamp_ns());
        let step_ns = if first == 0 { 0 } else { (last_ns - first) / i64::from(extra) };
        if first != 0 {
            packet.set_timestamp_ns(first);
        }
        self.several = Some(Several { packet, bytes, step_ns, last_ns });
        self.next_of_several(cx).expect("there are several")
    }

    fn next_of_several(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        let mut several = self.several.take()?;
        let left = several.packet.anno_u32(own_annotation::EXTRA_PACKETS);
        if left == 0 {
            let mut packet = several.packet;
            packet.set_timestamp_ns(several.last_ns);
            let bytes = packet.len() as u64 + u64::from(packet.anno_u32(annotation::EXTRA_LEN));
            set_total(&mut packet, bytes);
            return Some(packet);
        }
        let mut packet = cx.pool().copy(&several.packet);
        packet.set_anno_u32(own_annotation::EXTRA_PACKETS, 0);
        set_total(&mut packet, several.bytes);
        several.packet.set_anno_u32(own_annotation::EXTRA_PACKETS, left - 1);
        several.packet.set_timestamp_ns(packet.timestamp_ns() + several.step_ns);
        self.several = Some(several);
        Some(packet)
    }

    /// Up to `packets` packets.
    fn make(&mut self, cx: &mut Context<'_>, packets: usize) -> Batch {
        let mut batch = cx.pool().batch();
        self.is_dry = false;
        for _ in 0..LOOKS_MAX {
            if !self.active || batch.len() >= packets.min(BATCH_LEN_MAX) {
                break;
            }
            match self.next_due(cx) {
                Look::Found(packet) if is_sampled(cx, self.sample) => {
                    self.count += 1;
                    batch.push(packet);
                }
                Look::Found(packet) => cx.drop_packet(packet, 0),
                Look::Passed => {}
                Look::Nothing => break,
            }
        }
        batch
    }

    /// Whether a timer checks for more packets.
    fn waits(&self) -> bool {
        self.is_dry || self.waiting.is_some()
    }

    fn has_ended(&self) -> bool {
        self.lines.is_none() && self.waiting.is_none() && self.several.is_none()
    }

    /// Reads the line with the version, and warns if the file does not look like a dump.
    fn read_banner(&mut self, cx: &mut Context<'_>) {
        let Some(lines) = &mut self.lines else { return };
        let known = ["!creator", "!data", "!contents", "!proto", "!flowid"];
        // Read errors are reported when packets are requested.
        let Ok(Some(line)) = lines.peek() else { return };
        let version = line.strip_prefix("!IPSummaryDump").map(|rest| rest.trim().to_owned());
        let is_known = known.iter().any(|known| line.starts_with(known));
        let Some(version) = version else {
            if !is_known && self.columns.is_empty() {
                let name = lines.name();
                let warning = "warning: missing banner line; is this an IP summary dump?";
                cx.say(&format!("{name}:1: {warning}"));
            }
            return;
        };
        let _ = lines.line(&mut self.line);
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let version = version.split_once('.');
        let Some((major, minor)) =
            version.and_then(|(major, minor)| Some((number(major)?, number(minor)?)))
        else {
            return;
        };
        if major == 1 && minor <= MINOR_VERSION {
            self.defaults.minor_version = minor;
        } else {
            let message = format!("warning: unexpected IPSummaryDump version {major}.{minor}");
            self.tell(cx, &message);
        }
    }
}

/// Whether chance lets a packet pass, of which `sample` of [`SAMPLE_ALL`] do.
pub(super) fn is_sampled(cx: &mut Context<'_>, sample: u32) -> bool {
    sample >= SAMPLE_ALL || cx.random() & (SAMPLE_ALL - 1) < sample
}

/// Checks a probability, as an argument.
pub(super) fn check_sample(sample: Fixed<SAMPLE_BITS>, args: &mut Args<'_>) -> u32 {
    if sample.0 > SAMPLE_ALL {
        args.warn_at("SAMPLE", "probability reduced to 1");
    } else if sample.0 == 0 {
        args.warn_at("SAMPLE", "probability is 0; emitting no packets");
    }
    sample.0.min(SAMPLE_ALL)
}

/// Sets the length fields of `packet` to a total of `bytes` bytes, including those not captured.
fn set_total(packet: &mut Packet, bytes: u64) {
    let extra = bytes.saturating_sub(packet.len() as u64) as u32;
    packet.set_anno_u32(annotation::EXTRA_LEN, extra);
    let total = (bytes - packet.header_offset(Header::Network).unwrap_or(0) as u64).min(0xffff);
    let ip = packet.from_header_mut(Header::Network);
    let Some(&first) = ip.first() else { return };
    let header_bytes = usize::from(first & 15) * 4;
    let is_udp = ip.get(9) == Some(&17);
    if let Some(field) = ip.get_mut(2..4) {
        field.copy_from_slice(&(total as u16).to_be_bytes());
    }
    if let Some(field) = ip.get_mut(header_bytes + 4..header_bytes + 6).filter(|_| is_udp) {
        let bytes = total.saturating_sub(header_bytes as u64);
        field.copy_from_slice(&(bytes as u16).to_be_bytes());
    }
}

/// The first `count` words of a line; what is in quotes is one.
fn words_of(line: &str, count: usize) -> Vec<&str> {
    let mut words = Vec::with_capacity(count);
    let (mut start, mut in_quotes, mut is_escaped) = (None, false, false);
    for (at, c) in line.char_indices() {
        if c.is_ascii_whitespace() && !in_quotes {
            if let Some(start) = start.take() {
                words.push(&line[start..at]);
            }
            continue;
        }
        start.get_or_insert(at);
        in_quotes ^= c == '"' && !is_escaped;
        is_escaped = in_quotes && c == '\\' && !is_escaped;
    }
    words.extend(start.map(|start| &line[start..]));
    words.truncate(count);
    words
}

impl Element for FromIpSummaryDump {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut columns, mut flow_id) = (Raw::default(), Raw::default());
        let (mut filename, mut data) = (None::<String>, None::<Bytes>);
        let (mut timing, mut zero, mut sample) = (false, true, Fixed(SAMPLE_ALL));
        args.read_p("FILENAME", &mut filename)
            .read("STOP", &mut self.stop)
            .read("ACTIVE", &mut self.active)
            .read("ZERO", &mut zero)
            .read("TIMING", &mut timing)
            .read("CHECKSUM", &mut self.checksum)
            .read("SAMPLE", &mut sample)
            .read("PROTO", &mut self.defaults.proto)
            .read("MULTIPACKET", &mut self.multipacket)
            .read("DEFAULT_CONTENTS", &mut columns)
            .read("DEFAULT_FIELDS", &mut columns)
            .read("DEFAULT_FLOWID", &mut flow_id)
            .read("CONTENTS", &mut columns)
            .read("FIELDS", &mut columns)
            .read("FLOWID", &mut flow_id)
            .read("ALLOW_NONEXISTENT", &mut self.allow_nonexistent)
            .read("DATA", &mut data)
            .read("BURST", &mut self.burst.given);
        self.sample = check_sample(sample, args);
        self.pace = timing.then(Pace::default);
        let named = |text: &Raw, name: &str| {
            let words = split_words(&text.0);
            let is_named = words.first().is_some_and(|word| word == name);
            words.into_iter().skip(usize::from(is_named)).collect::<Vec<_>>()
        };
        if !columns.0.is_empty() {
            for message in self.set_columns(&named(&columns, "!data")) {
                match message.strip_prefix("warning: ") {
                    Some(warning) => args.warn_at("FIELDS", warning),
                    None => args.error_at("FIELDS", &message),
                }
            }
        }
        if !flow_id.0.is_empty() {
            for message in self.set_flow_id(&named(&flow_id, "!flowid"), context.names) {
                args.error_at("FLOWID", &message);
            }
        }
        match (&filename, &data) {
            (Some(_), Some(_)) => args.error_at("", "FILENAME and DATA conflict"),
            (None, None) => args.error_at("FILENAME", "required argument missing"),
            (Some(filename), None) => _ = args.note_input("FILENAME", filename),
            (None, Some(_)) => {}
        }
        (self.filename, self.data) =
            (filename.unwrap_or_else(|| "<data>".into()), data.map(|data| data.0));
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.burst.settle(cx);
        if cx.output_is_push(0) && self.active {
            cx.schedule_task();
        }
        let shown = if self.filename == "-" { "<stdin>" } else { &self.filename };
        let opened = match self.data.take() {
            Some(data) => Ok(Lines::of(data)),
            None => Lines::open(&self.filename),
        };
        let mut lines = match opened {
            Ok(lines) => lines,
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound && self.allow_nonexistent =>
            {
                return Ok(());
            }
            Err(error) => return Err(format!("{shown}: {}", reason(&error))),
        };
        // Input from a terminal or pipe is waited for when it is read.
        self.filesize =
            std::fs::metadata(&self.filename).ok().filter(|m| m.is_file()).map(|m| m.len());
        let is_empty = self.filename != "-" && lines.peek().is_ok_and(|line| line.is_none());
        if is_empty && !self.allow_nonexistent {
            return Err(format!("{shown}: empty file"));
        }
        self.lines = Some(lines);
        self.read_banner(cx);
        if let Some(lines) = &mut self.lines
            && !cx.console().may_wait()
        {
            lines.never_wait();
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
        if self.waits() && !worked {
            return false;
        }
        if self.has_ended() && !worked {
            if self.stop {
                cx.stop_driver();
            }
        } else {
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
        if self.active && batch.is_empty() && !self.waits() {
            match self.has_ended() {
                true if self.stop => cx.stop_driver(),
                true => {}
                false => cx.wake(),
            }
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
        Ok(match name {
            "active" => self.active.to_string(),
            "encap" => "IP".into(),
            "sampling_prob" => (f64::from(self.sample) / f64::from(SAMPLE_ALL)).to_string(),
            "filename" if self.filename == "-" => "<stdin>".into(),
            "filename" => self.filename.clone(),
            "filesize" => self.filesize.map_or("-".into(), |bytes| bytes.to_string()),
            "filepos" => self.lines.as_ref().map_or(self.position, Lines::position).to_string(),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if name == "stop" {
            self.active = false;
            cx.stop_driver();
            return Ok(String::new());
        }
        self.active = bool::from_arg(value.trim(), &NoNames)
            .map_err(|_| HandlerError::failed("type mismatch"))?;
        self.run_timer(cx, 0);
        Ok(String::new())
    }

    fn held(&self) -> usize {
        usize::from(self.waiting.is_some()) + usize::from(self.several.is_some())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        if old.filename != self.filename || self.filename == "<data>" {
            return;
        }
        self.lines = old.lines.take();
        self.position = old.position;
        self.count = old.count;
        (self.columns, self.order) =
            (std::mem::take(&mut old.columns), std::mem::take(&mut old.order));
        (self.is_binary, self.defaults) = (old.is_binary, old.defaults);
        (self.waiting, self.several) = (old.waiting.take(), old.several.take());
        if self.pace.is_some() {
            self.pace = old.pace.take().or(self.pace.take());
        }
        self.run_timer(cx, 0);
    }
}
