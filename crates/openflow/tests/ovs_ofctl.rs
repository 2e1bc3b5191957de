//! `ovs-ofctl` drives the agent over a Unix socket. Skipped with a message where it is missing.

mod common;

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::ListSwitch;
use warpswitch_openflow::{Agent, AgentConfig, SwitchDescription};
use warpswitch_rules::openflow::{FLOW_WORDS, FlowAction, PacketIn, PacketInReason, port};

/// The agent and its switch, shared by the threads of the connections.
type Shared = Arc<Mutex<(Agent, ListSwitch)>>;

fn shared() -> Shared {
    let description =
        SwitchDescription { manufacturer: "maker".into(), ..SwitchDescription::default() };
    let config = AgentConfig { datapath_id: 0x1234, description, ..AgentConfig::default() };
    Arc::new(Mutex::new((Agent::new(config), ListSwitch::default())))
}

/// Serves every connection in a thread of its own, until one comes in after `stop` was set.
fn serve(listener: &UnixListener, shared: &Shared, stop: &AtomicBool) {
    std::thread::scope(|scope| {
        for stream in listener.incoming() {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let stream = stream.expect("connection");
            scope.spawn(|| serve_one(stream, shared, stop));
        }
    });
}

fn serve_one(mut stream: UnixStream, shared: &Shared, stop: &AtomicBool) {
    let id = shared.lock().expect("agent").0.connect(0);
    stream.set_read_timeout(Some(Duration::from_millis(20))).expect("timeout");
    let mut buffer = vec![0; 65536];
    loop {
        let (waiting, is_closing) = {
            let (agent, _) = &mut *shared.lock().expect("agent");
            let waiting = agent.transmit(id).to_vec();
            agent.sent(id, waiting.len());
            (waiting, agent.close_reason(id).is_some())
        };
        if stream.write_all(&waiting).is_err() || is_closing {
            break;
        }
        let len = match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                match stop.load(Ordering::SeqCst) {
                    true => break,
                    false => continue,
                }
            }
            Ok(len @ 1..) => len,
            _ => break,
        };
        let (agent, switch) = &mut *shared.lock().expect("agent");
        agent.receive(id, &buffer[..len], 1_500_000_000, switch);
        while agent.has_input(id) {
            agent.receive(id, &[], 1_500_000_000, switch);
        }
        for (_, actions, frame) in switch.sent.clone() {
            send_to_controllers(agent, &actions, frame);
        }
    }
    shared.lock().expect("agent").0.disconnect(id);
}

/// What a switch does with an output to the controller.
fn send_to_controllers(agent: &mut Agent, actions: &[FlowAction], frame: Vec<u8>) {
    for action in actions {
        let FlowAction::Output { port: port::CONTROLLER, max_len } = *action else { continue };
        let (reason, key) = (PacketInReason::Action, [1; FLOW_WORDS]);
        let frame = frame.clone();
        agent.packet_in(&PacketIn { reason, table: 0, cookie: 7, max_len, key, frame }, 0);
    }
}

fn is_installed() -> bool {
    let is_installed = Command::new("ovs-ofctl").arg("--version").output().is_ok();
    if !is_installed {
        eprintln!("skipped: ovs-ofctl is not installed (apt install openvswitch-common)");
    }
    is_installed
}

fn socket_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("warpswitch-ofctl-{}-{number}", std::process::id()))
}

/// Output and errors of a command of `ovs-ofctl`.
fn ofctl(socket: &Path, arguments: &[&str]) -> (bool, String) {
    let target = format!("unix:{}", socket.display());
    let arguments = arguments.iter().map(|&word| if word == "SWITCH" { &target } else { word });
    let output = Command::new("ovs-ofctl")
        .args(["-O", "OpenFlow13", "--timeout=10"])
        .args(arguments)
        .output()
        .expect("ovs-ofctl starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Lets `client` use a switch on a socket, and returns its result and the switch's last state;
/// `None` if there is no `ovs-ofctl`. The client must not panic, because the server would not end.
fn with_switch<T>(client: impl FnOnce(&Path) -> T) -> Option<(T, ListSwitch)> {
    if !is_installed() {
        return None;
    }
    let socket = socket_path();
    let listener = UnixListener::bind(&socket).expect("socket");
    let (shared, stop) = (shared(), AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &shared, &stop));
        let result = client(&socket);
        stop.store(true, Ordering::SeqCst);
        drop(UnixStream::connect(&socket));
        result
    });
    let _ = std::fs::remove_file(&socket);
    let (_, switch) = &*shared.lock().expect("agent");
    Some((result, switch.clone()))
}

/// Runs `commands` against a switch, each with parts of its output, or no output.
#[track_caller]
fn check(commands: &[(&[&str], &[&str])]) -> Option<ListSwitch> {
    let (failures, switch) = with_switch(|socket| {
        let mut failures = String::new();
        for (arguments, expected) in commands {
            let (_, text) = ofctl(socket, arguments);
            for part in expected.iter().filter(|part| !text.contains(**part)) {
                failures += &format!("{arguments:?}: no `{part}` in\n{text}\n");
            }
            if expected.is_empty() && !text.is_empty() {
                failures += &format!("{arguments:?}: unexpected\n{text}\n");
            }
        }
        failures
    })?;
    assert!(failures.is_empty(), "{failures}");
    Some(switch)
}

#[test]
fn reports_the_switch() {
    check(&[
        (
            &["show", "SWITCH"],
            &[
                "dpid:0000000000001234",
                "n_tables:4, n_buffers:256",
                "FLOW_STATS TABLE_STATS PORT_STATS GROUP_STATS QUEUE_STATS",
                "1(eth1): addr:02:00:00:00:00:01",
                "LOCAL(br0): addr:02:00:00:00:00:fe",
                "current:    10GB-FD COPPER",
                "speed: 10000 Mbps now, 10000 Mbps max",
                "frags=normal",
            ],
        ),
        (&["dump-desc", "SWITCH"], &["Manufacturer: maker"]),
        (&["dump-ports", "SWITCH"], &["rx pkts=10, bytes=640", "duration=1.500s"]),
        (&["dump-ports", "SWITCH", "1"], &["1 ports", "tx pkts=20, bytes=1280"]),
        (&["dump-ports", "SWITCH", "9"], &["OFPBRC_BAD_PORT"]),
        (&["dump-ports-desc", "SWITCH"], &["2(eth2)"]),
        (&["dump-tables", "SWITCH"], &["table 0:", "active=0, lookup=7, matched=5"]),
        (
            &["dump-table-features", "SWITCH"],
            &[
                "\"table0\"",
                "max_entries=1000",
                "instructions: meter apply_actions",
                "tcp_{src,dst,flags}",
            ],
        ),
        (&["queue-stats", "SWITCH"], &["queue 5: bytes=128, pkts=2, errors=0"]),
        (&["queue-get-config", "SWITCH", "1"], &["queue 5"]),
        (&["dump-group-features", "SWITCH"], &["max_groups=0x100", "Capabilities:  0xf"]),
        (&["meter-features", "SWITCH"], &["max_meter:64 max_bands:8", "dscp_remark"]),
        (&["get-frags", "SWITCH"], &["normal"]),
        (&["set-frags", "SWITCH", "drop"], &["OFPSCFC_BAD_FLAGS"]),
        (&["probe", "SWITCH"], &[]),
        (&["ping", "SWITCH"], &["64 bytes from"]),
    ]);
}

#[test]
fn changes_flows() {
    let switch = check(&[
        (
            &["add-flow", "SWITCH", "priority=7,tcp,nw_dst=10.0.0.0/8,tp_dst=80,actions=output:2"],
            &[],
        ),
        (
            &[
                "add-flow",
                "SWITCH",
                "table=1,cookie=0x5,idle_timeout=60,send_flow_rem,actions=drop",
            ],
            &[],
        ),
        (
            &["dump-flows", "SWITCH"],
            &[
                "duration=1.500s, table=0, n_packets=3, n_bytes=180, \
                 priority=7,tcp,nw_dst=10.0.0.0/8,tp_dst=80 actions=output:2",
                "cookie=0x5, duration=1.500s, table=1, n_packets=3, n_bytes=180, \
                 idle_timeout=60, send_flow_rem actions=drop",
            ],
        ),
        (&["dump-flows", "SWITCH", "table=1"], &["cookie=0x5"]),
        (&["dump-flows", "SWITCH", "table=9"], &["OFPBRC_BAD_TABLE_ID"]),
        (&["dump-aggregate", "SWITCH"], &["packet_count=6 byte_count=360 flow_count=2"]),
        (&["mod-flows", "SWITCH", "tcp,actions=output:1"], &[]),
        (&["--strict", "mod-flows", "SWITCH", "table=1,actions=output:1"], &[]),
        (&["dump-flows", "SWITCH", "table=0"], &["actions=output:1"]),
        (&["add-flow", "SWITCH", "table=9,actions=drop"], &["OFPFMFC_BAD_TABLE_ID"]),
        (&["add-flow", "SWITCH", "table=1,actions=goto_table:1"], &["OFPBIC_BAD_TABLE_ID"]),
        (&["del-flows", "SWITCH", "cookie=0x5/-1"], &[]),
    ]);
    assert!(switch.is_none_or(|switch| switch.flows.len() == 1));
}

#[test]
fn keeps_actions_and_matches() {
    let mut flows = Vec::new();
    for flow in [
        "in_port=1 actions=LOCAL",
        "metadata=0x5/0xff actions=output:1",
        "dl_vlan=5,dl_vlan_pcp=3 actions=pop_vlan,output:1",
        "vlan_tci=0x0000/0x1fff actions=drop",
        "vlan_tci=0x1000/0x1000 actions=drop",
        "dl_src=00:01:02:03:04:05,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00 actions=drop",
        "arp,arp_tpa=10.0.0.1,arp_op=1,arp_sha=00:01:02:03:04:05 actions=drop",
        "ip,nw_tos=4,nw_ttl=64,nw_frag=later actions=drop",
        "tcp,tcp_flags=+syn-ack actions=drop",
        "udp6,ipv6_src=2001:db8::/32,ipv6_label=0x12345,tp_src=53 actions=drop",
        "sctp,tp_dst=9 actions=drop",
        "icmp,icmp_type=8,icmp_code=0 actions=drop",
        "icmp6,icmp_type=135,nd_target=fe80::1,nd_sll=00:01:02:03:04:05 actions=drop",
        "mpls,mpls_label=17,mpls_tc=1,mpls_bos=1 actions=dec_mpls_ttl,pop_mpls:0x0800,output:1",
        "reg0=0x1,reg15=0x2/0xf actions=drop",
        "pkt_mark=0x3,tun_id=0x7,tun_src=1.2.3.4 actions=drop",
        "actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:2",
        "actions=push_mpls:0x8847,set_field:5->mpls_label,set_mpls_ttl(9),output:2",
        "actions=CONTROLLER:65535",
        "actions=ALL,FLOOD,IN_PORT,NORMAL",
        "actions=set_field:10.0.0.1->ip_dst,dec_ttl,output:1",
        "actions=mod_nw_ttl:5,set_queue:3,output:1,pop_queue",
        "actions=load:0x5->NXM_NX_REG0[0..15]",
        "actions=load:0x5->NXM_NX_REG1[0..3],load:0->NXM_NX_REG1[8..11]",
        "actions=move:NXM_NX_REG0[0..15]->NXM_NX_REG1[16..31]",
        "actions=resubmit:3,resubmit(,2),resubmit(4,1)",
        "actions=output:NXM_NX_REG0[0..15]",
        "actions=push:NXM_NX_REG0[],pop:NXM_NX_REG1[0..7]",
        "actions=controller(max_len=100,id=5)",
        "actions=note:01.02.03.00.00.00,exit",
        "actions=clear_actions,write_metadata:0x1/0xf,goto_table:2",
        "actions=meter:7,output:1",
        "actions=write_actions(group:5)",
        "actions=set_field:2001:db8::1->ipv6_src,set_field:0xa->tun_id,output:1",
    ] {
        let tokens: Vec<&str> = flow.split(' ').collect();
        let actions = tokens.last().expect("actions");
        let mut expected = vec![*actions];
        if tokens.len() > 1 {
            expected.push(tokens[0]);
        }
        // `ovs-ofctl` adds the EtherType to matches on a transport protocol by its own.
        let text = flow.replacen(' ', ",", 1);
        let needs = if text.contains("ip_dst") || text.contains("ttl") && !text.contains("mpls") {
            "ip,"
        } else if text.contains("ipv6_src,") || text.contains("->ipv6_src") {
            "ipv6,"
        } else {
            ""
        };
        let text = if tokens.len() == 1 { format!("{needs}{text}") } else { text };
        flows.push((text, expected));
    }
    let mut commands: Vec<(Vec<&str>, &[&str])> = Vec::new();
    for (text, expected) in &flows {
        commands.push((vec!["add-flow", "SWITCH", text], &[]));
        commands.push((vec!["dump-flows", "SWITCH"], expected));
        commands.push((vec!["del-flows", "SWITCH"], &[]));
    }
    let commands: Vec<(&[&str], &[&str])> =
        commands.iter().map(|(arguments, expected)| (&arguments[..], *expected)).collect();
    check(&commands);
}

#[test]
fn changes_groups_meters_and_ports() {
    let select = "group_id=3,type=select,bucket=weight:5,actions=output:1,bucket=weight:1,\
                  actions=output:2";
    let fast = "group_id=4,type=ff,bucket=watch_port:1,actions=output:1";
    check(&[
        (&["add-group", "SWITCH", select], &[]),
        (&["add-group", "SWITCH", fast], &[]),
        (&["add-group", "SWITCH", "group_id=3,type=all"], &["OFPGMFC_GROUP_EXISTS"]),
        (
            &["dump-groups", "SWITCH"],
            &[
                "group_id=3,type=select,bucket=weight:5,actions=output:1,bucket=",
                "group_id=4,type=ff,bucket=watch_port:1,actions=output:1",
            ],
        ),
        (&["dump-group-stats", "SWITCH"], &["group_id=3,duration=1.500s,ref_count=1", "bucket1:"]),
        (&["mod-group", "SWITCH", "group_id=4,type=indirect,bucket=output:2"], &[]),
        (&["del-groups", "SWITCH", "group_id=3"], &[]),
        (&["dump-groups", "SWITCH"], &["group_id=4,type=indirect,bucket=actions=output:2"]),
        (
            &[
                "add-meter",
                "SWITCH",
                "meter=1,kbps,burst,stats,bands=type=drop,rate=100,burst_size=9",
            ],
            &[],
        ),
        (
            &["add-meter", "SWITCH", "meter=2,pktps,bands=type=dscp_remark,rate=10,prec_level=2"],
            &[],
        ),
        (
            &["dump-meters", "SWITCH"],
            &["meter=1 kbps burst stats", "type=drop rate=100 burst_size=9", "meter=2 pktps"],
        ),
        (&["meter-stats", "SWITCH", "meter=2"], &["meter:2", "duration:1.500s", "0:"]),
        (&["meter-stats", "SWITCH", "meter=3"], &["OFPMMFC_UNKNOWN_METER"]),
        (&["del-meters", "SWITCH"], &[]),
        (&["mod-port", "SWITCH", "eth1", "no-forward"], &[]),
        (&["dump-ports-desc", "SWITCH"], &["config:     NO_FWD"]),
    ]);
}

#[test]
fn commits_bundles_whole_or_not() {
    let directory = std::env::temp_dir();
    let files = ["good", "bad"]
        .map(|name| directory.join(format!("warpswitch-bundle-{name}-{}", std::process::id())));
    let [good, bad] = files.each_ref().map(|path| path.to_string_lossy().into_owned());
    let flows: String = (1..500).map(|port| format!("in_port={port},actions=output:1\n")).collect();
    std::fs::write(&files[0], flows).expect("file");
    std::fs::write(&files[1], "ip,actions=output:1\ntable=77,actions=drop\n").expect("file");
    let switch = check(&[
        (&["--bundle", "add-flows", "SWITCH", &good], &[]),
        (&["--bundle", "add-flows", "SWITCH", &bad], &["OFPFMFC_BAD_TABLE_ID"]),
        (&["diff-flows", "SWITCH", &good], &[]),
        (&["replace-flows", "SWITCH", &good], &[]),
    ]);
    files.iter().for_each(|path| drop(std::fs::remove_file(path)));
    assert!(switch.is_none_or(|switch| switch.flows.len() == 499));
}

#[test]
fn sends_packets() {
    let frame = "00000000000200000000000108060001";
    let switch = check(&[(
        &["packet-out", "SWITCH", &format!("in_port=1 packet={frame} actions=output:2")],
        &[],
    )]);
    let sent = switch.map(|switch| switch.sent);
    assert!(sent.is_none_or(|sent| sent.len() == 1 && sent[0].2 == common::hex(frame)));
}

/// The first line of `ovs-ofctl monitor` about a packet that another controller sends out.
fn monitored_packet(socket: &Path) -> Option<String> {
    let target = format!("unix:{}", socket.display());
    // A monitor listens on a control socket of its own.
    let folder = socket.with_extension("run");
    std::fs::create_dir(&folder).ok()?;
    let mut monitor = Command::new("ovs-ofctl")
        .env("OVS_RUNDIR", &folder)
        .args(["-O", "OpenFlow13", "--timeout=10", "monitor", &target, "100"])
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let lines = BufReader::new(monitor.stderr.take()?).lines();
    let found = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut lines = lines.map_while(Result::ok);
            lines.find(|line| line.contains("OFPT_PACKET_IN"))
        });
        // The monitor gets packets once its own requests were answered.
        while !reader.is_finished() {
            let packet = "in_port=1 packet=000000000002000000000001080600 actions=controller";
            ofctl(socket, &["packet-out", "SWITCH", packet]);
        }
        reader.join().ok().flatten()
    });
    let _ = monitor.kill();
    let _ = monitor.wait();
    let _ = std::fs::remove_dir_all(&folder);
    found
}

#[test]
fn monitors_get_packets() {
    if let Some((line, _)) = with_switch(monitored_packet) {
        let line = line.expect("no packet-in was printed");
        assert!(line.contains("cookie=0x7 total_len=15"), "{line}");
    }
}
