//! `warpswitch read` and `warpswitch write` as a user runs them, beside a router.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The command with these arguments in this folder.
fn warpswitch(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command
}

/// A router that is stopped when the test is over, however it ends.
struct Router(Child);

impl Drop for Router {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Runs a configuration with a control socket, and waits until it says that it listens.
fn start(folder: &Path, config: &str, place: &str) -> Router {
    std::fs::write(folder.join("test.click"), config).expect("a file");
    let mut command = warpswitch(folder, &["run", "test.click", "--control", place]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    errors.read_line(&mut line).expect("it says where");
    // What else it says must not stop it.
    std::thread::spawn(move || _ = errors.read_to_end(&mut Vec::new()));
    assert!(line.starts_with("'warpswitch top "), "{line}");
    Router(child)
}

/// Standard output, standard error stream, exit code.
fn told(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

const CONFIG: &str =
    "i :: Idle -> route :: StaticIPLookup(0.0.0.0/0 0) -> c :: Counter -> Discard;";

#[test]
fn handlers_are_read_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut router = start(folder.path(), CONFIG, "r.sock");
    let ask = |args: &[&str]| told(&warpswitch(folder.path(), args).output().expect("it starts"));
    let done = |text: &str| (text.to_owned(), String::new(), Some(0));
    assert_eq!(ask(&["read", "r.sock", "c.count"]), done("0\n"));
    assert_eq!(ask(&["write", "r.sock", "route.add", "192.0.2.0/24", "-", "0"]), done(""));
    let (table, _, _) = ask(&["read", "r.sock", "route.table"]);
    assert!(table.contains("192.0.2.0/24") && table.ends_with('\n'), "{table}");
    assert_eq!(ask(&["read", "r.sock", "route.lookup", "192.0.2.1"]).2, Some(0));
    // From the standard input, lines and all.
    let mut write = warpswitch(folder.path(), &["write", "r.sock", "route.ctrl", "-"]);
    let mut child = write.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = b"remove 192.0.2.0/24\nadd 198.51.100.0/24 0\n";
    child.stdin.take().expect("a pipe").write_all(lines).expect("it reads");
    assert_eq!(told(&child.wait_with_output().expect("it ends")), done(""));
    let (table, _, _) = ask(&["read", "r.sock", "route.table"]);
    assert!(!table.contains("192.0.2.0/24") && table.contains("198.51.100.0/24"), "{table}");
    assert_eq!(ask(&["write", "r.sock", "stop"]), done(""));
    assert!(router.0.wait().expect("it ends").success());
}

#[test]
fn what_is_not_there_or_refused_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let _router = start(folder.path(), CONFIG, "r.sock");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["read", "r.sock", "c.coutn"], 2, "did you mean 'c.count'?"),
        (&["read", "r.sock", "rouet.table"], 2, "did you mean 'route.table'?"),
        (&["read", "r.sock", "lits"], 2, "did you mean 'list'?"),
        (&["read", "r.sock", "c.count\nx"], 2, "one line"),
        // That one is written, and is not read.
        (&["write", "r.sock", "route.tabel", "x"], 2, "'route.tabel': "),
        (&["write", "r.sock", "route.addd", "x"], 2, "did you mean 'route.add'?"),
        (&["write", "r.sock", "route.add", "nonsense"], 1, "'route.add': "),
        (&["write", "r.sock", "route add", "x"], 2, "no spaces"),
        (&["read", "nobody.sock", "c.count"], 1, "start a router there"),
    ];
    for (args, exit, why) in cases {
        let (out, errors, code) =
            told(&warpswitch(folder.path(), args).output().expect("it starts"));
        assert_eq!((out.as_str(), code), ("", Some(exit)), "{args:?}: {errors}");
        assert!(errors.contains(why), "{args:?}: {errors}");
    }
}

#[test]
fn the_examples_of_their_help_run_as_pasted() {
    for (command, socket) in [("read", "routes.sock"), ("write", "changed.sock")] {
        let folder = tempfile::tempdir().expect("a folder");
        let help = warpswitch(folder.path(), &[command, "--help"]).output().expect("it starts");
        let (help, _, _) = told(&help);
        let (_, examples) = help.split_once("\nExamples:\n").expect("examples");
        let lines: Vec<&str> = examples.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        let (run, rest) = (lines[1], lines[2..].join(" && "));
        assert!(run.ends_with('&') && lines.len() >= 6, "{examples}");
        // Somebody who pastes them is slower than the router is to start.
        let wait = format!("for i in $(seq 600); do [ -S {socket} ] && break; sleep 0.05; done");
        let script = format!("{}; {run} run=$!; {wait}; {rest}; wait $run", lines[0]);
        let program = Path::new(env!("CARGO_BIN_EXE_warpswitch"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", program.parent().expect("a folder").display());
        let shell = Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env("PATH", path)
            .stdin(Stdio::null())
            .output();
        let (out, errors, code) = told(&shell.expect("a shell"));
        assert_eq!(code, Some(0), "{errors}");
        assert!(out.contains("/24"), "{out}");
    }
}
