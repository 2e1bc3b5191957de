//! Configuration texts: reading, parsing, expansion, libraries and warnings.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use warpswitch_graph::language::{
    self, Diagnostic, Diagnostics, FlatGraph, Library, Loaded, SOURCE_BYTES_MAX, Source,
};
use warpswitch_graph::{Registry, RouterOptions};
use warpswitch_io::name_folder;
use warpswitch_rules::format::{RulesIn, rules_in};

use crate::error::{Error, ErrorKind};
use crate::files::{capture_kind, display_name, is_binary, is_dash, is_gzip};

/// Folder of libraries below each folder of the search path.
const LIBRARY_FOLDER: &str = "conf";

/// The first bytes of an archive.
const ARCHIVE_MAGIC: &[u8] = b"!<arch>";

/// Decompressed bytes that identify the type of a file.
const UNPACKED_PREFIX_BYTES: u64 = 1024;

/// A configuration as text.
#[derive(Clone, Debug)]
pub struct ConfigText {
    /// Its name in errors.
    pub name: String,
    /// The text. The parser reports the position of bytes that are not UTF-8.
    pub bytes: Vec<u8>,
}

impl ConfigText {
    /// Reads a file; `-` is the standard input.
    ///
    /// # Errors
    /// If the file cannot be read, or is not text.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        // One byte above the limit shows that the text exceeds it.
        let limit = SOURCE_BYTES_MAX as u64 + 1;
        if is_dash(path) {
            io::stdin().take(limit).read_to_end(&mut bytes)?;
        } else {
            let file = std::fs::File::open(path).map_err(|error| name_folder(path, error))?;
            let read = file.take(limit).read_to_end(&mut bytes);
            read.map_err(|error| name_folder(path, error))?;
        }
        reject_binary(path, &bytes)?;
        Ok(Self { name: display_name(path), bytes })
    }
}

/// Rejects captures, archives and binary files; the error names the element or command for them.
fn reject_binary(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unpacked = Vec::new();
    let is_packed = is_gzip(bytes);
    if is_packed {
        // A prefix identifies the type. A corrupt file has none.
        _ = MultiGzDecoder::new(bytes).take(UNPACKED_PREFIX_BYTES).read_to_end(&mut unpacked);
    }
    let start = if is_packed { unpacked.as_slice() } else { bytes };
    if let Some(kind) = capture_kind(start) {
        let path = if is_dash(path) { "FILE".into() } else { path.display().to_string() };
        return Err(io::Error::other(format!(
            "it is a {kind} capture, not a configuration: the element FromDump({path}) reads it, \
             and 'warpswitch ids' and 'warpswitch classify' take it with --pcap {path}"
        )));
    }
    // Archives hold a configuration among other files.
    let is_archive = start.starts_with(ARCHIVE_MAGIC);
    match (is_packed, !is_archive && is_binary(start)) {
        (_, true) => Err(io::Error::other("it is a binary file, not a configuration")),
        (true, _) => Err(io::Error::other("it is packed by gzip: unpack it first")),
        _ => Ok(()),
    }
}

/// The error for a file of rules in place of a configuration; `None` for other texts.
pub fn rules_instead(text: &ConfigText) -> Option<Error> {
    let rules = std::str::from_utf8(&text.bytes).ok().and_then(rules_in)?;
    let takes = match rules {
        RulesIn::Detection => "'warpswitch ids' and the element IDSMatcher read them",
        RulesIn::Classification(_) => {
            "'warpswitch classify' and the element SDNClassifier read them"
        }
    };
    let message = format!("{} holds {rules}, not a configuration: {takes}", text.name);
    Some(Error::new(ErrorKind::Configuration, message))
}

/// Parses `NAME=VALUE`.
///
/// # Errors
/// A message for the command line.
pub fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match !name.is_empty() && name.chars().all(is_name) {
        true => Ok((name.to_owned(), value.to_owned())),
        false => Err(format!("invalid variable name '{name}'")),
    }
}

/// Finds the files of `require(library …)`: in the folder of the requiring file, or along a path.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// Folders to search, in the order of `CLICKPATH`.
    pub path: Vec<PathBuf>,
}

impl Libraries {
    /// Searches `path`, by default the environment variable `CLICKPATH`.
    pub fn new(path: Option<&str>) -> Self {
        let of_environment = std::env::var("CLICKPATH").unwrap_or_default();
        let path = path.unwrap_or(&of_environment);
        let folders = path.split(':').filter(|folder| !folder.is_empty());
        Self { path: folders.map(PathBuf::from).collect() }
    }
}

impl Library for Libraries {
    fn load(&mut self, name: &str, from: &str) -> Result<(String, Vec<u8>), String> {
        let beside = Path::new(from).parent().map(|folder| folder.join(name));
        let along = self.path.iter();
        let along = along.flat_map(|dir| [dir.join(name), dir.join(LIBRARY_FOLDER).join(name)]);
        for path in beside.into_iter().chain(along) {
            if path.is_file() {
                let name = path.display().to_string();
                let text = ConfigText::read(&path).map_err(|error| format!("{name}: {error}"))?;
                return Ok((name, text.bytes));
            }
        }
        Err(format!("library '{name}' not found in CLICKPATH/conf"))
    }
}

/// The errors of a configuration, by the step that reported them.
#[derive(Debug)]
pub enum LoadError {
    /// Syntax errors of the text.
    Text(Diagnostics),
    /// Errors of the graph: ports, arguments, elements.
    Graph(Diagnostics),
}

impl LoadError {
    /// The errors.
    pub fn into_diagnostics(self) -> Diagnostics {
        match self {
            LoadError::Text(errors) | LoadError::Graph(errors) => errors,
        }
    }

    /// The errors in the format of Click.
    pub fn to_click(&self) -> String {
        match self {
            LoadError::Text(errors) => errors.to_click(),
            LoadError::Graph(errors) => {
                format!("{}Router could not be initialized!\n", errors.to_click())
            }
        }
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Text(errors) | LoadError::Graph(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// Warnings about `variables` that nothing in the texts of `graph` refers to.
pub fn unused_variables(graph: &FlatGraph, variables: &BTreeMap<String, String>) -> Vec<String> {
    let referenced: BTreeSet<&str> = graph.sources.variables().collect();
    let unused = variables.keys().filter(|name| !referenced.contains(name.as_str()));
    let warning = |name: &String| {
        let near = language::nearest(name, referenced.iter().copied());
        let near = near.map_or(String::new(), |near| format!("; it refers to '{near}'"));
        format!("nothing in the configuration refers to the variable '{name}'{near}")
    };
    unused.map(warning).collect()
}

/// Classes whose arguments are programs or texts with variables of their own.
const PROGRAM_CLASSES: [&str; 5] = ["Script", "DriverManager", "PokeHandlers", "Message", "Error"];

/// Variables of a graph without a value, with one warning per variable. Excludes texts with
/// variables of their own: scripts, handler calls and variables of detection rules.
pub fn unset_variables(graph: &FlatGraph) -> Vec<(String, Diagnostic)> {
    graph.unset_variables(|element, arg| {
        let keyword = arg.split_ascii_whitespace().next().unwrap_or_default();
        PROGRAM_CLASSES.contains(&&*element.class) || keyword.ends_with("CALL") || keyword == "VARS"
    })
}

/// The warnings of [`unset_variables`] that `errors`, the text of later errors, does not repeat.
pub fn unset_warnings(unset: Vec<(String, Diagnostic)>, errors: Option<String>) -> Diagnostics {
    let errors = errors.unwrap_or_default();
    let mut warnings = Diagnostics::default();
    for (name, warning) in unset {
        if !errors.contains(&format!("the variable '{name}' has no value here")) {
            warnings.push(warning);
        }
    }
    warnings
}

/// Parses a configuration and resolves its graph.
///
/// # Errors
/// All errors of the text, or, if it has none, all errors of the graph.
pub fn load(
    text: &ConfigText,
    registry: &Registry,
    variables: &BTreeMap<String, String>,
    libraries: &mut Libraries,
) -> Result<Loaded, LoadError> {
    let (graph, mut warnings) =
        expand(text, registry, variables, libraries).map_err(LoadError::Text)?;
    match language::resolve(&graph, registry) {
        Ok(ports) => Ok(Loaded { graph, ports, warnings }),
        Err(errors) => {
            warnings.append(errors);
            Err(LoadError::Graph(warnings))
        }
    }
}

/// Parses and expands a text into its flat graph and warnings.
fn expand(
    text: &ConfigText,
    registry: &Registry,
    variables: &BTreeMap<String, String>,
    libraries: &mut Libraries,
) -> Result<(FlatGraph, Diagnostics), Diagnostics> {
    let source = Source::new(&text.name, &text.bytes)?;
    let (ast, mut found) = language::parse_with(source, libraries);
    match language::expand(&ast, registry, variables) {
        Ok(graph) if !found.has_errors() => Ok((graph, found)),
        Ok(_) => Err(found),
        Err(errors) => {
            found.append(errors);
            Err(found)
        }
    }
}

/// Builds a router from `text`; returns it with the warnings of the text.
///
/// # Errors
/// All errors of the first step that failed.
pub fn make_router(
    text: &ConfigText,
    registry: &Registry,
    variables: &BTreeMap<String, String>,
    libraries: &mut Libraries,
    options: RouterOptions,
) -> Result<(warpswitch_graph::Router, Diagnostics), LoadError> {
    let mut loaded = load(text, registry, variables, libraries)?;
    let warnings = std::mem::take(&mut loaded.warnings);
    let router = warpswitch_graph::Router::new(loaded, registry, options);
    router.map(|router| (router, warnings)).map_err(LoadError::Graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_variables() {
        assert_eq!(parse_variable("A_1=x = y"), Ok(("A_1".into(), "x = y".into())));
        assert!(parse_variable("=x").is_err() && parse_variable("a/b=x").is_err());
        assert!(parse_variable("file.click").is_err());
    }

    #[test]
    fn finds_libraries_beside_the_file_and_along_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let conf = folder.path().join("conf");
        std::fs::create_dir(&conf).unwrap();
        std::fs::write(folder.path().join("a.click"), "Idle;").unwrap();
        std::fs::write(conf.join("b.click"), "Idle;").unwrap();
        let from = folder.path().join("main.click").display().to_string();
        let mut libraries = Libraries::new(Some(&folder.path().display().to_string()));
        assert!(libraries.load("a.click", &from).is_ok());
        assert!(libraries.load("b.click", "elsewhere/main.click").is_ok());
        assert_eq!(
            libraries.load("c.click", &from),
            Err("library 'c.click' not found in CLICKPATH/conf".into())
        );
    }
}
