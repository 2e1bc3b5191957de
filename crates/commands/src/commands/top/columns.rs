//! Columns of the table, on a screen and plain.

use super::rates::{ElementRates, Sort};
use crate::human;
use crate::table::Align;

/// A column.
pub struct Column {
    /// Its heading.
    pub heading: &'static str,
    /// Where its cells stand.
    pub align: Align,
    /// The sort that goes by it.
    pub sort: Option<Sort>,
    /// The text of a cell.
    pub cell: fn(&ElementRates) -> String,
    /// Columns with the largest go first where there is no room.
    dispensable: u8,
}

/// All of them, in order.
pub static COLUMNS: [Column; 10] = [
    text("element", |e| e.name.clone(), 0),
    text("class", |e| e.class.clone(), 6),
    number("packets/s", Some(Sort::Rate), |e| dash_or(Some(e.packets_per_s)), 0),
    number("bit/s", None, |e| dash_or(e.bits_per_s), 8),
    number("batch", None, |e| dash_or(e.mean_batch), 7),
    number("ns/packet", Some(Sort::Cost), |e| dash_or(e.ns_per_packet), 2),
    number("% core", Some(Sort::Time), |e| dash_or(e.percent_of_core), 3),
    number("held", Some(Sort::Held), |e| dash_or(Some(e.held as f64)), 4),
    number("drops/s", Some(Sort::Drops), |e| dash_or(Some(e.drops_per_s)), 1),
    number("packets", None, |e| dash_or(Some(e.packets as f64)), 9),
];

const fn text(heading: &'static str, cell: fn(&ElementRates) -> String, dispensable: u8) -> Column {
    Column { heading, align: Align::Left, sort: None, cell, dispensable }
}

const fn number(
    heading: &'static str,
    sort: Option<Sort>,
    cell: fn(&ElementRates) -> String,
    dispensable: u8,
) -> Column {
    Column { heading, align: Align::Right, sort, cell, dispensable }
}

/// Nothing is a dash, so that numbers stand out.
fn dash_or(value: Option<f64>) -> String {
    value.filter(|value| *value != 0.0).map_or("-".into(), human::scaled)
}

/// Whether an element did nothing that a table shows.
pub fn is_idle(element: &ElementRates) -> bool {
    element.packets_per_s == 0.0 && element.drops_per_s == 0.0 && element.held == 0
}

/// The columns that fit into so many characters with these rows, and their widths.
pub fn fitting(rows: &[&ElementRates], width: usize) -> Vec<(&'static Column, usize)> {
    let cells = |column: &Column| rows.iter().map(|row| (column.cell)(row).len()).max();
    let mut fitting: Vec<(&'static Column, usize)> = COLUMNS
        .iter()
        // Numbers get room to grow, so that columns stand still, and headings for a mark.
        .map(|column| match column.align {
            Align::Left => (column, cells(column).unwrap_or(0).max(column.heading.len())),
            Align::Right => (column, (column.heading.len() + 1).max(6)),
        })
        .collect();
    let total = |columns: &[(&Column, usize)]| columns.iter().map(|(_, width)| width + 2).sum();
    while fitting.len() > 1 {
        let total: usize = total(&fitting);
        if total <= width {
            break;
        }
        // Long names are cut before anything goes that is of more use.
        let over = total - width;
        if let Some((_, name)) = fitting.iter_mut().find(|(_, width)| *width > 24) {
            *name -= over.min(*name - 24);
            continue;
        }
        let last = (0..fitting.len()).max_by_key(|&idx| fitting[idx].0.dispensable);
        fitting.remove(last.expect("there are some"));
    }
    fitting
}

/// A line of cells of such widths, two blanks before each; what is too long ends with `…`.
pub fn line(columns: &[(&'static Column, usize)], cell: impl Fn(&Column) -> String) -> String {
    let mut line = String::new();
    for (column, width) in columns {
        let mut cell = cell(column);
        if cell.chars().count() > *width {
            cell = cell.chars().take(width.saturating_sub(1)).chain(['…']).collect();
        }
        line += &match column.align {
            Align::Left => format!("  {cell:<width$}"),
            Align::Right => format!("  {cell:>width$}"),
        };
    }
    line
}
