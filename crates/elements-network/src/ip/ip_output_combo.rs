//! Combines the output elements of an IP router.
//!
//! # Synopsis
//! `IPOutputCombo(COLOR, IPADDR, MTU)`
//!
//! # Ports
//! One input, five outputs; push. Equivalent to `DropBroadcasts -> PaintTee(COLOR) ->
//! IPGWOptions(IPADDR) -> FixIPSrc(IPADDR) -> DecIPTTL`, and a length check:
//! - 0: packets to send
//! - 1: copies of packets with paint `COLOR`, for a redirect
//! - 2: packets with invalid options
//! - 3: expired packets
//! - 4: packets longer than `MTU`, for a fragmenter
//!
//! # Configuration
//! - `COLOR`: paint of packets that arrived on the interface that they leave by
//! - `IPADDR`: address of this router
//! - `MTU`: maximum length of a packet in bytes
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `broadcast`: received as link-level broadcast or multicast
//! - `no header`: no IPv4 header
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! rt[1] -> oc :: IPOutputCombo(1, 10.0.0.1, 1500) -> [0]arpq;
//! ```

use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing, gso};
use warpswitch_packet::packet::annotation;
use warpswitch_packet::{Batch, Packet};

use super::dec_ip_ttl::decrement;
use super::drop_broadcasts::is_broadcast;
use super::fix_ip_src::fix;
use super::ip_gw_options::{Addresses, Wrong, handle};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("IPOutputCombo", "1/5", "h/h", || Box::new(IpOutputCombo::new()))
        .drops(&["broadcast", "no header"]);

/// Reasons for drops, by number.
const BROADCAST: usize = 0;
const NO_HEADER: usize = 1;

/// Outputs.
const REDIRECT: usize = 1;
const BAD_OPTION: usize = 2;
const EXPIRED: usize = 3;
const TOO_LONG: usize = 4;

/// See the module.
#[derive(Clone, Debug)]
pub struct IpOutputCombo {
    color: u8,
    address: Ipv4Addr,
    addresses: Addresses,
    mtu: u32,
}

impl IpOutputCombo {
    fn new() -> Self {
        let (address, addresses) = (Ipv4Addr::UNSPECIFIED, Addresses::default());
        Self { color: 0, address, addresses, mtu: 0 }
    }

    fn fate(&self, cx: &mut Context<'_>, packet: &mut Packet) -> Fate {
        if is_broadcast(packet) {
            return Fate::Drop(BROADCAST);
        }
        if packet.anno_u8(annotation::PAINT) == self.color {
            let copy = cx.pool().copy(packet);
            cx.emit(REDIRECT, copy);
        }
        match handle(packet, &self.addresses, cx.now()) {
            Ok(()) => {}
            Err(Wrong::Option(place)) => {
                packet.set_anno_u8(annotation::ICMP_POINTER, place);
                return Fate::Emit(BAD_OPTION);
            }
            Err(Wrong::NoHeader) => return Fate::Drop(NO_HEADER),
        }
        fix(packet, self.address);
        match decrement(packet, true) {
            Some(true) if gso::longest_bytes(packet) > self.mtu as usize => Fate::Emit(TOO_LONG),
            Some(true) => Fate::Pass,
            Some(false) => Fate::Emit(EXPIRED),
            None => Fate::Drop(NO_HEADER),
        }
    }
}

impl Element for IpOutputCombo {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("COLOR", &mut self.color)
            .read_mp("IPADDR", &mut self.address)
            .read_mp("MTU", &mut self.mtu);
        self.addresses = Addresses::new(self.address, &[]);
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |cx, packet| self.fate(cx, packet));
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv4, run, source, unhex};

    #[test]
    fn packets_leave_where_they_should() {
        let check = |bytes: &[u8], before: &str, outputs: &[&str]| {
            let source = source(bytes);
            let (shown, ..) = run(&format!(
                "{source} -> {before} MarkIPHeader -> o :: IPOutputCombo(7, 10.0.0.1, 100)
                 -> Show(0); o[1] -> Show(1); o[2] -> Show(2); o[3] -> Show(3); o[4] -> Show(4);"
            ));
            let mut labels: Vec<&str> = shown.iter().map(|shown| &shown.label[..]).collect();
            labels.sort_unstable();
            assert_eq!(labels, outputs);
            shown
        };
        let plain = ipv4(b"data", |_| {});
        let shown = check(&plain, "", &["0"]);
        assert_eq!(shown[0].ipv4().ttl(), 63);
        let shown = check(&plain, "SetAnno(16, 7) ->", &["0", "1"]);
        assert_eq!(shown.iter().find(|shown| shown.label == "1").expect("a copy").bytes, plain);
        check(&plain, "SetType(broadcast) ->", &[]);
        check(&ipv4(b"data", |repr| repr.ttl = 1), "", &["3"]);
        check(&ipv4(&[1; 81], |_| {}), "", &["4"]);
        check(&ipv4(&[1; 80], |_| {}), "", &["0"]);
        let options = unhex("07070500 00000000");
        let shown = check(&ipv4(b"data", |repr| repr.options = &options), "", &["2"]);
        assert_eq!(shown[0].annotations[17], 22);
        check(&plain[..10], "", &[]);
    }
}
