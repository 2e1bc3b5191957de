//! Exchanges IPv4 packets of one protocol with a raw socket of the system.
//!
//! # Synopsis
//! `RawSocket(TYPE [, PORT], SNAPLEN, SNDBUF, RCVBUF, TIMESTAMP, CAPACITY, HEADROOM)`
//!
//! # Ports
//! Zero or one input, zero or one output. Input 0, pull: packets to send, which start with the IP
//! header. Output 0, push: received packets, with the network header and the destination address
//! annotation set. Packets do not pass from the input to the output.
//!
//! # Configuration
//! - `TYPE`: protocol over IP, as number or name, such as `UDP` or `ICMP`
//! - `PORT`: emits only packets to this port, with `TCP` and `UDP`; echo messages with this
//!   identifier, with `ICMP`; packets with this key or PPTP call, with `GRE`; default: 0 (all)
//! - for the others see `Socket`; `SNAPLEN` truncates longer packets
//!
//! The kernel routes sent packets by their destination address. It fills in the checksum, and the
//! source address and identification if they are 0. It handles received packets as well: it
//! answers pings, and resets TCP connections that are not its own. With `UDP`, `PORT` is reserved,
//! so the kernel reports no unreachable port. The element needs `CAP_NET_RAW`.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `local`, `peer` | read | `0.0.0.0`, empty |
//! | `length` | read | queued packets |
//! | `sent`, `received` | read | packets |
//!
//! # Drops
//! - `no peer`, `connection lost`, `too many wait`: never
//! - `refused by the system`: the packet is shorter than an IP header, too long, or has no route
//! - `no IP header`: received, but `SNAPLEN` is shorter than the header
//!
//! # Threads
//! Runs on one worker, which polls the socket between its tasks, at least every millisecond.
//!
//! # Example
//! ```text
//! RawSocket(UDP, 53) -> CheckIPHeader -> Print(dns) -> Discard;
//! ping :: ICMPPingSource(0.0.0.0, 10.0.0.2, IDENTIFIER 7) -> Queue -> s :: RawSocket(ICMP, 7)
//!     -> ping;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::Args;
use warpswitch_graph::transport::{Place, Protocol, Transport};
use warpswitch_graph::{ConfigureContext, ElementClass};

use super::socket::Socket;
use super::traffic::RAW_REASONS;
use warpswitch_elements_lookup::names::{self, Port, TCP, UDP};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("RawSocket", "0-1/0-1", "l/h", || Box::new(Socket::new(read_arguments)))
        .consumes_as("sent")
        .flow("x/y")
        .drops(&RAW_REASONS);

/// Protocols over IP that have a selector beside ports.
const ICMP: u8 = 1;
const GRE: u8 = 47;

/// Reads the arguments of `RawSocket`.
fn read_arguments(socket: &mut Socket, args: &mut Args<'_>, _context: &ConfigureContext<'_>) {
    let mut kind = None::<names::Protocol>;
    args.read_mp("TYPE", &mut kind);
    let Some(names::Protocol(kind)) = kind else { return };
    let port = match kind {
        TCP => read_port::<TCP>(args),
        UDP => read_port::<UDP>(args),
        _ => {
            let mut port = 0u16;
            args.read_p("PORT", &mut port);
            port
        }
    };
    if port != 0 && ![TCP, UDP, ICMP, GRE].contains(&kind) {
        args.error_at("PORT", "only for TCP, UDP, ICMP and GRE");
    }
    if kind == 0 {
        args.error_at("TYPE", "must be 1 to 255");
    }
    let [send_bytes, receive_bytes] = socket.traffic.read(args);
    socket.traffic.transport = Some(Transport {
        protocol: Protocol::RawIp(kind),
        place: Place::Ip(Ipv4Addr::UNSPECIFIED, port),
        local: None,
        is_client: true,
        no_delay: false,
        send_bytes,
        receive_bytes,
        loops: false,
    });
}

fn read_port<const PROTOCOL: u8>(args: &mut Args<'_>) -> u16 {
    let mut port = Port::<PROTOCOL>(0);
    args.read_p("PORT", &mut port);
    port.0
}

#[cfg(test)]
mod tests {
    use crate::testing::errors;

    #[test]
    fn reads_protocols_and_ports() {
        for (arguments, expected) in [
            ("TCP", "no sockets are opened here"),
            ("udp, domain, SNAPLEN 100", "no sockets are opened here"),
            ("47, 7", "no sockets are opened here"),
            ("icmp, 70000", "PORT: out of range"),
            ("esp, 7", "PORT: only for TCP, UDP, ICMP and GRE"),
            ("0", "TYPE: must be 1 to 255"),
            ("", "TYPE: required argument missing"),
            ("none-such", "TYPE"),
        ] {
            let errors = errors(&format!("RawSocket({arguments}) -> Discard"));
            assert!(errors.contains(expected), "{arguments}: {errors}");
        }
    }
}
