//! All that has to pass before a change lands: `cargo xtask ci`.
//!
//! The steps that the README promises are taken from the README, so that it cannot lie.

use anyhow::{Context, Result, bail};

use crate::repo;
use crate::tidy;

/// Runs every step, stops at the first that fails.
pub fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("ci takes no argument, got '{arg}'");
    }
    cargo("formatting", &["fmt", "--all", "--check"], &[])?;
    println!("ci: tidy");
    tidy::run(&[])?;
    let deny = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    cargo("lints", &deny, &[])?;
    let flags = [("RUSTDOCFLAGS", "-D warnings")];
    cargo("documentation", &["doc", "--workspace", "--no-deps"], &flags)?;
    let readme =
        std::fs::read_to_string(repo::root().join("README.md")).context("cannot read README.md")?;
    let commands = tidy::readme_commands(&readme);
    if commands.len() < 2 {
        bail!("README.md: the first `sh` block must hold a command to run and one to test");
    }
    for command in commands {
        readme_command(command)?;
    }
    println!("ci: all passed");
    Ok(())
}

fn readme_command(command: &str) -> Result<()> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.split_first() {
        Some((&"cargo", args)) => cargo(&format!("README: {command}"), args, &[]),
        _ => bail!("README.md: a command of the first block that is not cargo's: {command}"),
    }
}

fn cargo(what: &str, args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    println!("ci: {what}");
    repo::must(repo::cargo().args(args).envs(env.iter().copied()), what)
}
