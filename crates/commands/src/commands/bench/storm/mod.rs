//! `warpswitch bench storm`: the evaluation of the Storm paper on this machine.

mod arrivals;
mod defs;
mod engines;
mod figures;
mod hits;
mod matching;
mod report;
mod router;
mod shift;
mod traffic;
mod worker;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;
use warpswitch_provenance::Provenance;

use self::defs::Experiments;
use self::figures::{Effort, Lab};
use self::report::{Report, Section};
use crate::args::{parse_at_least, parse_positive};
use crate::exit::Outcome;
use crate::output::{create_folder, print};
use crate::term::Progress;
use crate::{provenance, threads};

const LONG_ABOUT: &str = "\
Measure the cache of evolving rules as the Storm paper does.

Rule sets R1 to R7 and traces T1 to T5 are generated; bench/defs/storm defines them. Throughput \
(mpps) is the highest rate of arrivals at which no packet is lost, found by halving the range of \
rates. 'waiting mpps' is the rate where workers take packets at once and wait for room in the \
queues instead. Both are taken after a warm-up of 2 ms. Figures 6 and 7 show medians of three \
searches; the searches of the layouts alternate. 'times copies' and 'waiting times' divide both \
by the rates of copies of the engine, one on each thread. '-' stands for a rate that was not \
found: packets were lost at every rate tried. Figures 6 and 7 name layouts: HyperCuts-N is N \
copies, 'Storm 4-2-1' has four threads for the cache, two for the engine ('full') and one that \
derives rules, in 'Storm fold-N' each of N threads does everything. gbps is for frames of 128 \
bytes. 'ms to 95' is the time until 95 % hit.

  6        throughput of HyperCuts and of Storm, by rule set and partition, and the model's choice
  7        throughput by number of threads
  8        hit ratio after the start
  9        hit ratio by rule set and trace
  10       cached rules that a search in order compares
  t5       delay and hit ratio by size of the cache
  t6       warm-up time
  choices  one copy of the cache against two, a queue of samples against one slot
  shift    three runs of traffic that shifts to other rules midway, and traffic that misses
  engines  engines without a cache, with one, and with the gate that measures whether it pays
  match    time of a match of 256 keys against 20 cached rules

What is popular changes with time, however fast a router is: the packets of figures 6 and 7, of \
tables 5 and 6, of 'choices' and 'shift' and of hot rules come from a window of 32K packets, which \
moves through the trace by 7,500 packets a millisecond, the rate of the paper's traces.

Of T threads, partitions give T-2 to cache and engine, and one to the updater: 4-2-1 has seven of \
eight. With fewer cores than threads, threads \
share cores, and throughput without loss means little. Figures 8, 9 and 10 do not depend on the \
machine. docs/storm.md explains the terms.

Every answer of the cache is compared with that of the engine first; an unequal one ends the run.";

const EXAMPLES: &str = "\
Examples:
  warpswitch bench storm --smoke
  warpswitch bench storm --only 9,10 --json
  warpswitch bench storm --threads 8 --record storm";

/// Names of figures and tables.
const NAMES: [&str; 11] =
    ["6", "7", "8", "9", "10", "t5", "t6", "choices", "shift", "engines", "match"];

/// Threads of a router unless the user chooses, as in the paper.
const THREADS: usize = 8;

/// The fewest packets of a trace: some batches for each worker.
const PACKETS_MIN: usize = 10_000;

/// Measure the cache of evolving rules as the Storm paper does
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchStormArgs {
    /// Figures and tables, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(NAMES))]
    only: Vec<String>,

    /// Threads of a router [default: all cores, at most 8]
    #[arg(long, value_name = "N", value_parser = parse_at_least(2))]
    threads: Option<usize>,

    /// Packets in each trace
    #[arg(long, value_name = "N", value_parser = parse_at_least(PACKETS_MIN),
          default_value = "5M")]
    packets: usize,

    /// Milliseconds per run
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "50")]
    run_ms: usize,

    /// Packets that the receive queue of a worker holds [default: 1K, as in the paper]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    queue: Option<usize>,

    /// Run everything briefly, on small rule sets: a test of the command
    #[arg(long, conflicts_with_all = ["packets", "run_ms"])]
    smoke: bool,

    /// Folder for the report as JSON and CSV and for the charts as SVG
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl BenchStormArgs {
    fn effort(&self, experiments: &Experiments) -> Effort {
        let rulesets = experiments.rulesets.len().max(experiments.cases.len());
        let queue_len = self.queue.unwrap_or(experiments.queue_keys);
        if self.smoke {
            let time = Duration::from_millis(5);
            let (keys, steps, rounds, rules_max) = (100_000, 2, 1, 1000);
            let (searches, rulesets) = (1, 2);
            return Effort { keys, time, steps, searches, rulesets, rules_max, rounds, queue_len };
        }
        let time = Duration::from_millis(self.run_ms as u64);
        let keys = self.packets;
        let (searches, rounds, rules_max) = (3, 9, usize::MAX);
        Effort { keys, time, steps: 7, searches, rulesets, rules_max, rounds, queue_len }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn measure(&self, lab: &Lab<'_>) -> anyhow::Result<Vec<Section>> {
        let mut all = Vec::new();
        if self.wants("match") {
            let aside = "20 rules, IPv4 5-tuples";
            all.push(Section::new(("match", "Match of a batch", aside), &lab.matches())?);
        }
        if self.wants("6") {
            let (figure, model) = lab.figure_6()?;
            all.push(Section::new(("figure_6", "Figure 6: throughput", ""), &figure)?);
            all.push(Section::new(
                ("model", "Partition by the model and the best one", ""),
                &model,
            )?);
        }
        if self.wants("7") {
            let title = "Figure 7: throughput by number of threads";
            all.push(Section::new(("figure_7", title, ""), &lab.figure_7()?)?);
        }
        if self.wants("8") {
            let title = "Figure 8: hit ratio after the start";
            let section = Section::new(("figure_8", title, "R3, T1"), &lab.figure_8()?)?;
            // Doubling times are enough for people.
            let doubling: Vec<u64> = (0..12).map(|power| 1 << power).collect();
            all.push(section.showing("ms", &doubling));
        }
        if self.wants("9") {
            let about = ("figure_9", "Figure 9: hit ratio", "after the first 50 ms");
            all.push(Section::new(about, &lab.figure_9()?)?);
        }
        if self.wants("10") {
            let about = ("figure_10", "Figure 10: cached rules compared, at most", "R2, T1");
            let section = Section::new(about, &lab.figure_10()?)?;
            all.push(section.showing("rules", &[1, 2, 5, 10, 15, 20]));
        }
        if self.wants("t5") {
            let about = ("table_5", "Table 5: size of the cache", "R3, T1");
            all.push(Section::new(about, &lab.table_5()?)?);
        }
        if self.wants("t6") {
            let about = ("table_6", "Table 6: warm-up", "until nine packets in ten hit");
            all.push(Section::new(about, &lab.table_6()?)?);
        }
        if self.wants("choices") {
            let about = ("choices", "Design choices", "R3, T1");
            all.push(Section::new(about, &lab.choices()?)?);
        }
        if self.wants("shift") {
            let about = ("shift", "Shift of the traffic", "at 0.8 of the rate that misses allow");
            all.push(Section::new(about, &lab.shifts()?)?);
        }
        if self.wants("engines") {
            let about =
                ("engines", "Cost gate", "nanoseconds a key, and throughput by that of plain");
            all.push(Section::new(about, &lab.gates()?)?);
        }
        Ok(all)
    }
}

/// Runs the command.
///
/// # Errors
/// Answers of the cache that differ from those of the engine; a record that cannot be written.
pub fn run(args: &BenchStormArgs) -> anyhow::Result<Outcome> {
    let experiments = Experiments::read()?;
    let effort = args.effort(&experiments);
    let threads = args.threads.unwrap_or_else(|| threads::default_threads().min(THREADS)).max(2);
    threads::warn_of_sharing(threads);
    let progress = Progress::spinner("measuring");
    let began = Instant::now();
    let lab = Lab { experiments: &experiments, effort, threads, began, progress: &progress };
    let report = Report {
        threads,
        run_ms: effort.time.as_millis() as usize,
        packets: effort.keys,
        queue_len: effort.queue_len,
        sections: args.measure(&lab)?,
    };
    drop(progress);
    let from = Provenance::of_cpu();
    if let Some(folder) = &args.record {
        record(folder, &from, &report)
            .with_context(|| format!("cannot write the record to {}", folder.display()))?;
    }
    if args.json {
        provenance::print_json(&from, &report.json())?;
    } else {
        print(&report.render())?;
    }
    Ok(Outcome::Done)
}

fn record(folder: &std::path::Path, from: &Provenance, report: &Report) -> anyhow::Result<()> {
    create_folder(folder)?;
    let mut json = report.json();
    from.stamp_json(&mut json);
    std::fs::write(folder.join("storm.json"), serde_json::to_string_pretty(&json)? + "\n")?;
    for (name, csv) in report.csv_files() {
        std::fs::write(folder.join(name), from.stamp_csv(&csv))?;
    }
    for (name, chart) in report.charts() {
        std::fs::write(folder.join(name), chart)?;
    }
    Ok(())
}
