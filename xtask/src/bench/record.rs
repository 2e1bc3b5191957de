//! Figures that are kept: `bench/record/MACHINE/DATE.csv`, and beside them what the machine is.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use super::report::Measured;
use crate::repo;

const HEADER: &str =
    "case,engine,threads,rules,keys,mpps,build_ms,bytes,p50_ns,p99_ns,digest,commit";

/// Writes what was measured today; rows of an earlier run today with the same case, engine and
/// threads are replaced.
pub fn write(measured: &[Measured]) -> Result<()> {
    let cpu = cpu_model();
    let folder = repo::root().join("bench/record").join(machine_name(&cpu, cores()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{}.csv", today()));
    let old = fs::read_to_string(&path).unwrap_or_default();
    write_whole(&path, &merged(&old, &rows(measured, &commit())))?;
    write_whole(&folder.join("machine.toml"), &machine(&cpu))?;
    println!("recorded in {}", path.display());
    Ok(())
}

fn write_whole(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn rows(measured: &[Measured], commit: &str) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.3}"));
    let mut rows = Vec::new();
    for case in measured {
        for f in case.figures.iter().filter(|f| f.mpps.is_some()) {
            // The peer runs one thread, whatever ours do.
            let threads = if f.is_peer { 1 } else { case.threads };
            let bytes = f.bytes.map_or_else(String::new, |bytes| bytes.to_string());
            rows.push(format!(
                "{},{},{threads},{},{},{},{},{bytes},{},{},{},{commit}",
                case.case,
                f.name,
                case.rules,
                case.keys,
                number(f.mpps),
                number(f.build_ms),
                number(f.p50_ns),
                number(f.p99_ns),
                f.digest.as_deref().unwrap_or(""),
            ));
        }
    }
    rows
}

/// The file with `new` in it: rows with the same case, engine and threads are replaced.
fn merged(old: &str, new: &[String]) -> String {
    let id = |row: &str| row.splitn(4, ',').take(3).map(str::to_owned).collect::<Vec<_>>();
    let stays = |row: &&str| !row.is_empty() && new.iter().all(|n| id(n) != id(row));
    let old = old.lines().skip(1).filter(stays).map(str::to_owned);
    let lines: Vec<String> =
        std::iter::once(HEADER.to_owned()).chain(old).chain(new.iter().cloned()).collect();
    lines.join("\n") + "\n"
}

/// What the machine is, as TOML.
fn machine(cpu: &str) -> String {
    let mut table = toml::Table::new();
    let mut put = |key: &str, value: String| table.insert(key.to_owned(), value.into());
    put("cpu", cpu.to_owned());
    put("cores", cores().to_string());
    for (name, index) in [("l1d", 0), ("l2", 2), ("l3", 3)] {
        let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        put(name, read_line(&file));
    }
    put("kernel", read_line("/proc/sys/kernel/osrelease"));
    put("transparent_huge_pages", read_line("/sys/kernel/mm/transparent_hugepage/enabled"));
    put("compiler", said("rustc", &["--version"]));
    put("commit", commit());
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

fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(':').nth(1)).unwrap_or(std::env::consts::ARCH);
    model.trim().to_owned()
}

fn commit() -> String {
    said("git", &["-c", "safe.directory=*", "describe", "--always", "--dirty"])
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(repo::root()).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".to_owned())
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(since / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Days since 1970-01-01 as year, month and day of the Gregorian calendar: counted off, which is
/// quick enough for one call and plain to check.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (20_777, (2026, 11, 20)),
            (20_818, (2026, 12, 31)),
        ] {
            assert_eq!(civil(days), date);
        }
    }

    #[test]
    fn a_second_run_replaces_its_rows_only() {
        let first = merged("", &["a,turbo,1,9".to_owned(), "a,turbo,2,8".to_owned()]);
        assert_eq!(first, format!("{HEADER}\na,turbo,1,9\na,turbo,2,8\n"));
        let second = merged(&first, &["a,turbo,1,7".to_owned()]);
        assert_eq!(second, format!("{HEADER}\na,turbo,2,8\na,turbo,1,7\n"));
    }

    #[test]
    fn machines_get_readable_folders() {
        assert_eq!(machine_name("AMD EPYC 9R14 (tm)", 2), "amd-epyc-9r14-2c");
        assert_eq!(machine_name("Intel(R) Xeon(R) Processor", 2), "intel-xeon-processor-2c");
    }
}
