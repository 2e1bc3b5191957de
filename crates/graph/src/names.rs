//! Names that a configuration gives to addresses.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::language::FlatGraph;
use crate::language::args::{EtherAddress, Ipv4Prefix, Ipv6Prefix, Names};

/// Names of addresses. A name is as seen from one compound, `compound/name`, or from everywhere.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// IPv4 addresses.
    pub ipv4: BTreeMap<String, Ipv4Addr>,
    /// IPv4 prefixes.
    pub ipv4_prefix: BTreeMap<String, Ipv4Prefix>,
    /// IPv6 addresses.
    pub ipv6: BTreeMap<String, Ipv6Addr>,
    /// IPv6 prefixes.
    pub ipv6_prefix: BTreeMap<String, Ipv6Prefix>,
    /// Ethernet addresses.
    pub ether: BTreeMap<String, EtherAddress>,
    /// TCP ports.
    pub tcp_port: BTreeMap<String, u16>,
    /// UDP ports.
    pub udp_port: BTreeMap<String, u16>,
}

/// Looks `name` up as seen from the element called `from`: in its compound first, then further out.
pub(crate) fn scoped<T>(
    from: &str,
    name: &str,
    mut get: impl FnMut(&str) -> Option<T>,
) -> Option<T> {
    let mut scope = from;
    while let Some(at) = scope.rfind('/') {
        scope = &scope[..at];
        if let Some(found) = get(&format!("{scope}/{name}")) {
            return Some(found);
        }
    }
    get(name)
}

/// The names that one element sees.
pub(crate) struct Seen<'a> {
    pub(crate) table: &'a NameTable,
    pub(crate) graph: &'a FlatGraph,
    pub(crate) index: &'a BTreeMap<String, usize>,
    pub(crate) element: usize,
}

impl Seen<'_> {
    fn find<T: Copy>(&self, table: &BTreeMap<String, T>, name: &str) -> Option<T> {
        scoped(&self.graph.elements[self.element].name, name, |name| table.get(name).copied())
    }
}

/// The name in front of a colon, if one of `kinds` stands behind it: `host` of `host:eth`.
fn name_of<'n>(text: &'n str, kinds: &[&str]) -> Option<&'n str> {
    let (name, kind) = text.rsplit_once(':')?;
    kinds.contains(&kind).then_some(name)
}

/// The last address of a prefix: all hosts of the network.
fn broadcast(prefix: Ipv4Prefix) -> Ipv4Addr {
    (u32::from(prefix.network()) | !u32::from(prefix.mask)).into()
}

/// A name may say which of its addresses is meant: `host:ip`, `host:ipnet`, `host:bcast`,
/// `host:ip6`, `host:ip6net`, `host:eth`.
impl Names for Seen<'_> {
    fn ipv4(&self, name: &str) -> Option<Ipv4Addr> {
        let table = &self.table.ipv4;
        let of_net = |name| self.find(&self.table.ipv4_prefix, name).map(broadcast);
        self.find(table, name)
            .or_else(|| self.find(table, name_of(name, &["ip", "ip4"])?))
            .or_else(|| of_net(name_of(name, &["bcast"])?))
    }

    fn ipv4_prefix(&self, name: &str) -> Option<Ipv4Prefix> {
        let table = &self.table.ipv4_prefix;
        self.find(table, name).or_else(|| self.find(table, name_of(name, &["ipnet", "net"])?))
    }

    fn ipv6(&self, name: &str) -> Option<Ipv6Addr> {
        let table = &self.table.ipv6;
        self.find(table, name).or_else(|| self.find(table, name_of(name, &["ip6"])?))
    }

    fn ipv6_prefix(&self, name: &str) -> Option<Ipv6Prefix> {
        let table = &self.table.ipv6_prefix;
        self.find(table, name).or_else(|| self.find(table, name_of(name, &["ip6net"])?))
    }

    fn ether(&self, name: &str) -> Option<EtherAddress> {
        let table = &self.table.ether;
        self.find(table, name).or_else(|| self.find(table, name_of(name, &["eth", "ethernet"])?))
    }

    fn tcp_port(&self, name: &str) -> Option<u16> {
        self.find(&self.table.tcp_port, name)
    }

    fn udp_port(&self, name: &str) -> Option<u16> {
        self.find(&self.table.udp_port, name)
    }

    fn element(&self, name: &str) -> Option<usize> {
        self.find(self.index, name)
    }
}
