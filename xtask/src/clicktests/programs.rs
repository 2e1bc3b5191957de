//! The programs that tests call: this project's under Click's names, or another build's.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fancy_regex::Regex;

use super::format::{Script, Test};
use crate::repo;

/// Names under which the program takes Click's command lines.
const NAMES: [&str; 2] = ["click", "click-flatten"];

/// What `click-buildtool provides` says yes to, beside the element classes.
const PROVIDED: &str = "userlevel umultithread int64 ip6 analysis standard";

/// Where programs are, in the order in which they are looked for.
pub struct Programs {
    path: String,
    /// The folder that was made; it goes when this goes.
    _made: Option<tempfile::TempDir>,
}

impl Programs {
    /// Those of `bin`, or this project's, which are built first.
    ///
    /// # Errors
    /// A folder that is not there, a build that fails.
    pub fn find(bin: Option<&Path>) -> Result<Self> {
        let (folder, made) = match bin {
            Some(bin) if !bin.is_dir() => bail!("--bin {}: no such folder", bin.display()),
            Some(bin) => (std::path::absolute(bin)?, None),
            None => {
                let made = make_own()?;
                (made.path().to_owned(), Some(made))
            }
        };
        let path = std::env::var("PATH").unwrap_or_default();
        Ok(Self { path: format!("{}:{path}", folder.display()), _made: made })
    }

    /// What the variable `PATH` is for tests.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A tool of Click that the test calls and that is not there.
    pub fn missing_tool(&self, test: &Test) -> Option<String> {
        let tools = tools(&test.require).into_iter().chain(tools(&test.script));
        let mut missing: Vec<String> = tools.filter(|tool| !self.has(tool)).collect();
        missing.dedup();
        (!missing.is_empty()).then(|| format!("tool {}", missing.join(", ")))
    }

    fn has(&self, tool: &str) -> bool {
        self.path.split(':').any(|folder| Path::new(folder).join(tool).exists())
    }
}

/// The tools of Click that commands call, in order.
fn tools(script: &Script) -> Vec<String> {
    let called = r"(?:^|[|;&(`]|\b(?:then|do|else|if|while)\s|[A-Z_]=\S*\s)\s*";
    let called =
        Regex::new(&format!("{called}(click-[a-z][a-z0-9-]*|click2[a-z]+|clicktest|testie)\\b"))
            .expect("the pattern is right");
    let mut tools = Vec::new();
    for (_, line) in &script.lines {
        let line = String::from_utf8_lossy(line);
        tools.extend(called.captures_iter(&*line).flatten().map(|found| found[1].to_owned()));
    }
    tools.dedup();
    tools
}

/// Elements of Click's test code whose names do not tell.
const TEST_ELEMENTS: [&str; 2] = ["NotifierDebug", "BlockThread"];

/// What a test that failed did not find: an element class of Click's test code, or a program that
/// is none of Click's.
pub fn missing_piece(stderr: &str) -> Option<String> {
    let class = Regex::new(r"(?:unknown element class|undeclared element) '([A-Za-z0-9]+)'")
        .expect("the pattern is right");
    let classes = class.captures_iter(stderr).flatten().map(|found| found[1].to_owned());
    let is_test = |name: &String| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        stem.ends_with("Test") || TEST_ELEMENTS.contains(&name.as_str())
    };
    if let Some(name) = classes.into_iter().find(is_test) {
        return Some(format!("test element {name}"));
    }
    let program =
        Regex::new(r"(?m)^[^\n:]*: \d+: ([a-z0-9_+-]+): not found$").expect("the pattern is right");
    program.captures(stderr).ok().flatten().map(|found| format!("program {}", &found[1]))
}

/// A folder with this project's program under Click's names.
fn make_own() -> Result<tempfile::TempDir> {
    let build = ["build", "--quiet", "--package", "warpswitch"];
    repo::must(repo::cargo().args(build), "building warpswitch")?;
    let program = repo::target().join("debug/warpswitch");
    let made = tempfile::tempdir()?;
    for name in NAMES {
        std::os::unix::fs::symlink(&program, made.path().join(name))?;
    }
    let classes = classes(&made.path().join("click"))?;
    let tool = made.path().join("click-buildtool");
    std::fs::write(&tool, buildtool(&classes))?;
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755))?;
    Ok(made)
}

/// The element classes of a `click`.
fn classes(click: &PathBuf) -> Result<String> {
    let output = Command::new(click)
        .args(["-q", "-e", "Idle", "-h", "classes"])
        .output()
        .with_context(|| format!("{} does not start", click.display()))?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() || text.trim().is_empty() {
        bail!("{} does not tell its element classes", click.display());
    }
    Ok(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// The script that answers `click-buildtool provides NAME…`.
fn buildtool(classes: &str) -> String {
    format!(
        "#!/bin/sh\n\
         if test \"$1\" != provides; then echo \"not provided: $1\" >&2; exit 1; fi\n\
         shift; missing=; all=\" {PROVIDED} {classes} \"\n\
         for name; do\n\
         case \"$all\" in *\" $name \"*) ;; *) missing=\"$missing $name\";; esac\n\
         done\n\
         test -z \"$missing\" || {{ echo \"not provided:$missing\" >&2; exit 1; }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_where_they_are_called() {
        let cases = [
            ("click-align A | click >B", "click-align"),
            ("click x | A=b click-pretty", "click-pretty"),
            ("if click-undead x; then", "click-undead"),
            ("echo `click-xform -p click-file`", "click-xform"),
            ("clicktest -V x; clicktest_subtest y", "clicktest"),
            ("cat click-align clicktests", ""),
        ];
        for (line, expected) in cases {
            let script = Script { lines: vec![(1, line.as_bytes().to_vec())] };
            assert_eq!(tools(&script).join(" "), expected, "{line}");
        }
    }

    #[test]
    fn what_is_not_there_is_told() {
        let of = |text: &str| missing_piece(text);
        let test = |name: &str| Some(format!("test element {name}"));
        assert_eq!(of("x:1: unknown element class 'BTest'"), test("BTest"));
        assert_eq!(
            of("x:1: undeclared element 'X'\nx:1: undeclared element 'NTest2'"),
            test("NTest2")
        );
        assert_eq!(of("x:7: unknown element class 'NotifierDebug'"), test("NotifierDebug"));
        assert_eq!(of("x:1: unknown element class 'Tester'"), None);
        assert_eq!(of("%script: 12: nc: not found\n"), Some("program nc".into()));
        assert_eq!(of("click: x: not found\n"), None);
    }

    #[test]
    fn what_is_provided_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        std::fs::write(&path, buildtool("Idle Tee")).unwrap();
        let run = |names: &[&str]| {
            let output = Command::new("/bin/sh").arg(&path).args(names).output().unwrap();
            (output.status.success(), String::from_utf8(output.stderr).unwrap())
        };
        assert_eq!(run(&["provides", "Tee", "int64"]), (true, String::new()));
        let told = "not provided: Hub linuxmodule\n".to_owned();
        assert_eq!(run(&["provides", "Hub", "Tee", "linuxmodule"]), (false, told));
        assert!(!run(&["build"]).0);
    }
}
