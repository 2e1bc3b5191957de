//! `warpswitch top` as a user runs it: beside a router, and beside what is none.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// The command with these arguments in this folder.
fn warpswitch(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command
}

/// Runs a configuration with a control socket, and waits until it says where that is.
fn start(folder: &Path, config: &str, place: &str) -> (Child, String) {
    std::fs::write(folder.join("test.click"), config).expect("a file");
    let mut command = warpswitch(folder, &["run", "test.click", "--control", place]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    errors.read_line(&mut line).expect("it says where");
    // What else it says must not stop it.
    std::thread::spawn(move || _ = errors.read_to_end(&mut Vec::new()));
    let open = line.strip_prefix("'warpswitch top ").and_then(|rest| rest.split('\'').next());
    (child, open.unwrap_or_else(|| panic!("it said: {line}")).to_owned())
}

fn top(folder: &Path, args: &[&str]) -> Output {
    warpswitch(folder, &[&["top"], args].concat()).output().expect("it starts")
}

/// Standard output, standard error stream, exit code.
fn told(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

const RATED: &str = "src :: RatedSource(DATA abcd, RATE 2000) -> t :: Tee -> Discard;
    t[1] -> q :: Queue(5) -> Idle;";

#[test]
fn a_router_is_watched_over_both_kinds_of_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    for place in ["router.sock", "0", "127.0.0.1:0"] {
        let (mut child, place) = start(folder.path(), RATED, place);
        let json = top(folder.path(), &[&place, "--json", "--count", "2", "--interval", "0.3"]);
        let (lines, errors, code) = told(&json);
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{place}");
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 2);
        let last = &lines[1];
        assert!(last["seconds"].as_f64() >= Some(0.3) && last["counts_costs"] == true);
        let names: Vec<&str> = last["elements"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|element| element["name"].as_str().expect("a name"))
            .collect();
        assert_eq!(names, ["src", "t", "Discard@3", "q", "Idle@5"]);
        let (src, q) = (&last["elements"][0], &last["elements"][3]);
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        assert!(number(&src["packets_per_s"]) > 0.0 && number(&src["ns_per_packet"]) > 0.0);
        assert_eq!(number(&src["bytes"]), 4.0 * number(&src["packets"]));
        assert_eq!((&q["class"], &q["held"]), (&"Queue".into(), &5.into()));
        assert_eq!(q["drops"][0]["reason"], "full");
        assert!(number(&q["drops_per_s"]) > 0.0);
        let once = top(folder.path(), &[&place, "--once", "--interval", "0.2", "--sort", "order"]);
        let (table, errors, code) = told(&once);
        assert_eq!((errors.as_str(), code), ("", Some(0)));
        let first: Vec<&str> =
            table.lines().map(|l| l.trim().split("  ").next().unwrap()).collect();
        assert_eq!(first, [place.as_str(), "element", "src", "t", "Discard@3", "q", "Idle@5"]);
        assert!(table.contains("full") && !table.contains('\x1b'), "{table}");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        _ = std::fs::remove_file(folder.path().join("router.sock"));
    }
}

#[test]
fn a_router_that_stops_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "InfiniteSource(LIMIT 1) -> Discard; Script(wait 0.5s, stop);";
    let (mut child, place) = start(folder.path(), config, "router.sock");
    let (lines, errors, code) = told(&top(folder.path(), &[&place, "--json", "--interval", "0.1"]));
    let why = "error: router.sock: the router has stopped, or closed the connection\n";
    assert_eq!((errors.as_str(), code), (why, Some(1)), "{lines}");
    assert!(lines.lines().count() >= 1);
    assert!(child.wait().expect("it ends").success());
}

/// What `top` says about a listener that says `text` to whoever comes.
fn against(text: &[u8]) -> (String, String, Option<i32>) {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("x")).expect("a socket");
    let mut command = warpswitch(folder.path(), &["top", "x", "--once", "--interval", "0.01"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (mut stream, _) = listener.accept().expect("somebody comes");
    // It may go before all is said.
    _ = stream.write_all(text);
    _ = stream.shutdown(std::net::Shutdown::Write);
    told(&child.wait_with_output().expect("it ends"))
}

#[test]
fn what_is_no_router_is_told_and_harms_nothing() {
    let greeting = "Click::ControlSocket/1.3\r\n";
    let answer =
        |text: &str| format!("{greeting}200 OK\r\nDATA {}\r\n{text}", text.len()).into_bytes();
    let flood = [b'\n'; 1 << 20];
    let cases: [(Vec<u8>, &str); 6] = [
        (b"220 mail ready\r\n".to_vec(), "is not how a control socket greets"),
        (flood.to_vec(), "is not how a control socket greets"),
        (format!("{greeting}511 No handler\r\n").into_bytes(), "no handler 'stats'"),
        (answer("\x1b[2J\x1b]0;x\x07"), "it names no columns"),
        (answer("element\tclass\n"), "it has no column 'packets'"),
        (greeting.as_bytes().to_vec(), "closed the connection"),
    ];
    for (text, why) in cases {
        let start = Instant::now();
        let (out, errors, code) = against(&text);
        assert!(errors.contains(why) && errors.starts_with("error: "), "{errors}");
        assert_eq!((out.as_str(), code), ("", Some(1)));
        assert!(!errors.contains(|c: char| c.is_control() && c != '\n'), "{errors:?}");
        assert!(start.elapsed() < PATIENCE, "{why}");
    }
}

#[test]
fn the_examples_of_its_help_run_as_pasted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (help, _, _) = told(&top(folder.path(), &["--help"]));
    let (_, examples) = help.split_once("\nExamples:\n").expect("examples");
    let lines: Vec<&str> = examples.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 5, "{examples}");
    let (write, run) = (lines[0], lines[1]);
    // Somebody who pastes them is slower than the router is to start.
    let wait = "for i in $(seq 600); do [ -S rated.sock ] && break; sleep 0.05; done";
    let watch = lines[2..].join(" && ");
    let script = format!(
        "{write}; {run} run=$!; {wait}; {watch}; code=$?; kill $run; wait $run; exit $code"
    );
    let program = Path::new(env!("CARGO_BIN_EXE_warpswitch"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().expect("a folder").display());
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let (out, errors, code) = told(&output);
    assert_eq!(code, Some(0), "{errors}");
    // Two tables and two lines of JSON, each with its name and its class.
    assert_eq!(out.matches("RatedSource").count(), 8, "{out}");
}
