//! Pulls a burst of packets at every interval and pushes it.
//!
//! # Synopsis
//! `Burster(INTERVAL [, BURST])`
//!
//! # Ports
//! One pull input, one push output.
//!
//! # Configuration
//! - `INTERVAL`: time between two bursts
//! - `BURST`: maximum number of packets per burst, at most 65536; default: 8
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! InfiniteSource -> Queue -> Burster(10ms, 16) -> Discard;
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Burster", "1/1", "l/h", || Box::<Burster>::default());

/// The most packets of a burst.
const BURST_MAX: u32 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub struct Burster {
    interval: Duration,
    burst: u32,
}

impl Default for Burster {
    fn default() -> Self {
        Self { interval: Duration::ZERO, burst: 8 }
    }
}

impl Element for Burster {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("INTERVAL", &mut self.interval).read_p("BURST", &mut self.burst);
        args.consume()?;
        if self.burst == 0 {
            args.error_at("", "max packets per interval must be > 0");
        } else if self.burst > BURST_MAX {
            args.error_at("BURST", &format!("{} is out of range, bound {BURST_MAX}", self.burst));
        }
        if self.interval.is_zero() {
            args.error_at("INTERVAL", "bad interval");
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.set_timer(0, cx.now() + self.interval);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        let mut left = self.burst as usize;
        while left > 0 {
            let batch = cx.pull(0, left);
            if batch.is_empty() {
                break;
            }
            left -= batch.len();
            cx.emit_batch(0, batch);
        }
        cx.set_timer(0, cx.now() + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, run_until};

    #[test]
    fn a_burst_leaves_at_every_interval() {
        let cases = [("100ms, 3", "27"), ("0.25s", "24"), ("1ms, 300", "299700"), ("2s, 5", "0")];
        for (arguments, expected) in cases {
            let config = format!(
                "InfiniteSource(BURST 256) -> Queue -> Burster({arguments})
                 -> c :: Counter -> Discard"
            );
            let host = SimulatedHost::running(0, Time::SECOND - 1);
            let (mut router, _) = run_until(&config, &crate::registry(), host);
            assert_eq!(router.read("c.count"), Ok(expected.into()), "{arguments}");
        }
    }
}
