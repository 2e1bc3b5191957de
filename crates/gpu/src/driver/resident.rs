//! A kernel that stays on the card, and the pinned memory that it and the host share.

use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::call::check;
use super::card::Card;
use super::memory::PinnedWords;
use super::program::Program;
use super::raw::cuda;
use super::slot::{Event, Stream};
use crate::error::GpuError;

/// The most warps of a block.
const BLOCK_WARPS_MAX: usize = 8;
/// Threads of a warp.
const LANES: usize = 32;

/// Words of 64 bits of a head: a line of its own, as a card reads one line once at a time.
pub const HEAD_WORDS: usize = 16;

/// Where in the shared memory what lies, in words of 64 bits, and when the kernel leaves.
#[derive(Clone, Copy, Debug)]
pub struct ResidentPlan {
    /// Rows of keys.
    pub rows: usize,
    /// Answers.
    pub answers: usize,
    /// Heads.
    pub heads: usize,
    /// Chunks of all frames: blocks.
    pub warps: usize,
    /// Warps that search a chunk together, at most 8.
    pub block_warps: usize,
    /// It leaves after so long without a beat.
    pub idle_ns: u64,
    /// It leaves after so long in any case.
    pub lease_ns: u64,
    /// Polls in vain after which a warp sleeps between them.
    pub hot_polls: u32,
    /// How long.
    pub cold_ns: u32,
}

/// `ws_frames` of `abi.h`.
#[repr(C)]
struct Frames {
    rows: u64,
    answers: u64,
    heads: u64,
    idle_ns: u64,
    lease_ns: u64,
    hot_polls: u32,
    cold_ns: u32,
}

const _: () = assert!(size_of::<Frames>() == 48 && align_of::<Frames>() == 8);

/// The kernel, or the place for it while it does not run.
#[derive(Debug)]
pub struct ResidentKernel {
    /// First, so that it is dropped first, which waits for the kernel.
    stream: Stream,
    done: Event,
    words: PinnedWords,
    len: usize,
    /// The words whose lowest bit makes a block leave.
    stops: Vec<usize>,
    /// What runs, if something does.
    program: Option<Arc<Program>>,
}

impl ResidentKernel {
    /// Shared memory of `len` 64-bit words, all zero; no kernel runs. `stops` are the words whose
    /// lowest bit makes a block leave.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn new(card: &Arc<Card>, len: usize, stops: Vec<usize>) -> Result<Self, GpuError> {
        assert!(stops.iter().all(|stop| *stop < len), "the words lie in the memory");
        Ok(Self {
            stream: Stream::open(card)?,
            done: Event::new(card, false)?,
            words: PinnedWords::zeroed(card, 2 * len)?,
            len,
            stops,
            program: None,
        })
    }

    /// The shared memory.
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.words.as_ptr().cast::<AtomicU64>();
        // SAFETY: `2 * len` initialised words of 32 bits lie there, on the border of a page; they
        // are only ever reached as atomics here, and by a kernel that reads and writes them whole.
        unsafe { slice::from_raw_parts(words, self.len) }
    }

    /// Starts `program`'s kernel.
    ///
    /// # Errors
    /// The driver's; nothing runs then.
    ///
    /// # Panics
    /// If a kernel runs, or the plan goes beyond the memory: caller bugs.
    pub fn start(&mut self, program: &Arc<Program>, plan: &ResidentPlan) -> Result<(), GpuError> {
        assert!(self.program.is_none(), "a kernel runs already");
        assert!(plan.warps == self.stops.len(), "a block that nobody can stop");
        assert!((1..=BLOCK_WARPS_MAX).contains(&plan.block_warps), "warps of a block");
        let within = |start: usize, words_each: usize, count: usize| {
            assert!(start + words_each * count <= self.len, "the plan goes beyond the memory");
            self.words.address() + start as u64 * 8
        };
        let mut argument = Frames {
            rows: within(plan.rows, self.len - plan.rows, 1),
            answers: within(plan.answers, LANES / 2, plan.warps),
            heads: within(plan.heads, HEAD_WORDS, plan.warps),
            idle_ns: plan.idle_ns,
            lease_ns: plan.lease_ns,
            hot_polls: plan.hot_polls,
            cold_ns: plan.cold_ns,
        };
        self.stream.enter()?;
        let mut arguments: [*mut c_void; 1] = [(&raw mut argument).cast()];
        let blocks = plan.warps as u32;
        // SAFETY: one argument of the type that the kernel takes, copied by the call. The places in
        // it lie in memory that is freed only after the stream was waited for. Images that heads
        // name are kept by whoever writes heads.
        let got = unsafe {
            cuda::cuLaunchKernel(
                program.function,
                blocks,
                1,
                1,
                (plan.block_warps * LANES) as u32,
                1,
                1,
                0,
                self.stream.handle,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", got)?;
        self.program = Some(program.clone());
        self.done.record(&self.stream)
    }

    /// Whether a kernel still runs.
    ///
    /// # Errors
    /// The driver's: the card has failed, and runs nothing any more.
    pub fn is_running(&mut self) -> Result<bool, GpuError> {
        if self.program.is_none() {
            return Ok(false);
        }
        self.stream.enter()?;
        match self.done.passed() {
            Ok(false) => Ok(true),
            passed => {
                self.program = None;
                passed.map(|_| false)
            }
        }
    }
}

impl Drop for ResidentKernel {
    fn drop(&mut self) {
        // The kernel looks at it now and then; the stream, dropped after this, waits for its end.
        let words = self.words();
        for stop in &self.stops {
            words[*stop].fetch_or(1, Ordering::Release);
        }
    }
}
