//! Discards all packets.
//!
//! # Synopsis
//! `Discard([ACTIVE, BURST])`
//!
//! # Ports
//! One input, push or pull; no outputs. A pull input is pulled whenever packets are available.
//!
//! # Configuration
//! - `ACTIVE`: whether to pull packets; default: true; must be true for a push input
//! - `BURST`: packets per pull, at most 256; 0 for the maximum. Default: 256 where the output does
//!   not depend on it (docs/bursts.md), else 1
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//! | `count` | read | packets |
//! | `reset_counts` | write | |
//! | `scheduled` | read | whether the task is scheduled |
//!
//! # Drops
//! None: discarded packets are counted by `count`.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 100) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch};

use crate::bursts::SinkBurst;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Discard", "1/0", "a", || Box::new(Discard::new())).consumes_as("discarded");

/// See the module.
#[derive(Clone, Debug)]
pub struct Discard {
    active: bool,
    burst: SinkBurst,
    count: u64,
    /// Whether those that hold packets wake it.
    is_woken: bool,
}

impl Discard {
    fn new() -> Self {
        Self { active: true, burst: SinkBurst::default(), count: 0, is_woken: false }
    }
}

impl Element for Discard {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("ACTIVE", &mut self.active).read("BURST", &mut self.burst.given).complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if !self.active && !cx.input_is_pull(0) {
            return Err("ACTIVE is meaningless in push context".to_owned());
        }
        if cx.input_is_pull(0) {
            self.burst.settle(cx);
            self.is_woken = cx.listen_upstream(0);
            if self.active && !(self.is_woken && cx.is_quiet_upstream(0)) {
                cx.schedule_task();
            }
        }
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.count += batch.len() as u64;
        cx.consume_batch(batch);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.active {
            return false;
        }
        let burst = if self.burst.given == Some(0) { BATCH_LEN_MAX } else { self.burst.len() };
        let batch = cx.pull(0, burst);
        let worked = !batch.is_empty();
        self.count += batch.len() as u64;
        cx.consume_batch(batch);
        if worked || !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::both("active"),
                HandlerSpec::read("count"),
                HandlerSpec::button("reset_counts"),
                HandlerSpec::read("scheduled"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "active" => self.active.to_string(),
            "scheduled" => cx.task_is_scheduled().to_string(),
            _ => self.count.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        if name == "active" {
            let bad = |_| HandlerError::failed("syntax error");
            self.active = warpswitch_elements_support::format::parse(value).map_err(bad)?;
            if self.active && cx.input_is_pull(0) {
                cx.schedule_task();
            }
        } else {
            self.count = 0;
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.count = old.count;
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { count: 0, ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.count += copy.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn it_takes_what_is_pushed_and_what_it_asks_for() {
        let config = "InfiniteSource(LIMIT 5) -> Discard;
            InfiniteSource(LIMIT 7) -> q :: Queue -> d :: Discard;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(router.read("d.count"), Ok("7".into()));
        assert_eq!(router.read("q.length"), Ok("0".into()));
    }
}
