//! IPv6 routes of an element: next hops, batched lookup, and listing in slot order.
//!
//! # Invariants
//! - R1: a hop is in `hop_of` as long as a route uses it; its number is its index in `hops`.
//! - R2: a slot is free, or holds a prefix that `routes` maps to this slot.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::Ipv6Addr;

use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{BareIpv6Prefix, FromArg, Ipv6Prefix, Names};
use warpswitch_routes::{Ipv6Lpm, LpmOptions, NextHop, Prefix, RouteError};

/// Where a route leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    /// The router that it leads through; `::` if the destination is a neighbour.
    pub(super) gateway: Ipv6Addr,
    /// The output.
    pub(super) port: usize,
}

/// A route as a person writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) prefix: Prefix<u128>,
    pub(super) hop: Hop,
}

impl Written {
    /// Reads `ADDR/MASK [GATEWAY] OUTPUT`, where a mask must be there.
    pub(super) fn parse(text: &str, names: &dyn Names) -> Option<Self> {
        Self::parse_words(text, names, |word| Ipv6Prefix::from_arg(word, names).ok())
    }

    /// The same; an address without a mask is a prefix of all its bits.
    pub(super) fn parse_bare(text: &str, names: &dyn Names) -> Option<Self> {
        Self::parse_words(text, names, |word| parse_prefix(word, names))
    }

    fn parse_words(
        text: &str,
        names: &dyn Names,
        prefix: impl FnOnce(&str) -> Option<Ipv6Prefix>,
    ) -> Option<Self> {
        let words = split_words(text);
        let (destination, gateway, port) = match &words[..] {
            [destination, port] => (destination, "::", port),
            [destination, gateway, port] => (destination, gateway.as_str(), port),
            _ => return None,
        };
        let gateway = if gateway == "-" { "::" } else { gateway };
        let hop = Hop {
            gateway: Ipv6Addr::from_arg(gateway, names).ok()?,
            port: u16::from_arg(port, names).ok()?.into(),
        };
        Some(Self { prefix: key(prefix(destination)?), hop })
    }
}

/// Reads an address, with a mask or without.
pub fn parse_prefix(text: &str, names: &dyn Names) -> Option<Ipv6Prefix> {
    BareIpv6Prefix::from_arg(text.trim(), names).ok().map(|bare| bare.0)
}

/// The key of a prefix in the table.
pub fn key(prefix: Ipv6Prefix) -> Prefix<u128> {
    Prefix::containing(u128::from(prefix.address), prefix.len)
}

/// See the module.
#[derive(Debug)]
pub(super) struct RouteTable {
    lpm: Ipv6Lpm,
    /// Hops by number, and how many routes use each.
    hops: Vec<(Hop, u32)>,
    hops_free: Vec<u16>,
    hop_of: BTreeMap<Hop, u16>,
    slots: Vec<Option<Prefix<u128>>>,
    slots_free: BTreeSet<usize>,
    /// Slot and hop of each prefix.
    routes: BTreeMap<Prefix<u128>, (usize, u16)>,
}

impl RouteTable {
    /// No route.
    pub(super) fn new() -> Self {
        let lpm = Ipv6Lpm::from_routes([], &LpmOptions::default());
        Self {
            lpm: lpm.expect("an empty table fits"),
            hops: Vec::new(),
            hops_free: Vec::new(),
            hop_of: BTreeMap::new(),
            slots: Vec::new(),
            slots_free: BTreeSet::new(),
            routes: BTreeMap::new(),
        }
    }

    /// Makes `routes` the only ones; of a prefix the last one counts.
    pub(super) fn fill(&mut self, routes: &[Written]) -> Result<(), String> {
        *self = Self::new();
        for route in routes {
            self.enter(*route)?;
        }
        self.lpm = Ipv6Lpm::from_routes(self.numbered(), &LpmOptions::default()).map_err(told)?;
        Ok(())
    }

    /// Adds a route; it takes the place of one of the same prefix, which is given.
    pub(super) fn set(&mut self, route: Written) -> Result<Option<Hop>, String> {
        let old = self.get(route.prefix);
        let number = self.enter(route)?;
        if let Err(error) = self.lpm.insert(route.prefix, NextHop(number)) {
            match old {
                // It had a number and keeps it: nothing can be full.
                Some(hop) => self.enter(Written { hop, ..route }).map(|_| ())?,
                None => self.leave(route.prefix),
            }
            return Err(told(error));
        }
        Ok(old)
    }

    /// Takes a route out and gives it.
    pub(super) fn remove(&mut self, prefix: Prefix<u128>) -> Result<Option<Hop>, String> {
        let old = self.get(prefix);
        if old.is_some() {
            self.lpm.remove(prefix).map_err(told)?;
            self.leave(prefix);
        }
        Ok(old)
    }

    /// How the routes lie in memory, which code looks up, and the bytes that they take.
    pub(super) fn engine(&self) -> (String, usize) {
        let stats = self.lpm.stats();
        (format!("{} {}", stats.form.name(), stats.kernel), stats.bytes)
    }

    /// Finds the numbers of hops for all `addresses`.
    #[inline]
    pub(super) fn lookup(&self, addresses: &[u128], found: &mut [NextHop]) {
        self.lpm.lookup_batch(addresses, found);
    }

    /// The hop with number `hop`, which a lookup gave.
    #[inline]
    pub(super) fn hop(&self, hop: NextHop) -> Option<Hop> {
        self.hops.get(usize::from(hop.0)).map(|&(hop, _)| hop)
    }

    /// The number of the hop of exactly this prefix.
    pub(super) fn number(&self, prefix: Prefix<u128>) -> Option<NextHop> {
        self.routes.get(&prefix).map(|&(_, number)| NextHop(number))
    }

    /// All prefixes, with the numbers of their hops.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (Prefix<u128>, NextHop)> + Clone {
        self.routes.iter().map(|(&prefix, &(_, number))| (prefix, NextHop(number)))
    }

    /// The hop of `address`.
    pub(super) fn find(&self, address: Ipv6Addr) -> Option<Hop> {
        self.hop(self.lpm.lookup(address.into()))
    }

    /// The hop of exactly this prefix.
    pub(super) fn get(&self, prefix: Prefix<u128>) -> Option<Hop> {
        self.hop(self.number(prefix)?)
    }

    /// The routes, one per line.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if !self.slots.is_empty() {
            text.push_str("# Active routes\n");
        }
        for &prefix in self.slots.iter().flatten() {
            let Some(Hop { gateway, port }) = self.get(prefix) else { continue };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{prefix}\t{gateway}\t{port}");
        }
        text
    }

    /// Notes a route, all but in the structure for lookups; the number of its hop.
    fn enter(&mut self, Written { prefix, hop }: Written) -> Result<u16, String> {
        let number = self.use_hop(hop)?;
        // One that had this prefix gives its slot back: the first free one is taken.
        self.leave(prefix);
        let slot = self.slots_free.pop_first().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(prefix);
        self.routes.insert(prefix, (slot, number));
        Ok(number)
    }

    fn leave(&mut self, prefix: Prefix<u128>) {
        let Some((slot, number)) = self.routes.remove(&prefix) else { return };
        self.slots[slot] = None;
        self.slots_free.insert(slot);
        let (hop, routes) = &mut self.hops[usize::from(number)];
        *routes -= 1;
        if *routes == 0 {
            self.hop_of.remove(hop);
            self.hops_free.push(number);
        }
    }

    fn use_hop(&mut self, hop: Hop) -> Result<u16, String> {
        if let Some(&number) = self.hop_of.get(&hop) {
            self.hops[usize::from(number)].1 += 1;
            return Ok(number);
        }
        let number = match self.hops_free.pop() {
            Some(number) => number,
            None => {
                let number = u16::try_from(self.hops.len()).ok();
                // The last number stands for no route.
                let number = number.filter(|&number| NextHop(number).is_some());
                let number = number.ok_or("too many different gateways")?;
                self.hops.push((hop, 0));
                number
            }
        };
        self.hops[usize::from(number)] = (hop, 1);
        self.hop_of.insert(hop, number);
        Ok(number)
    }
}

fn told(error: RouteError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_graph::language::args::NoNames;

    fn route(text: &str) -> Written {
        Written::parse_bare(text, &NoNames).expect("a route")
    }

    #[test]
    fn routes_are_written_in_many_ways() {
        let check = |text: &str, prefix: &str, gateway: &str, port: usize| {
            let written = route(text);
            assert_eq!(written.prefix.to_string(), prefix);
            assert_eq!((written.hop.gateway.to_string(), written.hop.port), (gateway.into(), port));
        };
        check("2001:db8::7/32 fe80::1 3", "2001:db8::/32", "fe80::1", 3);
        check("2001:db8::7/ffff:: 4", "2001::/16", "::", 4);
        check("::/0 - 0", "::/0", "::", 0);
        check("2001:db8::7 5", "2001:db8::7/128", "::", 5);
        for text in ["", "::/0", "::/129 1", "::/0 x", "::/0 ::1 -1", "::/0 ::1 1 2", "::/0 ::g 1"]
        {
            assert!(Written::parse_bare(text, &NoNames).is_none(), "{text}");
        }
        assert!(Written::parse("2001:db8::7 5", &NoNames).is_none(), "the mask is missing");
    }

    #[test]
    fn hops_are_used_again_when_no_route_leads_there() {
        let mut table = RouteTable::new();
        for gateway in 1..70_000u128 {
            let hop = Hop { gateway: gateway.into(), port: 1 };
            let set = table.set(Written { prefix: route("2001:db8::/32 0").prefix, hop });
            assert!(set.is_ok());
        }
        assert_eq!((table.hops.len() <= 2, table.slots.len() <= 2), (true, true));
        let found = table.find("2001:db8::1".parse().unwrap()).expect("a route");
        assert_eq!(u128::from(found.gateway), 69_999);
        assert_eq!(table.remove(route("2001:db8::/32 0").prefix), Ok(Some(found)));
        assert_eq!(table.remove(route("2001:db8::/32 0").prefix), Ok(None));
        assert_eq!(table.find("2001:db8::1".parse().unwrap()), None);
        assert_eq!(table.text(), "# Active routes\n");
    }

    #[test]
    fn a_full_table_keeps_what_it_has() {
        let nth = |n: u128| Written {
            prefix: Prefix::containing(n << 64, 64),
            hop: Hop { gateway: (n + 1).into(), port: 0 },
        };
        let mut table = RouteTable::new();
        let routes: Vec<Written> = (0..65_535).map(nth).collect();
        assert_eq!(table.fill(&routes), Ok(()));
        assert_eq!(table.set(nth(65_535)), Err("too many different gateways".to_owned()));
        let known = Written { hop: nth(7).hop, ..nth(65_535) };
        assert_eq!(table.set(known), Ok(None));
        assert_eq!(table.find(((65_535u128 << 64) + 5).into()), Some(nth(7).hop));
        assert_eq!(table.find(((9u128 << 64) + 5).into()), Some(nth(9).hop));
    }
}
