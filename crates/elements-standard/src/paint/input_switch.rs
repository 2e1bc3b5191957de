//! Accepts packets from one of its inputs, which can be changed, and drops those of the others.
//!
//! # Synopsis
//! `InputSwitch([INPUT])`
//!
//! # Ports
//! Any number of push inputs, one push output.
//!
//! # Configuration
//! - `INPUT`: the accepted input, 0 by default; a negative number drops all packets. Click calls it
//!   `OUTPUT`, which works as well
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `switch` | read, write | input; a negative number drops all packets and is read as -1 |
//! | `config` | read | the same |
//!
//! # Drops
//! - `switched off`: the packet came in by another input
//!
//! # Threads
//! Each worker has a copy.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> [0] s :: InputSwitch(1); FromDevice(eth1) -> [1] s;
//! s -> Queue -> ToDevice(eth2);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::Batch;

use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("InputSwitch", "-/1", "h/h", || Box::<InputSwitch>::default())
        .drops(&["switched off"]);

/// Reason for drops, by number.
const OFF: usize = 0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct InputSwitch {
    /// The accepted input; negative for none.
    input: i32,
    /// Inputs that are connected.
    inputs: usize,
    /// Whether it was switched since it was configured.
    is_switched: bool,
}

impl InputSwitch {
    /// Whether `input` is negative or connected.
    fn check(&self, input: i32) -> Result<(), String> {
        match usize::try_from(input) {
            Ok(number) if number >= self.inputs => {
                let last = self.inputs.saturating_sub(1);
                Err(format!("no input {input}, expected 0 to {last}, or -1 to drop packets"))
            }
            _ => Ok(()),
        }
    }
}

impl Element for InputSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        self.inputs = context.inputs;
        args.read_p("INPUT", &mut self.input).read("OUTPUT", &mut self.input);
        if let Err(message) = self.check(self.input) {
            args.error_at("INPUT", &message);
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, batch: Batch) {
        if usize::try_from(self.input) == Ok(input) {
            cx.emit_batch(0, batch);
        } else {
            cx.drop_batch(batch, OFF);
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("switch"), HandlerSpec::read("config")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.input.to_string())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let input: i32 =
            parse(value).map_err(|_| HandlerError::failed("InputSwitch input must be integer"))?;
        self.check(input).map_err(HandlerError::failed)?;
        (self.input, self.is_switched) = (input.max(-1), true);
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        // A write to `switch` outlives the replacement of the configuration.
        if let Some(old) = old.downcast_mut::<Self>()
            && old.is_switched
            && self.check(old.input).is_ok()
        {
            (self.input, self.is_switched) = (old.input, true);
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
    fn accepts_packets_of_the_chosen_input_only() {
        let config = "a :: InfiniteSource(LIMIT 3) -> [0] s :: InputSwitch(1) -> c :: Counter
            -> Discard; b :: InfiniteSource(LIMIT 2) -> [1] s;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("2".into()));
        for (switch, reads, count) in
            [("0", "0", "5"), ("-1", "-1", "5"), ("-5", "-1", "5"), ("1", "1", "7")]
        {
            router.write("s.switch", switch).expect("a valid input");
            assert_eq!(router.read("s.switch"), Ok(reads.into()));
            assert_eq!(router.read("s.config"), Ok(reads.into()));
            router.write("a.reset", "").expect("it starts over");
            router.write("b.reset", "").expect("it starts over");
            router.run(&mut SimulatedHost::default());
            assert_eq!(router.read("c.count"), Ok(count.into()), "{switch}");
        }
        assert_eq!(router.read("s.drops_by_reason"), Ok("18\tswitched off\n".into()));
        let error = router.write("s.switch", "x").unwrap_err();
        assert_eq!(error.to_string(), "InputSwitch input must be integer");
        let error = router.write("s.switch", "2").unwrap_err();
        assert_eq!(error.to_string(), "no input 2, expected 0 to 1, or -1 to drop packets");
        assert_eq!(router.read("s.switch"), Ok("1".into()));
        assert_eq!(router.packets_unaccounted(), 0);
    }

    #[test]
    fn rejects_inputs_that_are_not_connected() {
        let errors = |arguments: &str| {
            let config = format!("Idle -> InputSwitch({arguments}) -> Discard;");
            router(&config, &crate::registry()).err().map(|errors| errors.to_click())
        };
        let text = errors("1").expect("there is one input");
        assert!(text.contains("INPUT: no input 1, expected 0 to 0"), "{text}");
        assert!(errors("OUTPUT 1").is_some());
        assert_eq!(errors("OUTPUT 0"), None);
        assert_eq!(errors("-1"), None);
    }
}
