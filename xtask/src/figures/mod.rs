//! Draws what `bench/gpu/figures.sh` measured in the manner of GSwitch's figures, and what
//! `bench/gpu/snap.sh` did in that of Snap's: `cargo xtask figures`. The drawings follow from the
//! file alone, the paper from its name.

mod axis;
mod draw;
mod paper;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::repo;

/// Draws a file, one SVG for each figure that it has rows of.
pub fn run(args: &[String]) -> Result<()> {
    let mut args = args.to_vec();
    let out = repo::take_value(&mut args, "--out")?.map(PathBuf::from);
    let [csv] = args.as_slice() else {
        bail!(
            "figures takes the CSV file that bench/gpu/figures.sh or snap.sh wrote, and --out DIR"
        )
    };
    let csv = Path::new(csv);
    let stem = csv.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let paper = paper::Paper::of_file(stem).with_context(|| {
        format!("{}: of which paper? Expected DATE-gswitch.csv or DATE-snap.csv", csv.display())
    })?;
    let text = fs::read_to_string(csv).with_context(|| format!("cannot read {}", csv.display()))?;
    let sweep = rows::read(&text).with_context(|| format!("{}", csv.display()))?;
    let record = csv.file_name().unwrap_or_default().to_string_lossy();
    let out = out.unwrap_or_else(|| csv.with_file_name("figures"));
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    for name in sweep.figures() {
        let path = out.join(format!("{}-{name}.svg", paper.name));
        let svg =
            draw::svg(paper, &sweep, &record, name).with_context(|| format!("figure {name}"))?;
        fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
