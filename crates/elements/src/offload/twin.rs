//! Routes that a device has as well: what elements that look routes up have in common with those
//! that do so on a device, for either family.

use std::fmt::Debug;
use std::sync::Arc;

use warpswitch_gpu::routes::{LiveHeaders, LiveRoutes, RouteChange};
use warpswitch_graph::Element;
use warpswitch_packet::{Batch, Packet};
use warpswitch_routes::{Address, NextHop, Prefix};

use super::load::Load;
use super::place::Offload;
use super::slices::Family;
use crate::ahead::{Ahead, Missed, Stamp};

/// Most memory that routes may take on a device, in bytes.
pub(super) const BYTES_MAX: usize = 4 << 30;

/// Addresses as packets have them.
pub(crate) trait PacketAddress: Address {
    const FAMILY: Family;

    /// The destination annotation.
    fn of(packet: &Packet) -> Self;

    /// Makes it the destination annotation.
    fn put(self, packet: &mut Packet);

    /// Destination annotations that are kept while members of a chain change them.
    fn kept(load: &mut Load) -> &mut Vec<Self>;

    /// Whether the destination annotation is what `proof` says that an answer is about.
    fn is_proven(packet: &Packet, proof: u32) -> bool;
}

impl PacketAddress for u32 {
    const FAMILY: Family = Family::Ipv4;

    #[inline]
    fn of(packet: &Packet) -> Self {
        Self::from_be_bytes(packet.dst_ipv4())
    }

    #[inline]
    fn put(self, packet: &mut Packet) {
        packet.set_dst_ipv4(self.to_be_bytes());
    }

    fn kept(load: &mut Load) -> &mut Vec<Self> {
        &mut load.destinations
    }

    /// The proof is the address.
    #[inline]
    fn is_proven(packet: &Packet, proof: u32) -> bool {
        Self::of(packet) == proof
    }
}

impl PacketAddress for u128 {
    const FAMILY: Family = Family::Ipv6;

    #[inline]
    fn of(packet: &Packet) -> Self {
        Self::from_be_bytes(packet.dst_ipv6())
    }

    #[inline]
    fn put(self, packet: &mut Packet) {
        packet.set_dst_ipv6(self.to_be_bytes());
    }

    fn kept(load: &mut Load) -> &mut Vec<Self> {
        &mut load.destinations6
    }

    /// The proof is where in the packet's buffer the address was read, which nobody has written to
    /// since, see [`Packet::ahead`].
    #[inline]
    fn is_proven(packet: &Packet, proof: u32) -> bool {
        let at = (proof as usize).checked_sub(packet.headroom());
        let read = at.and_then(|at| packet.data().get(at..at + size_of::<Self>()));
        read == Some(&packet.dst_ipv6())
    }
}

/// An element that looks routes up, and can have a device do so.
pub(crate) trait RouteLookup: Element + Debug {
    /// Of its family.
    type Address: PacketAddress;

    /// One without routes.
    fn without_routes() -> Self;

    /// Its routes, each with the number of its hop.
    fn numbered(&self) -> impl Iterator<Item = (Prefix<Self::Address>, NextHop)> + Clone;

    /// What a device has of it.
    fn twin(&mut self) -> &mut Twin<Self::Address>;

    /// Looks up addresses itself.
    fn look_up(&self, addresses: &[Self::Address], found: &mut [NextHop]);

    /// The gateway, if there is one, and the output of a hop's number.
    fn way(&self, hop: NextHop) -> Option<(Option<Self::Address>, u32)>;

    /// Its routes, each with the output that it leads to.
    fn named_outputs(&self) -> impl Iterator<Item = (Prefix<Self::Address>, u32)> + Clone {
        let output = |(prefix, hop)| Some((prefix, self.way(hop)?.1));
        self.numbered().filter_map(output)
    }

    /// The same routes on a device; changes are made there, too, from now on.
    ///
    /// # Errors
    /// Why there are none.
    fn mirror(&mut self, offload: &Offload) -> Result<Arc<LiveRoutes<Self::Address>>, String> {
        if let Some(live) = &self.twin().live {
            return Ok(live.routes.clone());
        }
        let live = LiveRoutes::build(offload.device(), self.numbered(), BYTES_MAX);
        let routes = Arc::new(live.map_err(|error| error.to_string())?);
        let stamp = offload.stamp().clone();
        self.twin().live = Some(Live { routes: routes.clone(), stamp });
        Ok(routes)
    }
}

/// What follows changes of routes, beside what lookups use.
pub(crate) trait Follower<A: Address>: Debug + Send + Sync {
    /// Makes changes; false if it has no room.
    fn follow(&self, changes: &[RouteChange<A>]) -> bool;
}

impl Follower<u32> for LiveHeaders {
    fn follow(&self, changes: &[RouteChange<u32>]) -> bool {
        self.change(changes).is_ok()
    }
}

/// Routes on a device, with the same numbers of hops.
#[derive(Clone, Debug)]
struct Live<A: Address> {
    routes: Arc<LiveRoutes<A>>,
    stamp: Arc<Stamp>,
}

/// What a device has of an element's routes, and what it found with them ahead.
#[derive(Clone, Debug)]
pub(crate) struct Twin<A: Address> {
    /// None if no element looks up there.
    live: Option<Live<A>>,
    /// The same routes for other work, and the stamp of their state.
    other: Option<(Arc<dyn Follower<A>>, Arc<Stamp>)>,
    ahead: Option<Ahead>,
}

impl<A: Address> Default for Twin<A> {
    fn default() -> Self {
        Self { live: None, other: None, ahead: None }
    }
}

impl<A: PacketAddress> Twin<A> {
    /// Takes answers that were looked up ahead from now on, those with number `lookup` of each
    /// packet. Gives whose they have to be, or none if elsewhere they have another number.
    pub(crate) fn look_ahead(&mut self, offload: &Offload, lookup: usize) -> Option<u16> {
        let ahead = self.ahead.get_or_insert_with(|| offload.ahead(lookup));
        (ahead.lookup == lookup).then_some(ahead.owner)
    }

    /// Whether what the device found is what the element would find itself.
    pub(crate) fn holds(&self, stamp: u32) -> bool {
        let live = self.live.as_ref().map(|live| &live.stamp);
        live.or(self.other.as_ref().map(|(_, stamp)| stamp)).is_some_and(|own| own.get() == stamp)
    }

    /// Whether changes have to be told.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some() || self.other.is_some()
    }

    /// Has the same routes, laid out for other work, follow changes from now on.
    pub(crate) fn lead(&mut self, follower: Arc<dyn Follower<A>>, offload: &Offload) {
        self.other = Some((follower, offload.stamp().clone()));
    }

    /// Follows the element's changes; where it has no room, the element looks up itself from now
    /// on.
    pub(crate) fn follow(&mut self, changes: &[RouteChange<A>]) {
        let mut has_room = true;
        if let Some(live) = &self.live {
            has_room = live.routes.change(changes).is_ok();
            live.stamp.renew();
        }
        if let Some((follower, stamp)) = &self.other {
            has_room &= follower.follow(changes);
            stamp.renew();
        }
        if !has_room {
            *self = Self::default();
        }
    }

    /// Fills `found` for the destinations of `batch`: with what was found ahead if that holds for
    /// all of them, else by `look_up`.
    #[inline]
    pub(crate) fn find(
        &mut self,
        batch: &Batch,
        found: &mut [NextHop],
        look_up: impl FnOnce(&mut [NextHop]),
    ) {
        let answer = |answer| NextHop(answer as u16);
        if let Some(ahead) = &mut self.ahead
            && ahead.take(batch, A::is_proven, found, answer)
        {
            return;
        }
        let began = Ahead::begin_timing(self.ahead.as_ref());
        look_up(found);
        Ahead::end_timing(self.ahead.as_ref(), began, batch.len());
    }

    /// Packets whose answers were taken.
    pub(crate) fn taken(&self) -> u64 {
        self.ahead.as_ref().map_or(0, |ahead| ahead.taken)
    }

    /// Those whose answers were not, by reason.
    pub(crate) fn missed(&self) -> String {
        self.ahead.as_ref().map_or(Missed::default(), |ahead| ahead.missed).text()
    }

    /// That of a copy, which has taken nothing yet.
    pub(crate) fn of_copy(&self) -> Self {
        Self { ahead: self.ahead.as_ref().map(Ahead::uncounted), ..self.clone() }
    }

    /// Adds what a copy has taken.
    pub(crate) fn absorb(&mut self, copy: &Self) {
        if let (Some(ahead), Some(copy)) = (&mut self.ahead, &copy.ahead) {
            ahead.absorb(copy);
        }
    }
}
