//! Default bursts: packets that a source delivers, or a sink pulls, at a time.
//!
//! An explicit `BURST` always wins. Otherwise a source delivers its first [`SINGLE_PACKETS`] one by
//! one, so short captures run in Click's order, and bursts of [`BURST`] from then on. It stays at
//! one packet wherever the output depends on the burst:
//!
//! - in `click` mode, see [`Registry::in_click_order`];
//! - if the graph has a `Script`, or an element with inputs that calls a handler or stops the run
//!   (an argument that ends in `_CALL` or `STOP`): these act between two packets;
//! - if packets reach a scheduler (several pull inputs) or `RED`: these act on queue lengths;
//! - if packets reach a queue that is not drained in bursts: it would overflow. A queue limits
//!   bursts to half of its capacity.
//!
//! A visible effect remains: within a burst, packets of one branch are emitted before those of
//! another. Order within a branch never changes.
//!
//! Sinks that only drain a queue pull [`PULL_BURST`] packets at a time, unless one of the first
//! three conditions applies.
//!
//! [`Registry::in_click_order`]: warpswitch_graph::Registry::in_click_order

use warpswitch_graph::Context;
use warpswitch_graph::language::args::split::split_args;
use warpswitch_graph::language::{FlatElement, Processing};
use warpswitch_packet::BATCH_LEN_MAX;

/// Packets of a burst.
pub(crate) const BURST: usize = 64;
/// Packets that a sink pulls at a time: more than a burst, as several sources may share a queue.
const PULL_BURST: usize = BATCH_LEN_MAX;
/// Packets that a source delivers one by one before its first burst.
pub(crate) const SINGLE_PACKETS: u64 = 1024;

/// Capacity of queues without argument.
const QUEUE_CAPACITY: usize = 1000;

/// Sinks that pull in bursts by default.
const SINKS: [&str; 6] =
    ["Discard", "KernelTap", "KernelTun", "ToDevice", "ToDump", "ToIPSummaryDump"];

/// Burst of a source.
#[derive(Clone, Debug)]
pub(crate) struct SourceBurst {
    /// The argument `BURST`.
    pub(crate) given: Option<u32>,
    /// The default, once the first packets are delivered.
    limit: usize,
    delivered: u64,
}

impl Default for SourceBurst {
    fn default() -> Self {
        Self { given: None, limit: 1, delivered: 0 }
    }
}

impl SourceBurst {
    /// Chooses the default for the element of `cx`. Belongs into `initialize`.
    pub(crate) fn settle(&mut self, cx: &Context<'_>) {
        self.limit = if acts_between_packets(cx) { 1 } else { limit_downstream(cx) };
    }

    /// The same for a source that waits for room in queues: one packet at a time if there are any.
    pub(crate) fn settle_without_queues(&mut self, cx: &Context<'_>) {
        self.settle(cx);
        let reached = cx.flow().downstream(cx.element(), None, |_| false);
        if reached.into_iter().any(|element| is_queue(cx, element)) {
            self.limit = 1;
        }
    }

    /// Packets of a burst of a live interface, which needs no order of single packets.
    pub(crate) fn live_len(&self) -> usize {
        let len = self.given.map_or(self.limit, |given| given as usize);
        len.clamp(1, BATCH_LEN_MAX)
    }

    /// Packets of the next burst.
    pub(crate) fn len(&self) -> usize {
        match self.given {
            Some(given) => (given as usize).clamp(1, BATCH_LEN_MAX),
            None if self.delivered < SINGLE_PACKETS => 1,
            None => self.limit,
        }
    }

    /// Counts delivered packets.
    pub(crate) fn note(&mut self, packets: usize) {
        self.delivered += packets as u64;
    }
}

/// Burst of a sink with a pull input.
#[derive(Clone, Debug)]
pub(crate) struct SinkBurst {
    /// The argument `BURST`.
    pub(crate) given: Option<u32>,
    limit: usize,
}

impl Default for SinkBurst {
    fn default() -> Self {
        Self { given: None, limit: 1 }
    }
}

impl SinkBurst {
    /// Chooses the default for the element of `cx`, which pulls at input 0. Belongs into
    /// `initialize`.
    pub(crate) fn settle(&mut self, cx: &Context<'_>) {
        let mut is_plain = true;
        cx.flow().upstream(cx.element(), Some(0), |visit| {
            is_plain &= !is_scheduler(cx, visit.at.element);
            is_queue(cx, visit.at.element)
        });
        self.limit = if is_plain && !acts_between_packets(cx) { PULL_BURST } else { 1 };
    }

    /// Packets to pull.
    pub(crate) fn len(&self) -> usize {
        self.given.map_or(self.limit, |given| (given as usize).clamp(1, BATCH_LEN_MAX))
    }
}

/// Whether something acts between two packets, so bursts would show.
fn acts_between_packets(cx: &Context<'_>) -> bool {
    let acts = |(idx, element): (usize, &FlatElement)| {
        let has_inputs = !cx.ports_of(idx).inputs.is_empty();
        element.class == "Script"
            || has_inputs
                && keywords(element).any(|word| word.ends_with("_CALL") || word.ends_with("STOP"))
    };
    cx.keeps_click_order() || cx.graph().elements.iter().enumerate().any(acts)
}

/// Keywords of the arguments of `element`.
fn keywords(element: &FlatElement) -> impl Iterator<Item = String> {
    split_args(&element.config).into_iter().filter_map(|arg| {
        let (word, _) = arg.split_once(char::is_whitespace)?;
        Some(word.to_owned())
    })
}

/// The value of argument `keyword` of `element`, or of its first one without keyword if
/// `is_first`.
fn number(element: &FlatElement, keyword: &str, is_first: bool) -> Option<i64> {
    let args = split_args(&element.config);
    let named = args.iter().find_map(|arg| {
        let (word, value) = arg.split_once(char::is_whitespace)?;
        (word == keyword).then(|| value.trim().to_owned())
    });
    let value = named.or_else(|| args.first().filter(|_| is_first).cloned())?;
    value.parse().ok()
}

fn is_queue(cx: &Context<'_>, element: usize) -> bool {
    let ports = cx.ports_of(element);
    ports.inputs.contains(&Processing::Push) && ports.outputs.contains(&Processing::Pull)
}

fn is_scheduler(cx: &Context<'_>, element: usize) -> bool {
    let inputs = cx.ports_of(element).inputs.iter();
    inputs.filter(|input| **input == Processing::Pull).count() > 1
}

/// The longest burst that everything downstream takes without a difference.
fn limit_downstream(cx: &Context<'_>) -> usize {
    let mut limit = BURST;
    for idx in cx.flow().downstream(cx.element(), None, |_| false) {
        let element = &cx.graph().elements[idx];
        if is_scheduler(cx, idx) || element.class == "RED" {
            return 1;
        }
        if is_queue(cx, idx) {
            let capacity = number(element, "CAPACITY", true).and_then(|n| usize::try_from(n).ok());
            let has_argument = !element.config.trim().is_empty();
            let capacity = match capacity {
                Some(capacity) => capacity,
                None if has_argument => return 1,
                None => QUEUE_CAPACITY,
            };
            limit = limit.min((capacity / 2).max(1));
        }
        if pulls_singly(cx, idx) {
            return 1;
        }
    }
    limit
}

/// Whether `element` pulls packets in less than bursts.
fn pulls_singly(cx: &Context<'_>, idx: usize) -> bool {
    let ports = cx.ports_of(idx);
    let pulls = ports.inputs.contains(&Processing::Pull);
    if !pulls || ports.outputs.contains(&Processing::Pull) {
        return false;
    }
    let element = &cx.graph().elements[idx];
    let burst = number(element, "BURST", element.class == "Unqueue");
    match burst {
        Some(burst) => {
            // Of an Unqueue -1 means as many as there are, of a Discard 0 does.
            let has_no_limit = burst < 0 || burst == 0 && element.class == "Discard";
            !has_no_limit && burst < BURST as i64
        }
        None => !SINKS.contains(&element.class.as_str()),
    }
}
