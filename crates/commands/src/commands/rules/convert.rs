//! `warpswitch rules convert`: the same rules in another format.

use std::path::PathBuf;

use clap::Args;
use warpswitch_rules::format::{RulesFormat, WriteReport, write_rules_report};

use crate::args::{RuleFileArgs, rules_format_parser};
use crate::commands::write_failed;
use crate::exit::Outcome;
use crate::human;
use crate::load::load_rules;
use crate::output::{Hold, Output, refuse_overwriting};
use crate::term;

const LONG_ABOUT: &str = "\
Write a rule set in another format. The winning rule stays the same for every packet.

A rule that the format cannot express ends the command with exit code 2 and an error that names \
the rule; nothing is written. Properties that the format cannot store but that do not change any \
winner (an action in ClassBench, for example) are dropped with a warning. A rule may become \
several lines if the format has no ranges.

Open vSwitch does not define an order for flows of equal priority: rules without priorities are \
renumbered for it, up to 65,536 of them, and duplicate priorities in the source are kept with a \
warning.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style acl --count 100 --out acl.rules
  warpswitch rules convert --to canonical acl.rules
  warpswitch rules convert --to ovs acl.rules --out acl.flows";

/// Write a rule set in another format
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct ConvertArgs {
    #[command(flatten)]
    rules: RuleFileArgs,

    /// Format to write
    #[arg(long, value_name = "FORMAT", value_parser = rules_format_parser())]
    to: RulesFormat,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Bad input, rules that the format cannot express, output that cannot be written.
pub fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let rules = args.rules.to_rules_args();
    refuse_overwriting(&args.out, &[("the rules", &rules.rules)])?;
    let loaded = load_rules(&rules)?;
    let mut output = Output::open(&args.out, Hold::Yes)?;
    let report = write_rules_report(&loaded.ruleset, args.to, &mut output).map_err(write_failed)?;
    output.commit()?;
    warn_of(&report, args.to);
    Ok(Outcome::Done)
}

/// Reports what the format had no room for.
fn warn_of(report: &WriteReport, format: RulesFormat) {
    let lost = |count: usize, what: &str| {
        if count > 0 {
            let rules = human::counted(count, "rule");
            term::warning(format!("{format} cannot store {what}: dropped for {rules}"));
        }
    };
    lost(report.actions_lost, "actions of this kind");
    lost(report.flags_columns_lost, "flags column");
    if report.rules_split > 0 {
        let rules = human::counted(report.rules_split, "rule");
        let lines = human::count(report.lines as u64);
        term::note(format!(
            "{rules} became several lines, as {format} has no ranges: {lines} lines"
        ));
    }
    if report.renumbered {
        term::note("priorities were renumbered; the order of the rules is unchanged");
    }
    if report.reordered {
        term::note("rules are in order of precedence, not of the source");
    }
    if report.ties > 0 {
        let rules = human::count(report.ties as u64);
        term::warning(format!(
            "{rules} rules share a priority with one they may overlap: Open vSwitch does not \
             define which wins"
        ));
    }
}
