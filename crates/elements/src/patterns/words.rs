//! Keywords of patterns, and splitting of patterns into words.

use warpswitch_graph::language::nearest;

use super::program::{Place, Region};
use crate::ip::names;

/// Numbers of protocols that stand for more than one.
pub(super) const TCP_OR_UDP: u32 = 256;
pub(super) const ANY_TRANSPORT: u32 = 257;
/// IP protocols.
pub(super) const ICMP: u32 = 1;
pub(super) const TCP: u32 = 6;
pub(super) const UDP: u32 = 17;
pub(super) const DCCP: u32 = 33;

/// Some bits of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    /// The protocol whose header it is; none for IP's.
    pub(super) proto: Option<u32>,
    /// The first one, counted from the most significant of the first byte.
    pub(super) first: u32,
    /// How many, at most 32.
    pub(super) len: u32,
}

impl Bits {
    const fn ip(first: u32, len: u32) -> Self {
        Self { proto: None, first, len }
    }

    /// The word that it lies in.
    pub(super) fn place(&self) -> Place {
        let region = if self.proto.is_some() { Region::Transport } else { Region::Network };
        Place { region, offset: (self.first / 32 * 4) as u16 }
    }

    /// Where its lowest bit lies in the word.
    pub(super) fn shift(&self) -> u32 {
        32 - (self.first % 32 + self.len)
    }

    /// Its largest value.
    pub(super) fn max(&self) -> u32 {
        u32::MAX >> (32 - self.len)
    }
}

pub(super) const TOS: Bits = Bits::ip(8, 8);
pub(super) const ICMP_TYPE: Bits = Bits { proto: Some(ICMP), first: 0, len: 8 };
const TCP_WINDOW: Bits = Bits { proto: Some(TCP), first: 112, len: 16 };

/// What a test is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Host,
    Net,
    EtherHost,
    Proto,
    Port,
    TcpFlags,
    Fragment,
    Unfragmented,
    EcnCapable,
    EcnExperienced,
    Bits(Bits),
}

impl Subject {
    /// How messages call it.
    pub(super) fn name(self) -> String {
        let name = match self {
            Subject::Host => "ip host",
            Subject::Net => "ip net",
            Subject::EtherHost => "ether host",
            Subject::Proto => "proto",
            Subject::Port => "port",
            Subject::TcpFlags => "tcp opt",
            Subject::Fragment => "ip frag",
            Subject::Unfragmented => "ip unfrag",
            Subject::EcnCapable => "ip ect",
            Subject::EcnExperienced => "ip ce",
            Subject::Bits(bits) => return bits_name(bits),
        };
        name.to_owned()
    }
}

fn bits_name(bits: Bits) -> String {
    let known = SUBJECTS.iter().find(|(_, subject)| *subject == Subject::Bits(bits));
    match (known, bits.proto) {
        (Some((name, _)), None) => format!("ip {name}"),
        (Some((name, _)), Some(proto)) => format!("{} {name}", proto_name(proto)),
        (None, None) => "ip[...]".to_owned(),
        (None, Some(proto)) => format!("{}[...]", proto_name(proto)),
    }
}

/// How messages call a protocol.
pub(super) fn proto_name(proto: u32) -> String {
    let one = u8::try_from(proto).ok().and_then(|proto| names::name(names::PROTOCOLS, proto));
    let of_several = PROTO_SETS.iter().find(|(_, number)| *number == proto);
    let known = one.or(of_several.map(|&(name, _)| name));
    known.map_or_else(|| format!("ip proto {proto}"), str::to_owned)
}

/// Words for what a test is about.
const SUBJECTS: &[(&str, Subject)] = &[
    ("ce", Subject::EcnExperienced),
    ("dscp", Subject::Bits(Bits::ip(8, 6))),
    ("ect", Subject::EcnCapable),
    ("frag", Subject::Fragment),
    ("hl", Subject::Bits(Bits::ip(4, 4))),
    ("host", Subject::Host),
    ("id", Subject::Bits(Bits::ip(32, 16))),
    ("len", Subject::Bits(Bits::ip(16, 16))),
    ("net", Subject::Net),
    ("opt", Subject::TcpFlags),
    ("port", Subject::Port),
    ("proto", Subject::Proto),
    ("tos", Subject::Bits(TOS)),
    ("ttl", Subject::Bits(Bits::ip(64, 8))),
    ("type", Subject::Bits(ICMP_TYPE)),
    ("unfrag", Subject::Unfragmented),
    ("vers", Subject::Bits(Bits::ip(0, 4))),
    ("win", Subject::Bits(TCP_WINDOW)),
];

/// Words that belong to the language itself.
const SYNTAX: &[&str] = &["dest", "dst", "ether", "ip", "not", "src"];

/// Protocols that stand for more than one.
const PROTO_SETS: &[(&str, u32)] = &[("tcpudp", TCP_OR_UDP), ("transp", ANY_TRANSPORT)];

const TCP_FLAGS: &[(&str, u32)] =
    &[("ack", 16), ("fin", 1), ("psh", 8), ("rst", 4), ("syn", 2), ("urg", 32)];

/// What a word names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// No name that is known here.
    Unknown,
    /// What a test is about.
    Subject(Subject),
    /// A value of something that a test may be about.
    Value(Subject, u32),
    /// Not what the test is about, or more than one thing: the message.
    Wrong(String),
}

/// The word that was perhaps meant with `word`, which says nothing.
pub(super) fn nearest_to(word: &str) -> Option<&'static str> {
    let known = SYNTAX.iter().copied().chain(["and", "true", "false"]);
    let known = known.chain(SUBJECTS.iter().map(|(name, _)| *name));
    let known = known.chain(PROTO_SETS.iter().chain(TCP_FLAGS).map(|(name, _)| *name));
    let known = known.chain(names::PROTOCOLS.iter().map(|(name, _)| *name));
    let known = known.chain(names::PORTS.iter().map(|(name, _)| *name));
    nearest(word, known.chain(names::ICMP_TYPES.iter().map(|(name, _)| *name)))
}

/// The number that `table` has for `word`.
fn named<N: Copy + Into<u32>>(table: &[(&str, N)], word: &str) -> Option<u32> {
    table.iter().find(|(name, _)| *name == word).map(|&(_, value)| value.into())
}

/// What `word` names where the test is about `subject` and `proto`, if that is known by then.
pub(super) fn meaning(word: &str, subject: Option<Subject>, proto: Option<u32>) -> Meaning {
    if subject.is_none() {
        if SYNTAX.contains(&word) {
            return Meaning::Unknown;
        }
        if let Some(&(_, subject)) = SUBJECTS.iter().find(|(name, _)| *name == word) {
            return Meaning::Subject(subject);
        }
    }
    let proto_named = named(names::PROTOCOLS, word).or_else(|| named(PROTO_SETS, word));
    // A port is one for TCP and UDP, whose names have the same numbers here.
    let found = [
        (Subject::Proto, proto_named, true),
        (
            Subject::Port,
            named(names::PORTS, word),
            proto.is_none_or(|p| [TCP, UDP, TCP_OR_UDP].contains(&p)),
        ),
        (
            Subject::TcpFlags,
            named(TCP_FLAGS, word),
            proto.is_none_or(|p| [TCP, TCP_OR_UDP].contains(&p)),
        ),
        (Subject::Bits(ICMP_TYPE), named(names::ICMP_TYPES, word), proto.is_none_or(|p| p == ICMP)),
    ];
    let all = || found.iter().filter_map(|&(of, value, fits)| Some((of, value?, fits)));
    let fits = |of: Subject, fits: bool| fits && subject.is_none_or(|subject| subject == of);
    let mut meant = all().filter(|&(of, _, is_fit)| fits(of, is_fit));
    match (meant.next(), meant.next(), all().next()) {
        (_, _, None) => Meaning::Unknown,
        (Some((of, value, _)), None, _) => Meaning::Value(of, value),
        (first, ..) => {
            let what = if first.is_some() { "ambiguous" } else { "meaningless" };
            let names = all().flat_map(|(of, ..)| {
                let times = if of == Subject::Port { 2 } else { 1 };
                std::iter::repeat_n(format!("'{}'", phrase(Some(of), proto, word)), times)
            });
            let names: Vec<String> = names.collect();
            let phrase = phrase(subject, proto, word);
            Meaning::Wrong(format!("'{phrase}' is {what}; try {}", names.join(", ")))
        }
    }
}

/// A word as it would be written in full.
fn phrase(subject: Option<Subject>, proto: Option<u32>, word: &str) -> String {
    let subject = subject.map_or("<none>".to_owned(), Subject::name);
    let proto = proto.map(proto_name).unwrap_or_default();
    format!("{subject} {proto} {word}")
}

/// Splits a pattern into words.
pub(super) fn split(text: &str) -> Vec<String> {
    let is_part =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/' | '@' | '_' | ':');
    let mut words = Vec::new();
    let mut rest = text.trim_ascii_start();
    while let Some(first) = rest.chars().next() {
        let part: usize = rest.chars().take_while(|&c| is_part(c)).count();
        let second = rest[first.len_utf8()..].chars().next();
        let len = match (first, second) {
            ('&', Some('&')) | ('|', Some('|')) | ('<' | '>' | '!' | '=', Some('=')) => 2,
            _ if part > 0 => part,
            _ => first.len_utf8(),
        };
        words.push(rest[..len].to_owned());
        rest = rest[len..].trim_ascii_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_spaces_and_operators() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split(text), expected, "{text}");
        check(
            " src port>=1024&&ip[19]&128==0 ",
            &["src", "port", ">=", "1024", "&&", "ip", "[", "19", "]", "&", "128", "==", "0"],
        );
        check("!(a||b)? 0:1:2 : x", &["!", "(", "a", "||", "b", ")", "?", "0:1:2", ":", "x"]);
        check("10.0.0.0/8 netbios-ns é€", &["10.0.0.0/8", "netbios-ns", "é", "€"]);
        check("", &[]);
    }

    #[test]
    fn names_mean_what_the_test_is_about() {
        let check = |word, subject, proto, expected| {
            assert_eq!(meaning(word, subject, proto), expected, "{word}");
        };
        check("www", None, None, Meaning::Value(Subject::Port, 80));
        check("syn", None, None, Meaning::Value(Subject::TcpFlags, 2));
        check("echo", Some(Subject::Port), None, Meaning::Value(Subject::Port, 7));
        check("echo", None, Some(UDP), Meaning::Value(Subject::Port, 7));
        check("port", None, None, Meaning::Subject(Subject::Port));
        check("src", None, None, Meaning::Unknown);
        check("10.0.0.1", None, None, Meaning::Unknown);
        let Meaning::Wrong(message) = meaning("echo", None, None) else { panic!() };
        assert!(message.contains("is ambiguous; try 'port  echo'"), "{message}");
        let Meaning::Wrong(message) = meaning("tcp", Some(Subject::Port), None) else { panic!() };
        assert_eq!(message, "'port  tcp' is meaningless; try 'proto  tcp'");
    }

    #[test]
    fn fields_lie_where_the_headers_have_them() {
        assert_eq!((TOS.place().number(), TOS.shift(), TOS.max()), (256, 16, 255));
        assert_eq!((TCP_WINDOW.place().number(), TCP_WINDOW.shift()), (524, 0));
        let Subject::Bits(ttl) = SUBJECTS.iter().find(|(n, _)| *n == "ttl").unwrap().1 else {
            panic!()
        };
        assert_eq!((ttl.place().number(), ttl.shift()), (264, 24));
        assert_eq!(Subject::Bits(ICMP_TYPE).name(), "icmp type");
        assert_eq!(Subject::Bits(Bits::ip(72, 16)).name(), "ip[...]");
    }
}
