//! Gathers what a machine with a card needs to test and measure the kernels, where there is no
//! Rust: `cargo xtask gpu-bundle`.
//!
//! ```text
//! OUT/warpswitch    the binary, with the kernels in it
//! OUT/card-tests    the tests that want a card
//! OUT/kernels/      the kernels' sources, to read beside a profile
//! OUT/data/         rule sets, if a folder of them is given
//! OUT/more/         files that are given one by one: rules of detection, captures
//! OUT/run.sh        runs it all and writes the figures
//! OUT/offload.sh    what a card gives to whole configurations; apps.sh has these, latency.sh times
//! OUT/snap.sh       puts that beside what Snap says, which snap.csv has
//! OUT/switch.sh     a whole switch between memory ports, beside what both papers say
//! OUT/twins.sh      whether the configurations of OUT/conf/ leave the same whoever does the work
//! OUT/provenance.sh what the rows of all these scripts name: commit, machine and date
//! OUT/rule_parallel.sh  small batches: kernels that divide rules beside those that do not
//! OUT/resident_run.sh  small batches with and without the resident kernel, in run and classify
//! OUT/figures.sh    sweeps what GSwitch's figures vary; gswitch.csv has the paper's values
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::repo;

/// A bundle is carried around: more than this is an error.
const BUNDLE_BYTES_MAX: u64 = 60_000_000;

/// Sets of a ClassBench folder that go along: each style at three sizes.
const SETS: [&str; 13] = [
    "acl1_1k",
    "acl2_1k",
    "fw1_1k",
    "fw5_1k",
    "ipc1_1k",
    "acl1_10k",
    "acl2_10k",
    "fw1_10k",
    "fw5_10k",
    "ipc1_10k",
    "acl1_100k",
    "fw5_100k",
    "ipc1_100k",
];

/// What lies in bench/gpu.
const SCRIPTS: [&str; 13] = [
    "run.sh",
    "provenance.sh",
    "rule_parallel.sh",
    "resident_run.sh",
    "figures.sh",
    "gswitch.csv",
    "offload.sh",
    "apps.sh",
    "latency.sh",
    "snap.sh",
    "snap.csv",
    "switch.sh",
    "twins.sh",
];

/// Makes the bundle.
pub fn run(args: &[String]) -> Result<()> {
    let mut out = repo::target().join("gpu-bundle");
    let (mut data, mut more) = (None, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value =
            || args.next().map(PathBuf::from).with_context(|| format!("{arg} needs a path"));
        match arg.as_str() {
            "--out" => out = value()?,
            "--data" => data = Some(value()?),
            "--more" => more.push(value()?),
            other => bail!("gpu-bundle takes --out DIR, --data DIR and --more FILE, got '{other}'"),
        }
    }
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot empty {}", out.display()))?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let binary = build(&["build", "--release", "-p", "warpswitch"], "warpswitch")?;
    place_program(&binary, &out.join("warpswitch"))?;
    let tests = build(&["test", "--no-run", "-p", "warpswitch-gpu", "--test", "card"], "card")?;
    place_program(&tests, &out.join("card-tests"))?;
    for folder in ["kernels", "conf"] {
        copy_folder(&repo::root().join(folder), &out.join(folder))?;
    }
    for name in SCRIPTS {
        let from = repo::root().join("bench/gpu").join(name);
        fs::copy(&from, out.join(name)).with_context(|| format!("cannot copy {name}"))?;
    }
    if let Some(folder) = data {
        copy_sets(&folder, &out.join("data"))?;
    }
    for file in more {
        let name = file.file_name().with_context(|| format!("no file: {}", file.display()))?;
        fs::create_dir_all(out.join("more"))?;
        let target = out.join("more").join(name);
        fs::copy(&file, target).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let bytes = folder_bytes(&out)?;
    if bytes > BUNDLE_BYTES_MAX {
        bail!("the bundle takes {bytes} bytes, at most {BUNDLE_BYTES_MAX}");
    }
    println!("{} ({:.1} MB)", out.display(), bytes as f64 / 1e6);
    Ok(())
}

/// Runs cargo and tells where it put the program called `name`.
fn build(args: &[&str], name: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(args)
        .arg("--message-format=json")
        .current_dir(repo::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("cargo {} failed", args.join(" "));
    }
    let text = String::from_utf8(output.stdout).context("cargo's messages")?;
    let found = text.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_it = message.pointer("/target/name")?.as_str()? == name;
        let program = message.get("executable")?.as_str()?;
        is_it.then(|| PathBuf::from(program))
    });
    found.with_context(|| format!("cargo built no program called '{name}'"))
}

/// Copies a program without what only a debugger reads, if `strip` is there.
fn place_program(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    _ = Command::new("strip").arg(to).status();
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

fn copy_sets(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for set in SETS {
        let names = [format!("{set}.rules"), format!("{set}.rules.gz")];
        let path = names.iter().map(|name| from.join(name)).find(|path| path.is_file());
        let path = path.with_context(|| format!("{set} is not in {}", from.display()))?;
        let target = to.join(path.file_name().unwrap_or_default());
        fs::write(&target, fs::read(&path)?)?;
    }
    Ok(())
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        bytes += if kind.is_dir() { folder_bytes(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}
