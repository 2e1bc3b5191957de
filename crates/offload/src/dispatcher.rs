//! Emits each packet on the output whose number is in an annotation.
//!
//! # Synopsis
//! `Dispatcher([ANNO PLACE])`
//!
//! # Ports
//! One input, any number of outputs; push.
//!
//! In a chain, between `HostToDeviceMemcpy` and `DeviceToHostMemcpy`, it begins branches: each of
//! its outputs leads to device elements, or directly to `DeviceToHostMemcpy`, where all branches
//! join. The elements of a branch process the packets with its number, which must also match their
//! `CHK_ANNO`. Packets with another number pass the chain without them; none is dropped. A branch
//! has no `Dispatcher`, and no element with `FOR`. Wide batches stay whole and in order: all of
//! their packets count and are traced on output 0, and none on other outputs.
//!
//! # Configuration
//! - `ANNO`: offset of the 4-byte annotation with the output number; default: 40, the default of
//!   `GPUIPLookup` and `GPUSDNClassifier`
//!
//! # Handlers
//! None.
//!
//! # Drops
//! Outside of chains:
//!
//! - `no output`: the number is 0xffffffff: no route matched, or a rule drops the packet
//! - `beyond outputs`: a route or rule names an output that this element does not have
//!
//! # Threads
//! One instance per worker; in a chain, one on its worker.
//!
//! # Example
//! ```text
//! ... -> Debatcher -> out :: Dispatcher; out[0] -> ToDump(a.pcap); out[1] -> ToDump(b.pcap);
//!
//! ... -> GPUSDNClassifier(RULES web.flows) -> by :: Dispatcher;
//! by[0] -> GPUIPLookup(10.0.0.0/24 0, 0/0 1, ANNO 36) -> end :: DeviceToHostMemcpy;
//! by[1] -> GPUIDSMatcher(RULES web.rules, OUT eve.json) -> end;
//! end -> GPUCompletionQueue -> Debatcher -> ...
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing, drop_for};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Column};

use super::anno::{self, NO_OUTPUT, NUMBER_ANNO};
use super::annotated;
use super::branches;
use super::load::Load;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("Dispatcher", "1/-", "h/h", || Box::<Dispatcher>::default())
        .drops(&["no output", "beyond outputs"]);

/// Indices of the drop reasons.
const NONE: usize = 0;
const BEYOND: usize = 1;

/// Element `Dispatcher`.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    anno: usize,
    outputs: Vec<u32>,
}

impl Default for Dispatcher {
    fn default() -> Self {
        Self { anno: NUMBER_ANNO, outputs: Vec::with_capacity(BATCH_LEN_MAX) }
    }
}

impl Element for Dispatcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        anno::read_place(args, "ANNO", &mut self.anno);
        args.complete()
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        let asks = format!("ANNO {}", self.anno);
        let so = "so it is 0 and all packets leave on output 0";
        Ok(annotated::unwritten(cx, asks, self.anno, so).into_iter().collect())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let packets = batch.len();
        if let Some(load) = Load::of(&mut batch) {
            branches::launch(cx, load, packets);
            return cx.emit_batch(0, batch);
        }
        let outputs = cx.outputs() as u32;
        if let Some(Column::All(number)) = batch.anno_column(self.anno)
            && number < outputs
        {
            return cx.emit_batch(number as usize, batch);
        }
        self.outputs.clear();
        batch.read_annos(self.anno, &mut self.outputs);
        for number in &mut self.outputs {
            *number = match *number {
                number if number < outputs => number,
                NO_OUTPUT => drop_for(NONE as u32),
                _ => drop_for(BEYOND as u32),
            };
        }
        cx.emit_each(batch, &self.outputs);
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::run_shown as run;

    #[test]
    fn counts_missing_outputs_apart_from_none() {
        let number = |byte: u8| -> String {
            (40..44).map(|at| format!("-> SetAnno({at}, {byte}) ")).collect()
        };
        let (beyond, none) = (number(2), number(255));
        let config = format!(
            "InfiniteSource(LIMIT 3) {beyond} -> by :: Dispatcher; InfiniteSource(LIMIT 2) {none}
            -> by; InfiniteSource(LIMIT 1) -> by; by[0] -> c :: Counter -> Discard;"
        );
        let (_, _, mut router) = run(&config);
        assert_eq!(router.read("c.count"), Ok("1".into()));
        assert_eq!(
            router.read("by.drops_by_reason"),
            Ok("2\tno output\n3\tbeyond outputs\n".into())
        );
    }
}
