//! Linux as the router, in a namespace.

use std::time::Duration;

use crate::ends::Ends;
use crate::frames::{Family, Step, host};
use crate::netns::Namespace;

/// Time between two of three queries for a neighbour.
const ASK_AGAIN_MS: u32 = 200;
/// Longer than the kernel waits for a neighbour.
const PAUSE: Duration = Duration::from_millis(1500);
/// Hosts whose Ethernet addresses routers are configured with; they query others.
pub const KNOWN_HOSTS: [u8; 11] = [2, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];

/// The kernel as router between two links.
pub struct KernelRouter {
    router: Namespace,
    ends: Ends,
}

impl KernelRouter {
    /// A router with the addresses and routes of `conf/ip-router.click` or
    /// `conf/ipv6-router.click`.
    ///
    /// # Errors
    /// The reason why namespaces are unavailable.
    pub fn new(family: Family) -> Result<Self, String> {
        let router = Namespace::new()?;
        set_parameters(&router, family)?;
        let ends = Ends::new(&router, family)?;
        router.ip(&match family {
            Family::V4 => addresses_v4(),
            Family::V6 => addresses_v6(),
        })?;
        for lan in 0..2 {
            let version = if family == Family::V4 { 4 } else { 6 };
            let name = format!("ipv{version}/neigh/lan{lan}/retrans_time_ms");
            router.set(&name, ASK_AGAIN_MS)?;
        }
        Ok(Self { router, ends })
    }

    /// Plays a scenario; returns the frames that left by each link.
    pub fn run(&mut self, steps: &[Step]) -> [Vec<Vec<u8>>; 2] {
        self.forget_neighbours();
        self.ends.play(steps, PAUSE)
    }

    /// Forgets the neighbours that it learned in scenarios.
    fn forget_neighbours(&self) {
        self.router.ip("neigh flush all\n").expect("a table of neighbours");
    }
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
            // Replies are compared one by one: no limit of their rate may omit one.
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

/// Lines of `ip` for the links of `conf/ip-router.click`.
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

/// Lines of `ip` for the links of `conf/ipv6-router.click`: a global and a link-local address each.
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
