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
//! - `GATEWAY`: not supported; add routes with `ip route`
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

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress, Ipv4Prefix, Raw};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Readiness,
};
use warpswitch_io::TAP_PREFIX;
use warpswitch_packet::{BATCH_LEN_MAX, Batch, PortSpec, RxPort, TapOptions, Transmitted, TxPort};
use warpswitch_wire::link::LinkType;

use super::link::{find_ip, set_packet_type};

/// The classes.
pub static TAP_CLASS: ElementClass =
    ElementClass::new("KernelTap", "0-1/1", "a/h", || Box::new(KernelTap::new(true)))
        .consumes_as("sent")
        .flow("x/y")
        .drops(&DROPS);
/// The class of devices without Ethernet headers.
pub static TUN_CLASS: ElementClass =
    ElementClass::new("KernelTun", "0-1/1-2", "a/h", || Box::new(KernelTap::new(false)))
        .consumes_as("sent")
        .flow("x/y")
        .drops(&DROPS);

const DROPS: [&str; 2] = ["not sent", "no IP header"];
const NOT_SENT: usize = 0;
const NO_IP: usize = 1;

/// See the module.
pub struct KernelTap {
    device: String,
    options: TapOptions,
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
    fn new(has_ethernet: bool) -> Self {
        Self {
            device: String::new(),
            options: TapOptions { has_ethernet, ..TapOptions::default() },
            burst: 64,
            rx: None,
            tx: None,
            pulls: false,
            is_woken: false,
            received: 0,
            sent: 0,
        }
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

impl Element for KernelTap {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut address = None::<Ipv4Prefix>;
        let (mut gateway, mut word) = (Raw::default(), Raw::default());
        let (mut ether, mut burst) = (None::<EtherAddress>, self.burst as u32);
        args.read_mp("ADDR", &mut address).read_p("GATEWAY", &mut gateway);
        if self.options.has_ethernet {
            args.read("ETHER", &mut ether);
        }
        args.read("MTU", &mut self.options.mtu)
            .read("BURST", &mut burst)
            .read("DEV_NAME", &mut self.device)
            .read("DEVNAME", &mut self.device)
            .read("HEADROOM", &mut word)
            .read("IGNORE_QUEUE_OVERFLOWS", &mut word);
        if !gateway.0.is_empty() {
            args.error_at("GATEWAY", "not supported: add routes with 'ip route'");
        }
        if !(1..=BATCH_LEN_MAX as u32).contains(&burst) {
            args.error_at("BURST", &format!("must be 1 to {BATCH_LEN_MAX}"));
        }
        self.burst = burst as usize;
        self.options.address =
            address.map(|prefix| (prefix.address, u32::from(prefix.mask).count_ones() as u8));
        self.options.ethernet_address = ether.map(|address| address.0);
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.options.owner = cx.name().to_owned();
        let spec = PortSpec {
            device: format!("{TAP_PREFIX}{}", self.device),
            tap: Some(self.options.clone()),
            ..PortSpec::default()
        };
        self.rx = Some(cx.console().open_rx(&spec)?);
        self.tx = Some(cx.console().open_tx(&spec)?);
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

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("dev_name"),
                HandlerSpec::read("received"),
                HandlerSpec::read("sent"),
            ]
        }
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
