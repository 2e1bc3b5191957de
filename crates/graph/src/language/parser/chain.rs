//! Chains of elements, compounds and groups.

use super::super::ast::{
    Arrow, Chain, ClassExpr, CompoundExpr, ElementExpr, Formal, Name, Ports, Stage, Target,
};
use super::super::source::Span;
use super::super::token::Token;
use super::{NEST_DEPTH_MAX, Parser, Scope};

/// The most formal arguments of a compound.
const FORMALS_MAX: usize = 1_000;

/// The largest port number.
pub const PORT_MAX: u32 = 65_535;

impl Parser<'_> {
    /// A chain; none if nothing of it could be read.
    pub(super) fn chain(&mut self, scope: Scope) -> Option<Chain> {
        let mut stages: Vec<Stage> = Vec::new();
        let mut arrow = None;
        loop {
            let stage = self.stage(arrow, scope);
            let is_empty = stage.elements.is_empty();
            if !is_empty {
                stages.push(stage);
            }
            let (token, span) = self.peek();
            match token {
                _ if is_empty => break,
                Token::Arrow | Token::WideArrow => {
                    self.next();
                    arrow = Some(Arrow { is_wide: token == Token::WideArrow, span });
                }
                Token::Comma | Token::Colons | Token::ParenOpen => {
                    self.syntax_error(token, span);
                    self.resync();
                    break;
                }
                // What else cannot start a statement is told there.
                _ => break,
            }
        }
        (!stages.is_empty()).then_some(Chain { stages })
    }

    /// Elements between commas. Without any, an error was told and the statement skipped.
    fn stage(&mut self, arrow: Option<Arrow>, scope: Scope) -> Stage {
        let mut elements: Vec<ElementExpr> = Vec::new();
        let is_first = arrow.is_none();
        loop {
            let inputs = self.ports();
            let (token, span) = self.peek();
            let implied = || {
                let begins = elements.is_empty();
                scope != Scope::File
                    && match token {
                        Token::Arrow | Token::WideArrow => {
                            is_first && (begins || !inputs.is_absent())
                        }
                        Token::Comma => !inputs.is_absent(),
                        Token::Colons => false,
                        _ => !is_first && (begins || !inputs.is_absent()),
                    }
            };
            match token {
                Token::Word | Token::BraceOpen | Token::ParenOpen => {
                    elements.push(self.element(inputs));
                }
                _ if implied() => {
                    // Ports beside an implied `input` are its outputs.
                    let (inputs, outputs) = if is_first {
                        (Ports::default(), inputs)
                    } else {
                        (inputs, Ports::default())
                    };
                    elements.push(ElementExpr { inputs, target: Target::Implied, outputs, span });
                }
                _ => {
                    if !inputs.is_absent() {
                        self.error(span, "stranded port ignored");
                    } else if elements.is_empty() {
                        self.syntax_error(token, span);
                    }
                    if elements.is_empty() {
                        if matches!(
                            token,
                            Token::Arrow | Token::WideArrow | Token::Comma | Token::Colons
                        ) {
                            self.next();
                        }
                        self.resync();
                    }
                    return Stage { arrow, elements };
                }
            }
            if self.take(Token::Comma).is_none() {
                break;
            }
        }
        let is_followed = matches!(self.peek().0, Token::Arrow | Token::WideArrow);
        if let Some(element) = elements.iter().find(|element| element.target == Target::Implied)
            && !is_first
            && is_followed
        {
            let span = element.span;
            self.error(span, "implicit ports used in the middle of a chain");
        }
        Stage { arrow, elements }
    }

    fn element(&mut self, inputs: Ports) -> ElementExpr {
        let (token, span) = self.peek();
        let target = match token {
            Token::BraceOpen => {
                let class = self.compound();
                Target::Anonymous { class, config: self.config() }
            }
            Token::ParenOpen => self.group(),
            _ => {
                self.next();
                let name = self.word(span);
                let class = self.take(Token::Colons).map(|_| self.declared_class());
                Target::Named { name, class, config: self.config() }
            }
        };
        ElementExpr { inputs, target, outputs: self.ports(), span }
    }

    /// The class behind `::`.
    fn declared_class(&mut self) -> ClassExpr {
        let (token, span) = self.peek();
        match token {
            Token::Word => {
                self.next();
                ClassExpr::Name(Name { text: self.word(span), span })
            }
            Token::BraceOpen => self.compound(),
            _ => {
                self.error(span, "missing element type in declaration");
                ClassExpr::Missing
            }
        }
    }

    fn group(&mut self) -> Target {
        let (_, open) = self.next();
        if self.depth >= NEST_DEPTH_MAX {
            self.error(open, "maximum element group nesting depth exceeded");
            self.config_body(open);
            return Target::Group(Vec::new());
        }
        self.depth += 1;
        let statements = self.statements(Scope::Group);
        self.depth -= 1;
        if self.take(Token::ParenClose).is_none() {
            let (token, span) = self.peek();
            if token == Token::End {
                let opened = self.shared.map.landmark(open);
                let error = self.shared.map.error(span, "expected ')'");
                self.shared.errors.push(error.note(Some(opened), "'(' was opened here"));
            } else {
                self.syntax_error(token, span);
            }
        }
        Target::Group(statements)
    }

    /// `{ … || … }`, from the opening brace on.
    pub(super) fn compound(&mut self) -> ClassExpr {
        let (_, open) = self.peek();
        if self.depth >= NEST_DEPTH_MAX {
            self.error(open, "maximum compound element nesting depth exceeded");
            self.skip_braces();
            return ClassExpr::Missing;
        }
        self.next();
        self.depth += 1;
        let (mut overloads, mut extends, mut span) = (Vec::new(), None, open);
        loop {
            if let Some(dots) = self.take(Token::Dots) {
                extends = Some(dots);
                if overloads.is_empty() || self.peek().0 != Token::BraceClose {
                    self.error(dots, "'...' should occur last, after one or more compounds");
                    self.statements(Scope::Compound);
                }
            } else {
                let formals = self.formals();
                let statements = self.statements(Scope::Compound);
                overloads.push(CompoundExpr { formals, statements, span });
            }
            let (token, place) = self.next();
            match token {
                Token::Bars => span = place,
                Token::BraceClose => break,
                _ => {
                    let opened = self.shared.map.landmark(open);
                    let error = self.shared.map.error(place, "expected '}'");
                    self.shared.errors.push(error.note(Some(opened), "'{' was opened here"));
                    break;
                }
            }
        }
        self.depth -= 1;
        ClassExpr::Compound { overloads, extends }
    }

    /// Formal arguments up to the bar, if these are formal arguments.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals: Vec<Formal> = Vec::new();
        loop {
            let mark = self.cursor.mark();
            let (token, first) = self.next();
            let (keyword, variable) = match token {
                Token::Bar => break,
                Token::Variable => (String::new(), first),
                Token::Word if self.peek().0 == Token::Variable => {
                    (self.word(first), self.next().1)
                }
                _ => {
                    self.cursor.reset(mark);
                    if !formals.is_empty() {
                        self.error(first, "expected variable");
                    }
                    break;
                }
            };
            let name = self.word(variable)[1..].to_owned();
            if formals.len() >= FORMALS_MAX {
                self.error(first, format!("more than {FORMALS_MAX} parameters"));
                self.resync();
                break;
            }
            self.check_formal(&formals, &name, &keyword, first);
            formals.push(Formal { name, keyword });
            let (token, span) = self.peek();
            match token {
                Token::Comma => {
                    self.next();
                }
                Token::Bar => {
                    self.next();
                    break;
                }
                _ => {
                    self.error(span, "expected ',' or '|'");
                    break;
                }
            }
        }
        formals
    }

    fn check_formal(&mut self, before: &[Formal], name: &str, keyword: &str, span: Span) {
        if before.iter().any(|other| other.name == name) {
            self.error(span, format!("parameter '${name}' multiply defined"));
        }
        if !keyword.is_empty() && before.iter().any(|other| other.keyword == keyword) {
            let message = format!("repeated keyword parameter '{keyword}' in compound element");
            self.error(span, message);
        }
        let is_out_of_order = before.last().is_some_and(|last| {
            last.keyword == "__REST__" || keyword.is_empty() && !last.keyword.is_empty()
        });
        if is_out_of_order {
            let message = "compound element parameters out of order\n\
                           (The correct order is '[positional], [keywords], [__REST__]'.)";
            self.error(span, message);
        }
    }

    /// Ports in brackets, if there are brackets.
    fn ports(&mut self) -> Ports {
        let mut ports = Ports::default();
        if self.take(Token::BracketOpen).is_none() {
            return ports;
        }
        loop {
            let (token, span) = self.peek();
            match token {
                Token::Word => {
                    self.next();
                    let range = self.port_range(span);
                    ports.ranges.push(range);
                }
                Token::BracketClose => {
                    self.next();
                    ports.expands = true;
                    if ports.ranges.is_empty() {
                        ports.ranges.push((0, 0));
                    }
                    return ports;
                }
                _ => {
                    self.error(span, "syntax error: expected port number");
                    self.skip_brackets();
                    return ports;
                }
            }
            let (token, span) = self.peek();
            match token {
                Token::BracketClose => {
                    self.next();
                    return ports;
                }
                Token::Comma => {
                    self.next();
                }
                _ => {
                    self.error(span, "syntax error: expected ','");
                    self.skip_brackets();
                    return ports;
                }
            }
        }
    }

    /// Skips what is left of a list of ports.
    fn skip_brackets(&mut self) {
        while matches!(
            self.peek().0,
            Token::Word | Token::Comma | Token::Dash | Token::Variable | Token::Stray | Token::Dots
        ) {
            self.next();
        }
        self.take(Token::BracketClose);
    }

    /// `n` or `n-m`; the first number was just taken.
    fn port_range(&mut self, span: Span) -> (u32, u32) {
        let first = self.port_number(span);
        let mut last = first;
        if self.take(Token::Dash).is_some() {
            let (token, end) = self.peek();
            if token == Token::Word {
                self.next();
                last = self.port_number(end);
                if last < first {
                    self.error(span.to(end), "syntax error: the port range is empty");
                }
            } else {
                self.error(end, "syntax error: expected port number");
            }
        }
        (first, last.max(first))
    }

    fn port_number(&mut self, span: Span) -> u32 {
        let digits = self.cursor.slice(span);
        let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().unwrap_or(u32::MAX))
            }
            None => None,
        };
        match number {
            Some(number) if number <= PORT_MAX => number,
            Some(_) => {
                self.error(span, format!("port number too large, bound {PORT_MAX}"));
                0
            }
            None => {
                self.error(span, "syntax error: port number should be integer");
                0
            }
        }
    }
}
