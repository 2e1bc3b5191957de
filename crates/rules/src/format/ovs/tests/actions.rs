//! Actions: what each text means, and its one spelling.

use crate::format::ovs::{instructions_text, parse_actions, parse_flow, parse_instructions};
use crate::openflow::{FlowAction, MetadataWrite, Subfield, field, port};

/// Reads actions for packets that match `fields`, and returns their spelling.
fn spelled(fields: &str, list: &str) -> String {
    let text = format!("{fields},actions={list}");
    let flow = parse_flow(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    instructions_text(&flow.instructions)
}

#[test]
fn every_form_has_one_spelling() {
    let check = |fields: &str, list: &str, expected: &str| {
        assert_eq!(spelled(fields, list), expected, "{list}");
        assert_eq!(spelled(fields, expected), expected, "{list}: not canonical");
    };
    let same = |fields: &str, list: &str| check(fields, list, list);
    same("", "drop");
    check("", "", "drop");
    check("", "1", "output:1");
    check("", "output=1 output(2)", "output:1,output:2");
    check("", "normal,flood,all,local,in_port", "NORMAL,FLOOD,ALL,LOCAL,IN_PORT");
    check("", "output:in_port,output:65534", "IN_PORT,LOCAL");
    check("", "controller,controller:128", "CONTROLLER:65535,CONTROLLER:128");
    check("", "controller(max_len=5)", "CONTROLLER:5");
    check("", "controller(id=3,max_len=5,reason=no_match)", {
        "controller(reason=no_match,max_len=5,id=3)"
    });
    check("", "output:reg0[0..15],output:NXM_NX_REG1", {
        "output:NXM_NX_REG0[0..15],output:NXM_NX_REG1[]"
    });
    check("", "enqueue:1:2,enqueue(3,4)", {
        "set_queue:2,output:1,pop_queue,set_queue:4,output:3,pop_queue"
    });
    same("", "group:5,set_queue:3,pop_queue,exit");
    check("", "resubmit(1,2),resubmit:3,resubmit(,4),resubmit(5),resubmit(in_port,4)", {
        "resubmit(1,2),resubmit:3,resubmit(,4),resubmit:5,resubmit(,4)"
    });
    check("", "note:00.01.02", "note:00.01.02.00.00.00");
    check("", "move:reg0[]->reg1[],move:in_port[]->reg2[0..15],push:reg0[3],pop:reg1[2..7]", {
        "move:NXM_NX_REG0[]->NXM_NX_REG1[],move:NXM_OF_IN_PORT[]->NXM_NX_REG2[0..15],\
         push:NXM_NX_REG0[3],pop:NXM_NX_REG1[2..7]"
    });
    check("", "pass,mark:5", "NORMAL,set_field:0x5->pkt_mark");
    same("", "push_pbb:0x88e7,pop_pbb,copy_ttl_out,copy_ttl_in");
}

#[test]
fn fields_are_set_in_one_spelling() {
    let check = |fields: &str, list: &str, expected: &str| {
        assert_eq!(spelled(fields, list), expected, "{list}");
        assert_eq!(spelled(fields, expected), expected, "{list}: not canonical");
    };
    check("", "load:5->reg0[],set_field:5->reg1", "set_field:0x5->reg0,set_field:0x5->reg1");
    check("", "load:5->NXM_NX_REG0[3..7],set_field:0x5/0xff->reg1", {
        "load:0x5->NXM_NX_REG0[3..7],load:0x5->NXM_NX_REG1[0..7]"
    });
    check("", "set_field:0/0xf0->xxreg1,load:3->xreg0[0..40]", {
        "load:0->NXM_NX_XXREG1[4..7],load:0x3->OXM_OF_PKT_REG0[0..40]"
    });
    check("", "set_field:7/5->metadata", "set_field:0x5/0x5->metadata");
    check("ip", "mod_nw_src:1.2.3.4,mod_nw_tos:16,mod_nw_ecn:2,mod_nw_ttl:4,dec_ttl", {
        "set_field:1.2.3.4->ip_src,set_field:4->ip_dscp,set_field:2->nw_ecn,mod_nw_ttl:4,dec_ttl"
    });
    check("tcp", "mod_tp_src:5,set_field:6->tp_dst", "set_field:5->tcp_src,set_field:6->tcp_dst");
    check("udp6", "mod_tp_src:5", "set_field:5->udp_src");
    check("mpls", "set_mpls_label:3,set_mpls_tc:2,set_mpls_ttl:4,dec_mpls_ttl,pop_mpls:0x800", {
        "set_field:3->mpls_label,set_field:2->mpls_tc,set_mpls_ttl(4),dec_mpls_ttl,pop_mpls:0x0800"
    });
    check("", "set_tunnel:5,set_field:LOCAL->in_port", {
        "set_field:0x5->tun_id,set_field:LOCAL->in_port"
    });
    check("", "set_field:::1->ipv6_src,mod_dl_dst:1:2:3:4:5:6", {
        "set_field:::1->ipv6_src,set_field:01:02:03:04:05:06->eth_dst"
    });
}

#[test]
fn a_vlan_id_is_pushed_on_packets_without_a_tag() {
    let check = |fields: &str, list: &str, expected: &str| {
        assert_eq!(spelled(fields, list), expected, "{fields} {list}");
    };
    let pushed = "push_vlan:0x8100,set_field:4101->vlan_vid";
    check("ip", "mod_vlan_vid:5", pushed);
    check("dl_vlan=3", "mod_vlan_vid:5", "set_field:4101->vlan_vid");
    check("vlan_tci=0/0x1fff", "mod_vlan_vid:5", pushed);
    check("", "mod_vlan_vid:5,mod_vlan_pcp:3", &format!("{pushed},set_field:3->vlan_pcp"));
    check("dl_vlan=3", "strip_vlan,mod_vlan_vid:5", &format!("pop_vlan,{pushed}"));
    check("dl_vlan=3", "set_vlan_vid:5", "set_field:4101->vlan_vid");
}

#[test]
fn instructions_are_told_from_actions() {
    let text = "meter:3,output:1,clear_actions,write_actions(group:3,output:2),\
                write_metadata:0x5/0xff,goto_table:4";
    let instructions = parse_instructions(text).unwrap();
    assert_eq!(instructions_text(&instructions), text);
    assert_eq!((instructions.meter, instructions.goto_table), (Some(3), Some(4)));
    assert_eq!(instructions.metadata, Some(MetadataWrite { value: 5, mask: 0xff }));
    assert_eq!((instructions.apply.len(), instructions.write.len()), (1, 2));
    assert!(instructions.clear);
    assert!(parse_instructions("write_actions()").unwrap().is_drop());
    let whole = parse_instructions("write_metadata:7").unwrap();
    assert_eq!(instructions_text(&whole), "write_metadata:0x7");
}

#[test]
fn bits_of_fields_have_their_width() {
    let reg0 = field("reg0").unwrap();
    let read = |text: &str| parse_actions(&format!("push:{text}")).unwrap();
    let bits = |offset, bits| vec![FlowAction::StackPush(Subfield { field: reg0, offset, bits })];
    assert_eq!(read("reg0[]"), bits(0, 32));
    assert_eq!(read("reg0[31]"), bits(31, 1));
    assert_eq!(read("NXM_NX_REG0[4..7]"), bits(4, 4));
    let in_port = field("in_port").unwrap();
    let short = Subfield { field: in_port, offset: 0, bits: 16 };
    assert_eq!(read("in_port[]"), [FlowAction::StackPush(short)]);
    assert_eq!(read("OXM_OF_IN_PORT[]"), [FlowAction::StackPush(Subfield::whole(in_port))]);
    let output = FlowAction::Output { port: port::CONTROLLER, max_len: port::NO_BUFFER };
    assert_eq!(parse_actions("controller").unwrap(), [output]);
}

#[test]
fn wrong_actions_are_reported_with_place_and_cause() {
    let check = |fields: &str, list: &str, place: &str, why: &str| {
        let text = format!("{fields} actions={list}");
        let errors = parse_flow(&text).unwrap_err();
        let found = errors.iter().any(|e| e.text == place && e.message.contains(why));
        assert!(found, "{text}: {errors}");
    };
    for name in ["learn", "ct", "conjunction", "bundle", "multipath", "sample", "nat", "clone"] {
        let list = format!("output:1,{name}(table=1)");
        check("", &list, name, &format!("unsupported action {name}"));
    }
    check("", "foo", "foo", "unknown action");
    check("", "drop,output:1", "drop", "drop combined");
    check("", "output:70000", "70000", "unknown port");
    check("", "output:", "", "unknown port");
    check("", "output", "output", "without a port");
    check("", "output(port=1,max_len=100)", "port=1,max_len=100", "truncation");
    check("", "resubmit(,1", "(", "unmatched opening");
    check("", "resubmit,1)", ")", "unmatched closing");
    check("", "resubmit(1,2,ct)", "ct", "unsupported argument");
    check("", "load:0x100000000->NXM_NX_PKT_MARK[]", "0x100000000", "too large");
    check("", "load:5->reg0[0..1]", "5", "too large");
    check("", "load:5->reg0[3..1]", "3..1", "before the first");
    check("", "load:5->reg0[3..40]", "40", "too large");
    check("", "load:5->reg99[]", "reg99", "unknown field");
    check("", "load:5", "", "missing arrow");
    check("", "set_field:5->tcp_flags", "tcp_flags", "read-only");
    check("", "set_field:5/7->nw_ttl", "5/7", "as a whole");
    check("", "move:reg0[]->reg1[0..3]", "move:reg0[]->reg1[0..3]", "32 bits moved to 4");
    check("", "mod_tp_src:5", "mod_tp_src", "without its protocol");
    check("ip", "mod_nw_tos:33", "33", "ECN");
    check("", "push_vlan:0x800", "0x800", "EtherType");
    check("", "dec_ttl(1,2)", "1,2", "controllers of dec_ttl");
    check("", "note:0g", "0g", "invalid bytes");
    check("", "goto_table:1,output:2", "output:2", "actions behind goto_table");
    check("", "output:1,meter:1", "meter:1", "meter behind actions");
    check("", "goto_table:1,goto_table:2", "goto_table:2", "duplicate goto_table");
    check("", "goto_table:255", "255", "too large");
    check("", "apply_actions(output:1)", "apply_actions", "unexpected apply_actions");
    check("", "write_actions(goto_table:1)", "goto_table", "in a list of actions");
    check("", "write_actions(write_actions(output:1))", "write_actions", "in a list of actions");
    check("", "controller(userdata=00)", "userdata", "unsupported option");
    check("", "pop_vlan:3", "3", "no argument");
    assert_eq!(parse_instructions("foo,bar").unwrap_err().len(), 2);
    let close = parse_instructions("set_feild:1->reg0").unwrap_err();
    assert!(close.to_string().contains("is set_field meant?"), "{close}");
    let deep = format!("{}output:1{}", "write_actions(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(parse_instructions(&deep).unwrap_err().len(), 1);
}
