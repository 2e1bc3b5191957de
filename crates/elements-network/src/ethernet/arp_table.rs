//! Table of IP addresses and their Ethernet addresses, shared by several `ARPQuerier`s.
//!
//! # Synopsis
//! `ARPTable(CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT)`
//!
//! # Ports
//! None.
//!
//! # Configuration
//! - `CAPACITY`: maximum number of packets held for resolution, default: 2048; 0 means 65536. On
//!   overflow, the packets of the oldest entries are dropped.
//! - `CAPACITY_SLIM_FACTOR`: on overflow, 1/`CAPACITY_SLIM_FACTOR` of `CAPACITY` is dropped,
//!   default: 2; 0 is rejected
//! - `ENTRY_CAPACITY`: maximum number of entries, default: 0, which means 262144. On overflow, the
//!   oldest entries are evicted.
//! - `ENTRY_PACKET_CAPACITY`: maximum number of packets held per address, default: 0, no limit. On
//!   overflow, the new packet is dropped.
//! - `TIMEOUT`: lifetime of an entry, default: 5 minutes; 0 means no expiry
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `table` | read | lines: address, 1 if resolved or 0, Ethernet address, age in seconds |
//! | `count` | read | entries |
//! | `length` | read | held packets |
//! | `drops` | read | packets dropped while held, or rejected by `ENTRY_PACKET_CAPACITY` |
//! | `insert` | write | `IP ETH` |
//! | `delete` | write | `IP` |
//! | `clear` | write | removes all entries |
//!
//! # Drops
//! - `too many wait`: `CAPACITY` exceeded
//! - `no answer`: the entry expired or was evicted
//! - `forgotten`: the entry was removed by `delete` or `clear`
//!
//! # Threads
//! Runs on one worker.
//!
//! # Example
//! ```text
//! t :: ARPTable(TIMEOUT 1min); q1 :: ARPQuerier(eth0, TABLE t); q2 :: ARPQuerier(eth1, TABLE t);
//! ```

use std::time::Duration;

use warpswitch_graph::language::args::{Args, ArgsError, EtherAddress};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec,
};

use super::neighbours::{Limits, Neighbours, REASONS};
use std::net::Ipv4Addr;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("ARPTable", "0/0", "a/a", || Box::<ArpTable>::default()).drops(&REASONS);

/// A table, and the timer that it needs while it has entries.
#[derive(Debug, Default)]
pub(super) struct TimedTable {
    pub(super) neighbours: Neighbours,
    has_timer: bool,
}

impl TimedTable {
    /// Sets the timer if there is something to forget. Called with the context of the element that
    /// owns the table.
    pub(super) fn arm(&mut self, cx: &mut Context<'_>) {
        let limits = &self.neighbours.limits;
        if !self.has_timer && self.neighbours.len() > 0 && !limits.timeout.is_zero() {
            self.has_timer = true;
            cx.set_timer(0, cx.now() + limits.period());
        }
    }

    pub(super) fn run_timer(&mut self, cx: &mut Context<'_>) {
        self.has_timer = false;
        let now = cx.now();
        self.neighbours.slim(cx, now);
        self.arm(cx);
    }
}

/// Reads the limits of a table, as far as they are specified.
pub(super) fn read_limits(args: &mut Args<'_>, limits: &mut Limits) {
    let mut timeout: Duration = limits.timeout;
    args.read("CAPACITY", &mut limits.packets)
        .read("ENTRY_CAPACITY", &mut limits.entries)
        .read("ENTRY_PACKET_CAPACITY", &mut limits.packets_per_entry)
        .read("CAPACITY_SLIM_FACTOR", &mut limits.slim_factor)
        .read("TIMEOUT", &mut timeout);
    if limits.slim_factor == 0 {
        args.error_at("", "CAPACITY_SLIM_FACTOR cannot be zero");
    }
    limits.timeout = timeout;
}

/// The handlers of a table.
pub(super) fn read_table(
    neighbours: &Neighbours,
    cx: &Context<'_>,
    name: &str,
) -> Result<String, HandlerError> {
    Ok(match name {
        "table" => neighbours.lines(cx.now()),
        "count" => neighbours.len().to_string(),
        "length" => neighbours.packets().to_string(),
        "drops" => neighbours.drops().to_string(),
        _ => return Err(HandlerError::Missing),
    })
}

/// Reads what is written to `insert`.
pub(super) fn parse_insert(cx: &Context<'_>, value: &str) -> Result<(u32, [u8; 6]), HandlerError> {
    let names = cx.names();
    let (mut ip, mut ether) = (Ipv4Addr::UNSPECIFIED, EtherAddress::default());
    Args::of_words(value, &names)
        .read_mp("IP", &mut ip)
        .read_mp("ETH", &mut ether)
        .complete()
        .map_err(|error| HandlerError::failed(error.to_string()))?;
    Ok((ip.into(), ether.0))
}

/// Reads what is written to `delete`.
pub(super) fn parse_delete(cx: &Context<'_>, value: &str) -> Result<u32, HandlerError> {
    let names = cx.names();
    let mut ip = Ipv4Addr::UNSPECIFIED;
    Args::of_words(value, &names)
        .read_mp("IP", &mut ip)
        .complete()
        .map_err(|error| HandlerError::failed(error.to_string()))?;
    Ok(ip.into())
}

/// See the module.
#[derive(Debug, Default)]
pub struct ArpTable {
    pub(super) table: TimedTable,
}

impl Element for ArpTable {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        read_limits(args, &mut self.table.neighbours.limits);
        args.complete()
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, _timer: usize) {
        self.table.run_timer(cx);
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("table").expensive(),
                HandlerSpec::read("count"),
                HandlerSpec::read("length"),
                HandlerSpec::read("drops"),
                HandlerSpec::write("insert"),
                HandlerSpec::write("delete"),
                HandlerSpec::button("clear"),
            ]
        }
    }

    fn read(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        read_table(&self.table.neighbours, cx, name)
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        let now = cx.now();
        match name {
            "insert" => {
                let (ip, mac) = parse_insert(cx, value)?;
                self.table.neighbours.insert(cx, ip, mac, now);
            }
            "delete" => {
                let ip = parse_delete(cx, value)?;
                self.table.neighbours.remove(cx, ip);
            }
            _ => self.table.neighbours.clear(cx),
        }
        self.table.arm(cx);
        Ok(String::new())
    }

    fn held(&self) -> usize {
        self.table.neighbours.packets()
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.table.neighbours.take(&mut old.table.neighbours);
            self.table.arm(cx);
        }
    }
}
