//! Virtual environments of Python, below the target folder.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::repo;

/// The interpreter of the environment in `target/FOLDER`, which is made if it is missing, with
/// these steps of `pip install`.
pub fn environment(folder: &str, installs: &[&[&str]]) -> Result<PathBuf> {
    let venv = repo::target().join(folder);
    let python = venv.join("bin/python");
    if !python.exists() {
        let mut make = Command::new("python3");
        repo::must(make.args(["-m", "venv"]).arg(&venv), "making a Python environment")?;
    }
    for packages in installs {
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        let what = format!("installing {}", packages.join(" "));
        repo::must(install.args(*packages), &what)?;
    }
    Ok(python)
}
