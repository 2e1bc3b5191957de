//! From bytes to keys and back: what parsing finds, and what actions leave.

use super::*;
use crate::testing::{arp, assert_sums, by_name, ethernet, frames, ipv4, ipv6, output, set_field};
use proptest::prelude::*;
use warpswitch_rules::openflow::{FIELDS, FLOW_WORDS, FlowMatch};

fn packet(frame: &[u8]) -> Packet<'_> {
    Packet::new(frame, [0; FLOW_WORDS], Vec::new())
}

#[track_caller]
fn check_key(frame: &[u8], expected: &[(&str, u128)]) {
    let mut key = [u32::MAX; FLOW_WORDS];
    extract(frame, &mut key);
    assert!(key[..HEADER_WORDS_START].iter().all(|&word| word == u32::MAX));
    key[..HEADER_WORDS_START].fill(0);
    let mut matching = FlowMatch::any();
    for &(name, value) in expected {
        matching.set(by_name(name), value, u128::MAX);
    }
    for &(name, value) in expected {
        assert_eq!(by_name(name).range.read(&key), value, "{name} of {frame:02x?}");
    }
    let addresses = ["eth_dst", "eth_src"].map(by_name);
    for field in addresses {
        field.range.write(&mut key, 0);
    }
    assert_eq!(key, *matching.value(), "{frame:02x?}");
}

#[test]
fn keys_have_what_the_headers_say() {
    let v4 = [
        ("eth_type", 0x800),
        ("ip_dscp", 8),
        ("nw_ttl", 64),
        ("ip_src", 0xc0a8_0a0a),
        ("ip_dst", 0xc0a8_1414),
    ];
    let ports = |name: [&'static str; 2]| [(name[0], 11111), (name[1], 2222)];
    let with = |more: &[(&'static str, u128)]| [&v4[..], more].concat();
    let tcp = [("nw_proto", 6), ("tcp_flags", 0x12)];
    let tcp = [&tcp[..], &ports(["tcp_src", "tcp_dst"])].concat();
    check_key(&ethernet(&[], 0x800, &ipv4(6)), &with(&tcp));
    let icmp = [("nw_proto", 1), ("icmp_type", 8), ("icmp_code", 0)];
    check_key(&ethernet(&[], 0x800, &ipv4(1)), &with(&icmp));
    let sctp = [&[("nw_proto", 132)][..], &ports(["sctp_src", "sctp_dst"])].concat();
    check_key(&ethernet(&[], 0x800, &ipv4(132)), &with(&sctp));

    let tagged = ethernet(&[0x88, 0xa8, 0x70, 10, 0x81, 0, 0, 7], 0x800, &ipv4(6));
    let tags = [("vlan_vid", 0x100a), ("vlan_pcp", 3)];
    check_key(&tagged, &[&with(&tcp)[..], &tags].concat());
    check_key(&ethernet(&[], 0x88b5, &[1; 46]), &[("eth_type", 0x88b5)]);
    check_key(&ethernet(&[], 46, &[0x42; 46]), &[("eth_type", 0x5ff)]);
    let snap = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ipv4(6)].concat();
    check_key(&ethernet(&[], 60, &snap), &with(&tcp));
    check_key(&[0; 13], &[]);
}

#[test]
fn keys_of_neighbour_discovery_and_arp() {
    let nd = [
        ("eth_type", 0x86dd),
        ("nw_proto", 58),
        ("ip_dscp", 8),
        ("nw_ttl", 64),
        ("ipv6_label", 100),
        ("ipv6_exthdr", 64),
        ("ipv6_src", 0x0010_0000_0000_0000_0000_0000_0000_0010),
        ("ipv6_dst", u128::from_be_bytes([0x20; 16])),
        ("icmpv6_type", 135),
        ("nd_target", u128::from_be_bytes([0x20; 16])),
        ("nd_sll", 0x1211_1111_1111),
    ];
    check_key(&ethernet(&[], 0x86dd, &ipv6(58)), &nd);
    let arp_key = [
        ("eth_type", 0x806),
        ("arp_op", 1),
        ("arp_sha", 0x1211_1111_1111),
        ("arp_spa", 0x0a00_0001),
        ("arp_tpa", 0x0a00_0002),
    ];
    check_key(&ethernet(&[], 0x806, &arp()), &arp_key);
}

#[test]
fn later_fragments_have_no_ports_and_labels_hide_what_is_behind() {
    let mut later = ethernet(&[], 0x800, &ipv4(6));
    later[21] = 5;
    let key = [
        ("eth_type", 0x800),
        ("ip_dscp", 8),
        ("nw_ttl", 64),
        ("nw_proto", 6),
        ("ip_frag", 3),
        ("ip_src", 0xc0a8_0a0a),
        ("ip_dst", 0xc0a8_1414),
    ];
    check_key(&later, &key);
    let labels = [&[0, 6, 0x46, 64, 0, 3, 0x2f, 9][..], &ipv4(17)].concat();
    let key = [("eth_type", 0x8847), ("mpls_label", 100), ("mpls_tc", 3), ("mpls_bos", 0)];
    check_key(&ethernet(&[], 0x8847, &labels), &key);
    let customer = [&[0x08, 0, 0, 100][..], &ethernet(&[], 0x800, &ipv4(6))].concat();
    let key = [("eth_type", 0x88e7), ("pbb_isid", 100), ("pbb_uca", 1)];
    check_key(&ethernet(&[], 0x88e7, &customer), &key);
}

/// Executes actions and gives the frame.
fn edited(frame: &[u8], actions: &[FlowAction]) -> Vec<u8> {
    let mut packet = packet(frame);
    for action in actions {
        assert_eq!(packet.edit(action), Edit::Done);
    }
    packet.hand_out(<[u8]>::to_vec)
}

#[test]
fn tags_come_and_go() {
    let plain = ethernet(&[], 0x800, &ipv4(6));
    let tagged = ethernet(&[0x81, 0, 0x60, 100], 0x800, &ipv4(6));
    let set = [set_field("vlan_vid", 0x1064), set_field("vlan_pcp", 3)];
    let push = [&[FlowAction::PushVlan(0x8100)][..], &set].concat();
    assert_eq!(edited(&plain, &push), tagged);
    assert_eq!(edited(&tagged, &[FlowAction::PopVlan]), plain);
    let twice = ethernet(&[0x88, 0xa8, 0x60, 100, 0x81, 0, 0x60, 100], 0x800, &ipv4(6));
    assert_eq!(edited(&tagged, &[FlowAction::PushVlan(0x88a8)]), twice);
    assert_eq!(edited(&plain, &[set_field("vlan_tci", 0x7064)]), tagged);
    assert_eq!(edited(&tagged, &[set_field("vlan_tci", 0)]), plain);
}

#[test]
fn labels_come_and_go() {
    let plain = ethernet(&[], 0x800, &ipv4(6));
    let labelled = |labels: &[u8]| ethernet(&[], 0x8847, &[labels, &ipv4(6)].concat());
    let push = FlowAction::PushMpls(0x8847);
    assert_eq!(edited(&plain, std::slice::from_ref(&push)), labelled(&[0, 0, 1, 64]));
    let set = [set_field("mpls_label", 100), set_field("mpls_tc", 3)];
    let one = edited(&plain, &[&[push.clone()][..], &set].concat());
    assert_eq!(one, labelled(&[0, 6, 0x47, 64]));
    assert_eq!(
        edited(&one, std::slice::from_ref(&push)),
        labelled(&[0, 6, 0x46, 64, 0, 6, 0x47, 64])
    );
    let pop = [FlowAction::PopMpls(0x8847), FlowAction::PopMpls(0x800)];
    assert_eq!(edited(&one, &[&[push.clone()][..], &pop].concat()), plain);
    let tagged = ethernet(&[0x81, 0, 0x60, 100], 0x800, &ipv4(6));
    assert_eq!(edited(&tagged, &[push, FlowAction::PopMpls(0x8100)]), tagged);
}

#[test]
fn service_tags_come_and_go() {
    let tagged = ethernet(&[0x81, 0, 0x60, 100], 0x800, &ipv4(6));
    let push = [FlowAction::PushPbb(0x88e7), set_field("pbb_isid", 5), set_field("eth_dst", 9)];
    let backbone = edited(&tagged, &push);
    assert_eq!(backbone[..6], [0, 0, 0, 0, 0, 9]);
    assert_eq!(backbone[12..18], [0x88, 0xe7, 0x60, 0, 0, 5]);
    assert_eq!(backbone[18..], tagged);
    assert_eq!(edited(&backbone, &[FlowAction::PopPbb]), tagged);
    let twice = edited(&backbone, &[FlowAction::PushPbb(0x88e7), FlowAction::PopPbb]);
    assert_eq!(twice[18..], tagged);
}

#[test]
fn ttls_are_copied_decremented_and_end() {
    let labelled =
        |ttl: u8, inner: Vec<u8>| ethernet(&[], 0x8847, &[&[0, 6, 0x47, ttl][..], &inner].concat());
    let mut low = ipv4(6);
    let mut packet_low = packet(&[]).edit(&FlowAction::DecNwTtl);
    assert_eq!(packet_low, Edit::Done, "no IP, no TTL");
    low = edited(&ethernet(&[], 0x800, &low), &[FlowAction::SetNwTtl(32)])[14..].to_vec();
    assert_eq!(
        edited(&labelled(64, low.clone()), &[FlowAction::CopyTtlOut]),
        labelled(32, low.clone())
    );
    assert_eq!(edited(&labelled(64, low.clone()), &[FlowAction::CopyTtlIn]), labelled(64, ipv4(6)));
    let dec = edited(&labelled(64, low.clone()), &[FlowAction::DecMplsTtl]);
    assert_eq!(dec, labelled(63, low));
    let ended = labelled(1, ipv4(6));
    packet_low = packet(&ended).edit(&FlowAction::DecMplsTtl);
    assert_eq!(packet_low, Edit::TtlEnded);
}

#[test]
fn frames_that_shrink_are_padded() {
    let short = ethernet(&[], 0x8847, &[0, 6, 0x47, 64, 1, 2, 3]);
    let popped = edited(&short, &[FlowAction::PopMpls(0x88b5)]);
    assert_eq!(popped.len(), 60);
    assert_eq!(popped[12..18], [0x88, 0xb5, 1, 2, 3, 0]);
    assert_eq!(edited(&short, &[FlowAction::DecMplsTtl]).len(), short.len());
}

#[test]
fn absent_fields_stay_absent_and_no_checksum_stays_none() {
    let frame = ethernet(&[], 0x800, &ipv4(6));
    for name in ["udp_src", "ipv6_src", "arp_op", "vlan_vid", "mpls_label", "nd_sll", "pbb_isid"] {
        assert_eq!(edited(&frame, &[set_field(name, 1)]), frame, "{name}");
    }
    let mut udp = ethernet(&[], 0x800, &ipv4(17));
    udp[40..42].fill(0);
    let set = [set_field("udp_src", 7), set_field("ip_src", 9), set_field("ip_dscp", 1)];
    assert_eq!(edited(&udp, &set)[40..42], [0, 0]);
    // The pseudo header covers the protocol.
    let set = [set_field("nw_proto", 6), set_field("nw_proto", 17)];
    assert_eq!(edited(&frame, &set[1..]).len(), frame.len());
    assert_ne!(edited(&frame, &set[1..])[50..52], frame[50..52]);
}

/// Any action on the headers.
fn edit() -> impl Strategy<Value = FlowAction> {
    let plain = [
        FlowAction::PushVlan(0x8100),
        FlowAction::PushVlan(0x88a8),
        FlowAction::PopVlan,
        FlowAction::PushMpls(0x8847),
        FlowAction::PopMpls(0x800),
        FlowAction::PopMpls(0x8847),
        FlowAction::PopMpls(0x8100),
        FlowAction::PushPbb(0x88e7),
        FlowAction::PopPbb,
        FlowAction::SetMplsTtl(9),
        FlowAction::DecMplsTtl,
        FlowAction::SetNwTtl(8),
        FlowAction::DecNwTtl,
        FlowAction::CopyTtlOut,
        FlowAction::CopyTtlIn,
    ];
    prop_oneof![prop::sample::select(plain.to_vec()), set_any()]
}

/// Sets some bits of any field that can be set.
fn set_any() -> impl Strategy<Value = FlowAction> {
    let fields: Vec<_> = FIELDS.iter().filter(|field| field.is_settable).collect();
    let mask = prop_oneof![Just(u128::MAX), any::<u128>()];
    (prop::sample::select(fields), any::<u128>(), mask).prop_map(|(field, value, mask)| {
        let mask = mask & field.range.value_max();
        FlowAction::SetField { field, value: value & mask, mask }
    })
}

fn is_kind(action: &FlowAction) -> bool {
    match action {
        FlowAction::SetField { field, .. } => is_header_kind(field),
        _ => false,
    }
}

proptest! {
    #[test]
    fn keys_follow_the_bytes(
        frame in prop::sample::select(frames()),
        cut in 0usize..200,
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        actions in prop::collection::vec(edit(), 0..8),
    ) {
        let mut frame = frame;
        frame.truncate(cut.max(1));
        for (at, byte) in noise {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let mut packet = packet(&frame);
        for action in &actions {
            packet.edit(action);
            let key = *packet.key();
            let mut fresh = key;
            let layout = parse::parse(packet.frame(), &mut fresh);
            prop_assert_eq!(key, fresh, "{:?}", action);
            prop_assert_eq!(packet.layout, layout);
        }
        packet.hand_out(|frame| assert!(!frame.is_empty()));
    }

    #[test]
    fn checksums_stay_right(
        frame in prop::sample::select(frames()),
        actions in prop::collection::vec(edit(), 0..8),
    ) {
        let mut packet = packet(&frame);
        let is_tracked = frame.len() > 54 && actions.iter().all(|action| !is_kind(action));
        for action in actions {
            packet.edit(&action);
        }
        if is_tracked {
            assert_sums(&frame);
            if warpswitch_wire::parse::parse_ethernet(packet.frame()).is_ok() {
                assert_sums(packet.frame());
            }
        }
    }

    #[test]
    fn any_bytes_have_a_key(
        bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0usize..8,
    ) {
        let types = [0x800u16, 0x86dd, 0x806, 0x8847, 0x88e7, 0x8100, 0x88a8, 20];
        let mut frame = bytes;
        if let Some(at) = frame.get_mut(12..14) {
            at.copy_from_slice(&types[kind].to_be_bytes());
        }
        let mut key = [0; FLOW_WORDS];
        let layout = parse::parse(&frame, &mut key);
        prop_assert!(layout.end as usize <= frame.len());
    }
}

#[test]
fn an_output_changes_nothing() {
    let frame = ethernet(&[], 0x800, &ipv4(6));
    assert_eq!(edited(&frame, &[output(1)]), frame);
}
