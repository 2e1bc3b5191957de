//! Rules as boxes.
//!
//! A *dimension* is a field, or one word's part of a field that lies in several words (IPv6 and
//! Ethernet addresses): an unsigned number of at most 32 bits. A prefix is an interval in each of
//! its parts; a port range is one. A mask that is no prefix is covered by the interval from its
//! lowest to its highest member: such a box is wider than its rule, and not *exact*.

use warpswitch_rules::schema::WORDS_MAX;
use warpswitch_rules::{RuleRef, Schema};

use crate::store::RuleStore;

/// An inclusive interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The smallest value.
    pub lo: u32,
    /// The largest value.
    pub hi: u32,
}

impl Span {
    /// Whether every value of `other` is in this span.
    pub fn covers(self, other: Span) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    /// The common part of two spans that meet.
    pub fn clipped(self, to: Span) -> Span {
        Span { lo: self.lo.max(to.lo), hi: self.hi.min(to.hi) }
    }

    /// The smallest span that covers both.
    pub fn joined(self, other: Span) -> Span {
        Span { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }
}

/// Where a dimension's number lies in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// The word of the key.
    pub word: usize,
    /// Offset of its lowest bit in the word.
    pub shift: u32,
    /// Its width.
    pub bits: u32,
    /// 0 for the source port, 1 for the destination port.
    port_side: Option<usize>,
}

impl Dim {
    /// The largest number of its width.
    pub fn ones(&self) -> u32 {
        u32::MAX >> (32 - self.bits)
    }

    /// The number of a key.
    pub fn part(&self, words: &[u32]) -> u32 {
        words[self.word] >> self.shift & self.ones()
    }

    /// The rule's span, and whether the rule allows every member of it.
    fn span(&self, rule: RuleRef<'_>) -> (Span, bool) {
        let (lo, mask) = (self.part(rule.matching.value), self.part(rule.matching.mask));
        let host = self.ones() & !mask;
        let is_prefix = host & host.wrapping_add(1) == 0;
        let span = Span { lo, hi: lo | host };
        let Some(side) = self.port_side else { return (span, is_prefix) };
        let range = rule.matching.ranges[side];
        let both = span.clipped(Span { lo: range.lo.into(), hi: range.hi.into() });
        // A mask and a range without a common member: no key matches, and any box will do.
        if both.lo > both.hi { (span, false) } else { (both, is_prefix) }
    }
}

/// One rule in one dimension: the values under a mask that lie in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// The values that the rule allows lie in it; empty (`lo > hi`) if there is none.
    span: Span,
    value: u32,
    mask: u32,
}

impl Side {
    fn new(dim: &Dim, rule: RuleRef<'_>) -> Self {
        let (value, mask) = (dim.part(rule.matching.value), dim.part(rule.matching.mask));
        let mut span = Span { lo: value, hi: value | dim.ones() & !mask };
        if let Some(side) = dim.port_side {
            let range = rule.matching.ranges[side];
            span = span.clipped(Span { lo: range.lo.into(), hi: range.hi.into() });
        }
        Self { span, value, mask }
    }

    /// Whether some value of `other` may be allowed: exact for single values and for masks that
    /// are prefixes. Otherwise the values between the lowest and the highest allowed one count.
    pub fn meets(self, other: Span) -> bool {
        if other.lo == other.hi {
            return self.covers(other);
        }
        let both = self.span.clipped(other);
        self.span.lo <= self.span.hi && both.lo <= both.hi
    }

    /// The smallest interval with all allowed values.
    pub fn span(self) -> Span {
        self.span
    }

    /// Whether every value of `other` is allowed. Exact.
    pub fn covers(self, other: Span) -> bool {
        // The bits above the first that differs are common to all of `other`; the others vary.
        let varying = u32::MAX.checked_shr((other.lo ^ other.hi).leading_zeros()).unwrap_or(0);
        self.span.covers(other)
            && self.mask & varying == 0
            && (other.lo ^ self.value) & self.mask == 0
    }
}

/// The sides of a rule, in the order of `dims`.
pub fn sides_of<'a>(dims: &'a [Dim], rule: RuleRef<'a>) -> impl Iterator<Item = Side> + 'a {
    dims.iter().map(move |dim| Side::new(dim, rule))
}

/// Whether a rule may match a key of `region`: see [`Side::meets`].
pub fn meets(sides: &[Side], region: &[Span]) -> bool {
    sides.iter().zip(region).all(|(side, span)| side.meets(*span))
}

/// Whether a rule matches every key of `region`. Exact.
pub fn covers(sides: &[Side], region: &[Span]) -> bool {
    sides.iter().zip(region).all(|(side, span)| side.covers(*span))
}

/// All dimensions of a schema; a bit that two fields share counts once.
pub fn dims_of(schema: &Schema) -> Vec<Dim> {
    let mut seen = [0u32; WORDS_MAX];
    let mut dims = Vec::new();
    for spec in schema.fields {
        let (mut offset, end) = (spec.bit_offset, spec.bit_offset + spec.bits);
        while offset < end {
            let bits = (end - offset).min(32 - offset % 32) as u32;
            let (word, shift) = (offset / 32, 32 - (offset % 32) as u32 - bits);
            offset += bits as usize;
            let port_side = (word == schema.ports_word).then_some(usize::from(shift == 0));
            let dim = Dim { word, shift, bits, port_side };
            if seen[word] & dim.ones() << shift == 0 {
                seen[word] |= dim.ones() << shift;
                dims.push(dim);
            }
        }
    }
    dims
}

/// The boxes of a rule set, in the dimensions that some rule examines.
pub(super) struct Boxes {
    pub(super) dims: Vec<Dim>,
    /// `dims.len()` a rule, rules by precedence.
    spans: Vec<Span>,
    /// Whether a rule's box is all and only what it matches.
    exact: Vec<bool>,
}

impl Boxes {
    pub(super) fn new(store: &RuleStore, places: &[u32]) -> Self {
        let mut dims = dims_of(store.schema());
        let everything = |dim: &Dim| Span { lo: 0, hi: dim.ones() };
        dims.retain(|dim| {
            places.iter().any(|&place| dim.span(store.rule(place)).0 != everything(dim))
        });
        let mut spans = Vec::with_capacity(dims.len() * places.len());
        let mut exact = Vec::with_capacity(places.len());
        for &place in places {
            let rule = store.rule(place);
            let mut all_exact = true;
            for dim in &dims {
                let (span, is_exact) = dim.span(rule);
                spans.push(span);
                all_exact &= is_exact;
            }
            exact.push(all_exact);
        }
        Self { dims, spans, exact }
    }

    pub(super) fn of(&self, rule: u32) -> &[Span] {
        &self.spans[rule as usize * self.dims.len()..][..self.dims.len()]
    }

    /// Whether `rule` matches every key of `region` that `other` matches.
    pub(super) fn hides(&self, rule: u32, other: u32, region: &[Span]) -> bool {
        self.exact[rule as usize]
            && self
                .of(rule)
                .iter()
                .zip(self.of(other))
                .zip(region)
                .all(|((mine, other), region)| mine.covers(other.clipped(*region)))
    }

    /// Whether `rule` matches every key of `region`.
    pub(super) fn fills(&self, rule: u32, region: &[Span]) -> bool {
        self.exact[rule as usize]
            && self.of(rule).iter().zip(region).all(|(mine, region)| mine.covers(*region))
    }

    /// The space of all keys.
    pub(super) fn everything(&self) -> Vec<Span> {
        self.dims.iter().map(|dim| Span { lo: 0, hi: dim.ones() }).collect()
    }

    /// The smallest box around the parts of `rules` in `region`.
    pub(super) fn hull(&self, rules: &[u32], region: &[Span]) -> Vec<Span> {
        let clip = |rule: u32, dim: usize| self.of(rule)[dim].clipped(region[dim]);
        (0..self.dims.len())
            .map(|dim| {
                let parts = rules.iter().map(|&rule| clip(rule, dim));
                parts.reduce(Span::joined).unwrap_or(region[dim])
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::schema::SCHEMAS;

    #[test]
    fn dimensions_cover_every_used_bit_once() {
        for schema in SCHEMAS {
            let mut covered = [0u32; WORDS_MAX];
            for dim in dims_of(schema) {
                assert_eq!(covered[dim.word] & dim.ones() << dim.shift, 0, "{}", schema.name);
                covered[dim.word] |= dim.ones() << dim.shift;
            }
            assert_eq!(covered, schema.used_bits(), "{}", schema.name);
            let ports = dims_of(schema).into_iter().filter_map(|dim| dim.port_side);
            assert_eq!(ports.collect::<Vec<_>>(), [0, 1]);
        }
    }
}
