//! Decrements the IPv6 hop limit.
//!
//! # Synopsis
//! `DecIP6HLIM`
//!
//! # Ports
//! One input, agnostic. Output 0: packets with the hop limit decremented. Output 1, optional, push:
//! packets whose hop limit is 1 or 0, unchanged; they are dropped if it is not connected.
//!
//! # Configuration
//! None.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `drops` | read | packets with expired hop limit |
//!
//! # Drops
//! - `hop limit`: the hop limit is 1 or 0, and output 1 is not connected
//! - `no header`: no IPv6 header
//!
//! # Threads
//! One instance per worker.
//!
//! # Example
//! ```text
//! dec :: DecIP6HLIM; dec[1] -> ICMP6Error(2001:db8::1, timeexceeded) -> [0]rt;
//! ```

use warpswitch_graph::{Context, Element, ElementClass, Fate, HandlerError, HandlerSpec, Sharing};
use warpswitch_packet::Batch;

use super::support::ipv6_mut;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("DecIP6HLIM", "1/1-2", "a/ah", || Box::<DecIp6Hlim>::default())
        .drops(&["hop limit", "no header"]);

/// Reasons for drops, by number.
const HOP_LIMIT: usize = 0;
const NO_HEADER: usize = 1;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct DecIp6Hlim {
    drops: u64,
}

impl Element for DecIp6Hlim {
    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        cx.sort(batch, |_, packet| {
            let Some(mut view) = ipv6_mut(packet) else { return Fate::Drop(NO_HEADER) };
            match view.hop_limit() {
                0 | 1 => {
                    self.drops += 1;
                    Fate::EmitOrDrop(1, HOP_LIMIT)
                }
                hops => {
                    view.set_hop_limit(hops - 1);
                    Fate::Pass
                }
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
        Sharing::copies(Self { drops: 0 })
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
    fn packets_have_so_many_hops() {
        let check = |hops: u8, label: &str, left: u8| {
            let bytes = ipv6(&[1, 2, 3], |repr| repr.hop_limit = hops);
            let config = format!(
                "{} -> MarkIP6Header -> d :: DecIP6HLIM -> Show(0); d[1] -> Show(1);",
                source(&bytes)
            );
            let (shown, _, mut router) = run(&config);
            assert_eq!((&shown[0].label[..], shown[0].bytes[7]), (label, left));
            let mut bytes = bytes;
            bytes[7] = left;
            assert_eq!(shown[0].bytes, bytes, "nothing else changes");
            assert_eq!(router.read("d.drops"), Ok(label.into()));
        };
        check(255, "0", 254);
        check(2, "0", 1);
        check(1, "1", 1);
        check(0, "1", 0);
    }

    #[test]
    fn without_a_header_or_a_second_output_packets_are_dropped() {
        for (bytes, drops) in [
            (&[0x60; 39][..], "0\thop limit\n1\tno header\n"),
            (&ipv6(&[], |repr| repr.hop_limit = 1)[..], "1\thop limit\n0\tno header\n"),
        ] {
            let source = source(bytes);
            let (shown, _, mut router) =
                run(&format!("{source} -> MarkIP6Header -> d :: DecIP6HLIM -> Show(0);"));
            assert_eq!(shown.len(), 0);
            assert_eq!(router.read("d.drops_by_reason"), Ok(drops.into()));
        }
    }
}
