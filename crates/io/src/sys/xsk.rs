//! Sockets of `AF_XDP`: a memory area of frames and four rings shared with the kernel.
//!
//! ```text
//!            fill ─► kernel ─► receive        free frames to the kernel, filled ones back
//!        transmit ─► kernel ─► completion     frames to send to the kernel, sent ones back
//! ```
//! A ring is an array with a producer and a consumer index, both ever increasing; one side writes
//! each. A frame of the area is in one place: in the fill or receive ring, in the transmit or
//! completion ring, or in the list of free frames.
//!
//! # Invariants
//! - X1: the area has as many frames as fill and transmit ring together have entries, so returning
//!   a frame to its ring never fails. The fill ring may look full meanwhile: the kernel publishes a
//!   received frame before it publishes that it has read the entry of the fill ring.
//!
//! # Source
//! Linux, `Documentation/networking/af_xdp.rst`.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::mapping::Mapping;
use super::packet_socket::set_option_at as set_option;

/// Bytes of a frame's place in the area.
const FRAME_BYTES: usize = 2048;
/// Bytes that the kernel keeps in front of a received frame.
const KERNEL_BYTES: usize = 256;
/// The most bytes of a frame.
pub(crate) const FRAME_BYTES_MAX: usize = FRAME_BYTES - KERNEL_BYTES;
/// Entries of each ring.
const ENTRIES: u32 = 2048;
/// Bytes of an address in the fill and the completion ring.
const ADDRESS_BYTES: usize = size_of::<u64>();
/// Frames that the kernel sends in one call.
const KERNEL_BURST: u32 = 32;
/// Distance of the frame that is prefetched while one is read: the kernel wrote it on another core.
const FRAMES_AHEAD: usize = 8;
/// Prefetched bytes of a frame.
const BYTES_AHEAD: u64 = 128;
/// Bytes of a descriptor in the receive and the transmit ring.
const DESCRIPTOR_BYTES: usize = size_of::<libc::xdp_desc>();

/// One ring: where its parts are in a mapping.
#[derive(Debug)]
struct Ring {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries: usize,
    /// The index that this side writes.
    own: u32,
    /// The index of the other side, as of the last look.
    other: u32,
}

impl Ring {
    fn new(
        socket: &OwnedFd,
        at: &libc::xdp_ring_offset,
        entry_bytes: usize,
        page: i64,
    ) -> io::Result<Self> {
        let entries = at.desc as usize;
        let memory = Mapping::new(socket, entries + ENTRIES as usize * entry_bytes, page)?;
        let (producer, consumer) = (at.producer as usize, at.consumer as usize);
        Ok(Self { memory, producer, consumer, flags: at.flags as usize, entries, own: 0, other: 0 })
    }

    /// Place of the entry with index `index`.
    fn entry(&self, index: u32, entry_bytes: usize) -> usize {
        self.entries + (index % ENTRIES) as usize * entry_bytes
    }

    /// Entries that this side, the producer, may write.
    fn room(&mut self) -> u32 {
        if self.own.wrapping_sub(self.other) == ENTRIES {
            self.other = self.memory.load(self.consumer);
        }
        ENTRIES - self.own.wrapping_sub(self.other)
    }

    /// Entries that this side, the consumer, may read.
    fn filled(&mut self) -> u32 {
        if self.own == self.other {
            self.other = self.memory.load(self.producer);
        }
        self.other.wrapping_sub(self.own)
    }

    fn publish_produced(&self) {
        self.memory.store(self.producer, self.own);
    }

    fn publish_consumed(&self) {
        self.memory.store(self.consumer, self.own);
    }

    /// Whether the kernel waits to be called.
    fn needs_wakeup(&self) -> bool {
        self.memory.load(self.flags) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// A socket of one queue of an interface. See the module.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    fill: Ring,
    completion: Ring,
    receive: Ring,
    transmit: Ring,
    /// Places of frames that can be sent with.
    free: Vec<u64>,
    socket: Arc<OwnedFd>,
    area: Mapping,
}

impl XdpSocket {
    /// Opens a socket of queue `queue` of interface `index`.
    pub(crate) fn open(index: u32, queue: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let family = AddressFamily::from_raw(libc::AF_XDP as u16);
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, None)?;
        let area = Mapping::anonymous(2 * ENTRIES as usize * FRAME_BYTES)?;
        let registration = libc::xdp_umem_reg {
            addr: area.address(),
            len: (2 * ENTRIES as usize * FRAME_BYTES) as u64,
            chunk_size: FRAME_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        let set = |name, value: &u32| set_option(&socket, libc::SOL_XDP, name, value);
        set_option(&socket, libc::SOL_XDP, libc::XDP_UMEM_REG, &registration)?;
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set(ring, &ENTRIES)?;
        }
        let at = ring_offsets(&socket)?;
        let ring = |at, bytes, page: u64| Ring::new(&socket, at, bytes, page as i64);
        let mut opened = Self {
            fill: ring(&at.fr, ADDRESS_BYTES, libc::XDP_UMEM_PGOFF_FILL_RING)?,
            completion: ring(&at.cr, ADDRESS_BYTES, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?,
            receive: ring(&at.rx, DESCRIPTOR_BYTES, libc::XDP_PGOFF_RX_RING as u64)?,
            transmit: ring(&at.tx, DESCRIPTOR_BYTES, libc::XDP_PGOFF_TX_RING as u64)?,
            free: (ENTRIES..2 * ENTRIES)
                .map(|frame| u64::from(frame) * FRAME_BYTES as u64)
                .collect(),
            area,
            socket: Arc::new(socket),
        };
        (0..ENTRIES).for_each(|frame| opened.give(u64::from(frame) * FRAME_BYTES as u64));
        opened.fill.publish_produced();
        bind(&opened.socket, index, queue)?;
        Ok(opened)
    }

    /// Its descriptor.
    pub(crate) fn fd(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Puts a free frame into the fill ring.
    fn give(&mut self, address: u64) {
        let entry = self.fill.entry(self.fill.own, ADDRESS_BYTES);
        self.fill.memory.store_long(entry, address);
        self.fill.own = self.fill.own.wrapping_add(1);
    }

    /// Passes up to `frames_max` received frames to `take`; returns how many there were.
    pub(crate) fn receive(&mut self, frames_max: usize, mut take: impl FnMut(&[u8])) -> usize {
        let count = (self.receive.filled() as usize).min(frames_max);
        (0..count.min(FRAMES_AHEAD)).for_each(|frame| self.prefetch_ahead(frame));
        for number in 0..count {
            if number + FRAMES_AHEAD < count {
                self.prefetch_ahead(FRAMES_AHEAD);
            }
            let entry = self.receive.entry(self.receive.own, DESCRIPTOR_BYTES);
            let address = self.receive.memory.load_long(entry);
            let bytes = self.receive.memory.load(entry + 8) as usize;
            // SAFETY: the frame is in the receive ring, so it is ours until `give` and `publish`
            // below; the borrow ends before.
            take(unsafe { self.area.bytes(address as usize, bytes) });
            self.receive.own = self.receive.own.wrapping_add(1);
            self.give(address - address % FRAME_BYTES as u64);
        }
        if count > 0 {
            self.receive.publish_consumed();
            self.fill.publish_produced();
            if self.fill.needs_wakeup() {
                // It fails if there is nothing to receive, which is no error here.
                _ = rustix::net::recv(&*self.socket, &mut [0; 0][..], RecvFlags::DONTWAIT);
            }
        }
        count
    }

    /// Prefetches the received frame that is read behind `frames` others.
    #[inline]
    fn prefetch_ahead(&self, frames: usize) {
        let index = self.receive.own.wrapping_add(frames as u32);
        let entry = self.receive.entry(index, DESCRIPTOR_BYTES);
        let address = self.receive.memory.load_long(entry);
        (0..BYTES_AHEAD).step_by(64).for_each(|at| self.area.prefetch((address + at) as usize));
    }

    /// Sends the first of `frames`, none longer than [`FRAME_BYTES_MAX`]; returns how many it took.
    pub(crate) fn send<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) -> usize {
        self.reclaim();
        let mut count = 0;
        for frame in frames {
            if self.free.is_empty() || self.transmit.room() == 0 {
                break;
            }
            let Some(address) = self.free.pop() else { break };
            // SAFETY: the frame was free, so the kernel has no access until `publish` below.
            let place = unsafe { self.area.bytes_mut(address as usize, frame.len()) };
            place.copy_from_slice(frame);
            let entry = self.transmit.entry(self.transmit.own, DESCRIPTOR_BYTES);
            self.transmit.memory.store_long(entry, address);
            self.transmit.memory.store(entry + 8, frame.len() as u32);
            self.transmit.memory.store(entry + 12, 0);
            self.transmit.own = self.transmit.own.wrapping_add(1);
            count += 1;
        }
        self.transmit.publish_produced();
        self.flush();
        count
    }

    /// Calls the kernel until it has taken the frames to send, or has no room.
    pub(crate) fn flush(&mut self) {
        for _ in 0..ENTRIES / KERNEL_BURST {
            let is_taken = self.transmit.memory.load(self.transmit.consumer) == self.transmit.own;
            if is_taken || !self.transmit.needs_wakeup() {
                return;
            }
            let sent = rustix::net::send(&*self.socket, &[], SendFlags::DONTWAIT);
            if !matches!(sent, Ok(_) | Err(Errno::AGAIN)) {
                return;
            }
        }
    }

    /// Moves sent frames to the free ones.
    fn reclaim(&mut self) {
        let count = self.completion.filled();
        for _ in 0..count {
            let entry = self.completion.entry(self.completion.own, ADDRESS_BYTES);
            self.free.push(self.completion.memory.load_long(entry));
            self.completion.own = self.completion.own.wrapping_add(1);
        }
        if count > 0 {
            self.completion.publish_consumed();
        }
    }
}

/// Where the parts of the rings are in their mappings.
fn ring_offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    let none = libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let mut at = libc::xdp_mmap_offsets { rx: none, tx: none, fr: none, cr: none };
    let mut bytes = size_of_val(&at) as u32;
    let (fd, name, value) = (socket.as_raw_fd(), libc::XDP_MMAP_OFFSETS, (&raw mut at).cast());
    // SAFETY: `value` points to `bytes` writable bytes; any bits are valid integers.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_XDP, name, value, &raw mut bytes) };
    if result == 0 { Ok(at) } else { Err(io::Error::last_os_error()) }
}

/// Binds to a queue: without copies where the driver can, else with copies.
fn bind(socket: &OwnedFd, index: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let (fd, bytes) = (socket.as_raw_fd(), size_of_val(&address) as u32);
    // SAFETY: the pointer is to a whole `sockaddr_xdp`, whose length is given.
    let result = unsafe { libc::bind(fd, std::ptr::from_ref(&address).cast(), bytes) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether frames pass between driver and socket without a copy.
pub(crate) fn has_zero_copy(socket: &OwnedFd) -> bool {
    // `struct xdp_options`.
    let (mut flags, mut bytes) = (0u32, size_of::<u32>() as u32);
    let (fd, name, value) = (socket.as_raw_fd(), libc::XDP_OPTIONS, (&raw mut flags).cast());
    // SAFETY: `value` points to `bytes` writable bytes; any bits are a valid integer.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_XDP, name, value, &raw mut bytes) };
    result == 0 && flags & libc::XDP_OPTIONS_ZEROCOPY != 0
}

/// Frames that the kernel dropped because a ring was full or empty.
pub(crate) fn drops(socket: &OwnedFd) -> u64 {
    let mut counts = [0u64; 6];
    let mut bytes = size_of_val(&counts) as u32;
    let (fd, name, value) = (socket.as_raw_fd(), libc::XDP_STATISTICS, counts.as_mut_ptr().cast());
    // SAFETY: `value` points to `bytes` writable bytes; any bits are valid integers.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_XDP, name, value, &raw mut bytes) };
    // `rx_dropped` and `rx_ring_full`; an empty fill ring drops through the former or the driver.
    if result == 0 { counts[0] + counts[3] } else { 0 }
}
