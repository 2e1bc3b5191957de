//! Holds wide batches in flight and emits them in order when the device has completed them.
//!
//! # Synopsis
//! `GPUCompletionQueue`
//!
//! # Ports
//! One input, one output; push. Accepts wide batches, see `Batcher`. Emits each when its results
//! have arrived and all earlier ones have left: packets keep their order even if the device
//! completes batches out of order.
//!
//! # Configuration
//! None. The `DEPTH` of the `Batcher` limits the number of wide batches in flight.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | wide batches held |
//! | `highwater_length` | read | maximum of `length` so far |
//!
//! # Drops
//! - `no wide batch`: packets that did not pass a `Batcher`
//!
//! # Threads
//! Runs on the worker of its chain. Its task polls the device while it holds a wide batch.
//!
//! # Example
//! ```text
//! ... -> DeviceToHostMemcpy -> done :: GPUCompletionQueue -> Debatcher -> ...
//! ```

use std::collections::VecDeque;

use warpswitch_gpu::Chain;
use warpswitch_graph::{Context, Element, ElementClass, HandlerError, HandlerSpec};
use warpswitch_packet::Batch;

use super::batcher::Batcher;
use super::load::Load;
use super::members;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUCompletionQueue", "1/1", "h/h", || Box::<GpuCompletionQueue>::default())
        .drops(&["no wide batch"]);

/// Element `GPUCompletionQueue`.
#[derive(Debug, Default)]
pub struct GpuCompletionQueue {
    batches: VecDeque<Batch>,
    most: usize,
}

impl Element for GpuCompletionQueue {
    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        members::expect_chain(cx).map(|()| Vec::new())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let Some(load) = Load::of(&mut batch) else { return cx.drop_batch(batch, 0) };
        if load.is_passing && self.batches.is_empty() {
            return cx.emit_batch(0, batch);
        }
        self.batches.push_back(batch);
        self.most = self.most.max(self.batches.len());
        cx.schedule_task();
    }

    /// Emits at most one batch per run, so that the scheduler does not merge wide batches.
    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(oldest) = self.batches.front_mut() else { return false };
        let chain = Load::of(oldest).and_then(|load| load.chain.as_mut());
        let is_done = chain.is_none_or(Chain::poll);
        if is_done && let Some(batch) = self.batches.pop_front() {
            cx.emit_batch(0, batch);
        }
        if !self.batches.is_empty() {
            cx.schedule_task();
        }
        is_done
    }

    /// Returns batches in flight to the new `Batcher`, in front of waiting packets: their results
    /// belong to elements of the old chain.
    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        let (Some(old), Some(batcher)) = (old.downcast_mut::<Self>(), members::batcher_before(cx))
        else {
            return;
        };
        while let Some(mut batch) = old.batches.pop_back() {
            let lens = Load::take(&mut batch).map(|load| load.lens).unwrap_or_default();
            cx.with_element(batcher, |batcher: &mut Batcher, cx| {
                batcher.take_back(cx, &mut batch, &lens);
            });
            cx.pool().recycle_batch(batch);
        }
    }

    fn held(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("length"), HandlerSpec::read("highwater_length")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "length" => self.batches.len().to_string(),
            _ => self.most.to_string(),
        })
    }
}
