//! Memory shared with the kernel.
//!
//! # Invariants
//! - M1: every access is checked against the length of the mapping.
//! - M2: words that both sides write are read and written atomically. The partner of each such
//!   access is the kernel.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use warpswitch_packet::pages::prefetch_at;

/// A shared mapping of a descriptor.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and the value is its only owner.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `bytes` bytes of `fd` from `offset` on, readable and writable.
    pub(crate) fn new(fd: &OwnedFd, bytes: usize, offset: i64) -> io::Result<Self> {
        Self::map(libc::MAP_SHARED, fd.as_raw_fd(), bytes, offset)
    }

    /// Maps `bytes` bytes of new memory, all zero.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, bytes, 0)
    }

    fn map(flags: i32, fd: i32, bytes: usize, offset: i64) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = flags | libc::MAP_POPULATE;
        // SAFETY: the kernel chooses a free range, so no memory in use is replaced.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// The address of `len` bytes at `at`.
    ///
    /// # Panics
    /// If they are not within the mapping.
    fn at(&self, at: usize, len: usize) -> NonNull<u8> {
        let is_within = at.checked_add(len).is_some_and(|end| end <= self.bytes);
        assert!(is_within, "{len} bytes at {at} of {}", self.bytes);
        // SAFETY: `at` is within the mapping.
        unsafe { self.start.add(at) }
    }

    /// The word at `at`, a multiple of 4, that the kernel writes, too.
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4), "a word at {at}");
        let word = self.at(at, 4).cast().as_ptr();
        // SAFETY: four bytes of the mapping, aligned since mappings start at a page, and valid as
        // long as `self`.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// Reads the word at `at`; what the kernel wrote before is visible afterwards.
    #[inline]
    pub(crate) fn load(&self, at: usize) -> u32 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Writes the word at `at`; what was read and written before precedes it.
    #[inline]
    pub(crate) fn store(&self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Release);
    }

    /// Prefetches the line at `at`.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        prefetch_at(self.at(at, 1).as_ptr());
    }

    /// Its address, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// The long word at `at`, a multiple of 8.
    fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "a long word at {at}");
        let long = self.at(at, 8).cast().as_ptr();
        // SAFETY: eight bytes of the mapping, aligned since mappings start at a page, and valid as
        // long as `self`.
        unsafe { AtomicU64::from_ptr(long) }
    }

    /// Reads the long word at `at`; a [`Mapping::load`] before orders it.
    #[inline]
    pub(crate) fn load_long(&self, at: usize) -> u64 {
        self.long(at).load(Ordering::Relaxed)
    }

    /// Writes the long word at `at`; a [`Mapping::store`] behind orders it.
    #[inline]
    pub(crate) fn store_long(&self, at: usize, value: u64) {
        self.long(at).store(value, Ordering::Relaxed);
    }

    /// `len` bytes at `at`, to write.
    ///
    /// # Panics
    /// If they are not within the mapping.
    ///
    /// # Safety
    /// - The kernel does not access these bytes while the slice is in use.
    #[inline]
    pub(crate) unsafe fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        let start = self.at(at, len).as_ptr();
        // SAFETY: the bytes are within the mapping, which lives as long as `self` and is borrowed
        // exclusively; the caller guarantees that the kernel does not access them.
        unsafe { slice::from_raw_parts_mut(start, len) }
    }

    /// `len` bytes at `at`.
    ///
    /// # Panics
    /// If they are not within the mapping.
    ///
    /// # Safety
    /// - The kernel does not write to these bytes while the slice is in use.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let start = self.at(at, len).as_ptr();
        // SAFETY: the bytes are within the mapping, which lives as long as `self`; the caller
        // guarantees that nobody writes to them.
        unsafe { slice::from_raw_parts(start, len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
