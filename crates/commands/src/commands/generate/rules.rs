//! `warpswitch generate rules`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpswitch_rules::format::{RulesFormat, write_rules};
use warpswitch_rules::generate::{ActionMix, Family, RulesetSpec, Style};
use warpswitch_rules::ruleset::RULES_MAX;
use warpswitch_rules::schema::{IPV4_5TUPLE, IPV6_5TUPLE};

use super::synthetic::{self, SyntheticArg};
use crate::args::{parse_count, parse_seed, rules_format_parser};
use crate::commands::write_failed;
use crate::exit::{Outcome, bad_input};
use crate::output::{Hold, Output};
use crate::term::Progress;

const LONG_ABOUT: &str = "\
Generate a rule set, in the style of ClassBench (access lists, firewalls, IP chains, with the \
prefix lengths, ports, nesting and skew of real ones) or of GSwitch's synthetic sets.

ClassBench's format has no actions; the canonical format keeps them. --actions draws the action of \
each rule in given proportions, so that caches cannot merge all rules; it writes the canonical \
format unless --format is ovs.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style acl --count 10K --out acl.rules
  warpswitch generate rules --family ipv6 --count 1K --format canonical
  warpswitch generate rules --style fw --actions permit:deny=7:3,1 --out f.rules
  warpswitch generate rules --synthetic N=10K,C=64,F=16,Cm=4 --out s.rules";

/// Generate a rule set
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct GenerateRulesArgs {
    /// Style of the rules
    #[arg(long, value_name = "STYLE", default_value = "acl", conflicts_with = "synthetic",
          value_parser = style_parser())]
    style: Style,

    /// Address family of the rules
    #[arg(long, value_name = "FAMILY", default_value = "ipv4", conflicts_with = "synthetic",
          value_parser = family_parser())]
    family: Family,

    /// Number of rules (suffix K or M)
    #[arg(long, value_name = "N", default_value = "10K", conflicts_with = "synthetic",
          value_parser = parse_count)]
    count: usize,

    #[arg(long, value_name = "PARAMETERS", value_parser = synthetic::parse,
          help = synthetic::HELP)]
    synthetic: Option<SyntheticArg>,

    /// Seed of the random generator
    #[arg(long, value_name = "SEED", default_value = "1", value_parser = parse_seed)]
    seed: u64,

    /// Actions of the rules, permit, deny or markN, and their proportions, such as
    /// permit:deny:mark7=70:20:10 [default: permit], with a seed of their own as permit:deny=7:3,1
    #[arg(long, value_name = "NAMES=PARTS[,SEED]")]
    actions: Option<ActionMix>,

    /// Format to write [default: classbench, or canonical if classbench cannot express the rules]
    #[arg(long, value_name = "FORMAT", value_parser = rules_format_parser())]
    format: Option<RulesFormat>,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Parameters that no set meets, a format that cannot express it, output that cannot be written.
pub fn run(args: &GenerateRulesArgs) -> anyhow::Result<Outcome> {
    if args.count > RULES_MAX {
        return Err(bad_input(format!("a rule set holds at most {RULES_MAX} rules")));
    }
    if args.actions.is_some() && args.format == Some(RulesFormat::ClassBench) {
        let message = "--actions requires another format: ClassBench's has no actions";
        return Err(bad_input(message.to_owned()));
    }
    let mut output = Output::open(&args.out, Hold::Yes)?;
    let progress = Progress::spinner("generating rules");
    let ruleset = match args.synthetic {
        Some(synthetic) => synthetic.with_seed(args.seed).generate().map_err(bad_input)?,
        None => {
            let (style, family, rules) = (args.style, args.family, args.count);
            RulesetSpec { style, family, rules, seed: args.seed }.generate()
        }
    };
    let ruleset = match &args.actions {
        Some(mix) => mix.apply(&ruleset, args.seed),
        None => ruleset,
    };
    let is_plain = args.actions.is_none();
    let is_5tuple = is_plain && [&IPV4_5TUPLE, &IPV6_5TUPLE].contains(&ruleset.schema());
    let usual = if is_5tuple { RulesFormat::ClassBench } else { RulesFormat::Canonical };
    let format = args.format.unwrap_or(usual);
    write_rules(&ruleset, format, &mut output).map_err(write_failed)?;
    drop(progress);
    output.commit()?;
    Ok(Outcome::Done)
}

fn style_parser() -> impl TypedValueParser<Value = Style> {
    PossibleValuesParser::new(Style::ALL.map(Style::name)).try_map(|name| name.parse::<Style>())
}

fn family_parser() -> impl TypedValueParser<Value = Family> {
    PossibleValuesParser::new(Family::ALL.map(Family::name)).try_map(|name| name.parse::<Family>())
}
