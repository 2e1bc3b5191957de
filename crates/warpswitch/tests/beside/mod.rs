//! A router with a control socket, and commands that are run beside it.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The command with these arguments in this folder.
pub fn warpswitch(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command
}

/// A router that is killed when a test is over, however it ends.
pub struct Router(pub Child);

impl Drop for Router {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Runs a configuration with a control socket, and waits until it says where that is.
pub fn start(folder: &Path, config: &str, place: &str) -> (Router, String) {
    std::fs::write(folder.join("test.click"), config).expect("a file");
    let mut command = warpswitch(folder, &["run", "test.click", "--control", place]);
    let mut router = Router(command.stderr(Stdio::piped()).spawn().expect("it starts"));
    let mut line = String::new();
    let mut errors = BufReader::new(router.0.stderr.take().expect("a pipe"));
    errors.read_line(&mut line).expect("it says where");
    // What else it says must not stop it.
    std::thread::spawn(move || _ = errors.read_to_end(&mut Vec::new()));
    let open = line.trim_end().strip_prefix("to watch the router: warpswitch top ");
    let open = open.unwrap_or_else(|| panic!("it said: {line}")).to_owned();
    (router, open)
}

/// Standard output, standard error stream, exit code.
pub fn told(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// The examples in the help of `command`, which begin with a router in the background that listens
/// at `socket`, as somebody pastes them; `end` is what becomes of the router, whose id is `$run`.
pub fn pasted(command: &str, socket: &str, end: &str) -> (String, String, Option<i32>) {
    let folder = tempfile::tempdir().expect("a folder");
    let help = warpswitch(folder.path(), &[command, "--help"]).output().expect("it starts");
    let (help, _, _) = told(&help);
    let (_, examples) = help.split_once("\nExamples:\n").expect("examples");
    let lines: Vec<&str> = examples.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let (write, run, rest) = (lines[0], lines[1], lines[2..].join(" && "));
    assert!(run.ends_with('&') && lines.len() >= 5, "{examples}");
    // Somebody who pastes them is slower than the router is to start.
    let wait = format!("for i in $(seq 600); do [ -S {socket} ] && break; sleep 0.05; done");
    let script =
        format!("{write}; {run} run=$!; {wait}; {rest}; code=$?; {end}; wait $run; exit $code");
    let program = Path::new(env!("CARGO_BIN_EXE_warpswitch"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("a folder").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(folder.path()).env("PATH", path);
    told(&shell.stdin(Stdio::null()).output().expect("a shell"))
}
