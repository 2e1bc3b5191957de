//! `warpswitch write`: writes to a handler of a running router.

use std::io::Read;

use anyhow::Context;
use clap::Args;
use warpswitch_runtime::{ControlAddress, client};

use super::handlers::{Access, answered};
use crate::exit::{Outcome, bad_input};
use crate::term;

const LONG_ABOUT: &str = "\
Write to a handler of a running configuration: add a route, reset a counter, stop the router. \
'warpswitch elements CLASS' lists the handlers of a class, and 'warpswitch read PLACE \
ELEMENT.handlers' those of an element, with 'w' after those that can be written.

The router needs a control socket: 'warpswitch run --control', 'warpswitch click -p' or '-u', or \
the element ControlSocket.";

const EXAMPLES: &str = "\
Examples:
  echo 'Idle -> rt :: StaticIPLookup(0.0.0.0/0 0) -> Discard' > changed.click
  warpswitch run changed.click --control changed.sock &
  warpswitch write changed.sock rt.add 192.0.2.0/24 0
  printf 'remove 192.0.2.0/24\\nadd 198.51.100.0/24 0\\n' | warpswitch write changed.sock rt.ctrl -
  warpswitch read changed.sock rt.table
  warpswitch write changed.sock stop";

/// The most bytes that are read from the standard input.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Write to a handler of a running configuration
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct WriteArgs {
    /// Control socket of the router: a TCP port or a path
    #[arg(value_name = "[HOST:]PORT|PATH", value_parser = ControlAddress::parse)]
    place: ControlAddress,

    /// Handler: 'ELEMENT.NAME', or the NAME of a global handler
    #[arg(value_name = "HANDLER")]
    handler: String,

    /// Value to write; '-' reads the standard input
    #[arg(value_name = "TEXT", trailing_var_arg = true, allow_hyphen_values = true)]
    text: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// Nobody listens; there is no such handler; it refuses.
pub fn run(args: &WriteArgs) -> anyhow::Result<Outcome> {
    if args.handler.contains(char::is_whitespace) {
        return Err(bad_input(format!(
            "invalid handler name '{}': it contains a space",
            args.handler
        )));
    }
    let text = match &args.text[..] {
        [one] if one == "-" => from_input()?,
        words => words.join(" "),
    };
    let mut client = client::connect(&args.place)?;
    let answer = client.write(&args.handler, &text);
    let said = answered(&mut client, &args.handler, Access::Write, answer)?;
    if !said.is_empty() {
        term::note(said);
    }
    Ok(Outcome::Done)
}

fn from_input() -> anyhow::Result<String> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(TEXT_BYTES_MAX + 1);
    input.read_to_string(&mut text).context("cannot read the standard input")?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        return Err(bad_input("standard input exceeds 64 MiB"));
    }
    Ok(text)
}
