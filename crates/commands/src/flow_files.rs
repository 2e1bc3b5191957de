//! Files of flows, groups and meters in the text of `ovs-ofctl`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use warpswitch_openflow::Change;
use warpswitch_rules::diagnostic::utf8_text;
use warpswitch_rules::format::{RULES_BYTES_MAX, ovs, read_bounded};
use warpswitch_rules::openflow::Refusal;

use crate::exit::bad_input;
use crate::load::{display_name, open};

/// The files.
#[derive(Args, Debug)]
pub struct FlowFilesArgs {
    /// Flows in the text of ovs-ofctl; '-' is the standard input
    #[arg(long, value_name = "FILE")]
    pub flows: Option<PathBuf>,

    /// Groups in the text of ovs-ofctl
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,

    /// Meters in the text of ovs-ofctl
    #[arg(long, value_name = "FILE")]
    meters: Option<PathBuf>,
}

impl FlowFilesArgs {
    /// The contents, in an order in which references are to earlier ones.
    ///
    /// # Errors
    /// Files that cannot be read, with every error in their texts.
    pub fn load(&self) -> anyhow::Result<Vec<Change>> {
        let mut changes = Vec::new();
        if let Some((name, text)) = text(self.meters.as_deref(), "meters")? {
            changes.extend(ovs::read_meters(&name, &text)?.into_iter().map(Change::Meter));
        }
        if let Some((name, text)) = text(self.groups.as_deref(), "groups")? {
            changes.extend(ovs::read_groups(&name, &text)?.into_iter().map(Change::Group));
        }
        if let Some((name, text)) = text(self.flows.as_deref(), "flows")? {
            changes.extend(ovs::read_changes(&name, &text)?.into_iter().map(Change::Flow));
        }
        Ok(changes)
    }
}

/// The error of a change that a pipeline refuses.
pub fn refused(change: &Change, why: Refusal) -> anyhow::Error {
    match change {
        Change::Flow(flow) => bad_input(format!("--flows: '{}': {why}", ovs::change_text(flow))),
        Change::Group(_) => bad_input(format!("--groups: {why}")),
        Change::Meter(_) => bad_input(format!("--meters: {why}")),
    }
}

/// Name and text of a file.
fn text(path: Option<&Path>, what: &str) -> anyhow::Result<Option<(String, String)>> {
    let Some(path) = path else { return Ok(None) };
    let name = display_name(path);
    let bytes = read_bounded(open(path, what)?, RULES_BYTES_MAX);
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    let text = utf8_text(&name, &bytes)?.to_owned();
    Ok(Some((name, text)))
}
