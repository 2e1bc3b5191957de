//! Gathers the documentation of elements from their files, for `docs`. All crates with elements use
//! this script.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The heading that documentation of elements has, and no other.
const MARK: &str = "//! # Synopsis";

/// The files in `folder` and below.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { files(&path, found)? } else { found.push(path) }
    }
    Ok(())
}

/// The documentation of a module, without its marks.
fn documentation(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

/// The folder of a file in `src`; of one that lies there directly, what the crate is called.
fn area(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    match folder {
        Some(folder) if folder != "src" => folder.to_owned(),
        _ => env::var("CARGO_PKG_NAME").unwrap_or_default().replace("warpswitch-", ""),
    }
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut found = Vec::new();
    files(Path::new("src"), &mut found)?;
    found.sort();
    let mut table = String::from("&[\n");
    for path in found {
        let source = fs::read_to_string(&path)?;
        if source.lines().any(|line| line == MARK) {
            let entry = (area(&path), documentation(&source));
            writeln!(table, "    {entry:?},").map_err(io::Error::other)?;
        }
    }
    table.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("docs.rs"), table)
}
