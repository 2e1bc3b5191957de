//! Assigns elements to workers.
//!
//! # Synopsis
//! `StaticThreadSched(ELEMENT THREAD, …)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `ELEMENT`: name of an element or compound element. A compound element stands for its elements,
//!   except those that the list names directly or by an inner compound element. A queue and the
//!   element that pulls from it run on the same worker.
//! - `THREAD`: worker number from 0, modulo the number of workers; -1 leaves the choice to the
//!   router
//!
//! Two workers for one element in a list are an error. If two lists, or a queue and the element
//! that pulls from it, name different workers, directly or by compound elements, the last
//! assignment wins, as in Click, with a warning.
//!
//! # Handlers
//! None. The handler `home_thread` of each element returns its worker.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Processes no packets. Without this element, the router distributes sources and pulling elements
//! over the workers, in configuration order.
//!
//! # Example
//! ```text
//! InfiniteSource -> q :: Queue -> u :: Unqueue -> Discard;
//! StaticThreadSched(u 1);
//! ```

use std::collections::{BTreeMap, BTreeSet};

use warpswitch_graph::language::args::{Args, ArgsError, ElementRef, FromArg};
use warpswitch_graph::{ConfigureContext, Element, ElementClass, Phase};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("StaticThreadSched", "0/0", "a/a", || Box::<StaticThreadSched>::default())
        .phase(Phase::Information);

/// The number that leaves the choice of a worker to the router.
const UNASSIGNED: i32 = -1;

/// See the module.
#[derive(Debug, Default)]
pub struct StaticThreadSched {
    workers: Vec<(usize, usize)>,
    /// By names of compound elements: an entry for an element itself takes precedence.
    compounds: Vec<(usize, usize)>,
}

impl StaticThreadSched {
    /// The elements that a line names, and the worker that it assigns to them, if any.
    fn parse(
        line: &str,
        context: &ConfigureContext<'_>,
    ) -> Result<(Named, Option<usize>), ArgsError> {
        let (mut name, mut worker) = (String::new(), 0i32);
        let mut words = Args::of_words(line, context.names);
        words.read_mp("ELEMENT", &mut name).read_mp("THREAD", &mut worker);
        let parts = parts_of(&name, context);
        let named = match parts.is_empty() {
            true => {
                let found = ElementRef::from_arg(&name, context.names);
                found.map(|element| Named::One(element.0))
            }
            false => Ok(Named::Compound(parts)),
        };
        if let Err(error) = &named
            && !name.is_empty()
        {
            words.error_at("ELEMENT", &error.to_string());
        }
        if worker < UNASSIGNED {
            words.error_at("THREAD", "expected a worker number, 0 or more, or -1 for any");
        }
        words.complete()?;
        Ok((named.unwrap_or(Named::Compound(Vec::new())), usize::try_from(worker).ok()))
    }
}

/// What a name stands for.
enum Named {
    One(usize),
    Compound(Vec<usize>),
}

/// The elements of the compound element called `name`, as seen from the one that is configured;
/// none if there is no such compound element.
fn parts_of(name: &str, context: &ConfigureContext<'_>) -> Vec<usize> {
    let elements = &context.graph.elements;
    let mut scope = elements[context.element].name.as_str();
    while !name.is_empty() {
        let outer = scope.rfind('/').map_or("", |at| &scope[..at]);
        let prefix = if outer.is_empty() { format!("{name}/") } else { format!("{outer}/{name}/") };
        let is_part = |idx: &usize| elements[*idx].name.starts_with(&prefix);
        let parts: Vec<usize> = (0..elements.len()).filter(is_part).collect();
        if !parts.is_empty() || outer.is_empty() {
            return parts;
        }
        scope = outer;
    }
    Vec::new()
}

/// The workers of the parts of compound elements but for those that are `named` themselves, in the
/// order in which `said` names them. Of compound elements within each other the inner one counts,
/// wherever it stands.
fn innermost(said: &[(Vec<usize>, Option<usize>)], named: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    // By part, the size and the place of the smallest that it is of.
    let mut smallest = BTreeMap::new();
    for (place, (parts, _)) in said.iter().enumerate() {
        for part in parts.iter().filter(|part| !named.contains(part)) {
            let best = smallest.entry(*part).or_insert((parts.len(), place));
            *best = (*best).min((parts.len(), place));
        }
    }
    let mut parts: Vec<_> = smallest.into_iter().map(|(part, (_, place))| (place, part)).collect();
    parts.sort_unstable();
    parts.into_iter().filter_map(|(place, part)| Some((part, said[place].1?))).collect()
}

impl Element for StaticThreadSched {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        // The workers of compound elements, by their parts, and the elements that were named.
        let mut said: Vec<(Vec<usize>, Option<usize>)> = Vec::new();
        let mut named = BTreeSet::new();
        for (idx, line) in args.rest().iter().enumerate() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let entry = format!("entry {} '{}'", idx + 1, words.join(" "));
            match Self::parse(line, context) {
                Ok((Named::Compound(parts), worker)) => {
                    if said.iter().any(|(others, other)| *others == parts && *other != worker) {
                        args.error_of(idx, &format!("{entry}: already assigned to another worker"));
                    }
                    said.push((parts, worker));
                }
                Ok((Named::One(element), worker)) => {
                    named.insert(element);
                    let Some(worker) = worker else { continue };
                    let said = self.workers.iter().find(|(other, _)| *other == element);
                    if let Some((_, other)) = said.filter(|(_, other)| *other != worker) {
                        args.error_of(idx, &format!("{entry}: already assigned to worker {other}"));
                    }
                    self.workers.push((element, worker));
                }
                Err(wrong) => {
                    let lines = wrong.messages.iter();
                    lines.for_each(|line| args.error_of(idx, &format!("{entry}: {line}")));
                }
            }
        }
        self.compounds = innermost(&said, &named);
        args.consume()
    }

    fn assigns(&self) -> &[(usize, usize)] {
        &self.workers
    }

    fn assigns_parts(&self) -> &[(usize, usize)] {
        &self.compounds
    }
}
