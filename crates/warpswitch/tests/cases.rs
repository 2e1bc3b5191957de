//! Runs the command as a user does, on the cases under `tests/cases`.
//!
//! A case is a folder:
//!
//! | file | what it is |
//! | --- | --- |
//! | `cmd` | command lines, each `warpswitch` as `$ warpswitch …`; `#` starts a comment line |
//! | `expect` | what they print: per command the line itself, its standard output, its standard error stream with `! ` before each line, and `? CODE` unless the exit code is 0 |
//! | other files | copied into an empty folder, in which the commands run |
//!
//! For commands that name it, `conf` in that folder leads to the configurations that are shipped,
//! with their captures.
//!
//! After the commands, files that they made and that have a twin `NAME.expect` must equal it.
//! Numbers that differ between machines and runs (times, rates, sizes of structures) are replaced
//! before the comparison.
//!
//! The examples in the help are run too, as they stand but smaller.
//!
//! `UPDATE=1 cargo test -p warpswitch --test cases` writes `expect` and the twins anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn every_case_prints_what_it_should() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let mut cases: Vec<PathBuf> = fs::read_dir(&root)
        .expect("the cases lie beside the crates")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.join("cmd").is_file())
        .collect();
    cases.sort();
    assert!(cases.len() >= 10, "only {} cases in {}", cases.len(), root.display());
    let wrong: Vec<String> = cases.iter().filter_map(|case| run_case(case, update)).collect();
    assert!(
        wrong.is_empty(),
        "{} of {} cases differ:\n\n{}\nUPDATE=1 writes what was printed as expected.",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// Runs a case; tells how it differs.
fn run_case(case: &Path, update: bool) -> Option<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for entry in fs::read_dir(case).expect("a readable case") {
        let from = entry.expect("a readable case").path();
        let name = from.file_name().expect("files have names");
        let is_input =
            name != "cmd" && name != "expect" && from.extension() != Some("expect".as_ref());
        if is_input {
            fs::copy(&from, folder.path().join(name)).expect("a copy of an input");
        }
    }
    let commands = fs::read_to_string(case.join("cmd")).expect("text in cmd");
    if commands.contains(" conf/") {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf");
        let shipped = fs::canonicalize(shipped).expect("it lies beside the crates");
        std::os::unix::fs::symlink(shipped, folder.path().join("conf")).expect("a link");
    }
    let mut printed = String::new();
    for line in commands.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let shell = line.strip_prefix("$ ").unwrap_or_else(|| panic!("no '$ ' before: {line}"));
        printed += &run_command(shell, folder.path());
    }
    let name = case.file_name().expect("cases have names").to_string_lossy().into_owned();
    let mut wrong = compare(&name, &case.join("expect"), &printed, update);
    for twin in twins(case) {
        let made = folder.path().join(twin.file_stem().expect("twins have names"));
        let made = fs::read(&made).unwrap_or_else(|_| b"(no such file)\n".to_vec());
        let made = String::from_utf8_lossy(&made).into_owned();
        wrong = wrong.or(compare(&name, &twin, &made, update));
    }
    wrong
}

/// The files of a case that tell what a command should make.
fn twins(case: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(case).expect("a readable case");
    let paths = entries.map(|entry| entry.expect("a readable case").path());
    let mut twins: Vec<PathBuf> =
        paths.filter(|path| path.extension() == Some("expect".as_ref())).collect();
    twins.sort();
    twins
}

/// Runs one line through the shell, `warpswitch` being the one under test.
fn run_command(line: &str, folder: &Path) -> String {
    let script = format!("warpswitch() {{ \"$WARPSWITCH\" \"$@\"; }}; {line}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .env("WARPSWITCH", env!("CARGO_BIN_EXE_warpswitch"))
        .env("COLUMNS", "100")
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let mut text = format!("$ {line}\n");
    text += &steady(&String::from_utf8_lossy(&output.stdout));
    if !text.ends_with('\n') {
        text += "\n(no line end)\n";
    }
    for error in steady(&String::from_utf8_lossy(&output.stderr)).lines() {
        text += format!("! {error}").trim_end();
        text.push('\n');
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => text += &format!("? {code}\n"),
        None => text += "? killed\n",
    }
    text
}

/// Compares a file with what it should hold, or writes it.
fn compare(name: &str, file: &Path, printed: &str, update: bool) -> Option<String> {
    let expected = fs::read_to_string(file).unwrap_or_default();
    if expected == printed {
        return None;
    }
    if update {
        fs::write(file, printed).expect("a writable case");
        return None;
    }
    let lines = expected.lines().count().max(printed.lines().count());
    let (mut left, mut right) = (expected.lines(), printed.lines());
    for number in 1..=lines {
        let (want, got) = (left.next(), right.next());
        if want != got {
            let file = file.file_name().expect("files have names").to_string_lossy();
            let show = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
            return Some(format!(
                "{name}/{file}:{number}\n  expected: {}\n  printed:  {}\n",
                show(want),
                show(got)
            ));
        }
    }
    Some(format!("{name}: line ends differ\n"))
}

/// Replaces what differs between machines and runs.
fn steady(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        // Whether threads share cores depends on the machine.
        if line.starts_with("warning: ") && line.contains(" threads share ") {
            continue;
        }
        out += &steady_line(line);
    }
    out
}

/// JSON members whose values are measured.
const MEASURED: [&str; 14] = [
    "seconds",
    "mpps",
    "mpps_min",
    "mpps_max",
    "lookup_mpps",
    "build_ms",
    "bytes",
    "bytes_per_rule",
    "p50_ns",
    "p99_ns",
    "inserts_per_s",
    "removes_per_s",
    "reader_mpps",
    "value",
];

/// JSON members that say where and when something was measured.
const PROVENANCE: [&str; 3] = ["commit", "machine", "date"];

fn steady_line(line: &str) -> String {
    for name in PROVENANCE {
        let member = format!("\"{name}\": \"");
        if line.trim_start().starts_with(&member) {
            let head = &line[..line.find(&member).unwrap_or_default()];
            let comma = if line.trim_end().ends_with(',') { "," } else { "" };
            return format!("{head}{member}X\"{comma}\n");
        }
    }
    for name in MEASURED {
        let member = format!("\"{name}\": ");
        if let Some(at) = line.find(&member) {
            let (head, value) = line.split_at(at + member.len());
            let is_number = value.starts_with(|c: char| c.is_ascii_digit());
            let comma = if value.trim_end().ends_with(',') { "," } else { "" };
            if is_number {
                return format!("{head}N{comma}\n");
            }
        }
    }
    // The summary: '10 packets in 1.2 ms (3 Mpps): …'.
    if let (Some(start), Some(end)) =
        (line.find(" packets in ").or(line.find(" packet in ")), line.find("): "))
    {
        let start = start + line[start..].find(" in ").unwrap_or_default();
        return format!("{} in T (R{}", &line[..start], &line[end..]);
    }
    line.to_owned()
}

/// Commands that have examples in a help of their own; those of `top` need a router (`top.rs`).
const COMMANDS: [&str; 26] = [
    "",
    "run",
    "check",
    "flatten",
    "graph",
    "demo",
    "classify",
    "explain",
    "ids",
    "rules",
    "rules check",
    "rules stats",
    "rules convert",
    "rules expand",
    "generate",
    "generate rules",
    "generate trace",
    "generate pcap",
    "generate routes",
    "bench",
    "bench classify",
    "bench routes",
    "bench gpu",
    "bench scan",
    "bench storm",
    "elements",
];

#[test]
fn the_examples_in_the_help_run_as_pasted() {
    let mut count = 0;
    for command in COMMANDS {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let help = run_command(&format!("warpswitch {command} --help"), folder.path());
        let examples = help.split_once("\nExamples:\n").map_or("", |(_, examples)| examples);
        let starts = ["warpswitch", "echo ", "printf "];
        let is_command = |line: &&str| starts.iter().any(|start| line.starts_with(start));
        for line in examples.lines().map(str::trim).filter(is_command) {
            assert!(line.len() <= 78, "wraps on a terminal of 80 columns: {line}");
            // The demo and full sizes take long in a build for tests.
            if line == "warpswitch demo" {
                continue;
            }
            let line = line.replace("1M", "2K").replace("10K", "1K");
            let quick = |line: String, command: &str| {
                // Of changes one has to be made, on a busy machine, too.
                let run_ms = if line.contains("--updates") { 50 } else { 2 };
                line.replace(command, &format!("{command} --run-ms {run_ms} --runs 1"))
            };
            let line = quick(line, "bench classify").replace("bench scan", "bench scan --runs 1");
            let is_smoke = line.contains("--smoke");
            let smoke = if is_smoke { "bench storm" } else { "bench storm --smoke" };
            let line = line.replace("bench storm", smoke);
            let others = ["--agree", "--hashes", "--latency"];
            let takes_rates =
                line.contains("bench gpu") && !others.iter().any(|other| line.contains(other));
            let line = match (takes_rates, line.contains("--batch")) {
                (false, _) => line,
                (true, true) => quick(line, "bench gpu") + " --keys 2K",
                (true, false) => quick(line, "bench gpu") + " --keys 2K --batch 1K",
            };
            let line = if line.contains("--updates") { quick(line, "bench routes") } else { line };
            let printed = run_command(&line, folder.path());
            // Findings that are denied are what that example is about.
            let fails = printed.contains("\n? ") && !line.contains("--deny");
            assert!(!fails, "in the help of '{command}': {printed}");
            count += 1;
        }
    }
    assert!(count > 30, "only {count} examples were found");
}

#[test]
fn measured_numbers_are_replaced_and_others_kept() {
    assert_eq!(steady("  \"mpps\": 1.5,\n"), "  \"mpps\": N,\n");
    assert_eq!(steady("  \"mpps\": null,\n"), "  \"mpps\": null,\n");
    assert_eq!(steady("  \"packets\": 15,\n"), "  \"packets\": 15,\n");
    assert_eq!(steady("  \"commit\": \"1a2b\",\n"), "  \"commit\": \"X\",\n");
    let line = "2 packets in 1.5 ms (3 Kpps): tuple on 1 thread, 3 rules\n";
    assert_eq!(steady(line), "2 packets in T (R): tuple on 1 thread, 3 rules\n");
}
