//! The programs that a benchmark starts, and the files that they read.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::def::Case;
use super::report::Figures;
use crate::repo;

/// The peer's heap: its larger builds need it, and so many 2 MiB pages if it shall use those.
const PEER_HEAP_MIB: [(usize, usize); 2] = [(20_000, 1024), (usize::MAX, 4096)];

/// The programs.
pub struct Tools {
    ours: PathBuf,
    peer: Option<PathBuf>,
    folder: PathBuf,
}

/// The two files that every program reads.
pub struct Files {
    rules: PathBuf,
    trace: PathBuf,
}

/// What `warpswitch bench classify --json` prints.
#[derive(Debug, Deserialize)]
pub struct Report {
    /// Rules in the set.
    pub rules: usize,
    /// Keys in the trace.
    pub packets: usize,
    /// The engines.
    pub engines: Vec<Figures>,
}

impl Tools {
    /// Builds our binary as users get it.
    pub fn build(peer: Option<PathBuf>) -> Result<Tools> {
        let mut build = repo::cargo();
        build.args(["build", "--release", "--package", "warpswitch"]);
        repo::must(&mut build, "building the release binary")?;
        let target = repo::target();
        let folder = target.join("bench");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Tools { ours: target.join("release/warpswitch"), peer, folder })
    }

    /// Makes the files of a case. Rules of `--data` are copied, so that both programs read plain
    /// text; the trace is always generated.
    pub fn files(&self, case: &Case, data: Option<&Path>) -> Result<Files> {
        let rules = self.folder.join(format!("{}.rules", case.name));
        let trace = self.folder.join(format!("{}.trace", case.name));
        match (&case.rules, &case.data, data) {
            (Some(spec), _, _) => {
                let count = spec.count.to_string();
                let seed = spec.seed.to_string();
                let args = ["--style", &spec.style, "--family", &spec.family, "--count", &count];
                self.generate("rules", &[&args, &["--seed", &seed][..]].concat(), &rules)?;
            }
            (None, Some(name), Some(folder)) => copy_rules(folder, name, &rules)?,
            _ => bail!("case '{}': its rules are beside the project; give --data", case.name),
        }
        let (keys, seed) = (case.trace.keys.to_string(), case.trace.seed.to_string());
        let path = rules.to_string_lossy();
        let args = ["--rules", &path, "--count", &keys, "--point", &case.trace.point];
        self.generate("trace", &[&args, &["--seed", &seed][..]].concat(), &trace)?;
        Ok(Files { rules, trace })
    }

    fn generate(&self, what: &str, args: &[&str], out: &Path) -> Result<()> {
        let mut command = Command::new(&self.ours);
        command.args(["generate", what]).args(args).arg("--out").arg(out);
        command.stderr(Stdio::null());
        repo::must(&mut command, &format!("warpswitch generate {what} {}", args.join(" ")))
    }

    /// Runs our engines; with `smoke`, just long enough to see that they run.
    pub fn ours(
        &self,
        files: &Files,
        engines: &[String],
        threads: usize,
        smoke: bool,
    ) -> Result<Report> {
        let mut command = Command::new(&self.ours);
        if smoke {
            command.args(["bench", "classify", "--runs", "1", "--run-ms", "10"]);
        } else {
            command.args(["bench", "classify"]);
        }
        command.args(["--json", "--engines", &engines.join(",")]);
        command.args(["--threads", &threads.to_string()]);
        command.arg("--rules").arg(&files.rules).arg("--trace").arg(&files.trace);
        // Exit code 1 says that some engine has an error in place of its numbers.
        let text = output(&mut command, &[0, 1], "warpswitch bench classify")?;
        serde_json::from_str(&text).context("warpswitch bench classify: not the JSON agreed on")
    }

    /// Runs configurations; the JSON that comes of it.
    pub fn graph(&self, data: Option<&Path>, smoke: bool) -> Result<String> {
        let mut command = Command::new(&self.ours);
        command.args(["bench", "graph", "--json"]);
        if smoke {
            command.args(["--smoke", "--frames", "2000", "--runs", "1", "--run-ms", "5"]);
        }
        if let Some(data) = data {
            command.arg("--data").arg(data);
        }
        // Exit code 1 says that some case has an error in place of its numbers.
        output(&mut command, &[0, 1], "warpswitch bench graph")
    }

    /// Runs the peer, if it is asked for and the case names its builds; no line otherwise.
    pub fn peer(&self, files: &Files, max_mib: &[usize], rules: usize) -> Result<Vec<Figures>> {
        let Some(peer) = self.peer.as_ref().filter(|_| !max_mib.is_empty()) else {
            return Ok(Vec::new());
        };
        let heap = PEER_HEAP_MIB.iter().find(|(below, _)| rules < *below).map_or(4096, |h| h.1);
        let mut command = Command::new(peer);
        command.arg("--rules").arg(&files.rules).arg("--trace").arg(&files.trace);
        command.args(["--heap", &heap.to_string()]);
        let list: Vec<String> = max_mib.iter().map(usize::to_string).collect();
        command.args(["--max-size", &list.join(",")]);
        parse_peer(&output(&mut command, &[0], "the rte_acl peer")?)
    }
}

/// One line of JSON for each build and method.
fn parse_peer(text: &str) -> Result<Vec<Figures>> {
    let line = |line: &str| -> Result<Figures> {
        let figures: Figures = serde_json::from_str(line)
            .with_context(|| format!("the rte_acl peer printed: {line}"))?;
        Ok(Figures { is_peer: true, ..figures })
    };
    text.lines().map(line).collect()
}

/// Runs a command that ends with one of `codes`; its standard output. What it says on stderr goes
/// to ours.
pub fn output(command: &mut Command, codes: &[i32], what: &str) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{what}: cannot start"))?;
    if !output.status.code().is_some_and(|code| codes.contains(&code)) {
        bail!("{what} failed ({})", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{what}: output is not text"))
}

/// Copies `NAME.rules`, or unpacks `NAME.rules.gz`, of `folder`.
fn copy_rules(folder: &Path, name: &str, to: &Path) -> Result<()> {
    let plain = folder.join(format!("{name}.rules"));
    let packed = folder.join(format!("{name}.rules.gz"));
    let bytes = if plain.exists() {
        std::fs::read(&plain).with_context(|| format!("cannot read {}", plain.display()))?
    } else if packed.exists() {
        let unpack = Command::new("gzip").arg("-dc").arg(&packed).output();
        let unpack = unpack.context("gzip does not start")?;
        if !unpack.status.success() {
            bail!("gzip cannot unpack {}", packed.display());
        }
        unpack.stdout
    } else {
        bail!("neither {} nor {} is there", plain.display(), packed.display());
    };
    std::fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_agreed_on_are_read() {
        let ours = r#"{"rules":961,"packets":10,"engines":[{"name":"turbo","mpps":90.5,
            "build_ms":1.5,"bytes":4000,"p50_ns":9.1,"p99_ns":12.0,"digest":"0x1"}]}"#;
        let report: Report = serde_json::from_str(ours).unwrap();
        assert_eq!((report.rules, report.engines[0].mpps), (961, Some(90.5)));
        let peer = "{\"name\":\"rte_acl x16\",\"mpps\":5.0,\"build_ms\":1.0,\"bytes\":7}\n\
                    {\"name\":\"rte_acl x32\",\"error\":\"build failed: no memory\"}\n";
        let lines = parse_peer(peer).unwrap();
        assert!(lines.iter().all(|line| line.is_peer));
        assert_eq!((lines[0].mpps, lines[1].mpps), (Some(5.0), None));
        assert!(parse_peer("EAL: no memory\n").is_err());
    }
}
