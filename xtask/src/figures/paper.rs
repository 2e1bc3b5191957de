//! The papers whose figures are drawn anew: what each figure shows, on which machine, and what the
//! words of a file of rows stand for.

use plotters::style::RGBColor;

use super::rows::{Kind, Row, Unit};

/// A paper.
pub struct Paper {
    /// What files of rows are called behind their date, and drawings before their figure.
    pub name: &'static str,
    /// The machine that it measured on.
    pub machine: &'static str,
    /// Each figure and its title.
    figures: &'static [(&'static str, &'static str)],
    /// What is compared, in the order in which marks stand side by side.
    engines: &'static [Engine],
    /// What kinds of numbers are called; the first name that fits.
    kinds: &'static [(Kind, Option<Unit>, &'static str)],
    /// The kind that is drawn with thin lines and hollow marks.
    thin: Kind,
    /// What [`Unit::Us`] is of.
    us: &'static str,
    /// Whether other batches have a panel of their own, as have numbers of the CPU.
    has_panels: bool,
}

/// What is compared with others.
struct Engine {
    name: &'static str,
    text: &'static str,
    colour: RGBColor,
}

const fn engine(name: &'static str, text: &'static str, (r, g, b): (u8, u8, u8)) -> Engine {
    Engine { name, text, colour: RGBColor(r, g, b) }
}

const ORANGE: (u8, u8, u8) = (196, 78, 0);
const GREEN: (u8, u8, u8) = (0, 138, 100);
const BLUE: (u8, u8, u8) = (0, 100, 190);
const PURPLE: (u8, u8, u8) = (140, 60, 170);
const FAINT: RGBColor = RGBColor(110, 110, 110);

/// Varvello, Laufer, Zhang, Lakshman: Multi-layer packet classification with graphics processing
/// units, CoNEXT 2014.
pub const GSWITCH: Paper = Paper {
    name: "gswitch",
    machine: "GTX 580, two Xeon X5550",
    figures: &[
        ("5a", "Figure 5a: time of a batch, N = 1K, C = 128"),
        ("5b", "Figure 5b: rate by batch, N = 1K, C = 128"),
        ("5c", "Figure 5c: rate by classes of 282 rules"),
        ("6a", "Figure 6a: the card against cores of the CPU, N = 128K, C = 512"),
        ("6b", "Figure 6b: rate by batch, N = 128K, C = 512"),
        ("6c", "Figure 6c: sets in the styles of ClassBench, 5 fields"),
        ("7", "Figure 7: rate by rules, 256 a class"),
        ("8a", "Figure 8a: rate by classes, N = 1K"),
        ("8b", "Figure 8b: rate by classes, N = 8K"),
        ("8c", "Figure 8c: rate by classes, N = 32K"),
        ("9a", "Figure 9a: rate by full classes, N = 1K, C = 128"),
        ("9b", "Figure 9b: rate by classes that match a packet, N = 1K, C = F = 128"),
        ("9c", "Figure 9c: rate by fields of a packet, N = 1K, C = F = 128"),
    ],
    engines: &[
        engine("linear", "linear", ORANGE),
        engine("tuple", "tuple", GREEN),
        engine("bloom", "bloom", BLUE),
        engine("turbo", "turbo", PURPLE),
    ],
    kinds: &[
        (Kind::EndToEnd, Some(Unit::Us), "one batch at a time"),
        (Kind::EndToEnd, None, "end to end"),
        (Kind::Kernel, None, "kernel alone"),
        (Kind::Cpu, None, "CPU"),
        (Kind::Speedup, None, "card over CPU"),
    ],
    thin: Kind::Kernel,
    us: "microseconds a batch",
    has_panels: true,
};

/// Sun, Ricci: Fast and flexible: parallel packet processing with GPUs and Click, ANCS 2013.
pub const SNAP: Paper = Paper {
    name: "snap",
    machine: "Tesla C2070, one Core i7 930, four ports of 10 Gbit/s",
    figures: &[
        ("table1", "Table 1: rates of pipelines, frames of 64 bytes"),
        ("2a", "Figure 2: lookups of routes by batch"),
        ("2b", "Figure 2: classification by batch, 10,000 rules"),
        ("2c", "Figure 2: search for 10,000 patterns by batch, payloads of 64 bytes"),
        ("8a", "Figure 8a: a forwarder by rules"),
        ("8b", "Figure 8b: routes and detection"),
        ("8c", "Figure 8c: rules, routes and detection"),
        ("9", "Figure 9: rules, routes and two matchers, of which a predicate picks one"),
        ("11", "Figure 11: a whole IP router with detection"),
        ("batch", "Rate by packets of a wide batch, frames of 64 bytes, all cores (section 4.4)"),
        ("latency", "Time by packets of a wide batch: rules, routes, detection (section 4.4)"),
        ("timeout", "Time by time-out of a wide batch: rules, routes, detection (section 4.4)"),
    ],
    engines: &[
        engine("frames", "whole packets", GREEN),
        engine("cores", "all cores", ORANGE),
        engine("card", "with the card", BLUE),
        engine("forward", "forwarder", PURPLE),
        engine("headers", "rules, routes", GREEN),
        engine("ids", "with detection", BLUE),
        engine("p50", "p50", GREEN),
        engine("mean", "mean", BLUE),
        engine("p99", "p99", PURPLE),
        engine("max", "max", ORANGE),
    ],
    kinds: &[
        (Kind::EndToEnd, None, "ours"),
        (Kind::Kernel, None, "ours, kernel alone"),
        (Kind::Cpu, None, "without a card"),
    ],
    thin: Kind::Kernel,
    us: "microseconds",
    has_panels: false,
};

impl Paper {
    /// The paper whose numbers a file of this name has beside ours: `DATE-NAME.csv`.
    pub fn of_file(stem: &str) -> Option<&'static Self> {
        [&GSWITCH, &SNAP].into_iter().find(|paper| stem.ends_with(paper.name))
    }

    /// The title of a figure, or nothing if the paper has no such figure.
    pub fn title(&self, figure: &str) -> Option<&'static str> {
        self.figures.iter().find(|(name, _)| *name == figure).map(|(_, title)| *title)
    }

    fn engine(&self, name: &str) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.name == name)
    }

    /// Whether it compares such an engine.
    #[cfg(test)]
    pub fn knows(&self, engine: &str) -> bool {
        self.engine(engine).is_some()
    }

    /// The colour of an engine.
    pub fn colour(&self, engine: &str) -> RGBColor {
        self.engine(engine).map_or(FAINT, |engine| engine.colour)
    }

    /// What an engine is called.
    pub fn engine_text(&self, name: &str) -> String {
        self.engine(name).map_or(name, |engine| engine.text).to_owned()
    }

    /// How many marks stand before that of `engine` where all stand side by side, from the middle.
    pub fn rank(&self, engine: &str) -> f64 {
        let idx = self.engines.iter().position(|known| known.name == engine).unwrap_or(0);
        (idx % 4) as f64 - 1.5
    }

    /// What our numbers of a kind are called.
    pub fn kind_text(&self, kind: Kind, unit: Unit) -> &'static str {
        let fits = |of: &Option<Unit>| of.is_none_or(|of| of == unit);
        let found = self.kinds.iter().find(|(known, of, _)| *known == kind && fits(of));
        found.map_or("ours", |(_, _, text)| text)
    }

    /// Whether a kind is drawn with thin lines and hollow marks.
    pub fn is_thin(&self, kind: Kind) -> bool {
        kind == self.thin || (!self.has_panels && kind == Kind::Cpu)
    }

    /// What a unit is called at its axis.
    pub fn unit_text(&self, unit: Unit) -> &'static str {
        match unit {
            Unit::Mpps => "million packets a second",
            Unit::Gbps => "Gbit/s on the wire",
            Unit::Us => self.us,
            Unit::Times => "times the rate of the CPU",
            Unit::Percent => "percent of the forwarder's rate",
        }
    }

    /// Tells rows of one panel from others, and orders panels; the CPU's come last.
    pub fn panel(&self, row: &Row) -> (Unit, u64) {
        match (row.kind, row.varied.as_str()) {
            _ if !self.has_panels => (row.unit, 0),
            (Kind::Cpu, _) => (row.unit, u64::MAX),
            (_, "batch") => (row.unit, 0),
            _ => (row.unit, row.batch),
        }
    }

    /// What stands above a panel.
    pub fn panel_text(&self, row: &Row, batch: &str) -> String {
        match (row.kind, row.varied.as_str()) {
            _ if !self.has_panels => String::new(),
            (Kind::Cpu, "cores") => "the CPU".to_owned(),
            (Kind::Cpu, _) => "the CPU, at most eight cores".to_owned(),
            (_, "batch") => String::new(),
            _ => format!("batches of {batch}"),
        }
    }
}
