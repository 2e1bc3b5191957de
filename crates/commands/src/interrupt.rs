//! Partial files and interrupts: a command that is interrupted leaves none behind.
//!
//! While there may be such files, a thread waits for HUP, INT and TERM. It removes the files and
//! lets the default action of the signal end the process. Signals that the parent process ignored
//! stay ignored. A command that reads an endless stream can have the first signal end only its
//! reading ([`end_in_order`]). Runs of configurations end in order, too, see `warpswitch-runtime`.
//!
//! # Invariants
//! - Files are made, and removed by the thread, under one lock, which the thread never gives back:
//!   none is made behind its back.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tempfile::NamedTempFile;
use warpswitch_runtime::is_ignored;

/// The present files.
static PARTIAL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Whether the next signal ends reading and no more; and whether one did.
static IN_ORDER: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);

/// From now on the first signal only makes [`is_ended`] return true, until [`end_at_once`].
pub fn end_in_order() {
    begin();
    IN_ORDER.store(true, Ordering::SeqCst);
}

/// Whether a reader is to come to an end.
pub fn is_ended() -> bool {
    ENDED.load(Ordering::SeqCst)
}

/// Signals do again what they do to any process.
pub fn end_at_once() {
    IN_ORDER.store(false, Ordering::SeqCst);
}

fn partial() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PARTIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A partial file that an interrupt removes; once dropped, it is nobody's business any more.
#[derive(Debug)]
pub struct Noted(PathBuf);

impl Drop for Noted {
    fn drop(&mut self) {
        partial().remove(&self.0);
    }
}

/// Makes a partial file.
///
/// # Errors
/// Those of `make`.
pub fn note(
    make: impl FnOnce() -> io::Result<NamedTempFile>,
) -> io::Result<(NamedTempFile, Noted)> {
    begin();
    let mut partial = partial();
    let file = make()?;
    let noted = Noted(file.path().to_owned());
    partial.insert(noted.0.clone());
    Ok((file, noted))
}

/// Begins to wait for signals.
fn begin() {
    static WATCH: Once = Once::new();
    // A system that has no more handlers or threads to give leaves files behind, and that is all.
    // Tests of one process send themselves signals, which are for others of them.
    WATCH.call_once(|| {
        if !cfg!(test) {
            _ = watch();
        }
    });
}

fn watch() -> io::Result<()> {
    let (mut wake, waker) = UnixStream::pair()?;
    let came = Arc::new(AtomicUsize::new(0));
    // Before a signal can come that nobody would hear.
    let (heard, thread) = (came.clone(), thread::Builder::new().name("interrupts".into()));
    thread.spawn(move || {
        loop {
            if wake.read_exact(&mut [0]).is_err() {
                return;
            }
            if !IN_ORDER.swap(false, Ordering::SeqCst) {
                break;
            }
            ENDED.store(true, Ordering::SeqCst);
        }
        let partial = partial();
        for path in partial.iter() {
            // One that got its name meanwhile is no longer there, and right.
            _ = fs::remove_file(path);
        }
        _ = low_level::emulate_default_handler(heard.load(Ordering::SeqCst) as i32);
    })?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        if !is_ignored(signal) {
            flag::register_usize(signal, came.clone(), signal as usize)?;
            low_level::pipe::register(signal, waker.try_clone()?)?;
        }
    }
    Ok(())
}
