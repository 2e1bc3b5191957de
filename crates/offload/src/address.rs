//! Addresses, as chains see them.

use warpswitch_elements::route_lookup::PacketAddress;

use super::load::Load;
use super::slices::Family;

/// An address of one family.
pub(crate) trait ChainAddress: PacketAddress {
    const FAMILY: Family;

    /// Destination annotations that are kept while elements of a chain change them.
    fn kept(load: &mut Load) -> &mut Vec<Self>;
}

impl ChainAddress for u32 {
    const FAMILY: Family = Family::Ipv4;

    fn kept(load: &mut Load) -> &mut Vec<Self> {
        &mut load.destinations
    }
}

impl ChainAddress for u128 {
    const FAMILY: Family = Family::Ipv6;

    fn kept(load: &mut Load) -> &mut Vec<Self> {
        &mut load.destinations6
    }
}
