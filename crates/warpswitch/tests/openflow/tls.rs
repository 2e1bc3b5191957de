//! TLS between a switch and `ovs-ofctl`, with certificates of `openssl`. Skipped where these are
//! not installed.

use std::io::{self, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use super::Switch;

/// Makes an authority `NAME-ca.pem`, and keys and certificates of two parties that it signed.
fn make(folder: &Path, name: &str) -> bool {
    let script = "set -e
        openssl req -x509 -newkey rsa:2048 -nodes -keyout $1-ca-key.pem -out $1-ca.pem \
            -subj /CN=$1-authority -days 2
        for party in switch controller; do
            openssl req -newkey rsa:2048 -nodes -keyout $1-$party-key.pem -out $1-$party.csr \
                -subj /CN=$party
            echo basicConstraints=CA:FALSE > $1.ext
            openssl x509 -req -in $1-$party.csr -CA $1-ca.pem -CAkey $1-ca-key.pem -days 2 \
                -set_serial 2 -extfile $1.ext -out $1-$party.pem
        done";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", name]).current_dir(folder);
    command.output().is_ok_and(|output| output.status.success())
}

/// `ovs-ofctl` with the identity `NAME-controller`, trusting the authority `CA`.
fn ofctl(folder: &Path, name: &str, authority: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("ovs-ofctl");
    command.current_dir(folder).args(["-O", "OpenFlow13", "--timeout=10"]).args([
        format!("--private-key={name}-controller-key.pem"),
        format!("--certificate={name}-controller.pem"),
        format!("--ca-cert={authority}-ca.pem"),
    ]);
    command.args(arguments).output().expect("ovs-ofctl runs")
}

#[test]
fn only_controllers_that_the_authority_knows_get_in() {
    let has_ofctl = Command::new("ovs-ofctl").arg("--version").output().is_ok();
    let folder = tempfile::tempdir().expect("a temporary folder");
    if !has_ofctl || !make(folder.path(), "a") || !make(folder.path(), "b") {
        _ = writeln!(io::stderr(), "SKIPPED: ovs-ofctl or openssl is not installed");
        return;
    }
    let folder = folder.path();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a free port").port();
    let path = |name: &str| folder.join(name).display().to_string();
    let switch = Switch::start(&[
        "--ports",
        "mem:a,mem:b",
        "--listen",
        &format!("pssl:{port}"),
        "--private-key",
        &path("a-switch-key.pem"),
        "--certificate",
        &path("a-switch.pem"),
        "--ca-cert",
        &path("a-ca.pem"),
    ]);
    let place = format!("ssl:127.0.0.1:{port}");
    let add = ["add-flow", &place, "in_port=1,actions=output:2"];
    let mut output = ofctl(folder, "a", "a", &add);
    for _ in 0..100 {
        if output.status.success() {
            break;
        }
        // The switch is not there yet.
        std::thread::sleep(Duration::from_millis(100));
        output = ofctl(folder, "a", "a", &add);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A strange controller, and one that takes the switch for a strange one.
    for (name, authority) in [("b", "a"), ("a", "b")] {
        let output = ofctl(folder, name, authority, &["add-flow", &place, "actions=drop"]);
        assert!(!output.status.success(), "{name} {authority}");
    }
    let output = ofctl(folder, "a", "a", &["dump-flows", "--no-stats", &place]);
    let flows = String::from_utf8_lossy(&output.stdout);
    assert_eq!(flows.trim(), "in_port=1 actions=output:2");
    switch.stop();
}
