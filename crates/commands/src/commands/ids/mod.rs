//! `warpswitch ids`: rules of Snort and Suricata over a capture, alerts as EVE.

mod check;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use warpswitch_ids::eve::{self, StatsPart};
use warpswitch_ids::rule::{LeftOut, Rules, TEXT_BYTES_MAX};
use warpswitch_ids::{
    Alert, Engine, Inspector, InspectorOptions, OddBound, Packet, RuleText, Variables, read_rules,
};
use warpswitch_io::{BurstEnd, CaptureReader, IoErrorKind};
use warpswitch_wire::link::LinkType;
use warpswitch_wire::link_watch::{LinkWatch, OddLink};

use crate::args::{parse_bytes, parse_positive};
use crate::exit::{Outcome, bad_input};
use crate::live;
use crate::output::{Hold, Output, is_dash, print_json, refuse_overwriting, refuse_two_dashes};
use crate::table::{Align, Table};
use crate::tally::mpps;
use crate::term::{self, Progress};
use crate::{human, interrupt, load};

/// Packets that are inspected at once, and bytes of them.
const BATCH_PACKETS: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;

/// Rule warnings that are printed one by one.
const REMARKS_MAX: usize = 10;

/// Rows of the table of alerts.
const ROWS_MAX: usize = 20;

const LONG_ABOUT: &str = "\
Match Snort or Suricata rules against a capture, and write an alert for each match.

docs/ids.md lists the supported keywords for headers, flows, payloads and HTTP/1 messages. A rule \
with any other keyword (dns.query, tls.sni, ...) is skipped, and the summary counts skipped rules \
by keyword; --left-out lists the skipped rules. An error in a rule file ends the run before \
anything is written; the first ten errors are printed, and the first ten warnings about unknown \
classtypes or duplicate gid, sid and rev.

TCP streams are reassembled, so a match across segments is found, once; so are IP fragments. \
--flows-max, --memory-max and --fragments-max limit the memory, and the summary shows the total \
limit. Traffic that was not inspected is counted by reason.

If the capture is a stream (the standard input or a pipe), alerts are written as they occur, also \
to a file: whenever the input has to be waited for, and once a second. Otherwise they appear \
after the whole capture was read. INT, TERM or HUP stop reading: the input read so far is \
inspected, alerts and summary are written, and the exit code is 0. A second signal ends the run at \
once.

A frame that cannot be read, such as one with an invalid length, ends reading: frames before it \
are inspected, alerts, counters and summary are written, then an error names the frame, and the \
exit code is 2. A capture that ends within a frame gives a warning instead, and exit code 0.

Alerts are JSON lines with the fields of Suricata's EVE, in capture order; the last line has the \
counters. The same capture and rules give identical output. With --json the summary is an object \
on the standard output, and alerts are written only to the destination of --out; with '--out - \
--json' the object goes to the standard error stream. It is a warning, not an error, if no rule is \
active: the traffic is still counted.

With --check only rules are read, no capture: skipped rules are listed by rule and keyword, and \
the exit code is 1 unless every rule is active.";

const EXAMPLES: &str = "\
Examples:
  echo 'alert tcp any any -> any 80 (msg:\"to the web\"; sid:1;)' > my.rules
  warpswitch generate rules --style acl --count 1K --out acl.rules
  warpswitch generate pcap --rules acl.rules --count 10K --out a.pcap
  warpswitch ids --rules my.rules --pcap a.pcap --out eve.json
  warpswitch ids --rules my.rules --pcap a.pcap --var HOME_NET=10.0.0.0/8 --json
  warpswitch ids --rules my.rules --check";

/// Match Snort or Suricata rules against a capture
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct IdsArgs {
    /// Rule files, gzip'd or not; '-' is the standard input
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    rules: Vec<PathBuf>,

    /// Capture, pcap or pcapng, gzip'd or not; '-' is the standard input
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    pcap: Option<PathBuf>,

    /// Only read the rules, and list those that are skipped
    #[arg(long, conflicts_with_all = ["pcap", "out", "payload", "flows_max", "memory_max",
        "fragments_max", "window", "left_out", "quiet"])]
    check: bool,

    /// Output file for alerts; '-' is the standard output [default: -, or nowhere with --json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Rule variable, such as HOME_NET=[10.0.0.0/8,!10.1.0.0/16]; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    var: Vec<String>,

    /// Bytes of payload in each alert, as base64
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "0")]
    payload: usize,

    /// Maximum number of concurrent flows
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "65536")]
    flows_max: usize,

    /// Maximum total bytes of stream buffers (suffix K, M or G)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "128M")]
    memory_max: usize,

    /// Maximum bytes of IP fragments awaiting reassembly (suffix K, M or G)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4M")]
    fragments_max: usize,

    /// Inspected bytes kept per stream, so that a match can cross segments [default: as many as
    /// the rules can use, at most 2K]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    window: Option<usize>,

    /// List the skipped rules
    #[arg(long)]
    left_out: bool,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,

    /// Print no summary
    #[arg(long, conflicts_with = "json")]
    quiet: bool,
}

/// The summary as `--json` prints it.
#[derive(Debug, Serialize)]
struct Summary {
    seconds: f64,
    mpps: f64,
    /// The most bytes that flows and streams may take.
    bytes_max: usize,
    /// The most flows, as requested.
    flows_max: usize,
    stats: StatsPart,
    alerts: Vec<RuleCount>,
    left_out: BTreeMap<String, usize>,
    left_out_rules: Vec<LeftOutRule>,
    /// Whether the capture was cut off in the middle of a frame.
    truncated: bool,
    /// Whether a signal ended it before the capture did.
    interrupted: bool,
    /// The frame that could not be read, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct RuleCount {
    alerts: u64,
    gid: u32,
    sid: u32,
    msg: String,
}

#[derive(Debug, Serialize)]
struct LeftOutRule {
    place: String,
    sid: u32,
    keywords: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// Bad input; output that cannot be written.
pub fn run(args: &IdsArgs) -> anyhow::Result<Outcome> {
    check_names(args)?;
    let options = options(args)?;
    let rules = load_rules(args)?;
    let Some(pcap) = args.pcap.as_deref().filter(|_| !args.check) else {
        return check::tell(&rules, args.json);
    };
    let name = load::display_name(pcap);
    let mut reader = live::open(pcap)?;
    let hold = if live::is_stream(pcap) { Hold::Nothing } else { Hold::Yes };
    let mut output = match &args.out {
        Some(path) => Output::open(path, hold)?,
        None if args.json => Output::nowhere(),
        None => Output::open(Path::new("-"), hold)?,
    };
    let spinner = Progress::spinner("building");
    let engine = Arc::new(Engine::build(rules));
    drop(spinner);
    let mut inspector = Inspector::new(engine, options);
    let start = Instant::now();
    interrupt::end_in_order();
    let mut course = inspect(&mut reader, &mut inspector, (&mut output, hold))?;
    interrupt::end_at_once();
    course.check_links(&name, inspector.stats().packets)?;
    course.tell_odd_link(&name);
    eve::write_stats(&mut output, &inspector).context("cannot write alerts")?;
    let json_aside = args.out.as_deref().is_some_and(is_dash);
    output.commit()?;
    let time = start.elapsed();
    if let Some(place) = &course.truncated {
        term::warning(format!("{place}; inspected the whole frames before it"));
    }
    if course.is_interrupted {
        term::warning("interrupted; inspected the input read so far");
    }
    if args.json {
        let summary = summary(&inspector, time, &course);
        match json_aside {
            true => term::note(serde_json::to_string_pretty(&summary)?),
            false => print_json(&summary)?,
        }
    } else if !args.quiet {
        tell_summary(&inspector, time);
    }
    if args.left_out && !args.json {
        tell_left_out(inspector.engine());
    }
    course.unreadable.map_or(Ok(Outcome::Done), |error| Err(bad_input(error)))
}

/// The requested bounds.
fn options(args: &IdsArgs) -> anyhow::Result<InspectorOptions> {
    let options = InspectorOptions {
        flows_max: args.flows_max,
        stream_bytes_max: args.memory_max,
        fragment_bytes_max: args.fragments_max,
        window_bytes: args.window,
        payload_bytes: args.payload,
        ..InspectorOptions::default()
    };
    options.check().map_err(|OddBound { field, expected }| {
        let (name, value) = match field {
            "flows_max" => ("--flows-max", args.flows_max),
            _ => ("--memory-max", args.memory_max),
        };
        bad_input(format!("{name} {value}: expected {expected}"))
    })?;
    Ok(options)
}

/// Refuses names that cannot be together.
fn check_names(args: &IdsArgs) -> anyhow::Result<()> {
    for (rules, pcap) in args.rules.iter().zip(args.pcap.iter().cycle()) {
        refuse_two_dashes(rules, pcap)?;
        if let Some(out) = &args.out {
            refuse_overwriting(out, &[("--rules", rules), ("--pcap", pcap)])?;
        }
    }
    match args.rules.iter().filter(|path| is_dash(path)).count() {
        0 | 1 => Ok(()),
        _ => Err(bad_input("only one input can be '-'")),
    }
}

fn load_rules(args: &IdsArgs) -> anyhow::Result<Rules> {
    let mut known = Variables::default();
    for text in &args.var {
        known.set(text).map_err(|error| bad_input(format!("--var {text}: {error}")))?;
    }
    let (mut files, mut room) = (Vec::new(), TEXT_BYTES_MAX as u64);
    for path in &args.rules {
        let name = load::display_name(path);
        let mut bytes = Vec::new();
        // One byte more than may be, which the reader of rules then tells of.
        load::open(path, "detection rules")?
            .take(room + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| bad_input(format!("cannot read {name}: {error}")))?;
        room = room.saturating_sub(bytes.len() as u64);
        files.push((name, bytes));
    }
    let spinner = Progress::spinner("reading rules");
    let texts: Vec<RuleText<'_>> =
        files.iter().map(|(name, bytes)| RuleText { name, bytes }).collect();
    let rules = read_rules(&texts, &known)?;
    drop(spinner);
    tell_remarks(&rules);
    for variable in &rules.unused_variables {
        term::warning(variable.to_string());
    }
    if let Some(why) = rules.why_nothing() {
        let is_listed = args.check || rules.left_out.is_empty();
        let hint = if is_listed { "" } else { "; --left-out lists the skipped rules" };
        term::warning(format!("{why}{hint}"));
    }
    Ok(rules)
}

/// Prints what is odd about rules; the first few.
fn tell_remarks(rules: &Rules) {
    for remark in rules.remarks.iter().take(REMARKS_MAX) {
        let place = load::place(&rules.files[remark.file], remark.line);
        term::warning(format!("{place}: {}", rules.remark(remark)));
    }
    if rules.remarks.len() > REMARKS_MAX {
        let more = human::counted(rules.remarks.len() - REMARKS_MAX, "rule");
        term::warning(format!("and {more} more such warnings"));
    }
}

/// Frames of a capture, a batch of them.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each ends, its bytes on the wire, its link type and time.
    frames: Vec<(usize, usize, LinkType, u64)>,
}

/// How inspecting a capture went.
#[derive(Default)]
struct Course {
    /// Where the capture was cut off, if it was.
    truncated: Option<String>,
    /// Whether a signal ended it.
    is_interrupted: bool,
    /// Frames that were read.
    frames: u64,
    /// The frame that could not be read, and why; nothing behind it was read.
    unreadable: Option<String>,
    /// Frames of a link type that is not read, and the first such type.
    unread: u64,
    unread_link: Option<LinkType>,
    /// Whether frames start as the capture states.
    watch: LinkWatch,
    odd_link: Option<OddLink>,
}

impl Course {
    fn note(&mut self, link: LinkType, bytes: &[u8], wire_bytes: usize) {
        self.frames += 1;
        if let LinkType::Unsupported(_) = link {
            self.unread += 1;
            self.unread_link.get_or_insert(link);
        } else if !self.watch.is_over() {
            self.odd_link = self.watch.look(link, bytes, wire_bytes);
        }
    }

    /// Warns if no frame starts with the declared link type but most start otherwise.
    fn tell_odd_link(&mut self, name: &str) {
        let Some(odd) = self.odd_link.or_else(|| self.watch.end()) else { return };
        let link = odd.link.editcap_name().unwrap_or_default();
        term::warning(format!(
            "{name}: nothing was inspected: {odd}, but the capture declares another link type; \
             `editcap -T {link} IN OUT` corrects it"
        ));
    }

    /// Refuses a capture of which no frame could be read for its link type, and warns of one that
    /// has such frames among others.
    fn check_links(&self, name: &str, packets: u64) -> anyhow::Result<()> {
        let Some(link) = self.unread_link else { return Ok(()) };
        let expected = LinkType::EXPECTED;
        if self.unread == packets {
            return Err(bad_input(format!("{name}: unsupported {link}; {expected}")));
        }
        let frames = human::counted(self.unread as usize, "frame");
        term::warning(format!("{name}: {frames} of unsupported {link} not inspected; {expected}"));
        Ok(())
    }
}

/// Inspects all frames. Alerts of a stream are where they belong whenever that has no more for now,
/// and every now and then.
fn inspect(
    reader: &mut CaptureReader,
    inspector: &mut Inspector,
    (output, hold): (&mut Output, Hold),
) -> anyhow::Result<Course> {
    let progress = Progress::counter("inspecting");
    let (mut batch, mut alerts, mut course) = (Batch::default(), Vec::new(), Course::default());
    let mut flushed = Instant::now();
    loop {
        let behind = batch.fill(reader, &mut course);
        let has_more = !batch.frames.is_empty();
        inspector.inspect(batch.packets(), &mut alerts);
        write_alerts(output, inspector.engine(), &mut alerts)?;
        batch.bytes.clear();
        batch.frames.clear();
        progress.at(inspector.stats().packets);
        if behind == BurstEnd::End {
            break;
        }
        let is_late = has_more && behind == BurstEnd::Later || flushed.elapsed() >= live::FLUSH;
        if hold == Hold::Nothing && is_late {
            output.flush().context("cannot write alerts")?;
            flushed = Instant::now();
        }
        if behind == BurstEnd::Later {
            live::wait();
        }
    }
    inspector.finish(&mut alerts);
    write_alerts(output, inspector.engine(), &mut alerts)?;
    Ok(course)
}

impl Batch {
    /// Adds the available frames, until there are many.
    fn fill(&mut self, reader: &mut CaptureReader, course: &mut Course) -> BurstEnd {
        if interrupt::is_ended() {
            course.is_interrupted = true;
            return BurstEnd::End;
        }
        let Self { bytes, frames } = self;
        let read = reader.read_burst(BATCH_PACKETS, |frame| {
            bytes.extend_from_slice(frame.data);
            let wire_bytes = frame.original_bytes;
            frames.push((bytes.len(), wire_bytes, frame.link_type, frame.timestamp_ns));
            course.note(frame.link_type, frame.data, wire_bytes);
            bytes.len() < BATCH_BYTES
        });
        read.unwrap_or_else(|error| {
            if error.kind() == IoErrorKind::Truncated {
                course.truncated = Some(error.to_string());
            } else {
                course.unreadable = Some(format!(
                    "{error}; frame {} is unreadable, {} before it inspected",
                    course.frames + 1,
                    human::counted(course.frames as usize, "frame")
                ));
            }
            BurstEnd::End
        })
    }

    fn packets(&self) -> Vec<Packet<'_>> {
        let mut start = 0;
        let packet = |&(end, wire_bytes, link, timestamp_ns): &(usize, usize, LinkType, u64)| {
            let bytes = &self.bytes[start..end];
            start = end;
            Packet { bytes, wire_bytes, link, timestamp_ns, found: None }
        };
        self.frames.iter().map(packet).collect()
    }
}

fn write_alerts(
    output: &mut Output,
    engine: &Engine,
    alerts: &mut Vec<Alert>,
) -> anyhow::Result<()> {
    for alert in alerts.drain(..) {
        eve::write_alert(output, engine, &alert, eve::Numbers::Capture)
            .context("cannot write alerts")?;
    }
    Ok(())
}

/// Rules that were found, the most frequent first.
fn counts(inspector: &Inspector) -> Vec<RuleCount> {
    let rules = inspector.engine().rules().zip(inspector.alerts_by_rule());
    let found = rules.filter(|(_, alerts)| **alerts > 0);
    let mut counts: Vec<RuleCount> = found
        .map(|(rule, &alerts)| RuleCount {
            alerts,
            gid: rule.about.gid,
            sid: rule.about.sid,
            msg: rule.about.msg.clone(),
        })
        .collect();
    counts.sort_by_key(|count| (std::cmp::Reverse(count.alerts), count.gid, count.sid));
    counts
}

/// How many rules were left out for each keyword, the most frequent first.
fn keywords(engine: &Engine) -> Vec<(String, usize)> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for keyword in engine.left_out().iter().flat_map(|rule| &rule.keywords) {
        *counts.entry(keyword).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> =
        counts.into_iter().map(|(keyword, count)| (keyword.to_owned(), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn left_out(files: &[String], rules: &[LeftOut]) -> Vec<LeftOutRule> {
    let told = |rule: &LeftOut| LeftOutRule {
        place: load::place(&files[rule.file], rule.line),
        sid: rule.sid,
        keywords: rule.keywords.clone(),
    };
    rules.iter().map(told).collect()
}

impl fmt::Display for LeftOutRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: sid {}: {}", self.place, self.sid, self.keywords.join(", "))
    }
}

fn summary(inspector: &Inspector, time: Duration, course: &Course) -> Summary {
    let stats = eve::stats(inspector);
    Summary {
        seconds: human::rounded(time.as_secs_f64(), 6),
        mpps: human::rounded(mpps(stats.decoder.pkts, time), 4),
        bytes_max: inspector.bytes_max(),
        flows_max: inspector.options().flows_max,
        alerts: counts(inspector),
        left_out: keywords(inspector.engine()).into_iter().collect(),
        left_out_rules: left_out(inspector.engine().files(), inspector.engine().left_out()),
        stats,
        truncated: course.truncated.is_some(),
        interrupted: course.is_interrupted,
        error: course.unreadable.clone(),
    }
}

/// The summary for people, on the standard error stream.
fn tell_summary(inspector: &Inspector, time: Duration) {
    let stats = eve::stats(inspector);
    term::note(format!(
        "{} in {} ({}): {}, {}, {}; {} active",
        human::counted(stats.decoder.pkts as usize, "packet"),
        human::time(time),
        human::rate(mpps(stats.decoder.pkts, time) * 1e6),
        human::counted(stats.decoder.bytes as usize, "byte"),
        human::counted(stats.flow.total as usize, "flow"),
        human::counted(stats.detect.alert as usize, "alert"),
        human::counted(stats.detect.rules_loaded as usize, "rule"),
    ));
    let counts = counts(inspector);
    if !counts.is_empty() {
        let headings = [("alerts", Align::Right), ("sid", Align::Right), ("", Align::Left)];
        let mut table = Table::new(&headings);
        for count in counts.iter().take(ROWS_MAX) {
            let alerts = human::count(count.alerts);
            table.row([alerts, count.sid.to_string(), count.msg.clone()]);
        }
        term::note(table.render().trim_end());
        if counts.len() > ROWS_MAX {
            term::note(format!("  and {} more", human::counted(counts.len() - ROWS_MAX, "rule")));
        }
    }
    tell_counters(&stats);
    let keywords = keywords(inspector.engine());
    if !keywords.is_empty() {
        let rules = human::counted(stats.detect.rules_left_out as usize, "rule");
        term::note(format!("{rules} skipped (--left-out lists them), by keyword:"));
        for (keyword, count) in keywords.iter().take(ROWS_MAX) {
            term::note(format!("  {:>6}  {keyword}", human::count(*count as u64)));
        }
        if keywords.len() > ROWS_MAX {
            let more = human::counted(keywords.len() - ROWS_MAX, "keyword");
            term::note(format!("  and {more} more"));
        }
    }
    let bound = human::bytes(inspector.bytes_max());
    term::note(format!("memory limit for flows, streams and fragments: {bound}"));
}

/// What was not inspected, and what streams met.
fn tell_counters(stats: &StatsPart) {
    let lines = [
        ("not inspected: invalid headers", stats.decoder.invalid),
        ("not inspected: not IP", stats.decoder.not_ip),
        ("not inspected: fragments of incomplete packets", stats.decoder.fragments),
        ("payloads truncated by the capture", stats.decoder.cut),
        ("packets reassembled from fragments", stats.defrag.reassembled),
        ("fragments with conflicting overlap", stats.defrag.overlap_diff_data),
        ("incomplete packets evicted", stats.defrag.evicted),
        ("connections picked up midstream", stats.tcp.midstream_pickups),
        ("out-of-order segments", stats.tcp.out_of_order),
        ("retransmitted segments", stats.tcp.retransmissions),
        ("segments with conflicting overlap", stats.tcp.overlap_diff_data),
        ("segments outside the window", stats.tcp.out_of_window),
        ("gaps in streams", stats.tcp.reassembly_gap),
        ("HTTP parsers stopped by errors", stats.http.given_up),
        ("flows evicted for the flow limit", stats.flow.evicted),
        ("flows evicted for the memory limit", stats.flow.evicted_for_memory),
        ("alerts suppressed by pass rules", stats.detect.alerts_passed),
        ("alerts suppressed by thresholds", stats.detect.alerts_suppressed),
        ("threshold windows evicted", stats.detect.thresholds_evicted),
        ("buffers over the match work limit", stats.detect.work_cut),
    ];
    for (what, count) in lines.into_iter().filter(|line| line.1 > 0) {
        term::note(format!("  {what:<44} {:>12}", human::count(count)));
    }
}

fn tell_left_out(engine: &Engine) {
    for rule in left_out(engine.files(), engine.left_out()) {
        term::note(rule.to_string());
    }
}
