//! `warpswitch`, the command: reads its arguments and runs what they name.
//!
//! Each command is one file under `commands`; they share how files are read (`load`, `packets`),
//! run (`pipeline`, `measure`) and written (`output`, `term`, `table`).
#![forbid(unsafe_code)]

mod args;
mod cli;
mod commands;
mod digest;
mod exit;
mod human;
mod load;
mod measure;
mod output;
mod packets;
mod pipeline;
mod table;
mod tally;
mod term;
mod threads;
mod trace_blocks;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    exit::finish(cli::Cli::parse().run())
}
