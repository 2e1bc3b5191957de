//! Random flows, groups and meters: text and back.

use crate::format::ovs::{
    actions_text, change_text, flow_text, group_text, meter_text, parse_actions, parse_change,
    parse_flow, parse_group, parse_meter,
};
use crate::generate::Prng;
use crate::openflow::{
    Band, BandKind, Bucket, FIELDS, Flow, FlowAction, FlowCommand, FlowFlags, FlowMatch, FlowMod,
    Group, GroupMod, GroupType, Instructions, MatchField, MetadataWrite, Meter, MeterMod, Subfield,
    field, port,
};

/// Whose flows to make: ours have words that Open vSwitch lacks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Ours,
    OpenVSwitch,
}

/// Fields of which Open vSwitch has no match.
static OURS: [&str; 4] = ["in_phy_port", "ipv6_exthdr", "pbb_isid", "pbb_uca"];
/// Fields that Open vSwitch does not set.
static READ_ONLY: [&str; 4] = ["eth_type", "nw_proto", "mpls_bos", "ip_frag"];

/// EtherTypes and protocols that decide which fields there are.
static PROTOCOLS: [(u16, Option<u8>); 14] = [
    (0, None),
    (0x0800, None),
    (0x0800, Some(1)),
    (0x0800, Some(6)),
    (0x0800, Some(17)),
    (0x0800, Some(132)),
    (0x0806, None),
    (0x8035, None),
    (0x86dd, Some(6)),
    (0x86dd, Some(58)),
    (0x86dd, None),
    (0x8847, None),
    (0x88cc, None),
    (0x88e7, None),
];

pub(super) struct Maker {
    pub prng: Prng,
    pub dialect: Dialect,
}

impl Maker {
    pub fn new(seed: u64, dialect: Dialect) -> Self {
        Self { prng: Prng::new(seed), dialect }
    }

    fn bits(&mut self, max: u128) -> u128 {
        self.prng.next_u128() & max
    }

    fn number(&mut self, below: u64) -> u64 {
        self.prng.below(below)
    }

    pub fn flow(&mut self) -> Flow {
        let matching = self.matching();
        let mut flow = Flow::new(self.number(65536) as u16, matching, Instructions::default());
        flow.table = self.number(254) as u8;
        if self.prng.chance(500) {
            flow.cookie = self.prng.next_u64();
            flow.idle_timeout = self.number(3) as u16;
            flow.hard_timeout = self.number(3) as u16;
            let mut flag = || self.prng.chance(300);
            flow.flags = FlowFlags {
                send_flow_removed: flag(),
                check_overlap: flag(),
                reset_counts: flag(),
                no_packet_counts: flag(),
                no_byte_counts: flag(),
            };
        }
        if self.dialect == Dialect::Ours {
            flow.importance = self.number(3) as u16;
        }
        flow.instructions = self.instructions(&flow);
        flow
    }

    fn matching(&mut self) -> FlowMatch {
        let mut matching = FlowMatch::any();
        let (eth_type, proto) = PROTOCOLS[self.prng.index(PROTOCOLS.len())];
        if eth_type != 0 {
            matching.set(field("eth_type").unwrap(), eth_type.into(), u128::MAX);
        }
        if let Some(proto) = proto {
            matching.set(field("nw_proto").unwrap(), proto.into(), u128::MAX);
        }
        if proto == Some(58) && self.prng.chance(500) {
            let kind = 135 + u128::from(self.number(2));
            matching.set(field("icmpv6_type").unwrap(), kind, u128::MAX);
        }
        self.vlan(&mut matching);
        for field in &FIELDS {
            let is_set = matching.get(field).1 != 0;
            let is_theirs = !OURS.contains(&field.name) || self.dialect == Dialect::Ours;
            let is_vlan = field.name.starts_with("vlan") || field.name == "eth_type";
            let is_usable = is_theirs && !is_vlan && !field.is_view && !is_set;
            if is_usable && field.needs.are_met(&matching) && self.prng.chance(250) {
                self.demand(field, &mut matching);
            }
        }
        matching
    }

    fn vlan(&mut self, matching: &mut FlowMatch) {
        let vid = field("vlan_vid").unwrap();
        let id = self.bits(0xfff);
        match self.number(6) {
            0 => _ = matching.set(vid, 0, 0x1fff),
            1 => _ = matching.set(vid, 0x1000, 0x1000),
            2 => _ = matching.set(vid, 0x1000 | id, 0x1fff),
            3 => {
                let mask = self.bits(0xfff);
                matching.set(vid, 0x1000 | id, 0x1000 | mask);
            }
            _ => return,
        }
        let is_tagged = matching.get(vid).0 != 0;
        if is_tagged && self.prng.chance(300) {
            matching.set(field("vlan_pcp").unwrap(), self.bits(7), u128::MAX);
        }
    }

    /// A value of a field. Open vSwitch keeps one byte of an ARP operation, and neighbour
    /// messages have the code 0.
    fn value(&mut self, field: &MatchField) -> u128 {
        let max = match (field.name, self.dialect) {
            ("arp_op", Dialect::OpenVSwitch) => 0xff,
            ("icmpv6_code", Dialect::OpenVSwitch) => 0,
            _ => field.range.value_max(),
        };
        self.bits(max)
    }

    fn demand(&mut self, field: &'static MatchField, matching: &mut FlowMatch) {
        let all = field.range.value_max();
        let value = self.value(field);
        let (value, mask) = match field.name {
            "in_port" | "in_phy_port" => (self.port().into(), all),
            "ip_frag" => {
                // ovs-ofctl refuses ports beside later fragments, which have none.
                let count = if self.dialect == Dialect::OpenVSwitch { 4 } else { 5 };
                [(0, 3), (1, 3), (1, 1), (0, 2), (3, 3)][self.prng.index(count)]
            }
            "nw_proto" => (value | 0x80, all),
            _ if field.is_maskable && self.prng.chance(600) => (value, self.mask(field)),
            _ => (value, all),
        };
        matching.set(field, value, mask);
    }

    fn mask(&mut self, field: &MatchField) -> u128 {
        let (all, bits) = (field.range.value_max(), field.range.bits as u32);
        if self.prng.chance(500) {
            let len = self.number(u64::from(bits) + 1) as u32;
            return if len == 0 { 0 } else { !0 << (bits - len) & all };
        }
        // ovs-ofctl takes an IPv6 mask that starts with a digit for a prefix length.
        let is_theirs = self.dialect == Dialect::OpenVSwitch;
        let letter = if bits == 128 && is_theirs { 0xf << 124 } else { 0 };
        self.bits(all) | letter
    }

    fn port(&mut self) -> u32 {
        if self.prng.chance(100) { port::LOCAL } else { 1 + self.number(0xfe00) as u32 }
    }

    fn instructions(&mut self, flow: &Flow) -> Instructions {
        let mut out = Instructions::default();
        if self.prng.chance(200) {
            out.meter = Some(1 + self.number(1000) as u32);
        }
        out.apply = (0..self.number(5)).map(|_| self.action(&flow.matching)).collect();
        out.apply.extend(self.last_action(&flow.matching));
        out.clear = self.prng.chance(200);
        if self.prng.chance(200) {
            out.write = vec![FlowAction::Group(self.number(100) as u32), self.output()];
        }
        if self.prng.chance(200) {
            let mask = self.prng.next_u64().max(1);
            out.metadata = Some(MetadataWrite { value: self.prng.next_u64() & mask, mask });
        }
        if self.prng.chance(200) {
            out.goto_table = Some(flow.table + 1 + self.number(254 - u64::from(flow.table)) as u8);
        }
        out
    }

    fn output(&mut self) -> FlowAction {
        FlowAction::Output { port: self.port(), max_len: 0 }
    }

    fn register(&mut self) -> Subfield {
        let names = ["reg0", "reg15", "xreg3", "metadata", "tun_id", "pkt_mark", "eth_src"];
        let field = field(names[self.prng.index(names.len())]).unwrap();
        let bits = 1 + self.number(field.range.bits as u64) as u8;
        let offset = self.number(field.range.bits as u64 - u64::from(bits) + 1) as u8;
        Subfield { field, offset, bits }
    }

    /// An action that leaves the protocol of packets as it is.
    fn action(&mut self, matching: &FlowMatch) -> FlowAction {
        match self.number(14) {
            0 => FlowAction::OutputBits { source: self.register(), max_len: port::NO_BUFFER },
            1 => FlowAction::Controller {
                max_len: self.number(65536) as u16,
                id: 1 + self.number(9) as u16,
                reason: self.number(3) as u8,
            },
            2 => FlowAction::Group(self.number(1000) as u32),
            3 => FlowAction::SetQueue(self.number(1000) as u32),
            4 => FlowAction::PopQueue,
            5 => FlowAction::Resubmit { port: Some(self.port()), table: None },
            6 => FlowAction::Resubmit { port: None, table: Some(self.number(254) as u8) },
            7 => FlowAction::StackPush(self.register()),
            8 => FlowAction::StackPop(self.register()),
            9 => FlowAction::Note(
                (0..6 + 8 * self.number(3)).map(|_| self.number(256) as u8).collect(),
            ),
            10 => {
                let (source, mut target) = (self.register(), self.register());
                let bits = source.bits.min(target.bits);
                target.bits = bits;
                FlowAction::Move { source: Subfield { bits, ..source }, target }
            }
            11 => {
                let ports = [port::IN_PORT, port::NORMAL, port::FLOOD, port::ALL, port::LOCAL];
                FlowAction::Output { port: ports[self.prng.index(ports.len())], max_len: 0 }
            }
            12 => FlowAction::Output { port: port::CONTROLLER, max_len: self.number(65536) as u16 },
            _ => self.set_field(matching),
        }
    }

    fn set_field(&mut self, matching: &FlowMatch) -> FlowAction {
        let is_theirs = self.dialect == Dialect::OpenVSwitch;
        let may_set = |field: &&MatchField| {
            let is_excluded = READ_ONLY.contains(&field.name) || OURS.contains(&field.name);
            field.is_settable
                && field.needs.are_met(matching)
                && !(is_theirs && is_excluded)
                && !field.name.starts_with("vlan")
                && field.name != "nw_tos"
        };
        let fields: Vec<&'static MatchField> = FIELDS.iter().filter(may_set).collect();
        let field = fields[self.prng.index(fields.len())];
        let all = field.range.value_max();
        let value = self.value(field);
        let bits = field.range.bits as u32;
        if field.name == "in_port" {
            return FlowAction::SetField { field, value: self.port().into(), mask: all };
        }
        let mask = match self.number(3) {
            0 if field.is_maskable => {
                // Messages set at most 64 bits under a mask at once.
                let len = 1 + self.number(bits.min(64).into()) as u32;
                let ones = all >> (bits - len);
                ones << self.number(u64::from(bits - len) + 1)
            }
            1 if field.is_maskable && !is_theirs => self.bits(all),
            _ => all,
        };
        FlowAction::SetField { field, value: value & mask, mask }
    }

    /// Actions that change headers, for the end of a list.
    fn last_action(&mut self, matching: &FlowMatch) -> Option<FlowAction> {
        let exact = |name: &str| matching.exact(field(name).unwrap());
        let is_ip = matches!(exact("eth_type"), Some(0x0800 | 0x86dd));
        let is_mpls = exact("eth_type") == Some(0x8847);
        let is_tagged = matching.get(field("vlan_vid").unwrap()).0 & 0x1000 != 0;
        Some(match self.number(12) {
            0 => FlowAction::PushVlan(if self.prng.chance(500) { 0x8100 } else { 0x88a8 }),
            1 if is_tagged => FlowAction::PopVlan,
            2 => FlowAction::PushMpls(0x8847),
            3 if is_mpls => FlowAction::PopMpls(self.number(65536) as u16),
            4 if is_mpls => FlowAction::SetMplsTtl(self.number(256) as u8),
            5 if is_mpls => FlowAction::DecMplsTtl,
            6 if is_ip => FlowAction::SetNwTtl(self.number(256) as u8),
            7 if is_ip => FlowAction::DecNwTtl,
            8 => FlowAction::Exit,
            9 if self.dialect == Dialect::Ours => [
                FlowAction::PushPbb(0x88e7),
                FlowAction::PopPbb,
                FlowAction::CopyTtlIn,
                FlowAction::CopyTtlOut,
            ][self.prng.index(4)]
            .clone(),
            10 => self.output(),
            _ => return None,
        })
    }
}

#[test]
fn random_flows_are_read_back_equal() {
    let mut maker = Maker::new(25, Dialect::Ours);
    for _ in 0..5_000 {
        let flow = maker.flow();
        let text = flow_text(&flow);
        let back = parse_flow(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(back, flow, "{text}");
        assert_eq!(flow_text(&back), text);
    }
}

#[test]
fn random_changes_are_read_back_equal() {
    let mut maker = Maker::new(26, Dialect::Ours);
    let commands = [
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];
    for _ in 0..1_000 {
        let mut flow = maker.flow();
        let command = commands[maker.prng.index(commands.len())];
        let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let mut cookie_mask = 0;
        if command != FlowCommand::Add && maker.prng.chance(500) {
            cookie_mask = maker.prng.next_u64().max(1);
        }
        if deletes {
            flow.instructions = Instructions::default();
            // A deletion has no new cookie, so other bits have no text.
            flow.cookie &= cookie_mask;
        }
        let (out_port, out_group) = (maker.port(), maker.number(100) as u32);
        let change = FlowMod { command, flow, cookie_mask, out_port, out_group };
        let text = change_text(&change);
        let back = parse_change(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(back, change, "{text}");
    }
}

#[test]
fn random_groups_and_actions_are_read_back_equal() {
    let mut maker = Maker::new(27, Dialect::Ours);
    let kinds = [GroupType::All, GroupType::Select, GroupType::Indirect, GroupType::FastFailover];
    for _ in 0..1_000 {
        let kind = kinds[maker.prng.index(4)];
        let bucket = |maker: &mut Maker| {
            let any = FlowMatch::any();
            let actions: Vec<_> = (0..maker.number(4)).map(|_| maker.action(&any)).collect();
            assert_eq!(parse_actions(&actions_text(&actions)).as_ref(), Ok(&actions));
            let weight = if kind == GroupType::Select { maker.number(9) as u16 } else { 0 };
            let watches = kind == GroupType::FastFailover;
            let watch_port = if watches { maker.port() } else { port::ANY };
            let watch_group =
                if watches && maker.prng.chance(500) { maker.number(9) as u32 } else { u32::MAX };
            Bucket { weight, watch_port, watch_group, actions }
        };
        let buckets = (0..maker.number(4)).map(|_| bucket(&mut maker)).collect();
        let group = Group { id: maker.number(1 << 31) as u32, kind, buckets };
        let text = group_text(&group);
        let back = parse_group(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(back, GroupMod::Add(group), "{text}");
    }
}

#[test]
fn random_meters_are_read_back_equal() {
    let mut maker = Maker::new(28, Dialect::Ours);
    for _ in 0..500 {
        let has_burst = maker.prng.chance(500);
        let band = |maker: &mut Maker| Band {
            rate: maker.prng.next_u64() as u32,
            burst: if has_burst { maker.number(1000) as u32 } else { 0 },
            kind: match maker.number(2) {
                0 => BandKind::Drop,
                _ => BandKind::DscpRemark(maker.number(256) as u8),
            },
        };
        let bands = (0..1 + maker.number(3)).map(|_| band(&mut maker)).collect();
        let meter = Meter {
            id: 1 + maker.number(1000) as u32,
            in_packets: maker.prng.chance(500),
            has_burst,
            has_stats: maker.prng.chance(500),
            bands,
        };
        let text = meter_text(&meter);
        let back = parse_meter(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
        assert_eq!(back, MeterMod::Add(meter), "{text}");
    }
}
