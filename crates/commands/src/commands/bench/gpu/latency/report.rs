//! What was measured of frames, for people and for programs.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use warpswitch_gpu::resident::FramesCount;
use warpswitch_provenance::csv_text;
use warpswitch_rules::RuleId;

use super::super::{digest, wrong_text};
use super::scenarios::Scenario;
use crate::commands::bench::check::Reference;
use crate::human::{self, rounded};
use crate::table::{Align, Table, title};
use crate::term::{BAD, FAINT, paint};

/// The way that frames went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// On one core.
    Cpu,
    /// To the kernel that stays.
    Resident,
    /// By a launch each.
    Launched,
    /// As engines submit batches, by `--resident`.
    Engine,
    /// No frames: a core reads the clock for as long as one takes.
    Clock,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Cpu => "one core",
            Way::Resident => "resident",
            Way::Launched => "launched",
            Way::Engine => "engine",
            Way::Clock => "clock alone",
        })
    }
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct LatencyReport {
    device: String,
    /// Frames under way at a time.
    under_way: usize,
    pub figures: Vec<Figure>,
}

/// One engine, one way, one rule set. Times in microseconds.
#[derive(Debug, Serialize)]
pub struct Figure {
    case: String,
    rules: usize,
    /// Different masks, where the scenario has a number of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    masks: Option<usize>,
    engine: String,
    way: Way,
    frame: usize,
    frames: u64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    mean_us: f64,
    mpps: f64,
    /// The part of all frames that the kernel that stays took.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_share: Option<f64>,
    /// Times that a frame was so late that the kernel was started anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    doubts: Option<u64>,
    /// Times that this thread did not run for half a millisecond while a frame was under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pauses: Option<u64>,
    checked: usize,
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Figure {
    /// Nothing measured yet.
    pub fn new(way: Way, case: &Scenario, frame: usize) -> Self {
        let masks = (case.masks > 0).then_some(case.masks);
        Self {
            case: case.name.clone(),
            rules: case.ruleset.len(),
            masks,
            ..Self::empty(way, frame)
        }
    }

    fn empty(way: Way, frame: usize) -> Self {
        Self {
            case: String::new(),
            rules: 0,
            masks: None,
            engine: String::new(),
            way,
            frame,
            frames: 0,
            p50_us: 0.0,
            p99_us: 0.0,
            p999_us: 0.0,
            max_us: 0.0,
            mean_us: 0.0,
            mpps: 0.0,
            resident_share: None,
            doubts: None,
            pauses: None,
            checked: 0,
            digest: None,
            error: None,
        }
    }

    /// Of a core that reads the clock.
    pub fn of_clock(frame: usize) -> Self {
        let (case, engine) = ("nothing".to_owned(), "none".to_owned());
        Self { case, engine, ..Self::empty(Way::Clock, frame) }
    }

    /// The same, of this engine.
    pub fn named(mut self, engine: String) -> Self {
        self.engine = engine;
        self
    }

    /// Holds the answers against the reference.
    pub fn check(&mut self, reference: &Reference, answers: &[RuleId]) {
        self.error = reference.first_wrong(answers).map(wrong_text);
        self.checked = reference.len();
        self.digest = Some(digest(answers).to_string());
    }

    /// Notes the times; `took` is how long all frames took together.
    pub fn set_times(&mut self, times: &Histogram<u64>, took: Duration) {
        let us = |ns: u64| rounded(ns as f64 / 1e3, 2);
        self.frames = times.len();
        self.p50_us = us(times.value_at_quantile(0.5));
        self.p99_us = us(times.value_at_quantile(0.99));
        self.p999_us = us(times.value_at_quantile(0.999));
        self.max_us = us(times.max());
        self.mean_us = rounded(times.mean() / 1e3, 2);
        let frame = if self.way == Way::Clock { 0 } else { self.frame };
        let keys = times.len() as f64 * frame as f64;
        self.mpps = rounded(keys / took.as_secs_f64().max(1e-9) / 1e6, 2);
    }

    /// Notes how many frames the kernel that stays took.
    pub fn set_share(&mut self, count: &FramesCount) {
        let all = count.resident + count.launched + count.rescued;
        self.resident_share = Some(rounded(count.resident as f64 / all.max(1) as f64, 4));
        (self.doubts, self.pauses) = (Some(count.doubts), Some(count.pauses));
    }
}

impl LatencyReport {
    /// Nothing measured yet.
    pub fn new(device: &str, under_way: usize) -> Self {
        Self { device: device.to_owned(), under_way, figures: Vec::new() }
    }

    /// What a frame takes in the middle, by the kernel that stays, if it was measured.
    pub fn usual_resident(&self) -> Option<Duration> {
        let is_one = |figure: &&Figure| figure.way == Way::Resident && figure.frames > 0;
        let times = self.figures.iter().filter(is_one).map(|figure| figure.p50_us);
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        let middle = *times.get(times.len() / 2)?;
        Some(Duration::from_nanos((middle * 1e3) as u64))
    }

    /// A line for each figure; the first names the columns.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "case,rules,masks,engine,way,frame,under_way,frames,p50_us,p99_us,p999_us,max_us,\
             mean_us,mpps,resident_share,doubts,pauses,checked,digest\n",
        );
        for figure in &self.figures {
            if let Some(error) = &figure.error {
                text += &format!("# {} {}: {error}\n", figure.case, figure.engine);
                continue;
            }
            text += &format!(
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                csv_text(&figure.case),
                figure.rules,
                figure.masks.map_or(String::new(), |masks| masks.to_string()),
                figure.engine,
                format!("{:?}", figure.way).to_lowercase(),
                figure.frame,
                self.under_way,
                figure.frames,
                figure.p50_us,
                figure.p99_us,
                figure.p999_us,
                figure.max_us,
                figure.mean_us,
                figure.mpps,
                figure.resident_share.map_or(String::new(), |share| share.to_string()),
                figure.doubts.map_or(String::new(), |count| count.to_string()),
                figure.pauses.map_or(String::new(), |count| count.to_string()),
                figure.checked,
                figure.digest.as_deref().unwrap_or(""),
            );
        }
        text
    }

    /// The report for people.
    pub fn render(&self) -> String {
        let frame = self.figures.first().map_or(0, |figure| figure.frame);
        let aside = format!("{}, {} in flight", self.device, self.under_way);
        let mut text = title(&format!("Frames of {}", human::counted(frame, "packet")), &aside);
        let right = Align::Right;
        let mut table = Table::new(&[
            ("rules", Align::Left),
            ("count", right),
            ("engine", Align::Left),
            ("way", Align::Left),
            ("p50 us", right),
            ("p99 us", right),
            ("p99.9 us", right),
            ("max us", right),
            ("mean us", right),
            ("Mpps", right),
            ("to a core", right),
        ]);
        for figure in &self.figures {
            if let Some(error) = &figure.error {
                table.styled_row(BAD, [figure.case.clone(), String::new(), error.clone()]);
                continue;
            }
            let time = |us: f64| format!("{us:.2}");
            table.row([
                figure.case.clone(),
                human::count(figure.rules as u64),
                figure.engine.clone(),
                figure.way.to_string(),
                time(figure.p50_us),
                time(figure.p99_us),
                time(figure.p999_us),
                time(figure.max_us),
                time(figure.mean_us),
                time(figure.mpps),
                self.ratio(figure).map_or(String::new(), |ratio| format!("{ratio:.2}")),
            ]);
        }
        text += &table.render();
        let frames = self.figures.iter().map(|figure| figure.frames).max().unwrap_or(0);
        let footer = format!(
            "{} frames each, timed from before the first key is written to after the last result \
             is read; 'clock alone' is a core that only reads the clock for a frame's typical \
             time: its excess is jitter of the machine",
            human::count(frames)
        );
        text + &format!("{}\n", paint(FAINT, footer))
    }

    /// How many times faster than the first engine on one core a frame is answered on average.
    fn ratio(&self, figure: &Figure) -> Option<f64> {
        let is_core = |other: &&Figure| {
            other.way == Way::Cpu && (&other.case, other.rules) == (&figure.case, figure.rules)
        };
        let is_compared = !matches!(figure.way, Way::Cpu | Way::Clock);
        let core = self.figures.iter().find(is_core).filter(|_| is_compared)?;
        Some(core.mean_us / figure.mean_us.max(1e-3))
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenarios;
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_samples() {
        let scenario = scenarios::all(10).remove(0);
        let mut times = super::super::histogram();
        (1..=1000).for_each(|us| times.record(us * 1000).expect("it is within bounds"));
        let mut figure = Figure::new(Way::Cpu, &scenario, 256).named("turbo".into());
        figure.set_times(&times, Duration::from_millis(10));
        // Three digits are kept.
        let near = |got: f64, want: f64| (got - want).abs() <= want / 1000.0;
        assert!(near(figure.p50_us, 500.0) && near(figure.p99_us, 990.0), "{figure:?}");
        assert!(near(figure.p999_us, 999.0) && near(figure.max_us, 1000.0), "{figure:?}");
        assert_eq!((figure.mpps, figure.frames), (25.6, 1000));

        let mut faster = Figure::new(Way::Resident, &scenario, 256).named("gpu:turbo".into());
        faster.set_times(&times, Duration::from_millis(10));
        faster.mean_us /= 2.0;
        let mut report = LatencyReport::new("card", 1);
        report.figures = vec![figure, faster];
        assert_eq!(report.ratio(&report.figures[1]).map(|ratio| ratio.round()), Some(2.0));
        assert_eq!(report.to_csv().lines().count(), 3);
        assert!(report.to_csv().contains("no match,1,1,gpu:turbo,resident,256,1,1000,"));
        assert!(report.render().contains("resident"));
        assert_eq!(report.usual_resident(), Some(Duration::from_nanos(500_220)));
    }
}
