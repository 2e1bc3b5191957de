//! The report of `bench reconf`: table, JSON, CSV.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use crate::human::{count, rate, rounded, significant};
use crate::table::{Align, Table, title};
use crate::traffic::{Latency, TrialResult};

/// All phases.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The file of the configuration.
    pub config: String,
    /// Frame size.
    pub size: String,
    pub phases: Vec<PhaseReport>,
}

/// Frames sent during writes of one kind.
#[derive(Debug, Serialize)]
pub struct PhaseReport {
    pub name: &'static str,
    pub writes: usize,
    /// Time until a write was confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<WriteTimes>,
    pub sent_pps: f64,
    pub sent: u64,
    pub lost: u64,
    pub duplicates: u64,
    pub reordered: u64,
    /// Time for which traffic was blocked: lost frames at the rate, in milliseconds.
    pub blocked_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Frames that the kernel dropped because this process was late. They count as lost.
    pub sink_drops: u64,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WriteTimes {
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

impl WriteTimes {
    /// Of these times, which it sorts; none if there are none.
    fn new(times: &mut [Duration]) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let at = |part: f64| {
            rounded(times[(last as f64 * part).round() as usize].as_secs_f64() * 1e6, 1)
        };
        Some(Self { p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0) })
    }
}

impl PhaseReport {
    /// Of a trial, and the times of its writes.
    pub fn new(name: &'static str, result: &TrialResult, times: &mut [Duration]) -> Self {
        let pps = result.sent_pps();
        let blocked_ms = if pps > 0.0 { result.lost as f64 / pps * 1e3 } else { 0.0 };
        Self {
            name,
            writes: times.len(),
            write: WriteTimes::new(times),
            sent_pps: rounded(pps, 1),
            sent: result.sent.frames,
            lost: result.lost,
            duplicates: result.flows.duplicates,
            reordered: result.flows.reordered,
            blocked_ms: rounded(blocked_ms, 3),
            latency: result.latency,
            sink_drops: result.sink_drops,
        }
    }

    fn is_clean(&self) -> bool {
        self.lost + self.duplicates + self.reordered == 0 && self.sent > 0
    }
}

impl Report {
    /// Whether all frames of all phases arrived once and in order.
    pub fn is_clean(&self) -> bool {
        self.phases.iter().all(PhaseReport::is_clean)
    }

    /// For people.
    pub fn render(&self) -> String {
        let right = Align::Right;
        let mut table = Table::new(&[
            ("phase", Align::Left),
            ("rate", right),
            ("sent", right),
            ("lost", right),
            ("reordered", right),
            ("blocked ms", right),
            ("latency p50", right),
            ("p99", right),
            ("max us", right),
        ]);
        for phase in &self.phases {
            let latency = phase.latency.map(|found| [found.p50_us, found.p99_us, found.max_us]);
            let [p50, p99, max] = cells(latency);
            table.row([
                phase.name.to_owned(),
                rate(phase.sent_pps),
                count(phase.sent),
                count(phase.lost),
                count(phase.reordered),
                significant(phase.blocked_ms),
                p50,
                p99,
                max,
            ]);
        }
        let aside = format!("{}, {} bytes", self.config, self.size);
        let mut text = format!("{}{}", title("Traffic during changes", &aside), table.render());
        let mut table = Table::new(&[
            ("phase", Align::Left),
            ("writes", right),
            ("p50", right),
            ("p99", right),
            ("max", right),
        ]);
        for phase in self.phases.iter().filter(|phase| phase.writes > 0) {
            let times = phase.write.map(|found| [found.p50_us, found.p99_us, found.max_us]);
            let [p50, p99, max] = cells(times);
            table.row([phase.name.to_owned(), count(phase.writes as u64), p50, p99, max]);
        }
        text += &format!("\n{}{}", title("Time of a change", "in us"), table.render());
        if let Some(drops) = self.phases.iter().map(|phase| phase.sink_drops).max()
            && drops > 0
        {
            text += "\nThe kernel dropped frames behind the device, as this process was too slow; \
                     they count as lost.\n";
        }
        text
    }

    /// One line per figure.
    pub fn to_csv(&self) -> String {
        let mut csv = "config,size,phase,measure,value\n".to_owned();
        let config = warpswitch_provenance::csv_text(&self.config);
        for phase in &self.phases {
            let mut row = |measure: &str, value: f64| {
                _ = writeln!(csv, "{config},{},{},{measure},{value}", self.size, phase.name);
            };
            row("sent_pps", phase.sent_pps);
            row("sent", phase.sent as f64);
            row("lost", phase.lost as f64);
            row("reordered", phase.reordered as f64);
            row("blocked_ms", phase.blocked_ms);
            if let Some(found) = phase.latency {
                row("latency_p50_us", found.p50_us);
                row("latency_p99_us", found.p99_us);
                row("latency_max_us", found.max_us);
            }
            if let Some(found) = phase.write {
                row("writes", phase.writes as f64);
                row("write_p50_us", found.p50_us);
                row("write_p99_us", found.p99_us);
                row("write_max_us", found.max_us);
            }
        }
        csv
    }
}

fn cells(figures: Option<[f64; 3]>) -> [String; 3] {
    figures.map_or_else(|| ["-", "-", "-"].map(str::to_owned), |all| all.map(significant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_frames_are_time_at_the_rate() {
        let mut result = TrialResult { lost: 50, sending_ns: 1_000_000_000, ..Default::default() };
        result.sent.frames = 10_000;
        let mut times: Vec<_> = (1..=101).rev().map(Duration::from_micros).collect();
        let phase = PhaseReport::new("swaps", &result, &mut times);
        assert_eq!((phase.blocked_ms, phase.writes), (5.0, 101));
        let times = phase.write.expect("there are times");
        assert_eq!((times.p50_us, times.p99_us, times.max_us), (51.0, 100.0, 101.0));
        let report = Report { config: "c".into(), size: "64".into(), phases: vec![phase] };
        assert!(!report.is_clean());
        assert!(report.to_csv().contains("c,64,swaps,blocked_ms,5\n"), "{}", report.to_csv());
        let text = report.render();
        assert!(text.contains("swaps") && text.contains("10.0 Kpps"), "{text}");
    }
}
