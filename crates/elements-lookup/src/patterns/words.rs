//! Keywords of patterns, and splitting of patterns into words.

use warpswitch_graph::language::args::Names;
use warpswitch_graph::language::nearest;

use super::program::{Place, Region};
use crate::names;

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

/// The recognized word nearest to `word`, which has no meaning; for suggestions in messages.
pub(super) fn nearest_to(word: &str) -> Option<&'static str> {
    let known = SYNTAX.iter().copied().chain(["and", "true", "false"]);
    let known = known.chain(SUBJECTS.iter().map(|(name, _)| *name));
    let known = known.chain(PROTO_SETS.iter().chain(TCP_FLAGS).map(|(name, _)| *name));
    let known = known.chain(names::PROTOCOLS.iter().map(|(name, _)| *name));
    let known = known.chain(names::COMMON_PROTOCOLS.iter().map(|(name, _)| *name));
    let known = known.chain(names::PORTS.iter().map(|(name, _)| *name));
    let known = known.chain(names::COMMON_PORTS.iter().map(|(name, _)| *name));
    nearest(word, known.chain(names::ICMP_TYPES.iter().map(|(name, _)| *name)))
}

/// The number that `table` has for `word`.
fn named<N: Copy + Into<u32>>(table: &[(&str, N)], word: &str) -> Option<u32> {
    table.iter().find(|(name, _)| *name == word).map(|&(_, value)| value.into())
}

/// One reading of a word.
#[derive(Clone, Copy)]
struct Reading {
    subject: Subject,
    value: u32,
    /// Whether it is possible with the protocol of the test.
    fits_proto: bool,
    /// The protocol to state where the readings differ by it.
    proto: Option<u32>,
}

/// All readings of `word`. Names of the system are read only where `subject` is theirs, so that a
/// file of the machine changes no other test.
fn readings(
    word: &str,
    subject: Option<Subject>,
    proto: Option<u32>,
    names: &dyn Names,
) -> Vec<Reading> {
    let is_one_of = |all: &[u32]| proto.is_none_or(|proto| all.contains(&proto));
    let (is_port, is_proto) = (subject == Some(Subject::Port), subject == Some(Subject::Proto));
    let tcp = match is_port {
        true => names::port::<{ names::TCP }>(word, names),
        false => names::portable_port::<{ names::TCP }>(word, names),
    };
    let udp = match is_port {
        true => names::port::<{ names::UDP }>(word, names),
        false => names::portable_port::<{ names::UDP }>(word, names),
    };
    let one = if is_proto { names::protocol(word) } else { names::portable_protocol(word) };
    let proto_named = one.map(u32::from).or_else(|| named(PROTO_SETS, word));
    let port_proto = |own| if tcp == udp { proto } else { Some(own) };
    let found = [
        (Subject::Proto, proto_named, true, proto),
        (Subject::Port, tcp.map(u32::from), is_one_of(&[TCP, TCP_OR_UDP]), port_proto(TCP)),
        (Subject::Port, udp.map(u32::from), is_one_of(&[UDP, TCP_OR_UDP]), port_proto(UDP)),
        (Subject::TcpFlags, named(TCP_FLAGS, word), is_one_of(&[TCP, TCP_OR_UDP]), proto),
        (Subject::Bits(ICMP_TYPE), named(names::ICMP_TYPES, word), is_one_of(&[ICMP]), proto),
    ];
    let readings = found.into_iter().filter_map(|(subject, value, fits_proto, proto)| {
        Some(Reading { subject, value: value?, fits_proto, proto })
    });
    readings.collect()
}

/// Whether the configuration gives `word` to an address, which precedes the names of numbers that
/// Click does not have.
fn is_address(word: &str, names: &dyn Names) -> bool {
    names.ipv4(word).is_some() || names.ipv4_prefix(word).is_some() || names.ether(word).is_some()
}

/// Whether `word` is a number's name in Click, too.
fn is_clicks(word: &str) -> bool {
    named(names::PORTS, word).or_else(|| named(names::PROTOCOLS, word)).is_some()
}

/// What `word` names where the test is about `subject` and `proto`, if that is known by then.
pub(super) fn meaning(
    word: &str,
    subject: Option<Subject>,
    proto: Option<u32>,
    names: &dyn Names,
) -> Meaning {
    if subject.is_none() {
        if SYNTAX.contains(&word) {
            return Meaning::Unknown;
        }
        if let Some(&(_, subject)) = SUBJECTS.iter().find(|(name, _)| *name == word) {
            return Meaning::Subject(subject);
        }
    }
    let is_number = matches!(subject, Some(Subject::Port | Subject::Proto));
    if !is_number && !is_clicks(word) && is_address(word, names) {
        return Meaning::Unknown;
    }
    let all = readings(word, subject, proto, names);
    let fits = |reading: &&Reading| {
        reading.fits_proto && subject.is_none_or(|subject| subject == reading.subject)
    };
    let meant: Vec<&Reading> = all.iter().filter(fits).collect();
    match meant.first() {
        _ if all.is_empty() => Meaning::Unknown,
        Some(first)
            if meant.iter().all(|r| (r.subject, r.value) == (first.subject, first.value)) =>
        {
            Meaning::Value(first.subject, first.value)
        }
        first => {
            let what = if first.is_some() { "ambiguous" } else { "meaningless" };
            let phrases =
                all.iter().map(|r| format!("'{}'", phrase(Some(r.subject), r.proto, word)));
            let phrases: Vec<String> = phrases.collect();
            let phrase = phrase(subject, proto, word);
            Meaning::Wrong(format!("'{phrase}' is {what}; try {}", phrases.join(", ")))
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
    use std::net::Ipv4Addr;

    use warpswitch_graph::language::args::NoNames;

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
            assert_eq!(meaning(word, subject, proto, &NoNames), expected, "{word}");
        };
        check("www", None, None, Meaning::Value(Subject::Port, 80));
        check("syn", None, None, Meaning::Value(Subject::TcpFlags, 2));
        check("echo", Some(Subject::Port), None, Meaning::Value(Subject::Port, 7));
        check("echo", None, Some(UDP), Meaning::Value(Subject::Port, 7));
        check("port", None, None, Meaning::Subject(Subject::Port));
        check("src", None, None, Meaning::Unknown);
        check("10.0.0.1", None, None, Meaning::Unknown);
        let Meaning::Wrong(message) = meaning("echo", None, None, &NoNames) else { panic!() };
        assert!(message.contains("is ambiguous; try 'port  echo'"), "{message}");
        let tcp = meaning("tcp", Some(Subject::Port), None, &NoNames);
        let Meaning::Wrong(message) = tcp else { panic!("{tcp:?}") };
        assert_eq!(message, "'port  tcp' is meaningless; try 'proto  tcp'");
    }

    struct Configured;

    impl Names for Configured {
        fn ipv4(&self, name: &str) -> Option<Ipv4Addr> {
            ["http", "web", "www"].contains(&name).then_some(Ipv4Addr::LOCALHOST)
        }

        fn tcp_port(&self, name: &str) -> Option<u16> {
            ["web", "split"].contains(&name).then_some(8080)
        }

        fn udp_port(&self, name: &str) -> Option<u16> {
            (name == "split").then_some(8081)
        }
    }

    #[test]
    fn names_of_services_and_protocols_are_numbers() {
        let check = |word, subject, proto, expected| {
            assert_eq!(meaning(word, subject, proto, &Configured), expected, "{word}");
        };
        let port = |number| Meaning::Value(Subject::Port, number);
        check("ospf", Some(Subject::Proto), None, Meaning::Value(Subject::Proto, 89));
        check("ospf", None, None, Meaning::Value(Subject::Proto, 89));
        check("http", Some(Subject::Port), None, port(80));
        check("ldap", None, Some(TCP), port(389));
        check("web", Some(Subject::Port), Some(TCP), port(8080));
        check("split", Some(Subject::Port), Some(UDP), port(8081));
        // A name of an address is one unless the test is about ports.
        check("http", None, None, Meaning::Unknown);
        check("http", Some(Subject::Host), None, Meaning::Unknown);
        check("web", Some(Subject::Host), None, Meaning::Unknown);
        check("www", None, None, port(80));
        let split = meaning("split", Some(Subject::Port), None, &Configured);
        let Meaning::Wrong(message) = split else { panic!("{split:?}") };
        let expected = "'port  split' is ambiguous; try 'port tcp split', 'port udp split'";
        assert_eq!(message, expected);
        let host = meaning("split", Some(Subject::Host), None, &Configured);
        assert!(matches!(host, Meaning::Wrong(_)), "{host:?}");
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
