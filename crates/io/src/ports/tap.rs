//! Ports that are the other end of a TAP or TUN device.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use warpswitch_packet::{
    Batch, Header, LARGE_BYTES, LinkState, Packet, Pool, RxCounts, RxPort, TapOptions, Transmitted,
    TxCounts, TxPort,
};

use super::af_packet::BURST_BYTES_MAX;
use super::intake::{note_vnet, packet_of};
use super::open_error;
use crate::error::IoError;
use crate::sys::interface::Interface;
use crate::sys::tap;
use crate::sys::vnet::{self, VNET_BYTES, Vnet};

/// The most bytes that are read at once: the header that describes a packet, and the packet.
const READ_BYTES: usize = VNET_BYTES + LARGE_BYTES;
/// What errors call a device whose name the kernel chooses.
const UNNAMED: &str = "TAP device";

/// An open device. It disappears when it is dropped.
#[derive(Debug)]
pub(super) struct Tap {
    fd: Arc<OwnedFd>,
    name: String,
    has_ethernet: bool,
    /// Whether another process removed the device: its descriptor stays ready for ever.
    is_removed: bool,
    rx: RxCounts,
    tx: TxCounts,
    buffer: Box<[u8]>,
}

impl Tap {
    /// Creates the device `name` and sets it up; the kernel chooses an empty name.
    pub(super) fn open(name: &str, options: &TapOptions) -> Result<Self, IoError> {
        let shown = if name.is_empty() { UNNAMED } else { name };
        let fail = |what: &'static str| move |error: io::Error| open_error(shown, what, error);
        let wanted = match (name, options.has_ethernet) {
            ("", true) => "tap%d",
            ("", false) => "tun%d",
            (name, _) => name,
        };
        let opened = tap::open(wanted, options.has_ethernet);
        let (fd, name) = opened.map_err(fail("create the TAP device"))?;
        Self::configure(&name, options).map_err(fail("configure the TAP device"))?;
        let buffer = vec![0; READ_BYTES].into();
        let (rx, tx) = (RxCounts::default(), TxCounts::default());
        let has_ethernet = options.has_ethernet;
        let fd = Arc::new(fd);
        Ok(Self { fd, name, has_ethernet, is_removed: false, rx, tx, buffer })
    }

    /// The descriptor to wait for.
    fn wake_fd(&self) -> Option<Arc<OwnedFd>> {
        (!self.is_removed).then(|| self.fd.clone())
    }

    fn configure(name: &str, options: &TapOptions) -> io::Result<()> {
        let interface = Interface::new(name)?;
        if let Some(address) = options.ethernet_address {
            interface.set_ethernet_address(address)?;
        }
        if let Some(mtu) = options.mtu {
            interface.set_mtu(mtu)?;
        }
        if let Some((address, prefix_len)) = options.address {
            interface.set_address(address, prefix_len)?;
        }
        interface.set_up()?;
        options.gateway.map_or(Ok(()), |gateway| interface.add_default_route(gateway))
    }
}

/// A port on a device.
#[derive(Debug)]
pub(super) struct TapPort(Arc<Mutex<Tap>>);

impl TapPort {
    pub(super) fn new(tap: Arc<Mutex<Tap>>) -> Self {
        Self(tap)
    }

    fn lock(&self) -> MutexGuard<'_, Tap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RxPort for TapPort {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, frames_max: usize) -> usize {
        let Tap { fd, has_ethernet, is_removed, rx, buffer, .. } = &mut *self.lock();
        let mut burst_bytes = 0;
        for count in 0..frames_max {
            if burst_bytes >= BURST_BYTES_MAX {
                return count;
            }
            let read = rustix::io::read(&**fd, &mut buffer[..]);
            *is_removed |= read == Err(Errno::BADFD);
            let bytes = read.unwrap_or(0);
            let Some((header, data)) = buffer[..bytes].split_at_checked(VNET_BYTES) else {
                return count;
            };
            burst_bytes += data.len();
            let mut packet = packet_of(data, pool);
            if !note_vnet(Vnet::parse(header), *has_ethernet, &mut packet, rx) {
                rx.unusable += 1;
                pool.recycle(packet);
                continue;
            }
            packet.set_header(Header::Mac, 0);
            batch.push(packet);
            rx.frames += 1;
        }
        frames_max
    }

    fn device(&self) -> String {
        self.lock().name.clone()
    }

    fn counts(&mut self) -> RxCounts {
        self.lock().rx
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        self.lock().wake_fd()
    }

    fn check_link(&mut self) -> LinkState {
        let running = Interface::new(&self.lock().name).and_then(|tap| tap.is_running());
        match running {
            Ok(true) => LinkState::Up,
            Ok(false) => LinkState::Down,
            Err(_) => LinkState::Removed,
        }
    }
}

impl TxPort for TapPort {
    fn send(&mut self, packets: &[Packet]) -> Transmitted {
        let Tap { fd, tx, .. } = &mut *self.lock();
        for (count, packet) in packets.iter().enumerate() {
            let written = vnet::header_of(packet).map_or(Err(Errno::INVAL), |header| {
                let pieces = [IoSlice::new(&header), IoSlice::new(packet.data())];
                rustix::io::writev(&**fd, &pieces)
            });
            let Err(error) = written else {
                tx.frames += 1;
                continue;
            };
            if count > 0 {
                return Transmitted::Frames(count);
            }
            if matches!(error, Errno::AGAIN | Errno::INTR) {
                return Transmitted::Full;
            }
            tx.refused += 1;
            return Transmitted::Refused;
        }
        Transmitted::Frames(packets.len())
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn counts(&mut self) -> TxCounts {
        self.lock().tx
    }

    fn wake_fd(&mut self) -> Option<Arc<OwnedFd>> {
        self.lock().wake_fd()
    }

    fn check_link(&mut self) -> LinkState {
        RxPort::check_link(self)
    }
}
