//! `warpswitch switch`, driven by a controller over TCP; with hosts in namespaces where there are
//! any.
//!
//! ```text
//! host 0 ─ end ═ eth0 ─┐  warpswitch switch --ports eth0,eth1  ┌─ eth1 ═ end ─ host 1
//! 10.0.0.1             └── namespace, with the controller ─────┘             10.0.0.2
//! ```
//! Namespaces need root and `ip` of iproute2. Without them these tests report that they are
//! skipped; with `WARPSWITCH_NAMESPACES=1` that is a failure.
#![forbid(unsafe_code)]

mod appctl;
mod controller;
#[path = "../../../commands/src/netns.rs"]
mod netns;
mod open_vswitch;
mod queues;
mod tls;
mod tunnel_traces;
mod tunnels;

use std::io::{self, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use controller::Controller;
use netns::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use warpswitch_openflow::{ErrorCode, Message};
use warpswitch_rules::format::ovs;

/// A running switch. Dropping it kills the process.
struct Switch(Option<Child>);

impl Switch {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
        command.arg("switch").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("the command starts")))
    }

    /// Ends it in order; what it printed to the standard output.
    fn stop(mut self) -> String {
        let child = self.0.take().expect("it runs");
        let id = Pid::from_raw(child.id().try_into().expect("an id"));
        kill(id, Signal::SIGTERM).expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Two hosts and a switch between them, whose first controller is connected.
struct Network {
    hosts: [Namespace; 2],
    switch: Switch,
    controller: Controller,
}

impl Network {
    fn new(arguments: &[&str]) -> Result<Self, String> {
        let (between, hosts) = plug_in()?;
        let listener = between.inside(|| TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = format!("tcp:{}", listener.local_addr().expect("an address"));
        let all = [&["--ports", "eth0,eth1", "--controller", &address], arguments].concat();
        let switch = between.inside(|| Switch::start(&all));
        Ok(Self { hosts, switch, controller: Controller::accept(&listener) })
    }

    /// Whether a datagram gets from one host to the other before `patience` ends.
    fn passes(&self, from: usize, to: usize, patience: Duration) -> bool {
        let socket = |host: usize| udp(&self.hosts[host], &format!("10.0.0.{}:7", host + 1));
        let (sender, receiver) = (socket(from), socket(to));
        receiver.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let start = Instant::now();
        while start.elapsed() < patience {
            sender.send_to(b"datagram", format!("10.0.0.{}:7", to + 1)).expect("it leaves");
            if receiver.recv(&mut [0; 100]).is_ok() {
                return true;
            }
        }
        false
    }
}

/// A namespace with the interfaces `eth0` and `eth1`, and the hosts behind them.
fn plug_in() -> Result<(Namespace, [Namespace; 2]), String> {
    let (between, hosts) = (Namespace::new()?, [Namespace::new()?, Namespace::new()?]);
    between.ip("link set lo up\n")?;
    for (number, host) in hosts.iter().enumerate() {
        between.link(&format!("eth{number}"), host, "end")?;
        between.ip(&format!("link set eth{number} up\n"))?;
        let address = number + 1;
        host.ip(&format!(
            "link set end address 02:00:00:00:00:0{address}\n\
             addr add 10.0.0.{address}/24 dev end\nlink set end up\n"
        ))?;
    }
    Ok((between, hosts))
}

/// Runs `test`, or skips it if there are no namespaces.
fn with<T>(made: Result<T, String>, test: impl FnOnce(T)) {
    match made {
        Ok(made) => test(made),
        Err(why) => {
            let is_needed = std::env::var_os("WARPSWITCH_NAMESPACES").is_some_and(|v| v == "1");
            assert!(!is_needed, "no hosts in namespaces: {why}");
            skip(&format!("no hosts in namespaces: {why}"));
        }
    }
}

/// Reports that a test, or a part of it, is skipped.
fn skip(why: &str) {
    // Written past the harness, which keeps the output of passing tests.
    _ = writeln!(io::stderr(), "SKIPPED: {why}");
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn a_controller_changes_and_reads_flows_and_may_come_back() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("tcp:{}", listener.local_addr().expect("an address"));
    let switch = Switch::start(&["--ports", "mem:a,mem:b", "--controller", &address]);
    let mut controller = Controller::accept(&listener);
    let lines = [
        "priority=10,tcp,nw_dst=10.0.0.0/8,tp_dst=80 actions=dec_ttl,output:2",
        "priority=5,ip actions=goto_table:1",
    ];
    lines.iter().for_each(|line| controller.change(line));
    let bad = "table=1,priority=1 actions=goto_table:1";
    controller.change(bad);
    let error = controller.expect(|message| matches!(message, Message::Error(_)));
    let Message::Error(error) = error else { panic!("{error:?}") };
    assert_eq!(error.error, ErrorCode::INSTRUCTION_BAD_TABLE_ID);
    drop(controller);

    let mut controller = Controller::accept(&listener);
    let texts: Vec<String> =
        controller.flows().iter().map(|stats| ovs::flow_text(&stats.flow)).collect();
    assert_eq!(texts, lines.map(str::trim));
    controller.change("delete priority=1");
    assert!(controller.flows().is_empty());
    assert!(switch.stop().contains("mem:a"));
}

#[test]
fn frames_take_the_ways_of_flows_at_once() {
    for cache in ["none", "micro", "mega"] {
        with(Network::new(&["--cache", cache]), |mut network| {
            network.controller.change("priority=1,in_port=1 actions=output:2");
            network.controller.change("priority=1,in_port=2 actions=output:1");
            assert!(network.passes(0, 1, LONG) && network.passes(1, 0, LONG), "{cache}");
            // Whatever caches hold, the barrier's answer comes after the change is in force.
            network.controller.change("priority=9,udp actions=drop");
            assert!(!network.passes(0, 1, SHORT), "{cache}");
            assert!(network.controller.count("priority=9,udp actions=drop") > 0);
            network.controller.change("delete udp");
            assert!(network.passes(0, 1, LONG), "{cache}");
            network.switch.stop();
        });
    }
}

#[test]
fn controllers_get_packets_and_send_them() {
    with(Network::new(&[]), |mut network| {
        network.controller.change("priority=1,udp actions=CONTROLLER:65535");
        network.controller.change("priority=1,arp actions=NORMAL");
        assert!(!network.passes(0, 1, SHORT));
        let packet = network.controller.expect(|message| matches!(message, Message::PacketIn(_)));
        let Message::PacketIn(packet) = packet else { panic!("{packet:?}") };
        assert!(packet.data.ends_with(b"datagram"));
        assert_eq!(usize::from(packet.total_len), packet.data.len());
        let in_port = warpswitch_rules::openflow::field("in_port").expect("a field");
        assert_eq!(packet.matching.exact(in_port), Some(1));
    });
}

#[test]
fn a_standalone_switch_learns_where_hosts_are() {
    with(plug_in(), |(between, hosts)| {
        let arguments = ["--ports", "eth0,eth1", "--fail-mode", "standalone"];
        let switch = between.inside(|| Switch::start(&arguments));
        let (sender, receiver) = (udp(&hosts[0], "10.0.0.1:7"), udp(&hosts[1], "10.0.0.2:7"));
        receiver.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let start = Instant::now();
        let has_passed = std::iter::from_fn(|| (start.elapsed() < LONG).then_some(())).any(|()| {
            sender.send_to(b"datagram", "10.0.0.2:7").expect("it leaves");
            receiver.recv(&mut [0; 100]).is_ok()
        });
        assert!(has_passed);
        switch.stop();
    });
}

/// A socket at `address`. The last one there may still be open for a moment: a process that another
/// test just starts has a copy of it until it executes its program.
fn udp(host: &Namespace, address: &str) -> UdpSocket {
    let start = Instant::now();
    loop {
        match host.inside(|| UdpSocket::bind(address)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && start.elapsed() < LONG => {
                std::thread::sleep(Duration::from_millis(10));
            }
            result => return result.expect("a free port"),
        }
    }
}
