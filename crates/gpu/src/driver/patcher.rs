//! Patches: few units of an image that lies on a card, written by a kernel.
//!
//! A kernel and not copies, as the units of a change lie apart: one launch reads them from pinned
//! memory and puts each where it belongs. Its stream has the highest priority, so it waits for one
//! block of a lookup to end and not for a whole launch.
//!
//! Cost: some 8 us for launching and waiting, and 36 bytes of the link a unit.

use std::sync::Arc;

use super::call::check;
use super::card::Card;
use super::memory::PinnedWords;
use super::program::{LaunchShape, Program, View};
use super::raw::cuda;
use super::slot::{LoadedImage, Stream};
use crate::error::{ErrorKind, GpuError};
use crate::image::VIEW_NUMBERS;
use crate::image::abi::UNIT_WORDS;

/// Units that one launch writes at most.
const UNITS_MAX: usize = 64 << 10;

/// How the kernel is laid over a card: half a unit a thread.
const SHAPE: LaunchShape =
    LaunchShape { threads: 256, keys_per_block: 128, shared_bytes: 0, persistent: false };

/// What writes patches to images on one card.
#[derive(Debug)]
pub struct Patcher {
    /// First, so that it is dropped first, which waits for its work.
    stream: Stream,
    staging: PinnedWords,
    program: Program,
}

impl Patcher {
    /// A patcher that runs `program`, the kernel of `patch.cu`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn new(card: &Arc<Card>, program: Program) -> Result<Self, GpuError> {
        let staging = PinnedWords::zeroed(card, UNITS_MAX * (UNIT_WORDS + 1))?;
        Ok(Self { stream: Stream::open_first(card)?, staging, program })
    }

    /// Writes `words`, eight for each of `units`, over those of `image`, which has `numbers` from
    /// then on. It is done when this returns. Nothing reads the image meanwhile: it is borrowed.
    /// While it waits it asks `is_late` whether to give up.
    ///
    /// # Errors
    /// The driver's: the card has failed. [`ErrorKind::Hung`] if it is late; nothing may be done
    /// with the card then.
    ///
    /// # Panics
    /// If a unit lies outside the image or `words` are not eight for each: caller bugs.
    pub fn apply(
        &mut self,
        image: &mut LoadedImage,
        units: &[u32],
        (words, numbers): (&[u32], [u32; VIEW_NUMBERS]),
        is_late: &dyn Fn() -> bool,
    ) -> Result<(), GpuError> {
        assert_eq!(units.len() * UNIT_WORDS, words.len());
        let units_len = image.words_len() / UNIT_WORDS;
        assert!(units.iter().all(|&unit| (unit as usize) < units_len), "a unit is outside");
        for (units, words) in units.chunks(UNITS_MAX).zip(words.chunks(UNITS_MAX * UNIT_WORDS)) {
            let first = units.len().next_multiple_of(4);
            // SAFETY: the stream was waited for after the last launch that read it.
            let staging = unsafe { self.staging.as_mut_slice() };
            staging[..units.len()].copy_from_slice(units);
            staging[first..first + words.len()].copy_from_slice(words);
            let places = (self.staging.address(), image.view.words, units.len());
            let view = View { words: 0, numbers: [0; VIEW_NUMBERS] };
            self.stream.enter()?;
            // SAFETY: the kernel does not look at its view; `staging` holds the patch as `patch.cu`
            // wants it, and every unit of it lies inside the image (asserted above), which lives
            // until the stream was waited for below.
            unsafe { self.program.launch(self.stream.handle, &SHAPE, 0, &view, places) }?;
            while !self.stream.is_done()? {
                if is_late() {
                    let message = "the GPU did not apply a rule update before the deadline";
                    return Err(GpuError::new(ErrorKind::Hung, message));
                }
                std::thread::yield_now();
            }
        }
        image.view.numbers = numbers;
        Ok(())
    }
}

impl Stream {
    /// A stream whose work goes before that of all others.
    pub(super) fn open_first(card: &Arc<Card>) -> Result<Self, GpuError> {
        card.enter()?;
        let mut handle = std::ptr::null_mut();
        let flags = cuda::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: one handle is written; the driver takes the nearest priority that it has.
        let got = unsafe { cuda::cuStreamCreateWithPriority(&raw mut handle, flags, -8) };
        check("cuStreamCreateWithPriority", got)?;
        Ok(Self::owning(card, handle))
    }
}
