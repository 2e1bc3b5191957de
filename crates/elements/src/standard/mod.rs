//! Elements that know no protocol: sources, sinks, queues, counters, switches.

mod counter;
mod discard;
mod idle;
mod infinite_source;
mod meter;
mod null;
mod print;
mod queue;
mod rated;
mod rated_source;
mod sched;
mod shaper;
mod strip;
mod tee;
mod timed;
mod unqueue;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &counter::CLASS,
    &discard::CLASS,
    &idle::CLASS,
    &idle::SIMPLE,
    &infinite_source::CLASS,
    &meter::BANDWIDTH,
    &meter::CLASS,
    &null::ALIGN,
    &null::CLASS,
    &null::PULL,
    &null::PUSH,
    &print::CLASS,
    &queue::CLASS,
    &queue::FRONT_DROP,
    &queue::FULL_NOTE,
    &queue::MIXED,
    &queue::NOTIFIER,
    &queue::QUICK_NOTE,
    &queue::SIMPLE,
    &queue::THREAD_SAFE,
    &rated::BANDWIDTH_SPLITTER,
    &rated::BANDWIDTH_UNQUEUE,
    &rated::SPLITTER,
    &rated::UNQUEUE,
    &rated_source::CLASS,
    &sched::PRIORITY,
    &sched::ROUND_ROBIN,
    &sched::SIMPLE_PRIORITY,
    &sched::SIMPLE_ROUND_ROBIN,
    &shaper::BANDWIDTH,
    &shaper::CLASS,
    &strip::CLASS,
    &strip::UNSTRIP,
    &tee::CLASS,
    &tee::PULL,
    &timed::CLASS,
    &timed::SINK,
    &unqueue::CLASS,
];
