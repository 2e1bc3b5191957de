//! `warpswitch`, the command: all elements and all commands, put together.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use warpswitch_graph::{ElementDoc, Registry};

fn main() -> ExitCode {
    warpswitch_provenance::set_commit(env!("WARPSWITCH_COMMIT"));
    warpswitch_commands::main(warpswitch_offload::kit(registry, doc))
}

/// All classes.
fn registry() -> Registry {
    warpswitch_offload::register(warpswitch_elements::registry())
}

/// The documentation of the class called `class`.
fn doc(class: &str) -> Option<ElementDoc> {
    warpswitch_offload::doc(class).or_else(|| warpswitch_elements::doc(class))
}
