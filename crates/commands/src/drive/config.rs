//! Errors and warnings of configurations, as commands print them.

use std::collections::BTreeMap;
use std::path::Path;

use warpswitch_graph::language::{Diagnostic, FlatGraph};
use warpswitch_runtime::config::{
    ConfigText, LoadError, rules_instead, unset_warnings, unused_variables,
};
use warpswitch_runtime::files::display_name;

use crate::exit::bad_input;
use crate::term;

/// The error of a command with an invalid configuration. A file of rules gets its own error.
pub fn blame(text: &ConfigText, errors: LoadError) -> anyhow::Error {
    let rules = match &errors {
        LoadError::Text(_) => rules_instead(text),
        LoadError::Graph(_) => None,
    };
    match rules {
        Some(error) => anyhow::Error::new(error),
        None => anyhow::Error::new(errors.into_diagnostics()),
    }
}

/// Reads the configuration of a command.
///
/// # Errors
/// Bad input if it cannot be read.
pub fn read(path: &Path) -> anyhow::Result<ConfigText> {
    let name = display_name(path);
    ConfigText::read(path).map_err(|error| bad_input(format!("cannot read {name}: {error}")))
}

/// Warns about variables of the command line that the texts of `graph` do not use.
pub fn warn_of_unused(graph: &FlatGraph, variables: &BTreeMap<String, String>) {
    unused_variables(graph, variables).iter().for_each(term::warning);
}

/// Warns about variables without a value, except those that `errors` already reports.
pub fn warn_of_unset(unset: Vec<(String, Diagnostic)>, errors: Option<String>) {
    let warnings = unset_warnings(unset, errors);
    if !warnings.is_empty() {
        term::note(warnings.to_coloured().trim_end());
    }
}
