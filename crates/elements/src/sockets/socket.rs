//! Exchanges packets with another program through a socket.
//!
//! # Synopsis
//! `Socket(TCP | UDP, IP, PORT [, LOCALIP [, LOCALPORT]], …)`,
//! `Socket(UNIX | UNIX_DGRAM, FILENAME [, LOCALFILENAME], …)`
//!
//! # Ports
//! An input and an output, both optional. Input 0: packets to be sent, pushed, or asked for when
//! the socket takes them. Output 0, push: packets that came. No packet gets from one to the other.
//!
//! # Configuration
//! - `IP`, `PORT`, `FILENAME`: where a server waits, or whom a client talks to; a UDP client of
//!   0.0.0.0 sends each packet to its destination annotation
//! - `LOCALIP`, `LOCALPORT`, `LOCALFILENAME`: where a client talks from; makes it a client
//! - `CLIENT`: whether it is a client; by default it is if it has no output or a local place
//! - `SNAPLEN`: the most bytes of a packet that comes, 2048 by default; what a datagram has beyond
//!   is cut off, a stream is cut into packets of at most so many
//! - `NODELAY`: whether TCP sends every packet at once, true by default
//! - `SNDBUF`, `RCVBUF`: bytes that the system may hold, by default what it likes
//! - `TIMESTAMP`: whether packets get the time at which they came, true by default
//! - `ALLOW`, `DENY`: lookups such as `RadixIPLookup`: a server hears those to whom `ALLOW` has a
//!   route, and else those to whom `DENY` has none
//! - `CAPACITY`: packets that wait at most until the socket takes them, 1000 by default
//! - `VERBOSE`: whether to tell of peers that come and go, false by default
//! - `HEADROOM`, `PROPER`: taken, and without meaning here
//!
//! A stream has one peer at a time; up to 16 others wait outside until it goes, and the system
//! turns more away or has them call again. A server goes on sending to a peer that has closed its
//! own direction alone, and closes the connection when nothing has come for it for two looks, about
//! a millisecond. What was for a peer that went is dropped, and so is what comes until the next one
//! is let in: after a millisecond in which nothing came, or after 20. With an output, what its
//! input can pull then is dropped, too, up to 65536 packets. An answer that takes longer, as it was
//! delayed on purpose, goes to the next peer.
//!
//! A client whose peer went calls again each second, and what it has for it waits. So does one of
//! TCP that finds nobody at the start; for `UNIX` that is an error and nothing runs, as in Click:
//! start the server first. A datagram server answers whoever sent last of those that were heard. It
//! hears one sender in each task, so that an answer which is pushed back at once goes to who asked;
//! one that passes a queue, or another worker, goes to who is heard by then. An answer that the
//! system did not take before another sender was heard is dropped.
//!
//! The socket is never waited for, and goes on in a new configuration that wants the same one. Its
//! element should have the same name there: else what waits is dropped, and a connection whose
//! peer has a part of a packet is closed.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `local` | read | where it is: `IP:PORT` or a path |
//! | `peer` | read | whom it talks to, if anybody |
//! | `length` | read | packets that wait |
//! | `sent`, `received` | read | packets |
//!
//! # Drops
//! - `no peer`: nobody has come to this server yet, or not any more, or another one has
//! - `too many wait`: `CAPACITY` packets do
//! - `connection lost`: a stream broke within the packet
//! - `refused by the system`: the datagram is too long, or there is no way
//!
//! # Threads
//! Belongs to one worker, between whose tasks the socket is looked at, each millisecond at least.
//!
//! # Example
//! ```text
//! Socket(UDP, 0.0.0.0, 7) -> Queue -> Socket(UNIX, sink.socket, CLIENT true);
//! Idle -> allow :: RadixIPLookup(127.0.0.0/8 0) -> deny :: RadixIPLookup(0/0 0) -> Discard;
//! Socket(TCP, 0.0.0.0, 8080, ALLOW allow, DENY deny) -> Discard;
//! ```

use std::net::Ipv4Addr;
use std::path::PathBuf;

use warpswitch_graph::language::args::{Args, ArgsError, ElementRef};
use warpswitch_graph::transport::{Place, Protocol, Transport};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::Batch;

use super::traffic::{HANDLERS, REASONS, Traffic};
use crate::ip::ip_lookup::IpLookup;
use crate::ip::names::{Port, TCP, UDP};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Socket", "0-1/0-1", "a/h", || Box::new(Socket::new(read_arguments)))
        .consumes_as("sent")
        .flow("x/y")
        .drops(&REASONS);

/// The most bytes of a path of a socket that systems take.
const PATH_BYTES_MAX: usize = 107;

/// Reads the arguments of a class.
pub(super) type Reader = fn(&mut Socket, &mut Args<'_>, &ConfigureContext<'_>);

/// See the module; `McastSocket` differs in its arguments alone.
pub struct Socket {
    pub(super) traffic: Traffic,
    allow: Option<usize>,
    deny: Option<usize>,
    read_arguments: Reader,
}

impl Socket {
    pub(super) fn new(read_arguments: Reader) -> Self {
        Self { traffic: Traffic::new(), allow: None, deny: None, read_arguments }
    }

    /// Where it is or whom it talks to, and where from if that is said.
    fn read_places(args: &mut Args<'_>, protocol: Protocol) -> (Place, Option<Place>) {
        match protocol {
            Protocol::Tcp => return Self::read_ip_places::<TCP>(args),
            Protocol::Udp => return Self::read_ip_places::<UDP>(args),
            _ => {}
        }
        let (mut path, mut local) = (String::new(), None::<String>);
        args.read_mp("FILENAME", &mut path).read_p("LOCALFILENAME", &mut local);
        if [Some(&path), local.as_ref()].into_iter().flatten().any(|p| p.len() > PATH_BYTES_MAX) {
            args.error_at("", "filename too long");
        }
        (Place::Path(path.into()), local.map(PathBuf::from).map(Place::Path))
    }

    /// The same for addresses and ports of transport `PROTOCOL`.
    fn read_ip_places<const PROTOCOL: u8>(args: &mut Args<'_>) -> (Place, Option<Place>) {
        let (mut ip, mut port) = (Ipv4Addr::UNSPECIFIED, Port::<PROTOCOL>::default());
        let (mut local, mut local_port) = (None::<Ipv4Addr>, None::<Port<PROTOCOL>>);
        args.read_mp("IP", &mut ip)
            .read_mp("PORT", &mut port)
            .read_p("LOCALIP", &mut local)
            .read_p("LOCALPORT", &mut local_port);
        let is_local = local.is_some() || local_port.is_some();
        let local = local.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let local = Place::Ip(local, local_port.unwrap_or_default().0);
        (Place::Ip(ip, port.0), is_local.then_some(local))
    }

    /// The lookup that argument `keyword` names.
    fn read_table(
        args: &mut Args<'_>,
        keyword: &str,
        context: &ConfigureContext<'_>,
    ) -> Option<usize> {
        let mut table = None::<ElementRef>;
        args.read(keyword, &mut table);
        let idx = table?.0;
        if !context.graph.elements[idx].class.ends_with("IPLookup") {
            args.error_at(keyword, "type mismatch, expected IPRouteTable");
        }
        Some(idx)
    }
}

/// Reads the arguments of `Socket`.
fn read_arguments(socket: &mut Socket, args: &mut Args<'_>, context: &ConfigureContext<'_>) {
    let mut kind = String::new();
    args.read_mp("TYPE", &mut kind);
    let protocol = match kind.to_ascii_uppercase().as_str() {
        "TCP" => Protocol::Tcp,
        "UDP" => Protocol::Udp,
        "UNIX" => Protocol::Unix,
        "UNIX_DGRAM" => Protocol::UnixDatagram,
        "" => return,
        _ => {
            args.error_at("", &format!("unknown socket type '{kind}'"));
            return;
        }
    };
    let (place, mut local) = Socket::read_places(args, protocol);
    let (mut client, mut no_delay, mut proper) = (None::<bool>, true, false);
    args.read("CLIENT", &mut client).read("NODELAY", &mut no_delay).read("PROPER", &mut proper);
    let [send_bytes, receive_bytes] = socket.traffic.read(args);
    socket.allow = Socket::read_table(args, "ALLOW", context);
    socket.deny = Socket::read_table(args, "DENY", context);
    let is_client = client.unwrap_or(context.outputs == 0 || local.is_some());
    if !is_client {
        local = None;
    }
    let is_nowhere = matches!(&place, Place::Path(path) if path.as_os_str().is_empty());
    if !is_nowhere {
        let loops = true;
        socket.traffic.transport = Some(Transport {
            protocol,
            place,
            local,
            is_client,
            no_delay,
            send_bytes,
            receive_bytes,
            loops,
        });
    }
}

/// Whether the lookup `table` has a route to `address`; none if there is no such table.
fn has_route(cx: &mut Context<'_>, table: Option<usize>, address: Ipv4Addr) -> Option<bool> {
    cx.with_element(table?, |lookup: &mut IpLookup, _| lookup.has_route(address))
}

impl Element for Socket {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        (self.read_arguments)(self, args, context);
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        for table in [self.allow, self.deny].into_iter().flatten() {
            let is_lookup = cx.with_element(table, |_: &mut IpLookup, _| ()).is_some();
            if !is_lookup {
                let name = &cx.graph().elements[table].name;
                return Err(format!("'{name}' cannot be asked for routes from here"));
            }
        }
        let goes_by_annotation = self.traffic.transport.as_ref().is_some_and(|transport| {
            let is_any = matches!(transport.place, Place::Ip(ip, _) if ip.is_unspecified());
            transport.protocol == Protocol::Udp && transport.is_client && is_any
        });
        self.traffic.open(cx, goes_by_annotation)
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.traffic.push(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let (allow, deny) = (self.allow, self.deny);
        self.traffic.run(cx, |cx, address| {
            has_route(cx, allow, address) == Some(true)
                || has_route(cx, deny, address) != Some(true)
        })
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
