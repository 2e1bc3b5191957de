//! Markdown as people read it: as much of it as the documentation of elements has.
//!
//! Tables stand in columns, fenced text is indented, headings are styled. On a terminal code is in
//! colour, where backticks would be in the way, and lines that are too long go on below; elsewhere
//! backticks and lines stay as they are.

use anstyle::{AnsiColor, Style};

use crate::table::wrapped_by;
use crate::term::{HEADING, paint};

/// Names, arguments, code.
const CODE: Style = AnsiColor::Cyan.on_default();

/// The least columns for text.
const CELL_COLUMNS_MIN: usize = 12;

/// `text` for a terminal of so many columns, or for what is none.
pub fn rendered(text: &str, columns: Option<usize>) -> String {
    let mut page = Page { shown: String::new(), columns, rows: Vec::new(), paragraph: Vec::new() };
    let mut is_fenced = false;
    for line in text.lines() {
        let is_row = !is_fenced && line.starts_with('|');
        if !is_row {
            page.end_table();
        }
        let is_text = !is_fenced && !is_row && !line.starts_with("```") && !line.starts_with("# ");
        if !is_text || line.is_empty() || line.starts_with("- ") {
            page.end_paragraph();
        }
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced {
            page.shown += &format!("    {}\n", paint(CODE, line));
        } else if is_row {
            page.rows.push(cells(line));
        } else if let Some(heading) = line.strip_prefix("# ") {
            page.shown += &format!("{}\n", paint(HEADING, heading));
        } else if line.is_empty() {
            page.shown.push('\n');
        } else {
            page.paragraph.push(line);
        }
    }
    page.end_table();
    page.end_paragraph();
    page.shown
}

/// What is shown so far, and what waits for its end.
struct Page<'t> {
    shown: String,
    columns: Option<usize>,
    /// Of a table.
    rows: Vec<Vec<String>>,
    /// Lines of a paragraph, or of one point of a list.
    paragraph: Vec<&'t str>,
}

impl Page<'_> {
    fn end_paragraph(&mut self) {
        let lines = std::mem::take(&mut self.paragraph);
        let room = self.columns.unwrap_or(usize::MAX);
        let mut is_code = false;
        if lines.iter().all(|line| width(line, self.columns) <= room) {
            for line in lines {
                self.shown += &format!("{}\n", inline(line, &mut is_code, self.columns));
            }
            return;
        }
        let indent = if lines[0].starts_with("- ") { "  " } else { "" };
        let words: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        let room = room.saturating_sub(indent.len()).max(CELL_COLUMNS_MIN);
        for (at, line) in wrapped(&words.join(" "), room, self.columns).iter().enumerate() {
            let indent = if at > 0 { indent } else { "" };
            self.shown += &format!("{indent}{}\n", inline(line, &mut is_code, self.columns));
        }
    }

    fn end_table(&mut self) {
        self.shown += &table(&std::mem::take(&mut self.rows), self.columns);
    }
}

/// The cells of a line of a table, but for those of the line below its headings.
fn cells(line: &str) -> Vec<String> {
    // A bar behind a backslash is part of a cell.
    let line = line.trim().trim_matches('|').replace("\\|", "\0");
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let is_rule = |cell: &&str| !cell.is_empty() && cell.bytes().all(|b| matches!(b, b'-' | b':'));
    match cells.iter().all(is_rule) {
        true => Vec::new(),
        false => cells.into_iter().map(|cell| cell.replace('\0', "|")).collect(),
    }
}

/// The width of a text as it is shown.
fn width(text: &str, columns: Option<usize>) -> usize {
    text.chars().filter(|&c| columns.is_none() || c != '`').count()
}

/// Rows in columns, headings first. On a terminal the text of cells goes on below itself where the
/// table would be too wide.
fn table(rows: &[Vec<String>], columns: Option<usize>) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell, columns)).max()
    };
    let mut widths: Vec<usize> = (0..count).filter_map(width_of).collect();
    let total = |widths: &[usize]| widths.iter().map(|wide| wide + 2).sum::<usize>();
    while columns.is_some_and(|columns| total(&widths) > columns) {
        // The widest gives way, as far as words fit.
        let widest = widths.iter_mut().max().filter(|wide| **wide > CELL_COLUMNS_MIN);
        let Some(widest) = widest else { break };
        *widest -= 1;
    }
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        let cells = row.iter().zip(&widths);
        let cells: Vec<Vec<String>> =
            cells.map(|(cell, &wide)| wrapped(cell, wide, columns)).collect();
        let mut is_code = vec![false; cells.len()];
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let mut shown = String::new();
            for ((cell, &wide), is_code) in cells.iter().zip(&widths).zip(&mut is_code) {
                let cell = cell.get(line).map_or("", String::as_str);
                let pad = " ".repeat(wide.saturating_sub(width(cell, columns)));
                shown += "  ";
                shown += &match at {
                    0 if !cell.is_empty() => paint(HEADING, cell),
                    _ => inline(cell, is_code, columns),
                };
                shown += &pad;
            }
            text += &format!("{}\n", shown.trim_end());
        }
    }
    text
}

/// `text` in lines of at most so many characters as they are shown.
fn wrapped(text: &str, room: usize, columns: Option<usize>) -> Vec<String> {
    wrapped_by(text, room, |part| width(part, columns))
}

/// A line whose `code` is styled in place of its backticks, on a terminal; whether it is within
/// code.
fn inline(line: &str, is_code: &mut bool, columns: Option<usize>) -> String {
    if columns.is_none() {
        return line.to_owned();
    }
    let mut text = String::new();
    for (at, part) in line.split('`').enumerate() {
        *is_code ^= at > 0;
        match *is_code && !part.is_empty() {
            true => text += &paint(CODE, part),
            false => text += part,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use warpswitch_graph::language::ClassTable;

    use super::*;

    fn plain(text: &str, columns: Option<usize>) -> String {
        anstream::adapter::strip_str(&rendered(text, columns)).to_string()
    }

    const WIDE: Option<usize> = Some(100);

    #[test]
    fn it_reads_as_text() {
        let text = "Does `this`.\n\n# Handlers\n| name | | unit |\n| --- | --- | --- |\n\
                    | `count` | read | packets |\n| `é` | write | `a\\|b` |\n\n# Example\n\
                    ```text\n|a| -> `b`;\n```\n- `X`: a line\n";
        assert_eq!(
            plain(text, WIDE),
            "Does this.\n\nHandlers\n  name          unit\n  count  read   packets\n  \
             é      write  a|b\n\nExample\n    |a| -> `b`;\n- X: a line\n"
        );
        assert_eq!(
            plain(text, None),
            "Does `this`.\n\nHandlers\n  name            unit\n  `count`  read   packets\n  \
             `é`      write  `a|b`\n\nExample\n    |a| -> `b`;\n- `X`: a line\n"
        );
        assert!(rendered("`x`", WIDE).contains("\x1b["));
        assert!(!rendered("`x`", None).contains("\x1b["));
        assert_eq!(rendered("| a |\n", WIDE).lines().count(), 1);
        let [on, off] = [CODE.render().to_string(), CODE.render_reset().to_string()];
        let spans = format!("a {on}b{off}\n{on}c{off} d\n\ne\n");
        assert_eq!(rendered("a `b\nc` d\n\ne\n", WIDE), spans);
    }

    #[test]
    fn long_lines_go_on_below() {
        let text = "One `two three` four\nfive six.\n- `A`: seven eight nine\n  ten\n";
        let narrow = "One two three four\nfive six.\n- A: seven eight nine\n  ten\n";
        assert_eq!(plain(text, Some(22)), narrow);
        let table = "| a | b |\n| - | - |\n| `x y` | one two `three four` five six |\n| z | w |\n";
        let narrow = "  a    b\n  x y  one two three four\n       five six\n  z    w\n";
        assert_eq!(plain(table, Some(28)), narrow);
        // Code goes on, too.
        let [on, off] = [CODE.render().to_string(), CODE.render_reset().to_string()];
        let shown = rendered("an `abcdefghij klmnopqrst uv` end", Some(20));
        assert_eq!(shown, format!("an {on}abcdefghij{off}\n{on}klmnopqrst uv{off} end\n"));
    }

    #[test]
    fn every_class_fits_its_terminal_and_has_columns_that_line_up() {
        for name in crate::kit::registry().names() {
            let Some(doc) = crate::kit::doc(name) else { continue };
            for columns in [None, Some(80)] {
                let text = plain(doc.text, columns);
                assert!(!text.contains("\n|") && !text.contains("```"), "{text}");
                // Code stays as it is written.
                let long = |line: &&str| line.chars().count() > 80 && !line.starts_with("    ");
                let long = text.lines().find(long).filter(|_| columns.is_some());
                assert_eq!(long, None, "{name}");
            }
        }
    }
}
