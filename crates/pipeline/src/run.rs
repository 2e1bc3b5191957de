//! One packet on its way through the tables.
//!
//! The walk looks up flows, orders action sets and chooses buckets. Its result is a list of
//! primitive steps, each a method here that executes the step and records it. Repeating recorded
//! steps ([`Run::replay`]) calls the same methods.
//!
//! # Limits
//! A packet costs at most [`WORK_MAX`] lookups and actions, and resubmits and groups nest at most
//! [`DEPTH_MAX`] deep. A packet that needs more ends there and is counted.

use warpswitch_flow::Step;
use warpswitch_flow::programs::NO_FLOW;
use warpswitch_rules::openflow::{
    BandKind, FLOW_WORDS, FlowAction, Group, GroupType, MatchField, PacketIn, PacketInReason,
    Subfield, field, port,
};

use crate::action_set::ActionSet;
use crate::counts::Counts;
use crate::flows::{Entry, Flows};
use crate::frame::{Edit, Packet};
use crate::group::{Groups, first_live, select, selected_bits};
use crate::meter::{Meters, remark};
use crate::observe::Observed;
use crate::output::Output;
use crate::ports::Ports;
use crate::table::Table;
use crate::trace::Trace;

/// Lookups and actions that one packet may cost.
pub const WORK_MAX: u32 = 4096;
/// Resubmits and groups inside each other.
pub const DEPTH_MAX: u32 = 64;

/// The cookie in packet-ins that no flow caused.
const COOKIE_NONE: u64 = u64::MAX;

/// What packets do not change.
#[derive(Clone, Copy)]
pub(crate) struct Fixed<'a> {
    pub(crate) tables: &'a [Table],
    pub(crate) flows: &'a Flows,
    pub(crate) groups: &'a Groups,
    pub(crate) ports: &'a Ports,
}

/// Whether a packet goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Go {
    /// With the next action.
    On,
    /// With its action set.
    Exit,
    /// Not at all: no flow of a table matched.
    Missed,
    /// Not at all: a meter, its TTL or a limit ended it.
    Ended,
}

/// One packet on its way.
pub(crate) struct Run<'a, O> {
    pub(crate) fixed: Fixed<'a>,
    pub(crate) counts: &'a mut Counts,
    pub(crate) meters: &'a mut Meters,
    pub(crate) packet: Packet<'a>,
    pub(crate) now: u64,
    pub(crate) out: &'a mut O,
    pub(crate) trace: Option<Trace>,
    queue: Option<u32>,
    /// Packets put aside, with their queues.
    saved: Vec<(Packet<'a>, Option<u32>)>,
    /// The stack of `push` and `pop` actions.
    stack: Vec<u128>,
    /// Table and flow that packet-ins belong to.
    origin: Option<(u8, u32)>,
    reason: PacketInReason,
    work_left: u32,
    is_limited: bool,
    /// Whether the packet or a copy was sent, or ended by a meter or its TTL.
    is_accounted: bool,
    depth: u32,
    /// Results of the first lookups, from a burst: tables and flows, or [`NO_FLOW`].
    known: std::slice::Iter<'a, (u8, u32)>,
}

impl<'a, O: Output> Run<'a, O> {
    pub(crate) fn new(
        fixed: Fixed<'a>,
        counts: &'a mut Counts,
        meters: &'a mut Meters,
        packet: Packet<'a>,
        now: u64,
        out: &'a mut O,
    ) -> Self {
        Self {
            fixed,
            counts,
            meters,
            packet,
            now,
            out,
            trace: None,
            queue: None,
            saved: Vec::new(),
            stack: Vec::new(),
            origin: None,
            reason: PacketInReason::Action,
            work_left: WORK_MAX,
            is_limited: false,
            is_accounted: false,
            depth: 0,
            known: [].iter(),
        }
    }

    /// The same, where the first lookups were made before.
    pub(crate) fn with_known(mut self, known: &'a [(u8, u32)]) -> Self {
        self.known = known.iter();
        self
    }

    /// Accounts for a received packet; returns its buffers.
    pub(crate) fn finish(self) -> Vec<Vec<u8>> {
        self.counts.unsent += u64::from(!self.is_accounted && !self.is_limited);
        self.packet.into_spare()
    }

    /// From the first table to the end.
    pub(crate) fn pipeline(&mut self) -> Go {
        let mut set = ActionSet::default();
        self.out.observe(Observed::Enter);
        match self.walk(0, None, &mut set) {
            Go::On | Go::Exit => {}
            go => return go,
        }
        self.reason = PacketInReason::Action;
        self.observe_set(&set, true);
        let go = self.execute_set(set);
        self.out.observe(Observed::Leave);
        go
    }

    /// The actions of a packet that a controller sends.
    pub(crate) fn packet_out(&mut self, actions: &'a [FlowAction]) {
        let mut set = ActionSet::default();
        for action in actions {
            let go = match action {
                FlowAction::Output { port: port::TABLE, .. } => {
                    self.save();
                    self.pipeline();
                    self.restore();
                    self.origin = None;
                    Go::On
                }
                _ => self.action(action, 0, &mut set),
            };
            if go != Go::On {
                return;
            }
        }
        self.execute_set(set);
    }

    /// The tables from `table` on, along gotos; `port` takes the place of the input port in the
    /// first lookup.
    fn walk(&mut self, mut table: u8, mut port: Option<u32>, set: &mut ActionSet<'a>) -> Go {
        loop {
            if self.is_work_over() {
                return Go::Ended;
            }
            let Some(entry) = self.look_up(table, port.take()) else { return Go::Missed };
            let instructions = &entry.flow.instructions;
            if let Some(meter) = instructions.meter {
                self.out.observe(Observed::Meter(meter));
                if self.meter(meter) == Go::Ended {
                    return Go::Ended;
                }
            }
            self.reason = match entry.is_table_miss {
                true => PacketInReason::NoMatch,
                false => PacketInReason::Action,
            };
            let go = self.actions(&instructions.apply, table, set);
            if go != Go::On {
                return go;
            }
            if instructions.clear {
                self.out.observe(Observed::Clear);
                self.observe_set(set, false);
                set.clear();
            }
            if !instructions.write.is_empty() {
                set.write(&instructions.write);
                self.out.observe(Observed::Write(&instructions.write));
                self.observe_set(set, false);
            }
            if let Some(write) = instructions.metadata {
                self.out.observe(Observed::Metadata(write));
                self.set(metadata(), u128::from(write.value), u128::from(write.mask));
            }
            match instructions.goto_table {
                Some(next) => {
                    self.out.observe(Observed::Goto(next));
                    table = next;
                }
                None => return Go::On,
            }
        }
    }

    fn look_up(&mut self, table: u8, port: Option<u32>) -> Option<&'a Entry> {
        let fixed = self.fixed;
        let index = &fixed.tables.get(usize::from(table))?.index;
        let in_port = self.packet.key()[0];
        if let Some(port) = port {
            self.packet.set_in_port(port);
        }
        let known = self.known.next().filter(|&&(known_table, _)| known_table == table);
        let key = self.packet.key();
        let found = match &mut self.trace {
            None => match known {
                Some(&(_, flow)) => Some(flow).filter(|&flow| flow != NO_FLOW),
                None => index.find(fixed.flows, key, None),
            },
            Some(trace) => {
                let mut examined = [0; FLOW_WORDS];
                let found = index.find(fixed.flows, key, Some(&mut examined));
                trace.visit(table, key, &examined);
                found
            }
        };
        self.packet.set_in_port(in_port);
        if O::IS_OBSERVER {
            let flow = found.map(|flow| &fixed.flows.get(flow).flow);
            self.out.observe(Observed::Lookup(table, flow));
        }
        match found {
            Some(flow) => {
                self.credit(table, flow);
                Some(fixed.flows.get(flow))
            }
            None => {
                self.miss(table);
                None
            }
        }
    }

    /// Counts a lookup or an action; whether there were too many.
    fn is_work_over(&mut self) -> bool {
        if self.work_left > 0 && self.depth <= DEPTH_MAX {
            self.work_left -= 1;
            return false;
        }
        self.counts.limited += u64::from(!self.is_limited);
        if !self.is_limited {
            self.out.observe(Observed::Limited);
        }
        (self.is_limited, self.work_left) = (true, 0);
        self.give_up();
        true
    }

    fn give_up(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.give_up();
        }
    }

    fn actions(&mut self, actions: &'a [FlowAction], table: u8, set: &mut ActionSet<'a>) -> Go {
        for action in actions {
            let go = self.action(action, table, set);
            if go != Go::On {
                return go;
            }
        }
        Go::On
    }

    fn execute_set(&mut self, set: ActionSet<'a>) -> Go {
        for action in set.ordered() {
            if self.action(action, 0, &mut ActionSet::default()) == Go::Ended {
                return Go::Ended;
            }
        }
        Go::On
    }

    /// Reports the action set; only one that is executed is reported as such, unless it is empty.
    fn observe_set(&mut self, set: &ActionSet<'a>, is_executed: bool) {
        if O::IS_OBSERVER && !(is_executed && set.is_empty()) {
            let actions: Vec<FlowAction> = set.clone().ordered().cloned().collect();
            self.out.observe(match is_executed {
                true => Observed::Execute(&actions),
                false => Observed::ActionSet(&actions),
            });
        }
    }

    fn action(&mut self, action: &'a FlowAction, table: u8, set: &mut ActionSet<'a>) -> Go {
        if self.is_work_over() {
            return Go::Ended;
        }
        self.out.observe(Observed::Action(action));
        match *action {
            FlowAction::Output { port, max_len } => self.output(port, max_len),
            FlowAction::OutputBits { source, max_len } => {
                let port = u32::try_from(self.read(source)).unwrap_or(port::ANY);
                self.out.observe(Observed::OutputPort(port));
                self.output(port, max_len);
            }
            FlowAction::Controller { max_len, reason, .. } => {
                let reason = match reason {
                    0 => PacketInReason::NoMatch,
                    2 => PacketInReason::InvalidTtl,
                    _ => PacketInReason::Action,
                };
                self.controller(max_len, reason);
            }
            FlowAction::Group(id) => return self.group(id),
            FlowAction::SetQueue(queue) => self.set_queue(Some(queue)),
            FlowAction::PopQueue => self.set_queue(None),
            FlowAction::SetField { field, value, mask } => self.set(field, value, mask),
            FlowAction::Move { source, target } => {
                let value = self.read(source);
                self.set_bits(target, value);
                self.out.observe(Observed::Value(target, value));
            }
            FlowAction::Resubmit { port, table: other } => {
                return self.resubmit(port, other.unwrap_or(table), set);
            }
            FlowAction::StackPush(source) => {
                let value = self.read(source);
                self.stack.push(value);
            }
            FlowAction::StackPop(target) => {
                let value = self.stack.pop();
                self.set_bits(target, value.unwrap_or(0));
                self.out.observe(match value {
                    Some(value) => Observed::Value(target, value),
                    None => Observed::StackEmpty,
                });
            }
            FlowAction::Exit => return Go::Exit,
            FlowAction::Note(_) => {}
            _ => return self.edit(action),
        }
        Go::On
    }

    fn resubmit(&mut self, port: Option<u32>, table: u8, set: &mut ActionSet<'a>) -> Go {
        let (origin, reason) = (self.origin, self.reason);
        self.depth += 1;
        self.out.observe(Observed::Enter);
        let go = self.walk(table, port, set);
        self.out.observe(Observed::Leave);
        self.depth -= 1;
        self.reason = reason;
        if let Some((table, flow)) = origin {
            self.set_origin(table, flow);
        }
        match go {
            // A lookup that finds nothing ends itself only, not the list that asked for it.
            Go::Missed => Go::On,
            go => go,
        }
    }

    fn group(&mut self, id: u32) -> Go {
        let Some(group) = self.fixed.groups.get(&id) else { return Go::On };
        let (groups, ports) = (self.fixed.groups, self.fixed.ports);
        self.count_bucket(id, None);
        let chosen = match group.kind {
            GroupType::All => None,
            GroupType::Indirect => Some(0),
            GroupType::FastFailover => first_live(group, groups, ports),
            GroupType::Select => {
                if let Some(trace) = &mut self.trace {
                    trace.examine(&selected_bits());
                }
                select(group, groups, ports, self.packet.key())
            }
        };
        if matches!(group.kind, GroupType::Select | GroupType::FastFailover) {
            self.out.observe(Observed::Choose(chosen.map(|place| place as usize)));
        }
        match (group.kind, chosen) {
            (GroupType::All, _) => {
                (0..group.buckets.len()).for_each(|place| self.bucket(group, place));
            }
            (_, Some(place)) => self.bucket(group, place as usize),
            (_, None) => {}
        }
        Go::On
    }

    /// A copy of the packet goes through a bucket.
    fn bucket(&mut self, group: &'a Group, place: usize) {
        let Some(bucket) = group.buckets.get(place) else { return };
        if self.is_work_over() {
            return;
        }
        self.count_bucket(group.id, Some(place as u32));
        let mut set = ActionSet::default();
        set.write(&bucket.actions);
        let reason = std::mem::replace(&mut self.reason, PacketInReason::Action);
        self.out.observe(Observed::Bucket(place));
        self.save();
        self.depth += 1;
        self.execute_set(set);
        self.depth -= 1;
        self.restore();
        self.out.observe(Observed::Leave);
        self.reason = reason;
    }

    fn output(&mut self, port: u32, max_len: u16) {
        let in_port = self.packet.key()[0];
        match port {
            port::IN_PORT => self.send(in_port),
            port::CONTROLLER => self.controller(max_len, self.reason),
            port::NORMAL => self.normal(),
            port::FLOOD | port::ALL => {
                let ports = self.fixed.ports;
                for (&other, settings) in ports {
                    if other != in_port && (port == port::ALL || settings.is_flooded) {
                        self.send(other);
                    }
                }
            }
            1..=port::MAX | port::LOCAL if port != in_port => self.send(port),
            _ if port == in_port => self.out.observe(Observed::SkipInPort),
            _ => {}
        }
    }

    /// Some bits, whose value decides what follows.
    fn read(&mut self, bits: Subfield) -> u128 {
        if let Some(trace) = &mut self.trace {
            let mut examined = [0; FLOW_WORDS];
            bits.range().write(&mut examined, u128::MAX);
            trace.examine(&examined);
        }
        self.packet.read(bits)
    }

    fn set_bits(&mut self, target: Subfield, value: u128) {
        let ones = target.range().value_max();
        self.set(target.field, (value & ones) << target.offset, ones << target.offset);
    }
}

/// The steps.
impl<'a, O: Output> Run<'a, O> {
    fn record(&mut self, step: impl FnOnce() -> Step) {
        if let Some(trace) = &mut self.trace {
            trace.push(step());
        }
    }

    /// Repeats recorded steps. A packet that a meter or its TTL ends goes on where another was put
    /// aside.
    pub(crate) fn replay(&mut self, steps: &[Step]) {
        let mut steps = steps.iter();
        while let Some(step) = steps.next() {
            if self.step(step) == Go::On {
                continue;
            }
            let mut depth = 0;
            for step in steps.by_ref() {
                match step {
                    Step::Save => depth += 1,
                    Step::Restore if depth == 0 => {
                        self.restore();
                        break;
                    }
                    Step::Restore => depth -= 1,
                    _ => {}
                }
            }
        }
    }

    fn step(&mut self, step: &Step) -> Go {
        match *step {
            Step::Match { table, flow } => self.credit(table, flow),
            Step::Miss { table } => self.miss(table),
            Step::Origin { table, flow } => self.set_origin(table, flow),
            Step::Bucket { group, bucket } => self.count_bucket(group, bucket),
            Step::Meter(id) => return self.meter(id),
            Step::Set { field, value, mask } => self.set(field, value, mask),
            Step::Edit(ref action) => return self.edit(action),
            Step::Output(port) => self.send(port),
            Step::Controller { max_len, reason } => self.controller(max_len, reason),
            Step::Normal => self.normal(),
            Step::Queue(queue) => self.set_queue(queue),
            Step::Save => self.save(),
            Step::Restore => self.restore(),
        }
        Go::On
    }

    fn credit(&mut self, table: u8, flow: u32) {
        let bytes = self.packet.frame().len() as u64;
        self.counts.credit(table, flow, bytes, self.now);
        self.origin = Some((table, flow));
        self.record(|| Step::Match { table, flow });
        if let Some(trace) = &mut self.trace {
            trace.matched(flow, self.fixed.flows.get(flow).flow.priority);
        }
    }

    fn miss(&mut self, table: u8) {
        self.counts.miss(table);
        self.record(|| Step::Miss { table });
    }

    fn set_origin(&mut self, table: u8, flow: u32) {
        self.origin = Some((table, flow));
        self.record(|| Step::Origin { table, flow });
    }

    fn count_bucket(&mut self, group: u32, bucket: Option<u32>) {
        self.counts.count_bucket(group, bucket, self.packet.frame().len() as u64);
        self.record(|| Step::Bucket { group, bucket });
    }

    fn meter(&mut self, id: u32) -> Go {
        self.record(|| Step::Meter(id));
        let Some(meter) = self.meters.get_mut(&id) else { return Go::On };
        let can_remark = |kind| matches!(kind, BandKind::DscpRemark(_));
        if meter.meter.bands.iter().any(|band| can_remark(band.kind))
            && let Some(trace) = &mut self.trace
        {
            trace.note_remark();
        }
        match meter.measure(self.packet.frame().len(), self.now) {
            None => {}
            Some(BandKind::Drop) => return self.end(),
            Some(BandKind::DscpRemark(levels)) => {
                let dscp = dscp();
                let old = self.packet.read(Subfield::whole(dscp)) as u8;
                self.packet.set(dscp, u128::from(remark(old, levels)), dscp.range.value_max());
            }
        }
        Go::On
    }

    /// The packet ends where others of the same traversal may go on.
    fn end(&mut self) -> Go {
        self.counts.ended += 1;
        self.is_accounted = true;
        self.give_up();
        Go::Ended
    }

    fn set(&mut self, field: &'static MatchField, value: u128, mask: u128) {
        self.packet.set(field, value, mask);
        self.record(|| Step::Set { field, value, mask });
    }

    fn edit(&mut self, action: &FlowAction) -> Go {
        self.record(|| Step::Edit(action.clone()));
        match self.packet.edit(action) {
            Edit::Done => Go::On,
            Edit::TtlEnded => {
                let ether_type = (self.packet.key()[28] >> 16) as u16;
                self.out.observe(Observed::TtlEnded(ether_type));
                self.packet_in(port::NO_BUFFER, PacketInReason::InvalidTtl);
                self.end()
            }
        }
    }

    fn send(&mut self, port: u32) {
        if self.fixed.ports.get(&port).is_some_and(|settings| !settings.is_forwarded) {
            self.out.observe(Observed::NoForward);
            return;
        }
        self.is_accounted = true;
        let (out, egress) = (&mut *self.out, self.packet.egress(port, self.queue));
        self.packet.hand_out(|frame| out.send(egress, frame));
        self.record(|| Step::Output(port));
    }

    fn controller(&mut self, max_len: u16, reason: PacketInReason) {
        self.packet_in(max_len, reason);
        self.record(|| Step::Controller { max_len, reason });
    }

    fn packet_in(&mut self, max_len: u16, reason: PacketInReason) {
        self.is_accounted = true;
        let (table, cookie) = match self.origin {
            Some((table, flow)) => (table, self.fixed.flows.get(flow).flow.cookie),
            None => (0, COOKIE_NONE),
        };
        let key = *self.packet.key();
        let frame = self.packet.hand_out(<[u8]>::to_vec);
        self.out.packet_in(PacketIn { reason, table, cookie, max_len, key, frame });
    }

    fn normal(&mut self) {
        self.is_accounted = true;
        let key = *self.packet.key();
        let out = &mut *self.out;
        self.packet.hand_out(|frame| out.normal(&key, frame));
        self.record(|| Step::Normal);
    }

    fn set_queue(&mut self, queue: Option<u32>) {
        self.queue = queue;
        self.record(|| Step::Queue(queue));
    }

    fn save(&mut self) {
        let copy = self.packet.fork();
        self.saved.push((std::mem::replace(&mut self.packet, copy), self.queue));
        self.record(|| Step::Save);
    }

    fn restore(&mut self) {
        if let Some((packet, queue)) = self.saved.pop() {
            let copy = std::mem::replace(&mut self.packet, packet);
            self.packet.join(copy);
            self.queue = queue;
        }
        self.record(|| Step::Restore);
    }
}

fn metadata() -> &'static MatchField {
    static METADATA: std::sync::LazyLock<&MatchField> =
        std::sync::LazyLock::new(|| field("metadata").expect("a field of OpenFlow"));
    *METADATA
}

fn dscp() -> &'static MatchField {
    static DSCP: std::sync::LazyLock<&MatchField> =
        std::sync::LazyLock::new(|| field("ip_dscp").expect("a field of OpenFlow"));
    *DSCP
}
