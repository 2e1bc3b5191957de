//! An OpenFlow 1.3 switch between its inputs and outputs.
//!
//! # Synopsis
//! `OpenFlowSwitch([PORTS N, FLOWS FILE, GROUPS FILE, LISTEN PTCP, CONTROLLER TCP, CACHE CACHE,
//! TABLES N, FAIL_MODE MODE, DATAPATH_ID ID])`
//!
//! # Ports
//! As many inputs as outputs; push. Input 0 and output 0 are port 1 of the switch, and so on.
//! Requires whole frames, starting at the Ethernet header. Frames that leave are new packets,
//! without annotations.
//!
//! # Configuration
//! - `PORTS`: number of ports; default: the connected inputs
//! - `FLOWS`: file of flows in the text of `ovs-ofctl`; default: none, so every frame is dropped
//! - `GROUPS`: file of groups in the text of `ovs-ofctl`
//! - `LISTEN`: `ptcp:PORT[:ADDRESS]`, where one controller at a time may connect; the address is
//!   127.0.0.1 by default
//! - `CONTROLLER`: `tcp:ADDRESS[:PORT]` of a controller to connect to
//! - `CACHE`: cache in front of the tables: `none`, `micro` or `mega`; default: `mega`
//! - `TABLES`: number of flow tables, 1 to 254; default: 254
//! - `FAIL_MODE`: `standalone` forwards as a learning switch while `CONTROLLER` is not connected;
//!   default: `secure`
//! - `DATAPATH_ID`: identity of the switch; default: 1
//!
//! Flows leave at most 100 ms after their time-out ended; a run does not end before. Time-outs of
//! the flows of a file start with the run. `docs/switch.md` lists the supported matches and
//! actions.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `flows` | read | flows with packets and bytes: all, or those of a filter as `table=1,tcp` |
//! | `trace` | read | trace of a packet as `in_port=1,tcp`, in the layout of `ofproto/trace` |
//! | `appctl` | read | reply to a command of `ovs-appctl`, as `coverage/show` |
//! | `misses` | read | frames that no cache answered |
//! | `add_flow` | write | adds a flow |
//! | `mod_flows` | write | changes the actions of flows |
//! | `del_flows` | write | removes flows; all for an empty text |
//! | `add_group` | write | adds a group |
//! | `del_groups` | write | removes a group as `group_id=1`; all for an empty text |
//!
//! # Drops
//! None. Frames that no flow forwards are counted by `appctl coverage/show`.
//!
//! # Threads
//! Runs on one worker, which polls its controllers every millisecond.
//!
//! # Example
//! ```text
//! sw :: OpenFlowSwitch(FLOWS web.flows);
//! FromDump(a.pcap) -> [0] sw [0] -> ToDump(to-a.pcap);
//! FromDump(b.pcap) -> [1] sw [1] -> ToDump(to-b.pcap);
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::transport::Transport;
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_io::{Unpacked, name_folder};
use warpswitch_openflow::Change;
use warpswitch_packet::Batch;
use warpswitch_rules::diagnostic::utf8_text;
use warpswitch_rules::format::{RULES_BYTES_MAX, ovs, read_bounded};
use warpswitch_switch::trace::TraceRequest;
use warpswitch_switch::{AppctlReply, CacheKind, FailMode, NewPort, Switch, SwitchOptions};

use super::controllers::{Connection, controller, listen};
use super::queues::QueuePort;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("OpenFlowSwitch", "-/=", "h/h", || Box::new(OpenFlowSwitch::default()));

/// Interval between two polls of controllers.
const POLL: Duration = Duration::from_millis(1);
/// The timer of polls, and that of time-outs of flows.
const POLL_TIMER: usize = 0;
const EXPIRY_TIMER: usize = 1;

/// See the module.
#[derive(Default)]
pub struct OpenFlowSwitch {
    switch: Option<Switch>,
    ports: Vec<QueuePort>,
    listen: Option<Transport>,
    controller: Option<Transport>,
    connections: Vec<Connection>,
    /// When the run started: time 0 of the switch.
    start: Time,
    /// The time-out of flows for which the timer is set.
    expiry_ns: Option<u64>,
}

/// The changes that files hold, groups first.
fn read_files(args: &mut Args<'_>, groups: Option<&str>, flows: Option<&str>) -> Vec<Change> {
    let mut changes = Vec::new();
    if let Some(text) = groups.and_then(|path| read_text(args, "GROUPS", path)) {
        match ovs::read_groups("GROUPS", &text) {
            Ok(groups) => changes.extend(groups.into_iter().map(Change::Group)),
            Err(errors) => args.error_at("GROUPS", errors.to_string().trim_end()),
        }
    }
    if let Some(text) = flows.and_then(|path| read_text(args, "FLOWS", path)) {
        match ovs::read_changes("FLOWS", &text) {
            Ok(flows) => changes.extend(flows.into_iter().map(Change::Flow)),
            Err(errors) => args.error_at("FLOWS", errors.to_string().trim_end()),
        }
    }
    changes
}

/// The text of a file; an error of the argument if it cannot be read.
fn read_text(args: &mut Args<'_>, keyword: &str, path: &str) -> Option<String> {
    let bytes = Unpacked::open(path)
        .and_then(|file| read_bounded(file, RULES_BYTES_MAX))
        .map_err(|error| name_folder(path.as_ref(), error).to_string());
    let text = bytes.and_then(|bytes| {
        utf8_text(path, &bytes).map(str::to_owned).map_err(|errors| errors.to_string())
    });
    text.inspect_err(|why| args.error_at(keyword, &format!("cannot read {path}: {why}"))).ok()
}

/// Reads a keyword with one of some names as its value.
fn read_choice<T: Copy>(args: &mut Args<'_>, keyword: &str, choices: &[(&str, T)], target: &mut T) {
    let mut word = None::<Word>;
    args.read(keyword, &mut word);
    let Some(Word(word)) = word else { return };
    match choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(&word)) {
        Some(&(_, value)) => *target = value,
        None => {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            args.error_at(keyword, &format!("expected one of {}", names.join(", ")));
        }
    }
}

/// Reads a keyword with an address as its value.
fn read_address(
    args: &mut Args<'_>,
    keyword: &str,
    parse: fn(&str) -> Result<Transport, String>,
) -> Option<Transport> {
    let mut text = None::<Word>;
    args.read(keyword, &mut text);
    let parsed = parse(&text?.0);
    parsed.inspect_err(|why| args.error_at(keyword, why)).ok()
}

impl OpenFlowSwitch {
    fn switch(&mut self) -> Result<&mut Switch, HandlerError> {
        self.switch.as_mut().ok_or_else(|| HandlerError::failed("not configured"))
    }

    fn now_ns(&self, cx: &Context<'_>) -> u64 {
        u64::try_from(cx.now().0.saturating_sub(self.start.0)).unwrap_or(0)
    }

    /// Sets the timer for the next time-out of flows. Polls of controllers need none.
    fn set_expiry(&mut self, cx: &mut Context<'_>) {
        let next = self.switch.as_ref().and_then(Switch::next_expiry_ns);
        if !self.connections.is_empty() || next == self.expiry_ns {
            return;
        }
        self.expiry_ns = next;
        match next {
            Some(next) => cx.set_timer(EXPIRY_TIMER, self.start + Duration::from_nanos(next)),
            None => cx.clear_timer(EXPIRY_TIMER),
        }
    }

    /// Processes the frames that wait at all ports, and emits those that the switch sends.
    fn forward(&mut self, cx: &mut Context<'_>) {
        let now_ns = self.now_ns(cx);
        let Some(switch) = &mut self.switch else { return };
        while switch.run(now_ns) {}
        for (output, port) in self.ports.iter().enumerate() {
            let mut batch = Batch::new();
            port.take(|frame| batch.push(cx.pool().packet_of(frame)));
            if !batch.is_empty() {
                cx.emit_batch(output, batch);
            }
        }
        self.set_expiry(cx);
    }

    /// Serves the controllers; whether there was anything to do.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let now_ns = self.now_ns(cx);
        let Some(switch) = &mut self.switch else { return false };
        let polls = self.connections.iter_mut().map(|open| open.poll(switch, now_ns));
        let has_worked = polls.fold(false, |worked, polled| worked | polled);
        self.forward(cx);
        has_worked
    }

    fn change(&mut self, change: &Change, now_ns: u64) -> Result<String, HandlerError> {
        let result = self.switch()?.change(change, now_ns);
        result.map(|()| String::new()).map_err(|why| HandlerError::failed(why.to_string()))
    }

    fn flows(&mut self, filter: &str, now_ns: u64) -> Result<String, HandlerError> {
        let filter = ovs::parse_filter(filter).map_err(failed)?;
        let mut text = String::new();
        for stats in self.switch()?.pipeline().flows(&filter, now_ns) {
            let (packets, bytes) = (stats.packets, stats.bytes);
            let flow = ovs::flow_text(&stats.flow);
            _ = writeln!(text, "n_packets={packets}, n_bytes={bytes}, {}", flow.trim_start());
        }
        Ok(text)
    }
}

/// Errors of a text as those of a handler.
fn failed(errors: impl std::fmt::Display) -> HandlerError {
    HandlerError::failed(errors.to_string().trim_end().to_owned())
}

impl Element for OpenFlowSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut options = SwitchOptions::default();
        let (mut ports, mut tables) = (None::<usize>, 254usize);
        let (mut flows, mut groups) = (None::<String>, None::<String>);
        args.read("PORTS", &mut ports)
            .read("TABLES", &mut tables)
            .read("DATAPATH_ID", &mut options.agent.datapath_id)
            .read("FLOWS", &mut flows)
            .read("GROUPS", &mut groups);
        read_choice(
            args,
            "CACHE",
            &CacheKind::ALL.map(|kind| (kind.name(), kind)),
            &mut options.cache,
        );
        let modes = [("secure", FailMode::Secure), ("standalone", FailMode::Standalone)];
        read_choice(args, "FAIL_MODE", &modes, &mut options.fail_mode);
        self.listen = read_address(args, "LISTEN", listen);
        self.controller = read_address(args, "CONTROLLER", controller);
        if ports.is_some_and(|ports| ports != context.inputs) {
            args.error_at("PORTS", &format!("must be the number of inputs, {}", context.inputs));
        }
        if !(1..=254).contains(&tables) {
            args.error_at("TABLES", "must be 1 to 254");
            tables = 1;
        }
        for (keyword, path) in [("FLOWS", &flows), ("GROUPS", &groups)] {
            path.iter().for_each(|path| _ = args.note_input(keyword, path));
        }
        let changes = read_files(args, groups.as_deref(), flows.as_deref());
        options.pipeline.tables = tables;
        let mut switch = Switch::new(options);
        self.ports.clear();
        for number in 1..=context.inputs {
            let port = QueuePort::default();
            let [.., high, low] = number.to_be_bytes();
            let (rx, tx) = (Box::new(port.clone()), Box::new(port.clone()));
            let (name, mac) = (format!("port{number}"), [2, 0, 0, 0, high, low]);
            switch.add_port(NewPort { name, mac, rx, tx }, 0);
            self.ports.push(port);
        }
        for change in &changes {
            if let Err(why) = switch.change(change, 0) {
                let (keyword, text) = match change {
                    Change::Flow(flow) => ("FLOWS", ovs::change_text(flow)),
                    _ => ("GROUPS", "a group".to_owned()),
                };
                args.error_at(keyword, &format!("{text}: {why}"));
            }
        }
        self.switch = Some(switch);
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.start = cx.now();
        for (transport, is_ours) in [(&self.listen, false), (&self.controller, true)] {
            if let Some(transport) = transport {
                self.connections.push(Connection::new(cx.console().open(transport)?, is_ours));
            }
        }
        if !self.connections.is_empty() {
            cx.schedule_task();
        }
        self.set_expiry(cx);
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, batch: Batch) {
        self.ports[input].put(batch.iter().map(|packet| packet.data()));
        cx.consume_batch(batch);
        self.forward(cx);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let has_worked = self.poll(cx);
        match has_worked {
            true => cx.schedule_task(),
            false => cx.set_timer(POLL_TIMER, cx.now() + POLL),
        }
        has_worked
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, timer: usize) {
        match timer {
            POLL_TIMER => cx.schedule_task(),
            _ => {
                self.expiry_ns = None;
                self.forward(cx);
            }
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("flows").with_param().expensive(),
                HandlerSpec::read("trace").with_param(),
                HandlerSpec::read("appctl").with_param().expensive(),
                HandlerSpec::read("misses"),
                HandlerSpec::write("add_flow"),
                HandlerSpec::write("mod_flows"),
                HandlerSpec::write("del_flows"),
                HandlerSpec::write("add_group"),
                HandlerSpec::write("del_groups"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let now_ns = self.now_ns(cx);
        match name {
            "flows" => self.flows(param, now_ns),
            "trace" => {
                let mut words = param.split_whitespace();
                let (flow, packet) = (words.next().unwrap_or_default(), words.next());
                let request = TraceRequest::parse(flow, packet).map_err(failed)?;
                Ok(self.switch()?.trace(&request, now_ns))
            }
            "appctl" => {
                let words: Vec<&str> = param.split_whitespace().collect();
                let [command, arguments @ ..] = &words[..] else {
                    return Err(failed("expected a command, such as list-commands"));
                };
                match self.switch()?.appctl(command, arguments, now_ns).map_err(failed)? {
                    AppctlReply::Text(text) => Ok(text),
                    AppctlReply::Exit => Err(failed("exit: stop the configuration instead")),
                }
            }
            "misses" => Ok(self.switch()?.stats().cache.misses.to_string()),
            _ => Err(HandlerError::Missing),
        }
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let now_ns = self.now_ns(cx);
        let value = value.trim();
        let flow = |verb: &str| ovs::parse_change(&format!("{verb} {value}")).map_err(failed);
        let group = |verb: &str| ovs::parse_group(&format!("{verb} {value}")).map_err(failed);
        let change = match name {
            "add_flow" => Change::Flow(flow("add")?),
            "mod_flows" => Change::Flow(flow("modify")?),
            "del_flows" => Change::Flow(flow("delete")?),
            "add_group" => Change::Group(group("add")?),
            "del_groups" => Change::Group(group("delete")?),
            _ => return Err(HandlerError::Missing),
        };
        let result = self.change(&change, now_ns);
        self.set_expiry(cx);
        result
    }
}
