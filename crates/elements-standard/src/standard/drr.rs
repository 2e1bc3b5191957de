//! Pulls equal numbers of bytes from its inputs: deficit round robin.
//!
//! # Synopsis
//! `DRRSched([QUANTUM])`
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Configuration
//! - `QUANTUM`: bytes added to the deficit of an input at each of its turns; default: 500
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. At most one packet per input is held: a packet larger than the input's deficit.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! a :: Queue -> [0]d :: DRRSched -> Unqueue -> Discard; b :: Queue -> [1]d;
//! ```
//!
//! # Source
//! Shreedhar, Varghese, "Efficient Fair Queueing using Deficit Round Robin", SIGCOMM 1995.

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};
use warpswitch_packet::{Batch, Packet};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("DRRSched", "-/1", "l/l", || Box::<Drr>::default());

#[derive(Debug, Default)]
struct Input {
    /// Taken, and too long for now.
    head: Option<Packet>,
    /// Bytes that it may give.
    deficit: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Drr {
    quantum: u32,
    inputs: Vec<Input>,
    next: usize,
}

impl Default for Drr {
    fn default() -> Self {
        Self { quantum: 500, inputs: Vec::new(), next: 0 }
    }
}

impl Drr {
    /// The packet of the input whose turn it is.
    fn take(&mut self, cx: &mut Context<'_>) -> Option<Packet> {
        self.inputs[self.next].head.take().or_else(|| {
            let mut got = cx.pull(self.next, 1);
            let packet = got.drain().next();
            cx.pool().recycle_empty(got);
            packet
        })
    }
}

impl Element for Drr {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("QUANTUM", &mut self.quantum);
        args.consume()?;
        if self.quantum == 0 {
            args.error_at("", "bad QUANTUM");
        }
        self.inputs.resize_with(context.inputs, Input::default);
        args.complete()
    }

    fn pull(&mut self, cx: &mut Context<'_>, _output: usize, packets_max: usize) -> Batch {
        let mut batch = cx.pool().batch();
        // Inputs in a row that had nothing: nobody gets packets while this one asks.
        let mut empty = 0;
        while batch.len() < packets_max && empty < self.inputs.len() {
            let packet = self.take(cx);
            let input = &mut self.inputs[self.next];
            match packet {
                Some(packet) if packet.len() as u64 <= input.deficit => {
                    input.deficit -= packet.len() as u64;
                    batch.push(packet);
                    empty = 0;
                    continue;
                }
                Some(packet) => {
                    input.head = Some(packet);
                    empty = 0;
                }
                None => {
                    input.deficit = 0;
                    empty += 1;
                }
            }
            self.next = (self.next + 1) % self.inputs.len();
            self.inputs[self.next].deficit += u64::from(self.quantum);
        }
        batch
    }

    fn held(&self) -> usize {
        self.inputs.iter().filter(|input| input.head.is_some()).count()
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        let Some(old) = old.downcast_mut::<Self>() else { return };
        for (input, old) in self.inputs.iter_mut().zip(&mut old.inputs) {
            (input.head, input.deficit) = (old.head.take(), old.deficit);
        }
        self.next = if old.next < self.inputs.len() { old.next } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::Time;
    use warpswitch_graph::simulate::{SimulatedHost, run, run_until};

    #[test]
    fn every_input_gives_as_many_bytes() {
        for (quantum, burst) in [("", 1), ("1", 1), ("1500", 7), ("100", 200)] {
            let source = |name: &str, bytes: u32| {
                let source = format!("InfiniteSource(LENGTH {bytes}, BURST 500)");
                format!("{source} -> Queue -> {name} :: Counter -> ")
            };
            // The task that asks runs behind the sources.
            let config = format!(
                "{}[0]d :: DRRSched({quantum}); {}[1]d; {}[2]d;
                 d -> RatedUnqueue(3000, BURST_SIZE {burst}) -> Discard;",
                source("a", 1000),
                source("b", 100),
                source("c", 500)
            );
            let host = SimulatedHost::running(0, 3 * Time::SECOND);
            let (mut router, _) = run_until(&config, &crate::registry(), host);
            let mut bytes = |name: &str| -> i64 {
                let bytes = router.read(&format!("{name}.byte_count")).expect("it is there");
                bytes.parse().expect("a number")
            };
            let [a, b, c] = ["a", "b", "c"].map(&mut bytes);
            assert!(a > 200_000, "{a}");
            let most = 2 * quantum.parse::<i64>().unwrap_or(500).max(1000) + 1000;
            assert!((a - b).abs() <= most && (a - c).abs() <= most, "{quantum}: {a} {b} {c}");
        }
    }

    #[test]
    fn nothing_stays_behind_when_its_inputs_are_empty() {
        let config = "InfiniteSource(LENGTH 9000, LIMIT 5) -> Queue -> [0]d :: DRRSched(1)
            -> c :: Counter -> Discard; Idle -> [1]d;";
        let (mut router, _) = run(config, &crate::registry());
        assert_eq!(
            (router.read("c.count"), router.read("d.held")),
            (Ok("5".into()), Ok("0".into()))
        );
        let errors = warpswitch_graph::simulate::router(
            "Idle -> DRRSched(0) -> Discard",
            &crate::registry(),
        );
        assert!(errors.err().expect("it is wrong").to_click().contains("bad QUANTUM"));
    }
}
