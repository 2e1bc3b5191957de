//! Selects the output of packets by their arrival rate.
//!
//! # Synopsis
//! `Meter(RATE1, RATE2, …, RATEn)`, `BandwidthMeter(RATE1, RATE2, …, RATEn)`
//!
//! # Ports
//! One push input, n + 1 push outputs. Packets are emitted on output 0 while the rate is below
//! `RATE1`, on output 1 below `RATE2`, and so on; on the last output from `RATEn` on.
//!
//! # Configuration
//! - `RATE1` …: packets per second, or bandwidths, strictly increasing
//!
//! The rate is an exponential moving average over periods of 1 ms; each period weighs 1/16.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `rate` | read | packets, or bytes, per second, moving average |
//! | `meters` | read | configured rates, one per line |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! RatedSource(RATE 1000) -> m :: Meter(500) -> Discard; m[1] -> Counter -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Bandwidth, FromArg, NoNames};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::Batch;

use warpswitch_elements_support::format;

/// The class `Meter`.
pub static CLASS: ElementClass =
    ElementClass::new("Meter", "1/2-", "h/h", || Box::new(Meter::new(false)));
/// The class `BandwidthMeter`.
pub static BANDWIDTH: ElementClass =
    ElementClass::new("BandwidthMeter", "1/2-", "h/h", || Box::new(Meter::new(true)));

/// Bits behind the point of an average.
const SCALE: u32 = 10;
/// A step of the average weighs one in two to this power.
const STABILITY: u32 = 4;
const EPOCH_NS: i64 = 1_000_000;
const EPOCHS_PER_SECOND: u64 = 1_000;
/// Steps without events after which nothing is left of an average.
const FORGOTTEN_STEPS: i64 = 100 << STABILITY;

/// Events a millisecond, averaged exponentially over about sixteen of them.
#[derive(Clone, Copy, Debug, Default)]
struct Average {
    scaled: u64,
    current: u64,
    epoch: Option<i64>,
}

impl Average {
    fn step(&mut self, events: u64) {
        let events = events << SCALE;
        let half = 1 << (STABILITY - 1);
        self.scaled = match events.checked_sub(self.scaled) {
            Some(more) => self.scaled + ((more + half) >> STABILITY),
            None => {
                self.scaled - (self.scaled - events).saturating_sub(half).div_ceil(1 << STABILITY)
            }
        };
    }

    /// Goes on to `now`.
    fn advance(&mut self, now: Time) {
        let epoch = now.0.div_euclid(EPOCH_NS);
        let passed = epoch - self.epoch.replace(epoch).unwrap_or(epoch);
        if passed <= 0 {
            return;
        }
        let current = std::mem::take(&mut self.current);
        self.step(current);
        if passed > FORGOTTEN_STEPS {
            self.scaled = 0;
        }
        for _ in 1..passed.min(FORGOTTEN_STEPS) {
            self.step(0);
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Meter {
    is_bandwidth: bool,
    /// Rates a second.
    rates: Vec<u64>,
    /// The same as averages.
    limits: Vec<u64>,
    average: Average,
}

impl Meter {
    fn new(is_bandwidth: bool) -> Self {
        Self { is_bandwidth, rates: Vec::new(), limits: Vec::new(), average: Average::default() }
    }

    fn parse(&self, text: &str) -> Option<u64> {
        match self.is_bandwidth {
            true => Bandwidth::from_arg(text, &NoNames).ok().map(|rate| rate.bytes_per_second),
            false => u64::from_arg(text, &NoNames).ok(),
        }
    }
}

impl Element for Meter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let texts = args.rest();
        if texts.is_empty() {
            let usage = if self.is_bandwidth { "BandwidthMeter(bandwidth" } else { "Meter(rate" };
            args.error_at("", &format!("too few arguments to {usage}, ...)"));
        }
        for (at, text) in texts.iter().enumerate() {
            match self.parse(text) {
                None => args.error_at("", &format!("argument {} syntax error", at + 1)),
                Some(rate) if self.rates.last().is_some_and(|&last| rate <= last) => {
                    args.error_at("", &format!("rate {} must be > rate {at}", at + 1));
                }
                Some(rate) if rate > u64::from(u32::MAX) => {
                    let message = format!("rate {} too large (max {})", at + 1, u32::MAX);
                    args.error_at("", &message);
                }
                Some(rate) => self.rates.push(rate),
            }
        }
        args.consume()?;
        self.limits = self.rates.iter().map(|&rate| (rate << SCALE) / EPOCHS_PER_SECOND).collect();
        if context.outputs != self.rates.len() + 1 {
            let message = format!("need {} outputs, one more than rates", self.rates.len() + 1);
            args.error_at("", &message);
        }
        args.consume()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        self.average.advance(cx.now());
        let output = self.limits.partition_point(|&limit| limit <= self.average.scaled);
        self.average.current += match self.is_bandwidth {
            true => batch.bytes(),
            false => batch.len() as u64,
        };
        if output > 0 {
            cx.sort(batch, |_, _| Fate::Emit(output));
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("rate"), HandlerSpec::read("meters")] }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        if name == "meters" {
            return Ok(self.rates.iter().map(|rate| format!("{rate}\n")).collect());
        }
        self.average.advance(cx.now());
        Ok(format::binary(self.average.scaled * EPOCHS_PER_SECOND, SCALE))
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.average = old.average;
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, router, run_until};

    #[test]
    fn packets_leave_by_the_output_of_their_rate() {
        let source = |from: &str| format!("RatedSource(RATE {from}, LENGTH 100, LIMIT 20000)");
        for (from, meter, most) in [
            ("500", "Meter(1000, 5000)", "a"),
            ("3000", "Meter(1000, 5000)", "b"),
            ("10000", "Meter(1000, 5000)", "c"),
            ("500", "BandwidthMeter(100kBps, 500kBps)", "a"),
            ("3000", "BandwidthMeter(800kbps, 4Mbps)", "b"),
            ("10000", "BandwidthMeter(100kBps, 500kBps)", "c"),
        ] {
            let config = format!(
                "{} -> m :: {meter}; m[0] -> a :: Counter -> Discard;
                 m[1] -> b :: Counter -> Discard; m[2] -> c :: Counter -> Discard;",
                source(from)
            );
            let host = SimulatedHost::running(0, Time::SECOND);
            let (mut router, _) = run_until(&config, &crate::registry(), host);
            let mut count = |name: &str| -> u64 {
                router
                    .read(&format!("{name}.count"))
                    .expect("it is there")
                    .parse()
                    .expect("a number")
            };
            let (all, found) = (count("a") + count("b") + count("c"), count(most));
            // While the average rises packets leave by lower outputs.
            assert!(found > all * 9 / 10, "{from} {meter}: {found} of {all}");
        }
    }

    #[test]
    fn a_rate_is_told_and_forgotten() {
        let config = "s :: RatedSource(RATE 2000, LIMIT 4000) -> m :: Meter(10) -> Discard;
            m[1] -> Discard; TimedSource(1s, LIMIT 20) -> Discard;";
        let host = SimulatedHost::running(0, Time::SECOND);
        let (mut router, _) = run_until(config, &crate::registry(), host);
        let rate: f64 = router.read("m.rate").expect("it is there").parse().expect("a number");
        assert!((1_900.0..2_100.0).contains(&rate), "{rate}");
        router.run(&mut SimulatedHost::running(Time::SECOND, 10 * Time::SECOND));
        assert_eq!(
            (router.read("m.rate"), router.read("m.meters")),
            (Ok("0".into()), Ok("10\n".into()))
        );
    }

    #[test]
    fn rates_that_do_not_rise_are_refused() {
        for (arguments, message) in [
            ("", "too few arguments to Meter(rate, ...)"),
            ("5, 5", "rate 2 must be > rate 1"),
            ("x", "argument 1 syntax error"),
            ("5, 6, 7", "need 4 outputs"),
        ] {
            let config = format!("Idle -> m :: Meter({arguments}) -> Discard; m[1] -> Discard");
            let errors = router(&config, &crate::registry()).err().expect("it is wrong");
            assert!(errors.to_click().contains(message), "{}", errors.to_click());
        }
    }
}
