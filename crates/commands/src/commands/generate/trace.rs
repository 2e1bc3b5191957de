//! `warpswitch generate trace`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpswitch_rules::format::{TraceFormat, write_trace};
use warpswitch_rules::generate::{
    FLOWS_MAX, HOT_RULES_MAX, HotRulesSpec, HotRulesTrace, Pareto, Point, PopularTrace,
    PopularitySpec, TraceSpec, Zipf,
};
use warpswitch_rules::schema::{IPV4_5TUPLE, IPV6_5TUPLE};
use warpswitch_rules::{KeyBuf, Ruleset, Schema};

use super::synthetic::{self, SyntheticArg};
use crate::args::{ReadingArgs, RulesArgs, parse_count, parse_seed, trace_format_parser};
use crate::commands::write_failed;
use crate::devices::parse_time;
use crate::exit::{Outcome, bad_input};
use crate::load::load_rules;
use crate::output::{Hold, Output, refuse_overwriting};
use crate::term::Progress;

/// Keys that are made and written at once.
const BATCH_KEYS: usize = 8192;

const LONG_ABOUT: &str = "\
Generate a trace over a rule set: headers that match randomly chosen rules.

--point sets the position of each header within its rule: at a corner (every wildcarded field at \
its lowest or highest value, as ClassBench's trace_generator does), or anywhere inside. --locality \
generates runs of equal headers whose lengths follow a Pareto distribution; '1,0.1' is \
ClassBench's usual choice. Without it headers are independent, so no flow cache can help.

--zipf draws --flows headers first and then packets of these flows, whose popularity follows \
Zipf's law with this exponent. --shift-every ranks the flows anew after each such time at --rate \
packets a second: popular flows become rare, and the reverse.

With --hot-rules the law applies to so many rules, drawn at random, instead of to flows. Each has \
its share of the flows, which are equally popular and lie within one network of the rule, as the \
clients of a service do. A shift replaces a quarter of these rules.

--realisable generates only headers that a real frame can have (no TCP flags with UDP, for \
example).";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style acl --count 10K --out acl.rules
  warpswitch generate trace --rules acl.rules --count 1M --out acl.trace
  warpswitch generate trace --rules acl.rules --point corner --out corners.trace
  warpswitch generate trace --rules acl.rules --locality 1,0.1 --out runs.trace
  warpswitch generate trace --rules acl.rules --zipf 1.1 --out zipf.trace
  warpswitch generate trace --rules acl.rules --zipf 1 --hot-rules 16 --out h

  warpswitch generate rules --synthetic N=10K,C=64,F=16,Cm=4 --out s.rules
  warpswitch generate trace --synthetic N=10K,C=64,F=16,Cm=4 --out s.trace";

/// Generate a trace over a rule set
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub struct GenerateTraceArgs {
    /// Rule file, gzip'd or not; '-' is the standard input
    #[arg(long, value_name = "FILE", required_unless_present = "synthetic")]
    rules: Option<PathBuf>,

    #[command(flatten)]
    reading: ReadingArgs,

    #[command(flatten)]
    keys: KeyArgs,

    #[arg(long, value_name = "PARAMETERS", value_parser = synthetic::parse,
          conflicts_with_all = ["rules", "point", "locality", "realisable", "zipf"],
          help = synthetic::HELP)]
    synthetic: Option<SyntheticArg>,

    #[command(flatten)]
    popularity: PopularityArgs,

    /// Generate only headers that a real frame can have
    #[arg(long)]
    realisable: bool,

    /// Format to write [default: classbench, or canonical if classbench cannot express the headers]
    #[arg(long, value_name = "FORMAT", value_parser = trace_format_parser())]
    format: Option<TraceFormat>,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

/// Which keys are drawn from which rules.
#[derive(Args, Debug)]
pub struct KeyArgs {
    /// Number of packets (suffix K, M or G)
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_count)]
    pub count: usize,

    /// Seed of the random generator
    #[arg(long, value_name = "SEED", default_value = "1", value_parser = parse_seed)]
    pub seed: u64,

    /// Position of each header within its rule
    #[arg(long, value_name = "POINT", default_value = "inside", value_parser = point_parser())]
    point: Point,

    /// Shape and scale of a Pareto distribution of run lengths, such as 1,0.1 [default: no runs]
    #[arg(long, value_name = "A,B")]
    locality: Option<Pareto>,
}

/// Flows and their popularity.
#[derive(Args, Debug)]
struct PopularityArgs {
    /// Packets of flows whose popularity follows Zipf's law with this exponent, such as 1.1
    #[arg(
        long,
        value_name = "EXPONENT",
        conflicts_with = "locality",
        allow_negative_numbers = true
    )]
    zipf: Option<Zipf>,

    /// Number of flows (suffix K or M)
    #[arg(long, value_name = "N", default_value = "10K", value_parser = parse_flows,
          requires = "zipf")]
    flows: usize,

    /// Apply the law to so many rules at a time, and divide the flows among them (suffix K)
    #[arg(long, value_name = "N", value_parser = parse_hot_rules, requires = "zipf")]
    hot_rules: Option<usize>,

    /// Rank the flows anew after each such time, as 50ms or 1s [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "zipf")]
    shift_every: Option<Duration>,

    /// Packets a second, which --shift-every refers to (suffix K, M or G)
    #[arg(long, value_name = "PPS", default_value = "10M", value_parser = parse_count,
          requires = "shift_every")]
    rate: usize,
}

fn parse_flows(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        flows if (1..=FLOWS_MAX).contains(&flows) => Ok(flows),
        flows => Err(format!("{flows} flows; expected 1 to {FLOWS_MAX}")),
    }
}

fn parse_hot_rules(text: &str) -> Result<usize, String> {
    match parse_count(text)? {
        rules if (1..=HOT_RULES_MAX).contains(&rules) => Ok(rules),
        rules => Err(format!("{rules} hot rules; expected 1 to {HOT_RULES_MAX}")),
    }
}

/// A trace with skewed popularity.
enum SkewedTrace<'a> {
    Flows(Box<PopularTrace>),
    Rules(Box<HotRulesTrace<'a>>),
}

impl SkewedTrace<'_> {
    fn fill(&mut self, keys: &mut KeyBuf, keys_max: usize) -> usize {
        match self {
            Self::Flows(trace) => trace.fill(keys, keys_max),
            Self::Rules(trace) => trace.fill(keys, keys_max),
        }
    }
}

impl PopularityArgs {
    /// The skewed trace over `ruleset`, if one is requested.
    fn generate<'a>(
        &self,
        ruleset: &'a Ruleset,
        args: &GenerateTraceArgs,
    ) -> Option<SkewedTrace<'a>> {
        let zipf = self.zipf?;
        let (keys, seed) = (args.keys.count, args.keys.seed);
        let keys_per_shift = self.shift_every.map(|time| {
            let keys = time.as_nanos() * self.rate as u128 / 1_000_000_000;
            u64::try_from(keys).unwrap_or(u64::MAX).max(1)
        });
        if let Some(hot_rules) = self.hot_rules {
            let spec = HotRulesSpec {
                keys,
                zipf,
                hot_rules,
                flows: self.flows,
                keys_per_shift,
                point: args.keys.point,
                realisable: args.realisable,
                seed,
            };
            return Some(SkewedTrace::Rules(Box::new(spec.generate(ruleset))));
        }
        let flows_spec = TraceSpec { keys: self.flows, ..args.keys.spec(args.realisable) };
        let mut flows = KeyBuf::with_capacity(ruleset.schema(), self.flows);
        flows_spec.generate(ruleset).fill(&mut flows, self.flows);
        let spec = PopularitySpec { keys, zipf, keys_per_shift, seed };
        Some(SkewedTrace::Flows(Box::new(spec.generate(flows))))
    }
}

impl KeyArgs {
    /// The trace to draw.
    pub fn spec(&self, realisable: bool) -> TraceSpec {
        TraceSpec {
            keys: self.count,
            point: self.point,
            locality: self.locality,
            realisable,
            seed: self.seed,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// Bad input, a format that cannot express the keys, output that cannot be written.
pub fn run(args: &GenerateTraceArgs) -> anyhow::Result<Outcome> {
    if let Some(synthetic) = args.synthetic {
        let spec = synthetic.with_seed(args.keys.seed);
        let mut out = TraceOutput::open(args, spec.schema().map_err(bad_input)?)?;
        out.write(&spec.keys(args.keys.count).map_err(bad_input)?)?;
        return out.commit();
    }
    let rules = args.rules.clone().unwrap_or_else(|| "-".into());
    let ruleset = load_rules(&RulesArgs { rules, reading: args.reading.clone() })?.ruleset;
    let mut out = TraceOutput::open(args, ruleset.schema())?;
    let progress = Progress::steps("generating packets", args.keys.count as u64);
    let mut popular = args.popularity.generate(&ruleset, args);
    let mut uniform = args.keys.spec(args.realisable).generate(&ruleset);
    let mut fill = |keys: &mut KeyBuf| match &mut popular {
        Some(trace) => trace.fill(keys, BATCH_KEYS),
        None => uniform.fill(keys, BATCH_KEYS),
    };
    let mut keys = KeyBuf::with_capacity(ruleset.schema(), BATCH_KEYS);
    let mut written = 0;
    while fill(&mut keys) > 0 {
        out.write(&keys)?;
        written += keys.len() as u64;
        keys.clear();
        progress.at(written);
    }
    out.commit()
}

/// A trace that is being written, batch after batch.
struct TraceOutput {
    output: Output,
    schema: &'static Schema,
    format: TraceFormat,
    text: Vec<u8>,
    /// Whether the canonical form's header line has been written.
    has_header: bool,
}

impl TraceOutput {
    fn open(args: &GenerateTraceArgs, schema: &'static Schema) -> anyhow::Result<Self> {
        if let Some(rules) = &args.rules {
            refuse_overwriting(&args.out, &[("--rules", rules)])?;
        }
        let is_5tuple = [&IPV4_5TUPLE, &IPV6_5TUPLE].contains(&schema);
        let usual = if is_5tuple { TraceFormat::ClassBench } else { TraceFormat::Canonical };
        let format = args.format.unwrap_or(usual);
        let output = Output::open(&args.out, Hold::Yes)?;
        Ok(Self { output, schema, format, text: Vec::new(), has_header: false })
    }

    fn write(&mut self, keys: &KeyBuf) -> anyhow::Result<()> {
        self.text.clear();
        write_trace(keys.as_batch(), self.schema, self.format, &mut self.text)
            .map_err(write_failed)?;
        // Each batch is a whole trace; of one file only the first line may be the header.
        let mut text = self.text.as_slice();
        if self.format == TraceFormat::Canonical && self.has_header {
            let header_len = text.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            text = &text[header_len..];
        }
        self.has_header = true;
        self.output.write_all(text).context("cannot write the trace")
    }

    /// An empty trace still has its header.
    fn commit(mut self) -> anyhow::Result<Outcome> {
        if !self.has_header {
            self.write(&KeyBuf::new(self.schema))?;
        }
        self.output.commit()?;
        Ok(Outcome::Done)
    }
}

fn point_parser() -> impl TypedValueParser<Value = Point> {
    PossibleValuesParser::new(["inside", "corner"]).map(|name| match name.as_str() {
        "corner" => Point::Corner,
        _ => Point::Inside,
    })
}
