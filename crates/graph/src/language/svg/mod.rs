//! A picture of a flat graph, as SVG, that a person can read a router off.
//!
//! ```text
//!        ▽              input ports on top, output ports at the bottom, as triangles and squares;
//!  ┌───────────┐        black: push, white: pull; a second outline: agnostic by itself
//!  │ c0 :: …   │        packets go down; what goes back up runs beside the elements
//!  └─■───■───■─┘        numbers beside ports where there is more than one
//! ```
//! Parts of one compound element share a tint; elements whose work a device does are hatched.
//! Elements without connections stand in a row below.
//! A viewer that shows tooltips tells the whole configuration string and where it was written.
//!
//! # Algorithm
//! Each connected part is laid out in layers: circles are broken (`rank`), long wires get a bend
//! in each layer they pass, crossings are reduced by sorting layers by the mean of their neighbours
//! and counting (`order`), and each layer is placed as near to its neighbours as order and sizes
//! allow, which is a least-squares problem with an exact answer (`place`).
//!
//! # Source
//! Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System Structures",
//! 1981. Ports and their colours as in Kohler et al., "The Click Modular Router", 2000.

mod draw;
mod layout;
mod order;
mod place;
mod rank;

use std::fmt;

use super::class::{ClassTable, Processing, processing};
use super::expand::FlatGraph;
use super::resolve::ElementPorts;

/// The most elements of a picture.
pub const PICTURE_ELEMENTS_MAX: usize = 3_000;

/// The most connections of a picture.
pub const PICTURE_CONNECTIONS_MAX: usize = 20_000;

/// A graph that is too large for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Elements of the graph.
    pub elements: usize,
    /// Its connections.
    pub connections: usize,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot draw {} elements and {} connections; limits {} and {}",
            self.elements, self.connections, PICTURE_ELEMENTS_MAX, PICTURE_CONNECTIONS_MAX
        )
    }
}

impl std::error::Error for TooLarge {}

/// How a port is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortLook {
    is_push: bool,
    is_agnostic: bool,
}

/// Draws `graph`, whose ports are `ports` as [`super::resolve`] found them.
///
/// The same graph gives the same bytes. Cost: some milliseconds for a router, a second or two for
/// the largest graph that is drawn.
///
/// # Errors
/// [`TooLarge`], beyond [`PICTURE_ELEMENTS_MAX`] or [`PICTURE_CONNECTIONS_MAX`].
pub fn svg(
    graph: &FlatGraph,
    ports: &[ElementPorts],
    classes: &dyn ClassTable,
) -> Result<String, TooLarge> {
    let (elements, connections) = (graph.elements.len(), graph.connections.len());
    if elements > PICTURE_ELEMENTS_MAX || connections > PICTURE_CONNECTIONS_MAX {
        return Err(TooLarge { elements, connections });
    }
    let looks: Vec<(Vec<PortLook>, Vec<PortLook>)> = graph
        .elements
        .iter()
        .zip(ports)
        .map(|(element, ports)| {
            let code = classes.get(&element.class).map_or("a/a", |spec| spec.processing);
            let declared = processing(code, ports.inputs.len(), ports.outputs.len());
            let (inputs, outputs) = declared.unwrap_or_default();
            (side_looks(&ports.inputs, &inputs), side_looks(&ports.outputs, &outputs))
        })
        .collect();
    let boxes: Vec<draw::Box> = graph
        .elements
        .iter()
        .zip(&looks)
        .map(|(e, looks)| draw::Box::new(e, classes.is_on_device(&e.class), looks))
        .collect();
    let edges: Vec<layout::Edge> = graph
        .connections
        .iter()
        .map(|c| layout::Edge {
            from: (c.from.element, c.from.port),
            to: (c.to.element, c.to.port),
        })
        .collect();
    let shapes: Vec<layout::Shape> = boxes.iter().map(draw::Box::shape).collect();
    let layout = layout::lay_out(&shapes, &edges);
    Ok(draw::draw(graph, &boxes, &looks, &edges, &layout))
}

fn side_looks(resolved: &[Processing], declared: &[Processing]) -> Vec<PortLook> {
    let look = |(idx, kind): (usize, &Processing)| PortLook {
        is_push: *kind != Processing::Pull,
        is_agnostic: declared.get(idx) == Some(&Processing::Agnostic),
    };
    resolved.iter().enumerate().map(look).collect()
}

#[cfg(test)]
mod tests;
