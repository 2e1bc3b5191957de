//! The control socket of a switch, served to `ovs-appctl`, and traces beside those of
//! `ovs-vswitchd`. Skipped where Open vSwitch is not installed.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::Switch;
use super::open_vswitch::{OpenVswitch, has, wait_for};

const FLOWS: &str = "\
priority=10,tcp,nw_dst=10.0.0.0/8,cookie=0x5 actions=dec_ttl,mod_dl_dst:00:00:00:00:00:09,\
resubmit(,3),goto_table:1
priority=8,udp actions=controller:128,write_actions(group:1,output:3),goto_table:2
priority=7,icmp actions=group:4,set_queue:3,output:2,pop_queue,output:3
priority=6,sctp actions=set_field:5->ip_dscp,set_field:9->sctp_dst,set_field:7->pkt_mark,output:2
priority=5,vlan_tci=0x1000/0x1000 actions=pop_vlan,output:2
priority=4,dl_type=0x88cc actions=push_vlan:0x8100,set_field:4107->vlan_vid,output:2
priority=3,ipv6 actions=set_field:5->reg0,move:reg0[]->reg1[],resubmit(2,4),output:reg1[]
priority=2,arp actions=set_field:1.2.3.4->arp_spa,output:2,set_field:1.2.3.5->arp_spa,output:3
priority=1,dl_type=0x8847 actions=set_field:9->mpls_label,pop_mpls:0x0800,output:2
table=1,tp_dst=80,tcp actions=set_field:10.1.1.1->ip_dst,output:1,output:2,clear_actions,\
write_metadata:7,goto_table:2
table=2,metadata=7 actions=output:3
table=2,metadata=0 actions=drop
table=3 actions=set_field:1->reg0
table=4,in_port=2 actions=output:2,exit
";

const GROUPS: &str = "\
group_id=1,type=all,bucket=output:1,bucket=mod_nw_tos:8,output:2
group_id=4,type=ff,bucket=watch_port:2,output:2,bucket=watch_port:3,output:3
";

/// Packets that take every flow.
const PACKETS: [&str; 12] = [
    "in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80,nw_ttl=64",
    "in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=81,nw_ttl=3",
    "in_port=1,tcp,nw_dst=10.0.0.1",
    "in_port=1,tcp,nw_dst=11.0.0.1",
    "in_port=2,udp",
    "in_port=3,icmp,nw_ttl=9",
    "in_port=1,sctp",
    "in_port=1,dl_vlan=5,dl_type=0x1234",
    "in_port=1,dl_type=0x88cc",
    "in_port=1,tcp6,nw_ttl=64",
    "in_port=1,arp,arp_op=1,arp_spa=10.0.0.1",
    "in_port=1,dl_type=0x8847,mpls_label=7,mpls_bos=1",
];

/// Prints why a test does not run, past the harness.
fn skip(why: &str) {
    _ = writeln!(io::stderr(), "SKIPPED: {why}");
}

/// A folder with the flows, and the path of a socket.
fn files() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("flows"), FLOWS).expect("a file");
    std::fs::write(folder.path().join("groups"), GROUPS).expect("a file");
    let socket = folder.path().join("switch.ctl");
    (folder, socket)
}

/// A switch with the flows and a control socket.
fn start(folder: &Path, socket: &Path) -> Switch {
    let path = |name: &str| folder.join(name).display().to_string();
    let switch = Switch::start(&[
        "--ports",
        "mem:a,mem:b,mem:c",
        "--flows",
        &path("flows"),
        "--groups",
        &path("groups"),
        "--control",
        &socket.display().to_string(),
    ]);
    wait_for(|| UnixStream::connect(socket).is_ok());
    switch
}

fn appctl(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("ovs-appctl");
    command.arg("-t").arg(socket).args(arguments);
    command.output().expect("ovs-appctl runs")
}

/// What a command prints that succeeds.
fn text(socket: &Path, arguments: &[&str]) -> String {
    let output = appctl(socket, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn ovs_appctl_reads_counters_traces_and_ends_the_switch() {
    if !has("ovs-appctl") {
        return skip("ovs-appctl is not installed (openvswitch-switch)");
    }
    let (folder, socket) = files();
    let mut switch = start(folder.path(), &socket);
    assert!(text(&socket, &["list-commands"]).contains("  ofproto/trace "));
    assert!(text(&socket, &["version"]).starts_with("warpswitch "));
    let trace = text(&socket, &["ofproto/trace", "br0", PACKETS[0]]);
    assert!(trace.contains("\n 1. tcp,tp_dst=80, priority 32768\n"), "{trace}");
    let hex = "ffffffffffff0000000000010806";
    let trace = text(&socket, &["ofproto/trace", "in_port=1", hex]);
    assert!(trace.contains("dl_dst=ff:ff:ff:ff:ff:ff"), "{trace}");
    assert!(text(&socket, &["dpif/show"]).contains("    mem:b 2/2: (system)\n"));
    assert!(text(&socket, &["fdb/show", "br0"]).starts_with(" port  VLAN  MAC "));
    // A trace is no packet.
    assert!(text(&socket, &["coverage/show"]).contains("33 events never hit"));
    assert_eq!(text(&socket, &["revalidator/purge"]), "");
    for (arguments, why) in [
        (&["nonsense"][..], "\"nonsense\" is not a valid command"),
        (&["ofproto/trace"], "requires at least 1 arguments"),
        (&["ofproto/trace", "br1", "in_port=1", "00"], "br1: no such bridge; expected br0"),
        (&["ofproto/trace", "br1", "in_port=1"], "br1: no such bridge; expected br0"),
        (&["ofproto/trace", "br0", "in_port=x"], "unknown port"),
        (&["ofproto/trace", "in_port=1", "0g"], "expected hexadecimal digits"),
    ] {
        let output = appctl(&socket, arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{arguments:?}: {error}");
    }
    text(&socket, &["exit"]);
    let status = switch.0.as_mut().expect("it runs").wait().expect("it ends");
    assert!(status.success() && !socket.exists());
}

#[test]
fn the_control_socket_outlives_what_is_no_request() {
    let (folder, socket) = files();
    let switch = start(folder.path(), &socket);
    for garbage in [&b"GET /"[..], b"{\"id\":0,\"method\":5,\"params\":[]}", &[0xff; 100_000]] {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        _ = stream.write_all(garbage);
        let mut reply = Vec::new();
        // It may have closed the connection before it read all.
        _ = stream.read_to_end(&mut reply);
        assert!(reply.is_empty() || reply.starts_with(b"{\"error\":\"invalid JSON-RPC request"));
    }
    let half = UnixStream::connect(&socket).expect("it listens");
    (&half).write_all(b"{\"id\":0,\"meth").expect("it reads");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
    let socket = socket.display().to_string();
    let output = command.args(["trace", "--to", &socket, "in_port=1,arp"]).output();
    let output = output.expect("the command starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("bridge(\"br0\")"), "{text}");
    switch.stop();
}

/// The lines of a trace that are to be the same: not the numbers of Open vSwitch's user space, nor
/// fields that our flow keys lack, nor the megaflow, which may have more bits, nor what its
/// datapath cannot do.
fn comparable(trace: &str) -> String {
    let mut out = String::new();
    let is_own = |line: &&str| line.starts_with("Megaflow:") || line.starts_with("This packet");
    let is_way = |line: &&str| !line.starts_with("This flow is handled");
    for line in trace.lines().take_while(is_way).filter(|line| !is_own(line)) {
        let mut line = line.replace("dont_send=1", "dont_send=0").replace("mpls_ttl=0,", "");
        line = line.replace("vlan_tci1=0x0000,", "");
        if let Some((before, after)) = line.clone().split_once("recirc_id=") {
            let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            line = format!("{before}recirc_id=0{after}");
        }
        out += &line;
        out.push('\n');
    }
    out
}

#[test]
fn traces_are_those_of_open_vswitch() {
    let ovs = match OpenVswitch::start() {
        Ok(ovs) => ovs,
        Err(why) => return skip(&why),
    };
    let (folder, _) = files();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (command, file) in [("add-groups", "groups"), ("add-flows", "flows")] {
        let arguments = ["-O", "OpenFlow13", command, "unix:br0.mgmt", &path(file)];
        ovs.run("ovs-ofctl", &arguments).expect("it takes the file");
    }
    for packet in PACKETS {
        let theirs = ovs.appctl(&["ofproto/trace", "br0", packet]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
        let files = ["--flows", &path("flows"), "--groups", &path("groups")];
        let ours = command.arg("trace").args(files).arg(packet).output().expect("it starts");
        let ours = String::from_utf8_lossy(&ours.stdout);
        assert_eq!(comparable(&ours), comparable(&theirs.expect("a trace")), "{packet}");
    }
}
