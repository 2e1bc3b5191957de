//! Configurations: read, and loaded in two steps as Click does.

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

use crate::exit::bad_input;
use crate::load::{capture_kind, display_name, is_binary, is_gzip};
use crate::output::is_dash;
use crate::term;

/// Where the variable `CLICKPATH` leads by default.
const LIBRARY_FOLDER: &str = "conf";

/// What an archive begins with.
const ARCHIVE_MAGIC: &[u8] = b"!<arch>";

/// Unpacked bytes that tell what a file is.
const UNPACKED_LOOK_BYTES: u64 = 1024;

/// A configuration as text.
#[derive(Clone, Debug)]
pub struct ConfigText {
    /// What errors call it.
    pub name: String,
    /// The text; bytes that are not UTF-8 are told where they stand.
    pub bytes: Vec<u8>,
}

impl ConfigText {
    /// Reads a file; `-` is the standard input.
    ///
    /// # Errors
    /// What hinders it; that it is no text.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        // One byte more than a configuration may have tells that it has more.
        let limit = SOURCE_BYTES_MAX as u64 + 1;
        if is_dash(path) {
            io::stdin().take(limit).read_to_end(&mut bytes)?;
        } else {
            let file = std::fs::File::open(path).map_err(|error| name_folder(path, error))?;
            file.take(limit).read_to_end(&mut bytes)?;
        }
        refuse_binary(path, &bytes)?;
        Ok(Self { name: display_name(path), bytes })
    }
}

/// Refuses what is no configuration for sure, and says what takes it.
fn refuse_binary(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut unpacked = Vec::new();
    let is_packed = is_gzip(bytes);
    if is_packed {
        // As much as tells what it is; what cannot be unpacked tells nothing.
        _ = MultiGzDecoder::new(bytes).take(UNPACKED_LOOK_BYTES).read_to_end(&mut unpacked);
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

/// The error of a command whose configuration is not right. A file of rules in the place of a
/// configuration is told to be one.
pub fn blame(text: &ConfigText, errors: LoadError) -> anyhow::Error {
    let is_text = matches!(errors, LoadError::Text(_));
    let rules = std::str::from_utf8(&text.bytes).ok().filter(|_| is_text).and_then(rules_in);
    let Some(rules) = rules else { return anyhow::Error::new(errors.into_diagnostics()) };
    let takes = match rules {
        RulesIn::Detection => "'warpswitch ids' and the element IDSMatcher take them",
        RulesIn::Classification(_) => {
            "'warpswitch classify' and the element SDNClassifier take them"
        }
    };
    bad_input(format!("{} holds {rules}, and is no configuration: {takes}", text.name))
}

/// Reads the configuration of a command.
///
/// # Errors
/// Bad input if it cannot be read.
pub fn read(path: &Path) -> anyhow::Result<ConfigText> {
    let name = display_name(path);
    ConfigText::read(path).map_err(|error| bad_input(format!("cannot read {name}: {error}")))
}

/// Reads `V=x`.
pub fn parse_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match !name.is_empty() && name.chars().all(is_name) {
        true => Ok((name.to_owned(), value.to_owned())),
        false => Err(format!("'{name}' is no name of a variable")),
    }
}

/// Finds what `require(library …)` names: beside the file that requires it, or along a path.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// Folders to look in, as `CLICKPATH` lists them.
    pub path: Vec<PathBuf>,
}

impl Libraries {
    /// Along `path`, by default that of the environment.
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
                let told = path.display().to_string();
                let text = ConfigText::read(&path).map_err(|error| format!("{told}: {error}"))?;
                return Ok((told, text.bytes));
            }
        }
        Err(format!("library '{name}' not found in CLICKPATH/conf"))
    }
}

/// The errors of a configuration, by the step that found them.
#[derive(Debug)]
pub enum LoadError {
    /// Of the text.
    Text(Diagnostics),
    /// Of the graph that the text describes: its ports, arguments, elements.
    Graph(Diagnostics),
}

impl LoadError {
    /// The errors.
    pub fn into_diagnostics(self) -> Diagnostics {
        match self {
            LoadError::Text(errors) | LoadError::Graph(errors) => errors,
        }
    }

    /// What Click prints.
    pub fn to_click(&self) -> String {
        match self {
            LoadError::Text(errors) => errors.to_click(),
            LoadError::Graph(errors) => {
                format!("{}Router could not be initialized!\n", errors.to_click())
            }
        }
    }
}

/// Warns of variables of the command line that nothing in the texts of `graph` refers to.
pub fn warn_of_unused(graph: &FlatGraph, variables: &BTreeMap<String, String>) {
    let asked: BTreeSet<&str> = graph.sources.variables().collect();
    for name in variables.keys().filter(|name| !asked.contains(name.as_str())) {
        let meant = language::nearest(name, asked.iter().copied());
        let meant = meant.map_or(String::new(), |meant| format!("; it refers to '{meant}'"));
        let told = format!("nothing in the configuration refers to the variable '{name}'{meant}");
        term::warning(told);
    }
}

/// Classes whose arguments are programs or texts, where `$` is not of the configuration alone.
const PROGRAM_CLASSES: [&str; 5] = ["Script", "DriverManager", "PokeHandlers", "Message", "Error"];

/// Variables of a graph that nothing gives a value, with a warning each. Texts with variables of
/// their own are left out: scripts, handlers to call, variables of detection rules.
pub fn unset_variables(graph: &FlatGraph) -> Vec<(String, Diagnostic)> {
    graph.unset_variables(|element, arg| {
        let keyword = arg.split_ascii_whitespace().next().unwrap_or_default();
        PROGRAM_CLASSES.contains(&&*element.class) || keyword.ends_with("CALL") || keyword == "VARS"
    })
}

/// Warns of variables without a value, but for those that `errors` tell of.
pub fn warn_of_unset(unset: Vec<(String, Diagnostic)>, errors: Option<String>) {
    let errors = errors.unwrap_or_default();
    let mut warnings = Diagnostics::default();
    for (name, warning) in unset {
        if !errors.contains(&format!("the variable '{name}' has no value here")) {
            warnings.push(warning);
        }
    }
    if !warnings.is_empty() {
        term::note(warnings.to_coloured().trim_end());
    }
}

/// Loads a configuration.
///
/// # Errors
/// All errors of the text, or if there are none those of the graph.
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

/// The graph of a text, and the warnings.
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

/// A router of `text`, and the warnings of the text.
///
/// # Errors
/// All errors of the first step that found any.
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
    fn variables_are_read() {
        assert_eq!(parse_variable("A_1=x = y"), Ok(("A_1".into(), "x = y".into())));
        assert!(parse_variable("=x").is_err() && parse_variable("a/b=x").is_err());
        assert!(parse_variable("file.click").is_err());
    }

    #[test]
    fn libraries_are_found_beside_and_along_the_path() {
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
