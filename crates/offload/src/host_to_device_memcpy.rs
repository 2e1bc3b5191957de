//! Sends the slices of a wide batch to the device.
//!
//! # Synopsis
//! `HostToDeviceMemcpy`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`, and gives them on at once: what
//! was sent is there before the elements behind have the device read it.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain. A batch of up to 512 KB is not copied: kernels read it where
//! it is. Payloads are read where they lie, and laid out in the device's memory for those who
//! search them.
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUSDNClassifier(RULES web.flows) -> DeviceToHostMemcpy -> ...
//! ```

use warpswitch_graph::{Context, Element, ElementClass};
use warpswitch_packet::Batch;

use super::load::Load;
use super::members;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("HostToDeviceMemcpy", "1/1", "h/h", || Box::new(HostToDeviceMemcpy))
        .drops(&["no wide batch"])
        .on_device();

/// See the module.
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
