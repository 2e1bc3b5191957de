//! Delays each packet by a fixed time.
//!
//! # Synopsis
//! `DelayUnqueue(DELAY)`, `DelayShaper(DELAY)`
//!
//! # Ports
//! One pull input, one output: push for `DelayUnqueue`, pull for `DelayShaper`.
//!
//! # Configuration
//! - `DELAY`: delay, counted from the packet's timestamp
//!
//! A packet without a timestamp is stamped when it is pulled. `DelayUnqueue` sets the timestamp to
//! the time at which the packet was due, `DelayShaper` to the time at which it is emitted.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `delay` | read, write | time |
//! | `scheduled` | read | whether the task is scheduled, `DelayUnqueue` only |
//!
//! # Drops
//! None. At most one packet is held.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! RatedSource -> Queue -> DelayUnqueue(20ms) -> Discard;
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Packet};

use warpswitch_elements_support::format;

/// The class `DelayUnqueue`.
pub static UNQUEUE: ElementClass =
    ElementClass::new("DelayUnqueue", "1/1", "l/h", || Box::new(Delay::new(true)));
/// The class `DelayShaper`.
pub static SHAPER: ElementClass =
    ElementClass::new("DelayShaper", "1/1", "l/l", || Box::new(Delay::new(false)));

/// See the module.
#[derive(Debug)]
pub struct Delay {
    delay: Duration,
    /// Whether it pushes.
    pushes: bool,
    /// The packet that is not yet due; its time is when it is.
    held: Option<Packet>,
    is_woken: bool,
}

impl Delay {
    fn new(pushes: bool) -> Self {
        Self { delay: Duration::ZERO, pushes, held: None, is_woken: false }
    }

    /// The packets that are due, no more than `packets_max`.
    fn take_due(&mut self, cx: &mut Context<'_>, packets_max: usize) -> Batch {
        let now = cx.now();
        let mut batch = cx.pool().batch();
        while batch.len() < packets_max {
            if self.held.is_none() {
                let mut got = cx.pull(0, 1);
                self.held = got.drain().next();
                cx.pool().recycle_empty(got);
                let Some(packet) = &mut self.held else { break };
                // A time within the first second of 1970 is none.
                let seen = match packet.timestamp_ns() {
                    ns if ns < Time::SECOND => now,
                    ns => Time(ns),
                };
                packet.set_timestamp_ns((seen + self.delay).0);
            }
            let Some(mut packet) = self.held.take_if(|packet| packet.timestamp_ns() <= now.0)
            else {
                break;
            };
            if !self.pushes {
                packet.set_timestamp_ns(now.0);
            }
            batch.push(packet);
        }
        if batch.is_empty()
            && let Some(packet) = &self.held
        {
            cx.set_timer(0, Time(packet.timestamp_ns()));
        }
        batch
    }
}

impl Element for Delay {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("DELAY", &mut self.delay).complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if self.pushes {
            self.is_woken = cx.listen_upstream(0);
            cx.schedule_task();
        }
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let batch = self.take_due(cx, BATCH_LEN_MAX);
        let worked = !batch.is_empty();
        cx.emit_batch(0, batch);
        if worked || self.held.is_none() && !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        self.take_due(cx, packets_max)
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        if self.pushes {
            cx.schedule_task();
        } else {
            cx.wake();
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("delay"), HandlerSpec::read("scheduled")] }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "delay" => format::interval(self.delay),
            _ => cx.task_is_scheduled().to_string(),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let bad = |_| HandlerError::failed("delay must be a timestamp");
        self.delay = format::parse(value).map_err(bad)?;
        Ok(String::new())
    }

    fn held(&self) -> usize {
        usize::from(self.held.is_some())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && let Some(packet) = old.held.take()
        {
            cx.set_timer(0, Time(packet.timestamp_ns()));
            self.held = Some(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, run, run_until};

    #[test]
    fn packets_leave_a_while_after_their_time() {
        let expected = "a: 1000000000.100000:    1\nb: 1000000000.100000:    1\n\
            a: 1000000000.200000:    1\nb: 1000000000.200000:    1\n";
        for delay in ["DelayUnqueue", "DelayShaper"] {
            let (pushed, end) = match delay {
                "DelayUnqueue" => ("", ""),
                _ => ("", "Unqueue ->"),
            };
            let print = "Print(b, TIMESTAMP true, CONTENTS NONE)";
            let config = format!(
                "RatedSource(x, 10, 2) -> Queue -> {delay}(100ms) -> {pushed} {end}
                 Print(a, TIMESTAMP true, CONTENTS NONE) -> SetTimestamp -> {print} -> Discard;"
            );
            let (_, transcript) = run(&config, &crate::registry());
            assert_eq!(transcript.said(), expected, "{delay}");
        }
    }

    #[test]
    fn one_that_is_due_earlier_waits_for_those_before_it() {
        let config = "InfiniteSource(x, 3, 3) -> q :: Queue -> d :: DelayUnqueue(1s)
            -> c :: Counter -> Discard;";
        let host = SimulatedHost::running(0, Time::SECOND / 2);
        let (mut router, _) = run_until(config, &crate::registry(), host);
        assert_eq!(router.standing(), [("q :: Queue".into(), 2), ("d :: DelayUnqueue".into(), 1)]);
        assert_eq!(router.read("d.delay"), Ok("1.000000s".into()));
        router.run(&mut SimulatedHost::running(Time::SECOND / 2, Time::SECOND));
        assert_eq!((router.read("c.count"), router.packets_unaccounted()), (Ok("3".into()), 0));
    }
}
