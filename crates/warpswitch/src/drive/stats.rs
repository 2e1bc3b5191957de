//! What a run did, element by element: a table for people, JSON for programs.

use std::sync::LazyLock;
use std::time::Instant;

use serde::Serialize;
use warpswitch_graph::Router;

use super::offload::OffloadStats;
use crate::human;
use crate::table::{Align, Table, title, wrapped};
use crate::term::{self, FAINT, WARN, paint};

/// The least columns for names of elements.
const NAMES_COLUMNS: usize = 20;

/// A clock for costs: nanoseconds since it was first read.
pub fn ticks() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// What one element did.
#[derive(Debug, Serialize)]
pub struct ElementStats {
    name: String,
    class: String,
    packets: u64,
    bytes: u64,
    batches: u64,
    mean_batch: f64,
    /// Time per packet, without that of elements that it asked for packets.
    ns_per_packet: Option<f64>,
    held: u64,
    drops: Vec<Drops>,
}

/// Packets that were dropped for one reason.
#[derive(Debug, Serialize)]
pub struct Drops {
    reason: String,
    packets: u64,
}

/// What a run did.
#[derive(Debug, Serialize)]
pub struct RunStats {
    /// How it ended.
    pub ended: &'static str,
    /// Wall-clock time.
    pub seconds: f64,
    /// Packets that were lost; other than 0 is a bug.
    pub packets_unaccounted: i64,
    /// All elements, in the order of the text.
    pub elements: Vec<ElementStats>,
    /// What ran where; none without a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadStats>,
    /// The ways of packets that were followed; none if that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<serde_json::Value>,
}

/// Gathers what `router` counted.
pub fn gather(router: &mut Router, ended: &'static str, seconds: f64) -> RunStats {
    let elements = (0..router.graph().elements.len()).map(|idx| one(router, idx)).collect();
    let packets_unaccounted = router.packets_unaccounted();
    RunStats { ended, seconds, packets_unaccounted, elements, offload: None, trace: None }
}

fn one(router: &mut Router, idx: usize) -> ElementStats {
    let (name, class) = {
        let element = &router.graph().elements[idx];
        (element.name.clone(), element.class.clone())
    };
    let held = router.read(&format!("{}.held", idx + 1)).ok().and_then(|text| text.parse().ok());
    let stats = router.stats(idx);
    let counted = router.drop_reasons(idx).iter().copied().zip(stats.drops.iter().copied());
    let all = counted.chain(stats.common_drops());
    let all = all.map(|(reason, packets)| (reason.to_owned(), packets));
    let drops = all.filter(|(_, packets)| *packets > 0);
    let per = |total: u64, count: u64| total as f64 / count.max(1) as f64;
    let is_timed = stats.own_ns > 0 && stats.packets > 0;
    ElementStats {
        name,
        class,
        packets: stats.packets,
        bytes: stats.bytes,
        batches: stats.batches,
        mean_batch: human::rounded(per(stats.packets, stats.batches), 1),
        ns_per_packet: is_timed.then(|| human::rounded(per(stats.own_ns, stats.packets), 1)),
        held: held.unwrap_or(0),
        drops: drops.map(|(reason, packets)| Drops { reason, packets }).collect(),
    }
}

/// The table that ends a run. Elements that did nothing share its last line.
pub fn render(stats: &RunStats) -> String {
    let mut table = Table::new(&[
        ("element", Align::Left),
        ("class", Align::Left),
        ("packets", Align::Right),
        ("bytes", Align::Right),
        ("batches", Align::Right),
        ("mean batch", Align::Right),
        ("ns/packet", Align::Right),
        ("held", Align::Right),
        ("drops", Align::Left),
    ]);
    let (idle, busy): (Vec<_>, Vec<_>) = stats
        .elements
        .iter()
        .partition(|element| element.packets == 0 && element.drops.is_empty() && element.held == 0);
    for element in busy {
        let number = |value: u64| if value == 0 { "-".into() } else { human::count(value) };
        let drops: Vec<String> = element
            .drops
            .iter()
            .map(|drops| format!("{} {}", human::count(drops.packets), drops.reason))
            .collect();
        let cells = [
            element.name.clone(),
            element.class.clone(),
            number(element.packets),
            number(element.bytes),
            number(element.batches),
            if element.batches == 0 { "-".into() } else { format!("{:.1}", element.mean_batch) },
            element.ns_per_packet.map_or("-".into(), human::significant),
            number(element.held),
            drops.join(", "),
        ];
        match drops.is_empty() {
            true => table.row(cells),
            false => table.styled_row(WARN, cells),
        };
    }
    let aside = format!("{} in {:.3} s", stats.ended, stats.seconds);
    let names: Vec<&str> = idle.iter().map(|element| element.name.as_str()).collect();
    let idle = match names.len() {
        0 => String::new(),
        count => {
            let lead = format!("{} without packets", human::counted(count, "element"));
            let room = term::columns().map_or(usize::MAX, |columns| columns.saturating_sub(2));
            let lines = wrapped(&format!("{lead}: {}", shortened(&names)), room.max(NAMES_COLUMNS));
            lines.iter().map(|line| format!("{}\n", paint(FAINT, format!("  {line}")))).collect()
        }
    };
    format!("{}{}{idle}", title("Run", &aside), table.render())
}

/// As many of `names` as are read with ease, and how many more there are.
fn shortened(names: &[&str]) -> String {
    const NAMES_MAX: usize = 12;
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Where packets stand at the end of a run; empty if none do.
pub fn render_standing(router: &Router) -> String {
    let standing = router.standing();
    let total: usize = standing.iter().map(|(_, packets)| packets).sum();
    let lines = standing
        .iter()
        .map(|(name, packets)| format!("  {} in {name}\n", human::counted(*packets, "packet")));
    match total {
        0 => String::new(),
        total => {
            let verb = if total == 1 { "stands" } else { "stand" };
            let head = format!("{} {verb} in the graph:", human::counted(total, "packet"));
            format!("{}\n{}", paint(WARN, head), lines.collect::<String>())
        }
    }
}
