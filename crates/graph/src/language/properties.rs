//! What holds of every text: nothing panics, and what loads reads back from its flat form.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::tests::{IP_ROUTER, Shelf, table};
use super::*;

const PIECES: [&str; 58] = [
    "a",
    "b",
    "c",
    "x/y",
    "Idle",
    "Null",
    "Queue",
    "Tee",
    "Foo",
    "input",
    "output",
    "->",
    "->",
    "->",
    "=>",
    "::",
    "::",
    "||",
    "|",
    "...",
    ";",
    ";",
    ",",
    "[",
    "]",
    "[0]",
    "[1]",
    "[0,1]",
    "[0-2]",
    "[]",
    "[2,]",
    "{",
    "}",
    "(",
    ")",
    "{ -> }",
    "( -> )",
    "(x, K 2)",
    "(\"$v\", $w)",
    "elementclass",
    "elementclass Foo",
    "require",
    "require(package p)",
    "require(library l)",
    "define",
    "define($v 1, $w 2)",
    "provide",
    "$v",
    "$v |",
    "K $w,",
    "__REST__ $r |",
    "\n",
    "# 7 \"g\"\n",
    "// c\n",
    "/* c */",
    "'",
    "\"",
    "\\<00>",
];

/// What every generated configuration starts with: each statement of [`statement`] fits it.
const PRELUDE: &str = "
    a, b, c, d :: Idle;
    define($w 1, $x 2 3);
    elementclass One { $v | input -> Print($v, \"$v\", ${x[1]}) -> output
                    || input -> Null -> output };
    elementclass Two { KEY $k, __REST__ $r |
        input [0-1] => One($k), ( -> Queue($r) -> ) => [0-1] output };
";

const ARGS: [&str; 6] = ["x", "\"a, b\"", "$w y", "'$w'", "(p (q))", "\\<00 ff>"];

/// A statement that is right in any place: its kind, two elements, two ports, an argument.
fn statement(
    idx: usize,
    kind: usize,
    (e, f): (usize, usize),
    (p, q): (u32, u32),
    arg: usize,
) -> String {
    let (e, f, arg) = (["a", "b", "c", "d"][e], ["a", "b", "c", "d"][f], ARGS[arg]);
    match kind {
        0 => format!("{e} [{p}] -> [{q}] {f};"),
        1 => format!("{e} [{p}] -> One({arg}) -> [{q}] {f};"),
        2 => format!("{e} [{p}] -> One -> n{idx} :: One({arg}) -> {f};"),
        3 => format!("{e} [{p}-{}] => [{q}] {f}, {e}, [{q}] {f};", p + 2),
        4 => format!("{e} => ( -> Null -> ), ( -> One({arg}) -> ) -> [{q}] {f};"),
        5 => format!("{e} [{p}, 7] => [0-1] Two({arg}, KEY 5) [0-1] => [{q}, 9] {f};"),
        6 => format!("{e} -> {{ -> x{idx} :: One({arg}) -> ( -> Null -> ) -> }} -> {f};"),
        7 => format!(
            "elementclass One {{ $v | input -> o :: One($v) -> Null -> output || ... }};\n\
             {e} -> One({arg}) -> {f};"
        ),
        8 => format!("{e} [{p},] => {f}, [{q}] {f}, ( -> [8] {e} );"),
        _ => format!("require(package p); Message({arg});\n# {p}{q} \"f{idx}\"\n"),
    }
}

/// Reads `bytes`; what can be expanded must read back from its flat form.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let shelf = || Shelf([("l", "elementclass L { Idle }"), ("m", "x ->")].into());
    let loaded = load("f", bytes, &table(), &BTreeMap::new(), Some(&mut shelf()));
    if let Err(errors) = &loaded {
        prop_assert!(errors.has_errors());
        prop_assert!(!errors.to_string().is_empty() && !errors.to_click().is_empty());
        prop_assert!(errors.iter().count() <= DIAGNOSTICS_KEPT_MAX);
    }
    let Ok(source) = Source::new("f", bytes) else { return Ok(()) };
    let (ast, errors) = parse_with(source, &mut shelf());
    let Ok(graph) = expand(&ast, &table(), &BTreeMap::new()) else { return Ok(()) };
    if errors.has_errors() || !graph.elements.iter().all(|element| is_balanced(&element.config)) {
        return Ok(());
    }
    let text = flatten(&graph);
    let (ast, errors) = parse(Source::new("f", text.as_bytes()).unwrap());
    prop_assert!(!errors.has_errors(), "{errors}\n{text}");
    let again = expand(&ast, &table(), &BTreeMap::new());
    let again = again.map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
    prop_assert!(graph.is_same(&again), "{text}\n{}", flatten(&again));
    Ok(())
}

/// Whether a configuration string ends where its element's does.
fn is_balanced(config: &str) -> bool {
    let (ast, errors) = parse(Source::new("f", format!("C({config})").as_bytes()).unwrap());
    let Some(ast::Statement::Chain(chain)) = ast.statements.first() else { return false };
    let ast::Target::Named { config: Some(found), .. } = &chain.stages[0].elements[0].target else {
        return false;
    };
    errors.is_empty() && ast.statements.len() == 1 && found.text == config
}

/// Puts `piece` in place of the bytes of `text` from `at` on.
fn mutate(text: &mut Vec<u8>, at: usize, len: usize, piece: &[u8]) {
    let at = at % (text.len() + 1);
    let end = (at + len).min(text.len());
    text.splice(at..end, piece.iter().copied());
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes)?;
    }

    #[test]
    fn soups_of_tokens(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let text: Vec<&str> = pieces.iter().map(|&idx| PIECES[idx]).collect();
        check(text.join(" ").as_bytes())?;
    }

    #[test]
    fn right_configurations(
        picked in proptest::collection::vec(
            (0usize..10, (0usize..4, 0usize..4), (0u32..6, 0u32..6), 0..ARGS.len()), 0..20,
        ),
    ) {
        let statements = picked.into_iter().enumerate();
        let text: String = statements
            .map(|(idx, (kind, elements, ports, arg))| statement(idx, kind, elements, ports, arg))
            .collect();
        let text = format!("{PRELUDE}{text}");
        let (ast, errors) = parse(Source::new("f", text.as_bytes()).unwrap());
        prop_assert!(errors.is_empty(), "{errors}");
        let graph = expand(&ast, &table(), &BTreeMap::new());
        prop_assert!(graph.is_ok(), "{}", graph.unwrap_err());
        check(text.as_bytes())?;
    }

    #[test]
    fn mutated_routers(
        edits in proptest::collection::vec((any::<usize>(), 0usize..12, 0..PIECES.len() + 1), 1..6),
        byte: u8,
    ) {
        let (mut text, byte) = (IP_ROUTER.as_bytes().to_vec(), [byte]);
        for (at, len, piece) in edits {
            let piece = PIECES.get(piece).map_or(&byte[..], |piece| piece.as_bytes());
            mutate(&mut text, at, len, piece);
        }
        check(&text)?;
    }
}
