//! Copies the slices of a wide batch to the device.
//!
//! # Synopsis
//! `HostToDeviceMemcpy`
//!
//! # Ports
//! One input, one output; push. Accepts wide batches, see `Batcher`. Starts the copy and forwards
//! at once; kernels of downstream elements run after the copy.
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
//! Runs on the worker of its chain. Batches of up to 512 KB are not copied: kernels read them in
//! host memory. Payloads are read in place and gathered in device memory for the searches.
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUSDNClassifier(RULES web.flows) -> DeviceToHostMemcpy -> ...
//! ```

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

use super::load::Load;
use super::members;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("HostToDeviceMemcpy", "1/1", "h/h", || Box::new(HostToDeviceMemcpy))
        .drops(&["no wide batch"])
        .on_device();

/// Element `HostToDeviceMemcpy`.
#[derive(Debug)]
pub struct HostToDeviceMemcpy;

impl Element for HostToDeviceMemcpy {
    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        members::expect_chain(cx).map(|()| Vec::new())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let Some(load) = Load::of(&mut batch) else { return cx.drop_batch(batch, 0) };
        if let Some(chain) = &mut load.chain {
            chain.begin(load.words);
            if let Some(list) = &load.texts {
                chain.gather(&list.texts, list.column_at, list.texts_words);
            }
        }
        cx.emit_batch(0, batch);
    }
}
