//! Range-to-prefix expansion: what engines that know only masks must do to port ranges.
//!
//! A range of W bits needs at most 2W − 2 prefixes (30 for a port), so a rule with two ranges can
//! become 900 entries. Engines that hold ranges natively never pay this; the others report it.

use crate::matching::{MatchRef, PortRange};
use crate::schema::WORDS_MAX;

/// The most prefixes that one 16-bit range can need.
pub const PREFIXES_PER_RANGE_MAX: usize = 30;

/// A 16-bit value and mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPrefix {
    /// The leading bits; zero outside `mask`.
    pub value: u16,
    /// 1 = examined.
    pub mask: u16,
}

/// Splits a range into the fewest prefixes, in ascending order.
pub fn range_to_prefixes(range: PortRange) -> impl Iterator<Item = PortPrefix> {
    let mut next = Some(u32::from(range.lo));
    let end = u32::from(range.hi) + 1;
    std::iter::from_fn(move || {
        let lo = next.filter(|&lo| lo < end)?;
        // The largest aligned block that starts at `lo` and ends within the range.
        let aligned = if lo == 0 { 1 << 16 } else { 1 << lo.trailing_zeros() };
        let fits = 1 << (31 - (end - lo).leading_zeros());
        let size: u32 = aligned.min(fits);
        next = Some(lo + size);
        Some(PortPrefix { value: lo as u16, mask: !((size - 1) as u16) })
    })
}

/// Number of prefixes that a range becomes.
pub fn prefix_count(range: PortRange) -> usize {
    range_to_prefixes(range).count()
}

/// Number of masked entries that a rule becomes: the product over its two ports.
pub fn entry_count(matching: &MatchRef<'_>) -> usize {
    matching.ranges.iter().map(|&range| prefix_count(range)).product()
}

/// Value and mask words of one expanded entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaskedEntry {
    /// Bits that a key must have where `mask` is 1; words past the schema's are zero.
    pub value: [u32; WORDS_MAX],
    /// 1 = examined.
    pub mask: [u32; WORDS_MAX],
}

/// Every masked entry of a rule: together they match exactly what the rule matches, and no key
/// matches two of them.
pub fn masked_entries(matching: MatchRef<'_>) -> impl Iterator<Item = MaskedEntry> {
    let mut base = MaskedEntry { value: [0; WORDS_MAX], mask: [0; WORDS_MAX] };
    base.value[..matching.value.len()].copy_from_slice(matching.value);
    base.mask[..matching.mask.len()].copy_from_slice(matching.mask);
    let word = matching.ports_word;
    let [src, dst] = matching.ranges;
    range_to_prefixes(src).flat_map(move |src| {
        range_to_prefixes(dst).map(move |dst| {
            let mut entry = base;
            // A port under a mask that is no prefix has the range "any", which adds no bit.
            entry.value[word] |= u32::from(src.value) << 16 | u32::from(dst.value);
            entry.mask[word] |= u32::from(src.mask) << 16 | u32::from(dst.mask);
            entry
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::Match;
    use crate::schema::{Field, IPV4_5TUPLE};

    #[test]
    fn prefixes_cover_the_range_once() {
        for (lo, hi) in
            [(0, 65535), (0, 0), (65535, 65535), (1, 65534), (1024, 65535), (7, 8), (80, 90)]
        {
            let range = PortRange { lo, hi };
            let prefixes: Vec<_> = range_to_prefixes(range).collect();
            assert!(prefixes.len() <= PREFIXES_PER_RANGE_MAX);
            for port in 0..=u16::MAX {
                let hits = prefixes.iter().filter(|p| port & p.mask == p.value).count();
                assert_eq!(hits, usize::from(range.contains(port)), "{lo}..={hi} at {port}");
            }
        }
        assert_eq!(prefix_count(PortRange { lo: 1, hi: 65534 }), PREFIXES_PER_RANGE_MAX);
        assert_eq!(prefix_count(PortRange::ANY), 1);
        assert_eq!(prefix_count(PortRange { lo: 1024, hi: 65535 }), 6);
    }

    #[test]
    fn entries_match_what_the_rule_matches() {
        let mut m = Match::any(&IPV4_5TUPLE);
        m.set_range(Field::L4Src, 1, 6).set_mask(Field::L4Dst, 5, 0x0f0f);
        let entries: Vec<_> = masked_entries(m.as_ref()).collect();
        assert_eq!(entries.len(), entry_count(&m.as_ref()));
        for src in 0..16u32 {
            for dst in (0..65536u32).step_by(5) {
                let key = [9, 9, src << 16 | dst, 0];
                let hits =
                    entries.iter().filter(|e| (0..4).all(|w| key[w] & e.mask[w] == e.value[w]));
                assert_eq!(hits.count(), usize::from(m.as_ref().matches(&key)));
            }
        }
    }
}
