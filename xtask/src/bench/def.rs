//! Definitions of experiments: `bench/defs/*.toml`.
//!
//! ```toml
//! about = "rate over the number of rules, acl style"
//! engines = ["turbo", "linear-simd"]
//! threads = 1                                   # default
//!
//! [[case]]
//! name = "acl-10k"
//! rules = { style = "acl", family = "ipv4", count = 10000, seed = 1 }
//! # or, for a file DIR/acl1_10k.rules or .rules.gz of `--data DIR`: data = "acl1_10k"
//! trace = { keys = 1000000, point = "inside", seed = 1 }
//! engines = ["turbo"]                           # in place of those above
//! peer_max_size_mib = [256, 1024]               # bounded builds of the peer; without, it rests
//! digest = "0x0123456789abcdef"                 # the answers; another digest gets no number
//! ```

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// One file of definitions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Def {
    /// What it is about, for people.
    pub about: String,
    /// The engines that run.
    pub engines: Vec<String>,
    /// Threads of one process.
    #[serde(default = "one")]
    pub threads: usize,
    /// The cases.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

/// One rule set with one trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name; unique in the file.
    pub name: String,
    /// Rules to generate.
    pub rules: Option<Rules>,
    /// A ClassBench file beside the project, without its endings.
    pub data: Option<String>,
    /// Keys to generate.
    pub trace: Trace,
    /// Engines in place of the file's.
    pub engines: Option<Vec<String>>,
    /// Bounded builds of the peer, in MiB, beside its default one; where there is none, the peer
    /// does not run (it has no IPv6 keys, and one thread).
    #[serde(default)]
    pub peer_max_size_mib: Vec<usize>,
    /// The digest of the answers, where it is known.
    pub digest: Option<String>,
}

/// Rules as `warpswitch generate rules` makes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// `acl`, `fw` or `ipc`.
    pub style: String,
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// How many.
    pub count: usize,
    /// The same seed gives the same rules.
    pub seed: u64,
}

/// Keys as `warpswitch generate trace` makes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// How many.
    pub keys: usize,
    /// `inside`: anywhere in the rule; `corner`: at its borders.
    pub point: String,
    /// The same seed gives the same keys.
    pub seed: u64,
}

impl Def {
    /// Reads one file.
    pub fn read(path: &Path) -> Result<Def> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Def::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Def> {
        let def: Def = toml::from_str(text)?;
        for (idx, case) in def.cases.iter().enumerate() {
            if case.rules.is_some() == case.data.is_some() {
                bail!("case '{}': it needs `rules` or `data`, one of them", case.name);
            }
            if def.cases[..idx].iter().any(|other| other.name == case.name) {
                bail!("two cases are called '{}'", case.name);
            }
        }
        Ok(def)
    }

    /// The engines that run for `case`.
    pub fn engines_of<'a>(&'a self, case: &'a Case) -> &'a [String] {
        case.engines.as_deref().unwrap_or(&self.engines)
    }
}

impl Case {
    /// The same case, small: for trying that everything runs.
    pub fn smoke(mut self) -> Case {
        self.trace.keys = self.trace.keys.min(2_000);
        if let Some(rules) = &mut self.rules {
            rules.count = rules.count.min(500);
        }
        self.digest = None;
        self
    }
}

fn one() -> usize {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "trace = { keys = 9000, point = \"inside\", seed = 1 }";
    const RULES: &str = "rules = { style = \"fw\", family = \"ipv4\", count = 9000, seed = 1 }";

    fn parse(cases: &str) -> Result<Def> {
        Def::parse(&format!("about = \"x\"\nengines = [\"turbo\"]\n{cases}"))
    }

    #[test]
    fn a_definition_reads_back() {
        let case = format!("[[case]]\nname = \"a\"\n{RULES}\n{TRACE}\n");
        let def = parse(&case).unwrap();
        assert_eq!((def.threads, def.cases.len()), (1, 1));
        assert_eq!(def.engines_of(&def.cases[0]), ["turbo"]);
        let own = parse(&format!("{case}engines = [\"linear\"]\n")).unwrap();
        assert_eq!(own.engines_of(&own.cases[0]), ["linear"]);
        let small = def.cases[0].clone().smoke();
        assert_eq!((small.trace.keys, small.rules.unwrap().count), (2_000, 500));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let case = |body: &str| format!("[[case]]\nname = \"a\"\n{TRACE}\n{body}\n");
        for wrong in [
            case(""),
            case(&format!("{RULES}\ndata = \"acl1_1k\"")),
            case("data = \"acl1_1k\"\nspeed = 3"),
            case("data = \"a\"") + &case("data = \"b\""),
        ] {
            assert!(parse(&wrong).is_err(), "{wrong}");
        }
        assert!(parse(&case("data = \"acl1_1k\"")).is_ok());
    }
}
