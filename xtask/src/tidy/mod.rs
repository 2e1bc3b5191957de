//! The rules of the house that a machine can check: `cargo xtask tidy`.
//!
//! Each check is a pure function from files to [`Finding`]s. What cannot be mended at once is
//! written into `xtask/ratchet.toml` with a reason and a limit; a limit can only be lowered, and
//! an entry that no finding needs any more is itself a finding.
//!
//! | check | says |
//! | --- | --- |
//! | `layers` | a crate imports only what the table in [`layers`] allows |
//! | `file-lines` | at most 800 lines a file; 1,500 even with an exception |
//! | `function-lines` | at most 70 lines a function |
//! | `line-columns` | at most 100 columns a line, tables and links excepted |
//! | `unsafe-room` | `unsafe` only in the rooms of [`rust::UNSAFE_ROOMS`] |
//! | `crate-policy` | each crate takes the workspace's lints, and forbids `unsafe` if it has no room |
//! | `absence` | below the binary nobody reads a clock, opens a socket or starts a thread |
//! | `leftover` | no macro or note that stands for work not done |
//! | `element-doc` | each element is documented under the fixed headings |
//! | `module-doc` | every Rust file begins with what it is for |
//! | `machine-path` | no path of somebody's machine |
//! | `licence-tag` | licences are named once, in the manifests |
//! | `file-bytes` | no tracked file of 5 MB or more |
//! | `test-command` | `.ci/run` runs the test command of the README |
//! | `plain-english` | no phrase of `xtask/plain-english.txt` in what people read |
//! | `plain-english-legacy` | the list of files that are not yet clean only shrinks |

mod elements;
pub mod layers;
mod plain;
mod ratchet;
mod rust;
mod text;

pub use text::readme_commands;

use anyhow::{Context, Result, bail};

use crate::repo::{self, SourceFile};

/// One place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which check.
    pub check: &'static str,
    /// The file.
    pub path: String,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// What an exception names: a function, a crate; empty for the file.
    pub item: String,
    /// The figure that a limit is held against; 0 where there is none.
    pub size: usize,
    /// What is wrong, for people.
    pub message: String,
}

impl Finding {
    /// A finding without item and size.
    pub fn new(check: &'static str, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            check,
            path: path.to_owned(),
            line,
            item: String::new(),
            size: 0,
            message: message.into(),
        }
    }

    /// The same finding about `item`, held against `size`.
    pub fn of(mut self, item: impl Into<String>, size: usize) -> Self {
        self.item = item.into();
        self.size = size;
        self
    }
}

/// Checks every file of the project; `--shrink` first removes clean files from the list of those
/// with banned phrases.
pub fn run(args: &[String]) -> Result<()> {
    let mut args = args.to_vec();
    let shrinks = repo::take_flag(&mut args, "--shrink");
    if let Some(arg) = args.first() {
        bail!("unexpected argument '{arg}'; expected --shrink or nothing");
    }
    let files = repo::files()?;
    let ratchet = ratchet::parse(&read("xtask/ratchet.toml")?)?;
    let phrases = plain::Phrases::parse(&read(plain::PHRASES_PATH)?)?;
    let mut legacy = read(plain::LEGACY_PATH)?;
    if shrinks {
        let (list, removed) = plain::shrunk(&files, &phrases, &legacy);
        std::fs::write(repo::root().join(plain::LEGACY_PATH), &list)
            .with_context(|| format!("cannot write {}", plain::LEGACY_PATH))?;
        println!("tidy: removed {removed} files from {}", plain::LEGACY_PATH);
        legacy = list;
    }
    let mut all = findings(&files);
    all.extend(plain::check(&files, &phrases, &legacy, &plain::earlier_lists()));
    let findings = ratchet::apply(&ratchet, all);
    for finding in &findings {
        let Finding { check, path, line, message, .. } = finding;
        eprintln!("{path}:{line}: {check}: {message}");
    }
    if !findings.is_empty() {
        bail!("{} findings in {} files", findings.len(), files.len());
    }
    println!("tidy: {} files, {} exceptions", files.len(), ratchet.exceptions.len());
    Ok(())
}

/// The text of a file of the project, by its path from the root.
fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(repo::root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// All findings, before the exceptions.
fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut all = layers::check(files);
    all.extend(rust::check_crates(files));
    all.extend(text::check_test_command(files));
    for file in files {
        all.extend(text::check_size(&file.path, file.bytes));
        let Some(text) = &file.text else { continue };
        all.extend(text::check(&file.path, text));
        if file.path.ends_with(".rs") {
            all.extend(rust::check(&file.path, text));
            all.extend(elements::check(&file.path, text));
        }
    }
    all.sort_by(|a, b| (&a.path, a.line, a.check).cmp(&(&b.path, b.line, b.check)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files for the checks, from (path, text).
    pub fn tree(files: &[(&str, &str)]) -> Vec<SourceFile> {
        let file = |&(path, text): &(&str, &str)| SourceFile {
            path: path.to_owned(),
            text: Some(text.to_owned()),
            bytes: text.len(),
        };
        files.iter().map(file).collect()
    }

    #[test]
    fn findings_come_from_every_kind_of_check_in_order() {
        let long = format!("//! Doc.\n// {}\nuse std::time;\n", "x".repeat(100));
        let files = tree(&[
            ("crates/wire/Cargo.toml", "[package]\nname = \"warpswitch-wire\"\n"),
            ("crates/wire/src/lib.rs", &long),
        ]);
        let checks: Vec<_> = findings(&files).into_iter().map(|f| f.check).collect();
        assert_eq!(checks, ["test-command", "crate-policy", "crate-policy", "line-columns"]);
    }
}
