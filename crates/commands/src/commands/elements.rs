//! `warpswitch elements`: the element classes, and their documentation.

use std::fmt::Write;
use std::io::IsTerminal;

use clap::Args;
use serde::Serialize;
use warpswitch_graph::language::{ClassTable, nearest};

use crate::exit::{Outcome, bad_input};
use crate::kit;
use crate::markdown;
use crate::output::{print, print_json};
use crate::table::wrapped;
use crate::term::{self, FAINT, HEADING, paint};

/// The least columns for a summary; a terminal that has fewer cuts it where it likes.
const SUMMARY_COLUMNS_MIN: usize = 20;

const LONG_ABOUT: &str = "\
Show the element classes available to configurations: all of them, one line each, or for each \
named class its ports, arguments, handlers, drop reasons and an example.";

const EXAMPLES: &str = "\
Examples:
  warpswitch elements
  warpswitch elements Queue
  warpswitch elements | grep -i queue
  warpswitch elements IPFilter IPClassifier --json";

/// Show element classes: their ports, arguments, handlers
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct ElementsArgs {
    /// Classes to describe [default: list all classes]
    #[arg(value_name = "CLASS")]
    classes: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Class {
    name: &'static str,
    area: &'static str,
    summary: String,
    /// As Click writes them: `1/1-2`, `a/ah`.
    ports: &'static str,
    processing: &'static str,
    /// The reasons for which its elements drop packets.
    drops: &'static [&'static str],
    /// Markdown.
    documentation: &'static str,
}

/// Runs the command.
///
/// # Errors
/// Bad input if there is no such class.
pub fn run(args: &ElementsArgs) -> anyhow::Result<Outcome> {
    let mut classes = all();
    if !args.classes.is_empty() {
        if let Some(unknown) = args.classes.iter().find(|name| !is_known(&classes, name)) {
            return Err(unknown_class(&classes, unknown));
        }
        classes.retain(|class| args.classes.iter().any(|name| name == class.name));
    }
    match (args.json, args.classes.is_empty()) {
        (true, _) => print_json(&classes)?,
        (false, true) => print(&list(&classes, term::columns()))?,
        (false, false) => print(&classes.iter().map(page).collect::<Vec<_>>().join("\n"))?,
    }
    Ok(Outcome::Done)
}

/// All classes, by area and name.
fn all() -> Vec<Class> {
    let registry = kit::registry();
    let names: Vec<String> = registry.names().into_iter().map(str::to_owned).collect();
    let classes = names.iter().filter_map(|name| {
        let (class, doc) = (registry.class(name)?, kit::doc(name)?);
        Some(Class {
            name: class.spec.name,
            area: doc.area,
            summary: doc.summary(),
            ports: class.spec.port_count,
            processing: class.spec.processing,
            drops: class.drops,
            documentation: doc.text,
        })
    });
    let mut classes: Vec<Class> = classes.collect();
    classes.sort_by_key(|class| (class.area, class.name));
    classes
}

fn is_known(classes: &[Class], name: &str) -> bool {
    classes.iter().any(|class| class.name == name)
}

/// The error, with the classes whose names hold the same letters, or else the nearest name.
fn unknown_class(classes: &[Class], name: &str) -> anyhow::Error {
    let wanted = name.to_lowercase();
    let near = classes.iter().map(|class| class.name).filter(|class| {
        let class = class.to_lowercase();
        class.contains(&wanted) || wanted.contains(&class)
    });
    let mut near: Vec<&str> = near.collect();
    // What differs least in length is what was meant most likely.
    near.sort_by_key(|class| class.len().abs_diff(name.len()));
    near.truncate(8);
    if near.is_empty() {
        near.extend(nearest(name, classes.iter().map(|class| class.name)));
    }
    let help = match near.as_slice() {
        [] => "'warpswitch elements' lists all classes".to_owned(),
        near => format!("there is {}", near.join(", ")),
    };
    bad_input(format!("unknown element class '{name}'; {help}"))
}

/// A line for each class, under its area. On a terminal summaries go on below themselves.
fn list(classes: &[Class], columns: Option<usize>) -> String {
    let width = classes.iter().map(|class| class.name.len()).max().unwrap_or(0);
    let (mut text, mut area) = (String::new(), "");
    for class in classes {
        if class.area != area {
            area = class.area;
            let gap = if text.is_empty() { "" } else { "\n" };
            _ = writeln!(text, "{gap}{}", paint(HEADING, area));
        }
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(width + 4));
        let lines = wrapped(&class.summary, room.max(SUMMARY_COLUMNS_MIN));
        for (at, line) in lines.iter().enumerate() {
            let name = if at == 0 { class.name } else { "" };
            _ = writeln!(text, "  {name:width$}  {line}");
        }
    }
    let all = format!("{} classes; 'warpswitch elements CLASS' shows details.", classes.len());
    _ = writeln!(text, "\n{}", paint(FAINT, all));
    text
}

/// The documentation of a class.
fn page(class: &Class) -> String {
    let Class { name, area, ports, processing, .. } = class;
    let codes = format!("({area}; ports {ports}, processing {processing})");
    let text = format!("{} {}\n\n", paint(HEADING, name), paint(FAINT, codes));
    // A terminal that does not know its size shows colours all the same.
    let columns = std::io::stdout().is_terminal().then(|| term::columns().unwrap_or(usize::MAX));
    text + &markdown::rendered(class.documentation, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_its_terminal() {
        let classes = all();
        let list = |columns| anstream::adapter::strip_str(&list(&classes, columns)).to_string();
        let (whole, narrow) = (list(None), list(Some(80)));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(&whole));
        assert!(whole.lines().count() < narrow.lines().count());
    }
}
