//! Experiments: `cargo xtask bench`.
//!
//! ```text
//! bench/defs/*.toml ─► rules and trace (generated, or from --data) ─┬─► warpswitch bench classify
//!                                                                   └─► rte_acl (--peers)
//!                       table, ratios, bench/record ◄── digests agree ◄┘
//! ```
//! `routes` looks up routes instead, `graph` runs configurations, and `scan` searches payloads; see
//! their modules. Every
//! program reads the same files. An engine whose answers have another digest than the others gets
//! no number. Known bias is written down in `docs/benchmarking.md`.

mod def;
mod graph;
mod record;
mod report;
mod routes;
mod run;
mod scan;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{peers, repo};
use def::{Case, Def};
use report::Measured;

/// What the command line asks for.
#[derive(Debug)]
struct Options {
    names: Vec<String>,
    case: String,
    engines: Option<Vec<String>>,
    data: Option<PathBuf>,
    rounds: usize,
    peers: bool,
    record: bool,
    smoke: bool,
}

/// Runs the definitions named, or all of them.
pub fn run(args: &[String]) -> Result<()> {
    let options = parse(args)?;
    if options.record {
        record::require_clean_tree()?;
    }
    if options.names.iter().any(|name| name == ROUTES) {
        return run_routes(options);
    }
    if options.names.iter().any(|name| name == GRAPH) {
        return run_graph(options);
    }
    if options.names.iter().any(|name| name == SCAN) {
        return run_scan(options);
    }
    let defs = read_defs(&options.names)?;
    let tools = run::Tools::build(if options.peers { Some(peers::build_acl()?) } else { None })?;
    let mut measured = Vec::new();
    let (mut wrong, mut failed, mut skipped) = (0, 0, 0);
    for (name, def) in &defs {
        println!("\n== {name}: {}", def.about);
        for case in def.cases.iter().filter(|case| case.name.contains(&options.case)) {
            if case.data.is_some() && options.data.is_none() {
                skipped += 1;
                continue;
            }
            let case = if options.smoke { case.clone().smoke() } else { case.clone() };
            let mut one = run_case(&tools, def, &case, &options)?;
            wrong += one.strike_wrong(case.digest.as_deref());
            failed += one.figures.iter().filter(|f| f.mpps.is_none() && !f.is_peer).count();
            print!("{}", one.table());
            measured.push(one);
        }
    }
    if skipped > 0 {
        println!("\n{skipped} cases need --data DIR, a folder of ClassBench files; skipped");
    }
    if options.peers {
        println!();
        measured.iter().filter_map(Measured::verdict).for_each(|line| println!("{line}"));
    }
    if wrong > 0 {
        bail!("{wrong} engines gave wrong answers");
    }
    if failed > 0 {
        bail!("{failed} engines have no number");
    }
    if options.record {
        record::write(&measured)?;
    }
    if options.smoke && options.names.is_empty() {
        graph::measure(&graph::Options { data: None, rounds: 1, record: false, smoke: true })?;
        scan::scan(&scan::Options {
            data: None,
            rounds: 1,
            peers: false,
            record: false,
            smoke: true,
        })?;
        return run_routes(options);
    }
    Ok(())
}

/// The experiments that are no definitions: one looks up routes, one runs configurations, one
/// searches payloads.
const ROUTES: &str = "routes";
const GRAPH: &str = "graph";
const SCAN: &str = "scan";

fn run_scan(options: Options) -> Result<()> {
    if options.names.len() > 1 || options.engines.is_some() || !options.case.is_empty() {
        bail!("'{SCAN}' runs alone, and takes neither --case nor --engines");
    }
    let Options { data, rounds, peers, record, smoke, .. } = options;
    scan::scan(&scan::Options { data, rounds, peers, record, smoke })
}

fn run_graph(options: Options) -> Result<()> {
    let is_alone = options.names.len() <= 1 && options.engines.is_none() && !options.peers;
    if !is_alone || !options.case.is_empty() {
        bail!("'{GRAPH}' runs alone, and takes neither --case, --engines nor --peers");
    }
    let Options { data, rounds, record, smoke, .. } = options;
    graph::measure(&graph::Options { data, rounds, record, smoke })
}

fn run_routes(options: Options) -> Result<()> {
    if options.names.len() > 1 || options.engines.is_some() || !options.case.is_empty() {
        bail!("'{ROUTES}' runs alone, and takes neither --case nor --engines");
    }
    let Options { data, rounds, peers, record, smoke, .. } = options;
    routes::look_up(&routes::Options { data, rounds, peers, record, smoke })
}

fn run_case(tools: &run::Tools, def: &Def, case: &Case, options: &Options) -> Result<Measured> {
    let engines = options.engines.as_deref().unwrap_or(def.engines_of(case));
    let files = tools.files(case, options.data.as_deref())?;
    let mut measured = Measured {
        case: case.name.clone(),
        rules: 0,
        keys: case.trace.keys,
        threads: def.threads,
        figures: Vec::new(),
    };
    // Alternating, so that a noisy minute hits both.
    for _ in 0..options.rounds {
        let ours = tools.ours(&files, engines, def.threads, options.smoke)?;
        measured.rules = ours.rules;
        measured.keys = ours.packets;
        measured.merge(ours.engines);
        measured.merge(tools.peer(&files, &case.peer_max_size_mib, ours.rules)?);
    }
    Ok(measured)
}

fn parse(args: &[String]) -> Result<Options> {
    let mut args = args.to_vec();
    let engines = repo::take_value(&mut args, "--engines")?;
    let rounds = repo::take_value(&mut args, "--rounds")?.unwrap_or_else(|| "1".to_owned());
    let options = Options {
        case: repo::take_value(&mut args, "--case")?.unwrap_or_default(),
        engines: engines.map(|list| list.split(',').map(str::to_owned).collect()),
        data: repo::take_value(&mut args, "--data")?.map(PathBuf::from),
        rounds: rounds.parse().context("--rounds needs a number")?,
        peers: repo::take_flag(&mut args, "--peers"),
        record: repo::take_flag(&mut args, "--record"),
        smoke: repo::take_flag(&mut args, "--smoke"),
        names: args,
    };
    if options.rounds == 0 {
        bail!("--rounds must be at least 1");
    }
    if let Some(option) = options.names.iter().find(|name| name.starts_with('-')) {
        bail!("no option is called '{option}'");
    }
    if options.smoke && options.record {
        bail!("--smoke runs are too small to be recorded");
    }
    Ok(options)
}

fn read_defs(names: &[String]) -> Result<Vec<(String, Def)>> {
    let folder = repo::root().join("bench/defs");
    let mut known = Vec::new();
    for entry in std::fs::read_dir(&folder).context("cannot list bench/defs")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        known.extend(name.strip_suffix(".toml").map(str::to_owned));
    }
    known.sort();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("no definition is called '{unknown}'; there are {}", known.join(", "));
    }
    let chosen = if names.is_empty() { known.as_slice() } else { names };
    let read = |name: &String| Ok((name.clone(), Def::read(&folder.join(format!("{name}.toml")))?));
    chosen.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<Options> {
        parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_contradictions_refused() {
        let all = options(&["scale", "--peers", "--engines", "a,b", "--case", "fw"]).unwrap();
        assert!(all.peers && !all.record && all.rounds == 1 && all.case == "fw");
        assert_eq!(all.engines.unwrap(), ["a", "b"]);
        assert_eq!(all.names, ["scale"]);
        for wrong in
            [vec!["--fast"], vec!["--smoke", "--record"], vec!["--rounds", "0"], vec!["--data"]]
        {
            assert!(options(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_definition_reads() {
        let defs = read_defs(&[]).unwrap();
        assert!(!defs.is_empty());
        assert!(read_defs(&["missing".to_owned()]).is_err());
    }
}
