//! Records: `bench/record/MACHINE/DATE.csv`, and a description of the machine beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use warpswitch_provenance::Provenance;

use super::report::Measured;
use crate::repo;

const HEADER: &str = "case,engine,threads,rules,keys,mpps,build_ms,bytes,p50_ns,p99_ns,digest";

/// Rejects a checkout whose results no commit stands for: call it before measuring.
///
/// # Errors
/// If tracked files differ from the commit, or git fails; records themselves may differ.
pub fn require_clean_tree() -> Result<()> {
    let list = repo::git(&["status", "--porcelain", "--", ".", ":(exclude)bench/record"]);
    reject_changes(&list.context("--record requires a git checkout")?)
}

fn reject_changes(list: &str) -> Result<()> {
    let Some(first) = list.lines().next() else { return Ok(()) };
    let more = match list.lines().count() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    bail!(
        "--record requires a clean tree, as each row names its commit; changed: '{}'{more}; \
         commit or stash first, or leave --record out",
        first.trim()
    )
}

/// Writes today's record; rows of an earlier run today with the same case, engine and threads are
/// replaced.
///
/// # Errors
/// If a file cannot be written, or today's record has other columns.
pub fn write(measured: &[Measured]) -> Result<()> {
    let from = Provenance::of_cpu();
    let folder = repo::root().join("bench/record").join(machine_name(&from.machine, cores()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{}.csv", from.date));
    let old = fs::read_to_string(&path).unwrap_or_default();
    let merged = merged(&old, &from.stamp_csv(&table(measured)));
    write_whole(&path, &merged.with_context(|| path.display().to_string())?)?;
    write_whole(&folder.join("machine.toml"), &machine(&from))?;
    println!("recorded in {}", path.display());
    Ok(())
}

fn write_whole(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// A row for each rate, under the names of the columns.
fn table(measured: &[Measured]) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.3}"));
    let mut table = format!("{HEADER}\n");
    for case in measured {
        for f in case.figures.iter().filter(|f| f.mpps.is_some()) {
            // The peer runs one thread, whatever ours do.
            let threads = if f.is_peer { 1 } else { case.threads };
            let bytes = f.bytes.map_or_else(String::new, |bytes| bytes.to_string());
            table += &format!(
                "{},{},{threads},{},{},{},{},{bytes},{},{},{}\n",
                case.case,
                f.name,
                case.rules,
                case.keys,
                number(f.mpps),
                number(f.build_ms),
                number(f.p50_ns),
                number(f.p99_ns),
                f.digest.as_deref().unwrap_or(""),
            );
        }
    }
    table
}

/// The record `old` with the rows of `new` in it: those with the same case, engine and threads are
/// replaced.
fn merged(old: &str, new: &str) -> Result<String> {
    let header = new.lines().next().unwrap_or_default();
    if old.lines().next().is_some_and(|columns| columns != header) {
        bail!("its columns are not {header}; move the file away to record anew");
    }
    let id = |row: &str| row.splitn(4, ',').take(3).map(str::to_owned).collect::<Vec<_>>();
    let stays = |row: &&str| new.lines().all(|n| id(n) != id(row));
    let old = old.lines().skip(1).filter(stays);
    let lines: Vec<&str> = std::iter::once(header).chain(old).chain(new.lines().skip(1)).collect();
    Ok(lines.join("\n") + "\n")
}

/// The machine, as TOML.
fn machine(from: &Provenance) -> String {
    let mut table = toml::Table::new();
    let mut put = |key: &str, value: String| table.insert(key.to_owned(), value.into());
    put("cpu", from.machine.clone());
    put("cores", cores().to_string());
    for (name, index) in [("l1d", 0), ("l2", 2), ("l3", 3)] {
        let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        put(name, read_line(&file));
    }
    put("kernel", read_line("/proc/sys/kernel/osrelease"));
    put("transparent_huge_pages", read_line("/sys/kernel/mm/transparent_hugepage/enabled"));
    put("compiler", compiler());
    put("commit", from.commit.to_owned());
    toml::to_string(&table).unwrap_or_default()
}

/// A folder name for a machine: its CPU's words and its cores.
fn machine_name(cpu: &str, cores: usize) -> String {
    let lower = cpu.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|w| !w.is_empty() && !["r", "tm"].contains(w)).collect();
    format!("{}-{cores}c", words.join("-"))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").current_dir(repo::root()).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".to_owned())
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_rows_that_are_measured_again() {
        let header = format!("{HEADER},commit");
        let record = |rows: &str| format!("{header}\n{rows}");
        let first = merged("", &record("a,turbo,1,9\na,turbo,2,8\n")).unwrap();
        assert_eq!(first, record("a,turbo,1,9\na,turbo,2,8\n"));
        let second = merged(&first, &record("a,turbo,1,7\n")).unwrap();
        assert_eq!(second, record("a,turbo,2,8\na,turbo,1,7\n"));
        let error = merged("case,mpps\na,9\n", &record("a,turbo,1,7\n")).unwrap_err();
        assert!(error.to_string().contains("its columns are not case,engine"), "{error}");
    }

    #[test]
    fn rejects_a_dirty_tree_and_names_the_change() {
        assert!(reject_changes("").is_ok());
        let error = reject_changes(" M README.md\n?? crates/io/src/new.rs\n").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("requires a clean tree"), "{error}");
        assert!(error.contains("'M README.md' and 1 more"), "{error}");
    }

    #[test]
    fn machines_get_readable_folders() {
        assert_eq!(machine_name("AMD EPYC 9R14 (tm)", 2), "amd-epyc-9r14-2c");
        assert_eq!(machine_name("Intel(R) Xeon(R) Processor", 2), "intel-xeon-processor-2c");
    }
}
