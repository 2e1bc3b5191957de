//! A packet socket at the end of a link: sends and receives frames as they are.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, send, socket,
};

use crate::netns::Namespace;

/// A socket for all frames of the interface `end`, which is set up. It keeps the namespace alive.
///
/// # Errors
/// The reason why the kernel refuses it.
pub fn open_end(host: &Namespace) -> Result<OwnedFd, String> {
    host.ip("link set end up\n")?;
    host.inside(|| {
        let flags = SockFlag::SOCK_CLOEXEC;
        let end = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .map_err(|error| format!("a packet socket: {error}"))?;
        let interfaces = getifaddrs().map_err(|error| format!("interfaces: {error}"))?;
        let address = interfaces
            .filter(|interface| interface.interface_name == "end")
            .find_map(|interface| interface.address?.as_link_addr().copied())
            .ok_or("the interface 'end' is missing")?;
        bind(end.as_raw_fd(), &address).map_err(|error| format!("bind: {error}"))?;
        Ok(end)
    })
}

/// Sends a frame.
pub fn send_frame(end: &OwnedFd, frame: &[u8]) {
    let sent = send(end.as_raw_fd(), frame, MsgFlags::empty());
    assert_eq!(sent, Ok(frame.len()), "a frame of {} bytes leaves", frame.len());
}
