//! `warpswitch bench storm`: the evaluation of the Storm paper on this machine.

mod defs;
mod figures;
mod report;
mod router;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use warpswitch_provenance::Provenance;

use self::defs::Experiments;
use self::figures::{Effort, Lab};
use self::report::Report;
use crate::args::parse_positive;
use crate::exit::Outcome;
use crate::output::print;
use crate::term::Progress;
use crate::{provenance, threads};

const LONG_ABOUT: &str = "\
Measure the cache of evolving rules as the Storm paper does.

Rule sets R1 to R7 and traces T1 to T5 are generated; bench/defs/storm defines them. Throughput is \
the highest rate at which a paced source loses no packet, found by halving the range of rates. \
'waiting Mpps' is the rate of a source that waits for room in the queues instead.

  6   throughput of HyperCuts and of Storm, by rule set and partition
  7   throughput by number of threads
  8   hit ratio after the start
  9   hit ratio by rule set and trace
  10  cached rules that a search in order compares
  t5  delay and hit ratio by size of the cache
  t6  warm-up time
  choices  one copy of the cache against two, a queue of samples against one slot

Workers take all threads but two, for the updater and the source. With fewer than 4 cores threads \
share cores, and throughput without loss means little. Figures 8, 9 and 10 depend on the \
definitions only.

Every answer of the cache is compared with that of the engine first; an unequal one ends the run.";

const EXAMPLES: &str = "\
Examples:
  warpswitch bench storm --smoke
  warpswitch bench storm --only 9,10 --json
  warpswitch bench storm --threads 8 --record storm";

/// Names of figures and tables.
const NAMES: [&str; 8] = ["6", "7", "8", "9", "10", "t5", "t6", "choices"];

/// Measure the cache of evolving rules as the Storm paper does
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchStormArgs {
    /// Figures and tables, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(NAMES))]
    only: Vec<String>,

    /// Threads of a router: workers, updater and source [default: all cores, at least 4]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    threads: Option<usize>,

    /// Packets in each trace
    #[arg(long, value_name = "N", value_parser = crate::args::parse_count, default_value = "5M")]
    packets: usize,

    /// Milliseconds per run
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "200")]
    run_ms: usize,

    /// Run everything briefly, on two rule sets: a test of the command
    #[arg(long, conflicts_with_all = ["packets", "run_ms"])]
    smoke: bool,

    /// Folder for the report as JSON and for the charts as SVG
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl BenchStormArgs {
    fn effort(&self, experiments: &Experiments) -> Effort {
        let rulesets = experiments.rulesets.len();
        if self.smoke {
            let time = Duration::from_millis(5);
            return Effort { keys: 100_000, time, steps: 2, rulesets: rulesets.min(2) };
        }
        let time = Duration::from_millis(self.run_ms as u64);
        // At least a batch for each worker.
        Effort { keys: self.packets.max(10_000), time, steps: 7, rulesets }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

/// Runs the command.
///
/// # Errors
/// Answers of the cache that differ from those of the engine; a record that cannot be written.
pub fn run(args: &BenchStormArgs) -> anyhow::Result<Outcome> {
    let experiments = Experiments::read()?;
    let effort = args.effort(&experiments);
    let threads = args.threads.unwrap_or_else(threads::default_threads).max(4);
    threads::warn_of_sharing(threads);
    let progress = Progress::spinner("measuring");
    let lab = Lab { experiments: &experiments, effort, threads, progress: &progress };
    let mut report = Report {
        threads,
        run_ms: effort.time.as_millis() as usize,
        packets: effort.keys,
        ..Report::default()
    };
    report.figure_6 = args.wants("6").then(|| lab.figure_6()).transpose()?;
    report.figure_7 = args.wants("7").then(|| lab.figure_7()).transpose()?;
    report.figure_8 = args.wants("8").then(|| lab.figure_8()).transpose()?;
    report.figure_9 = args.wants("9").then(|| lab.figure_9()).transpose()?;
    report.figure_10 = args.wants("10").then(|| lab.figure_10()).transpose()?;
    report.table_5 = args.wants("t5").then(|| lab.table_5()).transpose()?;
    report.table_6 = args.wants("t6").then(|| lab.table_6()).transpose()?;
    report.choices = args.wants("choices").then(|| lab.choices()).transpose()?;
    drop(progress);
    let from = Provenance::of_cpu();
    if let Some(folder) = &args.record {
        record(folder, &from, &report)
            .with_context(|| format!("cannot write the record to {}", folder.display()))?;
    }
    if args.json {
        provenance::print_json(&from, &report)?;
    } else {
        print(&report.render())?;
    }
    Ok(Outcome::Done)
}

fn record(folder: &std::path::Path, from: &Provenance, report: &Report) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut json = serde_json::to_value(report)?;
    from.stamp_json(&mut json);
    std::fs::write(folder.join("storm.json"), serde_json::to_string_pretty(&json)? + "\n")?;
    for (name, chart) in report.charts() {
        std::fs::write(folder.join(name), chart)?;
    }
    Ok(())
}
