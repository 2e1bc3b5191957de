//! Sets the destination annotation from the packet or an argument, or stores it in the packet.
//!
//! # Synopsis
//! `GetIP6Address(OFFSET)`, `SetIP6Address(IPADDR)`, `StoreIP6Address([ADDR,] OFFSET)`
//!
//! # Ports
//! One input, one output; agnostic. `StoreIP6Address` has an output 1, optional, push, for packets
//! that are too short for the address.
//!
//! # Configuration
//! - `OFFSET`: for `GetIP6Address`, offset of the address in the packet: 24 for the destination if
//!   the packet starts with its IPv6 header. A shorter packet gets the annotation `::`. For
//!   `StoreIP6Address`, offset from the IPv6 header: a number, `src` or `dst`.
//! - `IPADDR`: value of the annotation
//! - `ADDR`: address to store, default: the annotation, unless that is `::`
//!
//! # Handlers
//! None.
//!
//! # Drops
//! - `short`: `StoreIP6Address` found no IPv6 header or too few bytes after it, and output 1 is not
//!   connected
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! CheckIP6Header -> GetIP6Address(24) -> rt :: LookupIP6Route(2001:db8::/32 0);
//! ```

use std::net::Ipv6Addr;

use warpswitch_graph::language::args::{Args, ArgsError, FromArg, NoNames, Word};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass, Fate, Sharing};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};

/// The class `GetIP6Address`.
pub static GET: ElementClass =
    ElementClass::new("GetIP6Address", "1/1", "a/a", || Box::new(GetIp6Address { offset: 0 }));
/// The class `SetIP6Address`.
pub static SET: ElementClass = ElementClass::new("SetIP6Address", "1/1", "a/a", || {
    Box::new(SetIp6Address { address: Ipv6Addr::UNSPECIFIED })
});
/// The class `StoreIP6Address`.
pub static STORE: ElementClass = ElementClass::new("StoreIP6Address", "1/1-2", "a/ah", || {
    Box::new(StoreIp6Address { address: None, offset: 0 })
})
.drops(&["short"]);

/// Reasons for drops, by number.
const SHORT: usize = 0;

/// See the module.
#[derive(Clone, Debug)]
pub struct GetIp6Address {
    offset: u32,
}

impl Element for GetIp6Address {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("OFFSET", &mut self.offset).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let found = packet.data().get(self.offset as usize..);
            let address = found.and_then(|bytes| bytes.first_chunk::<16>());
            packet.set_dst_ipv6(address.copied().unwrap_or([0; 16]));
        }
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct SetIp6Address {
    address: Ipv6Addr,
}

impl Element for SetIp6Address {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("IPADDR", &mut self.address).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        batch.iter_mut().for_each(|packet| packet.set_dst_ipv6(self.address.octets()));
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct StoreIp6Address {
    address: Option<Ipv6Addr>,
    offset: u32,
}

impl StoreIp6Address {
    /// Stores the address; returns whether there was room.
    fn store(&self, packet: &mut Packet) -> bool {
        let address = self.address.map_or(packet.dst_ipv6(), |address| address.octets());
        if self.address.is_none() && address == [0; 16] {
            return true;
        }
        let bytes = packet.from_header_mut(Header::Network);
        let room = bytes.get_mut(self.offset as usize..);
        match room.and_then(|bytes| bytes.first_chunk_mut::<16>()) {
            Some(room) => *room = address,
            None => return false,
        }
        true
    }
}

impl Element for StoreIp6Address {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut offset = Word("0".to_owned());
        if args.len() > 1 {
            args.read_mp("ADDR", &mut self.address);
        }
        args.read_mp("OFFSET", &mut offset);
        match offset.0.to_ascii_lowercase().as_str() {
            "src" => self.offset = 8,
            "dst" => self.offset = 24,
            number => match u32::from_arg(number, &NoNames) {
                Ok(offset) => self.offset = offset,
                Err(_) => args.error_at("OFFSET", "expected 'src', 'dst' or a number"),
            },
        }
        args.complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| match self.store(packet) {
            true => Fate::Pass,
            false => Fate::EmitOrDrop(1, SHORT),
        });
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{addr, errors, ipv6, through};

    #[test]
    fn addresses_are_read_from_packets() {
        let bytes = ipv6(&[], |_| {});
        let read = |offset: usize| {
            let shown = through(&bytes, &format!("SetIP6Address(::7) -> GetIP6Address({offset})"));
            shown.expect("it goes on").dst6()
        };
        assert_eq!((read(24), read(8)), (addr("2001:db8:1::2"), addr("2001:db8::1")));
        assert_eq!((read(25), read(4_000_000_000)), (addr("::"), addr("::")));
    }

    #[test]
    fn addresses_are_written_to_packets() {
        let bytes = ipv6(&[0; 4], |_| {});
        let stored = |chain: &str| through(&bytes, &format!("MarkIP6Header -> {chain}"));
        let shown = stored("StoreIP6Address(2001:db8::77, src)").expect("there is room");
        assert_eq!(
            (shown.ipv6(0).src(), shown.bytes[24..].to_vec()),
            (addr("2001:db8::77"), bytes[24..].to_vec())
        );
        let shown = stored("SetIP6Address(::9) -> StoreIP6Address(DST)").expect("there is room");
        assert_eq!((shown.ipv6(0).dst(), shown.dst6()), (addr("::9"), addr("::9")));
        assert_eq!(stored("StoreIP6Address(24)").expect("nothing to store").bytes, bytes);
        assert!(stored("StoreIP6Address(::1, 28)").is_some());
        assert!(stored("StoreIP6Address(::1, 29)").is_none());
        assert!(through(&bytes, "StoreIP6Address(::1, 0)").is_none(), "no header");
    }

    #[test]
    fn what_is_no_place_is_told() {
        let errors = errors("Idle -> StoreIP6Address(::1, middle) -> Discard;");
        assert!(errors.contains("OFFSET: expected 'src', 'dst' or a number"), "{errors}");
    }
}
