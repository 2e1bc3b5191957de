//! Holds wide batches until the device has answered them, in their order.
//!
//! # Synopsis
//! `GPUCompletionQueue`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`, and gives each on once its
//! answers are there and those before it have gone: packets keep their order, whatever order the
//! device works in.
//!
//! # Configuration
//! None. How many batches there can be is the `DEPTH` of the `Batcher`.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | wide batches that it holds |
//! | `highwater_length` | read | the most that it held |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain. Its task looks again and again while it holds something.
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

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUCompletionQueue", "1/1", "h/h", || Box::<GpuCompletionQueue>::default())
        .drops(&["no wide batch"]);

/// See the module.
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

    /// One batch a turn: wide batches stay apart on their way.
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

    /// What was under way goes through the new chain, in front of what waits there: its answers are
    /// those of elements that are gone.
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
