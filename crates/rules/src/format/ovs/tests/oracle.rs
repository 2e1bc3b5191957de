//! Our text against `ovs-ofctl`: it accepts what we write and prints it the same. Without the
//! program these tests print that they did nothing.

use std::io::Write;
use std::process::{Command, Stdio};

use super::random::{Dialect, Maker};
use crate::format::ovs::{actions_text, group_text, instructions_text, parse_flow, parse_group};
use crate::openflow::{FieldNeeds, Flow, FlowAction, GroupMod, Subfield};

/// What `ovs-ofctl` prints about an input; `None` if it is not installed.
fn ovs_ofctl(arguments: &[&str], input: &str) -> Option<(String, String)> {
    let child = Command::new("ovs-ofctl")
        .args(["-O", "OpenFlow13"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: ovs-ofctl cannot be started: {error}");
            return None;
        }
    };
    // The program may end before it has read everything.
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || _ = stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Some((text(output.stdout), text(output.stderr)))
}

/// A flow as `parse-flows` prints the message that adds it.
fn as_message(flow: &Flow) -> String {
    let mut parts = Vec::new();
    if flow.table != 0 {
        parts.push(format!("table:{}", flow.table));
    }
    let priority = match flow.priority {
        Flow::DEFAULT_PRIORITY => String::new(),
        priority => format!("priority={priority}"),
    };
    let matching = crate::format::ovs::match_text(&flow.matching);
    let both: Vec<String> = [priority, matching].into_iter().filter(|s| !s.is_empty()).collect();
    parts.extend((!both.is_empty()).then(|| both.join(",")));
    parts.extend((flow.cookie != 0).then(|| format!("cookie:{:#x}", flow.cookie)));
    parts.extend((flow.idle_timeout != 0).then(|| format!("idle:{}", flow.idle_timeout)));
    parts.extend((flow.hard_timeout != 0).then(|| format!("hard:{}", flow.hard_timeout)));
    let flags = [
        (flow.flags.send_flow_removed, "send_flow_rem"),
        (flow.flags.check_overlap, "check_overlap"),
        (flow.flags.reset_counts, "reset_counts"),
        (flow.flags.no_packet_counts, "no_packet_counts"),
        (flow.flags.no_byte_counts, "no_byte_counts"),
    ];
    parts.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| (*word).to_owned()));
    parts.push(format!("actions={}", instructions_text(&flow.instructions)));
    parts.join(" ")
}

/// Compares flows with what `ovs-ofctl` makes of `texts`.
fn compare(flows: &[Flow], texts: &[String]) {
    let Some((out, err)) = ovs_ofctl(&["parse-flows", "-"], &texts.join("\n")) else { return };
    let messages = out.lines().filter_map(|line| line.split_once("): ADD ").map(|(_, text)| text));
    let messages: Vec<&str> = messages.collect();
    for ((flow, text), message) in flows.iter().zip(texts).zip(&messages) {
        assert_eq!(as_message(flow), *message, "{text}");
    }
    let refused = texts.get(messages.len());
    assert_eq!(messages.len(), flows.len(), "{refused:?}: {err}");
}

#[test]
fn ovs_ofctl_reads_what_we_write_and_prints_it_alike() {
    let mut maker = Maker::new(13, Dialect::OpenVSwitch);
    let flows: Vec<Flow> = (0..2_000).map(|_| maker.flow()).collect();
    let texts: Vec<String> = flows.iter().map(crate::format::ovs::flow_text).collect();
    compare(&flows, &texts);
}

#[test]
fn ovs_ofctl_means_the_same_by_its_own_forms() {
    let texts = [
        "ip,actions=mod_nw_src:1.2.3.4,mod_nw_tos:16,mod_nw_ecn:2,mod_nw_ttl:4,dec_ttl",
        "udp6,dl_vlan=3,actions=mod_vlan_vid:5,mod_tp_src:4,strip_vlan,mod_vlan_vid:6",
        "actions=mod_vlan_pcp:5,push_vlan:0x88a8,mod_vlan_vid:7,mod_dl_src:1:2:3:4:5:6",
        "actions=enqueue:1:2,output(5),group(3),set_queue(4),resubmit(3),resubmit(in_port,4)",
        "actions=controller(),controller(max_len=5),controller(id=3),controller:7,flood,normal",
        "actions=load:5->reg0[0..15],set_field:5/7->reg1,load:1->xxreg1[3],output:reg0[0..15]",
        "actions=move:NXM_OF_IN_PORT[]->NXM_NX_REG2[0..15],push:vlan_tci[],pop:reg1[2..7],note:00",
        "mpls,actions=set_mpls_ttl:4,dec_mpls_ttl,set_mpls_label:3,set_mpls_tc:2,pop_mpls:0x0800",
        "actions=meter:3,1,clear_actions,write_actions(2,group:3),write_metadata:5/7,goto_table:9",
        "arp,nw_src=1.2.3.4,nw_proto=2,arp_sha=1:2:3:4:5:6,actions=set_field:2->arp_op",
        "icmp,tp_src=8,icmp_code=0,ip_frag=not_later,nw_tos=33,ip_ecn=1,nw_ttl=010,actions=drop",
        "dl_type=0x800,nw_proto=132,sctp_dst=80/0xfff0,actions=set_tunnel64:0x5,set_tunnel:6",
        "ipv6,ipv6_src=2001:db8::1/ffff::,ip_dscp=8,ipv6_label=0x12/0xff,actions=drop",
        "vlan_vid=0x1005/0x100f,vlan_pcp=3,xreg1=0x1/0xff00000001,xxreg2=5,actions=drop",
        "tun_src=1.2.3.4/255.0.255.0,tunnel_id=5,send_flow_rem,actions=drop",
    ];
    let parse = |text: &&str| parse_flow(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let flows: Vec<Flow> = texts.iter().map(parse).collect();
    compare(&flows, &texts.map(str::to_owned));
}

#[test]
fn ovs_ofctl_prints_every_field_by_its_name() {
    let texts: Vec<String> = crate::openflow::FIELDS
        .iter()
        .filter_map(|field| {
            let whole = Subfield::whole(field);
            let fields = match field.needs {
                FieldNeeds::Nothing if field.name == "ip_frag" => "ip",
                FieldNeeds::Nothing => "eth",
                FieldNeeds::Vlan => "dl_vlan=1",
                FieldNeeds::Ipv4 | FieldNeeds::Ip => "ip",
                FieldNeeds::Ipv6 => "ipv6",
                FieldNeeds::Arp => "arp",
                FieldNeeds::Mpls => "mpls",
                FieldNeeds::Proto(6) => "tcp",
                FieldNeeds::Proto(17) => "udp",
                FieldNeeds::Proto(_) => "sctp",
                FieldNeeds::Icmpv4 => "icmp",
                FieldNeeds::Icmpv6 => "icmp6",
                FieldNeeds::Nd | FieldNeeds::NdSolicit => "icmp6,icmp_type=135",
                FieldNeeds::NdAdvert => "icmp6,icmp_type=136",
                FieldNeeds::InPort | FieldNeeds::Pbb => return None,
            };
            let is_ours = field.name == "ipv6_exthdr";
            let fields = if field.name == "vlan_vid" { "dl_vlan=1" } else { fields };
            let whole =
                Subfield { bits: if field.name == "vlan_vid" { 12 } else { whole.bits }, ..whole };
            let list = actions_text(&[FlowAction::StackPush(whole)]);
            (!is_ours).then(|| format!("{fields},actions={list}"))
        })
        .collect();
    assert!(texts.len() > 60);
    let parse = |text: &String| parse_flow(text).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let flows: Vec<Flow> = texts.iter().map(parse).collect();
    compare(&flows, &texts);
}

#[test]
fn ovs_ofctl_prints_groups_alike() {
    for text in [
        "group_id=1,type=select,bucket=weight:1,actions=output:1,bucket=output:3,weight:4",
        "group_id=2 type=all bucket=output:1,2 bucket=actions=set_field:5->reg0,output:3",
        "group_id=3,type=indirect,bucket=drop",
        "group_id=4,type=fast_failover,bucket=watch_port:1,1,bucket=watch_group:3,actions=2",
    ] {
        let GroupMod::Add(group) = parse_group(text).unwrap() else { panic!("{text}") };
        for text in [text.to_owned(), group_text(&group)] {
            let Some((out, err)) = ovs_ofctl(&["parse-group", &text], "") else { return };
            let printed = out.lines().find_map(|line| line.trim().strip_prefix("ADD "));
            assert_eq!(printed, Some(&*group_text(&group)), "{text}: {err}");
        }
        assert!(group.buckets.iter().all(|b| !actions_text(&b.actions).is_empty()));
    }
}
