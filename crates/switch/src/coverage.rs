//! Counters of the whole switch with their rates, in the layout of `coverage/show`.

use std::collections::VecDeque;
use std::fmt::Write as _;

use crate::switch::Switch;
use crate::tunnel::TunnelDrop;

/// Interval between two samples.
const INTERVAL_NS: u64 = 5_000_000_000;
/// Samples of an hour, and the one before.
const SAMPLES_MAX: usize = 721;
/// Samples and seconds of the rates that are shown.
const RATES: [(usize, u64); 3] = [(1, 5), (12, 60), (720, 3600)];

/// The counters, in the order in which they are listed; those of [`TunnelDrop`] follow.
const NAMES: [&str; 17] = [
    "microflow_hit",
    "megaflow_hit",
    "upcall",
    "megaflow_widened",
    "table_miss",
    "work_limit",
    "meter_or_ttl_drop",
    "flow_drop",
    "missing_port_drop",
    "normal_drop",
    "packet_in_drop",
    "port_rx_packets",
    "port_rx_drop",
    "port_rx_error",
    "port_tx_packets",
    "port_tx_drop",
    "port_tx_error",
];

const COUNTERS: usize = NAMES.len() + TunnelDrop::ALL.len();

type Counters = [u64; COUNTERS];

/// Past values of the counters, the latest first.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    samples: VecDeque<Counters>,
    next_ns: u64,
}

impl Coverage {
    /// Whether it is time for a sample.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    /// Keeps the present values.
    pub(crate) fn sample(&mut self, counters: Counters, now_ns: u64) {
        self.next_ns = now_ns + INTERVAL_NS;
        self.samples.truncate(SAMPLES_MAX - 1);
        self.samples.push_front(counters);
    }

    /// Events a second of a counter over the last samples; a switch that runs for less time had
    /// none before.
    fn rate(&self, counter: usize, samples: usize, seconds: u64) -> f64 {
        let at = |sample: usize| self.samples.get(sample).map_or(0, |values| values[counter]);
        at(0).saturating_sub(at(samples)) as f64 / seconds as f64
    }
}

/// The present values.
pub(crate) fn counters(switch: &Switch) -> Counters {
    let stats = switch.stats();
    let sum = |of: fn(&warpswitch_openflow::PortStats) -> u64| -> u64 {
        switch.ports(0).iter().map(|(_, port)| of(port)).sum()
    };
    let own: [u64; NAMES.len()] = [
        stats.cache.micro_hits,
        stats.cache.mega_hits,
        stats.cache.misses,
        stats.cache.widened,
        stats.table_misses,
        stats.pipeline.limited,
        stats.pipeline.ended,
        stats.pipeline.unsent,
        stats.missing_port,
        stats.stayed,
        stats.packet_ins_dropped,
        sum(|port| port.rx_packets),
        sum(|port| port.rx_dropped),
        sum(|port| port.rx_errors),
        sum(|port| port.tx_packets),
        sum(|port| port.tx_dropped),
        sum(|port| port.tx_errors),
    ];
    let drops = TunnelDrop::ALL.map(|reason| stats.tunnel_drops.get(reason));
    let mut counters = [0; COUNTERS];
    counters.iter_mut().zip(own.into_iter().chain(drops)).for_each(|(to, from)| *to = from);
    counters
}

/// The counters that are not zero.
pub(crate) fn coverage_text(switch: &Switch) -> String {
    let (counters, coverage) = (counters(switch), switch.coverage());
    let mut out =
        "Event coverage, avg rate over last: 5 seconds, last minute, last hour:\n".to_owned();
    let names = NAMES.into_iter().chain(TunnelDrop::ALL.map(TunnelDrop::counter));
    for (counter, (name, total)) in names.zip(counters).enumerate() {
        if total == 0 {
            continue;
        }
        let [now, minute, hour] =
            RATES.map(|(samples, seconds)| coverage.rate(counter, samples, seconds));
        _ = writeln!(
            out,
            "{name:<24} {now:5.1}/sec {minute:9.3}/sec {hour:13.4}/sec   total: {total}"
        );
    }
    let unused = counters.iter().filter(|total| **total == 0).count();
    _ = writeln!(out, "{unused} events never hit");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_time_that_was_sampled() {
        let mut coverage = Coverage::default();
        let mut counters = [0; COUNTERS];
        for sample in 0..2000 {
            assert!(coverage.is_due(sample * INTERVAL_NS));
            counters[2] += 10;
            coverage.sample(counters, sample * INTERVAL_NS);
            assert!(!coverage.is_due(sample * INTERVAL_NS + 1));
        }
        assert_eq!(coverage.samples.len(), SAMPLES_MAX);
        let rates = RATES.map(|(samples, seconds)| coverage.rate(2, samples, seconds));
        assert_eq!(rates, [2.0, 2.0, 2.0]);
        assert_eq!(coverage.rate(0, 1, 5), 0.0);
    }
}
