//! Provenance of measurements: the commit that was built, the machine and the date. Each row of a
//! record has them, so it can be traced without anything beside it.
#![forbid(unsafe_code)]

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::{Value, json};

/// Set once, by the program. A constant here would compile all commands after every change.
static COMMIT: OnceLock<&str> = OnceLock::new();

/// Sets the commit that the program is built from: `WARPSWITCH_COMMIT` of the build script, which
/// adds `-dirty` if sources were changed.
pub fn set_commit(commit: &'static str) {
    COMMIT.get_or_init(|| commit);
}

/// The commit that the program is built from; `unknown` without git.
pub fn commit() -> &'static str {
    COMMIT.get().copied().unwrap_or("unknown")
}

/// Version and commit, for `--version`.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| format!("{} (commit {})", env!("CARGO_PKG_VERSION"), commit()))
}

/// Commit, machine and date of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// [`commit`].
    pub commit: &'static str,
    /// CPU model, or the card for GPU work.
    pub machine: String,
    /// Day in UTC, as ISO 8601 writes it.
    pub date: String,
}

impl Provenance {
    /// Of a measurement on CPU cores, made now.
    pub fn of_cpu() -> Self {
        Self::of_machine(cpu_model())
    }

    /// Of a measurement on the card `name`, made now.
    pub fn of_card(name: &str) -> Self {
        Self::of_machine(name.to_owned())
    }

    fn of_machine(machine: String) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let days = now.map_or(0, |since| since.as_secs() / 86_400);
        Self { commit: commit(), machine, date: date(days) }
    }

    /// Adds `commit`, `machine` and `date` to an object, or to each object of a list.
    pub fn stamp_json(&self, report: &mut Value) {
        match report {
            Value::Object(members) => {
                members.insert("commit".to_owned(), json!(self.commit));
                members.insert("machine".to_owned(), json!(self.machine));
                members.insert("date".to_owned(), json!(self.date));
            }
            Value::Array(list) => list.iter_mut().for_each(|report| self.stamp_json(report)),
            _ => {}
        }
    }

    /// Adds the columns `commit`, `machine` and `date` to CSV whose first line names columns.
    pub fn stamp_csv(&self, csv: &str) -> String {
        let row = format!(",{},{},{}", self.commit, csv_text(&self.machine), self.date);
        let mut columns = Some(",commit,machine,date");
        let line = |line: &str| match line.starts_with('#') {
            true => format!("{line}\n"),
            false => format!("{line}{}\n", columns.take().unwrap_or(&row)),
        };
        csv.lines().map(line).collect()
    }
}

/// A text as a CSV field: quoted if it holds what ends one.
pub fn csv_text(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The first CPU's model, or the architecture where the system does not name it.
pub fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(':').nth(1)).unwrap_or(std::env::consts::ARCH);
    model.trim().to_owned()
}

/// Days since 1970-01-01 as a date of the Gregorian calendar.
fn date(mut days: u64) -> String {
    let is_leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provenance() -> Provenance {
        Provenance { commit: "abc-dirty", machine: "CPU, big".into(), date: "2026-11-20".into() }
    }

    #[test]
    fn converts_days_to_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_777, "2026-11-20"),
            (20_818, "2026-12-31"),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn stamps_every_csv_row_and_no_comment() {
        let csv = provenance().stamp_csv("a,b\n1,2\n# failed\n3,4\n");
        let row = "abc-dirty,\"CPU, big\",2026-11-20";
        assert_eq!(csv, format!("a,b,commit,machine,date\n1,2,{row}\n# failed\n3,4,{row}\n"));
    }

    #[test]
    fn stamps_objects_and_each_object_of_a_list() {
        let mut reports = json!([{"mpps": 1}, {"mpps": 2}]);
        provenance().stamp_json(&mut reports);
        for report in reports.as_array().unwrap() {
            assert_eq!(report["commit"], "abc-dirty");
            assert_eq!(report["machine"], "CPU, big");
            assert_eq!(report["date"], "2026-11-20");
        }
    }

    #[test]
    fn names_this_build_and_machine() {
        let own = Provenance::of_cpu();
        assert!(!own.commit.is_empty() && !own.machine.is_empty());
        assert!(own.date.as_str() > "2026" && own.date.len() == 10, "{}", own.date);
    }
}
