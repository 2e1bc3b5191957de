//! `warpswitch bench scan`: how fast payloads are searched for patterns on a card, and on the cores
//! beside it.

mod report;
mod traffic;

use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use warpswitch_gpu::device::TransferChoice;
use warpswitch_gpu::driver::Transfer;
use warpswitch_gpu::scan::{DeviceScanner, PAGED_BYTES_MAX, ScanQueue};
use warpswitch_gpu::{Device, GpuError};
use warpswitch_scan::{PatternSets, Patterns, ScanOptions, Scanner, Scratch, naive};

use self::report::{Report, Row};
use self::traffic::Traffic;
use super::gpu::measure::{Setting, end_to_end, kernel_only};
use super::gpu::report::Mode;
use super::gpu::{at_most, device_parser, parse_batch};
use crate::args::parse_positive;
use crate::devices::{DeviceChoice, unusable};
use crate::digest::Digest;
use crate::exit::Outcome;
use crate::payloads::captured;
use crate::term::Progress;
use crate::threads::{self, default_threads};

/// Payloads in one call of a core.
const CORE_BATCH: usize = 64;
/// Bytes of payloads that the plain reference searches, too.
const CHECKED_BYTES: usize = 4_000;
/// Batches that a thread that writes pages has under way.
const SETS_SLOTS: usize = 3;

const LONG_ABOUT: &str = "\
Measure multi-pattern search on a device: the set of patterns that occur in each payload.

Every result set is first compared with that of the CPU, in each transfer mode, and the first ones \
with the plain reference; a wrong engine is not measured, and the exit code is 1. Payloads are \
transferred in pages of 32 KB. 'kernel' is the kernel alone, on pages already on the GPU; 'end to \
end' is from pages in pinned host memory to results in pinned host memory, as in 'bench gpu'; \
'sets' also includes gathering payloads into pages and reading the result sets. The CPU searches \
the same payloads on all cores.

Pattern files have one pattern per line: 'i HEX' (case-insensitive) or '- HEX'. Payloads are \
random bytes with a pattern in one of 16, and those of all TCP segments of captures, cut into each \
size.";

const EXAMPLES: &str = "\
Examples:
  printf 'i 6e6565646c65\\n- 00ff00ff\\n' > p.hex
  warpswitch bench scan --patterns p.hex --device host --size 1500 --run-ms 2";

/// Measure the search for patterns on a card, alone and with the way there and back
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchScanArgs {
    /// Pattern file, one pattern per line: 'i HEX' or '- HEX'
    #[arg(long, value_name = "FILE")]
    patterns: PathBuf,

    /// Captures whose TCP payloads are searched, several separated by commas
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    capture: Vec<PathBuf>,

    /// Payload bytes, several separated by commas
    #[arg(long, value_name = "N", value_parser = parse_size, value_delimiter = ',',
          default_value = "64,256,1500")]
    size: Vec<usize>,

    /// Where kernels run: a GPU, or a thread pool that emulates one
    #[arg(long, value_name = "DEVICE", value_parser = device_parser(), default_value = "gpu")]
    device: DeviceChoice,

    /// Do not measure the CPU
    #[arg(long)]
    no_cpu: bool,

    /// Pages of 32 KB in a batch, several separated by commas (suffix K: 1K is 1,024)
    #[arg(long, value_name = "N", value_parser = parse_batch, value_delimiter = ',',
          default_value = "64,256")]
    batch: Vec<usize>,

    /// Batches in flight, end to end
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "8")]
    slots: usize,

    /// Threads that search on the CPU, write pages and read sets [default: one per core]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    threads: Option<usize>,

    /// Runs; the median is reported
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "5")]
    runs: usize,

    /// Milliseconds per run
    #[arg(long, value_name = "MS", value_parser = parse_positive, default_value = "100")]
    run_ms: usize,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print one line of comma-separated values per figure
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

fn parse_size(text: &str) -> Result<usize, String> {
    parse_positive(text).and_then(|size| at_most(size, PAGED_BYTES_MAX))
}

impl BenchScanArgs {
    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(default_threads)
    }

    fn setting(&self, batch: usize) -> Setting {
        Setting {
            batch,
            slots: self.slots,
            threads: 1,
            runs: self.runs,
            run_time: Duration::from_millis(self.run_ms as u64),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Bad input; a card that is missing; a wrong answer.
pub fn run(args: &BenchScanArgs) -> anyhow::Result<Outcome> {
    let patterns = traffic::patterns(&args.patterns)?;
    let captured = if args.capture.is_empty() { None } else { Some(captured(&args.capture)?) };
    let device = args.device.open()?;
    let start = Instant::now();
    let scanner = DeviceScanner::build(&device, &patterns, &ScanOptions::default());
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut report = Report::new(args, &device, &patterns, &scanner, build_ms)?;
    for &size in &args.size {
        let captured = captured.clone().map(|bytes| Traffic::new("captured", bytes, size));
        for traffic in [Some(Traffic::random(&patterns, size)), captured].into_iter().flatten() {
            measure(args, &device, &scanner, &patterns, &traffic, &mut report)?;
        }
    }
    match device.retired() {
        Some(cause) => Err(unusable(&device, cause)),
        None => report.print(args),
    }
}

/// All figures on one kind of payloads.
fn measure(
    args: &BenchScanArgs,
    device: &Arc<Device>,
    scanner: &Arc<DeviceScanner>,
    patterns: &Patterns,
    traffic: &Traffic,
    report: &mut Report,
) -> anyhow::Result<()> {
    let progress = Progress::spinner("checking");
    let (digest, asked) = check(device, scanner, patterns, traffic)?;
    let per_page = traffic.payloads_per_page();
    let mut add = |by: &'static str, what: &'static str, batch, rates: &[f64], scale: f64| {
        let rates: Vec<f64> = rates.iter().map(|rate| rate * scale).collect();
        report.rows.push(Row::new((by, what), traffic, (digest, asked), batch, &rates));
    };
    let (run_time, threads) = (args.setting(1).run_time, args.threads());
    if !args.no_cpu {
        progress.say(format!("measuring the CPU, {} bytes", traffic.size));
        let rates = on_cores(scanner.scanner(), traffic, threads, args.runs, run_time);
        add(scanner.scanner().engine().name(), "cpu", CORE_BATCH, &rates, 1.0);
    }
    let by = args.device.name();
    for &batch in &args.batch {
        progress.say(format!("measuring {} bytes, batches of {batch} pages", traffic.size));
        let setting = args.setting(batch);
        let words = traffic.words();
        if let Some(rates) = kernel_only(device, scanner.loaded(), words, &setting)? {
            add(by, "kernel", batch, &rates, per_page);
        }
        for mode in Mode::ways(device) {
            let rates = end_to_end(device, scanner.loaded(), words, &setting, mode)?;
            let what = match mode {
                Mode::Copies => "end_to_end_copies",
                Mode::Direct => "end_to_end_direct",
                _ => "end_to_end_threads",
            };
            add(by, what, batch, &rates, per_page);
        }
        let rates = sets(scanner, traffic, batch, threads, args.runs, run_time)?;
        add(by, "sets", batch, &rates, 1.0);
    }
    Ok(())
}

/// Compares the sets of every payload; their digest, and of how many payloads the device left to
/// the host.
fn check(
    device: &Device,
    scanner: &Arc<DeviceScanner>,
    patterns: &Patterns,
    traffic: &Traffic,
) -> anyhow::Result<(Digest, u64)> {
    let payloads = traffic.payloads();
    let (mut want, mut got) = (PatternSets::new(), PatternSets::new());
    scanner.scanner().scan_sets(&payloads, &mut Scratch::new(), &mut want);
    let mut digest = Digest::new();
    for (idx, payload) in payloads.iter().enumerate() {
        if idx * traffic.size < CHECKED_BYTES {
            ensure!(want.of(idx) == naive::set(patterns, payload), "CPU: wrong set {idx}");
        }
        digest.update_words(want.of(idx).iter().map(|id| id.0).chain([u32::MAX]));
    }
    let mut asked = 0;
    for transfer in [Transfer::Copies, Transfer::Direct] {
        // An odd number of pages, so that last ones are short.
        let mut queue = scanner.queue(61, 3)?;
        queue.set_transfer(TransferChoice::Always(transfer));
        let before = scanner.asked();
        queue.scan_sets(&payloads, &mut got);
        asked = scanner.asked() - before;
        let wrong = (0..payloads.len()).find(|&idx| got.of(idx) != want.of(idx));
        if let Some(idx) = wrong {
            let (name, size) = (traffic.name, traffic.size);
            anyhow::bail!("{name}, {size} bytes, {transfer:?}: wrong set of payload {idx}");
        }
        if !device.is_card() {
            break;
        }
    }
    Ok((digest, asked))
}

/// Payloads a second of `lap`, run by so many threads at once, ascending; each has a state of its
/// own and gets its number.
fn rates<S: Send>(
    states: Vec<S>,
    runs: usize,
    run_time: Duration,
    lap: impl Fn(&mut S, Duration) -> f64 + Sync,
) -> Vec<f64> {
    let barrier = Barrier::new(states.len());
    let per_thread: Vec<Vec<f64>> = thread::scope(|scope| {
        let spawn = |(idx, mut state): (usize, S)| {
            let (barrier, lap) = (&barrier, &lap);
            scope.spawn(move || {
                threads::pin(idx);
                lap(&mut state, run_time / 2);
                let run = |_| {
                    barrier.wait();
                    lap(&mut state, run_time)
                };
                (0..runs).map(run).collect()
            })
        };
        let handles: Vec<_> = states.into_iter().enumerate().map(spawn).collect();
        handles.into_iter().map(|h| h.join().expect("a measuring thread panicked")).collect()
    });
    let mut sums: Vec<f64> =
        (0..runs).map(|run| per_thread.iter().map(|rates| rates[run]).sum()).collect();
    sums.sort_by(f64::total_cmp);
    sums
}

/// The cores' rate.
fn on_cores(
    scanner: &Scanner,
    traffic: &Traffic,
    threads: usize,
    runs: usize,
    run_time: Duration,
) -> Vec<f64> {
    let payloads = traffic.payloads();
    let start_of = |idx: usize| payloads.len() * idx / threads;
    let states = (0..threads).map(|idx| (start_of(idx), Scratch::new(), PatternSets::new()));
    rates(states.collect(), runs, run_time, |(at, scratch, out), time| {
        let (start, mut done) = (Instant::now(), 0);
        while start.elapsed() < time {
            let batch = &payloads[*at..payloads.len().min(*at + CORE_BATCH)];
            scanner.scan_sets(batch, scratch, out);
            done += batch.len();
            *at = if *at + batch.len() == payloads.len() { 0 } else { *at + batch.len() };
        }
        done as f64 / start.elapsed().as_secs_f64()
    })
}

/// The rate from payloads to sets, each thread with a queue of its own.
fn sets(
    scanner: &Arc<DeviceScanner>,
    traffic: &Traffic,
    batch: usize,
    threads: usize,
    runs: usize,
    run_time: Duration,
) -> Result<Vec<f64>, GpuError> {
    let payloads = traffic.payloads();
    let state = |idx: usize| {
        let queue = scanner.queue(batch, SETS_SLOTS)?;
        Ok((payloads.len() * idx / threads, queue, PatternSets::new()))
    };
    let states = (0..threads).map(state).collect::<Result<Vec<_>, GpuError>>()?;
    Ok(rates(states, runs, run_time, |(at, queue, out), time| {
        let (start, mut done) = (Instant::now(), 0);
        while start.elapsed() < time {
            done += fill_and_take(queue, &payloads, at, out);
        }
        while queue.under_way() > 0 {
            done += queue.take(out);
        }
        done as f64 / start.elapsed().as_secs_f64()
    }))
}

/// Fills a batch with payloads from `at` on and sends it off; takes the oldest one where every slot
/// is in use. Gives the payloads that were taken.
fn fill_and_take(
    queue: &mut ScanQueue,
    payloads: &[&[u8]],
    at: &mut usize,
    out: &mut PatternSets,
) -> usize {
    let done = if queue.under_way() == SETS_SLOTS { queue.take(out) } else { 0 };
    while queue.push(payloads[*at]) {
        *at = (*at + 1) % payloads.len();
    }
    queue.submit();
    done
}
