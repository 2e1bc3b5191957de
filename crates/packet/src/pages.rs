//! Memory for large structures: aligned to lines, and on huge pages where the system gives them.
//!
//! A lookup in a structure of some megabytes touches a few random lines, each on another page; the
//! processor remembers the places of about 2,000 small pages, which is 8 MB. With pages of 2 MB it
//! remembers all of them. The system is asked, not forced: without huge pages all works the same.
//! What it gains in `turbo` is within the noise where this was measured; see `docs/turbo.md`.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32};

/// A huge page of the usual size; larger structures start on one.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A cache line.
const LINE_BYTES: usize = 64;

/// At least `words` words: whole cache lines, or whole huge pages if they would nearly fill one.
pub fn whole_pages(words: usize) -> usize {
    let page = HUGE_PAGE_BYTES / size_of::<AtomicU32>();
    words.next_multiple_of(if words >= page / 2 { page } else { LINE_BYTES / 4 })
}

/// Asks for the line that item `idx` of `items` begins in, if the processor can do so; nothing
/// waits for it, and none need be there.
#[inline(always)]
pub fn prefetch<T>(items: &[T], idx: usize) {
    prefetch_at(items.as_ptr().wrapping_add(idx));
}

/// The same for the line of an address, which may be any.
#[inline(always)]
pub fn prefetch_at<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program could see; any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Shared words of a fixed number, zero at first.
#[derive(Debug)]
pub struct SharedWords {
    first: NonNull<AtomicU32>,
    len: usize,
}

// SAFETY: the words are owned, and atomics may be used from any thread.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// `len` words.
    ///
    /// # Panics
    /// If `len` is 0, or their bytes pass what a pointer reaches; out of memory is the allocator's
    /// affair.
    pub fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        assert!(layout.size() > 0, "no words");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) };
        let Some(first) = NonNull::new(memory.cast::<AtomicU32>()) else {
            handle_alloc_error(layout)
        };
        // Before the first touch, which is when the system chooses pages.
        ask_for_huge_pages(first.cast(), layout);
        // SAFETY: the allocation has room for `len` words.
        unsafe { first.write_bytes(0, len) };
        Self { first, len }
    }

    /// The same memory as bytes, in the machine's order. Use either these or the words while other
    /// threads do: what accesses of different sizes at once give, no rule of the language says.
    #[inline(always)]
    pub fn bytes(&self) -> &[AtomicU8] {
        let first = self.first.as_ptr().cast();
        // SAFETY: four bytes a word, which live as long as `self`; any byte is a value of theirs.
        unsafe { std::slice::from_raw_parts(first, self.len * size_of::<AtomicU32>()) }
    }

    fn layout(len: usize) -> Layout {
        let bytes = len.checked_mul(size_of::<AtomicU32>()).expect("callers bound their words");
        let align = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { LINE_BYTES };
        Layout::from_size_align(bytes, align).expect("callers bound their words")
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU32];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU32] {
        // SAFETY: `first` points to `len` words that live as long as `self`; zero is a value of
        // theirs.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with the same layout, and freed once.
        unsafe { dealloc(self.first.as_ptr().cast(), Self::layout(self.len)) };
    }
}

#[cfg(target_os = "linux")]
fn ask_for_huge_pages(memory: NonNull<u8>, layout: Layout) {
    if layout.align() == HUGE_PAGE_BYTES {
        // Whole pages only; the rest stays on small ones. A refusal changes nothing but speed.
        let bytes = layout.size() / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        // SAFETY: the range was just allocated, starts on a page and ends inside the allocation;
        // the advice does not change what it holds.
        unsafe { libc::madvise(memory.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_memory: NonNull<u8>, _layout: Layout) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn words_are_zero_aligned_and_keep_what_is_stored() {
        for len in [1, 16, 1000, HUGE_PAGE_BYTES / 4 + 3] {
            let words = SharedWords::zeroed(len);
            assert_eq!(words.len(), len);
            assert!(words.as_ptr().addr().is_multiple_of(LINE_BYTES));
            assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
            words[len - 1].store(7, Ordering::Relaxed);
            assert_eq!(words[len - 1].load(Ordering::Relaxed), 7);
        }
    }
}
