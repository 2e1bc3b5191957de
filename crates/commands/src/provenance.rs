//! Reports of benchmarks, printed with their provenance.

use anyhow::Context as _;
use serde::Serialize;
use warpswitch_gpu::Device;
use warpswitch_provenance::Provenance;

use crate::output;

/// Provenance of a measurement on `device`; a thread pool in its place is the CPU.
pub fn of_device(device: &Device) -> Provenance {
    if device.is_card() { Provenance::of_card(device.name()) } else { Provenance::of_cpu() }
}

/// Prints a report as JSON.
///
/// # Errors
/// If the output cannot be written.
pub fn print_json(from: &Provenance, report: &impl Serialize) -> anyhow::Result<()> {
    let mut report = serde_json::to_value(report).context("JSON")?;
    from.stamp_json(&mut report);
    output::print_json(&report)
}

/// Prints CSV.
///
/// # Errors
/// If the output cannot be written.
pub fn print_csv(from: &Provenance, csv: &str) -> anyhow::Result<()> {
    output::print(&from.stamp_csv(csv))
}
