//! `warpswitch ids --check`: which rules of files are looked for.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;
use warpswitch_ids::Rules;

use super::{LeftOutRule, left_out};
use crate::exit::Outcome;
use crate::human;
use crate::output::{print, print_json};

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'r> {
    files: &'r [String],
    rules_loaded: usize,
    rules_left_out: usize,
    /// How many were left out for each keyword.
    left_out: BTreeMap<&'r str, usize>,
    left_out_rules: Vec<LeftOutRule>,
}

/// Prints the number of supported rules, and lists the unsupported ones. The command fails if there
/// are unsupported rules, or no supported one.
///
/// # Errors
/// Output that cannot be written.
pub(super) fn tell(rules: &Rules, json: bool) -> anyhow::Result<Outcome> {
    let (kept, others) = (rules.rules.len(), left_out(&rules.files, &rules.left_out));
    let is_right = kept > 0 && others.is_empty();
    if json {
        print_json(&Report {
            files: &rules.files,
            rules_loaded: kept,
            rules_left_out: others.len(),
            left_out: rules.keywords_left_out().into_iter().collect(),
            left_out_rules: others,
        })?;
    } else {
        print(&text(rules, &others))?;
    }
    Ok(if is_right { Outcome::Done } else { Outcome::Failed })
}

fn text(rules: &Rules, others: &[LeftOutRule]) -> String {
    let (kept, files) = (rules.rules.len(), rules.files.join(", "));
    let all = human::counted(kept + others.len(), "rule");
    if others.is_empty() {
        let looked_for = if kept > 0 { ", all active" } else { "" };
        return format!("{files}: {all}{looked_for}\n");
    }
    let (kept, left_out) = (human::count(kept as u64), human::count(others.len() as u64));
    let mut text = format!("{files}: {all}, {kept} active, {left_out} skipped, by keyword:\n");
    for (keyword, count) in rules.keywords_left_out() {
        let _ = writeln!(text, "  {:>6}  {keyword}", human::count(count as u64));
    }
    for rule in others {
        let _ = writeln!(text, "{rule}");
    }
    text
}
