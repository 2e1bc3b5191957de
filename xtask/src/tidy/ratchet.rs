//! Exceptions from the checks: each with a reason, and none that outlives its need.
//!
//! ```toml
//! [[exception]]
//! check = "function-lines"
//! path = "crates/wire/src/ipv6.rs"
//! item = "next_header"      # left out where the finding is about the whole file
//! max = 84                  # left out where the check has no figure
//! reason = "one arm per header; split, the chain could not be read in one place"
//! ```

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::Finding;

/// Checks that know no exception, with the figure from which they know none.
const NEVER: [(&str, usize); 3] = [("file-lines", 1501), ("layers", 0), ("file-bytes", 0)];

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratchet {
    /// Its entries.
    #[serde(default, rename = "exception")]
    pub exceptions: Vec<Exception>,
}

/// One entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    check: String,
    path: String,
    #[serde(default)]
    item: String,
    #[serde(default)]
    max: usize,
    reason: String,
}

/// Reads the file.
pub fn parse(text: &str) -> Result<Ratchet> {
    let ratchet: Ratchet = toml::from_str(text).context("xtask/ratchet.toml")?;
    for exception in &ratchet.exceptions {
        if exception.reason.split_whitespace().count() < 3 {
            bail!("xtask/ratchet.toml: the exception for {} has no reason", exception.path);
        }
    }
    Ok(ratchet)
}

/// Takes out what is excepted, and adds a finding for each exception that is not needed any more.
pub fn apply(ratchet: &Ratchet, findings: Vec<Finding>) -> Vec<Finding> {
    let mut largest = vec![None; ratchet.exceptions.len()];
    let mut left = Vec::new();
    for finding in findings {
        match ratchet.exceptions.iter().position(|e| covers(e, &finding)) {
            Some(idx) => largest[idx] = largest[idx].max(Some(finding.size)),
            None => left.push(finding),
        }
    }
    for (exception, largest) in ratchet.exceptions.iter().zip(largest) {
        let message = match largest {
            None => "the exception is not needed any more: take it out".to_owned(),
            Some(size) if size < exception.max => format!("lower its max to {size}"),
            Some(_) => continue,
        };
        let message = format!("{} of {}: {message}", exception.check, exception.path);
        left.push(Finding::new("ratchet", "xtask/ratchet.toml", 0, message));
    }
    left
}

fn covers(exception: &Exception, finding: &Finding) -> bool {
    let never = NEVER.iter().any(|&(check, from)| finding.check == check && finding.size >= from);
    !never
        && exception.check == finding.check
        && exception.path == finding.path
        && exception.item == finding.item
        && finding.size <= exception.max
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratchet(check: &str, item: &str, max: usize) -> Ratchet {
        let text = format!(
            "[[exception]]\ncheck = \"{check}\"\npath = \"a.rs\"\nitem = \"{item}\"\n\
             max = {max}\nreason = \"it reads better whole\"\n"
        );
        parse(&text).unwrap()
    }

    fn left(ratchet: &Ratchet, check: &'static str, item: &str, size: usize) -> Vec<String> {
        let finding = Finding::new(check, "a.rs", 1, "too long").of(item, size);
        apply(ratchet, vec![finding]).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn an_exception_covers_up_to_its_limit() {
        let allow = ratchet("function-lines", "f", 80);
        assert!(left(&allow, "function-lines", "f", 80).is_empty());
        let lower = left(&allow, "function-lines", "f", 75);
        assert!(lower[0].contains("lower its max to 75"), "{lower:?}");
        assert_eq!(left(&allow, "function-lines", "f", 81).len(), 2, "over, and unused");
        assert_eq!(left(&allow, "function-lines", "g", 75).len(), 2, "another function");
        assert_eq!(left(&allow, "line-columns", "f", 75).len(), 2, "another check");
    }

    #[test]
    fn some_rules_know_no_exception() {
        assert_eq!(left(&ratchet("layers", "rules", 0), "layers", "rules", 0).len(), 2);
        assert!(left(&ratchet("file-lines", "", 1500), "file-lines", "", 1500).is_empty());
        assert_eq!(left(&ratchet("file-lines", "", 2000), "file-lines", "", 1501).len(), 2);
    }

    #[test]
    fn an_exception_needs_a_reason_and_known_keys() {
        let entry = "[[exception]]\ncheck = \"leftover\"\npath = \"a.rs\"\n";
        assert!(parse(&format!("{entry}reason = \"later\"\n")).is_err());
        assert!(parse(&format!("{entry}reason = \"one two three\"\nlimit = 3\n")).is_err());
        assert!(parse(entry).is_err());
        assert!(parse("").unwrap().exceptions.is_empty());
    }
}
