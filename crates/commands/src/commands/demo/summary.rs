//! The summary of the live demo.

use std::time::Duration;

use warpswitch_runtime::{ElementStats, RunStats};

use super::traffic::{Progress, TrafficResult};
use crate::human;
use crate::table::{Align, Table, title};
use crate::term::WARN;

/// Elements that send to the hosts.
const SENDERS: [&str; 2] = ["to0", "to1"];

/// The rate of `bytes` in `time`.
pub fn bit_rate(bytes: u64, time: Duration) -> String {
    human::bit_rate(bytes as f64 * 8.0 / time.as_secs_f64().max(f64::MIN_POSITIVE))
}

/// Renders the results of the traffic, and the drops of the router by reason.
pub fn render(result: &TrafficResult, stats: &RunStats) -> String {
    let Progress { pings_sent, pings_answered, bytes_received, elapsed } = result.progress;
    let mut table = Table::new(&[("traffic", Align::Left), ("result", Align::Left)]);
    let mut pings = format!("{} of {} answered", human::count(pings_answered), pings_sent);
    if pings_answered > 0 {
        let at = |ns: u64| human::time(Duration::from_nanos(ns));
        let (median, max) = (result.round_trips.value_at_quantile(0.5), result.round_trips.max());
        pings += &format!(", median {}, longest {}", at(median), at(max));
    }
    table.row(["pings".into(), pings]);
    let bytes = human::bytes(usize::try_from(bytes_received).unwrap_or(usize::MAX));
    let rate = bit_rate(bytes_received, elapsed);
    table.row(["TCP stream".into(), format!("{bytes}, {rate}")]);
    let sent: u64 = SENDERS.iter().filter_map(|name| stats.element(name)).map(|e| e.packets).sum();
    let rate = human::rate(sent as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE));
    table.row(["forwarded".into(), format!("{} packets, {rate}", human::count(sent))]);
    let aside = format!("{:.1} s", elapsed.as_secs_f64());
    format!("{}{}\n{}", title("Live demo", &aside), table.render(), render_drops(&stats.elements))
}

/// Drops by element and reason.
fn render_drops(elements: &[ElementStats]) -> String {
    let mut table =
        Table::new(&[("dropped", Align::Right), ("reason", Align::Left), ("element", Align::Left)]);
    let mut has_drops = false;
    for element in elements {
        for drop in element.drops.iter().filter(|drop| drop.packets > 0) {
            has_drops = true;
            let cells = [human::count(drop.packets), drop.reason.clone(), element.name.clone()];
            table.styled_row(WARN, cells);
        }
    }
    if has_drops { table.render() } else { "The router dropped no packet.\n".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_rates_have_few_digits() {
        let second = Duration::from_secs(1);
        assert_eq!(bit_rate(125_000_000, second), "1.00 Gbit/s");
        assert_eq!(bit_rate(12_500_000, second), "100 Mbit/s");
        assert_eq!(bit_rate(0, Duration::ZERO), "0 Kbit/s");
    }
}
