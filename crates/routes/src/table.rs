//! The reference: a map of prefixes per length, looked up from the longest to the shortest.
//!
//! Plain on purpose. Every other structure of this crate must give the same answers, and is built
//! from this one.

use std::collections::BTreeMap;

use crate::address::Address;
use crate::error::RouteError;
use crate::hop::NextHop;
use crate::prefix::Prefix;

/// Routes of one family, at most one for a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteTable<A> {
    /// `by_len[l]` holds the prefixes of length `l`.
    by_len: Vec<BTreeMap<A, NextHop>>,
    len: usize,
}

impl<A: Address> Default for RouteTable<A> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Address> RouteTable<A> {
    /// No route.
    pub fn new() -> Self {
        Self { by_len: vec![BTreeMap::new(); usize::from(A::BITS) + 1], len: 0 }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a route in; the next hop that its prefix had before.
    ///
    /// # Errors
    /// [`ErrorKind::BadNextHop`](crate::ErrorKind::BadNextHop) for [`NextHop::NONE`].
    pub fn insert(
        &mut self,
        prefix: Prefix<A>,
        hop: NextHop,
    ) -> Result<Option<NextHop>, RouteError> {
        if !hop.is_some() {
            return Err(RouteError::no_hop());
        }
        let old = self.by_len[usize::from(prefix.len())].insert(prefix.addr(), hop);
        self.len += usize::from(old.is_none());
        Ok(old)
    }

    /// Takes a route out; the next hop that it had.
    pub fn remove(&mut self, prefix: Prefix<A>) -> Option<NextHop> {
        let old = self.by_len[usize::from(prefix.len())].remove(&prefix.addr());
        self.len -= usize::from(old.is_some());
        old
    }

    /// The next hop of exactly this prefix.
    pub fn get(&self, prefix: Prefix<A>) -> Option<NextHop> {
        self.by_len[usize::from(prefix.len())].get(&prefix.addr()).copied()
    }

    /// The longest prefix that `addr` lies in, and its next hop.
    pub fn longest(&self, addr: A) -> Option<(Prefix<A>, NextHop)> {
        (0..=A::BITS).rev().find_map(|len| {
            let map = &self.by_len[usize::from(len)];
            let prefix = Prefix::containing(addr, len);
            map.get(&prefix.addr()).map(|&hop| (prefix, hop))
        })
    }

    /// The next hop of the longest prefix that `addr` lies in, or [`NextHop::NONE`].
    ///
    /// Cost: a search in the map of each length.
    pub fn lookup(&self, addr: A) -> NextHop {
        self.longest(addr).map_or(NextHop::NONE, |(_, hop)| hop)
    }

    /// All routes: by length, then by address.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<A>, NextHop)> + '_ {
        (0..=A::BITS).zip(&self.by_len).flat_map(|(len, map)| {
            map.iter().map(move |(&addr, &hop)| (Prefix::containing(addr, len), hop))
        })
    }
}

impl<A: Address> FromIterator<(Prefix<A>, NextHop)> for RouteTable<A> {
    /// The last one of a prefix counts; routes to [`NextHop::NONE`] are none.
    fn from_iter<I: IntoIterator<Item = (Prefix<A>, NextHop)>>(routes: I) -> Self {
        let mut table = Self::new();
        for (prefix, hop) in routes.into_iter().filter(|(_, hop)| hop.is_some()) {
            let old = table.by_len[usize::from(prefix.len())].insert(prefix.addr(), hop);
            table.len += usize::from(old.is_none());
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let net = |addr: u32, len| Prefix::new(addr, len).unwrap();
        let mut table = RouteTable::new();
        for (prefix, hop) in [
            (net(0, 0), 1),
            (net(0x0a00_0000, 8), 2),
            (net(0x0a01_0000, 16), 3),
            (net(0x0a01_0203, 32), 4),
        ] {
            assert_eq!(table.insert(prefix, NextHop(hop)), Ok(None));
        }
        let check = |table: &RouteTable<u32>, addr, hop| assert_eq!(table.lookup(addr).0, hop);
        check(&table, 0x0a01_0203, 4);
        check(&table, 0x0a01_0202, 3);
        check(&table, 0x0a02_0000, 2);
        check(&table, 0x0b00_0000, 1);
        assert_eq!(table.insert(net(0, 0), NextHop(9)), Ok(Some(NextHop(1))));
        assert_eq!((table.len(), table.iter().count()), (4, 4));
        assert_eq!(table.remove(net(0x0a01_0000, 16)), Some(NextHop(3)));
        assert_eq!(table.remove(net(0x0a01_0000, 16)), None);
        check(&table, 0x0a01_0202, 2);
        assert!(table.insert(net(0, 0), NextHop::NONE).is_err());
        assert_eq!(table.iter().collect::<RouteTable<u32>>(), table);
        assert_eq!(RouteTable::<u128>::new().lookup(1), NextHop::NONE);
    }
}
