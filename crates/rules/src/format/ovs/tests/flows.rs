//! Flows, changes, filters and packets.

use crate::format::ovs::{
    change_text, flow_text, key_text, match_text, parse_change, parse_filter, parse_flow,
    parse_key, read_changes, read_flows,
};
use crate::openflow::{FlowCommand, field, port};

fn spelled(text: &str) -> String {
    let flow = parse_flow(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    flow_text(&flow)
}

#[test]
fn every_property_is_read_and_written() {
    let check = |text: &str, expected: &str| {
        assert_eq!(spelled(text), expected, "{text}");
        assert_eq!(spelled(expected), expected, "{text}: not canonical");
    };
    check("actions=drop", "actions=drop");
    check(
        "table=1,priority=10,cookie=0x5,idle_timeout=3,hard_timeout=4,importance=7,send_flow_rem,\
         check_overlap,reset_counts,no_packet_counts,no_byte_counts,tcp,tp_dst=80,actions=1",
        "cookie=0x5, table=1, idle_timeout=3, hard_timeout=4, send_flow_rem check_overlap \
         reset_counts no_packet_counts no_byte_counts importance=7, priority=10,tcp,tp_dst=80 \
         actions=output:1",
    );
    check("priority=32768,in_port=5 actions=drop", "in_port=5 actions=drop");
    let dump = "cookie=0x0, duration=12.3s, table=0, n_packets=5, n_bytes=500, idle_age=12, \
                priority=100,tcp,tp_dst=80 actions=drop";
    check(dump, "priority=100,tcp,tp_dst=80 actions=drop");
}

#[test]
fn matches_are_written_in_the_order_of_dump_flows() {
    let check = |text: &str, expected: &str| {
        let flow = parse_flow(&format!("{text},actions=drop"));
        let flow = flow.unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(match_text(&flow.matching), expected, "{text}");
    };
    check(
        "in_port=1,metadata=0x5/0xff,tun_dst=1.2.0.0/16,tun_id=5,xreg1=0x1/0xff00000001,reg0=1,\
         pkt_mark=3,ip",
        "pkt_mark=0x3,ip,reg0=0x1,reg2=0/0xff,reg3=0x1/0x1,tun_id=0x5,tun_dst=1.2.0.0/16,\
         metadata=0x5/0xff,in_port=1",
    );
    check("xxreg2=5", "reg8=0,reg9=0,reg10=0,reg11=0x5");
    check(
        "ipv6,ip_dscp=3,ipv6_label=5/0xff,nw_ttl=3,ipv6_src=::1,ipv6_dst=2001:db8::/32",
        "ipv6,ipv6_src=::1,ipv6_dst=2001:db8::/32,ipv6_label=0x00005/0x000ff,nw_tos=12,nw_ttl=3",
    );
    check("ipv6,ipv6_dst=::1/::5,nw_proto=3", "ipv6,ipv6_dst=::1/::5,nw_proto=3");
    check(
        "arp,arp_op=2,arp_tpa=1.2.0.0/255.255.0.0,arp_sha=00:00:00:00:00:01,arp_spa=1.2.3.4",
        "arp,arp_spa=1.2.3.4,arp_tpa=1.2.0.0/16,arp_op=2,arp_sha=00:00:00:00:00:01",
    );
    check(
        "icmp6,icmpv6_type=135,icmpv6_code=0,nd_sll=00:00:00:00:00:01,nd_target=::1",
        "icmp6,icmp_type=135,icmp_code=0,nd_target=::1,nd_sll=00:00:00:00:00:01",
    );
    check("mpls,mpls_bos=1,mpls_label=5,mpls_tc=2", "mpls,mpls_label=5,mpls_tc=2,mpls_bos=1");
    for name in ["no", "yes", "first", "later", "not_later"] {
        check(&format!("ip,ip_frag={name}"), &format!("ip,nw_frag={name}"));
    }
    check("ip,nw_frag=0x1/0x3", "ip,nw_frag=first");
    check("vlan_vid=0x1005/0x100f", "vlan_tci=0x1005/0x100f");
    check("vlan_tci=0", "vlan_tci=0x0000/0x1fff");
    check("dl_vlan=0xffff", "vlan_tci=0x0000/0x1fff");
    check("dl_vlan_pcp=3,vlan_vid=0x1005", "dl_vlan=5,dl_vlan_pcp=3");
    check("dl_type=0x88e7,pbb_isid=5/0xff,pbb_uca=1", {
        "dl_type=0x88e7,pbb_isid=0x5/0xff,pbb_uca=1"
    });
    check("in_port=3,in_phy_port=4", "in_port=3,in_phy_port=4");
    check("ipv6,ipv6_exthdr=3/7", "ipv6,ipv6_exthdr=0x3/0x7");
    check("icmp,tp_src=8,tp_dst=0", "icmp,icmp_type=8,icmp_code=0");
    check("OXM_OF_METADATA=3,NXM_OF_ETH_TYPE=0x800,NXM_OF_IP_SRC=1.2.3.4", {
        "ip,metadata=0x3,nw_src=1.2.3.4"
    });
}

#[test]
fn changes_start_with_a_command() {
    let check = |text: &str, command: FlowCommand, expected: &str| {
        let change = parse_change(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(change.command, command, "{text}");
        assert_eq!(change_text(&change), expected, "{text}");
        assert_eq!(parse_change(expected).unwrap(), change, "{text}");
    };
    check("in_port=1,actions=2", FlowCommand::Add, "add in_port=1 actions=output:2");
    check("modify cookie=5/0xff,table=3,tcp actions=drop", FlowCommand::Modify, {
        "modify cookie=0x5/0xff, table=3, tcp actions=drop"
    });
    check("delete_strict priority=5,out_port=LOCAL,tcp,cookie=1/-1", FlowCommand::DeleteStrict, {
        "delete_strict cookie=0x1/0xffffffffffffffff, out_port=LOCAL, priority=5,tcp"
    });
    check("delete", FlowCommand::Delete, "delete");
    check("delete out_group=7 table=0", FlowCommand::Delete, "delete table=0, out_group=7");
    let changes = read_changes("f", "# all\nadd actions=1\n\ndelete tcp\n").unwrap();
    assert_eq!(changes.len(), 2);
    assert_eq!((changes[0].flow.table, changes[1].flow.table), (0, port::TABLE_ALL));
    let refuse = |text: &str, why: &str| {
        let errors = parse_change(text).unwrap_err();
        assert!(errors.to_string().contains(why), "{text}: {errors}");
    };
    refuse("delete actions=drop", "a deletion has no actions");
    refuse("delete cookie=5", "selects no flows");
    refuse("add cookie=5/7 actions=drop", "no cookie mask");
    refuse("modify tcp", "missing actions");
}

#[test]
fn filters_select_flows() {
    let filter = parse_filter("table=3,cookie=0x5/0xff,out_port=1,out_group=2,tcp").unwrap();
    assert_eq!((filter.table, filter.cookie, filter.cookie_mask), (3, 5, 0xff));
    assert_eq!((filter.out_port, filter.out_group), (1, 2));
    assert_eq!(match_text(&filter.matching), "tcp");
    assert_eq!(parse_filter("").unwrap().table, port::TABLE_ALL);
    assert!(parse_filter("actions=drop").is_err());
}

#[test]
fn files_of_flows_have_comments_and_headers() {
    let text = "OFPST_FLOW reply (OF1.3) (xid=0x2):\n cookie=0x0, table=7, tcp actions=1 # web\n";
    let flows = read_flows("f", text).unwrap();
    assert_eq!((flows.len(), flows[0].table), (1, 7));
    let errors = read_flows("f", "foo actions=drop\ndelete\n").unwrap_err();
    let lines: Vec<u32> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [1, 2, 2]);
}

#[test]
fn a_file_of_another_format_has_one_error() {
    let rule = "@1.2.3.4/32\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\n";
    let errors = read_flows("f", &format!("# rules\n{}", rule.repeat(9))).unwrap_err();
    let lines: Vec<u32> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2]);
    assert!(errors.to_string().contains("convert --to ovs"), "{errors}");
}

#[test]
fn packets_are_read_and_written_with_every_field() {
    let check = |text: &str, expected: &str| {
        let key = parse_key(text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(key_text(&key), expected, "{text}");
        assert_eq!(parse_key(expected).unwrap(), key, "{text}");
    };
    let macs = "dl_src=00:00:00:00:00:00,dl_dst=00:00:00:00:00:00";
    check(
        "in_port=1,tcp,nw_dst=10.0.0.1,tp_dst=80,tcp_flags=syn",
        &format!(
            "tcp,in_port=1,vlan_tci=0x0000,{macs},nw_src=0.0.0.0,nw_dst=10.0.0.1,nw_tos=0,nw_ecn=0,\
         nw_ttl=0,nw_frag=no,tp_src=0,tp_dst=80,tcp_flags=syn"
        ),
    );
    check(
        "in_port=LOCAL,dl_vlan=5,dl_vlan_pcp=1,arp,arp_op=1,reg3=7",
        &format!(
            "arp,reg3=0x7,in_port=LOCAL,dl_vlan=5,dl_vlan_pcp=1,{macs},arp_spa=0.0.0.0,\
         arp_tpa=0.0.0.0,arp_op=1,arp_sha=00:00:00:00:00:00,arp_tha=00:00:00:00:00:00"
        ),
    );
    check(
        "mpls,mpls_label=3,metadata=5",
        &format!(
            "mpls,metadata=0x5,in_port=0,vlan_tci=0x0000,{macs},mpls_label=3,mpls_tc=0,mpls_bos=0"
        ),
    );
    check(
        "icmp6,icmpv6_type=136,nd_target=::1,nw_frag=no",
        &format!(
            "icmp6,in_port=0,vlan_tci=0x0000,{macs},ipv6_src=::,ipv6_dst=::,ipv6_label=0x00000,\
         nw_tos=0,nw_ecn=0,nw_ttl=0,nw_frag=no,icmp_type=136,icmp_code=0,nd_target=::1,\
         nd_tll=00:00:00:00:00:00"
        ),
    );
    let key = parse_key("udp,ip_frag=later,tun_id=9").unwrap();
    assert!(!key_text(&key).contains("tp_src"), "{}", key_text(&key));
    assert_eq!(field("tun_id").unwrap().range.read(&key), 9);
    let refuse = |text: &str, why: &str| {
        let errors = parse_key(text).unwrap_err();
        assert!(errors.to_string().contains(why), "{text}: {errors}");
    };
    refuse("tcp,actions=drop", "a packet has no actions");
    refuse("ip,nw_src=1.0.0.0/8", "one value in each field");
    refuse("priority=3", "unknown field");
    refuse("tp_dst=80", "without its protocol");
    refuse("tcp=80", "tcp takes no value");
    refuse("eth(src=02:00:00:00:00:01)", "eth takes no value");
}

#[test]
fn names_of_other_switches_are_told_from_typing_errors() {
    let check = |text: &str, why: &str| {
        let errors = parse_flow(text).unwrap_err();
        assert!(errors.to_string().contains(why), "{text}: {errors}");
    };
    check("ct_state=+trk actions=drop", "unsupported Open vSwitch field");
    check("conj_id=3 actions=drop", "unsupported Open vSwitch field");
    check("metadat=1 actions=drop", "is metadata meant?");
    check("nd_target=::1,icmp6 actions=drop", "icmp6,icmpv6_type=136 beside it");
    check("mpls_label=3 actions=drop", "mpls or mplsm");
    check("icmp,tp_src=300 actions=drop", "tp_src of ICMP is icmp_type");
    check("ip,ip_frag=some actions=drop", "unknown kind of fragments");
    check("in_phy_port=3 actions=drop", "in_port beside it");
}
