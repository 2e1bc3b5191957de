//! `demo --live`: its summary, and its cleanup after a normal end, signals and SIGKILL.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use warpswitch_runtime::is_ignored;

use crate::netns::Namespace;
use crate::running::PATIENCE;
use crate::with;

/// Starts the demo, in a folder that has no files, and waits until its traffic flows; returns it
/// with the namespaces that it made.
fn start(seconds: &str) -> (Child, BufReader<std::process::ChildStdout>, BTreeSet<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_warpswitch"))
        .args(["demo", "--live", "--duration", seconds])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the demo starts");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("pings answered") {
        line.clear();
        assert!(out.read_line(&mut line).expect("a line") > 0, "{}", errors(child));
    }
    let made = namespaces_of(&Path::new("/proc").join(child.id().to_string()));
    assert_eq!(made.len(), 3, "two hosts and a router: {made:?}");
    (child, out, made)
}

fn errors(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Namespaces that a process has open, such as `net:[4026532388]`.
fn namespaces_of(process: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let names = targets.map(|target| target.display().to_string());
    names.filter(|name| name.starts_with("net:[")).collect()
}

/// Whether a process or a mount still keeps one of these namespaces.
fn is_kept(made: &BTreeSet<String>) -> bool {
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let by_process = processes.into_iter().any(|process| {
        let own = fs::read_link(process.join("ns/net")).ok();
        let own = own.map(|own| own.display().to_string());
        own.is_some_and(|own| made.contains(&own)) || !namespaces_of(&process).is_disjoint(made)
    });
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    by_process || made.iter().any(|name| mounts.contains(name))
}

fn assert_nothing_left(made: &BTreeSet<String>) {
    let start = Instant::now();
    while is_kept(made) {
        assert!(start.elapsed() < PATIENCE, "{made:?} are still there");
        sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Runs the demo to its end.
fn run(seconds: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    command.args(["demo", "--live", "--duration", seconds]).output().expect("the demo runs")
}

fn assert_summary(text: &str) {
    let line = |name: &str| {
        let mut lines = text.lines().filter(|line| line.trim_start().starts_with(name));
        lines.next_back().unwrap_or_else(|| panic!("no {name}: {text}")).to_owned()
    };
    let pings = line("pings");
    assert!(pings.contains("answered, median") && !pings.contains(" 0 of"), "{pings}");
    let stream = line("TCP stream");
    assert!(stream.contains("bit/s") && !stream.contains(" 0 B"), "{stream}");
    let forwarded = line("forwarded");
    assert!(forwarded.contains("packets") && !forwarded.contains(" 0 packets"), "{forwarded}");
    assert!(text.contains("dropped"), "{text}");
}

#[test]
fn live_demo_reports_its_traffic() {
    with(Namespace::new(), |_| {
        let output = run("1");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{messages}");
        assert_summary(&String::from_utf8_lossy(&output.stdout));
    });
}

#[test]
fn live_demo_ends_in_order_on_signals() {
    with(Namespace::new(), |_| {
        // Whoever runs the tests may ignore signals, and so does the demo then.
        let signals = [("INT", SIGINT), ("TERM", SIGTERM), ("HUP", SIGHUP)];
        for (name, _) in signals.into_iter().filter(|(_, number)| !is_ignored(*number)) {
            let (mut child, mut out, made) = start("600");
            signal(&child, name);
            let mut text = String::new();
            std::io::Read::read_to_string(&mut out, &mut text).expect("a summary");
            assert_eq!(child.wait().expect("it ends").code(), Some(0), "{name}");
            assert_summary(&text);
            assert_nothing_left(&made);
        }
    });
}

#[test]
fn killed_live_demo_leaves_nothing_behind() {
    with(Namespace::new(), |_| {
        let (mut child, out, made) = start("600");
        signal(&child, "KILL");
        child.wait().expect("it ends");
        drop(out);
        assert_nothing_left(&made);
        assert_eq!(run("1").status.code(), Some(0), "the next demo runs");
    });
}
