//! The report of `bench switch`: tables, JSON, CSV and charts.

use std::fmt::Write as _;

use serde::Serialize;

use crate::commands::bench::svg::{Axes, Series, chart};
use crate::human::significant;
use crate::table::{Align, Table, title};
use crate::traffic::Latency;

/// Titles of the figures.
const TITLES: [(&str, &str, &str); 4] = [
    ("table 2", "Snap, table 2", "forwarding between ports"),
    ("4.4", "Snap, section 4.4", "latency of batches, beside Snap's mean with the way over wires"),
    ("10", "GSwitch, figure 10", "a load, by frame size and delay bound T"),
    ("11", "GSwitch, figure 11", "highest throughput, by delay bound T and frame size"),
];

/// What a paper states.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Paper {
    Gbps(f64),
    MeanUs(f64),
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub figure: &'static str,
    /// Who looks the rules up.
    pub lookup: &'static str,
    pub paths: usize,
    pub workers: usize,
    pub has_io: bool,
    pub frame_bytes: usize,
    /// The delay bound; none where nothing waits for a batch.
    pub delay_max_us: Option<u64>,
    /// The most packets of a wide batch.
    pub batch: Option<usize>,
    /// Load on the wire; none for as much as the switch receives.
    pub offered_gbps: Option<f64>,
    pub mpps: f64,
    pub gbps: f64,
    /// Part of the load that found no room in the receive rings.
    pub missed_ratio: f64,
    pub latency: Option<Latency>,
    pub paper: Option<Paper>,
    /// For people.
    pub note: String,
}

/// All measurements.
#[derive(Debug, Serialize)]
pub struct Report {
    pub device: Option<String>,
    pub workers: usize,
    pub rules: usize,
    pub rows: Vec<Row>,
}

impl Report {
    /// Tables for people.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (figure, name, aside) in TITLES {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.figure == figure).collect();
            if !rows.is_empty() {
                text += &title(name, aside);
                text += &table(&rows).render();
                text += "\n";
            }
        }
        let device = self.device.as_deref().unwrap_or("no device");
        text + &format!("{} workers, {} rules, {device}\n", self.workers, self.rules)
    }

    /// One line per measurement.
    pub fn to_csv(&self) -> String {
        let mut csv = "figure,lookup,paths,workers,io,frame_bytes,delay_max_us,batch,\
                       offered_gbps,mpps,gbps,missed_ratio,mean_us,p50_us,p99_us,max_us,paper,\
                       paper_unit,note\n"
            .to_owned();
        for row in &self.rows {
            let latency = row.latency.map_or_else(
                || ",,,".to_owned(),
                |Latency { mean_us, p50_us, p99_us, max_us, .. }| {
                    format!("{mean_us},{p50_us},{p99_us},{max_us}")
                },
            );
            let paper = match row.paper {
                None => ",".to_owned(),
                Some(Paper::Gbps(value)) => format!("{value},Gbit/s"),
                Some(Paper::MeanUs(value)) => format!("{value},us"),
            };
            _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{},{},{},{latency},{paper},{}",
                row.figure,
                row.lookup,
                row.paths,
                row.workers,
                row.has_io,
                row.frame_bytes,
                text_of(row.delay_max_us),
                text_of(row.batch),
                text_of(row.offered_gbps),
                row.mpps,
                row.gbps,
                row.missed_ratio,
                warpswitch_provenance::csv_text(&row.note),
            );
        }
        csv
    }

    /// Charts with the names of their files.
    pub fn charts(&self) -> Vec<(String, String)> {
        let of = |figure: &'static str| {
            self.rows.iter().filter(move |row| row.figure == figure).cloned()
        };
        let bound = |row: &Row| format!("T {} us", row.delay_max_us.unwrap_or_default());
        let mut charts = Vec::new();
        let mut loads: Vec<f64> = of("10").filter_map(|row| row.offered_gbps).collect();
        loads.dedup();
        for load in loads {
            // All delay bounds of the first lookup, as in the paper.
            let rows: Vec<Row> = of("10").filter(|row| row.offered_gbps == Some(load)).collect();
            let rows = rows.iter().filter(|row| row.lookup == rows[0].lookup);
            let cells = rows.map(|row| (format!("{} B", row.frame_bytes), bound(row), row.gbps));
            let text = format!("GSwitch, figure 10: {load} Gbit/s offered");
            charts.push((format!("figure-10-{load}.svg"), bars(&text, "Gbit/s", cells)));
        }
        let (small, sized): (Vec<Row>, Vec<Row>) = of("11").partition(|row| row.frame_bytes == 64);
        let cells = small.iter().filter(|row| row.has_io).map(|row| {
            let group = row.delay_max_us.map_or("no batches".to_owned(), |_| bound(row));
            (group, row.lookup.to_owned(), row.gbps)
        });
        let papers = small.iter().filter(|row| row.has_io).filter_map(|row| match row.paper {
            Some(Paper::Gbps(gbps)) => {
                Some((bound(row), format!("{} in the paper", row.lookup), gbps))
            }
            _ => None,
        });
        let text = "GSwitch, figure 11: 64 bytes";
        if !small.is_empty() {
            charts.push(("figure-11.svg".to_owned(), bars(text, "Gbit/s", cells.chain(papers))));
        }
        if !sized.is_empty() {
            let first = small.iter().map(|row| row.delay_max_us).find(Option::is_some).flatten();
            let rows = small.iter().filter(|row| row.has_io).chain(&sized);
            let rows = rows.filter(|row| row.delay_max_us.is_none() || row.delay_max_us == first);
            let cells =
                rows.map(|row| (format!("{} B", row.frame_bytes), row.lookup.to_owned(), row.gbps));
            let text = "GSwitch, figure 11: by frame size, least T";
            charts.push(("figure-11-sizes.svg".to_owned(), bars(text, "Gbit/s", cells)));
        }
        charts
    }
}

fn text_of(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn table(rows: &[&Row]) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("lookup", Align::Left),
        ("I/O", Align::Left),
        ("bytes", right),
        ("T us", right),
        ("batch", right),
        ("load Gbit/s", right),
        ("Mpps", right),
        ("Gbit/s", right),
        ("missed", right),
        ("mean us", right),
        ("p99 us", right),
        ("paper", right),
        ("", Align::Left),
    ])
    .with_keys(5);
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    for row in rows {
        let us = |us: fn(&Latency) -> f64| {
            row.latency.as_ref().map_or("-".to_owned(), |latency| significant(us(latency)))
        };
        table.row([
            row.lookup.to_owned(),
            if row.has_io { "yes" } else { "no" }.to_owned(),
            row.frame_bytes.to_string(),
            dash(text_of(row.delay_max_us)),
            dash(text_of(row.batch)),
            dash(text_of(row.offered_gbps)),
            significant(row.mpps),
            significant(row.gbps),
            format!("{:.2} %", 100.0 * row.missed_ratio),
            us(|latency| latency.mean_us),
            us(|latency| latency.p99_us),
            match row.paper {
                None => "-".to_owned(),
                Some(Paper::Gbps(value)) => format!("{value} Gbit/s"),
                Some(Paper::MeanUs(value)) => format!("{value} us"),
            },
            row.note.clone(),
        ]);
    }
    table
}

/// Bars of cells: group, series, value.
fn bars(title: &str, y_label: &str, cells: impl Iterator<Item = (String, String, f64)>) -> String {
    let (mut groups, mut all) = (Vec::<String>::new(), Vec::<Series>::new());
    for (group, name, value) in cells {
        let at = groups.iter().position(|known| *known == group).unwrap_or(groups.len());
        if at == groups.len() {
            groups.push(group);
        }
        let known = all.iter().position(|series| series.name == name).unwrap_or(all.len());
        if known == all.len() {
            all.push(Series { name, points: Vec::new() });
        }
        all[known].points.push((at as f64, value));
    }
    chart(&Axes { title, y_label, y_min: 0.0, groups: &groups }, &all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: &'static str, delay_max_us: Option<u64>) -> Row {
        Row {
            figure,
            lookup: "bloom",
            paths: 16,
            workers: 16,
            has_io: true,
            frame_bytes: 64,
            delay_max_us,
            batch: Some(1024),
            offered_gbps: Some(40.0),
            mpps: 59.5,
            gbps: 40.0,
            missed_ratio: 0.001,
            latency: None,
            paper: Some(Paper::Gbps(27.0)),
            note: "a, b".into(),
        }
    }

    #[test]
    fn every_figure_has_a_table_rows_and_a_chart() {
        let rows = vec![
            row("table 2", None),
            row("4.4", None),
            row("10", Some(100)),
            row("11", Some(100)),
            row("11", None),
        ];
        let report = Report { device: None, workers: 16, rules: 10, rows };
        let text = anstream::adapter::strip_str(&report.render()).to_string();
        for (_, name, _) in TITLES {
            assert!(text.contains(name), "{text}");
        }
        assert!(text.contains("27 Gbit/s") && text.contains("0.10 %"), "{text}");
        let csv = report.to_csv();
        let columns = csv.lines().next().unwrap().split(',').count();
        // The quoted note holds a comma.
        assert!(csv.lines().skip(1).all(|line| line.split(',').count() == columns + 1), "{csv}");
        let charts = report.charts();
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["figure-10-40.svg", "figure-11.svg"]);
        assert!(charts[1].1.contains("no batches") && charts[1].1.contains("in the paper"));
    }
}
