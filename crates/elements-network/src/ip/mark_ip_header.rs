//! Marks the IPv4 header without checking it.
//!
//! # Synopsis
//! `MarkIPHeader([OFFSET])`
//!
//! # Ports
//! One input, one output; push or pull. The network and transport headers of the packet are set.
//!
//! # Configuration
//! - `OFFSET`: bytes in front of the IPv4 header; default: 0
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None. Of packets with at most `OFFSET` bytes, the network and transport headers are cleared.
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> MarkIPHeader(14) -> IPPrint -> Discard;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Sharing};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::Header;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("MarkIPHeader", "1/1", "a/a", || Box::<MarkIpHeader>::default());

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MarkIpHeader {
    offset: u32,
}

impl Element for MarkIpHeader {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("OFFSET", &mut self.offset).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        let at = self.offset as usize;
        for packet in batch.iter_mut() {
            match packet.data().get(at).copied() {
                Some(first) => packet.set_ip_header(at, usize::from(first & 0x0f) * 4),
                None => {
                    packet.clear_header(Header::Network);
                    packet.clear_header(Header::Transport);
                }
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
    use super::super::testing::{ipv4, through};

    #[test]
    fn elements_behind_it_find_the_header() {
        let mut framed = vec![0; 14];
        framed.extend(ipv4(b"", |repr| repr.ttl = 9));
        let shown = through(&framed, "MarkIPHeader(14) -> DecIPTTL").expect("it has time to live");
        assert_eq!(shown.bytes[14 + 8], 8);
        assert!(through(&framed, "MarkIPHeader(34) -> DecIPTTL").is_none());
        assert!(through(&framed, "MarkIPHeader(35) -> DecIPTTL").is_none());
    }
}
