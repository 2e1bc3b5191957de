//! Checks IPv6 headers.
//!
//! # Synopsis
//! `CheckIP6Header([BADADDRS, OFFSET])`
//!
//! # Ports
//! One input, agnostic. Output 0: valid packets, truncated to the length in the header, with the
//! network header set. Output 1, optional, push: invalid packets; they are dropped if it is not
//! connected.
//!
//! # Configuration
//! - `BADADDRS`: source addresses to reject, separated by spaces. Multicast sources are always
//!   rejected.
//! - `OFFSET`: offset of the header, default: 0
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | invalid packets |
//!
//! # Drops
//! - `short`: shorter than an IPv6 header
//! - `bad version`: the version is not 6
//! - `bad length`: shorter than the length in the header
//! - `bad source`: the source is multicast or in `BADADDRS`
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! Strip(14) -> CheckIP6Header(:: ::1) -> GetIP6Address(24) -> rt :: LookupIP6Route(::/0 0);
//! ```

use std::net::Ipv6Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ipv6::{HEADER_BYTES, Ipv6};

use super::support::set_ipv6_header;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("CheckIP6Header", "1/1-2", "a/ah", || Box::<CheckIp6Header>::default())
        .drops(&["short", "bad version", "bad length", "bad source"]);

/// Reasons for drops, by number.
const SHORT: usize = 0;
const VERSION: usize = 1;
const LENGTH: usize = 2;
const SOURCE: usize = 3;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CheckIp6Header {
    bad: Vec<Ipv6Addr>,
    offset: u32,
    drops: u64,
}

impl CheckIp6Header {
    /// Bytes of the packet from its header on, or what is wrong.
    #[inline]
    fn check(&self, packet: &Packet) -> Result<usize, usize> {
        let bytes = packet.data().get(self.offset as usize..).ok_or(SHORT)?;
        if bytes.len() < HEADER_BYTES {
            return Err(SHORT);
        }
        let view = Ipv6::new_unchecked(bytes);
        if view.version() != 6 {
            return Err(VERSION);
        }
        let packet_bytes = HEADER_BYTES + view.payload_bytes();
        if packet_bytes > bytes.len() {
            return Err(LENGTH);
        }
        let src = view.src();
        if src.is_multicast() || self.bad.contains(&src) {
            return Err(SOURCE);
        }
        Ok(packet_bytes)
    }
}

impl Element for CheckIp6Header {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("BADADDRS", &mut self.bad).read_p("OFFSET", &mut self.offset).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let offset = self.offset as usize;
        cx.sort(batch, |cx, packet| match self.check(packet) {
            Ok(packet_bytes) => {
                packet.take(packet.len() - offset - packet_bytes);
                set_ipv6_header(packet, offset);
                Fate::Pass
            }
            Err(reason) => {
                if self.drops == 0 {
                    cx.say("IP6 header check failed");
                }
                self.drops += 1;
                Fate::EmitOrDrop(1, reason)
            }
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("drops")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.drops.to_string())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.drops = old.drops;
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self { drops: 0, ..self.clone() })
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.drops += copy.drops;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{addr, ipv6, run, source, through};
    use super::*;

    fn check(bytes: &[u8], arguments: &str, reason: Option<usize>) {
        let names = CLASS.drops;
        let source = source(bytes);
        let config = format!("{source} -> c :: CheckIP6Header({arguments}) -> Show(0);");
        let (shown, said, mut router) = run(&config);
        let drops = router.read("c.drops_by_reason").expect("it is there");
        match reason {
            None => assert_eq!((shown.len(), said.len()), (1, 0), "{drops}"),
            Some(reason) => {
                assert!(drops.contains(&format!("1\t{}\n", names[reason])), "{drops}");
                assert_eq!(said, ["IP6 header check failed"]);
                assert_eq!((shown.len(), router.read("c.drops")), (0, Ok("1".into())));
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = ipv6(&[7; 20], |_| {});
        check(&good, "", None);
        check(&good[..59], "", Some(LENGTH));
        check(&good[..39], "", Some(SHORT));
        check(&[0x60], "", Some(SHORT));
        check(&good, "OFFSET 100", Some(SHORT));
        check(&good, ":: 2001:db8::1", Some(SOURCE));
        check(&good, ":: 2001:db8::2", None);
        check(&ipv6(&[], |repr| repr.src = addr("ff02::1")), "", Some(SOURCE));
        check(&ipv6(&[], |repr| repr.src = addr("::")), "", None);
        let mut bytes = good.clone();
        bytes[0] = 0x45;
        check(&bytes, "", Some(VERSION));
    }

    #[test]
    fn padding_goes_and_the_header_is_found() {
        let good = ipv6(&[7; 20], |repr| repr.hop_limit = 9);
        let padded = [&[0; 14], &good[..], &[0xee; 6]].concat();
        let shown =
            through(&padded, "CheckIP6Header(OFFSET 14) -> DecIP6HLIM").expect("it is right");
        assert_eq!((shown.bytes.len(), shown.ipv6(14).hop_limit()), (74, 8));
    }

    #[test]
    fn what_is_wrong_leaves_by_the_second_output() {
        let source = source(&[0; 60]);
        let (shown, ..) =
            run(&format!("{source} -> c :: CheckIP6Header -> Show(0); c[1] -> Show(1);"));
        assert_eq!((shown.len(), &shown[0].label[..]), (1, "1"));
    }
}
