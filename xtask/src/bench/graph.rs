//! Configurations: `cargo xtask bench graph [--data DIR]`.
//!
//! Runs `warpswitch bench graph`, which makes frames, checks what leaves and measures, as often as
//! `--rounds` says, and keeps the quietest round of each. Published figures of others stand beside
//! the table; they were not measured in the same run and are not recorded.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::report::{Figures, Measured};
use super::{record, run};

/// What the command line asks for, beside the name.
#[derive(Debug)]
pub struct Options {
    /// A folder with ClassBench files and a table of prefixes.
    pub data: Option<PathBuf>,
    /// How often it runs.
    pub rounds: usize,
    /// Whether figures are kept.
    pub record: bool,
    /// Whether it is enough to see that it runs.
    pub smoke: bool,
}

/// What `warpswitch bench graph --json` prints.
#[derive(Debug, Deserialize)]
struct Report {
    frames: usize,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    traffic: String,
    source: String,
    entries: usize,
    rates: Vec<Rate>,
    #[serde(default)]
    bare_mpps: Option<f64>,
    #[serde(default)]
    parsed_mpps: Option<f64>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Rate {
    batch: usize,
    mpps: f64,
    ns: f64,
}

/// Runs the benchmark.
pub fn measure(options: &Options) -> Result<()> {
    let tools = run::Tools::build(None)?;
    let mut measured: Vec<Measured> = Vec::new();
    for _ in 0..options.rounds {
        let report = tools.graph(options.data.as_deref(), options.smoke)?;
        let report: Report = serde_json::from_str(&report)
            .context("warpswitch bench graph: not the JSON agreed on")?;
        for case in &report.cases {
            if let Some(error) = &case.error {
                bail!("{}, {}, {}: {error}", case.name, case.traffic, case.source);
            }
            add(&mut measured, case, report.frames);
        }
    }
    println!("\n== graph: packets per second of one core");
    measured.iter().for_each(|one| print!("{}", one.table()));
    if options.record {
        record::write(&measured)?;
    }
    Ok(())
}

/// Adds a round of a case: each length of batches is a line.
fn add(measured: &mut Vec<Measured>, case: &Case, frames: usize) {
    let name = match case.traffic.as_str() {
        "-" => format!("graph-{}", case.name),
        traffic => format!("graph-{}-{traffic}", case.name),
    };
    // Frames from memory have the names of records from before there was another source.
    let name = if case.source == "memory" { name } else { format!("{name}-{}", case.source) };
    let figure = |name: String, mpps: f64, ns: f64, is_peer: bool| Figures {
        name,
        mpps: Some(mpps),
        build_ms: None,
        bytes: None,
        p50_ns: Some(ns),
        p99_ns: None,
        digest: None,
        error: None,
        is_peer,
    };
    let rates = case.rates.iter();
    let rates =
        rates.map(|rate| figure(format!("batch {}", rate.batch), rate.mpps, rate.ns, false));
    // The engine without the graph, in the same process.
    let alone = [("turbo alone", case.bare_mpps), ("turbo with keys", case.parsed_mpps)];
    let alone = alone.into_iter().filter_map(|(name, mpps)| Some((name, mpps?)));
    let alone = alone.map(|(name, mpps)| figure(name.to_owned(), mpps, 1e3 / mpps, true));
    let figures: Vec<Figures> = rates.chain(alone).collect();
    match measured.iter_mut().find(|one| one.case == name) {
        Some(one) => one.merge(figures),
        None => measured.push(Measured {
            case: name,
            rules: case.entries,
            keys: frames,
            threads: 1,
            figures,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quietest_round_of_each_batch_is_kept() {
        let text = r#"{"frames":9,"frame_bytes":60,"runs":1,"run_ms":1,"cases":[
            {"name":"sdn","traffic":"uniform","source":"memory","entries":7,
             "shares":[],"stated":[],"rates":[
                {"batch":1,"mpps":2.0,"mpps_min":2.0,"mpps_max":2.0,"ns":500.0,"had_core":1.0},
                {"batch":64,"mpps":9.0,"mpps_min":9.0,"mpps_max":9.0,"ns":111.0,"had_core":1.0}
            ]}]}"#;
        let mut report: Report = serde_json::from_str(text).unwrap();
        let mut measured = Vec::new();
        add(&mut measured, &report.cases[0], report.frames);
        report.cases[0].rates[0].mpps = 3.0;
        report.cases[0].rates[1].mpps = 8.0;
        add(&mut measured, &report.cases[0], report.frames);
        assert_eq!((measured.len(), measured[0].case.as_str()), (1, "graph-sdn-uniform"));
        let rates: Vec<_> = measured[0].figures.iter().map(|figures| figures.mpps).collect();
        assert_eq!(rates, [Some(3.0), Some(9.0)]);
    }
}
