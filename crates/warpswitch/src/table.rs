//! Small tables of aligned columns.

use crate::term::{FAINT, HEADING, paint};

/// Where the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells under headings.
#[derive(Debug)]
pub struct Table {
    headings: Vec<(&'static str, Align)>,
    /// The least width of each column.
    widths: Vec<usize>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    style: Option<anstyle::Style>,
}

impl Table {
    /// A table without rows.
    pub fn new(headings: &[(&'static str, Align)]) -> Self {
        let widths = headings.iter().map(|(text, _)| text.chars().count()).collect();
        Self { headings: headings.to_vec(), widths, rows: Vec::new() }
    }

    /// The same with columns at least so wide, for tables that are printed row by row.
    pub fn with_widths(mut self, widths: &[usize]) -> Self {
        for (width, least) in self.widths.iter_mut().zip(widths) {
            *width = (*width).max(*least);
        }
        self
    }

    /// The headings, as far as nothing else is known of the widths.
    pub fn heading_line(&self) -> String {
        let headings: Vec<String> = self.headings.iter().map(|(text, _)| (*text).into()).collect();
        format!("{}\n", paint(HEADING, self.line(&headings, &self.widths)))
    }

    /// One row, as far as nothing else is known of the widths.
    pub fn row_line(&self, style: anstyle::Style, cells: &[String]) -> String {
        format!("{}\n", paint(style, self.line(cells, &self.widths)))
    }

    /// Appends a row; a row with fewer cells than headings ends with its last cell.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) -> &mut Self {
        self.rows.push(Row { cells: cells.into(), style: None });
        self
    }

    /// Appends a row in a style.
    pub fn styled_row<const N: usize>(
        &mut self,
        style: anstyle::Style,
        cells: [String; N],
    ) -> &mut Self {
        self.rows.push(Row { cells: cells.into(), style: Some(style) });
        self
    }

    /// The rows under their headings, each line with an indent of two.
    pub fn render(&self) -> String {
        let columns = self.headings.len();
        let mut widths = self.widths.clone();
        for row in self.rows.iter().filter(|row| row.cells.len() == columns) {
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let headings: Vec<String> = self.headings.iter().map(|(text, _)| (*text).into()).collect();
        let mut text = String::new();
        if headings.iter().any(|heading| !heading.is_empty()) {
            text += &format!("{}\n", paint(HEADING, self.line(&headings, &widths)));
        }
        for row in &self.rows {
            let line = self.line(&row.cells, &widths);
            text += &match row.style {
                Some(style) => paint(style, line),
                None => line,
            };
            text.push('\n');
        }
        text
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.iter().zip(widths).zip(&self.headings) {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            line += "  ";
            line += &match align {
                Align::Left => format!("{cell}{pad}"),
                Align::Right => format!("{pad}{cell}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// A title line for what follows.
pub fn title(text: &str, aside: &str) -> String {
    let aside = if aside.is_empty() { String::new() } else { format!("  {}", paint(FAINT, aside)) };
    format!("{}{aside}\n", paint(HEADING, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("engine", Align::Left), ("Mpps", Align::Right)]);
        table.row(["linear".into(), "1.5".into()]).row(["turbo".into(), "150".into()]);
        table.row(["x".into()]);
        let plain = anstream::adapter::strip_str(&table.render()).to_string();
        assert_eq!(plain, "  engine  Mpps\n  linear   1.5\n  turbo    150\n  x\n");
    }
}
