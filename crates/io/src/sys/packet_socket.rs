//! Packet sockets (`AF_PACKET`): options, binding, bursts, and what both receive rings share.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use warpswitch_packet::Packet;

use super::vnet::{self, VNET_BYTES};

/// Bytes of the address that follows a frame's header in a ring.
pub(super) const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_ll>();
/// Where the address has the packet type.
pub(super) const ADDRESS_PACKET_TYPE: usize = 10;
/// The most frames of a call of [`send_burst`].
pub(crate) const BURST_MAX: usize = 64;

/// A frame in a receive ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingFrame<'a> {
    /// The captured bytes, from the MAC header on, without a VLAN tag that the kernel removed.
    pub data: &'a [u8],
    /// Bytes before truncation.
    pub wire_bytes: usize,
    /// `struct virtio_net_hdr`: what the sender left to the device.
    pub vnet: &'a [u8],
    /// When the kernel received it, in nanoseconds since 1970.
    pub timestamp_ns: i64,
    /// `sll_pkttype`.
    pub packet_type: u8,
    /// The VLAN tag that the kernel removed: control information and EtherType.
    pub vlan: Option<(u16, u16)>,
    /// Whether the frame was longer than its slot and can be read from the socket, whole.
    pub is_queued: bool,
}

/// Reads a number of the kernel's.
#[inline]
pub(super) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_ne_bytes(*word))
}

/// Reads a number of the kernel's.
#[inline]
pub(super) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |half| u16::from_ne_bytes(*half))
}

#[inline]
pub(super) fn timestamp_ns(seconds: u32, nanos: u32) -> i64 {
    i64::from(seconds) * 1_000_000_000 + i64::from(nanos)
}

/// The VLAN tag of a frame; EtherType 0x8100 if the kernel names none.
#[inline]
pub(super) fn vlan(status: u32, tci: u16, tpid: u16) -> Option<(u16, u16)> {
    let has = |flag: u32| status & flag != 0;
    has(libc::TP_STATUS_VLAN_VALID)
        .then_some((tci, if has(libc::TP_STATUS_VLAN_TPID_VALID) { tpid } else { 0x8100 }))
}

/// Opens a packet socket that receives nothing yet.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?)
}

/// Sets a packet option.
pub(crate) fn set_option<T: Copy>(socket: &OwnedFd, name: i32, value: &T) -> io::Result<()> {
    set_option_at(socket, libc::SOL_PACKET, name, value)
}

/// Sets an option of protocol level `level`.
pub(super) fn set_option_at<T: Copy>(
    socket: &OwnedFd,
    level: i32,
    name: i32,
    value: &T,
) -> io::Result<()> {
    let (fd, bytes) = (socket.as_raw_fd(), size_of_val(value) as u32);
    let value = ptr::from_ref(value).cast();
    // SAFETY: `value` points to `bytes` readable bytes of a plain value; the one that has a
    // pointer, that of `filter_ether_type`, points to a program of its length.
    let result = unsafe { libc::setsockopt(fd, level, name, value, bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the layout of the rings.
pub(super) fn set_version(socket: &OwnedFd, version: libc::tpacket_versions) -> io::Result<()> {
    set_option(socket, libc::PACKET_VERSION, &(version as libc::c_int))
}

/// Receives frames for other hosts, too, as long as the socket is open.
pub(crate) fn set_promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Receives only frames of EtherType `ether_type`, behind VLAN tags that the kernel removes.
pub(crate) fn filter_ether_type(socket: &OwnedFd, ether_type: u16) -> io::Result<()> {
    let instruction = |code: u32, if_false: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: if_false,
        k,
    };
    let load = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    let mut program = [
        instruction(load, 0, (libc::SKF_AD_OFF + libc::SKF_AD_PROTOCOL) as u32),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, ether_type.into()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program, which lives as long as the call.
    set_option_at(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Binds to an interface; `protocol` 0 receives nothing.
pub(crate) fn bind(socket: &OwnedFd, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let (fd, bytes) = (socket.as_raw_fd(), ADDRESS_BYTES as u32);
    // SAFETY: the pointer is to a whole `sockaddr_ll`, whose length is given.
    let result = unsafe { libc::bind(fd, ptr::from_ref(&address).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The interface that a socket is bound to; `None` once it was removed, even if one with the same
/// number was added since.
pub(crate) fn bound_to(socket: &OwnedFd) -> Option<u32> {
    // SAFETY: all bits zero are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let (fd, mut bytes) = (socket.as_raw_fd(), ADDRESS_BYTES as u32);
    // SAFETY: the pointer is to a whole `sockaddr_ll`, whose length is given; any bits are valid.
    let result = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut bytes) };
    u32::try_from(address.sll_ifindex).ok().filter(|&index| result == 0 && index > 0)
}

/// Has a bound socket receive its share of the frames of its interface, by a hash of their flow:
/// that of group `id`, or of a new group. Returns the number of the group.
pub(crate) fn join_fanout(socket: &OwnedFd, id: Option<u16>) -> io::Result<u16> {
    let flags = if id.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let group = (libc::PACKET_FANOUT_HASH | flags) << 16 | u32::from(id.unwrap_or(0));
    set_option(socket, libc::PACKET_FANOUT, &group)?;
    let (mut group, mut bytes) = (0u32, size_of::<u32>() as u32);
    let (fd, value) = (socket.as_raw_fd(), (&raw mut group).cast());
    // SAFETY: `value` points to `bytes` writable bytes; any bits are a valid integer.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, value, &raw mut bytes)
    };
    if result == 0 { Ok(group as u16) } else { Err(io::Error::last_os_error()) }
}

/// Has the socket accept no frame, until [`accept_all`].
pub(crate) fn accept_none(socket: &OwnedFd) -> io::Result<()> {
    let mut program = [libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: 0 }];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option_at(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Has the socket accept every frame again.
pub(crate) fn accept_all(socket: &OwnedFd) -> io::Result<()> {
    set_option_at(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// Frames that the kernel dropped since the last call because the ring was full.
pub(crate) fn take_drops(socket: &OwnedFd) -> u64 {
    // Both versions of the structure begin with packets and drops.
    let mut counts = [0u32; 3];
    let mut bytes = size_of_val(&counts) as u32;
    let (fd, name) = (socket.as_raw_fd(), libc::PACKET_STATISTICS);
    let value = counts.as_mut_ptr().cast();
    // SAFETY: `value` points to `bytes` writable bytes; any bits are valid integers.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_PACKET, name, value, &raw mut bytes) };
    if result == 0 { u64::from(counts[1]) } else { 0 }
}

/// Sends the first of `packets`, at most [`BURST_MAX`]; returns how many. The socket has the option
/// `PACKET_VNET_HDR`.
///
/// # Errors
/// If the first one cannot be sent.
pub(crate) fn send_burst(socket: &OwnedFd, packets: &[Packet]) -> io::Result<usize> {
    let mut headers = [[0; VNET_BYTES]; BURST_MAX];
    let mut count = 0;
    for (header, packet) in headers.iter_mut().zip(packets) {
        let Some(described) = vnet::header_of(packet) else { break };
        (*header, count) = (described, count + 1);
    }
    if count == 0 && !packets.is_empty() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let piece_of = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut pieces = [[piece_of(&[]); 2]; BURST_MAX];
    for ((pieces, header), packet) in pieces.iter_mut().zip(&headers).zip(&packets[..count]) {
        *pieces = [piece_of(header), piece_of(packet.data())];
    }
    // SAFETY: null pointers and zero lengths are valid in every field.
    let mut messages: [libc::mmsghdr; BURST_MAX] = unsafe { std::mem::zeroed() };
    for (message, pieces) in messages.iter_mut().zip(&mut pieces) {
        message.msg_hdr.msg_iov = pieces.as_mut_ptr();
        message.msg_hdr.msg_iovlen = pieces.len();
    }
    let (fd, count) = (socket.as_raw_fd(), count as u32);
    // SAFETY: the first `count` messages have two pieces each, a header and the data of a packet,
    // both borrowed for the call; the kernel only reads them.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
