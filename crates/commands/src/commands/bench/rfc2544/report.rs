//! The report of `bench rfc2544`: table, JSON, CSV.

use std::fmt::Write as _;

use serde::Serialize;

use super::search::Limit;
use crate::human::{bit_rate, rate, significant};
use crate::table::{Align, Table, title};
use crate::traffic::Latency;

/// All sizes.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The device under test, for people.
    pub device: String,
    pub trial_s: f64,
    /// Full trials that a rate had to pass.
    pub repeat: usize,
    /// Trials of latency at each load.
    pub latency_trials: usize,
    pub loss_ratio_max: f64,
    pub sizes: Vec<SizeReport>,
}

/// Results for one frame size; tests that were not selected are missing.
#[derive(Debug, Serialize)]
pub struct SizeReport {
    pub size: String,
    /// The highest offered rate.
    pub pps_max: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<LatencyReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loss: Vec<LossReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_to_back: Option<BurstReport>,
}

/// RFC 2544, 26.1.
#[derive(Debug, Serialize)]
pub struct ThroughputReport {
    pub pps: f64,
    /// Bits per second on the wire.
    pub wire_bps: f64,
    pub limited_by: Limit,
    pub trials: usize,
}

/// RFC 2544, 26.2, at a part of the throughput.
#[derive(Debug, Serialize)]
pub struct LatencyReport {
    pub load_percent: u32,
    pub pps: f64,
    pub loss_ratio: f64,
    #[serde(flatten)]
    pub latency: Latency,
}

/// RFC 2544, 26.3, at a part of the highest rate.
#[derive(Debug, Serialize)]
pub struct LossReport {
    pub load_percent: u32,
    pub offered_pps: f64,
    pub sent_pps: f64,
    pub loss_ratio: f64,
}

/// RFC 2544, 26.4 and RFC 9004.
#[derive(Debug, Serialize)]
pub struct BurstReport {
    pub bursts: usize,
    pub frames_mean: f64,
    pub frames_min: u64,
    pub frames_max: u64,
    /// Whether the longest burst passed, so the buffer is larger.
    pub is_at_least: bool,
    /// Time that the buffer holds at the highest rate, corrected by frames that leave meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_us: Option<f64>,
}

impl Report {
    /// For people.
    pub fn render(&self) -> String {
        let sequence = match self.repeat {
            1 => String::new(),
            count => format!(" ({count} for a throughput)"),
        };
        let aside = format!(
            "{}, trials of {} s{sequence}, loss ratio up to {}",
            self.device, self.trial_s, self.loss_ratio_max
        );
        let mut text = format!("{}{}", title("RFC 2544", &aside), self.throughput_table());
        let trials = match self.latency_trials {
            1 => "in us; one trial".to_owned(),
            count => format!("in us; medians of {count} trials, min and max of all"),
        };
        for (name, aside, table) in [
            ("Latency", &*trials, self.latency_table()),
            ("Frame loss rate", "by part of the highest rate", self.loss_table()),
            ("Back-to-back frames", "longest burst without loss", self.burst_table()),
        ] {
            if let Some(table) = table {
                text += &format!("\n{}{}", title(name, aside), table.render());
            }
        }
        text
    }

    fn throughput_table(&self) -> String {
        let right = Align::Right;
        let mut table = Table::new(&[
            ("size", right),
            ("highest rate", right),
            ("throughput", right),
            ("on the wire", right),
            ("trials", right),
            ("limited by", Align::Left),
        ]);
        for size in &self.sizes {
            let mut cells = [size.size.clone(), rate(size.pps_max)].to_vec();
            cells.extend(match &size.throughput {
                Some(found) => [
                    rate(found.pps),
                    bit_rate(found.wire_bps),
                    found.trials.to_string(),
                    limit_text(found.limited_by).to_owned(),
                ],
                None => ["-", "-", "-", ""].map(str::to_owned),
            });
            let cells: [String; 6] = cells.try_into().expect("two and four cells");
            table.row(cells);
        }
        table.render()
    }

    fn latency_table(&self) -> Option<Table> {
        let right = Align::Right;
        let names = ["size", "load", "rate", "min", "p50", "p99", "max", "loss"];
        let mut table = Table::new(&names.map(|name| (name, right))).with_keys(2);
        let mut rows = 0;
        for size in &self.sizes {
            for found in &size.latency {
                let Latency { min_us, p50_us, p99_us, max_us, .. } = found.latency;
                let [min, p50, p99, max] = [min_us, p50_us, p99_us, max_us].map(significant);
                let load = format!("{} %", found.load_percent);
                let loss = percent(found.loss_ratio);
                table.row([size.size.clone(), load, rate(found.pps), min, p50, p99, max, loss]);
                rows += 1;
            }
        }
        (rows > 0).then_some(table)
    }

    fn loss_table(&self) -> Option<Table> {
        let names = ["size", "load", "offered", "sent", "lost"];
        let mut table = Table::new(&names.map(|name| (name, Align::Right))).with_keys(2);
        let mut rows = 0;
        for size in &self.sizes {
            for point in &size.loss {
                table.row([
                    size.size.clone(),
                    format!("{} %", point.load_percent),
                    rate(point.offered_pps),
                    rate(point.sent_pps),
                    percent(point.loss_ratio),
                ]);
                rows += 1;
            }
        }
        (rows > 0).then_some(table)
    }

    fn burst_table(&self) -> Option<Table> {
        let names = ["size", "bursts", "mean", "shortest", "longest", "buffer in us"];
        let mut table = Table::new(&names.map(|name| (name, Align::Right)));
        let mut rows = 0;
        for size in &self.sizes {
            let Some(found) = &size.back_to_back else { continue };
            let at_least = if found.is_at_least { ">= " } else { "" };
            table.row([
                size.size.clone(),
                found.bursts.to_string(),
                format!("{at_least}{:.0}", found.frames_mean),
                found.frames_min.to_string(),
                found.frames_max.to_string(),
                found.buffer_us.map_or("-".to_owned(), significant),
            ]);
            rows += 1;
        }
        (rows > 0).then_some(table)
    }

    /// One row per number.
    pub fn to_csv(&self) -> String {
        let mut csv = "device,size,test,load_percent,measure,value\n".to_owned();
        let device = warpswitch_provenance::csv_text(&self.device);
        for size in &self.sizes {
            let mut row = |test: &str, load: u32, measure: &str, value: f64| {
                _ = writeln!(csv, "{device},{},{test},{load},{measure},{value}", size.size);
            };
            row("throughput", 100, "pps_max", size.pps_max);
            if let Some(found) = &size.throughput {
                row("throughput", 100, "pps", found.pps);
                row("throughput", 100, "wire_bps", found.wire_bps);
            }
            for found in &size.latency {
                let Latency { min_us, mean_us, p50_us, p99_us, max_us } = found.latency;
                let names = ["min_us", "mean_us", "p50_us", "p99_us", "max_us"];
                for (name, us) in names.iter().zip([min_us, mean_us, p50_us, p99_us, max_us]) {
                    row("latency", found.load_percent, name, us);
                }
            }
            for point in &size.loss {
                row("loss", point.load_percent, "sent_pps", point.sent_pps);
                row("loss", point.load_percent, "loss_ratio", point.loss_ratio);
            }
            if let Some(found) = &size.back_to_back {
                row("back_to_back", 100, "frames_mean", found.frames_mean);
                row("back_to_back", 100, "frames_min", found.frames_min as f64);
                row("back_to_back", 100, "frames_max", found.frames_max as f64);
            }
        }
        csv
    }
}

fn percent(ratio: f64) -> String {
    format!("{} %", significant(ratio * 100.0))
}

fn limit_text(limit: Limit) -> &'static str {
    match limit {
        Limit::Device => "device",
        Limit::Tester => "sender, sink or --rate-max",
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A report with all tests for two sizes.
    pub fn example() -> Report {
        let latency = Latency { min_us: 1.0, mean_us: 2.0, p50_us: 2.0, p99_us: 9.0, max_us: 20.0 };
        let size = |size: &str, pps: f64| SizeReport {
            size: size.into(),
            pps_max: 1e6,
            throughput: Some(ThroughputReport {
                pps,
                wire_bps: pps * 672.0,
                limited_by: Limit::Device,
                trials: 20,
            }),
            latency: [100, 50]
                .map(|load_percent| LatencyReport { load_percent, pps, loss_ratio: 0.0, latency })
                .into(),
            loss: [(100, 0.5), (90, 0.25), (80, 0.0)]
                .map(|(load_percent, loss_ratio)| LossReport {
                    load_percent,
                    offered_pps: 1e4 * f64::from(load_percent),
                    sent_pps: 1e4 * f64::from(load_percent),
                    loss_ratio,
                })
                .into(),
            back_to_back: Some(BurstReport {
                bursts: 3,
                frames_mean: 1_000.0,
                frames_min: 900,
                frames_max: 1_100,
                is_at_least: false,
                buffer_us: Some(500.0),
            }),
        };
        Report {
            device: "eth0 to eth1".into(),
            trial_s: 10.0,
            repeat: 1,
            latency_trials: 5,
            loss_ratio_max: 0.0,
            sizes: vec![size("64", 500_000.0), size("IMIX", 400_000.0)],
        }
    }

    #[test]
    fn every_test_has_a_table_and_csv_rows() {
        let report = example();
        let text = anstream::adapter::strip_str(&report.render()).to_string();
        for part in ["500 Kpps", "336 Mbit/s", "Latency", "25.0 %", "Back-to-back", "1100"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let csv = report.to_csv();
        assert!(csv.lines().all(|line| line.split(',').count() == 6), "{csv}");
        assert_eq!(csv.lines().filter(|line| line.contains(",loss,")).count(), 12);
    }
}
