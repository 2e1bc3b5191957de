//! Exchanges packets with the kernel of this machine through a virtual interface.
//!
//! # Synopsis
//! `KernelTap(ADDR/MASK, GATEWAY, ETHER, HEADROOM, MTU, BURST, DEVNAME, IGNORE_QUEUE_OVERFLOWS)`,
//! `KernelTun(ADDR/MASK, GATEWAY, HEADROOM, MTU, BURST, DEVNAME, IGNORE_QUEUE_OVERFLOWS)`
//!
//! # Ports
//! Zero or one input, push or pull: packets that the kernel receives from the interface. Output 0,
//! push: packets that the kernel sends to the interface. Output 1 of `KernelTun`, optional: those
//! of them that hold no IP.
//!
//! # Configuration
//! - `ADDR/MASK`: IPv4 address of the kernel on the interface, and its network
//! - `ETHER`: Ethernet address of the kernel on the interface, default: random
//! - `MTU`: maximum number of bytes of an IP packet, default: 1500
//! - `BURST`: packets per batch, 1 to 256, default: 64
//! - `DEVNAME`, or `DEV_NAME`: name of the interface, default: `tap0` or `tun0`, or the next free
//!   number
//! - `GATEWAY`: address in that network to which the default route of the kernel leads; default: no
//!   route. It disappears with the interface
//! - `HEADROOM`, `IGNORE_QUEUE_OVERFLOWS`: accepted, ignored
//!
//! Packets of `KernelTap` have an Ethernet header, those of `KernelTun` start with the IP header,
//! which is set as the network header together with the destination address annotation. The
//! interface exists while the element runs. It needs `CAP_NET_ADMIN`.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `dev_name` | read | name of the interface |
//! | `received`, `sent` | read | packets from and to the kernel |
//!
//! # Drops
//! - `not sent`: the kernel refused the packet: it is too long, holds no IP, or the interface is
//!   down
//! - `no IP header`: from the kernel, without an IP header, and output 1 is not connected
//!
//! # Threads
//! Runs on one worker, which sleeps while no packets arrive.
//!
//! # Example
//! ```text
//! tun :: KernelTun(10.9.0.1/24) -> CheckIPHeader -> ICMPPingResponder -> tun;
//! ```

use std::net::Ipv4Addr;

use warpswitch_elements_support::link::find_ip;
use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress, Ipv4Prefix, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Readiness,
};
use warpswitch_io::TAP_PREFIX;
use warpswitch_packet::{BATCH_LEN_MAX, Batch, PortSpec, RxPort, TapOptions, Transmitted, TxPort};
use warpswitch_wire::link::LinkType;

use super::link::set_packet_type;

/// The classes.
pub static TAP_CLASS: ElementClass = ElementClass::new("KernelTap", "0-1/1", "a/h", || {
    Box::new(KernelTap::new(true, read_arguments))
})
.consumes_as("sent")
.flow("x/y")
.drops(&DROPS);
/// The class of devices without Ethernet headers.
pub static TUN_CLASS: ElementClass = ElementClass::new("KernelTun", "0-1/1-2", "a/h", || {
    Box::new(KernelTap::new(false, read_arguments))
})
.consumes_as("sent")
.flow("x/y")
.drops(&DROPS);

pub(super) const DROPS: [&str; 2] = ["not sent", "no IP header"];
const NOT_SENT: usize = 0;
const NO_IP: usize = 1;

/// Reads the arguments of a class.
type ArgumentReader = fn(&mut KernelTap, &mut Args<'_>);

/// See the module; `FromHost` differs in its arguments and annotations.
pub struct KernelTap {
    pub(super) device: String,
    pub(super) options: TapOptions,
    read_arguments: ArgumentReader,
    /// Whether IP packets in Ethernet frames get a network header.
    pub(super) finds_ip: bool,
    burst: usize,
    rx: Option<Box<dyn RxPort>>,
    tx: Option<Box<dyn TxPort>>,
    /// Whether the input is pulled, and the element is woken when there are packets.
    pulls: bool,
    is_woken: bool,
    received: u64,
    sent: u64,
}

impl KernelTap {
    pub(super) fn new(has_ethernet: bool, read_arguments: ArgumentReader) -> Self {
        Self {
            device: String::new(),
            options: TapOptions { has_ethernet, ..TapOptions::default() },
            read_arguments,
            finds_ip: false,
            burst: 64,
            rx: None,
            tx: None,
            pulls: false,
            is_woken: false,
            received: 0,
            sent: 0,
        }
    }

    /// The device of the element called `owner`, to open.
    pub(super) fn port_spec(&self, owner: &str) -> PortSpec {
        PortSpec {
            device: format!("{TAP_PREFIX}{}", self.device),
            tap: Some(TapOptions { owner: owner.to_owned(), ..self.options.clone() }),
            ..PortSpec::default()
        }
    }

    /// Sets the address of the kernel, and the gateway, which must be in its network.
    pub(super) fn set_addresses(
        &mut self,
        args: &mut Args<'_>,
        address: Option<Ipv4Prefix>,
        gateway: Option<Ipv4Addr>,
    ) {
        let gateway = gateway.filter(|gateway| !gateway.is_unspecified());
        let is_outside = |gateway| address.is_none_or(|prefix| !prefix.contains(gateway));
        if gateway.is_some_and(is_outside) {
            args.error_at("GATEWAY", "must be an address in the network of the interface");
        }
        self.options.address =
            address.map(|prefix| (prefix.address, u32::from(prefix.mask).count_ones() as u8));
        self.options.gateway = gateway;
    }

    /// Emits packets from the kernel.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(rx) = &mut self.rx else { return false };
        let mut batch = cx.pool().batch();
        let frames = rx.receive(cx.pool(), &mut batch, self.burst);
        if frames == 0 {
            if let Some(fd) = rx.wake_fd() {
                cx.watch(fd, Readiness::Readable);
            }
            cx.pool().recycle_empty(batch);
            return false;
        }
        self.received += frames as u64;
        let now = cx.now().0;
        for mut packet in batch.drain() {
            packet.set_timestamp_ns(now);
            if self.options.has_ethernet {
                set_packet_type(&mut packet);
                if self.finds_ip {
                    find_ip(&mut packet, LinkType::Ethernet);
                }
                cx.emit(0, packet);
            } else if find_ip(&mut packet, LinkType::RawIp) {
                cx.emit(0, packet);
            } else {
                cx.emit_or_drop(1, packet, NO_IP);
            }
        }
        cx.pool().recycle_empty(batch);
        true
    }

    /// Sends packets to the kernel.
    fn send(&mut self, cx: &mut Context<'_>, mut batch: Batch) {
        for packet in batch.drain() {
            let sent = self.tx.as_mut().map(|tx| tx.send(std::slice::from_ref(&packet)));
            if let Some(Transmitted::Frames(_)) = sent {
                self.sent += 1;
                cx.consume(packet);
            } else {
                cx.drop_packet(packet, NOT_SENT);
            }
        }
        cx.consume_batch(batch);
    }
}

/// Reads the arguments of `KernelTap` and `KernelTun`.
fn read_arguments(tap: &mut KernelTap, args: &mut Args<'_>) {
    let (mut address, mut gateway) = (None::<Ipv4Prefix>, None::<Ipv4Addr>);
    let (mut ether, mut burst, mut word) = (None::<EtherAddress>, tap.burst as u32, Raw::default());
    args.read_mp("ADDR", &mut address).read_p("GATEWAY", &mut gateway);
    if tap.options.has_ethernet {
        args.read("ETHER", &mut ether);
    }
    args.read("MTU", &mut tap.options.mtu)
        .read("BURST", &mut burst)
        .read("DEV_NAME", &mut tap.device)
        .read("DEVNAME", &mut tap.device)
        .read("HEADROOM", &mut word)
        .read("IGNORE_QUEUE_OVERFLOWS", &mut word);
    if !(1..=BATCH_LEN_MAX as u32).contains(&burst) {
        args.error_at("BURST", &format!("must be 1 to {BATCH_LEN_MAX}"));
    }
    tap.burst = burst as usize;
    tap.options.ethernet_address = ether.map(|address| address.0);
    tap.set_addresses(args, address, gateway);
}

impl Element for KernelTap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        (self.read_arguments)(self, args);
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let spec = self.port_spec(cx.name());
        self.rx = Some(cx.console().open_rx(&spec)?);
        if cx.inputs() > 0 {
            self.tx = Some(cx.console().open_tx(&spec)?);
        }
        if cx.inputs() > 0 && cx.input_is_pull(0) {
            self.pulls = true;
            self.is_woken = cx.listen_upstream(0);
        }
        cx.schedule_task();
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        self.send(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let mut worked = self.receive(cx);
        if self.pulls {
            let batch = cx.pull(0, self.burst);
            worked |= !batch.is_empty();
            self.send(cx, batch);
        }
        if worked || self.pulls && !self.is_woken {
            cx.schedule_task();
        }
        worked
    }

    fn accepts_gso(&self) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.accepts_gso())
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const ALL: &[HandlerSpec] = &[
            HandlerSpec::read("dev_name"),
            HandlerSpec::read("received"),
            HandlerSpec::read("sent"),
        ];
        // `FromHost` has no input.
        if self.finds_ip { &ALL[..2] } else { ALL }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "dev_name" => self.rx.as_ref().map(|rx| rx.device()).unwrap_or_default(),
            "received" => self.received.to_string(),
            "sent" => self.sent.to_string(),
            _ => return Err(HandlerError::Missing),
        })
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        // The host has both configurations share the device.
        if let Some(old) = old.downcast_mut::<Self>() {
            (self.received, self.sent) = (old.received, old.sent);
        }
    }
}
