//! `warpswitch bench`: the speed of engines, configurations and devices.

mod check;
mod classify;
mod gpu;
mod graph;
mod local_device;
mod openflow;
mod reconf;
mod rfc2544;
mod routes;
mod scan;
mod storm;
mod svg;
mod switch;
mod updates;

use clap::{Args, Subcommand};

use crate::exit::Outcome;

/// Measure the performance of engines, configurations and network devices
#[derive(Args, Debug)]
pub struct BenchCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Classify(classify::BenchClassifyArgs),
    Gpu(gpu::BenchGpuArgs),
    Graph(graph::BenchGraphArgs),
    Openflow(openflow::BenchOpenflowArgs),
    Reconf(reconf::BenchReconfArgs),
    Rfc2544(rfc2544::BenchRfc2544Args),
    Routes(routes::BenchRoutesArgs),
    Scan(scan::BenchScanArgs),
    Storm(storm::BenchStormArgs),
    Switch(switch::BenchSwitchArgs),
}

impl BenchCommand {
    /// Runs the selected subcommand.
    ///
    /// # Errors
    /// The error of the subcommand.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        match &self.what {
            What::Classify(args) => classify::run(args),
            What::Gpu(args) => gpu::run(args),
            What::Graph(args) => graph::run(args),
            What::Openflow(args) => openflow::run(args),
            What::Reconf(args) => reconf::run(args),
            What::Rfc2544(args) => rfc2544::run(args),
            What::Routes(args) => routes::run(args),
            What::Scan(args) => scan::run(args),
            What::Storm(args) => storm::run(args),
            What::Switch(args) => switch::run(args),
        }
    }
}
