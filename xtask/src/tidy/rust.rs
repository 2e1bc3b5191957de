//! Checks of Rust files, on their tokens: strings and comments cannot mislead them.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{Finding, layers};
use crate::repo::SourceFile;

/// The most lines of a function, from `fn` to its last brace.
const FUNCTION_LINES_MAX: usize = 70;

/// Where `unsafe` may be written; each room says why it is sound.
pub const UNSAFE_ROOMS: [&str; 7] = [
    "crates/packet/src/",
    "crates/classify/src/arch/",
    "crates/routes/src/arch/",
    "crates/scan/src/arch/",
    "crates/flow/src/arch/",
    "crates/io/src/sys/",
    "crates/gpu/src/driver/",
];

/// Macros that stand for work not done, or not cleaned up.
const LEFTOVER_MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
/// Notes that do.
const LEFTOVER_NOTES: [&str; 3] = [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("XX", "X")];

/// What nobody does below the binary: `type or module :: function`.
const ABSENCES: [(&str, &str, &str); 8] = [
    ("Instant", "now", "reads a clock: take the time as a parameter"),
    ("SystemTime", "now", "reads a clock: take the time as a parameter"),
    ("thread", "spawn", "starts a thread: workers are handed in"),
    ("thread", "Builder", "starts a thread: workers are handed in"),
    ("TcpListener", "bind", "opens a socket of the control plane"),
    ("TcpStream", "connect", "opens a socket of the control plane"),
    ("UnixListener", "bind", "opens a socket of the control plane"),
    ("UnixStream", "connect", "opens a socket of the control plane"),
];
/// The first layer that may do so.
const BINARY_LAYER: u8 = 6;

/// All checks of one Rust file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.trim_start().starts_with("//!") && !path.ends_with("build.rs") {
        let message = "begins without a `//!` line that says what it is for";
        findings.push(Finding::new("module-doc", path, 1, message));
    }
    findings.extend(check_notes(path, text));
    match text.parse::<TokenStream>() {
        Ok(tokens) => {
            let mut walk = Walk { path, findings: &mut findings, in_test: path_is_test(path) };
            walk.stream(tokens);
        }
        Err(error) => {
            let line = error.span().start().line;
            findings.push(Finding::new("leftover", path, line, "does not parse"));
        }
    }
    findings
}

fn check_notes(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(note) = words.find(|word| LEFTOVER_NOTES.contains(word)) {
            let message = format!("{note}: finish it, or open an issue");
            findings.push(Finding::new("leftover", path, idx + 1, message));
        }
    }
    findings
}

/// The lints that every crate takes, and the ban on `unsafe` where there is no room for it.
pub fn check_crates(files: &[SourceFile]) -> Vec<Finding> {
    let text_of = |path: &str| files.iter().find(|f| f.path == path)?.text.as_deref();
    let mut findings = Vec::new();
    for file in files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        let is_member = ["xtask", "fuzz/checks"].contains(&folder) || folder.starts_with("crates/");
        let manifest =
            file.text.as_deref().and_then(|text| toml::from_str::<toml::Table>(text).ok());
        let Some(manifest) = manifest.filter(|_| is_member) else { continue };
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        if lints.and_then(toml::Value::as_bool) != Some(true) {
            let message = "does not take the workspace's lints: `[lints] workspace = true`";
            findings.push(Finding::new("crate-policy", &file.path, 0, message));
        }
        let has_room = UNSAFE_ROOMS.iter().any(|room| room.starts_with(&format!("{folder}/")));
        for root in ["src/lib.rs", "src/main.rs"] {
            let root = format!("{folder}/{root}");
            let Some(text) = text_of(&root) else { continue };
            if !has_room && !text.contains("#![forbid(unsafe_code)]") {
                let message = "has no room for `unsafe` and does not forbid it";
                findings.push(Finding::new("crate-policy", &root, 0, message));
            }
        }
    }
    findings
}

/// Whether all of a file is test code.
pub fn path_is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.contains("/benches/")
}

/// Whether tokens of this file run below the binary, outside of tests.
fn is_below_binary(path: &str) -> bool {
    let room = path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    room.and_then(layers::room).is_some_and(|room| room.layer < BINARY_LAYER)
}

struct Walk<'a> {
    path: &'a str,
    findings: &'a mut Vec<Finding>,
    in_test: bool,
}

impl Walk<'_> {
    /// Walks one level of tokens and goes into its groups. Nesting is bounded by the compiler's
    /// own limit, which every tracked file has passed.
    fn stream(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut test_item = false;
        for (idx, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(ident) => self.ident(&tokens, idx, &ident.to_string()),
                TokenTree::Group(group) => {
                    let outer = self.in_test;
                    test_item |= is_test_attribute(&tokens, idx);
                    self.in_test |= test_item;
                    self.stream(group.stream());
                    self.in_test = outer;
                    // The attribute holds for one item, and the item ends with its braces.
                    test_item &= group.delimiter() != Delimiter::Brace;
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => test_item = false,
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    fn ident(&mut self, tokens: &[TokenTree], idx: usize, name: &str) {
        let line = tokens[idx].span().start().line;
        if name == "unsafe" && !UNSAFE_ROOMS.iter().any(|room| self.path.starts_with(room)) {
            let message = format!("`unsafe` outside of {}", UNSAFE_ROOMS.join(", "));
            self.push("unsafe-room", line, message);
        }
        if LEFTOVER_MACROS.contains(&name) && is_punct(tokens.get(idx + 1), '!') {
            self.push("leftover", line, format!("`{name}!` stands for work not done"));
        }
        if name == "fn" {
            self.function(tokens, idx);
        }
        if !self.in_test && is_below_binary(self.path) {
            self.absence(tokens, idx, name, line);
        }
    }

    fn function(&mut self, tokens: &[TokenTree], idx: usize) {
        // A function pointer type has no name.
        let Some(TokenTree::Ident(name)) = tokens.get(idx + 1) else { return };
        let start = tokens[idx].span().start().line;
        for token in &tokens[idx + 2..] {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                    let lines = group.span().end().line - start + 1;
                    if lines > FUNCTION_LINES_MAX {
                        let message =
                            format!("{name}: {lines} lines, at most {FUNCTION_LINES_MAX}");
                        let finding = Finding::new("function-lines", self.path, start, message);
                        self.findings.push(finding.of(name.to_string(), lines));
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    fn absence(&mut self, tokens: &[TokenTree], idx: usize, name: &str, line: usize) {
        let path_follows = is_punct(tokens.get(idx + 1), ':') && is_punct(tokens.get(idx + 2), ':');
        let Some(TokenTree::Ident(member)) = tokens.get(idx + 3).filter(|_| path_follows) else {
            return;
        };
        let known = ABSENCES.iter().find(|(owner, call, _)| *owner == name && member == call);
        if let Some((owner, call, why)) = known {
            self.push("absence", line, format!("{owner}::{call} {why}"));
        }
    }

    fn push(&mut self, check: &'static str, line: usize, message: String) {
        self.findings.push(Finding::new(check, self.path, line, message));
    }
}

/// Whether a token is the punctuation `c`.
pub fn is_punct(token: Option<&TokenTree>, c: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == c)
}

/// Whether the group at `idx` is that of `#[cfg(test)]`, `#[cfg(all(test, …))]` or `#[test]`.
pub fn is_test_attribute(tokens: &[TokenTree], idx: usize) -> bool {
    let TokenTree::Group(group) = &tokens[idx] else { return false };
    if idx == 0 || !is_punct(tokens.get(idx - 1), '#') {
        return false;
    }
    let text: String = group.stream().to_string().split_whitespace().collect();
    text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    fn checks(path: &str, code: &str) -> Vec<(&'static str, usize)> {
        let text = format!("//! Doc.\n{code}");
        check(path, &text).into_iter().map(|f| (f.check, f.line)).collect()
    }

    #[test]
    fn unsafe_is_found_outside_its_rooms_only() {
        let code = "fn f() {\n    unsafe { g() }\n}\n// unsafe\nconst S: &str = \"unsafe\";";
        assert_eq!(checks("crates/rules/src/key.rs", code), [("unsafe-room", 3)]);
        assert_eq!(checks("crates/classify/src/turbo/walk.rs", code), [("unsafe-room", 3)]);
        assert_eq!(checks("crates/classify/src/arch/avx512.rs", code), []);
        assert_eq!(checks("crates/packet/src/sync/slot.rs", code), []);
    }

    #[test]
    fn leftovers_are_found() {
        assert_eq!(checks("a.rs", concat!("fn f() { to", "do!() }")), [("leftover", 2)]);
        assert_eq!(checks("a.rs", concat!("fn f() { unimple", "mented!() }")), [("leftover", 2)]);
        assert_eq!(checks("a.rs", concat!("// FIX", "ME: later")), [("leftover", 2)]);
        assert_eq!(checks("a.rs", "fn todo_list() { let todo = 1; _ = todo; }"), []);
        assert_eq!(checks("a.rs", "fn f( {"), [("leftover", 2)]);
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace() {
        let function =
            |lines: usize| format!("impl A {{\nfn f() {{{}}}\n}}", "\n".repeat(lines - 1));
        assert_eq!(checks("a.rs", &function(70)), []);
        assert_eq!(checks("a.rs", &function(71)), [("function-lines", 3)]);
        assert_eq!(checks("a.rs", &format!("trait T {{ fn f();\n{} }}", "\n".repeat(99))), []);
        assert_eq!(checks("a.rs", &format!("type F = fn(u8);\nmod m {{{}}}", "\n".repeat(99))), []);
    }

    #[test]
    fn files_begin_with_their_doc() {
        assert_eq!(check("a.rs", "fn f() {}")[0].check, "module-doc");
        assert_eq!(check("a.rs", "\n//! Doc.\nfn f() {}"), []);
    }

    #[test]
    fn clocks_and_threads_belong_to_the_binary_and_to_tests() {
        let code = "fn f() { let t = std::time::Instant::now(); }";
        assert_eq!(checks("crates/classify/src/turbo/mod.rs", code), [("absence", 2)]);
        assert_eq!(checks("crates/warpswitch/src/main.rs", code), []);
        assert_eq!(checks("crates/testkit/src/lib.rs", code), []);
        assert_eq!(checks("crates/classify/tests/x.rs", code), []);
        let spawn = "fn f() { thread::spawn(|| ()); }";
        assert_eq!(checks("crates/flow/src/lib.rs", spawn), [("absence", 2)]);
        let test = format!("#[cfg(test)]\nmod tests {{\n{spawn}\n}}\n{spawn}");
        assert_eq!(checks("crates/flow/src/lib.rs", &test), [("absence", 6)]);
        let used = format!("#[cfg(test)]\nuse a::b;\n{spawn}");
        assert_eq!(checks("crates/flow/src/lib.rs", &used), [("absence", 4)]);
    }

    #[test]
    fn crates_take_the_lints_and_forbid_unsafe() {
        let good = "[package]\n[lints]\nworkspace = true\n";
        let forbid = "//! Doc.\n#![forbid(unsafe_code)]\n";
        let cases: &[(&str, &str, &str, usize)] = &[
            ("crates/rules", good, forbid, 0),
            ("crates/rules", good, "//! Doc.\n", 1),
            ("crates/rules", "[package]\n", forbid, 1),
            ("crates/packet", good, "//! Doc.\n", 0),
            ("fuzz", "[package]\n", "//! Doc.\n", 0),
        ];
        for (folder, manifest, root, count) in cases {
            let files = tree(&[
                (&format!("{folder}/Cargo.toml"), manifest),
                (&format!("{folder}/src/lib.rs"), root),
            ]);
            assert_eq!(check_crates(&files).len(), *count, "{folder} {manifest:?} {root:?}");
        }
    }
}
