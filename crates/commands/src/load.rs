//! Files into memory and rules into engines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use flate2::read::MultiGzDecoder;
use warpswitch_classify::{BuildOptions, Classifier, Engine, build};
use warpswitch_io::name_folder;
use warpswitch_rules::Ruleset;
use warpswitch_rules::diagnostic::utf8_text;
use warpswitch_rules::format::{RULES_BYTES_MAX, read_bounded, read_rules};
pub use warpswitch_runtime::files::display_name;
use warpswitch_runtime::files::{capture_kind, is_binary, is_dash, is_gzip};

use crate::args::RulesArgs;
use crate::auto::Auto;
use crate::exit::bad_input;
use crate::term::{self, Progress};

/// Bytes read from a file at once.
const READ_BYTES: usize = 1 << 20;

/// What takes a capture that was given in place of a text; not every command that reads one does.
const GIVE_PCAP: &str = "'warpswitch classify' and 'warpswitch ids' take captures with --pcap, \
                         'warpswitch switch' with --ports pcap:FILE";

/// Work that lasts less is not worth a progress line: it would only flicker.
const RULES_WORTH_PROGRESS_BYTES: usize = 1 << 20;

/// Rules and the text that they were read from.
#[derive(Debug)]
pub struct LoadedRules {
    /// The rules.
    pub ruleset: Ruleset,
    /// Name of the file, for people.
    pub name: String,
    text: String,
}

impl LoadedRules {
    /// The 1-based line of the source, without blanks at its ends.
    pub fn source_line(&self, line: u32) -> Option<&str> {
        let idx = line.checked_sub(1)?;
        self.text.lines().nth(idx as usize).map(str::trim)
    }
}

/// An engine and what it took to build.
pub struct BuiltEngine {
    /// The engine.
    pub classifier: Box<dyn Classifier>,
    /// Time of the build.
    pub build_time: Duration,
    /// What chooses where batches go, in an engine that does.
    pub auto: Option<Auto>,
}

/// A place in a file, for people; rules that were never in a file have line 0.
pub fn place(file: &str, line: u32) -> String {
    if line == 0 { file.to_owned() } else { format!("{file}:{line}") }
}

/// Opens a text file, gzip'd or not, or the standard input; `what` is what it should hold.
///
/// # Errors
/// Bad input if it cannot be opened or read, or if its first bytes are those of no text.
pub fn open(path: &Path, what: &str) -> anyhow::Result<Box<dyn BufRead + Send>> {
    let raw: Box<dyn Read + Send> = if is_dash(path) {
        Box::new(io::stdin())
    } else {
        let file = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
            true => Err(io::Error::from(io::ErrorKind::IsADirectory)),
            false => Ok(file),
        });
        Box::new(file.map_err(|error| unreadable(path, &name_folder(path, error)))?)
    };
    let mut input = BufReader::with_capacity(READ_BYTES, raw);
    let start = input.fill_buf().map_err(|error| unreadable(path, &error))?;
    if !is_gzip(start) {
        refuse_binary(path, start, what)?;
        return Ok(Box::new(input));
    }
    let mut input = BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(input));
    let start = input.fill_buf().map_err(|error| unreadable(path, &error))?;
    refuse_binary(path, start, what)?;
    Ok(Box::new(input))
}

/// Refuses a file whose first bytes, `start`, are not those of a text.
fn refuse_binary(path: &Path, start: &[u8], what: &str) -> anyhow::Result<()> {
    let name = display_name(path);
    if let Some(capture) = capture_kind(start) {
        return Err(bad_input(format!(
            "{name} is a {capture} capture; expected {what}: {GIVE_PCAP}"
        )));
    }
    match is_binary(start) {
        true => Err(bad_input(format!("{name} is a binary file; expected {what}"))),
        false => Ok(()),
    }
}

/// Reads a rule file.
///
/// # Errors
/// Bad input, with every error in the text.
pub fn load_rules(args: &RulesArgs) -> anyhow::Result<LoadedRules> {
    let loaded = read_rules_of(args)?;
    if loaded.ruleset.is_empty() {
        term::warning(format!("{} contains no rules", loaded.name));
    }
    Ok(loaded)
}

/// The same for commands that need rules.
///
/// # Errors
/// Bad input, with every error in the text; a text without rules.
pub fn load_some_rules(args: &RulesArgs) -> anyhow::Result<LoadedRules> {
    let loaded = read_rules_of(args)?;
    match loaded.ruleset.is_empty() {
        true => Err(bad_input(format!("{} contains no rules", loaded.name))),
        false => Ok(loaded),
    }
}

fn read_rules_of(args: &RulesArgs) -> anyhow::Result<LoadedRules> {
    let name = display_name(&args.rules);
    let input = open(&args.rules, "rules")?;
    let bytes = read_bounded(input, RULES_BYTES_MAX);
    let bytes = bytes.map_err(|error| unreadable(&args.rules, &error))?;
    let progress = (bytes.len() > RULES_WORTH_PROGRESS_BYTES)
        .then(|| Progress::spinner(&format!("reading {name}")));
    let text = utf8_text(&name, &bytes)?;
    let ruleset = read_rules(&name, text, &args.reading.to_options())?;
    drop(progress);
    let text = String::from_utf8(bytes).expect("it was read as text above");
    Ok(LoadedRules { ruleset, name, text })
}

/// Builds an engine over rules.
///
/// # Errors
/// If the structure would pass the bound in `options`.
pub fn build_engine(
    engine: Engine,
    ruleset: &Ruleset,
    options: &BuildOptions,
) -> anyhow::Result<BuiltEngine> {
    let _progress =
        (ruleset.len() > 20_000).then(|| Progress::spinner(&format!("building {engine}")));
    let start = Instant::now();
    let classifier = build(engine, ruleset, options)
        .with_context(|| format!("cannot build '{engine}' within --memory-max"))?;
    Ok(BuiltEngine { classifier, build_time: start.elapsed(), auto: None })
}

fn unreadable(path: &Path, error: &io::Error) -> anyhow::Error {
    bad_input(format!("cannot read {}: {error}", display_name(path)))
}
