//! Route table of a lookup element: prefixes with an output and an optional gateway.
//!
//! ```text
//! destination ─► Ipv4Lpm ─► number of a hop ─► hops: gateway, port
//! prefix ─► slot: routes in insertion order, for `table`
//! ```
//! # Invariants
//! - R1: the lookup table and the slots hold the same routes.
//! - R2: each hop counts its routes; a hop without routes is free.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{BareIpv4Prefix, FromArg, Names, split};
use warpswitch_routes::{Ipv4Lpm, LpmOptions, NextHop, Prefix, RouteError};

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hop {
    /// The router that it leads through, 0 if the destination is a neighbour.
    pub(super) gateway: u32,
    /// The output.
    pub(super) port: u32,
}

/// A route as it is written: the port may be missing where a route is taken out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) prefix: Prefix<u32>,
    pub(super) gateway: u32,
    pub(super) port: Option<i32>,
}

impl Written {
    /// Reads `ADDR/MASK [GATEWAY] PORT`.
    pub(super) fn parse(text: &str, names: &dyn Names) -> Option<Self> {
        let words = split::split_words(text);
        let BareIpv4Prefix(prefix) = BareIpv4Prefix::from_arg(words.first()?, names).ok()?;
        let prefix = Prefix::containing(prefix.network().into(), prefix.len()?);
        let gateway = words.get(1).and_then(|word| match word.as_str() {
            "-" => Some(0),
            word => Ipv4Addr::from_arg(word, names).ok().map(u32::from),
        });
        let rest = &words[1 + usize::from(gateway.is_some())..];
        let port = match rest {
            [] => None,
            [port] => Some(i32::from_arg(port, names).ok()?),
            _ => return None,
        };
        Some(Self { prefix, gateway: gateway.unwrap_or(0), port })
    }
}

/// Why a change was not made.
#[derive(Debug)]
pub(super) enum Refused {
    /// The prefix has this route already.
    Exists(Hop),
    /// There is no such route.
    Missing,
    /// It does not fit.
    Full(String),
}

impl From<RouteError> for Refused {
    fn from(error: RouteError) -> Self {
        Self::Full(error.to_string())
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct RouteTable {
    lpm: Ipv4Lpm,
    /// Where each hop leads, and how many routes lead to it.
    hops: Vec<(Hop, u32)>,
    hops_free: Vec<u16>,
    hop_of: HashMap<Hop, u16>,
    slots: Vec<Option<Prefix<u32>>>,
    slots_free: Vec<usize>,
    /// Slot and hop of each prefix.
    routes: HashMap<Prefix<u32>, (usize, u16)>,
}

impl RouteTable {
    /// No route.
    pub(super) fn new() -> Self {
        let lpm = Ipv4Lpm::from_routes([], &LpmOptions::default());
        Self {
            lpm: lpm.expect("an empty table fits"),
            hops: Vec::new(),
            hops_free: Vec::new(),
            hop_of: HashMap::new(),
            slots: Vec::new(),
            slots_free: Vec::new(),
            routes: HashMap::new(),
        }
    }

    /// Adds `routes` to an empty table, at once. Of a prefix the first one counts: the number of
    /// the others is given.
    pub(super) fn fill(&mut self, routes: &[(Prefix<u32>, Hop)]) -> Result<usize, Refused> {
        let mut repeated = 0;
        for &(prefix, hop) in routes {
            if self.routes.contains_key(&prefix) {
                repeated += 1;
                continue;
            }
            let hop = self.use_hop(hop)?;
            self.routes.insert(prefix, (self.slots.len(), hop));
            self.slots.push(Some(prefix));
        }
        self.lpm = Ipv4Lpm::from_routes(self.numbered(), &LpmOptions::default())?;
        Ok(repeated)
    }

    /// Takes all routes out.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// How the routes lie in memory, which code looks up, and the bytes that they take.
    pub(super) fn engine(&self) -> (String, usize) {
        let stats = self.lpm.stats();
        (format!("{} {}", stats.form.name(), stats.kernel), stats.bytes)
    }

    /// Finds the numbers of hops for all `addresses`.
    #[inline]
    pub(super) fn lookup(&self, addresses: &[u32], found: &mut [NextHop]) {
        self.lpm.lookup_batch(addresses, found);
    }

    /// The hop with number `hop`, which a lookup gave.
    #[inline]
    pub(super) fn hop(&self, hop: NextHop) -> Option<Hop> {
        self.hops.get(usize::from(hop.0)).map(|&(hop, _)| hop)
    }

    /// The number of the hop of exactly this prefix.
    pub(super) fn number(&self, prefix: Prefix<u32>) -> Option<NextHop> {
        self.routes.get(&prefix).map(|&(_, number)| NextHop(number))
    }

    /// All prefixes, with the numbers of their hops.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (Prefix<u32>, NextHop)> + Clone {
        self.routes.iter().map(|(&prefix, &(_, number))| (prefix, NextHop(number)))
    }

    /// The hop of exactly this prefix.
    pub(super) fn get(&self, prefix: Prefix<u32>) -> Option<Hop> {
        self.hop(self.number(prefix)?)
    }

    /// Adds a route. One that the prefix has is replaced if that is allowed, and given.
    pub(super) fn add(
        &mut self,
        prefix: Prefix<u32>,
        hop: Hop,
        may_replace: bool,
    ) -> Result<Option<Hop>, Refused> {
        let old = self.get(prefix);
        if let Some(old) = old.filter(|_| !may_replace) {
            return Err(Refused::Exists(old));
        }
        let number = self.use_hop(hop)?;
        if let Err(error) = self.lpm.insert(prefix, NextHop(number)) {
            self.release_hop(number);
            return Err(error.into());
        }
        match self.routes.get_mut(&prefix) {
            Some((_, used)) => {
                let used = std::mem::replace(used, number);
                self.release_hop(used);
            }
            None => {
                let slot = self.slots_free.pop().unwrap_or_else(|| {
                    self.slots.push(None);
                    self.slots.len() - 1
                });
                self.slots[slot] = Some(prefix);
                self.routes.insert(prefix, (slot, number));
            }
        }
        Ok(old)
    }

    /// Removes and returns a route; `hop`, if given, must equal that of the route.
    pub(super) fn remove(&mut self, prefix: Prefix<u32>, hop: Option<Hop>) -> Result<Hop, Refused> {
        let old = self.get(prefix).ok_or(Refused::Missing)?;
        if hop.is_some_and(|hop| hop != old) {
            return Err(Refused::Missing);
        }
        self.lpm.remove(prefix)?;
        if let Some((slot, number)) = self.routes.remove(&prefix) {
            self.slots[slot] = None;
            self.slots_free.push(slot);
            self.release_hop(number);
        }
        Ok(old)
    }

    /// The routes, one per line.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for prefix in self.slots.iter().flatten() {
            let Some(hop) = self.get(*prefix) else { continue };
            text += &route_text(*prefix, hop, true);
            text.push('\n');
        }
        text
    }

    fn use_hop(&mut self, hop: Hop) -> Result<u16, Refused> {
        if let Some(&number) = self.hop_of.get(&hop) {
            self.hops[usize::from(number)].1 += 1;
            return Ok(number);
        }
        let number = match self.hops_free.pop() {
            Some(number) => number,
            // The last number stands for no route.
            None => u16::try_from(self.hops.len())
                .ok()
                .filter(|&number| NextHop(number).is_some())
                .ok_or_else(|| Refused::Full("too many different gateways".to_owned()))?,
        };
        if usize::from(number) == self.hops.len() {
            self.hops.push((hop, 0));
        }
        self.hops[usize::from(number)] = (hop, 1);
        self.hop_of.insert(hop, number);
        Ok(number)
    }

    fn release_hop(&mut self, number: u16) {
        let (hop, routes) = &mut self.hops[usize::from(number)];
        *routes -= 1;
        if *routes == 0 {
            self.hop_of.remove(hop);
            self.hops_free.push(number);
        }
    }
}

/// A route as text, in columns or with spaces between.
pub(super) fn route_text(prefix: Prefix<u32>, hop: Hop, in_columns: bool) -> String {
    let mut text = prefix.to_string();
    // A column is as wide as two tabs, or one for gateways that are short.
    let end_column = |text: &mut String, start: usize, width: usize| {
        text.push(if in_columns { '\t' } else { ' ' });
        if in_columns && text.len() - start < width {
            text.push('\t');
        }
    };
    end_column(&mut text, 0, 17);
    let start = text.len();
    match hop.gateway {
        0 => text.push('-'),
        gateway => text += &Ipv4Addr::from(gateway).to_string(),
    }
    end_column(&mut text, start, 9);
    let _ = write!(text, "{}", hop.port);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_graph::language::args::NoNames;

    fn prefix(text: &str) -> Prefix<u32> {
        Written::parse(text, &NoNames).expect("a prefix").prefix
    }

    fn lookup(table: &RouteTable, address: [u8; 4]) -> Option<Hop> {
        let mut found = [NextHop::NONE];
        table.lookup(&[u32::from_be_bytes(address)], &mut found);
        table.hop(found[0])
    }

    #[test]
    fn routes_are_written_in_many_ways() {
        let check = |text: &str, prefix: &str, gateway: [u8; 4], port: Option<i32>| {
            let written = Written::parse(text, &NoNames).expect(text);
            assert_eq!(written.prefix.to_string(), prefix);
            assert_eq!((written.gateway, written.port), (u32::from_be_bytes(gateway), port));
        };
        check("18.26/16 1.0.0.1 0", "18.26.0.0/16", [1, 0, 0, 1], Some(0));
        check("18.26.7.9/12 - 3", "18.16.0.0/12", [0; 4], Some(3));
        check("10.0.0.0/255.255.0.0 5", "10.0.0.0/16", [0; 4], Some(5));
        check("10.0.0.1 5", "10.0.0.1/32", [0; 4], Some(5));
        check("0/0 1.2.3.4", "0.0.0.0/0", [1, 2, 3, 4], None);
        check("1.2.3.4", "1.2.3.4/32", [0; 4], None);
        for text in ["", "1.2.3", "1.2.3.4/33 1", "1.2.3.4 x", "1.2.3.4 - 1 2", "1/8 2/8 3"] {
            assert!(Written::parse(text, &NoNames).is_none(), "{text}");
        }
        assert!(Written::parse("10.0.0.0/255.0.255.0 1", &NoNames).is_none(), "gaps in a mask");
    }

    #[test]
    fn hops_are_used_again_when_no_route_leads_there() {
        let mut table = RouteTable::new();
        let hop = |gateway: u32| Hop { gateway, port: gateway % 3 };
        for gateway in 1..200_000 {
            assert!(table.add(prefix("10/8"), hop(gateway), true).is_ok());
        }
        assert_eq!(lookup(&table, [10, 1, 1, 1]), Some(hop(199_999)));
        assert!(table.hops.len() <= 2 && table.slots.len() == 1);
        assert!(matches!(table.remove(prefix("10/8"), Some(hop(1))), Err(Refused::Missing)));
        assert!(table.remove(prefix("10/8"), None).is_ok());
        assert_eq!((lookup(&table, [10, 1, 1, 1]), table.text()), (None, String::new()));
    }

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let mut table = RouteTable::new();
        let route = |n: u32| (Prefix::containing(n << 8, 24), Hop { gateway: n + 1, port: 0 });
        let routes: Vec<_> = (0..65_535).map(route).collect();
        assert_eq!(table.fill(&routes).expect("as many as can be"), 0);
        let (one_more, hop) = route(65_535);
        assert!(matches!(table.add(one_more, hop, false), Err(Refused::Full(_))));
        assert!(table.add(one_more, route(7).1, false).is_ok(), "a known gateway");
        assert_eq!(lookup(&table, [0, 0, 9, 1]).map(|hop| hop.gateway), Some(10));
    }

    #[test]
    fn columns_are_as_wide_as_they_should() {
        let check = |text: &str, gateway: [u8; 4], line: &str| {
            let hop = Hop { gateway: u32::from_be_bytes(gateway), port: 2 };
            assert_eq!(route_text(prefix(text), hop, true), line);
        };
        check("10/8", [0; 4], "10.0.0.0/8\t\t-\t\t2");
        check("100.100.100.0/24", [1, 0, 0, 1], "100.100.100.0/24\t1.0.0.1\t\t2");
        check("100.100.0.0/16", [10, 0, 0, 1], "100.100.0.0/16\t\t10.0.0.1\t2");
    }
}
