//! Forwards packets unchanged.
//!
//! # Synopsis
//! `Null`, `PushNull`, `PullNull`, `Align(MODULUS, OFFSET)`
//!
//! # Ports
//! One input, one output; agnostic. `PushNull`: push; `PullNull`: pull.
//!
//! # Configuration
//! - `MODULUS`, `OFFSET`: data alignment, `Align` only. Checked, but ignored: no element requires
//!   aligned data.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> Null -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Element, ElementClass, Sharing};

/// The class `Null`.
pub static CLASS: ElementClass = ElementClass::new("Null", "1/1", "a/a", || Box::new(Null));
/// The class `PushNull`.
pub static PUSH: ElementClass = ElementClass::new("PushNull", "1/1", "h/h", || Box::new(Null));
/// The class `PullNull`.
pub static PULL: ElementClass = ElementClass::new("PullNull", "1/1", "l/l", || Box::new(Null));
/// The class `Align`.
pub static ALIGN: ElementClass = ElementClass::new("Align", "1/1", "a/a", || Box::new(Align));

/// See the module.
#[derive(Clone, Debug)]
pub struct Null;

impl Element for Null {
    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Align;

impl Element for Align {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut modulus, mut offset) = (1u32, 0u32);
        args.read_mp("MODULUS", &mut modulus).read_mp("OFFSET", &mut offset);
        args.consume()?;
        if !modulus.is_power_of_two() || modulus < 2 {
            args.error_at("", "bad modulus; should be 2, 4, 8, ...");
        } else if offset >= modulus {
            args.error_at("", "offset must be smaller than modulus");
        }
        args.complete()
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{router, run};

    #[test]
    fn packets_pass_as_they_are() {
        let config = "InfiniteSource(DATA abc, LIMIT 5, BURST 5) -> PushNull -> Null -> Align(4, 2)
            -> Queue -> PullNull -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.byte_count"), Ok("15".into()));
    }

    #[test]
    fn an_alignment_that_cannot_be_is_refused() {
        for (config, message) in [("3, 0", "bad modulus"), ("4, 4", "offset must be smaller")] {
            let config = format!("Idle -> Align({config}) -> Discard;");
            let errors = router(&config, &crate::registry()).err().expect("it is wrong");
            assert!(errors.to_click().contains(message), "{}", errors.to_click());
        }
    }
}
