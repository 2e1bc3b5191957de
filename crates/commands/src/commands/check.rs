//! `warpswitch check`: all that is wrong with a configuration.

use std::path::PathBuf;

use clap::Args;
use warpswitch_graph::{Console, Router, RouterOptions};
use warpswitch_runtime::config::{Libraries, load, parse_variable, unset_variables};

use crate::drive::config;
use crate::exit::Outcome;
use crate::human;
use crate::kit;
use crate::output::print;
use crate::term::{self, GOOD, paint};
use crate::threads;

const LONG_ABOUT: &str = "\
Find all errors in a configuration: its syntax, classes, connections, push and pull, and the \
arguments of every element, with the files of rules and routes that they name. Nothing runs: no \
capture or device is opened and nothing is written.

Exit code 2 if there is an error.";

const EXAMPLES: &str = "\
Examples:
  echo 'InfiniteSource(LIMIT $N) -> Counter -> Discard' > count.click
  warpswitch check count.click N=5";

/// Check a configuration
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct CheckArgs {
    /// Configuration in the Click language; '-' is the standard input
    #[arg(value_name = "CONF")]
    config: PathBuf,

    /// Variables of the configuration
    #[arg(value_name = "V=x", value_parser = parse_variable)]
    variables: Vec<(String, String)>,
}

/// Prints warnings of elements; they print nothing, as they do not run.
struct Warnings;

impl Console for Warnings {
    fn say(&mut self, line: &str) {
        term::note(line.trim_end());
    }

    fn print(&mut self, _: &[u8]) {}

    fn do_by_many(&self, work: &(dyn Fn() + Sync)) {
        threads::do_by_many(work);
    }
}

/// Runs the command.
///
/// # Errors
/// Bad input, with every error.
pub fn run(args: &CheckArgs) -> anyhow::Result<Outcome> {
    let text = config::read(&args.config)?;
    let registry = kit::registry();
    let variables = args.variables.iter().cloned().collect();
    let loaded = load(&text, &registry, &variables, &mut Libraries::new(None))
        .map_err(|errors| config::blame(&text, errors))?;
    config::warn_of_unused(&loaded.graph, &variables);
    let (elements, connections) = (loaded.graph.elements.len(), loaded.graph.connections.len());
    if !loaded.warnings.is_empty() {
        term::note(loaded.warnings.to_coloured().trim_end());
    }
    let options = RouterOptions {
        console: Box::new(Warnings),
        seed: 0,
        now: Default::default(),
        ticks: None,
    };
    let unset = unset_variables(&loaded.graph);
    let checked = Router::check(loaded, &registry, options);
    config::warn_of_unset(unset, checked.as_ref().err().map(ToString::to_string));
    checked?;
    let (elements, connections) =
        (human::counted(elements, "element"), human::counted(connections, "connection"));
    let name = &text.name;
    print(&format!("{name}: {elements}, {connections}: {}\n", paint(GOOD, "valid")))?;
    Ok(Outcome::Done)
}
