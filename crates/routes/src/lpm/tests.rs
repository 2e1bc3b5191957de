//! Against the reference.

use super::*;

/// A sequence of numbers that is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn addr<A: Address>(&mut self) -> A {
        A::from_left(u128::from(self.next()) << 64 | u128::from(self.next()))
    }
}

/// Prefixes that nest: most begin like one of a few addresses.
fn prefix<A: Address>(random: &mut Random, seeds: &[A]) -> Prefix<A> {
    let len = random.below(u64::from(A::BITS) + 1) as u8;
    let seed = seeds[random.below(seeds.len() as u64) as usize];
    let noise: A = random.addr();
    let keep = random.below(u64::from(A::BITS) + 1) as u8;
    let kept = seed.masked(keep).to_left();
    let other = noise.to_left() & !(u128::MAX.checked_shl(128 - u32::from(keep)).unwrap_or(0));
    Prefix::containing(A::from_left(kept | other), len)
}

/// Addresses at the borders of prefixes, and any.
fn addresses<A: Address>(random: &mut Random, table: &RouteTable<A>) -> Vec<A> {
    let mut addrs: Vec<A> = (0..200).map(|_| random.addr()).collect();
    for (prefix, _) in table.iter() {
        let first = prefix.addr().to_left();
        let last = first | u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
        for bits in
            [first, last, first.wrapping_sub(1 << (128 - u32::from(A::BITS))), last.wrapping_add(1)]
        {
            addrs.push(A::from_left(bits));
        }
        let inside = random.next();
        addrs.push(A::from_left(
            first | (last & !first & (u128::from(inside) << 64 | u128::from(!inside))),
        ));
    }
    addrs
}

fn equal<A: Address>(lpm: &Lpm<A>, table: &RouteTable<A>, addrs: &[A]) {
    let mut out = vec![NextHop(12345); addrs.len() + 1];
    lpm.lookup_batch(addrs, &mut out);
    for (addr, found) in addrs.iter().zip(&out) {
        assert_eq!(*found, table.lookup(*addr), "{}", addr.to_std());
    }
    assert_eq!(out[addrs.len()], NextHop(12345), "behind the addresses nothing is written");
}

fn kernels() -> Vec<LpmOptions> {
    let kernels = LpmOptions::kernels().into_iter();
    let forms = kernels.flat_map(|kernel| [LpmForm::Blocks, LpmForm::Dir24].map(|f| (kernel, f)));
    let of = |(kernel, form)| LpmOptions { kernel: Some(kernel), form, ..LpmOptions::default() };
    forms.map(of).collect()
}

fn check_random<A: Address>(seed: u64, routes: usize, hops: u64) {
    let mut random = Random(seed);
    let seeds: Vec<A> = (0..6).map(|_| random.addr()).collect();
    let pairs = (0..routes)
        .map(|_| (prefix(&mut random, &seeds), NextHop(random.below(hops) as u16)))
        .collect();
    check_pairs(random, pairs);
}

/// Builds, inserts one by one and removes, and compares with the reference on the way.
fn check_pairs<A: Address>(mut random: Random, pairs: Vec<(Prefix<A>, NextHop)>) {
    let routes = pairs.len();
    let table: RouteTable<A> = pairs.iter().copied().collect();
    let addrs = addresses(&mut random, &table);
    for options in kernels() {
        let built = Lpm::build(&table, &options).unwrap();
        equal(&built, &table, &addrs);
        assert_eq!(built.len(), table.len());
        let empty = Lpm::build(&RouteTable::new(), &options).unwrap();
        let mut model = RouteTable::new();
        for (step, &(prefix, hop)) in pairs.iter().enumerate() {
            assert_eq!(empty.insert(prefix, hop), model.insert(prefix, hop));
            assert_eq!(empty.get(prefix), Some(hop));
            if step % (1 + routes / 8) == 0 {
                equal(&empty, &model, &addrs);
            }
        }
        equal(&empty, &table, &addrs);
        for step in 0..routes {
            let (prefix, _) = pairs[random.below(routes as u64) as usize];
            assert_eq!(empty.remove(prefix), Ok(model.remove(prefix)));
            assert_eq!(empty.get(prefix), None);
            if step % (1 + routes / 8) == 0 {
                equal(&empty, &model, &addrs);
            }
        }
        equal(&empty, &model, &addrs);
        for &(prefix, _) in &pairs {
            assert_eq!(empty.remove(prefix), Ok(model.remove(prefix)));
        }
        assert!(empty.is_empty());
        assert_eq!(empty.stats().blocks, 0, "all nodes are given back");
        equal(&empty, &RouteTable::new(), &addrs);
    }
}

#[test]
fn random_tables_answer_as_the_reference() {
    for (seed, routes, hops) in [(1, 0, 1), (2, 1, 3), (3, 7, 2), (4, 60, 2), (5, 400, 65_535)] {
        check_random::<u32>(seed, routes, hops);
        check_random::<u128>(seed, routes, hops);
    }
    for seed in 10..30 {
        check_random::<u32>(seed, 120, 5);
        check_random::<u128>(seed, 120, 5);
    }
}

/// Most of the prefixes lie in one or two values of the first 16 bits, most of them with 20 to 56.
#[test]
fn a_crowd_below_16_bits_answers_as_the_reference() {
    for (seed, hops) in [(1, 7), (2, 300)] {
        let mut random = Random(seed);
        let tops = [0x2001u128 << 112, 0x2a02 << 112];
        let pairs = (0..700)
            .map(|i| {
                let addr: u128 = random.addr();
                let top = tops[usize::from(i % 9 == 0)] | addr >> 16;
                let len = if i % 50 == 0 { i / 50 } else { 17 + random.below(40) };
                // Few values of the bytes, so that prefixes nest.
                let bits = top & !(0x30f0_f0f0_u128 << 80) & !0x0fff_ffff_ffff_ffff_ffff;
                (Prefix::containing(bits, len as u8), NextHop(random.below(hops) as u16))
            })
            .collect();
        check_pairs(random, pairs);
    }
}

/// Values of the first 32 bits with a few, some twenty and hundreds of prefixes in the next 16, and
/// longer ones below some.
#[test]
fn bits_32_to_47_answer_as_the_reference_in_all_forms() {
    for (seed, hops) in [(1, 200), (2, 3), (3, 255), (4, 65_535)] {
        let mut random = Random(seed);
        let tops = [(3, 9), (16, 20), (17, 30), (18, 400), (19, 250), (255, 60)];
        let mut pairs = Vec::new();
        // Others, so that the first 16 bits are crowded, but for the last seed.
        for i in 0..if seed == 4 { 9 } else { 70 } {
            let addr = 0x2001u128 << 112 | i << 104;
            pairs.push((Prefix::containing(addr, 24), NextHop(i as u16 % 2)));
        }
        for (top, count) in tops {
            let top = 0x2001_0000_0000_0000u128 << 64 | top << 96;
            for i in 0..count {
                // In one of the tops, most of what lies in one byte is used.
                let dense = if count == 250 { 0xff << 88 } else { 0 };
                let bits = random.addr::<u128>() & (u128::MAX >> 32) & !dense;
                let len = match i % 16 {
                    0..10 => 48,
                    10..15 => 33 + random.below(15),
                    _ if top >> 96 & 1 == 0 => 49 + random.below(80),
                    _ => 32,
                };
                let hop = match random.below(20) {
                    // What leaves say where more is to be found.
                    0 if hops == 255 => 254,
                    0 if hops == 65_535 => 65_534,
                    _ => random.below(hops) as u16,
                };
                pairs.push((Prefix::containing(top | bits, len as u8), NextHop(hop)));
            }
        }
        check_pairs(random, pairs);
    }
}

/// Each route of `flipping` comes and goes, and has another hop each time, while readers look up
/// addresses whose answers do not change, and addresses of which both answers are known.
fn check_changes_while_read<A: Address>() {
    let mut random = Random(77);
    let seeds: Vec<A> = (0..4).map(|_| random.addr()).collect();
    let pairs: Vec<_> = (0..150).map(|i| (prefix(&mut random, &seeds), NextHop(i % 90))).collect();
    let still: RouteTable<A> = pairs[..100].iter().copied().collect();
    let flipping: RouteTable<A> = pairs[100..].iter().copied().collect();
    let both: RouteTable<A> = still.iter().chain(flipping.iter()).collect();
    let addrs = addresses(&mut random, &both);
    // Whatever of the flipping routes is there, one of these is the longest.
    let allowed: Vec<Vec<NextHop>> = addrs
        .iter()
        .map(|&addr| {
            let base = still.longest(addr);
            let base_len = base.map_or(0, |(prefix, _)| prefix.len());
            let over = flipping
                .iter()
                .filter(|(prefix, _)| prefix.contains(addr) && prefix.len() >= base_len);
            over.map(|(_, hop)| hop).chain([base.map_or(NextHop::NONE, |(_, hop)| hop)]).collect()
        })
        .collect();
    for options in kernels() {
        let lpm = Lpm::build(&still, &options).unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut out = vec![NextHop::NONE; addrs.len()];
                    while !stop.load(Ordering::Relaxed) {
                        lpm.lookup_batch(&addrs, &mut out);
                        for ((addr, found), allowed) in addrs.iter().zip(&out).zip(&allowed) {
                            assert!(allowed.contains(found), "{}: {found}", addr.to_std());
                        }
                    }
                });
            }
            for round in 0..200 {
                for (prefix, hop) in flipping.iter().filter(|_| random.below(3) > 0) {
                    lpm.insert(prefix, hop).unwrap();
                    // What a change did is seen as soon as it returns.
                    if still.get(prefix).is_none() && round % 16 == 0 {
                        let longest = lpm.lookup(prefix.addr());
                        assert!(longest.is_some(), "{prefix}");
                    }
                }
                for (prefix, _) in flipping.iter().filter(|_| random.below(3) > 0) {
                    match still.get(prefix) {
                        Some(hop) => lpm.insert(prefix, hop).map(|_| ()).unwrap(),
                        None => lpm.remove(prefix).map(|_| ()).unwrap(),
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        for (prefix, _) in flipping.iter() {
            match still.get(prefix) {
                Some(hop) => lpm.insert(prefix, hop).map(|_| ()).unwrap(),
                None => lpm.remove(prefix).map(|_| ()).unwrap(),
            }
        }
        equal(&lpm, &still, &addrs);
    }
}

#[test]
fn readers_see_the_route_before_or_after_a_change() {
    check_changes_while_read::<u32>();
    check_changes_while_read::<u128>();
}

#[test]
fn a_bound_is_kept_and_a_refused_change_changes_nothing() {
    let mut random = Random(3);
    let options = LpmOptions { bytes_max: 3 << 20, ..LpmOptions::default() };
    let lpm = Lpm::build(&RouteTable::<u128>::new(), &options).unwrap();
    let mut table = RouteTable::new();
    let mut refused = 0;
    while refused < 20 {
        let prefix = Prefix::containing(random.addr(), 100);
        match lpm.insert(prefix, NextHop(5)) {
            Ok(_) => drop(table.insert(prefix, NextHop(5))),
            Err(error) => {
                assert_eq!(error.kind(), crate::ErrorKind::MemoryBound);
                refused += 1;
            }
        }
        // Lists of free blocks are not foreseen.
        assert!(lpm.stats().bytes <= options.bytes_max + lpm.epochs.bytes() + (8 << 10));
    }
    assert!(table.len() > 100, "{}", table.len());
    assert_eq!(lpm.len(), table.len());
    let addrs = addresses(&mut random, &table);
    equal(&lpm, &table, &addrs);
    let big = Lpm::build(&table, &LpmOptions { bytes_max: 1 << 20, ..options });
    assert_eq!(big.unwrap_err().kind(), crate::ErrorKind::MemoryBound);
}

/// A table that is full can lose routes again, and is not written anew for that.
#[test]
fn a_full_table_loses_routes() {
    let mut random = Random(8);
    for form in [LpmForm::Blocks, LpmForm::Dir24] {
        let bytes_max = if form == LpmForm::Blocks { 6 << 20 } else { 40 << 20 };
        let options = LpmOptions { bytes_max, form, ..LpmOptions::default() };
        let lpm = Lpm::build(&RouteTable::<u32>::new(), &options).unwrap();
        let mut table = RouteTable::new();
        loop {
            let prefix = Prefix::containing(random.addr(), 30);
            if lpm.insert(prefix, NextHop(5)).is_err() {
                break;
            }
            table.insert(prefix, NextHop(5)).unwrap();
        }
        let image = lpm.published.read().clone();
        let routes: Vec<_> = table.iter().take(1000).collect();
        for (prefix, hop) in routes {
            assert_eq!(lpm.remove(prefix), Ok(Some(hop)));
        }
        assert!(Arc::ptr_eq(&image, &lpm.published.read()), "written anew");
    }
}

/// Also where hops become wide just when the list of nodes is full: both need more.
#[test]
fn a_change_of_form_keeps_the_bound() {
    // A node for each root and three below: 131,072, which is when their list doubles.
    let routes = (0..32_768u32).flat_map(|root| {
        let hosts = if root % 4 == 0 { 100 } else { 1 };
        (0..3 * hosts).map(move |at| {
            let (third, host) = (at / hosts, at % hosts);
            let addr = root << 16 | third << 8 | (host * 37 % 256);
            (Prefix::containing(addr, 32), NextHop(((host * 7 + root) % 250) as u16))
        })
    });
    let routes: Vec<_> = routes.collect();
    let build = |bytes_max| {
        let options = LpmOptions { bytes_max, form: LpmForm::Blocks, ..LpmOptions::default() };
        Ipv4Lpm::from_routes(routes.iter().copied(), &options)
    };
    let bytes = build(1 << 30).unwrap().stats().bytes;
    for bytes_max in (bytes..bytes + (30 << 20)).step_by(2 << 20) {
        let lpm = build(bytes_max).unwrap();
        _ = lpm.insert(Prefix::containing(0xf000_0000, 25), NextHop(300));
        let bytes = lpm.stats().bytes;
        assert!(bytes <= bytes_max + lpm.epochs.bytes(), "{bytes}, {bytes_max}");
    }
}

/// The table of the first 24 bits says what blocks say, for each of its values, also after changes.
#[test]
fn each_value_of_24_bits_answers_as_blocks_do() {
    let mut random = Random(31);
    let seeds: Vec<u32> = (0..6).map(|_| random.addr()).collect();
    let pairs: Vec<_> = (0..600).map(|i| (prefix(&mut random, &seeds), NextHop(i % 254))).collect();
    let of = |form| LpmOptions { form, ..LpmOptions::default() };
    let [table, blocks] = [LpmForm::Dir24, LpmForm::Blocks]
        .map(|form| Ipv4Lpm::from_routes(pairs.iter().copied(), &of(form)).unwrap());
    for round in 0..3 {
        assert_eq!(table.stats().form, LpmForm::Dir24);
        let (mut found, mut right) = ([NextHop(7); 256], [NextHop(8); 256]);
        for first in (0..1 << 16).map(|first| first << 16) {
            let addrs: [u32; 256] = std::array::from_fn(|third| first | (third as u32) << 8);
            table.lookup_batch(&addrs, &mut found);
            blocks.lookup_batch(&addrs, &mut right);
            assert_eq!(found, right, "{first:x}, round {round}");
        }
        for lpm in [&table, &blocks] {
            for (prefix, _) in pairs.iter().skip(round).step_by(3) {
                lpm.remove(*prefix).unwrap();
            }
            for (prefix, hop) in pairs.iter().skip(round).step_by(5) {
                lpm.insert(*prefix, NextHop(253 - hop.0)).unwrap();
            }
        }
    }
}

/// The table of the first 24 bits is given up for hops that fit no byte, and for routes that the
/// bound would refuse otherwise.
#[test]
fn the_table_of_24_bits_makes_room() {
    let mut random = Random(21);
    for kernel in LpmOptions::kernels() {
        let options =
            LpmOptions { bytes_max: 40 << 20, form: LpmForm::Dir24, kernel: Some(kernel) };
        let lpm = Lpm::build(&RouteTable::<u32>::new(), &options).unwrap();
        let mut table = RouteTable::new();
        assert_eq!(lpm.stats().form, LpmForm::Dir24);
        // The first hop that has no byte.
        let prefix = Prefix::new(0x0a00_0000, 8).unwrap();
        lpm.insert(prefix, NextHop(254)).unwrap();
        table.insert(prefix, NextHop(254)).unwrap();
        assert_eq!(lpm.stats().form, LpmForm::Blocks);
        let addrs = addresses(&mut random, &table);
        equal(&lpm, &table, &addrs);

        let lpm = Lpm::build(&RouteTable::<u32>::new(), &options).unwrap();
        let mut table = RouteTable::new();
        while lpm.stats().form == LpmForm::Dir24 {
            let prefix = Prefix::containing(random.addr(), 30);
            lpm.insert(prefix, NextHop(5)).unwrap();
            table.insert(prefix, NextHop(5)).unwrap();
            assert!(lpm.stats().bytes <= options.bytes_max + lpm.epochs.bytes() + (64 << 10));
        }
        assert!(table.len() > 1000, "{}", table.len());
        for _ in 0..100 {
            lpm.insert(Prefix::containing(random.addr(), 30), NextHop(5)).unwrap();
        }
        let addrs: Vec<u32> = table.iter().map(|(prefix, _)| prefix.addr()).collect();
        let mut out = vec![NextHop::NONE; addrs.len()];
        lpm.lookup_batch(&addrs, &mut out);
        assert!(out.iter().all(|hop| *hop == NextHop(5)));
    }
}

#[test]
fn the_form_is_chosen_by_the_number_of_routes() {
    let routes = |count: u32| (0..count).map(|at| (Prefix::new(at << 8, 24).unwrap(), NextHop(1)));
    for kernel in LpmOptions::kernels() {
        let options = LpmOptions { kernel: Some(kernel), ..LpmOptions::default() };
        let form = |count| Lpm::from_routes(routes(count as u32), &options).unwrap().stats().form;
        assert_eq!(form(DIR24_ROUTES_MIN - 1), LpmForm::Blocks);
        let is_dir24 = form(DIR24_ROUTES_MIN) == LpmForm::Dir24;
        assert_eq!(is_dir24, options.kernel().prefers_dir24());
    }
}

#[test]
fn a_hop_that_stands_for_none_is_refused() {
    let lpm = Lpm::build(&RouteTable::<u32>::new(), &LpmOptions::default()).unwrap();
    let net = Prefix::containing(0, 0);
    assert!(lpm.insert(net, NextHop::NONE).is_err());
    assert!(Lpm::from_routes([(net, NextHop::NONE)], &LpmOptions::default()).is_err());
    assert_eq!(lpm.remove(net), Ok(None));
    assert_eq!(lpm.lookup(1), NextHop::NONE);
    lpm.lookup_batch(&[], &mut []);
}

#[test]
fn every_length_of_batch_is_answered() {
    let mut random = Random(9);
    let seeds = [random.addr::<u128>()];
    let table: RouteTable<u128> =
        (0..300).map(|i| (prefix(&mut random, &seeds), NextHop(i))).collect();
    let short: RouteTable<u32> = table
        .iter()
        .map(|(p, hop)| (Prefix::containing((p.addr() >> 96) as u32, p.len() / 4), hop))
        .collect();
    let addrs = addresses(&mut random, &table);
    let addrs4: Vec<u32> = addrs.iter().map(|addr| (addr >> 96) as u32).collect();
    for options in kernels() {
        let lpm = Lpm::build(&table, &options).unwrap();
        let lpm4 = Lpm::build(&short, &options).unwrap();
        for len in (0..300).chain([1000]) {
            equal(&lpm, &table, &addrs[..len]);
            equal(&lpm4, &short, &addrs4[..len]);
        }
    }
}
