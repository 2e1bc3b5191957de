//! Ports that the rules of a group allow: which payloads need a search at all.

use std::collections::HashSet;
use std::sync::Arc;

use crate::ranges::Set;
use crate::rule::{Header, Ports};

/// Words of a set of ports.
const WORDS: usize = (1 << 16) / 64;

/// The ports of several rule headers together. It allows every packet that one of them allows, and
/// some more: source and destination ports are tested apart.
#[derive(Debug)]
pub(super) struct PortFilter {
    src: PortSet,
    dst: PortSet,
}

/// A set of ports.
#[derive(Debug)]
enum PortSet {
    None,
    All,
    Some(Box<[u64]>),
}

impl PortFilter {
    /// The filter of these headers; it allows nothing if there are none.
    pub(super) fn new<'a>(headers: impl Iterator<Item = &'a Header>) -> Self {
        let mut filter = Self { src: PortSet::None, dst: PortSet::None };
        let mut added = HashSet::new();
        for header in headers {
            let Header { src_ports, dst_ports, both_ways, .. } = header;
            let ways = [(src_ports, dst_ports), (dst_ports, src_ports)];
            for (src, dst) in ways.into_iter().take(1 + usize::from(*both_ways)) {
                if added.insert((Arc::as_ptr(src), true)) {
                    filter.src.add(src);
                }
                if added.insert((Arc::as_ptr(dst), false)) {
                    filter.dst.add(dst);
                }
            }
        }
        filter
    }

    #[inline]
    pub(super) fn allows(&self, src: u16, dst: u16) -> bool {
        self.src.has(src) && self.dst.has(dst)
    }
}

impl PortSet {
    fn add(&mut self, ports: &Ports) {
        if matches!(self, Self::All) || ports.is_all() {
            *self = Self::All;
            return;
        }
        if matches!(self, Self::None) {
            *self = Self::Some(vec![0; WORDS].into());
        }
        let Self::Some(words) = self else { return };
        for port in ports.iter().flat_map(|(low, high)| low..=high) {
            words[usize::from(port / 64)] |= 1 << (port % 64);
        }
    }

    #[inline]
    fn has(&self, port: u16) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(words) => words[usize::from(port / 64)] >> (port % 64) & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::rules;

    #[test]
    fn allows_every_packet_that_a_header_allows() {
        let text = "alert tcp any any -> any [80,8000:8003] (content:\"ab\"; sid:1;)\n\
                    alert tcp any 20 <> any 5 (content:\"ab\"; sid:2;)\n";
        let rules = rules(text);
        let filter = |n: usize| PortFilter::new(rules.rules.iter().take(n).map(|it| &it.header));
        assert!(!filter(0).allows(1, 80));
        let one = filter(1);
        assert!(one.allows(1, 80) && one.allows(65535, 8003) && !one.allows(80, 8004));
        let two = filter(2);
        assert!(two.allows(20, 5) && two.allows(5, 20) && two.allows(9, 80));
        assert!(!two.allows(20, 6));
    }
}
