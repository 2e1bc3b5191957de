//! `warpswitch top`: what a running router does, live.
//!
//! ```text
//! socket ─► client ─► rates, detail ─► app ◄─ keys      app ─► draw ─► terminal
//!                          └─► plain ─► standard output
//! ```
//! Everything that comes from the socket is checked, bounded and cleaned in `client`, `rates` and
//! `detail`; state (`app`) has neither terminal nor connection, and drawing (`draw`) no input.

mod app;
mod columns;
mod detail;
mod draw;
mod live;
mod plain;
mod rates;

use std::io::{IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
use clap::Args;
use warpswitch_runtime::ControlAddress;
use warpswitch_runtime::client::{self, ControlClient, Stream, reason};

use crate::args::parse_positive;
use crate::exit::Outcome;
use app::App;
use draw::Theme;
use plain::Form;
use rates::{Reading, STATS_BYTES_MAX, Sort};

const LONG_ABOUT: &str = "\
Show live statistics of each element of a running configuration: packets per second, time per \
packet, drops and their reasons. On a terminal Enter opens an element, with its ports, \
configuration and handlers, and then follows connections to its neighbours; '?' lists all keys.

The router needs a control socket: 'warpswitch run --control', 'warpswitch click -p' or '-u', or \
the element ControlSocket. Bytes and times are measured with 'run --control' and 'run --stats'.

If the standard output is not a terminal, or with --once, a table is printed after one interval.";

const EXAMPLES: &str = "\
Columns:
  packets/s  packets in; for sources and elements that are pulled, packets out
  batch      packets per batch
  ns/packet  time in the element itself, per packet
  % core     time in the element itself; 100 is one core
  held       packets that the element holds
  drops/s    packets that the element dropped, for the listed reasons

Examples:
  echo 'RatedSource(RATE 10000) -> c :: Counter -> Discard' > rated.click
  warpswitch run rated.click --control rated.sock &
  warpswitch top rated.sock
  warpswitch top rated.sock --once --sort cost
  warpswitch top rated.sock --json --interval 0.1 --count 2";

/// Show live statistics of a running configuration
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct TopArgs {
    /// Control socket of the router: a TCP port or a path
    #[arg(value_name = "[HOST:]PORT|PATH", value_parser = ControlAddress::parse)]
    place: ControlAddress,

    /// Column to sort by
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t)]
    sort: Sort,

    /// Seconds between refreshes
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval, default_value = "1")]
    interval: f64,

    /// Number of refreshes
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    count: Option<usize>,

    /// Print one table, after one interval
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// Print one line of JSON per refresh
    #[arg(long)]
    json: bool,
}

/// Seconds of an interval.
fn parse_interval(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.parse().ok();
    let seconds = seconds.filter(|seconds| (0.01..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds, from 0.01 to 86400".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Nobody listens; the router has no statistics; the connection is lost.
pub fn run(args: &TopArgs) -> anyhow::Result<Outcome> {
    let client = client::connect(&args.place)?;
    let place = args.place.to_string();
    let is_live = is_on_terminal() && !args.once && !args.json;
    let count = match args.count.map(|count| count as u64) {
        _ if args.once => Some(1),
        None if !is_live && !args.json => Some(1),
        count => count,
    };
    if !is_live {
        let form = if args.json { Form::Json } else { Form::Table(args.sort) };
        let interval = Duration::from_secs_f64(args.interval);
        return plain::run(client, &place, interval, count, form);
    }
    live::run(client, App::new(place, args.interval, args.sort), &theme(), count)
}

/// Whether there is a terminal for the live view.
pub fn is_on_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Shows the live view of a router under the name `place`, for `count` refreshes, or until the user
/// or a signal ends it.
///
/// # Errors
/// The connection is lost; the terminal fails.
pub fn show(
    client: ControlClient<Box<dyn Stream>>,
    place: String,
    interval: Duration,
    count: Option<u64>,
) -> anyhow::Result<()> {
    let app = App::new(place, interval.as_secs_f64(), Sort::default());
    live::run(client, app, &theme(), count).map(|_| ())
}

/// Colours of the live view.
fn theme() -> Theme {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    Theme::new(choice != anstream::ColorChoice::Never)
}

/// Reads what the router has counted.
///
/// # Errors
/// The connection is lost; the router counts nothing, or reports it in another form than it should.
fn read_stats<S: Read + Write>(client: &mut ControlClient<S>) -> anyhow::Result<Reading> {
    let answer = client.read("stats", STATS_BYTES_MAX).map_err(|error| anyhow!(reason(&error)))?;
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal) if refusal.is_missing() => {
            bail!("the router has no handler 'stats': it is not warpswitch, or an older version");
        }
        Err(refusal) => bail!("the handler 'stats' failed: {refusal}"),
    };
    if answer.is_truncated {
        bail!("the router has too many elements to show");
    }
    let reading = Reading::parse(&answer.text, Instant::now());
    reading.map_err(|why| anyhow!("invalid response of the handler 'stats': {why}"))
}
