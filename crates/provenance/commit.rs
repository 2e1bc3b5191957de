//! Passes the commit that is built to a program: `unknown` outside a git checkout. All programs use
//! this script.

use std::path::Path;
use std::process::Command;

/// What binaries are built from, relative to the workspace: changes there make a commit dirty.
const SOURCES: [&str; 5] = ["Cargo.lock", "conf", "crates", "kernels", "xtask"];

fn main() {
    // Scripts start in the folder of their package, and the paths that they print start there.
    let start = std::env::current_dir().expect("the folder of the package");
    let is_workspace = |folder: &&Path| folder.join(SOURCES[0]).exists();
    let workspace = start.ancestors().find(is_workspace).unwrap_or(&start);
    std::env::set_current_dir(workspace).expect("the folder of the workspace");
    println!("cargo::rustc-env=WARPSWITCH_COMMIT={}", commit().as_deref().unwrap_or("unknown"));
    for path in SOURCES {
        println!("cargo::rerun-if-changed={}", workspace.join(path).display());
    }
    // Commits, checkouts and resets append to this log.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={}", workspace.join(log).display());
    }
}

fn commit() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes = git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if changes.is_empty() { commit } else { commit + "-dirty" })
}

/// The output of a git command; none if it fails.
fn git(args: &[&str]) -> Option<String> {
    // A checkout may belong to another user than the one who builds it.
    let output = Command::new("git").args(["-c", "safe.directory=*"]).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}
