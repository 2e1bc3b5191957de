//! The receive ring of `TPACKET_V3`: blocks of many frames, handed over when they are full or a
//! millisecond old.
//!
//! ```text
//! block   │ header: status, frames, first │ frame header │ … │ frame │ frame header │ …
//!                                           ▲ first        next ───────▲
//! ```
//! One wake-up serves a whole block, and frames lie close together. The price is delay: a block
//! that is not full is handed over by a timer.
//!
//! # Source
//! Linux, `Documentation/networking/packet_mmap.rst`.

use std::io;
use std::os::fd::OwnedFd;

use super::mapping::Mapping;
use super::packet_socket::{self, RingFrame};
use super::vnet::VNET_BYTES;

/// Bytes of a block: any frame that a sender leaves to the device to split (64 KiB) fits.
const BLOCK_BYTES: usize = 1 << 18;
/// Milliseconds after which a block is handed over that is not full; the least that is possible.
const RETIRE_MS: u32 = 1;

// Places in `struct tpacket_block_desc`.
const STATUS: usize = 8;
const FRAMES: usize = 12;
const FIRST: usize = 16;
// Places in `struct tpacket3_hdr`.
const NEXT: usize = 0;
const SECONDS: usize = 4;
const NANOS: usize = 8;
const SNAPLEN: usize = 12;
const LEN: usize = 16;
const FRAME_STATUS: usize = 20;
const MAC: usize = 24;
const VLAN_TCI: usize = 32;
const VLAN_TPID: usize = 36;
/// Bytes of the header and the address that follows it.
const HEADER_BYTES: usize = 48 + packet_socket::ADDRESS_BYTES;
/// Where the address has the packet type.
const PACKET_TYPE: usize = 48 + packet_socket::ADDRESS_PACKET_TYPE;

/// See the module.
#[derive(Debug)]
pub(crate) struct BlockRing {
    memory: Mapping,
    blocks: usize,
    /// The block that is read, or filled next.
    block: usize,
    /// In it, the next frame and the frames left; 0 while the block is the kernel's.
    frame: usize,
    left: u32,
}

impl BlockRing {
    /// Gives `socket` a ring of about `bytes` bytes. The socket is not bound yet.
    pub(crate) fn new(socket: &OwnedFd, bytes: usize) -> io::Result<Self> {
        let blocks = (bytes / BLOCK_BYTES).max(2);
        packet_socket::set_version(socket, libc::tpacket_versions::TPACKET_V3)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: BLOCK_BYTES as u32,
            tp_frame_nr: blocks as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        packet_socket::set_option(socket, libc::PACKET_RX_RING, &request)?;
        let memory = Mapping::new(socket, blocks * BLOCK_BYTES, 0)?;
        Ok(Self { memory, blocks, block: 0, frame: 0, left: 0 })
    }

    /// Passes up to `frames_max` frames to `take`, until it returns false; returns blocks without
    /// more frames to the kernel. Returns how many frames there were.
    #[inline]
    pub(crate) fn take(
        &mut self,
        frames_max: usize,
        mut take: impl FnMut(&RingFrame<'_>) -> bool,
    ) -> usize {
        let (mut count, mut goes_on) = (0, true);
        while goes_on && count < frames_max {
            let start = self.block * BLOCK_BYTES;
            if self.left == 0 && self.memory.load(start + STATUS) & libc::TP_STATUS_USER == 0 {
                break;
            }
            // SAFETY: the status says that the block is ours until `store` below, also in later
            // calls while frames are left; the borrow ends before.
            let block = unsafe { self.memory.bytes(start, BLOCK_BYTES) };
            if self.left == 0 {
                self.left = packet_socket::read_u32(block, FRAMES);
                self.frame = packet_socket::read_u32(block, FIRST) as usize;
            }
            while goes_on && self.left > 0 && count < frames_max {
                let Some((frame, next)) = read_frame(block, self.frame) else {
                    self.left = 0;
                    break;
                };
                goes_on = take(&frame);
                (self.frame, self.left, count) = (self.frame + next, self.left - 1, count + 1);
            }
            if self.left == 0 {
                self.memory.store(start + STATUS, libc::TP_STATUS_KERNEL);
                self.block = (self.block + 1) % self.blocks;
            }
        }
        count
    }
}

/// Reads the frame at `at` of a block, and the distance to the next one. Lengths are clamped to the
/// block; `None` if the header is not within it.
#[inline]
fn read_frame(block: &[u8], at: usize) -> Option<(RingFrame<'_>, usize)> {
    let bytes = block.get(at..).filter(|bytes| bytes.len() >= HEADER_BYTES)?;
    let word = |at: usize| packet_socket::read_u32(bytes, at);
    let half = |at: usize| packet_socket::read_u16(bytes, at);
    let mac = usize::from(half(MAC)).clamp(HEADER_BYTES, bytes.len());
    let captured = (word(SNAPLEN) as usize).min(bytes.len() - mac);
    let frame = RingFrame {
        data: &bytes[mac..mac + captured],
        wire_bytes: word(LEN) as usize,
        vnet: &bytes[mac - VNET_BYTES..mac],
        timestamp_ns: packet_socket::timestamp_ns(word(SECONDS), word(NANOS)),
        packet_type: bytes[PACKET_TYPE],
        vlan: packet_socket::vlan(word(FRAME_STATUS), half(VLAN_TCI), half(VLAN_TPID)),
        is_queued: false,
    };
    Some((frame, word(NEXT) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_frames_of_a_block_and_clamps_their_lengths() {
        let mut block = vec![0; 512];
        let put = |block: &mut [u8], at: usize, bytes: &[u8]| {
            block[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(&mut block, 48 + NEXT, &128u32.to_ne_bytes());
        put(&mut block, 48 + SNAPLEN, &8u32.to_ne_bytes());
        put(&mut block, 48 + LEN, &60u32.to_ne_bytes());
        put(&mut block, 48 + MAC, &90u16.to_ne_bytes());
        put(&mut block, 48 + 90, &[7; 8]);
        let (frame, next) = read_frame(&block, 48).expect("it is within the block");
        assert_eq!((frame.data, frame.wire_bytes, next), (&[7; 8][..], 60, 128));
        assert_eq!(frame.vlan, None);

        put(&mut block, 48 + SNAPLEN, &[0xff; 4]);
        assert_eq!(read_frame(&block, 48).map(|(frame, _)| frame.data.len()), Some(512 - 138));
        assert!(read_frame(&block, 500).is_none() && read_frame(&block, 9999).is_none());
    }
}
