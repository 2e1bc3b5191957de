//! `warpswitch bench`: how fast engines and configurations are here.

mod check;
mod classify;
mod gpu;
mod graph;
mod routes;
mod scan;
mod storm;
mod updates;

use clap::{Args, Subcommand};

use crate::exit::Outcome;

/// Measure the performance of engines and configurations on this machine
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
    Routes(routes::BenchRoutesArgs),
    Scan(scan::BenchScanArgs),
    Storm(storm::BenchStormArgs),
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
            What::Routes(args) => routes::run(args),
            What::Scan(args) => scan::run(args),
            What::Storm(args) => storm::run(args),
        }
    }
}
