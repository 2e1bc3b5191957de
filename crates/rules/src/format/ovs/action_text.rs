//! Actions and instructions as `ovs-ofctl -O OpenFlow13 dump-flows` prints them.

use super::actions::{REASON_ACTION, REASONS};
use super::{subfield, values};
use crate::openflow::{FlowAction, Instructions, MatchField, Subfield, port};

/// The text behind `actions=`.
pub(super) fn instructions(instructions: &Instructions) -> String {
    let Instructions { meter, apply, clear, write, metadata, goto_table } = instructions;
    let mut parts = Vec::new();
    parts.extend(meter.map(|id| format!("meter:{id}")));
    parts.extend(apply.iter().map(action));
    if *clear {
        parts.push("clear_actions".to_owned());
    }
    if !write.is_empty() {
        parts.push(format!("write_actions({})", list(write)));
    }
    if let Some(metadata) = metadata {
        let value = values::hex(metadata.value.into());
        parts.push(match metadata.mask {
            u64::MAX => format!("write_metadata:{value}"),
            mask => format!("write_metadata:{value}/{}", values::hex(mask.into())),
        });
    }
    parts.extend(goto_table.map(|table| format!("goto_table:{table}")));
    joined(parts)
}

/// A list of actions without instructions.
pub(super) fn list(actions: &[FlowAction]) -> String {
    joined(actions.iter().map(action).collect())
}

fn joined(parts: Vec<String>) -> String {
    if parts.is_empty() { "drop".to_owned() } else { parts.join(",") }
}

fn action(action: &FlowAction) -> String {
    match action {
        FlowAction::Output { port: port::CONTROLLER, max_len } => format!("CONTROLLER:{max_len}"),
        FlowAction::Output { port, .. } if *port < port::MAX => {
            format!("output:{}", values::port_text(*port))
        }
        FlowAction::Output { port, .. } => values::port_text(*port),
        FlowAction::OutputBits { source, .. } => format!("output:{}", subfield::text(*source)),
        FlowAction::Controller { max_len, id, reason } => controller(*max_len, *id, *reason),
        FlowAction::Group(id) => format!("group:{id}"),
        FlowAction::SetQueue(queue) => format!("set_queue:{queue}"),
        FlowAction::PopQueue => "pop_queue".to_owned(),
        FlowAction::PushVlan(ether_type) => format!("push_vlan:{ether_type:#06x}"),
        FlowAction::PopVlan => "pop_vlan".to_owned(),
        FlowAction::PushMpls(ether_type) => format!("push_mpls:{ether_type:#06x}"),
        FlowAction::PopMpls(ether_type) => format!("pop_mpls:{ether_type:#06x}"),
        FlowAction::PushPbb(ether_type) => format!("push_pbb:{ether_type:#06x}"),
        FlowAction::PopPbb => "pop_pbb".to_owned(),
        FlowAction::SetMplsTtl(ttl) => format!("set_mpls_ttl({ttl})"),
        FlowAction::DecMplsTtl => "dec_mpls_ttl".to_owned(),
        FlowAction::SetNwTtl(ttl) => format!("mod_nw_ttl:{ttl}"),
        FlowAction::DecNwTtl => "dec_ttl".to_owned(),
        FlowAction::CopyTtlOut => "copy_ttl_out".to_owned(),
        FlowAction::CopyTtlIn => "copy_ttl_in".to_owned(),
        FlowAction::SetField { field, value, mask } => set_field(field, *value, *mask),
        FlowAction::Move { source, target } => {
            format!("move:{}->{}", subfield::text(*source), subfield::text(*target))
        }
        FlowAction::Resubmit { port: Some(port), table: None } => {
            format!("resubmit:{}", values::port_text(*port))
        }
        FlowAction::Resubmit { port, table } => {
            let port = port.map(values::port_text).unwrap_or_default();
            let table = table.map(|table| table.to_string()).unwrap_or_default();
            format!("resubmit({port},{table})")
        }
        FlowAction::StackPush(bits) => format!("push:{}", subfield::text(*bits)),
        FlowAction::StackPop(bits) => format!("pop:{}", subfield::text(*bits)),
        FlowAction::Exit => "exit".to_owned(),
        FlowAction::Note(bytes) => {
            let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("note:{}", pairs.join("."))
        }
    }
}

fn controller(max_len: u16, id: u16, reason: u8) -> String {
    if (id, reason) == (0, REASON_ACTION) {
        return format!("CONTROLLER:{max_len}");
    }
    let mut options = Vec::new();
    if reason != REASON_ACTION {
        let number = || reason.to_string();
        let name = REASONS.get(usize::from(reason)).map_or_else(number, |name| (*name).to_owned());
        options.push(format!("reason={name}"));
    }
    if max_len != port::NO_BUFFER {
        options.push(format!("max_len={max_len}"));
    }
    if id != 0 {
        options.push(format!("id={id}"));
    }
    format!("controller({})", options.join(","))
}

/// `set_field` of a whole field, `load` of adjacent bits, `set_field` with a mask of others.
fn set_field(field: &'static MatchField, value: u128, mask: u128) -> String {
    let all = field.range.value_max();
    let offset = mask.trailing_zeros();
    let bits = mask.count_ones();
    if mask == all {
        return format!("set_field:{}->{}", values::value_text(field, value), field.name);
    }
    if bits != 0 && (mask >> offset).trailing_ones() == bits {
        let target = Subfield { field, offset: offset as u8, bits: bits as u8 };
        return format!("load:{}->{}", values::hex(value >> offset), subfield::text(target));
    }
    let (value, mask) = (values::value_text(field, value), values::value_text(field, mask));
    format!("set_field:{value}/{mask}->{}", field.name)
}
