//! `warpswitch bench openflow`: the OpenFlow switch between memory ports.
//!
//! ```text
//! rules ─► flows ─► control connection ─┐
//! keys ──► frames ─► feed ─────────────► Bed: Switch ─► drains
//!                                        ├─► check: frames, ports, counters of the interpreter
//!                                        └─► measure
//! ```

mod bed;
mod flows;
mod measure;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use clap::builder::PossibleValuesParser;
use warpswitch_classify::Engine;
use warpswitch_provenance::Provenance;
use warpswitch_rules::Ruleset;
use warpswitch_rules::generate::{Family, RulesetSpec, Style};
use warpswitch_rules::schema::IPV4_5TUPLE;

use self::measure::{Effort, Lab};
use self::report::Report;
use crate::args::{ReadingArgs, RulesArgs, parse_count, parse_positive};
use crate::devices::{DeviceArgs, EngineChoice, choice_parser};
use crate::exit::{Outcome, bad_input};
use crate::load::load_rules;
use crate::output::{print, write_file};
use crate::provenance;
use crate::term::Progress;
use crate::threads;

const LONG_ABOUT: &str = "\
Measure the OpenFlow switch, on one core by default: receive a burst, extract flow keys, look \
up, count, send. Ports are rings in memory; each received frame is copied into a packet, each \
sent one into a ring. Flows are added by OpenFlow messages.

  caches     one table with the rules of an access list, under each cache: many flows, drawn \
uniformly or by popularity, and a few flows that fit into an exact cache
  tables     three tables with a rule set each, every packet through all of them
  styles     one table and no cache: an access list, a firewall and IP chains of 10,000 rules, by \
the engine of --engine
  changes    flow-mods a second into many flows, and the time from a flow-mod to the reply to its \
barrier while every flow is cached
  explosion  1 Mbit/s of packets that are made to need many masks (tuple-space explosion), beside \
normal traffic: the share of the rate that is left

Before anything is timed, frames, ports and counters are compared with those of the interpreter: \
linear tables without a cache. The column 'wanted' is the aim of the project, from the rates of \
Open vSwitch with DPDK.";

const EXAMPLES: &str = "\
Examples:
  warpswitch bench openflow
  warpswitch bench openflow --only caches,tables --runs 9 --record openflow.csv
  warpswitch bench openflow --rules acl1_1k.rules --flows 100K
  warpswitch bench openflow --smoke --json";

/// Names of parts.
const NAMES: [&str; 5] = ["caches", "tables", "styles", "changes", "explosion"];
/// Tables of the part with several.
const TABLES: usize = 3;
/// Styles of rules, as ClassBench has them.
const STYLES: [(&str, Style); 3] =
    [("access list", Style::Acl), ("firewall", Style::Fw), ("IP chain", Style::Ipc)];

/// Measure the OpenFlow switch: caches, tables, flow-mods, tuple-space explosion
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchOpenflowArgs {
    /// Parts, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(NAMES))]
    only: Vec<String>,

    /// IPv4 rules of the one table, gzip'd or not [default: 1,000 generated rules of an access
    /// list]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// IPv4 rules of each of the three tables, separated by commas; one file serves all three
    /// [default: 10,000 generated rules each]
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    table_rules: Vec<PathBuf>,

    /// Engine of the tables, for frames that no cache answers; one of a device gets bursts of up
    /// to 8,192 frames
    #[arg(long, value_name = "NAME", value_parser = choice_parser(),
          default_value_t = EngineChoice::Cpu(Engine::Turbo))]
    engine: EngineChoice,

    #[command(flatten)]
    device: DeviceArgs,

    /// Flows of traffic (suffix K, M or G: 1K is 1,000)
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "50K")]
    flows: usize,

    /// Flows in the table while flows are added and changed (suffix K, M or G: 1K is 1,000)
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "100K")]
    changed_flows: usize,

    /// Switches side by side, each on a core of its own, for caches, tables and styles
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    threads: usize,

    /// Runs; the median is reported
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "5")]
    runs: usize,

    /// Milliseconds per run
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "300")]
    run_ms: usize,

    /// Run everything briefly, with few rules and flows: a test of the command
    #[arg(long)]
    smoke: bool,

    /// Write all figures with commit, machine and date into this CSV file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl BenchOpenflowArgs {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn effort(&self) -> Effort {
        let small = |usual: usize, smoke: usize| if self.smoke { usual.min(smoke) } else { usual };
        Effort {
            threads: self.threads,
            runs: small(self.runs, 2),
            run_time: Duration::from_millis(small(self.run_ms, 5) as u64),
            flows: small(self.flows, 500),
            changed_flows: small(self.changed_flows, 500),
            changes: small(100, 3),
        }
    }

    fn generated(&self, style: Style, rules: usize, seed: u64) -> Ruleset {
        let rules = if self.smoke { 50 } else { rules };
        RulesetSpec { style, family: Family::Ipv4, rules, seed }.generate()
    }

    fn rules(&self, file: Option<&PathBuf>, rules: usize, seed: u64) -> anyhow::Result<Ruleset> {
        let Some(file) = file else {
            return Ok(self.generated(Style::Acl, rules, seed));
        };
        let reading = ReadingArgs::default();
        let loaded = load_rules(&RulesArgs { rules: file.clone(), reading })?;
        match loaded.ruleset.schema() == &IPV4_5TUPLE && !loaded.ruleset.is_empty() {
            true => Ok(loaded.ruleset),
            false => Err(bad_input(format!("{}: expected rules for IPv4", loaded.name))),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Rules that cannot be read; frames or counters that differ from the interpreter's; a record that
/// cannot be written.
pub fn run(args: &BenchOpenflowArgs) -> anyhow::Result<Outcome> {
    let cores = threads::default_threads();
    if args.threads > cores {
        return Err(bad_input(format!(
            "--threads {}: this machine has {cores} cores",
            args.threads
        )));
    }
    let progress = Progress::spinner("generating rules and frames");
    let rules = args.rules(args.rules.as_ref(), 1_000, 1)?;
    let file = |table: usize| {
        let files = &args.table_rules;
        (!files.is_empty()).then(|| &files[table % files.len()])
    };
    let tables = (0..TABLES).map(|table| args.rules(file(table), 10_000, 11 + table as u64));
    let tables: Vec<Ruleset> = tables.collect::<anyhow::Result<_>>()?;
    threads::pin(0);
    let styles = STYLES.map(|(name, style)| (name, args.generated(style, 10_000, 21)));
    let effort = args.effort();
    let mut lab = Lab {
        effort,
        rules: &rules,
        tables: &tables,
        styles: &styles,
        engines: args.engine.open(&args.device)?.for_tables(),
        progress: &progress,
        rows: Vec::new(),
    };
    for name in NAMES.into_iter().filter(|name| args.wants(name)) {
        match name {
            "caches" => lab.caches()?,
            "tables" => lab.tables()?,
            "styles" => lab.styles()?,
            "changes" => lab.changes()?,
            _ => lab.explosion()?,
        }
    }
    let rows = std::mem::take(&mut lab.rows);
    drop(progress);
    ensure!(!rows.is_empty(), "nothing was measured");
    let run_ms = effort.run_time.as_millis() as usize;
    let report = Report { threads: effort.threads, runs: effort.runs, run_ms, rows };
    let from = Provenance::of_cpu();
    if let Some(path) = &args.record {
        write_file(path, &from.stamp_csv(&report.to_csv()))?;
    }
    match args.json {
        true => provenance::print_json(&from, &report)?,
        false => print(&report.render())?,
    }
    Ok(Outcome::Done)
}
