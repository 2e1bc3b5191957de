//! `warpswitch bench classify`: rate, time per lookup, build time and memory of engines.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use warpswitch_classify::{Classifier, Engine};
use warpswitch_provenance::Provenance;
use warpswitch_rules::format::TraceFormat;
use warpswitch_rules::{KeyBuf, Ruleset};

use super::check::{Reference, WrongAnswer};
use super::updates::{UpdateRates, measure_updates};
use crate::args::{BuildArgs, RulesArgs, engine_parser, parse_positive, trace_format_parser};
use crate::digest::Digest;
use crate::exit::{Outcome, bad_input};
use crate::human::rounded;
use crate::load::{self, build_engine};
use crate::measure::{MeasureOptions, classify_all, measure};
use crate::output::{print, refuse_two_dashes};
use crate::provenance;
use crate::table::{Align, Table, title};
use crate::term::{BAD, FAINT, GOOD, Progress, paint};
use crate::trace_blocks::{TraceBlocks, read_all};
use crate::{human, threads};

const LONG_ABOUT: &str = "\
Measure engines on a rule set and a trace.

Every engine's results are first checked against the reference. An engine with wrong results is \
not measured, and the exit code is 1. The plain reference checks up to 10^9 pairs of rule and key; \
linear-simd, after it agrees with the reference there, checks up to 10^10; beyond that a sample of \
evenly spaced keys is checked. The JSON field \"checked\" holds their number.

Then pinned threads look up the trace in batches repeatedly: one warm-up run, --runs runs whose \
median is the throughput (\"mpps\", all threads together), and one run that times each batch. p50 \
and p99 are the time of a batch divided by its keys: lookups of a batch overlap, so a single \
lookup has no time of its own.

\"digest\" is 64-bit FNV-1a over the winning index of every packet, in order, as a little-endian \
int32 (-1 for none). It is null for an engine that would take too long for the whole trace.

--updates also measures updates: it removes and reinserts random rules, first without a reader, \
then while another thread looks up keys. It needs two cores to be meaningful.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style fw --count 10K --out fw.rules
  warpswitch generate trace --rules fw.rules --count 1M --out fw.trace
  warpswitch bench classify --rules fw.rules --trace fw.trace
  warpswitch bench classify --rules fw.rules --trace fw.trace --threads 2 --json
  warpswitch bench classify --rules fw.rules --trace fw.trace --updates";

/// Rule and key pairs up to which a linear engine answers the whole trace.
const LINEAR_PAIRS_MAX: u64 = 10_000_000_000;

/// Measure engines on a rule set and a trace
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchClassifyArgs {
    #[command(flatten)]
    rules: RulesArgs,

    /// Trace of packet headers as text, gzip'd or not; loaded into memory
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,

    /// Format of the trace [default: recognised by content]
    #[arg(long, value_name = "FORMAT", value_parser = trace_format_parser())]
    trace_format: Option<TraceFormat>,

    /// Engines, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_parser = engine_parser(), value_delimiter = ',')]
    engines: Vec<Engine>,

    /// Lookup threads, each on its own core
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    threads: usize,

    /// Keys in a batch
    #[arg(long, value_name = "KEYS", value_parser = parse_positive, default_value = "256")]
    batch: usize,

    /// Runs; the median is reported
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "7")]
    runs: usize,

    /// Milliseconds per run
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "200")]
    run_ms: usize,

    /// Also measure inserts and removes, and their effect on a reader
    #[arg(long)]
    updates: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    build: BuildArgs,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Report {
    rules: usize,
    packets: usize,
    schema: &'static str,
    threads: usize,
    batch: usize,
    runs: usize,
    run_ms: usize,
    /// Packets whose answers were checked.
    checked: usize,
    /// Packets of these that the plain reference answered.
    checked_by_linear: usize,
    engines: Vec<EngineReport>,
}

/// What was measured of one engine; no numbers if it is wrong or cannot be built.
#[derive(Debug, Serialize)]
struct EngineReport {
    name: &'static str,
    /// Median, million lookups per second.
    mpps: Option<f64>,
    mpps_min: Option<f64>,
    mpps_max: Option<f64>,
    build_ms: Option<f64>,
    bytes: Option<usize>,
    bytes_per_rule: Option<f64>,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updates: Option<UpdateRates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<DetailReport>,
}

/// A figure that describes an engine's structure.
#[derive(Debug, Serialize)]
struct DetailReport {
    name: &'static str,
    value: f64,
}

/// Runs the command.
///
/// # Errors
/// Bad input. An engine that is wrong or cannot be built is part of the report.
pub fn run(args: &BenchClassifyArgs) -> anyhow::Result<Outcome> {
    refuse_two_dashes(&args.rules.rules, &args.trace)?;
    threads::warn_of_sharing(args.threads);
    let loaded = load::load_rules(&args.rules)?;
    let ruleset = &loaded.ruleset;
    let keys = read_trace(args, ruleset)?;
    let reference = Reference::find(ruleset, &keys)?;
    let mut names = args.engines.clone();
    if names.is_empty() {
        names = Engine::ALL.to_vec();
    }
    let mut report = Report {
        rules: ruleset.len(),
        packets: keys.len(),
        schema: ruleset.schema().name,
        threads: args.threads,
        batch: args.batch,
        runs: args.runs,
        run_ms: args.run_ms,
        checked: reference.len(),
        checked_by_linear: reference.by_linear,
        engines: Vec::new(),
    };
    for engine in names {
        report.engines.push(bench_engine(engine, args, ruleset, &keys, &reference));
    }
    if args.json {
        provenance::print_json(&Provenance::of_cpu(), &report)?;
    } else {
        print(&render(&report))?;
    }
    let failed = report.engines.iter().any(|engine| engine.error.is_some());
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

fn read_trace(args: &BenchClassifyArgs, ruleset: &Ruleset) -> anyhow::Result<KeyBuf> {
    let name = load::display_name(&args.trace);
    let blocks = TraceBlocks::new(load::open(&args.trace, "a trace")?, args.trace_format);
    let progress = Progress::counter("reading the trace");
    let keys = read_all(&name, blocks, ruleset.schema(), |packets| progress.at(packets))?;
    if keys.is_empty() {
        return Err(bad_input(format!("{name} contains no packets")));
    }
    Ok(keys)
}

/// Checks and measures one engine.
fn bench_engine(
    engine: Engine,
    args: &BenchClassifyArgs,
    ruleset: &Ruleset,
    keys: &KeyBuf,
    reference: &Reference,
) -> EngineReport {
    let mut report = EngineReport::empty(engine);
    let built = match build_engine(engine, ruleset, &args.build.to_options()) {
        Ok(built) => built,
        Err(error) => {
            report.error = Some(format!("{error:#}"));
            return report;
        }
    };
    let classifier = built.classifier.as_ref();
    match check_engine(classifier, ruleset, keys, reference) {
        Ok(digest) => report.digest = digest.map(|digest| digest.to_string()),
        Err(WrongAnswer { packet, got, want }) => {
            let text = format!("wrong result for packet {packet}: rule {got}, expected {want}");
            report.error = Some(text);
            return report;
        }
    }
    let options = MeasureOptions {
        threads: args.threads,
        batch_len: args.batch,
        runs: args.runs,
        run_time: Duration::from_millis(args.run_ms as u64),
    };
    let progress = Progress::spinner(&format!("measuring {engine}"));
    let tell = |rate| progress.say(format!("measuring {engine}: {}", human::rate(rate)));
    let measured = measure(classifier, keys.as_batch(), &options, &tell);
    report.mpps = Some(rounded(measured.rate() / 1e6, 4));
    report.mpps_min = measured.rates.first().map(|rate| rounded(rate / 1e6, 4));
    report.mpps_max = measured.rates.last().map(|rate| rounded(rate / 1e6, 4));
    report.p50_ns = Some(rounded(measured.p50_ns, 4));
    report.p99_ns = Some(rounded(measured.p99_ns, 4));
    report.build_ms = Some(rounded(built.build_time.as_secs_f64() * 1e3, 4));
    report.bytes = Some(classifier.bytes());
    report.bytes_per_rule =
        Some(rounded(classifier.bytes() as f64 / ruleset.len().max(1) as f64, 4));
    let details = classifier.details().into_iter();
    report.details = details.map(|d| DetailReport { name: d.name, value: d.value }).collect();
    if args.updates {
        progress.say(format!("updating rules in {engine}"));
        match measure_updates(classifier, ruleset, keys.as_batch(), &options) {
            Ok(rates) => report.updates = Some(rates),
            Err(error) => report.error = Some(format!("{error:#}")),
        }
    }
    report
}

/// Compares an engine's answers and takes their fingerprint, if there is time for all.
fn check_engine(
    classifier: &dyn Classifier,
    ruleset: &Ruleset,
    keys: &KeyBuf,
    reference: &Reference,
) -> Result<Option<Digest>, WrongAnswer> {
    let pairs = keys.len() as u64 * ruleset.len() as u64;
    if classifier.engine() == Engine::Linear && pairs > LINEAR_PAIRS_MAX {
        return reference.first_wrong_of(classifier, keys).map_or(Ok(None), Err);
    }
    let progress = Progress::steps(&format!("checking {}", classifier.engine()), keys.len() as u64);
    let tell = |done| progress.at(done);
    let answers = classify_all(classifier, keys.as_batch(), threads::default_threads(), &tell);
    if let Some(wrong) = reference.first_wrong(&answers) {
        return Err(wrong);
    }
    let mut digest = Digest::new();
    digest.update(&answers);
    Ok(Some(digest))
}

impl EngineReport {
    fn empty(engine: Engine) -> Self {
        Self {
            name: engine.name(),
            mpps: None,
            mpps_min: None,
            mpps_max: None,
            build_ms: None,
            bytes: None,
            bytes_per_rule: None,
            p50_ns: None,
            p99_ns: None,
            digest: None,
            updates: None,
            error: None,
            details: Vec::new(),
        }
    }
}

/// The report for people.
fn render(report: &Report) -> String {
    let aside = format!(
        "{}, {}, batches of {}",
        report.schema,
        human::counted(report.threads, "thread"),
        human::count(report.batch as u64),
    );
    let head = format!(
        "{}, {}",
        human::counted(report.rules, "rule"),
        human::counted(report.packets, "packet")
    );
    let mut text = title(&head, &aside);
    let mut table = Table::new(&[
        ("engine", Align::Left),
        ("Mpps", Align::Right),
        ("p50 ns", Align::Right),
        ("p99 ns", Align::Right),
        ("build ms", Align::Right),
        ("memory", Align::Right),
        ("B/rule", Align::Right),
    ]);
    let fastest = report.engines.iter().filter_map(|e| e.mpps).fold(0.0, f64::max);
    for engine in &report.engines {
        let Some(mpps) = engine.mpps else {
            let error = engine.error.as_deref().unwrap_or_default();
            table.styled_row(BAD, [engine.name.into(), error.into()]);
            continue;
        };
        let number = |value: Option<f64>| human::significant(value.unwrap_or_default());
        let cells = [
            engine.name.into(),
            human::significant(mpps),
            number(engine.p50_ns),
            number(engine.p99_ns),
            number(engine.build_ms),
            human::bytes(engine.bytes.unwrap_or_default()),
            number(engine.bytes_per_rule),
        ];
        if mpps == fastest {
            table.styled_row(GOOD, cells);
        } else {
            table.row(cells);
        }
    }
    text += &table.render();
    text += &format!("{}\n", paint(FAINT, footer(report)));
    if report.engines.iter().any(|engine| engine.updates.is_some()) {
        text += &render_updates(report);
    }
    text
}

/// What the figures rest on.
fn footer(report: &Report) -> String {
    let mut text = format!(
        "Median of {} of {} ms; {} of {} checked",
        human::counted(report.runs, "run"),
        report.run_ms,
        human::count(report.checked as u64),
        human::counted(report.packets, "answer"),
    );
    // Engines whose answers were all checked have the same digest.
    if let Some(digest) = report.engines.iter().find_map(|engine| engine.digest.as_ref()) {
        text += &format!("; digest {digest}");
    }
    text
}

/// The changes for people.
fn render_updates(report: &Report) -> String {
    let mut table = Table::new(&[
        ("engine", Align::Left),
        ("inserts/s", Align::Right),
        ("removes/s", Align::Right),
        ("reader alone", Align::Right),
        ("reader with updates", Align::Right),
        ("kept", Align::Right),
    ]);
    for engine in &report.engines {
        let Some(updates) = &engine.updates else { continue };
        table.row([
            engine.name.into(),
            human::count(updates.inserts_per_s as u64),
            human::count(updates.removes_per_s as u64),
            format!("{} Mpps", human::significant(updates.reader_alone_mpps)),
            format!("{} Mpps", human::significant(updates.reader_mpps)),
            format!("{:.0} %", updates.reader_kept * 100.0),
        ]);
    }
    format!("\n{}{}", title("Updates while a reader runs", ""), table.render())
}
