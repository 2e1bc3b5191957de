//! `warpswitch`, the command: reads its arguments and runs what they name.
//!
//! Each command is one file under `commands`; they share how files are read (`load`, `packets`),
//! run (`pipeline`, `measure`) and written (`output`, `term`, `table`).
#![forbid(unsafe_code)]

mod args;
mod cli;
mod commands;
mod devices;
mod digest;
mod drive;
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
    // Under the name of Click it takes Click's command line.
    let args: Vec<_> = std::env::args_os().collect();
    let name = args.first().map(std::path::PathBuf::from);
    let is_click = name.as_ref().and_then(|path| path.file_name()).is_some_and(|n| n == "click");
    if is_click {
        return commands::click::main(&args[1..]);
    }
    if args.get(1).is_some_and(|arg| arg == "click") {
        return commands::click::main(&args[2..]);
    }
    exit::finish(cli::Cli::parse().run())
}
