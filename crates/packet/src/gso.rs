//! Packets whose checksum and segmentation a sender left to its network card (generic
//! segmentation offload, GSO).
//!
//! ```text
//! RxPort ─ packet with Gso ─► elements that accept it ─► TxPort, which hands both on
//!                          └► others: the router completes the packet before they see it
//! ```
//! A packet with [`Gso`] has a partial checksum: its field holds the folded sum of the pseudo
//! header. Elements that change addresses update that sum, those that change ports do not. The
//! IPv4 header checksum is always complete.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::packet::Packet;
use crate::parts::{NOTE_GSO, Parts};

/// What is left to do. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Where the IP header starts, from the start of the data.
    pub network_at: usize,
    /// Where the TCP or UDP header starts, from the start of the data.
    pub transport_at: usize,
    /// UDP, or TCP.
    pub is_udp: bool,
    /// Payload bytes of each segment; 0 if the packet is one, and only lacks its checksum.
    pub segment_bytes: u16,
    /// Whether congestion is reported in the first segment only (TCP, RFC 3168).
    pub has_ecn: bool,
}

/// How a packet keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GsoNote {
    /// Place of the IP header in the buffer, so that it stays right when data is added in front.
    pub network: u32,
    transport_bytes: u16,
    segment_bytes: u16,
    is_udp: bool,
    has_ecn: bool,
}

impl GsoNote {
    pub const NONE: Self =
        Self { network: 0, transport_bytes: 0, segment_bytes: 0, is_udp: false, has_ecn: false };
}

/// Whether there ever was such a packet. While there was none, nobody looks for them.
static ANY: AtomicBool = AtomicBool::new(false);

/// Whether any packet may have [`Gso`]. Cost: one load.
#[inline]
pub fn any_gso() -> bool {
    // A worker gets a packet from another one after that one has set it.
    ANY.load(Ordering::Relaxed)
}

impl Packet {
    /// What its sender left to do; `None` if nothing, or if the IP header is no longer part of the
    /// data: see [`Packet::has_gso`].
    #[inline]
    pub fn gso(&self) -> Option<Gso> {
        if !self.has_gso() {
            return None;
        }
        let parts = self.parts();
        let note = parts.gso;
        let network_at = note.network.checked_sub(parts.offset())? as usize;
        Some(Gso {
            network_at,
            transport_at: network_at + usize::from(note.transport_bytes),
            is_udp: note.is_udp,
            segment_bytes: note.segment_bytes,
            has_ecn: note.has_ecn,
        })
    }

    /// Whether its sender left something to do.
    #[inline]
    pub fn has_gso(&self) -> bool {
        self.parts().notes & NOTE_GSO != 0
    }

    /// Notes what its sender left to do, or that nothing is.
    ///
    /// # Panics
    /// If the transport header is in front of the IP header, or 64 KiB behind it.
    pub fn set_gso(&mut self, gso: Option<Gso>) {
        let parts = self.parts_mut();
        let Some(gso) = gso else {
            parts.notes &= !NOTE_GSO;
            return;
        };
        let transport_bytes = gso.transport_at.checked_sub(gso.network_at);
        let transport_bytes = transport_bytes.and_then(|bytes| bytes.try_into().ok());
        parts.gso = GsoNote {
            network: parts.offset() + gso.network_at as u32,
            transport_bytes: transport_bytes.expect("an IP header of less than 64 KiB"),
            segment_bytes: gso.segment_bytes,
            is_udp: gso.is_udp,
            has_ecn: gso.has_ecn,
        };
        parts.notes |= NOTE_GSO;
        if !any_gso() {
            ANY.store(true, Ordering::Relaxed);
        }
    }
}

impl Parts {
    /// Moves the place of the IP header with the data.
    #[inline]
    pub fn move_gso(&mut self, bytes: i64) {
        if self.notes & NOTE_GSO != 0 {
            let moved = i64::from(self.gso.network) + bytes;
            // A place in front of the buffer: the header was taken away, as `gso` reports.
            self.gso.network = u32::try_from(moved).unwrap_or(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GSO: Gso =
        Gso { network_at: 14, transport_at: 38, is_udp: false, segment_bytes: 1448, has_ecn: true };

    #[test]
    fn gso_follows_the_ip_header() {
        let mut packet = Packet::new();
        packet.set_data(&[7; 1000]);
        packet.set_gso(Some(GSO));
        assert_eq!((packet.gso(), any_gso()), (Some(GSO), true));
        let at = |network_at| Some(Gso { network_at, transport_at: network_at + 24, ..GSO });
        packet.pull(14);
        assert_eq!(packet.gso(), at(0));
        packet.push(18);
        assert_eq!(packet.gso(), at(18));
        // A larger buffer.
        packet.push(100);
        packet.put(5000);
        assert_eq!(packet.gso(), at(118));
        let mut copy = Packet::new();
        copy.copy_from(&packet);
        assert_eq!(copy.gso(), at(118));
        packet.pull(119);
        assert_eq!((packet.gso(), packet.has_gso()), (None, true));
        packet.set_gso(None);
        assert!(!packet.has_gso());
        copy.reset();
        assert!(!copy.has_gso(), "a packet that begins anew has none");
        copy.copy_from(&packet);
        assert!(!copy.has_gso());
    }
}
