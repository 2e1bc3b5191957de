//! `warpswitch bench routes`: how fast routes are looked up on a card, and on the cores beside it.

mod headers;
mod report;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::routes::{LiveRoutes, RouteImage};
use warpswitch_gpu::work::Work;
use warpswitch_gpu::{COPIES, Device};
use warpswitch_routes::{Address, Lpm, LpmOptions, NextHop, Prefix, RouteChange, RouteTable};
use warpswitch_rules::RuleId;
use warpswitch_rules::generate::Prng;

use self::report::{Report, Row};
use super::gpu::measure::{Setting, Words, check_answers, end_to_end, kernel_only};
use super::gpu::report::{Mode, RunReport};
use super::gpu::updates::{self, Arrivals, Changing, Pace, UpdateRun, measure_pace};
use super::gpu::{device_parser, parse_batch};
use crate::args::{parse_bytes, parse_positive};
use crate::commands::generate::parse_hops;
use crate::devices::{DeviceChoice, unusable};
use crate::digest::Digest;
use crate::exit::{Outcome, bad_input};
use crate::human;
use crate::load::display_name;
use crate::output::print;
use crate::provenance;
use crate::routes::{self, Table};
use crate::term::Progress;
use crate::threads::{self, default_threads};

/// Addresses in one call of a core: enough to hide its misses.
const CORE_BATCH: usize = 4096;

const LONG_ABOUT: &str = "\
Measure route lookups on a device, for random addresses and for random addresses inside the \
prefixes.

Every result is first checked against the plain table, in each transfer mode of the device and on \
the CPU; a wrong engine is not measured, and the exit code is 1. 'kernel' and 'end to end' have \
the meaning that they have in 'bench gpu': a kernel alone, on addresses already on the GPU, and \
from pinned host memory to pinned host memory. An IPv4 address takes 4 bytes to the device, an \
IPv6 address 16, a hop 2 on the way back. The CPU looks up the same addresses on all cores.

--headers measures whole IPv4 headers: 64 bytes of a packet go to the device, which checks, routes \
and rewrites the header for forwarding, and 64 come back.

--updates measures instead how soon new batches see route updates, and what updates cost lookups: \
random routes are removed and added back at a fixed rate, and all updates that arrive within \
--gather-us are applied as one group.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate routes --count 10K --out r.txt
  warpswitch bench routes --routes r.txt --device host --run-ms 2
  warpswitch bench routes --routes r.txt --device host --updates 10K --batch 8K";

/// Measure lookups of routes on a card, alone and with the way there and back
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchRoutesArgs {
    /// Routes as a list, gzip'd or not, of one family: lines 'PREFIX' or 'PREFIX HOP'; '-' is the
    /// standard input
    #[arg(long, value_name = "FILE")]
    routes: PathBuf,

    /// Random next hops for a list without next hops (suffix K: 1K is 1,000)
    #[arg(long, value_name = "N", default_value = "250", value_parser = parse_hops)]
    hops: u64,

    /// Random addresses of each kind (suffix K, M or G: 1K is 1,000)
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1M")]
    addresses: usize,

    /// Where kernels run: a GPU, or a thread pool that emulates one
    #[arg(long, value_name = "DEVICE", value_parser = device_parser(), default_value = "gpu")]
    device: DeviceChoice,

    /// Do not measure the CPU
    #[arg(long)]
    no_cpu: bool,

    /// Addresses in a batch, several separated by commas (suffix K, M or G: 1K is 1,024)
    #[arg(long, value_name = "N", value_parser = parse_batch, value_delimiter = ',',
          default_value = "8K,64K,256K,1M")]
    batch: Vec<usize>,

    /// Batches in flight
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "8")]
    slots: usize,

    /// Threads that submit and collect batches, each with its share of the slots
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    threads: usize,

    /// Measure whole IPv4 headers of packets to addresses inside prefixes
    #[arg(long, conflicts_with = "updates")]
    headers: bool,

    /// Measure route updates during lookups instead: updates per second, several separated by
    /// commas (suffix K, M or G: 1K is 1,000), or 'max'
    #[arg(long, value_name = "RATES", value_delimiter = ',')]
    updates: Vec<Pace>,

    /// Microseconds for which the first update of a group waits for others, with --updates; 0
    /// applies each as soon as the previous one is done
    #[arg(long, value_name = "US", default_value = updates::GATHER_US, requires = "updates")]
    gather_us: usize,

    /// Runs; the median is reported
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "5")]
    runs: usize,

    /// Milliseconds per run
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "100")]
    run_ms: usize,

    /// Refuse to build structures larger than this (suffix K, M or G: 1K is 1,024)
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, default_value = "4G")]
    memory_max: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print one line of comma-separated values per figure
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

impl BenchRoutesArgs {
    fn setting(&self, batch: usize) -> Setting {
        Setting {
            batch,
            slots: self.slots,
            threads: self.threads,
            runs: self.runs,
            run_time: Duration::from_millis(self.run_ms as u64),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Bad input; a card that is missing; a wrong answer.
pub fn run(args: &BenchRoutesArgs) -> anyhow::Result<Outcome> {
    let device = args.device.open()?;
    match routes::read(&args.routes, args.hops)? {
        Table::V4(table) if args.headers => headers::run(args, &device, &table),
        Table::V6(_) if args.headers => Err(bad_input("--headers requires IPv4 routes")),
        Table::V4(table) => run_family(args, &device, &table),
        Table::V6(table) => run_family(args, &device, &table),
    }
}

fn run_family<A: routes::Family>(
    args: &BenchRoutesArgs,
    device: &Arc<Device>,
    table: &RouteTable<A>,
) -> anyhow::Result<Outcome> {
    let start = Instant::now();
    let live = LiveRoutes::build(device, table.iter(), args.memory_max)?;
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let lists = [List::random(args, table), List::inside(args, table)];
    for list in &lists {
        list.check_device(device, &live)?;
    }
    if !args.updates.is_empty() {
        return run_updates(args, device, table, &live, &lists[1]);
    }
    let mut report = Report::new(args, device, &live, build_ms)?;
    if !args.no_cpu {
        measure_cores(args, table, &lists, &mut report)?;
    }
    for list in &lists {
        let keys = (list.name, list.digest(), list.words());
        measure_list(args, device, &live.current(), keys, &mut report)?;
    }
    if let Some(cause) = device.retired() {
        return Err(unusable(device, cause));
    }
    report.print(args)
}

/// All figures of a device on one list of keys.
fn measure_list<W: Work>(
    args: &BenchRoutesArgs,
    device: &Device,
    loaded: &Arc<Loaded<W>>,
    (name, digest, words): (&'static str, Digest, Words<'_>),
    report: &mut Report,
) -> anyhow::Result<()> {
    let progress = Progress::spinner("measuring");
    for &batch in &args.batch {
        progress.say(format!("measuring {name}, batches of {batch}"));
        let setting = args.setting(batch);
        let mut add = |mode, rates: &[f64]| {
            let run = RunReport::new(mode, batch, rates);
            report.rows.push(Row::new(args.device.name(), name, digest, run));
        };
        if let Some(rates) = kernel_only(device, loaded, words, &setting)? {
            add(Mode::Kernel, &rates);
        }
        for mode in Mode::ways(device) {
            add(mode, &end_to_end(device, loaded, words, &setting, mode)?);
        }
    }
    Ok(())
}

/// Addresses and what they lead to.
struct List<A> {
    name: &'static str,
    addrs: Vec<A>,
    words: Vec<u32>,
    hops: Vec<NextHop>,
}

impl<A: routes::Family> List<A> {
    /// Any addresses; of IPv6 those that are given out, 2000::/3.
    fn random(args: &BenchRoutesArgs, table: &RouteTable<A>) -> Self {
        let mut draw = Prng::new(11);
        let any = |draw: &mut Prng| match A::BITS {
            32 => draw.next_u128(),
            _ => draw.next_u128() >> 3 | 1 << 125,
        };
        let addrs = (0..args.addresses).map(|_| A::from_left(any(&mut draw))).collect();
        Self::new("random", addrs, table)
    }

    /// Addresses inside prefixes, both drawn.
    fn inside(args: &BenchRoutesArgs, table: &RouteTable<A>) -> Self {
        let mut draw = Prng::new(12);
        let prefixes: Vec<Prefix<A>> = table.iter().map(|(prefix, _)| prefix).collect();
        let addr = |_| {
            let prefix = prefixes[draw.index(prefixes.len())];
            let inside = u128::MAX.checked_shr(u32::from(prefix.len())).unwrap_or(0);
            A::from_left(prefix.addr().to_left() | draw.next_u128() & inside)
        };
        Self::new("in-prefix", (0..args.addresses).map(addr).collect(), table)
    }
}

impl<A: Address> List<A> {
    fn new(name: &'static str, addrs: Vec<A>, table: &RouteTable<A>) -> Self {
        let _progress = Progress::spinner("looking up addresses in the plain table");
        let mut words = vec![0; addrs.len() * RouteImage::<A>::ADDRESS_WORDS];
        RouteImage::write_addresses(&addrs, &mut words);
        let mut hops = vec![NextHop::NONE; addrs.len()];
        let per_thread = addrs.len().div_ceil(default_threads());
        thread::scope(|scope| {
            for (addrs, hops) in addrs.chunks(per_thread).zip(hops.chunks_mut(per_thread)) {
                scope.spawn(move || {
                    for (hop, &addr) in hops.iter_mut().zip(addrs) {
                        *hop = table.lookup(addr);
                    }
                });
            }
        });
        Self { name, addrs, words, hops }
    }

    fn words(&self) -> Words<'_> {
        Words::new(&self.words, RouteImage::<A>::FORM)
    }

    /// That of the hops, -1 for none.
    fn digest(&self) -> Digest {
        let mut digest = Digest::new();
        let number = |hop: &NextHop| if hop.is_some() { u32::from(hop.0) } else { u32::MAX };
        let hops: Vec<RuleId> = self.hops.iter().map(|hop| RuleId(number(hop))).collect();
        digest.update(&hops);
        digest
    }

    fn check(&self, got: &[NextHop], who: &str) -> anyhow::Result<()> {
        let differ = self.hops.iter().zip(got).position(|(want, got)| want != got);
        let Some(at) = differ else { return Ok(()) };
        let (addr, got, want) = (self.addrs[at].to_std(), got[at], self.hops[at]);
        bail!("{who}: wrong result for {addr}: hop {got}, expected {want}")
    }

    /// Checks a device's answers, both its ways.
    fn check_device(&self, device: &Device, live: &LiveRoutes<A>) -> anyhow::Result<()> {
        for mode in Mode::ways(device) {
            // No answer is this one by chance: there are fewer hops, and it is not 'none'.
            let mut got = vec![NextHop(u16::MAX - 1); self.hops.len()];
            check_answers(device, &live.current(), self.words(), mode, &mut got)?;
            self.check(&got, &mode.to_string())?;
        }
        match device.retired() {
            Some(cause) => Err(unusable(device, cause)),
            None => Ok(()),
        }
    }
}

/// Checks and measures the structure of the cores, on all of them.
fn measure_cores<A: Address>(
    args: &BenchRoutesArgs,
    table: &RouteTable<A>,
    lists: &[List<A>],
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut options = LpmOptions::default();
    options.bytes_max = args.memory_max;
    let lpm = Lpm::build(table, &options)?;
    report.cores_form = Some(lpm.stats().form.name());
    for list in lists {
        let mut got = vec![NextHop::NONE; list.addrs.len()];
        lpm.lookup_batch(&list.addrs, &mut got);
        list.check(&got, "the cores")?;
        let rates = core_rates(args, &lpm, &list.addrs);
        let run = RunReport::new(Mode::Cores(default_threads()), CORE_BATCH, &rates);
        report.rows.push(Row::new(lpm.stats().kernel, list.name, list.digest(), run));
    }
    Ok(())
}

/// Lookups per second of all cores together, each from a place of its own, ascending.
fn core_rates<A: Address>(args: &BenchRoutesArgs, lpm: &Lpm<A>, addrs: &[A]) -> Vec<f64> {
    let count = default_threads();
    let barrier = Barrier::new(count);
    let time = Duration::from_millis(args.run_ms as u64);
    let lap = |out: &mut [NextHop], mut at: usize| {
        let (start, mut looked_up) = (Instant::now(), 0);
        while start.elapsed() < time {
            let end = (at + CORE_BATCH).min(addrs.len());
            lpm.lookup_batch(&addrs[at..end], out);
            std::hint::black_box(&mut *out);
            looked_up += end - at;
            at = if end == addrs.len() { 0 } else { end };
        }
        looked_up as f64 / start.elapsed().as_secs_f64()
    };
    let per_thread: Vec<Vec<f64>> = thread::scope(|scope| {
        let spawn = |idx: usize| {
            let (barrier, lap) = (&barrier, &lap);
            scope.spawn(move || {
                threads::pin(idx);
                let mut out = vec![NextHop::NONE; CORE_BATCH];
                let at = idx * (addrs.len() / count);
                // The first run warms up.
                let run = |_| {
                    barrier.wait();
                    lap(&mut out, at)
                };
                (0..=args.runs).map(run).skip(1).collect()
            })
        };
        let handles: Vec<_> = (0..count).map(spawn).collect();
        handles.into_iter().map(|h| h.join().expect("a measuring thread panicked")).collect()
    });
    let mut rates: Vec<f64> =
        (0..args.runs).map(|run| per_thread.iter().map(|rates| rates[run]).sum()).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

/// Takes routes out at random, and puts the one that is out for longest back.
struct Flips<'a, A: Address> {
    live: &'a LiveRoutes<A>,
    routes: Vec<(Prefix<A>, NextHop)>,
    out: VecDeque<usize>,
    is_out: Vec<bool>,
    draw: Prng,
}

/// Routes that are out at once at most.
const OUT_MAX: usize = 4096;

impl<A: Address> Flips<'_, A> {
    fn back(&mut self) -> Option<RouteChange<A>> {
        let route = self.out.pop_front()?;
        self.is_out[route] = false;
        let (prefix, hop) = self.routes[route];
        Some(RouteChange::Insert(prefix, hop))
    }

    fn make(&self, group: &[RouteChange<A>]) -> anyhow::Result<()> {
        self.live.change(group).map_err(|refused| refused.error).context("update rejected")
    }
}

impl<A: Address> Changing for Flips<'_, A> {
    fn group(&mut self, len: usize) -> anyhow::Result<()> {
        let out_max = OUT_MAX.min(self.routes.len() / 4).max(1);
        let mut group = Vec::with_capacity(len);
        for _ in 0..len {
            if self.out.len() >= out_max {
                group.extend(self.back());
                continue;
            }
            let route = loop {
                let route = self.draw.index(self.routes.len());
                if !self.is_out[route] {
                    break route;
                }
            };
            self.is_out[route] = true;
            self.out.push_back(route);
            group.push(RouteChange::Remove(self.routes[route].0));
        }
        self.make(&group)
    }

    fn figures(&self) -> (f64, f64) {
        let stats = self.live.stats();
        (stats.patched_bytes as f64, stats.whole_copies as f64)
    }
}

/// Measures changes beside lookups, and checks all answers behind them.
fn run_updates<A: routes::Family>(
    args: &BenchRoutesArgs,
    device: &Arc<Device>,
    table: &RouteTable<A>,
    live: &LiveRoutes<A>,
    list: &List<A>,
) -> anyhow::Result<Outcome> {
    ensure!(!table.is_empty(), "the table has no route to update");
    let routes: Vec<_> = table.iter().collect();
    let (out, is_out) = (VecDeque::new(), vec![false; routes.len()]);
    let mut flips = Flips { live, routes, out, is_out, draw: Prng::new(1) };
    // The first changes make the other copies.
    for _ in 1..COPIES {
        flips.group(1)?;
    }
    let current = || live.current();
    let mut runs: Vec<UpdateRun> = Vec::new();
    for &batch in &args.batch {
        let setting = args.setting(batch);
        for &pace in &args.updates {
            let gather = Duration::from_micros(args.gather_us as u64);
            let arrivals = Arrivals { pace, gather };
            let words = list.words();
            let mut run = measure_pace(device, &mut flips, &current, words, &setting, arrivals)?;
            run.engine = format!("{}:routes", args.device.name());
            runs.push(run);
        }
    }
    let back: Vec<_> = std::iter::from_fn(|| flips.back()).collect();
    flips.make(&back)?;
    list.check_device(device, live).context("after all updates")?;
    match (args.json, args.csv) {
        (true, _) => provenance::print_json(&provenance::of_device(device), &runs)?,
        (_, true) => {
            let (name, setting) = (display_name(&args.routes), (args.slots, args.threads));
            let csv = updates::to_csv(&name, table.len(), setting, &runs);
            provenance::print_csv(&provenance::of_device(device), &csv)?;
        }
        _ => {
            let what = format!("{}, {}", human::counted(table.len(), "route"), A::NAME);
            print(&updates::render(device.name(), &what, &runs))?;
        }
    }
    Ok(Outcome::Done)
}
