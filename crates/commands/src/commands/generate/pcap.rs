//! `warpswitch generate pcap`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use warpswitch_io::{CaptureFormat, CaptureWriter};
use warpswitch_rules::generate::{FrameMaker, FrameSizes, Payloads, Prng};

use super::trace::KeyArgs;
use crate::args::{RulesArgs, parse_positive};
use crate::exit::Outcome;
use crate::load::load_rules;
use crate::output::{Hold, Output, refuse_overwriting};
use crate::payloads::captured;
use crate::term::Progress;

/// Which stream of a seed's random numbers draws sizes, so that they do not follow the keys.
const SIZES_STREAM: u64 = 0x7369_7a65_7321_0001;

const LONG_ABOUT: &str = "\
Generate a capture over a rule set: well-formed Ethernet frames with valid checksums, whose \
headers match randomly chosen rules. With the same options the headers are those of 'generate \
trace --realisable'.

Sizes exclude the four bytes of the frame check sequence, which captures do not contain. 'imix' is \
the simple Internet mix: of twelve frames seven of 60 bytes, four of 590, one of 1514. A frame is \
never shorter than its headers.";

const EXAMPLES: &str = "\
Examples:
  warpswitch generate rules --style acl --count 1K --out acl.rules
  warpswitch generate pcap --rules acl.rules --sizes 60-1514 --out acl.pcap
  warpswitch generate pcap --rules acl.rules --sizes imix --gzip --out a.pcap.gz
  warpswitch generate pcap --rules acl.rules --payloads acl.pcap --out b.pcap
  warpswitch classify --rules acl.rules --pcap acl.pcap --json";

/// Generate a capture over a rule set
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
#[command(mut_arg("count", |arg| arg.default_value("10K")))]
pub struct GeneratePcapArgs {
    #[command(flatten)]
    rules: RulesArgs,

    #[command(flatten)]
    keys: KeyArgs,

    /// Sizes of frames: BYTES, MIN-MAX or imix
    #[arg(long, value_name = "SIZES", default_value = "60")]
    sizes: FrameSizes,

    /// Captures whose TCP payloads fill the frames in turn, repeatedly; several separated by commas
    /// [default: incrementing bytes]
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    payloads: Vec<PathBuf>,

    /// Packet rate for the time stamps, in packets per second
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_positive)]
    rate: usize,

    /// Format of the capture
    #[arg(long, value_name = "FORMAT", default_value = "pcap", value_parser = format_parser())]
    format: CaptureFormat,

    /// Compress the capture
    #[arg(long)]
    gzip: bool,

    /// Output file; '-' is the standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// Bad input, output that cannot be written.
pub fn run(args: &GeneratePcapArgs) -> anyhow::Result<Outcome> {
    let mut inputs = vec![("--rules", args.rules.rules.as_path())];
    inputs.extend(args.payloads.iter().map(|capture| ("--payloads", capture.as_path())));
    refuse_overwriting(&args.out, &inputs)?;
    let mut payloads = match &args.payloads[..] {
        [] => Payloads::default(),
        captures => captured(captures)?.into(),
    };
    let ruleset = load_rules(&args.rules)?.ruleset;
    let mut output = Output::open(&args.out, Hold::Yes)?;
    let mut writer = CaptureWriter::from_write(&mut output, args.format, args.gzip)?;
    let progress = Progress::steps("generating frames", args.keys.count as u64);
    let mut generator = args.keys.spec(true).generate(&ruleset);
    let maker = FrameMaker::new(ruleset.schema());
    let mut sizes = Prng::new(args.keys.seed ^ SIZES_STREAM);
    let mut frame = Vec::new();
    let mut count = 0u64;
    while let Some(key) = generator.next_key() {
        maker.frame_with(key, args.sizes.draw(&mut sizes), &mut payloads, &mut frame);
        count += 1;
        // The first frame comes after an interval: many tools take 0 for no time.
        let timestamp_ns = u128::from(count) * 1_000_000_000 / args.rate as u128;
        writer.write_frame(timestamp_ns.max(1) as u64, &frame)?;
        if count.is_multiple_of(4096) {
            progress.at(count);
        }
    }
    writer.finish()?;
    drop(progress);
    output.commit()?;
    Ok(Outcome::Done)
}

fn format_parser() -> impl TypedValueParser<Value = CaptureFormat> {
    let names = [CaptureFormat::Pcap, CaptureFormat::PcapNg].map(CaptureFormat::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<CaptureFormat>())
}
