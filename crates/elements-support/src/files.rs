//! Output of text, and error messages of files.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use warpswitch_graph::Context;
use warpswitch_io::name_folder;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 64 << 10;

/// The error message of the operating system, without the error number.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

/// Where text is written to.
#[derive(Debug)]
pub enum Output {
    /// The run's standard output.
    Console,
    /// A file, under its name. What was in it goes with the first write, not before: who takes
    /// over from another that writes it may yet leave it alone.
    File {
        /// The file.
        file: BufWriter<File>,
        /// Whether nothing was written yet.
        is_fresh: bool,
    },
}

impl Output {
    /// Starts the file `name`; `-` is the standard output.
    ///
    /// # Errors
    /// The operating system's.
    pub fn create(name: &str) -> io::Result<Self> {
        if name == "-" {
            return Ok(Self::Console);
        }
        let file = File::options().write(true).create(true).truncate(false).open(name);
        let file = file.map_err(|error| name_folder(name.as_ref(), error))?;
        Ok(Self::File { file: BufWriter::with_capacity(BUFFER_BYTES, file), is_fresh: true })
    }

    /// Writes `bytes`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Console => {
                cx.print(bytes);
                Ok(())
            }
            Self::File { file, is_fresh } => {
                if std::mem::take(is_fresh) && file.get_ref().metadata()?.is_file() {
                    file.get_ref().set_len(0)?;
                }
                file.write_all(bytes)
            }
        }
    }

    /// Makes sure that what was written is in the file.
    ///
    /// # Errors
    /// The operating system's.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Console => Ok(()),
            Self::File { file, .. } => file.flush(),
        }
    }
}
