//! `warpswitch top` as a user runs it: beside a router, and beside what is none.

mod beside;

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use beside::{pasted, start, told, warpswitch};

const PATIENCE: Duration = Duration::from_secs(30);

fn top(folder: &Path, args: &[&str]) -> Output {
    warpswitch(folder, &[&["top"], args].concat()).output().expect("it starts")
}

const RATED: &str = "src :: RatedSource(DATA abcd, RATE 2000) -> t :: Tee -> Discard;
    t[1] -> q :: Queue(5) -> Idle;";

#[test]
fn a_router_is_watched_over_both_kinds_of_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    for place in ["router.sock", "0", "127.0.0.1:0"] {
        let (_router, place) = start(folder.path(), RATED, place);
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
        _ = std::fs::remove_file(folder.path().join("router.sock"));
    }
}

#[test]
fn a_router_that_stops_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "InfiniteSource(LIMIT 1) -> Discard; Script(wait 0.5s, stop);";
    let (mut router, place) = start(folder.path(), config, "router.sock");
    let (lines, errors, code) = told(&top(folder.path(), &[&place, "--json", "--interval", "0.1"]));
    let why = "error: router.sock: the router has stopped, or closed the connection\n";
    assert_eq!((errors.as_str(), code), (why, Some(1)), "{lines}");
    assert!(lines.lines().count() >= 1);
    assert!(router.0.wait().expect("it ends").success());
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
        (b"220 mail ready\r\n".to_vec(), "is not the greeting of a control socket"),
        (flood.to_vec(), "is not the greeting of a control socket"),
        (format!("{greeting}511 No handler\r\n").into_bytes(), "no handler 'stats'"),
        (answer("\x1b[2J\x1b]0;x\x07"), "the header line is missing"),
        (answer("element\tclass\n"), "missing column 'packets'"),
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
    let (out, errors, code) = pasted("top", "rated.sock", "kill $run");
    assert_eq!(code, Some(0), "{errors}");
    // Two tables and two lines of JSON, each with its name and its class.
    assert_eq!(out.matches("RatedSource").count(), 8, "{out}");
}
