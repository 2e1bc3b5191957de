//! Meaning of names, ports of chains, compounds and groups.

use std::collections::BTreeMap;

use super::super::tests::{Shelf, flat, table};
use super::super::{Source, expand, flatten, parse, parse_with};

/// Flat lines, declarations and chains, sorted; a chain on one line.
fn lines(text: &str) -> Vec<String> {
    let flat = flat(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let joined = flat.replace("\n    ->", " ->");
    let mut lines: Vec<String> =
        joined.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(lines(text), expected, "{text}");
}

#[track_caller]
fn check_errors(text: &str, expected: &[&str]) {
    let errors = flat(text).expect_err(text);
    let errors: Vec<&str> = errors.lines().collect();
    assert_eq!(errors, expected, "{text}");
}

#[test]
fn commas_connect_one_to_many() {
    let text = "left, right, end :: Idle; l, m :: PullNull;
                left [2], right -> end -> l, m; l -> right, [3] left; m -> [1] right;";
    check(
        text,
        &[
            "end -> m -> [1] right;",
            "end :: Idle;",
            "l -> [3] left;",
            "l :: PullNull;",
            "left :: Idle;",
            "left [2] -> end -> l -> right -> end;",
            "m :: PullNull;",
            "right :: Idle;",
        ],
    );
}

#[test]
fn wide_arrows_connect_many_to_many() {
    let decl = ["a :: Idle;", "b :: Idle;", "c :: Idle;"];
    let check = |text: &str, chains: &[&str]| {
        let text = format!("a, b, c :: Idle; {text}");
        check(&text, &[&decl[..], chains].concat());
    };
    check(
        "a => [2] b, c, [1,3] b;",
        &["a -> [2] b;", "a [1] -> c;", "a [2] -> [1] b;", "a [3] -> [3] b;"],
    );
    check("a [0-1] => [2,4] b;", &["a -> [2] b;", "a [1] -> [4] b;"]);
    check("a [2,] => b, c, [3] c;", &["a [2] -> b;", "a [3] -> c;", "a [4] -> [3] c;"]);
    check(
        "a [], b => [0] c, [1] c, [7-8] c;",
        &["a -> c;", "a [1] -> [1] c;", "a [2] -> [7] c;", "b -> [8] c;"],
    );
    check("a, b => c;", &["a -> c;", "b -> [1] c;"]);
    check("a => b;", &["a -> b;"]);
    check("a [0x1] -> b;", &["a [1] -> b;"]);
}

#[test]
fn mismatched_sides_are_told() {
    let check_errors = |text: &str, expected: &[&str]| {
        check_errors(&format!("a, b, c, d :: Idle;\n{text}"), expected);
    };
    check_errors(
        "a [1,3] => [0,2,4] b;\nc [5,] => [] d;",
        &[
            "f:2: connection mismatch: 2 outputs connected to 3 inputs",
            "f:3: at most one expandable port allowed per connection",
        ],
    );
    check_errors(
        "a [1,2] -> [0,3] b;",
        &["f:2: syntax error: many-to-many connections require '=>'"],
    );
    check_errors(
        "a [1,2,] => b, c[0];\na[0-3] => [0,] b, [0-4] c;",
        &[
            "f:2: output ports ignored at end of chain",
            "f:3: connection mismatch: 4 outputs connected to 6 or more inputs",
        ],
    );
    check_errors(
        "a [0-3,] => [0] b, [1] c;",
        &["f:2: connection mismatch: 4 or more outputs connected to 2 inputs"],
    );
    check_errors(
        "[1] a -> b [2];",
        &[
            "f:2: input ports ignored at start of chain",
            "f:2: output ports ignored at end of chain",
        ],
    );
}

#[test]
fn groups_are_spliced_in() {
    let expected = ["a -> c;", "a :: Idle;", "a [1] -> b;", "b :: Idle;", "c :: Idle;"];
    check("a, b, c :: Idle; a [0-1] => c, b;", &expected);
    check("a, b, c :: Idle; a [0-1] => ( -> c ), ( -> b );", &expected);
    check("a :: Idle; a => ( -> c :: Idle ), ( -> b :: Idle );", &expected);
    // A group passes on as many ports as it has, and counts in names as three elements.
    check(
        "in, out :: Idle;
         in => ( -> Null -> ), ( -> x :: Idle => ( -> ), ( -> Print -> ) -> ) -> out;",
        &[
            "Null@6 :: Null;",
            "Print@17 :: Print;",
            "in -> Null@6 -> out;",
            "in :: Idle;",
            "in [1] -> x -> out;",
            "out :: Idle;",
            "x :: Idle;",
            "x [1] -> Print@17 -> out;",
        ],
    );
    check_errors(
        "a :: Idle; a -> (Null -> );\nx :: Idle -> ([1] -> Null -> Discard);",
        &[
            "f:1: '<anonymous group>' has no input 0",
            "f:1: '<anonymous group>' output 0 unused",
            "f:2: '<anonymous group>' input 0 missing",
            "f:2: '<anonymous group>' has no input 0",
        ],
    );
}

#[test]
fn sources_that_are_several_become_one_element_each() {
    check(
        "elementclass In { $args | s :: Idle($args) -> output }
         end, other :: Idle; i :: In(x | y) -> end; Idle(z) -> end; Idle [2] -> other;",
        &[
            "Idle@4 -> end;",
            "Idle@4 :: Idle(z);",
            "Idle@5 :: Idle;",
            "Idle@5 [2] -> other;",
            "end :: Idle;",
            "i/s/0 -> end;",
            "i/s/0 :: Idle(x);",
            "i/s/1 -> end;",
            "i/s/1 :: Idle(y);",
            "other :: Idle;",
        ],
    );
    // An element with inputs is no source.
    check("a :: Idle -> b :: Idle(x | y);", &["a -> b;", "a :: Idle;", "b :: Idle(x | y);"]);
}

#[test]
fn compounds_become_their_parts() {
    check(
        "elementclass Inner { $text | Message($text) }
         elementclass Outer { $n, $text | Null@1 :: Idle; Inner($text $n) }
         Outer(7, hello);",
        &["Outer@1/Inner@2/Message@1 :: Message(hello 7);", "Outer@1/Null@1 :: Idle;"],
    );
    // A variable is that of where the class is written, not of where it is used.
    check(
        "elementclass House { $who |
           elementclass Door { $n | Message($who, $n) }
           elementclass Room { $who | door :: Door($who) }
           room :: Room(cat);
         }
         House(owner);",
        &["House@1/room/door/Message@1 :: Message(owner, cat);"],
    );
    check(
        "a, b :: Idle; a [2] -> { -> } -> b; a [0-1] => [0-1] { [0-1] => [0-1] } [0-1] => [3-4] b;",
        &["a -> [3] b;", "a :: Idle;", "a [1] -> [4] b;", "a [2] -> b;", "b :: Idle;"],
    );
    check(
        "a, b :: Idle; a -> x :: { input -> Null -> output; input [1] -> [1] output } -> b;
         a [1] -> [1] x [1] -> [1] b;",
        &[
            "a -> x/Null@1 -> b;",
            "a :: Idle;",
            "a [1] -> [1] b;",
            "b :: Idle;",
            "x/Null@1 :: Null;",
        ],
    );
    // A definition sees its own name as it was, and classes hold from where they are made.
    check(
        "elementclass Null { input -> Null -> Null -> output }
         i :: Idle -> Null -> Discard;",
        &[
            "Discard@3 :: Discard;",
            "Null@2/Null@1 :: Null;",
            "Null@2/Null@2 :: Null;",
            "i -> Null@2/Null@1 -> Null@2/Null@2 -> Discard@3;",
            "i :: Idle;",
        ],
    );
    check("elementclass Nothing Idle; n :: Nothing;", &["n :: Idle;"]);
    // Circles of borders reach nobody.
    check("x :: { -> }; y :: { -> }; x -> y -> x;", &[]);
}

#[test]
fn overloads_are_chosen_by_ports_and_arguments() {
    let text = "
        elementclass Foo {
           $a, $b | input -> Print(1) -> output
        || $a, __REST__ $b | input -> Print(2, $b) -> output
        || $a, TWO $b, __REST__ $c | input -> Print(3) -> output
        || input -> Print(4, $b) -> output; input[1] -> [1]output
        }
        elementclass Old { $a | Foo($a) }
        i :: InfiniteSource -> Foo(A) -> f :: Foo(A, TWO B) -> Foo(A, B, C, D) -> Discard;
        Idle => Foo => Idle;
        elementclass Foo { $a, $b | input -> Print(5) -> output || ... }
        f2 :: Idle -> Foo(A, B) -> Foo(A) -> Discard;";
    let text = &text.replace("Idle => Foo => Idle", "x :: Idle; x[0,1] => Foo[0,1] => [0,1]x");
    let printed: Vec<String> = lines(&text.replace("elementclass Old { $a | Foo($a) }", ""))
        .into_iter()
        .filter(|line| line.contains(":: Print"))
        .collect();
    assert_eq!(
        printed,
        [
            "Foo@10/Print@1 :: Print(2, );",
            "Foo@2/Print@1 :: Print(2, );",
            "Foo@4/Print@1 :: Print(2, B, C, D);",
            "Foo@7/Print@1 :: Print(4, $b);",
            "Foo@9/Print@1 :: Print(5);",
            "f/Print@1 :: Print(1);",
        ]
    );
    check_errors(
        "elementclass A { $a, KEY $b | Null }\n\
         elementclass B { Idle || $a, __REST__ $r | input -> Idle }\n\
         A(1);\nB(1, 2, 3) -> Idle;",
        &[
            "f:3: no match for 'A[1 argument, 0 inputs, 0 outputs]'",
            "f:3: candidates are:",
            "f:1:   A(<arg>, KEY)[0 inputs, 0 outputs]",
            "f:4: no match for 'B[3 arguments, 0 inputs, 1 output]'",
            "f:4: candidates are:",
            "f:2:   B[0 inputs, 0 outputs]",
            "f:2:   B(<arg>, ...)[1 input, 0 outputs]",
            "f:4: 'B@2' input 0 unused",
            "f:4: 'B@2' has no output 0",
        ],
    );
}

#[test]
fn names_are_checked() {
    check_errors(
        "x :: Idle;\nx :: Idle;\nNull :: Idle;\nIdle(1) -> x(2);\ny;\nz :: Nil;\n\
         7 :: Idle;\na/3/b :: Idle;",
        &[
            "f:2: redeclaration of element 'x'",
            "f:1: element 'x' previously declared here",
            "f:3: class 'Null' used as element name",
            "f:4: configuration string ignored on element reference",
            "f:5: undeclared element 'y'",
            "f:6: unknown element class 'Nil'",
            "f:7: element name '7' has all-digit component",
            "f:8: element name 'a/3/b' has all-digit component",
        ],
    );
    check_errors(
        "c/i :: Idle;\nc :: { i :: Idle };",
        &["f:2: redeclaration of element 'c/i'", "f:1: 'c/i' previously declared here"],
    );
    check_errors(
        "elementclass E { Idle || ... }\nelementclass F { input :: Idle; }",
        &["f:1: cannot extend unknown element class 'E'", "f:2: redeclaration of element 'input'"],
    );
    check_errors(
        "elementclass E { Null -> input; input[2] -> output[0] -> Null }\ni :: Idle -> e :: E;",
        &[
            "f:1: 'E' pseudoelement 'input' may only be used as output",
            "f:1: 'E' pseudoelement 'output' may only be used as input",
            "f:1: 'E' input 0 missing",
            "f:1: 'E' input 1 missing",
            "f:2: 'e' has no input 0",
            "f:2: 'e' input 2 unused",
        ],
    );
    // Chosen names make way for given ones.
    check(
        "Idle@1 :: Null; Idle@2 :: Idle; Idle;",
        &["Idle@1 :: Null;", "Idle@2 :: Idle;", "Idle@3 :: Idle;"],
    );
    check("Idle; Idle@1 :: Null;", &["Idle@1 :: Null;", "Idle@2 :: Idle;"]);
}

#[test]
fn the_flat_text_has_the_layout_of_flatconfig() {
    let text = "require(compact_config)
        elementclass Way { $a, $b | input -> Print(1) -> output
                        || $a, __REST__ $b | input -> Print(2) -> output }
        InfiniteSource(LIMIT 1, STOP true) -> Way(A) -> w :: Way(A, TWO B)
        elementclass Way { $a, $b | input -> Print(4) -> output || ... }
        w -> Way(A, B) -> Way(A, B, C) -> Discard;";
    let expected = "require(compact_config);\n\n\
        InfiniteSource@1 :: InfiniteSource(LIMIT 1, STOP true);\n\
        Discard@6 :: Discard;\n\
        Way@2/Print@1 :: Print(2);\n\
        w/Print@1 :: Print(1);\n\
        Way@4/Print@1 :: Print(4);\n\
        Way@5/Print@1 :: Print(2);\n\n\
        InfiniteSource@1 -> Way@2/Print@1\n    -> w/Print@1\n    -> Way@4/Print@1\n    \
        -> Way@5/Print@1\n    -> Discard@6;\n";
    assert_eq!(flat(text).as_deref(), Ok(expected));
}

#[test]
fn landmarks_follow_line_directives() {
    check_errors(
        "# 1 \"A\"\n\nx :: Idle;\n# 1 \"./B\" 1\nx :: Idle;\n\n# 4 \"A\" 2\ny :: ?",
        &[
            "./B:1: redeclaration of element 'x'",
            "A:2: element 'x' previously declared here",
            "A:4: missing element type in declaration",
            "A:4: syntax error near '?'",
        ],
    );
}

#[test]
fn variables_reach_configuration_strings() {
    let text = "define($A 1, $B $A$A); x :: Message($A $B \"$B\" '$A' ${C-d});
                elementclass M { $B | define($A 5) Message($A, $B, $D) } M(y $A);";
    check(text, &["M@2/Message@1 :: Message(5, y 1, $D);", "x :: Message(1 11 \"11\" '$A' d);"]);
    let globals: BTreeMap<String, String> =
        [("A", "9"), ("D", "7")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let (ast, _) = parse(Source::new("f", text.as_bytes()).unwrap());
    let flat = flatten(&expand(&ast, &table(), &globals).unwrap());
    assert_eq!(flat, "x :: Message(9 99 \"99\" '$A' d);\nM@2/Message@1 :: Message(5, y 9, 7);\n\n");
    check_errors(
        "define($A 1)\ndefine($A 2)\ndefine(B 2)",
        &["f:2: parameter '$A' multiply defined", "f:3: bad 'define' declaration: not a variable"],
    );
}

#[test]
fn libraries_are_read_once() {
    let shelf = [
        ("house", "require(library door)\nelementclass House { front :: Door }"),
        ("door", "elementclass Door { lock :: Idle }"),
        ("bad", "require(library house) x ->;"),
    ];
    let text = "require(library house, library bad, package p) require(compact_config) h :: House;";
    let source = Source::new("main", text.as_bytes()).unwrap();
    let (ast, errors) = parse_with(source, &mut Shelf(shelf.into()));
    assert_eq!(errors.to_click(), "bad:1: syntax error near ';'\n");
    let errors = expand(&ast, &table(), &BTreeMap::new()).unwrap_err();
    assert_eq!(errors.to_click(), "bad:1: undeclared element 'x'\n");
    check_errors(
        "{ require(library x) }\nrequire(library y, a b c)",
        &[
            "f:1: 'require library' must be used at file scope",
            "f:2: syntax error at requirement",
            "f:2: library 'y' not found in CLICKPATH/conf",
        ],
    );
    assert_eq!(
        flat("require(package p, quick, compact_config) i :: Idle;").unwrap(),
        "require(package p, package quick, compact_config);\n\ni :: Idle;\n\n"
    );
}

#[test]
fn bombs_are_refused() {
    let mut text = "elementclass A0 { Idle; Idle }\n".to_owned();
    for idx in 1..40 {
        text.push_str(&format!("elementclass A{idx} {{ A{0}; A{0} }}\n", idx - 1));
    }
    check_errors(
        &format!("{text}A39;"),
        &["f:2: the configuration expands to more than 262144 elements"],
    );
    let mut text = "elementclass A0 { Idle }\n".to_owned();
    for idx in 1..=150 {
        text.push_str(&format!("elementclass A{idx} {{ A{} }}\n", idx - 1));
    }
    check_errors(
        &format!("{text}A150;"),
        &["f:52: maximum compound element nesting depth exceeded"],
    );
    let mut text = "define($v0 0123456789)\n".to_owned();
    for idx in 1..60 {
        text.push_str(&format!("define($v{idx} $v{0}$v{0})\n", idx - 1));
    }
    let errors = flat(&format!("{text}Message($v59);")).unwrap_err();
    assert!(errors.contains("variables expand to more than 16777216 bytes"), "{errors}");
    let text = format!("a :: Idle;\n{}", "a[0-65535] => [0-65535]a;\n".repeat(20));
    check_errors(&text, &["f:18: the configuration has more than 1048576 connections"]);
    // Borders that multiply wires: 1,500 in, 1,500 out.
    let text = "a :: Idle; a[0-1499] -> { -> } -> [0-1499] a;";
    check_errors(text, &["f:1: the configuration expands to more than 1048576 connections"]);
}

#[test]
fn rejects_requirements_of_unknown_packages() {
    check_errors(
        "require(package p, package foo)\nrequire(quack)\nelementclass C { require(bar) Idle }",
        &[
            "f:1: requirement 'foo' not available",
            "f:2: requirement 'quack' not available",
            "f:3: requirement 'bar' not available",
        ],
    );
    let report = |text: &str| {
        let (ast, _) = parse(Source::new("f", text.as_bytes()).unwrap());
        expand(&ast, &table(), &BTreeMap::new()).unwrap_err().to_string()
    };
    let foo = report("require(foo)");
    assert!(foo.contains("the packages are p, quick"), "{foo}");
    let quikc = report("require(quikc)");
    assert!(quikc.contains("there is a package 'quick'"), "{quikc}");
}
