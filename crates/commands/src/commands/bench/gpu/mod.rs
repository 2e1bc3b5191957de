//! `warpswitch bench gpu`: how fast kernels are alone, and with the way to the card and back.

mod agree;
mod hashes;
mod latency;
pub(super) mod measure;
pub(super) mod report;
pub(super) mod updates;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpswitch_classify::parts::RuleStore;
use warpswitch_classify::{BuildOptions, Engine};
use warpswitch_gpu::device::Loaded;
use warpswitch_gpu::packed::{self, PackedImage};
use warpswitch_gpu::split::SplitChoice;
use warpswitch_gpu::work::Work;
use warpswitch_gpu::{Algorithm, Device, engine};
use warpswitch_rules::format::TraceFormat;
use warpswitch_rules::generate::{Point, TraceSpec};
use warpswitch_rules::schema::IPV4_5TUPLE;
use warpswitch_rules::{KeyBuf, RuleId, Ruleset};

use self::measure::{Setting, Words, check_answers, end_to_end, kernel_only};
use self::report::{EngineReport, Mode, Report, RunReport};
use self::updates::{Pace, measure_updates};
use super::check::{CheckBy, Reference, WrongAnswer};
use crate::args::{
    BuildArgs, ReadingArgs, RulesArgs, engine_parser, parse_count, parse_positive,
    trace_format_parser,
};
use crate::devices::{DeviceArgs, DeviceChoice, ResidentArg, unusable};
use crate::digest::Digest;
use crate::exit::{Outcome, bad_input};
use crate::human::{self, rounded};
use crate::load::{self, build_engine};
use crate::measure::{MeasureOptions, classify_all, measure, median};
use crate::output::{print, refuse_two_dashes};
use crate::provenance;
use crate::term::Progress;
use crate::threads::default_threads;
use crate::trace_blocks::{TraceBlocks, read_all};

const LONG_ABOUT: &str = "\
Measure GPU kernels on a rule set.

Every kernel's results are first checked against the reference, in both transfer modes; a kernel \
with wrong results is not measured, and the exit code is 1. Checking rule by rule is slow for \
large rule sets: with '--check engines' two independent CPU engines classify all packets and must \
agree on each, and the reference checks a sample of them.

'kernel' is the kernel alone: keys are already on the GPU, in sets that together exceed its cache, \
and the GPU's own timer is used. 'end to end' is from pinned host memory to pinned host memory: \
--slots batches are in flight at a time, each in its own stream, and --threads threads submit them \
and collect the results; filling the buffers with keys is not counted. 'copies' moves keys with \
the GPU's copy engines, 'direct' lets the kernel read and write host memory itself. The two kinds \
of figures are not comparable: a program does not get a kernel's rate.

--updates measures instead how soon new batches see rule updates, and what updates cost lookups: \
updates arrive at a fixed rate and are collected for --gather-us, all collected updates are \
applied as one group, and the time from an update's arrival until every new batch sees it is \
recorded; lookups run concurrently, end to end.

--hashes compares five hash functions instead, on the masks and values of the rules: 'universal', \
'murmur3' and 'superfast', which GSwitch compared, 'sum', which tuple and maskhash use, and \
'terms', which bloom uses. A kernel that does nothing else hashes each packet under every mask. \
'false pos.' is the share of packets without a value under a mask that the mask's filter lets \
pass; 'equal' counts values whose hash equals that of another value of the mask; 'probes' is the \
mean number of slots examined per value with open addressing, and 'most' the maximum; 'load' is \
the load of cuckoo tables, 'moves' the values evicted per insert, and 'failed' the masks for which \
no such table could be built.

linear, tuple and bloom have a second kernel for small batches, which divides rules as well as \
keys. --split measures chosen divisions: PARTS warps of a block and GROUPS blocks share the same \
keys and search a part of the rules each; a block has THREADS threads, and at most WINDOW bytes of \
shared memory for slots or filters.

The CPU engines in --cpu-engines look up the same keys on all cores.

--latency measures latency instead of throughput: a frame of packets is submitted, either to a \
persistent kernel ('resident') or with one launch per frame ('launched'), and timed from before \
its first key is written to after its last result is read; one CPU core does the same for \
comparison. 'clock alone' is that core only reading the clock for a frame's typical time: the \
latency tail of the machine itself. Without --rules the rule sets are the four scenarios of the \
gpu_classify plugin for VPP: no match, first match, last match, and 1024 prefixes of some lengths.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style acl --count 10K --out acl.rules
  warpswitch bench gpu --rules acl.rules --device host
  warpswitch bench gpu --rules acl.rules --device host --engines turbo --json
  warpswitch bench gpu --rules acl.rules --device host --updates 10K --batch 8K
  warpswitch bench gpu --rules acl.rules --device host --agree 2 --keys 10K
  warpswitch bench gpu --rules acl.rules --device host --hashes --keys 10K
  warpswitch bench gpu --rules acl.rules --device host --latency --frames 100";

/// Measure kernels on a card, alone and with the way there and back
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct BenchGpuArgs {
    /// Rule file, gzip'd or not; '-' is the standard input
    #[arg(long, value_name = "FILE", required_unless_present = "latency")]
    rules: Option<PathBuf>,

    #[command(flatten)]
    reading: ReadingArgs,

    /// Trace of packet headers as text, gzip'd or not [default: generated from the rules]
    #[arg(long, value_name = "FILE", requires = "rules")]
    trace: Option<PathBuf>,

    /// Format of the trace [default: recognised by content]
    #[arg(long, value_name = "FORMAT", value_parser = trace_format_parser(), requires = "trace")]
    trace_format: Option<TraceFormat>,

    /// Packets to generate without a trace (suffix K, M or G: 1K is 1,000)
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1M",
          conflicts_with = "trace")]
    keys: usize,

    /// Where kernels run: a GPU, or a thread pool that emulates one
    #[arg(long, value_name = "DEVICE", value_parser = device_parser(), default_value = "gpu")]
    device: DeviceChoice,

    /// With --latency: when engines use the resident kernel
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", requires = "latency")]
    resident: ResidentArg,

    /// Kernels, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_parser = algorithm_parser(), value_delimiter = ',')]
    engines: Vec<Algorithm>,

    /// CPU engines to compare with, separated by commas
    #[arg(long, value_name = "NAMES", value_parser = engine_parser(), value_delimiter = ',',
          default_value = "turbo")]
    cpu_engines: Vec<Engine>,

    /// Measure no CPU engines
    #[arg(long, conflicts_with = "cpu_engines")]
    no_cpu: bool,

    /// Source of the expected results
    #[arg(long, value_name = "WHO", value_enum, default_value_t,
          conflicts_with_all = ["agree", "latency"])]
    check: CheckBy,

    /// Keys in a batch, several separated by commas (suffix K, M or G: 1K is 1,024)
    #[arg(long, value_name = "KEYS", value_parser = parse_batch, value_delimiter = ',',
          default_value = "8K,64K,256K,1M")]
    batch: Vec<usize>,

    /// Send IPv4 5-tuples in 13 bytes instead of 16; no rule may examine TCP flags
    #[arg(long, conflicts_with_all = ["updates", "agree", "hashes", "latency"])]
    packed: bool,

    /// Which batches take rule-parallel kernels (linear, tuple, bloom), several choices separated
    /// by commas: 'auto', 'never', or a division `PARTSxGROUPS/THREADS[@WINDOW]` as
    /// 32x1/1024 [default: auto]
    #[arg(long, value_name = "CHOICES", value_parser = parse_split, value_delimiter = ',',
          conflicts_with_all = ["updates", "agree", "hashes", "latency"])]
    split: Vec<SplitChoice>,

    /// Batches in flight
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "8")]
    slots: usize,

    /// Threads that submit and collect batches, each with its share of the slots
    #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "1")]
    threads: usize,

    /// Measure only kernels, without transfers
    #[arg(long, conflicts_with = "end_to_end")]
    kernel_only: bool,

    /// Measure only end to end, not kernels alone
    #[arg(long)]
    end_to_end: bool,

    /// Measure rule updates during lookups instead: updates per second, several separated by
    /// commas (suffix K, M or G: 1K is 1,000), or 'max'
    #[arg(long, value_name = "RATES", value_delimiter = ',',
          conflicts_with_all = ["kernel_only", "end_to_end"])]
    updates: Vec<Pace>,

    /// Microseconds for which the first update of a group waits for others, with --updates; 0
    /// applies each as soon as the previous one is done
    #[arg(long, value_name = "US", default_value = updates::GATHER_US, requires = "updates")]
    gather_us: usize,

    /// Measure nothing: compare all results with those of the CPU, in this many rounds of --keys
    /// packets each, with rule updates in between
    #[arg(long, value_name = "ROUNDS", value_parser = parse_positive, conflicts_with_all =
          ["trace", "kernel_only", "end_to_end", "updates", "latency", "csv"])]
    agree: Option<usize>,

    /// Compare hash functions of masked keys instead: their cost, in batches of the largest size,
    /// and the quality of the filters and tables that they build from the rules
    #[arg(long, conflicts_with_all =
          ["kernel_only", "end_to_end", "updates", "agree", "latency", "check"])]
    hashes: bool,

    /// Measure the latency of a frame
    #[arg(long, conflicts_with_all = ["kernel_only", "end_to_end", "updates"])]
    latency: bool,

    /// Packets in a frame, with --latency
    #[arg(long, value_name = "N", value_parser = parse_frame, default_value = "256")]
    frame: usize,

    /// Frames in flight, with --latency
    #[arg(long, value_name = "N", value_parser = parse_under_way, default_value = "1")]
    under_way: usize,

    /// Frames to time, with --latency (suffix K, M or G: 1K is 1,000)
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "100K")]
    frames: usize,

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

    #[command(flatten)]
    build: BuildArgs,
}

pub(super) fn device_parser() -> impl TypedValueParser<Value = DeviceChoice> {
    PossibleValuesParser::new(DeviceChoice::ALL.map(DeviceChoice::name)).map(|name| {
        let known = DeviceChoice::ALL.into_iter().find(|choice| choice.name() == name);
        known.expect("only these names are accepted")
    })
}

fn algorithm_parser() -> impl TypedValueParser<Value = Algorithm> {
    let names = Algorithm::ALL.map(Algorithm::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Algorithm>())
}

/// Batches are powers of two more often than not: K and M are these here.
pub(super) fn parse_batch(text: &str) -> Result<usize, String> {
    match crate::args::parse_bytes(text)? {
        0 => Err("expected at least 1".to_owned()),
        number if number <= 1 << 26 => Ok(number),
        _ => Err("at most 64M".to_owned()),
    }
}

fn parse_split(text: &str) -> Result<SplitChoice, String> {
    text.parse()
}

fn parse_frame(text: &str) -> Result<usize, String> {
    parse_positive(text).and_then(|number| at_most(number, 2048))
}

fn parse_under_way(text: &str) -> Result<usize, String> {
    parse_positive(text).and_then(|number| at_most(number, 64))
}

pub(super) fn at_most(number: usize, most: usize) -> Result<usize, String> {
    if number > most { Err(format!("at most {most}")) } else { Ok(number) }
}

impl BenchGpuArgs {
    /// Where rules come from; `None` if they are made here.
    fn rules_args(&self) -> Option<RulesArgs> {
        let (rules, reading) = (self.rules.clone()?, self.reading.clone());
        Some(RulesArgs { rules, reading })
    }
}

/// Runs the command.
///
/// # Errors
/// Bad input; a card that is missing. A kernel that is wrong or cannot be loaded is part of the
/// report.
pub fn run(args: &BenchGpuArgs) -> anyhow::Result<Outcome> {
    if let (Some(rules), Some(trace)) = (&args.rules, &args.trace) {
        refuse_two_dashes(rules, trace)?;
    }
    let resident = DeviceArgs { resident: args.resident, ..DeviceArgs::default() };
    let device = args.device.open_by(&resident)?;
    if args.latency {
        return latency::run(args, &device);
    }
    let rules = args.rules_args().expect("required without --latency");
    let loaded = load::load_rules(&rules)?;
    let ruleset = &loaded.ruleset;
    if let Some(rounds) = args.agree {
        return agree::run(args, &device, (&loaded.name, ruleset), rounds);
    }
    if args.packed {
        expect_packable(ruleset)?;
    }
    let keys = keys(args, ruleset)?;
    if args.hashes {
        return hashes::run(args, &device, (&loaded.name, ruleset), &keys);
    }
    let reference = args.check.find(ruleset, &keys)?;
    if !args.updates.is_empty() {
        return run_updates(args, &device, &loaded, &keys, &reference);
    }
    let mut report = Report {
        device: device.name().to_owned(),
        ruleset: loaded.name.clone(),
        rules: ruleset.len(),
        packets: keys.len(),
        schema: if args.packed { "ipv4_5tuple packed" } else { ruleset.schema().name },
        slots: args.slots,
        threads: args.threads,
        runs: args.runs,
        run_ms: args.run_ms,
        check: args.check.name(),
        checked: reference.len(),
        checked_by_linear: reference.by_linear,
        engines: Vec::new(),
    };
    for &engine in args.cpu_engines.iter().filter(|_| !args.no_cpu) {
        report.engines.push(bench_cpu(engine, args, ruleset, &keys, &reference));
    }
    let algorithms =
        if args.engines.is_empty() { Algorithm::ALL.to_vec() } else { args.engines.clone() };
    let choices = if args.split.is_empty() { &[SplitChoice::Auto][..] } else { &args.split };
    for (algorithm, &choice) in algorithms.iter().flat_map(|a| choices.iter().map(move |c| (a, c)))
    {
        device.set_split(choice);
        let mut engine = bench_device(&device, *algorithm, args, ruleset, &keys, &reference);
        engine.split = choice.to_string();
        report.engines.push(engine);
    }
    match (args.json, args.csv) {
        (true, _) => provenance::print_json(&provenance::of_device(&device), &report)?,
        (_, true) => provenance::print_csv(&provenance::of_device(&device), &report.to_csv())?,
        _ => print(&report.render())?,
    }
    let failed = report.engines.iter().any(|engine| engine.error.is_some());
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// Measures changes beside lookups, of `turbo` unless other engines are named.
fn run_updates(
    args: &BenchGpuArgs,
    device: &Arc<Device>,
    loaded: &load::LoadedRules,
    keys: &KeyBuf,
    reference: &Reference,
) -> anyhow::Result<Outcome> {
    let ruleset = &loaded.ruleset;
    let one = [Algorithm::Turbo];
    let algorithms = if args.engines.is_empty() { &one[..] } else { &args.engines };
    let mut runs = Vec::new();
    for &algorithm in algorithms {
        let what = (ruleset, keys, reference);
        runs.extend(measure_updates(device, algorithm, args, what)?);
    }
    match (args.json, args.csv) {
        (true, _) => provenance::print_json(&provenance::of_device(device), &runs)?,
        (_, true) => {
            let setting = (args.slots, args.threads);
            let csv = updates::to_csv(&loaded.name, ruleset.len(), setting, &runs);
            provenance::print_csv(&provenance::of_device(device), &csv)?;
        }
        _ => print(&updates::render(device.name(), &human::counted(ruleset.len(), "rule"), &runs))?,
    }
    Ok(Outcome::Done)
}

/// The trace, or packets drawn from the rules.
fn keys(args: &BenchGpuArgs, ruleset: &Ruleset) -> anyhow::Result<KeyBuf> {
    let Some(path) = &args.trace else {
        let (keys, point) = (args.keys.max(1), Point::Inside);
        let spec = TraceSpec { keys, point, locality: None, realisable: false, seed: 1 };
        let mut drawn = KeyBuf::with_capacity(ruleset.schema(), keys);
        spec.generate(ruleset).fill(&mut drawn, keys);
        return Ok(drawn);
    };
    let name = load::display_name(path);
    let blocks = TraceBlocks::new(load::open(path, "a trace")?, args.trace_format);
    let progress = Progress::counter("reading the trace");
    let keys = read_all(&name, blocks, ruleset.schema(), |packets| progress.at(packets))?;
    if keys.is_empty() {
        return Err(bad_input(format!("{name} contains no packets")));
    }
    Ok(keys)
}

/// Checks and measures an engine of the CPU on all cores.
fn bench_cpu(
    engine: Engine,
    args: &BenchGpuArgs,
    ruleset: &Ruleset,
    keys: &KeyBuf,
    reference: &Reference,
) -> EngineReport {
    let mut report = EngineReport::new(engine.name().to_owned());
    let built = match build_engine(engine, ruleset, &args.build.to_options()) {
        Ok(built) => built,
        Err(error) => return report.failed(format!("{error:#}")),
    };
    let classifier = built.classifier.as_ref();
    let threads = default_threads();
    let answers = classify_all(classifier, keys.as_batch(), threads, &|_| {});
    if let Some(wrong) = reference.first_wrong(&answers) {
        return report.failed(wrong_text(wrong));
    }
    report.set_built(digest(&answers), built.build_time, classifier.bytes(), ruleset.len());
    let options = MeasureOptions {
        threads,
        batch_len: 256,
        runs: args.runs,
        run_time: Duration::from_millis(args.run_ms as u64),
    };
    let _progress = Progress::spinner(&format!("measuring {engine}"));
    let measured = measure(classifier, keys.as_batch(), &options, &|_| {});
    report.runs.push(RunReport::new(Mode::Cores(threads), options.batch_len, &measured.rates));
    report
}

/// Checks and measures a kernel.
fn bench_device(
    device: &Arc<Device>,
    algorithm: Algorithm,
    args: &BenchGpuArgs,
    ruleset: &Ruleset,
    keys: &KeyBuf,
    reference: &Reference,
) -> EngineReport {
    let mut report = EngineReport::new(format!("{}:{algorithm}", args.device.name()));
    let start = Instant::now();
    let options: BuildOptions = args.build.to_options();
    let loaded = match engine::load(device, algorithm, ruleset, &options) {
        Ok(loaded) => loaded,
        Err(error) => return report.failed(error.to_string()),
    };
    if let Some(cause) = device.retired() {
        return report.failed(unusable(device, cause).to_string());
    }
    let build_time = start.elapsed();
    let measured = if args.packed {
        load_packed(device, &loaded, ruleset).and_then(|loaded| {
            let keys = Words::from(keys).packed();
            measure_device(device, &loaded, args, keys, reference, &mut report)
        })
    } else {
        measure_device(device, &loaded, args, keys.into(), reference, &mut report)
    };
    match measured {
        Ok(checked) => report.set_built(checked, build_time, loaded.bytes(), ruleset.len()),
        Err(error) => return report.failed(format!("{error:#}")),
    }
    if let Some(cause) = device.retired() {
        report.runs.clear();
        return report.failed(unusable(device, cause).to_string());
    }
    let details = loaded.image().details().into_iter();
    report.details = details.map(|detail| (detail.name, rounded(detail.value, 3))).collect();
    report.registers = device.kernel_registers(loaded.image()).ok().flatten().map(|r| r.0);
    report
}

/// Whether keys of these rules can be packed.
fn expect_packable(ruleset: &Ruleset) -> anyhow::Result<()> {
    let name = ruleset.schema().name;
    if ruleset.schema() != &IPV4_5TUPLE {
        return Err(bad_input(format!("--packed requires IPv4 5-tuples; these rules are {name}")));
    }
    if !packed::keeps_what_rules_examine(&RuleStore::build(ruleset, usize::MAX)?) {
        let message = "--packed omits TCP flags, which a rule examines: remove --packed";
        return Err(bad_input(message));
    }
    Ok(())
}

/// The same image for packed keys.
fn load_packed(
    device: &Device,
    loaded: &Loaded,
    ruleset: &Ruleset,
) -> anyhow::Result<Arc<Loaded<PackedImage>>> {
    let store = RuleStore::build(ruleset, usize::MAX)?;
    let image = PackedImage::new(loaded.image().clone(), &store).ok_or_else(|| {
        bad_input("--packed requires port ranges; a rule matches a port under a mask")
    })?;
    Ok(device.load(Arc::new(image))?)
}

/// All figures of one kernel, after its answers; gives their digest.
fn measure_device<W: Work<Answer = RuleId>>(
    device: &Arc<Device>,
    loaded: &Arc<Loaded<W>>,
    args: &BenchGpuArgs,
    keys: Words<'_>,
    reference: &Reference,
    report: &mut EngineReport,
) -> anyhow::Result<Digest> {
    let progress = Progress::spinner(&format!("checking {}", report.name));
    let mut fingerprint = Digest::new();
    for mode in Mode::ways(device) {
        let mut answers = vec![RuleId(RuleId::NONE.0 - 1); keys.len()];
        check_answers(device, loaded, keys, mode, &mut answers)?;
        if let Some(wrong) = reference.first_wrong(&answers) {
            anyhow::bail!("{}, {mode}", wrong_text(wrong));
        }
        fingerprint = digest(&answers);
    }
    for &batch in &args.batch {
        let setting = Setting {
            batch,
            slots: args.slots,
            threads: args.threads,
            runs: args.runs,
            run_time: Duration::from_millis(args.run_ms as u64),
        };
        progress.say(format!("measuring {}, batches of {batch}", report.name));
        if !args.end_to_end
            && let Some(rates) = kernel_only(device, loaded, keys, &setting)?
        {
            report.runs.push(RunReport::new(Mode::Kernel, batch, &rates));
        }
        if args.kernel_only {
            continue;
        }
        for mode in Mode::ways(device) {
            let rates = end_to_end(device, loaded, keys, &setting, mode)?;
            report.runs.push(RunReport::new(mode, batch, &rates));
        }
    }
    Ok(fingerprint)
}

fn digest(answers: &[RuleId]) -> Digest {
    let mut digest = Digest::new();
    digest.update(answers);
    digest
}

fn wrong_text(WrongAnswer { packet, got, want }: WrongAnswer) -> String {
    format!("wrong result for packet {packet}: rule {got}, expected {want}")
}

/// Median lookups per second as millions.
fn mpps(rates: &[f64]) -> f64 {
    rounded(median(rates) / 1e6, 3)
}

/// A rate for people: billions where there are so many.
pub(super) fn rate_text(mpps: f64) -> String {
    human::rate(mpps * 1e6)
}
