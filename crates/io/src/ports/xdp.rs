//! Ports on sockets of `AF_XDP`.
//!
//! A program at the driver takes all frames of the interface away from the kernel, so the kernel
//! does not see them. Receiving and sending port of an interface share its socket. Frames have no
//! record of work that the sender left to the device: a checksum field that holds the sum of the
//! pseudo header, and no more, is completed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpswitch_packet::{
    Batch, Header, LinkState, Packet, PacketType, Pool, PortSpec, RxCounts, RxPort, Transmitted,
    TxCounts, TxPort,
};

use super::af_packet::{link_state, open_socket};
use super::{offload, open_error};
use crate::error::{IoError, IoErrorKind};
use crate::sys::bpf::Redirect;
use crate::sys::packet_socket;
use crate::sys::xsk::{self, FRAME_BYTES_MAX, XdpSocket};

/// The one queue that is served.
const QUEUE: u32 = 0;

/// The socket of an interface, and the program that feeds it.
#[derive(Debug)]
struct Attachment {
    // Detached before the socket is closed.
    _redirect: Redirect,
    socket: XdpSocket,
    /// Keeps the interface promiscuous.
    _membership: OwnedFd,
    index: u32,
}

impl Attachment {
    fn open(device: &str) -> Result<Self, IoError> {
        let (membership, index) = open_socket(device, "open an XDP socket")?;
        let fail = |what: &'static str| move |error| open_error(device, what, error);
        packet_socket::set_promiscuous(&membership, index).map_err(fail("receive all frames"))?;
        let redirect = Redirect::attach(index).map_err(fail("attach an XDP program"))?;
        let socket = XdpSocket::open(index, QUEUE).map_err(|error| socket_error(device, error))?;
        redirect.add(QUEUE, socket.fd()).map_err(fail("redirect frames by XDP"))?;
        Ok(Self { _redirect: redirect, socket, _membership: membership, index })
    }
}

/// The error of a socket that cannot be opened.
fn socket_error(device: &str, error: io::Error) -> IoError {
    let message = match error.raw_os_error() {
        Some(libc::ENOBUFS | libc::ENOMEM) => {
            let message = "cannot lock memory for frames of AF_XDP: raise the limit (ulimit -l \
                           unlimited), or give the binary the capability: setcap cap_ipc_lock+ep \
                           warpswitch";
            return IoError::privilege(message.to_owned());
        }
        Some(libc::EAFNOSUPPORT) => {
            "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use METHOD AFPACKET"
        }
        Some(libc::EBUSY) => "another program uses AF_XDP on this interface",
        _ => return open_error(device, "open an XDP socket", error),
    };
    IoError::device(IoErrorKind::NotPermitted, device, message.to_owned())
}

/// An interface reached by AF_XDP.
#[derive(Debug)]
pub(super) struct Xdp {
    device: String,
    attachment: Attachment,
    rx: RxCounts,
    tx: TxCounts,
    /// Drops of sockets that were replaced.
    dropped: u64,
}

impl Xdp {
    pub(super) fn open(spec: &PortSpec) -> Result<Self, IoError> {
        let attachment = Attachment::open(&spec.device)?;
        let (rx, tx) = (RxCounts::default(), TxCounts::default());
        Ok(Self { device: spec.device.clone(), attachment, rx, tx, dropped: 0 })
    }

    fn check_link(&mut self) -> LinkState {
        let state = link_state(&self.device, self.attachment.index);
        if state == LinkState::Removed
            && let Ok(attachment) = Attachment::open(&self.device)
        {
            self.dropped += xsk::drops(self.attachment.socket.fd());
            self.attachment = attachment;
            return link_state(&self.device, self.attachment.index);
        }
        state
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
    rx.checksums += u64::from(offload::complete_partial(packet.data_mut()));
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
        let Xdp { attachment, rx, .. } = &mut *self.lock();
        // The kernel may have had no room for all when they were sent.
        attachment.socket.flush();
        attachment.socket.receive(frames_max, |frame| batch.push(accept(frame, pool, rx)))
    }

    fn device(&self) -> String {
        self.lock().device.clone()
    }

    fn counts(&mut self) -> RxCounts {
        let xdp = self.lock();
        RxCounts { dropped: xdp.dropped + xsk::drops(xdp.attachment.socket.fd()), ..xdp.rx }
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        Some(self.lock().attachment.socket.fd().clone())
    }

    fn check_link(&mut self) -> LinkState {
        self.lock().check_link()
    }
}

impl TxPort for XdpPort {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let Xdp { attachment, tx, .. } = &mut *self.lock();
        let fits = |packet: &&Packet| packet.len() <= FRAME_BYTES_MAX;
        if !packets.first().is_some_and(|packet| fits(&packet)) {
            tx.refused += 1;
            return Transmitted::Refused;
        }
        let frames = packets.iter().take_while(fits).map(Packet::data);
        let count = attachment.socket.send(frames);
        tx.frames += count as u64;
        if count == 0 { Transmitted::Full } else { Transmitted::Frames(count) }
    }

    fn counts(&mut self) -> TxCounts {
        self.lock().tx
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        Some(self.lock().attachment.socket.fd().clone())
    }

    fn check_link(&mut self) -> LinkState {
        self.lock().check_link()
    }
}
