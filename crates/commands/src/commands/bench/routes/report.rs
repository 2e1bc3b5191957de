//! What was measured, for people and for programs.

use std::fmt::Write;

use serde::Serialize;
use warpswitch_gpu::Device;
use warpswitch_gpu::routes::{LiveRoutes, RouteWork};
use warpswitch_provenance::{Provenance, csv_text};

use super::super::gpu::rate_text;
use super::super::gpu::report::RunReport;
use super::BenchRoutesArgs;
use crate::digest::Digest;
use crate::exit::Outcome;
use crate::human;
use crate::load::display_name;
use crate::output::print;
use crate::provenance;
use crate::routes::Family;
use crate::table::{Align, Table, title};
use crate::term::{FAINT, paint};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(skip)]
    provenance: Provenance,
    pub device: String,
    pub table: String,
    pub routes: usize,
    pub family: &'static str,
    /// Of each list, all of them checked.
    pub addresses: usize,
    pub slots: usize,
    pub threads: usize,
    pub runs: usize,
    pub run_ms: usize,
    /// Bytes of the image that lookups can reach.
    pub lookup_bytes: usize,
    /// Bytes of all copies, and of what changes need.
    pub bytes: usize,
    pub build_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<usize>,
    /// How routes lie in memory for the cores; none if these are not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores_form: Option<&'static str>,
    pub rows: Vec<Row>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What looked up: a device, or the name of the cores' code.
    by: &'static str,
    addresses: &'static str,
    digest: String,
    #[serde(flatten)]
    run: RunReport,
}

impl Row {
    pub fn new(by: &'static str, addresses: &'static str, digest: Digest, run: RunReport) -> Self {
        Self { by, addresses, digest: digest.to_string(), run }
    }
}

impl Report {
    /// Of routes on a device of which nothing was measured yet.
    ///
    /// # Errors
    /// The device's.
    pub fn new<A: Family, W: RouteWork>(
        args: &BenchRoutesArgs,
        device: &Device,
        live: &LiveRoutes<A, W>,
        build_ms: f64,
    ) -> anyhow::Result<Self> {
        let stats = live.stats();
        Ok(Self {
            provenance: provenance::of_device(device),
            device: device.name().to_owned(),
            table: display_name(&args.routes),
            routes: stats.routes,
            family: A::NAME,
            addresses: args.addresses,
            slots: args.slots,
            threads: args.threads,
            runs: args.runs,
            run_ms: args.run_ms,
            lookup_bytes: stats.lookup_bytes,
            bytes: stats.bytes,
            build_ms: human::rounded(build_ms, 4),
            registers: device.kernel_registers(live.current().image())?.map(|r| r.0),
            cores_form: None,
            rows: Vec::new(),
        })
    }

    /// Prints it as requested.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn print(&self, args: &BenchRoutesArgs) -> anyhow::Result<Outcome> {
        match (args.json, args.csv) {
            (true, _) => provenance::print_json(&self.provenance, self)?,
            (_, true) => provenance::print_csv(&self.provenance, &self.to_csv())?,
            _ => print(&self.render())?,
        }
        Ok(Outcome::Done)
    }

    /// Answers that were compared: those of each list.
    fn checked(&self) -> usize {
        let mut lists: Vec<&str> = self.rows.iter().map(|row| row.addresses).collect();
        lists.sort_unstable();
        lists.dedup();
        lists.len() * self.addresses
    }

    /// A line for each figure; the first names the columns.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "table,routes,family,by,addresses,what,batch,slots,threads,mpps,mpps_min,mpps_max,\
             build_ms,lookup_bytes,bytes,registers,checked,digest\n",
        );
        for row in &self.rows {
            let run = &row.run;
            _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                csv_text(&self.table),
                self.routes,
                self.family,
                row.by,
                row.addresses,
                run.what,
                run.batch,
                self.slots,
                self.threads,
                run.mpps,
                run.mpps_min,
                run.mpps_max,
                self.build_ms,
                self.lookup_bytes,
                self.bytes,
                self.registers.map_or(String::new(), |n| n.to_string()),
                self.addresses,
                row.digest,
            );
        }
        text
    }

    /// The report for people.
    pub fn render(&self) -> String {
        let head = format!("{}, {}", human::counted(self.routes, "route"), self.family);
        let memory = human::bytes(self.lookup_bytes);
        let aside = format!("{}, {memory} lookup tables, {} slots", self.device, self.slots);
        let mut table = Table::new(&[
            ("by", Align::Left),
            ("addresses", Align::Left),
            ("figure", Align::Left),
            ("batch", Align::Right),
            ("rate", Align::Right),
        ]);
        for row in &self.rows {
            table.row([
                row.by.to_owned(),
                row.addresses.to_owned(),
                row.run.mode.to_string(),
                human::count(row.run.batch as u64),
                rate_text(row.run.mpps),
            ]);
        }
        let form = self.cores_form.map_or(String::new(), |form| format!("; CPU uses {form}"));
        let footer = format!(
            "Median of {} of {} ms; built in {} ms; all {} checked{form}",
            human::counted(self.runs, "run"),
            self.run_ms,
            human::significant(self.build_ms),
            human::counted(self.checked(), "answer"),
        );
        title(&head, &aside) + &table.render() + &format!("{}\n", paint(FAINT, footer))
    }
}
