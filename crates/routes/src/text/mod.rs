//! Routes as text, read and written.
//!
//! | syntax | a route | where it is used |
//! | --- | --- | --- |
//! | [`Syntax::Click`] | `10.0.0.0/8 192.0.2.1 3` | arguments of Click's lookup elements, their `table` |
//! | [`Syntax::IpRoute`] | `10.0.0.0/8 via 192.0.2.1 dev eth0` | what `ip route` prints |
//! | [`Syntax::List`] | `10.0.0.0/8 192.0.2.1`, `10.0.0.0/8 3` | dumps of routing tables |
//!
//! # Invariants
//! - T1: any bytes are routes or [`Diagnostics`]; nothing panics, and memory is bounded by the
//!   length of the text.
//! - T2: what was written is read back as it was.

mod click;
mod diagnostic;
mod ip_route;
mod list;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use crate::address::Address;
use crate::error::{ErrorKind, RouteError};
use crate::hop::NextHop;
use crate::prefix::Prefix;
use crate::table::RouteTable;
pub use diagnostic::{DIAGNOSTICS_KEPT_MAX, Diagnostic, Diagnostics};
use diagnostic::{Place, Word};

/// How routes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `ADDR/MASK [GATEWAY] PORT`, separated by commas or line ends; `//` and `/* */` comments. A
    /// mask is a length or dotted; without one it is the host. `-` stands for no gateway.
    Click,
    /// Lines of `ip route` and `ip -6 route`. Of several next hops the first one is taken, of
    /// several routes of a prefix the one with the lowest metric.
    IpRoute,
    /// Lines `PREFIX [GATEWAY or PORT]`; `#` comments.
    List,
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Via<A> {
    /// The router that it leads through; none if the destination is a neighbour.
    pub gateway: Option<A>,
    /// The way out.
    pub out: Out,
}

/// The way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Out {
    /// The text does not say.
    Unknown,
    /// An output port of an element.
    Port(u32),
    /// An interface of the system.
    Device(String),
    /// Drop it and say nothing.
    Blackhole,
    /// Drop it; the destination cannot be reached.
    Unreachable,
    /// Drop it; it is forbidden.
    Prohibit,
}

/// Routes, and what their next hops are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes<A> {
    /// The routes; their hops count through `vias`.
    pub table: RouteTable<A>,
    /// Where each next hop leads, each once, in the order of the text.
    pub vias: Vec<Via<A>>,
}

/// Reads routes of one family. `file` is the text's name in errors.
///
/// # Errors
/// Every error of the text.
pub fn read<A: Address>(syntax: Syntax, file: &str, text: &[u8]) -> Result<Routes<A>, Diagnostics> {
    let mut reader = Reader::new(file);
    match syntax {
        Syntax::Click => click::read(&mut reader, text),
        Syntax::IpRoute => ip_route::read(&mut reader, text),
        Syntax::List => list::read(&mut reader, text),
    }
    if reader.diagnostics.total() > 0 { Err(reader.diagnostics) } else { Ok(reader.routes) }
}

/// Writes routes, a line for each, in the order of [`RouteTable::iter`].
///
/// # Errors
/// [`ErrorKind::NotInSyntax`] for a route that the syntax cannot say.
/// # Panics
/// If a route's hop is not in `vias`: a caller bug.
pub fn write<A: Address>(syntax: Syntax, routes: &Routes<A>) -> Result<String, RouteError> {
    let mut text = String::new();
    for (prefix, hop) in routes.table.iter() {
        let via = &routes.vias[usize::from(hop.0)];
        let written = match syntax {
            Syntax::Click => click::write(&mut text, prefix, via),
            Syntax::IpRoute => ip_route::write(&mut text, prefix, via),
            Syntax::List => list::write(&mut text, prefix, via),
        };
        written.map_err(|fmt::Error| {
            let message = format!("the route of {prefix} cannot be written as {syntax:?}: {via:?}");
            RouteError::new(ErrorKind::NotInSyntax, message)
        })?;
    }
    Ok(text)
}

/// Collects routes and errors.
struct Reader<'a, A> {
    file: &'a str,
    routes: Routes<A>,
    hop_of: BTreeMap<Via<A>, NextHop>,
    diagnostics: Diagnostics,
}

impl<'a, A: Address> Reader<'a, A> {
    fn new(file: &'a str) -> Self {
        Self {
            file,
            routes: Routes { table: RouteTable::new(), vias: Vec::new() },
            hop_of: BTreeMap::new(),
            diagnostics: Diagnostics::default(),
        }
    }

    fn place<'b>(&self, line_no: usize, line: &'b [u8]) -> Place<'b>
    where
        'a: 'b,
    {
        Place { file: self.file, line_no, line }
    }

    fn error(&mut self, place: &Place<'_>, word: &Word<'_>, message: &str, expected: &str) {
        self.diagnostics.add(place, word.span.clone(), message, expected);
    }

    /// An error behind the last of `words`.
    fn missing(&mut self, place: &Place<'_>, words: &[Word<'_>], message: &str, expected: &str) {
        let end = words.last().map_or(0, |word| word.span.end);
        self.diagnostics.add(place, end..end, message, expected);
    }

    /// The hop that `via` has, a new one if it has none yet.
    fn hop(&mut self, place: &Place<'_>, word: &Word<'_>, via: Via<A>) -> Option<NextHop> {
        if let Some(&hop) = self.hop_of.get(&via) {
            return Some(hop);
        }
        // One more would have the number that stands for none.
        let hop = u16::try_from(self.routes.vias.len()).map_or(NextHop::NONE, NextHop);
        if !hop.is_some() {
            self.error(place, word, "too many next hops", "at most 65535 distinct next hops");
            return None;
        }
        self.routes.vias.push(via.clone());
        self.hop_of.insert(via, hop);
        Some(hop)
    }

    /// Puts in a route; one prefix may stand once.
    fn route(&mut self, place: &Place<'_>, word: &Word<'_>, prefix: Prefix<A>, via: Via<A>) {
        if self.routes.table.get(prefix).is_some() {
            self.error(place, word, "duplicate prefix", "each prefix once");
        } else if let Some(hop) = self.hop(place, word, via) {
            // The hop is one that stands for a route: it was just numbered.
            let _ = self.routes.table.insert(prefix, hop);
        }
    }
}

/// How addresses of a family look.
fn address_looks<A: Address>() -> &'static str {
    if A::BITS == 32 { "an address like 192.0.2.1" } else { "an address like 2001:db8::1" }
}

fn prefix_looks<A: Address>() -> &'static str {
    if A::BITS == 32 { "a prefix like 192.0.2.0/24" } else { "a prefix like 2001:db8::/32" }
}

/// An address of the family.
fn address<A: Address>(text: &str) -> Option<A> {
    A::from_ip(text.parse::<IpAddr>().ok()?)
}

/// Why a text is no prefix.
enum NoPrefix {
    /// It does not look like one.
    Shape,
    /// Its length is more than the family has.
    Length,
    /// Bits behind the length are set; the prefix without them.
    Bits(String),
}

/// `addr/len`, or an address alone.
fn prefix<A: Address>(text: &str) -> Result<Prefix<A>, NoPrefix> {
    let (addr, len) = match text.split_once('/') {
        None => (text, Ok(A::BITS)),
        Some((addr, len)) => (addr, length::<A>(len)),
    };
    let addr = address::<A>(addr).ok_or(NoPrefix::Shape)?;
    let len = len?;
    Prefix::new(addr, len).map_err(|_| NoPrefix::Bits(Prefix::containing(addr, len).to_string()))
}

/// The length of a prefix, in digits alone.
fn length<A: Address>(text: &str) -> Result<u8, NoPrefix> {
    let is_number = (1..4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let len: u16 = is_number.then(|| text.parse().ok()).flatten().ok_or(NoPrefix::Shape)?;
    u8::try_from(len).ok().filter(|&len| len <= A::BITS).ok_or(NoPrefix::Length)
}

impl<A: Address> Reader<'_, A> {
    /// The prefix that `word` is, or an error.
    fn prefix(&mut self, place: &Place<'_>, word: &Word<'_>) -> Option<Prefix<A>> {
        match prefix(word.text) {
            Ok(prefix) => return Some(prefix),
            Err(NoPrefix::Shape) => {
                self.error(place, word, "not a prefix of this family", prefix_looks::<A>());
            }
            Err(NoPrefix::Length) => {
                let expected = format!("a length of at most {}", A::BITS);
                self.error(place, word, "the prefix is too long", &expected);
            }
            Err(NoPrefix::Bits(right)) => {
                self.error(place, word, "bits beyond the prefix length are set", &right);
            }
        }
        None
    }

    /// The address that `word` is, or an error.
    fn address(&mut self, place: &Place<'_>, word: &Word<'_>) -> Option<A> {
        let address = address(word.text);
        if address.is_none() {
            self.error(place, word, "not an address of this family", address_looks::<A>());
        }
        address
    }
}

/// Lines with their numbers, without their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    text.split(|&byte| byte == b'\n').enumerate().map(|(idx, line)| (idx + 1, line))
}
