//! Rule sets in the style of ClassBench: access lists, firewalls, IP chains.
//!
//! Rules are drawn one by one from the fitted tables of [`super::tables`], a draw that repeats an
//! earlier rule is drawn again, and the list is put into an order in which narrow rules tend to
//! stand before wide ones.
//!
//! # Invariants
//! - G1: a set has exactly as many rules as asked for.
//! - G2: no two rules match the same keys. (A wider rule may still stand before a narrower one,
//!   as it does in real lists: the order has jitter.)
//! - G3: the same specification yields the same rules on every machine.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use super::address::{AddressSource, Prefix, size_position};
use super::prng::{Prng, Weights, mix};
use super::tables::{ANY_PROTOCOL, PortClass, Ports, StyleTable, acl::ACL, fw::FW, ipc::IPC};
use crate::matching::{Match, PortRange};
use crate::rule::{Action, FlagsColumn, Rule};
use crate::ruleset::{Ruleset, RulesetBuilder};
use crate::schema::{Field, IPV4_5TUPLE, IPV6_5TUPLE, Schema};

/// What a rule set is modelled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Style {
    /// Access lists of routers: long prefixes, exact destination ports.
    Acl,
    /// Firewalls: many rules with one address side open.
    Fw,
    /// Linux IP chains: between the two.
    Ipc,
}

/// The address family of a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Keys of [`IPV4_5TUPLE`].
    Ipv4,
    /// Keys of [`IPV6_5TUPLE`].
    Ipv6,
}

/// A name that is none of the known ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    name: String,
    known: &'static str,
}

impl UnknownName {
    pub(super) fn new(name: &str, known: &'static str) -> Self {
        Self { name: name.to_owned(), known }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown value '{}'; expected one of {}", self.name, self.known)
    }
}

impl std::error::Error for UnknownName {}

impl Style {
    /// Every style.
    pub const ALL: [Style; 3] = [Style::Acl, Style::Fw, Style::Ipc];

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            Style::Acl => "acl",
            Style::Fw => "fw",
            Style::Ipc => "ipc",
        }
    }

    fn table(self) -> &'static StyleTable {
        match self {
            Style::Acl => &ACL,
            Style::Fw => &FW,
            Style::Ipc => &IPC,
        }
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Style {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Style::ALL.into_iter().find(|style| style.name() == name);
        found.ok_or_else(|| UnknownName::new(name, "acl, fw, ipc"))
    }
}

impl Family {
    /// Both families.
    pub const ALL: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// The name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }
    }

    /// The layout of its keys.
    pub fn schema(self) -> &'static Schema {
        match self {
            Family::Ipv4 => &IPV4_5TUPLE,
            Family::Ipv6 => &IPV6_5TUPLE,
        }
    }

    fn address_fields(self) -> [Field; 2] {
        match self {
            Family::Ipv4 => [Field::Ipv4Src, Field::Ipv4Dst],
            Family::Ipv6 => [Field::Ipv6Src, Field::Ipv6Dst],
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Family {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Family::ALL.into_iter().find(|family| family.name() == name);
        found.ok_or_else(|| UnknownName::new(name, "ipv4, ipv6"))
    }
}

/// Names one rule set in the style of ClassBench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RulesetSpec {
    /// What it is modelled on.
    pub style: Style,
    /// Its addresses.
    pub family: Family,
    /// Number of rules.
    pub rules: usize,
    /// Which of all such sets.
    pub seed: u64,
}

impl RulesetSpec {
    /// The rule set. All priorities are zero, so the first rule that matches wins.
    ///
    /// Cost: about 2 µs a rule, and 150 bytes a rule of scratch memory.
    ///
    /// # Panics
    /// If more rules are asked for than a set holds (`RULES_MAX`): commands check first.
    pub fn generate(&self) -> Ruleset {
        let mut drafts = Drawer::new(self).draw_all(self.rules);
        drafts.sort_unstable_by_key(|draft| draft.rank);
        let schema = self.family.schema();
        let mut builder = RulesetBuilder::new(schema);
        for draft in &drafts {
            builder.push(draft.to_rule(self.family));
        }
        builder.build()
    }
}

/// A rule before it has its place.
#[derive(Clone, Copy, Debug)]
struct Draft {
    /// Where it goes: the smaller first. No two are equal.
    rank: (u32, u32),
    prefixes: [Prefix; 2],
    ports: [PortRange; 2],
    protocol: u8,
    flags: FlagsColumn,
    action: u8,
    mark: u8,
}

impl Draft {
    /// A number that differs for drafts that match different keys, all but certainly.
    fn fingerprint(&self) -> u64 {
        let [src, dst] = self.prefixes;
        let ports = self.ports.map(|r| u64::from(r.lo) << 16 | u64::from(r.hi));
        let lengths = u64::from(src.len) << 8 | u64::from(dst.len) | u64::from(self.protocol) << 16;
        [src.value >> 64, src.value, dst.value >> 64, dst.value]
            .iter()
            .fold(mix(ports[0] << 32 | ports[1]) ^ mix(lengths), |h, &part| mix(h ^ part as u64))
    }

    fn to_rule(self, family: Family) -> Rule {
        let mut matching = Match::any(family.schema());
        for (field, prefix) in family.address_fields().into_iter().zip(self.prefixes) {
            matching.set_prefix(field, prefix.value, usize::from(prefix.len));
        }
        for (field, range) in [Field::L4Src, Field::L4Dst].into_iter().zip(self.ports) {
            matching.set_range(field, range.lo, range.hi);
        }
        if self.protocol != ANY_PROTOCOL {
            matching.set_exact(Field::IpProto, u128::from(self.protocol));
        }
        let action = match self.action {
            0 => Action::Pass,
            1 => Action::Drop,
            _ => Action::Mark(u32::from(self.mark)),
        };
        Rule { flags_column: Some(self.flags), ..Rule::new(matching, action) }
    }
}

/// The tables of one style, ready to draw from.
struct Drawer {
    table: &'static StyleTable,
    prng: Prng,
    headers: Weights,
    pairs: Vec<Weights>,
    lengths: [[Weights; 6]; 2],
    addresses: [AddressSource; 2],
    /// TCP, UDP; source, destination; exact, range.
    ports: [[PortWeights; 2]; 2],
    flags: [Weights; 2],
    actions: Weights,
    /// How often, of 1000, a rule has the addresses of an earlier one.
    repeated: u32,
    seed: u64,
    is_ipv6: bool,
}

/// The ports of one protocol and side.
struct PortWeights {
    exact: Weights,
    ranges: Weights,
}

impl PortWeights {
    fn new(exact: &[(u16, u32)], ranges: &[(u16, u16, u32)]) -> Self {
        let listed: u32 = exact.iter().map(|e| e.1).sum();
        // The last index stands for all ports that are not listed.
        let rare = 1000u32.saturating_sub(listed);
        Self {
            exact: Weights::new(exact.iter().map(|e| e.1).chain([rare])),
            ranges: Weights::new(ranges.iter().map(|r| r.2)),
        }
    }
}

/// Draws of one rule before its class counts as used up.
const REDRAWS_PER_HEADER: u32 = 4;

impl Drawer {
    fn new(spec: &RulesetSpec) -> Self {
        let table = spec.style.table();
        let is_ipv6 = spec.family == Family::Ipv6;
        let style_seed = mix(spec.seed ^ mix(spec.style as u64) ^ mix(16 + spec.family as u64));
        let mut prng = Prng::new(style_seed);
        let mut lengths = |classes: &[&[(u8, u32)]; 6]| {
            classes.map(|class| choose_lengths(class, table.lengths_max, &mut prng))
        };
        let lengths = [lengths(&table.src_lengths), lengths(&table.dst_lengths)];
        let ports = |p: &Ports| {
            [
                PortWeights::new(p.src_exact, p.src_ranges),
                PortWeights::new(p.dst_exact, p.dst_ranges),
            ]
        };
        let pass_drop = table.actions;
        let (at, part) = size_position(spec.rules);
        let [low, high] = [at, (at + 1).min(2)].map(|size| table.repeated[size]);
        Self {
            table,
            prng,
            headers: Weights::new(table.headers.iter().map(|h| h.weight)),
            pairs: table
                .headers
                .iter()
                .map(|h| Weights::new(h.pairs.iter().map(|p| p.2)))
                .collect(),
            lengths,
            addresses: [(1, &table.src_trie), (2, &table.dst_trie)].map(|(side, shapes)| {
                AddressSource::new(mix(style_seed ^ side), shapes, spec.rules, is_ipv6)
            }),
            ports: [ports(&table.tcp), ports(&table.udp)],
            flags: [
                Weights::new(table.tcp_flags.iter().map(|f| f.2)),
                Weights::new(table.icmp_flags.iter().map(|f| f.2)),
            ],
            actions: Weights::new([pass_drop[0], pass_drop[1], 1000 - pass_drop[0] - pass_drop[1]]),
            repeated: (low * (256 - part) + high * part) / 256,
            seed: style_seed,
            is_ipv6,
        }
    }

    fn draw_all(&mut self, rules: usize) -> Vec<Draft> {
        let mut drafts = Vec::with_capacity(rules);
        let mut seen = HashSet::with_capacity(rules);
        while drafts.len() < rules {
            let mut draft = self.draw_distinct(&drafts, &mut seen);
            draft.rank = (self.rank(&draft), drafts.len() as u32);
            drafts.push(draft);
        }
        drafts
    }

    /// Draws until a rule is new: first, at times, for addresses that an earlier one has, then
    /// with addresses of its own, then with all of it new, at last for a pair of hosts from the
    /// whole address space, of which there is no end.
    fn draw_distinct(&mut self, earlier: &[Draft], seen: &mut HashSet<u64>) -> Draft {
        if !earlier.is_empty() && self.prng.chance(self.repeated) {
            let header = self.headers.draw(&mut self.prng);
            let mut draft = self.draw(header, false, false);
            draft.prefixes = earlier[self.prng.index(earlier.len())].prefixes;
            if seen.insert(draft.fingerprint()) {
                return draft;
            }
        }
        for attempt in 0u32.. {
            let header = self.headers.draw(&mut self.prng);
            for redraw in 0..REDRAWS_PER_HEADER {
                let spread = attempt > 0 || redraw + 1 == REDRAWS_PER_HEADER;
                let draft = self.draw(header, spread, attempt > 16);
                if seen.insert(draft.fingerprint()) {
                    return draft;
                }
            }
        }
        unreachable!("2^64 pairs of hosts are more than a set holds")
    }

    fn draw(&mut self, header: usize, spread: bool, hosts: bool) -> Draft {
        let table = &self.table.headers[header];
        let pair = table.pairs[self.pairs[header].draw(&mut self.prng)];
        let classes = if hosts { (5, 5) } else { (pair.0, pair.1) };
        let lengths = [
            self.draw_length(0, usize::from(classes.0)),
            self.draw_length(1, usize::from(classes.1)),
        ];
        let src = self.addresses[0].draw(&mut self.prng, lengths[0], None, spread);
        let (bits, permille) = self.table.shared;
        let can_share = lengths.iter().all(|&len| u32::from(len) >= bits);
        let shared = (can_share && self.prng.chance(permille)).then_some((src, bits));
        let dst = self.addresses[1].draw(&mut self.prng, lengths[1], shared, spread);
        let ports = [0, 1].map(|side| self.draw_ports(table.protocol, side, table.ports[side]));
        let flags = self.draw_flags(table.protocol);
        let action = self.actions.draw(&mut self.prng) as u8;
        let mark = 1 + self.prng.below(16) as u8;
        let prefixes = [src, dst];
        Draft { rank: (0, 0), prefixes, ports, protocol: table.protocol, flags, action, mark }
    }

    fn draw_length(&mut self, side: usize, class: usize) -> u8 {
        let table = if side == 0 { &self.table.src_lengths } else { &self.table.dst_lengths };
        table[class][self.lengths[side][class].draw(&mut self.prng)].0
    }

    fn draw_ports(&mut self, protocol: u8, side: usize, class: PortClass) -> PortRange {
        let is_udp = protocol == 17;
        let table = if is_udp { &self.table.udp } else { &self.table.tcp };
        let weights = &self.ports[usize::from(is_udp)][side];
        let (exact, ranges) = match side {
            0 => (table.src_exact, table.src_ranges),
            _ => (table.dst_exact, table.dst_ranges),
        };
        match class {
            PortClass::Any => PortRange::ANY,
            PortClass::High => PortRange { lo: 1024, hi: u16::MAX },
            PortClass::Exact => {
                let idx = weights.exact.draw(&mut self.prng);
                let port = exact.get(idx).map(|e| e.0);
                let port = port.unwrap_or_else(|| {
                    rare_port(self.seed, self.prng.below(self.table.rare_ports))
                });
                PortRange { lo: port, hi: port }
            }
            PortClass::Range => {
                let (lo, hi, _) = ranges[weights.ranges.draw(&mut self.prng)];
                PortRange { lo, hi }
            }
        }
    }

    fn draw_flags(&mut self, protocol: u8) -> FlagsColumn {
        let (table, weights) = match protocol {
            6 => (self.table.tcp_flags, &self.flags[0]),
            1 => (self.table.icmp_flags, &self.flags[1]),
            _ => return FlagsColumn { value: 0, mask: 0 },
        };
        let (value, mask, _) = table[weights.draw(&mut self.prng)];
        FlagsColumn { value, mask }
    }

    /// Narrow rules first, with jitter: a real list is in order of intent, not of width.
    fn rank(&mut self, draft: &Draft) -> u32 {
        let scale = if self.is_ipv6 { 1 } else { 4 };
        let lengths: u32 = draft.prefixes.iter().map(|p| u32::from(p.len)).sum();
        let ports: u32 = draft.ports.iter().map(|r| (r.hi - r.lo).leading_zeros()).sum();
        let protocol = if draft.protocol == ANY_PROTOCOL { 0 } else { 8 };
        let width = lengths * scale + ports + protocol;
        1_000 - width + self.prng.below(24) as u32
    }
}

/// The weights of a class's lengths, but for `count_max` of them zero: which ones are drawn, the
/// frequent ones first as a rule.
fn choose_lengths(class: &[(u8, u32)], count_max: usize, prng: &mut Prng) -> Weights {
    let mut left: Vec<u32> = class.iter().map(|length| length.1).collect();
    let mut chosen = vec![0; class.len()];
    for _ in 0..count_max.min(class.len()) {
        let idx = Weights::new(left.iter().copied()).draw(prng);
        chosen[idx] = std::mem::take(&mut left[idx]);
    }
    Weights::new(chosen)
}

/// One of the few ports that a set names although they are rare.
fn rare_port(seed: u64, idx: u64) -> u16 {
    1 + (mix(seed ^ idx) % 65_535) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tables::LENGTH_CLASS_ENDS;

    fn spec(style: Style, family: Family, rules: usize, seed: u64) -> RulesetSpec {
        RulesetSpec { style, family, rules, seed }
    }

    fn every_kind() -> impl Iterator<Item = (Style, Family)> {
        Style::ALL.into_iter().flat_map(|s| Family::ALL.map(|f| (s, f)))
    }

    #[test]
    fn sets_have_the_size_asked_for_and_no_two_rules_match_the_same() {
        for (style, family) in every_kind() {
            for rules in [0, 1, 2, 100, 3_000] {
                let ruleset = spec(style, family, rules, 5).generate();
                assert_eq!(ruleset.len(), rules);
                assert_eq!(ruleset.schema(), family.schema());
                let key = |m: crate::MatchRef<'_>| (m.value.to_vec(), m.mask.to_vec(), m.ranges);
                let distinct: HashSet<_> = ruleset.iter().map(|r| key(r.matching)).collect();
                assert_eq!(distinct.len(), rules, "{style} {family}");
            }
        }
    }

    #[test]
    fn seeds_tell_sets_apart() {
        for (style, family) in every_kind() {
            let values = |seed| {
                let ruleset = spec(style, family, 100, seed).generate();
                ruleset.iter().flat_map(|r| r.matching.value.to_vec()).collect::<Vec<_>>()
            };
            assert_eq!(values(1), values(1));
            assert_ne!(values(1), values(2));
        }
    }

    #[test]
    fn frequencies_are_the_fitted_ones() {
        for style in Style::ALL {
            let ruleset = spec(style, Family::Ipv4, 10_000, 1).generate();
            let table = style.table();
            let total: u32 = table.headers.iter().map(|h| h.weight).sum();
            let mut expected = [[0f64; 6]; 6];
            for header in table.headers {
                let sum: u32 = header.pairs.iter().map(|p| p.2).sum();
                for &(src, dst, weight) in header.pairs {
                    let share = f64::from(weight) / f64::from(sum);
                    let header_share = f64::from(header.weight) / f64::from(total);
                    expected[usize::from(src)][usize::from(dst)] += share * header_share;
                }
            }
            let mut found = [[0f64; 6]; 6];
            for rule in ruleset.iter() {
                let class = |word: usize| {
                    let len = rule.matching.mask[word].count_ones() as u8;
                    LENGTH_CLASS_ENDS.partition_point(|&end| end < len)
                };
                found[class(0)][class(1)] += 1.0 / ruleset.len() as f64;
            }
            for (src, dst) in (0..6).flat_map(|src| (0..6).map(move |dst| (src, dst))) {
                let off = (found[src][dst] - expected[src][dst]).abs();
                assert!(
                    off < 0.02,
                    "{style} {src} {dst}: {} {}",
                    found[src][dst],
                    expected[src][dst]
                );
            }
        }
    }

    #[test]
    fn prefixes_are_shared_and_nest_as_in_real_sets() {
        // The bounds are what the fitted sets of 10K rules span, with some room.
        let bounds = [
            (Style::Acl, 500..7_500, 1_000..7_500),
            (Style::Fw, 3_000..5_000, 5_000..8_000),
            (Style::Ipc, 1_500..5_000, 2_900..9_000),
        ];
        for (style, sources, destinations) in bounds {
            for seed in 1..4 {
                let ruleset = spec(style, Family::Ipv4, 10_000, seed).generate();
                for (word, expected) in [(0, &sources), (1, &destinations)] {
                    let prefix = |m: crate::MatchRef<'_>| (m.value[word], m.mask[word]);
                    let distinct: HashSet<_> = ruleset.iter().map(|r| prefix(r.matching)).collect();
                    assert!(
                        expected.contains(&distinct.len()),
                        "{style} {word} {}",
                        distinct.len()
                    );
                    let depth = distinct.iter().map(|&(value, mask)| {
                        (0..=mask.count_ones())
                            .map(|len| u32::MAX.checked_shl(32 - len).unwrap_or(0))
                            .filter(|&mask| distinct.contains(&(value & mask, mask)))
                            .count()
                    });
                    let depth = depth.max().unwrap_or(0);
                    assert!((3..=12).contains(&depth), "{style} {word} nests {depth} deep");
                }
            }
        }
    }

    #[test]
    fn few_rules_are_shadowed() {
        for (style, family) in every_kind() {
            let ruleset = spec(style, family, 1_000, 9).generate();
            let shadowed = ruleset.ids().filter(|&id| {
                let matching = ruleset.matching(id);
                ruleset.ids().take(id.as_usize()).any(|e| ruleset.matching(e).contains(&matching))
            });
            let shadowed = shadowed.count();
            assert!(shadowed < 60, "{style} {family}: {shadowed} of 1000");
        }
    }

    #[test]
    fn names_are_read_back() {
        for style in Style::ALL {
            assert_eq!(style.to_string().parse(), Ok(style));
        }
        for family in Family::ALL {
            assert_eq!(family.to_string().parse(), Ok(family));
        }
        let error = "bgp".parse::<Style>().unwrap_err();
        assert_eq!(error.to_string(), "unknown value 'bgp'; expected one of acl, fw, ipc");
    }
}
