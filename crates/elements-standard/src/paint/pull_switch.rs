//! Pulls from one selectable input.
//!
//! # Synopsis
//! `PullSwitch([INPUT])`, `SimplePullSwitch([INPUT])`, `StaticPullSwitch(INPUT)`
//!
//! # Ports
//! Any number of pull inputs, one pull output. A switch to another input wakes the elements that
//! pull.
//!
//! # Configuration
//! - `INPUT`: input to pull from; default: 0; with an input that does not exist, pulls return
//!   nothing
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `switch` | read, write | input, -1 for none |
//! | `config` | read | the same |
//!
//! `StaticPullSwitch` has no handlers.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
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

use warpswitch_elements_support::format::parse;

/// The class `PullSwitch`.
pub static CLASS: ElementClass =
    ElementClass::new("PullSwitch", "-/1", "l/l", || Box::new(PullSwitch::new(Kind::Telling)));
/// The class `SimplePullSwitch`.
pub static SIMPLE: ElementClass =
    ElementClass::new("SimplePullSwitch", "-/1", "l/l", || Box::new(PullSwitch::new(Kind::Simple)));
/// The class `StaticPullSwitch`.
pub static STATIC: ElementClass =
    ElementClass::new("StaticPullSwitch", "-/1", "l/l", || Box::new(PullSwitch::new(Kind::Static)));

/// Which class it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It reports whether there is an input to pull from.
    Telling,
    Simple,
    Static,
}

/// See the module.
#[derive(Debug)]
pub struct PullSwitch {
    /// None if no input is pulled.
    input: Option<usize>,
    kind: Kind,
    /// Whether it was switched since it was configured.
    is_switched: bool,
}

impl PullSwitch {
    fn new(kind: Kind) -> Self {
        Self { input: None, kind, is_switched: false }
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
        if self.kind == Kind::Static {
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

    fn is_quiet(&self) -> Option<bool> {
        (self.kind == Kind::Telling).then_some(self.input.is_none())
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        match self.kind == Kind::Static {
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
        self.is_switched = true;
        if self.input.is_some_and(|input| !cx.is_quiet_upstream(input)) {
            cx.wake();
        }
        Ok(String::new())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && old.is_switched
            && let Some(input) = old.input.filter(|input| *input < cx.inputs())
        {
            (self.input, self.is_switched) = (Some(input), true);
            cx.wake();
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
    fn who_asks_sleeps_while_there_is_nothing_to_ask_for() {
        let config = "i :: InfiniteSource(LIMIT 2) -> [0] s :: PullSwitch(-1);
            j :: Idle -> [1] s; s -> d :: Discard;";
        let (mut router, _) = warpswitch_graph::simulate::router(config, &crate::registry())
            .unwrap_or_else(|errors| panic!("{}", errors.to_click()));
        assert_eq!(router.read("d.scheduled"), Ok("false".into()));
        for (switch, is_scheduled) in [("1", "false"), ("0", "true")] {
            router.write("s.switch", switch).expect("it obeys");
            assert_eq!(router.read("d.scheduled"), Ok(is_scheduled.into()), "{switch}");
        }
        router.run(&mut SimulatedHost::default());
        assert_eq!(router.read("d.count"), Ok("2".into()));
        assert_eq!(router.read("d.scheduled"), Ok("false".into()));
        // The source has no more.
        router.write("s.switch", "0").expect("it obeys");
        assert_eq!(router.read("d.scheduled"), Ok("false".into()));
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
