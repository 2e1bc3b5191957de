//! Places for boxes, and paths for the edges between them.

use super::{order, place, rank};

/// Least space between boxes side by side.
pub(super) const X_GAP: f64 = 26.0;

/// Space between layers, and what each edge adds to it, up to a limit.
const Y_GAP: f64 = 44.0;
const Y_GAP_EDGE: f64 = 1.5;
const Y_GAP_MAX: f64 = 90.0;

/// Space around parts that are not connected.
const PART_GAP: f64 = 48.0;

/// A row of parts is about this wide, or as its widest part.
const ROW_WIDTH: f64 = 1_600.0;

/// The most bends; edges beyond go straight across.
const BENDS_MAX: usize = 100_000;

/// Size of a box, and places of its ports relative to its middle.
pub(super) struct Shape {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) inputs: Vec<f64>,
    pub(super) outputs: Vec<f64>,
}

/// An edge: box and port at each end.
pub(super) struct Edge {
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
}

/// A point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The result.
#[derive(Default)]
pub(super) struct Layout {
    /// Middle of the top side of each box.
    pub(super) boxes: Vec<Point>,
    /// For each edge the points it goes through: pairs, between which it is a straight line, and
    /// from pair to pair a curve.
    pub(super) paths: Vec<Vec<Point>>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A box or bend in a layer.
pub(super) struct Vertex {
    pub(super) layer: usize,
    pub(super) width: f64,
    /// Its middle.
    pub(super) x: f64,
    pub(super) is_bend: bool,
    /// Of a bend beside the box where its edge starts or ends: that box.
    pub(super) anchor: Option<usize>,
}

/// One end of a segment: a vertex, and where on it.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) vertex: usize,
    pub(super) offset: f64,
}

/// What is between two neighbouring layers of an edge.
pub(super) struct Segment {
    pub(super) upper: End,
    pub(super) lower: End,
}

/// Vertices in layers, with segments between neighbouring ones.
#[derive(Default)]
pub(super) struct Layered {
    pub(super) vertices: Vec<Vertex>,
    pub(super) layers: Vec<Vec<usize>>,
    pub(super) segments: Vec<Segment>,
    /// Segments that lead to each vertex from above, and from it down.
    pub(super) above: Vec<Vec<usize>>,
    pub(super) below: Vec<Vec<usize>>,
}

impl Layered {
    fn add_vertex(&mut self, vertex: Vertex) -> usize {
        let idx = self.vertices.len();
        if self.layers.len() <= vertex.layer {
            self.layers.resize(vertex.layer + 1, Vec::new());
        }
        self.layers[vertex.layer].push(idx);
        self.vertices.push(vertex);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        idx
    }

    fn add_bend(&mut self, layer: usize, anchor: Option<usize>) -> usize {
        self.add_vertex(Vertex { layer, width: 2.0, x: 0.0, is_bend: true, anchor })
    }

    fn add_segment(&mut self, upper: End, lower: End) {
        let idx = self.segments.len();
        self.below[upper.vertex].push(idx);
        self.above[lower.vertex].push(idx);
        self.segments.push(Segment { upper, lower });
    }
}

/// Lays out boxes of these shapes with these edges.
pub(super) fn lay_out(shapes: &[Shape], edges: &[Edge]) -> Layout {
    let mut layout = Layout {
        boxes: vec![Point::default(); shapes.len()],
        paths: vec![Vec::new(); edges.len()],
        ..Layout::default()
    };
    let parts = parts(shapes.len(), edges);
    let (connected, alone): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.len() > 1);
    let mut rows = Rows::default();
    let mut part_edges = vec![Vec::new(); shapes.len()];
    for (idx, edge) in edges.iter().enumerate() {
        part_edges[edge.from.0].push(idx);
    }
    for part in connected {
        let part_edges: Vec<usize> =
            part.iter().flat_map(|&node| part_edges[node].iter().copied()).collect();
        let (width, height) = lay_out_part(shapes, edges, &part, &part_edges, &mut layout);
        let origin = rows.add(width, height, PART_GAP);
        part.iter().for_each(|&node| layout.boxes[node] = shifted(layout.boxes[node], origin));
        for &edge in &part_edges {
            layout.paths[edge].iter_mut().for_each(|point| *point = shifted(*point, origin));
        }
    }
    rows.end_row(PART_GAP);
    for node in alone.into_iter().flatten() {
        let shape = &shapes[node];
        let origin = rows.add(shape.width, shape.height, X_GAP);
        layout.boxes[node] = Point { x: origin.x + shape.width / 2.0, y: origin.y };
        // Nothing is connected to it but itself.
        for &edge in &part_edges[node] {
            layout.paths[edge] = self_loop(shape, &edges[edge], layout.boxes[node]);
        }
    }
    rows.end_row(0.0);
    (layout.width, layout.height) = (rows.width, rows.y);
    layout
}

fn shifted(point: Point, by: Point) -> Point {
    Point { x: point.x + by.x, y: point.y + by.y }
}

/// Rectangles in rows.
#[derive(Default)]
struct Rows {
    x: f64,
    y: f64,
    height: f64,
    width: f64,
}

impl Rows {
    fn add(&mut self, width: f64, height: f64, gap: f64) -> Point {
        if self.x > 0.0 && self.x + width > ROW_WIDTH.max(self.width) {
            self.end_row(gap);
        }
        let origin = Point { x: self.x, y: self.y };
        self.width = self.width.max(self.x + width);
        self.height = self.height.max(height);
        self.x += width + gap;
        origin
    }

    fn end_row(&mut self, gap: f64) {
        if self.x > 0.0 {
            self.y += self.height + gap;
            (self.x, self.height) = (0.0, 0.0);
        }
    }
}

/// Boxes that are connected, in order of the first of each.
fn parts(nodes: usize, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); nodes];
    for edge in edges {
        neighbours[edge.from.0].push(edge.to.0);
        neighbours[edge.to.0].push(edge.from.0);
    }
    let mut is_seen = vec![false; nodes];
    let mut parts = Vec::new();
    for first in 0..nodes {
        let mut part = Vec::new();
        let mut stack = vec![first];
        while let Some(node) = stack.pop() {
            if !std::mem::replace(&mut is_seen[node], true) {
                part.push(node);
                stack.extend(&neighbours[node]);
            }
        }
        if !part.is_empty() {
            part.sort_unstable();
            parts.push(part);
        }
    }
    parts
}

/// An edge of a part: its bends from its upper end down, and whether it goes upwards.
struct Route {
    edge: usize,
    bends: Vec<usize>,
    is_up: bool,
}

/// Lays out one part from (0, 0) on; its size.
fn lay_out_part(
    shapes: &[Shape],
    edges: &[Edge],
    part: &[usize],
    part_edges: &[usize],
    layout: &mut Layout,
) -> (f64, f64) {
    let local = |node: usize| part.binary_search(&node).expect("edges stay within their part");
    let pairs: Vec<(usize, usize)> =
        part_edges.iter().map(|&e| (local(edges[e].from.0), local(edges[e].to.0))).collect();
    let ranks = rank::rank(part.len(), &pairs);
    let mut graph = Layered::default();
    let mut vertex_of = vec![0; part.len()];
    for &node in &ranks.visited {
        let (layer, width) = (ranks.layers[node], shapes[part[node]].width);
        let vertex = Vertex { layer, width, x: 0.0, is_bend: false, anchor: None };
        vertex_of[node] = graph.add_vertex(vertex);
    }
    let mut routes = Vec::with_capacity(part_edges.len());
    for (idx, &edge) in part_edges.iter().enumerate() {
        let (from, to) = pairs[idx];
        let (from, to) = (vertex_of[from], vertex_of[to]);
        let is_up = ranks.is_reversed[idx];
        let bends = add_edge(&mut graph, shapes, &edges[edge], (from, to), is_up);
        routes.push(Route { edge, bends, is_up });
    }
    order::reduce_crossings(&mut graph);
    place::place(&mut graph);
    let (tops, bottoms) = layer_sides(shapes, part, &ranks.layers, &graph);
    let left = graph.vertices.iter().map(|v| v.x - v.width / 2.0).fold(f64::INFINITY, f64::min);
    let right =
        graph.vertices.iter().map(|v| v.x + v.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    for (node, &vertex) in vertex_of.iter().enumerate() {
        let vertex = &graph.vertices[vertex];
        layout.boxes[part[node]] = Point { x: vertex.x - left, y: tops[vertex.layer] };
    }
    for route in &routes {
        let edge = &edges[route.edge];
        let (from, to) = (&shapes[edge.from.0], &shapes[edge.to.0]);
        let (start, end) = (layout.boxes[edge.from.0], layout.boxes[edge.to.0]);
        let start = Point { x: start.x + from.outputs[edge.from.1], y: start.y + from.height };
        let end = Point { x: end.x + to.inputs[edge.to.1], y: end.y };
        let mut path = vec![start, start];
        let mut push_bend = |bend: usize| {
            let vertex = &graph.vertices[bend];
            let x = vertex.x - left;
            let (top, bottom) = (tops[vertex.layer], bottoms[vertex.layer]);
            let (first, last) = if route.is_up { (bottom, top) } else { (top, bottom) };
            path.extend([Point { x, y: first }, Point { x, y: last }]);
        };
        if route.is_up {
            route.bends.iter().rev().for_each(|&bend| push_bend(bend));
        } else {
            route.bends.iter().for_each(|&bend| push_bend(bend));
        }
        path.extend([end, end]);
        layout.paths[route.edge] = path;
    }
    (right - left, bottoms.last().copied().unwrap_or(0.0))
}

/// Adds the bends and segments of an edge; the bends, from the top down.
fn add_edge(
    graph: &mut Layered,
    shapes: &[Shape],
    edge: &Edge,
    (from, to): (usize, usize),
    is_up: bool,
) -> Vec<usize> {
    let out_offset = shapes[edge.from.0].outputs[edge.from.1];
    let in_offset = shapes[edge.to.0].inputs[edge.to.1];
    let (top, bottom) = (graph.vertices[from].layer, graph.vertices[to].layer);
    let bend_count = if is_up { top - bottom + 1 } else { bottom - top - 1 };
    if graph.vertices.len() + bend_count > BENDS_MAX {
        return Vec::new();
    }
    let bends: Vec<usize> = if is_up {
        // Beside both elements too: it leaves at the bottom and comes in on top.
        let anchor = |layer| match layer {
            layer if layer == top => Some(from),
            layer if layer == bottom => Some(to),
            _ => None,
        };
        (bottom..=top).map(|layer| graph.add_bend(layer, anchor(layer))).collect()
    } else {
        (top + 1..bottom).map(|layer| graph.add_bend(layer, None)).collect()
    };
    let mut ends: Vec<End> = bends.iter().map(|&vertex| End { vertex, offset: 0.0 }).collect();
    if !is_up {
        ends.insert(0, End { vertex: from, offset: out_offset });
        ends.push(End { vertex: to, offset: in_offset });
    }
    for pair in ends.windows(2) {
        graph.add_segment(pair[0], pair[1]);
    }
    bends
}

/// Top and bottom of each layer.
fn layer_sides(
    shapes: &[Shape],
    part: &[usize],
    layers: &[usize],
    graph: &Layered,
) -> (Vec<f64>, Vec<f64>) {
    let mut heights = vec![0.0f64; graph.layers.len()];
    for (node, &layer) in layers.iter().enumerate() {
        heights[layer] = heights[layer].max(shapes[part[node]].height);
    }
    let mut gaps = vec![Y_GAP; graph.layers.len()];
    for segment in &graph.segments {
        let gap = &mut gaps[graph.vertices[segment.upper.vertex].layer];
        *gap = (*gap + Y_GAP_EDGE).min(Y_GAP_MAX);
    }
    let mut y = 0.0;
    let mut sides = (Vec::new(), Vec::new());
    for (height, gap) in heights.into_iter().zip(gaps) {
        sides.0.push(y);
        sides.1.push(y + height);
        y += height + gap;
    }
    sides
}

fn self_loop(shape: &Shape, edge: &Edge, top: Point) -> Vec<Point> {
    let start = Point { x: top.x + shape.outputs[edge.from.1], y: top.y + shape.height };
    let end = Point { x: top.x + shape.inputs[edge.to.1], y: top.y };
    let x = top.x + shape.width / 2.0 + X_GAP / 2.0;
    vec![start, start, Point { x, y: start.y }, Point { x, y: end.y }, end, end]
}
