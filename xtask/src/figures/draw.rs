//! One figure as SVG: panels of one unit and batch each, a legend beside them.
//!
//! Both axes are logarithmic; the names of rule sets stand side by side. Colours tell engines
//! apart, marks and lines tell what was measured. The ground is white, so that a drawing reads the
//! same on a light page and on a dark one.

use anyhow::{Context, Result};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::rows::{Kind, Row, Sweep, Unit};

const SIZE: (u32, u32) = (1200, 460);
const HEAD_HEIGHT: u32 = 56;
const LEGEND_WIDTH: u32 = 190;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(225, 225, 225);

/// What each figure shows, in the paper's letters.
const TITLES: [(&str, &str); 13] = [
    ("5a", "time of a batch, N = 1K, C = 128"),
    ("5b", "rate by batch, N = 1K, C = 128"),
    ("5c", "rate by classes of 282 rules"),
    ("6a", "the card against cores of the CPU, N = 128K, C = 512"),
    ("6b", "rate by batch, N = 128K, C = 512"),
    ("6c", "sets in the styles of ClassBench, 5 fields"),
    ("7", "rate by rules, 256 a class"),
    ("8a", "rate by classes, N = 1K"),
    ("8b", "rate by classes, N = 8K"),
    ("8c", "rate by classes, N = 32K"),
    ("9a", "rate by full classes, N = 1K, C = 128"),
    ("9b", "rate by classes that match a packet, N = 1K, C = F = 128"),
    ("9c", "rate by fields of a packet, N = 1K, C = F = 128"),
];

/// The title of a figure, or nothing if the paper has no such figure.
pub fn title(figure: &str) -> Option<&'static str> {
    TITLES.iter().find(|(name, _)| *name == figure).map(|(_, title)| *title)
}

/// What a line of points is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Ours(Kind),
    Paper,
}

/// Points of one engine and source, in the coordinates of the axes.
struct Series<'a> {
    engine: &'a str,
    source: Source,
    points: Vec<(f64, f64)>,
}

/// Where the values of what is varied stand.
struct Axis<'a> {
    name: &'a str,
    /// Place, value, and what is written there.
    ticks: Vec<(f64, &'a str, String)>,
    /// Whether lines between the places mean something.
    is_number: bool,
}

/// Draws the rows of one figure.
///
/// # Errors
/// If there is no such figure, or no row of it.
pub fn svg(sweep: &Sweep, figure: &str) -> Result<String> {
    let title = title(figure).context("GSwitch has no such figure")?;
    let rows: Vec<&Row> = sweep.rows.iter().filter(|row| row.figure == figure).collect();
    let axis = Axis::new(&rows).context("there is no row of it")?;
    let panels = panels(&rows);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD_HEIGHT);
        let whole = format!("Figure {figure}: {title}");
        head.draw(&Text::new(whole, (16, 12), (FONT, 21).into_font().color(&INK)))?;
        let whose = format!("ours: {}; the paper's: GTX 580, two Xeon X5550", sweep.device);
        head.draw(&Text::new(whose, (16, 36), (FONT, 15).into_font().color(&FAINT)))?;
        let (plots, legend) = body.split_horizontally(SIZE.0 - LEGEND_WIDTH);
        for (area, rows) in plots.split_evenly((1, panels.len())).iter().zip(&panels) {
            let unit = rows[0].unit;
            let alike = panels.iter().flatten().filter(|row| row.unit == unit);
            draw_panel(area, &axis, rows, decades(alike.copied()))?;
        }
        draw_legend(&legend, &rows)?;
        root.present()?;
    }
    Ok(text)
}

/// Rows of one unit and, where that is not what is varied, of one batch; the CPU's come last.
fn panels<'a>(rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let panel = |row: &Row| match (row.kind, row.varied.as_str()) {
        (Kind::Cpu, _) => (row.unit, u64::MAX),
        (_, "batch") => (row.unit, 0),
        _ => (row.unit, row.batch),
    };
    let mut keys: Vec<_> = rows.iter().map(|row| panel(row)).collect();
    keys.sort_unstable();
    keys.dedup();
    let of = |key| rows.iter().copied().filter(|row| panel(row) == key).collect();
    keys.into_iter().map(of).collect()
}

impl<'a> Axis<'a> {
    fn new(rows: &[&'a Row]) -> Option<Self> {
        let name = &rows.first()?.varied;
        let mut values: Vec<&str> = Vec::new();
        for row in rows {
            if !values.contains(&row.value.as_str()) {
                values.push(&row.value);
            }
        }
        let numbers: Option<Vec<f64>> =
            values.iter().map(|value| value.parse().ok().filter(|number| *number > 0.0)).collect();
        let place = |idx: usize| match &numbers {
            Some(numbers) => numbers[idx].log2(),
            None => idx as f64,
        };
        let tick = |(idx, value): (usize, &&'a str)| (place(idx), *value, short(value));
        let ticks = values.iter().enumerate().map(tick).collect();
        Some(Self { name, ticks, is_number: numbers.is_some() })
    }

    fn place(&self, value: &str) -> f64 {
        self.ticks.iter().find(|tick| tick.1 == value).map_or(0.0, |tick| tick.0)
    }

    /// How far beside its place an engine's mark stands: names have room for that.
    fn aside(&self, engine: &str) -> f64 {
        let all = ["linear", "tuple", "bloom", "turbo"];
        let idx = all.iter().position(|name| *name == engine).unwrap_or(0);
        if self.is_number { 0.0 } else { (idx as f64 - 1.5) * 0.13 }
    }

    /// What is written at a place.
    fn label(&self, place: f64) -> String {
        let here = self.ticks.iter().find(|tick| (tick.0 - place).abs() < 1e-6);
        here.map_or_else(String::new, |tick| tick.2.clone())
    }

    fn range(&self) -> (f64, f64) {
        let places = || self.ticks.iter().map(|tick| tick.0);
        let (low, high) = (places().fold(f64::MAX, f64::min), places().fold(f64::MIN, f64::max));
        let room = if self.is_number { ((high - low) * 0.06).max(0.3) } else { 0.5 };
        (low - room, high + room)
    }
}

/// 131072 as 128K; names as they are.
fn short(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(number) if number >= 1024 && number.is_multiple_of(1024) => {
            format!("{}K", number / 1024)
        }
        Ok(number) => thousands(number),
        Err(_) => value.to_owned(),
    }
}

fn thousands(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1000), number % 1000)
}

/// The range of all numbers as powers of ten, with room around them.
fn decades<'a>(rows: impl Iterator<Item = &'a Row>) -> (f64, f64) {
    let (mut low, mut high) = (f64::MAX, f64::MIN);
    for number in rows.flat_map(|row| [Some(row.ours), row.paper]).flatten() {
        low = low.min(number.log10());
        high = high.max(number.log10());
    }
    let room = ((high - low) * 0.06).max(0.15);
    (low - room, high + room)
}

/// Powers of ten within a range; with 2 and 5 between them where there are few.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let steps: &[f64] = if high - low > 2.2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all = (low.floor() as i32..=high.ceil() as i32)
        .flat_map(|power| steps.iter().map(move |step| f64::from(power) + step.log10()));
    all.filter(|place| (low..=high).contains(place)).collect()
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Mpps => "million packets a second",
        Unit::Us => "microseconds a batch",
        Unit::Times => "times the rate of the CPU",
    }
}

fn panel_name(row: &Row) -> String {
    match (row.kind, row.varied.as_str()) {
        (Kind::Cpu, "cores") => "the CPU".to_owned(),
        (Kind::Cpu, _) => "the CPU, at most eight cores".to_owned(),
        (_, "batch") => String::new(),
        _ => format!("batches of {}", short(&row.batch.to_string())),
    }
}

fn all_series<'a>(axis: &Axis<'_>, rows: &[&'a Row]) -> Vec<Series<'a>> {
    let mut list: Vec<Series<'a>> = Vec::new();
    // The paper's own lines: one for each engine and kind.
    let mut keys: Vec<(Kind, Source, &str)> = Vec::new();
    for row in rows {
        let numbers = [(Source::Ours(row.kind), Some(row.ours)), (Source::Paper, row.paper)];
        for (source, number) in numbers {
            let Some(number) = number else { continue };
            let point = (axis.place(&row.value) + axis.aside(&row.engine), number.log10());
            let key = (row.kind, source, row.engine.as_str());
            match keys.iter().position(|known| *known == key) {
                Some(at) => list[at].points.push(point),
                None => {
                    keys.push(key);
                    list.push(Series { engine: &row.engine, source, points: vec![point] });
                }
            }
        }
    }
    for series in &mut list {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    list
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane = Cartesian2d<Scale, Scale>;

/// A straight scale with marks of our choice.
struct Scale {
    low: f64,
    high: f64,
    marks: Vec<f64>,
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value - self.low) / (self.high - self.low);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

fn draw_panel(
    area: &Area<'_>,
    axis: &Axis<'_>,
    rows: &[&Row],
    (low, high): (f64, f64),
) -> Result<()> {
    let (left, right) = axis.range();
    let marks = axis.ticks.iter().map(|tick| tick.0).collect();
    let across = Scale { low: left, high: right, marks };
    let up = Scale { low, high, marks: ticks((low, high)) };
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(panel_name(rows[0]), (FONT, 17).into_font().color(&INK))
        .set_label_area_size(LabelAreaPosition::Left, 72)
        .set_label_area_size(LabelAreaPosition::Bottom, 46)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(FAINT)
        .label_style((FONT, 15).into_font().color(&INK))
        .axis_desc_style((FONT, 16).into_font().color(&INK))
        .x_desc(if axis.name == "batch" { "packets a batch" } else { axis.name })
        .y_desc(unit_name(rows[0].unit))
        .x_label_formatter(&|place| axis.label(*place))
        .y_label_formatter(&|place| power_text(*place))
        .draw()?;
    for series in all_series(axis, rows) {
        draw_series(&mut chart, axis, &series)?;
    }
    Ok(())
}

/// The number whose logarithm this is, of ticks.
fn power_text(place: f64) -> String {
    let number = 10f64.powf(place);
    if place < -0.01 {
        let digits = (-place).ceil() as usize;
        return format!("{number:.digits$}");
    }
    thousands(number.round() as u64)
}

fn colour(engine: &str) -> RGBColor {
    match engine {
        "linear" => RGBColor(196, 78, 0),
        "tuple" => RGBColor(0, 138, 100),
        "bloom" => RGBColor(0, 100, 190),
        "turbo" => RGBColor(140, 60, 170),
        _ => FAINT,
    }
}

fn draw_series(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Plane>,
    axis: &Axis<'_>,
    series: &Series<'_>,
) -> Result<()> {
    let colour = colour(series.engine);
    let points = || series.points.iter().copied();
    if axis.is_number && series.points.len() > 1 {
        match series.source {
            Source::Paper => {
                let path = DashedPathElement::new(points(), 5, 4, colour.stroke_width(1));
                chart.draw_series([path])?;
            }
            source => {
                let path: Vec<(f64, f64)> = points().collect();
                chart.draw_series([PathElement::new(path, colour.stroke_width(width(source)))])?;
            }
        }
    }
    match series.source {
        Source::Paper => chart.draw_series(points().map(|point| cross(point, colour)))?,
        source => chart.draw_series(points().map(|point| circle(point, source, colour)))?,
    };
    Ok(())
}

fn width(source: Source) -> u32 {
    if source == Source::Ours(Kind::Kernel) { 1 } else { 2 }
}

/// The mark of what was measured; [`cross`] is the paper's.
fn circle<C>(point: C, source: Source, colour: RGBColor) -> Circle<C, i32> {
    let is_hollow = source == Source::Ours(Kind::Kernel);
    Circle::new(point, 4, if is_hollow { colour.stroke_width(1) } else { colour.filled() })
}

fn cross<C>(point: C, colour: RGBColor) -> Cross<C, i32> {
    Cross::new(point, 5, colour.stroke_width(2))
}

fn source_name(source: Source, unit: Unit) -> &'static str {
    match (source, unit) {
        (Source::Ours(Kind::EndToEnd), Unit::Us) => "one batch at a time",
        (Source::Ours(Kind::EndToEnd), _) => "end to end",
        (Source::Ours(Kind::Kernel), _) => "kernel alone",
        (Source::Ours(Kind::Cpu), _) => "CPU",
        (Source::Ours(Kind::Speedup), _) => "card over CPU",
        (Source::Paper, _) => "the paper",
    }
}

fn draw_legend(area: &Area<'_>, rows: &[&Row]) -> Result<()> {
    let mut engines: Vec<&str> = Vec::new();
    let mut sources: Vec<(Source, Unit)> = Vec::new();
    for row in rows {
        if !engines.contains(&row.engine.as_str()) {
            engines.push(&row.engine);
        }
        let of_paper = row.paper.map(|_| (Source::Paper, Unit::Mpps));
        for source in [Some((Source::Ours(row.kind), row.unit)), of_paper].into_iter().flatten() {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    sources.sort_unstable();
    let style =
        TextStyle::from((FONT, 16).into_font()).color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    let mut y = 44;
    for engine in engines {
        let square = [(6, y - 6), (18, y + 6)];
        area.draw(&Rectangle::new(square, colour(engine).filled()))?;
        area.draw(&Text::new(engine.to_owned(), (52, y), style.clone()))?;
        y += 24;
    }
    y += 16;
    for (source, unit) in sources {
        let ends = [(4, y), (44, y)];
        if source == Source::Paper {
            area.draw(&DashedPathElement::new(ends, 5, 4, INK.stroke_width(1)))?;
            area.draw(&cross((24, y), INK))?;
        } else {
            area.draw(&circle((24, y), source, INK))?;
            area.draw(&PathElement::new(ends, INK.stroke_width(width(source))))?;
        }
        area.draw(&Text::new(source_name(source, unit), (52, y), style.clone()))?;
        y += 24;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(rows: &[&str]) -> Sweep {
        let header = "figure,varied,value,engine,kind,batch,unit,ours,paper";
        super::super::rows::read(&format!("# A <card>\n{header}\n{}\n", rows.join("\n"))).unwrap()
    }

    #[test]
    fn every_number_has_a_mark_and_every_word_its_place() {
        let sweep = sweep(&[
            "8a,classes,1024,bloom,kernel,8192,Mpps,900,",
            "8a,classes,16,bloom,kernel,8192,Mpps,1000,",
            "8a,classes,16,bloom,end-to-end,8192,Mpps,700,119",
            "8a,classes,1024,bloom,end-to-end,8192,Mpps,600,20",
            "8a,classes,16,tuple,end-to-end,262144,Mpps,1300,",
            "7,rules,256,turbo,end-to-end,8192,Mpps,1300,",
        ]);
        let drawn = svg(&sweep, "8a").unwrap();
        // Five marks of ours, and one for each of the two kinds in the legend.
        assert_eq!(drawn.matches("<circle").count(), 5 + 2);
        for word in [
            "Figure 8a: rate by classes, N = 1K",
            "ours: A &lt;card&gt;",
            "batches of 8K",
            "batches of 256K",
            "million packets a second",
            "kernel alone",
            "end to end",
            "the paper",
            "bloom",
            "tuple",
            "1K",
        ] {
            assert!(drawn.contains(word), "{word}");
        }
        assert!(!drawn.contains("turbo"), "a row of another figure");
        assert_eq!(drawn, svg(&sweep, "8a").unwrap());
        assert!(svg(&sweep, "9b").is_err(), "no row");
        assert!(svg(&sweep, "12").is_err(), "no such figure");
    }

    #[test]
    fn names_stand_side_by_side_and_numbers_on_a_scale() {
        let sweep = sweep(&[
            "6c,set,acl,tuple,cpu,256,Mpps,7,",
            "6c,set,ipc,tuple,cpu,256,Mpps,7,",
            "6c,set,acl,tuple,kernel,256,Mpps,7,",
        ]);
        let rows: Vec<&Row> = sweep.rows.iter().collect();
        let axis = Axis::new(&rows).unwrap();
        assert!(!axis.is_number);
        assert_eq!((axis.place("acl"), axis.place("ipc")), (0.0, 1.0));
        assert_eq!((axis.label(1.0), axis.label(0.5)), ("ipc".to_owned(), String::new()));
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [("256", "256"), ("131072", "128K"), ("1834", "1,834"), ("1000000", "1,000,000")]
        {
            assert_eq!(short(value), text);
        }
        let written = |range| ticks(range).into_iter().map(power_text).collect::<Vec<_>>();
        assert_eq!(written((-1.2, 3.1)), ["0.1", "1", "10", "100", "1,000"]);
        assert_eq!(written((-0.5, 1.1)), ["0.5", "1", "2", "5", "10"]);
    }
}
