//! Looks for the rules of Snort or Suricata in wide batches, with the device's help.
//!
//! # Synopsis
//! `GPUIDSMatcher(RULES FILE [FILE ...] [, OUT FILE, VARS "NAME=VALUE" ..., LINK LINK, FLOWS_MAX N,
//! MEMORY_MAX BYTES, WINDOW BYTES, PAYLOAD BYTES, ANNO PLACE, CHK_ANNO PLACE=NUMBER])`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`.
//!
//! # Configuration
//! - `RULES`, `OUT`, `VARS`, `LINK`, `FLOWS_MAX`, `MEMORY_MAX`, `WINDOW`, `PAYLOAD`: as for
//!   `IDSMatcher`
//! - `ANNO`: place of the annotation that gets 1 for packets that a rule was found in, and 0 for
//!   others, four bytes; 44 by default
//! - `CHK_ANNO`: only packets whose annotation at `PLACE`, of four bytes, is `NUMBER` are looked
//!   into: a predicate, which an element before in the chain has decided
//!
//! Flows and streams are in order only behind the queue, so that is where texts are gathered: those
//! of a whole wide batch are searched by the device at once, for what is looked for first in each
//! rule, and confirmed by the worker.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | all of `IDSMatcher` | | as there; `on_device` and `on_cores` tell where texts were searched |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain. Source: GPUIDSMatcher of Snap (Sun and Ricci, ANCS 2013,
//! section 4), with streams.
//!
//! # Example
//! ```text
//! Batcher -> HostToDeviceMemcpy -> GPUIDSMatcher(RULES conf/ids.rules, OUT eve.json)
//!   -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> told :: Dispatcher(ANNO 44);
//! ```

use std::sync::Arc;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;

use super::anno::{self, Predicate};
use super::load::{Load, Step};
use super::members::{self, ChainMember, Joined};
use super::place::Offload;
use crate::inspect::ids_matcher::IdsMatcher;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("GPUIDSMatcher", "1/1", "h/h", || Box::<GpuIdsMatcher>::default())
        .drops(&["no wide batch"])
        .on_device();

/// Where it is written whether a rule was found.
const FOUND_ANNO: usize = 44;

/// See the module.
pub struct GpuIdsMatcher {
    own: IdsMatcher,
    anno: usize,
    predicate: Option<Predicate>,
}

impl Default for GpuIdsMatcher {
    fn default() -> Self {
        Self { own: IdsMatcher::default(), anno: FOUND_ANNO, predicate: None }
    }
}

impl ChainMember for GpuIdsMatcher {
    fn join(
        &mut self,
        _cx: &mut Context<'_>,
        _offload: &Arc<Offload>,
        _lookup: usize,
    ) -> Result<Joined, String> {
        // It takes texts to the device by itself.
        Ok(Joined { slice: None, answer_bytes: 0, ahead: None })
    }

    fn apply(&mut self, cx: &mut Context<'_>, _step: &Step, _load: &mut Load, batch: &mut Batch) {
        let (anno, predicate) = (self.anno, self.predicate);
        let hits = self.own.look(cx, batch, |packet| anno::is_for(predicate, packet));
        for (packet, &is_hit) in batch.iter_mut().zip(hits) {
            if anno::is_for(predicate, packet) {
                packet.set_anno_u32(anno, is_hit.into());
            }
        }
    }
}

impl Element for GpuIdsMatcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        anno::read_place(args, "ANNO", &mut self.anno);
        self.predicate = Predicate::read(args);
        self.own.configure(args, context)
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        members::expect_chain(cx)?;
        self.own.initialize(cx)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let Some(load) = Load::of(&mut batch) else { return cx.drop_batch(batch, 0) };
        load.steps.push(Step::new(cx.element()));
        cx.emit_batch(0, batch);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        self.own.handlers()
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        self.own.read(cx, name, param)
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.own.write(cx, name, value)
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.own.take_state(cx, &mut old.own);
        }
    }

    fn finish(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.own.finish(cx)
    }
}
