//! Defines names for addresses and ports, and accepts hints about other elements.
//!
//! # Synopsis
//! `AddressInfo(NAME ADDRESS…, …)`, `PortInfo(NAME PORT[/PROTOCOL] …, …)`,
//! `ScheduleInfo(ELEMENT TICKETS, …)`, `AlignmentInfo(…)`, `ClickyInfo(…)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `NAME`: name, visible in the same compound element and in compound elements inside it
//! - `ADDRESS`: Ethernet, IPv4 or IPv6 address or prefix; a name may have one of each. A prefix
//!   with host bits set also defines an address. Uses of a name select one with `NAME:ip`,
//!   `NAME:ipnet`, `NAME:ip6`, `NAME:ip6net` or `NAME:eth`; `NAME:bcast` is the last address of the
//!   IPv4 prefix.
//! - `PORT`, `PROTOCOL`: port number, and `tcp` or `udp`; default: both. More names for the port
//!   may follow; a word that begins with `#` starts a comment.
//! - `ELEMENT`: for `ScheduleInfo`, name of an element or compound element; not checked
//! - `TICKETS`: share of CPU time: checked, but ignored, as tasks run in turn
//!
//! `AlignmentInfo`, and `ClickyInfo` with its styles of Click's graphical interface: accepted for
//! compatibility, ignored.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Processes no packets.
//!
//! # Example
//! ```text
//! AddressInfo(here 10.0.0.1/24 00:00:c0:ae:67:ef);
//! Idle -> EtherEncap(0x0800, here, here) -> Discard;
//! ```

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{
    Args, ArgsError, EtherAddress, Fixed, FromArg, Ipv4Prefix, Ipv6Prefix, Names, NoNames,
};
use warpswitch_graph::{ConfigureContext, Element, ElementClass, NameTable, Phase};

/// The class `AddressInfo`.
pub static ADDRESS: ElementClass =
    ElementClass::new("AddressInfo", "0/0", "a/a", || Box::<AddressInfo>::default())
        .phase(Phase::Names);
/// The class `PortInfo`.
pub static PORT: ElementClass =
    ElementClass::new("PortInfo", "0/0", "a/a", || Box::<PortInfo>::default()).phase(Phase::Names);
/// The class `ScheduleInfo`.
pub static SCHEDULE: ElementClass =
    ElementClass::new("ScheduleInfo", "0/0", "a/a", || Box::new(Notes::Schedule))
        .phase(Phase::Information);
/// The class `AlignmentInfo`.
pub static ALIGNMENT: ElementClass =
    ElementClass::new("AlignmentInfo", "0/0", "a/a", || Box::new(Notes::Alignment))
        .phase(Phase::Information);
/// The class `ClickyInfo`.
pub static CLICKY: ElementClass =
    ElementClass::new("ClickyInfo", "0/0", "a/a", || Box::new(Notes::Clicky))
        .phase(Phase::Information);

/// What stands before names of the compound that the element is part of.
fn scope(context: &ConfigureContext<'_>) -> String {
    let name = &context.graph.elements[context.element].name;
    name.rfind('/').map_or(String::new(), |at| name[..=at].to_owned())
}

/// See the module.
#[derive(Debug, Default)]
pub struct AddressInfo {
    names: NameTable,
}

/// The names that this element has given so far, and those that it sees.
struct Seen<'a> {
    own: &'a NameTable,
    scope: &'a str,
    outer: &'a dyn Names,
}

impl Seen<'_> {
    fn get<T: Copy>(&self, table: &BTreeMap<String, T>, name: &str) -> Option<T> {
        table.get(&format!("{}{name}", self.scope)).copied()
    }
}

impl Names for Seen<'_> {
    fn ipv4(&self, name: &str) -> Option<Ipv4Addr> {
        self.get(&self.own.ipv4, name).or_else(|| self.outer.ipv4(name))
    }

    fn ipv4_prefix(&self, name: &str) -> Option<Ipv4Prefix> {
        self.get(&self.own.ipv4_prefix, name).or_else(|| self.outer.ipv4_prefix(name))
    }

    fn ipv6(&self, name: &str) -> Option<Ipv6Addr> {
        self.get(&self.own.ipv6, name).or_else(|| self.outer.ipv6(name))
    }

    fn ipv6_prefix(&self, name: &str) -> Option<Ipv6Prefix> {
        self.get(&self.own.ipv6_prefix, name).or_else(|| self.outer.ipv6_prefix(name))
    }

    fn ether(&self, name: &str) -> Option<EtherAddress> {
        self.get(&self.own.ether, name).or_else(|| self.outer.ether(name))
    }
}

/// The kinds of an address, as bits.
const ETHER: u8 = 1;
const IPV4: u8 = 2;
const IPV4_PREFIX: u8 = 4;
const IPV6: u8 = 8;
const IPV6_PREFIX: u8 = 16;

impl AddressInfo {
    /// Gives `name` to `text`, of all the kinds that it can be read as; of one that the name has
    /// already, only if it can be no other. Gives the kinds; none if it is no address.
    fn define(
        &mut self,
        context: &ConfigureContext<'_>,
        (scope, name): (&str, &str),
        text: &str,
        known: u8,
    ) -> u8 {
        let seen = Seen { own: &self.names, scope, outer: context.names };
        let ether = EtherAddress::from_arg(text, &seen).ok();
        let mut ipv4 = Ipv4Addr::from_arg(text, &seen).ok();
        let mut ipv6 = Ipv6Addr::from_arg(text, &seen).ok();
        let prefix = |is_address: bool| (!is_address).then_some(text);
        let ipv4_prefix =
            prefix(ipv4.is_some()).and_then(|text| Ipv4Prefix::from_arg(text, &seen).ok());
        let ipv6_prefix =
            prefix(ipv6.is_some()).and_then(|text| Ipv6Prefix::from_arg(text, &seen).ok());
        // An address within its network.
        ipv4 = ipv4.or(ipv4_prefix.filter(|p| p.address != p.network()).map(|p| p.address));
        ipv6 = ipv6.or(ipv6_prefix.filter(|p| p.address != p.network()).map(|p| p.address));
        let kinds = [
            (ether.is_some(), ETHER),
            (ipv4.is_some(), IPV4),
            (ipv4_prefix.is_some(), IPV4_PREFIX),
            (ipv6.is_some(), IPV6),
            (ipv6_prefix.is_some(), IPV6_PREFIX),
        ];
        let kinds = kinds.iter().filter(|(is, _)| *is).fold(0, |kinds, (_, kind)| kinds | kind);
        let counts = |kind: u8| kinds.count_ones() == 1 || known & kind == 0;
        let name = &format!("{scope}{name}")[..];
        fn insert<T>(table: &mut BTreeMap<String, T>, name: &str, value: Option<T>) {
            if let Some(value) = value {
                table.insert(name.to_owned(), value);
            }
        }
        insert(&mut self.names.ether, name, ether.filter(|_| counts(ETHER)));
        insert(&mut self.names.ipv4, name, ipv4.filter(|_| counts(IPV4)));
        insert(&mut self.names.ipv4_prefix, name, ipv4_prefix.filter(|_| counts(IPV4_PREFIX)));
        insert(&mut self.names.ipv6, name, ipv6.filter(|_| counts(IPV6)));
        insert(&mut self.names.ipv6_prefix, name, ipv6_prefix.filter(|_| counts(IPV6_PREFIX)));
        kinds
    }
}

impl Element for AddressInfo {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let scope = scope(context);
        for (idx, line) in args.rest().iter().enumerate() {
            let words = split_words(line);
            let Some((name, addresses)) = words.split_first() else { continue };
            if addresses.is_empty() {
                args.error_of(idx, "expected 'NAME [ADDRS]'");
            }
            let mut known = 0;
            for address in addresses {
                let kinds = self.define(context, (&scope, name), address, known);
                known |= kinds;
                if kinds == 0 {
                    let message = format!("'{address}' is not a recognizable address");
                    args.error_of(idx, &message);
                }
            }
        }
        args.consume()
    }

    fn define_names(&self, names: &mut NameTable) {
        names.ether.extend(self.names.ether.clone());
        names.ipv4.extend(self.names.ipv4.clone());
        names.ipv4_prefix.extend(self.names.ipv4_prefix.clone());
        names.ipv6.extend(self.names.ipv6.clone());
        names.ipv6_prefix.extend(self.names.ipv6_prefix.clone());
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct PortInfo {
    tcp: Vec<(String, u16)>,
    udp: Vec<(String, u16)>,
}

impl Element for PortInfo {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let scope = scope(context);
        for (idx, line) in args.rest().iter().enumerate() {
            let words = split_words(line);
            let comment = words.iter().position(|word| word.starts_with('#'));
            let words = &words[..comment.unwrap_or(words.len())];
            let Some((name, rest)) = words.split_first() else { continue };
            let (port, others) = rest.split_first().map_or(("", rest), |(p, o)| (&p[..], o));
            let (port, protocol) = port.split_once('/').map_or((port, None), |(p, q)| (p, Some(q)));
            let Ok(port) = u16::from_arg(port, &NoNames) else {
                args.error_of(idx, "expected 'NAME PORT/PROTO'");
                continue;
            };
            for name in std::iter::once(name).chain(others) {
                let name = format!("{scope}{name}");
                // Ports of other protocols have no names here.
                if matches!(protocol, None | Some("tcp" | "6")) {
                    self.tcp.push((name.clone(), port));
                }
                if matches!(protocol, None | Some("udp" | "17")) {
                    self.udp.push((name, port));
                }
            }
        }
        args.consume()
    }

    fn define_names(&self, names: &mut NameTable) {
        names.tcp_port.extend(self.tcp.iter().cloned());
        names.udp_port.extend(self.udp.iter().cloned());
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notes {
    /// `ScheduleInfo`.
    Schedule,
    /// `AlignmentInfo`.
    Alignment,
    /// `ClickyInfo`.
    Clicky,
}

impl Notes {
    /// Checks the words of one argument; gives what is wrong with them.
    fn check(self, line: &str) -> Result<(), Vec<String>> {
        let words = split_words(line);
        match self {
            Notes::Alignment | Notes::Clicky => Ok(()),
            Notes::Schedule if words.is_empty() => Ok(()),
            Notes::Schedule => {
                let is_right =
                    words.len() == 2 && Fixed::<10>::from_arg(&words[1], &NoNames).is_ok();
                let message = || vec!["expected 'ELEMENTNAME PARAM'".to_owned()];
                is_right.then_some(()).ok_or_else(message)
            }
        }
    }
}

impl Element for Notes {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        for line in args.rest() {
            for message in self.check(&line).err().unwrap_or_default() {
                args.error_at("", &message);
            }
        }
        args.consume()
    }
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::simulate::router;

    fn errors(config: &str) -> String {
        let made = router(config, &crate::registry());
        made.err().map_or(String::new(), |errors| errors.to_click())
    }

    #[test]
    fn names_mean_addresses_of_every_kind() {
        let info =
            "AddressInfo(a 10.0.0.1/24 1:2:3:4:5:6, b 10.0.0.0/8, c ::1, d a,,e fe80::1/64);";
        for (user, is_right) in [
            ("AddressInfo(x a)", true),
            ("AddressInfo(x b)", true),
            ("AddressInfo(x c)", true),
            ("AddressInfo(x d)", true),
            ("AddressInfo(x e)", true),
            ("AddressInfo(x nobody)", false),
        ] {
            let errors = errors(&format!("{info} {user}; Idle -> Discard"));
            assert_eq!(errors.is_empty(), is_right, "{user}: {errors}");
        }
        let nobody = errors(&format!("{info} AddressInfo(x nobody); Idle -> Discard"));
        assert!(nobody.contains("'nobody' is not a recognizable address"), "{nobody}");
        assert!(errors("AddressInfo(lonely); Idle -> Discard").contains("expected 'NAME [ADDRS]'"));
    }

    #[test]
    fn a_name_is_seen_where_it_is_given_and_further_in() {
        let config = "elementclass In { AddressInfo(near 1.2.3.4); AddressInfo(x near, y far);
                input -> output }
            AddressInfo(far 5.6.7.8); Idle -> In -> Discard;";
        assert_eq!(errors(config), "");
        let config = "elementclass In { AddressInfo(near 1.2.3.4); input -> output }
            Idle -> In -> Discard; AddressInfo(x near);";
        assert!(errors(config).contains("'near' is not a recognizable address"));
    }

    #[test]
    fn notes_are_checked() {
        for (note, message) in [
            ("ScheduleInfo(i 2, comp/ound 0.5, )", ""),
            ("ScheduleInfo(i)", "expected 'ELEMENTNAME PARAM'"),
            ("ScheduleInfo(i much)", "expected 'ELEMENTNAME PARAM'"),
            ("StaticThreadSched(i 0, d -1)", ""),
            ("StaticThreadSched(nobody 0)", "ELEMENT: no element named 'nobody'"),
            ("StaticThreadSched(i)", "THREAD: required argument missing"),
            ("AlignmentInfo(i 4 2)", ""),
            ("ClickyInfo(STYLE #i { decorations: activity } activity { decay: 0 })", ""),
            ("ClickyInfo(STYLE @import a.ccss, STYLE \"i { color: red }\")", ""),
            ("PortInfo(web 80/tcp www, name 53 dns # both, x 7/sctp)", ""),
            ("PortInfo(web)", "expected 'NAME PORT/PROTO'"),
            ("PortInfo(web x/tcp)", "expected 'NAME PORT/PROTO'"),
        ] {
            let errors = errors(&format!("i :: Idle -> d :: Discard; {note}"));
            assert!(errors.contains(message), "{note}: {errors}");
            assert_eq!(errors.is_empty(), message.is_empty(), "{note}: {errors}");
        }
    }
}
