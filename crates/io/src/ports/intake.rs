//! Packets from frames of a packet socket: restores VLAN tags, notes what a sender left to the
//! device.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use warpswitch_packet::{Batch, Header, LARGE_BYTES, Packet, PacketType, Pool, RxCounts};

use crate::sys::packet_socket::RingFrame;
use crate::sys::vnet::{VNET_BYTES, Vnet};

/// Notes what the sender of `packet` left to do, which `vnet` describes, or does it where a packet
/// has no note for it. Returns whether it is a frame that can be used.
pub(super) fn note_vnet(
    vnet: Option<Vnet>,
    has_ethernet: bool,
    packet: &mut Packet,
    counts: &mut RxCounts,
) -> bool {
    let Some(vnet) = vnet else { return true };
    let gso = vnet.gso(packet.data(), has_ethernet);
    if gso.is_none() && vnet.is_segmented() {
        return false;
    }
    match gso {
        Some(gso) => packet.set_gso(Some(gso)),
        None => vnet.complete_checksum(packet.data_mut()),
    }
    counts.checksums += u64::from(!vnet.is_segmented());
    counts.segmented += u64::from(vnet.is_segmented());
    true
}

/// Queued frames that are kept until their slots come.
const EARLY_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Intake {
    counts: RxCounts,
    /// Where two cores receive at a time, frames may be queued in another order than they have in
    /// the ring: those that came before their turn.
    early: Vec<(Option<Vnet>, Vec<u8>)>,
}

impl Intake {
    pub(super) fn counts(&self) -> RxCounts {
        self.counts
    }

    /// Appends the packet of `frame` to `batch`.
    #[inline]
    pub(super) fn accept(
        &mut self,
        socket: &OwnedFd,
        frame: &RingFrame<'_>,
        pool: &mut Pool,
        batch: &mut Batch,
    ) {
        let vnet = Vnet::parse(frame.vnet);
        if !frame.is_queued && vnet.is_none() && frame.wire_bytes == frame.data.len() {
            self.counts.frames += 1;
            let mut packet = pool.packet_of(frame.data);
            finish(&mut packet, frame);
            return batch.push(packet);
        }
        let (vnet, mut packet) = match frame.is_queued {
            true => self.receive_queued(socket, frame, pool),
            false => (vnet, packet_of(frame.data, pool)),
        };
        let is_whole = packet.len() >= frame.wire_bytes;
        if !is_whole || !note_vnet(vnet, true, &mut packet, &mut self.counts) {
            self.counts.unusable += 1;
            return pool.recycle(packet);
        }
        self.counts.frames += 1;
        finish(&mut packet, frame);
        batch.push(packet);
    }

    /// The queued frame that begins as the slot `frame` does; an empty packet if there is none.
    #[cold]
    fn receive_queued(
        &mut self,
        socket: &OwnedFd,
        frame: &RingFrame<'_>,
        pool: &mut Pool,
    ) -> (Option<Vnet>, Packet) {
        let is_it = |data: &[u8]| data.len() == frame.wire_bytes && data.starts_with(frame.data);
        if let Some(at) = self.early.iter().position(|(_, data)| is_it(data)) {
            let (vnet, data) = self.early.remove(at);
            return (vnet, packet_of(&data, pool));
        }
        loop {
            let (vnet, packet) = receive_long(socket, pool);
            if packet.is_empty() || is_it(packet.data()) {
                return (vnet, packet);
            }
            if self.early.len() == EARLY_MAX {
                // Its slot never came.
                self.early.remove(0);
                self.counts.unusable += 1;
            }
            self.early.push((vnet, packet.data().to_vec()));
            pool.recycle(packet);
        }
    }
}

/// A packet with `data`, whose buffer is used again if it is a large one.
pub(super) fn packet_of(data: &[u8], pool: &mut Pool) -> Packet {
    let mut packet = pool.packet();
    if data.len() > packet.tailroom() && data.len() <= LARGE_BYTES {
        pool.recycle(packet);
        packet = pool.large_packet();
    }
    packet.set_data(data);
    packet
}

/// Reads the frame that the kernel queued; an empty one if there is none.
#[cold]
fn receive_long(socket: &OwnedFd, pool: &mut Pool) -> (Option<Vnet>, Packet) {
    let (mut header, mut packet) = ([0; VNET_BYTES], pool.large_packet());
    packet.fill_data(LARGE_BYTES, |data| {
        let mut pieces = [IoSliceMut::new(&mut header), IoSliceMut::new(data)];
        let mut control = RecvAncillaryBuffer::default();
        let received = recvmsg(socket, &mut pieces, &mut control, RecvFlags::DONTWAIT);
        let bytes = received.map_or(0, |message| message.bytes);
        bytes.saturating_sub(VNET_BYTES).min(LARGE_BYTES)
    });
    (Vnet::parse(&header), packet)
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

    /// The packets of a frame, and whether work is left to do.
    fn accepted(frame: RingFrame<'_>) -> (Intake, Vec<(Vec<u8>, bool)>) {
        let (mut intake, mut pool, mut batch) = (Intake::default(), Pool::new(), Batch::new());
        let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        intake.accept(&socket, &frame, &mut pool, &mut batch);
        let bytes = batch.iter().map(|packet| (packet.data().to_vec(), packet.has_gso())).collect();
        assert!(batch.iter().all(|packet| packet.packet_type() == PacketType::OtherHost));
        (intake, bytes)
    }

    fn frame(data: &[u8]) -> RingFrame<'_> {
        RingFrame {
            data,
            wire_bytes: data.len(),
            vnet: &[0; VNET_BYTES],
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
        let expected = [&data[..12], &[0x81, 0, 0, 7], &data[12..]].concat();
        assert_eq!(packets, [(expected, false)]);
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
    fn notes_what_the_sender_left_to_do() {
        // A UDP datagram of 8 bytes.
        let mut data = vec![0; 12];
        data.extend([8, 0, 0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, 1]);
        data.extend([0, 1, 0, 2, 0, 16, 0x12, 0x34, 1, 2, 3, 4, 5, 6, 7, 8]);
        let vnet = [1, 0, 0, 0, 0, 0, 34, 0, 6, 0];
        let (intake, packets) = accepted(RingFrame { vnet: &vnet, ..frame(&data) });
        assert_eq!((&packets[0].0[..], packets[0].1), (&data[..], true), "it is as it was");
        assert_eq!((intake.counts().checksums, intake.counts().frames), (1, 1));
        // A message of another protocol: its checksum is completed.
        data[23] = 200;
        let vnet = [1, 0, 0, 0, 0, 0, 34, 0, 2, 0];
        let (intake, packets) = accepted(RingFrame { vnet: &vnet, ..frame(&data) });
        assert_eq!(&packets[0].0[34..38], [0, 1, 0xdb, 0x9a]);
        assert_eq!((packets[0].1, intake.counts().checksums), (false, 1));
        let vnet = [1, 3, 0, 0, 8, 0, 34, 0, 6, 0];
        let (intake, packets) = accepted(RingFrame { vnet: &vnet, ..frame(&data) });
        assert_eq!((packets.len(), intake.counts().unusable), (0, 1), "an unknown way");
    }
}
