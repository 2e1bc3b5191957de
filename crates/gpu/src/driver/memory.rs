//! Memory: words of the card, pinned words of the host that the card can reach, and memory of
//! others that it is lent.

use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use super::call::check;
use super::card::Card;
use super::pool::Block;
use super::raw::cuda;
use crate::error::GpuError;
use crate::scan::Place;

/// The least that is copied to a card at once. The driver seems to pass up to 64 KB in the stream
/// of its commands, where they wait until a kernel that stays has left: images of so few words took
/// 20 ms beside one, larger ones, which copy engines move, did not.
const COPY_WORDS_MIN: usize = 32 << 10;

/// 32-bit words in the memory of a card, out of its pool. Whoever drops them promises that no work
/// of the card reaches them any more: the next owner may be given them at once.
#[derive(Debug)]
pub struct DeviceWords {
    card: Arc<Card>,
    block: Block,
    len: usize,
}

impl DeviceWords {
    /// Room for `len` words, not set to anything.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn with_len(card: &Arc<Card>, len: usize) -> Result<Self, GpuError> {
        let block = card.take_memory(len.saturating_mul(4))?;
        Ok(Self { card: card.clone(), block, len })
    }

    /// A copy of `words`; it is there when this returns.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn from_words(card: &Arc<Card>, words: &[u32]) -> Result<Self, GpuError> {
        let mut memory = Self::with_len(card, words.len().max(COPY_WORDS_MIN))?;
        memory.len = words.len();
        let mut padded = Vec::new();
        let mut source = words;
        if words.len() < COPY_WORDS_MIN {
            padded.extend_from_slice(words);
            padded.resize(COPY_WORDS_MIN, 0);
            source = &padded;
        }
        card.enter()?;
        // SAFETY: both places have `source.len()` words, and the call returns when all are read.
        let done = unsafe {
            cuda::cuMemcpyHtoD_v2(memory.address(), source.as_ptr().cast(), source.len() * 4)
        };
        check("cuMemcpyHtoD", done)?;
        // The call returns when the words are read, which may be before they arrive. Kernels that
        // run already, or whose streams wait for no other, would find what was there before.
        // SAFETY: the stream that copies without a stream go through always exists.
        check("cuStreamSynchronize", unsafe { cuda::cuStreamSynchronize(ptr::null_mut()) })?;
        Ok(memory)
    }

    /// Copies all of it to the host.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If `words` is of another length: a caller bug.
    pub fn read(&self, words: &mut [u32]) -> Result<(), GpuError> {
        assert_eq!(words.len(), self.len);
        self.card.enter()?;
        // SAFETY: both places have `len` words, and the call returns when all are written.
        let done = unsafe {
            cuda::cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), self.address(), self.len * 4)
        };
        check("cuMemcpyDtoH", done)
    }

    pub(super) fn address(&self) -> u64 {
        self.block.address
    }

    /// Number of words.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for DeviceWords {
    fn drop(&mut self) {
        self.card.give_memory(&self.block);
    }
}

/// Pinned words of the host: copies to and from a card run at the full rate of the link, and
/// kernels can reach them.
#[derive(Debug)]
pub(super) struct PinnedWords {
    card: Arc<Card>,
    words: NonNull<u32>,
    len: usize,
    /// Where the card sees them.
    address: cuda::CUdeviceptr,
}

// SAFETY: plain memory that this owns; access follows the borrow of `self`.
unsafe impl Send for PinnedWords {}
// SAFETY: see above.
unsafe impl Sync for PinnedWords {}

impl PinnedWords {
    /// `len` words, all zero. Not write-combined, as the host reads answers from such memory.
    pub(super) fn zeroed(card: &Arc<Card>, len: usize) -> Result<Self, GpuError> {
        card.enter()?;
        let bytes = len.max(1) * 4;
        let flags = cuda::CU_MEMHOSTALLOC_PORTABLE | cuda::CU_MEMHOSTALLOC_DEVICEMAP;
        let mut place = ptr::null_mut();
        // SAFETY: the driver writes one address.
        let got = unsafe { cuda::cuMemHostAlloc(&raw mut place, bytes, flags) };
        check("cuMemHostAlloc", got)?;
        let words = NonNull::new(place.cast::<u32>()).expect("the driver gave memory");
        let mut pinned = Self { card: card.clone(), words, len, address: 0 };
        // SAFETY: `bytes` bytes were allocated there, and nobody else knows of them yet.
        unsafe { ptr::write_bytes(place.cast::<u8>(), 0, bytes) };
        // SAFETY: the memory was allocated as reachable for cards; one address is written.
        let got = unsafe { cuda::cuMemHostGetDevicePointer_v2(&raw mut pinned.address, place, 0) };
        check("cuMemHostGetDevicePointer", got)?;
        Ok(pinned)
    }

    /// Where the card sees them.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn as_ptr(&self) -> *mut u32 {
        self.words.as_ptr()
    }

    /// The words.
    ///
    /// # Safety
    /// - No work of the card that writes them is under way.
    pub(super) unsafe fn as_slice(&self) -> &[u32] {
        // SAFETY: `len` initialised words lie there; no one writes them, by the caller's promise.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }

    /// The words, to be changed.
    ///
    /// # Safety
    /// - No work of the card that reads or writes them is under way.
    pub(super) unsafe fn as_mut_slice(&mut self) -> &mut [u32] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { slice::from_raw_parts_mut(self.words.as_ptr(), self.len) }
    }
}

impl Drop for PinnedWords {
    fn drop(&mut self) {
        if self.card.is_given_up() {
            return;
        }
        _ = self.card.enter();
        // SAFETY: allocated in `zeroed`, freed once; its slot has waited for all work before.
        _ = unsafe { cuda::cuMemFreeHost(self.words.as_ptr().cast()) };
    }
}

/// Bytes that several share and nobody writes to.
pub trait SharedBytes: std::fmt::Debug + Send + Sync {
    /// They are the same each time.
    fn bytes(&self) -> &[u8];
}

/// Memory of the host that somebody else owns, and that a card reads where it is. Threads: any
/// number.
#[derive(Debug)]
pub struct HostMemory {
    card: Arc<Card>,
    start: usize,
    bytes: usize,
    /// Where the card sees it.
    address: cuda::CUdeviceptr,
    owner: Arc<dyn SharedBytes>,
}

impl HostMemory {
    /// Has the driver keep the pages that the owner's bytes lie on where they are. Takes about 1 ms
    /// for 32 MB.
    ///
    /// # Errors
    /// The driver's: there may be a bound on such memory, or a part of it is lent to it already.
    pub fn reach(card: &Arc<Card>, owner: Arc<dyn SharedBytes>) -> Result<Self, GpuError> {
        card.enter()?;
        let (first, bytes) = (owner.bytes().as_ptr().cast_mut().cast(), owner.bytes().len());
        let flags = cuda::CU_MEMHOSTREGISTER_PORTABLE | cuda::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: so many bytes lie there, for as long as `owner` lives, which goes after them.
        check("cuMemHostRegister", unsafe { cuda::cuMemHostRegister_v2(first, bytes, flags) })?;
        let mut memory = Self { card: card.clone(), start: first.addr(), bytes, address: 0, owner };
        // SAFETY: the memory was registered as reachable for cards; one address is written.
        let got = unsafe { cuda::cuMemHostGetDevicePointer_v2(&raw mut memory.address, first, 0) };
        check("cuMemHostGetDevicePointer", got)?;
        Ok(memory)
    }

    /// Where the card finds a text that lies in it; `None` for another one.
    pub fn place(&self, text: &[u8]) -> Option<Place> {
        let at = text.as_ptr().addr().checked_sub(self.start)?;
        let is_in = at.checked_add(text.len())? <= self.bytes;
        is_in.then(|| Place::at(self.address + at as u64))
    }

    /// Whose it is.
    pub fn owner(&self) -> &Arc<dyn SharedBytes> {
        &self.owner
    }

    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.card.is_given_up() {
            return;
        }
        _ = self.card.enter();
        // SAFETY: registered once, and unregistered once, while its owner lives.
        _ = unsafe { cuda::cuMemHostUnregister(self.owner.bytes().as_ptr().cast_mut().cast()) };
    }
}
