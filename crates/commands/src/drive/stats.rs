//! Statistics of a run: a table for people, JSON for programs.

use serde::Serialize;
use warpswitch_graph::Router;
use warpswitch_runtime::{ElementStats, RunStats};

use super::offload::OffloadStats;
use crate::human;
use crate::table::{Align, Table, title, wrapped};
use crate::term::{self, FAINT, WARN, paint};

/// The minimum width for names of elements.
const NAMES_COLUMNS: usize = 20;

/// Statistics, offload and trace of a run, as JSON.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// Counts of the run and its elements.
    #[serde(flatten)]
    pub run: RunStats,
    /// Lookups by device and worker; `None` without a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload: Option<OffloadStats>,
    /// Paths of traced packets; `None` without `--trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<serde_json::Value>,
}

/// The table at the end of a run. Idle elements share its last line.
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
    let (idle, busy): (Vec<&ElementStats>, Vec<_>) = stats
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

/// The first of `names`, and the number of the others.
fn shortened(names: &[&str]) -> String {
    const NAMES_MAX: usize = 12;
    let shown = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The elements that still hold packets at the end of a run; empty if none do.
pub fn render_standing(router: &Router) -> String {
    let standing = router.standing();
    let total: usize = standing.iter().map(|(_, packets)| packets).sum();
    let lines = standing
        .iter()
        .map(|(name, packets)| format!("  {} in {name}\n", human::counted(*packets, "packet")));
    match total {
        0 => String::new(),
        total => {
            let head = format!("{} still held in the graph:", human::counted(total, "packet"));
            format!("{}\n{}", paint(WARN, head), lines.collect::<String>())
        }
    }
}
