//! Counts packets by IPv4 source address.
//!
//! # Synopsis
//! `SourceCount(SOURCES_MAX)`
//!
//! # Ports
//! One input, one output; push or pull. Expects the IP header annotation (`CheckIPHeader`,
//! `MarkIPHeader`).
//!
//! # Configuration
//! - `SOURCES_MAX`: maximum number of addresses in the table, 4096 by default
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `sources` | read | addresses |
//! | `uncounted` | read | packets without an IPv4 header, or of a source beyond `SOURCES_MAX` |
//! | `top` | read, parameter: number of lines, 10 by default | one `ADDRESS PACKETS` a line |
//! | `max` | read, write | `SOURCES_MAX` |
//! | `reset` | write | |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Each worker has a copy; handlers read the sum. `SOURCES_MAX` limits each copy and the sum.
//!
//! # Example
//! ```text
//! FromDump(in.pcap) -> CheckIPHeader(14) -> s :: SourceCount -> Discard;
//! DriverManager(wait, print s.top);
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Sharing,
};
use warpswitch_packet::packet::Header;
use warpswitch_packet::{Batch, Packet};
use warpswitch_wire::ipv4::Ipv4;

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("SourceCount", "1/1", "a/a", || Box::new(SourceCount::new(4096)));

/// See the module.
#[derive(Debug)]
pub struct SourceCount {
    sources_max: usize,
    packets: HashMap<Ipv4Addr, u64>,
    uncounted: u64,
}

impl SourceCount {
    fn new(sources_max: usize) -> Self {
        Self { sources_max, packets: HashMap::new(), uncounted: 0 }
    }

    /// Adds `packets` of `source`; counts them as uncounted if the table is full.
    fn add(&mut self, source: Ipv4Addr, packets: u64) {
        if let Some(count) = self.packets.get_mut(&source) {
            *count += packets;
        } else if self.packets.len() < self.sources_max {
            self.packets.insert(source, packets);
        } else {
            self.uncounted += packets;
        }
    }

    /// Adds the counts of `other`.
    fn merge(&mut self, other: &Self) {
        self.uncounted += other.uncounted;
        for (&source, &packets) in &other.packets {
            self.add(source, packets);
        }
    }

    /// The `lines` busiest sources; ties by address.
    fn top(&self, lines: usize) -> String {
        let mut sources: Vec<_> = self.packets.iter().collect();
        sources.sort_by_key(|&(&source, &packets)| (Reverse(packets), source));
        let mut text = String::new();
        for (source, packets) in sources.into_iter().take(lines) {
            let _ = writeln!(text, "{source} {packets}");
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// The source address, if the IP header annotation points to an IPv4 header.
fn source_of(packet: &Packet) -> Option<Ipv4Addr> {
    let view = Ipv4::new_checked(packet.from_header(Header::Network)).ok()?;
    Some(view.src())
}

/// Parses the value of a handler.
fn parse(value: &str) -> Result<usize, HandlerError> {
    let value = value.trim();
    value.parse().map_err(|_| {
        HandlerError::failed(format!("invalid number '{value}'; expected an integer from 0"))
    })
}

impl Element for SourceCount {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read_p("SOURCES_MAX", &mut self.sources_max).complete()
    }

    fn process(&mut self, _cx: &mut Context<'_>, batch: &mut Batch) {
        for packet in batch.iter() {
            match source_of(packet) {
                Some(source) => self.add(source, 1),
                None => self.uncounted += 1,
            }
        }
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("sources"),
                HandlerSpec::read("uncounted"),
                HandlerSpec::read("top").with_param().expensive(),
                HandlerSpec::both("max"),
                HandlerSpec::button("reset"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        param: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "sources" => Ok(self.packets.len().to_string()),
            "uncounted" => Ok(self.uncounted.to_string()),
            "top" if param.is_empty() => Ok(self.top(10)),
            "top" => Ok(self.top(parse(param)?)),
            "max" => Ok(self.sources_max.to_string()),
            _ => Err(HandlerError::Missing),
        }
    }

    fn write(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        value: &str,
    ) -> Result<String, HandlerError> {
        match name {
            "max" => self.sources_max = parse(value)?,
            "reset" => *self = Self::new(self.sources_max),
            _ => return Err(HandlerError::Missing),
        }
        Ok(String::new())
    }

    fn take_state(&mut self, _cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            self.merge(old);
        }
    }

    fn sharing(&self) -> Sharing {
        Sharing::copies(Self::new(self.sources_max))
    }

    fn absorb(&mut self, copy: &mut dyn Element) {
        if let Some(copy) = copy.downcast_mut::<Self>() {
            self.merge(copy);
        }
    }
}
