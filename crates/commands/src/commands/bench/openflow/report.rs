//! The report of `bench openflow`: table, JSON, CSV.

use std::fmt::Write as _;

use serde::Serialize;
use warpswitch_switch::CacheKind;

use super::measure::summary;
use crate::human::{count, percent, significant};
use crate::table::{Align, Table, title};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    #[serde(rename = "Mpps")]
    Mpps,
    #[serde(rename = "k/s")]
    ThousandPerSecond,
    #[serde(rename = "ms")]
    Milliseconds,
    #[serde(rename = "of the rate")]
    Share,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Mpps => "Mpps",
            Unit::ThousandPerSecond => "k/s",
            Unit::Milliseconds => "ms",
            Unit::Share => "of the rate",
        }
    }
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub part: &'static str,
    pub case: &'static str,
    pub cache: &'static str,
    #[serde(skip)]
    pub kind: CacheKind,
    /// Flows in the tables.
    pub rules: usize,
    /// Flows of traffic.
    pub flows: usize,
    pub unit: Unit,
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// What is to be reached: at most, for times.
    pub wanted: Option<f64>,
    pub micro_hits: Option<f64>,
    pub mega_hits: Option<f64>,
    /// Of the frames, ports and counters, which equal those of the interpreter.
    pub digest: String,
}

impl Row {
    pub fn new(
        part: &'static str,
        case: &'static str,
        kind: CacheKind,
        rules: usize,
        flows: usize,
    ) -> Self {
        Self {
            part,
            case,
            cache: kind.name(),
            kind,
            rules,
            flows,
            unit: Unit::Mpps,
            median: 0.0,
            min: 0.0,
            max: 0.0,
            wanted: None,
            micro_hits: None,
            mega_hits: None,
            digest: String::new(),
        }
    }

    /// The same with a figure; `values` are in ascending order.
    pub fn with(mut self, unit: Unit, values: &[f64], wanted: Option<f64>) -> Self {
        (self.median, self.min, self.max) = summary(values);
        (self.unit, self.wanted) = (unit, wanted);
        self
    }
}

/// All figures.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Switches of the rates, each on a core of its own.
    pub threads: usize,
    pub runs: usize,
    pub run_ms: usize,
    pub rows: Vec<Row>,
}

impl Report {
    /// For people.
    pub fn render(&self) -> String {
        let (left, right) = (Align::Left, Align::Right);
        let mut table = Table::new(&[
            ("part", left),
            ("case", left),
            ("cache", left),
            ("rules", right),
            ("flows", right),
            ("median", right),
            ("range", right),
            ("wanted", right),
            ("unit", left),
            ("micro", right),
            ("mega", right),
        ])
        .with_keys(3);
        let share = |share: Option<f64>| {
            share.map_or(String::new(), |share| percent((share * 1e6) as u64, 1_000_000))
        };
        for row in &self.rows {
            table.row([
                row.part.to_owned(),
                row.case.to_owned(),
                row.cache.to_owned(),
                count(row.rules as u64),
                count(row.flows as u64),
                significant(row.median),
                format!("{}-{}", significant(row.min), significant(row.max)),
                row.wanted.map_or(String::new(), significant),
                row.unit.name().to_owned(),
                share(row.micro_hits),
                share(row.mega_hits),
            ]);
        }
        let cores = match self.threads {
            1 => "one core".to_owned(),
            threads => format!("{threads} switches on as many cores"),
        };
        let head =
            title("OpenFlow switch", &format!("{cores}, frames of 60 bytes between memory ports"));
        let foot = format!(
            "Median and range of {} runs of {} ms; frames, ports and counters equal those of the \
             interpreter\n",
            self.runs, self.run_ms
        );
        head + &table.render() + &foot
    }

    /// One line per figure.
    pub fn to_csv(&self) -> String {
        let mut csv = "part,case,cache,rules,flows,threads,unit,median,min,max,wanted,micro_hits,\
                       mega_hits,digest\n"
            .to_owned();
        let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for row in &self.rows {
            _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                row.part,
                row.case,
                row.cache,
                row.rules,
                row.flows,
                self.threads,
                row.unit.name(),
                row.median,
                row.min,
                row.max,
                text(row.wanted),
                text(row.micro_hits),
                text(row.mega_hits),
                row.digest
            );
        }
        csv
    }
}
