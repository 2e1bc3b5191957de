//! Where a run's lookups are done: on its workers, or ahead on a device.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use warpswitch_gpu::auto::policy::Why;
use warpswitch_graph::language::{self, Diagnostics, FlatGraph, Loaded};
use warpswitch_graph::{Registry, Router};
use warpswitch_kit::{OffloadDevice, Planned, Sources};

use crate::devices::{DeviceArgs, DeviceChoice, POOL_BY_OFFLOAD, ResidentArg, no_card, now};
use crate::human;
use crate::kit;
use crate::table::{Align, Table, title};
use crate::term;

/// What batches of a plan are like: they leave as soon as nothing more comes.
const BATCHER: &str = "SIZE 2048, IDLE true";

/// Whether lookups are offloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OffloadChoice {
    /// Use a GPU where it is faster and the packets of each source keep their order; never without
    /// a GPU or with --simtime
    #[default]
    Auto,
    /// Never offload
    Never,
    /// Offload all lookups and searches that can be
    Always,
}

impl OffloadChoice {
    /// The sources that get a chain.
    fn sources(self) -> Sources {
        match self {
            Self::Auto => Sources::Ordered,
            Self::Never | Self::Always => Sources::All,
        }
    }
}

/// What is offloaded, and where to.
#[derive(Args, Clone, Debug, Default)]
pub struct OffloadArgs {
    /// When to offload route and rule lookups and payload searches to a device; the output is the
    /// same, but packets of different sources may interleave differently
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub offload: OffloadChoice,

    /// Device to offload to: the first GPU, or a pool of threads in its place
    #[arg(long, value_name = "DEVICE", default_value = "gpu", value_enum)]
    pub device: DeviceChoice,

    /// When small batches go to a GPU program that keeps running, which saves starting one for
    /// each; for chains of elements with one rule lookup
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub resident: ResidentArg,
}

/// The offload of a configuration.
#[derive(Debug, Default)]
pub struct Offloading {
    args: OffloadArgs,
    offload: Option<Arc<dyn OffloadDevice>>,
    planned: Planned,
}

/// What lookups are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Counted {
    Packets,
    /// Payloads, and what spans segments of a stream, which only workers see.
    Texts,
}

/// Lookups of an element.
#[derive(Debug, Serialize)]
struct Share {
    name: String,
    class: String,
    /// What is counted.
    of: Counted,
    on_device: u64,
    on_workers: u64,
    /// Of lookups ahead: why workers looked packets up, by reason.
    why_on_workers: Vec<(String, u64)>,
}

/// What ran where.
#[derive(Debug, Serialize)]
pub struct OffloadStats {
    device: String,
    /// Why it is not used any more.
    retired: Option<String>,
    lookups: Vec<Share>,
    /// Wide batches by path, and where there was a choice why they took it, by the names of
    /// reasons, of both paths.
    batches_on_device: u64,
    batches_past_it: u64,
    why: Vec<(&'static str, u64)>,
}

impl Offloading {
    /// As in the command line. In simulated time every run is the same, so nothing is chosen by
    /// what it costs.
    pub fn new(args: &OffloadArgs, in_simulated_time: bool) -> Self {
        let mut args = args.clone();
        if in_simulated_time && args.offload == OffloadChoice::Auto {
            args.offload = OffloadChoice::Never;
        }
        Self { args, ..Self::default() }
    }

    /// The device, if there is one.
    pub fn offload(&self) -> Option<Arc<dyn OffloadDevice>> {
        self.offload.clone()
    }

    /// Changes a configuration that is about to be run, and opens a device if it has work for one.
    ///
    /// # Errors
    /// If there is no device although one is required; errors of the changed configuration, which
    /// would be ours.
    pub fn apply(&mut self, loaded: &mut Loaded, registry: &Registry) -> anyhow::Result<()> {
        if self.args.offload == OffloadChoice::Never {
            return Ok(());
        }
        let uses_device = ["Batcher", "IDSMatcher"];
        let mut elements = loaded.graph.elements.iter();
        let has_work = elements.any(|element| uses_device.contains(&element.class.as_str()));
        let mut changed = loaded.graph.clone();
        let wanted = self.args.offload.sources();
        let planned = kit::plan(&mut changed, &loaded.ports, registry, BATCHER, wanted);
        if !has_work && planned.sources.is_empty() {
            if self.args.offload == OffloadChoice::Always {
                term::note("nothing in this configuration can be offloaded");
            }
            return Ok(());
        }
        if !self.open()? {
            return Ok(());
        }
        self.planned = planned;
        replace_graph(loaded, changed, registry)
    }

    /// Opens the device; returns whether there is one.
    fn open(&mut self) -> anyhow::Result<bool> {
        if self.offload.is_some() {
            return Ok(true);
        }
        let is_choice = self.args.offload == OffloadChoice::Auto;
        let args = DeviceArgs { resident: self.args.resident, ..DeviceArgs::default() };
        let device = match self.args.device.open_as(&args) {
            Ok(device) => device,
            // Without a card a run is as it would have been, and most machines have none.
            Err(_) if is_choice => return Ok(false),
            Err(missing) => return Err(no_card(missing, POOL_BY_OFFLOAD)),
        };
        let clock = is_choice.then_some(now as fn() -> Duration);
        self.offload = Some(kit::offload_to(device, clock));
        Ok(true)
    }

    /// Whether a run may do without.
    pub fn is_optional(&self) -> bool {
        self.offload.is_some() && self.args.offload == OffloadChoice::Auto
    }

    /// Nothing is offloaded after all.
    pub fn give_up(&mut self) {
        (self.offload, self.planned) = (None, Planned::default());
    }

    /// What ran where; none without a device.
    pub fn stats(&self, router: &mut Router) -> Option<OffloadStats> {
        let offload = self.offload.as_ref()?;
        let (device, registry) = (offload.device(), kit::registry());
        let elements: Vec<(String, String, bool)> = router
            .graph()
            .elements
            .iter()
            // Members of chains that look up for others are not told twice.
            .map(|element| {
                let is_ahead = kit::looks_up_for(element, &registry).is_some();
                (element.name.clone(), element.class.clone(), is_ahead)
            })
            .collect();
        let (mut lookups, mut batches_on_device, mut batches_past_it) = (Vec::new(), 0, 0);
        for (idx, (name, class, is_ahead)) in elements.into_iter().enumerate() {
            let mut read = |handler: &str| {
                let number = router.read(&format!("{}.{handler}", idx + 1)).ok()?;
                number.trim().parse::<u64>().ok()
            };
            if let (Some(batches), Some(bypassed)) = (read("batches"), read("bypassed")) {
                batches_on_device += batches.saturating_sub(bypassed);
                batches_past_it += bypassed;
            }
            let share = match (read("on_device"), read("on_cores"), read("ahead")) {
                (Some(on_device), Some(on_workers), _) => {
                    let of = if searches(&class) { Counted::Texts } else { Counted::Packets };
                    Some((of, on_device, on_workers))
                }
                (_, _, Some(ahead)) if self.planned.lookups.contains(&name) => {
                    let all = router.stats(idx).packets;
                    Some((Counted::Packets, ahead, all.saturating_sub(ahead)))
                }
                _ if self.planned.left_out.contains(&name) => {
                    Some((Counted::Packets, 0, router.stats(idx).packets))
                }
                _ => None,
            };
            let missed = router.read(&format!("{}.ahead_missed", idx + 1)).unwrap_or_default();
            if let (Some((of, on_device, on_workers)), false) = (share, is_ahead) {
                let mut why_on_workers = reasons(&missed);
                if self.planned.left_out.contains(&name) && on_workers > 0 {
                    why_on_workers.push(("no room in packets".to_owned(), on_workers));
                }
                lookups.push(Share { name, class, of, on_device, on_workers, why_on_workers });
            }
        }
        let rows = offload.policy().rows();
        let why = Why::ALL.iter().enumerate().map(|(at, why)| {
            let batches = rows.iter().map(|row| row.why[at]).sum();
            (why.name(), batches)
        });
        Some(OffloadStats {
            device: device.name().to_owned(),
            retired: device.retired().map(ToString::to_string),
            lookups,
            batches_on_device,
            batches_past_it,
            why: why.filter(|(_, batches)| *batches > 0).collect(),
        })
    }

    /// Reports what was not planned, as it could have been expected.
    pub fn tell(&self) {
        tell_left_out(&self.planned, self.args.offload);
    }
}

fn tell_left_out(planned: &Planned, choice: OffloadChoice) {
    if !planned.left_out.is_empty() && choice == OffloadChoice::Always {
        let names = planned.left_out.join(", ");
        term::note(format!("no room for lookups ahead of: {names}; the workers do them"));
    }
    if !planned.left_alone.is_empty() && choice == OffloadChoice::Always {
        let names = planned.left_alone.join(", ");
        term::note(format!(
            "no chains are added, as the configuration has a Batcher of its own: the workers do \
             the lookups of: {names}; a chain with FOR would do them ahead"
        ));
    }
}

/// Puts chains into a configuration that is to be drawn; reports if there are none, and what is not
/// done ahead although it could be expected.
///
/// # Errors
/// Those of the changed configuration, which would be ours.
pub fn draw_in(
    loaded: &mut Loaded,
    registry: &Registry,
    choice: OffloadChoice,
) -> anyhow::Result<()> {
    if choice == OffloadChoice::Never {
        return Ok(());
    }
    let mut changed = loaded.graph.clone();
    let planned = kit::plan(&mut changed, &loaded.ports, registry, BATCHER, choice.sources());
    tell_left_out(&planned, choice);
    if planned.sources.is_empty() {
        term::note("no source gets a chain: drawn as it is written");
    }
    replace_graph(loaded, changed, registry)
}

/// Whether elements of a class look for patterns in texts.
fn searches(class: &str) -> bool {
    class.ends_with("IDSMatcher")
}

/// The reasons that count something, of lines `NUMBER<tab>REASON`.
fn reasons(lines: &str) -> Vec<(String, u64)> {
    let reason = |line: &str| {
        let (packets, reason) = line.split_once('\t')?;
        Some((reason.to_owned(), packets.parse::<u64>().ok()?))
    };
    lines.lines().filter_map(reason).filter(|(_, packets)| *packets > 0).collect()
}

fn replace_graph(loaded: &mut Loaded, graph: FlatGraph, registry: &Registry) -> anyhow::Result<()> {
    let ports = language::resolve(&graph, registry);
    loaded.ports = ports.map_err(|errors: Diagnostics| anyhow::Error::new(errors))?;
    loaded.graph = graph;
    Ok(())
}

/// The table of what ran where.
pub fn render(stats: &OffloadStats) -> String {
    let headings = [
        ("lookups", Align::Left),
        ("class", Align::Left),
        ("of", Align::Left),
        ("on the device", Align::Right),
        ("on workers", Align::Right),
        ("packets whose answers were not used", Align::Left),
    ];
    let has_why = stats.lookups.iter().any(|share| !share.why_on_workers.is_empty());
    let mut table = Table::new(if has_why { &headings } else { &headings[..5] });
    let mut has_seams = false;
    for share in &stats.lookups {
        let number = |value: u64| if value == 0 { "-".into() } else { human::count(value) };
        let (name, class) = (share.name.clone(), share.class.clone());
        let of = match share.of {
            Counted::Packets => "packets".to_owned(),
            Counted::Texts => "texts".to_owned(),
        };
        has_seams |= share.of == Counted::Texts && share.on_device.min(share.on_workers) > 0;
        let (on_device, on_workers) = (number(share.on_device), number(share.on_workers));
        let why = share.why_on_workers.iter();
        let why: Vec<String> =
            why.map(|(reason, packets)| format!("{} {reason}", human::count(*packets))).collect();
        match has_why {
            true => table.row([name, class, of, on_device, on_workers, why.join(", ")]),
            false => table.row([name, class, of, on_device, on_workers]),
        };
    }
    let mut text = format!("{}{}", title("Offload", &stats.device), table.render());
    if has_seams {
        text += "  texts are payloads and, by workers alone, what spans segments of a stream\n";
    }
    if stats.batches_on_device + stats.batches_past_it > 0 {
        let why: Vec<String> = stats
            .why
            .iter()
            .map(|(why, batches)| format!("{} {}", human::count(*batches), why.replace('_', " ")))
            .collect();
        let choices = if why.is_empty() { "" } else { "; choices: " };
        text += &format!(
            "  wide batches: {} to the device, {} past it{choices}{}\n",
            human::count(stats.batches_on_device),
            human::count(stats.batches_past_it),
            why.join(", ")
        );
    }
    if let Some(cause) = &stats.retired {
        text += &format!("  device retired: {cause}\n");
    }
    text
}
