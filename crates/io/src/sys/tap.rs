//! TAP and TUN devices: interfaces whose other end is a descriptor of this process.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use super::interface::Request;

/// Creates the device `name`, or attaches to it if it exists without another end. The kernel
/// chooses the name if `name` ends in `%d`. Returns the descriptor, which does not block, and the
/// name.
pub(crate) fn open(name: &str, has_ethernet: bool) -> io::Result<(OwnedFd, String)> {
    let path = "/dev/net/tun";
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    let fd = OwnedFd::from(file?);
    let kind = if has_ethernet { libc::IFF_TAP } else { libc::IFF_TUN };
    let flags = (kind | libc::IFF_NO_PI) as u16;
    let mut request = Request::new(name)?.with(&flags.to_ne_bytes());
    request.serve(&fd, libc::TUNSETIFF)?;
    Ok((fd, request.name()))
}
