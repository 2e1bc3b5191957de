//! Expressions as rules of a classifier, for the lookup of long pattern lists.
//!
//! ```text
//! word 0  source address         word 2  first word of the transport header: the ports of TCP
//! word 1  destination address    word 3  proto(8) 0(12) whole first flags ports byte 13(8)
//! ```
//! Keys have the layout `ipv4_5tuple`. Four bits of the field for TCP flags hold further properties
//! that patterns test: whether the packet is unfragmented, whether it is a first fragment, and
//! whether the bytes of flags and ports are present. Rules thus express patterns completely, and
//! truncated packets and fragments are no special cases.
//!
//! Usual packets, unfragmented and not truncated, always have three of these bits set, and TCP
//! packets the fourth. Rules without these bits are faster to look up, so there is one rule set for
//! usual packets and one for all packets.
//!
//! A pattern becomes rules that may overlap: a packet matches it if it matches any of them.
//!
//! # Invariants
//! - C1: for a packet with a key, an expression is true exactly if one of its cubes matches the
//!   key.

use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{Field, Match};

use super::expr::{Compare, Expr, Relation};
use super::program::Region;
use super::words;

/// Words of a key.
pub(super) const KEY_WORDS: usize = 4;
/// Bytes that the network header of a packet with a key has, at least.
pub(super) const NETWORK_BYTES: usize = 20;
/// Most rules that one pattern may become.
const CUBES_MAX: usize = 256;

const WHOLE: u32 = 1 << 11;
const FIRST: u32 = 1 << 10;
const HAS_FLAGS: u32 = 1 << 9;
const HAS_PORTS: u32 = 1 << 8;
/// What every usual packet has.
const USUAL: u32 = WHOLE | FIRST | HAS_PORTS;

/// Writes the key of a packet whose network header is `network`, and whose transport header begins
/// with `transport`. Returns whether the packet is usual: unfragmented and not truncated.
#[inline]
pub(super) fn write_key(network: &[u8; NETWORK_BYTES], transport: &[u8], key: &mut [u32]) -> bool {
    let word = |at: usize| {
        u32::from_be_bytes([network[at], network[at + 1], network[at + 2], network[at + 3]])
    };
    let (fragment, proto) = (word(4), network[9]);
    let mut last = u32::from(proto) << 24;
    last |= if fragment & 0x3fff == 0 { WHOLE } else { 0 };
    last |= if fragment & 0x1fff == 0 { FIRST } else { 0 };
    let mut ports = 0;
    if let Some(bytes) = transport.first_chunk::<4>() {
        ports = u32::from_be_bytes(*bytes);
        last |= HAS_PORTS;
    }
    if let Some(&flags) = transport.get(13) {
        last |= HAS_FLAGS | u32::from(flags);
    }
    key[..KEY_WORDS].copy_from_slice(&[word(12), word(16), ports, last]);
    last & USUAL == USUAL && (u32::from(proto) != words::TCP || last & HAS_FLAGS != 0)
}

/// Bytes from the start of a network header without options to the end of TCP's flags.
pub(super) const PLAIN_BYTES: usize = NETWORK_BYTES + 14;

/// Fast path of [`write_key`] for a packet whose headers are contiguous, as most are.
/// Returns whether the key was written; that of a fragment is not.
#[inline(always)]
pub(super) fn write_plain_key(headers: &[u8; PLAIN_BYTES], key: &mut [u32]) -> bool {
    let word = |at: usize| {
        u32::from_be_bytes([headers[at], headers[at + 1], headers[at + 2], headers[at + 3]])
    };
    let bits = USUAL | HAS_FLAGS | u32::from(headers[PLAIN_BYTES - 1]);
    let is_whole = word(4) & 0x3fff == 0;
    let words = [word(12), word(16), word(20), u32::from(headers[9]) << 24 | bits];
    if let (true, Some(key)) = (is_whole, key.first_chunk_mut::<KEY_WORDS>()) {
        *key = words;
        return true;
    }
    false
}

/// Keys under a mask, and ranges of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cube {
    value: [u32; KEY_WORDS],
    mask: [u32; KEY_WORDS],
    ports: [(u16, u16); 2],
}

const ANY: Cube = Cube { value: [0; KEY_WORDS], mask: [0; KEY_WORDS], ports: [(0, u16::MAX); 2] };

impl Cube {
    fn bits(word: usize, value: u32, mask: u32) -> Self {
        let mut cube = ANY;
        (cube.value[word], cube.mask[word]) = (value & mask, mask);
        cube
    }

    fn port(side: usize, first: u32, last: u32) -> Self {
        let mut cube = ANY;
        cube.ports[side] = (first as u16, last as u16);
        cube
    }

    /// What both match, if there is any.
    fn and(&self, other: &Cube) -> Option<Cube> {
        let mut both = *self;
        for word in 0..KEY_WORDS {
            let common = self.mask[word] & other.mask[word];
            if (self.value[word] ^ other.value[word]) & common != 0 {
                return None;
            }
            both.value[word] |= other.value[word];
            both.mask[word] |= other.mask[word];
        }
        for side in 0..2 {
            let (mine, theirs) = (self.ports[side], other.ports[side]);
            both.ports[side] = (mine.0.max(theirs.0), mine.1.min(theirs.1));
            if both.ports[side].0 > both.ports[side].1 {
                return None;
            }
        }
        Some(both)
    }

    /// Whether it matches all that `other` does, as far as that is easily seen.
    fn contains(&self, other: &Cube) -> bool {
        let words = (0..KEY_WORDS).all(|word| {
            let mask = self.mask[word];
            mask & !other.mask[word] == 0 && (self.value[word] ^ other.value[word]) & mask == 0
        });
        let sides = self.ports.iter().zip(other.ports);
        words && sides.into_iter().all(|(mine, theirs)| mine.0 <= theirs.0 && theirs.1 <= mine.1)
    }

    /// The same for usual packets, which need fewer tests; none if no usual packet matches.
    fn usual(mut self) -> Option<Cube> {
        const PROTO: u32 = 0xff << 24;
        let is_tcp = self.mask[3] & PROTO == PROTO && self.value[3] & PROTO == words::TCP << 24;
        let had = if is_tcp { USUAL | HAS_FLAGS } else { USUAL };
        let is_met = self.mask[3] & had & !self.value[3] == 0;
        self.mask[3] &= !had;
        self.value[3] &= !had;
        is_met.then_some(self)
    }

    /// The same as a classifier takes it; none if a port has a range and single bits too.
    pub(super) fn to_match(self) -> Option<Match> {
        let mut matching = Match::any(&IPV4_5TUPLE);
        let wide = u128::from;
        matching.set_mask(Field::Ipv4Src, wide(self.value[0]), wide(self.mask[0]));
        matching.set_mask(Field::Ipv4Dst, wide(self.value[1]), wide(self.mask[1]));
        for (side, field) in [Field::L4Src, Field::L4Dst].into_iter().enumerate() {
            let shift = 16 * (1 - side);
            let half = |words: [u32; KEY_WORDS]| words[2] >> shift & 0xffff;
            let (value, mask) = (half(self.value), half(self.mask));
            match self.ports[side] {
                (0, u16::MAX) => matching.set_mask(field, wide(value), wide(mask)),
                (first, last) if mask == 0 => matching.set_range(field, first, last),
                _ => return None,
            };
        }
        let (value, mask) = (self.value[3], self.mask[3]);
        matching.set_mask(Field::IpProto, wide(value >> 24), wide(mask >> 24));
        matching.set_mask(Field::TcpFlags, wide(value & 0xfff), wide(mask & 0xfff));
        Some(matching)
    }
}

/// The cubes of `expr`; none if it tests bits that a key does not contain, or needs too many cubes.
pub(super) fn cubes(expr: &Expr) -> Option<Vec<Cube>> {
    holding(expr, true, false).map(without_contained)
}

/// The same for usual packets alone.
pub(super) fn usual(cubes: &[Cube]) -> Vec<Cube> {
    without_contained(cubes.iter().filter_map(|cube| cube.usual()).collect())
}

/// `found` without those that another one contains.
fn without_contained(mut found: Vec<Cube>) -> Vec<Cube> {
    let mut at = 0;
    while at < found.len() {
        let cube = found[at];
        let is_contained = found.iter().enumerate().any(|(other, by)| {
            other != at && by.contains(&cube) && (other < at || !cube.contains(by))
        });
        if is_contained {
            found.remove(at);
        } else {
            at += 1;
        }
    }
    found
}

/// The cubes of keys for which `expr` is `wanted`, given that comparisons of missing bytes are
/// `missing`.
fn holding(expr: &Expr, wanted: bool, missing: bool) -> Option<Vec<Cube>> {
    let found = match expr {
        Expr::Always => Vec::from_iter(wanted.then_some(ANY)),
        Expr::Compare(compare) => compare.cubes(wanted, missing)?,
        Expr::Not(inner) => return holding(inner, !wanted, missing),
        Expr::Other(inner) => return holding(inner, !wanted, !missing),
        Expr::And(list) if wanted => product(list, wanted, missing)?,
        Expr::Or(list) if !wanted => product(list, wanted, missing)?,
        Expr::And(list) | Expr::Or(list) => {
            let mut union = Vec::new();
            for expr in list {
                union.extend(holding(expr, wanted, missing)?);
            }
            union
        }
        Expr::If(list) => conditional(list, wanted, missing)?,
    };
    (found.len() <= CUBES_MAX).then_some(found)
}

fn product(list: &[Expr], wanted: bool, missing: bool) -> Option<Vec<Cube>> {
    let mut found = vec![ANY];
    for expr in list {
        let factor = holding(expr, wanted, missing)?;
        found = meet(&found, &factor)?;
    }
    Some(found)
}

fn meet(a: &[Cube], b: &[Cube]) -> Option<Vec<Cube>> {
    if a.len() * b.len() > CUBES_MAX * CUBES_MAX {
        return None;
    }
    let pairs = a.iter().flat_map(|one| b.iter().filter_map(|two| one.and(two)));
    let found: Vec<Cube> = pairs.take(CUBES_MAX + 1).collect();
    (found.len() <= CUBES_MAX).then_some(found)
}

fn conditional(list: &[Expr], wanted: bool, missing: bool) -> Option<Vec<Cube>> {
    match list {
        [] => Some(Vec::from_iter((!wanted).then_some(ANY))),
        [last] => holding(last, wanted, missing),
        [condition, then, otherwise @ ..] => {
            let if_so = holding(condition, true, missing)?;
            let if_not = holding(condition, false, missing)?;
            let mut found = meet(&if_so, &holding(then, wanted, missing)?)?;
            found.extend(meet(&if_not, &conditional(otherwise, wanted, missing)?)?);
            Some(found)
        }
    }
}

impl Compare {
    fn cubes(&self, wanted: bool, missing: bool) -> Option<Vec<Cube>> {
        let (mask, value) = (self.mask << self.shift, self.value << self.shift);
        let is_equal = self.relation == Relation::Equal;
        if mask == 0 {
            return Some(Vec::from_iter((is_equal == wanted).then_some(ANY)));
        }
        let bits = |word, to_key: fn(u32) -> u32| self.under(word, to_key, wanted);
        let (found, needs) = match (self.place.region, self.place.offset) {
            (Region::Network, 12) => (bits(0, |bits| bits), 0),
            (Region::Network, 16) => (bits(1, |bits| bits), 0),
            (Region::Network, 8) if mask & !0x00ff_0000 == 0 => (bits(3, |bits| bits << 8), 0),
            (Region::Network, 4) if is_equal && value == 0 && mask == 0x3fff => {
                (vec![Cube::bits(3, if wanted { WHOLE } else { 0 }, WHOLE)], 0)
            }
            (Region::Network, 4) if is_equal && value == 0 && mask == 0x1fff => {
                (vec![Cube::bits(3, if wanted { FIRST } else { 0 }, FIRST)], 0)
            }
            (Region::Transport, 0) if self.mask == 0xffff && self.shift.is_multiple_of(16) => {
                (self.ports(wanted), HAS_PORTS)
            }
            // Bits of the key stand for four bytes: a test of fewer may see a cut packet's.
            (Region::Transport, 0) => (bits(2, |bits| bits), HAS_PORTS),
            (Region::Transport, 12) if mask & !0x00ff_0000 == 0 => {
                (bits(3, |bits| bits >> 16), HAS_FLAGS)
            }
            _ => return None,
        };
        if needs == 0 {
            return Some(found);
        }
        let there = Cube::bits(3, needs, needs);
        let mut found: Vec<Cube> = found.iter().filter_map(|cube| cube.and(&there)).collect();
        found.extend((wanted == missing).then(|| Cube::bits(3, 0, needs)));
        Some(found)
    }

    /// The comparison of a whole port.
    fn ports(&self, wanted: bool) -> Vec<Cube> {
        let side = if self.shift == 16 { 0 } else { 1 };
        let value = self.value;
        let below = |end: u32| (end > 0).then(|| Cube::port(side, 0, end - 1));
        let above = |last: u32| (last < 0xffff).then(|| Cube::port(side, last + 1, 0xffff));
        match (self.relation, wanted) {
            (Relation::Equal, true) => vec![Cube::port(side, value, value)],
            (Relation::Equal, false) => below(value).into_iter().chain(above(value)).collect(),
            (Relation::Greater, true) => above(value).into_iter().collect(),
            (Relation::Greater, false) => below(value + 1).into_iter().collect(),
        }
    }

    /// The comparison of bits that lie in word `word` of the key, brought there by `to_key`.
    fn under(&self, word: usize, to_key: fn(u32) -> u32, wanted: bool) -> Vec<Cube> {
        let cube = |value: u32, mask: u32| {
            Cube::bits(word, to_key(value << self.shift), to_key(mask << self.shift))
        };
        let (value, mask) = (self.value, self.mask);
        let mut found = Vec::new();
        // Equal in the bits above one, and different there.
        for bit in (0..32).rev().map(|at| 1u32 << at).filter(|bit| mask & bit != 0) {
            let above = mask & !(bit | (bit - 1));
            let is_greater = value & bit == 0;
            let fits = match self.relation {
                Relation::Equal => !wanted,
                Relation::Greater => is_greater == wanted,
            };
            if fits {
                found.push(cube((value & above) | (!value & bit), above | bit));
            }
        }
        if (self.relation == Relation::Equal) == wanted {
            found.push(cube(value, mask));
        }
        found
    }
}
