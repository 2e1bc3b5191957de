//! Ports on sockets of `AF_XDP`.
//!
//! A program at the driver takes all frames of the interface away from the kernel, so the kernel
//! does not see them. Receiving and sending port of a queue share its socket. Frames have no
//! record of work that the sender left to the device: a checksum field that holds the sum of the
//! pseudo header, and no more, is completed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use warpswitch_packet::{
    Batch, Header, LinkState, Packet, PacketType, Pool, RxCounts, RxPort, Transmitted, TxCounts,
    TxPort,
};

use super::af_packet::{ReopenError, link_state, open_socket};
use super::open_error;
use crate::error::{IoError, IoErrorKind, capability_fix};
use crate::sys::bpf::Redirect;
use crate::sys::interface::Interface;
use crate::sys::packet_socket;
use crate::sys::vnet;
use crate::sys::xsk::{self, FRAME_BYTES_MAX, XdpSocket};

/// How long the kernel may take to release an interface after the end of the process that used it.
const RELEASE: Duration = Duration::from_secs(1);
/// Times that it is tried in the meantime.
const RELEASE_LOOKS: u32 = 100;
/// Time from a small burst to the next look at the ring. A look moves the memory of the ring away
/// from the core that runs the kernel's side, which costs time there; frames that arrive meanwhile
/// come in one burst.
const REST: Duration = Duration::from_micros(5);
/// Bytes of an Ethernet header, and of a VLAN tag.
const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;

/// An interface: what its queues share.
#[derive(Debug)]
pub(super) struct XdpInterface {
    device: String,
    current: Mutex<Weak<Attachment>>,
}

impl XdpInterface {
    pub(super) fn new(device: &str) -> Self {
        Self { device: device.to_owned(), current: Mutex::default() }
    }

    /// The program of the interface, attached if it is not.
    fn attach(&self) -> Result<Arc<Attachment>, IoError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let attached = current.upgrade();
        let is_there = |attachment: &Arc<Attachment>| {
            link_state(&self.device, &attachment.membership) != LinkState::Removed
        };
        if let Some(attachment) = attached.filter(is_there) {
            return Ok(attachment);
        }
        let attachment = Arc::new(Attachment::open(&self.device)?);
        *current = Arc::downgrade(&attachment);
        Ok(attachment)
    }
}

/// A program attached to an interface, which feeds the sockets of its queues.
#[derive(Debug)]
struct Attachment {
    redirect: Redirect,
    /// Keeps the interface promiscuous, and is bound to it until it is removed.
    membership: OwnedFd,
    index: u32,
}

impl Attachment {
    fn open(device: &str) -> Result<Self, IoError> {
        let (membership, index) = open_socket(device, "open an XDP socket")?;
        let fail = |what: &'static str| move |error| open_error(device, what, error);
        packet_socket::bind(&membership, index, 0).map_err(fail("bind a packet socket"))?;
        packet_socket::set_promiscuous(&membership, index).map_err(fail("receive all frames"))?;
        let redirect = Redirect::attach(index).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => {
                let message = format!(
                    "another program has attached an XDP program to the interface: end it, or \
                     detach the program with: ip link set {device} xdp off"
                );
                IoError::device(IoErrorKind::InUse, device, message)
            }
            Some(libc::ERANGE) => {
                let message = format!(
                    "the MTU is too large for XDP: ip link set {device} mtu 1500, or use METHOD \
                     AFPACKET"
                );
                IoError::device(IoErrorKind::NotPermitted, device, message)
            }
            _ => open_error(device, "attach an XDP program", error),
        })?;
        Ok(Self { redirect, membership, index })
    }
}

/// The socket of a queue.
#[derive(Debug)]
struct Queue {
    // Detached, if this is the last queue, before the socket is closed.
    attachment: Arc<Attachment>,
    socket: XdpSocket,
}

impl Queue {
    fn open(interface: &XdpInterface, number: u32) -> Result<Self, IoError> {
        let attachment = interface.attach()?;
        let device = &*interface.device;
        let socket = XdpSocket::open(attachment.index, number);
        let socket = socket.map_err(|error| socket_error(device, number, error))?;
        let added = attachment.redirect.add(number, socket.fd());
        added.map_err(|error| open_error(device, "redirect frames by XDP", error))?;
        Ok(Self { attachment, socket })
    }
}

/// The error of a socket that cannot be opened.
fn socket_error(device: &str, queue: u32, error: io::Error) -> IoError {
    let missing = format!(
        "the interface has no receive queue {queue}: lower QUEUES, or set their number with \
         ethtool -L {device} combined {}",
        u64::from(queue) + 1
    );
    let message = match error.raw_os_error() {
        Some(libc::EINVAL) if queue > 0 => &*missing,
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            let message = "cannot lock memory for frames of AF_XDP: raise the limit (ulimit -l \
                           unlimited)";
            let fix = capability_fix("cap_ipc_lock");
            return IoError::privilege(format!("{message}, {fix}"));
        }
        Some(libc::EAFNOSUPPORT) => {
            "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use METHOD AFPACKET"
        }
        Some(libc::EBUSY) => {
            let message = "another program uses AF_XDP on this queue of the interface";
            return IoError::device(IoErrorKind::InUse, device, message.to_owned());
        }
        _ => return open_error(device, "open an XDP socket", error),
    };
    IoError::device(IoErrorKind::NotPermitted, device, message.to_owned())
}

/// A queue of an interface reached by AF_XDP.
#[derive(Debug)]
pub(super) struct Xdp {
    interface: Arc<XdpInterface>,
    number: u32,
    /// None while the interface is removed: its memory counts as locked until it is freed.
    queue: Option<Queue>,
    /// As the last check found it. The kernel drops what is sent while the link is down, without
    /// an error.
    state: LinkState,
    /// The longest frame that the interface sends.
    sent_bytes_max: usize,
    rx: RxCounts,
    tx: TxCounts,
    /// Drops of sockets that were replaced.
    dropped: u64,
    reopen_error: ReopenError,
}

impl Xdp {
    pub(super) fn open(interface: Arc<XdpInterface>, number: u32) -> Result<Self, IoError> {
        let mut opened = Queue::open(&interface, number);
        for _ in 0..RELEASE_LOOKS {
            match &opened {
                Err(error) if error.kind() == IoErrorKind::InUse => {
                    std::thread::sleep(RELEASE / RELEASE_LOOKS);
                    opened = Queue::open(&interface, number);
                }
                _ => break,
            }
        }
        let mut xdp = Self {
            interface,
            number,
            queue: Some(opened?),
            state: LinkState::Up,
            sent_bytes_max: FRAME_BYTES_MAX,
            rx: RxCounts::default(),
            tx: TxCounts::default(),
            dropped: 0,
            reopen_error: ReopenError::default(),
        };
        xdp.check_link();
        Ok(xdp)
    }

    /// Passes up to `frames_max` frames to `look`, in place; returns how many there were.
    #[cfg(test)]
    pub(super) fn look_at(&mut self, frames_max: usize, look: impl FnMut(&[u8])) -> usize {
        self.queue.as_mut().expect("a queue").socket.receive(frames_max, look)
    }

    fn link_state(&self) -> LinkState {
        let Some(queue) = &self.queue else { return LinkState::Removed };
        link_state(&self.interface.device, &queue.attachment.membership)
    }

    fn check_link(&mut self) -> LinkState {
        self.state = self.link_state();
        if self.state == LinkState::Removed {
            // A renamed interface is still there, and served until another has its name.
            let is_gone =
                |queue: &mut Queue| packet_socket::bound_to(&queue.attachment.membership).is_none();
            // Closed before another is opened: both may be more than the limit of locked memory.
            if let Some(queue) = self.queue.take_if(is_gone) {
                self.dropped += xsk::drops(queue.socket.fd());
            }
            let opened = Queue::open(&self.interface, self.number);
            if let Some(queue) = self.reopen_error.note(opened)
                && let Some(old) = self.queue.replace(queue)
            {
                self.dropped += xsk::drops(old.socket.fd());
            }
            self.state = self.link_state();
        }
        let mtu = Interface::new(&self.interface.device).and_then(|interface| interface.mtu());
        self.sent_bytes_max = mtu.map_or(FRAME_BYTES_MAX, |mtu| mtu + ETHERNET_BYTES);
        self.state
    }

    /// Whether the interface sends `packet`: it has a header, and is no longer than the MTU allows,
    /// without a VLAN tag.
    fn accepts(&self, packet: &Packet) -> bool {
        let data = packet.data();
        let is_tagged = matches!(data.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
        let bytes_max = self.sent_bytes_max + if is_tagged { VLAN_BYTES } else { 0 };
        (ETHERNET_BYTES..=bytes_max.min(FRAME_BYTES_MAX)).contains(&data.len())
    }
}

/// A port on an interface.
#[derive(Debug)]
pub(super) struct XdpPort(Arc<Mutex<Xdp>>);

impl XdpPort {
    pub(super) fn new(xdp: Arc<Mutex<Xdp>>) -> Self {
        Self(xdp)
    }

    fn lock(&self) -> MutexGuard<'_, Xdp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a packet of a frame.
fn accept(frame: &[u8], pool: &mut Pool, rx: &mut RxCounts) -> Packet {
    let mut packet = pool.packet_of(frame);
    rx.frames += 1;
    rx.checksums += u64::from(vnet::complete_partial(packet.data_mut()));
    let kind = match frame {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => PacketType::Broadcast,
        [first, ..] if first & 1 == 1 => PacketType::Multicast,
        _ => PacketType::Host,
    };
    packet.set_packet_type(kind);
    packet.set_header(Header::Mac, 0);
    packet
}

impl RxPort for XdpPort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let Xdp { queue: Some(queue), rx, .. } = &mut *self.lock() else { return 0 };
        // The kernel may have had no room for all when they were sent.
        queue.socket.flush();
        queue.socket.receive(frames_max, |frame| batch.push(accept(frame, pool, rx)))
    }

    fn device(&self) -> String {
        self.lock().interface.device.clone()
    }

    fn method(&self) -> &'static str {
        let has_zero_copy = |queue: &Queue| xsk::has_zero_copy(queue.socket.fd());
        match self.lock().queue.as_ref().is_some_and(has_zero_copy) {
            true => "AFXDP, zero copy",
            false => "AFXDP, copies",
        }
    }

    fn rest(&self) -> Duration {
        REST
    }

    fn counts(&mut self) -> RxCounts {
        let xdp = self.lock();
        let drops = xdp.queue.as_ref().map_or(0, |queue| xsk::drops(queue.socket.fd()));
        RxCounts { dropped: xdp.dropped + drops, ..xdp.rx }
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        self.lock().queue.as_ref().map(|queue| queue.socket.fd().clone())
    }

    fn check_link(&mut self) -> LinkState {
        self.lock().check_link()
    }

    fn reopen_error(&mut self) -> Option<String> {
        self.lock().reopen_error.take()
    }
}

impl TxPort for XdpPort {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let xdp = &mut *self.lock();
        let is_down = xdp.state == LinkState::Down;
        let accepted = packets.iter().take_while(|packet| !is_down && xdp.accepts(packet)).count();
        let Some(queue) = xdp.queue.as_mut().filter(|_| accepted > 0) else {
            xdp.tx.refused += 1;
            return Transmitted::Refused;
        };
        let count = queue.socket.send(packets[..accepted].iter().map(Packet::data));
        xdp.tx.frames += count as u64;
        if count == 0 { Transmitted::Full } else { Transmitted::Frames(count) }
    }

    fn counts(&mut self) -> TxCounts {
        self.lock().tx
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        self.lock().queue.as_ref().map(|queue| queue.socket.fd().clone())
    }

    fn check_link(&mut self) -> LinkState {
        self.lock().check_link()
    }

    fn reopen_error(&mut self) -> Option<String> {
        self.lock().reopen_error.take()
    }
}
