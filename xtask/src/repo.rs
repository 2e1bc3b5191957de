//! Where the project lies, which files belong to it, and how its commands are started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Folders that hold what was built or found, never sources.
const NOT_SOURCES: [&str; 6] =
    [".git", "target", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", "bench/peers/build"];

/// One file of the project.
pub struct SourceFile {
    /// Path from the root, with `/` between its parts.
    pub path: String,
    /// Its text, or nothing if it is not UTF-8.
    pub text: Option<String>,
    /// Its size.
    pub bytes: usize,
}

/// The folder that holds the workspace.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder that cargo builds into.
pub fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(target.unwrap_or_else(|| "target".into()))
}

/// Every file of the project: what git tracks, or, outside a repository, what lies there.
pub fn files() -> Result<Vec<SourceFile>> {
    let root = root();
    let mut paths = match tracked(&root) {
        Some(paths) => paths,
        None => walked(&root)?,
    };
    paths.sort();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        // A tracked file may be deleted in the working tree.
        let Ok(bytes) = std::fs::read(root.join(&path)) else { continue };
        let size = bytes.len();
        files.push(SourceFile { path, text: String::from_utf8(bytes).ok(), bytes: size });
    }
    if files.is_empty() {
        bail!("no file found under {}", root.display());
    }
    Ok(files)
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let list = git_in(root, &["ls-files", "-z"])?;
    let paths: Vec<String> = list.split('\0').filter(|p| !p.is_empty()).map(Into::into).collect();
    (!paths.is_empty()).then_some(paths)
}

/// The output of a git command on the checkout; none if it fails.
pub fn git(args: &[&str]) -> Option<String> {
    git_in(&root(), args)
}

fn git_in(folder: &Path, args: &[&str]) -> Option<String> {
    // A checkout may belong to another user than the one who checks it.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*"])
        .args(args)
        .current_dir(folder)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

fn walked(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot list '{folder}'"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if NOT_SOURCES.contains(&path.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

/// Variables by which cargo describes its package to a program that it runs: their prefixes.
const OF_OUR_PACKAGE: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// The cargo that runs this program.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // A build script that asks for the name of its package, as that of `ring` does, would run
    // again, and all that depends on it, since these differ from those of a build by hand.
    for (name, _) in std::env::vars_os() {
        let known = name.to_str().unwrap_or_default();
        if OF_OUR_PACKAGE.iter().any(|start| known.starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command to its end, with its output on ours; an error unless it succeeds.
pub fn must(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("{what}: cannot start"))?;
    if !status.success() {
        bail!("{what} failed ({status})");
    }
    Ok(())
}

/// Takes the value that follows `name` out of the arguments.
pub fn take_value(args: &mut Vec<String>, name: &str) -> Result<Option<String>> {
    let Some(at) = args.iter().position(|arg| arg == name) else { return Ok(None) };
    if at + 1 >= args.len() {
        bail!("{name} needs a value");
    }
    args.remove(at);
    Ok(Some(args.remove(at)))
}

/// Takes a flag out of the arguments; whether it was there.
pub fn take_flag(args: &mut Vec<String>, name: &str) -> bool {
    let before = args.len();
    args.retain(|arg| arg != name);
    args.len() != before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_out() {
        let mut args: Vec<String> =
            ["a", "--seconds", "9", "--peers", "b"].map(String::from).to_vec();
        assert_eq!(take_value(&mut args, "--seconds").unwrap().as_deref(), Some("9"));
        assert!(take_flag(&mut args, "--peers"));
        assert!(!take_flag(&mut args, "--peers"));
        assert_eq!(args, ["a", "b"]);
        assert!(take_value(&mut args, "b").is_err(), "a value is missing");
        assert_eq!(take_value(&mut args, "--data").unwrap(), None);
    }

    /// `cargo test` describes the package to this test as `cargo run` does to the program.
    #[test]
    fn cargo_hears_nothing_of_our_package() {
        let command = cargo();
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"] {
            assert!(removed.iter().any(|(removed, _)| *removed == name), "{name} is passed on");
        }
    }

    #[test]
    fn the_walk_finds_this_file_and_skips_what_was_built() {
        let paths = walked(&root()).unwrap();
        assert!(paths.iter().any(|p| p == "xtask/src/repo.rs"));
        assert!(paths.iter().all(|p| !p.starts_with("target/") && !p.starts_with(".git/")));
    }
}
