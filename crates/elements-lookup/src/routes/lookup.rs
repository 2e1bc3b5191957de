//! Common interface of elements that look up routes, for both address families.

use warpswitch_packet::Packet;
use warpswitch_routes::{Address, NextHop, Prefix, RouteChange};

use warpswitch_elements_support::cached::CachedLookup;

/// An address that packets have as their destination annotation.
pub trait PacketAddress: Address {
    /// The destination annotation.
    fn of(packet: &Packet) -> Self;

    /// Sets the destination annotation.
    fn put(self, packet: &mut Packet);

    /// Whether the destination annotation is what `key` of a cached result stands for.
    fn is_key(packet: &Packet, key: u32) -> bool;
}

impl PacketAddress for u32 {
    #[inline]
    fn of(packet: &Packet) -> Self {
        Self::from_be_bytes(packet.dst_ipv4())
    }

    #[inline]
    fn put(self, packet: &mut Packet) {
        packet.set_dst_ipv4(self.to_be_bytes());
    }

    /// The key is the address.
    #[inline]
    fn is_key(packet: &Packet, key: u32) -> bool {
        Self::of(packet) == key
    }
}

impl PacketAddress for u128 {
    #[inline]
    fn of(packet: &Packet) -> Self {
        Self::from_be_bytes(packet.dst_ipv6())
    }

    #[inline]
    fn put(self, packet: &mut Packet) {
        packet.set_dst_ipv6(self.to_be_bytes());
    }

    /// The key is where in the packet's buffer the address was read; the bytes are the same as
    /// long as the packet has cached results.
    #[inline]
    fn is_key(packet: &Packet, key: u32) -> bool {
        let at = (key as usize).checked_sub(packet.headroom());
        let read = at.and_then(|at| packet.data().get(at..at + size_of::<Self>()));
        read == Some(&packet.dst_ipv6())
    }
}

/// An element that looks up routes: [`IpLookup`](crate::IpLookup) and
/// [`LookupIp6Route`](crate::LookupIp6Route). Answers of cached results are numbers of hops.
pub trait RouteLookup: CachedLookup<Change = RouteChange<Self::Address>> {
    /// Of its family.
    type Address: PacketAddress;

    /// One without routes.
    fn without_routes() -> Self;

    /// Its routes, each with the number of its hop.
    fn numbered(&self) -> impl Iterator<Item = (Prefix<Self::Address>, NextHop)> + Clone;

    /// Looks up addresses.
    fn look_up(&self, addresses: &[Self::Address], found: &mut [NextHop]);

    /// The gateway, if there is one, and the output of a hop.
    fn way(&self, hop: NextHop) -> Option<(Option<Self::Address>, u32)>;

    /// Its routes, each with the output that it leads to.
    fn named_outputs(&self) -> impl Iterator<Item = (Prefix<Self::Address>, u32)> + Clone {
        let output = |(prefix, hop)| Some((prefix, self.way(hop)?.1));
        self.numbered().filter_map(output)
    }
}
