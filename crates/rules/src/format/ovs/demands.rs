//! What a flow demands of packets: its fields and protocol words, gathered into a match.

use std::ops::Range;

use super::super::text::{Fault, Faults, Parsed, Token};
use super::item::Item;
use super::names::{ETH_ARP, ETH_IPV6, ETH_RARP, Name, Needs, SHORTHANDS, Style, find, known};
use super::values;
use crate::openflow::FlowMatch;

/// The bit of a VLAN id that marks a tag as present.
const VLAN_TAGGED: u128 = 0x1000;
const VLAN_ID_MAX: u128 = 0x0fff;

/// A name that was used with a value, and where.
pub(super) struct Use {
    pub name: &'static Name,
    pub span: Range<usize>,
}

/// The demands that were read so far.
#[derive(Default)]
pub(super) struct Demands {
    pub matching: FlowMatch,
    pub uses: Vec<Use>,
    /// Where the EtherType comes from, if it is demanded.
    pub eth_type_span: Range<usize>,
}

impl Demands {
    /// The EtherType that is demanded.
    pub fn eth_type(&self) -> Option<u16> {
        self.matching.exact(known("eth_type")).map(|value| value as u16)
    }

    /// Whether IPv6 is demanded.
    pub fn is_ipv6(&self) -> bool {
        self.eth_type() == Some(ETH_IPV6)
    }

    /// Takes an item, unless it is neither a field nor a protocol word: `None` then. With
    /// `is_packet`, masks, and values of protocol words, are faults.
    pub fn item(&mut self, item: &Item<'_>, is_packet: bool) -> Option<Parsed<()>> {
        let text = item.name.text();
        if let Some(name) = find(&text) {
            return Some(item.required().and_then(|value| {
                if value.bytes != b"*" {
                    self.uses.push(Use { name, span: item.name.start..value.span().end });
                }
                self.field(name, value, is_packet)
            }));
        }
        let (_, eth_type, proto) = SHORTHANDS.iter().find(|s| s.0 == text)?;
        // Flows may have one, as for ovs-ofctl, which ignores it; a packet in the notation of the
        // datapath, as eth(src=…), would lose what is in it.
        if let Some(value) = item.value.filter(|_| is_packet) {
            let message = format!("{text} takes no value");
            return Some(Err(Fault::new(value.span(), message, "the protocol keyword alone")));
        }
        if let Some(eth_type) = eth_type {
            self.set("eth_type", u128::from(*eth_type), u128::MAX);
            self.eth_type_span = item.name.span();
        }
        if let Some(proto) = proto {
            self.set("nw_proto", u128::from(*proto), u128::MAX);
        }
        Some(Ok(()))
    }

    fn set(&mut self, field: &str, value: u128, mask: u128) {
        self.matching.set(known(field), value, mask);
    }

    /// Demands `value` of the field that `name` stands for.
    fn field(&mut self, name: &'static Name, value: Token<'_>, is_packet: bool) -> Parsed<()> {
        let is_any = value.bytes == b"*";
        let has_mask = memchr::memchr(b'/', value.bytes).is_some();
        if has_mask && !takes_masks(name) {
            let message = format!("{} takes no mask", name.name);
            return Err(Fault::new(value.span(), message, "one value, or * for any"));
        }
        if is_packet && (is_any || has_mask) {
            let expected = "a value without a mask";
            return Err(Fault::new(value.span(), "a packet has one value in each field", expected));
        }
        let all = name.field.range.value_max();
        let (bits, mask) = match name.style {
            Style::DlVlan | Style::VlanVid | Style::VlanPcp | Style::VlanTci => {
                return self.vlan(name, value);
            }
            Style::Tos => {
                let (tos, mask) = match is_any {
                    true => (0, 0),
                    false => (values::integer(value, 0xff, name.name)?, u128::MAX),
                };
                self.set("ip_dscp", tos >> 2, mask);
                return Ok(());
            }
            _ if is_any => (0, 0),
            Style::Port => (values::port(value)?.into(), all),
            Style::TcpFlags => {
                let (flags, mask) = values::tcp_flags(value)?;
                (flags.into(), mask.into())
            }
            Style::Frag => {
                let (bits, mask) = values::fragments(value)?;
                (bits.into(), mask.into())
            }
            Style::Transport => values::masked(value, all, name.name)?,
            Style::Plain | Style::Proto => values::demand(name.field, value)?,
        };
        if name.field.name == "eth_type" {
            self.eth_type_span = value.span();
        }
        self.matching.set(name.field, bits, mask);
        Ok(())
    }

    /// Demands a part of the VLAN tag.
    fn vlan(&mut self, name: &'static Name, token: Token<'_>) -> Parsed<()> {
        let is_any = token.bytes == b"*";
        let vid = known("vlan_vid");
        let (id, mask) = match name.style {
            Style::VlanPcp if is_any => {
                self.set("vlan_pcp", 0, 0);
                return Ok(());
            }
            Style::VlanPcp => {
                let (id, mask) = self.matching.get(vid);
                self.set("vlan_pcp", values::integer(token, 7, name.name)?, u128::MAX);
                (id | VLAN_TAGGED, mask | VLAN_TAGGED)
            }
            Style::VlanTci => {
                let (value, mask) = values::demand(name.field, token)?;
                self.set("vlan_tci", value, mask);
                self.no_tag();
                return Ok(());
            }
            _ if is_any => (0, 0),
            Style::DlVlan => match values::integer(token, 0xffff, name.name)? {
                0xffff => (0, u128::MAX),
                id if id <= VLAN_ID_MAX => (VLAN_TAGGED | id, u128::MAX),
                _ => {
                    let expected = "an id from 0 to 4095, or 0xffff for no tag";
                    return Err(Fault::new(token.span(), "invalid VLAN id", expected));
                }
            },
            _ => values::masked(token, vid.range.value_max(), name.name)?,
        };
        self.matching.set(vid, id, mask);
        if name.style != Style::VlanPcp && (id, mask & 0x1fff) == (0, 0x1fff) {
            // Said of frames without a tag, a former priority has no meaning.
            self.set("vlan_pcp", 0, 0);
        }
        Ok(())
    }

    /// A frame without a tag has no priority: a demand on its priority bits would have
    /// no effect, and two matches of the same packets would differ.
    fn no_tag(&mut self) {
        let vid = known("vlan_vid");
        let pcp = known("vlan_pcp");
        let (priority, _) = self.matching.get(pcp);
        if self.matching.get(vid) == (0, vid.range.value_max()) && priority == 0 {
            self.matching.set(pcp, 0, 0);
        }
    }

    /// Ends a flow: names whose field depends on the protocol get theirs. With `is_clean`, no
    /// item was at fault, so a missing protocol was not merely misspelt.
    pub fn finish(&mut self, is_clean: bool, faults: &mut Faults) {
        self.resolve_proto();
        self.resolve_transport(faults);
        if is_clean {
            self.check_needs(faults);
            self.check_vlan(faults);
        }
    }

    /// Of ARP, the protocol is the operation.
    fn resolve_proto(&mut self) {
        let (value, mask) = self.matching.get(known("nw_proto"));
        if mask == 0 || !matches!(self.eth_type(), Some(ETH_ARP | ETH_RARP)) {
            return;
        }
        self.set("nw_proto", 0, 0);
        let last = |is: &dyn Fn(&Name) -> bool| self.uses.iter().rposition(|used| is(used.name));
        let proto = last(&|name| name.style == Style::Proto);
        let operation = last(&|name| name.field.name == "arp_op");
        if operation.is_none() || proto > operation {
            self.set("arp_op", value, u128::MAX);
        }
    }

    /// Of ICMP, ports are type and code.
    fn resolve_transport(&mut self, faults: &mut Faults) {
        if !Needs::Icmp.are_met(&self.matching) {
            return;
        }
        let used = self.uses.iter().filter(|used| used.name.style == Style::Transport);
        for Use { name, span } in used {
            let (value, mask) = self.matching.get(name.field);
            let byte = if name.field.name == "tcp_src" { "icmp_type" } else { "icmp_code" };
            if mask != 0xffff && mask != 0xff || value > 0xff {
                let message = format!("{} of ICMP is {byte}", name.name);
                faults.push(Fault::new(span.clone(), message, "a number from 0 to 255, no mask"));
            }
            self.matching.set(name.field, 0, 0);
            self.matching.set(known(byte), value, u128::MAX);
        }
    }

    /// Reports every name that has no meaning without a protocol that the flow does not demand.
    fn check_needs(&self, faults: &mut Faults) {
        for Use { name, span } in &self.uses {
            if !name.needs.are_met(&self.matching) {
                let message = format!("{} without its protocol", name.name);
                let expected = format!("{} beside it", name.needs.words());
                faults.push(Fault::new(span.clone(), message, expected));
            }
        }
    }

    /// Reports a demand on the VLAN tag of frames without one.
    fn check_vlan(&self, faults: &mut Faults) {
        let (tci, mask) = self.matching.get(known("vlan_tci"));
        let is_vlan = |used: &&Use| matches!(used.name.style, Style::VlanVid | Style::VlanTci);
        if mask & VLAN_TAGGED != 0 && tci & VLAN_TAGGED == 0 && tci != 0 {
            let span = self.uses.iter().rfind(is_vlan).map_or(0..0, |used| used.span.clone());
            let message = "no frame has a VLAN id or priority but no VLAN tag";
            let fault = Fault::new(span, message, "the bit 0x1000, which marks a tag as present");
            faults.push(fault.help("dl_vlan and dl_vlan_pcp set it implicitly"));
        }
    }
}

/// Whether a value may be followed by a mask.
fn takes_masks(name: &Name) -> bool {
    match name.style {
        Style::VlanVid | Style::VlanTci | Style::TcpFlags | Style::Frag | Style::Transport => true,
        Style::Port | Style::DlVlan | Style::VlanPcp | Style::Tos | Style::Proto => false,
        Style::Plain => name.field.is_maskable,
    }
}
