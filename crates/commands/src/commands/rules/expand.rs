//! `warpswitch rules expand`: every range as prefixes, and what that costs.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use warpswitch_rules::expand::{entry_count, masked_entries};
use warpswitch_rules::format::{RulesFormat, write_rules};
use warpswitch_rules::matching::Match;
use warpswitch_rules::{Field, Rule, RuleId, Ruleset, RulesetBuilder};

use crate::args::{RuleFileArgs, parse_count, rules_format_parser};
use crate::commands::write_failed;
use crate::exit::{Outcome, bad_input};
use crate::human;
use crate::load::load_rules;
use crate::output::{Hold, Output, is_dash, print_json, refuse_overwriting};
use crate::term;

const LONG_ABOUT: &str = "\
Write a rule set with every port range expanded to prefixes, as hardware tables and mask-based \
engines need it, and report the cost.

A range needs at most 30 prefixes, so a rule with two ranges becomes at most 900 entries. The \
entries of a rule are adjacent, at the rule's position and with its priority and action, so every \
packet still matches the same rule. The report goes to the standard error stream, or as JSON to \
the standard output if the rules go to a file.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style fw --count 1K --out fw.rules
  warpswitch rules expand fw.rules --out fw-expanded.rules
  warpswitch rules expand fw.rules --out /dev/null --json";

/// Turn port ranges into prefixes and report the cost
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct ExpandArgs {
    #[command(flatten)]
    rules: RuleFileArgs,

    /// Format to write
    #[arg(long, value_name = "FORMAT", value_parser = rules_format_parser(),
          default_value = "canonical")]
    to: RulesFormat,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,

    /// Refuse to write more entries than this
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "100M")]
    entries_max: usize,

    /// Print the report as JSON; requires --out FILE
    #[arg(long)]
    json: bool,
}

/// What an expansion costs.
#[derive(Debug, Serialize)]
struct Cost {
    rules: usize,
    rules_with_ranges: usize,
    entries: u64,
    entries_per_rule: f64,
    worst_rule: Option<u32>,
    worst_line: Option<u32>,
    worst_entries: usize,
}

/// Runs the command.
///
/// # Errors
/// Bad input, too many entries, entries that the format cannot express, output that cannot be
/// written.
pub fn run(args: &ExpandArgs) -> anyhow::Result<Outcome> {
    if args.json && is_dash(&args.out) {
        return Err(bad_input("--json requires '--out FILE'"));
    }
    let rules = args.rules.to_rules_args();
    refuse_overwriting(&args.out, &[("the rules", &rules.rules)])?;
    let ruleset = load_rules(&rules)?.ruleset;
    let cost = cost_of(&ruleset);
    if cost.entries > args.entries_max as u64 {
        anyhow::bail!(
            "the rules expand to {} entries, limit {}; raise it with --entries-max",
            human::count(cost.entries),
            human::count(args.entries_max as u64)
        );
    }
    let expanded = expand(&ruleset);
    let mut output = Output::open(&args.out, Hold::Yes)?;
    write_rules(&expanded, args.to, &mut output).map_err(write_failed)?;
    output.commit()?;
    if args.json {
        print_json(&cost)?;
    } else {
        tell(&cost);
    }
    Ok(Outcome::Done)
}

fn cost_of(ruleset: &Ruleset) -> Cost {
    let mut cost = Cost {
        rules: ruleset.len(),
        rules_with_ranges: 0,
        entries: 0,
        entries_per_rule: 0.0,
        worst_rule: None,
        worst_line: None,
        worst_entries: 0,
    };
    for rule in ruleset.iter() {
        let entries = entry_count(&rule.matching);
        cost.entries += entries as u64;
        cost.rules_with_ranges += usize::from(!rule.matching.ranges_are_prefixes());
        if entries > cost.worst_entries {
            cost.worst_entries = entries;
            cost.worst_rule = Some(rule.id.0);
            cost.worst_line = Some(ruleset.line(rule.id));
        }
    }
    cost.entries_per_rule = cost.entries as f64 / ruleset.len().max(1) as f64;
    cost
}

/// The same set with prefixes for ranges.
fn expand(ruleset: &Ruleset) -> Ruleset {
    let mut builder = RulesetBuilder::new(ruleset.schema());
    for id in ruleset.ids() {
        for matching in expand_rule(ruleset, id) {
            builder.push(Rule { matching, ..ruleset.to_rule(id) });
        }
    }
    builder.build()
}

/// The entries of one rule as matches.
fn expand_rule(ruleset: &Ruleset, id: RuleId) -> impl Iterator<Item = Match> {
    let schema = ruleset.schema();
    let matching = ruleset.matching(id);
    let base = matching.to_match(schema);
    masked_entries(matching).map(move |entry| {
        let mut expanded = base;
        for field in [Field::L4Src, Field::L4Dst] {
            let spec = schema.field(field).expect("every schema has both ports");
            expanded.set_mask(field, spec.read(&entry.value), spec.read(&entry.mask));
        }
        expanded
    })
}

fn tell(cost: &Cost) {
    let worst = match cost.worst_line {
        Some(line) if cost.worst_entries > 1 => {
            format!("; most for the rule in line {line}: {}", cost.worst_entries)
        }
        _ => String::new(),
    };
    term::note(format!(
        "{}, {} with ranges, became {} entries: {} a rule{worst}",
        human::counted(cost.rules, "rule"),
        human::count(cost.rules_with_ranges as u64),
        human::count(cost.entries),
        human::significant(cost.entries_per_rule),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::schema::IPV4_5TUPLE;
    use warpswitch_rules::{Action, linear};

    #[test]
    fn entries_of_the_same_rule_win_the_same_packets() {
        let mut builder = RulesetBuilder::new(&IPV4_5TUPLE);
        for (lo, hi, action) in [(5, 9, Action::Pass), (1, 65534, Action::Drop)] {
            let mut matching = Match::any(&IPV4_5TUPLE);
            matching.set_range(Field::L4Dst, lo, hi).set_mask(Field::L4Src, 1, 1);
            builder.push(Rule::new(matching, action));
        }
        let ruleset = builder.build();
        let expanded = expand(&ruleset);
        assert_eq!(cost_of(&ruleset).entries, expanded.len() as u64);
        assert!(expanded.iter().all(|rule| rule.matching.ranges_are_prefixes()));
        for port in 0..=u16::MAX {
            for src in [0, 1] {
                let key = [0, 0, src << 16 | u32::from(port), 0];
                let action = |set: &Ruleset| {
                    let winner = linear::lookup(set, &key);
                    winner.is_some().then(|| set.action(winner).clone())
                };
                assert_eq!(action(&ruleset), action(&expanded), "port {port}");
            }
        }
    }
}
