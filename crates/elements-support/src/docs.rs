//! Documentation of elements, for programs that print it.
//!
//! The text is the module documentation of the file that declares a class: a summary, followed by
//! the headings that the documentation of the crate `elements` lists. A file may document several
//! classes, which are named in its synopsis.

use warpswitch_graph::ElementDoc;

/// What the build script of a crate with elements gathers: area and text of each file.
pub type Files = &'static [(&'static str, &'static str)];

/// The lines under the heading *Synopsis*.
fn synopsis(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.lines().skip_while(|line| *line != "# Synopsis").skip(1);
    behind.take_while(|line| !line.starts_with("# "))
}

/// The documentation of the class called `class` in `files`.
pub fn find(files: Files, class: &str) -> Option<ElementDoc> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let names = |text: &str| {
        synopsis(text).any(|line| line.split(|c: char| !is_word(c)).any(|word| word == class))
    };
    let found = files.iter().find(|(_, text)| names(text));
    found.map(|&(area, text)| ElementDoc { area, text })
}
