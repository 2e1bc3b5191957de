//! Reads and writes handlers at given times.
//!
//! # Synopsis
//! `PokeHandlers(DIRECTIVE, …)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! Directives, executed in order; `Script` supports all of them and more:
//! - `TIME`: waits for this time
//! - `read HANDLER`, `print HANDLER`: prints the value of a read handler on standard error
//! - `write HANDLER [VALUE]`: calls a write handler
//! - `loop`: starts over
//! - `stop`, `quit`: requests the run to stop
//!
//! # Handlers
//! As `Script`.
//!
//! # Drops
//! None.
//!
//! # Threads
//! As `Script`.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> c :: Counter -> Discard;
//! PokeHandlers(0.5s, read c.count, write c.reset, 1s, stop);
//! ```

use warpswitch_graph::ElementClass;

use super::script::Script;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("PokeHandlers", "0/0", "a/a", || Box::new(Script::of_directives()));

/// Returns the `Script` instruction that is equivalent to `directive`.
pub(super) fn instruction(directive: &str) -> String {
    let word = directive.split_ascii_whitespace().next().unwrap_or_default();
    match word {
        "print" => directive.replacen("print", "read", 1),
        word if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            format!("wait {directive}")
        }
        _ => directive.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn handlers_are_used_when_it_is_time() {
        let config = "s :: InfiniteSource(LIMIT 3) -> c :: Counter -> Discard;
            PokeHandlers(0.5s, read c.count, write s.reset, 0.5, print c.count, quit);
            PokeHandlers(2s, read c.count)";
        let (_, transcript) = run(config, &crate::registry());
        assert_eq!(transcript.said(), "c.count:\n3\nc.count:\n6\n");
    }
}
