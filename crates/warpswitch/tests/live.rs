//! Captures that do not end: what they held so far is told while they go on, and nothing of it is
//! lost where a signal ends them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn conf(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conf").join(name)
}

/// Starts the command in `folder` and gives it a capture, which does not end before its input is
/// dropped.
fn start(folder: &Path, args: &[&str]) -> (Child, ChildStdin) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    let command = command.args(args).current_dir(folder).stdin(Stdio::piped());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let capture = fs::read(conf("captures/ids.pcap")).expect("a capture");
    stdin.write_all(&capture).expect("it is read");
    (child, stdin)
}

/// Sends a signal; gives the exit code and what was told.
fn end(mut child: Child, signal: &str) -> (Option<i32>, String) {
    let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    let mut told = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut told).expect("text");
    (child.wait().expect("it ends").code(), told)
}

/// Waits until a file has so many lines.
fn wait_for(path: &Path, lines: usize) -> String {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= lines {
            return text;
        }
        assert!(start.elapsed() < PATIENCE, "only {text:?}");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn alerts_of_a_stream_are_in_their_file_while_it_goes_on() {
    let rules = conf("ids.rules");
    let rules = rules.to_str().expect("UTF-8");
    for signal in ["INT", "TERM", "HUP"] {
        let folder = tempfile::tempdir().expect("a folder");
        let eve = folder.path().join("eve.json");
        fs::write(&eve, "old\n".repeat(20)).expect("a file");
        let args = ["ids", "--rules", rules, "--pcap", "-", "--out", "eve.json"];
        let (child, _stdin) = start(folder.path(), &args);
        let start = Instant::now();
        while fs::read_to_string(&eve).unwrap_or_default().starts_with("old") {
            assert!(start.elapsed() < PATIENCE, "it does not begin");
            sleep(Duration::from_millis(5));
        }
        let text = wait_for(&eve, 7);
        assert!(text.lines().all(|line| line.contains("\"event_type\":\"alert\"")), "{text}");
        let (code, told) = end(child, signal);
        assert_eq!(code, Some(0), "{told}");
        assert!(
            told.contains("interrupted; inspected the input read so far")
                && told.contains("7 alerts"),
            "{told}"
        );
        let text = wait_for(&eve, 8);
        assert!(text.lines().last().is_some_and(|line| line.contains("\"stats\"")), "{text}");
    }
}

#[test]
fn lines_come_out_while_the_stream_goes_on() {
    let rules = conf("ids.rules");
    let rules = rules.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    let all = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n";
    fs::write(folder.path().join("acl.rules"), all).expect("a file");
    for (args, lines) in [
        (["ids", "--rules", rules, "--pcap", "-"], 7),
        (["classify", "--rules", "acl.rules", "--pcap", "-"], 50),
    ] {
        let (mut child, stdin) = start(folder.path(), &args);
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        for _ in 0..lines {
            let mut line = String::new();
            out.read_line(&mut line).expect("text");
            assert!(line.ends_with('\n'), "{args:?}: {line:?}");
        }
        assert!(child.try_wait().expect("it can be asked").is_none());
        drop(stdin);
        out.read_to_end(&mut Vec::new()).expect("the rest");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn alerts_of_a_running_configuration_are_in_their_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let rule = "alert udp any any -> any any (msg:\"x\"; content:\"evil\"; sid:1;)";
    fs::write(folder.path().join("a.rules"), rule).expect("a file");
    let frame = "4500002000010000401165cb0a0000010a00010103e80050000c17ba6576696c";
    let config = format!(
        "RatedSource(RATE 50, DATA \\<{frame}>) -> IDSMatcher(RULES a.rules, OUT eve.json, \
         LINK ip) -> Discard;"
    );
    fs::write(folder.path().join("a.click"), config).expect("a file");
    let (mut child, _stdin) = start(folder.path(), &["run", "a.click"]);
    let text = wait_for(&folder.path().join("eve.json"), 3);
    assert!(text.lines().next().is_some_and(|line| line.ends_with('}')), "{text}");
    // Nothing asks it to end in order, and there is what was found before.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(wait_for(&folder.path().join("eve.json"), 3).ends_with('\n'));
}
