//! Emits each packet on a random output.
//!
//! # Synopsis
//! `RandomSwitch`
//!
//! # Ports
//! One push input, one or more push outputs, chosen with equal probability.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! One instance per worker; the random numbers derive from the seed of the run.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> s :: RandomSwitch; s[0] -> Queue -> …; s[1] -> Queue -> …;
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("RandomSwitch", "1/1-", "h/h", || Box::new(RandomSwitch));

/// See the module.
#[derive(Clone, Debug)]
pub struct RandomSwitch;

impl Element for RandomSwitch {
    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let outputs = cx.outputs() as u64;
        for packet in batch.drain() {
            let output = (u64::from(cx.random()) * outputs) >> 32;
            cx.emit(output as usize, packet);
        }
        cx.pool().recycle_empty(batch);
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::run;

    #[test]
    fn outputs_get_about_as_many() {
        let config = "InfiniteSource(LIMIT 3000, BURST 32) -> s :: RandomSwitch;
            s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;
            s[2] -> c :: Counter -> Discard;";
        let (mut router, _) = run(config, &crate::registry());
        let counts = ["a", "b", "c"].map(|name| router.read(&format!("{name}.count")));
        let counts =
            counts.map(|count| count.expect("it is there").parse::<u32>().expect("a count"));
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(counts.iter().sum::<u32>(), 3000);
    }
}
