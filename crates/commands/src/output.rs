//! Where results go: a file that appears whole or not at all, or the standard output.
//!
//! - A regular file is written under a temporary name beside its place and renamed by
//!   [`Output::commit`]; without that it is removed, by interrupts too. Devices and pipes are
//!   written as they come.
//! - The standard output is held back until [`Output::commit`], in memory at first and in a
//!   temporary file beyond that, so that bad input at the very end still leaves nothing written.
//!   Where the input is a stream itself ([`Hold::No`]) results flow at once; and into a file, too,
//!   on request ([`Hold::Nothing`]).

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::{NamedTempFile, SpooledTempFile};

use warpswitch_graph::FileId;
use warpswitch_io::name_folder;

use crate::exit::bad_input;
use crate::interrupt::{self, Noted};
use crate::term;
pub use warpswitch_runtime::files::is_dash;

/// Held results beyond this go to a temporary file.
const HELD_IN_MEMORY_BYTES: usize = 64 << 20;

/// Results are written in pieces of this size.
const BUFFER_BYTES: usize = 1 << 20;

/// Whether the standard output waits until all input is known to be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It waits.
    Yes,
    /// It does not: the input is a stream, which may never end.
    No,
    /// Neither does a file: it begins empty, and has what was written whenever that is flushed.
    Nothing,
}

/// An open destination.
#[derive(Debug)]
pub struct Output {
    to: Destination,
    name: String,
}

#[derive(Debug)]
enum Destination {
    Held(SpooledTempFile),
    Stdout(BufWriter<io::Stdout>),
    Device(BufWriter<File>),
    File { temporary: BufWriter<NamedTempFile>, noted: Noted, path: PathBuf },
    Nowhere,
}

impl Output {
    /// Opens `path`; `-` is the standard output.
    ///
    /// # Errors
    /// If the file cannot be created; it is as it was before.
    pub fn open(path: &Path, hold: Hold) -> anyhow::Result<Self> {
        let name =
            if is_dash(path) { "standard output".into() } else { path.display().to_string() };
        let to = Self::destination(path, hold).with_context(|| format!("cannot write {name}"))?;
        Ok(Self { to, name })
    }

    /// A destination that discards everything.
    pub fn nowhere() -> Self {
        Self { to: Destination::Nowhere, name: String::new() }
    }

    /// Whether what is written goes anywhere.
    pub fn is_somewhere(&self) -> bool {
        !matches!(self.to, Destination::Nowhere)
    }

    /// Commits everything written to the destination.
    ///
    /// # Errors
    /// If it cannot; a regular file is as it was before then.
    pub fn commit(self) -> anyhow::Result<()> {
        let name = self.name;
        self.to.commit().with_context(|| format!("cannot write {name}"))
    }

    fn destination(path: &Path, hold: Hold) -> io::Result<Destination> {
        if is_dash(path) {
            return Ok(match hold {
                Hold::Yes => Destination::Held(SpooledTempFile::new(HELD_IN_MEMORY_BYTES)),
                Hold::No | Hold::Nothing => {
                    Destination::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout()))
                }
            });
        }
        // Through a link, the file behind it is replaced and not the link.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_device = path.metadata().is_ok_and(|metadata| !metadata.is_file());
        if is_device {
            let file = OpenOptions::new().write(true).open(&path);
            let file = file.map_err(|error| name_folder(&path, error))?;
            return Ok(Destination::Device(BufWriter::with_capacity(BUFFER_BYTES, file)));
        }
        if hold == Hold::Nothing {
            let file = File::create(&path).map_err(|error| name_folder(&path, error))?;
            return Ok(Destination::Device(BufWriter::with_capacity(BUFFER_BYTES, file)));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // An error of the temporary file would name a file that nobody asked for.
        folder.metadata().map_err(|error| name_folder(&path, error))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".warpswitch-").suffix(".partial");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // What the umask leaves of this, as for any new file.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let (temporary, noted) = interrupt::note(|| builder.tempfile_in(folder))
            .map_err(|error| name_folder(&path, error.kind().into()))?;
        let temporary = BufWriter::with_capacity(BUFFER_BYTES, temporary);
        Ok(Destination::File { temporary, noted, path })
    }
}

/// Creates a folder, and those around it, unless they exist.
///
/// # Errors
/// If it cannot; the error names what is no folder.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| name_folder(&folder.join("file"), error))
}

impl Destination {
    fn commit(self) -> io::Result<()> {
        match self {
            Destination::Nowhere => Ok(()),
            Destination::Stdout(mut out) => out.flush(),
            Destination::Device(mut out) => out.flush(),
            Destination::Held(mut held) => {
                held.seek(SeekFrom::Start(0))?;
                let mut out = io::stdout().lock();
                io::copy(&mut held, &mut out)?;
                out.flush()
            }
            Destination::File { temporary, noted, path } => {
                let temporary = temporary.into_inner().map_err(|error| error.into_error())?;
                temporary.persist(path).map_err(|error| error.error)?;
                drop(noted);
                Ok(())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            Destination::Held(out) => out.write(bytes),
            Destination::Stdout(out) => out.write(bytes),
            Destination::Device(out) => out.write(bytes),
            Destination::File { temporary, .. } => temporary.write(bytes),
            Destination::Nowhere => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            Destination::Held(out) => out.flush(),
            Destination::Stdout(out) => out.flush(),
            Destination::Device(out) => out.flush(),
            Destination::File { temporary, .. } => temporary.flush(),
            Destination::Nowhere => Ok(()),
        }
    }
}

/// Refuses an output that would replace one of the inputs, each with its option or what it is.
///
/// # Errors
/// Bad input if `out` is the same regular file as an input, by whatever name.
pub fn refuse_overwriting(out: &Path, inputs: &[(&str, &Path)]) -> anyhow::Result<()> {
    for (option, input) in inputs {
        if FileId::of(out).is_some_and(|out| Some(out) == FileId::of(input)) {
            let out = out.display();
            let of = if option.starts_with("--") { "the file of " } else { "" };
            return Err(bad_input(format!("--out {out} would overwrite {of}{option}")));
        }
    }
    Ok(())
}

/// Refuses that the rules and the other input of a command are both the one standard input.
///
/// # Errors
/// Bad input if both are `-`.
pub fn refuse_two_dashes(rules: &Path, other: &Path) -> anyhow::Result<()> {
    match is_dash(rules) && is_dash(other) {
        true => Err(bad_input("only one input can be '-'")),
        false => Ok(()),
    }
}

/// Writes a text file, whole or not at all, and reports it.
///
/// # Errors
/// If it cannot be written.
pub fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut output = Output::open(path, Hold::Yes)?;
    output
        .write_all(text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    output.commit()?;
    if !is_dash(path) {
        term::note(format!("wrote {}", path.display()));
    }
    Ok(())
}

/// Writes `text`, which may hold colours, to the standard output.
///
/// # Errors
/// If the stream does.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Writes `value` as indented JSON and a line end to the standard output.
///
/// # Errors
/// If the stream does.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("JSON")?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt");
        let entries = || std::fs::read_dir(folder.path()).unwrap().count();
        let mut output = Output::open(&path, Hold::Yes).unwrap();
        output.write_all(b"half").unwrap();
        output.flush().unwrap();
        assert!(!path.exists());
        drop(output);
        assert_eq!(entries(), 0);
        let mut output = Output::open(&path, Hold::Yes).unwrap();
        output.write_all(b"whole").unwrap();
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(entries(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_keeps_pointing_and_devices_are_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut output = Output::open(&link, Hold::Yes).unwrap();
        output.write_all(b"new").unwrap();
        output.commit().unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        let mut output = Output::open(Path::new("/dev/null"), Hold::Yes).unwrap();
        output.write_all(b"gone").unwrap();
        output.commit().unwrap();
    }
}
