//! The actions and instructions of flow text: lists, and the order in which they are executed.

use super::super::text::{Fault, Faults, Parsed, Token};
use super::item::{self, Item};
use super::values;
use crate::openflow::{FlowAction, FlowMatch, Instructions, MetadataWrite};

mod fields;
mod one;

pub(super) use one::{REASON_ACTION, REASONS};

/// An instruction, or a part of the one that applies actions.
enum Step {
    Meter(u32),
    Apply(Vec<FlowAction>),
    Clear,
    Write(Vec<FlowAction>),
    Metadata(MetadataWrite),
    Goto(u8),
    /// The word for no action at all.
    Drop,
}

/// Reads lists of actions for packets of one match; every fault goes to `faults`.
pub(super) struct Reader<'a> {
    /// Which packets the actions get: some words depend on their protocol.
    matching: &'a FlowMatch,
    /// Whether such a packet has a VLAN tag, where the actions read so far leave it.
    has_tag: bool,
    faults: &'a mut Faults,
}

impl<'a> Reader<'a> {
    pub fn new(matching: &'a FlowMatch, faults: &'a mut Faults) -> Self {
        let (id, mask) = matching.get(super::names::known("vlan_vid"));
        Self { matching, has_tag: id & mask & 0x1000 != 0, faults }
    }

    /// Reads the text behind `actions=` of a flow.
    pub fn instructions(&mut self, list: Token<'_>) -> Option<Instructions> {
        let mut out = Instructions::default();
        let mut last = Order { rank: 0, name: "" };
        let mut is_clean = true;
        let parts = item::actions(list, self.faults);
        let is_alone = parts.len() == 1;
        for part in parts {
            let result = self.step(part).and_then(|step| {
                let order = Order::of(&step);
                order.check(&last, part)?;
                last = order;
                match step {
                    Step::Meter(id) => out.meter = Some(id),
                    Step::Apply(actions) => out.apply.extend(actions),
                    Step::Clear => out.clear = true,
                    Step::Write(actions) => out.write = actions,
                    Step::Metadata(write) => out.metadata = Some(write),
                    Step::Goto(table) => out.goto_table = Some(table),
                    Step::Drop => drop_alone(part, is_alone)?,
                }
                Ok(())
            });
            is_clean &= self.faults.note(result).is_some();
        }
        is_clean.then_some(out)
    }

    /// Reads a list without instructions, of a bucket or a packet-out.
    pub fn list(&mut self, list: Token<'_>) -> Vec<FlowAction> {
        let parts = item::actions(list, self.faults);
        self.parts(&parts)
    }

    /// Reads the actions of a list that was split.
    pub fn parts(&mut self, parts: &[Token<'_>]) -> Vec<FlowAction> {
        let mut out = Vec::new();
        let is_alone = parts.len() == 1;
        for &part in parts {
            let result = instruction_in_list(part).and_then(|()| match self.step(part)? {
                Step::Apply(actions) => {
                    out.extend(actions);
                    Ok(())
                }
                _ => drop_alone(part, is_alone),
            });
            self.faults.note(result);
        }
        out
    }

    fn step(&mut self, token: Token<'_>) -> Parsed<Step> {
        let action = item::action(token);
        let name = action.name.text().to_ascii_lowercase();
        Ok(match name.as_str() {
            "drop" if action.value.is_none() => Step::Drop,
            "meter" => Step::Meter(number(&action, u32::MAX, "the meter")?),
            "clear_actions" if action.value.is_none() => Step::Clear,
            "write_actions" => {
                let list = action.value.unwrap_or(token.part(token.bytes.len()..token.bytes.len()));
                Step::Write(self.list(list))
            }
            "write_metadata" => {
                let all = u128::from(u64::MAX);
                let (value, mask) = values::masked(action.required()?, all, "the metadata")?;
                Step::Metadata(MetadataWrite { value: (value & mask) as u64, mask: mask as u64 })
            }
            "goto_table" => Step::Goto(number(&action, 254, "the table")? as u8),
            "apply_actions" => {
                let fault =
                    Fault::new(action.name.span(), "unexpected apply_actions", "its actions");
                return Err(fault.help("actions outside write_actions(…) are applied at once"));
            }
            _ => {
                let mut actions = Vec::new();
                self.action(&action, &name, &mut actions)?;
                Step::Apply(actions)
            }
        })
    }
}

/// Refuses an instruction where actions alone may stand: also, before it is read, a list inside
/// another one.
fn instruction_in_list(token: Token<'_>) -> Parsed<()> {
    let name = item::action(token).name;
    let lower = name.text().to_ascii_lowercase();
    if !INSTRUCTIONS.contains(&&*lower) {
        return Ok(());
    }
    let message = format!("instruction {lower} in a list of actions");
    Err(Fault::new(name.span(), message, "actions alone"))
}

static INSTRUCTIONS: [&str; 5] =
    ["meter", "clear_actions", "write_actions", "write_metadata", "goto_table"];

/// Refuses `drop` beside other actions.
fn drop_alone(token: Token<'_>, is_alone: bool) -> Parsed<()> {
    match is_alone {
        true => Ok(()),
        false => {
            let message = "drop combined with other actions";
            Err(Fault::new(token.span(), message, "drop as the only action"))
        }
    }
}

/// The number that is an action's argument.
fn number(action: &Item<'_>, max: u32, what: &'static str) -> Parsed<u32> {
    values::integer(action.required()?, max.into(), what).map(|value| value as u32)
}

/// The place of an instruction among the others.
struct Order {
    rank: u8,
    name: &'static str,
}

impl Order {
    fn of(step: &Step) -> Self {
        let (rank, name) = match step {
            Step::Meter(_) => (1, "meter"),
            Step::Apply(_) | Step::Drop => (2, "actions"),
            Step::Clear => (3, "clear_actions"),
            Step::Write(_) => (4, "write_actions"),
            Step::Metadata(_) => (5, "write_metadata"),
            Step::Goto(_) => (6, "goto_table"),
        };
        Self { rank, name }
    }

    /// Refuses an instruction that is executed before the `last` one was, or given twice.
    fn check(&self, last: &Order, token: Token<'_>) -> Parsed<()> {
        const IN_ORDER: &str = "meter, actions, clear_actions, write_actions, write_metadata, \
                                goto_table in this order";
        if self.rank == last.rank && self.rank != 2 {
            let message = format!("duplicate {}", self.name);
            return Err(Fault::new(token.span(), message, "each instruction at most once"));
        }
        if self.rank < last.rank {
            let message = format!("{} behind {}", self.name, last.name);
            return Err(Fault::new(token.span(), message, IN_ORDER));
        }
        Ok(())
    }
}
