//! Tables of routes for commands: read, or made up with the shape of the Internet's.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use warpswitch_routes::text::{self, Syntax};
use warpswitch_routes::{Address, NextHop, Prefix, RouteTable};
use warpswitch_rules::generate::Prng;

use crate::exit::bad_input;
use crate::load;

/// Lengths of prefixes and how many of 100,000 have them: of the default-free zone in October 2025.
const IPV4_LENGTHS: [(u8, u64); 16] = [
    (24, 59_618),
    (22, 12_044),
    (23, 10_701),
    (21, 5_627),
    (20, 4_725),
    (19, 2_800),
    (18, 1_500),
    (16, 1_480),
    (17, 940),
    (15, 220),
    (14, 130),
    (13, 70),
    (12, 30),
    (11, 10),
    (32, 98),
    (28, 7),
];
const IPV6_LENGTHS: [(u8, u64); 14] = [
    (48, 47_137),
    (32, 14_080),
    (44, 8_970),
    (40, 8_379),
    (36, 6_000),
    (46, 3_500),
    (45, 3_000),
    (42, 2_600),
    (29, 2_600),
    (47, 2_000),
    (38, 1_000),
    (33, 466),
    (56, 168),
    (64, 100),
];

/// A family of addresses, as commands make up tables of it.
pub trait Family: Address {
    /// Its name.
    const NAME: &'static str;

    /// Lengths of prefixes, and how many of 100,000 have them.
    const LENGTHS: &'static [(u8, u64)];

    /// The first bits of an address somewhere among those that are given out, aligned to the left.
    fn somewhere(draw: &mut Prng) -> u128;
}

impl Family for u32 {
    const NAME: &'static str = "ipv4";
    const LENGTHS: &'static [(u8, u64)] = &IPV4_LENGTHS;

    fn somewhere(draw: &mut Prng) -> u128 {
        // Unicast addresses. Half of the table is in a fifth of the values of 16 bits.
        let first = 1 + draw.below(222);
        let second = if draw.chance(500) { draw.below(256) / 5 * 5 } else { draw.below(256) };
        u128::from(first << 8 | second) << 112 | u128::from(draw.below(1 << 16)) << 96
    }
}

impl Family for u128 {
    const NAME: &'static str = "ipv6";
    const LENGTHS: &'static [(u8, u64)] = &IPV6_LENGTHS;

    fn somewhere(draw: &mut Prng) -> u128 {
        // Some 60 values of 16 bits, and 10,000 allocations below them that hold most prefixes; of
        // an allocation mostly the first networks.
        let allocation = draw.below(10_000);
        let mut known = Prng::new(allocation);
        let first = 0x2001 + (known.below(60) * 0x20);
        let second = known.below(1 << 16);
        let third = if draw.chance(700) { draw.below(128) } else { draw.below(1 << 16) };
        let rest = draw.below(1 << 32);
        u128::from(first) << 112
            | u128::from(second) << 96
            | u128::from(third) << 80
            | u128::from(rest) << 48
    }
}

/// `count` routes of lengths as in the Internet's table, with next hops below `hops`; fewer if
/// there are not so many.
pub fn made_up<A: Family>(count: usize, hops: u64, seed: u64) -> RouteTable<A> {
    let mut draw = Prng::new(seed);
    let total: u64 = A::LENGTHS.iter().map(|(_, share)| share).sum();
    let mut known = BTreeSet::new();
    let mut table = RouteTable::new();
    // Short prefixes are few: in the end most draws give some that are there already.
    for _ in 0..count.saturating_mul(20) {
        if known.len() == count {
            break;
        }
        let mut point = draw.below(total);
        let chosen = A::LENGTHS.iter().find(|(_, share)| {
            let is_here = point < *share;
            point = point.saturating_sub(*share);
            is_here
        });
        let len = chosen.map_or(A::BITS, |(len, _)| *len);
        let prefix = Prefix::containing(A::from_left(A::somewhere(&mut draw)), len);
        if known.insert(prefix) {
            let hop = NextHop(draw.below(hops) as u16);
            table.insert(prefix, hop).expect("fewer hops than there can be");
        }
    }
    table
}

/// A table of either family.
#[derive(Debug)]
pub enum Table {
    /// IPv4.
    V4(RouteTable<u32>),
    /// IPv6.
    V6(RouteTable<u128>),
}

/// Reads a list of routes, all of the family of the first one. Where it names one next hop or none,
/// each prefix is given one below `hops`, drawn.
///
/// # Errors
/// Bad input, with every error of the text.
pub fn read(path: &Path, hops: u64) -> anyhow::Result<Table> {
    let name = load::display_name(path);
    let mut text = Vec::new();
    let read = load::open(path, "routes")?.read_to_end(&mut text);
    read.map_err(|error| bad_input(format!("cannot read {name}: {error}")))?;
    let is_route = |line: &&[u8]| line.first().is_some_and(|&byte| byte != b'#');
    let first = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).find(is_route);
    let Some(first) = first else {
        return Err(bad_input(format!(
            "{name} contains no routes; 'warpswitch generate routes' \
            generates a table"
        )));
    };
    let first = first.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    Ok(if first.contains(&b':') {
        Table::V6(parse(&name, &text, hops)?)
    } else {
        Table::V4(parse(&name, &text, hops)?)
    })
}

fn parse<A: Address>(name: &str, text: &[u8], hops: u64) -> anyhow::Result<RouteTable<A>> {
    let routes = text::read::<A>(Syntax::List, name, text).map_err(bad_input)?;
    if routes.vias.len() > 1 {
        return Ok(routes.table);
    }
    let mut draw = Prng::new(1);
    Ok(routes.table.iter().map(|(prefix, _)| (prefix, NextHop(draw.below(hops) as u16))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_tables_are_the_same_everywhere() {
        let table = made_up::<u32>(1000, 250, 1);
        assert_eq!(table, made_up::<u32>(1000, 250, 1));
        assert_eq!(table.len(), 1000);
        let long = table.iter().filter(|(prefix, _)| prefix.len() == 24).count();
        assert!((500..700).contains(&long), "{long}");
        assert!(table.iter().all(|(_, hop)| hop.0 < 250));
        assert_eq!(made_up::<u128>(1000, 250, 1).len(), 1000);
    }

    #[test]
    fn lists_are_of_one_family() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            super::read(&path, 9)
        };
        assert!(matches!(read("# a\n\n10.0.0.0/8\n"), Ok(Table::V4(table)) if table.len() == 1));
        assert!(matches!(read("fe80::/10 1\n::/0 2\n"), Ok(Table::V6(table)) if table.len() == 2));
        for text in ["", "# none\n", "10.0.0.0/8\nfe80::/10\n", "10.0.0.0/40\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
