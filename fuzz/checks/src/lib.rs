//! What the fuzz targets check, as plain functions over bytes.
//!
//! A target under `fuzz/targets` calls one of them on what libFuzzer makes up. The test beside this
//! library calls them on every file under `fuzz/seeds` and `fuzz/regressions`, with the compiler
//! that everybody has, so that what once crashed never does again unseen.
#![forbid(unsafe_code)]

mod captures;
mod detection;
mod frames;
mod graphs;
mod lookup;
mod messages;
mod openflow;
mod scans;
mod texts;
mod tunnels;

/// A check: it panics if what it checks does not hold.
pub type Check = fn(&[u8]);

/// Every check, under the name of its target.
pub const CHECKS: [(&str, Check); 18] = [
    ("frame", frames::frame),
    ("extract", frames::extract_key),
    ("capture", captures::capture),
    ("rules_classbench", texts::rules_classbench),
    ("rules_ovs", texts::rules_ovs),
    ("flow_text", texts::flow_text),
    ("rules_canonical", texts::rules_canonical),
    ("trace", texts::trace),
    ("packet_text", texts::packet_text),
    ("classify", lookup::classify),
    ("configuration", graphs::configuration),
    ("graph_frames", graphs::frames),
    ("scan", scans::scan),
    ("ids_rules", detection::rules),
    ("ids_packets", detection::packets),
    ("ids_http", messages::messages),
    ("openflow", openflow::openflow),
    ("tunnel", tunnels::tunnel),
];

/// Runs the check called `name`.
///
/// # Panics
/// If there is none, or if it finds something.
pub fn check(name: &str, data: &[u8]) {
    let found = CHECKS.iter().find(|(known, _)| *known == name);
    let (_, check) = found.unwrap_or_else(|| panic!("no check is called '{name}'"));
    check(data);
}

/// The first `N` bytes, zeros where there are too few, and the rest: choices come first, so that
/// what follows can be a file as it is.
fn split<const N: usize>(data: &[u8]) -> ([u8; N], &[u8]) {
    let mut head = [0; N];
    let len = data.len().min(N);
    head[..len].copy_from_slice(&data[..len]);
    (head, &data[len..])
}
