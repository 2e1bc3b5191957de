//! Sets the IPv6 header of packets, without checks.
//!
//! # Synopsis
//! `MarkIP6Header([OFFSET])`
//!
//! # Ports
//! One input, one output; agnostic.
//!
//! # Configuration
//! - `OFFSET`: offset of the header, default: 0
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. A packet shorter than `OFFSET` is forwarded with its network and transport headers
//! cleared.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> MarkIP6Header(14) -> IP6Print -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::Header;

use super::support::set_ipv6_header;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("MarkIP6Header", "1/1", "a/a", || Box::new(MarkIp6Header { offset: 0 }));

/// See the module.
#[derive(Clone, Debug)]
pub struct MarkIp6Header {
    offset: u32,
}

impl Element for MarkIp6Header {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("OFFSET", &mut self.offset).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        let offset = self.offset as usize;
        for packet in batch.iter_mut() {
            if offset <= packet.len() {
                set_ipv6_header(packet, offset);
            } else {
                packet.clear_header(Header::Network);
                packet.clear_header(Header::Transport);
            }
        }
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
    use super::super::testing::{ipv6, through};

    #[test]
    fn a_header_is_where_it_is_said_to_be_or_nowhere() {
        let bytes = [&[0xaa; 14], &ipv6(&[], |repr| repr.hop_limit = 2)[..]].concat();
        let marked =
            |offset: usize| through(&bytes, &format!("MarkIP6Header({offset}) -> DecIP6HLIM"));
        assert_eq!(marked(14).expect("the header is there").bytes[14 + 7], 1);
        assert_eq!((marked(15), marked(54), marked(55)), (None, None, None));
    }
}
