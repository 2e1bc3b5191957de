//! A card's memory, taken in slabs and kept: what buffers and images come from.
//!
//! The driver's own calls to take and free memory wait until the card has nothing to do, which
//! would hold up lookups at every change of rules, and for ever beside a kernel that stays. So
//! memory is taken in slabs, several times what is asked for, and what is given back is given out
//! again. Only a request that no slab has room for makes the driver take more.
//!
//! # Invariants
//! - P1: a block is given back only when no work of the card can reach it any more: its owner is
//!   kept by whatever is under way.
//! - P2: slabs together never pass the bound.

use super::call::check;
use super::raw::cuda;
use crate::error::{ErrorKind, GpuError};
use crate::ranges::Ranges;

/// The least that is taken at once.
const SLAB_BYTES_MIN: usize = 64 << 20;
/// Room in a slab for so many blocks of the size that is asked for: three copies of an image, and
/// one that takes their place.
const SLAB_BLOCKS: usize = 4;
/// Borders on which blocks lie, as the driver's own do.
const ALIGN_BYTES: usize = 512;

/// How much of a card's memory may be taken: three quarters.
pub fn pool_bytes_max(memory_bytes: usize) -> usize {
    memory_bytes / 4 * 3
}

/// How a card's memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes that buffers and images have.
    pub used_bytes: usize,
    /// Bytes taken from the driver.
    pub taken_bytes: usize,
    /// The most that may be taken.
    pub bytes_max: usize,
}

#[derive(Debug)]
struct Slab {
    address: cuda::CUdeviceptr,
    bytes: usize,
    free: Ranges,
}

/// Some of a card's memory.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) address: cuda::CUdeviceptr,
    slab: usize,
    start: usize,
    bytes: usize,
}

/// The memory of one card. Its owner makes the card the calling thread's before each call.
#[derive(Debug)]
pub(super) struct Pool {
    slabs: Vec<Slab>,
    bytes_max: usize,
}

impl Pool {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { slabs: Vec::new(), bytes_max }
    }

    /// A block of at least `bytes` bytes, not set to anything.
    pub(super) fn take(&mut self, bytes: usize) -> Result<Block, GpuError> {
        let rounded = bytes.max(1).checked_next_multiple_of(ALIGN_BYTES);
        let bytes = rounded.ok_or_else(|| self.refused(usize::MAX))?;
        for (idx, slab) in self.slabs.iter_mut().enumerate() {
            if let Some(start) = slab.free.take(bytes) {
                return Ok(Self::block(slab, idx, start, bytes));
            }
        }
        let room = self.bytes_max - self.taken();
        if bytes > room {
            return Err(self.refused(bytes));
        }
        let wanted = bytes.saturating_mul(SLAB_BLOCKS).max(SLAB_BYTES_MIN).min(room);
        let slab = Self::slab(wanted).or_else(|_| Self::slab(bytes))?;
        self.slabs.push(slab);
        let idx = self.slabs.len() - 1;
        let slab = &mut self.slabs[idx];
        let start = slab.free.take(bytes).expect("the slab was made for it");
        Ok(Self::block(slab, idx, start, bytes))
    }

    fn block(slab: &Slab, idx: usize, start: usize, bytes: usize) -> Block {
        Block { address: slab.address + start as u64, slab: idx, start, bytes }
    }

    fn slab(bytes: usize) -> Result<Slab, GpuError> {
        let mut address = 0;
        // SAFETY: the driver writes one address; the size is not 0.
        let got = unsafe { cuda::cuMemAlloc_v2(&raw mut address, bytes) };
        check("cuMemAlloc", got)?;
        Ok(Slab { address, bytes, free: Ranges::new(0, bytes) })
    }

    fn refused(&self, bytes: usize) -> GpuError {
        let message = format!(
            "{bytes} more bytes of GPU memory would exceed the limit of {} (in use: {})",
            self.bytes_max,
            self.memory_use().used_bytes
        );
        GpuError::new(ErrorKind::OutOfMemory, message)
    }

    /// Takes a block back (P1 is the caller's promise).
    pub(super) fn give(&mut self, block: &Block) {
        self.slabs[block.slab].free.give(block.start, block.bytes);
    }

    fn taken(&self) -> usize {
        self.slabs.iter().map(|slab| slab.bytes).sum()
    }

    pub(super) fn memory_use(&self) -> MemoryUse {
        let free: usize = self.slabs.iter().map(|slab| slab.free.len()).sum();
        let taken_bytes = self.taken();
        MemoryUse { used_bytes: taken_bytes - free, taken_bytes, bytes_max: self.bytes_max }
    }

    /// Gives everything back to the driver.
    pub(super) fn release(&mut self) {
        for slab in self.slabs.drain(..) {
            // SAFETY: taken once, freed once; the driver waits for work that uses it.
            _ = unsafe { cuda::cuMemFree_v2(slab.address) };
        }
    }
}
