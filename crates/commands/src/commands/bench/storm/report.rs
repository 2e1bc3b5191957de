//! The report of `bench storm`: tables, JSON, CSV and charts, all from the same rows.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::commands::bench::svg::{Axes, Series, chart};
use crate::human::{self, significant};
use crate::table::{Align, Table, title};

/// A figure or table: rows with the same fields.
#[derive(Debug)]
pub struct Section {
    /// Name in JSON, and of files.
    name: &'static str,
    title: &'static str,
    aside: &'static str,
    rows: Vec<Map<String, Value>>,
    /// Rows that people see; all without it.
    shown: Option<Vec<usize>>,
}

impl Section {
    /// A section of rows that are structures of numbers and texts.
    pub fn new(
        (name, title, aside): (&'static str, &'static str, &'static str),
        rows: &[impl Serialize],
    ) -> anyhow::Result<Self> {
        let mut maps = Vec::with_capacity(rows.len());
        for row in rows {
            match serde_json::to_value(row)? {
                Value::Object(map) => maps.push(map),
                other => anyhow::bail!("a row of {name} is {other}, not a structure"),
            }
        }
        Ok(Self { name, title, aside, rows: maps, shown: None })
    }

    /// Prints only rows whose field has one of these values.
    pub fn showing(mut self, field: &str, values: &[u64]) -> Self {
        let is_shown = |row: &Map<String, Value>| {
            row.get(field).and_then(Value::as_u64).is_some_and(|value| values.contains(&value))
        };
        let shown = self.rows.iter().enumerate().filter(|(_, row)| is_shown(row));
        self.shown = Some(shown.map(|(at, _)| at).collect());
        self
    }

    fn render(&self) -> String {
        let Some(first) = self.rows.first() else { return String::new() };
        let names: Vec<String> = first.keys().map(|name| name.replace('_', " ")).collect();
        let align = |value: &Value| if value.is_string() { Align::Left } else { Align::Right };
        let aligns = first.values().map(align);
        let headings: Vec<(&str, Align)> = names.iter().map(String::as_str).zip(aligns).collect();
        let mut table = Table::new(&headings);
        for (at, row) in self.rows.iter().enumerate() {
            if self.shown.as_ref().is_none_or(|shown| shown.contains(&at)) {
                table.row_of(row.iter().map(|(name, value)| cell(name, value)).collect());
            }
        }
        title(self.title, self.aside) + &table.render()
    }

    fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let Some(first) = self.rows.first() else { return String::new() };
        let plain = |value: &Value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut text = line(first.keys().cloned().collect());
        for row in &self.rows {
            text += &line(row.values().map(plain).collect());
        }
        text
    }

    fn text<'a>(row: &'a Map<String, Value>, field: &str) -> &'a str {
        row.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn number(row: &Map<String, Value>, field: &str) -> f64 {
        row.get(field).and_then(Value::as_f64).unwrap_or_default()
    }

    /// Bars of `value` by two fields.
    fn bars(&self, fields: (&str, &str), value: &str, y_min: f64) -> String {
        let (mut groups, mut all) = (Vec::<String>::new(), Vec::<Series>::new());
        for row in &self.rows {
            let (group, name) = (Self::text(row, fields.0), Self::text(row, fields.1));
            let at = groups.iter().position(|known| known == group).unwrap_or(groups.len());
            if at == groups.len() {
                groups.push(group.to_owned());
            }
            let known = all.iter().position(|series| series.name == name).unwrap_or(all.len());
            if known == all.len() {
                all.push(Series { name: name.to_owned(), points: Vec::new() });
            }
            all[known].points.push((at as f64, Self::number(row, value)));
        }
        chart(&Axes { title: self.title, y_label: value, y_min, groups: &groups }, &all)
    }

    fn line(&self, (x, y): (&str, &str)) -> String {
        let points = self.rows.iter().map(|row| (Self::number(row, x), Self::number(row, y)));
        let series = Series { name: "T1".to_owned(), points: points.collect() };
        let axes = Axes { title: self.title, y_label: y, y_min: 0.0, groups: &[] };
        chart(&axes, &[series])
    }

    /// A chart, for the figures of the paper.
    fn chart(&self) -> Option<String> {
        Some(match self.name {
            "figure_6" | "figure_7" => self.bars(("ruleset", "layout"), "mpps", 0.0),
            "figure_8" => self.line(("ms", "hit_ratio")),
            "figure_9" => self.bars(("ruleset", "trace"), "hit_ratio", 0.9),
            "figure_10" => self.line(("rules", "share")),
            _ => return None,
        })
    }
}

/// A value for people: ratios of hits as percentages.
fn cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap_or_default();
            let is_share = name.starts_with("hit") || name == "share";
            if is_share { format!("{:.1} %", 100.0 * number) } else { significant(number) }
        }
        other => other.to_string(),
    }
}

/// Everything that was measured.
#[derive(Debug, Default)]
pub struct Report {
    pub threads: usize,
    pub run_ms: usize,
    pub packets: usize,
    /// Packets that the receive queue of a worker holds.
    pub queue_len: usize,
    pub sections: Vec<Section>,
}

impl Report {
    /// Tables for people.
    pub fn render(&self) -> String {
        let sections: String = self.sections.iter().map(Section::render).collect();
        sections
            + &format!(
                "{}, queues of {}, runs of {} ms, traces of {}\n",
                human::counted(self.threads, "thread"),
                human::counted(self.queue_len, "packet"),
                self.run_ms,
                human::counted(self.packets, "packet")
            )
    }

    /// All rows, by the names of their sections.
    pub fn json(&self) -> Value {
        let mut all = Map::new();
        let sizes = [
            ("threads", self.threads),
            ("queue_len", self.queue_len),
            ("run_ms", self.run_ms),
            ("packets", self.packets),
        ];
        all.extend(sizes.map(|(name, value)| (name.to_owned(), value.into())));
        for section in &self.sections {
            let rows = section.rows.iter().cloned().map(Value::Object).collect();
            all.insert(section.name.to_owned(), Value::Array(rows));
        }
        Value::Object(all)
    }

    /// Names and contents of CSV files.
    pub fn csv_files(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let file = |section: &Section| (format!("{}.csv", file_name(section)), section.csv());
        self.sections.iter().map(file)
    }

    /// Names and contents of charts.
    pub fn charts(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let file =
            |section: &Section| Some((format!("{}.svg", file_name(section)), section.chart()?));
        self.sections.iter().filter_map(file)
    }
}

fn file_name(section: &Section) -> String {
    section.name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        ruleset: &'static str,
        hit_ratio: f64,
        ms: Option<u32>,
    }

    #[test]
    fn rows_become_tables_and_files() {
        let rows = [
            Row { ruleset: "R1", hit_ratio: 0.975, ms: Some(3) },
            Row { ruleset: "R2", hit_ratio: 0.5, ms: None },
        ];
        let section = Section::new(("figure_9", "Hits", ""), &rows).expect("structures");
        assert_eq!(section.csv(), "ruleset,hit_ratio,ms\nR1,0.975,3\nR2,0.5,\n");
        let table = anstream::adapter::strip_str(&section.render()).to_string();
        let expected = "Hits\n  ruleset  hit ratio  ms\n  R1          97.5 %   3\n  R2          \
                        50.0 %   -\n";
        assert_eq!(table, expected);
        let section = section.showing("ms", &[3]);
        assert!(!section.render().contains("R2"));
        assert!(Section::new(("x", "", ""), &[1]).is_err());
        let report = Report { sections: vec![section], ..Report::default() };
        assert!(report.json()["figure_9"][1]["ms"].is_null());
        assert_eq!(report.charts().map(|(name, _)| name).collect::<Vec<_>>(), ["figure-9.svg"]);
    }
}
