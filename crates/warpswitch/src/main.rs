//! `warpswitch`, the command: all elements and all commands, put together.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    warpswitch_provenance::set_commit(env!("WARPSWITCH_COMMIT"));
    warpswitch_commands::main(warpswitch_offload::kit())
}
