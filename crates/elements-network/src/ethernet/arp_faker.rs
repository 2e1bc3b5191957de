//! Emits unsolicited ARP replies periodically.
//!
//! # Synopsis
//! `ARPFaker(DSTIP, DSTETH, SRCIP, SRCETH)`
//!
//! # Ports
//! One push output: ARP replies.
//!
//! # Configuration
//! - `DSTIP`, `DSTETH`: receiver of the replies
//! - `SRCIP`, `SRCETH`: advertised IP address and its Ethernet address
//!
//! The first reply is emitted after 1 second, the next ones every 10 seconds.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! ARPFaker(10.0.0.1, 0:0:5e:0:0:1, 10.0.0.99, 0:0:5e:0:0:9) -> Queue -> ToDevice(eth0);
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};
use warpswitch_wire::arp::{ArpRepr, OPERATION_REPLY};
use warpswitch_wire::ethernet::MacAddr;

use super::set_arp;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("ARPFaker", "0/1", "h/h", || {
    Box::new(ArpFaker {
        dst: (Ipv4Addr::UNSPECIFIED, EtherAddress::default()),
        src: (Ipv4Addr::UNSPECIFIED, EtherAddress::default()),
    })
});

/// Until the first reply, and between replies.
const FIRST: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct ArpFaker {
    dst: (Ipv4Addr, EtherAddress),
    src: (Ipv4Addr, EtherAddress),
}

impl Element for ArpFaker {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("DSTIP", &mut self.dst.0)
            .read_mp("DSTETH", &mut self.dst.1)
            .read_mp("SRCIP", &mut self.src.0)
            .read_mp("SRCETH", &mut self.src.1)
            .complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        cx.set_timer(0, cx.now() + FIRST);
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        let reply = ArpRepr {
            operation: OPERATION_REPLY,
            sender_mac: MacAddr(self.src.1.0),
            sender_ip: self.src.0,
            target_mac: MacAddr(self.dst.1.0),
            target_ip: self.dst.0,
        };
        let mut packet = cx.pool().packet();
        set_arp(&mut packet, reply.target_mac, &reply);
        cx.emit(0, packet);
        cx.set_timer(0, cx.now() + PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use crate::ethernet::tests::run_for;

    #[test]
    fn it_claims_every_ten_seconds() {
        let config = "ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.9, 2:0:0:0:0:9) -> Tap -> Discard;";
        let frame = "020000000001 020000000009 0806 0001080006040002\
            0200000000090a0000090200000000010a000001\n";
        assert_eq!(run_for(config, 30).1.said(), frame.repeat(3));
    }
}
