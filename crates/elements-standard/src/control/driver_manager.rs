//! Controls when the run ends.
//!
//! # Synopsis
//! `DriverManager(INSTRUCTION, …)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! Instructions are those of `Script`: the element is a script of `TYPE DRIVER`. A request to stop
//! the run, by an element or the handler `stop`, ends the current wait of the script instead. The
//! run ends with the instruction `stop` or the end of the script; without instructions, at the
//! first request. A configuration has at most one `DriverManager` or `Script` of `TYPE DRIVER`.
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
//! InfiniteSource(LIMIT 10, STOP true) -> c :: Counter -> Discard;
//! DriverManager(wait_stop, print c.count, write c.reset, wait 0.1s, stop);
//! ```

use warpswitch_graph::ElementClass;

use super::script::{DROPS, Kind, Script};

/// The class.
pub static CLASS: ElementClass = ElementClass::new("DriverManager", "-/-", "ah/ah", || {
    Box::new(Script::new(Some(Kind::Driver)))
})
.drops(DROPS);

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    fn printed(config: &str) -> String {
        let (_, transcript) = run(config, &crate::registry());
        assert_eq!(transcript.said(), "", "{config}");
        String::from_utf8(transcript.printed()).expect("text")
    }

    #[test]
    fn a_run_ends_when_the_script_says() {
        let source = "s :: InfiniteSource(LIMIT 3, STOP true) -> c :: Counter -> Discard;";
        let check = |script: &str, expected: &str| {
            assert_eq!(printed(&format!("{source} {script}")), expected, "{script}");
        };
        check("DriverManager", "");
        check("DriverManager(wait_stop, print c.count)", "3\n");
        check("DriverManager(wait_stop, write s.reset, wait_stop, print c.count)", "6\n");
        check("DriverManager(print c.count, wait_stop 1, printn \"a $(c.count)\", stop)", "0\na 3");
        check(
            "DriverManager(wait_stop, print $(now), wait 1.5s, print $(now))",
            "1000000000.000000000\n1000000001.500000000\n",
        );
        check("Script(TYPE DRIVER, wait_stop, print c.count)", "3\n");
        check("DriverManager(wait_stop, print \"1\", stop, print \"2\")", "1\n");
    }

    #[test]
    fn a_stop_ends_a_wait() {
        let config = "Script(wait 1s, write stop); DriverManager(wait 9s, print $(now), stop)";
        assert_eq!(printed(config), "1000000001.000000000\n");
    }

    #[test]
    fn there_is_one_at_most() {
        let config = "DriverManager; Script(TYPE DRIVER)";
        let errors = warpswitch_graph::simulate::router(config, &crate::registry());
        let errors = errors.err().expect("two are too many").to_click();
        assert_eq!(
            errors,
            "config:1: While configuring 'Script@2 :: Script':\n  \
             router has more than one driver script\n"
        );
    }
}
