//! Groups and meters.

use crate::format::ovs::{
    group_text, meter_text, parse_group, parse_meter, read_groups, read_meters,
};
use crate::openflow::{Band, BandKind, GroupMod, MeterMod, port};

#[test]
fn groups_have_one_spelling() {
    let check = |text: &str, expected: &str| {
        for text in [text, expected] {
            match parse_group(text).unwrap_or_else(|errors| panic!("{text}\n{errors}")) {
                GroupMod::Add(group) => assert_eq!(group_text(&group), expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    };
    check("group_id=1,type=select,bucket=weight:1,actions=output:1", {
        "group_id=1,type=select,bucket=actions=output:1"
    });
    check("group_id=1,type=select,bucket=weight:4,actions=output:1,2,bucket=weight=0,3", {
        "group_id=1,type=select,bucket=weight:4,actions=output:1,output:2,\
         bucket=weight:0,actions=output:3"
    });
    check("add group_id=2 type=all bucket=output:1 bucket=actions=mod_nw_src:1.2.3.4,group:5", {
        "group_id=2,type=all,bucket=actions=output:1,\
         bucket=actions=set_field:1.2.3.4->ip_src,group:5"
    });
    check("group_id=3,type=fast_failover,bucket=watch_port:1,1,bucket=watch_group:3,actions=2", {
        "group_id=3,type=ff,bucket=watch_port:1,actions=output:1,\
         bucket=watch_group:3,actions=output:2"
    });
    check("group_id=4,type=all", "group_id=4,type=all");
    check(
        "group_id=5,type=indirect,bucket=actions=",
        "group_id=5,type=indirect,bucket=actions=drop",
    );
    check("group_id=6,type=select,bucket=bucket_id:7,resubmit(1,2)", {
        "group_id=6,type=select,bucket=actions=resubmit(1,2)"
    });
}

#[test]
fn groups_are_changed_and_deleted() {
    let modify = parse_group("modify group_id=1,type=all").unwrap();
    assert!(matches!(modify, GroupMod::Modify(group) if group.id == 1));
    assert_eq!(parse_group("delete group_id=9").unwrap(), GroupMod::Delete(9));
    assert_eq!(parse_group("delete").unwrap(), GroupMod::Delete(port::GROUP_ALL));
}

#[test]
fn wrong_groups_are_reported() {
    let check = |text: &str, why: &str| {
        let errors = parse_group(text).unwrap_err();
        assert!(errors.to_string().contains(why), "{text}: {errors}");
    };
    check("group_id=1", "missing type");
    check("type=all,bucket=output:1", "missing group_id");
    check("group_id=1,type=any", "unknown type of group");
    check("group_id=all,type=all", "reserved number of groups");
    check("group_id=1,type=all,bucket=weight:4,1", "not of type select");
    check("group_id=1,type=ff,bucket=output:1", "watches nothing");
    check("group_id=1,type=all,bucket=goto_table:1", "in a list of actions");
    check("group_id=1,type=all,bucket=learn(table=1)", "unsupported action learn");
    check("group_id=1,type=select,selection_method=hash,bucket=1", "selection_method");
    check("group_id=1,type=all,bucket=foo,bucket=bar", "unknown action");
    check("group_id=1,type=all,colour=red", "unknown property");
}

#[test]
fn meters_have_one_spelling() {
    let check = |text: &str, expected: &str| {
        for text in [text, expected] {
            match parse_meter(text).unwrap_or_else(|errors| panic!("{text}\n{errors}")) {
                MeterMod::Add(meter) => assert_eq!(meter_text(&meter), expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    };
    check("meter=1,kbps,burst,stats,band=type=drop,rate=1000,burst_size=5", {
        "meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=5"
    });
    check("meter=1 pktps bands= type=drop rate=1000 type=dscp_remark rate=5 prec_level=2", {
        "meter=1,pktps,bands=type=drop,rate=1000,type=dscp_remark,rate=5,prec_level=2"
    });
    check("meter=controller,kbps,bands=type=drop,rate=1", {
        "meter=controller,kbps,bands=type=drop,rate=1"
    });
    let MeterMod::Modify(meter) =
        parse_meter("modify meter=2,kbps,bands=type=drop,rate=9").unwrap()
    else {
        panic!("a modification");
    };
    assert_eq!(meter.bands, [Band { rate: 9, burst: 0, kind: BandKind::Drop }]);
    assert_eq!(parse_meter("delete meter=all").unwrap(), MeterMod::Delete(u32::MAX));
}

/// Dumps are files, and their lines keep their numbers.
#[test]
fn dumps_of_groups_and_meters_are_read() {
    let groups = "OFPST_GROUP_DESC reply (OF1.3) (xid=0x2):\n \
                  group_id=1,type=all,bucket=output:2\n";
    assert_eq!(read_groups("groups", groups).unwrap().len(), 1);
    let meters = "OFPST_METER_CONFIG reply (OF1.3) (xid=0x2):\nmeter=1 kbps burst bands=\n\
                  type=drop rate=7 burst_size=3\n\nmeter=2 pktps stats bands=\ntype=drop rate=8\n\
                  type=dscp_remark rate=9 prec_level=1\n";
    let read = read_meters("meters", meters).unwrap();
    let texts: Vec<String> = read
        .into_iter()
        .map(|change| match change {
            MeterMod::Add(meter) => meter_text(&meter),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        texts,
        [
            "meter=1,kbps,burst,bands=type=drop,rate=7,burst_size=3",
            "meter=2,pktps,stats,bands=type=drop,rate=8,type=dscp_remark,rate=9,prec_level=1"
        ]
    );
    let errors = read_meters("meters", &format!("{meters}meter=3 speed=1\n")).unwrap_err();
    assert!(errors.to_string().contains("meters:8:"), "{errors}");
}

#[test]
fn wrong_meters_are_reported() {
    let check = |text: &str, why: &str| {
        let errors = parse_meter(text).unwrap_err();
        assert!(errors.to_string().contains(why), "{text}: {errors}");
    };
    check("kbps,bands=type=drop,rate=1", "missing number");
    check("meter=0,kbps,bands=type=drop,rate=1", "missing number");
    check("meter=1,bands=type=drop,rate=1", "missing unit");
    check("meter=1,kbps", "missing band");
    check("meter=1,kbps,bands=type=drop", "missing rate");
    check("meter=1,kbps,pktps", "two units");
    check("meter=1,kbps,rate=1", "outside a band");
    check("meter=1,kbps,bands=type=mark,rate=1", "unknown type of band");
    check("meter=1,kbps,bands=type=drop,rate=1,prec_level=1", "level in a band that drops");
    check("meter=1,speed=3", "unknown property");
    check("meter=1,kbps,bands=bands=type=drop,rate=1,rate=x", "not a number");
}
