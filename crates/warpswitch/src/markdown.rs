//! Markdown as a terminal shows it: as much of it as the documentation of elements has.
//!
//! Headings and code are styled, tables stand in columns, fenced text is indented. All else stays
//! as it is: lists and paragraphs read well enough.

use anstyle::{AnsiColor, Style};

use crate::term::{HEADING, paint};

/// Names, arguments, code.
const CODE: Style = AnsiColor::Cyan.on_default();

/// `text` for a terminal.
pub fn for_terminal(text: &str) -> String {
    let (mut shown, mut rows, mut is_fenced) = (String::new(), Vec::new(), false);
    let mut is_code = false;
    for line in text.lines() {
        let is_row = !is_fenced && line.starts_with('|');
        if !is_row {
            shown += &table(&std::mem::take(&mut rows));
        }
        if line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced {
            shown += &format!("    {}\n", paint(CODE, line));
        } else if is_row {
            rows.push(cells(line));
        } else if let Some(heading) = line.strip_prefix("# ") {
            shown += &format!("{}\n", paint(HEADING, heading));
        } else {
            // Code may go on in the next line, but not behind a blank one.
            is_code &= !line.is_empty();
            shown += &format!("{}\n", inline(line, &mut is_code));
        }
    }
    shown + &table(&rows)
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

/// The width of a cell without its backticks.
fn width(cell: &str) -> usize {
    cell.chars().filter(|&c| c != '`').count()
}

/// Rows in columns, headings first.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| width(c)).max();
    let widths: Vec<usize> = (0..columns).filter_map(width_of).collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
        let mut line = String::new();
        for (cell, &wide) in row.iter().zip(&widths) {
            let shown = if at == 0 { paint(HEADING, cell) } else { inline(cell, &mut false) };
            line += &format!("  {shown}{}", " ".repeat(wide - width(cell)));
        }
        text += &format!("{}\n", line.trim_end());
    }
    text
}

/// A line whose `code` is styled in place of its backticks; whether it is within code.
fn inline(line: &str, is_code: &mut bool) -> String {
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
    use super::*;

    #[test]
    fn it_reads_as_text() {
        let text = "Does `this`.\n\n# Handlers\n| name | | unit |\n| --- | --- | --- |\n\
                    | `count` | read | packets |\n| `é` | write | `a\\|b` |\n\n# Example\n\
                    ```text\n|a| -> `b`;\n```\n- `X`: a line\n";
        let plain = anstream::adapter::strip_str(&for_terminal(text)).to_string();
        assert_eq!(
            plain,
            "Does this.\n\nHandlers\n  name          unit\n  count  read   packets\n  \
             é      write  a|b\n\nExample\n    |a| -> `b`;\n- X: a line\n"
        );
        assert!(for_terminal("`x`").contains("\x1b["));
        assert_eq!(for_terminal("| a |\n").lines().count(), 1);
        let [on, off] = [CODE.render().to_string(), CODE.render_reset().to_string()];
        let spans = format!("a {on}b{off}\n{on}c{off} d\n\ne\n");
        assert_eq!(for_terminal("a `b\nc` d\n\ne\n"), spans);
    }

    #[test]
    fn every_class_has_columns_that_line_up() {
        for name in ["Queue", "RadixIPLookup", "IPFilter"] {
            let doc = warpswitch_elements::docs::doc(name).expect("it is there");
            let plain = anstream::adapter::strip_str(&for_terminal(doc.text)).to_string();
            assert!(!plain.contains("\n|") && !plain.contains("```"), "{plain}");
        }
    }
}
