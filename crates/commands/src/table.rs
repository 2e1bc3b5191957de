//! Small tables of aligned columns.
//!
//! On a terminal that is too narrow for all of them the text of the last column goes on in further
//! lines, and if that is not enough, columns go below others, behind the first ones again: nothing
//! is left out. Elsewhere a row is a line.

use crate::term::{self, FAINT, HEADING, paint};

/// Where the cells of a column stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// The least columns for text that goes on in further lines.
const TEXT_COLUMNS_MIN: usize = 20;

/// Rows of cells under headings.
#[derive(Debug)]
pub struct Table {
    headings: Vec<(String, Align)>,
    /// How many columns identify a row.
    keys: usize,
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
    pub fn new(headings: &[(&str, Align)]) -> Self {
        let widths = headings.iter().map(|(text, _)| text.chars().count()).collect();
        let headings = headings.iter().map(|(text, align)| ((*text).to_owned(), *align)).collect();
        Self { headings, keys: 1, widths, rows: Vec::new() }
    }

    /// The same, whose rows are identified by so many columns and not by the first alone.
    pub fn with_keys(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
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
        let headings: Vec<String> = self.headings.iter().map(|(text, _)| text.clone()).collect();
        format!("{}\n", paint(HEADING, self.line(&headings, &self.widths)))
    }

    /// One row, as far as nothing else is known of the widths.
    pub fn row_line(&self, style: anstyle::Style, cells: &[String]) -> String {
        format!("{}\n", paint(style, self.line(cells, &self.widths)))
    }

    /// Appends a row; a row with fewer cells than headings ends with its last cell.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) -> &mut Self {
        self.row_of(cells.into())
    }

    /// Appends a row of as many cells as there are.
    pub fn row_of(&mut self, cells: Vec<String>) -> &mut Self {
        self.rows.push(Row { cells, style: None });
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
        self.render_within(term::columns())
    }

    /// The same, within so many columns of a terminal.
    fn render_within(&self, columns_max: Option<usize>) -> String {
        let widths = self.widths_of_all();
        let room = columns_max.unwrap_or(usize::MAX);
        let all: Vec<usize> = (0..self.headings.len()).collect();
        if lines_columns(&widths, &all) <= room {
            return self.part(&all, &widths, false);
        }
        let parts = self.parts(&widths, room);
        let mut text = Vec::new();
        for (at, columns) in parts.iter().enumerate() {
            let mut widths = widths.clone();
            if let Some(&last) = columns.last() {
                // What is left beside the others, if that is text which may go on below.
                let others = lines_columns(&widths, columns) - widths[last];
                let least = self.headings[last].0.len().max(TEXT_COLUMNS_MIN);
                if self.headings[last].1 == Align::Left && room.saturating_sub(others) >= least {
                    widths[last] = widths[last].min(room - others);
                }
            }
            text.push(self.part(columns, &widths, at > 0));
        }
        text.join("\n")
    }

    /// Columns that fit beside each other, each time behind those that identify a row.
    fn parts(&self, widths: &[usize], room: usize) -> Vec<Vec<usize>> {
        let keys: Vec<usize> = (0..self.keys.min(self.headings.len())).collect();
        let mut parts = vec![keys.clone()];
        for column in keys.len()..self.headings.len() {
            let is_text =
                column + 1 == self.headings.len() && self.headings[column].1 == Align::Left;
            let least = self.headings[column].0.len().max(TEXT_COLUMNS_MIN);
            let needs = if is_text { widths[column].min(least) } else { widths[column] };
            let last = parts.last_mut().expect("there is one from the start");
            if last.len() > keys.len() && lines_columns(widths, last) + 2 + needs > room {
                parts.push(keys.clone());
            }
            parts.last_mut().expect("there is one from the start").push(column);
        }
        parts
    }

    /// The widths of all columns.
    fn widths_of_all(&self) -> Vec<usize> {
        let columns = self.headings.len();
        let mut widths = self.widths.clone();
        for row in self.rows.iter().filter(|row| row.cells.len() == columns) {
            for (width, cell) in widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    /// Some columns of all rows; below others, of those alone that have something in them.
    fn part(&self, columns: &[usize], widths: &[usize], is_below: bool) -> String {
        let headings: Vec<String> = self.headings.iter().map(|(text, _)| text.clone()).collect();
        let mut text = String::new();
        if columns.iter().any(|&column| !headings[column].is_empty()) {
            let line = self.columns_line(&headings, columns, widths);
            text += &format!("{}\n", paint(HEADING, line));
        }
        for row in &self.rows {
            let has = |&column: &usize| row.cells.get(column).is_some_and(|cell| !cell.is_empty());
            if is_below && !columns.iter().skip(self.keys).any(has) {
                continue;
            }
            for cells in self.lines_of(&row.cells, columns, widths) {
                let line = self.columns_line(&cells, columns, widths);
                text += &match row.style {
                    Some(style) => paint(style, line),
                    None => line,
                };
                text.push('\n');
            }
        }
        text
    }

    /// The cells of a row, line by line: text that is wider than its column takes several.
    fn lines_of(&self, cells: &[String], columns: &[usize], widths: &[usize]) -> Vec<Vec<String>> {
        let whole = vec![cells.to_vec()];
        let Some(&last) = columns.last() else { return whole };
        let Some(cell) = cells.get(last) else { return whole };
        if cells.len() < self.headings.len() || cell.chars().count() <= widths[last] {
            return whole;
        }
        let mut lines = whole;
        for (at, part) in wrapped(cell, widths[last]).into_iter().enumerate() {
            if at > 0 {
                lines.push(vec![String::new(); cells.len()]);
            }
            lines[at][last] = part;
        }
        lines
    }

    fn columns_line(&self, cells: &[String], columns: &[usize], widths: &[usize]) -> String {
        let mut line = String::new();
        for &column in columns {
            let Some(cell) = cells.get(column) else { break };
            let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            line += "  ";
            line += &match self.headings[column].1 {
                Align::Left => format!("{cell}{pad}"),
                Align::Right => format!("{pad}{cell}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let all: Vec<usize> = (0..self.headings.len()).collect();
        self.columns_line(cells, &all, widths)
    }
}

/// How wide a line of these columns is.
fn lines_columns(widths: &[usize], columns: &[usize]) -> usize {
    columns.iter().map(|&column| widths[column] + 2).sum()
}

/// `text` in lines of at most so many characters, cut between words; a longer word has a line of
/// its own.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    wrapped_by(text, columns, |part| part.chars().count())
}

/// The same, where `width` returns how wide a part of the text is. There is one line at least.
pub fn wrapped_by(text: &str, columns: usize, width: impl Fn(&str) -> usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        let len = width(last);
        if len > 0 && len + 1 + width(word) > columns {
            lines.push(word.to_owned());
        } else {
            last.push_str(if len > 0 { " " } else { "" });
            last.push_str(word);
        }
    }
    lines
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

    #[test]
    fn a_table_fits_its_terminal() {
        let (left, right) = (Align::Left, Align::Right);
        let headings = [("element", left), ("packets", right), ("bytes", right), ("drops", left)];
        let mut table = Table::new(&headings);
        let drops = "1,000 queue full, 20 no route, 3 not IP";
        table.row(["src", "1,000,000", "64,000,000", ""].map(Into::into));
        table.row(["queue", "12", "768", drops].map(Into::into));
        table.row(["and 3 more".into()]);
        let check = |columns, expected: &str| {
            let text = table.render_within(columns);
            let plain = anstream::adapter::strip_str(&text).to_string();
            assert_eq!(plain, expected, "{columns:?}");
            let widest = plain.lines().map(|line| line.chars().count()).max();
            assert!(columns.is_none_or(|columns| widest <= Some(columns)), "{plain}");
        };
        let wide = "  element    packets       bytes  drops\n\
                    \x20 src      1,000,000  64,000,000\n\
                    \x20 queue           12         768  1,000 queue full, 20 no route, 3 not IP\n\
                    \x20 and 3 more\n";
        check(None, wide);
        check(Some(80), wide);
        check(
            Some(60),
            "  element    packets       bytes  drops\n\
             \x20 src      1,000,000  64,000,000\n\
             \x20 queue           12         768  1,000 queue full, 20 no\n\
             \x20                                 route, 3 not IP\n\
             \x20 and 3 more\n",
        );
        check(
            Some(34),
            "  element    packets       bytes\n\
             \x20 src      1,000,000  64,000,000\n\
             \x20 queue           12         768\n\
             \x20 and 3 more\n\n\
             \x20 element  drops\n\
             \x20 queue    1,000 queue full, 20 no\n\
             \x20          route, 3 not IP\n",
        );
    }

    #[test]
    fn text_is_cut_between_words() {
        let lines = |text: &str, columns| wrapped(text, columns).join("|");
        assert_eq!(lines("a bc def", 4), "a bc|def");
        assert_eq!(lines("abcdef g", 3), "abcdef|g");
        assert_eq!(lines("", 3), "");
        assert_eq!(lines("äö ü", 4), "äö ü");
    }
}
