//! From a checked configuration to elements that are ready.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use super::gso::Accepting;
use super::plan;
use super::worker::Worker;
use super::{Router, RouterOptions};
use crate::context::{Blueprint, Console, Context, Shared};
use crate::element::{ConfigureContext, Element, ElementClass, Phase, Registry};
use crate::files;
use crate::language::args::{Args, ArgsError, NotedFile};
use crate::language::{Diagnostics, Flow, INITIALIZING, Loaded, PortRef};
use crate::names::{NameTable, Seen};

/// Makes and configures the elements of `loaded`.
pub(super) fn configure(
    loaded: Loaded,
    registry: &Registry,
    options: RouterOptions,
) -> Result<Router, Diagnostics> {
    let Loaded { graph, ports, .. } = loaded;
    let class = |name: &str| registry.class(name).expect("the language knows the same classes");
    let classes: Vec<&'static ElementClass> =
        graph.elements.iter().map(|element| class(&element.class)).collect();
    let named = graph.elements.iter().enumerate().map(|(idx, e)| (e.name.clone(), idx));
    let index = named.collect();
    let flow = Flow::new(&graph, registry);
    let mut targets: Vec<Vec<Option<PortRef>>> =
        ports.iter().map(|p| vec![None; p.outputs.len()]).collect();
    let mut origins: Vec<_> = ports.iter().map(|p| vec![None; p.inputs.len()]).collect();
    for connection in &graph.connections {
        let (from, to) = (connection.from, connection.to);
        targets[from.element][from.port] = Some(to);
        origins[to.element][to.port] = Some(from);
    }
    shorten(&mut origins, &classes);
    let somebody_detains = classes.iter().any(|class| class.detains);
    let leads_to_wait = |source: usize| {
        let reached = flow.downstream(source, None, |_| false);
        reached.into_iter().any(|element| classes[element].detains)
    };
    let rests = ports.iter().enumerate().map(|(idx, ports)| {
        let may_rest = || ports.inputs.is_empty() || somebody_detains && leads_to_wait(idx);
        ports.is_push_source() && may_rest()
    });
    let rests = rests.collect();
    let accepts_gso = Accepting::none(classes.len());
    let elements = classes.iter().map(|class| RefCell::new((class.make)())).collect();
    let blueprint = Arc::new(Blueprint {
        class_names: crate::language::ClassTable::names(registry)
            .into_iter()
            .filter_map(|name| registry.class(name).map(|class| class.spec.name))
            .collect(),
        graph,
        ports,
        classes,
        flow,
        index,
        names: NameTable::default(),
        targets,
        origins,
        rests,
        accepts_gso,
        keeps_click_order: registry.keeps_click_order,
    });
    let mut worker = Worker::new(&blueprint, options.console, options.seed);
    (worker.now, worker.ticks) = (options.now, options.ticks);
    let shared = Shared { blueprint, elements };
    let mut router = Router { shared, worker, workers: None, team: None };
    router.configure_all()?;
    Ok(router)
}

/// Has inputs ask past outputs that are an input, see [`ElementClass::asks_through`].
fn shorten(origins: &mut [Vec<Option<PortRef>>], classes: &[&'static ElementClass]) {
    let written = origins.to_vec();
    let past = |origin: PortRef| {
        let (output, input) = classes[origin.element].asks_through?;
        (origin.port == output).then(|| written[origin.element].get(input).copied().flatten())
    };
    for origin in origins.iter_mut().flatten() {
        // Where such outputs go in a circle there is nobody to ask.
        for _ in 0..classes.len() {
            match origin.and_then(past) {
                Some(before) => *origin = before,
                None => break,
            }
        }
    }
}

impl Router {
    /// Configures all elements, phase by phase, in the order of the text.
    fn configure_all(&mut self) -> Result<(), Diagnostics> {
        let mut order: Vec<usize> = (0..self.shared.elements.len()).collect();
        order.sort_by_key(|&idx| self.shared.classes[idx].phase);
        let usual = order.partition_point(|&idx| self.shared.classes[idx].phase < Phase::Usual);
        let mut errors = Diagnostics::default();
        let mut names = NameTable::default();
        let mut files = Vec::new();
        let mut dear = BTreeMap::new();
        for (place, idx) in order.into_iter().enumerate() {
            if place == usual {
                dear = configure_dear(&mut self.shared, &names, &*self.worker.console);
            }
            let element = self.shared.elements[idx].get_mut();
            let configured = match dear.remove(&idx) {
                Some(configured) => configured,
                None => configure_one(&mut **element, idx, &self.shared.blueprint, &names),
            };
            element.define_names(&mut names);
            if let Err(wrong) = configured.result {
                errors.push(self.shared.graph.argument_error(idx, &wrong));
            } else if !configured.warnings.is_empty() {
                warn(&self.shared, &mut self.worker, idx, &configured.warnings);
            }
            files.extend(configured.files.into_iter().map(|file| (idx, file)));
        }
        files.sort_by_key(|(idx, _)| *idx);
        files::compare(&files, &self.shared.graph, &mut errors);
        let blueprint = Arc::get_mut(&mut self.shared.blueprint);
        blueprint.expect("no worker has it before the router runs").names = names;
        errors.into_result(())
    }

    /// Initializes all elements, in the order of the text.
    pub(super) fn initialize(&mut self) -> Result<(), Diagnostics> {
        self.enter_each(|element, cx| {
            let mut told = element.check_place(cx)?;
            told.extend(element.wrong_calls(cx));
            element.initialize(cx).map(|()| told)
        })?;
        Accepting::update(&self.shared);
        self.deliver();
        Ok(())
    }

    /// Has all elements look at their places in the graph, and whom they call, and no more.
    pub(super) fn check_places(&mut self) -> Result<(), Diagnostics> {
        self.enter_each(|element, cx| {
            let told = element.check_place(cx)?;
            let wrong = element.wrong_calls(cx);
            if wrong.is_empty() { Ok(told) } else { Err(wrong.join("\n")) }
        })
    }

    /// Enters each element before the run, and warns of what it tells.
    fn enter_each(
        &mut self,
        mut enter: impl FnMut(&mut dyn Element, &mut Context<'_>) -> Result<Vec<String>, String>,
    ) -> Result<(), Diagnostics> {
        let mut errors = Diagnostics::default();
        for idx in 0..self.shared.elements.len() {
            let mut cx = Context { shared: &self.shared, worker: &mut self.worker, element: idx };
            let result = enter(&mut **self.shared.elements[idx].borrow_mut(), &mut cx);
            match result {
                Ok(told) if told.is_empty() => {}
                Ok(told) => warn(&self.shared, &mut self.worker, idx, &told),
                Err(message) => {
                    let graph = &self.shared.graph;
                    let lines: Vec<String> = message.lines().map(str::to_owned).collect();
                    errors.push(graph.element_error(INITIALIZING, idx, &lines));
                }
            }
        }
        errors.into_result(())
    }

    /// Warns of elements that are given to more than one worker.
    pub(super) fn tell_contradictions(&mut self) {
        for (by, message) in plan::contradictions(&self.shared, &self.worker.friends) {
            warn(&self.shared, &mut self.worker, by, &[message]);
        }
    }
}

/// What came of configuring an element.
struct Configured {
    result: Result<(), ArgsError>,
    warnings: Vec<String>,
    files: Vec<NotedFile>,
}

fn configure_one(
    element: &mut dyn Element,
    idx: usize,
    blueprint: &Blueprint,
    names: &NameTable,
) -> Configured {
    let Blueprint { graph, ports, index, .. } = blueprint;
    let seen = Seen { table: names, graph, index, element: idx };
    let mut args = Args::with_names(&graph.elements[idx].config, &seen);
    let (inputs, outputs) = (ports[idx].inputs.len(), ports[idx].outputs.len());
    let context = ConfigureContext { element: idx, inputs, outputs, names: &seen, graph };
    let result = element.configure(&mut args, &context);
    Configured { result, warnings: args.warnings().to_vec(), files: args.take_files() }
}

/// Configures the elements of the usual phase that take long, several at a time: where each worker
/// has a path of its own, each path has tables of its own.
fn configure_dear(
    shared: &mut Shared,
    names: &NameTable,
    console: &dyn Console,
) -> BTreeMap<usize, Configured> {
    let blueprint = &*shared.blueprint;
    let is_dear = |idx: usize| {
        let class = blueprint.classes[idx];
        let config = &blueprint.graph.elements[idx].config;
        class.is_dear && class.phase == Phase::Usual && !names_a_stream(config)
    };
    let elements = shared.elements.iter_mut().map(RefCell::get_mut).enumerate();
    let dear: Vec<_> = elements.filter(|(idx, _)| is_dear(*idx)).collect();
    let is_for_many = dear.len() > 1;
    let (waiting, configured) = (Mutex::new(dear.into_iter()), Mutex::new(BTreeMap::new()));
    let configure_some = || {
        loop {
            let next = waiting.lock().expect("nobody panics with it").next();
            let Some((idx, element)) = next else { break };
            let one = configure_one(&mut **element, idx, blueprint, names);
            configured.lock().expect("nobody panics with it").insert(idx, one);
        }
    };
    match is_for_many {
        true => console.do_by_many(&configure_some),
        false => configure_some(),
    }
    configured.into_inner().expect("nobody panics with it")
}

/// Whether arguments may name what can be read once only: the standard input, a pipe, a device.
/// Who reads it is then as in the order of the text.
fn names_a_stream(config: &str) -> bool {
    let words = config.split([',', ' ', '\t', '\n']).map(|word| word.trim_matches('"'));
    // Of routes there may be many.
    let is_address = |word: &&str| word.bytes().all(|b| b.is_ascii_digit() || b"./:".contains(&b));
    words.filter(|word| !is_address(word)).any(|word| {
        word == "-" || fs::metadata(word).is_ok_and(|file| !file.is_file() && !file.is_dir())
    })
}

/// Tells what is strange about the configuration of an element.
fn warn(shared: &Shared, worker: &mut Worker, element: usize, lines: &[String]) {
    let lines: Vec<String> = lines.iter().map(|line| format!("warning: {line}")).collect();
    let warning = shared.graph.element_error("While configuring", element, &lines).warning();
    worker.console.say(&warning.to_click());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_from_files() {
        for (config, expected) in [
            ("-", true),
            ("RULES -, MISS 0", true),
            ("FILE \"/dev/null\"", true),
            ("10.0.0.0/8 0, 0.0.0.0/0 1", false),
            ("", false),
            ("Cargo.toml, FORMAT list, src", false),
            ("missing.rules", false),
        ] {
            assert_eq!(names_a_stream(config), expected, "{config}");
        }
    }
}
