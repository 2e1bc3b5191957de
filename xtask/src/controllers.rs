//! Runs programs of others against `warpswitch switch`:
//! `cargo xtask controllers [--binary FILE] [ARGUMENT]...`.
//!
//! The controllers Ryu and Faucet go into virtual environments of Python below the target folder;
//! Open vSwitch is the other end of tunnels. `tests/controllers/controllers.py` gets the arguments
//! and does the rest. Needs root, Open vSwitch, and Python 3.11 or older for Ryu.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{python, repo};

/// Ryu's last release. It is built by the tools of its time, and its other requirements take what
/// fits: eventlet and dnspython are those that run on Python 3.11.
const RYU: [&[&str]; 2] = [
    &["setuptools==57.5.0", "wheel==0.48.0", "pbr==7.1.3"],
    &["--no-build-isolation", "ryu==4.34", "eventlet==0.33.3", "dnspython==2.6.1"],
];
/// Faucet, which pins what it requires, os-ken among it.
const FAUCET: [&[&str]; 1] = [&["faucet==1.10.12"]];

/// See the module.
pub fn run(args: &[String]) -> Result<()> {
    let mut args = args.to_vec();
    let binary = match repo::take_value(&mut args, "--binary")? {
        Some(binary) => PathBuf::from(binary),
        None => build()?,
    };
    let ryu = python::environment("controllers/ryu", &RYU)
        .context("Ryu requires Python 3.11 or older: which one does 'python3' start?")?;
    let faucet = python::environment("controllers/faucet", &FAUCET)?;
    let mut test = Command::new("python3");
    test.arg(repo::root().join("tests/controllers/controllers.py"));
    test.arg("--binary").arg(binary);
    test.arg("--ryu").arg(ryu).arg("--faucet").arg(faucet).args(args);
    repo::must(&mut test, "the tests with controllers")
}

/// The binary, built.
fn build() -> Result<PathBuf> {
    let mut build = repo::cargo();
    build.args(["build", "--package", "warpswitch"]);
    repo::must(&mut build, "building warpswitch")?;
    Ok(repo::target().join("debug/warpswitch"))
}
