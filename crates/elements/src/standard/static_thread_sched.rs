//! Says which workers run elements.
//!
//! # Synopsis
//! `StaticThreadSched(ELEMENT THREAD, …)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `ELEMENT`: a name: a source, or one that asks for packets; of others those that hold
//!   something; the name of a compound element stands for those of its elements that are not
//!   named themselves
//! - `THREAD`: the number of a worker, counted from 0 and around should there be fewer; -1 leaves
//!   the choice to the router
//!
//! # Handlers
//! None. What came of it is in the handler `home_thread` of each element.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Without packets. Without this element the router deals out sources and askers in the order of
//! the text.
//!
//! # Example
//! ```text
//! InfiniteSource -> q :: Queue -> u :: Unqueue -> Discard;
//! StaticThreadSched(u 1);
//! ```

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
    /// By names of compound elements: what is said of an element itself counts more.
    compounds: Vec<(usize, usize)>,
}

impl StaticThreadSched {
    /// The elements that a line speaks of, and the worker that it gives them, if any.
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
            words.error_at("THREAD", "expected the number of a worker, or -1 for any");
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

impl Element for StaticThreadSched {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        for line in args.rest() {
            match Self::parse(&line, context) {
                Ok((Named::Compound(parts), worker)) => {
                    let all = parts.into_iter().filter_map(|element| Some((element, worker?)));
                    self.compounds.extend(all);
                }
                Ok((Named::One(element), worker)) => {
                    let Some(worker) = worker else { continue };
                    let said = self.workers.iter().find(|(other, _)| *other == element);
                    if said.is_some_and(|&(_, other)| other != worker) {
                        let name = &context.graph.elements[element].name;
                        args.error_at("", &format!("'{name}' has a worker already"));
                    }
                    self.workers.push((element, worker));
                }
                Err(wrong) => wrong.messages.iter().for_each(|line| args.error_at("", line)),
            }
        }
        args.consume()
    }

    fn assigns(&self) -> &[(usize, usize)] {
        &self.workers
    }

    fn assigns_parts(&self) -> &[(usize, usize)] {
        &self.compounds
    }
}
