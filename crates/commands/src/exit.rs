//! How a run ends: 0 done, 1 failed, 2 usage or bad input.
//!
//! Every command returns `anyhow::Result<Outcome>`. An error is *failed* unless it holds a
//! [`BadInput`] or diagnostics of a text, or reports a missing interface: what the user gave is at
//! fault. A reader that went away (a closed pipe) ends the run quietly: it has seen what it wanted.

use std::fmt;
use std::io;
use std::process::ExitCode;

use warpswitch_graph::language;
use warpswitch_io::{IoError, IoErrorKind};
use warpswitch_rules::diagnostic::Diagnostics;

use crate::term;

/// How a command that could do its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Done,
    /// The work was done and its result is a failure, already reported.
    Failed,
}

/// What the user gave is at fault: a file, a value, a combination of options.
#[derive(Debug)]
pub struct BadInput(String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// An error that blames the input.
pub fn bad_input(message: impl fmt::Display) -> anyhow::Error {
    anyhow::Error::new(BadInput(message.to_string()))
}

/// Reports the end of a command and turns it into the exit code of the process.
pub fn finish(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            term::error(&error);
            ExitCode::from(if is_bad_input(&error) { 2 } else { 1 })
        }
    }
}

fn is_bad_input(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<BadInput>()
            || cause.is::<Diagnostics>()
            || cause.is::<language::Diagnostics>()
            || cause.downcast_ref().is_some_and(warpswitch_runtime::Error::is_input)
            || cause.downcast_ref().is_some_and(is_missing_interface)
    })
}

fn is_missing_interface(error: &IoError) -> bool {
    error.kind() == IoErrorKind::NoDevice
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.into_iter().any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use warpswitch_io::PortTable;
    use warpswitch_packet::PortSpec;
    use warpswitch_runtime::ControlAddress;

    use super::*;

    #[test]
    fn errors_are_told_apart_through_their_context() {
        let wrapped = Err::<(), _>(bad_input("no such engine")).context("while building");
        assert!(is_bad_input(&wrapped.unwrap_err()));
        let unknown = ControlAddress::resolve(Some("no host"), 1).expect_err("a space in its name");
        assert!(is_bad_input(&anyhow::Error::new(unknown).context("connecting")));
        let missing = PortTable::default()
            .open_rx(&PortSpec { device: "none0".to_owned(), ..PortSpec::default() });
        let missing = anyhow::Error::new(missing.err().expect("there is no such interface"));
        assert!(is_bad_input(&missing.context("cannot open port")));
        let failed = anyhow::anyhow!("disk full").context("writing out.txt");
        assert!(!is_bad_input(&failed));
        let pipe = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("stdout");
        assert!(is_broken_pipe(&pipe) && !is_bad_input(&pipe));
    }
}
