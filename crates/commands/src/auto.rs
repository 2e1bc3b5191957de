//! What `--engine auto` chose, and why.

use std::sync::Arc;

use serde::Serialize;
use warpswitch_gpu::auto::policy::{Policy, Row, Why};

use crate::human::{self, rounded};
use crate::table::{Align, Table};
use crate::term;

/// The choices of an engine that runs.
#[derive(Clone, Debug)]
pub struct Auto {
    /// Where they are counted.
    pub policy: Arc<Policy>,
    /// Maximum keys per batch.
    pub piece_len: usize,
}

/// The same for `--json`.
#[derive(Clone, Debug, Serialize)]
pub struct AutoReport {
    /// Maximum keys per batch; none without a delay bound.
    batch_len_max: Option<usize>,
    choices: Vec<ChoiceReport>,
}

/// The fate of batches of some lengths.
#[derive(Clone, Debug, Serialize)]
struct ChoiceReport {
    len_min: usize,
    len_max: usize,
    cores_batches: u64,
    device_batches: u64,
    /// Nanoseconds a key, of late.
    cores_ns: Option<f64>,
    device_ns: Option<f64>,
    /// Batches by reason.
    cheaper: u64,
    kept: u64,
    look: u64,
    no_device: u64,
}

impl From<&Row> for ChoiceReport {
    fn from(row: &Row) -> Self {
        let [cheaper, kept, look, no_device] = row.why;
        const { assert!(matches!(Why::ALL, [Why::Cheaper, Why::Kept, Why::Look, Why::NoDevice])) };
        Self {
            len_min: row.len_min,
            len_max: row.len_max,
            cores_batches: row.cores_batches,
            device_batches: row.device_batches,
            cores_ns: row.cores_ns.map(|ns| rounded(ns, 3)),
            device_ns: row.device_ns.map(|ns| rounded(ns, 3)),
            cheaper,
            kept,
            look,
            no_device,
        }
    }
}

impl Auto {
    /// What was chosen so far.
    pub fn report(&self) -> AutoReport {
        AutoReport {
            batch_len_max: (self.piece_len != usize::MAX).then_some(self.piece_len),
            choices: self.policy.rows().iter().map(ChoiceReport::from).collect(),
        }
    }
}

impl AutoReport {
    /// Prints it to the standard error stream.
    pub fn tell(&self) {
        let right = |name| (name, Align::Right);
        let mut table = Table::new(&[
            right("keys"),
            right("on cores"),
            right("on device"),
            right("cores ns/key"),
            right("device ns/key"),
            right("cheaper"),
            right("kept"),
            right("look"),
            right("no device"),
        ]);
        let number = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), human::significant);
        for choice in &self.choices {
            table.row([
                format!("{}-{}", choice.len_min, choice.len_max),
                human::count(choice.cores_batches),
                human::count(choice.device_batches),
                number(choice.cores_ns),
                number(choice.device_ns),
                human::count(choice.cheaper),
                human::count(choice.kept),
                human::count(choice.look),
                human::count(choice.no_device),
            ]);
        }
        let cut = self.batch_len_max.map_or_else(String::new, |len| {
            format!(", at most {} keys per batch", human::count(len as u64))
        });
        term::note(format!("batches by length, target and reason{cut}:"));
        table.render().lines().for_each(|line| term::note(format!("  {line}")));
    }
}
