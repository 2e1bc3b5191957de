//! Random flows and actions through the codec and back, and past the printer of Open vSwitch.

mod common;

use std::process::Command;

use common::digits;
use proptest::prelude::*;
use warpswitch_openflow::{FlowModMessage, Message, MultipartReply, NO_BUFFER};
use warpswitch_rules::openflow::{
    FIELDS, FieldNeeds, Flow, FlowAction, FlowCommand, FlowFlags, FlowMatch, FlowMod, FlowStats,
    Instructions, MatchField, MetadataWrite, Subfield, port,
};

/// Values that other fields need, and a range of others.
fn value(field: &MatchField, random: u128) -> u128 {
    let pick = |values: &[u128]| values[random as usize % values.len()];
    let value = match field.name {
        "eth_type" => pick(&[0x0800, 0x86dd, 0x0806, 0x8847, 0x88e7, 0x1234]),
        "nw_proto" => pick(&[1, 6, 17, 58, 132, 99]),
        "icmpv6_type" => pick(&[135, 136, 1]),
        "in_port" | "in_phy_port" => pick(&[1, 300, port::LOCAL.into()]),
        "arp_op" => pick(&[1, 2, 99]),
        "vlan_vid" => pick(&[0, 0x1005, 0x1fff]),
        _ => random,
    };
    value & field.range.value_max()
}

prop_compose! {
    fn matches()(
        picks in prop::collection::vec((0..FIELDS.len(), any::<u128>(), any::<u128>()), 0..12),
        base in 0..3usize,
        seed in any::<u128>(),
    ) -> FlowMatch {
        // Fields that others need first, so that these are not all dropped.
        let names: &[&str] = [&[][..], &["eth_type", "nw_proto"], &["vlan_vid", "eth_type"]][base];
        let index = |name: &&str| FIELDS.iter().position(|f| f.name == *name).expect("field");
        let mut picks = picks;
        picks.extend(names.iter().map(|name| (index(name), seed, u128::MAX)));
        picks.sort();
        let mut matching = FlowMatch::any();
        for (index, random, mask) in picks {
            let field = &FIELDS[index];
            let mask = if field.is_maskable { mask & field.range.value_max() } else { u128::MAX };
            let is_free = matching.get(field).1 == 0;
            if is_free && !field.is_view && mask != 0 && field.needs.are_met(&matching) {
                matching.set(field, value(field, random), mask);
            }
        }
        matching
    }
}

fn subfields(is_target: bool) -> impl Strategy<Value = Subfield> {
    let fields: Vec<&MatchField> =
        FIELDS.iter().filter(|field| field.is_settable || !is_target).collect();
    (prop::sample::select(fields), any::<u8>(), any::<u8>()).prop_map(|(field, offset, bits)| {
        let offset = usize::from(offset) % field.range.bits;
        let bits = 1 + usize::from(bits) % (field.range.bits - offset).min(64);
        Subfield { field, offset: offset as u8, bits: bits as u8 }
    })
}

fn sets() -> impl Strategy<Value = FlowAction> {
    let fields: Vec<&MatchField> =
        FIELDS.iter().filter(|f| f.is_settable && f.name != "nw_tos").collect();
    (prop::sample::select(fields), any::<u128>(), any::<u128>(), 0..3).prop_map(
        |(field, random, mask, kind)| {
            let all = field.range.value_max();
            let mask = match kind {
                0 => all,
                1 => all >> (mask % field.range.bits as u128) as u32,
                _ if field.is_maskable => mask & all | 1,
                _ => 1,
            };
            let present = if field.name == "vlan_vid" { 0x1000 } else { 0 };
            FlowAction::SetField { field, value: (random & all | present) & mask, mask }
        },
    )
}

fn actions() -> impl Strategy<Value = FlowAction> {
    let ports = prop_oneof![1..0xff00u32, port::IN_PORT..=port::LOCAL];
    let small = prop_oneof![
        Just(FlowAction::PopQueue),
        Just(FlowAction::PopVlan),
        Just(FlowAction::PushVlan(0x88a8)),
        Just(FlowAction::PushMpls(0x8848)),
        Just(FlowAction::PopPbb),
        Just(FlowAction::PushPbb(0x88e7)),
        Just(FlowAction::DecNwTtl),
        Just(FlowAction::DecMplsTtl),
        Just(FlowAction::CopyTtlIn),
        Just(FlowAction::CopyTtlOut),
        Just(FlowAction::Exit),
    ];
    let numbers = prop_oneof![
        any::<u16>().prop_map(FlowAction::PopMpls),
        any::<u8>().prop_map(FlowAction::SetNwTtl),
        any::<u8>().prop_map(FlowAction::SetMplsTtl),
        any::<u32>().prop_map(FlowAction::SetQueue),
        (0..port::GROUP_MAX).prop_map(FlowAction::Group),
        (ports, any::<u16>()).prop_map(|(port, max_len)| FlowAction::Output { port, max_len }),
        (any::<u16>(), any::<u16>(), 0..3u8)
            .prop_map(|(max_len, id, reason)| FlowAction::Controller { max_len, id, reason }),
    ];
    let extensions = prop_oneof![
        (prop::option::of(1..0xff00u32), prop::option::of(0..=port::TABLE_MAX))
            .prop_map(|(port, table)| FlowAction::Resubmit { port, table }),
        subfields(false).prop_map(FlowAction::StackPush),
        subfields(true).prop_map(FlowAction::StackPop),
        (subfields(false), any::<u16>())
            .prop_map(|(source, max_len)| FlowAction::OutputBits { source, max_len }),
        (subfields(false), subfields(true)).prop_map(|(mut source, mut target)| {
            source.bits = source.bits.min(target.bits);
            target.bits = source.bits;
            FlowAction::Move { source, target }
        }),
        (0..4usize, any::<u8>())
            .prop_map(|(words, byte)| FlowAction::Note(vec![byte; 6 + 8 * words])),
    ];
    prop_oneof![small, numbers, extensions, sets()]
}

prop_compose! {
    fn flows()(
        matching in matches(),
        apply in prop::collection::vec(actions(), 0..6),
        write in prop::collection::vec(actions(), 0..3),
        (table, priority, cookie) in (0..200u8, any::<u16>(), any::<u64>()),
        (meter, clear) in (prop::option::of(1..1000u32), any::<bool>()),
        metadata in prop::option::of((any::<u64>(), any::<u64>())),
        bits in any::<u8>(),
    ) -> Flow {
        let metadata = metadata.map(|(value, mask)| MetadataWrite { value, mask });
        let goto_table = (bits & 64 != 0).then_some(table + 1);
        let instructions = Instructions { meter, apply, clear, write, metadata, goto_table };
        let flags = FlowFlags {
            send_flow_removed: bits & 1 != 0,
            check_overlap: bits & 2 != 0,
            reset_counts: bits & 4 != 0,
            no_packet_counts: bits & 8 != 0,
            no_byte_counts: bits & 16 != 0,
        };
        let timeout = u16::from(bits);
        Flow {
            table,
            cookie,
            flags,
            idle_timeout: timeout,
            ..Flow::new(priority, matching, instructions)
        }
    }
}

fn add(flow: Flow) -> Message {
    let change = FlowMod {
        command: FlowCommand::Add,
        flow,
        cookie_mask: 0,
        out_port: port::ANY,
        out_group: port::GROUP_ANY,
    };
    Message::FlowMod(FlowModMessage { change, buffer_id: NO_BUFFER })
}

proptest! {
    #[test]
    fn flow_mods_survive(flow in flows()) {
        let message = add(flow);
        prop_assert_eq!(Message::decode(&message.encode(3)), Ok(message));
    }

    #[test]
    fn flow_stats_survive(flow in flows(), packets in any::<u64>(), age in any::<u32>()) {
        let age_ns = u64::from(age) * 1_000_003;
        let stats = FlowStats { flow, packets, bytes: packets / 3, age_ns };
        let message = Message::MultipartReply(MultipartReply::Flow(vec![stats]));
        prop_assert_eq!(Message::decode(&message.encode(3)), Ok(message));
    }

    #[test]
    fn damaged_messages_never_panic(
        flow in flows(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        len in any::<prop::sample::Index>(),
    ) {
        let mut bytes = add(flow).encode(3);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let _ = Message::decode(&bytes);
        let short = len.index(bytes.len());
        bytes.truncate(short);
        if short >= 8 {
            bytes[2..4].copy_from_slice(&(short as u16).to_be_bytes());
        }
        let _ = Message::decode(&bytes);
    }
}

/// Fields that Open vSwitch does not have.
fn is_foreign(field: &MatchField) -> bool {
    matches!(field.name, "in_phy_port" | "pbb_isid" | "pbb_uca" | "ipv6_exthdr")
}

/// Whether Open vSwitch accepts an action on the packets of a match.
fn suits(action: &FlowAction, matching: &FlowMatch) -> bool {
    let reads = |field: &MatchField| !is_foreign(field) && field.needs.are_met(matching);
    // Its VLAN ids have twelve bits in such actions, without that of the tag.
    let reads_bits = |field: &MatchField| reads(field) && field.name != "vlan_vid";
    let writes = |field: &MatchField| {
        // It sets VLAN ids of tagged packets only, which other actions may change.
        // It has eight bits for ARP operations.
        let is_fixed = matches!(field.name, "eth_type" | "nw_proto" | "mpls_bos" | "arp_op");
        reads(field) && !is_fixed && !matches!(field.name, "vlan_vid" | "vlan_tci")
    };
    match action {
        FlowAction::PushPbb(_)
        | FlowAction::PopPbb
        | FlowAction::CopyTtlIn
        | FlowAction::CopyTtlOut
        // Packets have other headers behind these.
        | FlowAction::PushMpls(_)
        | FlowAction::PopMpls(_)
        | FlowAction::PopVlan => false,
        FlowAction::DecNwTtl | FlowAction::SetNwTtl(_) => FieldNeeds::Ip.are_met(matching),
        FlowAction::DecMplsTtl | FlowAction::SetMplsTtl(_) => FieldNeeds::Mpls.are_met(matching),
        FlowAction::SetField { field, .. } => writes(field),
        FlowAction::StackPush(bits) => reads_bits(bits.field),
        FlowAction::StackPop(bits) => writes(bits.field),
        FlowAction::OutputBits { source, .. } => reads_bits(source.field),
        FlowAction::Move { source, target } => {
            reads_bits(source.field) && writes(target.field)
        }
        _ => true,
    }
}

#[test]
fn open_vswitch_reads_every_flow_without_complaint() {
    if Command::new("ovs-ofctl").arg("--version").output().is_err() {
        eprintln!("skipped: ovs-ofctl is not installed (apt install openvswitch-common)");
        return;
    }
    let config =
        ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(matching in matches(), list in prop::collection::vec(actions(), 1..8))| {
        prop_assume!(!matching.fields().any(|(field, ..)| is_foreign(field)));
        // It needs the code 0 for neighbour discovery; the specification does not.
        let has_code = matching.fields().any(|(field, ..)| field.name == "icmpv6_code");
        prop_assume!(!has_code);
        let mut apply: Vec<FlowAction> = list;
        // It counts tags, and has room for two.
        let mut has_tag = FieldNeeds::Vlan.are_met(&matching);
        apply.retain(|action| match action {
            FlowAction::PushVlan(_) => !std::mem::replace(&mut has_tag, true),
            action => suits(action, &matching),
        });
        let instructions = Instructions { apply, ..Instructions::default() };
        let bytes = add(Flow::new(9, matching, instructions)).encode(3);
        let output = Command::new("ovs-ofctl").args(["ofp-print", &digits(&bytes)]).output();
        let output = output.expect("ovs-ofctl starts");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let is_read = text.starts_with("OFPT_FLOW_MOD") && !text.contains("***");
        prop_assert!(is_read, "{}", text);
    });
}
