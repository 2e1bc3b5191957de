//! Ends a chain: what the device found goes to the packets, which go on as before.
//!
//! # Synopsis
//! `Debatcher`
//!
//! # Ports
//! One input, one output; push. Takes wide batches, see `Batcher`, whose answers are there. Each
//! element of the chain does to the packets what its answers ask for, in the order of the chain;
//! then they leave in the batches in which they came to the `Batcher`: what comes behind does all
//! as if there were no chain. They wait here while all queues that they would come to are full, as
//! sources do, and with them the `Batcher`; but not more than 32768 of them. A run that is to stop
//! waits for them for a second in which none leaves; what stays here then stands in the graph.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | packets that it holds |
//!
//! # Drops
//! - `no wide batch`: packets that did not come through a `Batcher`
//!
//! # Threads
//! Belongs to the worker of its chain.
//!
//! # Example
//! ```text
//! ... -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher; out[0] -> ...; out[1] -> ...;
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_elements::route_lookup::PacketAddress;
use warpswitch_graph::{Context, Element, ElementClass, HandlerError, HandlerSpec, Time};
use warpswitch_packet::{Batch, Column, annotation};

use super::load::{Home, Load};
use super::members;
use super::slices::Family;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Debatcher", "1/1", "h/h", || Box::<Debatcher>::default())
        .drops(&["no wide batch"])
        .tells_full();

/// Packets that may stay in the batches in which they came. Where more do, as several sources come
/// to one chain, all leave at once.
const PACKETS_MAX: usize = 1 << 15;

/// The timer that runs while packets wait for room.
const PATIENCE: usize = 0;
/// How long.
const PATIENCE_NS: i64 = 1_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub struct Debatcher {
    /// Batches as they came to the `Batcher`, and whose chain they leave.
    batches: VecDeque<(Batch, Option<Arc<Home>>)>,
    /// Packets in them.
    held: usize,
    /// Where packets come to rest behind it, if they all come to rest somewhere.
    queues: Vec<usize>,
    /// Whether the timer for the end of patience is set, or has run.
    is_patient: bool,
}

impl Debatcher {
    /// Emits one batch: those that are emitted at once would be one.
    fn emit(&mut self, cx: &mut Context<'_>) {
        let is_crowded = self.held > PACKETS_MAX;
        if cx.are_full(&self.queues) && !is_crowded && self.held > 0 {
            cx.set_full(true);
            if !std::mem::replace(&mut self.is_patient, true) {
                cx.set_timer(PATIENCE, Time(cx.now().0.saturating_add(PATIENCE_NS)));
            }
            return;
        }
        if std::mem::take(&mut self.is_patient) {
            cx.clear_timer(PATIENCE);
            self.tell_stuck(false);
        }
        while let Some((batch, home)) = self.batches.pop_front() {
            self.held -= batch.len();
            if let Some(home) = home {
                home.count_left(batch.len() as u64);
            }
            cx.emit_batch(0, batch);
            if !is_crowded {
                break;
            }
        }
        if self.batches.is_empty() {
            cx.set_full(false);
        } else {
            cx.schedule_task();
        }
    }

    /// Tells whose packets wait here whether they do so for long.
    fn tell_stuck(&self, is_stuck: bool) {
        let homes = self.batches.iter().filter_map(|(_, home)| home.as_ref());
        homes.for_each(|home| home.set_stuck(is_stuck));
    }
}

/// Whatever members do to packets, all see what came. Destinations are in slices, if the device has
/// seen the batch.
fn keep_annotations(load: &mut Load, batch: &Batch) {
    let is_past_device = load.chain.is_none();
    let is_wanted =
        |family| is_past_device && load.steps.iter().any(|step| step.destinations == Some(family));
    let (is_v4, is_v6) = (is_wanted(Family::Ipv4), is_wanted(Family::Ipv6));
    if is_v4 {
        batch.read_annos(annotation::DST, &mut load.destinations);
        load.destinations.iter_mut().for_each(|address| *address = u32::from_be(*address));
    }
    if is_past_device {
        load.keep_slices(batch);
    }
    if is_v6 {
        load.destinations6.extend(batch.iter_ahead().map(u128::of));
    }
    // The first one sees them as they are.
    if load.steps.iter().skip(1).any(|step| step.sees_paints) {
        match batch.anno_column(annotation::PAINT) {
            Some(Column::All(0)) => load.paints.resize(batch.len(), 0),
            _ => {
                let paints = batch.iter_ahead().map(|packet| packet.anno_u8(annotation::PAINT));
                load.paints.extend(paints);
            }
        }
    }
}

impl Element for Debatcher {
    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        members::expect_chain(cx).map(|()| Vec::new())
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.queues = cx.listen_downstream(0);
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, mut batch: Batch) {
        let Some(mut load) = Load::take(&mut batch) else { return cx.drop_batch(batch, 0) };
        let home = load.home.clone();
        if load.is_passing && self.batches.is_empty() && !cx.are_full(&self.queues) {
            home.put(load);
            home.count_left(batch.len() as u64);
            return cx.emit_batch(0, batch);
        }
        let began = home.chooser().map(|(_, clock)| clock());
        keep_annotations(&mut load, &batch);
        if load.packet_lens.len() == batch.len() {
            batch.defer(load.packet_lens.iter().copied());
        }
        let steps = std::mem::take(&mut load.steps);
        for step in &steps {
            members::apply(cx, step, &mut load, &mut batch);
        }
        load.steps = steps;
        if load.results.len() == batch.len() {
            batch.set_results(&load.results);
        }
        if let (Some((offload, clock)), Some(began), Some(choice)) =
            (home.chooser(), began, load.choice.take())
        {
            let taken_ns = offload.costs().result_ns() * batch.len() as f64;
            let cost = load.cost + clock().saturating_sub(began);
            offload.policy().note(choice, cost + Duration::from_nanos(taken_ns as u64));
        }
        self.held += batch.len();
        let first = self.batches.len();
        for len in load.lens.drain(..).rev() {
            let mut part = cx.pool().batch();
            batch.split_last(len, &mut part);
            self.batches.push_back((part, Some(home.clone())));
        }
        self.batches.make_contiguous()[first..].reverse();
        home.put(load);
        cx.pool().recycle_empty(batch);
        self.emit(cx);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let held = self.held;
        self.emit(cx);
        self.held < held
    }

    /// No packet has left for long: perhaps none ever will.
    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        self.tell_stuck(true);
        // Who waits for room looks once more.
        cx.set_full(false);
        cx.set_full(true);
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.held += std::mem::take(&mut old.held);
            // They were counted by a chain that is gone.
            self.batches.extend(old.batches.drain(..).map(|(batch, _)| (batch, None)));
            cx.schedule_task();
        }
    }

    fn held(&self) -> usize {
        self.held
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("length")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.held.to_string())
    }
}
