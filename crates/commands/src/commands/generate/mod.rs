//! `warpswitch generate`: rule sets, traces, captures, routes and test traffic.

mod pcap;
mod routes;
mod rules;
mod synthetic;
mod trace;
mod traffic;

use clap::{Args, Subcommand};

use crate::exit::Outcome;
pub use routes::parse_hops;

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style ipc --count 10K --out ipc.rules
  warpswitch generate trace --rules ipc.rules --count 1M --out ipc.trace
  warpswitch generate pcap --rules ipc.rules --count 100K --out ipc.pcap
  warpswitch generate routes --family ipv6 --count 10K --out ipv6.routes";

/// Generate rule sets, traces, captures and routes, the same for equal seeds; send test traffic
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct GenerateCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Rules(rules::GenerateRulesArgs),
    Trace(trace::GenerateTraceArgs),
    Pcap(pcap::GeneratePcapArgs),
    Routes(routes::GenerateRoutesArgs),
    Traffic(traffic::GenerateTrafficArgs),
}

impl GenerateCommand {
    /// Runs the selected subcommand.
    ///
    /// # Errors
    /// The error of the subcommand.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        match &self.what {
            What::Rules(args) => rules::run(args),
            What::Trace(args) => trace::run(args),
            What::Pcap(args) => pcap::run(args),
            What::Routes(args) => routes::run(args),
            What::Traffic(args) => traffic::run(args),
        }
    }
}
