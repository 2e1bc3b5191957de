//! Builds the rival programs: `cargo xtask peers`.
//!
//! They are C programs over libraries of a Linux distribution, so a compiler and `pkg-config` are
//! all that is needed beside the library. Where one is missing, the error says what to install;
//! nothing else of the project depends on it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo;

/// A library that a peer is built over.
struct Library {
    /// Its name for people and for `pkg-config`.
    name: &'static str,
    package: &'static str,
    /// What to do where it is missing.
    install: &'static str,
}

const DPDK: Library = Library {
    name: "DPDK",
    package: "libdpdk",
    install: "on Debian and Ubuntu: apt install gcc pkg-config libdpdk-dev; \
              on Fedora: dnf install gcc pkgconf dpdk-devel",
};

const HYPERSCAN: Library = Library {
    name: "Hyperscan",
    package: "libhs",
    install: "on Debian and Ubuntu: apt install gcc pkg-config libhyperscan-dev; \
              on Fedora: dnf install gcc pkgconf hyperscan-devel",
};

/// Builds all of them.
pub fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("peers takes no argument, got '{arg}'");
    }
    println!("built {}", build_acl()?.display());
    println!("built {}", build_lpm()?.display());
    println!("built {}", build_scan()?.display());
    Ok(())
}

/// Builds the program over DPDK's `rte_acl`; returns its path.
pub fn build_acl() -> Result<PathBuf> {
    build("acl", &DPDK, &["acl.c", "classbench.c", "peer.c", "eal.c"])
}

/// Builds the program over DPDK's `rte_lpm`, `rte_fib` and their IPv6 forms; returns its path.
pub fn build_lpm() -> Result<PathBuf> {
    build("lpm", &DPDK, &["lpm.c", "peer.c", "eal.c"])
}

/// Builds the program over Hyperscan; returns its path.
pub fn build_scan() -> Result<PathBuf> {
    build("scan", &HYPERSCAN, &["scan.c", "peer.c"])
}

fn build(name: &str, library: &Library, sources: &[&str]) -> Result<PathBuf> {
    let folder = repo::root().join("bench/peers");
    let version = library.pkg_config("--modversion")?;
    println!("peer '{name}' over {} {}", library.name, version.join(" "));
    let build = folder.join("build");
    std::fs::create_dir_all(&build).with_context(|| format!("cannot make {}", build.display()))?;
    let program = build.join(name);
    let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.current_dir(&folder);
    compile.args(["-std=gnu11", "-O3", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]);
    compile.args(library.pkg_config("--cflags")?);
    compile.arg("-o").arg(&program).args(sources);
    compile.args(library.pkg_config("--libs")?);
    repo::must(&mut compile, &format!("compiling the peer '{name}' ({})", library.install))?;
    Ok(program)
}

impl Library {
    fn pkg_config(&self, what: &str) -> Result<Vec<String>> {
        let output = Command::new("pkg-config")
            .args([what, self.package])
            .output()
            .with_context(|| format!("pkg-config does not start; {}", self.install))?;
        if !output.status.success() {
            let Self { name, install, .. } = self;
            bail!("{name} was not found by pkg-config, so there is nothing of it; {install}");
        }
        Ok(String::from_utf8(output.stdout)?.split_whitespace().map(str::to_owned).collect())
    }
}
