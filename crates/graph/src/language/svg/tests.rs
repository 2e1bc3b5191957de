//! Pictures hold what the graph holds, and boxes keep apart.

use super::super::tests::{IP_ROUTER, load_text, table};
use super::layout::{Edge, Shape, lay_out};
use super::*;

fn picture(text: &str) -> String {
    let loaded = load_text(text).unwrap_or_else(|errors| panic!("{errors}"));
    svg(&loaded.graph, &loaded.ports, &table()).unwrap()
}

#[test]
fn the_ip_router_is_drawn() {
    let loaded = load_text(IP_ROUTER).unwrap();
    let text = picture(IP_ROUTER);
    assert_eq!(text.matches("<title>").count(), loaded.graph.elements.len());
    assert_eq!(text.matches("class=\"h\"").count(), loaded.graph.connections.len());
    for element in &loaded.graph.elements {
        assert!(text.contains(&element.declaration()), "{}", element.name);
    }
    assert_eq!(text, picture(IP_ROUTER));
}

#[test]
fn what_a_picture_says_is_safe_and_short() {
    let text = picture(
        "a :: Idle; m :: Message(<b>&\"x\", \u{1}, a very long argument that goes on and on, \
         2, 33333333333333333333333333333, 44444444444444444444444444444, 5, 6);
         q :: Queue(1); a -> q -> Unqueue -> Tee => a, [1] a; x :: Idle -> x",
    );
    assert!(text.contains("&lt;b&gt;&amp;&quot;x&quot;") && !text.contains('\u{1}'));
    assert!(text.contains("… +"), "{text}");
    assert!(text.contains("class=\"w l2\"") && text.contains("class=\"p o\""));
}

#[test]
fn a_graph_that_is_too_large_is_refused() {
    let text = "Idle;".repeat(PICTURE_ELEMENTS_MAX + 1);
    let loaded = load_text(&text).unwrap();
    let error = svg(&loaded.graph, &loaded.ports, &table()).unwrap_err();
    assert_eq!((error.elements, error.connections), (PICTURE_ELEMENTS_MAX + 1, 0));
    assert!(error.to_string().starts_with("cannot draw 3001 elements"));
}

/// Boxes of one size with one port on each side.
fn check_layout(nodes: usize, edges: &[(usize, usize)]) {
    let (width, height) = (60.0, 30.0);
    let shapes: Vec<Shape> = (0..nodes)
        .map(|_| Shape { width, height, inputs: vec![0.0], outputs: vec![0.0] })
        .collect();
    let edges: Vec<Edge> =
        edges.iter().map(|&(from, to)| Edge { from: (from, 0), to: (to, 0) }).collect();
    let layout = lay_out(&shapes, &edges);
    for (idx, a) in layout.boxes.iter().enumerate() {
        assert!(a.x - width / 2.0 > -0.01 && a.x + width / 2.0 < layout.width + 0.01);
        assert!(a.y > -0.01 && a.y + height < layout.height + 0.01);
        for b in &layout.boxes[idx + 1..] {
            let apart = (a.x - b.x).abs() >= width || (a.y - b.y).abs() >= height;
            assert!(apart, "{a:?} {b:?} of {nodes}");
        }
    }
    let points = layout.paths.iter().flatten().map(|point| point.x);
    let right = layout.boxes.iter().map(|a| a.x + width / 2.0).chain(points).fold(0.0, f64::max);
    assert!(layout.width < right + 2.0, "{} {right}", layout.width);
    for (edge, path) in edges.iter().zip(&layout.paths) {
        let (from, to) = (layout.boxes[edge.from.0], layout.boxes[edge.to.0]);
        let (first, last) = (path[0], path[path.len() - 1]);
        assert_eq!((first.x, first.y), (from.x, from.y + height));
        assert_eq!((last.x, last.y), (to.x, to.y));
        assert_eq!(path.len() % 2, 0);
    }
}

#[test]
fn boxes_keep_apart_and_paths_meet_ports() {
    check_layout(0, &[]);
    check_layout(5, &[]);
    check_layout(1, &[(0, 0)]);
    check_layout(2, &[(0, 1), (1, 0), (0, 0)]);
    check_layout(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (0, 3)]);
    // Every edge between ten boxes, then random ones: a small generator is enough.
    let all: Vec<_> = (0..10).flat_map(|a| (0..10).map(move |b| (a, b))).collect();
    check_layout(10, &all);
    let mut state = 1u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let many: Vec<_> = (0..3_000).map(|_| (next(1_000), next(1_000))).collect();
    check_layout(1_000, &many);
    for round in 1..40 {
        let edges: Vec<_> = (0..next(3 * round)).map(|_| (next(round), next(round))).collect();
        check_layout(round, &edges);
    }
}
