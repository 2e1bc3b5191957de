//! Hash functions of masked keys beside each other: what each costs on the card, and what tables
//! and filters it makes of a rule set.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;
use warpswitch_classify::ClassifyError;
use warpswitch_classify::parts::RuleStore;
use warpswitch_gpu::Device;
use warpswitch_gpu::image::hashes::{HashFunction, HashImage, Quality, Subject};
use warpswitch_gpu::work::{Lookup as _, Work as _};
use warpswitch_provenance::csv_text;
use warpswitch_rules::{KeyBatch, KeyBuf, Ruleset};

use super::measure::{Setting, Words, check_answers, kernel_only};
use super::report::Mode;
use super::{BenchGpuArgs, mpps, rate_text, unusable};
use crate::digest::Digest;
use crate::exit::Outcome;
use crate::human::{self, rounded};
use crate::output::print;
use crate::provenance;
use crate::table::{Align, Table, title};
use crate::term::{BAD, FAINT, Progress, paint};

/// Pairs of key and mask whose hashes are computed on the cores, for each function: half a second.
const PAIRS_MAX: usize = 1 << 25;

/// Everything that was found.
#[derive(Debug, Serialize)]
struct HashReport {
    device: String,
    ruleset: String,
    schema: &'static str,
    rules: usize,
    masks: usize,
    entries: usize,
    /// Keys of a launch.
    batch: usize,
    /// Keys whose hashes the cores computed as well, and all that false positives are counted of.
    checked: usize,
    functions: Vec<FunctionReport>,
}

/// What was found of one function.
#[derive(Debug, Serialize)]
struct FunctionReport {
    name: &'static str,
    /// Million keys a second, each hashed under every mask; none without a card.
    kernel_mpps: Option<f64>,
    /// Thousand million hashes a second.
    kernel_ghps: Option<f64>,
    registers: Option<usize>,
    /// Of keys that a mask has no entry for, percent that its filter lets pass.
    false_positives: f64,
    filter_bits_per_entry: f64,
    /// Entries whose hash another entry of the mask has.
    equal_hashes: usize,
    /// Open addressing: slots looked at for an entry, and the most.
    probes: f64,
    probes_max: usize,
    /// Cuckoo tables: their load, in percent, and entries moved for each that was put in.
    cuckoo_load: f64,
    moves: f64,
    /// Masks for which there was no cuckoo table.
    failed: usize,
    /// Of the folds of all checked keys, the same on the device and on the cores.
    digest: String,
}

/// Compares all functions.
///
/// # Errors
/// A device that folds otherwise than the cores, or fails.
pub fn run(
    args: &BenchGpuArgs,
    device: &Arc<Device>,
    (name, ruleset): (&str, &Ruleset),
    keys: &KeyBuf,
) -> anyhow::Result<Outcome> {
    let options = args.build.to_options();
    let store = RuleStore::build(ruleset, options.bytes_max)?;
    let subject = Subject::new(&store, options.bytes_max).map_err(|too_large| {
        ClassifyError::memory_bound(too_large.bytes, options.bytes_max, too_large.rules)
    })?;
    let checked = keys.len().min(PAIRS_MAX / subject.masks().max(1)).max(1);
    let mut report = HashReport {
        device: device.name().to_owned(),
        ruleset: name.to_owned(),
        schema: ruleset.schema().name,
        rules: ruleset.len(),
        masks: subject.masks(),
        entries: subject.entries(),
        batch: args.batch.iter().copied().max().unwrap_or(1),
        checked,
        functions: Vec::new(),
    };
    let sample = keys.as_batch().slice(0, checked);
    for function in HashFunction::ALL {
        let _progress = Progress::spinner(&format!("hashing by {function}"));
        let image = Arc::new(subject.image(function, options.hash_seed));
        let mut of = FunctionReport::new(function);
        of.digest = check(device, &image, sample).with_context(|| function.name())?.to_string();
        of.measure(device, &image, keys, (args, report.batch, report.masks))?;
        of.judge(&subject.quality(function, sample, options.hash_seed), report.entries);
        report.functions.push(of);
    }
    match (args.json, args.csv) {
        (true, _) => provenance::print_json(&provenance::of_device(device), &report)?,
        (_, true) => provenance::print_csv(&provenance::of_device(device), &report.to_csv())?,
        _ => print(&report.render())?,
    }
    Ok(Outcome::Done)
}

/// Compares folds of the device with those of the cores; gives their digest.
fn check(device: &Device, image: &Arc<HashImage>, keys: KeyBatch<'_>) -> anyhow::Result<Digest> {
    let mut want = vec![0; keys.len()];
    image.answer(keys.words(), &mut want);
    let loaded = device.load(image.clone())?;
    for mode in Mode::ways(device) {
        let mut got: Vec<u32> = want.iter().map(|fold| !fold).collect();
        let words = Words::new(keys.words(), image.form());
        check_answers(device, &loaded, words, mode, &mut got)?;
        let differing = got.iter().zip(&want).position(|(got, want)| got != want);
        ensure!(
            differing.is_none(),
            "{mode}: the hashes of packet {} differ from those of the CPU",
            differing.unwrap_or_default()
        );
    }
    if let Some(cause) = device.retired() {
        return Err(unusable(device, cause));
    }
    let mut digest = Digest::new();
    digest.update_words(want);
    Ok(digest)
}

impl FunctionReport {
    fn new(function: HashFunction) -> Self {
        Self {
            name: function.name(),
            kernel_mpps: None,
            kernel_ghps: None,
            registers: None,
            false_positives: 0.0,
            filter_bits_per_entry: 0.0,
            equal_hashes: 0,
            probes: 0.0,
            probes_max: 0,
            cuckoo_load: 0.0,
            moves: 0.0,
            failed: 0,
            digest: String::new(),
        }
    }

    /// Takes the kernel's rate, if there is a card.
    fn measure(
        &mut self,
        device: &Device,
        image: &Arc<HashImage>,
        keys: &KeyBuf,
        (args, batch, masks): (&BenchGpuArgs, usize, usize),
    ) -> anyhow::Result<()> {
        let (slots, threads, runs) = (args.slots, args.threads, args.runs);
        let run_time = Duration::from_millis(args.run_ms as u64);
        let setting = Setting { batch, slots, threads, runs, run_time };
        let loaded = device.load(image.clone())?;
        if let Some(rates) = kernel_only(device, &loaded, keys.into(), &setting)? {
            let rate = mpps(&rates);
            self.kernel_mpps = Some(rate);
            self.kernel_ghps = Some(rounded(rate * masks as f64 / 1e3, 3));
        }
        self.registers = device.kernel_registers(&**image)?.map(|registers| registers.0);
        Ok(())
    }

    fn judge(&mut self, quality: &Quality, entries: usize) {
        let each = |number: f64| rounded(number / entries.max(1) as f64, 4);
        self.false_positives = rounded(quality.false_positives() * 100.0, 4);
        self.filter_bits_per_entry = each(quality.filter_bits as f64);
        self.equal_hashes = quality.equal_hashes;
        self.probes = each(quality.probes as f64);
        self.probes_max = quality.probes_max;
        let placed = 100.0 * quality.cuckoo_entries as f64;
        self.cuckoo_load = rounded(placed / quality.cuckoo_slots.max(1) as f64, 2);
        self.moves = each(quality.moves as f64);
        self.failed = quality.failed;
    }
}

impl HashReport {
    /// A line for each function; the first names the columns.
    fn to_csv(&self) -> String {
        let mut text = String::from(
            "ruleset,rules,schema,masks,entries,function,batch,kernel_mpps,kernel_ghps,registers,\
             false_positives,filter_bits_per_entry,equal_hashes,probes,probes_max,cuckoo_load,\
             moves,failed,checked,digest\n",
        );
        let number = |value: Option<f64>| value.map_or(String::new(), |number| number.to_string());
        for of in &self.functions {
            text += &format!(
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
                csv_text(&self.ruleset),
                self.rules,
                self.schema,
                self.masks,
                self.entries,
                of.name,
                self.batch,
                number(of.kernel_mpps),
                number(of.kernel_ghps),
                number(of.registers.map(|registers| registers as f64)),
                of.false_positives,
                of.filter_bits_per_entry,
                of.equal_hashes,
                of.probes,
                of.probes_max,
                of.cuckoo_load,
                of.moves,
                of.failed,
                self.checked,
                of.digest,
            );
        }
        text
    }

    /// The report for people.
    fn render(&self) -> String {
        let head = format!(
            "{}, {}, {}",
            human::counted(self.rules, "rule"),
            human::counted(self.masks, "mask"),
            human::counted(self.entries, "value"),
        );
        let mut text = title(&head, &format!("{}, {}", self.device, self.schema));
        let mut table = Table::new(&[
            ("function", Align::Left),
            ("hashes/s", Align::Right),
            ("false pos. %", Align::Right),
            ("equal", Align::Right),
            ("probes", Align::Right),
            ("most", Align::Right),
            ("load %", Align::Right),
            ("moves", Align::Right),
            ("failed", Align::Right),
        ]);
        for of in &self.functions {
            let row = [
                of.name.to_owned(),
                of.kernel_ghps.map_or("-".to_owned(), |rate| rate_text(rate * 1e3)),
                human::significant(of.false_positives),
                human::count(of.equal_hashes as u64),
                human::significant(of.probes),
                of.probes_max.to_string(),
                human::significant(of.cuckoo_load),
                human::significant(of.moves),
                of.failed.to_string(),
            ];
            if of.failed > 0 {
                table.styled_row(BAD, row);
            } else {
                table.row(row);
            }
        }
        text += &table.render();
        let footer = format!(
            "False positives and digests of {}, under every mask; device and CPU agree",
            human::counted(self.checked, "packet"),
        );
        text + &format!("{}\n", paint(FAINT, footer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> HashReport {
        let quality = Quality {
            equal_hashes: 2,
            filter_bits: 3200,
            absent: 1000,
            passed: 11,
            probes: 150,
            probes_max: 4,
            cuckoo_entries: 100,
            cuckoo_slots: 125,
            moves: 30,
            failed: 0,
        };
        let mut of = FunctionReport::new(HashFunction::Murmur3);
        of.judge(&quality, 100);
        HashReport {
            device: "card".to_owned(),
            ruleset: "a,b.rules".to_owned(),
            schema: "ipv4_5tuple",
            rules: 90,
            masks: 3,
            entries: 100,
            batch: 8192,
            checked: 500,
            functions: vec![of],
        }
    }

    #[test]
    fn figures_are_for_each_entry_and_in_percent() {
        let csv = report().to_csv();
        let lines: Vec<&str> = csv.lines().collect();
        let columns = lines[0].split(',').count();
        assert_eq!(lines[1].split(',').count(), columns + 1, "the name has a comma");
        assert_eq!(
            lines[1],
            "\"a,b.rules\",90,ipv4_5tuple,3,100,murmur3,8192,,,,1.1,32,2,1.5,4,80,0.3,0,500,"
        );
    }

    #[test]
    fn people_see_a_row_for_each_function() {
        let text = report().render();
        assert!(text.contains("murmur3") && text.contains("500 packets"), "{text}");
    }
}
