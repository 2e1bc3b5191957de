//! Runs a script.
//!
//! # Synopsis
//! `Script(INSTRUCTION, … [, TYPE])`
//!
//! # Ports
//! Usually none. With ports, the script runs once per packet and selects its output: any number of
//! inputs and outputs, the first pair push or pull, other outputs push.
//!
//! # Configuration
//! `TYPE` specifies when the script runs: `ACTIVE` (the default) when the configuration starts,
//! `PASSIVE` when handler `run` is called, `PACKET` (the default with ports) for each packet,
//! `PROXY` when any handler is called that it does not define, `DRIVER` when the run is requested
//! to stop, which the script then decides, `SIGNAL NAME…` when the process receives such a signal.
//! All other arguments are instructions:
//!
//! | instruction | effect |
//! | --- | --- |
//! | `set V TEXT`, `init V TEXT` | sets a variable; `init` once, at initialization |
//! | `export V [TEXT]` | as `init`, and the variable is readable as handler `V` |
//! | `print [>FILE] TEXT`, `printn …` | prints text, or the value of a read handler if it begins with a letter; `printn` without a newline; `>>FILE` appends |
//! | `save HANDLER FILE`, `append …` | as `print >FILE HANDLER` and `print >>FILE HANDLER` |
//! | `read HANDLER [ARGS]` | prints the name and the value of a read handler on standard error |
//! | `write HANDLER [ARGS]`, `call …` | calls a write handler; `$?` is 0 if it succeeded |
//! | `wait TIME`, `wait_time TIME` | waits for the time, or until a step |
//! | `pause [N]`, `wait_step`, `wait_stop` | waits for `N` steps, by default 1 |
//! | `label L`, `goto L [CONDITION]` | jumps; `begin`, `end`, `exit`, `stop`, `error` are predefined labels |
//! | `loop` | starts over |
//! | `return [VALUE]` | ends; the value is that of handler `run`, or the output for the packet |
//! | `end`, `exit` | ends; `end` emits a packet on output 0, `exit` drops it |
//! | `stop` | ends, and requests the run to stop |
//! | `error [TEXT]` | ends as a failure |
//!
//! The variants `setq`, `printq`, `readq`, `writeq`, `returnq`, `errorq`, `initq` and `exportq`
//! remove quotes. `$v`, `${v}` and `$(HANDLER ARGS)` in texts are replaced. `$args`, `$1` …, `$#`
//! are the arguments of `run`, `$0` the called handler, `$write` whether it was a write, `$input`
//! the input of the packet, `$$` the process ID.
//!
//! # Handlers
//! | name | | |
//! | --- | --- | --- |
//! | `run` | read, write | runs the script |
//! | `step` | write | sends this number of steps, each of which ends a wait |
//! | `goto` | write | runs from a label on |
//! | `get`, `shift` | read | value of a variable; its first word, which is removed |
//! | `set` | write | sets a variable |
//! | `add`, `sub`, `mul`, `div`, `idiv`, `mod`, `rem`, `neg`, `abs`, `min`, `max` | read | arithmetic |
//! | `eq`, `ne`, `lt`, `gt`, `le`, `ge`, `in` | read | comparisons |
//! | `not`, `and`, `or`, `nand`, `nor`, `if` | read | logic |
//! | `sprintf`, `first`, `length`, `unquote` | read | text |
//! | `htons`, `htonl`, `ntohs`, `ntohl` | read | byte order |
//! | `now`, `random`, `readable`, `writable` | read | time, random number, whether handlers exist |
//! | `cat`, `catq`, `kill` | read | file contents, the same quoted, sending a signal; only callable from within the configuration |
//!
//! # Drops
//! - `script`: the script returned no valid output for the packet
//!
//! # Threads
//! Runs on one worker while all others are paused. Scripts are slow: they are meant for control,
//! not for forwarding.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> c :: Counter -> Discard;
//! Script(set x 0, label again, wait 1s, set x $(add $x 1), print "$x: $(c.count)",
//!        goto again $(lt $x 5), stop);
//! ```

mod calls;
mod expand;
mod format;
mod functions;
mod handlers;
mod program;
mod run;
mod words;

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use program::{Program, Step};
use run::{By, Report};

use super::poke_handlers;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Script", "-/-", "ah/ah", || Box::new(Script::new(None))).drops(DROPS);

/// Why packets are dropped.
pub(super) const DROPS: &[&str] = &["script"];
const NO_OUTPUT: usize = 0;

/// When a script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// When the configuration starts.
    Active,
    /// When handler `run` is used.
    Passive,
    /// For each packet.
    Packet,
    /// For any handler.
    Proxy,
    /// When the run is to stop.
    Driver,
    /// When the process is sent a signal.
    Signal,
}

/// See the module.
#[derive(Debug)]
pub struct Script {
    kind: Option<Kind>,
    signals: Vec<String>,
    program: Program,
    /// Of each step that waits, how often it was stepped.
    progress: Vec<u32>,
    /// The step that comes next.
    at: usize,
    /// How often it was stepped.
    stepped: i64,
    /// Steps requested while it runs.
    asked: Option<i64>,
    is_running: bool,
    /// Bytes of text that it made so far.
    expanded_bytes: usize,
    /// The handler that runs it, what that was given, and whether it is written.
    handler: String,
    args: String,
    is_write: bool,
    write_status: i32,
    /// Whether its arguments are directives of `PokeHandlers`.
    has_directives: bool,
}

impl Script {
    /// A script of this kind unless its arguments specify another.
    pub fn new(kind: Option<Kind>) -> Self {
        Self {
            kind,
            signals: Vec::new(),
            program: Program::default(),
            progress: Vec::new(),
            at: 0,
            stepped: 0,
            asked: None,
            is_running: false,
            expanded_bytes: 0,
            handler: String::new(),
            args: String::new(),
            is_write: false,
            write_status: 0,
            has_directives: false,
        }
    }

    /// A script whose arguments are directives of `PokeHandlers`.
    pub fn of_directives() -> Self {
        Self { has_directives: true, ..Self::new(Some(Kind::Active)) }
    }

    fn read_type(&mut self, args: &mut Args<'_>) -> Result<(), &'static str> {
        let mut text = Raw::default();
        args.read("TYPE", &mut text);
        let mut words = text.0.split_ascii_whitespace();
        let kind = match words.next() {
            None => return Ok(()),
            Some("ACTIVE") => Kind::Active,
            Some("PASSIVE") => Kind::Passive,
            Some("PACKET" | "PUSH") => Kind::Packet,
            Some("PROXY") => Kind::Proxy,
            Some("DRIVER") => Kind::Driver,
            Some("SIGNAL") => Kind::Signal,
            Some(_) => return Err("bad TYPE"),
        };
        if kind == Kind::Signal {
            self.signals = words.by_ref().map(str::to_owned).collect();
            if self.signals.is_empty() {
                return Err("bad signal number");
            }
        }
        self.kind = Some(kind);
        if words.next().is_some() { Err("bad TYPE") } else { Ok(()) }
    }

    /// Runs the script for a packet at `input`. Returns the output that it selects, if that exists.
    fn packet_output(&mut self, cx: &mut Context<'_>, input: usize) -> Option<usize> {
        let variable = self.program.define("input");
        self.program.variables[variable].1 = input.to_string();
        self.at = 0;
        let mut report = Report::say_at_once(cx);
        self.run_steps(cx, &mut report, 0, By::Jump);
        let (_, value) = self.outcome(true);
        usize::from_arg(&value, &NoNames).ok().filter(|port| *port < cx.outputs())
    }
}

impl Element for Script {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        if let Err(message) = self.read_type(args) {
            args.error_at("", message);
        }
        let has_ports = context.inputs + context.outputs > 0;
        let kind = *self.kind.get_or_insert(if has_ports { Kind::Packet } else { Kind::Active });
        if kind == Kind::Driver && first_driver(context).is_some_and(|at| at < context.element) {
            args.error_at("", "router has more than one driver script");
        }
        if kind == Kind::Packet && context.inputs == 0 {
            args.error_at("", "PACKET script must have inputs");
        } else if kind != Kind::Packet && has_ports {
            args.error_at("", "ports allowed only on PACKET scripts");
        }
        let mut errors = Vec::new();
        let mut instructions = args.rest();
        if self.has_directives {
            let of = |directive: &mut String| *directive = poke_handlers::instruction(directive);
            instructions.iter_mut().for_each(of);
        }
        self.program = Program::parse(&instructions, kind == Kind::Driver, &mut errors);
        self.progress = vec![0; self.program.steps.len()];
        errors.iter().for_each(|error| args.error_at("", error));
        args.complete()
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        let [_, unset] = self.strange_names(cx);
        Ok(unset)
    }

    fn wrong_calls(&self, cx: &mut Context<'_>) -> Vec<String> {
        let [wrong, _] = self.strange_names(cx);
        wrong
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let mut report = Report::collect();
        self.set_initial(cx, &mut report);
        match (self.kind, &self.program.steps[0]) {
            (Some(Kind::Driver), _) => {
                cx.manage_driver();
                self.start(cx, &mut report);
            }
            (Some(Kind::Active) | None, _) => self.start(cx, &mut report),
            (Some(Kind::Signal), _) => self.watch(cx)?,
            _ => {}
        }
        if report.lines.is_empty() { Ok(()) } else { Err(report.lines.join("\n")) }
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        for packet in batch.drain() {
            match self.packet_output(cx, input) {
                Some(port) => cx.emit(port, packet),
                None => cx.drop_packet(packet, NO_OUTPUT),
            }
        }
        cx.pool().recycle_empty(batch);
    }

    fn pull(&mut self, cx: &mut Context<'_>, output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pull(0, packets_max);
        batch.sift(|packet| match self.packet_output(cx, 0) {
            Some(port) if port == output => Some(packet),
            Some(port) => {
                cx.emit(port, packet);
                None
            }
            None => {
                cx.drop_packet(packet, NO_OUTPUT);
                None
            }
        });
        batch
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        let mut report = Report::say_at_once(cx);
        self.run_steps(cx, &mut report, 1, By::Timer);
        self.settle(cx);
    }

    fn driver_stops(&mut self, cx: &mut Context<'_>) -> bool {
        let mut report = Report::say_at_once(cx);
        // A script that requests another step each time would never end.
        for _ in 0..1000 {
            if cx.pending_stops() == 0 {
                return false;
            }
            if !self.run_steps(cx, &mut report, 1, By::Driver) {
                return true;
            }
            cx.answer_stop();
        }
        false
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        handlers::HANDLERS
    }

    fn named_handler(&self, name: &str) -> Option<HandlerSpec> {
        if self.kind == Some(Kind::Proxy) {
            return Some(HandlerSpec::both("*").with_param());
        }
        let is_public = |step: &Step| match step {
            Step::Init { variable, is_public, .. } => {
                *is_public && self.program.variables[*variable].0 == name
            }
            _ => false,
        };
        self.program.steps.iter().any(is_public).then(|| HandlerSpec::read("*"))
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        let mut report = Report::collect();
        let answer = self.answer(cx, &mut report, name, param);
        report.into_result(answer)
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let mut report = Report::collect();
        let status = self.obey(cx, &mut report, name, value);
        self.settle(cx);
        report.into_result(status.map(|()| String::new()))
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        // The same script goes on where it was; another one starts.
        if old.program.steps == self.program.steps && self.kind == Some(Kind::Packet) {
            self.program.variables = std::mem::take(&mut old.program.variables);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::Alone
    }
}

/// Index of the first element that manages the driver, by the text.
fn first_driver(context: &ConfigureContext<'_>) -> Option<usize> {
    use warpswitch_graph::language::args::split::split_args;
    let is_driver = |config: &str| split_args(config).iter().any(|arg| arg == "TYPE DRIVER");
    context.graph.elements.iter().position(|element| match element.class.as_str() {
        "DriverManager" => true,
        "Script" => is_driver(&element.config),
        _ => false,
    })
}

#[cfg(test)]
mod tests;
