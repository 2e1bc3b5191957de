//! `warpswitch rules check`: rules that can never win, and rules that could go.

use clap::Args;
use serde::Serialize;
use warpswitch_rules::analysis::{Anomaly, AnomalyKind, CheckOptions, CheckReport, check};
use warpswitch_rules::format::format_match;
use warpswitch_rules::{RuleId, Ruleset};

use crate::args::{RuleFileArgs, parse_count};
use crate::exit::Outcome;
use crate::load::{LoadedRules, load_rules};
use crate::output::{print, print_json};
use crate::term::{BAD, FAINT, GOOD, Progress, WARN, paint};
use crate::{human, load};

const LONG_ABOUT: &str = "\
Find rules that can never win, and rules whose removal would not change any packet's action.

  duplicate  a rule above has exactly the same match
  shadowed   one larger rule above contains it
  redundant  it can win, but one larger rule below has the same action, and no
             rule between the two overlaps it with another action

'Above' and 'below' are in order of precedence: priority first, then position in the file. The \
first two kinds can never win. All listed rules can be removed together. Only coverage by a single \
rule is detected, not by several rules together. In a set where every rule has the same action, \
redundancy is meaningless and not checked. The terms follow Al-Shaer and Hamed, 'Discovery of \
Policy Anomalies in Distributed Firewalls' (INFOCOM 2004).

A rule that is hidden by a rule with another action is marked: it is more likely a mistake.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style fw --count 10K --out fw.rules
  warpswitch rules check fw.rules
  warpswitch rules check fw.rules --deny --limit 0
  warpswitch rules check fw.rules --json";

/// Find shadowed, duplicate and redundant rules
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct CheckArgs {
    #[command(flatten)]
    rules: RuleFileArgs,

    /// Maximum findings of each kind to list; all are counted
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "10")]
    limit: usize,

    /// Exit with code 1 if there is any finding
    #[arg(long)]
    deny: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The report as JSON.
#[derive(Debug, Serialize)]
struct JsonReport<'a> {
    rules: usize,
    rules_checked: usize,
    redundancy_checked: bool,
    duplicate: usize,
    shadowed: usize,
    redundant: usize,
    /// At most `--limit` of each kind.
    findings: Vec<JsonFinding<'a>>,
}

/// One finding: both rules, with the lines they came from.
#[derive(Debug, Serialize)]
struct JsonFinding<'a> {
    kind: &'static str,
    rule: u32,
    line: u32,
    source: Option<&'a str>,
    by_rule: u32,
    by_line: u32,
    by_source: Option<&'a str>,
    same_action: bool,
}

/// Runs the command.
///
/// # Errors
/// Bad input.
pub fn run(args: &CheckArgs) -> anyhow::Result<Outcome> {
    let loaded = load_rules(&args.rules.to_rules_args())?;
    let ruleset = &loaded.ruleset;
    let progress = Progress::steps("checking rules", ruleset.len() as u64);
    let tell = |rules| progress.at(rules as u64);
    let report = check(ruleset, &CheckOptions::default(), tell);
    drop(progress);
    if args.json {
        print_json(&to_json(&loaded, &report, args.limit))?;
    } else {
        print(&render(&loaded, &report, args.limit))?;
    }
    let failed = args.deny && !report.anomalies.is_empty();
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// The first findings of each kind.
fn listed(report: &CheckReport, kind: AnomalyKind, limit: usize) -> impl Iterator<Item = &Anomaly> {
    report.anomalies.iter().filter(move |anomaly| anomaly.kind == kind).take(limit)
}

fn to_json<'a>(loaded: &'a LoadedRules, report: &CheckReport, limit: usize) -> JsonReport<'a> {
    let ruleset = &loaded.ruleset;
    let finding = |anomaly: &Anomaly| JsonFinding {
        kind: anomaly.kind.name(),
        rule: anomaly.rule.0,
        line: ruleset.line(anomaly.rule),
        source: loaded.source_line(ruleset.line(anomaly.rule)),
        by_rule: anomaly.by.0,
        by_line: ruleset.line(anomaly.by),
        by_source: loaded.source_line(ruleset.line(anomaly.by)),
        same_action: anomaly.same_action,
    };
    JsonReport {
        rules: ruleset.len(),
        rules_checked: report.rules_checked,
        redundancy_checked: report.redundancy_checked,
        duplicate: report.count(AnomalyKind::Duplicate),
        shadowed: report.count(AnomalyKind::Shadowed),
        redundant: report.count(AnomalyKind::Redundant),
        findings: AnomalyKind::ALL
            .into_iter()
            .flat_map(|kind| listed(report, kind, limit))
            .map(finding)
            .collect(),
    }
}

fn render(loaded: &LoadedRules, report: &CheckReport, limit: usize) -> String {
    let ruleset = &loaded.ruleset;
    let mut text = String::new();
    for kind in AnomalyKind::ALL {
        for anomaly in listed(report, kind, limit) {
            text += &render_one(ruleset, &loaded.name, anomaly);
        }
        let more = report.count(kind).saturating_sub(limit);
        if more > 0 && limit > 0 {
            let line = format!("and {} more {}", human::count(more as u64), kind.name());
            text += &format!("{}\n\n", paint(FAINT, line));
        }
    }
    let counts = AnomalyKind::ALL.map(|kind| {
        let count = report.count(kind);
        let text = format!("{} {}", human::count(count as u64), kind.name());
        if count > 0 { paint(WARN, text) } else { paint(GOOD, text) }
    });
    text += &format!("{}: {}\n", human::counted(ruleset.len(), "rule"), counts.join(", "));
    if !report.redundancy_checked && !ruleset.is_empty() {
        text += "Redundancy was not checked: every rule has the same action.\n";
    }
    if report.rules_checked < ruleset.len() {
        let checked = human::count(report.rules_checked as u64);
        text += &format!(
            "Only the first {checked} rules were checked: the rule set has too many \
                overlaps.\n"
        );
    }
    text
}

/// A finding with both rules and their lines.
fn render_one(ruleset: &Ruleset, file: &str, anomaly: &Anomaly) -> String {
    let Anomaly { kind, rule, by, same_action } = *anomaly;
    let verb = match kind {
        AnomalyKind::Duplicate => "has the same match as",
        AnomalyKind::Shadowed => "is contained in",
        AnomalyKind::Redundant => "is made redundant by",
    };
    let head = if same_action { paint(WARN, kind.name()) } else { paint(BAD, kind.name()) };
    let aside = if same_action { "" } else { ", which has another action" };
    format!(
        "{head}: rule {rule} {verb} rule {by}{aside}\n{}{}\n",
        describe(ruleset, file, rule),
        describe(ruleset, file, by)
    )
}

/// `  file:line  what it matches -> what it does`
fn describe(ruleset: &Ruleset, file: &str, id: RuleId) -> String {
    let matching = format_match(ruleset.schema(), ruleset.matching(id));
    let matching = if matching.is_empty() { "any packet".into() } else { matching };
    let place = load::place(file, ruleset.line(id));
    format!("  {}  {matching} -> {}\n", paint(FAINT, place), ruleset.action(id))
}
