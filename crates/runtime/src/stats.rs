//! Statistics of a run, element by element.

use std::fmt;
use std::sync::LazyLock;
use std::time::Instant;

use serde::{Serialize, Serializer};
use warpswitch_graph::Router;

/// A clock for element costs: nanoseconds since its first read.
pub fn ticks() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// An element, a script, a handler or the program stopped it.
    Stopped,
    /// No task, timer, socket or signal can continue it.
    Idle,
    /// A signal stopped it.
    Interrupted,
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunEnd::Stopped => "stopped",
            RunEnd::Idle => "nothing left to do",
            RunEnd::Interrupted => "interrupted",
        })
    }
}

impl Serialize for RunEnd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Counts of one element.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ElementStats {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Packets that entered it, or left it if it is a source or pulled.
    pub packets: u64,
    /// Bytes of these packets; 0 unless costs are counted.
    pub bytes: u64,
    /// Batches of these packets.
    pub batches: u64,
    /// Packets per batch.
    pub mean_batch: f64,
    /// Time per packet in the element itself, without the elements that it pulls from; `None`
    /// unless costs are counted.
    pub ns_per_packet: Option<f64>,
    /// Packets that it holds.
    pub held: u64,
    /// Packets that it dropped, by reason.
    pub drops: Vec<DropStats>,
}

/// Packets dropped for one reason.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DropStats {
    /// The reason.
    pub reason: String,
    /// The number of packets.
    pub packets: u64,
}

/// Counts of a whole run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RunStats {
    /// Why it ended.
    pub ended: RunEnd,
    /// Its wall-clock time.
    pub seconds: f64,
    /// Packets that are neither held nor freed; other than 0 is a bug in an element.
    pub packets_unaccounted: i64,
    /// All elements, in the order of the configuration.
    pub elements: Vec<ElementStats>,
}

impl RunStats {
    /// The counts of `router` after a run of `seconds` that ended with `ended`.
    pub fn gather(router: &mut Router, ended: RunEnd, seconds: f64) -> Self {
        let elements = 0..router.graph().elements.len();
        let elements = elements.map(|idx| element_stats(router, idx)).collect();
        let packets_unaccounted = router.packets_unaccounted();
        Self { ended, seconds, packets_unaccounted, elements }
    }

    /// The counts of the element called `name`.
    pub fn element(&self, name: &str) -> Option<&ElementStats> {
        self.elements.iter().find(|element| element.name == name)
    }
}

fn element_stats(router: &mut Router, idx: usize) -> ElementStats {
    let (name, class) = {
        let element = &router.graph().elements[idx];
        (element.name.clone(), element.class.clone())
    };
    let held = router.read(&format!("{}.held", idx + 1)).ok().and_then(|text| text.parse().ok());
    let stats = router.stats(idx);
    let own_drops = router.drop_reasons(idx).iter().copied().zip(stats.drops.iter().copied());
    let drops = own_drops.chain(stats.common_drops());
    let drops = drops.map(|(reason, packets)| DropStats { reason: reason.to_owned(), packets });
    let per = |total: u64, count: u64| tenths(total as f64 / count.max(1) as f64);
    let is_timed = stats.own_ns > 0 && stats.packets > 0;
    ElementStats {
        name,
        class,
        packets: stats.packets,
        bytes: stats.bytes,
        batches: stats.batches,
        mean_batch: per(stats.packets, stats.batches),
        ns_per_packet: is_timed.then(|| per(stats.own_ns, stats.packets)),
        held: held.unwrap_or(0),
        drops: drops.filter(|drops| drops.packets > 0).collect(),
    }
}

/// `value` rounded to one decimal.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
