//! `warpswitch read`: the text of a handler of a running router.

use std::io::Write;

use clap::Args;
use warpswitch_runtime::ControlAddress;
use warpswitch_runtime::client::{self, DATA_BYTES_MAX};

use super::handlers::{Access, answered};
use crate::exit::{Outcome, bad_input};

const LONG_ABOUT: &str = "\
Read a handler of a running configuration: a count, a table, a lookup. 'warpswitch elements CLASS' \
lists the handlers of a class, 'read PLACE ELEMENT.handlers' those of an element, and 'read PLACE \
list' the elements.

The router needs a control socket: 'warpswitch run --control', 'warpswitch click -p' or '-u', or \
the element ControlSocket.";

const EXAMPLES: &str = "\
Examples:
  echo 'Idle -> rt :: StaticIPLookup(0.0.0.0/0 0) -> Discard' > routes.click
  warpswitch run routes.click --control routes.sock &
  warpswitch write routes.sock rt.add 192.0.2.0/24 0
  warpswitch read routes.sock rt.table
  warpswitch read routes.sock rt.lookup 192.0.2.1
  warpswitch write routes.sock stop";

/// Read a handler of a running configuration
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct ReadArgs {
    /// Control socket of the router: a TCP port or a path
    #[arg(value_name = "[HOST:]PORT|PATH", value_parser = ControlAddress::parse)]
    place: ControlAddress,

    /// Handler: 'ELEMENT.NAME', or the NAME of a global handler
    #[arg(value_name = "HANDLER")]
    handler: String,

    /// Parameter of the handler, if it takes one
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// Nobody listens; there is no such handler; it failed.
pub fn run(args: &ReadArgs) -> anyhow::Result<Outcome> {
    let words = std::iter::once(&args.handler).chain(&args.arguments);
    let question = words.map(String::as_str).collect::<Vec<_>>().join(" ");
    if question.contains(['\r', '\n']) {
        return Err(bad_input("the handler parameter must be one line"));
    }
    let mut client = client::connect(&args.place)?;
    let answer = client.read(&question, DATA_BYTES_MAX as usize);
    let mut text = answered(&mut client, &args.handler, Access::Read, answer)?.text;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Done)
}
