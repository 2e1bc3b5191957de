//! Exchanges packets with another program through a socket.
//!
//! # Synopsis
//! `Socket(TCP | UDP, IP, PORT [, LOCALIP [, LOCALPORT]], …)`,
//! `Socket(UNIX | UNIX_DGRAM, FILENAME [, LOCALFILENAME], …)`
//!
//! # Ports
//! Zero or one input, zero or one output. Input 0, push or pull: packets to send; pulled when the
//! socket accepts them. Output 0, push: received packets. Packets do not pass from the input to the
//! output.
//!
//! # Configuration
//! - `IP`, `PORT`, `FILENAME`: address that a server listens on or a client connects to. A UDP
//!   client of 0.0.0.0 sends each packet to its destination annotation
//! - `LOCALIP`, `LOCALPORT`, `LOCALFILENAME`: local address of a client; makes the element a client
//! - `CLIENT`: be a client; default: true if there is no output or a local address is given
//! - `SNAPLEN`: maximum length of a received packet in bytes, 1 to 262144; default: 2048. Longer
//!   datagrams are truncated, streams are split into packets of at most this length
//! - `NODELAY`: disable Nagle's algorithm of TCP; default: true
//! - `SNDBUF`, `RCVBUF`: socket buffer sizes in bytes; default: those of the system
//! - `TIMESTAMP`: set the timestamp of received packets; default: true
//! - `ALLOW`, `DENY`: route lookups such as `RadixIPLookup`. A server accepts all addresses that
//!   `ALLOW` has a route for, and of the others those that `DENY` has no route for
//! - `CAPACITY`: maximum number of packets queued for the socket, 1 to 65536; default: 1000
//! - `VERBOSE`: report connects and disconnects of peers; default: false
//! - `HEADROOM`, `PROPER`: accepted for compatibility, ignored
//!
//! A stream server has one peer at a time. Up to 16 other connections wait in the backlog; the
//! system refuses more, or makes them retry. A peer that shuts down only its sending side still
//! receives packets. The server closes that connection when two successive polls, about a
//! millisecond, find nothing to send.
//!
//! When a peer disconnects, the packets queued for it are dropped. Packets that arrive on the input
//! before the next peer is accepted are dropped as well; with an output, so are up to 65536 packets
//! that the input can pull. The server accepts the next peer after one millisecond without such
//! packets, or after 20 milliseconds. Replies that are delayed for longer go to the next peer.
//!
//! A client whose peer disconnects reconnects every second and keeps its queue. So does a TCP
//! client whose first connection attempt fails. For `UNIX`, a failed first attempt is an
//! initialization error, as in Click: start the server first.
//!
//! A datagram server sends to the source of the last accepted datagram. Each task receives from one
//! source only, so a reply that is pushed back immediately reaches the sender of the request. A
//! reply that passes a queue or another worker goes to the source of the last datagram by then. A
//! reply that the system has not accepted before a datagram of another source arrives is dropped.
//!
//! The socket never blocks. A new configuration with the same socket takes it over while it is
//! open. The element should keep its name; otherwise its queue is dropped, and a connection with a
//! partly sent packet is closed.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `local` | read | local address: `IP:PORT` or a path |
//! | `peer` | read | address of the peer, if any |
//! | `length` | read | queued packets |
//! | `sent`, `received` | read | packets |
//!
//! # Drops
//! - `no peer`: the server has no peer yet, or the peer disconnected or was replaced by another one
//! - `too many wait`: `CAPACITY` packets are already queued
//! - `connection lost`: a stream disconnected within the packet
//! - `refused by the system`: the datagram is too long, or its destination is unreachable
//!
//! # Threads
//! Runs on one worker, which polls the socket between its tasks, at least every millisecond.
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
use warpswitch_elements_lookup::IpLookup;
use warpswitch_elements_lookup::names::{Port, TCP, UDP};

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

    /// Reads the address to listen on or connect to, and the local address if specified.
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
                return Err(format!("cannot look up routes in '{name}'"));
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
