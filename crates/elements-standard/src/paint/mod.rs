//! Paint and other annotations, and switches that ignore the contents of packets.

mod bypass;
mod check_paint;
mod color;
mod hash_switch;
mod input_switch;
mod paint_switch;
mod paint_tee;
mod pull_switch;
mod random_switch;
mod round_robin_switch;
mod set_paint;
mod suppressor;
mod switch;

use warpswitch_graph::ElementClass;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &bypass::CLASS,
    &check_paint::CLASS,
    &hash_switch::CLASS,
    &input_switch::CLASS,
    &paint_switch::CLASS,
    &paint_tee::CLASS,
    &pull_switch::CLASS,
    &pull_switch::SIMPLE,
    &pull_switch::STATIC,
    &random_switch::CLASS,
    &round_robin_switch::CLASS,
    &set_paint::CLASS,
    &set_paint::SET_ANNO_BYTE,
    &suppressor::CLASS,
    &switch::CLASS,
    &switch::STATIC,
];

/// Handlers of which an element has one for each of its ports: `name0`, `name1` and so on.
pub(crate) mod numbered {
    use warpswitch_graph::HandlerSpec;

    /// Ports that have such a handler; those beyond have none.
    pub(crate) const PORTS_MAX: usize = 64;

    /// `others`, and `name` with each number, which can be read and written. Keeps what it makes:
    /// for statics that are made once.
    pub(crate) fn specs(others: &[HandlerSpec], name: &str) -> Vec<HandlerSpec> {
        let numbered = (0..PORTS_MAX).map(|port| {
            let name: &'static str = String::leak(format!("{name}{port}"));
            HandlerSpec::both(name)
        });
        others.iter().copied().chain(numbered).collect()
    }

    /// The number behind `name` in `handler`.
    pub(crate) fn port(handler: &str, name: &str) -> Option<usize> {
        handler.strip_prefix(name)?.parse().ok()
    }
}
