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

use super::axis::{Axis, decades, power_text, short, ticks};
use super::paper::Paper;
use super::rows::{Kind, Row, Sweep, Unit};

const SIZE: (u32, u32) = (1200, 460);
const HEAD_HEIGHT: u32 = 56;
const LEGEND_WIDTH: u32 = 190;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(225, 225, 225);

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

/// Draws the rows of one figure; the caption names `record`, their file.
///
/// # Errors
/// If there is no such figure, or no row of it.
pub fn svg(paper: &Paper, sweep: &Sweep, record: &str, figure: &str) -> Result<String> {
    let title =
        paper.title(figure).with_context(|| format!("{} has no such figure", paper.name))?;
    let rows: Vec<&Row> = sweep.rows.iter().filter(|row| row.figure == figure).collect();
    let axis = Axis::new(&rows).context("there is no row of it")?;
    let panels = panels(paper, &rows);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD_HEIGHT);
        head.draw(&Text::new(title, (16, 12), (FONT, 21).into_font().color(&INK)))?;
        head.draw(&Text::new(
            caption(paper, sweep, record),
            (16, 36),
            (FONT, 15).into_font().color(&FAINT),
        ))?;
        let (plots, legend) = body.split_horizontally(SIZE.0 - LEGEND_WIDTH);
        for (area, rows) in plots.split_evenly((1, panels.len())).iter().zip(&panels) {
            let unit = rows[0].unit;
            let alike = panels.iter().flatten().filter(|row| row.unit == unit);
            draw_panel(paper, area, &axis, rows, decades(alike.copied()))?;
        }
        draw_legend(paper, &legend, &rows)?;
        root.present()?;
    }
    Ok(text)
}

/// Machines, record, commit and date.
fn caption(paper: &Paper, sweep: &Sweep, record: &str) -> String {
    let machines = format!("ours: {}; the paper's: {}", sweep.device, paper.machine);
    match sweep.provenance.as_str() {
        "" => format!("{machines}; record {record}"),
        from => format!("{machines}; record {record}, {from}"),
    }
}

/// The rows of each panel.
fn panels<'a>(paper: &Paper, rows: &[&'a Row]) -> Vec<Vec<&'a Row>> {
    let mut keys: Vec<_> = rows.iter().map(|row| paper.panel(row)).collect();
    keys.sort_unstable();
    keys.dedup();
    let of = |key| rows.iter().copied().filter(|row| paper.panel(row) == key).collect();
    keys.into_iter().map(of).collect()
}

fn all_series<'a>(paper: &Paper, axis: &Axis<'_>, rows: &[&'a Row]) -> Vec<Series<'a>> {
    let mut list: Vec<Series<'a>> = Vec::new();
    // The paper's own lines: one for each engine and kind.
    let mut keys: Vec<(Kind, Source, &str)> = Vec::new();
    for row in rows {
        let numbers = [(Source::Ours(row.kind), Some(row.ours)), (Source::Paper, row.paper)];
        for (source, number) in numbers {
            let Some(number) = number else { continue };
            let point = (axis.place(&row.value) + axis.aside(paper, &row.engine), number.log10());
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
    paper: &Paper,
    area: &Area<'_>,
    axis: &Axis<'_>,
    rows: &[&Row],
    (low, high): (f64, f64),
) -> Result<()> {
    let (left, right) = axis.range();
    let marks = axis.ticks.iter().map(|tick| tick.0).collect();
    let across = Scale { low: left, high: right, marks };
    let up = Scale { low, high, marks: ticks((low, high)) };
    let name = paper.panel_text(rows[0], &short(&rows[0].batch.to_string()));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .caption(name, (FONT, 17).into_font().color(&INK))
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
        .y_desc(paper.unit_text(rows[0].unit))
        .x_label_formatter(&|place| axis.label(*place))
        .y_label_formatter(&|place| power_text(*place))
        .draw()?;
    for series in all_series(paper, axis, rows) {
        draw_series(paper, &mut chart, axis, &series)?;
    }
    Ok(())
}

fn draw_series(
    paper: &Paper,
    chart: &mut ChartContext<'_, SVGBackend<'_>, Plane>,
    axis: &Axis<'_>,
    series: &Series<'_>,
) -> Result<()> {
    let colour = paper.colour(series.engine);
    let points = || series.points.iter().copied();
    if axis.is_number && series.points.len() > 1 {
        match series.source {
            Source::Paper => {
                let path = DashedPathElement::new(points(), 5, 4, colour.stroke_width(1));
                chart.draw_series([path])?;
            }
            source => {
                let path: Vec<(f64, f64)> = points().collect();
                chart.draw_series([PathElement::new(
                    path,
                    colour.stroke_width(width(paper, source)),
                )])?;
            }
        }
    }
    match series.source {
        Source::Paper => chart.draw_series(points().map(|point| cross(point, colour)))?,
        source => chart.draw_series(points().map(|point| circle(paper, point, source, colour)))?,
    };
    Ok(())
}

fn is_thin(paper: &Paper, source: Source) -> bool {
    matches!(source, Source::Ours(kind) if paper.is_thin(kind))
}

fn width(paper: &Paper, source: Source) -> u32 {
    if is_thin(paper, source) { 1 } else { 2 }
}

/// The mark of what was measured; [`cross`] is the paper's.
fn circle<C>(paper: &Paper, point: C, source: Source, colour: RGBColor) -> Circle<C, i32> {
    let is_hollow = is_thin(paper, source);
    Circle::new(point, 4, if is_hollow { colour.stroke_width(1) } else { colour.filled() })
}

fn cross<C>(point: C, colour: RGBColor) -> Cross<C, i32> {
    Cross::new(point, 5, colour.stroke_width(2))
}

fn source_text(paper: &Paper, source: Source, unit: Unit) -> &'static str {
    match source {
        Source::Ours(kind) => paper.kind_text(kind, unit),
        Source::Paper => "the paper",
    }
}

fn draw_legend(paper: &Paper, area: &Area<'_>, rows: &[&Row]) -> Result<()> {
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
        area.draw(&Rectangle::new(square, paper.colour(engine).filled()))?;
        area.draw(&Text::new(paper.engine_text(engine), (52, y), style.clone()))?;
        y += 24;
    }
    y += 16;
    for (source, unit) in sources {
        let ends = [(4, y), (44, y)];
        if source == Source::Paper {
            area.draw(&DashedPathElement::new(ends, 5, 4, INK.stroke_width(1)))?;
            area.draw(&cross((24, y), INK))?;
        } else {
            area.draw(&circle(paper, (24, y), source, INK))?;
            area.draw(&PathElement::new(ends, INK.stroke_width(width(paper, source))))?;
        }
        area.draw(&Text::new(source_text(paper, source, unit), (52, y), style.clone()))?;
        y += 24;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::paper::{GSWITCH, SNAP};
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
        let drawn = svg(&GSWITCH, &sweep, "day.csv", "8a").unwrap();
        // Five marks of ours, and one for each of the two kinds in the legend.
        assert_eq!(drawn.matches("<circle").count(), 5 + 2);
        for word in [
            "Figure 8a: rate by classes, N = 1K",
            "ours: A &lt;card&gt;",
            "; record day.csv",
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
        assert_eq!(drawn, svg(&GSWITCH, &sweep, "day.csv", "8a").unwrap());
        assert!(svg(&GSWITCH, &sweep, "day.csv", "9b").is_err(), "no row");
        assert!(svg(&GSWITCH, &sweep, "day.csv", "12").is_err(), "no such figure");
    }

    #[test]
    fn captions_name_record_commit_and_date() {
        let header = "figure,varied,value,engine,kind,batch,unit,ours,paper,commit,machine,date";
        let row =
            |batch| format!("7,rules,256,turbo,kernel,{batch},Mpps,9,,1a2b,A card,2026-11-25");
        let text = format!("# A card\n{header}\n{}\n{}\n", row(256), row(1024));
        let sweep = super::super::rows::read(&text).unwrap();
        let drawn = svg(&GSWITCH, &sweep, "day.csv", "7").unwrap();
        assert!(drawn.contains("; record day.csv, commit 1a2b, 2026-11-25\n"), "{drawn}");
    }

    #[test]
    fn all_engines_of_a_pipeline_stand_in_one_panel() {
        let sweep = sweep(&[
            "table1,pipeline,forwarder,cores,end-to-end,256,percent,100,100",
            "table1,pipeline,routes,cores,end-to-end,256,percent,50,62.7",
            "table1,pipeline,routes,card,end-to-end,2048,percent,80,",
            "latency,batch,512,mean,end-to-end,512,us,300,380.4",
            "latency,batch,512,mean,cpu,256,us,30,",
        ]);
        let drawn = svg(&SNAP, &sweep, "day.csv", "table1").unwrap();
        assert_eq!(drawn.matches("<circle").count(), 3 + 1);
        for word in ["percent of the forwarder", "all cores", "with the card", "Tesla C2070"] {
            assert!(drawn.contains(word), "{word}");
        }
        let drawn = svg(&SNAP, &sweep, "day.csv", "latency").unwrap();
        assert_eq!(drawn.matches("<circle").count(), 2 + 2);
        assert!(drawn.contains(">\nmicroseconds") && drawn.contains("without a card"), "{drawn}");
        assert!(svg(&SNAP, &sweep, "day.csv", "5a").is_err(), "a figure of another paper");
    }
}
