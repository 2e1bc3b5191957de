//! The rows of a sweep, as `bench/gpu/figures.sh` and `bench/gpu/snap.sh` write them.

use anyhow::{Context, Result, bail};

const HEADER: &str = "figure,varied,value,engine,kind,batch,unit,ours,paper";
/// Further columns, which older records lack.
const PROVENANCE: &str = ",commit,machine,date";

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    EndToEnd,
    Kernel,
    Cpu,
    Speedup,
}

/// What its number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Times the CPU's rate.
    Times,
    /// Million packets a second.
    Mpps,
    /// Microseconds: of a batch, or of a packet.
    Us,
    /// Gigabits a second on the wire, with all that Ethernet adds.
    Gbps,
    /// Hundredths of the rate of the first in the table.
    Percent,
}

/// One number of ours, and the paper's where it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub figure: String,
    pub varied: String,
    /// What was set: a number, or the name of a rule set.
    pub value: String,
    pub engine: String,
    pub kind: Kind,
    pub batch: u64,
    pub unit: Unit,
    pub ours: f64,
    pub paper: Option<f64>,
}

/// All that one run of the script measured.
#[derive(Debug)]
pub struct Sweep {
    /// The card's name.
    pub device: String,
    /// Commits and dates of the rows, each once, as a text; empty for older records.
    pub provenance: String,
    pub rows: Vec<Row>,
}

impl Sweep {
    /// The figures that there are rows of, each once, by name.
    pub fn figures(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.rows.iter().map(|row| row.figure.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Reads a file: the device's name behind `#`, the names of the columns, and rows.
///
/// # Errors
/// If a line is none of these; the text says which line, and what is wrong with it.
pub fn read(text: &str) -> Result<Sweep> {
    let mut device = None;
    let mut has_header = false;
    let mut provenance: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        if let Some(comment) = line.strip_prefix('#') {
            device.get_or_insert_with(|| comment.trim().to_owned());
        } else if has_header {
            let (row, from) = row(line).with_context(|| format!("line {}: {line}", idx + 1))?;
            rows.push(row);
            provenance.extend(from.filter(|from| !provenance.contains(from)));
        } else if line.strip_suffix(PROVENANCE).unwrap_or(line) == HEADER {
            has_header = true;
        } else {
            bail!("line {}: expected the columns {HEADER}, not {line}", idx + 1);
        }
    }
    if rows.is_empty() {
        bail!("there is no row");
    }
    let device = device.unwrap_or_else(|| "unknown".to_owned());
    Ok(Sweep { device, provenance: provenance.join("; "), rows })
}

/// A row, and its commit and date if it has them.
fn row(line: &str) -> Result<(Row, Option<String>)> {
    let columns: Vec<&str> = line.split(',').collect();
    let &[figure, varied, value, engine, kind, batch, unit, ours, paper, ref from @ ..] =
        columns.as_slice()
    else {
        bail!("{} columns, not {}", columns.len(), HEADER.split(',').count());
    };
    let from = match from {
        [] => None,
        [commit, _machine, date] => Some(format!("commit {commit}, {date}")),
        more => bail!("{} columns behind 'paper', not 3", more.len()),
    };
    let words = [figure, varied, value, engine];
    if words.iter().any(|word| word.is_empty()) {
        bail!("an empty column");
    }
    let [figure, varied, value, engine] = words.map(str::to_owned);
    let kind = match kind {
        "end-to-end" => Kind::EndToEnd,
        "kernel" => Kind::Kernel,
        "cpu" => Kind::Cpu,
        "speedup" => Kind::Speedup,
        other => bail!("no kind is called '{other}'"),
    };
    let unit = match unit {
        "Mpps" => Unit::Mpps,
        "us" => Unit::Us,
        "times" => Unit::Times,
        "Gbit/s" => Unit::Gbps,
        "percent" => Unit::Percent,
        other => bail!("no unit is called '{other}'"),
    };
    let batch = batch.parse().with_context(|| format!("the batch '{batch}'"))?;
    let paper = if paper.is_empty() { None } else { Some(positive(paper)?) };
    let ours = positive(ours)?;
    Ok((Row { figure, varied, value, engine, kind, batch, unit, ours, paper }, from))
}

/// A number that has a place on a logarithmic axis.
fn positive(text: &str) -> Result<f64> {
    let number: f64 = text.parse().with_context(|| format!("the number '{text}'"))?;
    if !number.is_normal() || number < 0.0 {
        bail!("'{text}' is no number above zero");
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::super::paper::{GSWITCH, SNAP};
    use super::*;
    use crate::repo;

    #[test]
    fn a_file_is_read() {
        let text = format!(
            "# A card\n{HEADER}\n8a,classes,16,bloom,end-to-end,8192,Mpps,900.5,119.048\n\
             6c,set,acl,tuple,cpu,256,Mpps,7,\n8a,classes,16,bloom,kernel,8192,Mpps,1000,\n"
        );
        let sweep = read(&text).unwrap();
        assert_eq!(sweep.device, "A card");
        assert_eq!(sweep.figures(), ["6c", "8a"]);
        assert_eq!(sweep.rows.len(), 3);
        let expected = Row {
            figure: "8a".to_owned(),
            varied: "classes".to_owned(),
            value: "16".to_owned(),
            engine: "bloom".to_owned(),
            kind: Kind::EndToEnd,
            batch: 8192,
            unit: Unit::Mpps,
            ours: 900.5,
            paper: Some(119.048),
        };
        assert_eq!(sweep.rows[0], expected);
        assert_eq!((sweep.rows[1].kind, sweep.rows[1].paper), (Kind::Cpu, None));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let good = "7,rules,256,bloom,kernel,8192,Mpps,1,2";
        assert!(read(&format!("{HEADER}\n{good}\n")).is_ok());
        for (bad, why) in [
            ("7,rules,256,bloom,kernel,8192,Mpps,1", "8 columns"),
            ("7,rules,256,bloom,kernel,8192,Mpps,1,2,3", "1 columns behind 'paper'"),
            ("7,rules,,bloom,kernel,8192,Mpps,1,2", "empty"),
            ("7,rules,256,bloom,wire,8192,Mpps,1,2", "no kind"),
            ("7,rules,256,bloom,kernel,8K,Mpps,1,2", "'8K'"),
            ("7,rules,256,bloom,kernel,8192,furlongs,1,2", "no unit"),
            ("7,rules,256,bloom,kernel,8192,Mpps,0,2", "above zero"),
            ("7,rules,256,bloom,kernel,8192,Mpps,-1,2", "above zero"),
            ("7,rules,256,bloom,kernel,8192,us,inf,2", "above zero"),
            ("7,rules,256,bloom,kernel,8192,Mpps,1,many", "'many'"),
            ("", "1 columns"),
        ] {
            let error = read(&format!("{HEADER}\n{good}\n{bad}\n")).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains("line 3") && text.contains(why), "{bad}: {text}");
        }
        assert!(read(&format!("{good}\n")).is_err(), "no names of columns");
        assert!(read(&format!("# A card\n{HEADER}\n")).is_err(), "no row");
    }

    /// The papers' values have words that the scripts find their own numbers by: a misspelt one
    /// would never be drawn.
    #[test]
    fn the_papers_values_are_of_known_figures_engines_kinds_and_units() {
        for (paper, count_min) in [(&GSWITCH, 41), (&SNAP, 30)] {
            let path = repo::root().join(format!("bench/gpu/{}.csv", paper.name));
            let text = std::fs::read_to_string(path).unwrap();
            let mut lines = text.lines().filter(|line| !line.starts_with('#'));
            assert_eq!(lines.next(), Some("figure,value,engine,kind,unit,paper,where"));
            let mut places = Vec::new();
            for line in lines {
                let columns: Vec<&str> = line.split(',').collect();
                let &[figure, value, engine, kind, unit, number, place] = columns.as_slice() else {
                    panic!("{line}");
                };
                let read = row(&format!("{figure},x,{value},{engine},{kind},1,{unit},{number},"));
                assert!(read.is_ok(), "{line}: {read:?}");
                assert!(paper.knows(engine), "{line}");
                assert!(paper.title(figure).is_some(), "{line}");
                assert!(!place.is_empty(), "{line}: where does it come from?");
                places.push((figure, value, engine, kind, unit));
            }
            let count = places.len();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), count, "a value twice");
            assert!(count >= count_min, "{count} values of {}", paper.name);
        }
    }
}
