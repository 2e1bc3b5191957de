//! Runs os-ken's OpenFlow 1.3 switch tester against `warpswitch switch`:
//! `cargo xtask conformance [ARGUMENT]...`.
//!
//! The tester goes into a virtual environment of Python below the target folder;
//! `tests/conformance/openflow.py` gets the arguments and does the rest. Needs root and Open
//! vSwitch, which is the tester's own switch.

use std::process::Command;

use anyhow::Result;

use crate::{python, repo};

/// The last release of os-ken that has the launcher of its tester.
const OS_KEN: &str = "os-ken==3.1.1";

/// See the module.
pub fn run(args: &[String]) -> Result<()> {
    let mut build = repo::cargo();
    build.args(["build", "--release", "--package", "warpswitch"]);
    repo::must(&mut build, "building warpswitch")?;
    let mut tester = Command::new(python::environment("conformance", &[&[OS_KEN]])?);
    tester.arg(repo::root().join("tests/conformance/openflow.py"));
    tester.arg("--binary").arg(repo::target().join("release/warpswitch")).args(args);
    repo::must(&mut tester, "the conformance tests")
}
