//! The language from end to end, and what its parts' tests share.

use std::collections::BTreeMap;

use super::*;

/// Some of Click's classes, enough for the standard IP router.
pub(super) struct Table(Vec<ClassSpec>);

pub(super) fn table() -> Table {
    let rows = "
        Idle -/- a x/y|InfiniteSource 0/1 a x|Discard 1/0 a x|Null 1/1 a x|PushNull 1/1 h x
        PullNull 1/1 l x|Print 1/1 a x|Queue 1/1 h/l x|Unqueue 1/1 l/h x|Tee 1/1- h x
        Counter 1/1 a x|DriverManager 0/0 a x|Message 0/0 a x|RoundRobinSched 1-/1 l x
        FromDevice 0/1 h x|ToDevice 1/0-1 l/h x|Classifier 1/- h x|Paint 1/1 a x
        PaintTee 1/1-2 a/ah x|Strip 1/1 a x|CheckIPHeader 1/1-2 a/ah x|StaticIPLookup 1/- h x
        DropBroadcasts 1/1-2 a/ah x|IPGWOptions 1/1-2 a/ah x|FixIPSrc 1/1 a x
        DecIPTTL 1/1-2 a/ah x|IPFragmenter 1/1-2 h x|ICMPError 1/1 a x|ARPResponder 1/1-2 a/ah x
        ARPQuerier 2/1-2 h xy/x|EtherEncap 1/1 a x|Hub 1-/=+ h #/[^#]|PullSwitch 1-/1 l x";
    let row = |row: &'static str| {
        let mut words = row.split_whitespace();
        let mut word = || words.next().unwrap();
        let (name, port_count, processing) = (word(), word(), word());
        let flow_code = match word() {
            "x" => "x/x",
            code => code,
        };
        ClassSpec { name, port_count, processing, flow_code }
    };
    Table(rows.trim().split(['\n', '|']).map(|text| row(text.trim())).collect())
}

impl ClassTable for Table {
    fn get(&self, class: &str) -> Option<&ClassSpec> {
        self.0.iter().find(|spec| spec.name == class)
    }

    fn packages(&self) -> &[&str] {
        &["p", "quick"]
    }

    /// `Idle(a | b)` is two elements.
    fn replicas(&self, class: &str, config: &str) -> Vec<String> {
        match config.split_once(" | ") {
            Some((a, b)) if class == "Idle" => vec![a.to_owned(), b.to_owned()],
            _ => Vec::new(),
        }
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|spec| spec.name).collect()
    }
}

/// Libraries by name.
pub(super) struct Shelf(pub(super) BTreeMap<&'static str, &'static str>);

impl Library for Shelf {
    fn load(&mut self, name: &str, from: &str) -> Result<(String, Vec<u8>), String> {
        let text =
            self.0.get(name).ok_or_else(|| format!("library '{name}' not found by {from}"))?;
        Ok((name.to_owned(), text.as_bytes().to_vec()))
    }
}

pub(super) fn load_text(text: &str) -> Result<Loaded, Diagnostics> {
    load("f", text.as_bytes(), &table(), &BTreeMap::new(), None)
}

/// Reads and expands, ports unchecked: the flat text, or the errors as Click prints them.
pub(super) fn flat(text: &str) -> Result<String, String> {
    let (ast, mut errors) = parse(Source::new("f", text.as_bytes()).unwrap());
    match expand(&ast, &table(), &BTreeMap::new()) {
        Ok(graph) if !errors.has_errors() => Ok(flatten(&graph)),
        Ok(_) => Err(errors.to_click()),
        Err(more) => {
            errors.append(more);
            Err(errors.to_click())
        }
    }
}

pub(super) const IP_ROUTER: &str = include_str!("testdata/ip-router.click");

#[test]
fn the_standard_ip_router_loads() {
    let loaded = load_text(IP_ROUTER).unwrap_or_else(|errors| panic!("{errors}"));
    let Loaded { graph, ports, warnings } = &loaded;
    assert!(warnings.is_empty());
    let kind = |name: &str| {
        let found = &ports[graph.find(name).unwrap_or_else(|| panic!("no {name}"))];
        let letters = |side: &[Processing]| -> String {
            side.iter().map(|p| if *p == Processing::Push { 'h' } else { 'l' }).collect()
        };
        format!("{}/{}", letters(&found.inputs), letters(&found.outputs))
    };
    assert_eq!(kind("c0"), "h/hhhh");
    assert_eq!(kind("rt"), "h/hhh");
    assert_eq!(kind("port0/cp"), "h/hh");
    assert_eq!(kind("out1"), "h/l");
    assert_eq!(kind("arpq0"), "hh/h");
    let text = flatten(graph);
    let again = load_text(&text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    assert!(graph.is_same(&again.graph), "{text}");
    assert_eq!(flatten(&again.graph), text);

    let flow = Flow::new(graph, &table());
    let from = graph.find("port0/dt").unwrap();
    let class = |idx: usize| graph.elements[idx].class.as_str();
    let stops = |visit: Visit| class(visit.at.element) == "Queue";
    let reached = flow.downstream(from, Some(0), stops);
    let queues: Vec<&str> = reached
        .iter()
        .filter(|&&idx| class(idx) == "Queue")
        .map(|&idx| graph.elements[idx].name.as_str())
        .collect();
    assert!(queues.contains(&"out0"), "{queues:?}");
}

#[test]
fn errors_of_all_steps_come_at_once_and_in_order() {
    let text =
        "a :: Nill;\nb :: { input -> Null -> };\nx ->;\nInfiniteSource -> bb;\nb -> Discard;\n";
    let report = load_text(text).unwrap_err().to_string();
    let expected = "\
error: unknown element class 'Nill'
 --> f:1:6
  |
1 | a :: Nill;
  |      ^^^^
  |
  = help: there is a class 'Null'

error: 'b' input 0 unused
 --> f:2:1
  |
2 | b :: { input -> Null -> };
  | ^

error: undeclared element 'x'
 --> f:3:1
  |
3 | x ->;
  | ^ neither an element nor an element class

error: syntax error near ';'
 --> f:3:5
  |
3 | x ->;
  |     ^

error: undeclared element 'bb'
 --> f:4:19
  |
4 | InfiniteSource -> bb;
  |                   ^^ neither an element nor an element class
";
    assert_eq!(report, expected, "{report}");
}

#[test]
fn an_archive_is_read() {
    let mut bytes = b"!<arch>\n".to_vec();
    bytes.extend(format!("{:<16}{:<32}{:<10}`\n", "config", "", 11).bytes());
    bytes.extend(b"a :: Idle;\n\n");
    let loaded = load("f", &bytes, &table(), &BTreeMap::new(), None).unwrap();
    assert_eq!(loaded.graph.elements.len(), 1);
    bytes[8] = b'x';
    let error = load("f", &bytes, &table(), &BTreeMap::new(), None);
    assert_eq!(error.unwrap_err().to_click(), "f: archive has no 'config' section\n");
}

#[test]
fn an_element_that_cannot_be_configured_is_told_as_click_does() {
    let loaded = load_text("m :: Message(\n# 100 \"g\"\n\"test\");\nm2 :: Message();").unwrap();
    let lines = ["MESSAGE: required argument missing".to_owned(), "too many\nerrors".to_owned()];
    let told = |idx| loaded.graph.element_error("While configuring", idx, &lines).to_click();
    let details = "  MESSAGE: required argument missing\n  too many\n  errors\n";
    assert_eq!(told(0), format!("f:1: While configuring 'm :: Message':\n{details}"));
    assert_eq!(told(1), format!("g:101: While configuring 'm2 :: Message':\n{details}"));
    let report = loaded.graph.element_error("While configuring", 0, &lines[..1]).to_string();
    assert!(report.contains("= note: MESSAGE: required argument missing"), "{report}");
}

#[test]
fn errors_are_shown_where_they_were_made() {
    let table = table();
    let report = |text: &str| match load("f", text.as_bytes(), &table, &BTreeMap::new(), None) {
        Err(errors) => errors.to_string(),
        Ok(loaded) => {
            let graph = &loaded.graph;
            let idx = graph.elements.iter().position(|e| e.class == "Message").unwrap();
            let (mut first, mut named) = (0u8, 0u8);
            let mut args = args::Args::new(&graph.elements[idx].config);
            args.read_p("FIRST", &mut first).read("N", &mut named);
            graph.argument_error(idx, &args.complete().unwrap_err()).to_string()
        }
    };
    let check = |text: &str, expected: &[&str]| {
        let report = report(text);
        for expected in expected {
            assert!(report.contains(expected), "{text}\n{report}");
        }
    };
    check("m :: Message(1, // one\n  N x2 /* ! */)", &["f:2:3", "^^^^ N: invalid number\n"]);
    check("m :: Message(5 5,\nNN 3);", &["f:1:14", "^^^ FIRST: ", "f:2:1", "^^^^ NN: unknown"]);
    check("define($a zz) m :: Message(N $a);", &["^^^^ N: invalid number: 'N zz'"]);
    check("c :: { Message(N ${b}) }", &["^^^^^^ N: invalid number", "the variable 'b' has no"]);
    check("a :: Idle; b :: Queue;\na[1]\n  -> [3] b -> Idle", &["has no input 3", "f:3:3"]);
    check("c :: { Idle -> Idle }; d :: Idle;\nd -> [2] c;", &["'c' has no input 2", "f:2:3"]);
    check(
        "Message(\"x);\na :: Idle(\"y\");",
        &["f:1:9", "^ string starting here is not terminated"],
    );
}

#[test]
fn names_in_configurations_are_found_from_the_inside_out() {
    let text = "q, r :: Message; c :: { q :: Message; d :: { x :: Message; r :: Message } }
                cc :: { x :: Message }";
    let graph = load_text(text).unwrap().graph;
    let check = |from: &str, name: &str, expected: Option<&str>| {
        let found = graph.find_from(graph.find(from).unwrap(), name);
        assert_eq!(found.map(|idx| graph.elements[idx].name.as_str()), expected, "{from} {name}");
    };
    check("c/d/x", "q", Some("c/q"));
    check("c/d/x", "r", Some("c/d/r"));
    check("c/q", "r", Some("r"));
    check("c/q", "d/r", Some("c/d/r"));
    check("cc/x", "q", Some("q"));
    check("q", "c/d/x", Some("c/d/x"));
    check("q", "x", None);
    check("cc/x", "", None);
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    assert_eq!(load_text("\u{feff}a :: Idle;").unwrap().graph.elements.len(), 1);
}
