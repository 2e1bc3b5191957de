//! Prints ARP packets, one per line.
//!
//! # Synopsis
//! `ARPPrint([LABEL], TIMESTAMP, ETHER, ACTIVE, OUTFILE)`
//!
//! # Ports
//! One input, one output; agnostic. Packets without a network header are forwarded without a line.
//!
//! # Configuration
//! - `LABEL`: prefix of each line
//! - `TIMESTAMP`: whether to print the timestamp, default: true
//! - `ETHER`: whether to print the addresses of the Ethernet header, default: false
//! - `ACTIVE`: whether to print, default: true
//! - `OUTFILE`: output file, default: standard error
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `active` | read, write | true or false |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! q[1] -> ARPPrint(query, ETHER true) -> Queue -> ToDevice(eth0);
//! ```

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::arp::{FIXED_BYTES, OPERATION_REPLY, OPERATION_REQUEST, PACKET_BYTES};
use warpswitch_wire::ethernet::{Ethernet, HEADER_BYTES};

use crate::lines::Lines;
use warpswitch_elements_support::format::{parse, timestamp};

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ARPPrint", "1/1", "a/a", || Box::new(ArpPrint::new()));

/// The protocol "trailer", of old.
const TRAILER: u16 = 0x1000;
/// The hardware type "Ethernet".
const ETHERNET: u16 = 1;

/// See the module.
#[derive(Debug)]
pub struct ArpPrint {
    label: String,
    has_time: bool,
    has_ether: bool,
    active: bool,
    lines: Lines,
    line: String,
}

impl ArpPrint {
    fn new() -> Self {
        Self {
            label: String::new(),
            has_time: true,
            has_ether: false,
            active: true,
            lines: Lines::default(),
            line: String::new(),
        }
    }

    /// Writes the line of `packet`; returns whether there is one.
    fn describe(&mut self, packet: &Packet) -> bool {
        self.line.clear();
        let Some(network) = packet.header_offset(Header::Network) else { return false };
        if !self.label.is_empty() {
            self.line += &self.label;
            self.line += ": ";
        }
        if self.has_time {
            self.line += &timestamp(packet.timestamp_ns());
            self.line += ": ";
        }
        let mac = packet.header_offset(Header::Mac).unwrap_or(0);
        if self.has_ether
            && mac + HEADER_BYTES <= network
            && let Ok(frame) = Ethernet::new_checked(&packet.data()[mac..])
        {
            let (src, dst) = (EtherAddress(frame.src().0), EtherAddress(frame.dst().0));
            let _ = write!(self.line, "{src} > {dst}: ");
        }
        describe_arp(&mut self.line, packet.from_header(Header::Network));
        true
    }
}

/// Appends a description of the ARP packet `arp` to `line`.
fn describe_arp(line: &mut String, arp: &[u8]) {
    // Writing to a string cannot fail.
    let truncated = |line: &mut String| {
        let _ = write!(line, "truncated-arp ({})", arp.len());
    };
    let Some(fixed) = arp.get(..FIXED_BYTES) else { return truncated(line) };
    let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let (hardware, protocol, operation) = (word(0), word(2), word(6));
    let (mac_bytes, ip_bytes) = (fixed[4], fixed[5]);
    if !matches!(protocol, 0x0800 | TRAILER) || ip_bytes != 4 || mac_bytes == 0 {
        let _ = write!(
            line,
            "arp-#{operation} for proto #{protocol} ({ip_bytes}) hardware #{hardware} ({mac_bytes})"
        );
        return;
    }
    let Some(arp) = arp.get(..PACKET_BYTES) else { return truncated(line) };
    let mac = |at: usize| EtherAddress(arp[at..at + 6].try_into().expect("six bytes"));
    let ip = |at: usize| {
        let bytes: [u8; 4] = arp[at..at + 4].try_into().expect("four bytes");
        Ipv4Addr::from(bytes)
    };
    let (sender_mac, sender_ip, target_mac, target_ip) = (mac(8), ip(14), mac(18), ip(24));
    if protocol == TRAILER {
        line.push_str("trailer-");
    }
    let _ = match operation {
        OPERATION_REQUEST if target_mac.0 != [0; 6] => {
            write!(line, "arp who-has {target_ip} ({target_mac}) tell {sender_ip}")
        }
        OPERATION_REQUEST => write!(line, "arp who-has {target_ip} tell {sender_ip}"),
        OPERATION_REPLY => write!(line, "arp reply {sender_ip} is-at {sender_mac}"),
        3 => write!(line, "rarp who-is {target_mac} tell {sender_mac}"),
        4 => write!(line, "rarp reply {target_mac} at {target_ip}"),
        8 => write!(line, "invarp who-is {target_mac} tell {sender_mac}"),
        9 => write!(line, "invarp reply {target_mac} at {target_ip}"),
        _ => write!(line, "arp-#{operation}"),
    };
    if hardware != ETHERNET {
        let _ = write!(line, "hardware #{hardware}");
    }
}

impl Element for ArpPrint {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("LABEL", &mut self.label)
            .read("TIMESTAMP", &mut self.has_time)
            .read("ETHER", &mut self.has_ether)
            .read("ACTIVE", &mut self.active)
            .read("OUTFILE", &mut self.lines.path)
            .note_output("OUTFILE", &self.lines.path)
            .complete()
    }

    fn initialize(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        self.lines.open()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        for packet in batch.iter() {
            if !self.describe(packet) {
                continue;
            }
            self.lines.say(cx, &self.line);
        }
    }

    fn finish(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        self.lines.finish()
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::both("active")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.active.to_string())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.active = parse(value)?;
        Ok(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::{arp_of, set_arp};
    use warpswitch_wire::arp::ArpRepr;
    use warpswitch_wire::ethernet::MacAddr;

    #[test]
    fn packets_are_described() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: &str| {
            let mut packet = Packet::new();
            let arp = ArpRepr {
                operation: 1,
                sender_mac: MacAddr([2, 0, 0, 0, 0, 1]),
                sender_ip: Ipv4Addr::new(10, 0, 0, 1),
                target_mac: MacAddr([0; 6]),
                target_ip: Ipv4Addr::new(10, 0, 0, 2),
            };
            set_arp(&mut packet, MacAddr::BROADCAST, &arp);
            assert_eq!(arp_of(packet.data()), Some(arp));
            let mut bytes = packet.from_header(Header::Network).to_vec();
            change(&mut bytes);
            let mut line = String::new();
            describe_arp(&mut line, &bytes);
            assert_eq!(line, expected);
        };
        check(&|_| (), "arp who-has 10.0.0.2 tell 10.0.0.1");
        check(&|arp| arp[23] = 9, "arp who-has 10.0.0.2 (00-00-00-00-00-09) tell 10.0.0.1");
        check(&|arp| arp[7] = 2, "arp reply 10.0.0.1 is-at 02-00-00-00-00-01");
        check(&|arp| arp[7] = 3, "rarp who-is 00-00-00-00-00-00 tell 02-00-00-00-00-01");
        check(&|arp| arp[7] = 4, "rarp reply 00-00-00-00-00-00 at 10.0.0.2");
        check(&|arp| arp[7] = 77, "arp-#77");
        check(&|arp| arp[1] = 6, "arp who-has 10.0.0.2 tell 10.0.0.1hardware #6");
        check(&|arp| arp[2] = 0x86, "arp-#1 for proto #34304 (4) hardware #1 (6)");
        check(&|arp| arp.truncate(27), "truncated-arp (27)");
        check(&|arp| arp.truncate(3), "truncated-arp (3)");
    }

    #[test]
    fn lines_have_labels_times_and_addresses() {
        let mut print = ArpPrint::new();
        let mut packet = Packet::new();
        packet.set_data(&[7; 20]);
        assert!(!print.describe(&packet), "there is no network header");
        packet.set_header(Header::Network, 14);
        packet.set_timestamp_ns(1_500_000_000);
        assert!(print.describe(&packet));
        assert_eq!(print.line, "1.500000: truncated-arp (6)");
        (print.label, print.has_time, print.has_ether) = ("x".into(), false, true);
        assert!(print.describe(&packet));
        assert_eq!(print.line, "x: 07-07-07-07-07-07 > 07-07-07-07-07-07: truncated-arp (6)");
    }
}
