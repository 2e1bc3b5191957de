//! Boxes and paths as SVG.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::super::args::split::split_args;
use super::super::expand::{FlatElement, FlatGraph};
use super::PortLook;
use super::layout::{Edge, Layout, Point, Shape};

/// Width of a character of the title and of smaller text; both fonts have one width for all.
const CHAR_WIDTH: f64 = 7.3;
const SMALL_CHAR_WIDTH: f64 = 6.1;
const LINE_HEIGHT: f64 = 13.0;
const PADDING: f64 = 9.0;
const PORT_SPACING: f64 = 22.0;
const PORT_SIZE: f64 = 7.0;
const MARGIN: f64 = 36.0;
const LEGEND_WIDTH: f64 = 820.0;
const DEVICE_LEGEND_WIDTH: f64 = 980.0;

/// The most characters of a title, and of a line of arguments.
const TITLE_CHARS_MAX: usize = 44;
const LINE_CHARS_MAX: usize = 34;
/// The most lines of arguments.
const LINES_MAX: usize = 3;

/// Tints of compounds, in turn.
const TINTS: [&str; 8] =
    ["#e3f0fb", "#fdeedb", "#e6f4e1", "#f6e4f1", "#fbf5cf", "#e0f3f1", "#efe7fa", "#fbe5e2"];

/// An element as it is drawn.
pub(super) struct Box {
    title: String,
    lines: Vec<String>,
    width: f64,
    height: f64,
    inputs: usize,
    outputs: usize,
    is_on_device: bool,
}

impl Box {
    pub(super) fn new(
        element: &FlatElement,
        is_on_device: bool,
        (inputs, outputs): &(Vec<PortLook>, Vec<PortLook>),
    ) -> Self {
        let (scope, name) = match element.name.rsplit_once('/') {
            Some((scope, name)) => (format!("{scope}/"), name),
            None => (String::new(), element.name.as_str()),
        };
        let number = name.strip_prefix(&element.class).and_then(|rest| rest.strip_prefix('@'));
        // A name that was not given says nothing.
        let title = match number {
            Some(_) if scope.is_empty() => element.class.clone(),
            Some(_) => format!("{scope} {}", element.class),
            None => format!("{} :: {}", element.name, element.class),
        };
        let title = shortened(&title, TITLE_CHARS_MAX);
        let lines = argument_lines(&element.config);
        let chars = |text: &str| text.chars().count() as f64;
        let text_width = lines
            .iter()
            .map(|line| chars(line) * SMALL_CHAR_WIDTH)
            .fold(chars(&title) * CHAR_WIDTH, f64::max);
        let ports = inputs.len().max(outputs.len()) as f64;
        let width = (text_width + 2.0 * PADDING).max((ports + 0.5) * PORT_SPACING).max(44.0);
        // Numbers of ports stand within the box, above and below the text.
        let numbers =
            f64::from(u8::from(inputs.len() > 1)) + f64::from(u8::from(outputs.len() > 1));
        let height = LINE_HEIGHT * (1.0 + lines.len() as f64) + 2.0 * PADDING + 9.0 * numbers;
        let (inputs, outputs) = (inputs.len(), outputs.len());
        Self { title, lines, width, height, inputs, outputs, is_on_device }
    }

    pub(super) fn shape(&self) -> Shape {
        let ports = |count: usize| {
            let spacing = (self.width / (count as f64 + 1.0)).min(PORT_SPACING * 3.0);
            let middle = (count as f64 - 1.0) / 2.0;
            (0..count).map(|port| (port as f64 - middle) * spacing).collect()
        };
        Shape {
            width: self.width,
            height: self.height,
            inputs: ports(self.inputs),
            outputs: ports(self.outputs),
        }
    }
}

/// Arguments, as many to a line as fit, the last line perhaps with a count of what is left out.
fn argument_lines(config: &str) -> Vec<String> {
    let args = split_args(config);
    let mut lines: Vec<String> = Vec::new();
    for (idx, arg) in args.iter().enumerate() {
        let arg: String = arg.split_whitespace().collect::<Vec<_>>().join(" ");
        let comma = if idx + 1 < args.len() { "," } else { "" };
        let arg = shortened(&arg, LINE_CHARS_MAX - 1) + comma;
        let last_chars = lines.last().map_or(LINE_CHARS_MAX, |line| line.chars().count());
        if last_chars + 1 + arg.chars().count() <= LINE_CHARS_MAX {
            let line = lines.last_mut().expect("a missing one counts as full");
            line.push(' ');
            line.push_str(&arg);
        } else if lines.len() < LINES_MAX {
            lines.push(arg);
        } else {
            let last = &mut lines[LINES_MAX - 1];
            *last = shortened(last, LINE_CHARS_MAX - 7) + &format!(" … +{}", args.len() - idx);
            break;
        }
    }
    lines
}

fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max - 1).collect();
    kept.trim_end().to_owned() + "…"
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            // XML has no place for these, not even escaped.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

const STYLE: &str = "\
text{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;text-anchor:middle;fill:#1a1a1a}
.t{font-size:12px;font-weight:bold}.a{font-size:10px;fill:#444}
.n{font-size:10px;font-weight:bold;fill:#14508c}
.l{font-size:10px;text-anchor:start}
.e{stroke:#3a3a3a;stroke-width:1.1}
.w{fill:none;stroke:#222;stroke-width:1.3}.w.l2{stroke:#1d6fb8;stroke-dasharray:5 3}
.h{fill:none;stroke:#fff;stroke-width:4}
.p{fill:#111;stroke:#111;stroke-width:1.1}.p.o{fill:#fff}
.r{fill:none;stroke:#111;stroke-width:.8}
.d{fill:url(#device);stroke:none}";

/// What boxes are shaded with whose work a device does.
const SHADE: &str = "<defs><pattern id=\"device\" width=\"7\" height=\"7\" \
    patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"3\" \
    height=\"7\" fill=\"#5a9e00\" fill-opacity=\".28\"/></pattern></defs>";

pub(super) fn draw(
    graph: &FlatGraph,
    boxes: &[Box],
    looks: &[(Vec<PortLook>, Vec<PortLook>)],
    edges: &[Edge],
    layout: &Layout,
) -> String {
    let mut out = String::new();
    write(graph, boxes, looks, edges, layout, &mut out).expect("a String takes every write");
    out
}

fn write(
    graph: &FlatGraph,
    boxes: &[Box],
    looks: &[(Vec<PortLook>, Vec<PortLook>)],
    edges: &[Edge],
    layout: &Layout,
    out: &mut String,
) -> std::fmt::Result {
    let has_device = boxes.iter().any(|shown| shown.is_on_device);
    let legend_width = if has_device { DEVICE_LEGEND_WIDTH } else { LEGEND_WIDTH };
    let width = (layout.width + 2.0 * MARGIN).max(legend_width);
    let tints = tints(graph);
    let names_height = if tints.is_empty() { 0.0 } else { 22.0 };
    let height = layout.height + 2.0 * MARGIN + 34.0 + names_height;
    let shade = if has_device { format!("{SHADE}\n") } else { String::new() };
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         {shade}<g transform=\"translate({MARGIN} {MARGIN})\">"
    )?;
    let paths: Vec<String> = layout.paths.iter().enumerate().map(|(i, p)| path(p, i)).collect();
    // A white edge around each wire shows which of two that cross is which.
    for (edge, path) in edges.iter().zip(&paths) {
        let is_push = looks[edge.from.0].1.get(edge.from.1).is_none_or(|look| look.is_push);
        let class = if is_push { "w" } else { "w l2" };
        writeln!(out, "<path class=\"h\" d=\"{path}\"/><path class=\"{class}\" d=\"{path}\"/>")?;
    }
    let tint_of: BTreeMap<&str, &str> = tints.iter().copied().collect();
    for (idx, element) in graph.elements.iter().enumerate() {
        let compound = element.name.split_once('/');
        let tint = compound.and_then(|(compound, _)| tint_of.get(compound).copied());
        let tint = tint.unwrap_or("#ffffff");
        write_box(element, &boxes[idx], &looks[idx], layout.boxes[idx], tint, out)?;
    }
    writeln!(out, "</g>")?;
    write_names(&tints, width, height - 46.0, out)?;
    write_legend(height - 24.0, has_device, out)?;
    out.push_str("</svg>\n");
    Ok(())
}

fn write_box(
    element: &FlatElement,
    shown: &Box,
    (inputs, outputs): &(Vec<PortLook>, Vec<PortLook>),
    top: Point,
    tint: &str,
    out: &mut String,
) -> std::fmt::Result {
    let shape = shown.shape();
    let (left, bottom) = (top.x - shown.width / 2.0, top.y + shown.height);
    let config = match element.config.trim() {
        "" => String::new(),
        config => format!("({config})"),
    };
    let about = format!("{}{config}\n{}", element.declaration(), element.landmark);
    writeln!(
        out,
        "<g><title>{}</title><rect class=\"e\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
         height=\"{:.1}\" rx=\"3\" fill=\"{tint}\"/>",
        escaped(&about),
        top.y,
        shown.width,
        shown.height
    )?;
    if shown.is_on_device {
        let (x, y, width, height) =
            (left + 0.6, top.y + 0.6, shown.width - 1.2, shown.height - 1.2);
        writeln!(
            out,
            "<rect class=\"d\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\" rx=\"3\"/>"
        )?;
    }
    let mut y = top.y + PADDING + 10.0 + if inputs.len() > 1 { 9.0 } else { 0.0 };
    writeln!(
        out,
        "<text class=\"t\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
        top.x,
        escaped(&shown.title)
    )?;
    for line in &shown.lines {
        y += LINE_HEIGHT;
        writeln!(
            out,
            "<text class=\"a\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            top.x,
            escaped(line)
        )?;
    }
    for (port, (look, offset)) in inputs.iter().zip(&shape.inputs).enumerate() {
        write_input(*look, top.x + offset, top.y, out)?;
        if inputs.len() > 1 {
            let (x, y) = (top.x + offset, top.y + 10.0);
            writeln!(out, "<text class=\"n\" x=\"{x:.1}\" y=\"{y:.1}\">{port}</text>")?;
        }
    }
    for (port, (look, offset)) in outputs.iter().zip(&shape.outputs).enumerate() {
        write_output(*look, top.x + offset, bottom, out)?;
        if outputs.len() > 1 {
            let (x, y) = (top.x + offset, bottom - 5.0);
            writeln!(out, "<text class=\"n\" x=\"{x:.1}\" y=\"{y:.1}\">{port}</text>")?;
        }
    }
    out.push_str("</g>\n");
    Ok(())
}

fn port_class(look: PortLook) -> &'static str {
    if look.is_push { "p" } else { "p o" }
}

/// A triangle that points into the box.
fn write_input(look: PortLook, x: f64, y: f64, out: &mut String) -> std::fmt::Result {
    let triangle = |half: f64, top: f64, tip: f64| {
        let (left, right) = (x - half, x + half);
        let (top, tip) = (y + top, y + tip);
        format!("M{left:.1} {top:.1}L{right:.1} {top:.1}L{x:.1} {tip:.1}Z")
    };
    let half = PORT_SIZE * 0.62;
    let class = port_class(look);
    write!(out, "<path class=\"{class}\" d=\"{}\"/>", triangle(half, -PORT_SIZE, 0.0))?;
    if look.is_agnostic {
        let outer = triangle(half + 4.3, -PORT_SIZE - 2.2, 4.4);
        write!(out, "<path class=\"r\" d=\"{outer}\"/>")?;
    }
    out.push('\n');
    Ok(())
}

/// A square below the box.
fn write_output(look: PortLook, x: f64, y: f64, out: &mut String) -> std::fmt::Result {
    let square = |class: &str, grow: f64| {
        let side = PORT_SIZE + 2.0 * grow;
        let (left, top) = (x - side / 2.0, y - grow);
        format!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{side:.1}\" \
             height=\"{side:.1}\"/>"
        )
    };
    out.push_str(&square(port_class(look), 0.0));
    if look.is_agnostic {
        out.push_str(&square("r", 2.2));
    }
    out.push('\n');
    Ok(())
}

/// A path through points: lines within pairs, curves from pair to pair, upright at each end.
fn path(points: &[Point], idx: usize) -> String {
    let mut out = String::new();
    // Turns of different wires keep apart.
    let turn = 20.0 + 5.0 * (idx % 4) as f64;
    for (at, pair) in points.chunks_exact(2).enumerate() {
        let (first, last) = (pair[0], pair[1]);
        if at == 0 {
            let _ = write!(out, "M{:.1} {:.1}", first.x, first.y);
        } else {
            let before = points[2 * at - 1];
            let is_end = 2 * at + 2 == points.len();
            let goes_up = |from: Point, to: Point| to.y < from.y;
            // The way a wire leaves the point before, and comes to this one: down unless it is
            // part of a way up.
            let leaves_up = at > 1 && goes_up(points[2 * at - 2], before);
            let comes_up = !is_end && goes_up(first, last);
            let reach = if leaves_up == comes_up {
                ((first.y - before.y).abs() / 2.0).max(12.0)
            } else {
                turn
            };
            let from_y = before.y + if leaves_up { -reach } else { reach };
            let to_y = first.y + if comes_up { reach } else { -reach };
            let _ = write!(
                out,
                "C{:.1} {from_y:.1} {:.1} {to_y:.1} {:.1} {:.1}",
                before.x, first.x, first.x, first.y
            );
        }
        if first != last {
            let _ = write!(out, "L{:.1} {:.1}", last.x, last.y);
        }
    }
    out
}

/// The tint of each compound, in the order of their elements.
fn tints(graph: &FlatGraph) -> Vec<(&str, &'static str)> {
    let mut tints: Vec<(&str, &str)> = Vec::new();
    let mut known = BTreeSet::new();
    for element in &graph.elements {
        if let Some((compound, _)) = element.name.split_once('/')
            && known.insert(compound)
        {
            tints.push((compound, TINTS[tints.len() % TINTS.len()]));
        }
    }
    tints
}

/// What each tint stands for, as far as there is room.
fn write_names(tints: &[(&str, &str)], width: f64, y: f64, out: &mut String) -> std::fmt::Result {
    let mut x = MARGIN;
    for (name, tint) in tints {
        let name = shortened(name, TITLE_CHARS_MAX);
        let end = x + 28.0 + name.chars().count() as f64 * SMALL_CHAR_WIDTH;
        if end > width - MARGIN {
            return Ok(());
        }
        writeln!(
            out,
            "<rect class=\"e\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"10\" \
             fill=\"{tint}\"/><text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            y - 1.0,
            x + 17.0,
            y + 8.0,
            escaped(&name)
        )?;
        x = end + 14.0;
    }
    Ok(())
}

fn write_legend(y: f64, has_device: bool, out: &mut String) -> std::fmt::Result {
    let looks = [("push", true, false), ("pull", false, false), ("agnostic", true, true)];
    let mut x = MARGIN;
    for (text, is_push, is_agnostic) in looks {
        let look = PortLook { is_push, is_agnostic };
        write_input(look, x, y + 7.0, out)?;
        write_output(look, x + 18.0, y, out)?;
        writeln!(
            out,
            "<text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
            x + 32.0,
            y + 7.0
        )?;
        x += 50.0 + text.len() as f64 * 7.0;
    }
    for (text, class) in [("pushed", "w"), ("pulled", "w l2")] {
        let (end, base) = (x + 34.0, y + 4.0);
        writeln!(out, "<path class=\"{class}\" d=\"M{x:.1} {base:.1}L{end:.1} {base:.1}\"/>")?;
        writeln!(
            out,
            "<text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
            end + 8.0,
            y + 7.0
        )?;
        x += 60.0 + text.len() as f64 * 7.0;
    }
    let device = if has_device { "; hatched: on a device" } else { "" };
    let text = format!("▽ input  □ output; same tint: members of one compound{device}");
    writeln!(out, "<text class=\"l\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>", x + 8.0, y + 7.0)
}
