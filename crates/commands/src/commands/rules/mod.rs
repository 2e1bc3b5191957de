//! `warpswitch rules`: look at rule sets and turn them into others.

mod check;
mod convert;
mod expand;
mod heatmap;
mod stats;

use clap::{Args, Subcommand};

use crate::exit::Outcome;

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style fw --count 10K --out fw.rules
  warpswitch rules check fw.rules
  warpswitch rules stats fw.rules
  warpswitch rules convert --to canonical fw.rules --out fw.txt
  warpswitch rules expand fw.rules --out /dev/null";

/// Check, describe, convert and expand rule sets
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct RulesCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Check(check::CheckArgs),
    Stats(stats::StatsArgs),
    Convert(convert::ConvertArgs),
    Expand(expand::ExpandArgs),
}

impl RulesCommand {
    /// Runs the selected subcommand.
    ///
    /// # Errors
    /// The error of the subcommand.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        match &self.what {
            What::Check(args) => check::run(args),
            What::Stats(args) => stats::run(args),
            What::Convert(args) => convert::run(args),
            What::Expand(args) => expand::run(args),
        }
    }
}
