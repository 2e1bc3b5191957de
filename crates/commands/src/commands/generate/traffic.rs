//! `warpswitch generate traffic`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use serde::Serialize;

use crate::args::parse_positive;
use crate::devices::parse_time;
use crate::exit::Outcome;
use crate::human::{count, rounded, significant};
use crate::output::{print, print_json};
use crate::table::{Align, Table, title};
use crate::term::{BAD, GOOD, Progress, paint};
use crate::traffic::{
    FLOWS_MAX, FrameSet, FrameSize, Interfaces, Latency, Limit, LinkArgs, LoadArgs, Rate, Session,
    Trial, TrialResult, load,
};
use crate::{human, interrupt};

/// Flows with losses that the table names.
const BAD_FLOWS_SHOWN: usize = 8;

const LONG_ABOUT: &str = "\
Send test traffic through a device under test, a switch or router between two interfaces of this \
machine, and check the frames that arrive. The interfaces may be in network namespaces.

The sender keeps an absolute schedule: frame N is due N/RATE seconds after the start, and a late \
sender catches up at twice its rate. A rate in bits counts all bytes of the wire: frame, check \
sequence, and 20 bytes of preamble and gap. Sizes are those of RFC 2544, with the check sequence \
(64 to 1518). IMIX: of every 12 frames, 7 have 64 bytes, 4 have 594, and 1 has 1518.

Frames are UDP packets from --src to --dst. Flows differ by source port, beyond 16,384 flows by \
source address. --rules, --trace and --from send other packets. Each frame carries 18 bytes in its \
payload: run, flow, sequence number, time. The sink counts frames lost, duplicated and reordered \
(RFC 4737) in each flow, and latencies.

Both sides answer ARP requests for their addresses, so that a router between them can be tested; \
--gateway is its address. Uncounted frames are sent first, so that switches learn the addresses.

--tx alone sends; --rx alone receives frames of another process on this machine until --duration, \
--count or an interrupt, for example in another namespace. It then counts as lost what is missing \
between the first and the last frame of each flow. Give --flows as for the sender.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate traffic --tx eth0 --rx eth1 --rate 100k --duration 5s
  warpswitch generate traffic --tx eth0 --rx eth1 --src 10.0.0.2 \\
    --dst 10.0.1.2 --gateway 10.0.0.1 --flows 1000 --rate 1Gbit --size IMIX
  warpswitch generate traffic --tx eth0 --rx eth1 --from a.pcap --count 1M
  warpswitch generate traffic --rx eth1 --duration 20s";

/// Send test traffic and check what arrives
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(group = ArgGroup::new("interfaces").args(["tx", "rx"]).multiple(true).required(true))]
pub struct GenerateTrafficArgs {
    /// Interface that sends
    #[arg(long, value_name = "IF")]
    tx: Option<String>,

    /// Interface that receives
    #[arg(long, value_name = "IF")]
    rx: Option<String>,

    #[command(flatten)]
    link: LinkArgs,

    /// Packets per second (100k), bits per second on the wire (1Gbit), or max
    #[arg(long, value_name = "RATE", default_value = "1k")]
    rate: Rate,

    /// Frames of a burst, sent back to back; the mean rate stays the same
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    burst: usize,

    /// Bytes of a frame with check sequence, 64 to 1518, or IMIX
    #[arg(long, value_name = "SIZE", default_value = "64")]
    size: FrameSize,

    /// Number of flows (suffix K or M)
    #[arg(long, value_name = "N", value_parser = parse_flows, default_value = "1")]
    flows: usize,

    #[command(flatten)]
    load: LoadArgs,

    /// Time to send, such as 500ms or 10s [default: 10s, or until an interrupt for --rx alone]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,

    /// Number of frames to send (suffix K, M or G)
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    count: Option<usize>,

    /// How long to wait for frames after the last one was sent
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "2s")]
    wait: Duration,

    /// Exit with 1 if frames were lost, duplicated or reordered, or none arrived
    #[arg(long, requires = "rx")]
    check: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The report in JSON.
#[derive(Serialize)]
struct Report {
    /// Size of the frames, or the file that they come from.
    frames: String,
    rate: String,
    flows: u32,
    sent: u64,
    sent_without_probe: u64,
    refused: u64,
    sent_pps: f64,
    sent_wire_bps: f64,
    received: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
    foreign: u64,
    sink_drops: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Latency>,
    bad_flows: Vec<FlowReport>,
}

#[derive(Serialize)]
struct FlowReport {
    flow: u32,
    received: u64,
    lost: u64,
    duplicates: u64,
    reordered: u64,
}

/// Runs the command.
///
/// # Errors
/// Bad input; an interface that cannot be opened.
pub fn run(args: &GenerateTrafficArgs) -> anyhow::Result<Outcome> {
    let interfaces = Interfaces { tx: args.tx.clone(), rx: args.rx.clone() };
    let loaded = load(&args.load, args.size)?;
    let spec = args.link.flows(args.size, args.flows);
    interrupt::end_in_order();
    let mut session = args.link.open(&interfaces, spec.addresses(), loaded.is_some())?;
    let (flows, result) = match args.tx {
        Some(_) => {
            let frames = prepared(args, &mut session, loaded)?;
            (frames.flows(), send(args, &mut session, frames))
        }
        None => (args.flows as u32, receive(args, &mut session)),
    };
    interrupt::end_at_once();
    let report = Report::new(args, flows, &result);
    match args.json {
        true => print_json(&report)?,
        false => print(&report.render(args))?,
    }
    let is_good = result.is_clean() && result.flows.received > 0;
    Ok(if args.check && !is_good { Outcome::Failed } else { Outcome::Done })
}

/// The frames, with their Ethernet addresses, after devices have learned them.
fn prepared(
    args: &GenerateTrafficArgs,
    session: &mut Session,
    loaded: Option<FrameSet>,
) -> anyhow::Result<FrameSet> {
    let _progress = Progress::spinner("learning addresses");
    let frames = match loaded {
        Some(mut frames) => {
            args.link.macs_of_loaded(session)?.apply(&mut frames);
            frames
        }
        None => {
            let mut frames = FrameSet::generate(&args.link.flows(args.size, args.flows));
            args.link.macs(session)?.apply(&mut frames);
            frames
        }
    };
    args.link.learn(session, &frames);
    Ok(frames)
}

fn send(args: &GenerateTrafficArgs, session: &mut Session, frames: FrameSet) -> TrialResult {
    let duration = match (args.duration, args.count) {
        (None, None) => Some(Duration::from_secs(10)),
        (duration, _) => duration,
    };
    let limit = limit(args, duration);
    let trial = Trial { rate: args.rate, burst: args.burst as u64, limit, wait: args.wait };
    let progress = Progress::counter("sending");
    session.run(&trial, frames, &mut |sent, received| {
        progress.at(sent);
        progress.say(format!("sending, {} received,", count(received)));
    })
}

fn receive(args: &GenerateTrafficArgs, session: &mut Session) -> TrialResult {
    let progress = Progress::counter("receiving");
    let limit = limit(args, args.duration);
    session.receive(args.flows as u32, limit, &mut |_, received| progress.at(received))
}

fn limit(args: &GenerateTrafficArgs, duration: Option<Duration>) -> Limit {
    Limit {
        count: args.count.map(|count| count as u64),
        duration_ns: duration.map(|duration| duration.as_nanos() as u64),
    }
}

impl Report {
    fn new(args: &GenerateTrafficArgs, flows: u32, result: &TrialResult) -> Self {
        let bad_flows = result.bad_flows.iter().map(|bad| FlowReport {
            flow: bad.flow,
            received: bad.counts.received,
            lost: bad.lost,
            duplicates: bad.counts.duplicates,
            reordered: bad.counts.reordered,
        });
        Self {
            frames: args.load.name().unwrap_or_else(|| args.size.frames()),
            rate: args.rate.to_string(),
            flows,
            sent: result.sent.frames,
            sent_without_probe: result.sent.without_probe,
            refused: result.sent.refused,
            sent_pps: rounded(result.sent_pps(), 1),
            sent_wire_bps: rounded(result.sent_bps(), 0),
            received: result.flows.received,
            lost: result.lost,
            duplicates: result.flows.duplicates,
            reordered: result.flows.reordered,
            foreign: result.sink.foreign,
            sink_drops: result.sink_drops,
            latency: result.latency,
            bad_flows: bad_flows.collect(),
        }
    }

    fn render(&self, args: &GenerateTrafficArgs) -> String {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Right), ("", Align::Left)]);
        let mut row = |name: &str, number: u64, aside: String| {
            table.row([name.into(), count(number), aside]);
        };
        if args.tx.is_some() {
            let bits = human::bit_rate(self.sent_wire_bps);
            let rate = format!("{}, {bits} on the wire", human::rate(self.sent_pps));
            row("sent", self.sent + self.sent_without_probe, rate);
        }
        if self.sent_without_probe > 0 {
            let aside = "too short for a probe";
            row("not checked", self.sent_without_probe, aside.into());
        }
        if self.refused > 0 {
            let aside = "by the interface: link down, or frames longer than its MTU";
            row("refused", self.refused, aside.into());
        }
        if args.rx.is_some() {
            row("received", self.received, String::new());
            let sent = if args.tx.is_some() { self.sent } else { self.received + self.lost };
            row("lost", self.lost, human::percent(self.lost, sent));
            row("duplicates", self.duplicates, String::new());
            row("reordered", self.reordered, String::new());
        }
        if self.foreign > 0 {
            row("other frames", self.foreign, String::new());
        }
        if self.sink_drops > 0 {
            let aside = "by the kernel, as this process was too slow; they count as lost";
            row("dropped at the sink", self.sink_drops, aside.into());
        }
        let flows = human::counted(self.flows as usize, "flow");
        let aside = match args.tx {
            Some(_) => format!("{}, {}, {flows}", self.frames, self.rate),
            None => flows,
        };
        let mut text = format!("{}{}", title("Traffic", &aside), table.render());
        if let Some(latency) = &self.latency {
            text += &format!("\n{}{}", title("Latency", "in us"), latency_table(latency));
        }
        text + &self.render_flows() + &self.verdict(args)
    }

    fn render_flows(&self) -> String {
        if self.bad_flows.is_empty() || self.flows == 1 {
            return String::new();
        }
        let right = Align::Right;
        let mut table = Table::new(&[
            ("flow", right),
            ("received", right),
            ("lost", right),
            ("duplicates", right),
            ("reordered", right),
        ]);
        for bad in self.bad_flows.iter().take(BAD_FLOWS_SHOWN) {
            table.row([
                bad.flow.to_string(),
                count(bad.received),
                count(bad.lost),
                count(bad.duplicates),
                count(bad.reordered),
            ]);
        }
        if let Some(more) = self.bad_flows.len().checked_sub(BAD_FLOWS_SHOWN).filter(|&n| n > 0) {
            table.row([format!("and {} more", count(more as u64))]);
        }
        format!("\n{}{}", title("Flows with faults", ""), table.render())
    }

    fn verdict(&self, args: &GenerateTrafficArgs) -> String {
        let is_clean = self.lost + self.duplicates + self.reordered == 0 && self.received > 0;
        match (args.check, is_clean) {
            (false, _) => String::new(),
            (true, true) => {
                format!("\n{}\n", paint(GOOD, "all frames arrived once and in order"))
            }
            (true, false) => format!("\n{}\n", paint(BAD, "the check failed")),
        }
    }
}

fn latency_table(latency: &Latency) -> String {
    let headings = ["min", "mean", "p50", "p99", "max"].map(|name| (name, Align::Right));
    let mut table = Table::new(&headings);
    let Latency { min_us, mean_us, p50_us, p99_us, max_us } = *latency;
    table.row([min_us, mean_us, p50_us, p99_us, max_us].map(significant));
    table.render()
}

fn parse_flows(text: &str) -> Result<usize, String> {
    match parse_positive(text)? {
        flows if flows <= FLOWS_MAX => Ok(flows),
        _ => Err(format!("expected at most {} flows", count(FLOWS_MAX as u64))),
    }
}
