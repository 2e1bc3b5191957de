//! Prints IPv6 packets, one per line.
//!
//! # Synopsis
//! `IP6Print([LABEL], CONTENTS, NBYTES)`
//!
//! # Ports
//! One input, one output; agnostic.
//!
//! # Configuration
//! - `LABEL`: prefix of each line
//! - `CONTENTS`: whether to print the packet data in hex, default: false
//! - `NBYTES`: maximum number of bytes to print, default: 1500
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker. Formatting each packet is slow.
//!
//! # Example
//! ```text
//! CheckIP6Header -> IP6Print("lan0") -> Discard;
//! ```

use std::fmt::Write as _;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};
use warpswitch_packet::{Batch, Packet};

use super::support::ipv6;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("IP6Print", "1/1", "a/a", || {
    Box::new(Ip6Print { label: String::new(), contents: false, bytes_max: 1500 })
});

/// See the module.
#[derive(Debug)]
pub struct Ip6Print {
    label: String,
    contents: bool,
    bytes_max: u32,
}

impl Ip6Print {
    fn line(&self, packet: &Packet) -> String {
        let mut line = String::new();
        if !self.label.is_empty() {
            line = format!("{}: ", self.label);
        }
        let Some(view) = ipv6(packet) else { return line + "no IP6 header" };
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "{} -> {} plen {}, next {}, hlim {}",
            view.src(),
            view.dst(),
            view.payload_bytes(),
            view.next_header(),
            view.hop_limit()
        );
        line
    }

    /// The bytes in hex: groups of four, six groups a line.
    fn hex(&self, packet: &Packet) -> String {
        let mut text = "  ".to_owned();
        for (idx, byte) in packet.data().iter().take(self.bytes_max as usize).enumerate() {
            let _ = write!(text, "{byte:02x}");
            match idx % 24 {
                23 => text.push_str("\n  "),
                place if place % 4 == 3 => text.push(' '),
                _ => {}
            }
        }
        text
    }
}

impl Element for Ip6Print {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("LABEL", &mut self.label)
            .read("CONTENTS", &mut self.contents)
            .read("NBYTES", &mut self.bytes_max)
            .complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter() {
            cx.say(&self.line(packet));
            if self.contents {
                self.hex(packet).lines().for_each(|line| cx.say(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ipv6, run, source};

    fn said(bytes: &[u8], arguments: &str) -> Vec<String> {
        let source = source(bytes);
        run(&format!("{source} -> MarkIP6Header -> IP6Print({arguments}) -> Discard;")).1
    }

    #[test]
    fn a_packet_is_a_line() {
        let bytes = ipv6(&[0xab; 8], |repr| repr.hop_limit = 3);
        let line = "2001:db8::1 -> 2001:db8:1::2 plen 8, next 17, hlim 3";
        assert_eq!(said(&bytes, ""), [line]);
        let lines = said(&bytes, "in, CONTENTS true, NBYTES 30");
        assert_eq!(
            lines,
            [
                &format!("in: {line}"),
                "  60000000 00081103 20010db8 00000000 00000000 00000001",
                "  20010db8 0001",
            ]
        );
        assert_eq!(said(&bytes[..39], "x"), ["x: no IP6 header"]);
    }
}
