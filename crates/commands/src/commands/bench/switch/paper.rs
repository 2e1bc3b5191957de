//! Values of the papers.

/// GSwitch: figures 10 and 11; Snap: table 2.
const SWITCH: &str = include_str!("../../../../../../bench/gpu/switch.csv");
/// Snap: section 4.4.
const SNAP: &str = include_str!("../../../../../../bench/gpu/snap.csv");

/// The value that a paper states, by the first columns of its file.
pub fn stated(figure: &str, value: &str, engine: &str, kind: &str) -> Option<f64> {
    let wanted = [figure, value, engine, kind];
    let lines = SWITCH.lines().chain(SNAP.lines()).filter(|line| !line.starts_with('#'));
    let mut rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let row = rows.find(|row| row.starts_with(&wanted))?;
    row.get(5)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_values_of_both_papers() {
        for (figure, value, engine, kind, expected) in [
            ("11", "64", "bloom", "end-to-end", Some(27.0)),
            ("11", "64", "bloom", "without-io", Some(40.0)),
            ("10", "40/256/500", "bloom", "end-to-end", Some(40.0)),
            ("table2", "4 paths", "snap", "end-to-end", Some(30.97)),
            ("latency", "1024", "mean", "cpu", Some(57.5)),
            ("11", "1518", "bloom", "end-to-end", None),
        ] {
            assert_eq!(stated(figure, value, engine, kind), expected, "{figure} {value}");
        }
    }
}
