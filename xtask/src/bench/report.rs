//! What was measured, as a table for people: ours and the peer's side by side.

use std::fmt::Write as _;

use serde::Deserialize;

/// What one engine, or one build and method of the peer, did.
#[derive(Clone, Debug, Deserialize)]
pub struct Figures {
    /// Its name.
    pub name: String,
    /// Million keys a second, the median of the passes.
    pub mpps: Option<f64>,
    /// Time of the build.
    #[serde(default)]
    pub build_ms: Option<f64>,
    /// Memory of the structure.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Nanoseconds per lookup, median.
    #[serde(default)]
    pub p50_ns: Option<f64>,
    /// Nanoseconds per lookup, 99th of 100.
    #[serde(default)]
    pub p99_ns: Option<f64>,
    /// Digest of the answers.
    #[serde(default)]
    pub digest: Option<String>,
    /// Why there is no number.
    #[serde(default)]
    pub error: Option<String>,
    /// Whether it is a peer.
    #[serde(skip)]
    pub is_peer: bool,
}

/// One case, measured.
pub struct Measured {
    /// Name of the case.
    pub case: String,
    /// Rules in the set.
    pub rules: usize,
    /// Keys in the trace.
    pub keys: usize,
    /// Threads of ours; the peer runs one.
    pub threads: usize,
    /// All that ran.
    pub figures: Vec<Figures>,
}

impl Measured {
    /// Keeps, for each name, the quieter of two rounds: the higher median rate.
    pub fn merge(&mut self, round: Vec<Figures>) {
        for new in round {
            match self.figures.iter_mut().find(|old| old.name == new.name) {
                Some(old) if new.mpps > old.mpps => *old = new,
                Some(_) => {}
                None => self.figures.push(new),
            }
        }
    }

    /// The fastest line of the peer.
    pub fn best_peer(&self) -> Option<&Figures> {
        let peers = self.figures.iter().filter(|f| f.is_peer && f.mpps.is_some());
        peers.max_by(|a, b| a.mpps.total_cmp_some(&b.mpps))
    }

    /// Takes the number from everyone whose answers have another digest than `expected`, or, where
    /// none is expected, than the majority's first. Returns how many lost it.
    pub fn strike_wrong(&mut self, expected: Option<&str>) -> usize {
        let first = self.figures.iter().find_map(|f| f.digest.clone());
        let Some(expected) = expected.map(str::to_owned).or(first) else { return 0 };
        let mut struck = 0;
        for figures in &mut self.figures {
            let wrong = figures.digest.as_ref().is_some_and(|digest| *digest != expected);
            if wrong {
                let digest = figures.digest.clone().unwrap_or_default();
                figures.error = Some(format!("wrong answers: {digest}, expected {expected}"));
                figures.mpps = None;
                struck += 1;
            }
        }
        struck
    }

    /// The table.
    pub fn table(&self) -> String {
        let base = self.base();
        let versus = base.map_or("", |base| base.name.as_str());
        let mut out = String::new();
        let (rules, keys, threads) = (self.rules, self.keys, self.threads);
        _ = writeln!(out, "{}: {rules} rules, {keys} keys, {threads} thread(s)", self.case);
        _ = writeln!(
            out,
            "  {:<28} {:>9} {:>8} {:>10} {:>12} {:>8} {:>8} {:>8}",
            "engine", "Mpps", "ratio", "build ms", "bytes", "B/rule", "p50 ns", "p99 ns"
        );
        for figures in &self.figures {
            _ = writeln!(out, "  {}", self.line(figures, base));
        }
        if !versus.is_empty() {
            _ = writeln!(out, "  (ratio: to {versus})");
        }
        out
    }

    fn line(&self, figures: &Figures, base: Option<&Figures>) -> String {
        let name = &figures.name;
        let Some(mpps) = figures.mpps else {
            let why = figures.error.as_deref().unwrap_or("no number");
            return format!("{name:<28} {:>9} {why}", "-");
        };
        let ratio = base.and_then(|base| base.mpps).map(|base| mpps / base);
        let per_rule = figures.bytes.map(|bytes| bytes as f64 / self.rules.max(1) as f64);
        let bytes = figures.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        format!(
            "{name:<28} {mpps:>9.2} {:>8} {:>10} {bytes:>12} {:>8} {:>8} {:>8}",
            shown(ratio, 2, "x"),
            shown(figures.build_ms, 1, ""),
            shown(per_rule, 0, ""),
            shown(figures.p50_ns, 1, ""),
            shown(figures.p99_ns, 1, ""),
        )
    }

    /// What ratios are taken to: the best peer, else `linear`, else nothing.
    fn base(&self) -> Option<&Figures> {
        self.best_peer().or_else(|| self.figures.iter().find(|f| f.name == "linear"))
    }

    /// One line that says how our fastest engine stands to the peer: rate against its fastest
    /// line; build time and bytes against the least of any of its builds.
    pub fn verdict(&self) -> Option<String> {
        let peer = self.best_peer()?;
        let ours = self.figures.iter().filter(|f| !f.is_peer && f.mpps.is_some());
        let ours = ours.max_by(|a, b| a.mpps.total_cmp_some(&b.mpps))?;
        let peers = || self.figures.iter().filter(|f| f.is_peer && f.mpps.is_some());
        let least_ms = peers().filter_map(|f| f.build_ms).min_by(f64::total_cmp);
        let least_bytes = peers().filter_map(|f| f.bytes).min().map(|b| b as f64);
        let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
        Some(format!(
            "{:<14} {:<10} {:>7} rate, {:>7} build time, {:>7} bytes of {}",
            self.case,
            ours.name,
            shown(over(ours.mpps, peer.mpps), 2, "x"),
            shown(over(ours.build_ms, least_ms), 2, "x"),
            shown(over(ours.bytes.map(|b| b as f64), least_bytes), 2, "x"),
            peer.name
        ))
    }
}

/// A number with `digits` after the point, or a dash.
fn shown(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}{unit}"))
}

/// Total order on numbers that may be missing; a missing one is the least.
trait TotalCmp {
    fn total_cmp_some(&self, other: &Self) -> std::cmp::Ordering;
}

impl TotalCmp for Option<f64> {
    fn total_cmp_some(&self, other: &Self) -> std::cmp::Ordering {
        let value = |number: &Option<f64>| number.unwrap_or(f64::NEG_INFINITY);
        value(self).total_cmp(&value(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &str, mpps: f64, digest: &str, is_peer: bool) -> Figures {
        Figures {
            name: name.to_owned(),
            mpps: Some(mpps),
            build_ms: Some(10.0),
            bytes: Some(1000),
            p50_ns: None,
            p99_ns: None,
            digest: Some(digest.to_owned()),
            error: None,
            is_peer,
        }
    }

    fn measured(list: Vec<Figures>) -> Measured {
        Measured { case: "acl-1k".into(), rules: 100, keys: 10, threads: 1, figures: list }
    }

    #[test]
    fn ratios_are_to_the_best_of_the_peer() {
        let all = measured(vec![
            figures("turbo", 100.0, "0x1", false),
            figures("rte_acl x16", 40.0, "0x1", true),
            figures("rte_acl x32", 50.0, "0x1", true),
        ]);
        let table = all.table();
        assert!(table.contains("2.00x") && table.contains("to rte_acl x32"), "{table}");
        assert!(all.verdict().unwrap().contains("2.00x rate"));
        assert_eq!(measured(vec![figures("turbo", 1.0, "0x1", false)]).verdict(), None);
    }

    #[test]
    fn a_wrong_digest_gets_no_number() {
        let mut all = measured(vec![
            figures("turbo", 9.0, "0x1", false),
            figures("tuple", 8.0, "0x2", false),
        ]);
        assert_eq!(all.strike_wrong(None), 1);
        assert_eq!(all.figures[1].mpps, None);
        assert!(all.table().contains("wrong answers: 0x2, expected 0x1"));
        assert_eq!(all.strike_wrong(Some("0x3")), 2, "and the definition's word counts most");
    }

    #[test]
    fn the_quieter_round_is_kept() {
        let mut all = measured(vec![figures("turbo", 9.0, "0x1", false)]);
        all.merge(vec![figures("turbo", 8.0, "0x1", false), figures("tuple", 1.0, "0x1", false)]);
        all.merge(vec![figures("turbo", 11.0, "0x1", false)]);
        assert_eq!(all.figures.len(), 2);
        assert_eq!(all.figures[0].mpps, Some(11.0));
    }
}
