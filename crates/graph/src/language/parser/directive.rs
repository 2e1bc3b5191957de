//! Statements that connect nothing: `elementclass`, `define`, `require`, `provide`.

use super::super::args::split::{split_args, split_words, unquote};
use super::super::ast::{ClassExpr, Definition, Name, Requirement, Statement};
use super::super::source::{Source, Span};
use super::super::token::{ConfigText, Token};
use super::{LIBRARIES_MAX, NEST_DEPTH_MAX, Parser, Scope, parse_file};

impl Parser<'_> {
    pub(super) fn element_class(&mut self) -> Option<Statement> {
        self.next();
        let (token, span) = self.peek();
        let name = if token == Token::Word {
            self.next();
            Some(Name { text: self.word(span), span })
        } else {
            self.error(span, "expected element type name");
            None
        };
        let (token, span) = self.peek();
        let class = match token {
            Token::BraceOpen => self.compound(),
            Token::Word => {
                self.next();
                ClassExpr::Name(Name { text: self.word(span), span })
            }
            _ => {
                // Without a name one error is enough.
                if name.is_some() {
                    self.syntax_error(token, span);
                }
                self.resync();
                ClassExpr::Missing
            }
        };
        name.map(|name| Statement::ElementClass { name, class })
    }

    pub(super) fn define(&mut self) -> Option<Statement> {
        self.next();
        let config = self.expect_config()?;
        let mut definitions = Vec::new();
        for arg in split_args(&config.text) {
            let (word, value) = match arg.find(|c: char| c.is_ascii_whitespace()) {
                Some(at) => (&arg[..at], arg[at..].trim_ascii()),
                None => (arg.as_str(), ""),
            };
            if word.is_empty() {
                continue;
            }
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            match word.strip_prefix('$') {
                Some(name) if !name.is_empty() && name.chars().all(is_name) => {
                    let (name, value) = (name.to_owned(), value.to_owned());
                    definitions.push(Definition { name, value, span: config.span });
                }
                _ => self.error(config.span, "bad 'define' declaration: not a variable"),
            }
        }
        self.take(Token::Semicolon);
        Some(Statement::Define(definitions))
    }

    pub(super) fn provide(&mut self) {
        self.next();
        if let Some(config) = self.expect_config() {
            self.requirements(&config);
        }
    }

    pub(super) fn require(&mut self, scope: Scope, out: &mut Vec<Statement>) {
        self.next();
        let Some(config) = self.expect_config() else { return };
        self.take(Token::Semicolon);
        let mut plain = Vec::new();
        for requirement in self.requirements(&config) {
            if requirement.kind == "library" {
                out.extend(self.read_library(&requirement.value, scope, config.span));
            } else {
                plain.push(requirement);
            }
        }
        if !plain.is_empty() {
            out.push(Statement::Require(plain, config.span));
        }
    }

    /// `kind value`, or `value` alone, which is a package.
    fn requirements(&mut self, config: &ConfigText) -> Vec<Requirement> {
        let mut out = Vec::new();
        for arg in split_args(&config.text) {
            let words: Vec<String> = split_words(&arg).iter().map(|word| text(word)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (kind, value) = match words[..] {
                [] => continue,
                ["compact_config"] => ("compact_config", ""),
                ["package" | "library" | ""] => ("", ""),
                [value] => ("package", value),
                [kind @ ("package" | "library"), value] => (kind, value),
                _ => ("", ""),
            };
            if kind.is_empty() {
                self.error(config.span, "syntax error at requirement");
            } else {
                out.push(Requirement { kind: kind.to_owned(), value: value.to_owned() });
            }
        }
        out
    }

    /// The statements of library `name`; none if it was read before.
    fn read_library(&mut self, name: &str, scope: Scope, span: Span) -> Vec<Statement> {
        if scope != Scope::File {
            self.error(span, "'require library' must be used at file scope");
            return Vec::new();
        }
        if self.shared.libraries.len() >= LIBRARIES_MAX || self.depth >= NEST_DEPTH_MAX {
            self.error(span, "too many libraries, or libraries within libraries");
            return Vec::new();
        }
        let from = self.shared.map.get(self.source).map_or("", |source| source.name()).to_owned();
        let loaded = self.finder.load(name, &from);
        let source = match loaded {
            Err(message) => {
                self.error(span, message);
                return Vec::new();
            }
            Ok((file, _)) if !self.shared.libraries.insert(file.clone()) => return Vec::new(),
            Ok((file, bytes)) => Source::new(&file, &bytes),
        };
        match source {
            Ok(source) => parse_file(source, self.finder, self.shared, self.depth + 1),
            Err(errors) => {
                self.shared.errors.append(errors);
                Vec::new()
            }
        }
    }
}

fn text(word: &str) -> String {
    String::from_utf8_lossy(&unquote(word)).into_owned()
}
