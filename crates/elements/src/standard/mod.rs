//! Elements that know no protocol: sources, sinks, queues, counters, switches.

mod counter;
mod discard;
mod idle;
mod infinite_source;
mod queue;
mod strip;
mod tee;
mod unqueue;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &counter::CLASS,
    &discard::CLASS,
    &idle::CLASS,
    &infinite_source::CLASS,
    &queue::CLASS,
    &queue::SIMPLE,
    &strip::CLASS,
    &strip::UNSTRIP,
    &tee::CLASS,
    &tee::PULL,
    &unqueue::CLASS,
];
