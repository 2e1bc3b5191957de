//! Rates of route lookups and changes, on files that the peers read too; `cargo xtask bench routes`
//! writes these and runs both. By itself it is a test that all runs, on a few routes of its own.
//!
//! ```text
//! routes --routes FILE --addrs FILE [--addrs FILE]... [--batch N] [--passes N] [--only TEXT]
//! ```
//! Routes are lines `addr/len hop`, addresses one a line. One line of JSON for each engine and list
//! of addresses. Every engine's answers are checked against the reference before it is timed. What
//! is timed is the lookup call, its results going to a buffer of one batch, as in a pipeline. One
//! pass to warm up, then the timed ones; the median counts.

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use poptrie::Poptrie;
use warpswitch_routes::{Address, Lpm, LpmForm, LpmOptions, LpmStats, NextHop, Prefix, RouteTable};

/// Routes and addresses of a run without files.
const OWN_ROUTES: usize = 2_000;

/// How long the poptrie crate may take to fill.
const POPTRIE_BUILD_MAX: Duration = Duration::from_secs(60);

/// Changes of one measurement.
const CHANGES: usize = 1 << 20;

#[derive(Debug)]
struct Options {
    routes: Option<String>,
    addrs: Vec<String>,
    batch: usize,
    passes: usize,
    only: String,
}

/// Routes of one family and lists of addresses, with the answers that are right.
struct Work<A> {
    table: RouteTable<A>,
    lists: Vec<List<A>>,
}

struct List<A> {
    name: String,
    addrs: Vec<A>,
    answers: Vec<NextHop>,
}

fn main() {
    let options = options(std::env::args().skip(1));
    let Some(path) = &options.routes else {
        run(&own::<u32>(), &options);
        run(&own::<u128>(), &options);
        return;
    };
    let text = std::fs::read_to_string(path).expect("the routes cannot be read");
    if text.lines().next().is_some_and(|line| line.contains(':')) {
        run(&read::<u128>(&text, &options), &options);
    } else {
        run(&read::<u32>(&text, &options), &options);
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Options {
    let mut options =
        Options { routes: None, addrs: Vec::new(), batch: 256, passes: 9, only: String::new() };
    while let Some(arg) = args.next() {
        // What cargo adds.
        if arg == "--bench" {
            continue;
        }
        let value = args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--routes" => options.routes = Some(value),
            "--addrs" => options.addrs.push(value),
            "--batch" => options.batch = value.parse().expect("a number"),
            "--passes" => options.passes = value.parse().expect("a number"),
            "--only" => options.only = value,
            _ => panic!("no option is called {arg}"),
        }
    }
    assert!(options.batch > 0 && options.passes > 0, "at least 1");
    options
}

fn read<A: Address>(text: &str, options: &Options) -> Work<A>
where
    A::Std: FromStr<Err: Debug>,
{
    let addr = |text: &str| {
        let ip: A::Std = text.parse().expect("an address of the first line's family");
        A::from_ip(ip.into()).expect("it was parsed as one of the family")
    };
    let route = |line: &str| {
        let (prefix, hop) = line.split_once(' ').expect("`addr/len hop`");
        let (net, len) = prefix.split_once('/').expect("`addr/len hop`");
        let prefix = Prefix::new(addr(net), len.parse().expect("a length")).expect("a prefix");
        (prefix, NextHop(hop.parse().expect("a hop")))
    };
    let table: RouteTable<A> = text.lines().map(route).collect();
    let list = |path: &String| {
        let text = std::fs::read_to_string(path).expect("the addresses cannot be read");
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        solved(name, &table, text.lines().map(addr).collect())
    };
    let lists = options.addrs.iter().map(list).collect();
    Work { table, lists }
}

fn solved<A: Address>(name: String, table: &RouteTable<A>, addrs: Vec<A>) -> List<A> {
    let answers = addrs.iter().map(|&addr| table.lookup(addr)).collect();
    List { name, addrs, answers }
}

/// Numbers that are the same everywhere.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 29)
}

fn own<A: Address>() -> Work<A> {
    let mut state = 1;
    let mut addr = || {
        let high = u128::from(random(&mut state) & 0x00ff_ffff_ffff_ffff);
        A::from_left(high << 64 | u128::from(random(&mut state)))
    };
    let pairs = (0..OWN_ROUTES).map(|i| {
        let len = A::BITS / 4 + (i % 24) as u8;
        (Prefix::containing(addr(), len), NextHop((i % 256) as u16))
    });
    let table: RouteTable<A> = pairs.collect();
    let addrs = table.iter().map(|(prefix, _)| prefix.addr()).chain((0..500).map(|_| addr()));
    let lists = vec![solved("own".to_owned(), &table, addrs.collect())];
    Work { table, lists }
}

fn run<A: Address>(work: &Work<A>, options: &Options)
where
    (A, u8): poptrie::Prefix<ADDRESS: From<A>>,
{
    let own = Lpm::<A>::from_routes(work.table.iter(), &LpmOptions::default());
    let own = own.expect("within the bound").stats();
    for kernel in LpmOptions::kernels() {
        for form in [LpmForm::Dir24, LpmForm::Blocks] {
            let mut lpm_options = LpmOptions::default();
            (lpm_options.kernel, lpm_options.form) = (Some(kernel), form);
            let routes: Vec<_> = work.table.iter().collect();
            let start = Instant::now();
            let lpm = Lpm::from_routes(routes, &lpm_options).expect("within the bound");
            let build_ms = start.elapsed().as_secs_f64() * 1e3;
            let stats = lpm.stats();
            let name = match stats.form {
                LpmForm::Dir24 => format!("warpswitch {kernel} dir24"),
                _ => format!("warpswitch {kernel}"),
            };
            // IPv6 routes have one form.
            if stats.form != form || !name.contains(&options.only) {
                continue;
            }
            let lookup = |addrs: &[A], out: &mut [NextHop]| lpm.lookup_batch(addrs, out);
            measure(work, options, &name, build_ms, Some(stats), lookup);
            if (stats.kernel, stats.form) == (own.kernel, own.form) {
                changes(work, options, &lpm, &name);
            }
        }
    }
    if "poptrie crate".contains(&options.only) {
        measure_poptrie(work, options);
    }
}

/// The crate called poptrie. It may take minutes to fill; then it gets no number.
fn measure_poptrie<A: Address>(work: &Work<A>, options: &Options)
where
    (A, u8): poptrie::Prefix<ADDRESS: From<A>>,
{
    let name = "poptrie crate";
    let start = Instant::now();
    let mut trie = Poptrie::<(A, u8), u16>::new();
    for (count, (prefix, hop)) in work.table.iter().enumerate() {
        trie.insert((prefix.addr(), prefix.len()), hop.0);
        if start.elapsed() > POPTRIE_BUILD_MAX {
            for List { name: list, .. } in &work.lists {
                let error = format!("{count} routes took a minute");
                println!("{{\"name\":\"{name}\",\"addrs\":\"{list}\",\"error\":\"{error}\"}}");
            }
            return;
        }
    }
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    measure(work, options, name, build_ms, None, |addrs, out| {
        for (addr, out) in addrs.iter().zip(out) {
            *out = trie.lookup(*addr).map_or(NextHop::NONE, |&hop| NextHop(hop));
        }
    });
}

fn measure<A: Address>(
    work: &Work<A>,
    options: &Options,
    name: &str,
    build_ms: f64,
    stats: Option<LpmStats>,
    lookup: impl Fn(&[A], &mut [NextHop]),
) {
    for list in &work.lists {
        let mut digest = 0xcbf2_9ce4_8422_2325;
        let mut seconds = Vec::new();
        let mut out = vec![NextHop::NONE; options.batch];
        for (addrs, right) in
            list.addrs.chunks(options.batch).zip(list.answers.chunks(options.batch))
        {
            lookup(addrs, &mut out);
            assert!(out[..addrs.len()] == *right, "{name}: wrong answers");
            out[..addrs.len()].iter().for_each(|&hop| add_to_digest(&mut digest, hop));
        }
        for _ in 0..options.passes {
            let start = cpu_seconds();
            for addrs in list.addrs.chunks(options.batch) {
                lookup(std::hint::black_box(addrs), std::hint::black_box(&mut out));
            }
            seconds.push(cpu_seconds() - start);
        }
        seconds.sort_by(f64::total_cmp);
        let mpps = |seconds: f64| list.addrs.len() as f64 / seconds * 1e-6;
        let bytes = stats.map_or(String::new(), |stats| {
            format!("\"bytes\":{},\"lookup_bytes\":{},", stats.bytes, stats.lookup_bytes)
        });
        println!(
            "{{\"name\":\"{name}\",\"addrs\":\"{}\",\"mpps\":{:.3},\"mpps_best\":{:.3},\
             \"build_ms\":{build_ms:.2},{bytes}\"digest\":\"0x{digest:016x}\"}}",
            list.name,
            mpps(seconds[seconds.len() / 2]),
            mpps(seconds[0]),
        );
    }
}

/// The thread's time on a core, as the peers' clock.
fn cpu_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// FNV-1a over the hop as a little-endian 32-bit integer, -1 for none.
fn add_to_digest(digest: &mut u64, hop: NextHop) {
    let value = if hop.is_some() { i32::from(hop.0) } else { -1 };
    for byte in value.to_le_bytes() {
        *digest = (*digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// Takes out and puts in routes at random, with a reader on another thread: rates by the time that
/// the changing thread spends on a core.
fn changes<A: Address>(work: &Work<A>, options: &Options, lpm: &Lpm<A>, name: &str) {
    let routes: Vec<_> = work.table.iter().collect();
    let addrs = &work.lists[0].addrs;
    let (stop, looked_up) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut state = 5;
    let mut seconds = [0.0; 2];
    let rounds = if options.routes.is_some() { 4 } else { 1 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut out = vec![NextHop::NONE; options.batch];
            for addrs in addrs.chunks(options.batch).cycle() {
                lpm.lookup_batch(addrs, &mut out);
                looked_up.fetch_add(addrs.len() as u64, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for _ in 0..rounds {
            // Distinct routes in any order: a stride that shares no factor with their number.
            let count = (CHANGES / rounds).min(routes.len());
            let first = random(&mut state) as usize % routes.len();
            let stride = (1_000_003..).find(|s| gcd(*s, routes.len()) == 1).expect("there is one");
            let picks = (0..count).map(|i| routes[(first + i * stride) % routes.len()]);
            let picks: Vec<_> = picks.collect();
            let start = cpu_seconds();
            for (prefix, _) in &picks {
                lpm.remove(*prefix).expect("within the bound").expect("it was there");
            }
            seconds[0] += (cpu_seconds() - start) / count as f64;
            let start = cpu_seconds();
            for (prefix, hop) in &picks {
                lpm.insert(*prefix, *hop).expect("within the bound");
            }
            seconds[1] += (cpu_seconds() - start) / count as f64;
        }
        stop.store(true, Ordering::Relaxed);
    });
    for list in &work.lists {
        let mut out = vec![NextHop::NONE; list.addrs.len()];
        lpm.lookup_batch(&list.addrs, &mut out);
        assert!(out == list.answers, "{name}: wrong answers after changes");
    }
    let rate = |seconds: f64| rounds as f64 / seconds * 1e-6;
    println!(
        "{{\"name\":\"{name}\",\"removes_mps\":{:.3},\"inserts_mps\":{:.3},\"bytes\":{}}}",
        rate(seconds[0]),
        rate(seconds[1]),
        lpm.stats().bytes,
    );
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
