//! Addresses with the nesting and the skew of real rule sets, from a trie that is never stored.
//!
//! A prefix is drawn by walking down a binary trie. Whether a node has one child or two, which of
//! them is favoured and how much, follows from a hash of the path to it, with the level's fitted
//! frequencies as thresholds:
//!
//! ```text
//! path 10110 ─► hash ─┬─ below branching[5]? two children, else one
//!                     ├─ which child is the favoured, or the only one
//!                     └─ how unequal the two are, around lighter[5]
//! ```
//! So equal paths meet equal nodes, whatever was drawn before: prefixes of one set nest in each
//! other and crowd where many rules are, and a draw costs one hash a level and no memory. The
//! fitted shapes of sets of 1K, 10K and 100K rules are interpolated by the logarithm of the size.
//!
//! IPv6 addresses have no such sets to fit. The same walk is used: IPv4's lengths are mapped to
//! the lengths that networks assign (/32, /48, /64, /128 and between), below `2000::/3`, and each
//! level of IPv4 is two of IPv6, of which the second never branches. The lower half of a host
//! address is a small number (a server's) or has the form of EUI-64 (a station's).

use super::prng::{Prng, mix};
use super::tables::TrieShape;

/// Levels of the walk in an IPv6 address: bits 3 to 63.
const IPV6_LEVELS: u32 = 61;

/// Prefixes nest where their lengths differ by a multiple of this: each remainder has a trie of its
/// own. Real sets nest 3 to 7 deep although they hold nearly every length.
const NESTING_STEP: u8 = 7;

/// The length of an IPv6 prefix where IPv4's would be the index.
const IPV6_LENGTHS: [u8; 33] = [
    0, 3, 4, 8, 12, 16, 20, 24, 24, 28, 29, 30, 32, 32, 32, 32, 32, 36, 40, 40, 44, 44, 48, 48, 48,
    52, 56, 56, 60, 64, 64, 64, 128,
];

/// A prefix: the address, zero behind the first `len` bits, in its field's low bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefix {
    pub value: u128,
    pub len: u8,
}

/// Draws prefixes of one field.
#[derive(Clone, Debug)]
pub(super) struct AddressSource {
    seed: u64,
    /// Thresholds on 16 bits of a node's hash.
    branching: [u32; 32],
    lighter: [u32; 32],
    is_ipv6: bool,
}

impl AddressSource {
    /// A source whose trie is named by `seed` and shaped for sets of `rules` rules.
    pub(super) fn new(seed: u64, shapes: &[TrieShape; 3], rules: usize, is_ipv6: bool) -> Self {
        let (at, part) = size_position(rules);
        let between = |level: usize, of: fn(&TrieShape, usize) -> u8| {
            let (a, b) = (of(&shapes[at], level), of(&shapes[(at + 1).min(2)], level));
            // `part` is of 256, the shapes are too: 16 bits.
            u32::from(a) * (256 - part) + u32::from(b) * part
        };
        let branching = std::array::from_fn(|level| between(level, |s, l| s.branching[l]));
        let lighter = std::array::from_fn(|level| between(level, |s, l| s.lighter[l]));
        Self { seed, branching, lighter, is_ipv6 }
    }

    /// Draws a prefix of the length that IPv4 would have. Its first `shared.1` bits are those of
    /// `shared.0` where it is given. With `spread`, every node branches evenly: for sets that have
    /// used up what the fitted trie holds.
    pub(super) fn draw(
        &self,
        prng: &mut Prng,
        ipv4_len: u8,
        shared: Option<(Prefix, u32)>,
        spread: bool,
    ) -> Prefix {
        if ipv4_len == 0 {
            return Prefix::default();
        }
        if !self.is_ipv6 {
            let shared = shared.map(|(p, bits)| ((p.value as u64) >> (32 - bits), bits));
            let (path, _) = self.walk(prng, ipv4_len, u32::from(ipv4_len), shared, spread);
            return Prefix { value: u128::from(path) << (32 - ipv4_len), len: ipv4_len };
        }
        let len = IPV6_LENGTHS[usize::from(ipv4_len)];
        let levels = u32::from(len).min(64) - 3;
        let shared = shared.map(|(p, bits)| ((p.value << 3 >> (128 - bits)) as u64, bits));
        let (path, hash) = self.walk(prng, ipv4_len, levels, shared, spread);
        let network = 1u128 << 125 | u128::from(path) << (125 - levels);
        let host = if len == 128 { interface_id(prng, hash, spread) } else { 0 };
        Prefix { value: network | u128::from(host), len }
    }

    /// Walks `levels` levels down: the bits on the way, and the hash of the node at the end.
    fn walk(
        &self,
        prng: &mut Prng,
        ipv4_len: u8,
        levels: u32,
        shared: Option<(u64, u32)>,
        spread: bool,
    ) -> (u64, u64) {
        debug_assert!(levels <= IPV6_LEVELS);
        let mut node = mix(self.seed ^ u64::from(ipv4_len % NESTING_STEP));
        let mut path = 0u64;
        // One draw serves four levels, 16 bits each.
        let mut random = 0;
        for level in 0..levels {
            random = if level % 4 == 0 { prng.next_u64() } else { random >> 16 };
            let bit = match shared {
                Some((bits, len)) if level < len => bits >> (len - 1 - level) & 1,
                _ if spread => random & 1,
                _ => self.child(node, level, random as u16),
            };
            path = path << 1 | bit;
            node = mix(node ^ (bit + 1));
        }
        (path, node)
    }

    /// The child of `node` that a rule goes to.
    #[inline]
    fn child(&self, node: u64, level: u32, random: u16) -> u64 {
        let favoured = node >> 63;
        let (level, may_branch) =
            if self.is_ipv6 { (level / 2, level.is_multiple_of(2)) } else { (level, true) };
        let level = level as usize;
        let branches = may_branch && ((node & 0xffff) as u32) < self.branching[level];
        // Half to one and a half of the level's mean.
        let lighter = (self.lighter[level] * (64 + (node >> 16 & 127) as u32)) >> 7;
        if branches && u32::from(random) < lighter { favoured ^ 1 } else { favoured }
    }
}

/// The lower half of an IPv6 address in the network whose node is `network`.
fn interface_id(prng: &mut Prng, network: u64, spread: bool) -> u64 {
    let hosts = if spread { 0xffff } else { 1 << (network >> 8 & 7) };
    let host = prng.below(hosts) + 1;
    if network & 3 != 0 {
        return host;
    }
    // EUI-64: 24 bits of a maker, ff:fe, 24 bits of a serial number; a universal address.
    let maker = mix(network) & 0xfc_ffff | 0x02_0000;
    maker << 40 | 0xff_fe00_0000 | mix(network ^ host) & 0xff_ffff
}

/// Between which two of the fitted sizes `rules` lies, and where, of 256.
pub(super) fn size_position(rules: usize) -> (usize, u32) {
    // log10 through log2 in 1/256ths, linear between powers of two: exact enough, and integer.
    let log2 = |n: usize| {
        let exponent = usize::BITS - 1 - n.leading_zeros();
        (exponent << 8) + ((n << 8 >> exponent) as u32 & 0xff)
    };
    let decade = log2(10_000) - log2(1_000);
    let above = log2(rules.clamp(1_000, 100_000)) - log2(1_000);
    ((above / decade).min(2) as usize, above % decade * 256 / decade)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tables::acl::ACL;

    #[test]
    fn prefixes_are_clean_nest_and_repeat() {
        for is_ipv6 in [false, true] {
            let source = AddressSource::new(7, &ACL.src_trie, 1_000, is_ipv6);
            let mut prng = Prng::new(1);
            let mut distinct = std::collections::HashSet::new();
            for draw in 0..2_000 {
                let len = [8, 16, 24, 29, 32][draw % 5];
                let prefix = source.draw(&mut prng, len, None, false);
                let bits = if is_ipv6 { 128 } else { 32 };
                if is_ipv6 {
                    assert_eq!(prefix.value >> 125, 1, "below 2000::/3");
                }
                let host = (1u128 << (bits - u32::from(prefix.len))) - 1;
                assert_eq!(prefix.value & host, 0, "{prefix:?}");
                distinct.insert(prefix.value >> (bits - 16));
            }
            assert!(distinct.len() < 400, "{} of 2000 at 16 bits", distinct.len());
        }
    }

    #[test]
    fn sizes_lie_where_their_logarithm_does() {
        for (rules, at) in [(0, 0), (999, 0), (1_000, 0), (10_000, 1), (100_000, 2), (1 << 30, 2)] {
            assert_eq!(size_position(rules).0, at, "{rules}");
        }
        let (at, part) = size_position(3_162);
        assert!(at == 0 && (118..138).contains(&part), "{part}");
    }

    #[test]
    fn shared_bits_are_copied() {
        for is_ipv6 in [false, true] {
            let source = AddressSource::new(3, &ACL.dst_trie, 1_000, is_ipv6);
            let mut prng = Prng::new(2);
            let first = source.draw(&mut prng, 32, None, false);
            for _ in 0..100 {
                let second = source.draw(&mut prng, 32, Some((first, 20)), true);
                let shift = if is_ipv6 { 128 - 23 } else { 32 - 20 };
                assert_eq!(first.value >> shift, second.value >> shift);
            }
        }
    }
}
