//! The receive ring of `TPACKET_V2`: slots of one size, each handed over as soon as it is filled.
//!
//! ```text
//! slot   │ header │ address │ … │ vnet    │ frame … │     the status word of the header names
//!          status                ▲ mac-10  ▲ mac         the owner of the slot: kernel or user
//! ```
//! A frame longer than a slot is queued on the socket as well, see [`RingFrame::is_queued`].
//!
//! # Source
//! Linux, `Documentation/networking/packet_mmap.rst`.

use std::io;
use std::os::fd::OwnedFd;

use super::mapping::Mapping;
use super::packet_socket::{self, RingFrame};
use super::vnet::VNET_BYTES;

/// Bytes of a slot: an Ethernet frame of 1500 bytes payload, its headers, and room for tags.
pub(crate) const SLOT_BYTES: usize = 2048;
/// Distance of the slot that is prefetched while one is read. The kernel fills slots on other
/// cores, whose caches hold them; without it a reader waits for each.
const SLOTS_AHEAD: usize = 8;
/// Prefetched bytes of a slot: header and first lines of the frame.
const BYTES_AHEAD: usize = 192;
/// Frames of a burst after which there are probably more.
const FEW_FRAMES: usize = 2;
/// Bytes of a block, the unit in which the kernel allocates the ring.
const BLOCK_BYTES: usize = 1 << 16;

// Places in `struct tpacket2_hdr`.
const LEN: usize = 4;
const SNAPLEN: usize = 8;
const MAC: usize = 12;
const SECONDS: usize = 16;
const NANOS: usize = 20;
const VLAN_TCI: usize = 24;
const VLAN_TPID: usize = 26;
/// Bytes of the header and the address that follows it.
const HEADER_BYTES: usize = 32 + packet_socket::ADDRESS_BYTES;
/// Where the address has the packet type.
const PACKET_TYPE: usize = 32 + packet_socket::ADDRESS_PACKET_TYPE;

/// See the module.
#[derive(Debug)]
pub(crate) struct FrameRing {
    memory: Mapping,
    slots: usize,
    /// The slot that is filled next.
    next: usize,
}

impl FrameRing {
    /// Gives `socket` a ring of about `bytes` bytes. The socket is not bound yet.
    pub(crate) fn new(socket: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let blocks = (bytes / BLOCK_BYTES).max(1);
        let slots = blocks * (BLOCK_BYTES / SLOT_BYTES);
        packet_socket::set_version(socket, libc::tpacket_versions::TPACKET_V2)?;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: SLOT_BYTES as u32,
            tp_frame_nr: slots as u32,
        };
        packet_socket::set_option(socket, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::new(socket, slots * SLOT_BYTES, 0)?;
        Ok(Self { memory, slots, next: 0 })
    }

    /// Passes up to `frames_max` frames to `take`, until it returns false, and returns their slots
    /// to the kernel. Returns how many there were.
    #[inline]
    pub(crate) fn take(
        &mut self,
        frames_max: usize,
        mut take: impl FnMut(&RingFrame<'_>) -> bool,
    ) -> usize {
        for count in 0..frames_max {
            if count >= FEW_FRAMES {
                self.prefetch_ahead();
            }
            let slot = self.next * SLOT_BYTES;
            let status = self.memory.load(slot);
            if status & libc::TP_STATUS_USER == 0 {
                return count;
            }
            // SAFETY: the status says that the slot is ours until `store` below; the borrow ends
            // before.
            let bytes = unsafe { self.memory.bytes(slot, SLOT_BYTES) };
            let goes_on = take(&read_slot(bytes, status));
            self.memory.store(slot, libc::TP_STATUS_KERNEL);
            self.next = (self.next + 1) % self.slots;
            if !goes_on {
                return count + 1;
            }
        }
        frames_max
    }

    /// Prefetches a slot that is read soon.
    #[inline]
    fn prefetch_ahead(&self) {
        let slot = (self.next + SLOTS_AHEAD) % self.slots * SLOT_BYTES;
        (0..BYTES_AHEAD).step_by(64).for_each(|at| self.memory.prefetch(slot + at));
    }
}

/// Reads a slot. Lengths are clamped to the slot.
#[inline]
fn read_slot(bytes: &[u8], status: u32) -> RingFrame<'_> {
    let word = |at: usize| packet_socket::read_u32(bytes, at);
    let half = |at: usize| packet_socket::read_u16(bytes, at);
    let mac = usize::from(half(MAC)).clamp(HEADER_BYTES, bytes.len());
    let captured = (word(SNAPLEN) as usize).min(bytes.len() - mac);
    RingFrame {
        data: &bytes[mac..mac + captured],
        wire_bytes: word(LEN) as usize,
        vnet: &bytes[mac - VNET_BYTES..mac],
        timestamp_ns: packet_socket::timestamp_ns(word(SECONDS), word(NANOS)),
        packet_type: bytes[PACKET_TYPE],
        vlan: packet_socket::vlan(status, half(VLAN_TCI), half(VLAN_TPID)),
        is_queued: status & libc::TP_STATUS_COPY != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_slot_and_clamps_its_lengths() {
        let mut slot = vec![0; 256];
        slot[LEN..LEN + 4].copy_from_slice(&1514u32.to_ne_bytes());
        slot[SNAPLEN..SNAPLEN + 4].copy_from_slice(&10u32.to_ne_bytes());
        slot[MAC..MAC + 2].copy_from_slice(&100u16.to_ne_bytes());
        slot[SECONDS..SECONDS + 4].copy_from_slice(&2u32.to_ne_bytes());
        slot[NANOS..NANOS + 4].copy_from_slice(&7u32.to_ne_bytes());
        slot[VLAN_TCI..VLAN_TCI + 2].copy_from_slice(&5u16.to_ne_bytes());
        slot[PACKET_TYPE] = 3;
        slot[100..110].fill(9);
        let status = libc::TP_STATUS_USER | libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_COPY;
        let frame = read_slot(&slot, status);
        assert_eq!((frame.data, frame.wire_bytes), (&[9; 10][..], 1514));
        assert_eq!((frame.timestamp_ns, frame.packet_type), (2_000_000_007, 3));
        assert_eq!((frame.vlan, frame.is_queued), (Some((5, 0x8100)), true));

        slot[SNAPLEN..SNAPLEN + 4].fill(0xff);
        slot[MAC..MAC + 2].fill(0xff);
        assert_eq!(read_slot(&slot, libc::TP_STATUS_USER).data.len(), 0);
    }
}
