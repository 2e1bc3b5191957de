//! Diverts packets through a detour that can be switched on and off.
//!
//! # Synopsis
//! `Bypass([ACTIVE, INLINE])`
//!
//! # Ports
//! One or two inputs, one or two outputs; push or pull. Packets pass from input 0 to output 0.
//! While active, packets pushed to input 0 are emitted on output 1, and pulls on output 0 pull from
//! input 1. Packets pushed to input 1 are emitted on output 0, and pulls on output 1 pull from
//! input 0. A path from output 1 to input 1 therefore works as a detour for both push and pull.
//!
//! # Configuration
//! - `ACTIVE`: whether the detour is in use; default: false; has no effect without the second port
//! - `INLINE`: accepted for compatibility with Click, ignored
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! Idle -> b :: Bypass -> Discard; b[1] -> Print(look) -> [1]b;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;

use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Bypass", "1-2/1-2", "a/a", || Box::new(Bypass { active: false }))
        .flow("xy/[xy]x")
        .asks_through(1, 0);

/// See the module.
#[derive(Debug)]
pub struct Bypass {
    active: bool,
}

impl Element for Bypass {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut is_inline = false;
        args.read_p("ACTIVE", &mut self.active).read("INLINE", &mut is_inline).complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, batch: Batch) {
        let detours = input == 0 && self.active && cx.has_output(1);
        cx.emit_batch(usize::from(detours), batch);
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let detours = self.active && cx.inputs() > 1;
        cx.pull(usize::from(detours), packets_max)
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("active")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.active.to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.active = parse(value)?;
        // The other way may have packets for those that found none on this one.
        cx.wake();
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.active = old.active;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, run};

    /// Packets that took the detour and that arrived, before and after it is switched on.
    fn counts(before: &str, ports: &str) -> [String; 4] {
        let config = format!(
            "i :: InfiniteSource(LIMIT 3) {before} -> b :: Bypass -> c :: Counter -> Discard;
             {ports}"
        );
        let (mut router, _) = run(&config, &crate::registry());
        let mut found = Vec::new();
        for _ in 0..2 {
            let detour = router.read("d.count").unwrap_or_default();
            found.extend([detour, router.read("c.count").expect("it is there")]);
            router.write("b.active", "true").expect("it obeys");
            router.write("i.reset", "").expect("it obeys");
            router.run(&mut SimulatedHost::default());
        }
        assert_eq!(router.packets_unaccounted(), 0);
        found.try_into().expect("four numbers")
    }

    #[test]
    fn the_detour_is_taken_while_it_is_on() {
        let detour = "b[1] -> d :: Counter -> [1]b;";
        for before in ["-> PushNull", "-> PullNull", "-> Queue"] {
            assert_eq!(counts(before, detour), ["0", "3", "3", "6"], "{before}");
        }
        assert_eq!(counts("-> PushNull", "b[1] -> d :: Counter -> Discard;"), ["0", "3", "3", "3"]);
        let others = "Idle -> d :: Counter -> PullNull -> [1]b;";
        assert_eq!(counts("-> PullNull", others), ["0", "3", "0", "3"]);
    }

    #[test]
    fn without_second_ports_packets_go_straight_on() {
        for before in ["-> PushNull", "-> PullNull"] {
            assert_eq!(counts(before, ""), ["", "3", "", "6"], "{before}");
        }
    }

    #[test]
    fn detours_nest_and_may_lead_nowhere() {
        let config = "InfiniteSource(LIMIT 4) -> PullNull -> a :: Bypass(true) -> c :: Counter
            -> Discard; a[1] -> b :: Bypass(true) -> [1]a; b[1] -> d :: Counter -> [1]b;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(
            ["c.count", "d.count"].map(|name| router.read(name)),
            [Ok("4".into()), Ok("4".into())]
        );
        // The way goes in a circle: nothing is there to be asked for.
        let config = "a :: Bypass(true) -> c :: Counter -> Discard; a[1] -> [1]a;
            b :: Bypass; b[1] -> [0]b; b[0] -> PullNull -> Discard; Idle -> PullNull -> a;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("0".into()));
    }
}
