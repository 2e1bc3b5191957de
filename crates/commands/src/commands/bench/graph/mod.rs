//! `warpswitch bench graph`: what configurations cost per packet, from memory and from a capture.
//!
//! ```text
//! case ─► rules or routes, frames ─┬─► what must leave through each output, without the graph
//!                                  └─► configuration ─► checked: Discard takes fingerprints
//!                                                    └► timed: frames delivered for a while
//! ```

mod cases;
mod filter;
mod measure;
mod routes;
pub(super) mod sink;
mod source;
mod traffic;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum as _};
use serde::Serialize;
use warpswitch_provenance::Provenance;

use self::cases::{Case, Making, Ready};
use self::measure::{Rates, Timed};
use self::source::{Source, Sources};
use self::traffic::Traffic;
use crate::args::{parse_count, parse_positive};
use crate::exit::Outcome;
use crate::human::{rounded, significant};
use crate::output::{create_folder, print};
use crate::provenance;
use crate::table::{Align, Table, title};
use crate::term::{FAINT, Progress, paint};
use crate::{human, term, threads};

const LONG_ABOUT: &str = "\
Measure the per-packet cost of configurations on one core.

Frames of 64 bytes (60 without the frame check sequence) come from memory, shared with packets by \
ReplayUnqueue, and from a capture in the page cache, read by FromDump (--source). They are pushed \
through the elements and freed by Discard. First all frames pass once with each batch length, \
and the packets on each output must match, packet by packet, the results computed from the rules \
or routes without the graph. A case with wrong results is not measured, and the exit code is 1.

Then frames are delivered --runs times on a pinned thread. Rates are packets per second of that \
thread's CPU time, which includes copying, parsing, lookups and sorting to outputs. The shares \
break the time down by element, for the longest batches. Published figures are shown for cases \
whose tables are of similar size.

Rules and routes are generated, the same on every machine, unless --data names a folder with \
ClassBench files (acl1_1k, fw1_1k, acl1_10k) and a table of prefixes (*prefixes.txt).";

const EXAMPLES: &str = "\
Examples:
  warpswitch bench graph
  warpswitch bench graph --cases null,router --batch 1,32,256 --source capture
  warpswitch bench graph --cases routes --traffic uniform --keep files --json";

/// Measure what configurations cost per packet
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchGraphArgs {
    /// Configurations, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    cases: Vec<Case>,

    /// Packets in a batch, separated by commas
    #[arg(long, value_name = "PACKETS", value_parser = parse_positive, value_delimiter = ',',
          default_value = "1,64,256")]
    batch: Vec<usize>,

    /// Distributions of repeated headers, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    traffic: Vec<Traffic>,

    /// Where frames come from
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t = Sources::Both)]
    source: Sources,

    /// Frames of a case
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "128K")]
    frames: usize,

    /// Folder with ClassBench files and a table of prefixes, or whose subfolders have them
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Runs; the median is reported
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "7")]
    runs: usize,

    /// Milliseconds per run
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "100")]
    run_ms: usize,

    /// Use small tables, for a smoke test
    #[arg(long)]
    smoke: bool,

    /// Keep configurations, captures and rules in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Report {
    frames: usize,
    frame_bytes: usize,
    runs: usize,
    run_ms: usize,
    cases: Vec<CaseReport>,
}

/// One configuration with one kind of traffic from one source.
#[derive(Debug, Serialize)]
struct CaseReport {
    name: &'static str,
    source: &'static str,
    traffic: &'static str,
    /// Rules or routes.
    entries: usize,
    rates: Vec<RateReport>,
    /// Million lookups a second of the engine alone, on the keys of the same frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    bare_mpps: Option<f64>,
    /// The same with the making of keys from these frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    parsed_mpps: Option<f64>,
    shares: Vec<ShareReport>,
    stated: Vec<Stated>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// One length of batches.
#[derive(Debug, Serialize)]
struct RateReport {
    batch: usize,
    /// Median.
    mpps: f64,
    mpps_min: f64,
    mpps_max: f64,
    ns: f64,
    had_core: f64,
}

/// What one element took with the longest batches.
#[derive(Debug, Serialize)]
struct ShareReport {
    element: String,
    ns: f64,
    part: f64,
}

/// A published figure.
#[derive(Debug, Serialize)]
struct Stated {
    of: &'static str,
    mpps: f64,
}

/// The part of the time that a thread must have its core for a figure that is to be believed.
const HAD_CORE_MIN: f64 = 0.9;

/// Runs the command.
///
/// # Errors
/// Bad input. A case that is wrong is part of the report.
pub fn run(args: &BenchGraphArgs) -> anyhow::Result<Outcome> {
    let temporary = tempfile::tempdir().context("no folder for captures")?;
    let folder = args.keep.as_deref().unwrap_or(temporary.path());
    create_folder(folder).with_context(|| folder.display().to_string())?;
    let making = Making {
        folder: folder.to_owned(),
        data: args.data.clone(),
        frames: args.frames.max(2),
        smoke: args.smoke,
    };
    let cases = if args.cases.is_empty() { Case::ALL.to_vec() } else { args.cases.clone() };
    let mut report = Report {
        frames: making.frames,
        frame_bytes: warpswitch_rules::generate::FRAME_BYTES_MIN,
        runs: args.runs,
        run_ms: args.run_ms,
        cases: Vec::new(),
    };
    threads::pin(0);
    for case in cases {
        let traffic = match args.traffic.as_slice() {
            // Its packets are all alike.
            _ if case == Case::Null => &[Traffic::Uniform][..],
            [] => Traffic::value_variants(),
            chosen => chosen,
        };
        for &traffic in traffic {
            report.cases.extend(bench_case(case, traffic, args, &making)?);
        }
    }
    let least = report.cases.iter().flat_map(|case| &case.rates).map(|rate| rate.had_core);
    if least.fold(1.0, f64::min) < HAD_CORE_MIN {
        term::warning("the machine is busy: other processes used the core; figures are too low");
    }
    if args.json {
        provenance::print_json(&Provenance::of_cpu(), &report)?;
    } else {
        print(&render(&report))?;
    }
    let failed = report.cases.iter().any(|case| case.error.is_some());
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// Measures a case from each source; its tables and frames are generated once.
fn bench_case(
    case: Case,
    traffic: Traffic,
    args: &BenchGraphArgs,
    making: &Making,
) -> anyhow::Result<Vec<CaseReport>> {
    let progress = Progress::spinner(&format!("generating {}, {}", case.name(), traffic.name()));
    let ready = making.make(case, traffic)?;
    drop(progress);
    let bench = |&source| {
        if args.keep.is_some() {
            keep(&ready, source, &making.folder, case)?;
        }
        bench_source((case, traffic, source), &ready, args)
    };
    args.source.list().iter().map(bench).collect()
}

fn bench_source(
    (case, traffic, source): (Case, Traffic, Source),
    ready: &Ready,
    args: &BenchGraphArgs,
) -> anyhow::Result<CaseReport> {
    let name = format!("{}, {}, {}", case.name(), traffic.name(), source.name());
    let stated = case.stated(ready.entries).iter().map(|&(of, mpps)| Stated { of, mpps }).collect();
    let mut report = CaseReport {
        name: case.name(),
        source: source.name(),
        traffic: if case == Case::Null { "-" } else { traffic.name() },
        entries: ready.entries,
        rates: Vec::new(),
        bare_mpps: None,
        parsed_mpps: None,
        shares: Vec::new(),
        stated,
        error: None,
    };
    let progress = Progress::spinner(&format!("checking {name}"));
    if let Err(error) = measure::check(ready, source, &args.batch) {
        report.error = Some(format!("{error:#}"));
        return Ok(report);
    }
    progress.say(format!("measuring {name}"));
    let run_time = Duration::from_millis(args.run_ms as u64);
    let mut timed = Timed::new(ready, source, run_time, false)?;
    for &batch in &args.batch {
        let rates = timed.rates(batch, args.runs)?;
        report.rates.push(RateReport::new(batch, &rates));
    }
    drop(timed);
    if let Some(bare) = &ready.bare {
        let mpps = |rates: &Rates| Some(rounded(rates.median() / 1e6, 3));
        let [alone, parsed] = measure::bare(bare, args.runs, run_time)?;
        (report.bare_mpps, report.parsed_mpps) = (mpps(&alone), mpps(&parsed));
    }
    let longest = args.batch.iter().copied().max().unwrap_or(1);
    let shares = Timed::new(ready, source, run_time, true)?.shares(longest, args.runs)?;
    let share = |share: measure::Share| ShareReport {
        element: share.element,
        ns: rounded(share.ns, 2),
        part: rounded(share.part, 4),
    };
    report.shares = shares.into_iter().map(share).collect();
    Ok(report)
}

impl RateReport {
    fn new(batch: usize, rates: &Rates) -> Self {
        let mpps = |rate: f64| rounded(rate / 1e6, 3);
        Self {
            batch,
            mpps: mpps(rates.median()),
            mpps_min: mpps(rates.sorted.first().copied().unwrap_or_default()),
            mpps_max: mpps(rates.sorted.last().copied().unwrap_or_default()),
            ns: rounded(1e9 / rates.median(), 2),
            had_core: rounded(rates.had_core, 3),
        }
    }
}

/// Writes the configuration, its variables as definitions.
fn keep(ready: &Ready, source: Source, folder: &Path, case: Case) -> anyhow::Result<()> {
    let variables = ready.variables(source, false).into_iter();
    let all: Vec<String> = variables.map(|(name, value)| format!("${name} {value}")).collect();
    // The router has definitions of its own, which give way to those of the command line.
    let text = format!("define({});\n{}", all.join(", "), ready.config(source));
    let path = folder.join(format!("{}-{}.click", case.name(), source.name()));
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}

fn render(report: &Report) -> String {
    let mut table = Table::new(&[
        ("case", Align::Left),
        ("traffic", Align::Left),
        ("source", Align::Left),
        ("batch", Align::Right),
        ("Mpps", Align::Right),
        ("ns/packet", Align::Right),
        ("least", Align::Right),
        ("most", Align::Right),
        ("beside", Align::Left),
    ]);
    let mut shares = String::new();
    for case in &report.cases {
        if let Some(error) = &case.error {
            let wrong = format!("wrong: {error}");
            let cells = [case.name, case.traffic, case.source, "-", &wrong];
            table.styled_row(term::BAD, cells.map(str::to_owned));
            continue;
        }
        for rate in &case.rates {
            table.row([
                case.name.into(),
                case.traffic.into(),
                case.source.into(),
                rate.batch.to_string(),
                significant(rate.mpps),
                significant(rate.ns),
                significant(rate.mpps_min),
                significant(rate.mpps_max),
                beside(case, rate),
            ]);
        }
        shares += &render_shares(case);
    }
    let aside = format!(
        "frames of 64 bytes, {} of them; {} of {} ms",
        human::count(report.frames as u64),
        human::counted(report.runs, "run"),
        report.run_ms
    );
    let note = paint(FAINT, "  share of each element, and its ns per packet:");
    format!("{}{}\n{note}\n{shares}", title("Graph", &aside), table.render())
}

/// How a rate stands to what is known beside it.
fn beside(case: &CaseReport, rate: &RateReport) -> String {
    let bare = case.bare_mpps.map(|bare| (format!("turbo alone {}", significant(bare)), bare));
    let stated = case.stated.iter().map(|s| (format!("{} {}", s.of, significant(s.mpps)), s.mpps));
    let parsed = case.parsed_mpps;
    let with_keys =
        parsed.map(|mpps| (format!("turbo with key extraction {}", significant(mpps)), mpps));
    let all = stated.chain(bare).chain(with_keys);
    let shown = all.map(|(what, mpps)| format!("{:.2}x {what}", rate.mpps / mpps));
    shown.collect::<Vec<_>>().join(", ")
}

fn render_shares(case: &CaseReport) -> String {
    let shown: Vec<String> = case
        .shares
        .iter()
        .filter(|share| share.part >= 0.02)
        .map(|s| format!("{} {:.0} % ({})", s.element, s.part * 100.0, significant(s.ns)))
        .collect();
    format!("  {} {} {}: {}\n", case.name, case.traffic, case.source, shown.join(", "))
}
