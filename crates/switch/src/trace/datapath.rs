//! The steps of a traversal as datapath actions in the notation of Open vSwitch.
//!
//! Changes of a packet are collected, and written as late as possible: in front of an output, as
//! the difference between the packet as it is and as it was last written. So a change without
//! output behind it does not show, and one that is taken back is written twice.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_flow::Step;
use warpswitch_pipeline::Pipeline;
use warpswitch_rules::openflow::{
    FLOW_WORDS, FlowAction, FlowKey, MatchField, Oxm, PacketInReason, field, port,
};

use super::observer::is_real;
use super::tunnel::set_tunnel;
use crate::tunnel::TunnelOptions;

const TAG_PRESENT: u16 = 0x1000;
const TPID: u16 = 0x8100;
const LABEL_TTL: u8 = 64;
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const ARP: u16 = 0x0806;

/// Where outputs to `NORMAL` lead.
pub(crate) enum NormalPorts {
    /// To ports that are known, the next output first.
    Queue(VecDeque<Vec<u32>>),
    /// That is decided for each packet.
    Later,
}

/// A VLAN tag; its value is not known if it was under another when the packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    tpid: u16,
    tci: u16,
}

/// An MPLS label with its EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Label {
    ether_type: u16,
    /// Label, traffic class, bottom of stack and TTL, as in a header.
    word: u32,
}

/// A packet, as far as a key shows it.
#[derive(Clone, Debug)]
struct PacketState {
    key: FlowKey,
    /// From the innermost to the outermost.
    tags: Vec<Tag>,
    labels: Vec<Label>,
    queue: u32,
}

/// Writes the actions of one traversal.
pub(crate) struct DatapathText<'a> {
    pipeline: &'a Pipeline,
    tunnel: &'a dyn Fn(u32) -> Option<&'a TunnelOptions>,
    packet: PacketState,
    /// As the actions written so far leave it.
    written: PacketState,
    /// The last action that sets the fields of a tunnel.
    written_tunnel: String,
    saved: Vec<PacketState>,
    normal: NormalPorts,
    cookie: u64,
    /// The bits of the packet that are known.
    known: FlowKey,
    out: Vec<String>,
}

fn read(key: &FlowKey, name: &str) -> u128 {
    field(name).expect("a field of OpenFlow").range.read(key)
}

fn mac(value: u128) -> String {
    let [.., a, b, c, d, e, f] = value.to_be_bytes();
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

fn ipv4(value: u128) -> String {
    Ipv4Addr::from(value as u32).to_string()
}

fn ipv6(value: u128) -> String {
    Ipv6Addr::from(value).to_string()
}

/// A number in hexadecimal; zero has no prefix.
pub(super) fn hex<T: PartialEq + Default + std::fmt::LowerHex>(value: T) -> String {
    if value == T::default() { "0".to_owned() } else { format!("{value:#x}") }
}

fn number(value: u128) -> String {
    value.to_string()
}

/// A member of a `set` action: its name there, the field, and how its values are written.
pub(super) type Member = (&'static str, &'static str, fn(u128) -> String);

pub(super) const ETHERNET: &[Member] = &[("src", "eth_src", mac), ("dst", "eth_dst", mac)];
pub(super) const IPV4_MEMBERS: &[Member] = &[
    ("src", "ip_src", ipv4),
    ("dst", "ip_dst", ipv4),
    ("proto", "nw_proto", number),
    ("tos", "ip_dscp", number),
    ("ttl", "nw_ttl", number),
];
pub(super) const IPV6_MEMBERS: &[Member] = &[
    ("src", "ipv6_src", ipv6),
    ("dst", "ipv6_dst", ipv6),
    ("label", "ipv6_label", |value| format!("{value:#x}")),
    ("proto", "nw_proto", number),
    ("tclass", "ip_dscp", number),
    ("hlimit", "nw_ttl", number),
];
pub(super) const ARP_MEMBERS: &[Member] = &[
    ("sip", "arp_spa", ipv4),
    ("tip", "arp_tpa", ipv4),
    ("op", "arp_op", number),
    ("sha", "arp_sha", mac),
    ("tha", "arp_tha", mac),
];
pub(super) const PORTS: &[Member] = &[("src", "tcp_src", number), ("dst", "tcp_dst", number)];
pub(super) const ICMP: &[Member] = &[("type", "icmp_type", number), ("code", "icmp_code", number)];
pub(super) const ND: &[Member] =
    &[("target", "nd_target", ipv6), ("sll", "nd_sll", mac), ("tll", "nd_tll", mac)];

impl PacketState {
    fn new(key: FlowKey, shape: u32) -> Self {
        let tci = key[28] as u16;
        let tags_len = (shape >> 8 & 0xff) as usize;
        let mut tags = vec![Tag { tpid: TPID, tci: 0 }; tags_len.saturating_sub(1)];
        if tags_len > 0 {
            tags.push(Tag { tpid: TPID, tci: tci & !TAG_PRESENT });
        }
        let ether_type = (key[28] >> 16) as u16;
        let word = key[29] & !0xff | u32::from(LABEL_TTL);
        let is_mpls = is_mpls(ether_type);
        let labels = is_mpls.then_some(Label { ether_type, word }).into_iter().collect();
        Self { key, tags, labels, queue: 0 }
    }

    fn ether_type(&self) -> u16 {
        (self.key[28] >> 16) as u16
    }

    fn set_ether_type(&mut self, ether_type: u16) {
        self.key[28] = self.key[28] & 0xffff | u32::from(ether_type) << 16;
    }

    fn set(&mut self, field: &MatchField, value: u128, mask: u128) {
        let old = field.range.read(&self.key);
        let new = old & !mask | value & mask & field.range.value_max();
        let (class, number) = (field.oxm.class, field.oxm.number);
        if (class, number) == (Oxm::NXM, 4) {
            match (new as u16 & TAG_PRESENT, self.tags.is_empty()) {
                (0, false) => return self.pop_tag(),
                (0, true) => return,
                (_, true) => self.tags.push(Tag { tpid: TPID, tci: 0 }),
                _ => {}
            }
        }
        field.range.write(&mut self.key, new);
        if let Some(tag) = self.tags.last_mut() {
            tag.tci = self.key[28] as u16 & !TAG_PRESENT;
            self.key[28] |= u32::from(TAG_PRESENT);
        }
        if let Some(label) = self.labels.last_mut() {
            label.word = self.key[29] & !0xff | label.word & 0xff;
        }
    }

    fn show_tag(&mut self) {
        let tci = self.tags.last().map_or(0, |tag| tag.tci | TAG_PRESENT);
        self.key[28] = self.key[28] & 0xffff_0000 | u32::from(tci);
    }

    fn pop_tag(&mut self) {
        self.tags.pop();
        self.show_tag();
    }

    fn push_label(&mut self, ether_type: u16) {
        let ttl = match (self.labels.last(), read(&self.key, "nw_ttl") as u8) {
            (Some(label), _) => label.word as u8,
            (None, 0) => LABEL_TTL,
            (None, ttl) => ttl,
        };
        let bottom = u32::from(self.labels.is_empty()) << 8;
        let above = self.labels.last().map_or(0, |label| label.word & 0xffff_fe00);
        self.labels.push(Label { ether_type, word: above | bottom | u32::from(ttl) });
        self.key[29] = (above | bottom) & !0xff;
        self.set_ether_type(ether_type);
    }

    fn pop_label(&mut self, ether_type: u16) {
        self.labels.pop();
        let word = self.labels.last().map_or(0, |label| label.word);
        self.key[29] = word & !0xff;
        self.set_ether_type(ether_type);
    }

    /// Changes headers; whether the packet goes on.
    fn edit(&mut self, action: &FlowAction) -> bool {
        match *action {
            FlowAction::PushVlan(tpid) => {
                let tci = self.tags.last().map_or(0, |tag| tag.tci);
                self.tags.push(Tag { tpid, tci });
                self.show_tag();
            }
            FlowAction::PopVlan => self.pop_tag(),
            FlowAction::PushMpls(ether_type) => self.push_label(ether_type),
            FlowAction::PopMpls(ether_type) => self.pop_label(ether_type),
            FlowAction::SetNwTtl(ttl) if self.labels.is_empty() => self.set_ttl(ttl),
            FlowAction::DecNwTtl if matches!(self.ether_type(), IPV4 | IPV6) => {
                let ttl = read(&self.key, "nw_ttl") as u8;
                self.set_ttl(ttl.saturating_sub(1));
                return ttl > 1;
            }
            FlowAction::SetMplsTtl(ttl) => self.set_label_ttl(ttl),
            FlowAction::DecMplsTtl => {
                let ttl = self.labels.last().map_or(LABEL_TTL, |label| label.word as u8);
                self.set_label_ttl(ttl.saturating_sub(1));
                return ttl > 1;
            }
            _ => {}
        }
        true
    }

    fn set_ttl(&mut self, ttl: u8) {
        self.key[29] = self.key[29] & !0xff | u32::from(ttl);
    }

    fn set_label_ttl(&mut self, ttl: u8) {
        if let Some(label) = self.labels.last_mut() {
            label.word = label.word & !0xff | u32::from(ttl);
        }
    }
}

pub(super) fn is_mpls(ether_type: u16) -> bool {
    matches!(ether_type, 0x8847 | 0x8848)
}

/// How many elements two lists share at their start.
fn common_len<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl<'a> DatapathText<'a> {
    /// A writer for packets with this key and shape.
    pub(crate) fn new(pipeline: &'a Pipeline, key: FlowKey, shape: u32) -> Self {
        let packet = PacketState::new(key, shape);
        Self {
            pipeline,
            tunnel: &|_| None,
            written: packet.clone(),
            written_tunnel: String::new(),
            packet,
            saved: Vec::new(),
            normal: NormalPorts::Later,
            cookie: 0,
            known: [u32::MAX; FLOW_WORDS],
            out: Vec::new(),
        }
    }

    /// For packets of which only these bits are known: the others of the key are zero.
    pub(crate) fn known(mut self, known: FlowKey) -> Self {
        self.known = known;
        self
    }

    /// With these tunnels behind ports. Their headers depend on bits of the packet that caches do
    /// not examine.
    pub(crate) fn tunnel(mut self, tunnel: &'a dyn Fn(u32) -> Option<&'a TunnelOptions>) -> Self {
        self.tunnel = tunnel;
        self
    }

    /// With these ports for outputs to `NORMAL`.
    pub(crate) fn normal(mut self, normal: NormalPorts) -> Self {
        self.normal = normal;
        self
    }

    /// The actions; `drop` if there are none.
    pub(crate) fn text(mut self, steps: &[Step]) -> String {
        let mut ended = 0;
        for step in steps {
            match step {
                // A packet that its TTL ended goes on where another was put aside.
                Step::Save if ended > 0 => ended += 1,
                Step::Restore if ended > 1 => ended -= 1,
                Step::Restore if ended == 1 => {
                    ended = 0;
                    self.step(step);
                }
                _ if ended > 0 => {}
                step => ended = usize::from(!self.step(step)),
            }
        }
        if self.out.is_empty() { "drop".to_owned() } else { self.out.join(",") }
    }

    /// Whether the packet goes on.
    fn step(&mut self, step: &Step) -> bool {
        match step {
            Step::Match { flow, .. } | Step::Origin { flow, .. } => {
                self.cookie = self.pipeline.flow_at(*flow).map_or(0, |flow| flow.cookie);
            }
            Step::Miss { .. } | Step::Bucket { .. } => {}
            Step::Meter(id) => self.out.push(format!("meter({id})")),
            Step::Set { field, value, mask } => {
                self.learn(field, *value, *mask);
                self.packet.set(field, *value, *mask);
            }
            Step::Edit(FlowAction::DecNwTtl) if !self.is_ttl_known() => {
                self.commit();
                let before = self.out.len();
                self.controller(port::NO_BUFFER, PacketInReason::InvalidTtl);
                let ended = self.out.split_off(before).concat();
                self.out.push(format!("dec_ttl(le_1({ended}))"));
            }
            Step::Edit(action) => {
                if !self.packet.edit(action) {
                    self.controller(port::NO_BUFFER, PacketInReason::InvalidTtl);
                    return false;
                }
            }
            Step::Output(port) if is_real(*port) && self.is_known(*port) => self.output(*port),
            Step::Output(_) => {}
            Step::Controller { max_len, reason } => {
                self.commit();
                self.controller(*max_len, *reason);
            }
            Step::Normal => {
                let ports = match &mut self.normal {
                    NormalPorts::Queue(ports) => ports.pop_front().unwrap_or_default(),
                    NormalPorts::Later => Vec::new(),
                };
                if matches!(self.normal, NormalPorts::Later) {
                    self.commit();
                    self.out.push("normal".to_owned());
                } else {
                    ports.into_iter().for_each(|port| self.output(port));
                }
            }
            Step::Queue(queue) => self.packet.queue = queue.unwrap_or(0),
            Step::Save => self.saved.push(self.packet.clone()),
            Step::Restore => {
                if let Some(packet) = self.saved.pop() {
                    self.packet = packet;
                }
            }
        }
        true
    }

    /// Bits that were not known get a value. Whatever they were, they are to be written.
    fn learn(&mut self, field: &MatchField, value: u128, mask: u128) {
        let new = !field.range.read(&self.known) & mask & field.range.value_max();
        if new != 0 {
            let old = field.range.read(&self.written.key);
            field.range.write(&mut self.written.key, old & !new | !value & new);
            let known = field.range.read(&self.known);
            field.range.write(&mut self.known, known | new);
            if let Some(tag) = self.written.tags.last_mut() {
                tag.tci = self.written.key[28] as u16 & !TAG_PRESENT;
            }
        }
    }

    fn is_ttl_known(&self) -> bool {
        read(&self.known, "nw_ttl") == 0xff || !matches!(self.packet.ether_type(), IPV4 | IPV6)
    }

    fn output(&mut self, port: u32) {
        if let Some(tunnel) = (self.tunnel)(port) {
            let Ok(set) = set_tunnel(tunnel, &self.packet.key) else { return };
            if set != self.written_tunnel {
                self.out.push(set.clone());
                self.written_tunnel = set;
            }
        }
        self.commit();
        self.out.push(port.to_string());
    }

    fn is_known(&self, port: u32) -> bool {
        self.pipeline.ports().any(|(number, _)| number == port)
    }

    fn controller(&mut self, max_len: u16, reason: PacketInReason) {
        let reason = match reason {
            PacketInReason::NoMatch => 0,
            PacketInReason::Action => 1,
            PacketInReason::InvalidTtl => 2,
        };
        let cookie = hex(self.cookie);
        self.out.push(format!(
            "userspace(pid=0,controller(reason={reason},dont_send=0,continuation=0,recirc_id=0,\
             rule_cookie={cookie},controller_id=0,max_len={max_len}))"
        ));
    }

    /// Writes what changed since the last time.
    fn commit(&mut self) {
        self.commit_set("eth", ETHERNET);
        let loses_labels = is_mpls(self.written.ether_type()) && self.packet.labels.is_empty();
        if loses_labels {
            self.commit_labels();
        }
        match self.packet.ether_type() {
            IPV4 => self.commit_set("ipv4", IPV4_MEMBERS),
            IPV6 => self.commit_set("ipv6", IPV6_MEMBERS),
            ARP => self.commit_set("arp", ARP_MEMBERS),
            _ => {}
        }
        if matches!(self.packet.ether_type(), IPV4 | IPV6) {
            self.commit_transport();
        }
        self.commit_labels();
        self.commit_tags();
        if self.packet.queue != self.written.queue {
            let queue = self.packet.queue;
            self.out.push(format!("set(skb_priority({}))", hex(queue)));
        }
        let mark = read(&self.packet.key, "pkt_mark");
        if mark != read(&self.written.key, "pkt_mark") {
            self.out.push(format!("set(skb_mark({}))", hex(mark)));
        }
        self.written = self.packet.clone();
    }

    fn commit_transport(&mut self) {
        let proto = read(&self.packet.key, "nw_proto");
        match proto {
            6 => self.commit_set("tcp", PORTS),
            17 => self.commit_set("udp", PORTS),
            132 => self.commit_set("sctp", PORTS),
            1 => self.commit_set("icmp", ICMP),
            58 => {
                self.commit_set("icmpv6", ICMP);
                if matches!(read(&self.packet.key, "icmpv6_type"), 135 | 136) {
                    self.commit_set("nd", ND);
                }
            }
            _ => {}
        }
    }

    fn commit_set(&mut self, header: &str, members: &[Member]) {
        let (new, old) = (&self.packet.key, &self.written.key);
        let mut parts = Vec::new();
        for &(name, field, text) in members {
            if field == "ip_dscp" {
                parts.extend(tos(new, old).map(|tos| format!("{name}={tos}")));
            } else if read(new, field) != read(old, field) {
                let (value, known) = (text(read(new, field)), read(&self.known, field));
                let is_whole = known == read(&[u32::MAX; FLOW_WORDS], field);
                let mask = if is_whole { String::new() } else { format!("/{}", text(known)) };
                parts.push(format!("{name}={value}{mask}"));
            }
        }
        if !parts.is_empty() {
            self.out.push(format!("set({header}({}))", parts.join(",")));
        }
    }

    fn commit_labels(&mut self) {
        let (new, old) = (&self.packet.labels, &self.written.labels);
        let kept = common_len(new, old);
        for _ in kept..old.len() {
            self.out.push(format!("pop_mpls(eth_type={:#x})", self.packet.ether_type()));
        }
        for label in &new[kept..] {
            let Label { ether_type, word } = *label;
            let (value, class, bottom) = (word >> 12, word >> 9 & 7, word >> 8 & 1);
            self.out.push(format!(
                "push_mpls(label={value},tc={class},ttl={},bos={bottom},eth_type={ether_type:#x})",
                word & 0xff
            ));
        }
        self.written.labels.clone_from(&self.packet.labels);
    }

    fn commit_tags(&mut self) {
        let (new, old) = (&self.packet.tags, &self.written.tags);
        let kept = common_len(new, old);
        for _ in kept..old.len() {
            self.out.push("pop_vlan".to_owned());
        }
        for Tag { tpid, tci } in &new[kept..] {
            let mut text = String::from("push_vlan(");
            if *tpid != TPID {
                _ = write!(text, "tpid={tpid:#x},");
            }
            _ = write!(text, "vid={},pcp={})", tci & 0xfff, tci >> 13);
            self.out.push(text);
        }
    }
}

/// The type of service with the bits that changed, if any did.
fn tos(new: &FlowKey, old: &FlowKey) -> Option<String> {
    let tos = |key: &FlowKey| read(key, "ip_dscp") << 2 | read(key, "nw_ecn");
    let (value, changed) = (tos(new), tos(new) ^ tos(old));
    let mask = if changed & 0xfc != 0 { 0xfc } else { 0 } | if changed & 3 != 0 { 3 } else { 0 };
    match mask {
        0 => None,
        0xff => Some(hex(value)),
        mask => Some(format!("{}/{mask:#x}", hex(value & mask))),
    }
}
