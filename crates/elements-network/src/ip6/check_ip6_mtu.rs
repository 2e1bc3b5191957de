//! Rejects packets longer than the MTU of a link, as routers must not fragment IPv6 packets.
//!
//! # Synopsis
//! `CheckIP6MTU(MTU)`, `IP6Fragmenter(MTU)`
//!
//! # Ports
//! One input, agnostic. Output 0: packets of at most `MTU` bytes, counted from the IPv6 header.
//! Output 1, optional, push: longer packets, with the MTU annotation set for `ICMP6Error`; they are
//! dropped if it is not connected.
//!
//! # Configuration
//! - `MTU`: bytes. IPv6 requires at least 1280, which is not checked.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | packets longer than `MTU` |
//! | `fragments` | read | always 0 |
//! | `mtu` | read, write | bytes |
//!
//! # Drops
//! - `too big`: longer than `MTU`, and output 1 is not connected
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! mtu :: CheckIP6MTU(1500); mtu[1] -> ICMP6Error(2001:db8::1, packettoobig) -> [0]rt;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing, gso,
};
use warpswitch_packet::Batch;
use warpswitch_packet::packet::Header;

use super::support::MTU_ANNOTATION;
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass = class("CheckIP6MTU");
/// The same under the name that it goes by elsewhere, though nothing is cut.
pub static FRAGMENTER: ElementClass = class("IP6Fragmenter");

const fn class(name: &'static str) -> ElementClass {
    ElementClass::new(name, "1/1-2", "a/ah", || Box::<CheckIp6Mtu>::default()).drops(&["too big"])
}

/// Reasons for drops, by number.
const TOO_BIG: usize = 0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CheckIp6Mtu {
    mtu: u32,
    drops: u64,
}

impl Element for CheckIp6Mtu {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_mp("MTU", &mut self.mtu).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        let mtu = self.mtu as usize;
        let noted = u16::try_from(self.mtu).unwrap_or(u16::MAX);
        cx.sort(batch, |_, packet| {
            let before = packet.header_offset(Header::Network).unwrap_or(0);
            if gso::longest_bytes(packet) - before <= mtu {
                return Fate::Pass;
            }
            self.drops += 1;
            packet.set_anno_u16(MTU_ANNOTATION, noted);
            Fate::EmitOrDrop(1, TOO_BIG)
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const MTU: HandlerSpec = HandlerSpec::both("mtu");
        const { &[HandlerSpec::read("drops"), HandlerSpec::read("fragments"), MTU] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "drops" => self.drops.to_string(),
            "fragments" => "0".to_owned(),
            _ => self.mtu.to_string(),
        })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.mtu = parse_seen(cx, value)?;
        Ok(String::new())
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
    use super::super::testing::{ipv6, run, source};

    #[test]
    fn what_is_too_long_is_told_by_how_much() {
        let check = |class: &str, payload: usize, label: &str| {
            let bytes = [&[0; 14], &ipv6(&vec![1; payload], |_| {})[..]].concat();
            let source = source(&bytes);
            let (shown, _, mut router) = run(&format!(
                "{source} -> MarkIP6Header(14) -> m :: {class}(1300) -> Show(0); m[1] -> Show(1);"
            ));
            assert_eq!((&shown[0].label[..], &shown[0].bytes), (label, &bytes));
            let mtu = u16::from_ne_bytes([shown[0].annotations[22], shown[0].annotations[23]]);
            assert_eq!(mtu, if label == "1" { 1300 } else { 0 });
            assert_eq!(router.read("m.drops"), Ok(label.into()));
        };
        check("CheckIP6MTU", 1260, "0");
        check("CheckIP6MTU", 1261, "1");
        check("IP6Fragmenter", 1500, "1");
    }

    #[test]
    fn the_mtu_can_be_changed() {
        let source = source(&ipv6(&[1; 100], |_| {}));
        let (_, _, mut router) = run(&format!("{source} -> m :: CheckIP6MTU(100) -> Discard;"));
        assert_eq!(router.read("m.drops_by_reason"), Ok("1\ttoo big\n".into()));
        router.write("m.mtu", "1500").expect("it obeys");
        assert_eq!(router.read("m.mtu"), Ok("1500".into()));
        assert!(router.write("m.mtu", "long").is_err());
    }
}
