//! The commands: one file each.

pub mod bench;
pub mod check;
pub mod classify;
pub mod click;
pub mod demo;
pub mod devices;
pub mod elements;
pub mod explain;
pub mod flatten;
pub mod generate;
pub mod graph;
mod handlers;
pub mod ids;
pub mod read;
pub mod rules;
pub mod run;
pub mod switch;
pub mod top;
pub mod trace;
pub mod write;

use warpswitch_rules::format::WriteError;

use crate::exit::bad_input;

/// A writer's error as that of a command: what a format cannot express is the input's fault.
fn write_failed(error: WriteError) -> anyhow::Error {
    match error {
        WriteError::Io(error) => anyhow::Error::new(error).context("cannot write the output"),
        inexpressible => bad_input(inexpressible),
    }
}
