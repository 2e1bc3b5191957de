//! Where in its layer each vertex is: as straight wires as order and sizes allow.

use super::layout::{End, Layered, Vertex, X_GAP};

/// How often layers are placed, down and up.
const ROUNDS: usize = 30;

/// Places all vertices; the order within layers is kept.
pub(super) fn place(graph: &mut Layered) {
    for round in 0..2 * ROUNDS {
        let is_down = round % 2 == 0;
        let is_last = round + 2 >= 2 * ROUNDS;
        for idx in 0..graph.layers.len() {
            let idx = if is_down { idx } else { graph.layers.len() - 1 - idx };
            place_layer(graph, idx, is_down || is_last, !is_down || is_last);
        }
    }
}

fn place_layer(graph: &mut Layered, idx: usize, use_above: bool, use_below: bool) {
    let layer = std::mem::take(&mut graph.layers[idx]);
    let mut shift = 0.0;
    let mut wanted = Vec::with_capacity(layer.len());
    let mut shifts = Vec::with_capacity(layer.len());
    for (place, &vertex) in layer.iter().enumerate() {
        if place > 0 {
            let before = &graph.vertices[layer[place - 1]];
            let here = &graph.vertices[vertex];
            let gap = if before.is_bend && here.is_bend { X_GAP / 2.0 } else { X_GAP };
            shift += (before.width + here.width) / 2.0 + gap;
        }
        shifts.push(shift);
        let (x, weight) = wish(graph, vertex, use_above, use_below);
        wanted.push((x - shift, weight));
    }
    for ((&vertex, x), shift) in layer.iter().zip(nondecreasing(&wanted)).zip(shifts) {
        graph.vertices[vertex].x = x + shift;
    }
    graph.layers[idx] = layer;
}

/// How much it counts that a segment is upright: the longer the wire, the more.
fn weight(one: &Vertex, other: &Vertex) -> f64 {
    match (one.is_bend, other.is_bend) {
        (false, false) => 1.0,
        (true, true) => 12.0,
        _ => 2.0,
    }
}

/// Where a vertex would be if it were alone, and how much that counts.
fn wish(graph: &Layered, vertex: usize, use_above: bool, use_below: bool) -> (f64, f64) {
    let (mut sum, mut total) = (0.0, 0.0);
    let here = &graph.vertices[vertex];
    let mut add = |other: End, mine: End| {
        let vertex = &graph.vertices[other.vertex];
        let weight = weight(here, vertex);
        sum += weight * (vertex.x + other.offset - mine.offset);
        total += weight;
    };
    if use_above {
        for &segment in &graph.above[vertex] {
            add(graph.segments[segment].upper, graph.segments[segment].lower);
        }
    }
    if use_below {
        for &segment in &graph.below[vertex] {
            add(graph.segments[segment].lower, graph.segments[segment].upper);
        }
    }
    if let Some(anchor) = here.anchor {
        let anchor = &graph.vertices[anchor];
        let side = if here.x < anchor.x { -1.0 } else { 1.0 };
        sum += anchor.x + side * (anchor.width / 2.0 + X_GAP / 2.0);
        total += 1.0;
    }
    if total == 0.0 { (here.x, 0.1) } else { (sum / total, total) }
}

/// The nondecreasing values with the least sum of weighted squares of differences from the given
/// ones: neighbours that are in the wrong order are pooled, and take their mean.
fn nondecreasing(values: &[(f64, f64)]) -> Vec<f64> {
    // Weighted sum, weight and length of each pool.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for &(value, weight) in values {
        let mut pool = (value * weight, weight, 1);
        while let Some(&(sum, weight, len)) = pools.last() {
            if sum / weight <= pool.0 / pool.1 {
                break;
            }
            pool = (pool.0 + sum, pool.1 + weight, pool.2 + len);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|&(sum, weight, len)| std::iter::repeat_n(sum / weight, len)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_the_wrong_order_are_pooled() {
        let check = |values: &[(f64, f64)], expected: &[f64]| {
            assert_eq!(nondecreasing(values), expected, "{values:?}");
        };
        check(&[], &[]);
        check(&[(1.0, 1.0), (2.0, 1.0)], &[1.0, 2.0]);
        check(&[(2.0, 1.0), (1.0, 1.0)], &[1.5, 1.5]);
        check(&[(2.0, 3.0), (0.0, 1.0), (9.0, 1.0)], &[1.5, 1.5, 9.0]);
        check(&[(3.0, 1.0), (2.0, 1.0), (1.0, 1.0)], &[2.0, 2.0, 2.0]);
    }
}
