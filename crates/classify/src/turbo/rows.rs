//! Rows: the form in which leaves keep rules, so that one instruction compares a column of many.
//!
//! Two formats; `leaf` says where the words of a row lie in memory.
//!
//! ```text
//! prefix  (ipv4_5tuple, prefixes, no TCP flags: 24 bytes a rule)
//!   src   dst   lo_src|lo_dst   hi_src|hi_dst   src_shift(8)|proto_mask(8)|proto(8)|dst_shift(8)
//!   id   [priority]
//! masked  (everything else: the words that some rule examines, 8 bytes each, and 12)
//!   value mask   value mask   …   lo_src|lo_dst   hi_src|hi_dst   id   [priority]
//! ```
//! The prefix format takes some instructions more to compare, and a third less to fetch, which is
//! what a scan waits for. Ports have no value and mask column unless some rule's mask says more
//! than its range.
//!
//! A shift is 32 minus the prefix length: the key agrees if `(key ^ value) >> shift` is zero. The
//! priority column is there only if priorities differ, and not in lanes: these have no room for it,
//! and a lookup needs none where every key has one leaf, whose rows are in order. So the priorities
//! of rules in lanes are in a list by rule id, which only changes read.
//!
//! # Invariants
//! - R1: a row holds all of its rule's match, so rules can be read back and no other list of them
//!   is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpswitch_rules::{MatchRef, PortRange, RuleId, RuleRef};

use super::leaf::Layout;
use super::list::{Place, RuleList};

/// The most columns that a row has.
pub(crate) const COLUMNS_MAX: usize = 2 * 16 + 4;

/// Rules that a list of priorities has room for at least.
const LISTED_MIN: usize = 1024;
/// Ids that rules in lanes may have.
const LANE_IDS: usize = 1 << 16;

/// Where the priorities of rules are.
#[derive(Clone, Debug)]
pub(crate) enum Priorities {
    /// All rules have this one.
    One(u32),
    /// In the last column of a row.
    Column,
    /// By rule id. The writer's alone.
    Listed(Arc<[AtomicU32]>),
}

/// Which columns rows have, and what is in them.
#[derive(Clone, Debug)]
pub(crate) struct RowFormat {
    /// Words of a key.
    pub(crate) words: usize,
    /// Index of the ports word.
    pub(crate) ports_word: usize,
    /// `None` for the prefix format; else the words that have a value and a mask column.
    pub(crate) masked: Option<Vec<usize>>,
    pub(crate) priorities: Priorities,
    /// How leaves keep rows of this format.
    pub(crate) layout: Layout,
}

impl RowFormat {
    /// The most compact format that holds every rule of `rules`.
    pub(crate) fn for_rules(rules: &impl RuleList) -> Self {
        let schema = rules.schema();
        let all = || (0..rules.len() as Place).map(|place| rules.rule(place));
        let mut format = Self {
            words: schema.words,
            ports_word: schema.ports_word,
            masked: None,
            priorities: Priorities::One(all().next().map_or(0, |rule| rule.priority)),
            layout: Layout::Columns,
        };
        let mut used = vec![false; schema.words];
        let mut prefixes = schema.words == 4;
        for rule in all() {
            for (word, used) in used.iter_mut().enumerate() {
                *used |= examines(&rule.matching, word);
            }
            prefixes &= fits_prefix(&rule.matching);
            if format.one_priority() != Some(rule.priority) {
                format.priorities = Priorities::Column;
            }
        }
        // With one word or none the masked format is narrower.
        if !prefixes || used.iter().filter(|used| **used).count() < 2 {
            format.masked = Some((0..schema.words).filter(|&word| used[word]).collect());
        }
        format
    }

    /// The same with leaves in lanes, if these hold every rule of `rules`.
    pub(crate) fn with_lanes(&self, rules: &impl RuleList) -> Option<Self> {
        let all = || (0..rules.len() as Place).map(|place| rules.rule(place));
        if self.masked.is_some() || !all().all(fits_lanes) {
            return None;
        }
        let mut format = Self { layout: Layout::Lanes, ..self.clone() };
        if let Priorities::Column = format.priorities {
            let last = all().map(|rule| rule.id.as_usize()).max().unwrap_or(0);
            // Twice the ids: a build for want of room gives place to as many rules as there are.
            let len = (2 * (last + 1)).clamp(LISTED_MIN, LANE_IDS);
            format.priorities = Priorities::Listed((0..len).map(|_| 0.into()).collect());
            all().for_each(|rule| format.note_priority(rule));
        }
        Some(format)
    }

    /// Notes the priority of a rule that comes, if there is a list of them.
    pub(crate) fn note_priority(&self, rule: RuleRef<'_>) {
        if let Priorities::Listed(listed) = &self.priorities {
            listed[rule.id.as_usize()].store(rule.priority, Ordering::Relaxed);
        }
    }

    /// Whether the list of priorities, if there is one, has that of this rule.
    pub(crate) fn has_priority(&self, rule: RuleRef<'_>) -> bool {
        let Priorities::Listed(listed) = &self.priorities else { return true };
        listed[rule.id.as_usize()].load(Ordering::Relaxed) == rule.priority
    }

    /// The priority of all rules, if it is one.
    pub(crate) fn one_priority(&self) -> Option<u32> {
        match self.priorities {
            Priorities::One(priority) => Some(priority),
            _ => None,
        }
    }

    /// The priority of the rule in a row with these columns.
    #[inline(always)]
    pub(crate) fn priority(&self, column: impl Fn(usize) -> u32) -> u32 {
        let ids = self.id_column();
        match &self.priorities {
            Priorities::One(priority) => *priority,
            Priorities::Column => column(ids + 1),
            Priorities::Listed(listed) => listed[column(ids) as usize].load(Ordering::Relaxed),
        }
    }

    /// Bytes that it takes beside the rows.
    pub(crate) fn bytes(&self) -> usize {
        match &self.priorities {
            Priorities::Listed(listed) => size_of_val(&**listed),
            _ => 0,
        }
    }

    /// Whether rows can hold `rule` without loss.
    pub(crate) fn fits(&self, rule: RuleRef<'_>) -> bool {
        let matching = &rule.matching;
        let has_priority = match &self.priorities {
            Priorities::One(priority) => *priority == rule.priority,
            Priorities::Column => true,
            Priorities::Listed(listed) => rule.id.as_usize() < listed.len(),
        };
        has_priority
            && (self.layout == Layout::Columns || fits_lanes(rule))
            && match &self.masked {
                None => fits_prefix(matching),
                Some(words) => {
                    (0..self.words).all(|word| !examines(matching, word) || words.contains(&word))
                }
            }
    }

    /// Words that a row takes.
    pub(crate) fn columns(&self) -> usize {
        self.id_column() + 1 + usize::from(matches!(self.priorities, Priorities::Column))
    }

    /// The column of rule ids.
    pub(crate) fn id_column(&self) -> usize {
        match &self.masked {
            None => 5,
            Some(words) => 2 * words.len() + 2,
        }
    }

    /// Writes the row of `rule`, which fits.
    pub(crate) fn encode(&self, rule: RuleRef<'_>, row: &mut [u32]) {
        let MatchRef { value, mask, ranges: [src, dst], .. } = rule.matching;
        let lo = u32::from(src.lo) << 16 | u32::from(dst.lo);
        let hi = u32::from(src.hi) << 16 | u32::from(dst.hi);
        match &self.masked {
            None => {
                let shift = |mask: u32| 32 - mask.count_ones();
                let proto = (mask[3] >> 24) << 16 | (value[3] >> 24) << 8;
                let shifts = shift(mask[0]) << 24 | shift(mask[1]);
                row[..5].copy_from_slice(&[value[0], value[1], lo, hi, shifts | proto]);
            }
            Some(words) => {
                for (pair, &word) in row.chunks_exact_mut(2).zip(words) {
                    pair.copy_from_slice(&[value[word], mask[word]]);
                }
                row[2 * words.len()..][..2].copy_from_slice(&[lo, hi]);
            }
        }
        row[self.id_column()] = rule.id.0;
        if let Priorities::Column = self.priorities {
            row[self.id_column() + 1] = rule.priority;
        }
    }

    /// Reads a row back: the inverse of [`RowFormat::encode`].
    pub(crate) fn decode(&self, row: &[u32]) -> Row {
        let mut value = vec![0; self.words];
        let mut mask = vec![0; self.words];
        let ends = match &self.masked {
            None => {
                let prefix = |shift: u32| u32::MAX.checked_shl(shift).unwrap_or(0);
                value[..2].copy_from_slice(&row[..2]);
                mask[..2].copy_from_slice(&[prefix(row[4] >> 24), prefix(row[4] & 0xff)]);
                value[3] = (row[4] >> 8 & 0xff) << 24;
                mask[3] = (row[4] >> 16 & 0xff) << 24;
                &row[2..4]
            }
            Some(words) => {
                for (pair, &word) in row.chunks_exact(2).zip(words) {
                    (value[word], mask[word]) = (pair[0], pair[1]);
                }
                &row[2 * words.len()..][..2]
            }
        };
        let range =
            |shift: u32| PortRange { lo: (ends[0] >> shift) as u16, hi: (ends[1] >> shift) as u16 };
        let ranges = [range(16), range(0)];
        if !self.masked.as_ref().is_some_and(|words| words.contains(&self.ports_word)) {
            mask[self.ports_word] = implied_mask(ranges);
            value[self.ports_word] = ends[0] & mask[self.ports_word];
        }
        let priority = self.priority(|column| row[column]);
        let id = RuleId(row[self.id_column()]);
        Row { id, priority, value, mask, ranges, ports_word: self.ports_word }
    }
}

/// A rule read back from its row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: RuleId,
    pub(crate) priority: u32,
    value: Vec<u32>,
    mask: Vec<u32>,
    ranges: [PortRange; 2],
    ports_word: usize,
}

impl Row {
    /// A copy of `rule`.
    pub(crate) fn of(rule: RuleRef<'_>) -> Self {
        let MatchRef { value, mask, ranges, ports_word } = rule.matching;
        let (value, mask) = (value.to_vec(), mask.to_vec());
        Self { id: rule.id, priority: rule.priority, value, mask, ranges, ports_word }
    }

    /// The rule as engines see it.
    pub(crate) fn as_rule(&self) -> RuleRef<'_> {
        let Self { value, mask, ranges, ports_word, .. } = self;
        let matching = MatchRef { value, mask, ranges: *ranges, ports_word: *ports_word };
        RuleRef { id: self.id, priority: self.priority, matching }
    }
}

/// The mask that two port ranges imply.
fn implied_mask(ranges: [PortRange; 2]) -> u32 {
    let [src, dst] = ranges.map(|range| u32::from(range.common_mask()));
    src << 16 | dst
}

/// Whether a match demands bits of `word` that columns of value and mask must hold.
fn examines(matching: &MatchRef<'_>, word: usize) -> bool {
    let mask = matching.mask[word];
    // A port under a mask that is no prefix says more than its range.
    if word == matching.ports_word { mask != implied_mask(matching.ranges) } else { mask != 0 }
}

/// Whether an `ipv4_5tuple` match is prefixes, ranges and a protocol.
fn fits_prefix(matching: &MatchRef<'_>) -> bool {
    let is_prefix = |mask: u32| mask.leading_ones() == mask.count_ones();
    is_prefix(matching.mask[0])
        && is_prefix(matching.mask[1])
        && !examines(matching, 2)
        && matching.mask[3] & 0x00ff_ffff == 0
}

/// Whether a rule that fits the prefix format has a range of protocols, and an id of 16 bits.
fn fits_lanes(rule: RuleRef<'_>) -> bool {
    let mask = rule.matching.mask[3];
    mask.leading_ones() == mask.count_ones() && rule.id.0 <= u32::from(u16::MAX)
}

/// Rules with every kind of match; `plain` keeps to what the prefix format holds.
#[cfg(test)]
pub(super) fn sample(
    schema: &'static warpswitch_rules::Schema,
    plain: bool,
    priorities: bool,
) -> warpswitch_rules::Ruleset {
    use warpswitch_rules::{Action, Field, Match, Rule, RulesetBuilder};
    let mut set = RulesetBuilder::new(schema);
    for n in 0..40u32 {
        let mut m = Match::any(schema);
        for (idx, spec) in schema.fields.iter().enumerate() {
            let value = u128::from(n.wrapping_mul(0x9e37_79b1)) * 0x1_0001_0003;
            match (spec.field, (n as usize + idx) % 4) {
                (Field::TcpFlags, _) if plain => {}
                (Field::L4Src | Field::L4Dst, 0) => _ = m.set_range(spec.field, 7, 900),
                (_, 1) => _ = m.set_exact(spec.field, value),
                (Field::IpProto, _) => {}
                (_, 2) => _ = m.set_prefix(spec.field, value, spec.bits / 2),
                (_, 3) if !plain => _ = m.set_mask(spec.field, value, 0x15),
                _ => {}
            }
        }
        let mut rule = Rule::new(m, Action::Drop);
        rule.priority = if priorities { n % 5 } else { 9 };
        set.push(rule);
    }
    set.build()
}

/// Rules of few prefixes and ranges, one inside another, with so many priorities.
#[cfg(test)]
pub(super) fn nested(rules: usize, priorities: u32) -> warpswitch_rules::Ruleset {
    use warpswitch_rules::schema::IPV4_5TUPLE;
    use warpswitch_rules::{Action, Field, Match, Rule, RulesetBuilder};
    let mut seeds = crate::hash::SeedStream::new(5, 5);
    let mut below = move |n: u64| seeds.next() % n;
    let mut set = RulesetBuilder::new(&IPV4_5TUPLE);
    for _ in 0..rules {
        let mut m = Match::any(&IPV4_5TUPLE);
        for field in [Field::Ipv4Src, Field::Ipv4Dst] {
            let value = u128::from(0x0a01_0100 * below(2) + 0x0100_0040 * below(4));
            let bits = [0, 0, 8, 24, 32][below(5) as usize];
            m.set_prefix(field, value, bits);
        }
        for field in [Field::L4Src, Field::L4Dst] {
            let (lo, hi) = [(0, 65535), (0, 65535), (1024, 65535), (80, 80)][below(4) as usize];
            m.set_range(field, lo, hi);
        }
        if below(2) == 0 {
            m.set_exact(Field::IpProto, 6);
        }
        let mut rule = Rule::new(m, Action::Drop);
        rule.priority = below(priorities.into()) as u32;
        set.push(rule);
    }
    set.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_rules::Ruleset;
    use warpswitch_rules::schema::SCHEMAS;

    #[test]
    fn rows_read_back_as_the_rules_they_were() {
        for schema in SCHEMAS {
            for (plain, priorities) in [(true, false), (true, true), (false, false), (false, true)]
            {
                let set = sample(schema, plain, priorities);
                let format = RowFormat::for_rules(&set);
                assert_eq!(format.masked.is_none(), plain && schema.words == 4);
                check_rows(&set, &format);
            }
        }
    }

    #[test]
    fn rows_of_lanes_have_their_priorities_in_a_list() {
        let set = nested(40, 5);
        let format = RowFormat::for_rules(&set).with_lanes(&set).expect("plain rules fit lanes");
        assert!(format.one_priority().is_none() && format.bytes() > 0);
        check_rows(&set, &format);
        let mut other = set.rule(RuleId(0));
        other.priority += 1;
        assert!(format.fits(other) && !format.has_priority(other));
        format.note_priority(other);
        assert!(format.has_priority(other));
        other.id = RuleId(LISTED_MIN as u32);
        assert!(!format.fits(other), "there is no place in the list");
    }

    fn check_rows(set: &Ruleset, format: &RowFormat) {
        let mut row = vec![0; format.columns()];
        for rule in set.iter() {
            assert!(format.fits(rule));
            format.encode(rule, &mut row);
            assert_eq!(format.decode(&row).as_rule(), rule, "{}", set.schema().name);
        }
    }

    #[test]
    fn a_format_refuses_what_it_would_lose() {
        let plain = sample(SCHEMAS[0], true, false);
        let format = RowFormat::for_rules(&plain);
        let wild = sample(SCHEMAS[0], false, false);
        assert!(wild.iter().any(|rule| !format.fits(rule)));
        let mut other = plain.rule(RuleId(0));
        other.priority += 1;
        assert!(!format.fits(other));
    }
}
