//! `warpswitch graph`: a picture of a configuration.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use warpswitch_graph::language::svg::svg;
use warpswitch_runtime::config::{Libraries, load, parse_variable};

use crate::drive::config;
use crate::drive::offload::{self, OffloadChoice};
use crate::exit::{Outcome, bad_input};
use crate::kit;
use crate::output::{Hold, Output, refuse_overwriting};
use crate::term;

const LONG_ABOUT: &str = "\
Draw a configuration as SVG: packets flow downwards, black ports push, white ports pull, ports \
with a second outline are agnostic. Members of one compound element share a tint.";

const EXAMPLES: &str = "\
Examples:
  echo 'InfiniteSource -> Queue -> Discard' > queue.click
  warpswitch graph queue.click --out queue.svg
  echo 'InfiniteSource -> rt :: StaticIPLookup(0/0 0) -> Discard' > lookup.click
  warpswitch graph lookup.click --offload --out lookup.svg";

/// Draw a configuration
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct GraphArgs {
    /// Configuration in the Click language; '-' is the standard input
    #[arg(value_name = "CONF")]
    config: PathBuf,

    /// Variables of the configuration
    #[arg(value_name = "V=x", value_parser = parse_variable)]
    variables: Vec<(String, String)>,

    /// Hatch the elements that 'warpswitch run --offload WHEN' offloads to a device [default WHEN:
    /// always]
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true,
        default_value = "never", default_missing_value = "always", hide_default_value = true)]
    offload: OffloadChoice,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Bad input, with every error; a graph that is too large; output that cannot be written.
pub fn run(args: &GraphArgs) -> anyhow::Result<Outcome> {
    refuse_overwriting(&args.out, &[("the configuration", &args.config)])?;
    let text = config::read(&args.config)?;
    let registry = kit::registry();
    let variables = args.variables.iter().cloned().collect();
    let mut loaded = load(&text, &registry, &variables, &mut Libraries::new(None))
        .map_err(|errors| config::blame(&text, errors))?;
    config::warn_of_unused(&loaded.graph, &variables);
    if !loaded.warnings.is_empty() {
        term::note(loaded.warnings.to_coloured().trim_end());
    }
    offload::draw_in(&mut loaded, &registry, args.offload)?;
    let picture = svg(&loaded.graph, &loaded.ports, &registry).map_err(bad_input)?;
    let mut output = Output::open(&args.out, Hold::Yes)?;
    output.write_all(picture.as_bytes())?;
    output.commit()?;
    Ok(Outcome::Done)
}
