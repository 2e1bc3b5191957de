//! `Socket` and `McastSocket` in a run, with peers that behave, and peers that do not.

mod running;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use running::{PATIENCE, start, stop, talk};

/// What handler `name` says.
fn read(path: &Path, name: &str) -> String {
    let told = talk(path, &format!("read {name}\n"));
    assert!(told.starts_with("200 "), "{name}: {told}");
    told.splitn(3, '\n').nth(2).expect("data").to_owned()
}

/// Waits until handler `name` says something that is `right`.
fn await_that(path: &Path, name: &str, right: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let told = read(path, name);
        if right(&told) {
            return told;
        }
        assert!(start.elapsed() < PATIENCE, "{name} says {told}");
    }
}

fn call(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// Reads `len` bytes.
fn hear(stream: &mut impl Read, len: usize) -> String {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).expect("they come in time");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_tcp_server_has_one_peer_after_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let config = "s :: Socket(TCP, 127.0.0.1, 0, SNAPLEN 3, VERBOSE true) -> Queue -> s";
    let child = start(&path, config);
    let address = read(&path, "s.local");
    let mut first = call(&address);
    first.write_all(b"hello").expect("it hears");
    assert_eq!(hear(&mut first, 5), "hello");
    // The second waits outside until the first goes.
    let mut second = call(&address);
    second.write_all(b"me too").expect("it hears");
    first.write_all(b"again").expect("it hears");
    assert_eq!(hear(&mut first, 5), "again");
    assert_eq!(read(&path, "s.peer"), first.local_addr().expect("it has one").to_string());
    drop(first);
    assert_eq!(hear(&mut second, 6), "me too");
    drop(second);
    await_that(&path, "s.peer", str::is_empty);
    // Each packet had three bytes at most.
    assert!(read(&path, "s.received").parse::<u32>().expect("a number") >= 6);
    let (said, code) = stop(&path, child);
    let told = ["opened connection 1 with 127", "closed connection 1", "opened connection 2 with"];
    assert!(told.iter().all(|told| said.contains(told)), "{said}");
    assert_eq!(code, Some(0));
}

#[test]
fn clients_call_again_and_lose_nothing_that_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, place) = (folder.path().join("control"), folder.path().join("server"));
    let listener = std::os::unix::net::UnixListener::bind(&place).expect("a socket");
    let (name, data) = (place.display(), "InfiniteSource(DATA abc, LIMIT 2, ACTIVE false)");
    let child = start(&path, &format!("i :: {data} -> s :: Socket(UNIX, {name})"));
    let send = || assert!(talk(&path, "write i.active true\n").starts_with("200"));
    let mut peer = listener.accept().expect("it calls").0;
    send();
    assert_eq!(hear(&mut peer, 6), "abcabc");
    // It hangs up; what comes meanwhile waits for the next call.
    drop(peer);
    await_that(&path, "s.peer", str::is_empty);
    talk(&path, "write i.reset\n");
    send();
    let mut peer: UnixStream = listener.accept().expect("it calls again").0;
    assert_eq!(hear(&mut peer, 6), "abcabc");
    await_that(&path, "s.sent", |sent| sent == "4");
    assert_eq!(stop(&path, child).1, Some(0));
}

#[test]
fn datagrams_are_answered_and_a_new_configuration_has_the_same_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let config = "s :: Socket(UDP, 127.0.0.1, 0); s -> s";
    let child = start(&path, config);
    let address = read(&path, "s.local");
    let peers = [0; 2].map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket"));
    let echo = |text: &str| {
        for peer in &peers {
            peer.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            peer.send_to(text.as_bytes(), &address).expect("it is sent");
            let mut bytes = [0; 4096];
            let len = peer.recv(&mut bytes).expect("an answer in time");
            assert_eq!(std::str::from_utf8(&bytes[..len]), Ok(&text[..text.len().min(2048)]));
        }
    };
    echo("a");
    echo("");
    echo(&"long".repeat(1000));
    assert!(talk(&path, &format!("write hotconfig {config}\n")).starts_with("200"));
    echo("b");
    assert_eq!((read(&path, "s.local"), read(&path, "s.received")), (address.clone(), "8".into()));
    // One that cannot be leaves all as it was.
    let told = talk(&path, "write hotconfig Socket(UDP, 127.0.0.1, 0) -> Idle; x :: Foo\n");
    assert!(told.starts_with("520"), "{told}");
    echo("c");
    assert_eq!(stop(&path, child).1, Some(0));
}

/// Sends until the other side has taken nothing for a while, and never reads.
fn flood(stream: &mut TcpStream) {
    stream.set_nonblocking(true).expect("a socket");
    let (bytes, start, mut refusals) = (b"secret".repeat(1000), Instant::now(), 0);
    while refusals < 50 && start.elapsed() < Duration::from_secs(1) {
        refusals = if stream.write(&bytes).is_ok() { 0 } else { refusals + 1 };
        std::thread::sleep(Duration::from_millis(u64::from(refusals > 0)));
    }
}

/// Reads until there is no more.
fn hear_all(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it ends in time");
    text
}

#[test]
fn what_is_for_a_peer_is_not_for_the_next() {
    for back in ["s -> s", "s -> Queue -> s", "s -> Queue -> Unqueue -> s"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control");
        let child = start(&path, &format!("s :: Socket(TCP, 127.0.0.1, 0, SNDBUF 4096); {back}"));
        let address = read(&path, "s.local");
        for _ in 0..3 {
            let (mut deaf, mut next) = (call(&address), call(&address));
            flood(&mut deaf);
            drop(deaf);
            next.write_all(b"mine").expect("it hears");
            assert_eq!(hear(&mut next, 4), "mine", "{back}");
            next.shutdown(Shutdown::Write).expect("a half-close");
            assert_eq!(hear_all(&mut next), "", "{back}");
        }
        assert_eq!(stop(&path, child).1, Some(0));
    }
}

#[test]
fn a_peer_that_said_its_last_is_answered() {
    for back in ["s -> s", "s -> Queue -> s", "s -> Queue -> Unqueue -> s"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control");
        let child = start(&path, &format!("s :: Socket(TCP, 127.0.0.1, 0, SNDBUF 4096); {back}"));
        let address = read(&path, "s.local");
        for len in [1, 10, 100_000, 1] {
            let (mut peer, text) = (call(&address), "x".repeat(len));
            peer.write_all(text.as_bytes()).expect("it hears");
            peer.shutdown(Shutdown::Write).expect("a half-close");
            assert!(hear_all(&mut peer) == text, "{back}, {len} bytes");
        }
        // One that hears no more is let go all the same, also if it leaves answers unread.
        for len in [0, 1, 100_000] {
            let mut peer = call(&address);
            peer.write_all(&vec![b'x'; len]).expect("it hears");
        }
        let mut peer = call(&address);
        peer.write_all(b"end").expect("it hears");
        peer.shutdown(Shutdown::Write).expect("a half-close");
        assert_eq!(hear_all(&mut peer), "end", "{back}");
        await_that(&path, "s.peer", str::is_empty);
        assert_eq!(stop(&path, child).1, Some(0));
    }
}

#[test]
fn datagrams_of_many_are_answered_to_each() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let child = start(&path, "s :: Socket(UDP, 127.0.0.1, 0); s -> s");
    let address = read(&path, "s.local");
    let peers = [0; 3].map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket"));
    for round in 0..50 {
        // Runs of one, two and three of each; less than a buffer holds.
        for (idx, peer) in peers.iter().enumerate() {
            for _ in 0..=idx {
                let text = format!("{idx} asks {round}");
                peer.send_to(text.as_bytes(), &address).expect("it is sent");
            }
        }
        if round % 5 < 4 {
            continue;
        }
        for (idx, peer) in peers.iter().enumerate() {
            peer.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            for at in 0..5 * (idx + 1) {
                let mut bytes = [0; 64];
                let len = peer.recv(&mut bytes).expect("an answer in time");
                let text = format!("{idx} asks {}", round - 4 + at / (idx + 1));
                assert_eq!(std::str::from_utf8(&bytes[..len]), Ok(&text[..]));
            }
        }
    }
    assert_eq!(stop(&path, child).1, Some(0));
}

#[test]
fn a_stream_has_no_broken_packet_in_its_midst() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let place = folder.path().join("server");
    let hot = |name: &str| {
        let config = format!(
            "RatedSource(DATA 0123456789a, LENGTH 60000, RATE 2000) -> {name} ::
            Socket(UNIX, {}, CAPACITY 20, SNDBUF 4096); {name} -> Discard;",
            place.display()
        );
        config.replace('\n', " ")
    };
    let child = start(&path, &hot("s"));
    read(&path, "s.local");
    let mut peer = UnixStream::connect(&place).expect("somebody listens");
    peer.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let full = |name: &str| await_that(&path, &format!("{name}.length"), |length| length == "20");
    full("s");
    let swap = |name| {
        let told = talk(&path, &format!("write hotconfig {}\n", hot(name)));
        assert!(told.starts_with("200"), "{told}");
    };
    // The same element goes on within the packet; another one cannot, and hangs up.
    swap("s");
    let mut bytes = vec![0; 200_000];
    peer.read_exact(&mut bytes).expect("it goes on");
    full("s");
    swap("t");
    let mut chunk = vec![0; 1 << 16];
    while let Ok(len @ 1..) = peer.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..len]);
        assert!(bytes.len() < 100 << 20, "it hangs up");
    }
    let right = |(at, &byte): (usize, &u8)| byte == b"0123456789a"[at % 60_000 % 11];
    assert_eq!(bytes.iter().enumerate().position(|byte| !right(byte)), None);
    assert_eq!(stop(&path, child).1, Some(0));
}

#[test]
fn datagrams_go_through_the_file_system_and_by_annotation() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, place) = (folder.path().join("control"), folder.path().join("server"));
    let name = place.display();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    udp.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let port = udp.local_addr().expect("it has one").port();
    let child = start(
        &path,
        &format!(
            "s :: Socket(UNIX_DGRAM, {name}) -> SetIPAddress(127.0.0.1) -> t :: Tee
            -> Queue -> Socket(UDP, 0.0.0.0, {port}, CLIENT true);
            t[1] -> s"
        ),
    );
    read(&path, "s.local");
    let client = UnixDatagram::bind(folder.path().join("client")).expect("a socket");
    client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    client.send_to(b"both ways", &place).expect("it is sent");
    let mut bytes = [0; 64];
    let len = client.recv(&mut bytes).expect("an answer in time");
    assert_eq!(&bytes[..len], b"both ways");
    let len = udp.recv(&mut bytes).expect("a datagram in time");
    assert_eq!(&bytes[..len], b"both ways");
    assert_eq!(stop(&path, child).1, Some(0));
    assert!(!place.exists(), "the socket goes with the run");
}

#[test]
fn who_is_not_allowed_is_not_heard() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let child = start(
        &path,
        "Idle -> allow :: StaticIPLookup(127.0.0.1/32 0)
        -> deny :: RadixIPLookup(0.0.0.0/0 0) -> Discard;
        none :: Socket(TCP, 127.0.0.1, 0, DENY deny) -> Discard;
        s :: Socket(TCP, 0.0.0.0, 0, ALLOW allow, DENY deny) -> Discard;
        u :: Socket(UDP, 0.0.0.0, 0, ALLOW allow, DENY deny) -> Discard",
    );
    let port = |name| read(&path, name).rsplit_once(':').expect("a port").1.to_owned();
    let (tcp, udp) = (port("s.local"), port("u.local"));
    let sender = |from: [u8; 4]| UdpSocket::bind((Ipv4Addr::from(from), 0)).expect("a socket");
    let send = |from| sender(from).send_to(b"x", format!("127.0.0.1:{udp}")).expect("it is sent");
    send([127, 0, 0, 2]);
    send([127, 0, 0, 1]);
    await_that(&path, "u.received", |count| count == "1");
    assert!(read(&path, "u.peer").starts_with("127.0.0.1:"));
    let mut refused = call(&format!("127.0.0.1:{}", port("none.local")));
    assert_eq!(refused.read(&mut [0]).ok(), Some(0), "it is closed at once");
    let mut allowed = call(&format!("127.0.0.1:{tcp}"));
    allowed.write_all(b"x").expect("it hears");
    await_that(&path, "s.received", |count| count == "1");
    assert_eq!(read(&path, "none.received"), "0");
    assert_eq!(stop(&path, child).1, Some(0));
}

#[test]
fn a_peer_that_does_not_read_costs_a_bounded_queue() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let child = start(
        &path,
        "InfiniteSource(BURST 32) -> c :: Counter
        -> s :: Socket(TCP, 127.0.0.1, 0, CAPACITY 50, SNDBUF 4096) -> Discard",
    );
    let address = read(&path, "s.local");
    // Nobody is there: all is dropped.
    await_that(&path, "c.count", |count| count != "0");
    assert_eq!((read(&path, "s.length").as_str(), read(&path, "s.sent").as_str()), ("0", "0"));
    let deaf = call(&address);
    await_that(&path, "s.length", |length| length == "50");
    let before: u64 = read(&path, "c.count").parse().expect("a number");
    await_that(&path, "c.count", |count| count.parse::<u64>().is_ok_and(|now| now > before));
    assert_eq!(read(&path, "s.length"), "50");
    drop(deaf);
    await_that(&path, "s.length", |length| length == "0");
    assert_eq!(stop(&path, child).1, Some(0));
}

#[test]
fn members_of_a_group_hear_each_other_and_not_themselves() {
    let (group, port) = (Ipv4Addr::new(233, 252, 0, 7), 20_233);
    let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    if let Err(error) = probe.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST) {
        eprintln!("SKIPPED: no groups on the loopback interface: {error}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("control");
    let member = |name: &str| {
        format!(
            "RatedSource(DATA {name}, RATE 100) -> {name} :: McastSocket({group}, {port},
            127.0.0.1) -> c{name} :: Counter -> Print(at-{name}, CONTENTS ASCII) -> Discard;"
        )
    };
    let child = start(&path, &(member("a") + &member("b")));
    for name in ["ca.count", "cb.count"] {
        await_that(&path, name, |count| count.parse::<u32>().is_ok_and(|count| count > 3));
    }
    let (said, code) = stop(&path, child);
    assert!(said.contains("at-a:    1 |  b") && said.contains("at-b:    1 |  a"), "{said}");
    assert!(!said.contains("at-a:    1 |  a") && !said.contains("at-b:    1 |  b"), "{said}");
    assert_eq!(code, Some(0));
}

#[test]
fn what_cannot_be_opened_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone").display().to_string();
    let long = "x".repeat(108);
    let cases = [
        ("Socket(SCTP, 1.0.0.1, 1)", "unknown socket type 'SCTP'"),
        ("Socket(TCP, 1.0.0.1)", "PORT: required argument missing"),
        (&format!("Socket(UNIX, {long})"), "filename too long"),
        ("Socket(UNIX, \"\")", "FILENAME is empty"),
        ("Socket(UDP, 0.0.0.0, 0, SNAPLEN 0)", "SNAPLEN: must be 1 to"),
        ("Socket(UDP, 0.0.0.0, 0, CAPACITY 0)", "CAPACITY: must be 1 to"),
        ("Socket(UDP, 0.0.0.0, 0, ALLOW d)", "ALLOW: type mismatch, expected IPRouteTable"),
        ("Socket(UDP, 198.51.100.1, 7)", "socket: Cannot assign requested address"),
        (&format!("Socket(UNIX, {gone}, CLIENT true)"), "socket: No such file or directory"),
        ("McastSocket(10.0.0.1, 7)", "MCASTIP: must be a multicast address"),
        ("McastSocket(224.0.0.99, 0)", "MCASTPORT: must not be 0"),
    ];
    let said = |config: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
        let output = command.args(["click", "-e", config]).args(more).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{config}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (element, why) in cases {
        let told = said(&format!("{element} -> d :: Discard"), &[]);
        assert!(told.contains(why), "{element}: {told}");
    }
    let told = said("Socket(UDP, 127.0.0.1, 0) -> Discard", &["--simtime"]);
    assert!(told.contains("real time: run without --simtime"), "{told}");
}
