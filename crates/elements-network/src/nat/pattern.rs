//! Patterns: the new addresses and ports of a flow.
//!
//! | text | source address | source port | destination address | destination port |
//! | --- | --- | --- | --- | --- |
//! | `SADDR SPORT DADDR DPORT` | rewritten | rewritten | rewritten | rewritten |
//! | `SADDR DADDR SPORT` | rewritten | rewritten | rewritten | unchanged |
//! | `SADDR DADDR` | rewritten | unchanged | rewritten | unchanged |
//!
//! Each may be `-`, which leaves the field unchanged. `SPORT` may be a range `L-H`; without a port,
//! `SADDR` may be a range or a prefix. From a range of ports the source's own port is chosen if it
//! is free, else a random free one. With the suffix `#` the next free one is chosen, with `?`
//! always a random one.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpswitch_graph::language::FlatGraph;
use warpswitch_graph::language::args::split::split_words;
use warpswitch_graph::language::args::{BareIpv4Prefix, FromArg, Names, NoNames};

use super::flow::{FlowId, TableId};
use super::patterns;
use super::set::{FlowSet, Range};
use super::used::Line;

/// Where a pattern is read: what may be named there.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) graph: &'a FlatGraph,
    pub(crate) names: &'a dyn Names,
    /// The element that reads it.
    pub(crate) element: usize,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    /// 0 for "as it is", as in all places.
    src: u32,
    src_port: u16,
    dst: u32,
    dst_port: u16,
    /// What is chosen is at most this more than `src` or `src_port`.
    top: u32,
    has_ports: bool,
    is_sequential: bool,
    /// Whether the source's own port is tried first.
    prefers_own: bool,
    /// What is tried next, from the start of the range. Elements that use a pattern by its name
    /// share this; all of them run on one thread at a time, so it needs no order with anything.
    cursor: Arc<AtomicU32>,
    /// The element and number under which it is known, if it was named.
    named: Option<(usize, usize)>,
}

/// How a range is walked.
#[derive(Clone, Copy, Default)]
struct Walk {
    top: u32,
    is_sequential: bool,
    skips_own: bool,
}

impl Walk {
    /// Takes the sign off the end of a range.
    fn unmark<'t>(&mut self, text: &'t str) -> &'t str {
        if let Some(text) = text.strip_suffix('#') {
            (self.is_sequential, self.skips_own) = (true, true);
            return text;
        }
        match text.strip_suffix('?') {
            Some(text) => {
                self.skips_own = true;
                text
            }
            None => text,
        }
    }

    /// Reads a range or prefix of addresses, and gives the first.
    fn addresses(&mut self, text: &str, names: &dyn Names) -> Option<u32> {
        let text = self.unmark(text);
        if let Some((first, last)) = text.split_once('-') {
            let first = u32::from(Ipv4Addr::from_arg(first, names).ok()?);
            let last = u32::from(Ipv4Addr::from_arg(last, names).ok()?);
            self.top = last.checked_sub(first)?;
            return Some(first);
        }
        let prefix = BareIpv4Prefix::from_arg(text, names).ok()?.0;
        let network = u32::from(prefix.network());
        if u32::from(prefix.address) == 0 {
            return None;
        }
        match prefix.len()? {
            0 => None,
            32 => {
                self.top = 0;
                Some(network)
            }
            31 => {
                self.top = 1;
                Some(network)
            }
            // Neither the network's own address nor that of all its hosts.
            len => {
                self.top = (u32::MAX >> len) - 2;
                Some(network | 1)
            }
        }
    }

    /// Reads a range of ports, and gives the first.
    fn ports(&mut self, text: &str) -> Option<u16> {
        let (first, last) = self.unmark(text).split_once('-')?;
        let first = u16::from_arg(first, &NoNames).ok()?;
        let last = u16::from_arg(last, &NoNames).ok()?;
        self.top = last.checked_sub(first)?.into();
        Some(first)
    }
}

fn port(text: &str) -> Option<u16> {
    if text == "-" {
        return Some(0);
    }
    u16::from_arg(text, &NoNames).ok().filter(|&port| port > 0)
}

fn address(text: &str, names: &dyn Names) -> Option<u32> {
    if text == "-" {
        return Some(0);
    }
    Ipv4Addr::from_arg(text, names).ok().map(u32::from)
}

impl Pattern {
    /// Reads a pattern, or the name of one.
    ///
    /// # Errors
    /// What is wrong, in Click's words.
    pub(crate) fn parse(words: &[String], scope: Scope<'_>) -> Result<Self, String> {
        let (src, src_port, dst, dst_port) = match words {
            [name] => return patterns::find(name, scope),
            [src, dst] => (src, None, dst, None),
            [src, dst, src_port] => (src, Some(src_port), dst, None),
            [src, src_port, dst, dst_port] => (src, Some(src_port), dst, Some(dst_port)),
            _ => return Err("syntax error".to_owned()),
        };
        let mut walk = Walk::default();
        let names = scope.names;
        let src = address(src, names).or_else(|| walk.addresses(src, names));
        let src = src.ok_or("bad source address")?;
        let has_ports = src_port.is_some();
        let src_port = src_port.map_or(Some(0), |text| port(text).or_else(|| walk.ports(text)));
        let src_port = src_port.ok_or("bad source port")?;
        let dst = address(dst, names).ok_or("bad destination address")?;
        let dst_port = dst_port.map_or(Some(0), |text| port(text));
        let dst_port = dst_port.ok_or("bad destination port")?;
        let top = if has_ports { walk.top.min(u32::from(u16::MAX - src_port)) } else { walk.top };
        Ok(Self {
            src,
            src_port,
            dst,
            dst_port,
            top,
            has_ports,
            is_sequential: walk.is_sequential,
            prefers_own: !walk.skips_own,
            ..Self::default()
        })
    }

    /// Reads a pattern with the outputs of both directions behind it.
    ///
    /// # Errors
    /// What is wrong, in Click's words.
    pub(crate) fn parse_with_outputs(
        text: &str,
        scope: Scope<'_>,
    ) -> Result<(Self, [i32; 2]), String> {
        let words = split_words(text);
        if words.len() <= 2 {
            return Err("syntax error".to_owned());
        }
        let (words, outputs) = words.split_at(words.len() - 2);
        Ok((Self::parse(words, scope)?, parse_outputs(outputs)?))
    }

    /// The same pattern as number `number` of the patterns of `element`.
    pub(crate) fn named(self, element: usize, number: usize) -> Self {
        Self { named: Some((element, number)), ..self }
    }

    /// The element and number under which it is known, if it was named.
    pub(crate) fn name(&self) -> Option<(usize, usize)> {
        self.named
    }

    /// Chooses together with `other` from now on.
    pub(crate) fn share(&mut self, other: &Pattern) {
        self.cursor = Arc::clone(&other.cursor);
    }

    /// What it chooses from, if it does.
    pub(super) fn range(&self) -> Option<Range> {
        let first = if self.has_ports { self.src_port.into() } else { self.src };
        let address = (self.has_ports && self.src != 0).then_some(self.src);
        let range = Range { is_port: self.has_ports, address, first, last: first + self.top };
        (self.top > 0).then_some(range)
    }

    /// What `id` becomes; none if all of the range is taken.
    pub(super) fn rewrite(
        &self,
        id: FlowId,
        table: TableId,
        set: &FlowSet,
        random: impl FnOnce() -> u32,
    ) -> Option<FlowId> {
        let or = |new, old| if new == 0 { old } else { new };
        let mut new = FlowId {
            src: or(self.src, id.src),
            src_port: if self.src_port == 0 { id.src_port } else { self.src_port },
            dst: or(self.dst, id.dst),
            dst_port: if self.dst_port == 0 { id.dst_port } else { self.dst_port },
        };
        let Some(Range { is_port, first, last, .. }) = self.range() else { return Some(new) };
        let answer = new.reverse();
        let line =
            if is_port { set.port_line(table, answer) } else { Line::of_addresses(table, answer) };
        let chosen = self.choose(id.src_port, is_port, (first, last), random, |from, to| {
            set.next_free(line, from, to)
        })?;
        // A range of all addresses wraps, which is where it begins again.
        self.cursor.store((chosen - first).wrapping_add(1), Ordering::Relaxed);
        if is_port {
            new.src_port = chosen as u16;
        } else {
            new.src = chosen;
        }
        Some(new)
    }

    fn choose(
        &self,
        own: u16,
        is_port: bool,
        (first, last): (u32, u32),
        random: impl FnOnce() -> u32,
        next_free: impl Fn(u32, u32) -> Option<u32>,
    ) -> Option<u32> {
        let own = u32::from(own);
        if self.prefers_own && is_port && (first..=last).contains(&own) {
            let free = next_free(own, own);
            if free.is_some() {
                return free;
            }
        }
        let start = if self.is_sequential {
            let cursor = self.cursor.load(Ordering::Relaxed);
            if cursor > self.top { 0 } else { cursor }
        } else {
            ((u64::from(random()) * (u64::from(self.top) + 1)) >> 32) as u32
        };
        let start = first + start;
        let before = || start.checked_sub(1).filter(|&before| before >= first);
        next_free(start, last).or_else(|| before().and_then(|before| next_free(first, before)))
    }
}

/// Reads the outputs of both directions.
///
/// # Errors
/// What is wrong, in Click's words.
pub(crate) fn parse_outputs(words: &[String]) -> Result<[i32; 2], String> {
    let read = |word: &String| i32::from_arg(word, &NoNames).ok();
    match words {
        [forward, reply] => {
            let forward = read(forward).ok_or("bad forward port")?;
            Ok([forward, read(reply).ok_or("bad reply port")?])
        }
        _ => Err("bad forward port".to_owned()),
    }
}

/// As Click writes it.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |f: &mut fmt::Formatter<'_>, address: u32| match address {
            0 => f.write_str("-"),
            address => write!(f, "{}", Ipv4Addr::from(address)),
        };
        if !self.has_ports && self.top > 0 {
            let (first, last) = (Ipv4Addr::from(self.src), Ipv4Addr::from(self.src + self.top));
            write!(f, "{first}-{last}")?;
        } else {
            address(f, self.src)?;
        }
        match self.src_port {
            _ if !self.has_ports => {}
            0 => f.write_str(" -")?,
            first if self.top > 0 => write!(f, " {first}-{}", u32::from(first) + self.top)?,
            port => write!(f, " {port}")?,
        }
        f.write_str(" ")?;
        address(f, self.dst)?;
        match self.dst_port {
            _ if !self.has_ports => Ok(()),
            0 => f.write_str(" -"),
            port => write!(f, " {port}"),
        }
    }
}
