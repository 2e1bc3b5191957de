//! One line of flow text: items, and actions at the end.

use std::ops::Range;

use super::super::text::{Fault, Faults, Parsed, Token};
use super::demands::Demands;
use super::item::{Item, next_item};
use super::names::{ELSEWHERE, suggest};
use super::{actions, values};
use crate::openflow::{Flow, FlowCommand, FlowFlags, FlowMod, Instructions, port};

/// What a line is, which decides what it may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A flow with actions.
    Flow,
    /// A change of flows: a flow behind a command.
    Change,
    /// Which flows a request is about: no actions.
    Filter,
    /// A packet: no masks, no actions.
    Packet,
}

/// What may stand where a field is expected.
const FIELDS_EXPECTED: &str = "a match field of ovs-ofctl, or a protocol word such as tcp";

/// Words that start a change.
static COMMANDS: [(&str, FlowCommand); 5] = [
    ("add", FlowCommand::Add),
    ("modify", FlowCommand::Modify),
    ("modify_strict", FlowCommand::ModifyStrict),
    ("delete", FlowCommand::Delete),
    ("delete_strict", FlowCommand::DeleteStrict),
];

/// The word of a command.
pub(super) fn command_word(command: FlowCommand) -> &'static str {
    COMMANDS.iter().find(|(_, c)| *c == command).map_or("add", |(word, _)| word)
}

/// Statistics of `dump-flows`, which say nothing about the flow.
static STATISTICS: [&str; 5] = ["duration", "n_packets", "n_bytes", "idle_age", "hard_age"];

/// A line that was read.
pub(super) struct Line {
    pub demands: Demands,
    pub command: FlowCommand,
    pub priority: u16,
    /// The table, and where it is given.
    pub table: Option<(u8, Range<usize>)>,
    pub cookie: u64,
    /// The bits of the cookie that select flows, where some are named.
    pub cookie_mask: Option<u64>,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub importance: u16,
    pub flags: FlowFlags,
    pub out_port: u32,
    pub out_group: u32,
    pub instructions: Instructions,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            demands: Demands::default(),
            command: FlowCommand::Add,
            priority: Flow::DEFAULT_PRIORITY,
            table: None,
            cookie: 0,
            cookie_mask: None,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::default(),
            out_port: port::ANY,
            out_group: port::GROUP_ANY,
            instructions: Instructions::default(),
        }
    }
}

impl Line {
    /// Reads a line into this one, whose former content is forgotten.
    pub fn read(&mut self, line: Token<'_>, role: Role, faults: &mut Faults) {
        let mut uses = std::mem::take(&mut self.demands.uses);
        uses.clear();
        *self = Self { demands: Demands { uses, ..Demands::default() }, ..Self::default() };
        let mut at = 0;
        let mut is_first = true;
        let mut is_clean = true;
        let mut list = None;
        while let Some(item) = next_item(line, &mut at) {
            if matches!(item.name.bytes, b"actions" | b"action")
                && let Some(value) = item.value
            {
                list = Some((item.name, line.part(value.start - line.start..line.bytes.len())));
                break;
            }
            let is_command = is_first && item.value.is_none() && self.take_command(&item, role);
            is_first = false;
            if !is_command && let Err(fault) = self.item(&item, role, !faults.is_full()) {
                faults.push(fault);
                is_clean = false;
            }
        }
        self.demands.finish(is_clean, faults);
        self.actions(list, line.span().end, role, faults);
    }

    /// Whether the first item is a command that this line may start with.
    fn take_command(&mut self, item: &Item<'_>, role: Role) -> bool {
        let found = COMMANDS.iter().find(|(word, _)| word.as_bytes() == item.name.bytes);
        let Some((_, command)) = found else { return false };
        let may = match role {
            Role::Change => true,
            Role::Flow => *command == FlowCommand::Add,
            Role::Filter | Role::Packet => false,
        };
        if may {
            self.command = *command;
        }
        may
    }

    /// Reads the actions, or reports that there are some or none.
    fn actions(
        &mut self,
        list: Option<(Token<'_>, Token<'_>)>,
        end: usize,
        role: Role,
        faults: &mut Faults,
    ) {
        let deletes = matches!(self.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let refused = match role {
            Role::Packet => Some(("a packet has no actions", "fields alone")),
            Role::Filter => Some(("a filter of flows has no actions", "fields alone")),
            Role::Change if deletes => Some(("a deletion has no actions", "fields alone")),
            Role::Change | Role::Flow => None,
        };
        match (list, refused) {
            (Some((name, list)), Some((message, expected))) => {
                faults.push(Fault::new(name.start..list.span().end, message, expected));
            }
            (Some((_, list)), None) => {
                let mut reader = actions::Reader::new(&self.demands.matching, faults);
                self.instructions = reader.instructions(list).unwrap_or_default();
            }
            (None, None) => {
                let fault = Fault::new(end..end, "missing actions", "actions=…");
                faults.push(fault.help("write actions=drop for a flow that drops"));
            }
            (None, Some(_)) => {}
        }
    }

    /// Takes one item; `suggests` says whether a misspelt name is worth a look for the right one.
    fn item(&mut self, item: &Item<'_>, role: Role, suggests: bool) -> Parsed<()> {
        if let Some(result) = self.demands.item(item, role == Role::Packet) {
            return result;
        }
        let name = item.name.text();
        if role != Role::Packet && self.property(&name, item, role)? {
            return Ok(());
        }
        let what = match item.value {
            Some(_) if matches!(&*name, "out_port" | "out_group") => {
                "unexpected command filter in a flow"
            }
            _ if ELSEWHERE.iter().any(|start| name.starts_with(start)) => {
                "unsupported Open vSwitch field"
            }
            None if COMMANDS.iter().any(|(word, _)| *word == name) => {
                "unexpected command in a flow list"
            }
            Some(_) => "unknown field",
            None => "unknown protocol keyword",
        };
        let fault = Fault::new(item.name.span(), what, FIELDS_EXPECTED);
        let close = (suggests && what.starts_with("unknown")).then(|| suggest(&name)).flatten();
        Err(match close {
            Some(close) => fault.help(format!("is {close} meant?")),
            None => fault,
        })
    }

    /// Takes what a flow has beside its match, and tells whether the item was of that.
    fn property(&mut self, name: &str, item: &Item<'_>, role: Role) -> Parsed<bool> {
        let number = |max: u32, what| {
            values::integer(item.required()?, max.into(), what).map(|value| value as u16)
        };
        match name {
            "priority" => self.priority = number(65535, "the priority")?,
            "table" => {
                let table = number(255, "the table")? as u8;
                self.table = Some((table, item.required()?.span()));
            }
            "cookie" => return self.cookie(item, role).map(|()| true),
            "idle_timeout" => self.idle_timeout = number(0xffff, "the timeout")?,
            "hard_timeout" => self.hard_timeout = number(0xffff, "the timeout")?,
            "importance" => self.importance = number(0xffff, "the importance")?,
            "out_port" if matches!(role, Role::Change | Role::Filter) => {
                self.out_port = values::port(item.required()?)?;
            }
            "out_group" if matches!(role, Role::Change | Role::Filter) => {
                let all = u32::MAX.into();
                self.out_group = values::integer(item.required()?, all, "the group")? as u32;
            }
            "send_flow_rem" => self.flags.send_flow_removed = true,
            "check_overlap" => self.flags.check_overlap = true,
            "reset_counts" => self.flags.reset_counts = true,
            "no_packet_counts" => self.flags.no_packet_counts = true,
            "no_byte_counts" => self.flags.no_byte_counts = true,
            "allow_hidden_fields" => {}
            _ => return Ok(item.value.is_some() && STATISTICS.contains(&name)),
        }
        Ok(true)
    }

    /// `cookie=VALUE`, in changes and filters also `cookie=VALUE/MASK`; `-1` is every bit.
    fn cookie(&mut self, item: &Item<'_>, role: Role) -> Parsed<()> {
        let bits = |token: Token<'_>, what| match token.bytes {
            b"-1" => Ok(u64::MAX),
            _ => values::integer(token, u64::MAX.into(), what).map(|value| value as u64),
        };
        let token = item.required()?;
        let Some((value, mask)) = token.split_at_byte(b'/') else {
            self.cookie = bits(token, "the cookie")?;
            let deletes = matches!(self.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
            if deletes || role == Role::Filter {
                let message = "a cookie without a mask selects no flows";
                let fault = Fault::new(token.span(), message, "cookie=VALUE/MASK");
                return Err(fault.help("write cookie=VALUE/-1 to compare all bits"));
            }
            return Ok(());
        };
        if role == Role::Flow || self.command == FlowCommand::Add && role == Role::Change {
            let message = "a flow that is added has no cookie mask";
            return Err(Fault::new(mask.span(), message, "cookie=VALUE"));
        }
        let mask = bits(mask, "the cookie mask")?;
        self.cookie_mask = Some(mask);
        self.cookie = bits(value, "the cookie")?;
        // A deletion has no new cookie, so only bits that are compared count.
        if !matches!(self.command, FlowCommand::Modify | FlowCommand::ModifyStrict) {
            self.cookie &= mask;
        }
        Ok(())
    }

    /// The flow; a table that is not given, or any, is `any_table`.
    pub fn to_flow(&self, any_table: u8) -> Flow {
        let table = self.table.as_ref().map(|(table, _)| *table);
        Flow {
            table: table.filter(|table| *table != port::TABLE_ALL).unwrap_or(any_table),
            priority: self.priority,
            matching: self.demands.matching,
            cookie: self.cookie,
            idle_timeout: self.idle_timeout,
            hard_timeout: self.hard_timeout,
            importance: self.importance,
            flags: self.flags,
            instructions: self.instructions.clone(),
        }
    }

    /// The change.
    pub fn to_change(&self) -> FlowMod {
        let any_table = if self.command == FlowCommand::Add { 0 } else { port::TABLE_ALL };
        FlowMod {
            command: self.command,
            flow: self.to_flow(any_table),
            cookie_mask: self.cookie_mask.unwrap_or(0),
            out_port: self.out_port,
            out_group: self.out_group,
        }
    }
}
