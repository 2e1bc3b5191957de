//! Handlers of a running configuration: found, read, written.

use std::fmt::Write;

use crate::context::{Context, Shared};
use crate::element::{ConfigureContext, Element, PACKAGES};
use crate::handler::{ELEMENT_HANDLERS, GLOBAL_HANDLERS, HandlerError, HandlerSpec};
use crate::language::args::{Args, FromArg, NoNames};
use crate::language::{FlatGraph, flatten};
use crate::names::{Seen, scoped};
use crate::router::gso::Accepting;
use crate::router::plan::Home;
use crate::router::worker::{Stats, Worker};

/// Columns of the handler `stats`.
const STATS_COLUMNS: [&str; 8] =
    ["element", "class", "packets", "bytes", "batches", "own_ns", "held", "drops"];
/// The version that the handler `version` tells.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Which handler `text` means, as seen from `from`.
pub(crate) fn find<'t>(
    shared: &Shared,
    from: Option<usize>,
    text: &'t str,
) -> Result<(Option<usize>, &'t str), HandlerError> {
    let Some((element, name)) = text.rsplit_once('.') else { return Ok((None, text)) };
    if let Ok(number) = element.parse::<usize>()
        && (1..=shared.graph.elements.len()).contains(&number)
    {
        return Ok((Some(number - 1), name));
    }
    let from = from.map_or("", |from| &shared.graph.elements[from].name);
    let found = scoped(from, element, |name| shared.index.get(name).copied());
    found.map(|idx| (Some(idx), name)).ok_or_else(|| HandlerError::NoElement(element.to_owned()))
}

/// What `look` sees of element `idx`: where it stands, or where it was lent to. None if it is at
/// work.
fn peek<T>(
    shared: &Shared,
    worker: &Worker,
    idx: usize,
    look: impl FnOnce(&dyn Element) -> T,
) -> Option<T> {
    if let Ok(element) = shared.elements[idx].try_borrow() {
        return Some(look(&**element));
    }
    let (_, lent) = worker.lent.iter().rev().find(|(owner, _)| *owner == idx)?;
    lent.as_deref().map(look)
}

/// Runs `work` on element `idx`: where it stands, or where it was lent to.
fn enter<T>(
    shared: &Shared,
    worker: &mut Worker,
    idx: usize,
    work: impl FnOnce(&mut dyn Element, &mut Context<'_>) -> Result<T, HandlerError>,
) -> Result<T, HandlerError> {
    if let Ok(mut element) = shared.elements[idx].try_borrow_mut() {
        return work(&mut **element, &mut Context { shared, worker, element: idx });
    }
    let place = worker.lent.iter().rposition(|(owner, _)| *owner == idx);
    let lent = place.and_then(|place| worker.lent[place].1.take());
    let (Some(place), Some(mut element)) = (place, lent) else { return Err(HandlerError::Busy) };
    let answer = work(&mut *element, &mut Context { shared, worker, element: idx });
    worker.lent[place].1 = Some(element);
    answer
}

/// The handler `name` of `element`, and whether the element answers it itself.
pub(crate) fn spec(
    shared: &Shared,
    worker: &Worker,
    element: Option<usize>,
    name: &str,
) -> Result<(HandlerSpec, bool), HandlerError> {
    let by_name = |specs: &[HandlerSpec]| specs.iter().find(|spec| spec.name == name).copied();
    let Some(idx) = element else {
        return by_name(GLOBAL_HANDLERS).map(|spec| (spec, false)).ok_or(HandlerError::Missing);
    };
    if let Some(spec) = peek(shared, worker, idx, |element| by_name(element.handlers())).flatten() {
        return Ok((spec, true));
    }
    if let Some(mut spec) = by_name(ELEMENT_HANDLERS) {
        spec.write |= name == "config" && shared.classes[idx].is_live;
        return Ok((spec, false));
    }
    let named = peek(shared, worker, idx, |element| element.named_handler(name)).flatten();
    named.map(|spec| (spec, true)).ok_or(HandlerError::Missing)
}

/// The handlers of `element`, but those that it has by its arguments.
pub(crate) fn specs(shared: &Shared, worker: &Worker, element: Option<usize>) -> Vec<HandlerSpec> {
    let Some(idx) = element else { return GLOBAL_HANDLERS.to_vec() };
    let own = peek(shared, worker, idx, |element| element.handlers()).unwrap_or_default();
    own.iter().chain(ELEMENT_HANDLERS).copied().collect()
}

pub(crate) fn read(
    shared: &Shared,
    worker: &mut Worker,
    element: Option<usize>,
    name: &str,
    param: &str,
) -> Result<String, HandlerError> {
    if let Some(idx) = element
        && peek(shared, worker, idx, |_| ()).is_none()
        && !ELEMENT_HANDLERS.iter().any(|spec| spec.name == name)
    {
        return Err(HandlerError::Busy);
    }
    let (spec, own) = spec(shared, worker, element, name)?;
    if !spec.read {
        return Err(HandlerError::NotReadable);
    }
    let Some(idx) = element else { return Ok(read_global(shared, worker, name)) };
    if own {
        return enter(shared, worker, idx, |element, cx| element.read(cx, name, param));
    }
    Ok(read_common(shared, worker, idx, name))
}

pub(crate) fn write(
    shared: &Shared,
    worker: &mut Worker,
    element: Option<usize>,
    name: &str,
    value: &str,
) -> Result<String, HandlerError> {
    if let Some(idx) = element
        && peek(shared, worker, idx, |_| ()).is_none()
    {
        return Err(HandlerError::Busy);
    }
    if element.is_none() && name == "hotconfig" && worker.console.takes_configurations() {
        let asked = worker.console.reconfigure(value);
        return asked.map(|()| String::new()).map_err(HandlerError::Failed);
    }
    let (spec, own) = spec(shared, worker, element, name)?;
    if !spec.write {
        return Err(HandlerError::NotWritable);
    }
    match element {
        Some(idx) if own => {
            worker.has_changed = true;
            enter(shared, worker, idx, |element, cx| element.write(cx, name, value))
        }
        Some(idx) => {
            worker.has_changed = true;
            configure(shared, worker, idx, value.trim()).map(|()| String::new())
        }
        None if name == "timewarp" => {
            let factor = f64::from_arg(value.trim(), &NoNames);
            let factor = factor.ok().filter(|factor| *factor > 0.0 && factor.is_finite());
            let factor = factor.ok_or_else(|| HandlerError::failed("expected positive number"))?;
            worker.console.warp_time(factor).map_err(HandlerError::Failed)?;
            worker.timewarp = factor;
            Ok(String::new())
        }
        None => {
            worker.stops += 1;
            Ok(String::new())
        }
    }
}

/// Writes `call`, `HANDLER [VALUE]`, in the name of `from`, or, if whom it calls is at work (it
/// asks `from` for packets, say), leaves it for when no element is; what goes wrong is said.
pub(crate) fn call(shared: &Shared, worker: &mut Worker, from: usize, call: &str) {
    let (handler, value) = call.trim().split_once(char::is_whitespace).unwrap_or((call.trim(), ""));
    let called = find(shared, Some(from), handler)
        .and_then(|(element, name)| write(shared, worker, element, name, value.trim()));
    match called {
        Ok(_) => {}
        Err(HandlerError::Busy) => worker.later.push((from, call.to_owned())),
        Err(error) => {
            let from = shared.graph.elements[from].declaration();
            worker.console.say(&format!("{from}: {handler}: {error}"));
        }
    }
}

/// Gives element `idx`, whose class is live, other arguments.
fn configure(
    shared: &Shared,
    worker: &mut Worker,
    idx: usize,
    config: &str,
) -> Result<(), HandlerError> {
    let graph = &shared.graph;
    let seen = Seen { table: &shared.names, graph, index: &shared.index, element: idx };
    let (inputs, outputs) = (shared.ports[idx].inputs.len(), shared.ports[idx].outputs.len());
    let context = ConfigureContext { element: idx, inputs, outputs, names: &seen, graph };
    let mut element = (shared.classes[idx].make)();
    let configured = element.configure(&mut Args::with_names(config, &seen), &context);
    configured.map_err(|wrong| HandlerError::Failed(wrong.to_string()))?;
    *shared.elements[idx].try_borrow_mut().map_err(|_| HandlerError::Busy)? = element;
    Accepting::update(shared);
    worker.configs.insert(idx, config.to_owned());
    Ok(())
}

/// The graph with the arguments that its elements have now.
fn current_text(graph: &FlatGraph, worker: &Worker) -> String {
    if worker.configs.is_empty() {
        return flatten(graph);
    }
    let mut graph = graph.clone();
    for (&idx, config) in &worker.configs {
        graph.elements[idx].config.clone_from(config);
    }
    flatten(&graph)
}

fn read_global(shared: &Shared, worker: &Worker, name: &str) -> String {
    let lines = |lines: &mut dyn Iterator<Item = &str>| -> String {
        lines.map(|line| format!("{line}\n")).collect()
    };
    let graph = &shared.graph;
    match name {
        "version" => VERSION.to_owned(),
        "list" => {
            let names = graph.elements.iter().map(|element| element.name.as_str());
            format!("{}\n{}", graph.elements.len(), lines(&mut names.into_iter()))
        }
        "classes" => lines(&mut shared.class_names.iter().copied()),
        "config" | "flatconfig" => current_text(graph, worker),
        "requirements" => lines(&mut graph.requirements.iter().map(|r| r.value.as_str())),
        "handlers" if worker.console.takes_configurations() => {
            handler_lines(GLOBAL_HANDLERS.iter().chain([&HandlerSpec::write("hotconfig")]))
        }
        "handlers" => handler_lines(GLOBAL_HANDLERS.iter()),
        "timewarp" => worker.timewarp.to_string(),
        "driver" => format!("stops {}\n", worker.stops),
        "stats" => stats_lines(shared, worker),
        "packages" => lines(&mut PACKAGES.iter().copied()),
        // There are no sockets of its own.
        _ => String::new(),
    }
}

fn read_common(shared: &Shared, worker: &Worker, idx: usize, name: &str) -> String {
    let (element, stats) = (&shared.graph.elements[idx], &worker.stats[idx]);
    match name {
        "name" => element.name.clone(),
        "class" => element.class.clone(),
        "config" => worker.configs.get(&idx).unwrap_or(&element.config).clone(),
        "ports" => port_lines(shared, idx),
        "handlers" => {
            let own = shared.elements[idx].try_borrow().map_or(&[][..], |e| e.handlers());
            let is_own = |spec: &&HandlerSpec| own.iter().any(|other| other.name == spec.name);
            let inherited = ELEMENT_HANDLERS.iter().filter(|spec| !is_own(spec));
            let live = HandlerSpec::both("config");
            let inherited = inherited.map(|spec| match spec.name == live.name {
                true if shared.classes[idx].is_live => &live,
                _ => spec,
            });
            handler_lines(own.iter().chain(inherited))
        }
        "packets" => stats.packets.to_string(),
        "bytes" => stats.bytes.to_string(),
        "batches" => stats.batches.to_string(),
        "mean_batch" => format!("{:.1}", stats.packets as f64 / stats.batches.max(1) as f64),
        "own_ns" => stats.own_ns.to_string(),
        "ns_per_packet" => format!("{:.1}", stats.own_ns as f64 / stats.packets.max(1) as f64),
        "held" => held(shared, worker, idx).to_string(),
        // What each worker has a copy of, or runs alone, tells the first one.
        "home_thread" => match worker.homes.get(idx) {
            Some(Home::Worker(number)) => number.to_string(),
            _ => "0".to_owned(),
        },
        _ => {
            let reasons =
                shared.classes[idx].drops.iter().copied().zip(stats.drops.iter().copied());
            let common = stats.common_drops().into_iter().filter(|(_, count)| *count > 0);
            let line = |(reason, count)| format!("{count}\t{reason}\n");
            reasons.chain(common).map(line).collect()
        }
    }
}

/// Packets that an element holds; 0 of one at work, which asks for itself.
fn held(shared: &Shared, worker: &Worker, idx: usize) -> usize {
    peek(shared, worker, idx, |element| element.held()).unwrap_or(0)
}

/// What was counted about all elements, in the order of the text, as a table of fields between
/// tabs: the clock for costs if there is one, names of the columns, a line for each element. Behind
/// the number of all packets that an element dropped stand its reasons, each as `count reason`.
fn stats_lines(shared: &Shared, worker: &Worker) -> String {
    let mut text = String::new();
    if let Some(ticks) = worker.ticks {
        _ = writeln!(text, "clock_ns\t{}", ticks());
    }
    _ = writeln!(text, "{}", STATS_COLUMNS.join("\t"));
    for (idx, stats) in worker.stats.iter().enumerate() {
        let element = &shared.graph.elements[idx];
        let reasons = shared.classes[idx].drops.iter().copied().zip(stats.drops.iter().copied());
        let reasons = reasons.chain(stats.common_drops());
        let reasons = reasons.filter(|(_, count)| *count > 0);
        let drops: u64 = reasons.clone().map(|(_, count)| count).sum();
        let Stats { packets, bytes, batches, own_ns, .. } = stats;
        let held = held(shared, worker, idx);
        _ = write!(text, "{}\t{}\t{packets}\t{bytes}", element.name, element.class);
        _ = write!(text, "\t{batches}\t{own_ns}\t{held}\t{drops}");
        for (reason, count) in reasons {
            _ = write!(text, "\t{count} {reason}");
        }
        text.push('\n');
    }
    text
}

fn handler_lines<'a>(specs: impl Iterator<Item = &'a HandlerSpec>) -> String {
    let flags = |spec: &HandlerSpec| {
        let flag = |on: bool, letter: &'static str| if on { letter } else { "" };
        [
            flag(spec.read, "r"),
            flag(spec.write, "w"),
            flag(spec.param, "+"),
            flag(spec.expensive, "$"),
            flag(spec.button, "b"),
        ]
        .concat()
    };
    specs.map(|spec| format!("{}\t{}\n", spec.name, flags(spec))).collect()
}

fn port_lines(shared: &Shared, idx: usize) -> String {
    let ports = &shared.ports[idx];
    let mut text = String::new();
    let peers = |is_input: bool, port: usize| -> String {
        let connections = shared.graph.connections.iter();
        let name = |idx: usize| &shared.graph.elements[idx].name;
        let peers = connections.filter_map(|c| match is_input {
            true if (c.to.element, c.to.port) == (idx, port) => {
                Some(format!("{} [{}]", name(c.from.element), c.from.port))
            }
            false if (c.from.element, c.from.port) == (idx, port) => {
                Some(format!("[{}] {}", c.to.port, name(c.to.element)))
            }
            _ => None,
        });
        peers.collect::<Vec<_>>().join(", ")
    };
    for (is_input, kinds) in [(true, &ports.inputs), (false, &ports.outputs)] {
        let what = if is_input { "input" } else { "output" };
        let plural = if kinds.len() == 1 { "" } else { "s" };
        text.push_str(&format!("{} {what}{plural}\n", kinds.len()));
        for (port, kind) in kinds.iter().enumerate() {
            let kind = format!("{kind:?}").to_lowercase();
            text.push_str(&format!("{kind}\t-\t{}\n", peers(is_input, port)));
        }
    }
    text
}
