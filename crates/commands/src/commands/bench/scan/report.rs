//! What was measured, for people and for programs.

use std::fmt::Write;

use serde::Serialize;
use warpswitch_gpu::Device;
use warpswitch_gpu::scan::DeviceScanner;
use warpswitch_provenance::{Provenance, csv_text};
use warpswitch_scan::Patterns;

use super::BenchScanArgs;
use super::traffic::Traffic;
use crate::digest::Digest;
use crate::exit::Outcome;
use crate::human::{self, rounded};
use crate::load::display_name;
use crate::output::print;
use crate::provenance;
use crate::table::{Align, Table, title};
use crate::term::{FAINT, paint};

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(skip)]
    provenance: Provenance,
    pub device: String,
    pub patterns_file: String,
    pub patterns: usize,
    pub slots: usize,
    pub threads: usize,
    pub runs: usize,
    pub run_ms: usize,
    /// Bytes of the image, on host and device.
    pub image_bytes: usize,
    pub build_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<usize>,
    pub rows: Vec<Row>,
}

/// One figure.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What searched: a device, or the cores' engine.
    by: &'static str,
    payloads: &'static str,
    payload_bytes: usize,
    what: &'static str,
    batch: usize,
    gbps: f64,
    gbps_min: f64,
    gbps_max: f64,
    mpps: f64,
    /// Payloads whose sets were compared, and those of them that the device left to the host.
    checked: usize,
    asked: u64,
    digest: String,
}

impl Row {
    /// Of ascending rates, in payloads a second.
    pub fn new(
        (by, what): (&'static str, &'static str),
        traffic: &Traffic,
        (digest, asked): (Digest, u64),
        batch: usize,
        rates: &[f64],
    ) -> Self {
        let gbps = |rate: f64| rounded(8e-9 * traffic.size as f64 * rate, 4);
        let median = rates[rates.len() / 2];
        Self {
            by,
            payloads: traffic.name,
            payload_bytes: traffic.size,
            what,
            batch,
            gbps: gbps(median),
            gbps_min: gbps(rates[0]),
            gbps_max: gbps(rates[rates.len() - 1]),
            mpps: rounded(1e-6 * median, 4),
            checked: traffic.payloads().len(),
            asked,
            digest: digest.to_string(),
        }
    }
}

impl Report {
    /// Of a device of which nothing was measured yet.
    ///
    /// # Errors
    /// The device's.
    pub fn new(
        args: &BenchScanArgs,
        device: &Device,
        patterns: &Patterns,
        scanner: &DeviceScanner,
        build_ms: f64,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            provenance: provenance::of_device(device),
            device: device.name().to_owned(),
            patterns_file: display_name(&args.patterns),
            patterns: patterns.len(),
            slots: args.slots,
            threads: args.threads(),
            runs: args.runs,
            run_ms: args.run_ms,
            image_bytes: scanner.loaded().image().bytes(),
            build_ms: rounded(build_ms, 4),
            registers: device.kernel_registers(scanner.loaded().image())?.map(|r| r.0),
            rows: Vec::new(),
        })
    }

    /// Prints it as requested.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn print(&self, args: &BenchScanArgs) -> anyhow::Result<Outcome> {
        match (args.json, args.csv) {
            (true, _) => provenance::print_json(&self.provenance, self)?,
            (_, true) => provenance::print_csv(&self.provenance, &self.to_csv())?,
            _ => print(&self.render())?,
        }
        Ok(Outcome::Done)
    }

    /// A line for each figure; the first names the columns.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "patterns_file,patterns,by,payloads,payload_bytes,what,batch,slots,threads,gbps,\
             gbps_min,gbps_max,mpps,build_ms,image_bytes,registers,checked,asked,digest\n",
        );
        for row in &self.rows {
            _ = writeln!(
                text,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                csv_text(&self.patterns_file),
                self.patterns,
                row.by,
                row.payloads,
                row.payload_bytes,
                row.what,
                row.batch,
                self.slots,
                self.threads,
                row.gbps,
                row.gbps_min,
                row.gbps_max,
                row.mpps,
                self.build_ms,
                self.image_bytes,
                self.registers.map_or(String::new(), |n| n.to_string()),
                row.checked,
                row.asked,
                row.digest,
            );
        }
        text
    }

    /// The report for people.
    pub fn render(&self) -> String {
        let head = human::counted(self.patterns, "pattern");
        let memory = human::bytes(self.image_bytes);
        let aside = format!("{}, {memory} lookup tables, {} slots", self.device, self.slots);
        let mut table = Table::new(&[
            ("by", Align::Left),
            ("payloads", Align::Left),
            ("bytes", Align::Right),
            ("figure", Align::Left),
            ("batch", Align::Right),
            ("Gbit/s", Align::Right),
            ("left to the host", Align::Right),
        ]);
        for row in &self.rows {
            table.row([
                row.by.to_owned(),
                row.payloads.to_owned(),
                row.payload_bytes.to_string(),
                row.what.replace('_', " "),
                human::count(row.batch as u64),
                human::significant(row.gbps),
                format!("{} of {}", row.asked, row.checked),
            ]);
        }
        let footer = format!(
            "Median of {} of {} ms, {}; built in {} ms; all sets checked",
            human::counted(self.runs, "run"),
            self.run_ms,
            human::counted(self.threads, "thread"),
            human::significant(self.build_ms),
        );
        title(&head, &aside) + &table.render() + &format!("{}\n", paint(FAINT, footer))
    }
}
