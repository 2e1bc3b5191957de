//! Fails initialization, so that the configuration does not run.
//!
//! # Synopsis
//! `Error(…)`
//!
//! # Ports
//! Any number of inputs and outputs, push or pull.
//!
//! # Configuration
//! Any arguments; ignored.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None: no packets arrive.
//!
//! # Threads
//! None.
//!
//! # Example
//! ```text
//! Idle -> Error -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};

/// The class. Packets never pass.
pub static CLASS: ElementClass =
    ElementClass::new("Error", "-/-", "a/a", || Box::new(Error)).flow("x/y");

/// See the module.
#[derive(Debug)]
pub struct Error;

impl Element for Error {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.rest();
        args.complete()
    }

    fn initialize(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        Err(String::new())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::router;

    #[test]
    fn nothing_runs() {
        let errors = router("Idle -> e :: Error(x y, z) -> Discard", &crate::registry());
        let errors = errors.err().expect("it fails").to_click();
        assert_eq!(errors, "config:1: While initializing 'e :: Error':\n");
    }
}
