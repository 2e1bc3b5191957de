//! Control connections to the command as a whole: clients that behave, and clients that do not.

mod running;

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use running::{PATIENCE, connect, start, stop, talk};

#[test]
fn handlers_and_configurations_are_read_and_written_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let child = start(&path, "s :: InfiniteSource(LIMIT 5) -> c :: Counter -> Discard");
    assert_eq!(talk(&path, "read c.count"), "200 Read handler 'c.count' OK\nDATA 1\n5");
    assert_eq!(talk(&path, "read none.count"), "510 No element named 'none'\n");
    // The counter goes on with what it counted, in a configuration that holds it.
    let text = "write hotconfig s :: InfiniteSource(LIMIT 0) -> c :: Counter -> Discard\n";
    let told = talk(&path, &format!("{text}read c.count\n"));
    assert!(told.starts_with("200 Write handler 'hotconfig' OK\n"), "{told}");
    assert!(told.ends_with("DATA 1\n5"), "{told}");
    let told = talk(&path, "write hotconfig Counter\nread c.count\n");
    assert!(told.starts_with("520-Write handler 'hotconfig' error:\n520-"), "{told}");
    assert!(told.contains("\n520 Router could not be initialized!\n200 Read"), "{told}");
    let told = talk(&path, "write hotconfig x -> y\n");
    assert!(told.contains("undeclared element") && !told.contains("Router"), "{told}");
    let (said, code) = stop(&path, child);
    assert_eq!((said.as_str(), code), ("", Some(0)));
    assert!(!path.exists(), "the socket goes with the run");
}

#[test]
fn the_socket_of_a_run_stays_when_the_configuration_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, config) = (folder.path().join("socket"), folder.path().join("test.click"));
    std::fs::write(&config, "Idle -> c :: Counter -> Discard").expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    command.args(["run", "--allow-reconfigure", "--control"]).arg(&path).arg(&config);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    for _ in 0..3 {
        let answer = talk(&path, "write hotconfig Idle -> c :: Counter -> Discard\n");
        assert!(answer.starts_with("200 "), "{answer}");
        assert_eq!(talk(&path, "read c.count"), "200 Read handler 'c.count' OK\nDATA 1\n0");
    }
    let taken = format!("write hotconfig ControlSocket(unix, {})\n", path.display());
    let answer = talk(&path, &taken);
    assert!(answer.contains("Address already in use"), "{answer}");
    assert_eq!(stop(&path, child).1, Some(0));
}

#[test]
fn a_pipe_that_has_nothing_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    for (source, pieces) in [
        (
            "FromDump(-)",
            // A header and one and a half frames of two bytes; the rest.
            [
                "\u{00}\u{00}\u{00}\u{02}\u{00}\u{00}\u{00}\u{02}ab\0\0\0\0\0\0",
                "\0\0\0\0\0\u{02}\0\0\0\u{02}cd",
            ],
        ),
        ("FromIPSummaryDump(-, FIELDS src)", ["1.0.0.1\n1.0", ".0.2\n"]),
    ] {
        let config = format!("{source} -> c :: Counter -> Discard");
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
        command.args(["click", "-R", "-e", &config, "-u"]).arg(&path).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut pipe = child.stdin.take().expect("it was asked for");
        if source.starts_with("FromDump") {
            let header: [u32; 6] = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 96, 1];
            let frame_time = [0u32; 2];
            for word in header.into_iter().chain(frame_time) {
                pipe.write_all(&word.to_be_bytes()).expect("it reads");
            }
        }
        for (at, piece) in pieces.iter().enumerate() {
            pipe.write_all(piece.as_bytes()).expect("it reads");
            let expected = format!("200 Read handler 'c.count' OK\nDATA 1\n{}", at + 1);
            let start = Instant::now();
            while talk(&path, "read c.count\n") != expected {
                assert!(start.elapsed() < PATIENCE, "{source}: {at}");
            }
        }
        stop(&path, child);
    }
}

#[test]
fn a_socket_whose_listener_is_gone_is_taken_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).expect("a socket"));
    // A process that another test has just forked has the listener until it runs its program.
    while UnixStream::connect(&path).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let child = start(&path, "Idle -> Discard");
    assert_eq!(talk(&path, "read list\n").lines().next(), Some("200 Read handler 'list' OK"));
    let second = start(&path, "Idle -> Discard").wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        said.contains("Address already in use: it is open, here or in another process"),
        "{said}"
    );
    assert_eq!(stop(&path, child).1, Some(0));
    // What is no socket stays.
    std::fs::write(&path, "mine").expect("a file");
    let output = start(&path, "Idle -> Discard").wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), Some("mine"));
}

#[test]
fn who_misbehaves_is_answered_or_closed_and_nobody_else_notices() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let child = start(&path, "InfiniteSource(BURST 32) -> c :: Counter -> Discard");
    let half = {
        let mut stream = connect(&path);
        stream.write_all(b"read c.cou").expect("half a line");
        stream
    };
    // Asks a lot and never listens: it cannot say more than there is room for.
    let mut deaf = connect(&path);
    deaf.set_nonblocking(true).expect("no waiting");
    let (line, start) = ("read flatconfig\n".repeat(1000), Instant::now());
    while deaf.write(line.as_bytes()).is_ok() && start.elapsed() < PATIENCE {}
    // Garbage without a line end, far more than a line may have.
    let mut garbage = connect(&path);
    let bytes = vec![0xf7; 1 << 20];
    let sent = (0..20).take_while(|_| garbage.write_all(&bytes).is_ok()).count();
    assert_eq!(sent, 20, "it is passed over");
    garbage.write_all(b"\nquit\n").expect("it still takes commands");
    let mut told = String::new();
    garbage.read_to_string(&mut told).expect("an answer in time");
    assert!(told.ends_with("500 Line too long\r\n200 Goodbye!\r\n"), "{told}");
    // Packets went on all the while.
    let count = |told: String| -> u64 {
        told.rsplit('\n').next().and_then(|count| count.parse().ok()).expect("a count")
    };
    let before = count(talk(&path, "read c.count\n"));
    let after = count(talk(&path, "read c.count\n"));
    assert!(after > before && before > 0);
    drop((half, deaf));
    assert_eq!(stop(&path, child).1, Some(0));
}
