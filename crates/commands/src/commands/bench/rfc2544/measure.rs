//! The tests, one frame size after the other.

use std::time::Duration;

use anyhow::bail;

use super::report::{BurstReport, LatencyReport, LossReport, Report, SizeReport, ThroughputReport};
use super::search::{Goal, Passed, search};
use super::{BenchRfc2544Args, Router, Test};
use crate::exit::bad_input;
use crate::human::{rate, rounded};
use crate::interrupt;
use crate::measure::median;
use crate::term::Progress;
use crate::traffic::{
    FLOWS_MAX, FrameSet, FrameSize, Interfaces, Latency, Limit, Macs, Rate, Session, Trial,
    TrialResult, mean_wire_bytes,
};

/// A sender that reaches less than this part of a rate is too slow.
const REACHED: f64 = 0.98;
/// Part of a full trial in which the highest rate is measured.
const SPEED_PART: f64 = 0.25;
/// Frames of the shortest trial worth a rate.
const FRAMES_MIN: f64 = 10.0;
/// Steps of the offered load of the loss curve, in percent.
const LOSS_STEP: u32 = 10;
/// The longest burst, as a part of a full trial at the highest rate; RFC 9004 allows 2 s.
const BURST_PART: f64 = 0.2;

/// An open measurement.
pub struct Bench<'a> {
    args: &'a BenchRfc2544Args,
    session: Session,
    macs: Macs,
    router: Option<&'a mut Router>,
    progress: Progress,
}

impl<'a> Bench<'a> {
    /// Opens the interfaces and resolves the gateway.
    ///
    /// # Errors
    /// Interfaces that cannot be opened; a gateway that does not answer.
    pub fn open(
        args: &'a BenchRfc2544Args,
        interfaces: &Interfaces,
        router: Option<&'a mut Router>,
    ) -> anyhow::Result<Self> {
        if args.flows > FLOWS_MAX {
            return Err(bad_input(format!("--flows is at most {FLOWS_MAX}")));
        }
        let sources = args.link.flows(FrameSize::Imix, args.flows).addresses();
        let mut session = args.link.open(interfaces, sources, false)?;
        let progress = Progress::spinner("learning addresses");
        let macs = args.link.macs(&mut session)?;
        Ok(Self { args, session, macs, router, progress })
    }

    /// Runs the tests.
    ///
    /// # Errors
    /// A device that no frame passes, or that ends; an interrupt.
    pub fn run(mut self, device: String) -> anyhow::Result<Report> {
        let frames = self.frames(self.args.sizes[0]);
        if !self.args.link.learn(&mut self.session, &frames) {
            bail!("no frame passes the device under test");
        }
        let mut report = Report {
            device,
            trial_s: self.args.trial.as_secs_f64(),
            repeat: self.args.repeat,
            latency_trials: self.args.latency_trials,
            loss_ratio_max: self.args.loss_ratio,
            sizes: Vec::new(),
        };
        for &size in &self.args.sizes {
            report.sizes.push(self.size(size)?);
        }
        Ok(report)
    }

    fn size(&mut self, size: FrameSize) -> anyhow::Result<SizeReport> {
        let has = |test| self.args.tests.contains(&test);
        let [throughput, latency, loss, bursts] = Test::ALL.map(has);
        let pps_max = self.pps_max(size)?;
        let mut report = SizeReport {
            size: size.to_string(),
            pps_max: rounded(pps_max, 1),
            throughput: None,
            latency: Vec::new(),
            loss: Vec::new(),
            back_to_back: None,
        };
        if throughput || latency {
            let found = self.throughput(size, pps_max)?;
            if latency {
                report.latency = self.latency(size, found.pps)?;
            }
            report.throughput = Some(found);
        }
        if loss {
            report.loss = self.loss(size, pps_max)?;
        }
        if bursts {
            let pps = report.throughput.as_ref().map(|found| found.pps);
            report.back_to_back = Some(self.back_to_back(size, pps_max, pps)?);
        }
        Ok(report)
    }

    fn frames(&self, size: FrameSize) -> FrameSet {
        let mut frames = FrameSet::generate(&self.args.link.flows(size, self.args.flows));
        self.macs.apply(&mut frames);
        frames
    }

    /// Runs a trial.
    fn trial(&mut self, size: FrameSize, rate: Rate, limit: Limit) -> anyhow::Result<TrialResult> {
        let trial = Trial { rate, burst: 1, limit, wait: self.args.wait };
        let result = self.session.run(&trial, self.frames(size), &mut |_, _| {});
        if let Some(router) = &mut self.router {
            router.check()?;
        }
        if interrupt::is_ended() {
            bail!("interrupted");
        }
        Ok(result)
    }

    /// Offers a rate for a time.
    fn offer(&mut self, size: FrameSize, pps: f64, time: Duration) -> anyhow::Result<TrialResult> {
        let limit = Limit { count: None, duration_ns: Some(time.as_nanos() as u64) };
        self.trial(size, Rate::Packets(pps.max(1.0) as u64), limit)
    }

    fn pps_max(&mut self, size: FrameSize) -> anyhow::Result<f64> {
        self.progress.say(format!("{size} bytes: highest rate"));
        match self.args.rate_max {
            Rate::Packets(pps) => Ok(pps as f64),
            Rate::Bits(bps) => Ok(bps as f64 / (mean_wire_bytes(size) * 8.0)),
            Rate::Max => {
                let time = self.args.trial.mul_f64(SPEED_PART);
                let limit = Limit { count: None, duration_ns: Some(time.as_nanos() as u64) };
                Ok(self.trial(size, Rate::Max, limit)?.sent_pps().max(1.0))
            }
        }
    }

    fn throughput(&mut self, size: FrameSize, pps_max: f64) -> anyhow::Result<ThroughputReport> {
        let args = self.args;
        let goal = Goal {
            pps_max,
            pps_min: FRAMES_MIN / args.trial.as_secs_f64().max(1e-3),
            width: args.precision.max(1e-4),
            trial: args.trial,
            repeat: args.repeat,
        };
        let mut measure = |pps: f64, time| {
            self.progress.say(format!("{size} bytes: throughput, {}", rate(pps)));
            let result = self.offer(size, pps, time)?;
            let offered = pps.max(1.0).floor() * Duration::as_secs_f64(&time);
            Ok::<_, anyhow::Error>(passed(&result, offered, args.loss_ratio))
        };
        let found = search(goal, &mut measure)?;
        Ok(ThroughputReport {
            pps: rounded(found.pps, 1),
            wire_bps: rounded(found.pps * mean_wire_bytes(size) * 8.0, 0),
            limited_by: found.limit,
            trials: found.trials,
        })
    }

    fn latency(&mut self, size: FrameSize, pps: f64) -> anyhow::Result<Vec<LatencyReport>> {
        let mut reports = Vec::new();
        for load_percent in [100, 50].into_iter().filter(|_| pps > 0.0) {
            self.progress.say(format!("{size} bytes: latency at {load_percent} %"));
            let pps = pps * f64::from(load_percent) / 100.0;
            let (mut trials, mut loss_ratio) = (Vec::new(), 0.0);
            for _ in 0..self.args.latency_trials {
                let result = self.offer(size, pps, self.args.trial)?;
                loss_ratio += result.loss_ratio() / self.args.latency_trials as f64;
                trials.extend(result.latency);
            }
            reports.extend(median_latency(&trials).map(|latency| LatencyReport {
                load_percent,
                pps: rounded(pps, 1),
                loss_ratio,
                latency,
            }));
        }
        Ok(reports)
    }

    fn loss(&mut self, size: FrameSize, pps_max: f64) -> anyhow::Result<Vec<LossReport>> {
        let mut reports: Vec<LossReport> = Vec::new();
        for load_percent in (1..=100 / LOSS_STEP).rev().map(|step| step * LOSS_STEP) {
            self.progress.say(format!("{size} bytes: loss at {load_percent} %"));
            let pps = pps_max * f64::from(load_percent) / 100.0;
            let result = self.offer(size, pps, self.args.trial)?;
            reports.push(LossReport {
                load_percent,
                offered_pps: rounded(pps, 1),
                sent_pps: rounded(result.sent_pps(), 1),
                loss_ratio: result.loss_ratio(),
            });
            // RFC 2544: until there are two successive trials in which no frames are lost.
            if let [.., a, b] = &reports[..]
                && a.loss_ratio + b.loss_ratio == 0.0
            {
                break;
            }
        }
        Ok(reports)
    }

    fn back_to_back(
        &mut self,
        size: FrameSize,
        pps_max: f64,
        throughput_pps: Option<f64>,
    ) -> anyhow::Result<BurstReport> {
        let longest = (pps_max * self.args.trial.as_secs_f64() * BURST_PART).max(1.0) as u64;
        let mut lengths = Vec::new();
        for number in 1..=self.args.bursts {
            self.progress.say(format!("{size} bytes: burst {number} of {}", self.args.bursts));
            lengths.push(longest_burst(longest, self.args.precision, &mut |count| {
                let limit = Limit { count: Some(count), duration_ns: None };
                Ok(self.trial(size, Rate::Max, limit)?.lost == 0)
            })?);
        }
        let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
        let is_at_least = lengths.iter().all(|&length| length == longest);
        // RFC 9004: frames that leave during the burst need no buffer.
        let buffer_us = throughput_pps
            .filter(|_| !is_at_least)
            .map(|pps| rounded(mean / pps_max * (1.0 - pps / pps_max).max(0.0) * 1e6, 1));
        Ok(BurstReport {
            bursts: lengths.len(),
            frames_mean: rounded(mean, 1),
            frames_min: lengths.iter().copied().min().unwrap_or_default(),
            frames_max: lengths.iter().copied().max().unwrap_or_default(),
            is_at_least,
            buffer_us,
        })
    }
}

/// Judges a trial that was to send `offered` frames.
fn passed(result: &TrialResult, offered: f64, loss_ratio_max: f64) -> Passed {
    let sent = result.sent.frames as f64;
    if sent < (offered * REACHED).floor() {
        return Passed::TesterTooSlow;
    }
    let lost_max = sent * loss_ratio_max;
    match result.lost as f64 {
        lost if lost <= lost_max => Passed::Yes,
        // The kernel dropped them behind the device.
        lost if lost - result.sink_drops as f64 <= lost_max => Passed::TesterTooSlow,
        _ => Passed::No,
    }
}

/// The longest burst up to `longest` frames that `passes`, by bisection to a relative `width`.
fn longest_burst(
    longest: u64,
    width: f64,
    passes: &mut dyn FnMut(u64) -> anyhow::Result<bool>,
) -> anyhow::Result<u64> {
    if passes(longest)? {
        return Ok(longest);
    }
    let (mut low, mut high) = (0, longest);
    while high - low > 1.max((high as f64 * width) as u64) {
        let middle = low + (high - low) / 2;
        match passes(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(low)
}

/// Medians over trials, and the extremes of all; `None` without trials.
fn median_latency(trials: &[Latency]) -> Option<Latency> {
    let sorted = |part: fn(&Latency) -> f64| {
        let mut values: Vec<f64> = trials.iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    Some(Latency {
        min_us: *sorted(|latency| latency.min_us).first()?,
        mean_us: median(&sorted(|latency| latency.mean_us)),
        p50_us: median(&sorted(|latency| latency.p50_us)),
        p99_us: median(&sorted(|latency| latency.p99_us)),
        max_us: *sorted(|latency| latency.max_us).last()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_tester_is_no_limit_of_the_device() {
        let judge = |sent, lost, sink_drops| {
            let mut result = TrialResult { lost, sink_drops, ..TrialResult::default() };
            result.sent.frames = sent;
            passed(&result, 1_000.0, 0.01)
        };
        assert_eq!(judge(1_000, 10, 0), Passed::Yes);
        assert_eq!(judge(990, 0, 0), Passed::Yes);
        assert_eq!(judge(1_000, 11, 0), Passed::No);
        assert_eq!(judge(1_000, 100, 50), Passed::No);
        assert_eq!(judge(1_000, 100, 95), Passed::TesterTooSlow);
        assert_eq!(judge(979, 0, 0), Passed::TesterTooSlow);
    }

    #[test]
    fn finds_the_longest_burst() {
        for capacity in [0, 1, 77, 5_000, 99_999, 100_000, 200_000] {
            let found = longest_burst(100_000, 0.0, &mut |count| Ok(count <= capacity)).unwrap();
            assert_eq!(found, capacity.min(100_000));
            let near = longest_burst(100_000, 0.02, &mut |count| Ok(count <= capacity)).unwrap();
            assert!(near <= found && near as f64 >= found as f64 * 0.97, "{near} of {found}");
        }
    }

    #[test]
    fn one_slow_trial_does_not_count() {
        let trial =
            |p99_us| Latency { min_us: 1.0, mean_us: 2.0, p50_us: 2.0, p99_us, max_us: p99_us };
        let trials = [9.0, 8.0, 700.0, 7.0, 9.0].map(trial);
        let found = median_latency(&trials).unwrap();
        assert_eq!((found.min_us, found.p99_us, found.max_us), (1.0, 9.0, 700.0));
        assert!(median_latency(&[]).is_none());
    }
}
