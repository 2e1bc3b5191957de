//! From text to [`Ast`]: one pass, all errors, bounded nesting.
//!
//! ```text
//! file      = stmt*
//! stmt      = chain | elementclass | require | provide | define | ";"
//! chain     = stage (arrow stage)*                      arrow = "->" | "=>"
//! stage     = element ("," element)*
//! element   = ports? (name | name "::" class config? | class config? | "(" stmt* ")") ports?
//! ports     = "[" "]" | "[" range ("," range)* ","? "]"  range = n | n "-" n
//! class     = name | "{" compound ("||" compound)* ("||" "...")? "}"
//! compound  = (formals? "|")? stmt*                     formals = formal ("," formal)*
//! formal    = "$" name | KEYWORD "$" name | "__REST__" "$" name
//! elementclass = "elementclass" name class
//! ```
//! Within compounds and groups the element at either end of a chain may be left out, or be ports
//! alone: `input` and `output` are meant.
//!
//! After an error the rest of the statement is skipped; what was read of it before is kept, so
//! that elements it declared are known to what follows.

mod chain;
mod directive;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::args::split::long_quote;
use super::ast::Statement;
use super::diagnostic::Diagnostics;
use super::source::{Source, SourceMap, Span, offset};
use super::token::{ConfigText, Cursor, Token};

/// The most levels of compounds and groups within each other.
pub const NEST_DEPTH_MAX: usize = 64;

/// The most libraries that one configuration may require.
pub const LIBRARIES_MAX: usize = 1_000;

/// A configuration that was read, and the texts it was read from.
#[derive(Clone, Debug, Default)]
pub struct Ast {
    /// The statements, those of required libraries in the places that require them.
    pub statements: Vec<Statement>,
    /// The texts.
    pub sources: Arc<SourceMap>,
}

/// Finds the text of `require(library name)`.
pub trait Library {
    /// The file name and the text of library `name`, required by the file `from`.
    ///
    /// # Errors
    /// Why there is none, as the user shall be told.
    fn load(&mut self, name: &str, from: &str) -> Result<(String, Vec<u8>), String>;
}

/// Where there are no libraries.
struct NoLibrary;

impl Library for NoLibrary {
    fn load(&mut self, name: &str, _: &str) -> Result<(String, Vec<u8>), String> {
        Err(format!("library '{name}' not found in CLICKPATH/conf"))
    }
}

/// Reads a configuration that requires no library.
pub fn parse(source: Source) -> (Ast, Diagnostics) {
    parse_with(source, &mut NoLibrary)
}

/// Reads a configuration; `library` finds what it requires.
pub fn parse_with(source: Source, library: &mut dyn Library) -> (Ast, Diagnostics) {
    let mut shared = Shared {
        map: SourceMap::default(),
        errors: Diagnostics::default(),
        libraries: BTreeSet::new(),
    };
    let statements = parse_file(source, library, &mut shared, 0);
    (Ast { statements, sources: Arc::new(shared.map) }, shared.errors)
}

/// What all files of a configuration have in common.
struct Shared {
    map: SourceMap,
    errors: Diagnostics,
    /// Files of the libraries that were read.
    libraries: BTreeSet<String>,
}

fn parse_file(
    source: Source,
    finder: &mut dyn Library,
    shared: &mut Shared,
    depth: usize,
) -> Vec<Statement> {
    let text = source.text().clone();
    let idx = shared.map.push(source);
    let cursor = Cursor::new(&text, idx);
    let mut parser = Parser { cursor, source: idx, shared, finder, last: None, depth };
    parser.statements(Scope::File)
}

/// What encloses statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    File,
    Compound,
    Group,
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    source: u32,
    shared: &'a mut Shared,
    finder: &'a mut dyn Library,
    /// The last token that was taken, at which a missing one is reported.
    last: Option<Span>,
    /// Compounds and groups around this place.
    depth: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> (Token, Span) {
        self.cursor.peek(&mut self.shared.map, &mut self.shared.errors)
    }

    fn next(&mut self) -> (Token, Span) {
        let (token, span) = self.cursor.next(&mut self.shared.map, &mut self.shared.errors);
        if token != Token::End {
            self.last = Some(span);
        }
        (token, span)
    }

    /// Takes the next token if it is `wanted`.
    fn take(&mut self, wanted: Token) -> Option<Span> {
        let (token, span) = self.peek();
        if token == wanted {
            self.next();
            Some(span)
        } else {
            None
        }
    }

    fn word(&self, span: Span) -> String {
        self.cursor.slice(span).to_owned()
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        let Shared { map, errors, .. } = &mut *self.shared;
        errors.push_with(|| map.error(span, message));
    }

    fn syntax_error(&mut self, token: Token, span: Span) {
        if token == Token::End {
            self.error(self.last.unwrap_or(span), "syntax error near end of file");
        } else {
            let message = format!("syntax error near '{}'", self.cursor.slice(span));
            self.error(span, message);
        }
    }

    /// The configuration string behind an opening parenthesis that was just taken, and its end.
    fn config_body(&mut self, open: Span) -> ConfigText {
        let config = self.cursor.config(&mut self.shared.map, &mut self.shared.errors);
        if self.take(Token::ParenClose).is_none() {
            let opened = self.shared.map.landmark(open);
            let mut error = self.shared.map.error(self.cursor.here(), "expected ')'");
            if let Some(at) = long_quote(&config.text) {
                let start = config.span.start + offset(at);
                let quote = Span { start, end: start + 1, ..config.span };
                error = error.label("string starting here is not terminated on this line");
                error = error.shown_at(&self.shared.map, quote);
            }
            self.shared.errors.push(error.note(Some(opened), "'(' was opened here"));
        }
        config
    }

    /// A configuration string, if there is one.
    fn config(&mut self) -> Option<ConfigText> {
        let open = self.take(Token::ParenOpen)?;
        Some(self.config_body(open))
    }

    /// A configuration string that must be there.
    fn expect_config(&mut self) -> Option<ConfigText> {
        let config = self.config();
        if config.is_none() {
            let (token, span) = self.peek();
            self.error(span, "expected '('");
            if token != Token::End {
                self.resync();
            }
        }
        config
    }

    /// Statements up to what ends `scope`, which is left to the caller.
    fn statements(&mut self, scope: Scope) -> Vec<Statement> {
        let mut out = Vec::new();
        loop {
            let (token, span) = self.peek();
            match token {
                Token::End => return out,
                Token::BraceClose | Token::Bars if scope == Scope::Compound => return out,
                Token::ParenClose if scope == Scope::Group => return out,
                // The compound around the group may end here.
                Token::BraceClose | Token::Bars if scope == Scope::Group => return out,
                Token::Semicolon => {
                    self.next();
                }
                Token::Word
                | Token::BracketOpen
                | Token::BraceOpen
                | Token::ParenOpen
                | Token::Arrow
                | Token::WideArrow => out.extend(self.chain(scope).map(Statement::Chain)),
                Token::ElementClass => out.extend(self.element_class()),
                Token::Require => self.require(scope, &mut out),
                Token::Provide => self.provide(),
                Token::Define => out.extend(self.define()),
                _ => {
                    self.next();
                    self.syntax_error(token, span);
                    self.resync();
                }
            }
        }
    }

    /// Skips the rest of a statement: up to a semicolon, or to what may start or end another.
    fn resync(&mut self) {
        loop {
            match self.peek().0 {
                Token::End
                | Token::BraceClose
                | Token::ParenClose
                | Token::Bars
                | Token::ElementClass
                | Token::Require
                | Token::Provide
                | Token::Define => return,
                Token::Semicolon => {
                    self.next();
                    return;
                }
                Token::BraceOpen => self.skip_braces(),
                Token::ParenOpen => {
                    let (_, open) = self.next();
                    self.config_body(open);
                }
                _ => {
                    self.next();
                }
            }
        }
    }

    /// Skips from an opening brace to the closing one that belongs to it.
    fn skip_braces(&mut self) {
        let mut depth = 0usize;
        loop {
            let (token, span) = self.next();
            match token {
                Token::BraceOpen => depth += 1,
                Token::BraceClose if depth <= 1 => return,
                Token::BraceClose => depth -= 1,
                Token::ParenOpen => {
                    self.config_body(span);
                }
                Token::End => return self.error(span, "expected '}'"),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
