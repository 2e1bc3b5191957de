//! Replays every input that is kept: seeds, and what once crashed.

use std::fs;
use std::path::{Path, PathBuf};

use warpswitch_fuzz_checks::{CHECKS, check};

/// The files of `fuzz/KIND/TARGET`.
fn inputs(kind: &str, target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(kind).join(target);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("listed").path()).collect();
    paths.sort();
    paths
}

#[test]
fn kept_inputs_pass() {
    for (target, _) in CHECKS {
        for kind in ["seeds", "regressions"] {
            for path in inputs(kind, target) {
                // The name tells which input a panic below belongs to.
                println!("{target}: {}", path.display());
                check(target, &fs::read(&path).expect("readable"));
            }
        }
    }
}

#[test]
fn every_target_has_seeds_and_every_folder_a_target() {
    for (target, _) in CHECKS {
        assert!(!inputs("seeds", target).is_empty(), "fuzz/seeds/{target} is empty");
        for path in inputs("", "targets") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            assert!(CHECKS.iter().any(|(known, _)| *known == name), "{name} checks nothing");
        }
    }
    for kind in ["seeds", "regressions"] {
        for path in inputs("", kind).iter().filter(|path| path.is_dir()) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(CHECKS.iter().any(|(known, _)| *known == name), "{kind}/{name}: no target");
        }
    }
}

#[test]
fn generated_inputs_pass() {
    // A short walk without libFuzzer, so that a target that cannot run is seen by any compiler.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut data = Vec::new();
    for round in 0..200 {
        data.clear();
        for _ in 0..round * 8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            data.push((state >> 56) as u8);
        }
        CHECKS.iter().for_each(|(_, check)| check(&data));
    }
}
