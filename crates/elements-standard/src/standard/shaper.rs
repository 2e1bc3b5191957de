//! Limits the rate at which packets are pulled.
//!
//! # Synopsis
//! `Shaper(RATE)`, `BandwidthShaper(RATE)`
//!
//! # Ports
//! One pull input, one or two pull outputs. Output 0 emits packets at the rate; output 1 emits
//! packets while output 0 does not.
//!
//! # Configuration
//! - `RATE`: packets per second, or a bandwidth; 0 for no packets
//!
//! Packets are spread evenly over each second. A packet that exceeds the available bytes delays the
//! next ones.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `rate` | read, write | packets per second, or a bandwidth |
//! | `config` | read | the rate |
//! | `reset` | write | makes the next packet due at once |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource -> Queue -> BandwidthShaper(1Mbps) -> Unqueue -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Bandwidth};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;

use warpswitch_elements_support::bucket::Gaps;
use warpswitch_elements_support::format;

/// The class `Shaper`.
pub static CLASS: ElementClass =
    ElementClass::new("Shaper", "1/1-2", "l/l", || Box::new(Shaper::new(false)));
/// The class `BandwidthShaper`.
pub static BANDWIDTH: ElementClass =
    ElementClass::new("BandwidthShaper", "1/1-2", "l/l", || Box::new(Shaper::new(true)));

static HANDLERS: [HandlerSpec; 3] =
    [HandlerSpec::both("rate"), HandlerSpec::read("config"), HandlerSpec::button("reset")];

/// See the module.
#[derive(Debug)]
pub struct Shaper {
    gaps: Gaps,
    is_bandwidth: bool,
}

impl Shaper {
    fn new(is_bandwidth: bool) -> Self {
        Self { gaps: Gaps::default(), is_bandwidth }
    }

    /// Packets at the rate.
    fn pull_shaped(&mut self, cx: &mut Context<'_>, packets_max: usize) -> Batch {
        let due = self.gaps.due_at(cx.now());
        if due == 0 {
            // Whoever asks may sleep until there is more.
            if let Some(at) = self.gaps.next() {
                cx.set_timer(0, at);
            }
            return cx.pool().batch();
        }
        if !self.is_bandwidth {
            let batch = cx.pull(0, packets_max.min(usize::try_from(due).unwrap_or(usize::MAX)));
            self.gaps.take(batch.len() as u64);
            return batch;
        }
        let mut batch = cx.pool().batch();
        while batch.len() < packets_max && self.gaps.due_at(cx.now()) > 0 {
            let mut got = cx.pull(0, 1);
            let (is_empty, bytes) = (got.is_empty(), got.bytes());
            batch.append(&mut got);
            cx.pool().recycle_empty(got);
            if is_empty {
                break;
            }
            self.gaps.take(bytes);
        }
        batch
    }
}

impl Element for Shaper {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut rate = 0u64;
        if self.is_bandwidth {
            let mut bandwidth = Bandwidth::default();
            args.read_mp("RATE", &mut bandwidth);
            rate = bandwidth.bytes_per_second;
        } else {
            args.read_mp("RATE", &mut rate);
        }
        self.gaps.set_rate(rate);
        args.complete()
    }

    fn pull(&mut self, cx: &mut Context<'_>, output: usize, packets_max: usize) -> Batch {
        if output == 0 {
            self.pull_shaped(cx, packets_max)
        } else if self.gaps.due_at(cx.now()) == 0 {
            cx.pull(0, packets_max)
        } else {
            cx.pool().batch()
        }
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        cx.wake();
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        &HANDLERS
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match self.is_bandwidth {
            true => format::bandwidth(self.gaps.rate()),
            false => self.gaps.rate().to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "reset" => self.gaps.reset(),
            _ if self.is_bandwidth => {
                self.gaps.set_rate(format::parse::<Bandwidth>(value)?.bytes_per_second)
            }
            _ => self.gaps.set_rate(format::parse(value)?),
        }
        cx.wake();
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>()
            && old.gaps.rate() == self.gaps.rate()
        {
            self.gaps = old.gaps;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, run_until};

    fn until(ns: i64) -> SimulatedHost {
        SimulatedHost::running(0, ns)
    }

    #[test]
    fn packets_are_spread_over_seconds() {
        for (shaper, expected) in [
            ("Shaper(4)", 40),
            ("Shaper(1000)", 10_000),
            ("Shaper(7)", 70),
            ("BandwidthShaper(1000Bps)", 100),
            // Packets are longer than what a second brings.
            ("BandwidthShaper(30Bps)", 3),
            ("Shaper(0)", 0),
        ] {
            let config = format!(
                "InfiniteSource(LENGTH 100) -> Queue -> {shaper} -> c :: Counter -> Discard;"
            );
            let host = until(10 * Time::SECOND - 1);
            let (mut router, _) = run_until(&config, &crate::registry(), host);
            assert_eq!(router.read("c.count"), Ok(expected.to_string()), "{shaper}");
        }
    }

    #[test]
    fn the_second_output_gives_what_the_first_one_does_not() {
        let config = "InfiniteSource(LIMIT 100) -> Queue -> s :: Shaper(1000);
            r :: RoundRobinSched -> t :: Counter -> TimedSink(500us);
            s[0] -> shaped :: Counter -> [0]r; s[1] -> [1]r;";
        let (mut router, _) = run_until(config, &crate::registry(), until(Time::SECOND));
        assert_eq!(
            (router.read("shaped.count"), router.read("t.count")),
            (Ok("51".into()), Ok("100".into()))
        );
        assert_eq!(router.read("s.rate"), Ok("1000".into()));
    }

    #[test]
    fn a_new_rate_holds_at_once() {
        let config =
            "InfiniteSource(LENGTH 64) -> Queue -> s :: BandwidthShaper(64Bps) -> c :: Counter
            -> Discard;";
        let (mut router, _) = run_until(config, &crate::registry(), until(Time::SECOND / 2));
        assert_eq!(router.read("c.count"), Ok("1".into()));
        router.write("s.rate", "64kBps").expect("it obeys");
        let half = Time::SECOND / 2;
        router.run(&mut SimulatedHost::running(half, half + Time::SECOND / 10 - 1));
        assert_eq!(
            (router.read("c.count"), router.read("s.rate")),
            (Ok("101".into()), Ok("512kbps".into()))
        );
    }
}
