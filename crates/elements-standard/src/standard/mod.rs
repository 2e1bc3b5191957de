//! Protocol-independent elements: sources, sinks, queues, counters, switches.

mod adjust_timestamp;
mod average_counter;
mod burster;
mod check_length;
mod clipboard;
mod counter;
mod cut;
mod delay;
mod discard;
mod drr;
mod hub;
mod idle;
mod infinite_source;
mod info;
mod link_unqueue;
mod meter;
mod null;
mod pad;
mod print;
mod queue;
mod random;
mod random_seed;
mod rated;
mod rated_source;
mod red;
mod replay;
mod resize;
mod sched;
mod set_packet_type;
mod set_timestamp;
mod shaper;
mod static_thread_sched;
mod store_data;
mod stride;
mod strip;
mod tee;
mod time_filter;
mod time_sorted;
mod timed;
mod timestamp_accum;
mod unqueue;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &adjust_timestamp::CLASS,
    &average_counter::CLASS,
    &burster::CLASS,
    &check_length::CLASS,
    &clipboard::CLASS,
    &counter::CLASS,
    &cut::TO_NETWORK,
    &cut::TRUNCATE,
    &cut::UNSTRIP_ANNO,
    &delay::SHAPER,
    &delay::UNQUEUE,
    &discard::CLASS,
    &drr::CLASS,
    &hub::CLASS,
    &idle::CLASS,
    &idle::SIMPLE,
    &infinite_source::CLASS,
    &info::ADDRESS,
    &info::ALIGNMENT,
    &info::CLICKY,
    &info::PORT,
    &info::SCHEDULE,
    &link_unqueue::CLASS,
    &meter::BANDWIDTH,
    &meter::CLASS,
    &null::ALIGN,
    &null::CLASS,
    &null::PULL,
    &null::PUSH,
    &pad::CLASS,
    &print::CLASS,
    &queue::CLASS,
    &queue::FRONT_DROP,
    &queue::FULL_NOTE,
    &queue::MIXED,
    &queue::NOTIFIER,
    &queue::QUICK_NOTE,
    &queue::SIMPLE,
    &queue::THREAD_SAFE,
    &random::BIT_ERRORS,
    &random::SAMPLE,
    &random::SPLITTER,
    &random_seed::CLASS,
    &rated::BANDWIDTH_SPLITTER,
    &rated::BANDWIDTH_UNQUEUE,
    &rated::SPLITTER,
    &rated::UNQUEUE,
    &rated_source::CLASS,
    &red::CLASS,
    &replay::CLASS,
    &resize::CLASS,
    &sched::PRIORITY,
    &sched::ROUND_ROBIN,
    &sched::SIMPLE_PRIORITY,
    &sched::SIMPLE_ROUND_ROBIN,
    &set_packet_type::CLASS,
    &set_timestamp::CLASS,
    &set_timestamp::DELTA,
    &shaper::BANDWIDTH,
    &shaper::CLASS,
    &static_thread_sched::CLASS,
    &store_data::CLASS,
    &stride::SCHED,
    &stride::SWITCH,
    &strip::CLASS,
    &strip::UNSTRIP,
    &tee::CLASS,
    &tee::PULL,
    &time_filter::CLASS,
    &time_sorted::CLASS,
    &timed::CLASS,
    &timed::SINK,
    &timestamp_accum::CLASS,
    &unqueue::CLASS,
];
