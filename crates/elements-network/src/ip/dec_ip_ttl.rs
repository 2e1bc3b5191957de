//! Decrements the IPv4 time to live.
//!
//! # Synopsis
//! `DecIPTTL(ACTIVE, MULTICAST)`
//!
//! # Ports
//! One input, one or two outputs; push or pull, output 1 is push. Expired packets are emitted
//! unchanged on output 1 if it is connected.
//!
//! # Configuration
//! - `ACTIVE`: decrement at all; default: true. If false, all packets are forwarded unchanged
//! - `MULTICAST`: also decrement the TTL of packets to multicast addresses; default: true
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | expired packets, also those on output 1 |
//! | `active` | read, write | true or false |
//!
//! # Drops
//! - `expired`: the time to live was 0 or 1
//! - `no header`: no IPv4 header
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> dt :: DecIPTTL -> ...;
//! dt[1] -> ICMPError(10.0.0.1, timeexceeded) -> ...;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::checksum;

use super::support::ipv4_mut;
use warpswitch_elements_support::format::parse_seen;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("DecIPTTL", "1/1-2", "a/ah", || Box::new(DecIpTtl::new()))
        .drops(&["expired", "no header"]);

/// Reasons for drops, by number.
const EXPIRED: usize = 0;
const NO_HEADER: usize = 1;

/// See the module.
#[derive(Clone, Debug)]
pub struct DecIpTtl {
    active: bool,
    multicast: bool,
    drops: u64,
}

/// Takes one off; `Some(false)` if the time is up, none if there is no header.
#[inline]
pub(super) fn decrement(packet: &mut Packet, multicast: bool) -> Option<bool> {
    let mut view = ipv4_mut(packet)?;
    if !multicast && view.dst().is_multicast() {
        return Some(true);
    }
    let (ttl, proto) = (view.ttl(), view.proto().0);
    if ttl <= 1 {
        return Some(false);
    }
    let word = |ttl: u8| u16::from_be_bytes([ttl, proto]);
    let checksum = checksum::update_u16(view.checksum(), word(ttl), word(ttl - 1));
    view.set_ttl(ttl - 1);
    view.set_checksum(checksum);
    Some(true)
}

impl DecIpTtl {
    fn new() -> Self {
        Self { active: true, multicast: true, drops: 0 }
    }
}

impl Element for DecIpTtl {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("ACTIVE", &mut self.active).read("MULTICAST", &mut self.multicast).complete()
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        if !self.active {
            return;
        }
        cx.sort(batch, |_, packet| match decrement(packet, self.multicast) {
            Some(true) => Fate::Pass,
            Some(false) => {
                self.drops += 1;
                Fate::EmitOrDrop(1, EXPIRED)
            }
            None => Fate::Drop(NO_HEADER),
        });
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("drops"), HandlerSpec::both("active")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(if name == "drops" { self.drops.to_string() } else { self.active.to_string() })
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        self.active = parse_seen(cx, value)?;
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
    use super::super::testing::{ipv4, run, source};

    #[test]
    fn time_goes_down_with_the_checksum_and_ends_at_one() {
        for ttl in 0..=255u8 {
            for id in [0, 1, 0x7fff, 0xfffe, 0xffff] {
                let bytes = ipv4(b"data", |repr| (repr.ttl, repr.identification) = (ttl, id));
                let source = source(&bytes);
                let config = format!(
                    "{source} -> MarkIPHeader -> d :: DecIPTTL -> Show(0); d[1] -> Show(1);"
                );
                let (shown, _, mut router) = run(&config);
                if ttl <= 1 {
                    assert_eq!((&shown[0].label[..], &shown[0].bytes), ("1", &bytes));
                    assert_eq!(router.read("d.drops"), Ok("1".into()));
                } else {
                    assert_eq!((&shown[0].label[..], shown[0].ipv4().ttl()), ("0", ttl - 1));
                }
            }
        }
    }

    #[test]
    fn groups_and_a_sleeping_element_keep_their_time() {
        let bytes = ipv4(b"", |repr| (repr.ttl, repr.dst) = (1, [224, 0, 0, 5].into()));
        let source = source(&bytes);
        for argument in ["MULTICAST false", "ACTIVE false"] {
            let config = format!("{source} -> MarkIPHeader -> DecIPTTL({argument}) -> Show(0);");
            assert_eq!(run(&config).0[0].bytes, bytes, "{argument}");
        }
        let (shown, _, mut router) = run(&format!("{source} -> d :: DecIPTTL -> Show(0);"));
        assert_eq!(shown, []);
        assert_eq!(router.read("d.drops_by_reason"), Ok("0\texpired\n1\tno header\n".into()));
    }
}
