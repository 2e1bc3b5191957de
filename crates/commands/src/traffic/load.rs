//! Frames of a rule set, a trace or a capture.

use std::path::{Path, PathBuf};

use clap::Args;
use warpswitch_rules::generate::{FrameMaker, Payloads, Point, TraceSpec};
use warpswitch_rules::{KeyBuf, Ruleset};
use warpswitch_wire::link::LinkType;

use super::frames::{FrameSet, Loading};
use super::probe::{PROBE_BYTES, ProbePlace};
use super::sizes::FrameSize;
use crate::args::{ReadingArgs, RulesArgs, parse_seed};
use crate::exit::bad_input;
use crate::live;
use crate::load::{self as files, load_rules};
use crate::term::{self, Progress};
use crate::trace_blocks::{TraceBlocks, read_all};

/// Keys that are drawn from rules.
const DRAWN_KEYS: usize = 1 << 16;

/// Where frames come from other than from generated flows.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Send the frames of this capture, repeatedly; the 18 bytes that are checked replace the start
    /// of their payload
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rules", "trace", "size", "flows"])]
    from: Option<PathBuf>,

    /// Send frames that match randomly chosen rules of this file
    #[arg(long, value_name = "FILE", conflicts_with = "flows")]
    rules: Option<PathBuf>,

    /// Send the packets of this trace, repeatedly; requires --rules, whose header fields it has
    #[arg(long, value_name = "FILE", requires = "rules")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    reading: ReadingArgs,

    /// Seed of the random choice among rules
    #[arg(long, value_name = "SEED", default_value = "1", value_parser = parse_seed)]
    seed: u64,
}

impl LoadArgs {
    /// The file that frames come from, for people.
    pub fn name(&self) -> Option<String> {
        let path = self.from.as_ref().or(self.trace.as_ref()).or(self.rules.as_ref())?;
        Some(files::display_name(path))
    }
}

/// Loads the frames, if the arguments name any.
///
/// # Errors
/// Input that cannot be read, or without a frame that can be measured.
pub fn load(args: &LoadArgs, size: FrameSize) -> anyhow::Result<Option<FrameSet>> {
    let frames = match (&args.from, &args.rules) {
        (Some(path), _) => of_capture(path)?,
        (None, Some(rules)) => of_rules(args, rules, size)?,
        (None, None) => return Ok(None),
    };
    let without = frames.without_probe();
    if without > 0 {
        term::warning(format!(
            "{without} of {} frames have less than {PROBE_BYTES} bytes of payload; they are sent \
             and not counted",
            frames.len()
        ));
    }
    Ok(Some(frames))
}

fn finish(loading: Loading, name: &str) -> anyhow::Result<FrameSet> {
    loading.finish().ok_or_else(|| {
        bad_input(format!(
            "no frame of {name} can be measured; a frame needs an IP packet with {PROBE_BYTES} \
             bytes of payload"
        ))
    })
}

fn warn_cut(name: &str) {
    term::warning(format!("{name} is too large to be kept in memory; its first part is sent"));
}

fn of_capture(path: &Path) -> anyhow::Result<FrameSet> {
    let name = files::display_name(path);
    let mut reader = live::open(path)?;
    let mut loading = FrameSet::empty();
    let (mut cut, mut other_links) = (0u64, 0u64);
    loop {
        let frame = match reader.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(error) if error.is_later() => {
                live::wait();
                continue;
            }
            Err(error) => return Err(bad_input(error)),
        };
        if frame.link_type != LinkType::Ethernet {
            other_links += 1;
        } else if frame.original_bytes > frame.data.len() {
            cut += 1;
        } else if !loading.add(frame.data) {
            warn_cut(&name);
            break;
        }
    }
    if cut + other_links > 0 {
        term::warning(format!(
            "{name}: {cut} frames that the capture cut short and {other_links} that are not \
             Ethernet are not sent"
        ));
    }
    finish(loading, &name)
}

fn of_rules(args: &LoadArgs, rules: &Path, size: FrameSize) -> anyhow::Result<FrameSet> {
    let rules = RulesArgs { rules: rules.to_owned(), reading: args.reading.clone() };
    let loaded = load_rules(&rules)?;
    let (name, keys) = match &args.trace {
        Some(path) => (files::display_name(path), trace_keys(path, &loaded.ruleset)?),
        None => (loaded.name.clone(), drawn_keys(&loaded.ruleset, args.seed)),
    };
    let maker = FrameMaker::new(loaded.ruleset.schema());
    let mut sizes = size.cycle().into_iter().cycle();
    let mut loading = FrameSet::empty();
    let mut frame = Vec::new();
    for key in keys.as_batch().iter() {
        let bytes = sizes.next().unwrap_or_default();
        maker.frame_with(key, bytes, &mut Payloads::default(), &mut frame);
        if ProbePlace::find(&frame).is_none() {
            // The headers of a smallest frame may leave less room than a probe needs.
            let bytes = bytes + PROBE_BYTES;
            maker.frame_with(key, bytes, &mut Payloads::default(), &mut frame);
        }
        if !loading.add(&frame) {
            warn_cut(&name);
            break;
        }
    }
    finish(loading, &name)
}

fn trace_keys(path: &Path, ruleset: &Ruleset) -> anyhow::Result<KeyBuf> {
    let name = files::display_name(path);
    let blocks = TraceBlocks::new(files::open(path, "a trace")?, None);
    let progress = Progress::counter("reading the trace");
    Ok(read_all(&name, blocks, ruleset.schema(), |packets| progress.at(packets))?)
}

fn drawn_keys(ruleset: &Ruleset, seed: u64) -> KeyBuf {
    let (keys, point) = (DRAWN_KEYS, Point::Inside);
    let spec = TraceSpec { keys, point, locality: None, realisable: true, seed };
    let mut drawn = KeyBuf::with_capacity(ruleset.schema(), keys);
    spec.generate(ruleset).fill(&mut drawn, keys);
    drawn
}
