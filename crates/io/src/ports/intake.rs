//! Packets from frames of a packet socket: restores VLAN tags, completes checksums, splits frames
//! that a sender left to the device to split.

use std::os::fd::OwnedFd;

use rustix::net::RecvFlags;
use warpswitch_packet::{Batch, Header, Packet, PacketType, Pool, RxCounts};

use super::offload::Offload;
use crate::sys::packet_socket::{OFFLOAD_BYTES, RingFrame};

/// The most bytes of a frame that the kernel passes whole: 64 KiB and headers.
const LONG_BYTES: usize = (1 << 16) + 256;

/// See the module.
#[derive(Debug)]
pub(super) struct Intake {
    device: String,
    counts: RxCounts,
    /// A frame that is too long for a slot of the ring.
    long: Vec<u8>,
    /// A piece of a frame.
    piece: Vec<u8>,
    /// Whether the offloads were reported.
    warned_checksums: bool,
    warned_segments: bool,
}

impl Intake {
    pub(super) fn new(device: &str) -> Self {
        Self {
            device: device.to_owned(),
            counts: RxCounts::default(),
            long: Vec::new(),
            piece: Vec::new(),
            warned_checksums: false,
            warned_segments: false,
        }
    }

    pub(super) fn counts(&self) -> RxCounts {
        self.counts
    }

    /// Appends the packet of `frame` to `batch`, or the packets that it is split into.
    #[inline]
    pub(super) fn accept(
        &mut self,
        socket: &OwnedFd,
        frame: &RingFrame<'_>,
        pool: &mut Pool,
        batch: &mut Batch,
    ) {
        let offload = Offload::parse(frame.offload);
        if !frame.is_queued && offload.is_none() && frame.wire_bytes == frame.data.len() {
            self.counts.frames += 1;
            let mut packet = pool.packet_of(frame.data);
            finish(&mut packet, frame);
            return batch.push(packet);
        }
        self.accept_unusual(socket, frame, pool, batch);
    }

    #[cold]
    fn accept_unusual(
        &mut self,
        socket: &OwnedFd,
        frame: &RingFrame<'_>,
        pool: &mut Pool,
        batch: &mut Batch,
    ) {
        let mut long = std::mem::take(&mut self.long);
        let (offload, data) = match frame.is_queued {
            true => read_long(socket, &mut long),
            false => (frame.offload, frame.data),
        };
        // A queued frame is whole; of others the length shows.
        if data.len() < frame.wire_bytes {
            self.counts.unusable += 1;
        } else {
            self.accept_offloaded(Offload::parse(offload), data, frame, pool, batch);
        }
        self.long = long;
    }

    fn accept_offloaded(
        &mut self,
        offload: Option<Offload>,
        data: &[u8],
        frame: &RingFrame<'_>,
        pool: &mut Pool,
        batch: &mut Batch,
    ) {
        let Some(offload) = offload else {
            self.counts.frames += 1;
            let mut packet = pool.packet_of(data);
            finish(&mut packet, frame);
            return batch.push(packet);
        };
        if !offload.is_segmented() {
            self.counts.frames += 1;
            self.counts.checksums += 1;
            let mut packet = pool.packet_of(data);
            offload.complete_checksum(packet.data_mut());
            finish(&mut packet, frame);
            return batch.push(packet);
        }
        let mut pieces = 0;
        let was_split = offload.split(data, &mut self.piece, |piece| {
            let mut packet = pool.packet_of(piece);
            finish(&mut packet, frame);
            batch.push(packet);
            pieces += 1;
        });
        match was_split {
            true => self.counts.segmented += 1,
            false => self.counts.unusable += 1,
        }
        self.counts.frames += pieces;
    }

    /// The next warning about offloads.
    pub(super) fn warning(&mut self) -> Option<String> {
        let device = &self.device;
        if self.counts.segmented > 0 && !self.warned_segments {
            self.warned_segments = true;
            return Some(format!(
                "{device}: received frames are longer than the link allows and are split in \
                 software; to avoid the cost: ethtool -K {device} gro off lro off, and on the \
                 sending interface of this machine tso off gso off"
            ));
        }
        if self.counts.checksums > 0 && !self.warned_checksums {
            self.warned_checksums = true;
            return Some(format!(
                "{device}: senders on this machine leave checksums to the interface; they are \
                 completed in software; to avoid the cost: ethtool -K SENDER tx off"
            ));
        }
        None
    }
}

/// Reads the frame that the kernel queued: offload information and data.
fn read_long<'a>(socket: &OwnedFd, buffer: &'a mut Vec<u8>) -> (&'a [u8], &'a [u8]) {
    buffer.resize(LONG_BYTES, 0);
    let received = rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT);
    let bytes = received.map_or(0, |(_, bytes)| bytes).min(LONG_BYTES);
    buffer[..bytes].split_at_checked(OFFLOAD_BYTES).unwrap_or_default()
}

/// Sets what is known of the packet beside its bytes, and restores its VLAN tag.
#[inline]
fn finish(packet: &mut Packet, frame: &RingFrame<'_>) {
    if let Some(tag) = frame.vlan {
        insert_tag(packet, tag);
    }
    packet.set_packet_type(packet_type(frame.packet_type));
    packet.set_timestamp_ns(frame.timestamp_ns);
    packet.set_header(Header::Mac, 0);
}

fn packet_type(number: u8) -> PacketType {
    match number {
        libc::PACKET_BROADCAST => PacketType::Broadcast,
        libc::PACKET_MULTICAST => PacketType::Multicast,
        libc::PACKET_OTHERHOST => PacketType::OtherHost,
        libc::PACKET_OUTGOING => PacketType::Outgoing,
        _ => PacketType::Host,
    }
}

/// Puts a VLAN tag behind the Ethernet addresses.
#[cold]
fn insert_tag(packet: &mut Packet, (tci, tpid): (u16, u16)) {
    const ADDRESSES: usize = 12;
    if packet.len() < ADDRESSES {
        return;
    }
    packet.push(4);
    let data = packet.data_mut();
    data.copy_within(4..4 + ADDRESSES, 0);
    data[ADDRESSES..ADDRESSES + 2].copy_from_slice(&tpid.to_be_bytes());
    data[ADDRESSES + 2..ADDRESSES + 4].copy_from_slice(&tci.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(frame: RingFrame<'_>) -> (Intake, Vec<Vec<u8>>) {
        let (mut intake, mut pool, mut batch) = (Intake::new("eth9"), Pool::new(), Batch::new());
        let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        intake.accept(&socket, &frame, &mut pool, &mut batch);
        let bytes = batch.iter().map(|packet| packet.data().to_vec()).collect();
        assert!(batch.iter().all(|packet| packet.packet_type() == PacketType::OtherHost));
        (intake, bytes)
    }

    fn frame(data: &[u8]) -> RingFrame<'_> {
        RingFrame {
            data,
            wire_bytes: data.len(),
            offload: &[0; OFFLOAD_BYTES],
            timestamp_ns: 5,
            packet_type: 3,
            vlan: None,
            is_queued: false,
        }
    }

    #[test]
    fn restores_the_tag_that_the_kernel_removed() {
        let data: Vec<u8> = (0..60).collect();
        let (_, packets) = accepted(RingFrame { vlan: Some((7, 0x8100)), ..frame(&data) });
        assert_eq!(packets, [[&data[..12], &[0x81, 0, 0, 7], &data[12..]].concat()]);
    }

    #[test]
    fn drops_truncated_frames_and_counts_them() {
        let (intake, packets) = accepted(RingFrame { wire_bytes: 61, ..frame(&[1; 60]) });
        assert!(packets.is_empty());
        assert_eq!(intake.counts(), RxCounts { unusable: 1, ..RxCounts::default() });
        let (intake, packets) = accepted(RingFrame { is_queued: true, ..frame(&[1; 60]) });
        assert_eq!((packets.len(), intake.counts().unusable), (0, 1), "nothing is queued");
    }

    #[test]
    fn completes_a_checksum_and_reports_it_once() {
        let mut data = [0; 60];
        data[40..42].copy_from_slice(&[0x12, 0x34]);
        let mut offload = [0; OFFLOAD_BYTES];
        offload[0] = 1;
        offload[6..8].copy_from_slice(&34u16.to_ne_bytes());
        offload[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let (mut intake, packets) = accepted(RingFrame { offload: &offload, ..frame(&data) });
        assert_eq!(packets[0][50..52], [0xed, 0xcb]);
        assert_eq!(intake.counts().checksums, 1);
        let warning = intake.warning().expect("it is reported");
        assert!(warning.contains("eth9") && warning.contains("ethtool"), "{warning}");
        assert_eq!(intake.warning(), None);
    }
}
