//! Learning Ethernet bridge.
//!
//! # Synopsis
//! `EtherSwitch(TIMEOUT)`
//!
//! # Ports
//! Any number of push inputs and as many push outputs. Input N and output N are the same network.
//!
//! # Configuration
//! - `TIMEOUT`: seconds until a learned address expires after its last frame, default: 300; 0
//!   disables learning and makes the element a hub
//!
//! A frame for a learned address is emitted on the output of that address. Other frames are flooded
//! to all outputs except the one of their own network. Expiry uses packet timestamps. At most 65536
//! addresses are learned; while the table is full, new addresses are ignored.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table` | read | lines of address and output, sorted by address |
//! | `timeout` | read, write | seconds |
//!
//! # Drops
//! - `same network`: the destination is in the network that the frame came from
//! - `no other network`: nothing to flood to, as the element has one port only
//! - `too short`: no complete Ethernet header
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! FromDevice(eth0) -> [0] s :: EtherSwitch; FromDevice(eth1) -> [1] s;
//! s[0] -> Queue -> ToDevice(eth0); s[1] -> Queue -> ToDevice(eth1);
//! ```

use std::collections::HashMap;
use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ethernet::{Ethernet, MacAddr};

use warpswitch_elements_support::format::parse;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("EtherSwitch", "-/=", "h/h", || Box::new(EtherSwitch::new()))
        .flow("#/[^#]")
        .drops(&["same network", "no other network", "too short"]);

/// Reasons for drops, by number.
const SAME: usize = 0;
const NO_OTHER: usize = 1;
const SHORT: usize = 2;
/// The most addresses that are known.
const ADDRESSES_MAX: usize = 1 << 16;
/// A full table is looked through for old addresses this often at most.
const SWEEP_NS: i64 = 1_000_000_000;

/// Where an address was seen, and when.
#[derive(Clone, Copy, Debug)]
struct Seen {
    port: u32,
    at_ns: i64,
}

/// See the module.
#[derive(Debug)]
pub struct EtherSwitch {
    timeout_ns: i64,
    table: HashMap<MacAddr, Seen>,
    swept_ns: i64,
}

impl EtherSwitch {
    fn new() -> Self {
        Self { timeout_ns: 300_000_000_000, table: HashMap::new(), swept_ns: i64::MIN }
    }

    fn set_timeout(&mut self, timeout: Duration) {
        self.timeout_ns = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX / 1_000_000_000);
        self.timeout_ns = self.timeout_ns.saturating_mul(1_000_000_000);
    }

    fn is_known(&self, seen: Seen, now_ns: i64) -> bool {
        now_ns < seen.at_ns.saturating_add(self.timeout_ns)
    }

    fn learn(&mut self, address: MacAddr, port: usize, now_ns: i64) {
        let seen = Seen { port: port as u32, at_ns: now_ns };
        if let Some(known) = self.table.get_mut(&address) {
            *known = seen;
            return;
        }
        if self.table.len() >= ADDRESSES_MAX && now_ns.saturating_sub(self.swept_ns) >= SWEEP_NS {
            self.swept_ns = now_ns;
            let oldest_ns = now_ns.saturating_sub(self.timeout_ns);
            self.table.retain(|_, seen| seen.at_ns > oldest_ns);
        }
        if self.table.len() < ADDRESSES_MAX {
            self.table.insert(address, seen);
        }
    }

    /// The network that `dst` is in.
    fn find(&mut self, dst: MacAddr, now_ns: i64) -> Option<usize> {
        let seen = *self.table.get(&dst).filter(|_| !dst.is_multicast())?;
        if self.is_known(seen, now_ns) {
            return Some(seen.port as usize);
        }
        self.table.remove(&dst);
        None
    }

    /// Sends copies to all networks but `from`, the packet itself to the last.
    fn flood(cx: &mut Context<'_>, packet: Packet, from: usize) {
        let outputs = cx.outputs();
        let Some(last) = (0..outputs).find(|port| *port != from) else {
            return cx.drop_packet(packet, NO_OTHER);
        };
        for port in (last + 1..outputs).rev().filter(|port| *port != from) {
            let copy = cx.pool().copy(&packet);
            cx.emit(port, copy);
        }
        cx.emit(last, packet);
    }
}

impl Element for EtherSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        let mut timeout = None;
        args.read("TIMEOUT", &mut timeout);
        if let Some(timeout) = timeout {
            self.set_timeout(timeout);
        }
        args.complete()
    }

    fn push(&mut self, cx: &mut Context<'_>, input: usize, mut batch: Batch) {
        for packet in batch.drain() {
            let Ok(frame) = Ethernet::new_checked(packet.data()) else {
                cx.drop_packet(packet, SHORT);
                continue;
            };
            let (src, dst, now_ns) = (frame.src(), frame.dst(), packet.timestamp_ns());
            let mut output = None;
            if self.timeout_ns != 0 {
                self.learn(src, input, now_ns);
                output = self.find(dst, now_ns);
            }
            match output {
                None => Self::flood(cx, packet, input),
                Some(output) if output == input => cx.drop_packet(packet, SAME),
                Some(output) => cx.emit(output, packet),
            }
        }
        cx.pool().recycle_empty(batch);
    }

    fn accepts_gso(&self) -> bool {
        true
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const { &[HandlerSpec::read("table").expensive(), HandlerSpec::both("timeout")] }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        if name == "timeout" {
            return Ok((self.timeout_ns / 1_000_000_000).to_string());
        }
        let mut lines: Vec<_> = self.table.iter().map(|(mac, seen)| (mac.0, seen.port)).collect();
        lines.sort_unstable();
        Ok(lines.iter().map(|(mac, port)| format!("{} {port}\n", EtherAddress(*mac))).collect())
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        _name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let timeout =
            parse(value).map_err(|_| HandlerError::failed("expected timeout (integer)"))?;
        self.set_timeout(timeout);
        Ok(String::new())
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.table = std::mem::take(&mut old.table);
            let outputs = cx.outputs();
            self.table.retain(|_, seen| (seen.port as usize) < outputs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::tests::run_for;

    /// Sources `i0` to `i2` of frames from host `n` to host `to[n]`, on networks 0 to 2.
    fn bridge(args: &str, to: [u8; 3]) -> String {
        let mut config = format!("s :: EtherSwitch({args});");
        for (port, to) in to.iter().enumerate() {
            config += &format!(
                "i{port} :: InfiniteSource(DATA \\<0200000000{to:02x} 02000000000{port} 0800>,
                    LIMIT 1, ACTIVE false) -> [{port}] s;
                s[{port}] -> c{port} :: Counter -> Discard;"
            );
        }
        config
    }

    #[test]
    fn unknown_addresses_are_flooded_and_known_ones_are_not() {
        let (mut router, _) = run_for(&bridge("", [1, 0, 2]), 1);
        // What each source's frame does to the counts, after those before it.
        for (source, counts) in [(0, [0, 1, 1]), (1, [1, 1, 1]), (0, [1, 2, 1]), (2, [1, 2, 1])] {
            router.write(&format!("i{source}.reset"), "").expect("it obeys");
            router.write(&format!("i{source}.active"), "true").expect("it obeys");
            router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
            let read = |port| router.read(&format!("c{port}.count")).expect("it is there");
            assert_eq!([0, 1, 2].map(read), counts.map(|count: u32| count.to_string()), "{source}");
        }
        let table = "02-00-00-00-00-00 0\n02-00-00-00-00-01 1\n02-00-00-00-00-02 2\n";
        assert_eq!(router.read("s.table"), Ok(table.into()));
        let drops = "1\tsame network\n0\tno other network\n0\ttoo short\n";
        assert_eq!(router.read("s.drops_by_reason"), Ok(drops.into()));
        assert_eq!(router.packets_unaccounted(), 0);
    }

    #[test]
    fn addresses_are_forgotten_and_a_hub_knows_none() {
        let (a, b) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([3, 0, 0, 0, 0, 1]));
        let mut switch = EtherSwitch::new();
        switch.set_timeout(Duration::from_secs(10));
        switch.learn(a, 4, 0);
        switch.learn(b, 5, 0);
        assert_eq!(switch.find(a, 9_999_999_999), Some(4));
        assert_eq!(switch.find(a, 10_000_000_000), None);
        assert_eq!(switch.table.len(), 1);
        assert_eq!(switch.find(b, 0), None, "a group is no host");
        let (mut router, _) = run_for(&bridge("TIMEOUT 0", [1, 0, 2]), 1);
        for source in ["i0", "i1", "i0"] {
            router.write(&format!("{source}.reset"), "").expect("it obeys");
            router.write(&format!("{source}.active"), "true").expect("it obeys");
            router.run(&mut warpswitch_graph::simulate::SimulatedHost::default());
        }
        let counts = ["c0", "c1", "c2"].map(|name| router.read(&format!("{name}.count")));
        assert_eq!(counts, ["1", "2", "3"].map(|count| Ok(count.into())));
        assert_eq!(router.read("s.table"), Ok(String::new()));
    }

    #[test]
    fn the_table_is_bounded_and_old_addresses_make_room() {
        let mut switch = EtherSwitch::new();
        let address = |n: u32| {
            let [a, b, c, d] = n.to_be_bytes();
            MacAddr([2, 0, a, b, c, d])
        };
        for n in 0..=ADDRESSES_MAX as u32 {
            switch.learn(address(n), 1, i64::from(n));
        }
        assert_eq!(switch.table.len(), ADDRESSES_MAX);
        assert_eq!(switch.find(address(ADDRESSES_MAX as u32), 0), None);
        switch.learn(address(u32::MAX), 1, switch.timeout_ns + 2 * SWEEP_NS);
        assert_eq!(switch.table.len(), 1);
    }
}
