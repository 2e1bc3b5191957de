//! Every rule of the grammar, every error of the reader.

use super::super::ast::{ClassExpr, Statement, Target};
use super::super::source::Source;
use super::{Ast, NEST_DEPTH_MAX, parse};

fn read(text: &str) -> (Ast, String) {
    let (ast, errors) = parse(Source::new("f", text.as_bytes()).unwrap());
    (ast, errors.to_click())
}

#[test]
fn what_the_grammar_allows_is_read() {
    let check = |text: &str, statements: usize| {
        let (ast, errors) = read(text);
        assert_eq!((ast.statements.len(), errors.as_str()), (statements, ""), "{text}\n{ast:?}");
    };
    check("", 0);
    check(";;;", 0);
    check("a :: B", 1);
    check("a, b, c :: B(x)", 1);
    check("a :: B; b :: C", 2);
    check("a :: B b :: C", 2);
    check("a -> b c -> d", 2);
    check("a [0] -> [1] b [2] -> c", 1);
    check("a [] => [1,2,] b, [3-5] c", 1);
    check("B(config (with) \"parens)\")", 1);
    check("a :: { input -> output }", 1);
    check("a :: { $x, KEY $y, __REST__ $z | input -> output || ... }(1, KEY 2)", 1);
    check("{ | a -> b }", 1);
    check("{} -> {}", 1);
    check("{ -> } -> ( -> )", 1);
    check("( [0] -> a; a -> [1] )", 1);
    check("( [0], [1] -> a )", 1);
    check("elementclass A B", 1);
    check("elementclass A { x -> y } elementclass B { z || w }", 2);
    check("require(package a, b) require(compact_config)", 2);
    check("provide(a)", 0);
    check("define($a 1, $b, ) ;", 1);
    check("a ->\n# 5 \"g\"\nb", 1);
    check("a, -> b", 1);
    check("{ elementclass A B; define($x 1) a }", 1);
}

#[test]
fn what_it_does_not_allow_is_told() {
    let check = |text: &str, expected: &[&str]| {
        let (_, errors) = read(text);
        let errors: Vec<&str> = errors.lines().collect();
        assert_eq!(errors, expected, "{text}");
    };
    check("->Null;", &["f:1: syntax error near '->'"]);
    check("a -> ;\nb ->", &["f:1: syntax error near ';'", "f:2: syntax error near end of file"]);
    check("b :: Counter ->\n\n// the end\n", &["f:1: syntax error near end of file"]);
    check("a :: ;", &["f:1: missing element type in declaration"]);
    check("a :: B :: C;", &["f:1: syntax error near '::'"]);
    check("a b ? c; d", &["f:1: syntax error near '?'"]);
    check("é", &["f:1: syntax error near 'é'"]);
    check("}", &["f:1: syntax error near '}'"]);
    check(")", &["f:1: syntax error near ')'"]);
    check("[1];\n{ [1] };", &["f:1: stranded port ignored", "f:2: stranded port ignored"]);
    check("a [x] -> b", &["f:1: syntax error: port number should be integer"]);
    check("a [65536] -> b", &["f:1: port number too large, bound 65535"]);
    check("a [99999999999] -> b", &["f:1: port number too large, bound 65535"]);
    check("a [3-1] -> b", &["f:1: syntax error: the port range is empty"]);
    check("a [3-] -> b", &["f:1: syntax error: expected port number"]);
    check("a [1 2] -> b", &["f:1: syntax error: expected ','"]);
    check("a [,] -> b", &["f:1: syntax error: expected port number"]);
    check("B(x", &["f:1: expected ')'", "f:1: '(' was opened here"]);
    check("a :: {\n x", &["f:2: expected '}'", "f:1: '{' was opened here"]);
    check("a -> (\n x", &["f:2: expected ')'", "f:1: '(' was opened here"]);
    check("{ ( x } ;", &["f:1: syntax error near '}'"]);
    check("{ ... }", &["f:1: '...' should occur last, after one or more compounds"]);
    check("{ a || ... || b }", &["f:1: '...' should occur last, after one or more compounds"]);
    check("{ $a, b | c }", &["f:1: expected variable", "f:1: syntax error near '|'"]);
    check("{ $a b }", &["f:1: expected ',' or '|'"]);
    check("{ $a, $a | }", &["f:1: parameter '$a' multiply defined"]);
    check("{ K $a, K $b | }", &["f:1: repeated keyword parameter 'K' in compound element"]);
    let order = [
        "f:1: compound element parameters out of order",
        "f:1: (The correct order is '[positional], [keywords], [__REST__]'.)",
    ];
    check("{ K $a, $b | }", &order);
    check("{ __REST__ $a, K $b | }", &order);
    check("elementclass { }", &["f:1: expected element type name"]);
    check("elementclass A ;", &["f:1: syntax error near ';'"]);
    check("require x;", &["f:1: expected '('"]);
    check("require(a b)", &["f:1: syntax error at requirement"]);
    check("require(package)", &["f:1: syntax error at requirement"]);
    check("#frob\na", &["f:1: unknown preprocessor directive"]);
    check("a /* x", &["f:1: warning: unterminated comment"]);
    check("( a -> [0], b -> c )", &["f:1: implicit ports used in the middle of a chain"]);
    check("a (x) (y)", &["f:1: syntax error near '('"]);
    check("$a -> b", &["f:1: syntax error near '$a'"]);
}

#[test]
fn bytes_that_are_not_text_are_told_where_they_matter() {
    let (_, errors) = parse(Source::new("f", b"// caf\xe9\nM(\"\xe9\");\n").unwrap());
    assert_eq!(errors.to_click(), "f:2: byte 0xE9 is not valid UTF-8\n");
}

#[test]
fn nesting_is_bounded() {
    for (open, close, what) in [("{", "}", "compound element"), ("(", ")", "element group")] {
        for depth in [NEST_DEPTH_MAX, NEST_DEPTH_MAX + 1, 100_000] {
            let text = format!("{}x{}", open.repeat(depth), close.repeat(depth));
            let (_, errors) = read(&text);
            let expected = match depth {
                NEST_DEPTH_MAX => String::new(),
                _ => format!("f:1: maximum {what} nesting depth exceeded\n"),
            };
            assert_eq!(errors, expected, "{depth}");
        }
    }
}

#[test]
fn what_precedes_an_error_is_kept() {
    let (ast, _) = read("a :: Idle -> ? -> b; c :: Idle; elementclass A { x :: Idle ? ; y ? }");
    assert_eq!(ast.statements.len(), 3);
    let Statement::Chain(chain) = &ast.statements[0] else { panic!("{ast:?}") };
    assert!(
        matches!(&chain.stages[0].elements[0].target, Target::Named { name, .. } if name == "a")
    );
    let Statement::ElementClass { class: ClassExpr::Compound { overloads, .. }, .. } =
        &ast.statements[2]
    else {
        panic!("{ast:?}")
    };
    assert_eq!(overloads[0].statements.len(), 2);
}
