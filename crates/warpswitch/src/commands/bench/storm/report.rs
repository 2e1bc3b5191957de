//! The report of `bench storm`: tables, JSON and charts.

use serde::Serialize;

use super::figures::{CacheSize, Choice, Compared, HitRatio, Moment, Throughput, WarmUp};
use crate::commands::bench::svg::{Axes, Series, chart};
use crate::human::{self, significant};
use crate::table::{Align, Table, title};

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub threads: usize,
    pub run_ms: usize,
    pub packets: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure_6: Option<Vec<Throughput>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure_7: Option<Vec<Throughput>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure_8: Option<Vec<Moment>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure_9: Option<Vec<HitRatio>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure_10: Option<Vec<Compared>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_5: Option<Vec<CacheSize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_6: Option<Vec<WarmUp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<Choice>>,
}

impl Report {
    /// Tables for people.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (figure, name) in [
            (&self.figure_6, "Figure 6: throughput"),
            (&self.figure_7, "Figure 7: throughput by number of threads"),
        ] {
            if let Some(figure) = figure {
                text += &title(name, "Mpps without loss");
                text += &throughput_table(figure).render();
            }
        }
        text += &self.render_hit_ratios();
        text += &self.render_tables();
        text + &format!(
            "{}, runs of {} ms, traces of {}\n",
            human::counted(self.threads, "thread"),
            self.run_ms,
            human::counted(self.packets, "packet")
        )
    }

    fn render_hit_ratios(&self) -> String {
        let mut text = String::new();
        if let Some(moments) = &self.figure_8 {
            text += &title("Figure 8: hit ratio after the start", "R3, T1");
            let mut table = Table::new(&[("ms", Align::Right), ("hits", Align::Right)]);
            // Doubling times are enough for people.
            for moment in moments.iter().filter(|moment| moment.ms.is_power_of_two()) {
                table.row([moment.ms.to_string(), percent(moment.hit_ratio)]);
            }
            text += &table.render();
        }
        if let Some(ratios) = &self.figure_9 {
            text += &title("Figure 9: hit ratio", "without the first tenth");
            let mut table = Table::new(&[
                ("rules", Align::Left),
                ("trace", Align::Left),
                ("hits", Align::Right),
            ]);
            for ratio in ratios {
                table.row([ratio.ruleset.clone(), ratio.trace.clone(), percent(ratio.hit_ratio)]);
            }
            text += &table.render();
        }
        if let Some(compared) = &self.figure_10 {
            text += &title("Figure 10: cached rules compared", "R2, T1");
            let mut table = Table::new(&[("at most", Align::Right), ("packets", Align::Right)]);
            for step in compared.iter().filter(|step| [1, 2, 5, 10, 15, 20].contains(&step.rules)) {
                table.row([step.rules.to_string(), percent(step.share)]);
            }
            text += &table.render();
        }
        text
    }

    fn render_tables(&self) -> String {
        let mut text = String::new();
        if let Some(sizes) = &self.table_5 {
            text += &title("Table 5: size of the cache", "R3, T1");
            let mut table = Table::new(&[
                ("cached rules", Align::Right),
                ("ns/packet", Align::Right),
                ("hits", Align::Right),
            ]);
            for size in sizes {
                let delay = significant(size.delay_ns);
                table.row([size.cached_rules.to_string(), delay, percent(size.hit_ratio)]);
            }
            text += &table.render();
        }
        if let Some(times) = &self.table_6 {
            text += &title("Table 6: warm-up", "until nine packets in ten hit");
            let mut table = Table::new(&[
                ("rules", Align::Left),
                ("layout", Align::Left),
                ("ms", Align::Right),
            ]);
            for time in times {
                let ms = time.ms.map_or_else(|| "not warm".to_owned(), significant);
                table.row([time.ruleset.clone(), time.layout.clone(), ms]);
            }
            text += &table.render();
        }
        if let Some(choices) = &self.choices {
            text += &title("Design choices", "R3, T1");
            let mut table = Table::new(&[
                ("copies", Align::Right),
                ("samples", Align::Left),
                ("Mpps", Align::Right),
                ("waiting Mpps", Align::Right),
                ("hits", Align::Right),
            ]);
            for choice in choices {
                table.row([
                    choice.copies.to_string(),
                    choice.sampling.to_owned(),
                    choice.mpps.map_or_else(|| "loss".to_owned(), significant),
                    significant(choice.waiting_mpps),
                    percent(choice.hit_ratio),
                ]);
            }
            text += &table.render();
        }
        text
    }

    /// Charts with the names of their files.
    pub fn charts(&self) -> Vec<(&'static str, String)> {
        let mut charts = Vec::new();
        for (figure, name, text) in [
            (&self.figure_6, "figure-6.svg", "Throughput by rule set"),
            (&self.figure_7, "figure-7.svg", "Throughput by number of threads"),
        ] {
            if let Some(figure) = figure {
                charts.push((name, throughput_chart(text, figure)));
            }
        }
        if let Some(moments) = &self.figure_8 {
            let points = moments.iter().map(|moment| (moment.ms as f64, moment.hit_ratio));
            charts.push(("figure-8.svg", line_chart("Hit ratio of R3 by ms", points.collect())));
        }
        if let Some(ratios) = &self.figure_9 {
            let cells = ratios.iter().map(|cell| (&*cell.ruleset, &*cell.trace, cell.hit_ratio));
            charts.push(("figure-9.svg", bar_chart("Hit ratio", "share", 0.9, cells)));
        }
        if let Some(compared) = &self.figure_10 {
            let points = compared.iter().map(|step| (step.rules as f64, step.share));
            let chart = line_chart("Packets by cached rules compared", points.collect());
            charts.push(("figure-10.svg", chart));
        }
        charts
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn throughput_table(figure: &[Throughput]) -> Table {
    let mut table = Table::new(&[
        ("rules", Align::Left),
        ("layout", Align::Left),
        ("Mpps", Align::Right),
        ("Gbit/s", Align::Right),
        ("waiting Mpps", Align::Right),
    ]);
    let number = |value: Option<f64>| value.map_or_else(|| "loss".to_owned(), significant);
    for cell in figure {
        let (mpps, gbps) = (number(cell.mpps), number(cell.gbps));
        let waiting = significant(cell.waiting_mpps);
        table.row([cell.ruleset.clone(), cell.layout.clone(), mpps, gbps, waiting]);
    }
    table
}

fn throughput_chart(text: &str, figure: &[Throughput]) -> String {
    let cells =
        figure.iter().map(|cell| (&*cell.ruleset, &*cell.layout, cell.mpps.unwrap_or_default()));
    bar_chart(text, "Mpps without loss", 0.0, cells)
}

fn line_chart(title: &str, points: Vec<(f64, f64)>) -> String {
    let axes = Axes { title, y_label: "share", y_min: 0.0, groups: &[] };
    chart(&axes, &[Series { name: "T1".to_owned(), points }])
}

/// Bars of cells: group, series, value.
fn bar_chart<'a>(
    title: &str,
    y_label: &str,
    y_min: f64,
    cells: impl Iterator<Item = (&'a str, &'a str, f64)>,
) -> String {
    let (mut groups, mut all) = (Vec::<String>::new(), Vec::<Series>::new());
    for (group, name, value) in cells {
        let at = groups.iter().position(|known| known == group).unwrap_or(groups.len());
        if at == groups.len() {
            groups.push(group.to_owned());
        }
        let known = all.iter().position(|series| series.name == name).unwrap_or(all.len());
        if known == all.len() {
            all.push(Series { name: name.to_owned(), points: Vec::new() });
        }
        all[known].points.push((at as f64, value));
    }
    chart(&Axes { title, y_label, y_min, groups: &groups }, &all)
}
