//! Runs the shell commands of a test, each of which must succeed.
//!
//! The shell runs them with `-e` in the folder of the test; before each it writes the line of the
//! command to file descriptor 9, so that the one that failed can be told.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::format::{Script, Test};

/// Tells which part of a test runs; what it prints is not compared.
const PRELUDE: &str = "clicktest_subtest () { echo clicktest_subtest \"$@\"; \
                       echo clicktest_subtest \"$@\" >&2; }\n";

/// Longest wait between two looks at a running test.
const POLL_MAX: Duration = Duration::from_millis(20);

/// Characters of a command that a report shows.
const SHOWN_MAX: usize = 60;

/// Where a test runs.
pub struct Place<'a> {
    /// Its folder.
    pub folder: &'a Path,
    /// The folder of all tests; what scripts call `./x` lies beside it.
    pub top: &'a Path,
    /// Where programs are.
    pub path: &'a str,
    /// How long it may take.
    pub limit: Duration,
}

/// Which commands run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Those that tell whether the test can run; what they print is not kept.
    Require,
    /// The test.
    Script,
}

/// How commands ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// All succeeded.
    Well,
    /// One did not.
    Badly {
        /// Its line in the file.
        line: usize,
        /// The command.
        command: String,
        /// How it failed.
        why: String,
        /// What it said on standard error, if that can be told from what others said.
        text: String,
    },
}

/// Runs commands.
///
/// # Errors
/// A shell that cannot be started, files that cannot be written.
pub fn run(script: &Script, test: &Test, place: &Place<'_>, part: Part) -> Result<Ended> {
    let commands = commands(script);
    let (folder, name) = match part {
        Part::Require => (place.folder, "%require"),
        Part::Script => (place.folder, "%script"),
    };
    std::fs::write(folder.join(name), shell_text(&commands, &folder.join("%marks")))?;
    let keeps = |name: &str| part == Part::Script && test.mentions(name);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-e", name]).current_dir(folder).process_group(0);
    shell
        .env("PATH", place.path)
        .env("LC_ALL", "C")
        .env("rundir", place.top.parent().unwrap_or(place.top));
    shell.stdin(match keeps("stdin") {
        true => Stdio::from(File::open(folder.join("stdin"))?),
        false => Stdio::null(),
    });
    shell.stdout(match keeps("stdout") {
        true => Stdio::from(File::create(folder.join("stdout"))?),
        false => Stdio::null(),
    });
    shell.stderr(File::create(folder.join("stderr"))?);
    let mut child = shell.spawn().context("/bin/sh does not start")?;
    let status = wait(&mut child, place.limit)?;
    if status.is_some_and(|status| status.success()) {
        return Ok(Ended::Well);
    }
    let marks = std::fs::read_to_string(folder.join("%marks")).unwrap_or_default();
    let stderr = std::fs::read(folder.join("stderr")).unwrap_or_default();
    let why = match status {
        None => format!("no end within {} s", place.limit.as_secs()),
        Some(status) => told(status),
    };
    Ok(badly(&commands, &marks, &String::from_utf8_lossy(&stderr), why))
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "failure".to_owned(),
    }
}

fn badly(commands: &[Shell], marks: &str, stderr: &str, why: String) -> Ended {
    // Each mark is a line number and how many bytes of standard error came before it.
    let mark = marks.lines().last().unwrap_or_default();
    let mut words = mark.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
    let (line, said) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    let command = commands.iter().find(|command| command.line == line);
    let text = command.map_or_else(String::new, |c| String::from_utf8_lossy(&c.text).into_owned());
    let command = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let command = match command.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &command[..at]),
        None => command,
    };
    let text = stderr.get(said..).unwrap_or_default().to_owned();
    Ended::Badly { line, command, why, text }
}

/// Waits for the shell, but not for ever, and ends what it left running.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let mut status = None;
    while status.is_none() && start.elapsed() < limit {
        std::thread::sleep(pause);
        pause = (pause * 2).min(POLL_MAX);
        status = child.try_wait()?;
    }
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // The group may be gone, which is what is wanted.
    if let Some(group) = group {
        _ = kill_process_group(group, Signal::HUP);
        if status.is_none() {
            std::thread::sleep(POLL_MAX);
            _ = kill_process_group(group, Signal::KILL);
            child.wait()?;
        }
    }
    Ok(status)
}

/// One command of a script.
struct Shell {
    line: usize,
    text: Vec<u8>,
    /// Whether the shell still waits for its end when the line ends.
    is_open: bool,
}

/// What the shell is within of, line ends aside.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Within {
    single: bool,
    double: bool,
    back: bool,
    braces: usize,
}

impl Within {
    /// Reads one line; whether a backslash joins it with the next.
    fn read(&mut self, line: &[u8]) -> bool {
        let mut idx = 0;
        while let Some(&byte) = line.get(idx) {
            match byte {
                b'\'' if self.single => self.single = false,
                _ if self.single => {}
                b'\\' => {
                    if matches!(line.get(idx + 1), None | Some(b'\n')) {
                        return true;
                    }
                    idx += 1;
                }
                b'"' => self.double = !self.double,
                _ if self.double => {}
                b'\'' => self.single = true,
                b'`' => self.back = !self.back,
                b'{' => self.braces += 1,
                b'}' => self.braces = self.braces.saturating_sub(1),
                b'#' if idx == 0 || line[idx - 1].is_ascii_whitespace() => break,
                _ => {}
            }
            idx += 1;
        }
        false
    }
}

/// The commands of a script: lines, joined where quotes, braces or a backslash join them.
fn commands(script: &Script) -> Vec<Shell> {
    let mut commands: Vec<Shell> = Vec::new();
    let mut within = Within::default();
    let mut is_joined = false;
    for (number, line) in &script.lines {
        if is_joined && let Some(last) = commands.last_mut() {
            last.text.extend_from_slice(line);
        } else if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        } else {
            commands.push(Shell { line: *number, text: line.clone(), is_open: false });
        }
        let is_continued = within.read(line);
        is_joined = is_continued || within != Within::default();
        if let Some(last) = commands.last_mut() {
            let text = last.text.trim_ascii_end();
            last.is_open = text.ends_with(b"|") || text.ends_with(b"&&");
        }
    }
    commands
}

/// The text that the shell runs.
fn shell_text(commands: &[Shell], marks: &Path) -> Vec<u8> {
    let mut text = PRELUDE.as_bytes().to_vec();
    text.extend_from_slice(format!("exec 9>'{}'\n", marks.display()).as_bytes());
    let mut is_open = false;
    for command in commands {
        if !is_open {
            let line = command.line;
            let said = "$(wc -c <stderr 2>/dev/null)";
            text.extend_from_slice(format!("echo {line} {said} >&9\n").as_bytes());
        }
        let body = command.text.trim_ascii_start();
        match body.strip_prefix(b"./") {
            Some(rest) => {
                text.extend_from_slice(b"\"$rundir\"/");
                text.extend_from_slice(rest);
            }
            None => text.extend_from_slice(&command.text),
        }
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        is_open = command.is_open;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_apart() {
        let text =
            "a 'x\ny' \"{\"\n\n  b {\n c # it's\n}\nd \\\ne &&\nf\n./g `h\ni`\nj \"'\" # {\nk";
        let lines = text.split_inclusive('\n').enumerate();
        let lines = lines.map(|(idx, line)| (idx + 1, line.as_bytes().to_vec())).collect();
        let commands = commands(&Script { lines });
        let found: Vec<(usize, String, bool)> = commands
            .iter()
            .map(|c| (c.line, String::from_utf8_lossy(&c.text).into_owned(), c.is_open))
            .collect();
        let expected = [
            (1, "a 'x\ny' \"{\"\n", false),
            (4, "  b {\n c # it's\n}\n", false),
            (7, "d \\\ne &&\n", true),
            (9, "f\n", false),
            (10, "./g `h\ni`\n", false),
            (12, "j \"'\" # {\n", false),
            (13, "k", false),
        ];
        let expected = expected.map(|(line, text, open)| (line, text.to_owned(), open));
        assert_eq!(found, expected);
        let text = String::from_utf8(shell_text(&commands, Path::new("m"))).unwrap();
        assert!(text.contains("e &&\nf\necho 10 "), "no mark between the two:\n{text}");
        assert!(text.contains("\"$rundir\"/g `h\ni`\n"));
    }
}
