//! `warpswitch bench switch`: a whole switch between memory ports, by delay bound and frame size.
//!
//! ```text
//! rules, frames ─► Bed ─► Setup ─┬─► check: every frame once, compared with a linear search
//!                                └─► measure: FromDevice ─► lookup ─► Queue ─► ToDevice
//! ```

mod bed;
mod figures;
mod measure;
mod paper;
pub mod ports;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use warpswitch_provenance::Provenance;

use self::bed::Bed;
use self::figures::{Lab, Ranges};
use self::measure::Effort;
use self::report::Report;
use crate::args::{parse_count, parse_positive, parse_range};
use crate::devices::{DeviceArgs, DeviceChoice, parse_time};
use crate::exit::Outcome;
use crate::output::{create_folder, print};
use crate::term::{self, Progress};
use crate::{interrupt, provenance, threads};

const LONG_ABOUT: &str = "\
Measure a whole switch: receive, classify by the rules of an access list, and send to one of four \
ports, with a receive queue and send queues for each worker. Ports are rings in memory that fill \
by time, at a rate or as fast as the switch receives, so no core is spent on senders and no root \
is required. Each received frame is copied into a packet, each sent one into a ring.

  table2   Snap, table 2: forwarding without lookups, by paths and threads
  latency  Snap, section 4.4: latency of batches of 512 and 1024 packets
  10       GSwitch, figure 10: throughput and latency of a load, by frame size and delay bound T;
           of three runs the one with the median p99
  11       GSwitch, figure 11: the highest throughput by T, and by frame size; also without I/O:
           packets borrow frames, and are freed instead of sent

Lookups run on the workers ('cores'), and with a device also where that costs less ('auto'), or on \
the device by one of its engines. First all frames pass once; if another frame, port or order than \
that of a linear search leaves, nothing is measured.

Gbit/s are those of the wire: 20 bytes more than a frame with check sequence. Latency is from the \
arrival in the ring to the copy into the ring of the port.";

const EXAMPLES: &str = "\
Examples:
  warpswitch bench switch
  warpswitch bench switch --only 11 --delays 100us --sizes 64
  warpswitch bench switch --device host --smoke --json
  warpswitch bench switch --record switch";

/// Names of experiments.
const NAMES: [&str; 4] = ["table2", "latency", "10", "11"];

/// Measure a switch between memory ports, beside the figures of GSwitch and Snap
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchSwitchArgs {
    /// Experiments, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(NAMES))]
    only: Vec<String>,

    /// Workers [default: all cores]
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_positive)]
    workers: Option<usize>,

    /// Frame sizes with check sequence, separated by commas
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "64,256,1024,1518",
          value_parser = parse_range::<u64>(64, 1518))]
    sizes: Vec<u64>,

    /// Delay bounds, separated by commas
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = parse_time,
          default_value = "100us,500us,1ms,2ms")]
    delays: Vec<Duration>,

    /// Loads of figure 10 in Gbit/s of the wire, separated by commas
    #[arg(long, value_name = "GBPS", value_delimiter = ',', default_value = "10,30,40",
          value_parser = parse_range::<u64>(1, 10_000))]
    rates: Vec<u64>,

    /// Rules of the switch
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1834")]
    rules: usize,

    /// Frames of each path, at most 4 MB
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "16K")]
    frames: usize,

    /// Packets of a wide batch, at most
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "4096")]
    batch: usize,

    /// Device: the first GPU if there is one, or a pool of threads in its place
    #[arg(long, value_name = "DEVICE", default_value = "gpu", value_enum)]
    device: DeviceChoice,

    /// Milliseconds per run; half as long for the warm-up
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "250")]
    run_ms: usize,

    /// Run everything briefly, with few rules and frames: a test of the command
    #[arg(long)]
    smoke: bool,

    /// Folder for the report as JSON and CSV and for the charts as SVG
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl BenchSwitchArgs {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn effort(&self) -> Effort {
        let window = Duration::from_millis(if self.smoke { 10 } else { self.run_ms as u64 });
        Effort { warm: window / 2, window }
    }

    fn ranges(&self) -> Ranges {
        let few = |len: usize| if self.smoke { len.min(2) } else { len };
        let sizes: Vec<usize> = self.sizes.iter().map(|&bytes| bytes as usize).collect();
        Ranges {
            sizes: sizes[..few(sizes.len())].to_vec(),
            delays: self.delays[..few(self.delays.len())].to_vec(),
            rates: self.rates[..few(self.rates.len())].iter().map(|&g| g as f64).collect(),
            batch: self.batch,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Frames that leave by a wrong port; a device that fails; a record that cannot be written.
pub fn run(args: &BenchSwitchArgs) -> anyhow::Result<Outcome> {
    interrupt::end_in_order();
    let device = match args.device.open_as(&DeviceArgs::default()) {
        Ok(device) => Some(device),
        Err(missing) => {
            term::note(format!("no usable GPU ({missing}): only the workers are measured"));
            None
        }
    };
    let from = device.as_deref().map_or_else(Provenance::of_cpu, provenance::of_device);
    let (rules, frames) = if args.smoke { (100, 1000) } else { (args.rules, args.frames) };
    let workers = args.workers.unwrap_or_else(threads::default_threads);
    threads::warn_of_sharing(workers);
    let device_name = device.as_ref().map(|device| device.name().to_owned());
    let progress = Progress::spinner("generating rules and frames");
    let bed = Bed::new(rules, frames, device)?;
    let mut lab = Lab::new(bed, args.ranges(), workers, args.effort(), &progress);
    let mut report = Report { device: device_name, workers, rules, rows: Vec::new() };
    if args.wants("table2") {
        report.rows.extend(lab.table_2()?);
    }
    if args.wants("latency") {
        report.rows.extend(lab.latency()?);
    }
    if args.wants("10") {
        report.rows.extend(lab.figure_10()?);
    }
    if args.wants("11") {
        report.rows.extend(lab.figure_11()?);
    }
    drop(progress);
    interrupt::end_at_once();
    if let Some(folder) = &args.record {
        record(folder, &from, &report)
            .with_context(|| format!("cannot write the record to {}", folder.display()))?;
    }
    match args.json {
        true => provenance::print_json(&from, &report)?,
        false => print(&report.render())?,
    }
    Ok(Outcome::Done)
}

fn record(folder: &Path, from: &Provenance, report: &Report) -> anyhow::Result<()> {
    create_folder(folder)?;
    let mut json = serde_json::to_value(report)?;
    from.stamp_json(&mut json);
    std::fs::write(folder.join("switch.json"), serde_json::to_string_pretty(&json)? + "\n")?;
    std::fs::write(folder.join("switch.csv"), from.stamp_csv(&report.to_csv()))?;
    for (name, chart) in report.charts() {
        std::fs::write(folder.join(name), chart)?;
    }
    Ok(())
}
