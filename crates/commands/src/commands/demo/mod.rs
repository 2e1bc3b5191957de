//! `warpswitch demo`: classification on generated packets, or routing of live traffic.

mod engines;
mod live;
mod network;
mod summary;
mod traffic;

use std::time::Duration;

use clap::Args;

use crate::args::parse_range;
use crate::exit::Outcome;

/// Default duration of the live demo.
const LIVE_SECONDS: u32 = 10;

const LONG_ABOUT: &str = "\
Demonstrate packet classification in about ten seconds, without input files: generate firewall \
rules and traffic, find the winning rule of every packet with each engine, and show each engine's \
throughput, the actions applied, and the rules with the most hits.

Every run generates the same rules and packets, so the digest is always the same; the rates are \
those of one core of this machine.

With --live, demonstrate a router on live traffic instead. Three network namespaces are created on \
this machine: two hosts that use the network stack of Linux, and between them the router \
conf/live/ip-router.click, connected by virtual Ethernet links. One host pings the other and sends \
it a TCP stream as fast as it can, all through the router. A terminal shows each element of the \
router while it runs, as 'warpswitch top' does: Enter opens an element, '?' lists the keys, 'q' \
ends the demo. The summary lists replies, throughput, and dropped packets with the reasons.

The live demo needs Linux, root and the command 'ip' of iproute2; where the system allows user \
namespaces, 'unshare --user --map-root-user' takes the place of root. It changes nothing outside \
of its namespaces, which have no names: Linux deletes them when the demo ends, however it ends.";

const EXAMPLES: &str = "\
Examples:
  warpswitch demo
  sudo warpswitch demo --live
  sudo warpswitch demo --live --duration 60
  sudo warpswitch demo --live | cat          # lines instead of the live view";

/// Classify generated packets with every engine, or route live traffic
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct DemoArgs {
    /// Route live traffic between two network namespaces; requires root
    #[arg(long)]
    live: bool,

    /// Seconds of live traffic [default: 10]
    #[arg(long, value_name = "SECONDS", requires = "live",
          value_parser = parse_range::<u32>(1, 86_400))]
    duration: Option<u32>,
}

/// Runs the command.
///
/// # Errors
/// Those of the demo.
pub fn run(args: &DemoArgs) -> anyhow::Result<Outcome> {
    match args.live {
        true => live::run(Duration::from_secs(args.duration.unwrap_or(LIVE_SECONDS).into())),
        false => engines::run(),
    }
}
