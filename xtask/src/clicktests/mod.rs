//! Runs Click's regression files: `cargo xtask clicktests --dir DIR`.
//!
//! ```text
//! DIR/**/*.clicktest ─► format ─► script: shell commands in a folder ─► expect ─► report
//!                                   ▲
//!               PATH: programs ─────┘ click, click-flatten, click-buildtool
//! ```
//!
//! For anyone with a checkout of Click: `--dir ~/src/click/test`. A file is a shell script with its
//! inputs and what it must print. The programs that it calls are this project's under Click's
//! names, or, with `--bin`, those of any other build, for instance of Click itself. Of a file that
//! lies there under the suffix `.clicktest` and the older `.testie`, the former is taken.
//!
//! A test passes, fails, or *needs* something: its own requirements do not hold, it calls a tool or
//! an element of Click's test code that the programs do not have.

mod braces;
mod expect;
mod format;
mod programs;
mod report;
mod script;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::repo;
use format::Test;
use programs::Programs;
use report::{Outcome, TestReport};
use script::Ended;

/// Tests that run at once.
const JOBS: usize = 2;
/// Seconds that a test may take, as Click's own driver has it.
const SECONDS_MAX: u64 = 45;

/// What the command line asks for.
struct Options {
    dir: PathBuf,
    bin: Option<PathBuf>,
    keep: Option<PathBuf>,
    limit: Duration,
    jobs: usize,
    is_json: bool,
    names: Vec<String>,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let mut args = args.to_vec();
        let mut take = |name: &str| repo::take_value(&mut args, name);
        let Some(dir) = take("--dir")? else {
            bail!("--dir DIR is needed: Click's folder 'test', or one like it");
        };
        let bin = take("--bin")?.map(PathBuf::from);
        let keep = take("--keep")?.map(PathBuf::from);
        let seconds = take("--seconds")?.map_or(Ok(SECONDS_MAX), |text| text.parse());
        let jobs = take("--jobs")?.map_or(Ok(JOBS), |text| text.parse());
        let is_json = repo::take_flag(&mut args, "--json");
        if let Some(unknown) = args.iter().find(|arg| arg.starts_with('-')) {
            bail!("clicktests has no option '{unknown}'");
        }
        Ok(Self {
            dir: dir.into(),
            bin,
            keep,
            limit: Duration::from_secs(seconds.context("--seconds needs a number")?),
            jobs: jobs.context("--jobs needs a number")?.max(1),
            is_json,
            names: args,
        })
    }
}

/// Runs the tests whose names hold one of the given ones, or all.
///
/// # Errors
/// Bad arguments, programs that cannot be built, or a test that failed.
pub fn run(args: &[String]) -> Result<()> {
    let options = Options::read(args)?;
    let files = chosen(&options)?;
    let programs = Programs::find(options.bin.as_deref())?;
    let done = run_all(&files, &options, &programs)?;
    match options.is_json {
        true => println!("{}", serde_json::to_string_pretty(&done)?),
        false => print!("{}", report::table(&done)),
    }
    let failed = done.iter().filter(|test| matches!(test.outcome, Outcome::Failed { .. })).count();
    if failed > 0 {
        bail!("{failed} of {} tests failed", done.len());
    }
    Ok(())
}

/// The files to run, with their names: path below the folder, without suffix.
fn chosen(options: &Options) -> Result<Vec<(String, PathBuf)>> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let mut folders = vec![options.dir.clone()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot list {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if is_test(&path) {
                let below = path.strip_prefix(&options.dir).unwrap_or(&path);
                files.push((below.with_extension("").display().to_string(), path));
            }
        }
    }
    // Of two suffixes the newer, `.clicktest`, comes first.
    files.sort();
    files.dedup_by(|second, first| second.0 == first.0);
    if !options.names.is_empty() {
        files.retain(|(name, _)| options.names.iter().any(|part| name.contains(part.as_str())));
    }
    if files.is_empty() {
        bail!("no file of {} is a test that was asked for", options.dir.display());
    }
    Ok(files)
}

fn is_test(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(['.', '#']));
    !is_hidden && path.extension().is_some_and(|suffix| suffix == "clicktest" || suffix == "testie")
}

/// Runs files, some at once; the outcomes are in the order of the files.
fn run_all(
    files: &[(String, PathBuf)],
    options: &Options,
    programs: &Programs,
) -> Result<Vec<TestReport>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let network = Mutex::new(());
    std::thread::scope(|scope| {
        let work = || loop {
            let idx = next.fetch_add(1, Ordering::Relaxed);
            let Some((name, path)) = files.get(idx) else { return };
            // Members of the same multicast group would hear those of another test.
            let is_shared = name.contains("McastSocket");
            let _alone = is_shared.then(|| network.lock().expect("no test panics"));
            let reports = run_file(name, path, options, programs);
            done.lock().expect("no test panics while it reports").push((idx, reports));
        };
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| worker.join().expect("tests do not panic"));
    });
    let mut done = done.into_inner().expect("no test panics while it reports");
    done.sort_by_key(|(idx, _)| *idx);
    let reports = done.into_iter().map(|(_, reports)| reports).collect::<Result<Vec<_>>>()?;
    Ok(reports.concat())
}

/// Runs the tests of one file.
fn run_file(
    name: &str,
    path: &Path,
    options: &Options,
    programs: &Programs,
) -> Result<Vec<TestReport>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let tests = match format::parse(&bytes, path) {
        Ok(tests) => tests,
        Err(told) => {
            let outcome = Outcome::Failed { at: path.display().to_string(), told };
            return Ok(vec![TestReport { name: name.to_owned(), seconds: 0.0, outcome }]);
        }
    };
    let mut reports = Vec::new();
    for (idx, test) in tests.iter().enumerate() {
        let name = if idx == 0 { name.to_owned() } else { format!("{name}<{}>", idx + 1) };
        let start = Instant::now();
        let outcome = run_test(&name, test, options, programs)?;
        reports.push(TestReport { name, seconds: start.elapsed().as_secs_f64(), outcome });
    }
    Ok(reports)
}

fn run_test(name: &str, test: &Test, options: &Options, programs: &Programs) -> Result<Outcome> {
    let kept;
    let temporary;
    let folder = match &options.keep {
        Some(keep) => {
            kept = std::path::absolute(keep)?.join(name);
            // What an earlier run left would be taken for this one's.
            _ = std::fs::remove_dir_all(&kept);
            kept.as_path()
        }
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path()
        }
    };
    std::fs::create_dir_all(folder)?;
    if let Some(tool) = programs.missing_tool(test) {
        return Ok(Outcome::Needs { what: tool });
    }
    let place = script::Place {
        folder,
        top: &std::path::absolute(&options.dir)?,
        path: programs.path(),
        limit: options.limit,
    };
    if !test.require.is_empty() {
        match script::run(&test.require, test, &place, script::Part::Require)? {
            Ended::Well => {}
            Ended::Badly { command, text, .. } => {
                let told = text.lines().find(|line| !line.trim().is_empty());
                return Ok(Outcome::Needs { what: told.unwrap_or(&command).trim().to_owned() });
            }
        }
    }
    test.write_files(folder)?;
    let ended = script::run(&test.script, test, &place, script::Part::Script)?;
    let told = std::fs::read(folder.join("stderr")).unwrap_or_default();
    let outcome = match ended {
        Ended::Badly { line, command, why, text } => {
            let text = text.lines().filter(|l| !l.trim().is_empty()).collect::<Vec<_>>();
            let told = match text.is_empty() {
                true => format!("{why} at '{command}'"),
                false => format!("{why} at '{command}': {}", text.join(" | ")),
            };
            Outcome::Failed { at: format!("line {line}"), told }
        }
        Ended::Well => match expect::first_difference(test, folder)? {
            None => return Ok(Outcome::Passed),
            Some(difference) => difference,
        },
    };
    match programs::missing_piece(&String::from_utf8_lossy(&told)) {
        Some(what) => Ok(Outcome::Needs { what }),
        None => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one file of text as a test would be, with the shell's programs only.
    fn outcome_of(text: &str) -> Vec<Outcome> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("standard")).unwrap();
        std::fs::write(folder.path().join("standard/it-01.clicktest"), text).unwrap();
        std::fs::write(folder.path().join("standard/it-01.testie"), "%script\nfalse\n").unwrap();
        let dir = folder.path().display().to_string();
        let args = ["--dir", &dir, "--bin", &dir, "--seconds", "1"].map(str::to_owned);
        let options = Options::read(&args).unwrap();
        let programs = Programs::find(options.bin.as_deref()).unwrap();
        let files = chosen(&options).unwrap();
        assert_eq!(files.len(), 1, "the older suffix is passed over");
        assert_eq!(files[0].0, "standard/it-01");
        let done = run_all(&files, &options, &programs).unwrap();
        done.into_iter().map(|test| test.outcome).collect()
    }

    fn failed(at: &str, told: &str) -> Outcome {
        Outcome::Failed { at: at.to_owned(), told: told.to_owned() }
    }

    #[test]
    fn tests_run_in_a_folder_of_their_own() {
        let text = "%script\ncat in.txt other/x\n./nothing-here || echo none >&2\n\
            %file in.txt other/x\nhello\n%expect stdout\nhello\nhell{{[aeiou]}}\n\
            %expect stderr\n{{.*}}\nnone\n";
        assert_eq!(outcome_of(text), [Outcome::Passed]);
        let text = "%script\ntest ! -e left && touch left\n%eot\n%script\n\
            test ! -e left\necho $rundir | grep -q /\n";
        assert_eq!(outcome_of(text), [Outcome::Passed, Outcome::Passed]);
    }

    #[test]
    fn what_is_missing_is_needed() {
        let needs = |what: &str| Outcome::Needs { what: what.to_owned() };
        let text = "%require\nfalse # no such thing\n%script\nfalse\n";
        assert_eq!(outcome_of(text), [needs("false # no such thing")]);
        let text = "%require -q\necho 'no such machine' >&2; exit 3\n%script\nfalse\n";
        assert_eq!(outcome_of(text), [needs("no such machine")]);
        let text = "%script\necho a |click-frobnicate -x\n";
        assert_eq!(outcome_of(text), [needs("tool click-frobnicate")]);
        let text = "%script\necho \"c:1: unknown element class 'HeapTest'\" >&2; exit 1\n";
        assert_eq!(outcome_of(text), [needs("test element HeapTest")]);
    }

    #[test]
    fn failures_name_their_line_and_what_differs() {
        let text = "%script\ntrue\n\necho 'why' >&2\n(exit 4)\n";
        assert_eq!(outcome_of(text), [failed("line 5", "exit status 4 at '(exit 4)'")]);
        let text = "%script\necho 'why' >&2; false\n";
        let told = "exit status 1 at 'echo 'why' >&2; false': why";
        assert_eq!(outcome_of(text), [failed("line 2", told)]);
        let text = "%script\nsleep 30\n";
        assert_eq!(outcome_of(text), [failed("line 2", "no end within 1 s at 'sleep 30'")]);
        let text = "%script\necho a; echo b\n%expect stdout\na\nc\n";
        assert_eq!(outcome_of(text), [failed("line 5", "stdout:2: expected 'c', got 'b'")]);
        let text = "%script\necho a; echo b\n%expect stdout\na\n";
        assert_eq!(outcome_of(text), [failed("line 5", "stdout:2: expected its end, got 'b'")]);
        let text = "%script\n:\n%expect nothing\na\n";
        assert_eq!(outcome_of(text), [failed("line 4", "nothing: was not written")]);
        let text = "%script\n:\n%strange\na\n";
        assert!(matches!(&outcome_of(text)[..], [Outcome::Failed { told, .. }]
            if told == "line 3: no section is called 'strange'"));
    }
}
