//! `warpswitch flatten`: a configuration without compounds and variables.

use std::path::PathBuf;

use clap::Args;
use warpswitch_graph::language;
use warpswitch_runtime::config::{Libraries, load, parse_variable};

use crate::drive::config;
use crate::exit::Outcome;
use crate::kit;
use crate::output::{Hold, Output, refuse_overwriting};
use crate::term;
use std::io::Write;

const LONG_ABOUT: &str = "\
Flatten a configuration: write it without compound elements, groups and variables, as Click's \
'flatconfig' handler does: one declaration for each element, then the connections.";

const EXAMPLES: &str = "\
Examples:
  echo 'elementclass C { Idle -> output } C -> Discard' > c.click
  warpswitch flatten c.click";

/// Flatten a configuration
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct FlattenArgs {
    /// Configuration in the Click language; '-' is the standard input
    #[arg(value_name = "CONF")]
    config: PathBuf,

    /// Variables of the configuration
    #[arg(value_name = "V=x", value_parser = parse_variable)]
    variables: Vec<(String, String)>,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Bad input, with every error; output that cannot be written.
pub fn run(args: &FlattenArgs) -> anyhow::Result<Outcome> {
    refuse_overwriting(&args.out, &[("the configuration", &args.config)])?;
    let text = config::read(&args.config)?;
    let registry = kit::registry();
    let variables = args.variables.iter().cloned().collect();
    let loaded = load(&text, &registry, &variables, &mut Libraries::new(None))
        .map_err(|errors| config::blame(&text, errors))?;
    config::warn_of_unused(&loaded.graph, &variables);
    if !loaded.warnings.is_empty() {
        term::note(loaded.warnings.to_coloured().trim_end());
    }
    let mut output = Output::open(&args.out, Hold::Yes)?;
    output.write_all(language::flatten(&loaded.graph).as_bytes())?;
    output.commit()?;
    Ok(Outcome::Done)
}
