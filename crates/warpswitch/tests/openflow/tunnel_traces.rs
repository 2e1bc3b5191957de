//! Traces of packets through tunnel ports, beside those of `ovs-vswitchd`. Skipped where Open
//! vSwitch is not installed.

use std::process::Command;

use super::open_vswitch::OpenVswitch;
use super::skip;

/// Tunnel ports from number 4 on. The datapath of Open vSwitch gives a port its UDP port as
/// number, and the first free number to GRE; so these are the same here and there.
const TUNNELS: [(&str, &str, &str); 5] = [
    ("vxlan", "t4", "remote_ip=192.0.2.4,key=5,dst_port=4"),
    ("geneve", "t5", "remote_ip=flow,key=flow,dst_port=5,csum=true"),
    ("vxlan", "t6", "remote_ip=fd00::2,local_ip=fd00::1,dst_port=6,tos=0x20"),
    ("gre", "t7", "remote_ip=192.0.2.7,tos=inherit,ttl=inherit,csum=true,df_default=false"),
    ("vxlan", "t8", "remote_ip=192.0.2.8,out_key=0,in_key=flow,dst_port=8,df_default=false,ttl=9"),
];

const FLOWS: &str = "\
in_port=1,ip actions=set_field:7->tun_id,set_field:10.1.1.1->tun_dst,output:4,output:5,output:6,\
set_field:10.1.1.2->tun_src,output:5,output:7,output:8,output:2
in_port=2,ip actions=output:7,dec_ttl,output:7,mod_nw_tos:32,output:4,output:7,\
set_field:3->pkt_mark,output:4
arp actions=output:4,output:4,set_queue:4,output:4,output:7
in_port=5,tun_id=9,tun_src=9.9.9.9 actions=output:1,output:4,set_field:9.9.9.9->tun_dst,IN_PORT
";

const FROM_TUNNEL: &str = "in_port=5,udp,tun_id=9,tun_src=9.9.9.9,tun_dst=1.2.3.4,nw_ttl=4";
const PACKETS: [&str; 6] = [
    "in_port=1,udp,nw_tos=184,nw_ttl=7",
    "in_port=1,tcp,nw_ecn=1,nw_ttl=255",
    "in_port=2,tcp,nw_tos=184,nw_ecn=3,nw_ttl=9",
    "in_port=2,udp,nw_tos=4,nw_ttl=64",
    "in_port=1,arp,arp_op=1",
    FROM_TUNNEL,
];

/// The way through the tables, and the datapath actions.
fn comparable(trace: &str) -> String {
    let is_own = |line: &&str| {
        ["Flow:", "Final flow:", "Megaflow:"].iter().any(|start| line.starts_with(start))
    };
    trace.lines().filter(|line| !is_own(line)).fold(String::new(), |out, line| out + line + "\n")
}

#[test]
fn outputs_to_tunnels_are_those_of_open_vswitch() {
    let ovs = match OpenVswitch::start() {
        Ok(ovs) => ovs,
        Err(why) => return skip(&why),
    };
    let mut ports = "mem:a,mem:b,mem:c".to_owned();
    for (number, (kind, name, options)) in (4..).zip(TUNNELS) {
        ovs.add_tunnel(name, kind, number, options);
        ports += &format!(",{kind}:{name}:{options}");
    }
    // By default its user space adds the outer headers itself.
    ovs.appctl(&["dpif/set-dp-features", "br0", "tnl_push_pop", "false"]).expect("a feature");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flows = folder.path().join("flows");
    std::fs::write(&flows, FLOWS).expect("a file");
    let flows = flows.display().to_string();
    let add = ["-O", "OpenFlow13", "add-flows", "unix:br0.mgmt", &flows];
    ovs.run("ovs-ofctl", &add).expect("it takes the file");
    for packet in PACKETS {
        let theirs = ovs.appctl(&["ofproto/trace", "br0", packet]).expect("a trace");
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpswitch"));
        command.args(["trace", "--flows", &flows, "--ports", &ports, packet]);
        let ours = command.output().expect("it starts");
        let ours = String::from_utf8_lossy(&ours.stdout);
        assert_eq!(comparable(&ours), comparable(&theirs), "{packet}");
        let examined = "tun_id=0x9,tun_src=9.9.9.9,";
        for trace in [&*ours, &theirs] {
            let megaflow = trace.lines().find(|line| line.starts_with("Megaflow:"));
            let has_tunnel = megaflow.is_some_and(|line| line.contains(examined));
            assert_eq!(has_tunnel, packet == FROM_TUNNEL, "{trace}");
        }
    }
}
