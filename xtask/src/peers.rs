//! Builds the rival programs: `cargo xtask peers`.
//!
//! They are C programs over libraries of a Linux distribution, so a compiler and `pkg-config` are
//! all that is needed beside the library. Where one is missing, the error says what to install;
//! nothing else of the project depends on it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo;

const INSTALL: &str = "on Debian and Ubuntu: apt install gcc pkg-config libdpdk-dev; \
                       on Fedora: dnf install gcc pkgconf dpdk-devel";

/// Builds all of them.
pub fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("peers takes no argument, got '{arg}'");
    }
    println!("built {}", build_acl()?.display());
    println!("built {}", build_lpm()?.display());
    Ok(())
}

/// Builds the program over DPDK's `rte_acl`; returns its path.
pub fn build_acl() -> Result<PathBuf> {
    build("acl", &["acl.c", "classbench.c", "peer.c"])
}

/// Builds the program over DPDK's `rte_lpm`, `rte_fib` and their IPv6 forms; returns its path.
pub fn build_lpm() -> Result<PathBuf> {
    build("lpm", &["lpm.c", "peer.c"])
}

fn build(name: &str, sources: &[&str]) -> Result<PathBuf> {
    let folder = repo::root().join("bench/peers");
    let version = pkg_config("--modversion")?;
    println!("peer '{name}' over DPDK {}", version.join(" "));
    let build = folder.join("build");
    std::fs::create_dir_all(&build).with_context(|| format!("cannot make {}", build.display()))?;
    let program = build.join(name);
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.current_dir(&folder);
    compile.args(["-std=gnu11", "-O3", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]);
    compile.args(pkg_config("--cflags")?);
    compile.arg("-o").arg(&program).args(sources);
    compile.args(pkg_config("--libs")?);
    repo::must(&mut compile, &format!("compiling the peer '{name}' ({INSTALL})"))?;
    Ok(program)
}

fn pkg_config(what: &str) -> Result<Vec<String>> {
    let output = Command::new("pkg-config")
        .args([what, "libdpdk"])
        .output()
        .with_context(|| format!("pkg-config does not start; {INSTALL}"))?;
    if !output.status.success() {
        bail!(
            "DPDK was not found by pkg-config, so there is nothing of it to compare with; {INSTALL}"
        );
    }
    Ok(String::from_utf8(output.stdout)?.split_whitespace().map(str::to_owned).collect())
}
