//! Address families of route lookups in chains.

use warpswitch_elements_lookup::routes::PacketAddress;
use warpswitch_packet::{Batch, Column, annotation};

use super::load::Load;
use super::slices::Family;

/// An address of one family.
pub(crate) trait ChainAddress: PacketAddress {
    const FAMILY: Family;

    /// Destination annotations saved before elements of a chain change them.
    fn kept(load: &mut Load) -> &mut Vec<Self>;

    /// Reads the addresses of `count` slices.
    fn of_keys(keys: &[u32], count: usize) -> impl Iterator<Item = Self>;

    /// Sets the destination annotation of packets that have a gateway; `gateway` maps the index of
    /// a packet.
    fn put_gateways(batch: &mut Batch, gateway: impl Fn(usize) -> Option<Self>);
}

impl ChainAddress for u32 {
    const FAMILY: Family = Family::Ipv4;

    fn kept(load: &mut Load) -> &mut Vec<Self> {
        &mut load.destinations
    }

    fn of_keys(keys: &[u32], count: usize) -> impl Iterator<Item = Self> {
        keys[..count].iter().copied()
    }

    fn put_gateways(batch: &mut Batch, gateway: impl Fn(usize) -> Option<Self>) {
        let mut addresses = Vec::with_capacity(batch.len());
        batch.read_annos(annotation::DST, &mut addresses);
        for (place, address) in addresses.iter_mut().enumerate() {
            *address = gateway(place).map_or(*address, u32::to_be);
        }
        batch.set_annos(annotation::DST, Column::Each(&addresses));
    }
}

impl ChainAddress for u128 {
    const FAMILY: Family = Family::Ipv6;

    fn kept(load: &mut Load) -> &mut Vec<Self> {
        &mut load.destinations6
    }

    fn of_keys(keys: &[u32], count: usize) -> impl Iterator<Item = Self> {
        let address = |words: &[u32; 4]| {
            words.iter().fold(0, |address: u128, &word| address << 32 | u128::from(word))
        };
        keys.as_chunks().0[..count].iter().map(address)
    }

    fn put_gateways(batch: &mut Batch, gateway: impl Fn(usize) -> Option<Self>) {
        for (place, packet) in batch.iter_mut().enumerate() {
            if let Some(gateway) = gateway(place) {
                gateway.put(packet);
            }
        }
    }
}
