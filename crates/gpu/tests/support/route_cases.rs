//! Tables of routes and addresses near them, the same for each seed.

use warpswitch_routes::{Address, NextHop, Prefix, RouteTable};

/// Numbers that are the same everywhere.
pub struct Seeds(pub u64);

impl Seeds {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }
}

/// A prefix: most of the lengths that tables of the Internet are full of, all others too, in few
/// neighbourhoods.
pub fn prefix<A: Address>(seeds: &mut Seeds) -> Prefix<A> {
    let usual: [u8; 8] = if A::BITS == 32 {
        [24, 24, 24, 24, 22, 23, 21, 16]
    } else {
        [48, 48, 48, 32, 40, 44, 64, 36]
    };
    let draw = seeds.next();
    let len = match draw % 10 {
        0 => (draw >> 8) as u8 % (A::BITS + 1),
        _ => usual[(draw >> 16) as usize % usual.len()],
    };
    // 32 neighbourhoods of 16 bits; of the bits behind them all, few or none.
    let near = u128::from((seeds.next() % 32 * 0x0813) & 0xffff) << 112;
    let masks = [u64::MAX, 0x0303_0f0f_0101_ff00, 0];
    let low = u128::from(seeds.next() & masks[(draw >> 32) as usize % masks.len()]);
    Prefix::containing(A::from_left(near | low << 48 | low >> 16), len)
}

/// A table of about so many routes.
pub fn table<A: Address>(routes: usize, seed: u64) -> RouteTable<A> {
    let mut seeds = Seeds(seed);
    (0..routes).map(|_| (prefix(&mut seeds), NextHop(seeds.next() as u16 % 300))).collect()
}

/// Addresses in prefixes, at their ends, beside them, and anywhere.
pub fn addresses<A: Address>(table: &RouteTable<A>, len: usize, seed: u64) -> Vec<A> {
    let mut seeds = Seeds(seed);
    let prefixes: Vec<Prefix<A>> = table.iter().map(|(prefix, _)| prefix).collect();
    let one = 1u128 << (128 - u32::from(A::BITS));
    let mut address = |_| {
        let any = u128::from(seeds.next()) << 64 | u128::from(seeds.next());
        if prefixes.is_empty() || seeds.next().is_multiple_of(8) {
            return A::from_left(any);
        }
        let prefix = prefixes[seeds.next() as usize % prefixes.len()];
        let first = prefix.addr().to_left();
        let width = u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
        A::from_left(match seeds.next() % 5 {
            0 => first,
            1 => first | width,
            2 => first.wrapping_sub(one),
            3 => (first | width).wrapping_add(one),
            _ => first | any & width,
        })
    };
    (0..len).map(&mut address).collect()
}
