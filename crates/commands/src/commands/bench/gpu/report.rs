//! What was measured, for people and for programs.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use warpswitch_provenance::csv_text;

use super::{mpps, rate_text};
use crate::digest::Digest;
use crate::human::{self, rounded};
use crate::table::{Align, Table, title};
use crate::term::{BAD, FAINT, paint};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    pub device: String,
    pub ruleset: String,
    pub rules: usize,
    pub packets: usize,
    pub schema: &'static str,
    pub slots: usize,
    pub threads: usize,
    pub runs: usize,
    pub run_ms: usize,
    /// Source of the right answers, as `--check` names it.
    pub check: &'static str,
    /// Packets whose answers were checked.
    pub checked: usize,
    /// Those of them that the plain reference answered, rule by rule.
    pub checked_by_linear: usize,
    pub engines: Vec<EngineReport>,
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The CPU, so many threads.
    Cores(usize),
    /// The kernel alone.
    Kernel,
    /// End to end by copies.
    Copies,
    /// End to end, the kernel reading and writing the host's memory.
    Direct,
    /// End to end through a pool of threads.
    Threads,
}

impl Mode {
    /// The name that programs see.
    fn name(self) -> &'static str {
        match self {
            Mode::Cores(_) => "cpu",
            Mode::Kernel => "kernel",
            Mode::Copies => "end_to_end_copies",
            Mode::Direct => "end_to_end_direct",
            Mode::Threads => "end_to_end_threads",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Cores(threads) => write!(f, "{}", human::counted(*threads, "thread")),
            Mode::Kernel => f.write_str("kernel"),
            Mode::Copies => f.write_str("end to end, copies"),
            Mode::Direct => f.write_str("end to end, direct"),
            Mode::Threads => f.write_str("end to end, threads"),
        }
    }
}

/// One figure.
#[derive(Debug, Serialize)]
pub struct RunReport {
    #[serde(skip)]
    pub mode: Mode,
    pub what: &'static str,
    pub batch: usize,
    /// Median, million lookups per second.
    pub mpps: f64,
    pub mpps_min: f64,
    pub mpps_max: f64,
}

impl RunReport {
    /// From rates per second, ascending.
    pub fn new(mode: Mode, batch: usize, rates: &[f64]) -> Self {
        let at = |rate: Option<&f64>| rounded(rate.copied().unwrap_or(0.0) / 1e6, 3);
        let (mpps_min, mpps_max) = (at(rates.first()), at(rates.last()));
        Self { mode, what: mode.name(), batch, mpps: mpps(rates), mpps_min, mpps_max }
    }
}

/// What was measured of one engine; no figures if it is wrong or cannot be built.
#[derive(Debug, Serialize)]
pub struct EngineReport {
    pub name: String,
    /// Which batches took the rule-parallel kernel; empty for engines of the CPU.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub split: String,
    pub runs: Vec<RunReport>,
    build_ms: Option<f64>,
    bytes: Option<usize>,
    bytes_per_rule: Option<f64>,
    /// Registers a thread of the kernel takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<usize>,
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<(&'static str, f64)>,
}

impl EngineReport {
    /// Of an engine that nothing is known of yet.
    pub fn new(name: String) -> Self {
        Self {
            name,
            split: String::new(),
            runs: Vec::new(),
            build_ms: None,
            bytes: None,
            bytes_per_rule: None,
            registers: None,
            digest: None,
            error: None,
            details: Vec::new(),
        }
    }

    /// The same, failed.
    pub fn failed(mut self, error: String) -> Self {
        self.error = Some(error);
        self
    }

    /// Its name, and how its rules are divided if requested.
    fn label(&self) -> String {
        let is_asked = !["", "auto"].contains(&self.split.as_str());
        if is_asked { format!("{} {}", self.name, self.split) } else { self.name.clone() }
    }

    /// Notes what the build gave.
    pub fn set_built(&mut self, digest: Digest, time: Duration, bytes: usize, rules: usize) {
        self.digest = Some(digest.to_string());
        self.build_ms = Some(rounded(time.as_secs_f64() * 1e3, 4));
        self.bytes = Some(bytes);
        self.bytes_per_rule = Some(rounded(bytes as f64 / rules.max(1) as f64, 4));
    }
}

impl Report {
    /// A line for each figure; the first names the columns.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "ruleset,rules,schema,engine,what,batch,slots,threads,mpps,mpps_min,mpps_max,build_ms,\
             bytes,registers,checked,digest,check,checked_by_linear,split\n",
        );
        for engine in &self.engines {
            for run in &engine.runs {
                let number = |value: Option<usize>| value.map_or(String::new(), |n| n.to_string());
                text += &format!(
                    "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                    csv_text(&self.ruleset),
                    self.rules,
                    self.schema,
                    engine.name,
                    run.what,
                    run.batch,
                    self.slots,
                    self.threads,
                    run.mpps,
                    run.mpps_min,
                    run.mpps_max,
                    engine.build_ms.unwrap_or_default(),
                    number(engine.bytes),
                    number(engine.registers),
                    self.checked,
                    engine.digest.as_deref().unwrap_or(""),
                    self.check,
                    self.checked_by_linear,
                    engine.split,
                );
            }
            if let Some(error) = &engine.error {
                let line = error.lines().next().unwrap_or("");
                text += &format!("# {} {}: {line}\n", self.ruleset, engine.label());
            }
        }
        text
    }

    /// The report for people.
    pub fn render(&self) -> String {
        let head = format!(
            "{}, {}",
            human::counted(self.rules, "rule"),
            human::counted(self.packets, "packet")
        );
        let aside = format!("{}, {}, {} slots", self.device, self.schema, self.slots);
        let mut text = title(&head, &aside);
        let mut table = Table::new(&[
            ("engine", Align::Left),
            ("figure", Align::Left),
            ("batch", Align::Right),
            ("rate", Align::Right),
            ("build ms", Align::Right),
            ("memory", Align::Right),
        ]);
        for engine in &self.engines {
            if let Some(error) = &engine.error {
                table.styled_row(BAD, [engine.label(), error.clone()]);
                continue;
            }
            for run in &engine.runs {
                table.row([
                    engine.label(),
                    run.mode.to_string(),
                    human::count(run.batch as u64),
                    rate_text(run.mpps),
                    human::significant(engine.build_ms.unwrap_or_default()),
                    human::bytes(engine.bytes.unwrap_or_default()),
                ]);
            }
        }
        text += &table.render();
        let mut footer = format!(
            "Median of {} of {} ms; {} of {} checked by {}, {} of them rule by rule",
            human::counted(self.runs, "run"),
            self.run_ms,
            human::count(self.checked as u64),
            human::counted(self.packets, "answer"),
            self.check,
            human::count(self.checked_by_linear as u64),
        );
        if let Some(digest) = self.engines.iter().find_map(|engine| engine.digest.as_ref()) {
            footer += &format!("; digest {digest}");
        }
        text + &format!("{}\n", paint(FAINT, footer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_line_for_each_figure() {
        let mut engine = EngineReport::new("gpu:turbo".into());
        engine.split = "32x1/1024".into();
        engine.runs.push(RunReport::new(Mode::Kernel, 8192, &[1e9, 2e9, 4e9]));
        engine.runs.push(RunReport::new(Mode::Copies, 8192, &[1e9]));
        let wrong = EngineReport::new("gpu:bloom".into()).failed("wrong\nmore".into());
        let report = Report {
            device: "card".into(),
            ruleset: "a,b.rules".into(),
            rules: 3,
            packets: 10,
            schema: "ipv4_5tuple",
            slots: 8,
            threads: 1,
            runs: 3,
            run_ms: 1,
            check: "reference",
            checked: 10,
            checked_by_linear: 4,
            engines: vec![engine, wrong],
        };
        let csv = report.to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(
            lines[1].starts_with(
                "\"a,b.rules\",3,ipv4_5tuple,gpu:turbo,kernel,8192,8,1,2000,1000,4000,"
            )
        );
        assert!(lines[1].ends_with(",reference,4,32x1/1024"), "{}", lines[1]);
        assert!(report.render().contains("10 of 10 answers checked by reference, 4 of them"));
        assert_eq!(lines[3], "# a,b.rules gpu:bloom: wrong");
        assert!(report.render().contains("end to end, copies"));
    }
}
