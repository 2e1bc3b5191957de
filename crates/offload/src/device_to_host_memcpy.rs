//! Copies the results of a wide batch back from the device.
//!
//! # Synopsis
//! `DeviceToHostMemcpy`
//!
//! # Ports
//! One input, one output; push. Accepts wide batches, see `Batcher`. Starts the copy and forwards
//! at once; the `GPUCompletionQueue` downstream waits for completion.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no wide batch`: packets that did not pass a `Batcher`
//!
//! # Threads
//! Runs on the worker of its chain.
//!
//! # Example
//! ```text
//! ... -> GPUIPLookup(0/0 0) -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> ...
//! ```

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

use super::load::Load;
use super::members;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("DeviceToHostMemcpy", "1/1", "h/h", || Box::new(DeviceToHostMemcpy))
        .drops(&["no wide batch"])
        .on_device();

/// Element `DeviceToHostMemcpy`.
#[derive(Debug)]
pub struct DeviceToHostMemcpy;

impl Element for DeviceToHostMemcpy {
    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        members::expect_chain(cx).map(|()| Vec::new())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let Some(load) = Load::of(&mut batch) else { return cx.drop_batch(batch, 0) };
        if let Some(chain) = &mut load.chain {
            chain.end();
        }
        if let Some((_, clock)) = load.home.chooser() {
            load.cost += clock().saturating_sub(load.began);
        }
        cx.emit_batch(0, batch);
    }
}
