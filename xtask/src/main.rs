//! The tasks of the project, run as `cargo xtask TASK`.
//!
//! | task | does |
//! | --- | --- |
//! | `ci` | all that has to pass before a change lands |
//! | `tidy` | the rules of the house that a machine can check |
//! | `bench` | runs the definitions under `bench/defs`, with the peers on request |
//! | `peers` | builds the rival programs under `bench/peers` |
//! | `gpu-bundle` | gathers what a machine with a card needs, to be run there |
//! | `figures` | draws what the bundle's sweeps measured, the papers' values beside ours |
//! | `fuzz` | runs each fuzz target for a while |
//! | `conformance` | runs os-ken's OpenFlow switch tester against `warpswitch switch` |
//! | `controllers` | runs Ryu, Faucet, and Open vSwitch as tunnel peer, against `warpswitch switch` |
//! | `clicktests` | runs Click's regression files against `warpswitch click` |
//!
//! `main` hands over to one module per task. Nothing here is part of what users run.
#![forbid(unsafe_code)]

mod bench;
mod ci;
mod clicktests;
mod conformance;
mod controllers;
mod figures;
mod fuzz;
mod gpu;
mod peers;
mod python;
mod repo;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

tasks:
  ci                      formatting, lints, tests, tidy rules, documentation, README commands
  tidy [--shrink]         check the rules of the house; exceptions are in xtask/ratchet.toml;
                          phrases of xtask/plain-english.txt are rejected, except in the files
                          of xtask/plain-english-legacy.txt; --shrink removes clean files there
  bench [NAME]... [--peers] [--data DIR] [--case TEXT] [--engines A,B] [--rounds N] [--record]
        [--smoke]
                          run bench/defs/NAME.toml (default: all); --peers runs rte_acl beside us,
                          --data is a folder of ClassBench files, --case keeps the cases whose
                          name contains TEXT, --rounds runs each N times, ours and the peer in
                          turn, and keeps the quietest, --record keeps the figures under
                          bench/record, --smoke runs every definition once on a small trace
  bench routes [--data DIR] [--peers] [--rounds N] [--record] [--smoke]
                          look up routes: ours, the poptrie crate and, with --peers, DPDK's
                          rte_lpm, rte_fib and rte_fib6; --data is a folder with a table of
                          prefixes, *prefixes.txt[.gz]
  bench graph [--data DIR] [--rounds N] [--record] [--smoke]
                          run configurations, memory to memory, on one core; --data is a folder
                          with ClassBench files and a table of prefixes, in it or one below
  peers                   build the rival programs (needs DPDK; says what to install)
  gpu-bundle [--out DIR] [--data DIR] [--more FILE]...
                          gather binary, tests, kernels and rule sets for a machine with a card;
                          --data is a folder of ClassBench files; run its run.sh there
  figures CSV [--out DIR] draw what bench/gpu/figures.sh measured as GSwitch's figures 5 to 9, or
                          what bench/gpu/snap.sh did as Snap's table and figures, as
                          SVG (default: into figures/ beside the file)
  fuzz [TARGET]... [--seconds N] [--jobs N]
                          run fuzz targets (default: all, 60 s each; needs nightly and cargo-fuzz);
                          --jobs is how many run at once (default: 1)
  conformance [--tests NAME,...] [--every N] [--jobs N] [--tries N] [--switch-args 'ARG...']
        [--json FILE] [--target warpswitch|ovs] [--stock-ovs] [--at-least SHARE]
                          run os-ken's OpenFlow 1.3 switch tester, in network namespaces; needs
                          root, python3-venv and openvswitch-switch; --every N runs every N-th file
                          of it, --tries runs a file with failures again: the tester loses frames on
                          busy machines
  controllers [--tests ryu,faucet,tunnels] [--binary FILE]
                          run Ryu's learning switch, Faucet with two VLANs and an ACL, and Open
                          vSwitch as the other end of tunnels, with hosts in network namespaces
                          behind 'warpswitch switch'; --binary is one that is built already
                          (default: built now); needs root, python3-venv (Python 3.11 or
                          older), iputils-ping, ethtool and openvswitch-switch
  clicktests --dir DIR [NAME]... [--bin DIR] [--seconds N] [--jobs N] [--keep DIR] [--json]
                          run Click's regression files, DIR being the folder 'test' of a checkout of
                          Click, with this project under the name 'click', and tell which pass,
                          which fail and where, and which need something that is not here; NAME
                          keeps the tests whose folder and name contain it, --bin is a folder with
                          another 'click' (default: ours, built now), --seconds limits each test
                          (default: 45), --jobs is how many run at once (default: 2), --keep is
                          where their folders are kept, --json prints JSON
";

fn main() -> ExitCode {
    warpswitch_provenance::set_commit(env!("WARPSWITCH_COMMIT"));
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((task, rest)) = args.split_first() else {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match task.as_str() {
        "ci" => ci::run(rest),
        "tidy" => tidy::run(rest),
        "bench" => bench::run(rest),
        "peers" => peers::run(rest),
        "fuzz" => fuzz::run(rest),
        "gpu-bundle" => gpu::run(rest),
        "figures" => figures::run(rest),
        "clicktests" => clicktests::run(rest),
        "conformance" => conformance::run(rest),
        "controllers" => controllers::run(rest),
        "help" | "--help" | "-h" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => {
            eprintln!("no task is called '{other}'\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {task}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
