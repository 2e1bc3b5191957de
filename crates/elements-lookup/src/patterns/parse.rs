//! Parser of patterns.
//!
//! ```text
//! expr   = or ("?" expr ":" or)*          or   = and (("||" | "or") and)*
//! and    = factor (("&&" | "and")? factor)*
//! factor = ("!" | "not") factor | "(" expr ")" | test
//! test   = "true" | "false" | qualifier* ("[" pos (":" len)? "]")? ("&" mask)? relation? value
//! ```
//! Qualifiers that a test omits are those of the previous test.

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{EtherAddress, FromArg, Ipv4Prefix, Names};

use super::expr::Expr;
use super::primitive::{Before, Data, Header, Mask, Primitive, Side, Sign};
use super::words::{self, Bits, Meaning, Subject};

/// Parentheses and negations within each other.
const DEPTH_MAX: usize = 200;
/// The last byte of a header that a pattern may test.
const FIELD_BYTES_MAX: u32 = 8192;

/// What was found wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Problems {
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// What would be right.
    pub(super) help: Vec<String>,
}

/// The expression that the words of a pattern mean; if there are errors, any.
pub(super) fn expression(words: &[String], names: &dyn Names, problems: &mut Problems) -> Expr {
    if words.is_empty() || matches!(words, [word] if ["-", "any", "all"].contains(&&**word)) {
        return Expr::Always;
    }
    let mut parser = Parser {
        words,
        at: 0,
        names,
        problems,
        before: Before::default(),
        depth: 0,
        is_lost: false,
    };
    let expr = parser.expr();
    if let Some(word) = parser.words.get(parser.at) {
        let message = format!("garbage after expression at '{word}'");
        parser.error(message);
    }
    expr
}

struct Parser<'a> {
    words: &'a [String],
    at: usize,
    names: &'a dyn Names,
    problems: &'a mut Problems,
    before: Before,
    depth: usize,
    /// Whether it gave up: what follows is not wrong by itself.
    is_lost: bool,
}

impl Parser<'_> {
    fn error(&mut self, message: impl Into<String>) {
        if !self.is_lost {
            self.problems.errors.push(message.into());
        }
    }

    fn is(&self, options: &[&str]) -> bool {
        self.words.get(self.at).is_some_and(|word| options.contains(&&**word))
    }

    /// Takes the next word if it is one of `options`.
    fn take(&mut self, options: &[&str]) -> bool {
        let found = self.is(options);
        self.at += usize::from(found);
        found
    }

    fn expr(&mut self) -> Expr {
        let mut list = vec![self.or()];
        while self.take(&["?"]) {
            let start = self.at;
            let then = if self.deeper() { self.expr() } else { Expr::Always };
            self.depth -= 1;
            if self.at == start || !self.take(&[":"]) {
                self.error("missing ':' in ternary expression");
                break;
            }
            list.push(then);
            let otherwise = self.or();
            list.push(otherwise);
        }
        if list.len() == 1 { list.remove(0) } else { Expr::If(list) }
    }

    fn or(&mut self) -> Expr {
        let mut list = vec![self.and()];
        while self.take(&["or", "||"]) {
            let next = self.and();
            list.push(next);
        }
        if list.len() == 1 { list.remove(0) } else { Expr::Or(list) }
    }

    fn and(&mut self) -> Expr {
        let mut list = Vec::new();
        let mut is_needed = true;
        loop {
            let start = self.at;
            list.extend(self.factor());
            if self.at == start {
                break;
            }
            is_needed = self.take(&["and", "&&"]);
        }
        if is_needed {
            self.error("missing expression");
        }
        Expr::all(list)
    }

    /// Enters a level of nesting, which the caller leaves by decrementing `depth`. Returns whether
    /// the level is allowed: if not, the remaining words are skipped.
    fn deeper(&mut self) -> bool {
        self.depth += 1;
        if self.depth > DEPTH_MAX && self.at < self.words.len() {
            self.error(format!("more than {DEPTH_MAX} levels of parentheses"));
            (self.at, self.is_lost) = (self.words.len(), true);
        }
        self.depth <= DEPTH_MAX
    }

    /// A factor; none if there is none here, or it is wrong.
    fn factor(&mut self) -> Option<Expr> {
        let opening = self.words.get(self.at)?.clone();
        let found = if self.take(&["not", "!"]) {
            let start = self.at;
            let inner = if self.deeper() { self.factor() } else { None };
            if self.at == start {
                self.error(format!("missing expression after '{opening}'"));
            }
            inner.map(Expr::not)
        } else if self.take(&["("]) {
            let start = self.at;
            let inner = if self.deeper() { self.expr() } else { Expr::Always };
            if self.at == start {
                self.error("missing expression after '('");
            }
            if !self.take(&[")"]) && self.at != start {
                self.error("missing ')'");
            }
            Some(inner)
        } else {
            return self.test();
        };
        self.depth -= 1;
        found
    }

    fn test(&mut self) -> Option<Expr> {
        if self.is(&[")", "||", "or", "?", ":"]) {
            return None;
        }
        if self.take(&["true"]) {
            return Some(Expr::Always);
        }
        if self.take(&["false"]) {
            return Some(Expr::Always.not());
        }
        let first = self.at;
        let mut primitive = Primitive::new();
        let is_negated = self.qualifiers(&mut primitive);
        if self.at != first {
            self.before = Before::default();
        }
        if self.before.is_ether {
            primitive.header = Some(Header::Ether);
        }
        // The last word is a value, whatever it looks like.
        if self.has_two() && self.at > first && primitive.subject.is_none() && self.is(&["["]) {
            self.field(&mut primitive);
        }
        if self.has_two() && self.is(&["&"]) {
            self.mask(&mut primitive);
        }
        if self.has_two() {
            self.relation(&mut primitive);
        }
        let is_sound = self.value(&mut primitive);
        if self.at == first {
            let word = self.words[first].clone();
            if let Some(near) = words::nearest_to(&word) {
                self.problems.help.push(format!("unknown word '{word}': did you mean '{near}'?"));
            }
            self.error(format!("empty term near '{word}'"));
            return None;
        }
        if !is_sound {
            return Some(Expr::Always);
        }
        match primitive.read(&self.before, &mut self.problems.warnings) {
            Ok((expr, before)) => {
                self.before = before;
                Some(if is_negated { expr.not() } else { expr })
            }
            Err(message) => {
                self.error(message);
                None
            }
        }
    }

    fn has_two(&self) -> bool {
        self.at + 1 < self.words.len()
    }

    /// Reads the qualifiers of the test. Returns whether it is negated.
    fn qualifiers(&mut self, primitive: &mut Primitive) -> bool {
        let mut is_negated = false;
        while let Some(word) = self.words.get(self.at) {
            match words::meaning(word, None, None, self.names) {
                Meaning::Subject(subject) => self.set_subject(primitive, subject),
                Meaning::Value(Subject::Proto, proto) => self.set_proto(primitive, proto),
                Meaning::Unknown if self.set_side(primitive) => {}
                Meaning::Unknown if primitive.header.is_none() && self.is(&["ip"]) => {
                    primitive.header = Some(Header::Ip);
                }
                Meaning::Unknown if primitive.header.is_none() && self.is(&["ether"]) => {
                    primitive.header = Some(Header::Ether);
                }
                Meaning::Unknown if self.is(&["not", "!"]) => is_negated = !is_negated,
                _ => break,
            }
            self.at += 1;
        }
        is_negated
    }

    fn set_subject(&mut self, primitive: &mut Primitive, subject: Subject) {
        if primitive.subject.replace(subject).is_some() {
            self.error("type specified twice");
        }
        if let Subject::Bits(Bits { proto: Some(proto), .. }) = subject {
            self.set_proto(primitive, proto);
        }
    }

    fn set_proto(&mut self, primitive: &mut Primitive, proto: u32) {
        if primitive.proto.replace(proto).is_some_and(|old| old != proto) {
            self.error("transport protocol specified twice");
        }
    }

    /// Reads `src`, `dst` and their combinations, up to the last word of them.
    fn set_side(&mut self, primitive: &mut Primitive) -> bool {
        let word = |at: usize| self.words.get(at).map(String::as_str);
        let side = match (word(self.at), word(self.at + 1), word(self.at + 2)) {
            (Some("src"), Some("and" | "&&"), Some("dst" | "dest")) => Side::Both,
            (Some("src"), Some("or" | "||"), Some("dst" | "dest")) => Side::Either,
            (Some("src"), ..) => Side::Src,
            (Some("dst" | "dest"), ..) => Side::Dst,
            _ => return false,
        };
        if matches!(side, Side::Both | Side::Either) {
            self.at += 2;
        }
        if primitive.side.replace(side).is_some() {
            self.error("'src' or 'dst' specified twice");
        }
        true
    }

    /// Reads `[pos]`, `[pos:len]` or `[first,last]`.
    fn field(&mut self, primitive: &mut Primitive) {
        let inside = &self.words[self.at + 1..];
        let Some(len) = inside.iter().position(|word| word == "]") else {
            self.at += 1;
            return self.error("missing ']'");
        };
        let text = inside[..len].concat();
        self.at += len + 2;
        let number = |text: &str| u32::from_arg(text, self.names).ok();
        let range = if let Some((pos, len)) = text.split_once(':') {
            number(pos).zip(number(len))
        } else if let Some((pos, last)) = text.split_once(',') {
            number(pos).zip(number(last)).map(|(pos, last)| (pos, (last + 1).saturating_sub(pos)))
        } else {
            number(&text).map(|pos| (pos, 1))
        };
        let Some((pos, len)) = range else {
            return self.error("syntax error after '[', expected '[POS]' or '[POS:LEN]'");
        };
        if !(1..=4).contains(&len) {
            return self.error("LEN in '[POS:LEN]' out of range, should be between 1 and 4");
        }
        if pos >= FIELD_BYTES_MAX || pos / 4 != (pos + len - 1) / 4 {
            return self.error(format!("field [{pos}:{len}] does not fit in a single word"));
        }
        let bits = Bits { proto: primitive.proto, first: pos * 8, len: len * 8 };
        primitive.subject = Some(Subject::Bits(bits));
    }

    fn mask(&mut self, primitive: &mut Primitive) {
        let text = &self.words[self.at + 1];
        let header = primitive.header;
        let host = || Ipv4Addr::from_arg(text, self.names).ok().map(u32::from);
        let ether = || EtherAddress::from_arg(text, self.names).ok();
        let mask = if let Some(mask) = integer(text, self.names) {
            Mask::Int(mask)
        } else if let Some(mask) = host().filter(|_| header != Some(Header::Ether)) {
            Mask::Host(mask)
        } else if let Some(mask) = ether().filter(|_| header != Some(Header::Ip)) {
            Mask::Ether(mask.0)
        } else {
            return;
        };
        self.at += 2;
        match mask {
            Mask::Int(0) | Mask::Host(0) => self.error("zero mask ignored"),
            mask => primitive.mask = Some(mask),
        }
    }

    fn relation(&mut self, primitive: &mut Primitive) {
        let (sign, negated) = match self.words[self.at].as_str() {
            "=" | "==" => (Sign::Equal, false),
            "!=" => (Sign::Equal, true),
            ">" => (Sign::Greater, false),
            "<=" => (Sign::Greater, true),
            "<" => (Sign::Less, false),
            ">=" => (Sign::Less, true),
            _ => return,
        };
        (primitive.sign, primitive.negated) = (sign, negated);
        self.at += 1;
    }

    /// Reads the value. Returns whether the test can be read further.
    fn value(&mut self, primitive: &mut Primitive) -> bool {
        let Some(word) = self.words.get(self.at) else { return true };
        let names = self.names;
        let (may_be_ip, may_be_ether) =
            (primitive.header != Some(Header::Ether), primitive.header != Some(Header::Ip));
        let host = |text: &str| Ipv4Addr::from_arg(text, names).ok().map(u32::from);
        let prefix = || {
            let prefix = Ipv4Prefix::from_arg(word, names).ok()?;
            Some(Data::Net(prefix.address.into(), prefix.mask.into()))
        };
        let mut words = 1;
        let data = match words::meaning(word, primitive.subject, primitive.proto, names) {
            Meaning::Wrong(message) => {
                self.at += 1;
                self.error(message);
                return false;
            }
            Meaning::Value(subject, value) => Some(Data::Value(subject, value)),
            _ => integer(word, names).map(Data::Int),
        };
        let ip = || {
            let address = host(word)?;
            let mask = match self.words.get(self.at + 1..self.at + 3) {
                Some([keyword, mask]) if keyword == "mask" => host(mask),
                _ => None,
            };
            Some(match mask {
                Some(mask) => (Data::Net(address, mask), 3),
                None if primitive.subject == Some(Subject::Net) => {
                    (prefix().unwrap_or(Data::Host(address)), 1)
                }
                None => (Data::Host(address), 1),
            })
        };
        let data = data.or_else(|| {
            let (data, taken) = ip().filter(|_| may_be_ip)?;
            words = taken;
            Some(data)
        });
        let data = data.or_else(|| prefix().filter(|_| may_be_ip));
        let ether = || Some(Data::Ether(EtherAddress::from_arg(word, names).ok()?.0));
        match data.or_else(|| ether().filter(|_| may_be_ether)) {
            Some(data) => {
                primitive.data = data;
                self.at += words;
            }
            None => {
                let wrong = unknown_name(word, primitive.subject).or_else(|| wrong_address(word));
                let dangles = primitive.sign != Sign::Equal || primitive.negated;
                let dangles = dangles.then(|| format!("dangling operator near '{word}'"));
                self.problems.help.extend(wrong);
                dangles.into_iter().for_each(|message| self.error(message));
            }
        }
        true
    }
}

/// Help for a word that is not a port or protocol where one is expected.
fn unknown_name(word: &str, subject: Option<Subject>) -> Option<String> {
    match subject? {
        Subject::Port => Some(format!("unknown port '{word}'; expected one as 80 or http")),
        Subject::Proto => Some(format!("unknown protocol '{word}'; expected one as 89 or ospf")),
        _ => None,
    }
}

/// What is wrong with a word that is perhaps meant as an IPv4 address or network.
fn wrong_address(word: &str) -> Option<String> {
    let (address, len) = word.split_once('/').map_or((word, None), |(a, len)| (a, Some(len)));
    let parts: Vec<&str> = address.split('.').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if parts.len() < 2 || !parts.iter().all(|part| is_number(part)) {
        return None;
    }
    let is_large = |part: &&&str| part.parse::<u8>().is_err();
    if let Some(part) = parts.iter().find(is_large) {
        return Some(format!("invalid IPv4 address '{word}': {part} is more than 255"));
    }
    if len.is_some_and(|len| is_number(len) && !len.parse().is_ok_and(|len: u8| len <= 32)) {
        return Some(format!("invalid IPv4 network '{word}': a prefix has at most 32 bits"));
    }
    let is_whole = parts.len() == 4;
    (!is_whole)
        .then(|| format!("invalid IPv4 address '{word}': expected four numbers, as in 10.0.0.1"))
}

/// A number, which may be as large as four bytes hold, or negative.
fn integer(text: &str, names: &dyn Names) -> Option<u32> {
    let signed = || i32::from_arg(text, names).ok().map(|value| value as u32);
    u32::from_arg(text, names).ok().or_else(signed)
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::language::args::NoNames;

    use super::*;

    fn problems(text: &str) -> Problems {
        let mut problems = Problems::default();
        expression(&words::split(text), &NoNames, &mut problems);
        problems
    }

    #[test]
    fn errors_are_told_in_words() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(problems(text).errors, expected, "{text}");
        };
        check("tcp && dst port 80", &[]);
        check("tcp )", &["garbage after expression at ')'"]);
        check("(tcp", &["missing ')'"]);
        check("tcp or", &["missing expression"]);
        check("tcp ? udp", &["missing ':' in ternary expression"]);
        check("not", &["missing expression after 'not'"]);
        check("port 70000", &["'port': out of range, bound 65535"]);
        check("src dst 10.0.0.1", &["'src' or 'dst' specified twice"]);
        check("5", &["specify header field or 'port'"]);
        check("host 10.0.0.0/8", &["'ip host': address missing"]);
        check("src host > 10.0.0.1", &["'src ip host': operator not supported"]);
        check("icmp port 5", &["'port': bad protocol 1"]);
        let field = |text: &str, expected: &str| {
            check(text, &[expected, "specify header field or 'port'"]);
        };
        field("ip[3:2] == 5", "field [3:2] does not fit in a single word");
        field("ip[4:5] == 5", "LEN in '[POS:LEN]' out of range, should be between 1 and 4");
        field("ip[x] == 5", "syntax error after '[', expected '[POS]' or '[POS:LEN]'");
        check("ip ttl & 0x1ff == 5", &["'ip ttl': mask out of range, bound 0xFF"]);
        check("tcp opt != syn", &["'tcp opt': operator or mask not supported"]);
        check("ip frag 5", &["'ip frag': value not supported"]);
        check("ip ttl & 0 == 5", &["zero mask ignored"]);
        check("tcp udp", &["transport protocol specified twice"]);
    }

    /// Click's messages report a missing address where an invalid one is written.
    #[test]
    fn wrong_addresses_are_told_for_what_they_are() {
        let check = |text: &str, expected: &str| {
            let problems = problems(text);
            assert!(!problems.errors.is_empty(), "{text}");
            assert_eq!(problems.help.first().map(String::as_str), Some(expected), "{text}");
        };
        let large = "invalid IPv4 address '10.0.0.300': 300 is more than 255";
        check("src host 10.0.0.300", large);
        check("10.0.0.300", large);
        check("dst host != 10.0.0.300", large);
        check(
            "net 10.0.0.0/40",
            "invalid IPv4 network '10.0.0.0/40': a prefix has at most 32 bits",
        );
        check(
            "host 1.2.3.4.5",
            "invalid IPv4 address '1.2.3.4.5': expected four numbers, as in 10.0.0.1",
        );
        for text in ["src host x.y", "host 10", "host tcp.", "ip ttl 1x"] {
            let help = problems(text).help;
            assert!(!help.iter().any(|line| line.contains("IPv4")), "{text}: {help:?}");
        }
    }

    #[test]
    fn what_always_or_never_holds_is_warned_about() {
        let check = |text: &str, expected: &str| {
            assert_eq!(problems(text).warnings, [expected], "{text}");
        };
        check("src port > 65535", "relation '> 65535' is always false (range 0-65535)");
        check("ip ttl <= 255", "relation '<= 255' is always true (range 0-255)");
        check("ip ttl < 0", "relation '< 0' is always false (range 0-255)");
        check("src ip ttl 5", "'src ip ttl': 'src' or 'dst' ignored");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |n: usize| "(".repeat(n) + "tcp" + &")".repeat(n);
        assert_eq!(problems(&deep(150)).errors, [""; 0]);
        let errors = problems(&deep(100_000)).errors;
        assert_eq!(errors[0], "more than 200 levels of parentheses");
        assert!(errors.len() < 5, "{errors:?}");
        let errors = problems(&"! ".repeat(100_000)).errors;
        assert_eq!(errors[0], "more than 200 levels of parentheses");
        let ternary = "tcp ? ".repeat(100_000);
        assert!(!problems(&ternary).errors.is_empty());
    }
}
