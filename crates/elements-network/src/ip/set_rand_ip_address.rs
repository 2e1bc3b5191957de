//! Sets the destination annotation to random addresses.
//!
//! # Synopsis
//! `SetRandIPAddress(PREFIX [, LIMIT])`
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Configuration
//! - `PREFIX`: range of the addresses
//! - `LIMIT`: size of a set of addresses, chosen at initialization, that packets draw from; at most
//!   16777216. 0 or negative: any address of the prefix; default: -1
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker. The addresses depend only on the seed of the run and the name of the
//! element.
//!
//! # Example
//! ```text
//! InfiniteSource(LIMIT 1000) -> SetRandIPAddress(10.0.0.0/8) -> rt;
//! ```

use warpswitch_graph::language::args::{Args, ArgsError, BareIpv4Prefix, Ipv4Prefix};
use warpswitch_graph::{ConfigureContext, Context, Element, ElementClass};
use warpswitch_packet::Batch;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("SetRandIPAddress", "1/1", "a/a", || Box::new(SetRandIpAddress::new()));

/// The most addresses that are chosen at the start.
const LIMIT_MAX: i32 = 1 << 24;

/// See the module.
#[derive(Debug)]
pub struct SetRandIpAddress {
    network: u32,
    mask: u32,
    limit: i32,
    chosen: Vec<u32>,
}

impl SetRandIpAddress {
    fn new() -> Self {
        Self { network: 0, mask: 0, limit: -1, chosen: Vec::new() }
    }

    fn choose(&self, cx: &mut Context<'_>) -> u32 {
        cx.random() & !self.mask | self.network
    }
}

impl Element for SetRandIpAddress {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut prefix = BareIpv4Prefix(Ipv4Prefix::new([0; 4].into(), 32));
        args.read_mp("PREFIX", &mut prefix).read_p("LIMIT", &mut self.limit);
        (self.network, self.mask) = (prefix.0.network().into(), prefix.0.mask.into());
        if self.limit > LIMIT_MAX {
            args.error_at("LIMIT", &format!("out of range, bound {LIMIT_MAX}"));
        }
        args.complete()
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        self.chosen = (0..self.limit).map(|_| self.choose(cx)).collect();
        Ok(())
    }

    fn process(&mut self, cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter_mut() {
            let address = match self.chosen.len() {
                0 => self.choose(cx),
                len => self.chosen[cx.random() as usize % len],
            };
            packet.set_dst_ipv4(address.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::run;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_lie_in_the_prefix_and_are_as_many_as_may_be() {
        let check = |arguments: &str, most: usize| {
            let (shown, ..) = run(&format!(
                "InfiniteSource(LIMIT 200) -> SetRandIPAddress({arguments}) -> Show(0);"
            ));
            assert!(shown.iter().all(|shown| shown.annotations[..2] == [10, 1]));
            let different: BTreeSet<_> =
                shown.iter().map(super::super::testing::Shown::dst).collect();
            assert!(different.len() > most / 2 && different.len() <= most, "{}", different.len());
        };
        check("10.1.7.7/16", 200);
        check("10.1.0.0/16, 7", 7);
        check("10.1.2.3", 1);
    }
}
