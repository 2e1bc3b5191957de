//! The commands of `warpswitch`: reads the arguments and executes the command that they name.
//!
//! Each command is one file under `commands`; they share how files are read (`load`, `packets`),
//! run (`pipeline`, `measure`) and written (`output`, `term`, `table`).
#![forbid(unsafe_code)]

mod args;
mod auto;
mod cache;
mod cli;
mod commands;
mod devices;
mod digest;
mod drive;
mod exit;
mod flow_files;
mod human;
mod interrupt;
mod kit;
mod live;
mod load;
mod markdown;
mod measure;
mod netns;
mod output;
mod packets;
mod payloads;
mod pipeline;
mod provenance;
mod routes;
mod table;
mod tally;
mod term;
mod threads;
mod trace_blocks;
mod traffic;

use std::process::ExitCode;

use clap::Parser;
use warpswitch_kit::Kit;

/// Runs the command that the arguments of the process name, with the elements of `kit`.
pub fn main(kit: Kit) -> ExitCode {
    kit::set(kit);
    // Under the names of Click's programs it takes their command lines.
    let args: Vec<_> = std::env::args_os().collect();
    let name = args.first().map(std::path::PathBuf::from);
    let name = name.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    match name {
        Some("click") => return commands::click::main(&args[1..]),
        Some("click-flatten") => return commands::click::flatten::main(&args[1..]),
        _ => {}
    }
    if args.get(1).is_some_and(|arg| arg == "click") {
        return commands::click::main(&args[2..]);
    }
    exit::finish(cli::Cli::parse().run())
}
