//! Sets what random choices start from.
//!
//! # Synopsis
//! `RandomSeed([SEED])`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `SEED`: a number of 32 bits; without one the run keeps the seed that it was given
//!
//! Choices of elements initialized after it, and all that are made while packets flow, come from
//! the seed and the element's name: each element has its own sequence, and what others choose, or
//! how many there are, changes nothing. Equal seeds give equal choices, though other ones than
//! Click's. A configuration that takes another one's place starts anew if it has a seed; otherwise
//! elements go on with their sequences as with their state.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `seed` | write | the seed from now on |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Belongs to one worker. Copies that other workers have of an element draw from sequences of their
//! own, which they got when they began.
//!
//! # Example
//! ```text
//! RandomSeed(7); InfiniteSource(LIMIT 10) -> RandomSample(0.5) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};

use crate::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("RandomSeed", "0/0", "a/a", || Box::<RandomSeed>::default());

/// See the module.
#[derive(Debug, Default)]
pub struct RandomSeed {
    seed: Option<u32>,
}

impl Element for RandomSeed {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("SEED", &mut self.seed).complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if let Some(seed) = self.seed {
            cx.seed_random(seed.into());
        }
        Ok(())
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::write("seed")] }
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        cx.seed_random(parse::<u32>(value)?.into());
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, run};

    /// Chains that never meet choose as if each were alone.
    #[test]
    fn what_one_element_draws_changes_nothing_for_others() {
        let chain = |name: &str| {
            format!(
                "{name} :: InfiniteSource(LIMIT 300, BURST 8) -> {name}r :: RandomSample(0.5)
                 -> {name}c :: Counter -> {name}d :: RandomBitErrors(0.1) -> Discard;"
            )
        };
        let count = |config: &str, name: &str| {
            let (mut router, _) = run(config, &crate::registry());
            router.read(&format!("{name}c.count"))
        };
        let both = chain("a") + &chain("b");
        assert_eq!(count(&both, "a"), count(&chain("a"), "a"));
        assert_eq!(count(&both, "b"), count(&chain("b"), "b"));
        assert_ne!(count(&both, "a"), count(&both, "b"), "each has its own");
    }

    #[test]
    fn equal_seeds_give_equal_choices() {
        let choices = |seed: &str| {
            let config = format!(
                "r :: RandomSeed({seed}); i :: InfiniteSource(LIMIT 640) -> s :: RandomSwitch;
                 s[0] -> c :: Counter -> Discard; s[1] -> Print(X) -> Discard;"
            );
            let (mut router, transcript) = run(&config, &crate::registry());
            let first = router.read("c.count").expect("it is there");
            router.write("r.seed", "7").expect("it obeys");
            router.write("c.reset_counts", "").expect("it obeys");
            router.write("i.reset", "").expect("it obeys");
            router.run(&mut SimulatedHost::default());
            (first, transcript.said().lines().count(), router.read("c.count"))
        };
        let (first, _, again) = choices("7");
        assert_eq!(Ok(first), again);
        assert_eq!(choices("9"), choices("9"));
        assert_ne!(choices("9"), choices("7"));
    }
}
