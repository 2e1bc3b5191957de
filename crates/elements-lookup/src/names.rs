//! Names for numbers in configurations: ICMP types and codes, protocols, ports.
//!
//! A port name is looked up in the `PortInfo` elements in scope, in Click's table, in a table of
//! common services, and last in `/etc/services`; a protocol name in the two tables and in
//! `/etc/protocols`. As the tables come first, a configuration that uses their names means the same
//! on every machine.

use warpswitch_graph::language::args::{ArgError, FromArg, Names, Word};

use crate::system_names::SystemNames;

/// Names and their numbers.
pub type Table<N = u8> = &'static [(&'static str, N)];

/// Types of ICMP messages.
pub const ICMP_TYPES: Table = &[
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

/// Protocols over IP that Click names.
pub const PROTOCOLS: Table = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("sctp", 132),
];

/// Other common protocols over IP, by the names of IANA's registry.
pub const COMMON_PROTOCOLS: Table = &[
    ("hopopt", 0),
    ("ggp", 3),
    ("egp", 8),
    ("igp", 9),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmp6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("eigrp", 88),
    ("ospf", 89),
    ("etherip", 97),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("udplite", 136),
    ("mpls-in-ip", 137),
];

/// Codes of ICMP messages of a type.
pub fn icmp_codes(kind: u8) -> Table {
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

/// Ports of TCP and UDP that Click names.
pub const PORTS: Table<u16> = &[
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

/// Ports of other common services, by the names of IANA's registry.
pub const COMMON_PORTS: Table<u16> = &[
    ("tcpmux", 1),
    ("time", 37),
    ("whois", 43),
    ("tacacs", 49),
    ("gopher", 70),
    ("http", 80),
    ("kerberos", 88),
    ("imap", 143),
    ("imap2", 143),
    ("snmptrap", 162),
    ("bgp", 179),
    ("ldap", 389),
    ("microsoft-ds", 445),
    ("isakmp", 500),
    ("login", 513),
    ("shell", 514),
    ("syslog", 514),
    ("ntalk", 518),
    ("nntps", 563),
    ("submission", 587),
    ("ipp", 631),
    ("ldaps", 636),
    ("domain-s", 853),
    ("rsync", 873),
    ("ftps-data", 989),
    ("ftps", 990),
    ("telnets", 992),
    ("openvpn", 1194),
    ("ms-sql-s", 1433),
    ("radius", 1812),
    ("radius-acct", 1813),
    ("mqtt", 1883),
    ("nfs", 2049),
    ("mysql", 3306),
    ("ipsec-nat-t", 4500),
    ("sip", 5060),
    ("sip-tls", 5061),
    ("mdns", 5353),
    ("postgresql", 5432),
    ("x11", 6000),
];

/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;

/// The number that `table` has for `name`.
fn number_in<N: Copy>(table: Table<N>, name: &str) -> Option<N> {
    table.iter().find(|(known, _)| *known == name).map(|&(_, number)| number)
}

/// The port called `name` of `PROTOCOL`, which is [`TCP`] or [`UDP`], without those of the system.
pub fn portable_port<const PROTOCOL: u8>(name: &str, names: &dyn Names) -> Option<u16> {
    let configured = if PROTOCOL == TCP { names.tcp_port(name) } else { names.udp_port(name) };
    let known = || number_in(PORTS, name).or_else(|| number_in(COMMON_PORTS, name));
    configured.or_else(known)
}

/// The port called `name` of `PROTOCOL`, which is [`TCP`] or [`UDP`].
pub fn port<const PROTOCOL: u8>(name: &str, names: &dyn Names) -> Option<u16> {
    let system = || SystemNames::get().port(PROTOCOL, name);
    portable_port::<PROTOCOL>(name, names).or_else(system)
}

/// The protocol over IP called `name`, without those of the system.
pub fn portable_protocol(name: &str) -> Option<u8> {
    number_in(PROTOCOLS, name).or_else(|| number_in(COMMON_PROTOCOLS, name))
}

/// The protocol over IP called `name`.
pub fn protocol(name: &str) -> Option<u8> {
    portable_protocol(name).or_else(|| SystemNames::get().protocol(name))
}

/// The number that is called `name` in `table`, or that `name` is.
pub fn number(table: Table, name: &str, names: &dyn Names) -> Result<u8, ArgError> {
    number_in(table, name).map_or_else(|| u8::from_arg(name, names), Ok)
}

/// What `number` is called in `table`.
pub fn name(table: Table, number: u8) -> Option<&'static str> {
    table.iter().find(|&&(_, known)| known == number).map(|&(name, _)| name)
}

/// A port of `PROTOCOL`, which is [`TCP`] or [`UDP`], by number or name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Port<const PROTOCOL: u8>(pub u16);

impl<const PROTOCOL: u8> FromArg for Port<PROTOCOL> {
    const EXPECTED: &str = "a port, as 80 or http";

    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let found = port::<PROTOCOL>(text, names);
        found.map_or_else(|| u16::from_arg(text, names), Ok).map(Self)
    }
}

/// A protocol by number or name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Protocol(pub u8);

impl FromArg for Protocol {
    fn from_arg(text: &str, names: &dyn Names) -> Result<Self, ArgError> {
        let Word(word) = Word::from_arg(text, names)?;
        protocol(&word).map_or_else(|| u8::from_arg(&word, names), Ok).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use warpswitch_graph::language::args::NoNames;

    use super::*;

    #[test]
    fn tables_name_nothing_twice() {
        let ports = PORTS.iter().chain(COMMON_PORTS).map(|(name, _)| *name);
        assert_eq!(ports.collect::<BTreeSet<_>>().len(), PORTS.len() + COMMON_PORTS.len());
        let protocols = PROTOCOLS.iter().chain(COMMON_PROTOCOLS).map(|(name, _)| *name);
        let count = PROTOCOLS.len() + COMMON_PROTOCOLS.len();
        assert_eq!(protocols.collect::<BTreeSet<_>>().len(), count);
    }

    #[test]
    fn configured_names_precede_tables() {
        struct Configured;
        impl Names for Configured {
            fn tcp_port(&self, name: &str) -> Option<u16> {
                (name == "http").then_some(8080)
            }
        }
        assert_eq!(port::<TCP>("http", &NoNames), Some(80));
        assert_eq!(port::<TCP>("http", &Configured), Some(8080));
        assert_eq!(port::<UDP>("http", &Configured), Some(80));
        assert_eq!(portable_port::<TCP>("no-such-service", &Configured), None);
        assert_eq!(Protocol::from_arg("ospf", &NoNames).unwrap().0, 89);
        // Click's number, not that of IANA's registry.
        assert_eq!(Protocol::from_arg("ipip", &NoNames).unwrap().0, 4);
        assert_eq!(Protocol::from_arg("89", &NoNames).unwrap().0, 89);
        assert!(Protocol::from_arg("no-such-protocol", &NoNames).is_err());
        assert_eq!(Port::<UDP>::from_arg("53", &NoNames).unwrap().0, 53);
        assert!(Port::<UDP>::from_arg("70000", &NoNames).is_err());
    }
}
