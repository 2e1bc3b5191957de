//! TAP and TUN devices: interfaces whose other end is a descriptor of this process.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::interface::Request;

/// Creates the device `name`, or attaches to it if it exists without another end. The kernel
/// chooses the name if `name` ends in `%d`. Returns the descriptor, which does not block, and the
/// name. Each packet follows a `struct virtio_net_hdr`; the kernel leaves checksums and
/// segmentation to this process, as far as it can describe them there.
pub(crate) fn open(name: &str, has_ethernet: bool) -> io::Result<(OwnedFd, String)> {
    let path = "/dev/net/tun";
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
    let fd = OwnedFd::from(file?);
    let kind = if has_ethernet { libc::IFF_TAP } else { libc::IFF_TUN };
    let flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as u16;
    let mut request = Request::new(name)?.with(&flags.to_ne_bytes());
    request.serve(&fd, libc::TUNSETIFF)?;
    let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // Old kernels do not leave segmentation of UDP to others.
    set_offloads(&fd, tcp | TUN_F_USO4 | TUN_F_USO6).or_else(|_| set_offloads(&fd, tcp))?;
    Ok((fd, request.name()))
}

/// Flags of `TUNSETOFFLOAD`: UDP over IPv4 and IPv6 may be segmented by the reader.
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// Sets what the kernel may leave to the reader.
fn set_offloads(fd: &OwnedFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: the request takes its argument by value and accesses no memory of this process.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
