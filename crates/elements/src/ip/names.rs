//! Names for numbers in configurations: ICMP types and codes, protocols, ports.

use warpswitch_graph::language::args::{ArgError, FromArg, Names, Word};

pub(crate) type Table<N = u8> = &'static [(&'static str, N)];

/// Types of ICMP messages.
pub(crate) const ICMP_TYPES: Table = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

/// Protocols over IP.
pub(crate) const PROTOCOLS: Table = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("sctp", 132),
];

/// Codes of ICMP messages of a type.
pub(super) fn icmp_codes(kind: u8) -> Table {
    match kind {
        3 => &[
            ("net", 0),
            ("host", 1),
            ("protocol", 2),
            ("port", 3),
            ("needfrag", 4),
            ("srcroutefail", 5),
            ("netunknown", 6),
            ("hostunknown", 7),
            ("isolated", 8),
            ("netprohibited", 9),
            ("hostprohibited", 10),
            ("tosnet", 11),
            ("toshost", 12),
            ("filterprohibited", 13),
            ("hostprecedence", 14),
            ("precedencecutoff", 15),
        ],
        5 => &[("net", 0), ("host", 1), ("tosnet", 2), ("toshost", 3)],
        11 => &[("transit", 0), ("reassembly", 1)],
        12 => &[("erroratptr", 0), ("missingopt", 1), ("length", 2)],
        _ => &[],
    }
}

/// Ports of TCP and UDP.
pub(crate) const PORTS: Table<u16> = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("dns", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("finger", 79),
    ("www", 80),
    ("pop3", 110),
    ("sunrpc", 111),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("snmp", 161),
    ("snmp-trap", 162),
    ("irc", 194),
    ("imap3", 220),
    ("https", 443),
    ("rip", 520),
    ("route", 520),
    ("imaps", 993),
    ("pop3s", 995),
    ("pptp", 1723),
];

/// The number that is called `name` in `table`, or that `name` is.
pub(super) fn number(table: Table, name: &str, names: &dyn Names) -> Result<u8, ArgError> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map_or_else(|| u8::from_arg(name, names), |&(_, number)| Ok(number))
}

/// What `number` is called in `table`.
pub(crate) fn name(table: Table, number: u8) -> Option<&'static str> {
    table.iter().find(|&&(_, known)| known == number).map(|&(name, _)| name)
}

/// A port of UDP by number or name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Port(pub(super) u16);

impl FromArg for Port {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let known = || PORTS.iter().find(|(name, _)| *name == text).map(|&(_, port)| port);
        let found = names.udp_port(text).or_else(known);
        found.map_or_else(|| u16::from_arg(text, names), Ok).map(Self)
    }
}

/// A protocol by number or name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Protocol(pub(super) u8);

impl FromArg for Protocol {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let Word(word) = Word::from_arg(text, names)?;
        number(PROTOCOLS, &word, names).map(Self)
    }
}
