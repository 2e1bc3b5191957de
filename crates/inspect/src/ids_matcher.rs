//! Matches packets and TCP streams against Snort or Suricata rules.
//!
//! # Synopsis
//! `IDSMatcher(RULES FILE [FILE ...] [, OUT FILE, VARS "NAME=VALUE" ..., LINK LINK, STATE STATE,
//! FLOWS_MAX N, MEMORY_MAX BYTES, FRAGMENTS_MAX BYTES, WINDOW BYTES, PAYLOAD BYTES])`
//!
//! # Ports
//! One input, push or pull. Output 0: all packets, or, if output 1 is connected, those without an
//! alert. Output 1, optional: packets that triggered an alert, pushed. Only the packet that
//! completes a match is emitted on output 1; earlier packets have been forwarded by then. This
//! applies to matches across segments, to rules about HTTP/1 buffers (the packet that completes the
//! header or the body), and to fragmented packets (the last fragment to arrive).
//!
//! # Configuration
//! - `RULES`: rule files, optionally gzip-compressed; `docs/ids.md` of this project lists the
//!   supported rule options. Rules with other options are left out, see the handler `unsupported`
//! - `OUT`: file for alerts as EVE JSON lines, `-` for standard output; default: none. The file is
//!   truncated. The alerts of a batch are written when the batch has been matched
//! - `VARS`: variables of the rules; quote values that contain commas: `VARS "HTTP_PORTS=[80,81]"`
//! - `LINK`: first header of packets: `ethernet` (the default), `ip`, `sll` or `sll2` (Linux cooked
//!   mode), or `null` (BSD loopback). A warning is printed if none of the first 1000 packets is IP
//!   with this setting but most would be with another
//! - `STATE`: `flows` (the default) tracks flows and reassembles streams; `none` matches each
//!   packet by itself, like the matcher of Snap. `none` leaves out rules that need state, see
//!   `docs/ids.md`, and rejects the arguments for flows and streams
//! - `FLOWS_MAX`: maximum number of concurrent flows; default: 65536
//! - `MEMORY_MAX`: memory limit for all streams, in bytes (with suffix K, M or G, as in the
//!   arguments below), at least `WINDOW`; default: 128M
//! - `FRAGMENTS_MAX`: memory limit for IP fragments of incomplete packets; default: 4M
//! - `WINDOW`: bytes of a stream before new ones in which a match may begin; default: as many as
//!   the rules can use, at most 2048
//! - `PAYLOAD`: bytes of matched text in each alert, as base64; default: 0
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `alerts` | read | number of alerts |
//! | `alerts_by_rule` | read | `SID ALERTS` for each rule with alerts |
//! | `rules` | read | number of active rules |
//! | `unsupported` | read | `FILE:LINE SID KEYWORDS` for each rule that was left out |
//! | `flows` | read | current number of flows |
//! | `streams` | read | `COUNTER VALUE` for packets, flows, segments and alerts by outcome, and the bytes that streams currently hold; the counters of the event `stats`, see `docs/ids.md` |
//! | `bytes_max` | read | memory limit for flows, streams and fragments together |
//! | `on_device` | read | texts, of packets and of streams, that a device searched for patterns |
//! | `on_cores` | read | texts that the worker searched although there is a device |
//! | `ahead_missed` | read | packets whose payload was searched here although cached results are in use, by reason: `PACKETS<tab>REASON` |
//! | `flush` | write | flushes the output file |
//!
//! # Drops
//! None: all packets are forwarded.
//!
//! # Threads
//! Runs on one worker: all packets of a flow must reach the same instance. In a new configuration,
//! an `IDSMatcher` of the same name takes over the flows and streams, also with other rules, and
//! the output file, if that has the same name. Flows expire by packet timestamps, or by the time of
//! the run for packets without one. Elements with the same rules share the compiled rules. Memory
//! for flows and streams is allocated as needed, within the limits above. If the host has a device,
//! the device searches texts for the fast patterns of the rules; with a `GPUIDSMatcher(FOR …)` for
//! this element, it searches payloads ahead. The worker does everything else, including HTTP
//! messages, and alerts are the same.
//!
//! # Example
//! ```text
//! FromDump(in.pcap, STOP true) -> ids :: IDSMatcher(RULES conf/ids.rules, OUT eve.json);
//! ids [0] -> ToDump(clean.pcap); ids [1] -> ToDump(alerted.pcap);
//! ```

use std::convert::Infallible;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpswitch_elements_support::cached::{CachedResults, LookupCosts};
use warpswitch_elements_support::files::{Output, reason};
use warpswitch_elements_support::link::{link_name, link_of, look};
use warpswitch_graph::language::args::split::{split_words, unquote};
use warpswitch_graph::language::args::{Args, ArgsError, Raw, Size, Word};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec,
};
use warpswitch_ids::{
    Alert, Engine, Found, GROUPS, InspectorOptions, OddBound, Packet, Search, StatelessEngine, eve,
};
use warpswitch_packet::{Batch, PacketView};
use warpswitch_wire::link::LinkType;
use warpswitch_wire::link_watch::{LinkWatch, OddLink};

use super::detector::{Detector, Places};
use super::results::{ResultReader, ResultWriter};
use super::rules::engine_of;

/// The class `IDSMatcher`.
pub static CLASS: ElementClass = class(|| Box::<IdsMatcher>::default());

/// The class `IDSMatcher` with another constructor.
pub const fn class(make: fn() -> Box<dyn Element>) -> ElementClass {
    ElementClass::new("IDSMatcher", "1/1-2", "a/ah", make)
}

/// Numbers of searched texts, by place of the search.
#[derive(Debug, Default)]
pub struct SearchCounts {
    /// Searched on a device.
    pub on_device: AtomicU64,
    /// Searched by the worker, although there is a device.
    pub on_cores: AtomicU64,
}

/// Creates the search for the patterns of an engine; `None` if the element is to search itself.
pub type SearchMaker =
    fn(&mut Context<'_>, &Engine, &Arc<SearchCounts>) -> Result<Option<Box<dyn Search>>, String>;

/// Parameters for computing results for an element.
#[derive(Debug)]
pub struct Accepted {
    /// Owner of the results.
    pub owner: u16,
    /// Version of the patterns; constant, as patterns never change.
    pub version: u32,
    /// Writer of the results.
    pub writer: ResultWriter,
}

/// The element `IDSMatcher`, see the module.
pub struct IdsMatcher {
    detector: Option<Detector>,
    link: LinkType,
    filename: Option<String>,
    output: Option<Output>,
    /// The first write error.
    failure: Option<String>,
    alerts: Vec<Alert>,
    /// Buffer of lines to write.
    lines: Vec<u8>,
    /// Whether a packet of the current batch triggered an alert.
    hits: Vec<bool>,
    /// Indices of the inspected packets of the batch.
    looked_at: Vec<u32>,
    /// Warnings about the rules.
    remarks: Vec<String>,
    /// Search counts, if there is a device.
    counts: Arc<SearchCounts>,
    /// Checks whether packets match `LINK`.
    watch: LinkWatch,
    /// Creates an external search; `None`: the element searches itself.
    search: Option<SearchMaker>,
    /// Cached results for payloads searched ahead.
    results: CachedResults<Infallible>,
    reader: ResultReader,
}

impl Default for IdsMatcher {
    fn default() -> Self {
        Self {
            detector: None,
            link: LinkType::Ethernet,
            filename: None,
            output: None,
            failure: None,
            alerts: Vec::new(),
            lines: Vec::new(),
            hits: Vec::new(),
            looked_at: Vec::new(),
            remarks: Vec::new(),
            counts: Arc::default(),
            watch: LinkWatch::default(),
            search: None,
            results: CachedResults::default(),
            reader: ResultReader::default(),
        }
    }
}

/// Converts a packet for detection; `now` is the timestamp of packets without one.
#[inline]
pub fn ids_packet(packet: PacketView<'_>, link: LinkType, now: i64) -> Packet<'_> {
    let time = if packet.timestamp_ns == 0 { now } else { packet.timestamp_ns };
    Packet {
        bytes: packet.data,
        wire_bytes: packet.data.len() + packet.extra_len as usize,
        link,
        timestamp_ns: u64::try_from(time).unwrap_or(0),
        found: None,
    }
}

/// Splits an argument into words and removes quotes.
fn words(text: &str) -> Vec<String> {
    let words = split_words(text).into_iter();
    words.map(|word| String::from_utf8_lossy(&unquote(&word)).into_owned()).collect()
}

/// Rejects limits of flows and streams, which `STATE none` does not have.
fn refuse_bounds(args: &mut Args<'_>) {
    for keyword in ["FLOWS_MAX", "MEMORY_MAX", "FRAGMENTS_MAX", "WINDOW"] {
        let mut text = None::<String>;
        args.read(keyword, &mut text);
        if text.is_some() {
            args.error_at(keyword, "invalid with STATE none, which tracks no flows or streams");
        }
    }
}

impl IdsMatcher {
    fn detector(&self) -> Result<&Detector, HandlerError> {
        self.detector.as_ref().ok_or(HandlerError::Missing)
    }

    /// The compiled rules, and the link type of packets; `None` before configuration.
    pub fn engine(&self) -> Option<(&Engine, LinkType)> {
        Some((self.detector.as_ref()?.engine(), self.link))
    }

    /// Search counts.
    pub fn counts(&self) -> &SearchCounts {
        &self.counts
    }

    /// Inspects the packets of a batch that `meant` selects, or all, and writes alerts. By index,
    /// `found` returns the cached result of a packet, and `searched` how many packets of a range,
    /// from its first one on, have a payload of one of these groups that was captured whole and has
    /// no pattern. Returns the packets that triggered an alert.
    pub fn look<'f>(
        &mut self,
        cx: &mut Context<'_>,
        batch: &'f Batch,
        meant: Option<&[bool]>,
        found: impl Fn(usize) -> Option<Found<'f>> + Clone,
        searched: impl Fn(Range<usize>, &[bool; GROUPS]) -> usize,
    ) -> &[bool] {
        let link = self.link;
        let Some(detector) = &mut self.detector else { return &[] };
        let now = cx.now().0;
        self.hits.clear();
        self.hits.resize(batch.len(), false);
        let places = match meant {
            None => Places::All(batch.len()),
            Some(meant) => {
                list_places(meant, &mut self.looked_at);
                Places::Listed(&self.looked_at)
            }
        };
        let views = batch.views();
        let packet = |place| {
            let packet = ids_packet(views.get(place), link, now);
            Packet { found: found(place), ..packet }
        };
        let bytes = |places: Range<usize>| match places.len() == batch.len() {
            true => batch.bytes(),
            false => places.map(|place| views.bytes_of(place) as u64).sum(),
        };
        let free = (searched, bytes);
        detector.inspect(places, packet, free, &mut self.alerts);
        for alert in &self.alerts {
            let place = alert.packet.and_then(|idx| places.get(idx as usize));
            if let Some(hit) = place.and_then(|place| self.hits.get_mut(place)) {
                *hit = true;
            }
        }
        if !self.watch.is_over() {
            let mut packets = places.iter().map(|place| batch.get_ahead(place));
            let odd = packets.find_map(|packet| look(&mut self.watch, link, packet));
            self.tell_link(cx, odd);
        }
        self.write_alerts(cx);
        &self.hits
    }

    /// Warns that no packet was IP according to `LINK` but most would be with another setting.
    fn tell_link(&self, cx: &mut Context<'_>, odd: Option<OddLink>) {
        let Some(odd) = odd else { return };
        let mend = match (self.link, odd.link) {
            (LinkType::RawIp, LinkType::Ethernet) => {
                "leave LINK ip out, or put Strip(14) before it".to_owned()
            }
            (_, LinkType::Ethernet) => format!("leave LINK {} out", link_name(self.link)),
            (_, link) => format!("set LINK {}", link_name(link)),
        };
        cx.say(&format!("{}: nothing is inspected: {odd}: {mend}", cx.declaration()));
    }

    /// Warns about rules that were left out, and creates the output file.
    pub fn start(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(engine) = self.detector.as_ref().map(Detector::engine) {
            let (kept, left_out) = (engine.rules().count(), engine.left_out().len());
            let name = cx.declaration();
            let all = kept + left_out;
            if all == 0 {
                let files = engine.files().join(", ");
                cx.say(&format!("{name}: no active rules: no rule in {files}"));
            } else if left_out > 0 {
                cx.say(&format!(
                    "{name}: {kept} of {all} rules are active; handler 'unsupported' lists the \
                     {left_out} left out"
                ));
            }
        }
        for remark in std::mem::take(&mut self.remarks) {
            let name = cx.declaration();
            cx.say(&format!("{name}: {remark}"));
        }
        if let Some(name) = &self.filename {
            let output = Output::create(name);
            self.output = Some(output.map_err(|error| format!("{name}: {}", reason(&error)))?);
        }
        Ok(())
    }

    /// Creates an element that delegates searches to the search that `search` creates.
    pub fn searching_by(search: SearchMaker) -> Self {
        Self { search: Some(search), ..Self::default() }
    }

    /// Uses the cached results in `slot` of packets from now on. `None` if it already uses another
    /// slot.
    pub fn accept(&mut self, slot: usize, costs: &Arc<LookupCosts>) -> Option<Accepted> {
        let owner = self.results.accept(slot, costs)?;
        if let Some(detector) = &mut self.detector {
            // Few texts remain: not worth waiting for a device.
            detector.search_by(None);
            if let Some(clock) = costs.clock() {
                detector.time_searches(clock);
            }
        }
        let version = self.results.version().get();
        Some(Accepted { owner, version, writer: self.reader.writer() })
    }

    /// Inspects a batch with its cached results.
    fn look_with(&mut self, cx: &mut Context<'_>, batch: &Batch) {
        let Some(detector) = self.detector.as_ref().filter(|_| self.results.is_accepting()) else {
            self.look(cx, batch, None, |_| None, |_, _| 0);
            return;
        };
        let (mut reader, before) = (std::mem::take(&mut self.reader), detector.search_work());
        let results = &mut self.results;
        let (valid, gone, others) = reader.read(batch.iter().map(|p| results.result_of(p)));
        results.give_back(gone, others);
        self.look(cx, batch, None, |place| reader.of(place), |_, _| 0);
        self.reader = reader;
        let Some(detector) = &self.detector else { return };
        let work = detector.search_work();
        self.counts.on_device.fetch_add(work.known - before.known, Ordering::Relaxed);
        self.counts.on_cores.fetch_add(work.texts - before.texts, Ordering::Relaxed);
        if valid == 0 {
            self.results.note(work.time.saturating_sub(before.time), batch.len());
        }
    }

    /// Sets up an external search, if available and unless cached results are in use.
    fn make_search(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let make = self.search.filter(|_| !self.results.is_accepting());
        if let (Some(make), Some(detector)) = (make, &mut self.detector)
            && let Some(search) = make(cx, detector.engine(), &self.counts)?
        {
            detector.search_by(Some(search));
        }
        Ok(())
    }

    fn write_alerts(&mut self, cx: &mut Context<'_>) {
        let Some(detector) = &self.detector else { return };
        if self.output.is_some() && self.failure.is_none() {
            for alert in &self.alerts {
                // Writes to a Vec never fail.
                let (lines, engine) = (&mut self.lines, detector.engine());
                let _ = eve::write_alert(lines, engine, alert, eve::Numbers::Own);
            }
        }
        self.alerts.clear();
        self.write_lines(cx);
    }

    fn write_lines(&mut self, cx: &mut Context<'_>) {
        let written = match &mut self.output {
            Some(output) if self.failure.is_none() && !self.lines.is_empty() => {
                // Readers of the file see them at once, and no signal loses them.
                output.write(cx, &self.lines).and_then(|()| output.flush())
            }
            _ => Ok(()),
        };
        self.lines.clear();
        self.check(cx, written);
    }

    fn check(&mut self, cx: &mut Context<'_>, done: std::io::Result<()>) {
        if let Err(error) = done {
            let name = self.filename.as_deref().unwrap_or_default();
            let message = format!("{name}: {}", reason(&error));
            cx.say(&format!("{}: {message}; writing stopped", cx.declaration()));
            self.failure.get_or_insert(message);
        }
    }

    /// Rules with alerts: `SID ALERTS`, one per line.
    fn alerts_by_rule(detector: &Detector) -> String {
        let mut text = String::new();
        for (rule, alerts) in detector.engine().rules().zip(detector.alerts_by_rule()) {
            if *alerts > 0 {
                let _ = writeln!(text, "{} {alerts}", rule.about.sid);
            }
        }
        text
    }

    /// Rules that were left out: `FILE:LINE SID KEYWORDS`, one per line.
    fn unsupported(detector: &Detector) -> String {
        let (mut text, engine) = (String::new(), detector.engine());
        for rule in engine.left_out() {
            let (file, keywords) = (&engine.files()[rule.file], rule.keywords.join(", "));
            let _ = writeln!(text, "{file}:{} {} {keywords}", rule.line, rule.sid);
        }
        text
    }

    fn counters(detector: &Detector) -> String {
        let mut text = String::new();
        for (name, value) in detector.counters() {
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

impl Element for IdsMatcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut rules, mut variables) = (Raw(String::new()), Raw(String::new()));
        let mut link = "ethernet".to_owned();
        let usual = InspectorOptions::default();
        let (mut flows, mut memory) = (usual.flows_max as u64, Size(usual.stream_bytes_max as u64));
        let mut fragments = Size(usual.fragment_bytes_max as u64);
        let (mut window, mut payload) = (None::<Size>, Size(0));
        let mut state = Word("flows".to_owned());
        args.read("STATE", &mut state);
        let has_state = state.0 != "none";
        if has_state && state.0 != "flows" {
            args.error_at("STATE", "expected 'flows' or 'none'");
        }
        if !has_state {
            refuse_bounds(args);
        }
        args.read_mp("RULES", &mut rules)
            .read("OUT", &mut self.filename)
            .read("VARS", &mut variables)
            .read("LINK", &mut link)
            .read("FLOWS_MAX", &mut flows)
            .read("MEMORY_MAX", &mut memory)
            .read("FRAGMENTS_MAX", &mut fragments)
            .read("WINDOW", &mut window)
            .read("PAYLOAD", &mut payload);
        match link_of(&link) {
            Ok(link) => self.link = link,
            Err(message) => args.error_at("LINK", &message),
        }
        let bytes = |size: Size| usize::try_from(size.0).unwrap_or(usize::MAX);
        let options = InspectorOptions {
            flows_max: usize::try_from(flows).unwrap_or(usize::MAX),
            stream_bytes_max: bytes(memory),
            fragment_bytes_max: bytes(fragments),
            window_bytes: window.map(bytes),
            payload_bytes: bytes(payload),
            ..usual
        };
        if let Err(OddBound { field, expected }) = options.check() {
            let name = if field == "flows_max" { "FLOWS_MAX" } else { "MEMORY_MAX" };
            args.error_at(name, &format!("expected {expected}"));
        }
        args.complete()?;
        let rules = words(&rules.0);
        rules.iter().for_each(|rules| _ = args.note_input("RULES", rules));
        if let Some(out) = &self.filename {
            args.note_output("OUT", out);
        }
        let variables = words(&variables.0);
        let made = match has_state {
            true => engine_of::<Engine>(&rules, &variables)
                .map(|(engine, remarks)| (Detector::of_flows(engine, options), remarks)),
            false => engine_of::<StatelessEngine>(&rules, &variables).map(|(engine, remarks)| {
                (Detector::of_packets(engine, options.payload_bytes), remarks)
            }),
        };
        match made {
            Ok((detector, remarks)) => (self.detector, self.remarks) = (Some(detector), remarks),
            Err(message) => args.error_at("RULES", &message),
        }
        args.consume()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.make_search(cx)?;
        self.start(cx)
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        self.look_with(cx, batch);
        if cx.has_output(1) && self.hits.contains(&true) {
            let mut hits = self.hits.iter();
            cx.sort(batch, |_, _| match hits.next() {
                Some(true) => Fate::Emit(1),
                _ => Fate::Pass,
            });
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("alerts"),
                HandlerSpec::read("alerts_by_rule"),
                HandlerSpec::read("rules"),
                HandlerSpec::read("unsupported"),
                HandlerSpec::read("flows"),
                HandlerSpec::read("streams"),
                HandlerSpec::read("bytes_max"),
                HandlerSpec::read("on_device"),
                HandlerSpec::read("on_cores"),
                HandlerSpec::read("ahead_missed"),
                HandlerSpec::button("flush"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        let detector = self.detector()?;
        Ok(match name {
            "alerts" => detector.alerts().to_string(),
            "alerts_by_rule" => Self::alerts_by_rule(detector),
            "rules" => detector.engine().rules().len().to_string(),
            "unsupported" => Self::unsupported(detector),
            "flows" => detector.flows().to_string(),
            "streams" => Self::counters(detector),
            "on_device" => self.counts.on_device.load(Ordering::Relaxed).to_string(),
            "on_cores" => self.counts.on_cores.load(Ordering::Relaxed).to_string(),
            "ahead_missed" => self.results.unused().text_with_lists(),
            _ => detector.bytes_max().to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        let flushed = self.output.as_mut().map_or(Ok(()), Output::flush);
        self.check(cx, flushed);
        self.failure.clone().map_or(Ok(String::new()), |failure| Err(HandlerError::failed(failure)))
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        if let (Some(new), Some(old)) = (&mut self.detector, &mut old.detector) {
            new.take_flows(old);
        }
        if old.filename == self.filename {
            (self.output, self.failure) = (old.output.take(), old.failure.take());
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(detector) = &mut self.detector {
            detector.finish(&mut self.alerts);
        }
        let odd = self.watch.end();
        self.tell_link(cx, odd);
        self.write_alerts(cx);
        if let (Some(Detector::Flows(inspector)), Some(_)) = (&self.detector, &self.output) {
            let _ = eve::write_stats(&mut self.lines, inspector);
        }
        self.write_lines(cx);
        let flushed = self.output.as_mut().map_or(Ok(()), Output::flush);
        self.check(cx, flushed);
        self.output = None;
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// Lists the numbers of the packets that `meant` selects.
fn list_places(meant: &[bool], places: &mut Vec<u32>) {
    places.clear();
    places.resize(meant.len(), 0);
    let mut len = 0;
    // Not by branches, which are mispredicted where every other packet is selected.
    for (place, &is_meant) in (0..).zip(meant) {
        places[len] = place;
        len += usize::from(is_meant);
    }
    places.truncate(len);
}
