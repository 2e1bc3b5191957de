//! Runs fuzz targets: `cargo xtask fuzz [TARGET]... [--seconds N] [--jobs N]`.
//!
//! The targets live in `fuzz/`, a workspace of its own, because they need a nightly compiler and
//! cargo-fuzz. A run starts from `fuzz/seeds/TARGET` and keeps what it learns in
//! `fuzz/corpus/TARGET`. A crash leaves its input under `fuzz/artifacts/`; it goes to
//! `fuzz/regressions/TARGET/`, where an ordinary test replays it for ever.

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};

use crate::repo;

/// Inputs longer than this find little more and cost much.
const INPUT_BYTES_MAX: usize = 4096;

/// Runs the targets named, or all of them, several at once on request.
pub fn run(args: &[String]) -> Result<()> {
    let mut args = args.to_vec();
    let seconds = repo::take_value(&mut args, "--seconds")?.unwrap_or_else(|| "60".to_owned());
    let seconds: u64 = seconds.parse().context("--seconds needs a number")?;
    let jobs = repo::take_value(&mut args, "--jobs")?.unwrap_or_else(|| "1".to_owned());
    let jobs: usize = jobs.parse().context("--jobs needs a number")?;
    let manifest = std::fs::read_to_string(repo::root().join("fuzz/Cargo.toml"))
        .context("cannot read fuzz/Cargo.toml")?;
    let known = targets(&manifest)?;
    if let Some(unknown) = args.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target is called '{unknown}'; there are {}", known.join(", "));
    }
    let chosen = if args.is_empty() { known } else { args };
    repo::must(&mut cargo_fuzz(&["build"]), "building the fuzz targets")?;
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = run_target(target, seconds) {
                // The other threads finish their targets, and start no further ones.
                next.store(chosen.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        results.collect::<Vec<_>>().into_iter().collect::<Result<()>>()
    })?;
    println!("fuzz: {} targets, no crash", chosen.len());
    Ok(())
}

/// Runs a target; prints its output when it ends, in one piece.
fn run_target(target: &str, seconds: u64) -> Result<()> {
    let corpus = repo::root().join("fuzz/corpus").join(target);
    std::fs::create_dir_all(&corpus)
        .with_context(|| format!("cannot make {}", corpus.display()))?;
    println!("fuzz: {target}, {seconds} s");
    let output = fuzz_command(target, seconds)
        .output()
        .with_context(|| format!("fuzz target {target}: cannot start"))?;
    std::io::stderr().lock().write_all(&[output.stdout, output.stderr].concat())?;
    if !output.status.success() {
        bail!("fuzz target {target} failed ({})", output.status);
    }
    Ok(())
}

fn fuzz_command(target: &str, seconds: u64) -> Command {
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
    let mut command = cargo_fuzz(&["run", target, &corpus, &seeds, "--"]);
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        "-timeout=20".to_owned(),
        "-rss_limit_mb=3072".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]);
    command
}

fn cargo_fuzz(args: &[&str]) -> Command {
    // By name and not through `CARGO`, which is the pinned stable one.
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).args(args);
    command.env_remove("RUSTUP_TOOLCHAIN").current_dir(repo::root());
    command
}

/// The names of the targets in the manifest.
fn targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = toml::from_str(manifest).context("fuzz/Cargo.toml")?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array);
    let names = bins.into_iter().flatten().filter_map(|bin| bin.get("name")?.as_str());
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.is_empty() {
        bail!("fuzz/Cargo.toml names no target");
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_come_from_the_manifest() {
        let manifest = "[[bin]]\nname = \"frame\"\n[[bin]]\nname = \"extract\"\n";
        assert_eq!(targets(manifest).unwrap(), ["frame", "extract"]);
        assert!(targets("[package]\nname = \"x\"\n").is_err());
        assert!(targets("[[bin").is_err());
    }
}
