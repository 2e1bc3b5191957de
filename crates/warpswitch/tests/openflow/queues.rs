//! Queues as `ovs-ofctl` sees them. Ports have none, so the replies are those of Open vSwitch for
//! ports without QoS. Skipped where `ovs-ofctl` is not installed.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::Duration;

use super::{Switch, skip};

fn ofctl(arguments: &[&str]) -> Output {
    let mut command = Command::new("ovs-ofctl");
    command.args(["-O", "OpenFlow13", "--timeout=10"]).args(arguments);
    command.output().expect("ovs-ofctl runs")
}

/// What a request of `ovs-ofctl` prints, without the number of the exchange.
fn text(arguments: &[&str]) -> String {
    let Output { stdout, stderr, .. } = ofctl(arguments);
    let all = [stdout, stderr].concat();
    String::from_utf8_lossy(&all).replace(" (xid=0x2)", "")
}

#[test]
fn queues_of_flows_are_shown_and_ports_have_none() {
    if Command::new("ovs-ofctl").arg("--version").output().is_err() {
        return skip("ovs-ofctl is not installed (openvswitch-switch)");
    }
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a free port").port();
    let switch = Switch::start(&["--ports", "mem:a,mem:b", "--listen", &format!("ptcp:{port}")]);
    let place = format!("tcp:127.0.0.1:{port}");
    let flow = "udp,actions=enqueue:1:5,set_queue:6,output:2,pop_queue,enqueue(2,3)";
    for _ in 0..100 {
        if ofctl(&["add-flow", &place, flow]).status.success() {
            break;
        }
        // The switch is not there yet.
        std::thread::sleep(Duration::from_millis(100));
    }
    let set = "tcp,actions=set_queue:99999,write_actions(set_queue:5,output:1)";
    assert!(ofctl(&["add-flow", &place, set]).status.success());
    let group = "group_id=5,type=all,bucket=enqueue:1:2";
    assert!(ofctl(&["add-group", &place, group]).status.success());
    let flows = text(&["dump-flows", "--no-stats", &place]);
    assert_eq!(
        flows,
        " udp actions=set_queue:5,output:1,pop_queue,set_queue:6,output:2,pop_queue,\
         set_queue:3,output:2,pop_queue\n \
         tcp actions=set_queue:99999,write_actions(set_queue:5,output:1)\n"
    );
    for (arguments, expected) in [
        (&["queue-stats", &place][..], "OFPST_QUEUE reply (OF1.3): 0 queues\n"),
        (&["queue-stats", &place, "1"], "OFPST_QUEUE reply (OF1.3): 0 queues\n"),
        (&["queue-stats", &place, "1", "3"], "OFPT_ERROR (OF1.3): OFPQOFC_BAD_QUEUE\n"),
        (&["queue-stats", &place, "ALL", "3"], "OFPT_ERROR (OF1.3): OFPQOFC_BAD_QUEUE\n"),
        (&["queue-stats", &place, "77"], "OFPT_ERROR (OF1.3): OFPQOFC_BAD_PORT\n"),
        (&["queue-get-config", &place], "OFPT_QUEUE_GET_CONFIG_REPLY (OF1.3):\n"),
        (&["queue-get-config", &place, "1"], "OFPT_QUEUE_GET_CONFIG_REPLY (OF1.3):\n"),
        (&["queue-get-config", &place, "77"], "OFPT_ERROR (OF1.3): OFPQOFC_BAD_PORT\n"),
        (
            &["add-flow", &place, "icmp,actions=write_actions(enqueue:1:4)"],
            "OFPT_ERROR (OF1.3) (xid=0x6): OFPBAC_BAD_TYPE\n",
        ),
    ] {
        let reply = text(arguments);
        assert!(reply.starts_with(expected), "{arguments:?}: {reply}");
    }
    switch.stop();
}
