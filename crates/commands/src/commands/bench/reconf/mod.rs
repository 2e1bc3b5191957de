//! `warpswitch bench reconf`: what changes of rules, routes and configuration cost the traffic.
//!
//! ```text
//! quiet    frames at one rate ─────────────────────────────────────► lost, latency
//! changes  the same, while handlers are written ──────┐
//! swaps    the same, while the configuration is ──────┴─────────────► lost, latency, time of a
//!          replaced by itself                                         write
//! ```

mod report;
mod writes;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use warpswitch_provenance::Provenance;

use self::report::{PhaseReport, Report};
use self::writes::{Writes, connect_to};
use super::local_device::{LocalDevice, RX, Router, TX};
use crate::args::parse_positive;
use crate::devices::parse_time;
use crate::exit::{Outcome, bad_input};
use crate::output::{Hold, Output, print};
use crate::term::Progress;
use crate::traffic::{
    FLOWS_MAX, FrameSet, FrameSize, Interfaces, Limit, LinkArgs, Macs, Rate, Session, Trial,
};
use crate::{interrupt, provenance};

const LONG_ABOUT: &str = "\
Send frames through a configuration at a fixed rate, change its rules or routes, replace it by \
itself while it runs, and report what that cost: frames lost, the time for which traffic was \
blocked (lost frames divided by the rate), latencies, and the time until a change was confirmed.

The configuration runs in a network namespace of its own, whose interfaces eth0 and eth1 are \
linked to this command; that requires root. Arguments after the options are those of 'warpswitch \
run'; write '--' before its options.

--change and --undo write a handler each, in turns. Without them only the configuration is \
replaced. Choose a rate that the configuration forwards without loss: 80 % of the throughput that \
'bench rfc2544' finds is usual.";

const EXAMPLES: &str = "\
Examples:
  warpswitch bench reconf conf/live/ip-router.click --rate 100k \\
    --change 'routes.add 203.0.113.0/24 198.19.0.2 2' \\
    --undo 'routes.remove 203.0.113.0/24' --gateway 198.18.0.1 \\
    ADDR0=198.18.0.1/24 ADDR1=198.19.0.1/24
  warpswitch bench reconf conf/live/forwarder.click --rate 50k --swaps 100";

/// Measure what changes of a running configuration cost the traffic
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchReconfArgs {
    /// Configuration in the Click language
    #[arg(value_name = "CONF")]
    config: PathBuf,

    /// Arguments of 'warpswitch run'
    #[arg(value_name = "ARGS")]
    arguments: Vec<String>,

    #[command(flatten)]
    link: LinkArgs,

    /// Offered load: packets per second, or bits per second on the wire
    #[arg(long, value_name = "RATE")]
    rate: Rate,

    /// Frame size with check sequence, 64 to 1518 or IMIX
    #[arg(long, value_name = "SIZE", default_value = "64")]
    size: FrameSize,

    /// Number of flows
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "100")]
    flows: usize,

    /// Duration of each phase
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s")]
    trial: Duration,

    /// How long to wait for frames after a phase
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "500ms")]
    wait: Duration,

    /// Handler to write, and its value
    #[arg(long, value_name = "HANDLER VALUE", requires = "undo")]
    change: Option<String>,

    /// Handler that takes the change back, and its value
    #[arg(long, value_name = "HANDLER VALUE", requires = "change")]
    undo: Option<String>,

    /// Number of writes of the changes, spread over a phase
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1000")]
    changes: usize,

    /// Number of replacements of the configuration, spread over a phase
    #[arg(long, value_name = "N", default_value = "20")]
    swaps: usize,

    /// Exit with code 1 if a frame is lost, duplicated or reordered
    #[arg(long)]
    check: bool,

    /// Write all figures with commit, machine and date into this CSV file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Bad input; missing privileges; a configuration that does not start or refuses a change.
pub fn run(args: &BenchReconfArgs) -> anyhow::Result<Outcome> {
    if args.rate == Rate::Max {
        return Err(bad_input("--rate max leaves no room for changes; give a rate"));
    }
    if args.flows > FLOWS_MAX {
        return Err(bad_input(format!("--flows is at most {FLOWS_MAX}")));
    }
    interrupt::end_in_order();
    let arguments = [&["--allow-reconfigure".to_owned()], &args.arguments[..]].concat();
    let mut local = LocalDevice::start(&args.config, &arguments)?;
    let (tester, router): (_, &mut Router) = local.parts();
    // Threads that it starts are inside, too.
    let report = tester.inside(|| Bench::open(args, router)?.run())?;
    interrupt::end_at_once();
    if let Some(path) = &args.record {
        write_record(path, &report)?;
    }
    match args.json {
        true => provenance::print_json(&Provenance::of_cpu(), &report)?,
        false => print(&report.render())?,
    }
    Ok(if args.check && !report.is_clean() { Outcome::Failed } else { Outcome::Done })
}

fn write_record(path: &Path, report: &Report) -> anyhow::Result<()> {
    let text = Provenance::of_cpu().stamp_csv(&report.to_csv());
    let mut output = Output::open(path, Hold::Yes)?;
    let written = output.write_all(text.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display()))?;
    output.commit()
}

/// An open measurement.
struct Bench<'a> {
    args: &'a BenchReconfArgs,
    router: &'a mut Router,
    session: Session,
    macs: Macs,
    progress: Progress,
}

impl<'a> Bench<'a> {
    fn open(args: &'a BenchReconfArgs, router: &'a mut Router) -> anyhow::Result<Self> {
        let interfaces = Interfaces { tx: Some(TX.to_owned()), rx: Some(RX.to_owned()) };
        let sources = args.link.flows(args.size, args.flows).addresses();
        let mut session = args.link.open(&interfaces, sources, false)?;
        let progress = Progress::spinner("learning addresses");
        let macs = args.link.macs(&mut session)?;
        Ok(Self { args, router, session, macs, progress })
    }

    fn run(mut self) -> anyhow::Result<Report> {
        let frames = self.frames();
        if !self.args.link.learn(&mut self.session, &frames) {
            bail!("no frame passes the configuration");
        }
        let mut client = connect_to(self.router.control())?;
        let swap = writes::replacement(&mut client)?;
        let mut phases = vec![self.phase("quiet", Writes::default())?];
        if let (Some(change), Some(undo)) = (&self.args.change, &self.args.undo) {
            let texts = vec![writes::parse(change)?, writes::parse(undo)?];
            phases.push(self.phase("changes", Writes { texts, count: self.args.changes })?);
        }
        if self.args.swaps > 0 {
            phases.push(self.phase("swaps", Writes { texts: vec![swap], count: self.args.swaps })?);
        }
        let config = self.args.config.display().to_string();
        Ok(Report { config, size: self.args.size.to_string(), phases })
    }

    fn frames(&self) -> FrameSet {
        let mut frames = FrameSet::generate(&self.args.link.flows(self.args.size, self.args.flows));
        self.macs.apply(&mut frames);
        frames
    }

    /// Sends frames while `writes` are done.
    fn phase(&mut self, name: &'static str, writes: Writes) -> anyhow::Result<PhaseReport> {
        self.progress.say(format!("{name}: {} writes", writes.count));
        let mut client = connect_to(self.router.control())?;
        let duration_ns = Some(self.args.trial.as_nanos() as u64);
        let limit = Limit { count: None, duration_ns };
        let trial = Trial { rate: self.args.rate, burst: 1, limit, wait: self.args.wait };
        let (frames, time) = (self.frames(), self.args.trial);
        let session = &mut self.session;
        let (result, times) = std::thread::scope(|scope| {
            let writer = scope.spawn(move || writes.run(&mut client, time, interrupt::is_ended));
            let result = session.run(&trial, frames, &mut |_, _| {});
            (result, writer.join().expect("writes do not panic"))
        });
        self.router.check()?;
        if interrupt::is_ended() {
            bail!("interrupted");
        }
        Ok(PhaseReport::new(name, &result, &mut times?))
    }
}
