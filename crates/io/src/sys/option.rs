//! Options of sockets that no safe crate sets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sends UDP over IPv4 without checksums.
pub(crate) fn set_no_checksum(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK)
}

/// Receives UDP over IPv6 without checksums as well.
pub(crate) fn accept_no_checksum(socket: &OwnedFd) -> io::Result<()> {
    set(socket, libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX)
}

/// Sets an option of type `int` to 1.
fn set(socket: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<()> {
    let value: libc::c_int = 1;
    let (pointer, len) = (std::ptr::from_ref(&value).cast(), size_of_val(&value));
    // SAFETY: the pointer is to `len` readable bytes, which live until the call returns; the kernel
    // keeps no pointer.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, pointer, len as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
