//! Missing privileges: one message, with the fix.

use std::process::{Command, Output};

use crate::hosts::{Network, ROUTED};
use crate::run::repository;
use crate::with;

const ROUTER: &str = "conf/live/ip-router.click";
const PROGRAM: &str = env!("CARGO_BIN_EXE_warpswitch");

/// Runs the command in the namespace of the router as root without the capabilities `dropped` (of
/// setpriv), after the shell commands `before`.
fn run_without(network: &Network, dropped: &str, before: &str, arguments: &[&str]) -> Output {
    let script = format!("{before} exec \"$@\"");
    network.router.namespace.inside(|| {
        Command::new("setpriv")
            .arg(format!("--bounding-set={dropped}"))
            .args(["--inh-caps=-all", "sh", "-c", &script, "sh"])
            .arg(PROGRAM)
            .args(arguments)
            .current_dir(repository())
            .output()
            .expect("setpriv (of util-linux) runs")
    })
}

/// Asserts that the output is a failure whose messages contain `fix` once.
fn assert_fix(output: &Output, code: i32, fix: &str) {
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{messages}");
    assert_eq!(messages.matches(fix).count(), 1, "{messages}");
    assert_eq!(messages.matches("error").count(), 1, "{messages}");
}

/// A network whose router has ended: its interfaces are free.
fn with_free_interfaces(test: fn(&mut Network)) {
    with(Network::new(ROUTER, ROUTED, &[]), |network| {
        network.router.stop();
        test(network);
    });
}

#[test]
fn a_missing_capability_is_reported_once() {
    with_free_interfaces(|network| {
        let output = run_without(network, "-all", "", &["run", ROUTER]);
        let fix = |capabilities| format!("sudo setcap {capabilities}+ep {PROGRAM}");
        assert_fix(&output, 2, &fix("cap_net_raw"));
        let output = run_without(network, "-all", "", &["run", ROUTER, "METHOD=AFXDP"]);
        assert_fix(&output, 2, &fix("cap_net_raw,cap_net_admin,cap_bpf"));
        let output = run_without(network, "-all", "", &["demo", "--live"]);
        assert_fix(&output, 1, "run it with sudo");
    });
}

#[test]
fn a_low_limit_of_locked_memory_is_reported_once() {
    with_free_interfaces(|network| {
        let limit = "ulimit -l 64;";
        let output = run_without(network, "-ipc_lock", limit, &["run", ROUTER, "METHOD=AFXDP"]);
        assert_fix(&output, 2, "ulimit -l unlimited");
    });
}
