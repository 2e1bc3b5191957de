//! Plain technical English: no phrase of `xtask/plain-english.txt` in what people read.
//!
//! `xtask/plain-english-legacy.txt` lists the files that were not clean when the check was added.
//! The list only shrinks: an entry that is clean or missing is a finding, and so is an entry that
//! an earlier commit does not list. `cargo xtask tidy --shrink` removes the former.

mod prose;

use std::collections::{BTreeSet, HashMap};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fancy_regex::Regex;

use super::Finding;
use crate::repo::{self, SourceFile};

/// The phrases, one entry per line.
pub const PHRASES_PATH: &str = "xtask/plain-english.txt";
/// The files that may still contain some.
pub const LEGACY_PATH: &str = "xtask/plain-english-legacy.txt";

/// The banned phrases.
pub struct Phrases {
    any: Regex,
    /// Phrase in lower case to its replacement.
    instead: HashMap<String, String>,
}

impl Phrases {
    /// Reads `phrase | phrase => replacement` lines; empty lines and `#` lines are skipped.
    ///
    /// # Errors
    /// A line without phrase or replacement, or a duplicate phrase.
    pub fn parse(text: &str) -> Result<Self> {
        let mut instead = HashMap::new();
        for (idx, line) in entries(text) {
            let at = || format!("{PHRASES_PATH}:{}", idx + 1);
            let (phrases, replacement) = line
                .split_once("=>")
                .with_context(|| format!("{}: expected `phrase => replacement`", at()))?;
            if replacement.trim().is_empty() {
                bail!("{}: empty replacement", at());
            }
            for phrase in phrases.split('|').map(normal) {
                if phrase.is_empty() {
                    bail!("{}: empty phrase", at());
                }
                let replacement = replacement.trim().to_owned();
                if instead.insert(phrase.clone(), replacement).is_some() {
                    bail!("{}: duplicate phrase '{phrase}'", at());
                }
            }
        }
        if instead.is_empty() {
            bail!("{PHRASES_PATH}: no phrase");
        }
        // The alternation takes the first that matches: the longest phrase comes first.
        let mut phrases: Vec<&String> = instead.keys().collect();
        phrases.sort_by_key(|phrase| (std::cmp::Reverse(phrase.len()), *phrase));
        let pattern = |phrase: &&String| {
            let words: Vec<_> = phrase.split(' ').map(fancy_regex::escape).collect();
            words.join(r"\s+")
        };
        let any = phrases.iter().map(pattern).collect::<Vec<_>>().join("|");
        let any = Regex::new(&format!(r"(?i)\b(?:{any})\b")).context(PHRASES_PATH)?;
        Ok(Self { any, instead })
    }

    /// The banned phrases of one file.
    fn findings(&self, path: &str, text: &str) -> Vec<Finding> {
        let Some(prose) = prose::of(path, text) else { return Vec::new() };
        let mut findings = Vec::new();
        for found in self.any.find_iter(&prose).flatten() {
            let line = prose[..found.start()].matches('\n').count() + 1;
            let phrase = normal(found.as_str());
            let instead = self.instead.get(&phrase).map_or("", String::as_str);
            let message = format!("'{phrase}': write instead: {instead}");
            findings.push(Finding::new("plain-english", path, line, message));
        }
        findings
    }
}

/// Lower case, with single spaces.
fn normal(phrase: &str) -> String {
    phrase.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Lines with content, and their index.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().map(str::trim).enumerate();
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Checks all files against the phrases, and the list of legacy files against both.
///
/// `earlier` holds the list as earlier commits have it, where there are any.
pub fn check(
    files: &[SourceFile],
    phrases: &Phrases,
    legacy: &str,
    earlier: &[String],
) -> Vec<Finding> {
    let listed: BTreeSet<&str> = entries(legacy).map(|(_, path)| path).collect();
    let mut dirty = BTreeSet::new();
    let mut all = Vec::new();
    for file in files {
        let Some(text) = &file.text else { continue };
        let findings = phrases.findings(&file.path, text);
        if !findings.is_empty() {
            dirty.insert(file.path.as_str());
        }
        if !listed.contains(file.path.as_str()) {
            all.extend(findings);
        }
    }
    for (idx, path) in entries(legacy) {
        let mut report = |message: String| {
            all.push(Finding::new("plain-english-legacy", LEGACY_PATH, idx + 1, message));
        };
        if !dirty.contains(path) {
            let state = if files.iter().any(|f| f.path == path) { "clean" } else { "missing" };
            report(format!("{path} is {state}: remove it with `cargo xtask tidy --shrink`"));
        }
        if earlier.iter().any(|list| entries(list).all(|(_, old)| old != path)) {
            report(format!("{path} is new on the list, which may only shrink: rewrite the file"));
        }
    }
    all
}

/// The list without clean and missing files, and how many entries it loses.
pub fn shrunk(files: &[SourceFile], phrases: &Phrases, legacy: &str) -> (String, usize) {
    let is_dirty = |path: &str| {
        let text = files.iter().find(|f| f.path == path).and_then(|f| f.text.as_deref());
        text.is_some_and(|text| !phrases.findings(path, text).is_empty())
    };
    let is_entry = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    let stays = |line: &&str| !is_entry(line) || is_dirty(line.trim());
    let kept: String = legacy.lines().filter(stays).map(|line| format!("{line}\n")).collect();
    let removed = legacy.lines().count() - kept.lines().count();
    (kept, removed)
}

/// The list in the last commit and in the one that added it; nothing outside of a repository.
pub fn earlier_lists() -> Vec<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "safe.directory=*"])
            .args(args)
            .current_dir(repo::root())
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let added = git(&["log", "--format=%H", "--diff-filter=A", "--", LEGACY_PATH]);
    let added = added.and_then(|list| list.lines().last().map(str::to_owned));
    let commits = ["HEAD".to_owned()].into_iter().chain(added);
    commits.filter_map(|commit| git(&["show", &format!("{commit}:{LEGACY_PATH}")])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    const PHRASES: &str = "# heading\ntell | tells => report\nsay => state\n\
        what tells  apart => the difference\nthat is none => invalid\n";

    fn phrases() -> Phrases {
        Phrases::parse(PHRASES).unwrap()
    }

    fn messages(files: &[(&str, &str)], legacy: &str, earlier: &[&str]) -> Vec<String> {
        let earlier: Vec<String> = earlier.iter().map(|list| (*list).to_owned()).collect();
        let found = check(&tree(files), &phrases(), legacy, &earlier);
        found.into_iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.message)).collect()
    }

    #[test]
    fn rejects_phrases_and_prints_the_replacement() {
        let found = messages(&[("a.md", "# A\nIt Tells all.\n")], "", &[]);
        assert_eq!(found, ["a.md:2: 'tells': write instead: report"]);
        let split = messages(&[("a.md", "an expression that is\n  none\n")], "", &[]);
        assert_eq!(split, ["a.md:1: 'that is none': write instead: invalid"]);
        let long = messages(&[("a.md", "what tells apart two\n")], "", &[]);
        assert_eq!(long, ["a.md:1: 'what tells apart': write instead: the difference"]);
    }

    #[test]
    fn accepts_longer_words_names_and_other_paragraphs() {
        for text in ["storytellers teller essay saying\n", "`tell` is a call\n", "that is\n\nno\n"]
        {
            assert_eq!(messages(&[("a.md", text)], "", &[]), [""; 0], "{text}");
        }
        assert_eq!(messages(&[("a.pcap", "tell")], "", &[]), [""; 0], "data is not prose");
    }

    #[test]
    fn listed_files_pass_until_clean_or_missing() {
        let dirty = ("a.md", "tell\n");
        assert_eq!(messages(&[dirty], "# list\na.md\n", &[]), [""; 0]);
        let clean = messages(&[("a.md", "report\n")], "a.md\nb.md\n", &[]);
        assert_eq!(clean.len(), 2);
        assert!(clean[0].contains("a.md is clean") && clean[1].contains("b.md is missing"));
        assert_eq!(messages(&[dirty, ("b.md", "say\n")], "a.md\n", &[]).len(), 1);
    }

    #[test]
    fn the_list_only_shrinks() {
        let files = [("a.md", "tell\n"), ("b.md", "tell\n")];
        let grown = messages(&files, "a.md\nb.md\n", &["a.md\nb.md\n", "a.md\n"]);
        assert_eq!(grown.len(), 1, "{grown:?}");
        assert!(grown[0].contains("b.md is new on the list"), "{grown:?}");
        assert_eq!(messages(&files[..1], "a.md\n", &["a.md\nb.md\n"]), [""; 0]);
    }

    #[test]
    fn shrinking_removes_clean_and_missing_entries_only() {
        let files = tree(&[("a.md", "tell\n"), ("b.md", "report\n")]);
        let (list, removed) = shrunk(&files, &phrases(), "# list\na.md\nb.md\nc.md\n");
        assert_eq!((list.as_str(), removed), ("# list\na.md\n", 2));
    }

    #[test]
    fn invalid_phrase_lines_are_errors() {
        for text in ["", "tell\n", "tell =>\n", "=> report\n", "a => b\nA => c\n"] {
            assert!(Phrases::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_phrase_file_of_the_project_parses() {
        let text = std::fs::read_to_string(repo::root().join(PHRASES_PATH)).unwrap();
        let phrases = Phrases::parse(&text).unwrap();
        assert_eq!(phrases.findings("a.md", "The router is told so.").len(), 1);
        assert_eq!(phrases.findings("a.md", "Known tasks report unknown keys.").len(), 0);
    }
}
