//! `warpswitch classify`: a verdict for each packet of a trace or a capture.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use warpswitch_rules::format::TraceFormat;

use crate::args::{BuildArgs, RulesArgs, default_engine, parse_positive, trace_format_parser};
use crate::auto::Auto;
use crate::cache::CacheArgs;
use crate::devices::{DeviceArgs, EngineChoice, choice_parser};
use crate::exit::Outcome;
use crate::output::{Hold, Output, is_dash, print_json, refuse_overwriting, refuse_two_dashes};
use crate::packets::Source;
use crate::tally::{RunFacts, Summary, mpps};
use crate::term::{self, Progress};
use crate::{human, load, pipeline, threads};

const LONG_ABOUT: &str = "\
Find the winning rule for every packet of a trace or a capture.

Prints one line for each packet, in input order: the 0-based index of the winning rule in file \
order, or -1 if no rule matches. For a capture it is -1 also if the frame lacks the fields of the \
rules (an ARP packet with IPv4 rules, for example); the summary counts the reasons.

A summary follows on the standard error stream. With --json it is an object on the standard \
output, and the lines are written only to the destination of --out; with '--out - --json' the \
object goes to the standard error stream.

Packets are streamed: the input may be larger than memory. Results appear only after all input has \
been validated: a file is renamed into place at the end, and the standard output is buffered (in a \
temporary file if it is long). Exception: with '--pcap -', results are also written whenever the \
input has to be waited for.

--engine auto runs 'turbo' on the CPU and on the first GPU, and sends each batch to the faster \
one, by measurements at the start and by the times of earlier batches. Without a GPU it warns and \
uses the CPU. The summary includes its decisions and their reasons. 'auto:host' uses a thread pool \
in place of the GPU.

--cache storm answers most packets of skewed traffic from up to 20 cached rules, which it derives \
from sampled packets and from the rules; the results are the same. It pays in front of slow \
engines (hypercuts, tuple); the summary includes its hit ratio. --cache auto measures whether it \
pays, and bypasses the cache otherwise.

--partition 4-2-1 gives threads roles: 4 run the cache, 2 the engine for what the cache does not \
answer, one (the updater) derives rules. With 'dynamic' threads change roles as queues fill, with \
'auto' by measured delays and hit ratio. Results keep the order of the input. The summary \
includes the time that the threads of each role worked, together.

A GPU that fails, or does not complete a batch in time (--hang-after-ms), is disabled; the CPU \
processes that batch too, so no packet is lost and no result is wrong. A warning is printed.

A capture that ends within a frame is not an error: every whole frame is classified, a warning is \
printed, the summary has \"truncated\": true, and the exit code is 0.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style acl --count 1K --out acl.rules
  warpswitch generate trace --rules acl.rules --count 1M --out acl.trace
  warpswitch classify --rules acl.rules --trace acl.trace --out verdicts.txt
  warpswitch classify --rules acl.rules --trace acl.trace --engine tuple --json
  warpswitch classify --rules acl.rules --trace acl.trace --engine auto
  warpswitch classify --rules acl.rules --trace acl.trace --cache storm

  warpswitch generate pcap --rules acl.rules --count 10K --out acl.pcap
  warpswitch classify --rules acl.rules --pcap acl.pcap | sort | uniq -c";

/// Find the winning rule for every packet of a trace or a capture
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct ClassifyArgs {
    #[command(flatten)]
    rules: RulesArgs,

    #[command(flatten)]
    input: InputArgs,

    /// Format of the trace [default: recognised by content]
    #[arg(long, value_name = "FORMAT", value_parser = trace_format_parser(),
          conflicts_with = "pcap")]
    trace_format: Option<TraceFormat>,

    /// Switch port on which the frames of a capture came in
    #[arg(long, value_name = "PORT", default_value_t = 0, conflicts_with = "trace")]
    in_port: u32,

    /// Lookup engine
    #[arg(long, value_name = "NAME", value_parser = choice_parser(),
          default_value_t = EngineChoice::Cpu(default_engine()))]
    engine: EngineChoice,

    /// Worker threads, each on its own core [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_positive)]
    threads: Option<usize>,

    /// Output file for the lines; '-' is the standard output [default: -, or nowhere with --json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,

    /// Print no summary
    #[arg(long, conflicts_with = "json")]
    quiet: bool,

    #[command(flatten)]
    cache: CacheArgs,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    build: BuildArgs,
}

/// The packets: exactly one source.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct InputArgs {
    /// Trace of packet headers as text, gzip'd or not; '-' is the standard input
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Capture, pcap or pcapng, gzip'd or not; '-' is the standard input
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl InputArgs {
    fn path(&self) -> &Path {
        let path = self.trace.as_deref().or(self.pcap.as_deref());
        path.expect("clap demands one of the two")
    }
}

/// Runs the command.
///
/// # Errors
/// Bad input; an engine that cannot be built; output that cannot be written.
pub fn run(args: &ClassifyArgs) -> anyhow::Result<Outcome> {
    let input = args.input.path();
    refuse_two_dashes(&args.rules.rules, input)?;
    if let Some(out) = &args.out {
        let option = if args.input.pcap.is_some() { "--pcap" } else { "--trace" };
        refuse_overwriting(out, &[("--rules", &args.rules.rules), (option, input)])?;
    }
    let roles = args.cache.roles(args.threads)?;
    let place = args.engine.open(&args.device)?;
    let loaded = load::load_some_rules(&args.rules)?;
    let ruleset = &loaded.ruleset;
    let mut source = match &args.input.pcap {
        Some(path) => Source::capture(path, args.in_port)?,
        None => Source::trace(input, args.trace_format)?,
    };
    let hold = if is_dash(input) { Hold::No } else { Hold::Yes };
    let mut output = match &args.out {
        Some(path) => Output::open(path, hold)?,
        None if args.json => Output::nowhere(),
        None => Output::open(Path::new("-"), hold)?,
    };
    let built = place.build(ruleset, &args.build.to_options())?;
    let engine = args.cache.front(built.classifier, ruleset);
    let classifier = engine.classifier();
    let threads = match &roles {
        // The updater is one more.
        Some((_, start)) => start.workers() + 1,
        None => args.threads.unwrap_or_else(threads::default_threads),
    };
    threads::warn_of_sharing(threads);

    let start = Instant::now();
    let progress = Progress::counter("classifying");
    let tell = |packets| progress.at(packets);
    let (result, roles) = match (roles, engine.cached()) {
        (Some(roles), Some(cached)) => {
            let run = pipeline::roles::run(cached, roles, &mut source, &mut output, &tell)?;
            (run.0, Some(run.1))
        }
        _ => (pipeline::run(classifier, &mut source, &mut output, threads, &tell)?, None),
    };
    drop(progress);
    let json_aside = args.out.as_deref().is_some_and(is_dash);
    output.commit()?;
    let facts = RunFacts {
        engine: args.engine.name(),
        threads,
        time: start.elapsed(),
        build_time: built.build_time,
        bytes: classifier.bytes(),
        digest: result.digest,
        truncated: source.truncated().is_some(),
        auto: built.auto.as_ref().map(Auto::report),
        cache: engine.report(roles.as_ref()),
    };
    place.warn_if_retired();
    warn_of_input(&source, input, result.tally.packets);
    let summary = Summary::new(ruleset, &result.tally, &facts);
    match args.json {
        true if json_aside => term::note(serde_json::to_string_pretty(&summary)?),
        true => print_json(&summary)?,
        false if args.quiet => {}
        false => tell_summary(&summary, &facts),
    }
    Ok(Outcome::Done)
}

/// Warns of an input that is cut or empty.
fn warn_of_input(source: &Source, input: &Path, packets: u64) {
    if let Some(place) = source.truncated() {
        term::warning(format!("{place}; classified the whole frames before it"));
    }
    if packets == 0 {
        term::warning(format!("{} contains no packets", load::display_name(input)));
    }
}

/// The summary for people, on the standard error stream.
fn tell_summary(summary: &Summary, facts: &RunFacts) {
    let total = summary.packets;
    term::note(format!(
        "{} in {} ({}): {} on {}, {}",
        human::counted(total as usize, "packet"),
        human::time(facts.time),
        human::rate(mpps(total, facts.time) * 1e6),
        summary.engine,
        human::counted(summary.threads, "thread"),
        human::counted(summary.rules, "rule"),
    ));
    let line = |name: &str, packets: u64| {
        if packets > 0 {
            let share = human::percent(packets, total);
            term::note(format!("  {name:<24} {:>14}  {share:>7}", human::count(packets)));
        }
    };
    for action in summary.actions.iter().take(12) {
        line(&action.action, action.packets);
    }
    let rest = summary.actions.iter().skip(12);
    line("other actions", rest.map(|action| action.packets).sum());
    line("no rule", summary.misses);
    for (reason, count) in &summary.no_key.reasons {
        line(&format!("no key: {reason}"), *count);
    }
    if let Some(cache) = &summary.cache {
        cache.print();
    }
    if let Some(auto) = &summary.auto {
        auto.tell();
    }
}
