//! Ends a chain: applies the results of the device and emits the original batches.
//!
//! # Synopsis
//! `Debatcher`
//!
//! # Ports
//! One input, one output; push. Accepts completed wide batches, see `Batcher`. Each device element
//! applies its results to the packets, in the order of the chain. Then the `Debatcher` emits the
//! packets in the batches in which they arrived at the `Batcher`, so that downstream elements
//! behave as without a chain.
//!
//! If all downstream queues are full, holds up to 32768 packets and applies back-pressure to the
//! `Batcher`, as to sources. On a stop, the run waits until no packet has left for one second;
//! packets that remain are still held in the graph.
//!
//! Batches leave at the rate at which sources emit new ones, so a wide batch of many small batches
//! would leave a lasting backlog. If a good part of a wide batch is still held when the next one
//! arrives, the `Batcher`, and `FromDevice` of interfaces, pause until it has left. Meanwhile
//! frames wait at the interface and arrive in larger batches.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | packets held |
//!
//! # Drops
//! - `no wide batch`: packets that did not pass a `Batcher`
//!
//! # Threads
//! Runs on the worker of its chain.
//!
//! # Example
//! ```text
//! ... -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher; out[0] -> ...; out[1] -> ...;
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_elements_lookup::routes::PacketAddress;
use warpswitch_graph::{Context, Element, ElementClass, HandlerError, HandlerSpec, Time};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, Column, annotation};

use super::load::{Home, Load};
use super::members;
use super::slices::Family;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("Debatcher", "1/1", "h/h", || Box::<Debatcher>::default())
        .drops(&["no wide batch"])
        .signals_full()
        .pauses_interfaces();

/// The most packets held under back-pressure. Beyond that, as with several sources for one chain,
/// all are emitted at once.
const PACKETS_MAX: usize = 1 << 15;

/// Packets of earlier wide batches that are no backlog when the next one arrives, at least.
const BACKLOG_MIN: usize = BATCH_LEN_MAX;
/// The same as a part of the wide batch that arrives: one in so many packets.
const BACKLOG_PART: usize = 4;

/// The timer that runs while all downstream queues are full.
const PATIENCE: usize = 0;
/// Its duration.
const PATIENCE_NS: i64 = 1_000_000_000;

/// Element `Debatcher`.
#[derive(Debug, Default)]
pub struct Debatcher {
    /// Original batches, and the chain that each leaves.
    batches: VecDeque<(Batch, Option<Arc<Home>>)>,
    /// Packets in them.
    held: usize,
    /// Downstream queues; empty unless all packets end in queues.
    queues: Vec<usize>,
    /// Whether the timer is set or has expired.
    is_patient: bool,
    /// While sources pause for a backlog, the number of held packets at which they go on.
    caught_up: Option<usize>,
}

impl Debatcher {
    /// Pauses sources if packets of earlier wide batches are a backlog when one of `count` packets
    /// arrives.
    fn note_backlog(&mut self, cx: &mut Context<'_>, count: usize) {
        if self.held > BACKLOG_MIN.max(count / BACKLOG_PART) {
            self.caught_up = Some(count.max(BACKLOG_MIN));
            cx.set_full(true);
        }
    }

    /// Emits one batch per call: batches emitted together would be merged.
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
        let has_caught_up = self.caught_up.is_some_and(|limit| self.held <= limit);
        if self.batches.is_empty() || has_caught_up {
            self.caught_up = None;
            cx.set_full(false);
        }
        if !self.batches.is_empty() {
            cx.schedule_task();
        }
    }

    /// Sets whether the chains of the held packets are stuck.
    fn tell_stuck(&self, is_stuck: bool) {
        let homes = self.batches.iter().filter_map(|(_, home)| home.as_ref());
        homes.for_each(|home| home.set_stuck(is_stuck));
    }
}

/// Saves the annotations that members read, before any member changes them. Batches that did not
/// bypass the device have their destinations in slices.
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
    // The first member reads the unchanged annotation.
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
            load.keep_results(&batch);
            batch.set_results(&load.results);
        }
        if let (Some((offload, clock)), Some(began), Some(choice)) =
            (home.chooser(), began, load.choice.take())
        {
            let taken_ns = offload.costs().result_ns() * batch.len() as f64;
            let cost = load.cost + clock().saturating_sub(began);
            offload.policy().note(choice, cost + Duration::from_nanos(taken_ns as u64));
        }
        self.note_backlog(cx, batch.len());
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

    /// No packet has left for a second: a stop must not wait any longer.
    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        self.tell_stuck(true);
        // Wakes the elements that wait for room.
        cx.set_full(false);
        cx.set_full(true);
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.held += std::mem::take(&mut old.held);
            // The chain that counted them no longer exists.
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
