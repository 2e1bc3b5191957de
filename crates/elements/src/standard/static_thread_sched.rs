//! Says which workers run elements.
//!
//! # Synopsis
//! `StaticThreadSched(ELEMENT WORKER, …)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `ELEMENT`: a name: a source, or one that asks for packets; of others those that hold something
//! - `WORKER`: its number, counted from 0 and around should there be fewer; -1 leaves the choice
//!   to the router
//!
//! # Handlers
//! None.
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

use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::{ConfigureContext, Element, ElementClass, Phase};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("StaticThreadSched", "0/0", "a/a", || Box::<StaticThreadSched>::default())
        .phase(Phase::Information);

/// See the module.
#[derive(Debug, Default)]
pub struct StaticThreadSched {
    workers: Vec<(usize, usize)>,
}

impl StaticThreadSched {
    fn parse(line: &str, context: &ConfigureContext<'_>) -> Result<(usize, i32), ArgsError> {
        let (mut element, mut worker) = (ElementRef(0), 0i32);
        let mut words = Args::of_words(line, context.names);
        words.read_mp("ELEMENT", &mut element).read_mp("THREAD", &mut worker);
        words.complete()?;
        Ok((element.0, worker))
    }
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
                Ok((element, worker)) => {
                    self.workers.extend(usize::try_from(worker).map(|worker| (element, worker)));
                }
                Err(wrong) => wrong.messages.iter().for_each(|line| args.error_at("", line)),
            }
        }
        args.consume()
    }

    fn assigns(&self) -> &[(usize, usize)] {
        &self.workers
    }
}
