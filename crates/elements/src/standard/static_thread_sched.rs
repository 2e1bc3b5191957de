//! Says which workers run elements.
//!
//! # Synopsis
//! `StaticThreadSched(ELEMENT WORKER, …)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `ELEMENT`: a name: a source, or one that asks for packets; of others those that hold
//!   something; the name of a compound element stands for those of its elements that are not
//!   named themselves
//! - `WORKER`: its number, counted from 0 and around should there be fewer; -1 leaves the choice
//!   to the router
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

/// See the module.
#[derive(Debug, Default)]
pub struct StaticThreadSched {
    workers: Vec<(usize, usize)>,
    /// By names of compound elements: what is said of an element itself counts more.
    compounds: Vec<(usize, usize)>,
}

impl StaticThreadSched {
    /// The elements that a line speaks of, and the worker that it gives them.
    fn parse(line: &str, context: &ConfigureContext<'_>) -> Result<(Named, i32), ArgsError> {
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
        words.complete()?;
        Ok((named.unwrap_or(Named::Compound(Vec::new())), worker))
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
                // -1, and whatever else is no worker, assigns nothing.
                Ok((named, worker)) => {
                    let Ok(worker) = usize::try_from(worker) else { continue };
                    match named {
                        Named::One(element) => self.workers.push((element, worker)),
                        Named::Compound(parts) => {
                            let all = parts.into_iter().map(|element| (element, worker));
                            self.compounds.extend(all);
                        }
                    }
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
