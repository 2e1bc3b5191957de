//! Elements that look up routes, of IPv4 and IPv6.

mod copies;
mod file;
mod ip6_table;
mod ip_lookup;
mod ip_table;
mod lookup;
mod lookup_ip6_route;

use warpswitch_graph::ElementClass;

pub use ip_lookup::IpLookup;
pub use ip6_table::{key, parse_prefix};
pub use lookup::{PacketAddress, RouteLookup};
pub use lookup_ip6_route::LookupIp6Route;

/// The classes of this area.
pub(crate) const CLASSES: &[&ElementClass] = &[
    &ip_lookup::DIRECT,
    &ip_lookup::LINEAR,
    &ip_lookup::RADIX,
    &ip_lookup::RANGE,
    &ip_lookup::SORTED,
    &ip_lookup::STATIC,
    &lookup_ip6_route::CLASS,
];
