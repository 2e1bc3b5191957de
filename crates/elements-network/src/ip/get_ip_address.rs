//! Copies an IPv4 address from the packet into an annotation.
//!
//! # Synopsis
//! `GetIPAddress(OFFSET [, ANNO])`, `GetIPAddress(IP src)`, `GetIPAddress(IP dst)`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `OFFSET`: offset of the address in the packet, in bytes. If the packet starts with its IPv4
//!   header: 12 for the source, 16 for the destination
//! - `IP`: `src` or `dst` of the IPv4 header, at any offset; replaces `OFFSET`
//! - `ANNO`: the annotation; default: the destination annotation
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `no address`: the packet is too short, or has no IPv4 header
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> GetIPAddress(16) -> rt;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, Word};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::packet::{Header, annotation};
use warpswitch_packet::{Batch, Packet};

use warpswitch_elements_support::Anno;

/// The class.
pub static CLASS: ElementClass = ElementClass::new("GetIPAddress", "1/1", "a/a", || {
    Box::new(GetIpAddress { place: Place::Data(0), anno: annotation::DST })
})
.drops(&["no address"]);

/// Reasons for drops, by number.
const NO_ADDRESS: usize = 0;

/// Where an address is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// So many bytes behind the start of the data.
    Data(usize),
    /// So many bytes behind the start of the IPv4 header.
    Header(usize),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct GetIpAddress {
    place: Place,
    anno: usize,
}

impl GetIpAddress {
    fn get(&self, packet: &mut Packet) -> Option<()> {
        let (bytes, at) = match self.place {
            Place::Data(at) => (packet.data(), at),
            Place::Header(at) => (packet.from_header(Header::Network), at),
        };
        let address: [u8; 4] = bytes.get(at..)?.first_chunk().copied()?;
        packet.set_anno_u32(self.anno, u32::from_ne_bytes(address));
        Some(())
    }
}

impl Element for GetIpAddress {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let (mut offset, mut anno) = (None::<u32>, Anno::<4>(self.anno));
        let mut field = Word::default();
        args.read_p("OFFSET", &mut offset).read_p("ANNO", &mut anno).read("IP", &mut field);
        self.anno = anno.0;
        match (offset, field.0.as_str()) {
            (Some(offset), "") => self.place = Place::Data(offset as usize),
            (None, "src") => self.place = Place::Header(12),
            (None, "dst") => self.place = Place::Header(16),
            (None, "") | (Some(_), _) => args.error_at("", "set one of OFFSET, IP"),
            (None, _) => args.error_at("", "bad IP"),
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| match self.get(packet) {
            Some(()) => Fate::Pass,
            None => Fate::Drop(NO_ADDRESS),
        });
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
    fn the_address_is_where_it_was_asked_for() {
        let bytes = ipv4(b"", |_| {});
        let check = |element: &str, at: usize, address: Option<[u8; 4]>| {
            let shown = through(&bytes, &format!("MarkIPHeader -> {element}"));
            let found = shown.map(|shown| [0, 1, 2, 3].map(|idx| shown.annotations[at + idx]));
            assert_eq!(found, address, "{element}");
        };
        check("GetIPAddress(16)", 0, Some([10, 0, 0, 4]));
        check("GetIPAddress(12, 24)", 24, Some([18, 26, 4, 44]));
        check("GetIPAddress(IP src)", 0, Some([18, 26, 4, 44]));
        check("Strip(4) -> Unstrip(4) -> GetIPAddress(IP dst)", 0, Some([10, 0, 0, 4]));
        check("GetIPAddress(17)", 0, None);
        check("GetIPAddress(4000000000)", 0, None);
        assert!(through(b"no header here, but long enough", "GetIPAddress(IP src)").is_none());
    }
}
