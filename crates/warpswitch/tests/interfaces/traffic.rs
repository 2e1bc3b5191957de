//! `warpswitch generate traffic` and `bench rfc2544` with our router as the device under test.
//!
//! ```text
//! tester: end0 ═ eth0 ─┐ router: warpswitch run ┌─ eth1 ═ end1: tester
//! ```

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::netns::Namespace;
use crate::run::Run;
use crate::running::PATIENCE;
use crate::with;

/// Options by which frames pass the router.
const THROUGH: [&str; 6] = ["--src", "10.0.0.2", "--dst", "10.0.1.2", "--gateway", "10.0.0.1"];

/// The namespaces of the tester and of the device under test, linked.
fn linked() -> Result<(Namespace, Namespace), String> {
    let (tester, device) = (Namespace::new()?, Namespace::new()?);
    for number in 0..2 {
        device.ip(&format!(
            "link add eth{number} type veth peer name end{number} netns {}\n\
             link set eth{number} up\n",
            tester.path()
        ))?;
        tester.ip(&format!("link set end{number} up\n"))?;
    }
    Ok((tester, device))
}

/// A tester and our router.
struct Bed {
    tester: Namespace,
    router: Run,
}

impl Bed {
    fn new() -> Result<Self, String> {
        let (tester, router) = linked()?;
        let config = ["conf/live/ip-router.click", "ETH0=eth0", "ETH1=eth1"];
        Ok(Self { tester, router: Run::new(router, &config) })
    }

    fn generate(&self, arguments: &[&str]) -> Child {
        generate(&self.tester, arguments)
    }
}

/// Starts `generate traffic` in a namespace.
fn generate(tester: &Namespace, arguments: &[&str]) -> Child {
    tester.inside(|| {
        command(&["generate", "traffic", "--json"]).args(arguments).spawn().expect("it starts")
    })
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command
}

/// The report of a command that succeeded.
fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{errors}{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn through_router(bed: &mut Bed) {
    let run = ["--tx", "end0", "--rx", "end1", "--rate", "2k", "--count", "3000", "--check"];
    let frames = ["--flows", "40", "--size", "IMIX"];
    let all = [&run[..], &frames, &THROUGH].concat();
    let report = report(&bed.generate(&all).wait_with_output().expect("it ends"));
    for (name, expected) in
        [("sent", 3_000), ("received", 3_000), ("lost", 0), ("duplicates", 0), ("reordered", 0)]
    {
        assert_eq!(report[name], expected, "{name}: {report}");
    }
    let latency = |name: &str| report["latency"][name].as_f64().expect("a number");
    assert!(latency("min_us") > 0.0 && latency("min_us") <= latency("max_us"), "{report}");
    let forwarded: u64 = bed.router.read("to1.count");
    assert!(forwarded >= 3_000, "{forwarded} frames passed the router");
}

#[test]
fn generated_traffic_passes_the_router_without_loss() {
    with(Bed::new(), through_router);
}

#[test]
fn a_second_process_checks_the_frames() {
    with(Bed::new(), |bed| {
        // So that the router has the Ethernet address of the receiver: without it the first frames
        // wait, and some are lost.
        let both = ["--tx", "end0", "--rx", "end1", "--count", "10"];
        report(&bed.generate(&[&both[..], &THROUGH].concat()).wait_with_output().expect("it ends"));
        let send = ["--tx", "end0", "--rate", "1k", "--duration", "60s", "--flows", "3"];
        let mut sender = bed.generate(&[&send[..], &THROUGH].concat());
        let receive = ["--rx", "end1", "--dst", "10.0.1.2", "--flows", "3", "--count", "900"];
        let limit = ["--duration", "50s", "--check"];
        let receiver = bed.generate(&[&receive[..], &limit].concat());
        let output = receiver.wait_with_output().expect("it ends");
        _ = sender.kill();
        _ = sender.wait();
        let report = report(&output);
        assert!(report["received"].as_u64() >= Some(900), "{report}");
    });
}

#[test]
fn a_missing_route_fails_the_check() {
    with(Bed::new(), |bed| {
        let run = ["--tx", "end0", "--rx", "end1", "--rate", "1k", "--count", "50", "--check"];
        let through = ["--src", "10.0.0.2", "--dst", "192.0.2.9", "--gateway", "10.0.0.1"];
        let all = [&run[..], &through, &["--wait", "100ms"]].concat();
        let output = bed.generate(&all).wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        assert_eq!((&report["sent"], &report["lost"]), (&50.into(), &50.into()), "{report}");
    });
}

#[test]
fn rfc2544_measures_our_router() {
    // The command requires the same privileges, and creates its own namespaces.
    with(Namespace::new(), |_| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (svg, record) = (file("drawing.svg"), file("record.csv"));
        let mut bench = command(&["bench", "rfc2544", "--json", "--gateway", "198.18.0.1"]);
        bench.args(["--run", "conf/live/ip-router.click"]);
        bench.args(["ADDR0=198.18.0.1/24", "ADDR1=198.19.0.1/24"]);
        bench.args(["--sizes", "IMIX", "--trial", "200ms", "--wait", "50ms", "--bursts", "1"]);
        // Other work on this machine must not make every rate lose frames.
        bench.args(["--loss-ratio", "0.5", "--precision", "0.2", "--rate-max", "2k"]);
        bench.args(["--svg", &svg, "--record", &record]);
        let report = report(&bench.output().expect("it ends"));
        let size = &report["sizes"][0];
        assert_eq!((&size["size"], &size["pps_max"]), (&"IMIX".into(), &2_000.0.into()));
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}: {report}"));
        let pps = number(&size["throughput"]["pps"]);
        assert!((0.0..=2_000.0).contains(&pps), "{report}");
        // On a machine too busy for any rate there are no latencies.
        let none = Vec::new();
        let loads = size["latency"].as_array().unwrap_or(&none);
        assert_eq!(loads.len(), if pps > 0.0 { 2 } else { 0 }, "{report}");
        assert!(loads.iter().all(|load| number(&load["p50_us"]) <= number(&load["max_us"])));
        let loss = size["loss"].as_array().expect("a curve");
        assert!((2..=10).contains(&loss.len()), "{report}");
        assert!(loss.iter().all(|point| (0.0..=1.0).contains(&number(&point["loss_ratio"]))));
        assert!(number(&size["back_to_back"]["frames_max"]) <= 80.0, "{report}");
        assert!(report["commit"].is_string() && report["machine"].is_string());
        let csv = std::fs::read_to_string(record).expect("a record");
        assert!(csv.starts_with("device,size,test,load_percent,measure,value,commit,"), "{csv}");
        assert!(std::fs::read_to_string(svg).expect("a drawing").starts_with("<svg"));
    });
}

#[test]
fn changes_of_a_running_router_lose_no_frame() {
    with(Namespace::new(), |_| {
        let mut bench = command(&["bench", "reconf", "conf/live/ip-router.click", "--json"]);
        bench.args(["--gateway", "198.18.0.1", "ADDR0=198.18.0.1/24", "ADDR1=198.19.0.1/24"]);
        bench.args(["--rate", "500", "--trial", "2s", "--wait", "5s", "--check"]);
        bench.args(["--change", "routes.add 203.0.113.0/24 198.19.0.2 2", "--changes", "100"]);
        bench.args(["--undo", "routes.remove 203.0.113.0/24", "--swaps", "5"]);
        let report = report(&bench.output().expect("it ends"));
        let phase = |name: &str, writes: u64| {
            let phases = report["phases"].as_array().expect("phases");
            let phase = phases.iter().find(|phase| phase["name"] == name).expect("a phase");
            assert_eq!((&phase["writes"], &phase["lost"]), (&writes.into(), &0.into()), "{report}");
            assert!(phase["sent"].as_u64() > Some(900), "{report}");
        };
        phase("quiet", 0);
        phase("changes", 100);
        phase("swaps", 5);
    });
}

#[test]
fn a_refused_change_is_reported() {
    with(Namespace::new(), |_| {
        let mut bench = command(&["bench", "reconf", "conf/live/forwarder.click", "--trial", "1s"]);
        bench.args(["--rate", "100", "--change", "none.add 1", "--undo", "none.remove 1"]);
        let output = bench.output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("none.add: "), "{errors}");
    });
}

#[test]
fn a_configuration_that_ends_is_reported_with_its_errors() {
    with(Namespace::new(), |_| {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("conf.click");
        std::fs::write(&config, "NoSuchElement -> Discard;").expect("a file");
        let mut bench = command(&["bench", "rfc2544", "--run"]);
        let output = bench.arg(config).output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("NoSuchElement"), "{errors}");
    });
}

/// A tester and a bridge of the kernel.
fn bridged() -> Result<(Namespace, Namespace), String> {
    let (tester, bridge) = linked()?;
    bridge.ip("link add bridge type bridge\nlink set eth0 master bridge\n\
         link set eth1 master bridge\nlink set bridge up\n")?;
    Ok((tester, bridge))
}

#[test]
fn generated_traffic_passes_a_bridge_by_ethernet_address() {
    with(bridged(), |(tester, _)| {
        let run = ["--tx", "end0", "--rx", "end1", "--rate", "1Mbit", "--count", "500", "--check"];
        let output = generate(tester, &run).wait_with_output().expect("it ends");
        let report = report(&output);
        assert_eq!((&report["sent"], &report["received"]), (&500.into(), &500.into()), "{report}");
    });
}

/// The first process that `parent` started, if there is one.
fn child_of(parent: u32) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children"));
    tasks.flatten().find_map(|task| children(task).ok()?.split(' ').next()?.parse().ok())
}

#[test]
fn an_interrupted_measurement_ends_its_configuration() {
    with(Namespace::new(), |_| {
        let mut bench = command(&["bench", "rfc2544", "--gateway", "198.18.0.1"]);
        bench.args(["--run", "conf/live/ip-router.click", "--rate-max", "1k", "--trial", "300s"]);
        let bench = bench.args(["ADDR0=198.18.0.1/24", "ADDR1=198.19.0.1/24"]).spawn();
        let bench = bench.expect("it starts");
        let start = Instant::now();
        // 'ip' runs before the configuration.
        let is_router = |pid: &u32| {
            let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            command.is_ok_and(|command| command.contains("--control"))
        };
        let router = loop {
            match child_of(bench.id()).filter(is_router) {
                Some(router) => break router,
                None => assert!(start.elapsed() < PATIENCE, "no configuration was started"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let pid = Pid::from_child(&bench);
        kill_process(pid, Signal::TERM).expect("it runs");
        let output = bench.wait_with_output().expect("it ends");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("interrupted"), "{errors}");
        assert!(!is_router(&router), "the configuration still runs");
    });
}
