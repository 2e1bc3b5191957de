//! `warpswitch devices`: what this machine can run, and what it lacks.

use std::collections::BTreeSet;

use clap::Args;
use serde::Serialize;
use warpswitch_gpu::{CardInfo, GpuError, survey};

use crate::exit::Outcome;
use crate::human;
use crate::output::{print, print_json};
use crate::table::title;
use crate::term::{BAD, FAINT, GOOD, paint};
use crate::threads::default_threads;

const LONG_ABOUT: &str = "\
Show the hardware and software of this machine that engines can use: instruction sets of the CPU, \
the CUDA driver, NVRTC (which compiles kernels for the installed GPU) and the GPUs; and how to \
install what is missing.

The CPU engines need none of it. The exit code is 0 whatever is missing.";

/// Show the hardware and software that engines can use, and what is missing
#[derive(Args, Debug)]
#[command(long_about = LONG_ABOUT)]
pub struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    cores: usize,
    /// Those of the CPU's instruction sets that engines use.
    cpu_features: Vec<&'static str>,
    /// Of the driver.
    cuda_version: Option<String>,
    nvrtc_version: Option<String>,
    cards: Vec<CardReport>,
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
struct CardReport {
    ordinal: usize,
    name: String,
    compute_capability: String,
    memory_bytes: usize,
    /// The most of it that engines take.
    engines_bytes_max: usize,
    l2_bytes: usize,
    shared_bytes_per_block: usize,
    multiprocessors: usize,
    pci_address: String,
    link_lanes: Option<usize>,
    /// Giga-transfers a second of each lane.
    link_gts: Option<f64>,
    /// Each way.
    link_gigabytes_per_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Missing {
    what: &'static str,
    kind: &'static str,
    message: String,
    remedy: &'static str,
}

/// Runs the command.
///
/// # Errors
/// If the standard output fails.
pub fn run(args: &DevicesArgs) -> anyhow::Result<Outcome> {
    let report = report();
    if args.json {
        print_json(&report)?;
    } else {
        print(&render(&report))?;
    }
    Ok(Outcome::Done)
}

fn report() -> Report {
    let survey = survey();
    let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let mut missing = Vec::new();
    let mut told = BTreeSet::new();
    let mut miss = |what, error: Option<&GpuError>| {
        // Without a driver there is no card either; one of the two is enough to tell.
        if let Some(error) = error.filter(|error| told.insert(error.kind().name())) {
            let (kind, remedy) = (error.kind().name(), error.kind().remedy());
            missing.push(Missing { what, kind, message: error.to_string(), remedy });
        }
    };
    miss("CUDA driver", survey.driver.as_ref().err());
    miss("cards", survey.cards.as_ref().err());
    miss("NVRTC", survey.compiler.as_ref().err());
    Report {
        cores: default_threads(),
        cpu_features: cpu_features(),
        cuda_version: survey.driver.ok().map(version),
        nvrtc_version: survey.compiler.ok().map(|compiler| version(compiler.version)),
        cards: survey.cards.unwrap_or_default().into_iter().map(card_report).collect(),
        missing,
    }
}

fn card_report(card: CardInfo) -> CardReport {
    CardReport {
        ordinal: card.ordinal,
        name: card.name,
        compute_capability: format!("{}.{}", card.capability.0, card.capability.1),
        memory_bytes: card.memory_bytes,
        engines_bytes_max: card.pool_bytes_max,
        l2_bytes: card.l2_bytes,
        shared_bytes_per_block: card.shared_bytes,
        multiprocessors: card.multiprocessors,
        pci_address: card.pci_address,
        link_lanes: card.link.as_ref().map(|link| link.width),
        link_gts: card.link.as_ref().map(|link| link.gts_tenths as f64 / 10.0),
        link_gigabytes_per_s: card.link.map(|link| human::rounded(link.gigabytes(), 1)),
    }
}

/// The instruction sets that engines have code for, as far as this CPU has them.
fn cpu_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let known = [
            ("sse4.2", std::is_x86_feature_detected!("sse4.2")),
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("bmi2", std::is_x86_feature_detected!("bmi2")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
            ("avx512bw", std::is_x86_feature_detected!("avx512bw")),
            ("avx512vl", std::is_x86_feature_detected!("avx512vl")),
        ];
        known.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// The report for people.
fn render(report: &Report) -> String {
    let features = match report.cpu_features.as_slice() {
        [] => "no vector instructions supported by engines".to_owned(),
        some => some.join(" "),
    };
    let mut text = title("Devices", "");
    let mut line = |name: &str, value: &str| {
        text += &format!("  {name:<8} {value}\n");
    };
    line("CPU", &format!("{}, {features}", human::counted(report.cores, "core")));
    let or_missing =
        |version: &Option<String>| version.clone().unwrap_or_else(|| paint(FAINT, "missing"));
    line("CUDA", &or_missing(&report.cuda_version));
    line("NVRTC", &or_missing(&report.nvrtc_version));
    for card in &report.cards {
        let link = match (card.link_lanes, card.link_gts, card.link_gigabytes_per_s) {
            (Some(lanes), Some(gts), Some(rate)) => {
                format!("PCIe x{lanes} at {gts} GT/s, {rate} GB/s each way")
            }
            _ => "link unknown".to_owned(),
        };
        let name = format!("card {}", card.ordinal);
        let facts = format!(
            "{}, {} of memory (engines: up to {}), {} multiprocessors, capability {}, {link}",
            paint(GOOD, &card.name),
            human::bytes(card.memory_bytes),
            human::bytes(card.engines_bytes_max),
            card.multiprocessors,
            card.compute_capability,
        );
        line(&name, &facts);
    }
    for missing in &report.missing {
        text += &format!("\n{} {}\n", paint(BAD, "missing:"), missing.message);
        text += &format!("  to fix: {}\n", missing.remedy);
    }
    if !report.missing.is_empty() {
        text += "\nThe CPU engines need none of this; 'host:NAME' runs a kernel's function on CPU \
                 threads.\n";
    }
    text
}
