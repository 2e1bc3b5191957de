//! Detection rules, loaded and compiled once for all elements with the same rules.
//!
//! If each worker has its own path through the graph, each has its own matcher. Compiling 10,000
//! rules takes a third of a second, and the result is as large as the caches of a core.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use warpswitch_elements_support::files::reason;
use warpswitch_ids::rule::Rules;
use warpswitch_ids::rule::TEXT_BYTES_MAX;
use warpswitch_ids::{Engine, RuleText, StatelessEngine, Variables, read_rules};
use warpswitch_io::Unpacked;

/// Maximum number of warnings about rules that are printed one by one.
const REMARKS_MAX: usize = 10;

/// Source of compiled rules: names and contents of files, and variables.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    files: Vec<(String, Vec<u8>)>,
    variables: Vec<String>,
}

/// Compiled rules that an element may still use.
#[derive(Debug)]
pub(super) struct Shared<E> {
    source: Source,
    engine: Weak<E>,
}

/// An engine that elements with the same rules share.
pub(super) trait SharedEngine: Sized + 'static {
    /// All engines of this type in use.
    fn shared() -> &'static Mutex<Vec<Shared<Self>>>;

    /// Compiles `rules`.
    fn of(rules: Rules) -> Self;
}

impl SharedEngine for Engine {
    fn shared() -> &'static Mutex<Vec<Shared<Self>>> {
        static SHARED: Mutex<Vec<Shared<Engine>>> = Mutex::new(Vec::new());
        &SHARED
    }

    fn of(rules: Rules) -> Self {
        Self::build(rules)
    }
}

impl SharedEngine for StatelessEngine {
    fn shared() -> &'static Mutex<Vec<Shared<Self>>> {
        static SHARED: Mutex<Vec<Shared<StatelessEngine>>> = Mutex::new(Vec::new());
        &SHARED
    }

    fn of(rules: Rules) -> Self {
        Self::build(rules)
    }
}

/// Loads rule files. Returns the engine, and warnings about the rules; a caller that gets a shared
/// engine gets no warnings.
///
/// # Errors
/// Unreadable files and syntax errors, with their positions.
pub(super) fn engine_of<E: SharedEngine>(
    paths: &[String],
    variables: &[String],
) -> Result<(Arc<E>, Vec<String>), String> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    for path in paths {
        // One byte above the limit, which the parser of rules then reports.
        let file = read(path, TEXT_BYTES_MAX + 1 - bytes)?;
        bytes += file.len();
        files.push((path.clone(), file));
        if bytes > TEXT_BYTES_MAX {
            break;
        }
    }
    let source = Source { files, variables: variables.to_vec() };
    let mut shared = E::shared().lock().unwrap_or_else(PoisonError::into_inner);
    shared.retain(|shared| shared.engine.strong_count() > 0);
    let mut alike = shared.iter().filter(|shared| shared.source == source);
    if let Some(engine) = alike.find_map(|shared| shared.engine.upgrade()) {
        return Ok((engine, Vec::new()));
    }
    let (engine, remarks) = build(&source)?;
    let engine = Arc::new(engine);
    shared.push(Shared { source, engine: Arc::downgrade(&engine) });
    Ok((engine, remarks))
}

/// Reads at most `bytes_max` bytes of a file.
fn read(path: &str, bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    Unpacked::open(path)
        .and_then(|file| file.take(bytes_max as u64).read_to_end(&mut bytes))
        .map_err(|error| format!("{path}: {}", reason(&error)))?;
    Ok(bytes)
}

fn build<E: SharedEngine>(source: &Source) -> Result<(E, Vec<String>), String> {
    let mut variables = Variables::default();
    for text in &source.variables {
        variables.set(text)?;
    }
    let texts: Vec<RuleText<'_>> =
        source.files.iter().map(|(name, bytes)| RuleText { name, bytes }).collect();
    let rules = read_rules(&texts, &variables).map_err(|errors| errors.to_string())?;
    let mut remarks: Vec<String> = Vec::new();
    for remark in rules.remarks.iter().take(REMARKS_MAX) {
        let (file, line) = (&rules.files[remark.file], remark.line);
        remarks.push(format!("{file}:{line}: {}", rules.remark(remark)));
    }
    if rules.remarks.len() > REMARKS_MAX {
        remarks.push(format!("and {} more warnings", rules.remarks.len() - REMARKS_MAX));
    }
    remarks.extend(rules.unused_variables.iter().map(|variable| format!("VARS: {variable}")));
    Ok((E::of(rules), remarks))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements with the same rules share them while any of them exists; elements with other rules
    /// or a changed file do not.
    #[test]
    fn the_same_rules_are_made_ready_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("some.rules").display().to_string();
        let rule = |word: &str| format!("alert tcp any any -> any $P (content:\"{word}\"; sid:1;)");
        let engine = |port: &str| {
            let variables = [format!("P={port}"), "UNUSED=1".to_owned()];
            engine_of::<Engine>(std::slice::from_ref(&path), &variables).expect("good rules")
        };
        std::fs::write(&path, rule("one")).expect("written");
        let (first, remarks) = engine("80");
        assert_eq!(remarks.len(), 1, "{remarks:?}");
        let (second, remarks) = engine("80");
        assert!(Arc::ptr_eq(&first, &second) && remarks.is_empty());
        assert!(!Arc::ptr_eq(&first, &engine("81").0), "other variables");
        std::fs::write(&path, rule("two")).expect("written");
        let (third, _) = engine("80");
        assert!(!Arc::ptr_eq(&first, &third), "another file");
        drop((first, second));
        std::fs::write(&path, rule("one")).expect("written");
        assert_eq!(engine("80").1.len(), 1, "nobody has had them any more");
    }
}
