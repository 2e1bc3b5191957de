//! Small charts as SVG: bars by group, and lines.

use std::fmt::Write;

/// Size of a chart in pixels, and the room around its plot.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 60.0;
const TOP: f64 = 30.0;

/// Distinct in print and to colour-blind readers.
const COLOURS: [&str; 7] =
    ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777"];

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

/// A chart of bars, grouped, if there are groups, else of lines.
pub fn chart(axes: &Axes<'_>, all: &[Series]) -> String {
    let points = || all.iter().flat_map(|series| &series.points);
    let y_max = points().map(|point| point.1).fold(axes.y_min, f64::max);
    let y_span = if y_max > axes.y_min { y_max - axes.y_min } else { 1.0 };
    let x_max = points().map(|point| point.0).fold(1.0, f64::max);
    let plot = (WIDTH - LEFT - 20.0, HEIGHT - TOP - BOTTOM);
    let y = |value: f64| TOP + plot.1 * (1.0 - (value.max(axes.y_min) - axes.y_min) / y_span);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let mut text = |x: f64, y: f64, anchor: &str, content: &str| {
        _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{content}</text>"
        );
    };
    text(LEFT, 16.0, "start", &format!("{} ({})", axes.title, axes.y_label));
    for tick in 0..=4 {
        let value = axes.y_min + y_span * f64::from(tick) / 4.0;
        text(LEFT - 6.0, y(value) + 4.0, "end", &format!("{value:.2}"));
    }
    for (at, series) in all.iter().enumerate() {
        text(LEFT + 14.0 + at as f64 * 108.0, HEIGHT - 8.0, "start", &series.name);
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
        let legend = LEFT + at as f64 * 108.0;
        _ = writeln!(
            svg,
            "<rect x=\"{legend:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>",
            HEIGHT - 17.0
        );
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
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

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
