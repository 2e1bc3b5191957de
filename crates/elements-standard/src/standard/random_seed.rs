//! Seeds the random choices of all elements.
//!
//! # Synopsis
//! `RandomSeed([SEED])`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `SEED`: 32-bit number; default: the seed of the run is kept
//!
//! The seed applies to elements that are initialized later, and to all choices while packets flow.
//! Each element has its own random sequence, derived from the seed and the element's name. It does
//! not depend on the choices or the number of other elements. Equal seeds give equal choices, but
//! not those of Click. On a hot-swap, sequences restart if the new configuration has a seed;
//! otherwise elements continue their sequences, like the rest of their state.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `seed` | write | new seed |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker. Instances of an element on other workers have their own sequences, seeded
//! when they start.
//!
//! # Example
//! ```text
//! RandomSeed(7); InfiniteSource(LIMIT 10) -> RandomSample(0.5) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};

use warpswitch_elements_support::format::parse;

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
