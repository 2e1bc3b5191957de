//! Searching payloads for patterns: `cargo xtask bench scan [--data DIR]`.
//!
//! ```text
//! DIR/**/literals_*.hex ─► patterns ─┐
//! DIR/**/snort/*.rules ─► their fast ┤
//! DIR/**/*http*.pcap ─► payloads ────┼─► warpswitch-scan's benchmark, aho-corasick crate within
//! random bytes ─────► payloads ──────┴─► Hyperscan (--peers)
//!                     table, ratios, bench/record ◄── digests agree ◄┘
//! ```
//! Rules of detection, packed or not, give two sets: what payloads of TCP are searched for, and, by
//! `-messages`, what parts of HTTP messages are.
//!
//! Without `--data` patterns and text are made up, the same in every run. All patterns are
//! insensitive, which is what one automaton of the crate can do. Rates are payloads a second, as in
//! other experiments; bits a second stand below the table.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::report::{Figures, Measured};
use super::routes::Random;
use super::{record, run};
use crate::{peers, repo};

/// Payloads of random bytes, and how long each is: what a frame of Ethernet has room for.
const RANDOM_PAYLOADS: usize = 4096;
const RANDOM_BYTES: usize = 1460;

/// What rates are compared with where it ran.
const RIVAL: &str = "aho-corasick DFA crate";

/// What the command line asks for, beside the name.
#[derive(Debug)]
pub struct Options {
    /// A folder with patterns and captures somewhere in it.
    pub data: Option<PathBuf>,
    /// How often ours and the peer run in turn.
    pub rounds: usize,
    /// Whether the peer runs.
    pub peers: bool,
    /// Whether figures are kept.
    pub record: bool,
    /// Whether it is enough to see that it runs.
    pub smoke: bool,
}

/// One line of what the programs print.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    payloads: String,
    gbps: f64,
    found: u64,
    #[serde(flatten)]
    figures: Figures,
}

/// A file of patterns.
struct Patterns {
    name: String,
    path: PathBuf,
    len: usize,
}

/// Runs the benchmark.
pub fn scan(options: &Options) -> Result<()> {
    if options.smoke {
        // Without files it runs on patterns of its own.
        return repo::must(&mut ours(), "the benchmark of scans");
    }
    let peer = if options.peers { Some(peers::build_scan()?) } else { None };
    let folder = repo::target().join("bench");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let (sets, payloads) = match &options.data {
        Some(data) => {
            (patterns_of(data, &folder)?, vec![captured(data, &folder)?, random(&folder)?])
        }
        None => made_up(&folder)?,
    };
    let mut measured = Vec::new();
    for set in &sets {
        println!("\n== {}: {} patterns", set.name, set.len);
        let mut lines = Vec::new();
        for _ in 0..options.rounds {
            add(&mut lines, &output(ours(), set, &payloads)?, false)?;
            if let Some(peer) = &peer {
                add(&mut lines, &output(Command::new(peer), set, &payloads)?, true)?;
            }
        }
        bits(&lines).iter().for_each(|line| println!("{line}"));
        measured.extend(cases(set, &payloads, &lines)?);
    }
    let mut wrong = 0;
    for one in &mut measured {
        wrong += one.strike_wrong(None);
        print!("{}", one.table());
    }
    measured.iter().filter_map(Measured::verdict).for_each(|line| println!("{line}"));
    if wrong > 0 {
        bail!("{wrong} engines found something else");
    }
    if options.record {
        record::write(&measured)?;
    }
    Ok(())
}

fn ours() -> Command {
    let mut command = repo::cargo();
    command.args(["bench", "--quiet", "--package", "warpswitch-scan", "--bench", "scan", "--"]);
    command
}

fn output(mut command: Command, set: &Patterns, payloads: &[PathBuf]) -> Result<String> {
    command.arg("--patterns").arg(&set.path);
    for path in payloads {
        command.arg("--payloads").arg(path);
    }
    run::output(&mut command, &[0], &set.name)
}

/// Adds what a program printed; of two rounds the quieter one stays.
fn add(lines: &mut Vec<Line>, text: &str, is_peer: bool) -> Result<()> {
    for line in text.lines() {
        let mut line: Line =
            serde_json::from_str(line).with_context(|| format!("a program printed: {line}"))?;
        line.figures.is_peer = is_peer || line.figures.name.ends_with(" crate");
        let same = |old: &&mut Line| {
            (&old.payloads, &old.figures.name) == (&line.payloads, &line.figures.name)
        };
        match lines.iter_mut().find(same) {
            Some(old) if old.gbps < line.gbps => *old = line,
            Some(_) => {}
            None => lines.push(line),
        }
    }
    Ok(())
}

/// Bits a second, and how they stand to the rival's.
fn bits(lines: &[Line]) -> Vec<String> {
    let shown = lines.iter().map(|line| {
        let is_rival =
            |other: &&Line| other.figures.name == RIVAL && other.payloads == line.payloads;
        let ratio = lines.iter().find(is_rival).map(|rival| line.gbps / rival.gbps);
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:>7.2}x"));
        format!(
            "  {:<10} {:<28} {:>8.3} Gbit/s{ratio} {:>9} found",
            line.payloads, line.figures.name, line.gbps, line.found
        )
    });
    shown.collect()
}

/// The cases of a set: one for each kind of payloads, and one where sets are wanted, which peers
/// do not give.
fn cases(set: &Patterns, payloads: &[PathBuf], lines: &[Line]) -> Result<Vec<Measured>> {
    let mut cases = Vec::new();
    for path in payloads {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let keys = payloads_len(&fs::read(path).with_context(|| path.display().to_string())?);
        for (ending, is_set) in [("", false), ("-sets", true)] {
            let chosen = lines.iter().filter(|line| line.payloads == name);
            let chosen = chosen.filter(|line| line.figures.name.ends_with(" sets") == is_set);
            cases.push(Measured {
                case: format!("scan-{}-{name}{ending}", set.name),
                rules: set.len,
                keys,
                threads: 1,
                figures: chosen.map(|line| line.figures.clone()).collect(),
            });
        }
    }
    Ok(cases)
}

/// Records in a file of payloads.
fn payloads_len(mut bytes: &[u8]) -> usize {
    let mut len = 0;
    while let Some((head, rest)) = bytes.split_first_chunk() {
        bytes = rest.get(u32::from_le_bytes(*head) as usize..).unwrap_or_default();
        len += 1;
    }
    len
}

/// Files below `folder` whose name passes, in order.
fn files(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            // Links are not followed, so there is no way round.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if is_wanted(&entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn patterns_of(data: &Path, folder: &Path) -> Result<Vec<Patterns>> {
    let is_wanted = |name: &str| name.starts_with("literals_") && name.ends_with(".hex");
    let mut paths = files(data, &is_wanted)?;
    // Other folders have rules of classifiers by such names.
    let is_detection =
        |path: &PathBuf| path.parent().is_some_and(|folder| folder.ends_with("snort"));
    for rules in
        files(data, &|name| rules_name(name).is_some())?.iter().filter(|path| is_detection(path))
    {
        paths.extend(fast_patterns(rules, folder)?);
    }
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = stem.trim_start_matches("literals_").to_owned();
        Ok(Patterns { name, len: text.lines().count(), path })
    };
    let mut sets: Vec<Patterns> = paths.into_iter().map(read).collect::<Result<_>>()?;
    sets.retain(|set| set.len > 0);
    if sets.is_empty() {
        bail!("no literals_*.hex and no snort/*.rules below {}", data.display());
    }
    Ok(sets)
}

/// The name of a file of detection rules, without its endings.
fn rules_name(name: &str) -> Option<&str> {
    name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".rules")
}

/// Has our detection write what it would search for: in payloads of TCP, and in messages.
fn fast_patterns(rules: &Path, folder: &Path) -> Result<[PathBuf; 2]> {
    let name = rules.file_name().unwrap_or_default().to_string_lossy();
    let name = rules_name(&name).unwrap_or(&name);
    let sets = ["", "-messages"].map(|what| folder.join(format!("{name}{what}.hex")));
    let mut command = repo::cargo();
    command.args(["run", "--quiet", "--release", "--package", "warpswitch-ids"]);
    command.args(["--example", "fast_patterns", "--"]).arg(rules).args(&sets);
    repo::must(&mut command, "taking patterns out of rules")?;
    Ok(sets)
}

/// Has our benchmark take the payloads out of captures.
fn captured(data: &Path, folder: &Path) -> Result<PathBuf> {
    let captures = files(data, &|name| name.contains("http") && name.ends_with(".pcap"))?;
    if captures.is_empty() {
        bail!("no *http*.pcap below {}", data.display());
    }
    let path = folder.join("http.payloads");
    let mut command = ours();
    command.arg("--prepare").arg(&path);
    captures.iter().for_each(|capture| _ = command.arg("--capture").arg(capture));
    repo::must(&mut command, "taking payloads out of captures")?;
    Ok(path)
}

fn random(folder: &Path) -> Result<PathBuf> {
    let mut random = Random(1);
    let mut bytes = Vec::new();
    for _ in 0..RANDOM_PAYLOADS {
        bytes.extend_from_slice(&(RANDOM_BYTES as u32).to_le_bytes());
        bytes.extend((0..RANDOM_BYTES).map(|_| random.below(256) as u8));
    }
    written(folder, "random.payloads", &bytes)
}

/// Sets of 1,000 and 10,000 patterns, and requests that have some.
fn made_up(folder: &Path) -> Result<(Vec<Patterns>, Vec<PathBuf>)> {
    let mut sets = Vec::new();
    let mut paths: Vec<String> = Vec::new();
    for (name, len) in [("made-up-1k", 1_000), ("made-up-10k", 10_000)] {
        let mut random = Random(2);
        paths = (0..len).map(|_| made_up_path(&mut random)).collect();
        let mut text = String::new();
        for path in &paths {
            let hex = path.bytes().fold(String::new(), |mut hex, byte| {
                _ = write!(hex, "{byte:02x}");
                hex
            });
            writeln!(text, "i {hex}")?;
        }
        let path = written(folder, &format!("{name}.hex"), text.as_bytes())?;
        sets.push(Patterns { name: name.to_owned(), path, len });
    }
    let random_payloads = random(folder)?;
    let mut random = Random(3);
    let mut bytes = Vec::new();
    for _ in 0..RANDOM_PAYLOADS {
        let mut text = String::new();
        while text.len() < RANDOM_BYTES / 2 {
            let host = made_up_path(&mut random);
            // One request of some asks for what a pattern is.
            let path = match random.below(8) {
                0 => paths[random.below(paths.len() as u64) as usize].clone(),
                _ => made_up_path(&mut random),
            };
            write!(
                text,
                "GET {path} HTTP/1.1\r\nHost: www{host}.example\r\nUser-Agent: Mozilla/5.0 \
                 (X11; Linux x86_64)\r\nAccept: text/html,application/xhtml+xml\r\n\r\n"
            )?;
        }
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    Ok((sets, vec![written(folder, "requests.payloads", &bytes)?, random_payloads]))
}

/// Words of 4 to 30 letters after slashes and dots.
fn made_up_path(random: &mut Random) -> String {
    let mut path = String::new();
    let len = 4 + random.below(27) as usize;
    while path.len() < len {
        let mark = ['/', '.', '?', '=', '-', '/'][random.below(6) as usize];
        path.push(mark);
        for _ in 0..1 + random.below(3) {
            let syllables = ["in", "de", "x", "ad", "min", "lo", "gin", "up", "7", "shell", "cgi"];
            path.push_str(syllables[random.below(syllables.len() as u64) as usize]);
        }
    }
    path.truncate(len);
    path
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_up_is_the_same_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let (sets, payloads) = made_up(folder.path()).unwrap();
        assert_eq!([sets[0].len, sets[1].len], [1_000, 10_000]);
        let read = |path: &PathBuf| fs::read(path).unwrap();
        let before: Vec<_> = payloads.iter().map(read).collect();
        assert_eq!(before.iter().map(|bytes| payloads_len(bytes)).min(), Some(RANDOM_PAYLOADS));
        let (_, again) = made_up(folder.path()).unwrap();
        assert_eq!(again.iter().map(read).collect::<Vec<_>>(), before);
        let patterns = fs::read_to_string(&sets[0].path).unwrap();
        assert!(patterns.lines().all(|line| line.len() >= 10 && line.starts_with("i ")));
        assert!(patterns_of(folder.path(), folder.path()).is_err(), "none is called literals_*");
    }

    #[test]
    fn lines_become_cases_and_ratios() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), "http.payloads", &[1, 0, 0, 0, 9, 0, 0, 0, 0]).unwrap();
        let line = |name: &str, rates: &str| {
            format!("{{\"name\":\"{name}\",\"payloads\":\"http\",{rates},\"found\":3}}\n")
        };
        let text = line("warpswitch x", "\"gbps\":12.0,\"mpps\":2.0")
            + &line("warpswitch x sets", "\"gbps\":14.0,\"mpps\":2.5")
            + &line("aho-corasick DFA crate", "\"gbps\":2.0,\"mpps\":0.3");
        let mut lines = Vec::new();
        add(&mut lines, &text, false).unwrap();
        add(&mut lines, &text.replace("12.0", "11.0"), false).unwrap();
        assert!(bits(&lines)[0].contains("6.00x"), "{:?}", bits(&lines));
        let set = Patterns { name: "1k".to_owned(), path: PathBuf::new(), len: 5 };
        let cases = cases(&set, &[path], &lines).unwrap();
        let names: Vec<_> = cases.iter().map(|one| (&*one.case, one.figures.len())).collect();
        assert_eq!(names, [("scan-1k-http", 2), ("scan-1k-http-sets", 1)]);
        assert!(cases[0].figures[1].is_peer && cases[0].keys == 2);
        assert!(add(&mut lines, "{}", false).is_err());
    }
}
