//! Exchanges packets with all members of a multicast group, in UDP.
//!
//! # Synopsis
//! `McastSocket(MCASTIP, MCASTPORT [, SOURCEIP [, SOURCEPORT]], LOOP, SNAPLEN, SNDBUF, RCVBUF,
//! TIMESTAMP, CAPACITY, HEADROOM)`
//!
//! # Ports
//! An input and an output, both optional. Input 0: packets to be sent, pushed, or asked for when
//! the socket takes them. Output 0, push: packets that came. No packet gets from one to the other.
//!
//! # Configuration
//! - `MCASTIP`, `MCASTPORT`: the group
//! - `SOURCEIP`, `SOURCEPORT`: where packets are sent from, and by which interface they go and
//!   come; by default what the system's routes say. Its own packets are not heard then
//! - `LOOP`: whether programs on this machine hear what is sent, this one included unless
//!   `SOURCEIP` is given; true by default
//! - the others are as with `Socket`
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `local` | read | where packets are sent from: `IP:PORT` |
//! | `peer` | read | the group |
//! | `length` | read | packets that wait |
//! | `sent`, `received` | read | packets |
//!
//! # Drops
//! - `no peer`, `connection lost`: never
//! - `too many wait`: `CAPACITY` packets do
//! - `refused by the system`: the packet is too long, or there is no way to the group
//!
//! # Threads
//! Belongs to one worker, between whose tasks the socket is looked at, each millisecond at least.
//!
//! # Example
//! ```text
//! link :: McastSocket(239.0.0.1, 1234, 127.0.0.1) -> HostEtherFilter(2:0:0:0:0:1) -> Discard;
//! ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> link;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::transport::{Place, Protocol, Transport};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;

use super::traffic::{HANDLERS, REASONS, Traffic};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("McastSocket", "0-1/0-1", "a/h", || Box::new(McastSocket::new()))
        .flow("x/y")
        .drops(&REASONS);

/// See the module.
pub struct McastSocket {
    traffic: Traffic,
}

impl McastSocket {
    fn new() -> Self {
        Self { traffic: Traffic::new() }
    }
}

impl Element for McastSocket {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut group, mut port, mut loops) = (None::<Ipv4Addr>, 0, true);
        let (mut source, mut source_port) = (None::<Ipv4Addr>, 0);
        args.read_mp("MCASTIP", &mut group)
            .read_mp("MCASTPORT", &mut port)
            .read_p("SOURCEIP", &mut source)
            .read_p("SOURCEPORT", &mut source_port)
            .read("LOOP", &mut loops);
        let [send_bytes, receive_bytes] = self.traffic.read(args);
        match group {
            Some(group) if !group.is_multicast() => {
                args.error_at("MCASTIP", "must be a multicast address, 224.0.0.0/4");
            }
            Some(_) if port == 0 => args.error_at("MCASTPORT", "must not be 0"),
            Some(group) => {
                self.traffic.transport = Some(Transport {
                    protocol: Protocol::Multicast,
                    place: Place::Ip(group, port),
                    local: source.map(|source| Place::Ip(source, source_port)),
                    is_client: true,
                    no_delay: false,
                    send_bytes,
                    receive_bytes,
                    loops,
                });
            }
            None => {}
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.traffic.open(cx, false)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.traffic.push(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        self.traffic.run(cx, |_, _| true)
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        cx.schedule_task();
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        HANDLERS
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        self.traffic.read_handler(name)
    }

    fn held(&self) -> usize {
        self.traffic.held()
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.traffic.take(cx, &mut old.traffic);
        }
    }
}
