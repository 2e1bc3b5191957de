//! Emits packets that the kernel of this machine sends to a virtual interface.
//!
//! # Synopsis
//! `FromHost(DEVNAME [, DST], GATEWAY, ETHER, MTU, TYPE, HEADROOM)`
//!
//! # Ports
//! One push output: packets that the kernel sends to the interface. `ToHost` of the same name sends
//! packets the other way.
//!
//! # Configuration
//! - `DEVNAME`: name of the interface, which the run creates
//! - `DST`: IPv4 address of the kernel on the interface, and its network; default: none
//! - `GATEWAY`: as of `KernelTap`
//! - `ETHER`: Ethernet address of the kernel on the interface, default: random
//! - `MTU`: maximum number of bytes of an IP packet, default: 1500
//! - `TYPE`: `ETHER`, the default, for packets with an Ethernet header; `IP` for packets that start
//!   with the IP header
//! - `HEADROOM`: accepted, ignored
//!
//! IP packets have the network header and the destination address annotation set. The kernel sends
//! ARP requests to the interface and needs replies before it sends IP packets: connect an
//! `ARPResponder`. The interface exists while the element runs. It needs `CAP_NET_ADMIN`.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `dev_name` | read | name of the interface |
//! | `received` | read | packets from the kernel |
//!
//! # Drops
//! - `not sent`: never
//! - `no IP header`: with `TYPE IP`, a packet without IP header
//!
//! # Threads
//! Runs on one worker, which sleeps while no packets arrive.
//!
//! # Example
//! ```text
//! FromHost(host0, 10.9.0.1/24) -> c :: Classifier(12/0806 20/0001, 12/0800);
//! c[0] -> ARPResponder(0.0.0.0/0 2:0:0:0:0:1) -> ToHost(host0);
//! c[1] -> Discard;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::ElementClass;
use warpswitch_graph::language::args::{Args, EtherAddress, Ipv4Prefix, Raw, Word};

use super::kernel_tap::{DROPS, KernelTap};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("FromHost", "0/1", "h", || Box::new(KernelTap::new(true, read_arguments)))
        .drops(&DROPS);

/// Bytes of the longest name of an interface.
const NAME_BYTES_MAX: usize = 15;

/// Reads the arguments of `FromHost`.
fn read_arguments(tap: &mut KernelTap, args: &mut Args<'_>) {
    let (mut address, mut gateway) = (None::<Ipv4Prefix>, None::<Ipv4Addr>);
    let (mut ether, mut kind, mut word) = (None::<EtherAddress>, None::<Word>, Raw::default());
    args.read_mp("DEVNAME", &mut tap.device)
        .read_p("DST", &mut address)
        .read("GATEWAY", &mut gateway)
        .read("ETHER", &mut ether)
        .read("MTU", &mut tap.options.mtu)
        .read("TYPE", &mut kind)
        .read("HEADROOM", &mut word);
    let name = &tap.device;
    if name.len() > NAME_BYTES_MAX || name.contains(|c: char| c.is_whitespace() || c == '/') {
        let expected = "an interface name has 1 to 15 bytes without spaces and '/'";
        args.error_at("DEVNAME", expected);
    }
    tap.options.has_ethernet = match kind.map(|kind| kind.0.to_ascii_uppercase()).as_deref() {
        None | Some("ETHER") => true,
        Some("IP") => false,
        Some(_) => {
            args.error_at("TYPE", "expected ETHER or IP");
            true
        }
    };
    tap.finds_ip = true;
    tap.options.ethernet_address = ether.map(|address| address.0);
    tap.set_addresses(args, address, gateway);
}
