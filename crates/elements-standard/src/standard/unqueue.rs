//! Pulls packets and pushes them.
//!
//! # Synopsis
//! `Unqueue([BURST], ACTIVE, LIMIT)`
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Configuration
//! - `BURST`: packets per pull, at most 256, -1 for the maximum; default: 1
//! - `ACTIVE`: whether to pull packets; default: true
//! - `LIMIT`: number of packets to forward; default: -1 (unlimited)
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active`, `burst`, `limit` | read, write | same as the arguments |
//! | `count` | read | packets |
//! | `reset`, `reset_counts` | write | sets `count` to 0 and restarts |
//! | `scheduled` | read | whether the task is scheduled |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 10) -> Queue -> Unqueue(8) -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::BATCH_LEN_MAX;

use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Unqueue", "1/1", "l/h", || Box::new(Unqueue::new()));

/// See the module.
#[derive(Debug)]
pub struct Unqueue {
    burst: i32,
    active: bool,
    limit: i64,
    count: i64,
    is_woken: bool,
}

impl Unqueue {
    fn new() -> Self {
        Self { burst: 1, active: true, limit: -1, count: 0, is_woken: false }
    }

    fn may_work(&self) -> bool {
        self.active && self.burst != 0 && (self.limit < 0 || self.count < self.limit)
    }
}

impl Element for Unqueue {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("BURST", &mut self.burst)
            .read("ACTIVE", &mut self.active)
            .read("LIMIT", &mut self.limit)
            .complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.is_woken = cx.listen_upstream(0);
        if self.burst == 0 {
            cx.say(&format!("{}: warning: BURST size 0, no packets will be pulled", cx.name()));
        }
        if self.may_work() {
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.may_work() {
            return false;
        }
        let mut packets = usize::try_from(self.burst).unwrap_or(BATCH_LEN_MAX).max(1);
        if let Ok(limit) = u64::try_from(self.limit) {
            packets = packets.min((limit - self.count as u64) as usize);
        }
        let batch = cx.pull(0, packets);
        let worked = !batch.is_empty();
        self.count += batch.len() as i64;
        cx.emit_batch(0, batch);
        if self.may_work() && (worked || !self.is_woken) {
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
                HandlerSpec::both("burst"),
                HandlerSpec::both("limit"),
                HandlerSpec::read("count"),
                HandlerSpec::button("reset"),
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
            "burst" => self.burst.to_string(),
            "limit" => self.limit.to_string(),
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
        let bad = |_| HandlerError::failed("syntax error");
        match name {
            "active" => self.active = parse(value).map_err(bad)?,
            "burst" => self.burst = parse(value).map_err(bad)?,
            "limit" => self.limit = parse(value).map_err(bad)?,
            _ => self.count = 0,
        }
        if self.may_work() {
            cx.schedule_task();
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.count = old.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn it_moves_as_many_as_it_may() {
        let config = "InfiniteSource(LIMIT 10, BURST 10) -> q :: Queue -> u :: Unqueue(4, LIMIT 7)
            -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let mut read = |handler: &str| router.read(handler).expect("it is there");
        assert_eq!((read("c.count"), read("c.batches")), ("7".into(), "2".into()));
        assert_eq!(read("q.length"), "3");
        router.write("u.reset", "").expect("it obeys");
        router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
        assert_eq!(router.read("c.count"), Ok("10".into()));
    }
}
