//! Exchanges packets with the members of a multicast group over UDP.
//!
//! # Synopsis
//! `McastSocket(MCASTIP, MCASTPORT [, SOURCEIP [, SOURCEPORT]], LOOP, SNAPLEN, SNDBUF, RCVBUF,
//! TIMESTAMP, CAPACITY, HEADROOM)`
//!
//! # Ports
//! Zero or one input, zero or one output. Input 0, push or pull: packets to send; pulled when the
//! socket accepts them. Output 0, push: received packets. Packets do not pass from the input to the
//! output.
//!
//! # Configuration
//! - `MCASTIP`, `MCASTPORT`: the group
//! - `SOURCEIP`, `SOURCEPORT`: source address and port of sent packets, which also select the
//!   interface for sending and receiving; the element then ignores its own packets. Default:
//!   selected by the routes of the system
//! - `LOOP`: deliver sent packets to this machine as well, and to this element unless `SOURCEIP` is
//!   given; default: true
//! - for the others see `Socket`
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `local` | read | source of sent packets: `IP:PORT` |
//! | `peer` | read | the group |
//! | `length` | read | queued packets |
//! | `sent`, `received` | read | packets |
//!
//! # Drops
//! - `no peer`, `connection lost`: never
//! - `too many wait`: `CAPACITY` packets are already queued
//! - `refused by the system`: the packet is too long, or the group is unreachable
//!
//! # Threads
//! Runs on one worker, which polls the socket between its tasks, at least every millisecond.
//!
//! # Example
//! ```text
//! link :: McastSocket(239.0.0.1, 1234, 127.0.0.1) -> HostEtherFilter(2:0:0:0:0:1) -> Discard;
//! ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> link;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::Args;
use warpswitch_graph::transport::{Place, Protocol, Transport};
use warpswitch_graph::{ConfigureContext, ElementClass};

use super::socket::Socket;
use super::traffic::REASONS;
use warpswitch_elements_lookup::names::{Port, UDP};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("McastSocket", "0-1/0-1", "a/h", || Box::new(Socket::new(read_arguments)))
        .consumes_as("sent")
        .flow("x/y")
        .drops(&REASONS);

/// Reads the arguments of `McastSocket`.
fn read_arguments(socket: &mut Socket, args: &mut Args<'_>, _context: &ConfigureContext<'_>) {
    let (mut group, mut port, mut loops) = (None::<Ipv4Addr>, Port::<UDP>(0), true);
    let (mut source, mut source_port) = (None::<Ipv4Addr>, Port::<UDP>(0));
    args.read_mp("MCASTIP", &mut group)
        .read_mp("MCASTPORT", &mut port)
        .read_p("SOURCEIP", &mut source)
        .read_p("SOURCEPORT", &mut source_port)
        .read("LOOP", &mut loops);
    let [send_bytes, receive_bytes] = socket.traffic.read(args);
    match group {
        Some(group) if !group.is_multicast() => {
            args.error_at("MCASTIP", "must be a multicast address, 224.0.0.0/4");
        }
        Some(_) if port.0 == 0 => args.error_at("MCASTPORT", "must not be 0"),
        Some(group) => {
            socket.traffic.transport = Some(Transport {
                protocol: Protocol::Multicast,
                place: Place::Ip(group, port.0),
                local: source.map(|source| Place::Ip(source, source_port.0)),
                is_client: true,
                no_delay: false,
                send_bytes,
                receive_bytes,
                loops,
            });
        }
        None => {}
    }
}
