//! What `read` and `write` have in common: a missing handler, and what was perhaps meant.

use std::io;

use anyhow::anyhow;
use warpswitch_graph::language::nearest;
use warpswitch_runtime::client::{ControlClient, HandlerFailure, Stream, reason};

use crate::exit::bad_input;

/// Bytes of a list of names that are looked at.
const NAMES_BYTES_MAX: usize = 1 << 20;

/// Which handlers are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Those that are read.
    Read,
    /// Those that are written.
    Write,
}

/// The result of a request, as a command's result.
pub fn answered<T>(
    client: &mut ControlClient<Box<dyn Stream>>,
    handler: &str,
    access: Access,
    answer: io::Result<Result<T, HandlerFailure>>,
) -> anyhow::Result<T> {
    let refusal = match answer.map_err(|error| anyhow!("{}", reason(&error)))? {
        Ok(value) => return Ok(value),
        Err(refusal) => refusal,
    };
    if !refusal.is_missing() {
        return Err(anyhow!("'{handler}': {refusal}"));
    }
    let near = suggestion(client, handler, access).unwrap_or_default();
    Err(bad_input(format!("'{handler}': {refusal}{near}")))
}

/// What was perhaps meant by a missing handler.
fn suggestion(
    client: &mut ControlClient<Box<dyn Stream>>,
    handler: &str,
    access: Access,
) -> Option<String> {
    let (element, name) = handler.rsplit_once('.').unwrap_or(("", handler));
    let mut ask = |handler: &str| Some(client.read(handler, NAMES_BYTES_MAX).ok()?.ok()?.text);
    let whole = |name: &str| match element {
        "" => name.to_owned(),
        _ => format!("{element}.{name}"),
    };
    if let Some(list) = ask(&whole("handlers")) {
        let mark = if access == Access::Read { 'r' } else { 'w' };
        let known = list.lines().filter_map(|line| line.split_once('\t'));
        let known = known.filter(|(_, marks)| marks.contains(mark)).map(|(name, _)| name);
        let near = nearest(name, known)?;
        return Some(format!(": did you mean '{}'?", whole(near)));
    }
    let list = ask("list")?;
    // The first line counts them.
    let near = nearest(element, list.lines().skip(1))?;
    Some(format!(": did you mean '{near}.{name}'?"))
}
