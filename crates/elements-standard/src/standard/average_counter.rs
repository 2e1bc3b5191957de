//! Counts packets and bytes, and their average rates from the first to the last packet.
//!
//! # Synopsis
//! `AverageCounter([IGNORE])`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `IGNORE`: seconds after the first packet that are not counted; default: 0
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `count` | read | packets |
//! | `byte_count` | read | bytes |
//! | `rate` | read | packets per second |
//! | `byte_rate` | read | bytes per second |
//! | `reset` | write | |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! RatedSource(RATE 1000, LIMIT 1000) -> AverageCounter -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::Batch;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("AverageCounter", "1/1", "a/a", || Box::<AverageCounter>::default());

/// Nanoseconds in the unit in which time is measured: milliseconds, as in Click.
const UNIT_NS: i64 = 1_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct AverageCounter {
    packets: u64,
    bytes: u64,
    ignored: u32,
    /// When the first and the last packet came, in milliseconds.
    span: Option<(i64, i64)>,
}

impl AverageCounter {
    fn ignored_ms(&self) -> i64 {
        i64::from(self.ignored) * (Time::SECOND / UNIT_NS)
    }

    /// So many a second.
    fn rate(&self, count: u64) -> String {
        let span = self.span.map_or(0, |(first, last)| last - first);
        let ms = (span - self.ignored_ms()).max(1);
        (count as f64 * 1e3 / ms as f64).to_string()
    }
}

impl Element for AverageCounter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("IGNORE", &mut self.ignored).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let now = cx.now().0.div_euclid(UNIT_NS);
        let (first, _) = *self.span.get_or_insert((now, now));
        self.span = Some((first, now));
        if now - first >= self.ignored_ms() {
            self.packets += batch.len() as u64;
            self.bytes += batch.bytes();
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("count"),
                HandlerSpec::read("byte_count"),
                HandlerSpec::read("rate"),
                HandlerSpec::read("byte_rate"),
                HandlerSpec::button("reset"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "count" => self.packets.to_string(),
            "byte_count" => self.bytes.to_string(),
            "rate" => self.rate(self.packets),
            _ => self.rate(self.bytes),
        })
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _value: &str,
    ) -> Result<String, HandlerError> {
        *self = Self { ignored: self.ignored, ..Self::default() };
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            *self = Self { ignored: self.ignored, ..std::mem::take(old) };
        }
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn the_rate_is_that_between_the_first_and_the_last_packet() {
        for (arguments, count, rate) in [("", "101", "50.5"), ("1", "51", "51"), ("7", "0", "0")] {
            let config = format!(
                "RatedSource(DATA abc, RATE 50, LIMIT 101) -> c :: AverageCounter({arguments})
                 -> Discard;"
            );
            let (mut router, _) = run(&config, &crate::registry());
            let mut read = |handler: &str| router.read(handler).expect("it is there");
            assert_eq!((read("c.count"), read("c.rate")), (count.into(), rate.into()));
            router.write("c.reset", "").expect("it obeys");
            assert_eq!(router.read("c.byte_rate"), Ok("0".into()));
        }
    }
}
