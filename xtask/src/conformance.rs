//! Runs os-ken's OpenFlow 1.3 switch tester against `warpswitch switch`:
//! `cargo xtask conformance [ARGUMENT]...`.
//!
//! The tester goes into a virtual environment of Python below the target folder;
//! `tests/conformance/openflow.py` gets the arguments and does the rest. Needs root and Open
//! vSwitch, which is the tester's own switch.

use std::process::Command;

use anyhow::Result;

use crate::repo;

/// The last release of os-ken that has the launcher of its tester.
const OS_KEN: &str = "os-ken==3.1.1";

/// See the module.
pub fn run(args: &[String]) -> Result<()> {
    let mut build = repo::cargo();
    build.args(["build", "--release", "--package", "warpswitch"]);
    repo::must(&mut build, "building warpswitch")?;
    let venv = repo::target().join("conformance");
    let python = venv.join("bin/python");
    if !python.exists() {
        let mut make = Command::new("python3");
        repo::must(make.args(["-m", "venv"]).arg(&venv), "making a Python environment")?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", OS_KEN]);
    repo::must(&mut install, "installing os-ken")?;
    let mut tester = Command::new(&python);
    tester.arg(repo::root().join("tests/conformance/openflow.py"));
    tester.arg("--binary").arg(repo::target().join("release/warpswitch")).args(args);
    repo::must(&mut tester, "the conformance tests")
}
