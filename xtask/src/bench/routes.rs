//! Route lookups: `cargo xtask bench routes --data DIR`.
//!
//! ```text
//! DIR/*prefixes.txt[.gz] ─► routes and addresses of each family ─┬─► warpswitch-routes' benchmark
//!                                                                └─► rte_lpm, rte_fib (--peers)
//!                           table, ratios, bench/record ◄── digests agree ◄┘
//! ```
//! The table has prefixes alone; next hops are numbers below `--hops`, at random. Addresses are
//! uniform (IPv6: below 2000::/3), or uniform inside a prefix drawn at random.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::report::{Figures, Measured};
use super::{record, run};
use crate::{peers, repo};

/// Addresses in a list.
const ADDRS: usize = 1 << 20;

/// Next hops: what a large router has, and what 8 bits can tell apart with room for none.
const HOPS: u64 = 250;

/// What the command line asks for, beside the name.
#[derive(Debug)]
pub struct Options {
    /// The folder with the table.
    pub data: Option<PathBuf>,
    /// How often ours and the peers run in turn.
    pub rounds: usize,
    /// Whether peers run.
    pub peers: bool,
    /// Whether figures are kept.
    pub record: bool,
    /// Whether it is enough to see that it runs.
    pub smoke: bool,
}

/// One line of what the programs print.
#[derive(Debug, Deserialize)]
struct Line {
    addrs: Option<String>,
    #[serde(flatten)]
    figures: Figures,
    removes_mps: Option<f64>,
    inserts_mps: Option<f64>,
}

/// A family's files and how many routes they hold.
struct Case {
    name: &'static str,
    routes: PathBuf,
    routes_len: usize,
    lists: Vec<PathBuf>,
}

/// Runs the benchmark.
pub fn look_up(options: &Options) -> Result<()> {
    if options.smoke {
        // Without files it runs on routes of its own.
        return repo::must(&mut ours(), "the benchmark of routes");
    }
    let Some(data) = &options.data else {
        println!("routes: needs --data DIR, a folder with a table of prefixes; skipped");
        return Ok(());
    };
    let peer = if options.peers { Some(peers::build_lpm()?) } else { None };
    let folder = repo::target().join("bench");
    let mut measured = Vec::new();
    for case in cases(&table(data)?, &folder)? {
        println!("\n== {}: {} routes, next hops below {HOPS}", case.name, case.routes_len);
        let mut own: Vec<Measured> = case.lists.iter().map(|list| empty(&case, list)).collect();
        for _ in 0..options.rounds {
            add(&mut own, &output(ours(), &case)?, false)?;
            if let Some(peer) = &peer {
                add(&mut own, &output(Command::new(peer), &case)?, true)?;
            }
        }
        measured.extend(own);
    }
    let mut wrong = 0;
    for one in &mut measured {
        wrong += one.strike_wrong(None);
        print!("{}", one.table());
    }
    measured.iter().filter_map(Measured::verdict).for_each(|line| println!("{line}"));
    if wrong > 0 {
        bail!("{wrong} engines gave wrong answers");
    }
    if options.record {
        record::write(&measured)?;
    }
    Ok(())
}

fn ours() -> Command {
    let mut command = repo::cargo();
    command.args(["bench", "--quiet", "--package", "warpswitch-routes", "--bench", "routes", "--"]);
    command
}

/// What a program prints about the files of a case.
fn output(mut command: Command, case: &Case) -> Result<String> {
    command.arg("--routes").arg(&case.routes);
    for list in &case.lists {
        command.arg("--addrs").arg(list);
    }
    run::output(&mut command, &[0], case.name)
}

fn empty(case: &Case, list: &Path) -> Measured {
    Measured {
        case: list.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        rules: case.routes_len,
        keys: ADDRS,
        threads: 1,
        figures: Vec::new(),
    }
}

/// Files what a program printed under the lists of addresses that it names.
fn add(measured: &mut [Measured], text: &str, is_peer: bool) -> Result<()> {
    for line in text.lines() {
        let line: Line =
            serde_json::from_str(line).with_context(|| format!("a program printed: {line}"))?;
        if let (Some(removes), Some(inserts)) = (line.removes_mps, line.inserts_mps) {
            println!("{}: {removes} M removes/s, {inserts} M inserts/s", line.figures.name);
        }
        let Some(list) = line.addrs else { continue };
        let case = measured.iter_mut().find(|one| list.strip_suffix(".addrs") == Some(&one.case));
        let case = case.with_context(|| format!("no list is called {list}"))?;
        case.merge(vec![Figures { is_peer: is_peer || is_crate(&line.figures), ..line.figures }]);
    }
    Ok(())
}

/// Rivals that are crates run within our benchmark.
fn is_crate(figures: &Figures) -> bool {
    figures.name.ends_with(" crate")
}

/// The text of the table in `folder`.
fn table(folder: &Path) -> Result<String> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let is_table = |path: &&PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with("prefixes.txt") || name.ends_with("prefixes.txt.gz")
    };
    let path = paths.iter().find(is_table);
    let path = path.with_context(|| format!("no *prefixes.txt[.gz] in {}", folder.display()))?;
    if path.extension().is_some_and(|ending| ending == "gz") {
        let unpack = Command::new("gzip").arg("-dc").arg(path).stderr(Stdio::inherit()).output();
        let unpack = unpack.context("gzip does not start")?;
        if !unpack.status.success() {
            bail!("gzip cannot unpack {}", path.display());
        }
        return String::from_utf8(unpack.stdout).context("the table is not text");
    }
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// Writes the files of both families.
fn cases(table: &str, folder: &Path) -> Result<Vec<Case>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut cases = Vec::new();
    for (name, bits) in [("ipv4", 32), ("ipv6", 128)] {
        let mut random = Random(1);
        let mut prefixes = Vec::new();
        let mut routes = String::new();
        for line in table.lines().filter(|line| line.contains(':') == (bits == 128)) {
            let prefix = parse(line).with_context(|| format!("'{line}' is no prefix"))?;
            prefixes.push(prefix);
            writeln!(routes, "{line} {}", random.below(HOPS))?;
        }
        if prefixes.is_empty() {
            continue;
        }
        let mut uniform = String::new();
        let mut inside = String::new();
        for _ in 0..ADDRS {
            let top = if bits == 128 { 0x2 << 124 } else { 0 };
            let free = if bits == 128 { 125 } else { 32 };
            writeln!(uniform, "{}", shown(top | random.bits(free), bits))?;
            let (addr, len) = prefixes[random.below(prefixes.len() as u64) as usize];
            writeln!(inside, "{}", shown(addr | random.bits(bits - len), bits))?;
        }
        let path = |what: &str| folder.join(format!("{name}{what}"));
        let files = [path(".routes"), path("-random.addrs"), path("-inside.addrs")];
        for (path, text) in files.iter().zip([routes, uniform, inside]) {
            fs::write(path, text).with_context(|| path.display().to_string())?;
        }
        let [routes, random, inside] = files;
        let routes_len = prefixes.len();
        cases.push(Case { name, routes, routes_len, lists: vec![random, inside] });
    }
    Ok(cases)
}

/// The number and length of a prefix.
fn parse(line: &str) -> Option<(u128, u32)> {
    let (addr, len) = line.split_once('/')?;
    let addr = match addr.parse().ok()? {
        std::net::IpAddr::V4(addr) => u128::from(addr.to_bits()),
        std::net::IpAddr::V6(addr) => addr.to_bits(),
    };
    Some((addr, len.parse().ok()?))
}

fn shown(addr: u128, bits: u32) -> String {
    if bits == 32 {
        Ipv4Addr::from_bits(addr as u32).to_string()
    } else {
        Ipv6Addr::from_bits(addr).to_string()
    }
}

/// A sequence of numbers that is the same everywhere.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number of `len` bits.
    fn bits(&mut self, len: u32) -> u128 {
        let bits = u128::from(self.next()) << 64 | u128::from(self.next());
        bits & !u128::MAX.checked_shl(len).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_becomes_routes_and_addresses() {
        let folder = std::env::temp_dir().join(format!("xtask-routes-{}", std::process::id()));
        let table = "10.0.0.0/8\n192.0.2.1/32\n2001:db8::/32\n::/0\n";
        let cases = cases(table, &folder).unwrap();
        let lens: Vec<_> = cases.iter().map(|case| (case.name, case.routes_len)).collect();
        assert_eq!(lens, [("ipv4", 2), ("ipv6", 2)]);
        let inside = fs::read_to_string(&cases[0].lists[1]).unwrap();
        assert_eq!(inside.lines().count(), ADDRS);
        assert!(inside.lines().all(|line| line.starts_with("10.") || line == "192.0.2.1"));
        let uniform = fs::read_to_string(&cases[1].lists[0]).unwrap();
        assert!(uniform.lines().all(|line| line.starts_with(['2', '3'])));
        fs::remove_dir_all(&folder).unwrap();
        assert!(super::cases("no prefix", &folder.join("x")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn lines_find_their_list() {
        let case = Case {
            name: "ipv4",
            routes: PathBuf::new(),
            routes_len: 2,
            lists: vec![PathBuf::from("a/ipv4-random.addrs")],
        };
        let mut measured = vec![empty(&case, &case.lists[0])];
        let text = r#"{"name":"x","addrs":"ipv4-random.addrs","mpps":2.5}
            {"name":"x","removes_mps":1.0,"inserts_mps":1.0}
            {"name":"poptrie crate","addrs":"ipv4-random.addrs","error":"slow"}"#;
        add(&mut measured, text, false).unwrap();
        let figures = &measured[0].figures;
        assert_eq!((figures.len(), figures[0].mpps), (2, Some(2.5)));
        assert_eq!([figures[0].is_peer, figures[1].is_peer], [false, true]);
        assert!(add(&mut measured, "{\"name\":\"x\",\"addrs\":\"other\"}", false).is_err());
        assert!(add(&mut measured, "EAL: no", false).is_err());
    }
}
