//! Tunnels between two switches, and between a switch and interfaces of the kernel.
//!
//! ```text
//! host ─ end ═ eth0 ─ switch ─ tunnel ─ under ═ under ─ tunnel ─ switch ─ eth0 ═ end ─ host
//! 10.0.0.1            site 0           192.0.2.1  192.0.2.2      site 1         10.0.0.2
//! ```
//! A tunnel interface of the kernel takes the place of switch and host at site 1.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Instant;

use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use warpswitch_wire::checksum::checksum;

use crate::netns::Namespace;
use crate::{LONG, SHORT, Switch, skip, with};

/// The MTU of hosts: the longest headers of a tunnel fit into 1500 bytes as well.
const MTU: u32 = 1400;
/// Bytes of a TCP transfer.
const TRANSFER_BYTES: usize = 200_000;

/// Two sites with an underlay between them.
struct Sites {
    sites: [Namespace; 2],
}

impl Sites {
    fn new() -> Result<Self, String> {
        let sites = [Namespace::new()?, Namespace::new()?];
        sites[0].link("under", &sites[1], "under")?;
        for (number, site) in (1..).zip(&sites) {
            // A kernel without IPv6 has no such parameter.
            _ = site.set("ipv6/conf/under/disable_ipv6", 0);
            site.ip(&format!(
                "link set lo up\naddr add 192.0.2.{number}/24 dev under\nlink set under up\n"
            ))?;
        }
        Ok(Self { sites })
    }

    /// Adds IPv6 addresses to the underlay.
    fn add_ipv6(&self) -> Result<(), String> {
        (1..).zip(&self.sites).try_for_each(|(number, site)| {
            site.ip(&format!("addr add fd00::{number}/64 dev under nodad\n"))
        })
    }

    /// Adds a host and a switch to a site: a learning switch with the tunnel port.
    fn add_switch(&self, site: usize, tunnel: &str) -> Result<(Namespace, Switch), String> {
        let (number, between) = (site + 1, &self.sites[site]);
        let host = Namespace::new()?;
        between.link("eth0", &host, "end")?;
        between.ip("link set eth0 up\n")?;
        host.ip(&format!(
            "link set end address 02:00:00:00:00:0{number} mtu {MTU}\n\
             addr add 10.0.0.{number}/24 dev end\nlink set end up\n"
        ))?;
        let ports = format!("eth0,{tunnel}");
        let arguments = ["--ports", &ports, "--fail-mode", "standalone"];
        Ok((host, between.inside(|| Switch::start(&arguments))))
    }

    /// Adds a tunnel interface of the kernel to site 1.
    fn add_interface(&self, kind: &str) -> Result<(), String> {
        self.sites[1].ip(&format!(
            "link add tunnel type {kind}\n\
             link set tunnel address 02:00:00:00:00:02 mtu {MTU}\n\
             addr add 10.0.0.2/24 dev tunnel\nlink set tunnel up\n"
        ))
    }
}

/// Whether a host gets a reply to an echo request before `patience` ends.
fn pings(from: &Namespace, to: Ipv4Addr, patience: std::time::Duration) -> bool {
    let socket = from.inside(|| {
        let flags = SockFlag::SOCK_CLOEXEC;
        socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp)
    });
    // Raw sockets send to addresses like those of UDP.
    let socket = UdpSocket::from(socket.expect("a raw socket"));
    socket.set_read_timeout(Some(SHORT)).expect("a time-out");
    let mut request = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    request.extend(0..56u8);
    let sum = checksum(&request);
    request[2..4].copy_from_slice(&sum.to_be_bytes());
    let start = Instant::now();
    while start.elapsed() < patience {
        // The address of the peer may be unknown still.
        _ = socket.send_to(&request, SocketAddr::from((to, 0)));
        let mut packet = [0; 200];
        while let Ok((bytes, _)) = socket.recv_from(&mut packet) {
            if bytes > 28 && packet[20..22] == [0, 0] && packet[24..bytes] == request[4..] {
                return true;
            }
        }
    }
    false
}

/// Checks that a ping and a TCP transfer pass from `from`, 10.0.0.1, to `to`, 10.0.0.2.
fn check(from: &Namespace, to: &Namespace, what: &str) {
    let address = Ipv4Addr::new(10, 0, 0, 2);
    assert!(pings(from, address, LONG), "{what}: no reply to a ping");
    let listener = to.inside(|| TcpListener::bind((address, 7)).expect("a free port"));
    let sent: Vec<u8> = (0..TRANSFER_BYTES).map(|at| (at / 7) as u8).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(&sent).expect("it is read");
        });
        let mut stream = from.inside(|| {
            TcpStream::connect_timeout(&SocketAddr::from((address, 7)), LONG)
                .unwrap_or_else(|why| panic!("{what}: {why}"))
        });
        stream.set_read_timeout(Some(LONG)).expect("a time-out");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap_or_else(|why| panic!("{what}: {why}"));
        assert!(received == sent, "{what}: other bytes");
    });
}

/// The tunnel port of a site.
fn port(kind: &str, remote: &str, options: &str) -> String {
    format!("{kind}:t:remote_ip={remote}{options}")
}

#[test]
fn hosts_reach_each_other_through_tunnels_between_switches() {
    for (kind, options) in [
        ("vxlan", ",key=5"),
        ("vxlan", ",key=5,csum=true,dst_port=8472,ttl=1"),
        ("geneve", ",key=5,tos=inherit,ttl=inherit"),
        ("gre", ""),
        ("gre", ",key=5,csum=true,df_default=false,tos=0x20,ttl=inherit"),
    ] {
        with(Sites::new(), |sites| {
            let [a, b] = [(0, "192.0.2.2"), (1, "192.0.2.1")].map(|(site, remote)| {
                sites.add_switch(site, &port(kind, remote, options)).expect("a site")
            });
            check(&a.0, &b.0, &format!("{kind}{options}"));
            let report = a.1.stop();
            assert!(!report.contains("dropped by tunnels"), "{report}");
            b.1.stop();
        });
    }
}

#[test]
fn tunnels_pass_over_ipv6() {
    with(Sites::new(), |sites| {
        if let Err(why) = sites.add_ipv6() {
            return skip(&format!("no IPv6: {why}"));
        }
        for kind in ["vxlan", "geneve", "gre"] {
            let [a, b] = [(0, "fd00::2"), (1, "fd00::1")].map(|(site, remote)| {
                sites
                    .add_switch(site, &port(kind, remote, ",key=5,tos=inherit,ttl=inherit"))
                    .expect("a site")
            });
            check(&a.0, &b.0, &format!("{kind} over IPv6"));
            [a.1, b.1].into_iter().for_each(|switch| _ = switch.stop());
            sites.sites.iter().for_each(|site| site.ip("link del eth0\n").expect("it exists"));
        }
    });
}

#[test]
fn a_tunnel_drops_frames_with_another_key() {
    with(Sites::new(), |sites| {
        // Broadcasts leave through both tunnels, and arrive through one.
        let other = ",vxlan:u:remote_ip=192.0.2.2,key=6";
        let both = port("vxlan", "192.0.2.2", ",key=5") + other;
        let a = sites.add_switch(0, &both).expect("a site");
        let b = sites.add_switch(1, &port("vxlan", "192.0.2.1", ",key=6")).expect("a site");
        assert!(pings(&a.0, Ipv4Addr::new(10, 0, 0, 2), LONG));
        let report = b.1.stop();
        assert!(report.contains("no tunnel port for key and addresses"), "{report}");
        a.1.stop();
    });
}

#[test]
fn tunnel_interfaces_of_the_kernel_are_peers() {
    let v4 = "remote 192.0.2.1 local 192.0.2.2";
    let v6 = "remote fd00::1 local fd00::2";
    for (interface, tunnel) in [
        (format!("vxlan id 5 {v4} dstport 4789"), port("vxlan", "192.0.2.2", ",key=5")),
        (
            format!("vxlan id 5 {v4} dstport 4789 udpcsum"),
            port("vxlan", "192.0.2.2", ",key=5,csum=true"),
        ),
        (format!("vxlan id 5 {v6} dstport 4789"), port("vxlan", "fd00::2", ",key=5")),
        (
            format!("vxlan id 5 {v6} dstport 4789 udp6zerocsumtx"),
            port("vxlan", "fd00::2", ",key=5"),
        ),
        ("geneve id 5 remote 192.0.2.1".to_owned(), port("geneve", "192.0.2.2", ",key=5")),
        (format!("gretap {v4}"), port("gre", "192.0.2.2", "")),
        (format!("gretap {v4} key 5 csum"), port("gre", "192.0.2.2", ",key=5,csum=true")),
    ] {
        with(Sites::new(), |sites| {
            if interface.contains(v6)
                && let Err(why) = sites.add_ipv6()
            {
                return skip(&format!("no IPv6: {why}"));
            }
            if let Err(why) = sites.add_interface(&interface) {
                return skip(&format!("the kernel has no '{interface}': {why}"));
            }
            let site = &sites.sites[1];
            // On a veth the kernel leaves checksums and segments of inner frames to a device that
            // does not exist.
            let tune = || Command::new("ethtool").args(["-K", "tunnel", "tx", "off"]).output();
            let is_tuned = site.inside(tune).is_ok_and(|output| output.status.success());
            let (host, switch) = sites.add_switch(0, &tunnel).expect("a site");
            if is_tuned {
                check(&host, site, &interface);
            } else {
                skip("no TCP through tunnels of the kernel: ethtool is missing");
                assert!(pings(&host, Ipv4Addr::new(10, 0, 0, 2), LONG), "{interface}");
            }
            switch.stop();
        });
    }
}
