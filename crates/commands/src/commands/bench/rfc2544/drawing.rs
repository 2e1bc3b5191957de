//! The report as SVG: throughput by frame size, and loss by offered load.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::report::{Report, SizeReport};

const SIZE: (u32, u32) = (1100, 460);
const HEAD_HEIGHT: u32 = 44;
const FONT: &str = "sans-serif";
/// Colours of frame sizes (Okabe and Ito: distinct for colour-blind readers).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(150, 120, 0),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the report; `caption` names machine and commit.
///
/// # Errors
/// Those of the drawing library.
pub fn svg(report: &Report, caption: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(&root, report, caption).map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(text)
}

fn draw(root: &Area<'_>, report: &Report, caption: &str) -> Result<(), Box<dyn std::error::Error>> {
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD_HEIGHT);
    let title = format!("RFC 2544: {}; {caption}", report.device);
    head.draw(&Text::new(title, (16, 14), (FONT, 17).into_font()))?;
    let (left, right) = body.split_horizontally(SIZE.0 / 2);
    draw_throughput(&left, &report.sizes)?;
    draw_loss(&right, &report.sizes)?;
    root.present()?;
    Ok(())
}

fn draw_throughput(
    area: &Area<'_>,
    sizes: &[SizeReport],
) -> Result<(), Box<dyn std::error::Error>> {
    let mpps = |pps: f64| pps / 1e6;
    let top = sizes.iter().map(|size| mpps(size.pps_max)).fold(0.0, f64::max).max(1e-6) * 1.1;
    let right = sizes.len().max(1) as f64 - 0.5;
    let mut chart = ChartBuilder::on(area)
        .caption("throughput (filled) of the highest rate (line)", (FONT, 15))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.5..right, 0.0..top)?;
    let name = |x: &f64| {
        let is_whole = (x - x.round()).abs() < 1e-9 && *x >= 0.0;
        let size = is_whole.then(|| sizes.get(x.round() as usize)).flatten();
        size.map(|size| size.size.clone()).unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(0)
        .x_labels(2 * sizes.len() + 1)
        .x_label_formatter(&name)
        .x_desc("bytes of a frame")
        .y_desc("Mpps")
        .draw()?;
    chart.draw_series(sizes.iter().enumerate().filter_map(|(at, size)| {
        let pps = size.throughput.as_ref()?.pps;
        let x = at as f64;
        let corners = [(x - 0.3, 0.0), (x + 0.3, mpps(pps))];
        Some(Rectangle::new(corners, COLOURS[0].filled()))
    }))?;
    chart.draw_series(sizes.iter().enumerate().map(|(at, size)| {
        let (x, y) = (at as f64, mpps(size.pps_max));
        PathElement::new(vec![(x - 0.4, y), (x + 0.4, y)], BLACK.stroke_width(2))
    }))?;
    Ok(())
}

fn draw_loss(area: &Area<'_>, sizes: &[SizeReport]) -> Result<(), Box<dyn std::error::Error>> {
    let points = || sizes.iter().flat_map(|size| &size.loss);
    let top = points().map(|point| point.loss_ratio * 100.0).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("frame loss rate", (FONT, 15))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..100.0, 0.0..(top * 1.1).max(1.0))?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_desc("offered load in % of the highest rate")
        .y_desc("lost frames in %")
        .draw()?;
    for (size, colour) in sizes.iter().zip(COLOURS.iter().cycle()) {
        let line: Vec<(f64, f64)> = size
            .loss
            .iter()
            .map(|point| (f64::from(point.load_percent), point.loss_ratio * 100.0))
            .collect();
        let dots = line.iter().map(|&point| Circle::new(point, 3, colour.filled()));
        chart.draw_series(dots.collect::<Vec<_>>())?;
        chart
            .draw_series([PathElement::new(line, colour.stroke_width(2))])?
            .label(size.size.clone())
            .legend(|(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::example;
    use super::*;

    #[test]
    fn draws_a_bar_per_size_and_a_line_per_loss_curve() {
        let text = svg(&example(), "test machine").unwrap();
        assert!(text.starts_with("<svg") && text.contains("test machine"));
        assert!(text.matches("#0072B2").count() > 2, "{text}");
        let mut empty = example();
        empty.sizes.clear();
        assert!(svg(&empty, "").is_ok(), "without sizes there are axes");
    }
}
