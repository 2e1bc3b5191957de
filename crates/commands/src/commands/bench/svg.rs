//! Small charts as SVG: bars by group, and lines.

use std::fmt::Write;

/// Size of a chart in pixels without its legend, and the room around its plot.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 30.0;

/// Size of a name in the legend, and how many stand side by side.
const NAME_WIDTH: f64 = 116.0;
const NAME_HEIGHT: f64 = 18.0;
const NAMES_PER_LINE: usize = 6;

/// Distinct in print and to colour-blind readers.
const COLOURS: [&str; 10] = [
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#ee7733",
    "#009988", "#332288",
];

/// Named values of one colour: one for each group of bars, or points of a line.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Axes of a chart.
pub struct Axes<'a> {
    pub title: &'a str,
    pub y_label: &'a str,
    /// Lowest value of the vertical axis.
    pub y_min: f64,
    /// Names of the groups; numbers are printed without.
    pub groups: &'a [String],
}

/// The least of 1, 2, 2.5 and 5 times a power of ten that divides `span` into at most five steps.
fn step_of(span: f64) -> f64 {
    let power = 10f64.powf((span / 5.0).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| span / step <= 5.0 + 1e-9).unwrap_or(span)
}

/// A chart of bars, grouped, if there are groups, else of lines.
pub fn chart(axes: &Axes<'_>, all: &[Series]) -> String {
    let points = || all.iter().flat_map(|series| &series.points);
    let y_max = points().map(|point| point.1).fold(axes.y_min, f64::max);
    let step = step_of(if y_max > axes.y_min { y_max - axes.y_min } else { 1.0 });
    let steps = ((y_max - axes.y_min) / step - 1e-9).ceil().max(1.0);
    let y_span = step * steps;
    let x_max = points().map(|point| point.0).fold(1.0, f64::max);
    let plot = (WIDTH - LEFT - 20.0, HEIGHT - TOP - BOTTOM);
    let y = |value: f64| TOP + plot.1 * (1.0 - (value.max(axes.y_min) - axes.y_min) / y_span);
    let height = HEIGHT + NAME_HEIGHT * all.len().div_ceil(NAMES_PER_LINE) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" \
         height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, content: &str| {
        _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"
        );
    };
    text(LEFT, 16.0, "start", &format!("{} ({})", axes.title, axes.y_label));
    for tick in 0..=steps as u32 {
        let value = axes.y_min + step * f64::from(tick);
        let rounded = (value * 1e6).round() / 1e6;
        text(LEFT - 6.0, y(value) + 4.0, "end", &rounded.to_string());
    }
    if axes.groups.is_empty() {
        text(LEFT, HEIGHT - BOTTOM + 16.0, "start", "0");
        text(LEFT + plot.0, HEIGHT - BOTTOM + 16.0, "end", &format!("{x_max}"));
    }
    let group = plot.0 / axes.groups.len().max(1) as f64;
    for (at, name) in axes.groups.iter().enumerate() {
        let middle = LEFT + group * (at as f64 + 0.5);
        text(middle, HEIGHT - BOTTOM + 16.0, "middle", name);
    }
    for (at, series) in all.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        if axes.groups.is_empty() {
            let place = |&(x, value): &(f64, f64)| {
                format!("{:.1},{:.1}", LEFT + plot.0 * x / x_max, y(value))
            };
            let line: Vec<String> = series.points.iter().map(place).collect();
            _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>",
                line.join(" ")
            );
            continue;
        }
        let bar = 0.85 * group / all.len() as f64;
        for &(x, value) in &series.points {
            _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"/>",
                LEFT + group * x + bar * at as f64,
                y(value),
                y(axes.y_min) - y(value),
            );
        }
    }
    svg + &legend(all) + "</svg>\n"
}

/// The names of the series, with their colours.
fn legend(all: &[Series]) -> String {
    let mut svg = String::new();
    for (at, series) in all.iter().enumerate() {
        let (line, column) = (at / NAMES_PER_LINE, at % NAMES_PER_LINE);
        let (x, y) = (LEFT + column as f64 * NAME_WIDTH, HEIGHT + line as f64 * NAME_HEIGHT);
        _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            COLOURS[at % COLOURS.len()],
            x + 14.0,
            y + 9.0,
            series.name,
        );
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        let cases = [(1.0, 0.2), (3.0, 1.0), (0.1, 0.02), (591.6, 200.0), (1100.0, 250.0)];
        for (span, step) in cases {
            assert!((step_of(span) / step - 1.0).abs() < 1e-9, "{span}: {}", step_of(span));
        }
    }

    #[test]
    fn draws_a_bar_for_each_value_and_a_line_for_each_series() {
        let series =
            |name: &str| Series { name: name.to_owned(), points: vec![(0.0, 1.0), (1.0, 3.0)] };
        let groups = ["R1".to_owned(), "R2".to_owned()];
        let mut axes = Axes { title: "rates", y_label: "Mpps", y_min: 0.0, groups: &groups };
        let bars = chart(&axes, &[series("a"), series("b")]);
        // The background, two in the legend, four bars.
        assert_eq!(bars.matches("<rect").count(), 7);
        axes.groups = &[];
        let lines = chart(&axes, &[series("a"), series("b")]);
        assert_eq!(lines.matches("<polyline").count(), 2);
        assert!(!lines.contains("NaN") && !chart(&axes, &[]).contains("NaN"));
    }
}
