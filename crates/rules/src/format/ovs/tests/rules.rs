//! Rule sets read from flow text, and written as it.

use crate::format::{
    ReadOptions, RulesFormat, WriteError, format_match, read_rules, write_rules, write_rules_report,
};
use crate::schema::{Field, IPV4_5TUPLE, IPV6_5TUPLE, OPENFLOW12, OPENFLOW12_IPV6, Schema};
use crate::{Action, Match, Rule, RuleId, Ruleset, RulesetBuilder, linear};

/// What `ovs-ofctl` made of flows, kept as it was printed.
const ORACLE: &str = include_str!("oracle.txt");

fn options(schema: Option<&'static Schema>) -> ReadOptions {
    ReadOptions { format: Some(RulesFormat::Ovs), schema, tcp_flags: false }
}

fn parse(text: &str) -> Ruleset {
    read_rules("f", text, &options(None)).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

#[test]
fn flows_mean_what_ovs_ofctl_says() {
    let mut count = 0;
    for line in ORACLE.lines().filter(|l| !l.starts_with('#')) {
        let (text, meaning) = line.split_once(" => ").unwrap();
        let (ours, theirs) = (parse(text), parse(meaning));
        let demand = |rules: &Ruleset| format_match(rules.schema(), rules.matching(RuleId(0)));
        assert_eq!(demand(&ours), demand(&theirs), "{line}");
        let (ours, theirs) = (ours.to_rule(RuleId(0)), theirs.to_rule(RuleId(0)));
        assert_eq!(ours.priority, theirs.priority, "{line}");
        // The text of lists that a rule set keeps as they are may differ.
        if !matches!(ours.action, Action::List(_)) {
            assert_eq!(ours.action, theirs.action, "{line}");
        }
        count += 1;
    }
    assert!(count > 150, "{count} cases");
}

#[test]
fn flows_in_canonical_form() {
    let check = |text: &str, expected: &str| {
        let rules = parse(text);
        let matching = format_match(rules.schema(), rules.matching(RuleId(0)));
        let (priority, action) = (rules.priority(RuleId(0)), rules.action(RuleId(0)));
        let got = format!("{} {priority} [{matching}] {action}", rules.schema().name);
        assert_eq!(got, expected, "{text}");
    };
    check("actions=drop", "openflow12 32768 [] drop");
    check("priority=7,tcp,tp_dst=80 actions=output:3", {
        "openflow12 7 [eth_type=0x0800, l4_dst=80, ip_proto=6] output:3"
    });
    check("dl_vlan=5,dl_vlan_pcp=3 actions=NORMAL", "openflow12 32768 [vlan_tci=0x7005] pass");
    check("dl_vlan=0xffff actions=drop", "openflow12 32768 [vlan_tci=0x0000] drop");
    check("ip,nw_tos=33,nw_ecn=1 actions=drop", {
        "openflow12 32768 [eth_type=0x0800, ip_tos=0x21] drop"
    });
    check("tcp,tcp_flags=+syn-ack actions=mark:5", {
        "openflow12 32768 [eth_type=0x0800, ip_proto=6, tcp_flags=0x002/0x012] mark:5"
    });
    check("arp,arp_spa=1.2.3.4,arp_op=2 actions=drop", {
        "openflow12 32768 [eth_type=0x0806, ipv4_src=1.2.3.4, ip_proto=2] drop"
    });
    check("tcp6,ipv6_dst=2001:db8::/32 actions=drop", {
        "openflow12_ipv6 32768 [eth_type=0x86dd, ipv6_dst=2001:db8::/32, ip_proto=6] drop"
    });
}

#[test]
fn a_dump_is_read_like_a_file_of_flows() {
    let dump = "NXST_FLOW reply (xid=0x4):\n \
        cookie=0x0, duration=12.3s, table=0, n_packets=5, n_bytes=500, idle_age=12, \
        priority=100,tcp,tp_dst=80 actions=drop\n \
        cookie=0x0, duration=1s, table=0, n_packets=0, n_bytes=0, actions=NORMAL\r\n";
    let file = "# ours\n\nadd priority=100 tcp tp_dst=80 actions=drop # web\n,actions=NORMAL";
    let (dump, file) = (parse(dump), parse(file));
    assert_eq!((dump.len(), dump.line(RuleId(0)), dump.line(RuleId(1))), (2, 2, 3));
    for id in dump.ids() {
        assert_eq!(dump.matching(id), file.matching(id));
        assert_eq!((dump.priority(id), dump.action(id)), (file.priority(id), file.action(id)));
    }
    let openflow13 = "OFPST_FLOW reply (OF1.3) (xid=0x2):\n actions=drop\n";
    let rules = read_rules("f", openflow13, &ReadOptions::default()).unwrap();
    assert_eq!(rules.len(), 1);
}

#[test]
fn every_error_of_a_line_is_reported_at_its_place() {
    let check = |line: &str, expected: &[(u32, &str)]| {
        let errors = read_rules("f", line, &options(None)).unwrap_err();
        let places: Vec<_> = errors.iter().map(|d| (d.column, d.text.as_str())).collect();
        assert_eq!(places, expected, "{errors}");
    };
    check("ip,nw_src=1.2.3,nw_proto=300,foo actions=bar", {
        &[(11, "1.2.3"), (26, "300"), (30, "foo"), (42, "bar")]
    });
    check("ip,nw_src=1.2.3.4", &[(18, "")]);
    check("tp_dst=80 actions=drop", &[(1, "tp_dst=80")]);
    check("tp_dst=80 actions=foo", &[(1, "tp_dst=80"), (19, "foo")]);
    check("tcp actions drop", &[(5, "actions"), (13, "drop"), (17, "")]);
    check("udp,tcp_dst=80 actions=drop", &[(5, "tcp_dst=80")]);
    check("ip,tcp_flags=syn actions=drop", &[(4, "tcp_flags=syn")]);
    check("ipv6,nw_src=1.2.3.4 actions=drop", &[(6, "nw_src=1.2.3.4")]);
    check("table=1 actions=drop", &[(7, "1")]);
    check("metadata=1 actions=drop", &[(1, "metadata=1")]);
    check("delete in_port=1 actions=drop", &[(1, "delete")]);
    check("in_port=1 actions=drop,output:1", &[(19, "drop")]);
    check("icmp,icmp_type=8/15 actions=drop", &[(16, "8/15")]);
    check("dl_vlan=4096 actions=drop", &[(9, "4096")]);
    check("vlan_tci=0x5 actions=drop", &[(1, "vlan_tci=0x5")]);
    check("in_port actions=drop", &[(8, "")]);
    check("priority=65536 actions=drop", &[(10, "65536")]);
    let wrong = read_rules("f", "tp_dest=80 actions=drop", &options(None)).unwrap_err();
    assert!(wrong.to_string().contains("is tp_dst meant?"), "{wrong}");
    let wrong = read_rules("f", "tpc,tp_dst=80 actions=drop", &options(None)).unwrap_err();
    assert!(wrong.to_string().contains("is tcp meant?"), "{wrong}");
}

#[test]
fn a_line_of_errors_alone_is_counted() {
    let line = "foo,".repeat(100_000);
    let errors = read_rules("f", &line, &options(None)).unwrap_err();
    assert_eq!(errors.len(), 100_001);
    assert!(errors.to_string().ends_with("and 99,991 more errors\n"));
}

#[test]
fn tuple_schemas_imply_their_family() {
    let text = "tcp,nw_src=10.0.0.0/8,tp_dst=80 actions=drop\npriority=0 actions=NORMAL\n";
    let rules = read_rules("f", text, &options(Some(&IPV4_5TUPLE))).unwrap();
    assert_eq!(format_match(&IPV4_5TUPLE, rules.matching(RuleId(0))), {
        "ipv4_src=10.0.0.0/8, l4_dst=80, ip_proto=6"
    });
    assert_eq!(format_match(&IPV4_5TUPLE, rules.matching(RuleId(1))), "");
    let six = read_rules("f", "udp6,tp_src=1 actions=drop", &options(Some(&IPV6_5TUPLE))).unwrap();
    assert_eq!(format_match(&IPV6_5TUPLE, six.matching(RuleId(0))), "l4_src=1, ip_proto=17");
    let refuse = |text: &str, schema: &'static Schema| {
        assert!(read_rules("f", text, &options(Some(schema))).is_err(), "{text}");
    };
    refuse("tcp6 actions=drop", &IPV4_5TUPLE);
    refuse("tcp actions=drop", &IPV6_5TUPLE);
    refuse("arp actions=drop", &IPV4_5TUPLE);
    refuse("in_port=1,tcp actions=drop", &IPV4_5TUPLE);
    refuse("ip,nw_tos=4 actions=drop", &IPV4_5TUPLE);
    refuse("icmp,icmp_type=8 actions=drop", &IPV4_5TUPLE);
    refuse("ipv6,ipv6_src=::1 actions=drop", &OPENFLOW12);
}

#[test]
fn what_was_written_reads_back_equal() {
    for line in ORACLE.lines().filter(|l| !l.starts_with('#')) {
        let rules = parse(line.split_once(" => ").unwrap().0);
        let mut text = Vec::new();
        write_rules(&rules, RulesFormat::Ovs, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let back = parse(&text);
        assert_eq!(back.matching(RuleId(0)), rules.matching(RuleId(0)), "{text}");
        assert_eq!(back.action(RuleId(0)), rules.action(RuleId(0)), "{text}");
        assert_eq!(back.priority(RuleId(0)), rules.priority(RuleId(0)), "{text}");
    }
}

#[test]
fn ranges_become_prefixes_and_lists_become_priorities() {
    let text = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 1024 : 65535 0x06/0xFF\n\
                @10.0.0.0/8 0.0.0.0/0 7 : 8 80 : 82 0x11/0xFF\n\
                @0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n";
    let rules = read_rules("f", text, &ReadOptions::default()).unwrap();
    let mut flows = Vec::new();
    let report = write_rules_report(&rules, RulesFormat::Ovs, &mut flows).unwrap();
    assert_eq!((report.lines, report.rules_split), (6 + 4 + 1, 2));
    assert!(report.renumbered && report.ties == 0);
    let flows = String::from_utf8(flows).unwrap();
    assert!(flows.ends_with("priority=65533,ip actions=NORMAL\n"), "{flows}");
    let back = read_rules("f", &flows, &options(Some(&IPV4_5TUPLE))).unwrap();
    for dst in (0..=65535).step_by(7).chain(78..84) {
        for (src, proto) in [(6, 17), (7, 17), (8, 17), (9, 6), (9, 17), (7, 6)] {
            let key = [0x0a01_0203, 0, src << 16 | dst, proto << 24];
            let wins = |set: &Ruleset| linear::lookup(set, &key);
            let lost = PRIORITY_MAX_OF_LIST - back.priority(wins(&back));
            assert_eq!(lost, wins(&rules).0, "{src} {dst} {proto}");
        }
    }
}

#[test]
fn ties_are_numbered_away_kept_and_counted_or_refused() {
    let write = |priorities: &[u32]| {
        let mut rules = RulesetBuilder::new(&OPENFLOW12);
        for &priority in priorities {
            let mut rule = Rule::new(Match::any(&OPENFLOW12), Action::Pass);
            rule.priority = priority;
            rules.push(rule);
        }
        let mut text = Vec::new();
        let report = write_rules_report(&rules.build(), RulesFormat::Ovs, &mut text)?;
        let text = String::from_utf8(text).unwrap();
        let priority = |line: &str| line.split([',', '=', ' ']).nth(1).unwrap().to_owned();
        Ok((report.renumbered, report.ties, text.lines().map(priority).collect::<Vec<_>>()))
    };
    let check = |priorities: &[u32], renumbered: bool, ties: usize, written: &[&str]| {
        let (was, tied, text) = write(priorities).map_err(|e: WriteError| e.to_string()).unwrap();
        assert_eq!((was, tied), (renumbered, ties), "{priorities:?}");
        assert_eq!(text, written, "{priorities:?}");
    };
    check(&[0, 0], true, 0, &["65535", "65534"]);
    check(&[0, 7, 0], true, 0, &["65534", "65535", "65533"]);
    check(&[7, 7, 0, 9], false, 2, &["7", "7", "0", "9"]);
    check(&[7], false, 0, &["7"]);
    assert!(write(&vec![0; 65536]).is_ok());
    let error = write(&vec![0; 65537]).unwrap_err();
    assert!(matches!(error, WriteError::TooMany { rules: 65537, most: 65536, .. }), "{error}");
}

/// The priority of the first rule of a list.
const PRIORITY_MAX_OF_LIST: u32 = 65535;

#[test]
fn rules_that_flow_text_lacks_are_refused_before_a_byte_is_written() {
    let check = |schema: &'static Schema, why: &str, set: &dyn Fn(&mut Rule)| {
        let mut rule = Rule::new(Match::any(schema), Action::Pass);
        set(&mut rule);
        let mut rules = RulesetBuilder::new(schema);
        rules.push(rule);
        let mut out = Vec::new();
        match write_rules(&rules.build(), RulesFormat::Ovs, &mut out) {
            Err(error @ WriteError::Rules(_)) => {
                assert!(error.to_string().contains(why), "{error}");
                assert!(out.is_empty());
            }
            result => panic!("{result:?} instead of {why}: {}", String::from_utf8_lossy(&out)),
        }
    };
    let tcp = |rule: &mut Rule| {
        rule.matching.set_exact(Field::EthType, 0x0800).set_exact(Field::IpProto, 6);
    };
    check(&IPV4_5TUPLE, "without exactly TCP", &|r| _ = r.matching.set_exact(Field::L4Src, 1));
    check(&IPV4_5TUPLE, "without exactly TCP", &|r| _ = r.matching.set_range(Field::L4Src, 0, 8));
    check(&IPV4_5TUPLE, "ip_proto is matched under a mask", &|r| {
        r.matching.set_mask(Field::IpProto, 4, 4);
    });
    check(&OPENFLOW12, "priority", &|r| r.priority = 65536);
    check(&OPENFLOW12, "no action", &|r| r.action = Action::Output(70_000));
    check(&OPENFLOW12, "no action", &|r| r.action = Action::List("a\nb".into()));
    check(&OPENFLOW12, "no port", &|r| _ = r.matching.set_exact(Field::InPort, 70_000));
    check(&OPENFLOW12, "in_port is matched under", &|r| {
        _ = r.matching.set_mask(Field::InPort, 1, 1)
    });
    check(&OPENFLOW12, "without its EtherType", &|r| _ = r.matching.set_exact(Field::Ipv4Src, 1));
    check(&OPENFLOW12, "without a VLAN tag", &|r| _ = r.matching.set_exact(Field::VlanTci, 5));
    check(&OPENFLOW12, "ip_tos is matched under", &|r| {
        tcp(r);
        r.matching.set_mask(Field::IpTos, 4, 4);
    });
    check(&OPENFLOW12_IPV6, "without its EtherType", &|r| {
        tcp(r);
        r.matching.set_exact(Field::Ipv6Src, 1 << 100);
    });
}
