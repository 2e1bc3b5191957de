//! Commands that are interrupted while they write leave no partial files behind.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the command in `folder`; its standard input stays open, so that what reads it waits.
fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    let command = command.args(args).current_dir(folder).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries.map(|e| name(e).into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Waits for a partial file, sends the signal, and waits for the end.
fn interrupt(folder: &Path, child: &mut Child, signal: &str) -> ExitStatus {
    let start = Instant::now();
    while !names(folder).iter().any(|name| name.starts_with('.')) {
        assert!(start.elapsed() < PATIENCE, "no partial file: {:?}", names(folder));
        sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    loop {
        match child.try_wait().expect("it can be waited for") {
            Some(status) => return status,
            None if start.elapsed() > PATIENCE => {
                _ = child.kill();
                panic!("{signal} does not end it");
            }
            None => sleep(Duration::from_millis(5)),
        }
    }
}

#[test]
fn partial_files_are_removed() {
    for (signal, number) in [("HUP", 1), ("INT", 2), ("TERM", 15)] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let rules = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n";
        fs::write(folder.join("a.rules"), rules).expect("a file");
        let args = ["classify", "--rules", "a.rules", "--trace", "-", "--out", "results"];
        let mut child = start(folder, &args);
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(b"10.0.0.1 10.0.0.2 1 2 6\n").expect("it is read");
        let status = interrupt(folder, &mut child, signal);
        assert_eq!((status.signal(), names(folder)), (Some(number), vec!["a.rules".to_owned()]));
    }
}

#[test]
fn a_run_ends_in_order() {
    for signal in ["HUP", "INT", "TERM"] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let config = "RatedSource(RATE 10) -> ToDump(out.pcap)";
        fs::write(folder.join("a.click"), config).expect("a file");
        let mut child = start(folder, &["run", "a.click"]);
        let status = interrupt(folder, &mut child, signal);
        assert_eq!(
            (status.code(), names(folder)),
            (Some(0), ["a.click", "out.pcap"].map(str::to_owned).into()),
            "{signal}"
        );
    }
}

#[test]
fn what_is_to_be_ignored_is_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("a.click"), "RatedSource(RATE 10) -> ToDump(out.pcap)").expect("a file");
    let program = env!("CARGO_BIN_EXE_warpswitch");
    let script = format!("trap '' HUP; exec '{program}' run a.click");
    let mut command = Command::new("sh");
    let command = command.args(["-c", &script]).current_dir(folder);
    let mut child = command.stdin(Stdio::null()).spawn().expect("sh starts");
    let start = Instant::now();
    while names(folder).len() < 2 {
        assert!(start.elapsed() < PATIENCE, "it does not run");
        sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "HUP", &id]).status();
    assert!(sent.expect("kill runs").success());
    sleep(Duration::from_millis(200));
    assert!(child.try_wait().expect("it can be waited for").is_none(), "it ignores HUP");
    assert_eq!(interrupt(folder, &mut child, "TERM").code(), Some(0));
}
