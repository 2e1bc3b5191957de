//! Whether all engines give the same answers, over as many lookups as one likes.
//!
//! Each round draws other packets, every second one at the corners of rules, makes a group of
//! changes, and looks all packets up on the cores and, engine by engine, on the device in every way
//! that there is. `turbo` on the cores is what the others are held against, and is itself held
//! against the reference while no rule has changed.

use std::sync::Arc;

use anyhow::{Context, bail};
use serde::Serialize;
use warpswitch_classify::{Classifier, Engine, RuleChange};
use warpswitch_gpu::live::LiveEngine;
use warpswitch_gpu::{Algorithm, Device};
use warpswitch_rules::generate::{Point, Prng, TraceSpec};
use warpswitch_rules::{KeyBuf, RuleId, Ruleset};

use super::super::check::{Reference, WrongAnswer};
use super::measure::check_answers;
use super::report::Mode;
use super::{BenchGpuArgs, unusable, wrong_text};
use crate::digest::Digest;
use crate::exit::Outcome;
use crate::human;
use crate::load::build_engine;
use crate::measure::classify_all;
use crate::output::print;
use crate::provenance;
use crate::term::Progress;
use crate::threads::default_threads;

/// Changes before each round but the first.
const GROUP: usize = 256;

/// What was compared.
#[derive(Debug, Serialize)]
struct Agreement {
    device: String,
    ruleset: String,
    schema: &'static str,
    rules: usize,
    engines: Vec<&'static str>,
    rounds: usize,
    packets: u64,
    changes: u64,
    /// Lookups on the device, each of which gave the answer of the cores.
    lookups: u64,
    /// Packets of the first round that the reference answered, too.
    checked: usize,
    digest: String,
}

/// Runs `rounds` rounds; the first wrong answer ends all.
///
/// # Errors
/// A wrong answer, an engine that cannot be built, a device that failed.
pub fn run(
    args: &BenchGpuArgs,
    device: &Arc<Device>,
    (name, ruleset): (&str, &Ruleset),
    rounds: usize,
) -> anyhow::Result<Outcome> {
    let all = Algorithm::ALL.to_vec();
    let algorithms = if args.engines.is_empty() { all } else { args.engines.clone() };
    let options = args.build.to_options();
    let cores = build_engine(Engine::Turbo, ruleset, &options)?.classifier;
    let built = algorithms.iter().map(|&one| LiveEngine::build(device, one, ruleset, &options));
    let engines: Vec<LiveEngine> = built.collect::<Result<_, _>>()?;
    let mut found = Agreement {
        device: device.name().to_owned(),
        ruleset: name.to_owned(),
        schema: ruleset.schema().name,
        rules: ruleset.len(),
        engines: algorithms.iter().map(|algorithm| algorithm.name()).collect(),
        rounds,
        packets: 0,
        changes: 0,
        lookups: 0,
        checked: 0,
        digest: String::new(),
    };
    let mut flips = Flips::new(ruleset);
    let mut digest = Digest::new();
    let progress = Progress::steps("comparing", rounds as u64);
    for round in 0..rounds {
        let keys = packets(ruleset, args.keys.max(1), round as u64);
        if round > 0 {
            let all = engines.iter().map(|one| one as &dyn Classifier).chain([&*cores]);
            found.changes += change_all(all, &flips.group())?;
        }
        let want = classify_all(&*cores, keys.as_batch(), default_threads(), &|_| {});
        if round == 0 {
            let reference = Reference::find(ruleset, &keys)?;
            if let Some(wrong) = reference.first_wrong(&want) {
                bail!("turbo on the cores: {}", wrong_text(wrong));
            }
            found.checked = reference.len();
        }
        for (algorithm, engine) in algorithms.iter().zip(&engines) {
            for mode in Mode::ways(device) {
                let mut got = vec![RuleId(RuleId::NONE.0 - 1); keys.len()];
                check_answers(device, &engine.current(), (&keys).into(), mode, &mut got)?;
                if let Some(wrong) = first_difference(&got, &want) {
                    bail!("{algorithm}, {mode}, round {round}: {}", wrong_text(wrong));
                }
                found.lookups += keys.len() as u64;
            }
        }
        if let Some(cause) = device.retired() {
            return Err(unusable(device, cause));
        }
        digest.update(&want);
        found.packets += keys.len() as u64;
        progress.at(round as u64 + 1);
    }
    drop(progress);
    found.digest = digest.to_string();
    if args.json {
        provenance::print_json(&provenance::of_device(device), &found)?
    } else {
        print(&found.render())?
    }
    Ok(Outcome::Done)
}

/// Makes a group of changes everywhere; how many there are.
fn change_all<'a>(
    all: impl Iterator<Item = &'a dyn Classifier>,
    group: &[RuleChange<'_>],
) -> anyhow::Result<u64> {
    for classifier in all {
        let made = classifier.change(group).map_err(|refused| refused.error);
        made.context("update rejected")?;
    }
    Ok(group.len() as u64)
}

fn packets(ruleset: &Ruleset, count: usize, round: u64) -> KeyBuf {
    let point = if round.is_multiple_of(2) { Point::Inside } else { Point::Corner };
    let spec = TraceSpec { keys: count, point, locality: None, realisable: false, seed: 1 + round };
    let mut keys = KeyBuf::with_capacity(ruleset.schema(), count);
    spec.generate(ruleset).fill(&mut keys, count);
    keys
}

fn first_difference(got: &[RuleId], want: &[RuleId]) -> Option<WrongAnswer> {
    let mut both = got.iter().zip(want);
    let packet = both.position(|(got, want)| got != want)?;
    Some(WrongAnswer { packet, got: got[packet], want: want[packet] })
}

/// Rules that go, and come again when they are drawn once more.
struct Flips<'a> {
    ruleset: &'a Ruleset,
    is_out: Vec<bool>,
    draw: Prng,
}

impl<'a> Flips<'a> {
    fn new(ruleset: &'a Ruleset) -> Self {
        Self { ruleset, is_out: vec![false; ruleset.len()], draw: Prng::new(1) }
    }

    fn group(&mut self) -> Vec<RuleChange<'a>> {
        let len = if self.ruleset.is_empty() { 0 } else { GROUP };
        let flip = |_| {
            let id = self.draw.below(self.ruleset.len() as u64) as usize;
            let rule = self.ruleset.rule(RuleId(id as u32));
            self.is_out[id] = !self.is_out[id];
            if self.is_out[id] { RuleChange::Remove(rule) } else { RuleChange::Insert(rule) }
        };
        (0..len).map(flip).collect()
    }
}

impl Agreement {
    fn render(&self) -> String {
        format!(
            "{} lookups on {} of {}, {} rules, by {}: all equal to the CPU results\n  {}, {} rule \
             updates in between, {} packets checked against the reference, digest {}\n",
            human::count(self.lookups),
            self.device,
            self.ruleset,
            human::count(self.rules as u64),
            self.engines.join(", "),
            human::counted(self.rounds, "round"),
            human::count(self.changes),
            human::count(self.checked as u64),
            self.digest,
        )
    }
}
