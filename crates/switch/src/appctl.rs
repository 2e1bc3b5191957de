//! The commands that `ovs-appctl` sends to a running switch; their text is that of Open vSwitch
//! where it has the same command.
//!
//! No sockets here: the crate `runtime` moves the requests and replies.

use std::fmt::Write as _;

use crate::coverage::coverage_text;
use crate::switch::Switch;
use crate::trace::{TraceRequest, cached_flow_text};

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppctlReply {
    /// Text for people.
    Text(String),
    /// The switch is to end.
    Exit,
}

/// A command: how it is called, and what executes it.
struct Command {
    name: &'static str,
    usage: &'static str,
    arguments_min: usize,
    arguments_max: usize,
    run: fn(&mut Switch, &[&str], u64) -> Result<String, String>,
}

const EXIT: &str = "exit";

/// In alphabetical order, as they are listed.
static COMMANDS: &[Command] = &[
    command("coverage/show", "", 0, 0, |switch, _, _| Ok(coverage_text(switch))),
    command("dpctl/dump-flows", "[dp]", 0, 1, dump_flows),
    command("dpctl/show", "[dp]", 0, 1, |switch, _, now_ns| Ok(datapath_text(switch, now_ns))),
    command("dpif/show", "", 0, 0, |switch, _, now_ns| Ok(ports_text(switch, now_ns))),
    command(EXIT, "[--cleanup]", 0, 1, |_, _, _| Ok(String::new())),
    command("fdb/flush", "[bridge]", 0, 1, flush_fdb),
    command("fdb/show", "[bridge]", 0, 1, fdb),
    command("list-commands", "", 0, 0, |_, _, _| Ok(list())),
    command("ofproto/list", "", 0, 0, |switch, _, _| Ok(format!("{}\n", switch.bridge()))),
    command("ofproto/trace", "[bridge] flow [packet]", 1, 3, trace),
    command("revalidator/purge", "", 0, 0, |switch, _, _| {
        switch.purge();
        Ok(String::new())
    }),
    command("version", "", 0, 0, |switch, _, _| Ok(format!("warpswitch {}\n", switch.version()))),
];

const fn command(
    name: &'static str,
    usage: &'static str,
    arguments_min: usize,
    arguments_max: usize,
    run: fn(&mut Switch, &[&str], u64) -> Result<String, String>,
) -> Command {
    Command { name, usage, arguments_min, arguments_max, run }
}

impl Switch {
    /// Executes a command of `ovs-appctl`.
    ///
    /// # Errors
    /// An unknown command, a wrong number of arguments, or what the command rejects.
    pub fn appctl(
        &mut self,
        name: &str,
        arguments: &[&str],
        now_ns: u64,
    ) -> Result<AppctlReply, String> {
        let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
            return Err(format!(
                "\"{name}\" is not a valid command (use \"list-commands\" to see a list of valid \
                 commands)"
            ));
        };
        let (min, max) = (command.arguments_min, command.arguments_max);
        if arguments.len() < min {
            return Err(format!("\"{name}\" command requires at least {min} arguments"));
        }
        if arguments.len() > max {
            return Err(format!("\"{name}\" command takes at most {max} arguments"));
        }
        let text = (command.run)(self, arguments, now_ns)?;
        Ok(if name == EXIT { AppctlReply::Exit } else { AppctlReply::Text(text) })
    }
}

fn list() -> String {
    let mut out = "The available commands are:\n".to_owned();
    for Command { name, usage, .. } in COMMANDS {
        _ = writeln!(out, "  {name:<23} {usage}");
    }
    out
}

/// A switch is one bridge.
fn check_bridge(switch: &Switch, name: &str) -> Result<(), String> {
    match name == switch.bridge() {
        true => Ok(()),
        false => Err(no_bridge(switch, name)),
    }
}

fn no_bridge(switch: &Switch, name: &str) -> String {
    format!("{name}: no such bridge; expected {}", switch.bridge())
}

fn trace(switch: &mut Switch, arguments: &[&str], now_ns: u64) -> Result<String, String> {
    // A flow has a comma, an equals sign or is a protocol; a bridge is the name of this one.
    let arguments = match arguments {
        [bridge, rest @ ..] if *bridge == switch.bridge() && !rest.is_empty() => rest,
        [bridge, _, _] => return check_bridge(switch, bridge).map(|()| String::new()),
        arguments => arguments,
    };
    let (flow, packet) = match arguments {
        [bridge] if *bridge == switch.bridge() => {
            return Err("expected [bridge] flow [packet]; the flow is missing".to_owned());
        }
        [flow] => (flow, None),
        [_, "-generate" | "--generate"] => {
            return Err("-generate: a trace has no effects here; leave it out".to_owned());
        }
        // A flow in the second place: the first is the name of a bridge.
        [bridge, flow] if flow.contains(['=', ',']) => return Err(no_bridge(switch, bridge)),
        [flow, packet] => (flow, Some(*packet)),
        _ => return Err("expected [bridge] flow [packet]".to_owned()),
    };
    let request = TraceRequest::parse(flow, packet)?;
    Ok(switch.trace(&request, now_ns))
}

fn fdb(switch: &mut Switch, arguments: &[&str], now_ns: u64) -> Result<String, String> {
    if let [bridge] = arguments {
        check_bridge(switch, bridge)?;
    }
    let mut out = " port  VLAN  MAC                Age\n".to_owned();
    for (port, vlan, [a, b, c, d, e, f], age_ns) in switch.learning().entries(now_ns) {
        let age = age_ns / 1_000_000_000;
        _ = writeln!(
            out,
            "{port:5}  {vlan:4}  {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}  {age:3}"
        );
    }
    Ok(out)
}

fn flush_fdb(switch: &mut Switch, arguments: &[&str], _: u64) -> Result<String, String> {
    if let [bridge] = arguments {
        check_bridge(switch, bridge)?;
    }
    switch.forget_addresses();
    Ok("table successfully flushed\n".to_owned())
}

/// The cached flows. Without a cache there are none, as each packet is looked up in the tables.
fn dump_flows(switch: &mut Switch, arguments: &[&str], now_ns: u64) -> Result<String, String> {
    if let Some(option) = arguments.first().filter(|argument| argument.starts_with("-")) {
        return Err(format!("{option}: not supported; leave it out"));
    }
    let mut out = String::new();
    for flow in switch.cached_flows(now_ns) {
        _ = writeln!(out, "{}", cached_flow_text(switch.pipeline(), &flow));
    }
    Ok(out)
}

fn hits(switch: &Switch) -> (u64, u64) {
    let cache = switch.stats().cache;
    (cache.micro_hits + cache.mega_hits, cache.misses)
}

fn ports_text(switch: &Switch, now_ns: u64) -> String {
    let (bridge, (hit, missed)) = (switch.bridge(), hits(switch));
    let mut out = format!("warpswitch@{bridge}: hit:{hit} missed:{missed}\n  {bridge}:\n");
    for (name, stats) in switch.ports(now_ns) {
        let number = stats.number;
        _ = writeln!(out, "    {name} {number}/{number}: (system)");
    }
    out
}

fn datapath_text(switch: &Switch, now_ns: u64) -> String {
    let (bridge, (hit, missed)) = (switch.bridge(), hits(switch));
    let flows = switch.cached_flows(now_ns).count();
    let mut out = format!(
        "warpswitch@{bridge}:\n  lookups: hit:{hit} missed:{missed} lost:0\n  flows: {flows}\n"
    );
    for (name, stats) in switch.ports(now_ns) {
        _ = writeln!(out, "  port {}: {name}", stats.number);
    }
    out
}
