//! Asks one of its inputs for packets, which can be changed.
//!
//! # Synopsis
//! `PullSwitch([INPUT])`, `SimplePullSwitch([INPUT])`, `StaticPullSwitch(INPUT)`
//!
//! # Ports
//! Any number of pull inputs, one pull output. Those that ask are woken when it is switched.
//!
//! # Configuration
//! - `INPUT`: which input is asked, 0 by default; one that is not there gives no packets
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `switch` | read, write | input, -1 for none |
//! | `config` | read | the same |
//!
//! `StaticPullSwitch` has none.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Belongs to one worker.
//!
//! # Example
//! ```text
//! q1 :: Queue -> [0] s :: PullSwitch; q2 :: Queue -> [1] s; s -> ToDevice(eth0);
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;

use crate::format::parse;

/// The class `PullSwitch`.
pub static CLASS: ElementClass =
    ElementClass::new("PullSwitch", "-/1", "l/l", || Box::new(PullSwitch::new(false)));
/// The class `SimplePullSwitch`.
pub static SIMPLE: ElementClass =
    ElementClass::new("SimplePullSwitch", "-/1", "l/l", || Box::new(PullSwitch::new(false)));
/// The class `StaticPullSwitch`.
pub static STATIC: ElementClass =
    ElementClass::new("StaticPullSwitch", "-/1", "l/l", || Box::new(PullSwitch::new(true)));

/// See the module.
#[derive(Debug)]
pub struct PullSwitch {
    /// None if no input is asked.
    input: Option<usize>,
    is_static: bool,
}

impl PullSwitch {
    fn new(is_static: bool) -> Self {
        Self { input: None, is_static }
    }

    fn set(&mut self, input: i32, inputs: usize) {
        self.input = usize::try_from(input).ok().filter(|input| *input < inputs);
    }
}

impl Element for PullSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut input = 0i32;
        if self.is_static {
            args.read_mp("INPUT", &mut input);
        } else {
            args.read_p("INPUT", &mut input);
        }
        self.set(input, context.inputs);
        args.complete()
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        match self.input {
            Some(input) => cx.pull(input, packets_max),
            None => cx.pool().batch(),
        }
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
        Ok(self.input.map_or("-1".to_owned(), |input| input.to_string()))
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let input = parse(value).map_err(|_| HandlerError::failed("syntax error"))?;
        self.set(input, cx.inputs());
        if self.input.is_some() {
            cx.wake();
        }
        Ok(String::new())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && !self.is_static
            && let Some(input) = old.input.filter(|input| *input < cx.inputs())
        {
            self.input = Some(input);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::{SimulatedHost, run};

    #[test]
    fn the_input_that_is_switched_to_is_asked_and_who_sleeps_is_woken() {
        for class in ["PullSwitch", "SimplePullSwitch"] {
            let config = "InfiniteSource(LIMIT 4) -> Queue -> [0] s :: CLASS(-1);
                InfiniteSource(LIMIT 5) -> Queue -> [1] s; Idle -> [2] s;
                s -> c :: Counter -> Discard;";
            let (mut router, _) = run(&config.replace("CLASS", class), &crate::registry());
            for (switch, reads, count) in
                [("2", "2", "0"), ("1", "1", "5"), ("9", "-1", "5"), ("0", "0", "9")]
            {
                router.write("s.switch", switch).expect("it obeys");
                router.run(&mut SimulatedHost::default());
                assert_eq!(router.read("s.switch"), Ok(reads.into()), "{class} {switch}");
                assert_eq!(router.read("c.count"), Ok(count.into()), "{class} {switch}");
            }
        }
    }

    #[test]
    fn a_static_one_keeps_its_input() {
        let config = "InfiniteSource(LIMIT 4) -> q :: Queue -> [0] s :: StaticPullSwitch(1);
            InfiniteSource(LIMIT 5) -> Queue -> [1] s; s -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("c.count"), Ok("5".into()));
        assert_eq!(router.read("q.length"), Ok("4".into()));
        assert!(router.write("s.switch", "0").is_err());
    }
}
