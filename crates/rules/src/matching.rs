//! What a rule demands of a key: bits under masks, and ranges of the two ports.
//!
//! Each rule has one normal form, whatever it was written as, and it serves both kinds of engine:
//!
//! | a port was given as | `mask` has | `ranges` has |
//! | --- | --- | --- |
//! | any | no bit | `0..=65535` |
//! | exact or prefix | the prefix bits | the same set as a range |
//! | a range that is no prefix | the bits all its members share | the range |
//! | a mask that is no prefix | the mask | `0..=65535` |
//!
//! A key matches if both hold. So `mask` alone never loses a match (a hash or a tree may use it as
//! a filter), and it is the whole truth wherever [`MatchRef::ranges_are_prefixes`] says so.
//!
//! # Invariants
//! - M1: `value` has no bit outside `mask`, and neither has a bit outside the schema's fields.
//! - M2: two equal sets of keys written in any of the forms above have equal normal forms.

use crate::schema::{Field, FieldSpec, Schema, WORDS_MAX};

/// An inclusive range of transport ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    /// Lowest port.
    pub lo: u16,
    /// Highest port.
    pub hi: u16,
}

impl PortRange {
    /// All ports.
    pub const ANY: PortRange = PortRange { lo: 0, hi: u16::MAX };

    /// Whether `port` lies inside.
    #[inline]
    pub fn contains(self, port: u16) -> bool {
        self.lo <= port && port <= self.hi
    }

    /// Whether the two ranges share a port.
    pub fn overlaps(self, other: PortRange) -> bool {
        self.lo <= other.hi && other.lo <= self.hi
    }

    /// The prefix of this range, as a mask, if the range is one.
    pub fn as_prefix_mask(self) -> Option<u16> {
        let host = self.lo ^ self.hi;
        let is_prefix = host & host.wrapping_add(1) == 0 && self.lo & host == 0;
        is_prefix.then_some(!host)
    }

    /// A mask of the leading bits that every port of the range shares.
    pub fn common_mask(self) -> u16 {
        let differing = self.lo ^ self.hi;
        let host_bits = 16 - differing.leading_zeros();
        u16::MAX.checked_shl(host_bits).unwrap_or(0)
    }
}

/// How one field of a rule is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// The field is not examined.
    Any,
    /// One value.
    Exact(u128),
    /// A value and the number of leading bits that count, neither none nor all.
    Prefix(u128, usize),
    /// An inclusive range that is no prefix.
    Range(u16, u16),
    /// A value and a mask that is no prefix.
    Mask(u128, u128),
}

/// An owned match, for building and changing rule sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    schema: &'static Schema,
    value: [u32; WORDS_MAX],
    mask: [u32; WORDS_MAX],
    ranges: [PortRange; 2],
}

/// A borrowed match: what engines read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchRef<'a> {
    /// Bits that the key must have where `mask` is 1.
    pub value: &'a [u32],
    /// 1 = examined.
    pub mask: &'a [u32],
    /// `l4_src`, `l4_dst`.
    pub ranges: [PortRange; 2],
    /// Index of the ports word.
    pub ports_word: usize,
}

impl Match {
    /// A match that every key passes.
    pub fn any(schema: &'static Schema) -> Self {
        Self { schema, value: [0; WORDS_MAX], mask: [0; WORDS_MAX], ranges: [PortRange::ANY; 2] }
    }

    /// The schema of the keys it applies to.
    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    /// Demands `value` of `field` where `mask` is 1; the field's former demand is replaced.
    ///
    /// # Panics
    /// If the schema has no such field: a caller bug, parsers check first.
    pub fn set_mask(&mut self, field: Field, value: u128, mask: u128) -> &mut Self {
        let spec = self.spec(field);
        let mask = mask & spec.value_max();
        spec.write(&mut self.value, value & mask);
        spec.write(&mut self.mask, mask);
        if let Some(side) = port_side(field) {
            let host = !(mask as u16);
            let is_prefix = host & host.wrapping_add(1) == 0;
            let lo = (value & mask) as u16;
            self.ranges[side] =
                if is_prefix { PortRange { lo, hi: lo | host } } else { PortRange::ANY };
        }
        self
    }

    /// Demands exactly `value` of `field`.
    ///
    /// # Panics
    /// If the schema has no such field: a caller bug, parsers check first.
    pub fn set_exact(&mut self, field: Field, value: u128) -> &mut Self {
        self.set_mask(field, value, u128::MAX)
    }

    /// Demands the first `len` bits of `value` of `field`.
    ///
    /// # Panics
    /// If the schema has no such field or it is shorter than `len`: a caller bug.
    pub fn set_prefix(&mut self, field: Field, value: u128, len: usize) -> &mut Self {
        let bits = self.spec(field).bits;
        assert!(len <= bits, "a prefix of {len} bits in a field of {bits}");
        let host = if bits - len == 128 { u128::MAX } else { (1u128 << (bits - len)) - 1 };
        self.set_mask(field, value, !host)
    }

    /// Demands a port in `lo..=hi`.
    ///
    /// # Panics
    /// If `field` is no port, or the range is empty: a caller bug, parsers check first.
    pub fn set_range(&mut self, field: Field, lo: u16, hi: u16) -> &mut Self {
        let side = port_side(field).expect("only ports accept ranges");
        assert!(lo <= hi, "empty range {lo}..={hi}");
        let range = PortRange { lo, hi };
        let mask = u128::from(range.common_mask());
        self.set_mask(field, u128::from(lo), mask);
        self.ranges[side] = range;
        self
    }

    /// Borrows the words of the schema.
    pub fn as_ref(&self) -> MatchRef<'_> {
        MatchRef {
            value: &self.value[..self.schema.words],
            mask: &self.mask[..self.schema.words],
            ranges: self.ranges,
            ports_word: self.schema.ports_word,
        }
    }

    fn spec(&self, field: Field) -> &'static FieldSpec {
        self.schema
            .field(field)
            .unwrap_or_else(|| panic!("schema {} has no {field:?}", self.schema.name))
    }
}

impl<'a> MatchRef<'a> {
    /// Whether `key` meets every demand.
    #[inline]
    pub fn matches(&self, key: &[u32]) -> bool {
        let words = key.iter().zip(self.value).zip(self.mask);
        let ports = key[self.ports_word];
        words.into_iter().all(|((k, v), m)| k & m == *v)
            && self.ranges[0].contains((ports >> 16) as u16)
            && self.ranges[1].contains(ports as u16)
    }

    /// Whether masks tell all: each port is matched by a prefix, a mask, or not at all.
    pub fn ranges_are_prefixes(&self) -> bool {
        self.ranges.iter().all(|r| r.as_prefix_mask().is_some())
    }

    /// Whether some key matches both. Exact.
    pub fn overlaps(&self, other: &MatchRef<'_>) -> bool {
        let masks = self.mask.iter().zip(other.mask);
        let values = self.value.iter().zip(other.value);
        let apart = masks.zip(values).any(|((m, n), (v, w))| (v ^ w) & m & n != 0);
        !apart && (0..2).all(|side| self.ports_overlap(other, side))
    }

    /// Whether every key that matches `other` matches this too. Exact.
    pub fn contains(&self, other: &MatchRef<'_>) -> bool {
        let bits = self.value.iter().zip(self.mask).zip(other.value.iter().zip(other.mask));
        // A bit that `other` does not examine takes both values among its keys: the normal form
        // has put each bit that all ports of a range share into the mask, and the bits below the
        // first that differs all vary.
        let bits_agree = bits.into_iter().all(|((v, m), (w, n))| m & !n == 0 && (v ^ w) & m == 0);
        bits_agree
            && (0..2).all(|side| {
                let (outer, inner) = (self.ranges[side], other.bounding_range(side));
                outer.lo <= inner.lo && inner.hi <= outer.hi
            })
    }

    /// How `field` of `schema` is matched.
    pub fn kind(&self, schema: &Schema, field: Field) -> MatchKind {
        let Some(spec) = schema.field(field) else { return MatchKind::Any };
        let (value, mask) = (spec.read(self.value), spec.read(self.mask));
        if let Some(side) = port_side(field) {
            let range = self.ranges[side];
            if range.as_prefix_mask().is_none() {
                return MatchKind::Range(range.lo, range.hi);
            }
        }
        let host = spec.value_max() & !mask;
        match mask {
            0 => MatchKind::Any,
            m if m == spec.value_max() => MatchKind::Exact(value),
            m if host & host.wrapping_add(1) == 0 => {
                MatchKind::Prefix(value, m.count_ones() as usize)
            }
            m => MatchKind::Mask(value, m),
        }
    }

    /// An owned copy.
    ///
    /// # Panics
    /// If the match is not of `schema`: a caller bug.
    pub fn to_match(&self, schema: &'static Schema) -> Match {
        assert_eq!(self.value.len(), schema.words);
        let mut owned = Match::any(schema);
        owned.value[..schema.words].copy_from_slice(self.value);
        owned.mask[..schema.words].copy_from_slice(self.mask);
        owned.ranges = self.ranges;
        owned
    }

    /// The tightest range that holds every port this match allows on one side.
    pub(crate) fn bounding_range(&self, side: usize) -> PortRange {
        let (value, mask) = self.port_bits(side);
        let range = self.ranges[side];
        PortRange { lo: range.lo.max(value), hi: range.hi.min(value | !mask) }
    }

    /// Value and mask of one port.
    fn port_bits(&self, side: usize) -> (u16, u16) {
        let shift = 16 * (1 - side);
        let word = self.ports_word;
        ((self.value[word] >> shift) as u16, (self.mask[word] >> shift) as u16)
    }

    /// Whether the two allow a common port on one side, given that their bits agree.
    fn ports_overlap(&self, other: &MatchRef<'_>, side: usize) -> bool {
        let (mine, theirs) = (self.bounding_range(side), other.bounding_range(side));
        if !mine.overlaps(theirs) {
            return false;
        }
        if mine.as_prefix_mask().is_some() && theirs.as_prefix_mask().is_some() {
            return true;
        }
        // A range against a mask that is no prefix: rare, and 16 bits are few.
        let ((v, m), (w, n)) = (self.port_bits(side), other.port_bits(side));
        let (lo, hi) = (mine.lo.max(theirs.lo), mine.hi.min(theirs.hi));
        (lo..=hi).any(|port| port & (m | n) == v | w)
    }
}

/// 0 for `l4_src`, 1 for `l4_dst`.
pub(crate) fn port_side(field: Field) -> Option<usize> {
    match field {
        Field::L4Src => Some(0),
        Field::L4Dst => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{IPV4_5TUPLE, SCHEMAS};

    fn port(set: impl FnOnce(&mut Match)) -> Match {
        let mut m = Match::any(&IPV4_5TUPLE);
        set(&mut m);
        m
    }

    /// A few ways to match ports, whose relations can be counted port by port.
    fn samples() -> Vec<Match> {
        let ranges = [(0, 65535), (80, 80), (1024, 65535), (7, 8), (16, 31), (20, 40), (0, 1023)];
        let masks =
            [(0x10, 0x10), (0x11, 0xf1), (0, 1), (1024, 0xfc00), (80, 0xffff), (0x18, 0xfff8)];
        let mut all = Vec::new();
        for (lo, hi) in ranges {
            all.push(port(|m| _ = m.set_range(Field::L4Dst, lo, hi)));
        }
        for (value, mask) in masks {
            all.push(port(|m| _ = m.set_mask(Field::L4Dst, value, mask)));
        }
        all
    }

    #[test]
    fn relations_agree_with_counting_ports() {
        for a in samples() {
            for b in samples() {
                let (a, b) = (a.as_ref(), b.as_ref());
                let hits = |m: MatchRef<'_>, p: u32| m.matches(&[0, 0, p, 0]);
                let overlap = (0..=65535).any(|p| hits(a, p) && hits(b, p));
                let inside = (0..=65535).all(|p| !hits(b, p) || hits(a, p));
                assert_eq!(a.overlaps(&b), overlap, "{a:?} {b:?}");
                assert_eq!(a.contains(&b), inside, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn equal_sets_have_equal_normal_forms() {
        let exact = port(|m| _ = m.set_exact(Field::L4Src, 80));
        assert_eq!(exact, port(|m| _ = m.set_range(Field::L4Src, 80, 80)));
        let prefix = port(|m| _ = m.set_prefix(Field::L4Src, 1024, 6));
        assert_eq!(prefix, port(|m| _ = m.set_range(Field::L4Src, 1024, 2047)));
        assert_eq!(prefix, port(|m| _ = m.set_mask(Field::L4Src, 1024, 0xfc00)));
        let any = Match::any(&IPV4_5TUPLE);
        assert_eq!(any, port(|m| _ = m.set_range(Field::L4Src, 0, 65535)));
        assert_eq!(any, port(|m| _ = m.set_range(Field::L4Src, 7, 9).set_mask(Field::L4Src, 1, 0)));
    }

    #[test]
    fn kinds_tell_what_was_set() {
        for schema in SCHEMAS {
            for spec in schema.fields {
                let mut m = Match::any(schema);
                let value = 0x0a0b_0c0d & spec.value_max();
                assert_eq!(m.as_ref().kind(schema, spec.field), MatchKind::Any);
                m.set_exact(spec.field, value);
                assert_eq!(m.as_ref().kind(schema, spec.field), MatchKind::Exact(value));
                m.set_prefix(spec.field, spec.value_max(), 5);
                let top = spec.value_max() & !(spec.value_max() >> 5);
                assert_eq!(m.as_ref().kind(schema, spec.field), MatchKind::Prefix(top, 5));
                m.set_mask(spec.field, value, 5);
                assert_eq!(m.as_ref().kind(schema, spec.field), MatchKind::Mask(value & 5, 5));
            }
        }
        let m = port(|m| _ = m.set_range(Field::L4Dst, 7, 8));
        assert_eq!(m.as_ref().kind(&IPV4_5TUPLE, Field::L4Dst), MatchKind::Range(7, 8));
    }
}
