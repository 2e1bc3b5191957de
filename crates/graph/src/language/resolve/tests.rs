//! Port counts, kinds, and use of ports.

use super::super::Processing;
use super::super::tests::load_text;

/// The kinds of each named element's ports.
#[track_caller]
fn check(text: &str, expected: &[(&str, &str)]) {
    let loaded = load_text(text).unwrap_or_else(|errors| panic!("{errors}"));
    for &(name, kinds) in expected {
        let ports = &loaded.ports[loaded.graph.find(name).unwrap()];
        let letter = |p: &Processing| match p {
            Processing::Push => 'h',
            Processing::Pull => 'l',
            Processing::Agnostic => 'a',
        };
        let side = |side: &[Processing]| side.iter().map(letter).collect::<String>();
        let found = format!("{}/{}", side(&ports.inputs), side(&ports.outputs));
        assert_eq!(found, kinds, "{name} in {text}");
    }
}

#[track_caller]
fn check_errors(text: &str, expected: &[&str]) {
    let errors = load_text(text).expect_err(text).to_click();
    assert_eq!(errors.lines().collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn kinds_spread_through_agnostic_elements() {
    check(
        "i :: InfiniteSource -> a :: Null -> q :: Queue
         -> b :: Null -> u :: Unqueue -> d :: Discard",
        &[("i", "/h"), ("a", "h/h"), ("q", "h/l"), ("b", "l/l"), ("u", "l/h"), ("d", "h/")],
    );
    // The second output is push whatever the first is.
    check(
        "Idle -> Queue -> p :: PaintTee(1) -> Unqueue -> Discard; p [1] -> Discard",
        &[("p", "l/lh")],
    );
    // Nothing decides: push.
    check("i :: Idle -> n :: Null -> Discard", &[("n", "h/h")]);
    // The flow code keeps the sides of Idle apart.
    check("q :: Queue -> x :: Idle -> q", &[("x", "l/h")]);
    check("InfiniteSource -> h :: Hub; h[0-1] -> Discard", &[("h", "h/hh")]);
}

#[test]
fn conflicts_are_told() {
    check_errors(
        "i :: InfiniteSource -> u :: Unqueue -> q :: Queue -> p :: PushNull -> d :: Discard;",
        &["'q :: Queue' pull output 0 connected to 'p :: PushNull' push input 0"],
    );
    check_errors(
        "x :: PushNull -> y :: PullNull; Idle -> x; y -> Idle",
        &["'x :: PushNull' push output 0 connected to 'y :: PullNull' pull input 0"],
    );
    check_errors(
        "Idle -> x :: PushNull -> n :: Null -> y :: PullNull -> Idle",
        &["agnostic 'n :: Null' in mixed context: push input 0, pull output 0"],
    );
}

#[test]
fn ports_are_counted_and_used() {
    check(
        "i :: InfiniteSource -> Print -> d :: Discard; InfiniteSource -> Print -> d",
        &[("d", "h/")],
    );
    check_errors(
        "i :: InfiniteSource -> Discard;\ni -> Null -> Discard;",
        &["f:1: illegal reuse of 'i :: InfiniteSource' push output 0"],
    );
    check_errors(
        "Idle -> Null -> Discard;\nIdle -> p :: Print;",
        &["f:2: 'p :: Print' output 0 unused"],
    );
    check_errors(
        "q :: Queue;",
        &["f:1: 'q :: Queue' input 0 unused", "f:1: 'q :: Queue' output 0 unused"],
    );
    check_errors(
        "Idle -> q :: Queue [1] -> Idle;\nIdle -> [2] q -> Idle",
        &["f:1: 'q :: Queue' has no input 2", "f:1: 'q :: Queue' has no output 1"],
    );
}

#[test]
fn long_rows_and_many_ports_are_no_trouble() {
    // Declared against the flow: a pass over connections in order would move kinds by one.
    let count = 50_000;
    let mut text = "d :: Discard;\n".to_owned();
    (0..count).rev().for_each(|idx| text.push_str(&format!("n{idx} :: Null;")));
    (1..count).for_each(|idx| text.push_str(&format!("n{} -> n{idx};", idx - 1)));
    text.push_str(&format!("Idle -> Queue -> n0; n{} -> d;", count - 1));
    check(&text, &[("n0", "l/l"), ("n49999", "l/l"), ("d", "l/")]);
    check_errors(
        "Idle -> t :: Tee;\nt[65535] -> [65535] i :: Idle [65535] -> Idle",
        &["f:2: 'i :: Idle' has too many ports"],
    );
}

#[test]
fn classes_that_are_not_in_the_table_are_told() {
    let loaded = load_text("a :: Idle -> b :: Null -> Idle").unwrap();
    struct Nothing;
    impl super::super::ClassTable for Nothing {
        fn get(&self, _: &str) -> Option<&super::super::ClassSpec> {
            None
        }
    }
    let errors = super::resolve(&loaded.graph, &Nothing).unwrap_err();
    let expected = "f:1: unknown element class 'Idle'\nf:1: unknown element class 'Null'\n\
                    f:1: unknown element class 'Idle'\n";
    assert_eq!(errors.to_click(), expected);
}
