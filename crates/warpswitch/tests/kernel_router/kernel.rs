//! Linux as the router: three namespaces, the router in the middle, and raw ends.
//!
//! ```text
//! end of lan0 ── veth ── lan0 │ kernel, forwarding │ lan1 ── veth ── end of lan1
//! packet socket                                                     packet socket
//! ```
//! The ends have no addresses: what they answer is what a scenario sends.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

use crate::frames::{Family, Step, fence, fence_number, host, router_mac};
use crate::netns::Namespace;

/// How long a fence may be under way.
const FENCE_WAIT: Duration = Duration::from_secs(20);
/// How long the kernel waits before it asks for a neighbour again; it asks three times.
const ASK_AGAIN_MS: u32 = 200;
/// Long enough for it to give a neighbour up.
const PAUSE: Duration = Duration::from_millis(1500);
/// Bytes that links carry: more than the routes allow, so that what is too long can arrive.
const LINK_BYTES: u32 = 9000;
/// Hosts whose Ethernet addresses the kernel is told; others it has to ask for.
const KNOWN_HOSTS: [u8; 11] = [2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

/// The kernel as router between two links.
pub struct KernelRouter {
    family: Family,
    router: Namespace,
    /// A raw socket for each end; their namespaces live as long as they do.
    ends: [OwnedFd; 2],
    fences: u32,
}

impl KernelRouter {
    /// A router with the addresses and routes of `conf/ip-router.click` or
    /// `conf/ipv6-router.click`.
    ///
    /// # Errors
    /// What this machine does not let us do.
    pub fn new(family: Family) -> Result<Self, String> {
        // Frames that one core sends stay in order, through softirqs too.
        if let Some(core) = core_affinity::get_core_ids().and_then(|cores| cores.first().copied()) {
            core_affinity::set_for_current(core);
        }
        let router = Namespace::new()?;
        let hosts = [Namespace::new()?, Namespace::new()?];
        set_parameters(&router, family)?;
        let mut lines = String::new();
        for (lan, host) in hosts.iter().enumerate() {
            lines += &format!(
                "link add lan{lan} mtu {LINK_BYTES} address {} type veth peer name end \
                 mtu {LINK_BYTES} netns {}\n",
                router_mac(lan),
                host.path()
            );
        }
        router.ip(&lines)?;
        router.ip(&match family {
            Family::V4 => addresses_v4(),
            Family::V6 => addresses_v6(),
        })?;
        for lan in 0..2 {
            let version = if family == Family::V4 { 4 } else { 6 };
            let name = format!("ipv{version}/neigh/lan{lan}/retrans_time_ms");
            router.set(&name, ASK_AGAIN_MS)?;
        }
        let ends = [open_end(&hosts[0])?, open_end(&hosts[1])?];
        Ok(Self { family, router, ends, fences: 0 })
    }

    /// Sends the frames of a scenario, each once all that the one before caused has left; gives
    /// what left by each link.
    pub fn run(&mut self, steps: &[Step]) -> [Vec<Vec<u8>>; 2] {
        self.forget_neighbours();
        let mut left = [Vec::new(), Vec::new()];
        // What is still under way belongs to no scenario.
        self.collect(&mut [Vec::new(), Vec::new()]);
        for step in steps {
            match step.frame.is_empty() {
                true => sleep(PAUSE),
                false => self.send(step.lan, &step.frame),
            }
            self.collect(&mut left);
        }
        left
    }

    /// Forgets what scenarios taught it.
    fn forget_neighbours(&self) {
        self.router.ip("neigh flush all\n").expect("a table of neighbours");
    }

    fn send(&self, lan: usize, frame: &[u8]) {
        let sent = send(self.ends[lan].as_raw_fd(), frame, MsgFlags::empty());
        assert_eq!(sent, Ok(frame.len()), "a frame of {} bytes leaves", frame.len());
    }

    /// Adds what left by each link until now. A frame each way is sent behind all others, and
    /// forwarded behind them: when it comes, they have come.
    fn collect(&mut self, left: &mut [Vec<Vec<u8>>; 2]) {
        self.fences += 1;
        for lan in 0..2 {
            self.send(lan, &fence(self.family, lan, self.fences));
        }
        for (lan, left) in left.iter_mut().enumerate() {
            let until = Instant::now() + FENCE_WAIT;
            loop {
                let frame = self.receive(lan, until);
                match fence_number(&frame) {
                    Some(number) if number == self.fences => break,
                    Some(_) => {}
                    None if is_housekeeping(&frame) => {}
                    None => left.push(frame),
                }
            }
        }
    }

    fn receive(&self, lan: usize, until: Instant) -> Vec<u8> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            match recv(self.ends[lan].as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(bytes) => {
                    buffer.truncate(bytes);
                    return buffer;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => panic!("the end of lan{lan}: {error}"),
            }
            assert!(Instant::now() < until, "what was sent through lan{lan} did not come");
            let timeout = PollTimeout::try_from(Duration::from_millis(100)).expect("short");
            let mut fds = [PollFd::new(self.ends[lan].as_fd(), PollFlags::POLLIN)];
            // Interrupted or not: the loop looks again.
            _ = poll(&mut fds, timeout);
        }
    }
}

/// Whether the kernel sent it on its own account: multicast listener reports (RFC 3810) tell of
/// the groups that its interfaces are in, and answer nothing.
fn is_housekeeping(frame: &[u8]) -> bool {
    const REPORT: u8 = 143;
    let is_ipv6 = frame.get(12..14) == Some(&[0x86, 0xdd]);
    // Behind a hop-by-hop option of eight bytes.
    is_ipv6 && frame.get(20) == Some(&0) && frame.get(62) == Some(&REPORT)
}

fn set_parameters(router: &Namespace, family: Family) -> Result<(), String> {
    let shared: &[(&str, u32)] = match family {
        Family::V4 => &[
            ("ipv4/ip_forward", 1),
            ("ipv4/conf/all/rp_filter", 0),
            ("ipv4/conf/default/rp_filter", 0),
            ("ipv4/conf/all/send_redirects", 1),
            ("ipv4/conf/default/send_redirects", 1),
            // RFC 7126, 4.3 and 4.4: packets with source routes go no further by default.
            ("ipv4/conf/all/accept_source_route", 0),
            ("ipv4/conf/default/accept_source_route", 0),
            // Answers are looked at one by one: none is left out to limit their rate.
            ("ipv4/icmp_ratelimit", 0),
            ("ipv4/icmp_msgs_per_sec", 1_000_000),
            ("ipv4/icmp_msgs_burst", 1_000_000),
        ],
        Family::V6 => &[
            ("ipv6/conf/default/disable_ipv6", 0),
            ("ipv6/conf/all/forwarding", 1),
            ("ipv6/conf/default/forwarding", 1),
            ("ipv6/conf/default/accept_dad", 0),
            ("ipv6/conf/default/dad_transmits", 0),
            ("ipv6/icmp/ratelimit", 0),
        ],
    };
    shared.iter().try_for_each(|(name, value)| router.set(name, *value))
}

/// What a link of `conf/ip-router.click` has.
fn addresses_v4() -> String {
    let mut lines = String::new();
    for lan in 0..2 {
        lines += &format!(
            "addr add 10.0.{lan}.1/24 brd 10.0.{lan}.255 dev lan{lan}\n\
             link set lan{lan} up\n\
             route replace 10.0.{lan}.0/24 dev lan{lan} proto kernel scope link \
             src 10.0.{lan}.1 mtu 1500\n"
        );
        for number in KNOWN_HOSTS {
            let host = host(lan, number);
            lines += &format!(
                "neigh replace {} lladdr {} dev lan{lan} nud permanent\n",
                host.v4, host.mac
            );
        }
    }
    lines
}

/// What a link of `conf/ipv6-router.click` has: an address each for all and for the link.
fn addresses_v6() -> String {
    let mut lines = String::new();
    for (lan, (prefix, link, mtu)) in
        [("2001:db8:0:a", "fe80::ff:fe00:0", 1500), ("2001:db8:0:b", "fe80::ff:fe00:100", 1400)]
            .into_iter()
            .enumerate()
    {
        lines += &format!(
            "link set lan{lan} addrgenmode none\n\
             link set lan{lan} up\n\
             addr add {link}/64 dev lan{lan} nodad\n\
             addr add {prefix}::1/64 dev lan{lan} nodad noprefixroute\n\
             route add {prefix}::/64 dev lan{lan} proto kernel mtu {mtu}\n"
        );
        for number in KNOWN_HOSTS {
            let host = host(lan, number);
            lines += &format!(
                "neigh replace {} lladdr {} dev lan{lan} nud permanent\n",
                host.v6, host.mac
            );
        }
    }
    lines
}

/// A socket for all frames of the interface `end`.
fn open_end(host: &Namespace) -> Result<OwnedFd, String> {
    host.ip("link set end up\n")?;
    host.inside(|| {
        let flags = SockFlag::SOCK_CLOEXEC;
        let end = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)
            .map_err(|error| format!("a packet socket: {error}"))?;
        let interfaces = getifaddrs().map_err(|error| format!("interfaces: {error}"))?;
        let address = interfaces
            .filter(|interface| interface.interface_name == "end")
            .find_map(|interface| interface.address?.as_link_addr().copied())
            .ok_or("the end of a link is not there")?;
        bind(end.as_raw_fd(), &address).map_err(|error| format!("bind: {error}"))?;
        Ok(end)
    })
}
