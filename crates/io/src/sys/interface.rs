//! Network interfaces: state, kind, addresses, routes. Requests of `netdevice(7)`.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Bytes of a name, with its end.
const NAME_BYTES: usize = libc::IFNAMSIZ;

/// `struct ifreq`: a name and a value, whose meaning the request defines.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Request {
    name: [u8; NAME_BYTES],
    pub(super) value: [u8; 24],
}

impl Request {
    /// A request about interface `name`.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let mut request = Self { name: [0; NAME_BYTES], value: [0; 24] };
        if name.is_empty() || name.len() >= NAME_BYTES || name.contains(['\0', '/']) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(request)
    }

    /// The name that the kernel filled in.
    pub(super) fn name(&self) -> String {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(&self.name[..len]).into_owned()
    }

    /// The same with a value.
    pub(super) fn with(mut self, value: &[u8]) -> Self {
        self.value[..value.len()].copy_from_slice(value);
        self
    }

    /// Has the kernel serve it; `code` is a request that takes a `struct ifreq`.
    pub(super) fn serve(&mut self, fd: &OwnedFd, code: libc::Ioctl) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        // SAFETY: the pointer is to a whole `struct ifreq`, which is what requests of this kind
        // read and write; any bytes are valid in it.
        let result = unsafe { libc::ioctl(fd, code, std::ptr::from_mut(self)) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// An interface, by name.
pub(crate) struct Interface<'a> {
    name: &'a str,
    socket: OwnedFd,
}

impl<'a> Interface<'a> {
    /// The interface called `name`, which may be missing.
    pub(crate) fn new(name: &'a str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        Ok(Self { name, socket })
    }

    fn get(&self, code: libc::c_ulong) -> io::Result<[u8; 24]> {
        let mut request = Request::new(self.name)?;
        request.serve(&self.socket, code as libc::Ioctl)?;
        Ok(request.value)
    }

    fn set(&self, code: libc::c_ulong, value: &[u8]) -> io::Result<()> {
        Request::new(self.name)?.with(value).serve(&self.socket, code as libc::Ioctl)
    }

    /// Its number.
    pub(crate) fn index(&self) -> io::Result<u32> {
        Request::new(self.name)?;
        Ok(rustix::net::netdevice::name_to_index(&self.socket, self.name)?)
    }

    fn flags(&self) -> io::Result<u16> {
        let value = self.get(libc::SIOCGIFFLAGS)?;
        Ok(u16::from_ne_bytes([value[0], value[1]]))
    }

    /// Whether it is up and has a carrier.
    pub(crate) fn is_running(&self) -> io::Result<bool> {
        let running = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
        Ok(self.flags()? & running == running)
    }

    /// Whether its frames start with an Ethernet header.
    pub(crate) fn is_ethernet(&self) -> io::Result<bool> {
        let value = self.get(libc::SIOCGIFHWADDR)?;
        let kind = u16::from_ne_bytes([value[0], value[1]]);
        Ok([libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK].contains(&kind))
    }

    /// The longest packet that it sends, in bytes without an Ethernet header.
    pub(crate) fn mtu(&self) -> io::Result<usize> {
        let value = self.get(libc::SIOCGIFMTU)?;
        let mtu = i32::from_ne_bytes([value[0], value[1], value[2], value[3]]);
        Ok(usize::try_from(mtu).unwrap_or(0))
    }

    /// Its Ethernet address.
    pub(crate) fn ethernet_address(&self) -> io::Result<[u8; 6]> {
        let value = self.get(libc::SIOCGIFHWADDR)?;
        Ok([2, 3, 4, 5, 6, 7].map(|at| value[at]))
    }

    /// Whether it is a device on a bus of the machine, unlike `veth` and TAP.
    pub(crate) fn is_hardware(&self) -> bool {
        // `struct ethtool_drvinfo`: the name of the driver, versions, and the place on the bus.
        const GET_DRIVER: u32 = 3;
        let mut info = [0u32; 49];
        info[0] = GET_DRIVER;
        let is_read = self.ethtool(&mut info).is_ok();
        let text = |word: usize| info[word].to_ne_bytes()[0] != 0;
        let (driver, bus) = (1, 25);
        let is_tun = info[driver].to_ne_bytes()[..3] == *b"tun";
        is_read && text(bus) && !is_tun
    }

    /// Its receive queues; 1 if the driver does not report them.
    pub(crate) fn rx_queues(&self) -> u32 {
        // `struct ethtool_channels`: the command, four limits, and four counts.
        const GET_CHANNELS: u32 = 0x3c;
        let mut channels = [0u32; 9];
        channels[0] = GET_CHANNELS;
        let is_read = self.ethtool(&mut channels).is_ok();
        let (rx, combined) = (5, 8);
        if is_read { (channels[rx] + channels[combined]).max(1) } else { 1 }
    }

    /// Whether the kernel has an address on it, apart from link-local ones of IPv6.
    pub(crate) fn has_address(&self) -> bool {
        const LINK_LOCAL: &str = "20";
        let text = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
        let has_ipv6 = text.lines().any(|line| {
            let mut words = line.split_ascii_whitespace().skip(3);
            words.next() != Some(LINK_LOCAL) && words.nth(1) == Some(self.name)
        });
        has_ipv6 || self.get(libc::SIOCGIFADDR).is_ok()
    }

    /// Has its driver answer `words`, which begin with the command.
    fn ethtool<const WORDS: usize>(&self, words: &mut [u32; WORDS]) -> io::Result<()> {
        const SIOCETHTOOL: libc::c_ulong = 0x8946;
        // The kernel writes the words of the command, as many as callers pass.
        let address = std::ptr::from_mut(words).expose_provenance();
        let mut request = Request::new(self.name)?.with(&address.to_ne_bytes());
        request.serve(&self.socket, SIOCETHTOOL as libc::Ioctl)
    }

    /// Sets it up.
    pub(crate) fn set_up(&self) -> io::Result<()> {
        let flags = self.flags()? | libc::IFF_UP as u16;
        self.set(libc::SIOCSIFFLAGS, &flags.to_ne_bytes())
    }

    /// Sets its IPv4 address and the length of its prefix.
    pub(crate) fn set_address(&self, address: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix_len.min(32))).unwrap_or(0);
        self.set(libc::SIOCSIFADDR, &socket_address(address))?;
        self.set(libc::SIOCSIFNETMASK, &socket_address(Ipv4Addr::from(mask)))
    }

    /// Adds a default route to `gateway` through it. The route disappears with the interface.
    pub(crate) fn add_default_route(&self, gateway: Ipv4Addr) -> io::Result<()> {
        let mut device = [0u8; NAME_BYTES];
        device[..self.name.len()].copy_from_slice(self.name.as_bytes());
        // SAFETY: null pointers and zeros are valid in every field.
        let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
        let any = socket_address(Ipv4Addr::UNSPECIFIED);
        (route.rt_dst, route.rt_genmask) = (generic_address(any), generic_address(any));
        route.rt_gateway = generic_address(socket_address(gateway));
        route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
        route.rt_dev = device.as_mut_ptr().cast();
        // SAFETY: the pointer is to a whole `struct rtentry`, which the kernel reads; the name in
        // it ends with a zero and is alive.
        let result = unsafe {
            libc::ioctl(self.socket.as_raw_fd(), libc::SIOCADDRT as libc::Ioctl, &raw const route)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sets its Ethernet address.
    pub(crate) fn set_ethernet_address(&self, address: [u8; 6]) -> io::Result<()> {
        let mut value = [0; 8];
        value[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
        value[2..].copy_from_slice(&address);
        self.set(libc::SIOCSIFHWADDR, &value)
    }

    /// Sets the most bytes of a packet.
    pub(crate) fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        self.set(libc::SIOCSIFMTU, &mtu.to_ne_bytes())
    }
}

/// `struct sockaddr_in`.
fn socket_address(address: Ipv4Addr) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&address.octets());
    bytes
}

/// The same as `struct sockaddr`.
fn generic_address(bytes: [u8; 16]) -> libc::sockaddr {
    libc::sockaddr {
        sa_family: u16::from_ne_bytes([bytes[0], bytes[1]]),
        sa_data: std::array::from_fn(|idx| bytes[idx + 2] as libc::c_char),
    }
}

/// Names of the interfaces that this thread sees, in the order of the kernel.
pub(crate) fn names() -> Vec<String> {
    // Of the thread: it may be in another namespace than the process.
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.split_once(':'));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_an_interface_and_others_are_missing() {
        assert!(names().iter().any(|name| name == "lo"), "{:?}", names());
        let lo = Interface::new("lo").unwrap();
        assert!(lo.index().unwrap() > 0 && lo.is_ethernet().unwrap());
        assert_eq!(lo.ethernet_address().unwrap(), [0; 6]);
        for name in ["", "none0", "longer-than-names-are", "a/b", "a\0b"] {
            let missing = Interface::new(name).unwrap().index().unwrap_err();
            assert_eq!(missing.raw_os_error(), Some(libc::ENODEV), "{name}");
        }
    }
}
