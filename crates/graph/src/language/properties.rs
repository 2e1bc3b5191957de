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

const STATEMENTS: [&str; 12] = [
    "a, b, c :: Idle;",
    "elementclass Foo { input -> Null -> output };",
    "elementclass Foo { $v | input -> x :: Print($v) -> output || ... };",
    "elementclass Bar { Foo -> output; input -> [1] output };",
    "a -> Foo -> b;",
    "a [1] -> Foo(\"x, y\") -> [1] b;",
    "c => ( -> Null -> ), ( -> [1] b ) ;",
    "{ input -> Foo -> output } -> c;",
    "define($v 1, $w 2 3);",
    "Idle -> Queue(${w[1]}, '$v') -> Discard;",
    "x/y :: Tee; x/y [0-3] => [2-5] a;",
    "require(package p, compact_config);",
];

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
    fn statements_in_any_order(picked in proptest::collection::vec(0..STATEMENTS.len(), 0..20)) {
        let text: Vec<&str> = picked.iter().map(|&idx| STATEMENTS[idx]).collect();
        check(text.join("\n").as_bytes())?;
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
