//! `top` without a terminal: tables one below the other, or a line of JSON for each refresh.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;

use super::columns::{COLUMNS, is_idle};
use super::rates::{ElementRates, Rates, Sort};
use super::read_stats;
use crate::exit::Outcome;
use crate::human;
use crate::output::print;
use crate::table::{Align, Table, title};
use crate::term::{FAINT, WARN};
use warpswitch_runtime::client::{ControlClient, Stream};

/// Prints rates so many times, or until the connection is lost.
///
/// # Errors
/// The connection is lost; the standard output is closed.
pub fn run(
    mut client: ControlClient<Box<dyn Stream>>,
    place: &str,
    interval: Duration,
    count: Option<u64>,
    form: Form,
) -> anyhow::Result<Outcome> {
    let mut last = read_stats(&mut client).with_context(|| place.to_owned())?;
    let mut printed = 0;
    while count.is_none_or(|count| printed < count) {
        std::thread::sleep(interval);
        let reading = read_stats(&mut client).with_context(|| place.to_owned())?;
        let rates = reading.since(Some(&last));
        match form {
            Form::Json => print_line(&rates)?,
            Form::Table(sort) => {
                let gap = if printed == 0 { "" } else { "\n" };
                print(&format!("{gap}{}", render(&rates, place, sort)))?;
            }
        }
        (last, printed) = (reading, printed + 1);
    }
    Ok(Outcome::Done)
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line of JSON, elements in the order of the configuration.
    Json,
    /// A table, sorted.
    Table(Sort),
}

fn print_line(rates: &Rates) -> anyhow::Result<()> {
    let mut line = serde_json::to_string(rates).context("JSON")?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// The table of an interval.
fn render(rates: &Rates, place: &str, sort: Sort) -> String {
    const COUNT: usize = COLUMNS.len();
    let mut headings: Vec<(&'static str, Align)> =
        COLUMNS.iter().map(|column| (column.heading, column.align)).collect();
    headings.push(("drops", Align::Left));
    let mut table = Table::new(&headings);
    for idx in rates.sorted(sort, "") {
        let element = &rates.elements[idx];
        let mut cells: [String; COUNT + 1] = Default::default();
        for (cell, column) in cells.iter_mut().zip(&COLUMNS) {
            *cell = (column.cell)(element);
        }
        cells[COUNT] = drops(element);
        match (is_idle(element), element.drops_per_s > 0.0) {
            (true, _) => table.styled_row(FAINT, cells),
            (false, true) => table.styled_row(WARN, cells),
            (false, false) => table.row(cells),
        };
    }
    let aside = match rates.counts_costs {
        true => format!("{} s", rates.seconds),
        false => format!(
            "{} s; bytes and times are not measured: run with --control or --stats",
            rates.seconds
        ),
    };
    format!("{}{}", title(place, &aside), table.render())
}

/// Reasons for drops, since the run began.
fn drops(element: &ElementRates) -> String {
    let drops = element.drops.iter();
    let drops: Vec<String> =
        drops.map(|drop| format!("{} {}", human::count(drop.packets), drop.reason)).collect();
    drops.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::rates;
    use super::*;

    #[test]
    fn a_table_is_rendered() {
        let text = render(&rates(), "router.sock", Sort::Rate);
        let plain = anstream::adapter::strip_str(&text).to_string();
        let expected = "\
router.sock  0.5 s
  element  class           packets/s  bit/s  batch  ns/packet  % core  held  drops/s  packets  drops
  src      InfiniteSource      1.00M   512M    100        100      10     -        -     501K
  q        Queue                   -      -      -          -       -     7      500    2.00K  \
300 full, 50 unconnected output
  sink     Discard                 -      -      -          -       -     -        -        -
";
        assert_eq!(plain, expected);
    }
}
