//! Files that are read: those of a disk, and pipes whose writers take their time.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::folder::name_folder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Whether reading waits until there is something to read.
///
/// Threads: one reads, any may say that reading is not to wait; the reader sees that at its next
/// read or a later one, which is all that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Patience(Arc<AtomicBool>);

impl Default for Patience {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Patience {
    /// From now on reading does not wait: it fails with [`io::ErrorKind::WouldBlock`].
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn lasts(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A file that is open for reading.
pub(crate) struct Input {
    file: File,
    /// Whether there is always something to read, or the end.
    is_regular: bool,
    patience: Patience,
}

impl Input {
    /// Opens `path`; `-` is the standard input.
    pub(crate) fn open(path: &Path, patience: Patience) -> io::Result<Self> {
        let file = match path.as_os_str() == "-" {
            true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
            false => File::open(path).map_err(|error| name_folder(path, error))?,
        };
        let is_regular = file.metadata()?.is_file();
        Ok(Self { file, is_regular, patience })
    }

    fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        // What cannot be told is found out by reading.
        poll(&mut fds, Some(&Timespec::default())).is_err() || !fds[0].revents().is_empty()
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if !self.is_regular && !self.patience.lasts() && !self.is_ready() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.read(bytes)
    }
}
