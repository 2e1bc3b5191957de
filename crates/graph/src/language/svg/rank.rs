//! Which layer each element is in: below all that hand packets to it.
//!
//! A search along the edges, from elements without inputs first, finds edges that close a circle;
//! those are turned around. Then each element goes below its last predecessor, and elements whose
//! successors are far below are moved down to them, which shortens wires.

use std::collections::VecDeque;

/// Layers, and edges that go upwards.
pub(super) struct Ranks {
    /// Layer of each node, 0 on top.
    pub(super) layers: Vec<usize>,
    /// Whether each edge closes a circle.
    pub(super) is_reversed: Vec<bool>,
    /// Nodes in the order of the search: a first order within layers.
    pub(super) visited: Vec<usize>,
}

pub(super) fn rank(nodes: usize, edges: &[(usize, usize)]) -> Ranks {
    let mut leaving = vec![Vec::new(); nodes];
    let mut entering = vec![0usize; nodes];
    for (idx, &(from, to)) in edges.iter().enumerate() {
        leaving[from].push(idx);
        entering[to] += usize::from(from != to);
    }
    let (is_reversed, visited) = break_circles(edges, &leaving, &entering);
    let directed = |(idx, &(from, to)): (usize, &(usize, usize))| {
        if is_reversed[idx] { (to, from) } else { (from, to) }
    };
    let edges: Vec<_> = edges.iter().enumerate().map(directed).filter(|(a, b)| a != b).collect();
    let layers = longest_paths(nodes, &edges);
    Ranks { layers, is_reversed, visited }
}

fn break_circles(
    edges: &[(usize, usize)],
    leaving: &[Vec<usize>],
    entering: &[usize],
) -> (Vec<bool>, Vec<usize>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let nodes = leaving.len();
    let mut marks = vec![Mark::New; nodes];
    let mut is_reversed = vec![false; edges.len()];
    let mut visited = Vec::with_capacity(nodes);
    let sources = (0..nodes).filter(|&node| entering[node] == 0);
    let roots: Vec<usize> = sources.chain(0..nodes).collect();
    for root in roots {
        if marks[root] != Mark::New {
            continue;
        }
        marks[root] = Mark::Open;
        visited.push(root);
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            let Some(&edge) = leaving[node].get(next) else {
                marks[node] = Mark::Done;
                continue;
            };
            stack.push((node, next + 1));
            let to = edges[edge].1;
            match marks[to] {
                Mark::Open => is_reversed[edge] = true,
                Mark::Done => {}
                Mark::New => {
                    marks[to] = Mark::Open;
                    visited.push(to);
                    stack.push((to, 0));
                }
            }
        }
    }
    (is_reversed, visited)
}

fn longest_paths(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let (mut above, mut below) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
    for &(from, to) in edges {
        below[from].push(to);
        above[to].push(from);
    }
    let mut missing: Vec<usize> = above.iter().map(Vec::len).collect();
    let mut ready: VecDeque<usize> = (0..nodes).filter(|&node| missing[node] == 0).collect();
    let mut layers = vec![0; nodes];
    let mut sorted = Vec::with_capacity(nodes);
    while let Some(node) = ready.pop_front() {
        sorted.push(node);
        for &to in &below[node] {
            layers[to] = layers[to].max(layers[node] + 1);
            missing[to] -= 1;
            if missing[to] == 0 {
                ready.push_back(to);
            }
        }
    }
    // From the bottom up, so that what is moved makes room for what is above it.
    for &node in sorted.iter().rev() {
        if above[node].len() < below[node].len() {
            let nearest = below[node].iter().map(|&to| layers[to]).min().unwrap_or(1);
            layers[node] = layers[node].max(nearest - 1);
        }
    }
    layers
}
