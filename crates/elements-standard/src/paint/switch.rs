//! Emits packets on one selectable output.
//!
//! # Synopsis
//! `Switch([OUTPUT])`, `StaticSwitch(OUTPUT)`
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Configuration
//! - `OUTPUT`: output for packets; default: 0; a negative number drops them
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `switch` | read, write | output; a negative number drops packets and reads as -1, an output that does not exist is an error |
//! | `config` | read | the same |
//!
//! `StaticSwitch` has no handlers.
//!
//! # Drops
//! - `switched off`: the selected output is negative
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> s :: Switch(1); s[0] -> Discard; s[1] -> Queue -> ToDevice(eth1);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use warpswitch_elements_support::format::parse;
use warpswitch_elements_support::outputs;

/// The class `Switch`.
pub static CLASS: ElementClass =
    ElementClass::new("Switch", "1/-", "h/h", || Box::new(Switch::new(false)))
        .drops(&["switched off"]);
/// The class `StaticSwitch`.
pub static STATIC: ElementClass =
    ElementClass::new("StaticSwitch", "1/-", "h/h", || Box::new(Switch::new(true)))
        .drops(&["switched off"]);

/// Reason for drops, by number.
const OFF: usize = 0;

/// See the module.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Negative for none.
    output: i32,
    is_static: bool,
    /// Whether it was switched since it was configured.
    is_switched: bool,
}

impl Switch {
    fn new(is_static: bool) -> Self {
        Self { output: 0, is_static, is_switched: false }
    }
}

impl Element for Switch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        if self.is_static {
            args.read_mp("OUTPUT", &mut self.output);
        } else {
            args.read_p("OUTPUT", &mut self.output);
        }
        if usize::try_from(self.output).is_ok_and(|output| output >= context.outputs) {
            let expected = outputs::expected(context.outputs);
            args.error_at("OUTPUT", &format!("no output {}, {expected}", self.output));
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        match usize::try_from(self.output) {
            Ok(output) => cx.emit_batch(output, batch),
            Err(_) => cx.drop_batch(batch, OFF),
        }
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        match self.is_static {
            true => &[],
            false => const { &[HandlerSpec::both("switch"), HandlerSpec::read("config")] },
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.output.to_string())
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let output: i32 =
            parse(value).map_err(|_| HandlerError::failed("Switch output must be integer"))?;
        if usize::try_from(output).is_ok_and(|output| !cx.has_output(output)) {
            let expected = outputs::expected(cx.outputs());
            let message = format!("no output {output}, {expected}, or -1 to drop packets");
            return Err(HandlerError::failed(message));
        }
        self.output = output.max(-1);
        self.is_switched = true;
        Ok(String::new())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        // What was switched by hand stays switched; else what the new text says counts.
        if let Some(old) = old.downcast_mut::<Self>()
            && old.is_switched
            && usize::try_from(old.output).is_ok_and(|output| cx.has_output(output))
        {
            (self.output, self.is_switched) = (old.output, true);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, router, run};

    #[test]
    fn packets_follow_the_switch() {
        let config = "i :: InfiniteSource(LIMIT 3) -> s :: Switch(1);
            s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;
            InfiniteSource(LIMIT 2) -> t :: StaticSwitch(-1) -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        for (switch, reads, counts) in [
            ("0", "0", ("3", "3")),
            ("-1", "-1", ("3", "3")),
            ("-5", "-1", ("3", "3")),
            (" 1 ", "1", ("3", "6")),
        ] {
            router.write("s.switch", switch).expect("it obeys");
            assert_eq!(router.read("s.switch"), Ok(reads.into()));
            router.write("i.reset", "").expect("it obeys");
            router.run(&mut SimulatedHost::default());
            let mut read = |handler: &str| router.read(handler).expect("it is there");
            assert_eq!((read("a.count").as_str(), read("b.count").as_str()), counts, "{switch}");
        }
        assert_eq!(router.read("s.drops_by_reason"), Ok("6\tswitched off\n".into()));
        assert_eq!(router.read("t.drops_by_reason"), Ok("2\tswitched off\n".into()));
        let error = router.write("s.switch", "x").unwrap_err();
        assert_eq!(error.to_string(), "Switch output must be integer");
        // What is not there is no output, and the one that was switched to stays.
        let error = router.write("s.switch", "2").unwrap_err();
        assert_eq!(error.to_string(), "no output 2, expected 0 to 1, or -1 to drop packets");
        assert_eq!(router.read("s.switch"), Ok("1".into()));
        assert_eq!(router.packets_unaccounted(), 0);
    }

    #[test]
    fn outputs_must_be_there() {
        let check = |switch: &str, told: &str| {
            let config = format!("Idle -> s :: {switch} -> Discard; s [1] -> Discard;");
            let errors = router(&config, &crate::registry()).err();
            let errors = errors.expect("it is wrong").to_click();
            assert!(errors.contains(told), "{errors}");
        };
        check("Switch(2)", "OUTPUT: no output 2, expected 0 to 1");
        check("StaticSwitch(7)", "OUTPUT: no output 7, expected 0 to 1");
    }
}
