//! The order within layers: few crossings.
//!
//! Layers are sorted in turn, down and up, by the mean place of what each vertex is wired to in the
//! layer before; the order with the fewest crossings of all rounds is kept.

use super::layout::{Layered, X_GAP};

/// How often all layers are sorted, down and up.
const ROUNDS: usize = 16;

/// Sorts the layers of `graph`.
pub(super) fn reduce_crossings(graph: &mut Layered) {
    let mut best = graph.layers.clone();
    let mut fewest = usize::MAX;
    for round in 0..=2 * ROUNDS {
        pack(graph);
        let crossings = count_crossings(graph);
        if crossings < fewest {
            fewest = crossings;
            best = graph.layers.clone();
        }
        if fewest == 0 {
            break;
        }
        let is_down = round % 2 == 0;
        for idx in 0..graph.layers.len() {
            let idx = if is_down { idx } else { graph.layers.len() - 1 - idx };
            sort_layer(graph, idx, is_down);
        }
    }
    graph.layers = best;
    pack(graph);
}

/// Places the vertices of each layer side by side, around the middle.
fn pack(graph: &mut Layered) {
    for idx in 0..graph.layers.len() {
        pack_layer(graph, idx);
    }
}

fn pack_layer(graph: &mut Layered, idx: usize) {
    let layer = &graph.layers[idx];
    let width: f64 = layer.iter().map(|&vertex| graph.vertices[vertex].width + X_GAP).sum();
    let mut x = -width / 2.0;
    for &vertex in layer {
        let vertex = &mut graph.vertices[vertex];
        vertex.x = x + vertex.width / 2.0;
        x += vertex.width + X_GAP;
    }
}

fn sort_layer(graph: &mut Layered, idx: usize, is_down: bool) {
    let mean = |vertex: usize| {
        let neighbours = if is_down { &graph.above[vertex] } else { &graph.below[vertex] };
        let places = neighbours.iter().map(|&segment| {
            let segment = &graph.segments[segment];
            let end = if is_down { segment.upper } else { segment.lower };
            graph.vertices[end.vertex].x + end.offset
        });
        // A wire that turns back starts beside its element.
        let anchor = graph.vertices[vertex].anchor.map(|a| graph.vertices[a].x + 0.5);
        let (sum, count) =
            places.chain(anchor).fold((0.0, 0u32), |(sum, count), x| (sum + x, count + 1));
        if count == 0 { graph.vertices[vertex].x } else { sum / f64::from(count) }
    };
    let mut keyed: Vec<(f64, usize)> =
        graph.layers[idx].iter().map(|&vertex| (mean(vertex), vertex)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    graph.layers[idx] = keyed.into_iter().map(|(_, vertex)| vertex).collect();
    pack_layer(graph, idx);
}

/// Pairs of segments that cross, over all layers.
fn count_crossings(graph: &Layered) -> usize {
    let mut by_layer = vec![Vec::new(); graph.layers.len()];
    for segment in &graph.segments {
        let place = |end: super::layout::End| graph.vertices[end.vertex].x + end.offset;
        let layer = graph.vertices[segment.upper.vertex].layer;
        by_layer[layer].push((place(segment.upper), place(segment.lower)));
    }
    by_layer.into_iter().map(count_inversions).sum()
}

/// Pairs whose order by the first is not that by the second.
fn count_inversions(mut pairs: Vec<(f64, f64)>) -> usize {
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut sorted: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    sorted.sort_by(f64::total_cmp);
    // A Fenwick tree over the ranks of the second places that were met.
    let mut tree = vec![0usize; sorted.len() + 1];
    let mut inversions = 0;
    for (met, (_, lower)) in pairs.iter().enumerate() {
        let rank = sorted.partition_point(|x| x <= lower);
        let mut at = rank;
        let mut not_right = 0;
        while at > 0 {
            not_right += tree[at];
            at &= at - 1;
        }
        inversions += met - not_right;
        let mut at = rank;
        while at < tree.len() {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    inversions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversions_are_counted() {
        let check = |lower: &[f64], expected: usize| {
            let pairs = lower.iter().enumerate().map(|(idx, &x)| (idx as f64, x)).collect();
            assert_eq!(count_inversions(pairs), expected, "{lower:?}");
        };
        check(&[], 0);
        check(&[1.0, 2.0, 3.0], 0);
        check(&[3.0, 2.0, 1.0], 3);
        check(&[2.0, 2.0, 1.0], 2);
        check(&[1.0, 3.0, 2.0, 4.0, 0.0], 5);
    }
}
