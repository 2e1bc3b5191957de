//! What became of the tests, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

/// What became of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    /// All is as expected.
    Passed,
    /// Something is not.
    Failed {
        /// The line of the test that tells what should be.
        at: String,
        /// What is not so.
        told: String,
    },
    /// It cannot run here.
    Needs {
        /// What is missing.
        what: String,
    },
}

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestReport {
    /// Folder and name.
    pub name: String,
    /// How long it took.
    pub seconds: f64,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Numbers of tests that passed, failed, and need something.
type Counts = [usize; 3];

/// A line for each test, then the numbers of each folder.
pub fn table(done: &[TestReport]) -> String {
    let width = done.iter().map(|test| test.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut folders: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut all = [0; 3];
    for test in done {
        let (idx, what) = match &test.outcome {
            Outcome::Passed => (0, String::from("passed")),
            Outcome::Failed { at, told } => (1, format!("FAILED  {at}: {told}")),
            Outcome::Needs { what } => (2, format!("needs   {what}")),
        };
        let folder = test.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        folders.entry(folder).or_default()[idx] += 1;
        all[idx] += 1;
        _ = writeln!(text, "{:width$}  {:6.2} s  {what}", test.name, test.seconds);
    }
    let width = folders.keys().map(|name| name.len()).max().unwrap_or(0).max("folder".len());
    _ = writeln!(text, "\n{:width$}  passed  failed   needs   tests", "folder");
    let mut row = |name: &str, counts: Counts| {
        let [passed, failed, needs] = counts;
        let tests = passed + failed + needs;
        _ = writeln!(text, "{name:width$}  {passed:6}  {failed:6}  {needs:6}  {tests:6}");
    };
    for (name, counts) in &folders {
        row(name, *counts);
    }
    row("all", all);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align() {
        let test = |name: &str, outcome| TestReport { name: name.into(), seconds: 0.5, outcome };
        let failed = Outcome::Failed { at: "line 7".into(), told: "a:1: b".into() };
        let done = [
            test("ip/a-01", Outcome::Passed),
            test("ip/long-01", failed),
            test("x/b", Outcome::Needs { what: "tool c".into() }),
        ];
        let expected = "\
ip/a-01       0.50 s  passed
ip/long-01    0.50 s  FAILED  line 7: a:1: b
x/b           0.50 s  needs   tool c

folder  passed  failed   needs   tests
ip           1       1       0       2
x            0       0       1       1
all          1       1       1       3
";
        assert_eq!(table(&done), expected);
        let json = serde_json::to_string(&done[2]).unwrap();
        assert_eq!(json, r#"{"name":"x/b","seconds":0.5,"outcome":"needs","what":"tool c"}"#);
    }
}
