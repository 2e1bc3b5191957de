//! What the switch runs on: rules, frames, configurations, and what must leave each port.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;
use warpswitch_classify::{BuildOptions, Engine};
use warpswitch_gpu::{Algorithm, Device};
use warpswitch_rules::format::{RulesFormat, write_rules};
use warpswitch_rules::generate::{Family, FrameMaker, Point, RulesetSpec, Style, TraceSpec};
use warpswitch_rules::{Action, KeyBuf, Rule, RuleId, Ruleset, RulesetBuilder};

use super::ports::{FrameTable, PORTS};
use crate::commands::bench::graph::sink::Seen;
use crate::load::build_engine;

/// Bytes of the frames of a worker: more than its own caches hold, as a receive ring does.
const TABLE_BYTES_MAX: usize = 4 << 20;
/// Bytes of a frame that are not in memory: the check sequence.
const FCS_BYTES: usize = 4;
/// Link time of a frame beyond its bytes: preamble and gap.
const GAP_BYTES: usize = 20;
/// Wide batches in flight: enough to fill one while others are on their way.
const DEPTH: usize = 8;

/// Who looks the rules up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// Nobody: each frame leaves the port after its own.
    Forward,
    /// The workers.
    Cores,
    /// Workers or device, batch by batch, as `run --offload auto` chooses.
    Auto,
    /// The device.
    Device(Algorithm),
}

impl Lookup {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Cores => "cores",
            Self::Auto => "auto",
            Self::Device(Algorithm::Linear) => "linear",
            Self::Device(Algorithm::Tuple) => "tuple",
            Self::Device(Algorithm::Bloom) => "bloom",
            Self::Device(Algorithm::MaskHash) => "maskhash",
            Self::Device(Algorithm::Turbo) => "turbo",
        }
    }

    /// Whether it needs a device.
    pub fn has_device(self) -> bool {
        matches!(self, Self::Auto | Self::Device(_))
    }
}

/// One switch to measure.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub lookup: Lookup,
    /// Size of frames with check sequence.
    pub frame_bytes: usize,
    /// Receive queues, each with its own path through the switch.
    pub paths: usize,
    pub workers: usize,
    /// How long a packet may wait for others of its batch.
    pub delay_max: Duration,
    /// The most packets of a wide batch.
    pub batch: usize,
    /// Frames a second, of all paths; as many as the switch receives, if none.
    pub offered_pps: Option<f64>,
    /// Whether frames are received into packets and sent from them.
    pub has_io: bool,
}

impl Setup {
    /// Gbit/s on the wire of a rate of frames.
    pub fn gbps(&self, pps: f64) -> f64 {
        pps * self.wire_bits() / 1e9
    }

    /// Frames a second of a rate on the wire.
    pub fn pps(&self, gbps: f64) -> f64 {
        gbps * 1e9 / self.wire_bits()
    }

    fn wire_bits(&self) -> f64 {
        ((self.frame_bytes + GAP_BYTES) * 8) as f64
    }

    /// The arguments of the `Batcher`s.
    pub fn batcher(&self) -> String {
        let us = self.delay_max.as_micros();
        format!("SIZE {}, DELAY_MAX {us}us, DEPTH {DEPTH}", self.batch)
    }

    /// The configuration; rules are those of `rules`.
    pub fn config(&self, rules: &Path) -> String {
        let mut text = String::new();
        for path in 0..self.paths {
            self.write_path(&mut text, path, rules);
        }
        text + &self.placement()
    }

    /// Keeps each path on one worker, as a queue of each port belongs to it. Without it the ports
    /// would be spread over all workers, and most frames handed over to another.
    fn placement(&self) -> String {
        let mut places = Vec::new();
        for path in 0..self.paths {
            let worker = path % self.workers;
            places.push(format!("in{path} {worker}"));
            let ports = if self.has_io { self.ports() } else { 0 };
            places.extend((0..ports).map(|port| format!("to{path}p{port} {worker}")));
        }
        format!("StaticThreadSched({});\n", places.join(", "))
    }

    /// Ports that frames of a path leave by.
    fn ports(&self) -> usize {
        if self.lookup == Lookup::Forward { 1 } else { PORTS }
    }

    fn write_path(&self, text: &mut String, path: usize, rules: &Path) {
        let rules = rules.display();
        _ = write!(text, "in{path} :: FromDevice(mem:rx{path}, BURST 256) -> ");
        let from = match self.lookup {
            Lookup::Forward => {
                _ = write!(text, "out{path} :: Null; ");
                "out"
            }
            Lookup::Cores | Lookup::Auto => {
                _ = write!(text, "sdn{path} :: SDNClassifier({rules}); ");
                "sdn"
            }
            Lookup::Device(_) => {
                _ = write!(
                    text,
                    "Batcher({}) -> HostToDeviceMemcpy -> GPUSDNClassifier({rules}, ENGINE {}, \
                     ANNO 40) -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher \
                     -> out{path} :: Dispatcher(ANNO 40); ",
                    self.batcher(),
                    self.lookup.name()
                );
                "out"
            }
        };
        for port in 0..self.ports() {
            _ = match self.has_io {
                true => writeln!(
                    text,
                    "{from}{path}[{port}] -> Queue(16384) \
                     -> to{path}p{port} :: ToDevice(mem:tx{path}p{port});"
                ),
                false => writeln!(text, "{from}{path}[{port}] -> Discard;"),
            };
        }
    }
}

/// Frames of one path, and what leaves each port when they pass once.
#[derive(Clone, Debug)]
pub struct PathFrames {
    pub frames: Arc<FrameTable>,
    pub expected: [Seen; PORTS],
}

/// Rules and frames of all measurements.
pub struct Bed {
    rules: Ruleset,
    folder: TempDir,
    frames_max: usize,
    pub device: Option<Arc<Device>>,
    /// The frames of each path, by size of frames.
    made: Vec<(usize, Vec<PathFrames>)>,
}

impl Bed {
    /// A bed with so many rules of an access list, each with one of [`PORTS`] outputs.
    ///
    /// # Errors
    /// If the rules cannot be written to a file for the configurations.
    pub fn new(
        rules: usize,
        frames_max: usize,
        device: Option<Arc<Device>>,
    ) -> anyhow::Result<Self> {
        let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules, seed: 1 };
        let rules = with_outputs(&spec.generate());
        let folder = tempfile::tempdir().context("cannot make a folder for the rules")?;
        let bed = Self { rules, folder, frames_max, device, made: Vec::new() };
        let mut file = File::create(bed.rules_file()).context("cannot write the rules")?;
        write_rules(&bed.rules, RulesFormat::Canonical, &mut file)?;
        Ok(bed)
    }

    /// The file with the rules.
    pub fn rules_file(&self) -> PathBuf {
        self.folder.path().join("switch.rules")
    }

    /// The first `paths` paths with frames of `frame_bytes`, made once.
    ///
    /// # Errors
    /// If the reference cannot be built.
    pub fn paths(&mut self, frame_bytes: usize, paths: usize) -> anyhow::Result<Vec<PathFrames>> {
        let at = self.made.iter().position(|(bytes, _)| *bytes == frame_bytes);
        let at = at.unwrap_or_else(|| {
            self.made.push((frame_bytes, Vec::new()));
            self.made.len() - 1
        });
        for number in self.made[at].1.len()..paths {
            let path = self.make_path(frame_bytes - FCS_BYTES, number as u64)?;
            self.made[at].1.push(path);
        }
        Ok(self.made[at].1[..paths].to_vec())
    }

    fn make_path(&self, bytes: usize, number: u64) -> anyhow::Result<PathFrames> {
        let mut frames = FrameTable::new(bytes);
        let keys_max = (TABLE_BYTES_MAX / bytes).clamp(1, self.frames_max);
        let spec = TraceSpec {
            keys: keys_max,
            point: Point::Inside,
            locality: None,
            realisable: true,
            seed: number + 1,
        };
        let (mut trace, mut keys) = (spec.generate(&self.rules), KeyBuf::new(self.rules.schema()));
        let (maker, mut frame) = (FrameMaker::new(self.rules.schema()), Vec::new());
        while let Some(key) = trace.next_key() {
            frame.clear();
            maker.frame(key, bytes, &mut frame);
            frames.push(&frame);
            keys.push(key);
        }
        let mut found = vec![RuleId::NONE; keys.len()];
        let options = BuildOptions::default();
        let reference = build_engine(Engine::LinearSimd, &self.rules, &options)?.classifier;
        reference.classify(keys.as_batch(), &mut found);
        let mut expected = <[Seen; PORTS]>::default();
        for (frame, id) in frames.iter().zip(found).filter(|(_, id)| id.is_some()) {
            expected[id.as_usize() % PORTS].add(frame);
        }
        Ok(PathFrames { frames: Arc::new(frames), expected })
    }
}

/// The same rules, each with an output by its number.
fn with_outputs(rules: &Ruleset) -> Ruleset {
    let mut builder = RulesetBuilder::new(rules.schema());
    for id in rules.ids() {
        let action = Action::Output((id.as_usize() % PORTS) as u32);
        builder.push(Rule { action, ..rules.to_rule(id) });
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_on_the_wire_include_preamble_and_gap() {
        let setup = Setup {
            lookup: Lookup::Cores,
            frame_bytes: 64,
            paths: 1,
            workers: 1,
            delay_max: Duration::from_micros(100),
            batch: 1024,
            offered_pps: None,
            has_io: true,
        };
        assert!((setup.pps(10.0) - 14.88e6).abs() < 1e4);
        assert!((setup.gbps(setup.pps(27.0)) - 27.0).abs() < 1e-9);
    }
}
