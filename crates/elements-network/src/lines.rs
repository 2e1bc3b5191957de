//! Output of lines about packets: to standard error, or to a file.

use std::fs::File;
use std::io::{BufWriter, Write};

use warpswitch_graph::Context;
use warpswitch_io::name_folder;

/// Where the lines of an element go.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The file; none if this is empty.
    pub(crate) path: String,
    file: Option<BufWriter<File>>,
}

impl Lines {
    /// Makes the file, if there is to be one.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub(crate) fn open(&mut self) -> Result<(), String> {
        if !self.path.is_empty() {
            let file = File::create(&self.path);
            let file = file.map_err(|error| {
                format!("{}: {}", self.path, name_folder(self.path.as_ref(), error))
            })?;
            self.file = Some(BufWriter::new(file));
        }
        Ok(())
    }

    /// Prints `line`, which has no trailing newline. A write error of the file is reported once;
    /// the lines after it go to standard error.
    pub(crate) fn say(&mut self, cx: &mut Context<'_>, line: &str) {
        let Some(file) = &mut self.file else { return cx.say(line) };
        if let Err(error) = writeln!(file, "{line}") {
            cx.say(&format!("{}: {}: {error}", cx.name(), self.path));
            self.file = None;
        }
    }

    /// Has all lines in the file.
    ///
    /// # Errors
    /// What could not be written.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        let flushed = self.file.as_mut().map_or(Ok(()), BufWriter::flush);
        flushed.map_err(|error| format!("{}: {error}", self.path))
    }
}
