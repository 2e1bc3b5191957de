//! Actions that set fields: `set_field`, `load`, `move` and their older forms.

use super::super::super::text::{Fault, Parsed, Token};
use super::super::item::{self, Item};
use super::super::names::{self, Name, Style, known};
use super::super::{subfield, values};
use super::one::{settable, unknown};
use super::{Reader, number};
use crate::openflow::{FieldNeeds, FlowAction, MatchField};

const VLAN_TAGGED: u128 = 0x1000;

impl Reader<'_> {
    /// Appends an action that sets a field.
    pub(super) fn field_action(
        &mut self,
        action: &Item<'_>,
        name: &str,
        out: &mut Vec<FlowAction>,
    ) -> Parsed<()> {
        let set = match name {
            "set_field" => self.set_field(action)?,
            "load" => load(action)?,
            "mark" => whole("pkt_mark", number(action, u32::MAX, "the mark")?.into()),
            "mod_vlan_vid" | "set_vlan_vid" => {
                let id = u128::from(number(action, 0xfff, "the VLAN id")?);
                self.tag(name, out);
                whole("vlan_vid", id | VLAN_TAGGED)
            }
            "mod_vlan_pcp" | "set_vlan_pcp" => {
                let priority = number(action, 7, "the VLAN priority")?;
                self.tag(name, out);
                whole("vlan_pcp", priority.into())
            }
            "mod_dl_src" => plain("eth_src", action)?,
            "mod_dl_dst" => plain("eth_dst", action)?,
            "mod_nw_src" => plain("ip_src", action)?,
            "mod_nw_dst" => plain("ip_dst", action)?,
            "mod_nw_tos" => whole("ip_dscp", dscp(action.required()?)?),
            "mod_nw_ecn" => plain("nw_ecn", action)?,
            "mod_tp_src" => whole_of(self.port("src", action.name)?, action)?,
            "mod_tp_dst" => whole_of(self.port("dst", action.name)?, action)?,
            "set_mpls_label" => plain("mpls_label", action)?,
            "set_mpls_tc" => plain("mpls_tc", action)?,
            "set_tunnel" | "set_tunnel64" => plain("tun_id", action)?,
            _ => return Err(unknown(action.name, name)),
        };
        out.push(set);
        Ok(())
    }

    /// Before a `mod_…` of an untagged packet, the tag is pushed, as OpenFlow 1.0 had it.
    fn tag(&mut self, name: &str, out: &mut Vec<FlowAction>) {
        if name.starts_with("mod") && !self.has_tag {
            out.push(FlowAction::PushVlan(0x8100));
            self.has_tag = true;
        }
    }

    /// The port field of the protocol that the flow demands.
    fn port(&self, side: &str, at: Token<'_>) -> Parsed<&'static MatchField> {
        let protocols = [("tcp", 6), ("udp", 17), ("sctp", 132)];
        let is_met = |(_, number): &&(&str, u8)| FieldNeeds::Proto(*number).are_met(self.matching);
        match protocols.iter().find(is_met) {
            Some((protocol, _)) => Ok(known(&format!("{protocol}_{side}"))),
            None => {
                let message = format!("{} without its protocol", at.text());
                Err(Fault::new(at.span(), message, "tcp, udp or sctp among the fields of the flow"))
            }
        }
    }

    /// `set_field:VALUE[/MASK]->FIELD`.
    fn set_field(&self, action: &Item<'_>) -> Parsed<FlowAction> {
        let (value, target) = arrow(action)?;
        let text = target.text();
        let Some(name) = names::find(&text) else {
            let fault = Fault::new(target.span(), "unknown field", "a field as eth_dst or reg0");
            return Err(match names::suggest(&text) {
                Some(close) => fault.help(format!("is {close} meant?")),
                None => fault,
            });
        };
        self.check_settable(name, value, target)?;
        let all = name.field.range.value_max();
        let (field, bits, mask) = match name.style {
            Style::Port => (name.field, values::port(value)?.into(), all),
            Style::Tos => (known("ip_dscp"), dscp(value)?, 0x3f),
            Style::DlVlan => {
                let id = values::integer(value, 0xfff, "the VLAN id")?;
                (name.field, id | VLAN_TAGGED, all)
            }
            Style::Transport => {
                let side = if name.field.name == "tcp_src" { "src" } else { "dst" };
                let (bits, mask) = values::demand(name.field, value)?;
                (self.port(side, target)?, bits, mask)
            }
            _ => {
                let (bits, mask) = values::demand(name.field, value)?;
                (name.field, bits, mask)
            }
        };
        Ok(FlowAction::SetField { field, value: bits & mask, mask })
    }

    fn check_settable(&self, name: &Name, value: Token<'_>, target: Token<'_>) -> Parsed<()> {
        let field = name.field;
        if !field.is_settable {
            let message = format!("field {} is read-only", field.name);
            return Err(Fault::new(target.span(), message, "a field that can be set"));
        }
        let is_masked = memchr::memchr(b'/', value.bytes).is_some();
        if is_masked && (!field.is_maskable || name.style == Style::DlVlan) || value.bytes == b"*" {
            let message = format!("{} is set as a whole", field.name);
            return Err(Fault::new(value.span(), message, "one value without a mask"));
        }
        Ok(())
    }

    /// `move:FIELD[BITS]->FIELD[BITS]`.
    pub(super) fn move_bits(&self, action: &Item<'_>) -> Parsed<FlowAction> {
        let (source, target) = arrow(action)?;
        let (from, to) = (subfield::read(source)?, subfield::read(target)?);
        let to = settable(to, action)?;
        if from.bits != to.bits {
            let message = format!("{} bits moved to {} bits", from.bits, to.bits);
            let fault = Fault::new(action.span(), message, "as many bits as there are");
            return Err(fault.help("name bits as in reg0[0..15]"));
        }
        Ok(FlowAction::Move { source: from, target: to })
    }
}

/// `load:VALUE->FIELD[BITS]`.
fn load(action: &Item<'_>) -> Parsed<FlowAction> {
    let (value, target) = arrow(action)?;
    let bits = settable(subfield::read(target)?, action)?;
    let most = crate::schema::BitRange { offset: 0, bits: bits.bits.into() }.value_max();
    let value = values::integer(value, most, "the value")?;
    let (value, mask) = (value << bits.offset, most << bits.offset);
    Ok(FlowAction::SetField { field: bits.field, value, mask })
}

/// What stands before and behind the arrow.
fn arrow<'t>(action: &Item<'t>) -> Parsed<(Token<'t>, Token<'t>)> {
    let argument = action.required()?;
    let Some(at) = memchr::memmem::find(argument.bytes, b"->") else {
        let end = argument.span().end;
        return Err(Fault::new(end..end, "missing arrow", "->FIELD"));
    };
    let target = argument.part(at + 2..argument.bytes.len());
    Ok((item::trim(argument.part(0..at)), item::trim(target)))
}

/// Sets all bits of a field.
fn whole(field: &str, value: u128) -> FlowAction {
    let field = known(field);
    FlowAction::SetField { field, value, mask: field.range.value_max() }
}

/// Sets all bits of a field to the argument.
fn whole_of(field: &'static MatchField, action: &Item<'_>) -> Parsed<FlowAction> {
    let value = values::value(field, action.required()?)?;
    Ok(FlowAction::SetField { field, value, mask: field.range.value_max() })
}

fn plain(field: &str, action: &Item<'_>) -> Parsed<FlowAction> {
    whole_of(known(field), action)
}

/// The upper six bits of a type-of-service byte whose others are zero.
fn dscp(token: Token<'_>) -> Parsed<u128> {
    let tos = values::integer(token, 0xff, "the type of service")?;
    if tos & 3 != 0 {
        let message = "the two low bits are ECN";
        let fault = Fault::new(token.span(), message, "a multiple of 4 up to 252");
        return Err(fault.help("set ECN with mod_nw_ecn"));
    }
    Ok(tos >> 2)
}
