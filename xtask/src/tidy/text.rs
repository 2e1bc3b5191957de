//! Checks of plain text: lengths, paths, tags, sizes, and the README's promise about tests.

use super::Finding;
use crate::repo::SourceFile;

/// The most lines of a file.
const FILE_LINES_MAX: usize = 800;
/// The most columns of a line.
const LINE_COLUMNS_MAX: usize = 100;
/// A file of this size is not a source.
const FILE_BYTES_LIMIT: usize = 5_000_000;
/// Endings of files that people write.
const WRITTEN: [&str; 10] =
    [".rs", ".toml", ".md", ".c", ".h", ".cu", ".cuh", ".sh", ".py", ".ci/run"];
/// Folders that are somebody's machine. In parts, so that this file does not find itself.
const MACHINE_FOLDERS: [&str; 6] = ["home", "root", "work", "tmp", "Users", "workspace"];

/// All checks of one text file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.ends_with("Cargo.lock") || !is_written(path) {
        return findings;
    }
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        let message = format!("{lines} lines, at most {FILE_LINES_MAX}: split it");
        findings.push(Finding::new("file-lines", path, 0, message).of("", lines));
    }
    for (idx, line) in text.lines().enumerate() {
        let columns = columns(line);
        if columns > LINE_COLUMNS_MAX && !may_be_wide(path, line) {
            let message = format!("{columns} columns, at most {LINE_COLUMNS_MAX}");
            findings.push(Finding::new("line-columns", path, idx + 1, message).of("", columns));
        }
        if let Some(folder) = machine_path(line) {
            let message = format!("a path of one machine: {folder}");
            findings.push(Finding::new("machine-path", path, idx + 1, message));
        }
        if line.contains(concat!("SPDX-", "License-Identifier")) {
            let message = "the licence is named in the manifests, once";
            findings.push(Finding::new("licence-tag", path, idx + 1, message));
        }
    }
    findings
}

/// Files that are too large to track.
pub fn check_size(path: &str, bytes: usize) -> Option<Finding> {
    let message = format!("{bytes} bytes: data of this size stays beside the project");
    (bytes >= FILE_BYTES_LIMIT).then(|| Finding::new("file-bytes", path, 0, message).of("", bytes))
}

/// The commands in the first `sh` block of a README: how to run it, and how to test it.
pub fn readme_commands(readme: &str) -> Vec<&str> {
    let mut lines = readme.lines().skip_while(|line| line.trim() != "```sh");
    lines.next();
    let block = lines.take_while(|line| line.trim() != "```");
    // A comment after the command is for the reader.
    let commands = block.map(|line| line.split(" #").next().unwrap_or("").trim());
    commands.filter(|line| !line.is_empty()).collect()
}

/// The test command that the README promises must be a line of `.ci/run`.
pub fn check_test_command(files: &[SourceFile]) -> Option<Finding> {
    let text = |path: &str| files.iter().find(|file| file.path == path)?.text.as_deref();
    let readme = text("README.md").unwrap_or("");
    let ci = text(".ci/run").unwrap_or("");
    let Some(test) =
        readme_commands(readme).into_iter().find(|line| line.starts_with("cargo test"))
    else {
        let message = "its first `sh` block names no `cargo test` command";
        return Some(Finding::new("test-command", "README.md", 0, message));
    };
    let runs_it = ci.lines().any(|line| line.trim() == test || line.trim().ends_with(test));
    let message = format!("does not run the README's test command: {test}");
    (!runs_it).then(|| Finding::new("test-command", ".ci/run", 0, message))
}

fn is_written(path: &str) -> bool {
    WRITTEN.iter().any(|ending| path.ends_with(ending))
}

/// Tables, links and headings of Markdown cannot be broken, nor can tables in Rust's docs.
fn may_be_wide(path: &str, line: &str) -> bool {
    let line = line.trim_start();
    if path.ends_with(".rs") {
        let doc = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        return doc.is_some_and(|doc| doc.trim_start().starts_with('|'));
    }
    let is_link = line.contains("](") || line.contains("://");
    path.ends_with(".md") && (line.starts_with('|') || line.starts_with('#') || is_link)
}

/// Width of a line on a screen: a tab goes to the next multiple of eight.
fn columns(line: &str) -> usize {
    line.chars().fold(0, |column, c| if c == '\t' { (column / 8 + 1) * 8 } else { column + 1 })
}

/// The first absolute path in a line that leads into somebody's machine.
fn machine_path(line: &str) -> Option<String> {
    for (at, _) in line.match_indices('/') {
        // Inside a longer path or an address it is no root.
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "./_-}$~".contains(c)) {
            continue;
        }
        let rest = &line[at + 1..];
        let folder = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
        if MACHINE_FOLDERS.contains(&folder) && rest[folder.len()..].starts_with('/') {
            return Some(format!("/{folder}/"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    fn checks(path: &str, text: &str) -> Vec<&'static str> {
        check(path, text).into_iter().map(|f| f.check).collect()
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let wide = "x".repeat(101);
        let fits = "x".repeat(100);
        let path = format!("see /{}/me", "home");
        let link = format!("see https://example.org/{}/me and a/{}/b", "home", "tmp");
        let tag = concat!("// SPDX-", "License-Identifier: MIT");
        let cases: &[(&str, &str, &[&str])] = &[
            ("a.rs", &wide, &["line-columns"]),
            ("a.rs", &fits, &[]),
            ("a.md", &wide, &["line-columns"]),
            ("a.md", &format!("| {wide} |"), &[]),
            ("a.rs", &format!("//! | {wide} |"), &[]),
            ("a.rs", &format!("// | {wide} |"), &["line-columns"]),
            ("a.md", &format!("[a](b) {wide}"), &[]),
            ("a.c", &format!("\t{}", "x".repeat(93)), &["line-columns"]),
            ("a.c", &format!("\t{}", "x".repeat(92)), &[]),
            ("a.pcap", &wide, &[]),
            ("Cargo.lock", &wide, &[]),
            ("a.rs", &"//\n".repeat(801), &["file-lines"]),
            ("a.rs", &"//\n".repeat(800), &[]),
            ("a.md", &path, &["machine-path"]),
            ("a.md", &link, &[]),
            ("a.rs", tag, &["licence-tag"]),
        ];
        for (name, text, expected) in cases {
            assert_eq!(checks(name, text), *expected, "{name}: {text}");
        }
    }

    #[test]
    fn large_files_are_found() {
        assert!(check_size("a.bin", 5_000_000).is_some());
        assert!(check_size("a.bin", 4_999_999).is_none());
    }

    #[test]
    fn the_test_command_must_be_the_same() {
        let readme = "# x\n```sh\ncargo run   # demo\ncargo test --workspace   # all\n```\n";
        assert_eq!(readme_commands(readme), ["cargo run", "cargo test --workspace"]);
        let with = |ci: &str| tree(&[("README.md", readme), (".ci/run", ci)]);
        assert_eq!(check_test_command(&with("set -e\ncargo test --workspace\n")), None);
        assert_eq!(check_test_command(&with("step cargo test --workspace\n")), None);
        assert!(check_test_command(&with("cargo test\n")).is_some());
        assert!(check_test_command(&with("cargo test --workspace --quiet\n")).is_some());
        assert!(check_test_command(&tree(&[])).is_some());
    }
}
