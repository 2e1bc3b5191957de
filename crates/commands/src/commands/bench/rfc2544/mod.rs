//! `warpswitch bench rfc2544`: throughput, latency, loss and bursts of a device under test.
//!
//! ```text
//! size ─► highest rate ─► search ─► throughput ─► latency at 100 % and 50 % of it
//!                    ├──► loss at 100 %, 90 % … until two rates without loss
//!                    └──► longest burst without loss, several times
//! ```

mod drawing;
mod measure;
mod report;
mod search;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use warpswitch_provenance::Provenance;

use self::measure::Bench;
use self::report::Report;
use super::local_device::{LocalDevice, RX, Router, TX};
use crate::args::parse_positive;
use crate::devices::parse_time;
use crate::exit::Outcome;
use crate::output::{print, write_file};
use crate::traffic::{FrameSize, Interfaces, LinkArgs, Rate};
use crate::{interrupt, provenance};

const LONG_ABOUT: &str = "\
Measure a switch or router as RFC 2544 describes: throughput (the highest rate without loss), \
latency at that rate and at half of it, loss by offered load, and the longest burst without loss \
(RFC 9004).

The device under test lies between two interfaces of this machine (--tx, --rx): warpswitch, a \
bridge or Open vSwitch in a namespace, or a machine behind two network cards. Or --run starts a \
configuration in a network namespace of its own, whose interfaces eth0 and eth1 are linked to this \
command; that requires root. Arguments after the options are those of 'warpswitch run'; write '--' \
before its options.

The highest rate is what the sender reaches without pacing, or --rate-max. Throughput is searched \
by bisection, first with short trials and then with full ones, as in MLRsearch (an IETF draft); \
the result has passed --repeat full trials in sequence. If the sender or the sink cannot keep up \
with a rate, the trial fails, and the report names which of them is the limit. Frames have one \
direction and --flows flows.

Sender, sink and a local device share the processors of this machine. Then figures show changes \
and ratios, not the speed of a device alone.";

const EXAMPLES: &str = "\
Examples:
  warpswitch bench rfc2544 --tx eth0 --rx eth1 --sizes 64,1518 --trial 10s
  warpswitch bench rfc2544 --run conf/live/ip-router.click --trial 2s \\
    --gateway 198.18.0.1 ADDR0=198.18.0.1/24 ADDR1=198.19.0.1/24 -- -j 2";

/// Measure a switch or router as in RFC 2544
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(group = ArgGroup::new("device").args(["tx", "run"]).required(true))]
pub struct BenchRfc2544Args {
    /// Interface that sends
    #[arg(long, value_name = "IF", requires = "rx")]
    tx: Option<String>,

    /// Interface that receives
    #[arg(long, value_name = "IF", requires = "tx")]
    rx: Option<String>,

    /// Run this configuration as the device under test
    #[arg(long, value_name = "CONF")]
    run: Option<PathBuf>,

    /// Arguments of 'warpswitch run' for --run
    #[arg(value_name = "ARGS", requires = "run")]
    arguments: Vec<String>,

    #[command(flatten)]
    link: LinkArgs,

    /// Frame sizes with check sequence, 64 to 1518 or IMIX, separated by commas
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "64,128,256,512,1024,1280,1518,IMIX"
    )]
    sizes: Vec<FrameSize>,

    /// Tests, separated by commas
    #[arg(
        long,
        value_name = "TESTS",
        value_enum,
        value_delimiter = ',',
        default_value = "throughput,latency,loss,back-to-back"
    )]
    tests: Vec<Test>,

    /// Number of flows
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    flows: usize,

    /// Duration of a full trial; RFC 2544 requires 60s
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s")]
    trial: Duration,

    /// Number of full trials that a rate must pass, one after the other, to be the throughput
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    repeat: usize,

    /// Number of trials of latency, whose medians are reported; RFC 2544 requires 20
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "5")]
    latency_trials: usize,

    /// How long to wait for frames after a trial; RFC 2544 requires 2s
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "500ms")]
    wait: Duration,

    /// The highest rate: packets per second, bits per second, or max for what the sender reaches
    #[arg(long, value_name = "RATE", default_value = "max")]
    rate_max: Rate,

    /// Largest part of frames that may be lost; RFC 2544 requires 0
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio, default_value = "0")]
    loss_ratio: f64,

    /// Relative precision of the throughput
    #[arg(long, value_name = "RATIO", value_parser = parse_ratio, default_value = "0.02")]
    precision: f64,

    /// Number of bursts, whose longest lengths are averaged
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "5")]
    bursts: usize,

    /// Draw throughput and loss into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Write all figures with commit, machine and date into this CSV file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A test of RFC 2544.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Test {
    /// Highest rate without loss (26.1)
    Throughput,
    /// Latency at the throughput and at half of it (26.2)
    Latency,
    /// Loss by offered load (26.3)
    Loss,
    /// Longest burst without loss (26.4, RFC 9004)
    BackToBack,
}

impl Test {
    /// Every test.
    pub const ALL: [Self; 4] = [Self::Throughput, Self::Latency, Self::Loss, Self::BackToBack];
}

/// Runs the command.
///
/// # Errors
/// Bad input; interfaces or namespaces that are missing; a device that no frame passes.
pub fn run(args: &BenchRfc2544Args) -> anyhow::Result<Outcome> {
    interrupt::end_in_order();
    let report = match &args.run {
        Some(config) => run_local(args, config)?,
        None => {
            let (tx, rx) = (args.tx.clone(), args.rx.clone());
            let names = [tx.as_deref(), rx.as_deref()].map(Option::unwrap_or_default);
            let device = format!("{} to {}", names[0], names[1]);
            Bench::open(args, &Interfaces { tx, rx }, None)?.run(device)?
        }
    };
    interrupt::end_at_once();
    write_files(args, &report)?;
    match args.json {
        true => provenance::print_json(&Provenance::of_cpu(), &report)?,
        false => print(&report.render())?,
    }
    Ok(Outcome::Done)
}

/// Measures a configuration that runs in a namespace.
fn run_local(args: &BenchRfc2544Args, config: &Path) -> anyhow::Result<Report> {
    let mut local = LocalDevice::start(config, &args.arguments)?;
    let (tester, router): (_, &mut Router) = local.parts();
    let interfaces = Interfaces { tx: Some(TX.to_owned()), rx: Some(RX.to_owned()) };
    // Threads that it starts are inside, too.
    tester
        .inside(|| Bench::open(args, &interfaces, Some(router))?.run(config.display().to_string()))
}

fn write_files(args: &BenchRfc2544Args, report: &Report) -> anyhow::Result<()> {
    let from = Provenance::of_cpu();
    if let Some(path) = &args.svg {
        let caption = format!("{}, {}, {}", from.machine, from.commit, from.date);
        write_file(path, &drawing::svg(report, &caption)?)?;
    }
    if let Some(path) = &args.record {
        write_file(path, &from.stamp_csv(&report.to_csv()))?;
    }
    Ok(())
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if (0.0..=0.5).contains(&ratio) => Ok(ratio),
        _ => Err("expected a number from 0 to 0.5, such as 0.001".to_owned()),
    }
}
