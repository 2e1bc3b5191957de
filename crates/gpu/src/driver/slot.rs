//! Slots of a card: pinned buffers, buffers on the card, and a stream of their own.

use std::ptr;
use std::sync::Arc;

use super::call::check;
use super::card::Card;
use super::completion::{Completion, Mark};
use super::memory::{DeviceWords, PinnedWords};
use super::program::{LaunchShape, Program, View};
use super::raw::cuda;
use crate::error::GpuError;
use crate::image::VIEW_NUMBERS;
use crate::split::{CardShape, Divisible, SplitChoice, SplitShape};
use crate::work::Form;

/// The kernel of an image that divides rules, and which batches take it.
#[derive(Debug)]
pub struct SplitKernel {
    program: Arc<Program>,
    divisible: Divisible,
    choice: SplitChoice,
    card: CardShape,
}

impl SplitKernel {
    /// A kernel that divides what `divisible` says, for the batches that `choice` says.
    ///
    /// # Errors
    /// The driver's.
    pub fn new(
        program: &Arc<Program>,
        divisible: Divisible,
        choice: SplitChoice,
    ) -> Result<Self, GpuError> {
        let card = program.card_shape()?;
        program.allow_shared(card.shared_bytes)?;
        Ok(Self { program: program.clone(), divisible, choice, card })
    }

    /// How a batch of `count` keys is laid over the card; `None` if it does not take this kernel.
    fn shape(&self, numbers: &[u32; VIEW_NUMBERS], count: usize) -> Option<SplitShape> {
        let split = match self.choice {
            SplitChoice::Never => None,
            SplitChoice::Auto => self.divisible.choose(numbers, count, &self.card),
            SplitChoice::Always(split) => Some(split),
        };
        split.map(|split| self.divisible.lay(split, numbers, &self.card))
    }
}

/// An image on a card, with the kernel that reads it.
#[derive(Debug)]
pub struct LoadedImage {
    program: Arc<Program>,
    shape: LaunchShape,
    pub(super) view: View,
    blocks_max: usize,
    split: Option<SplitKernel>,
    /// Kept for its memory.
    words: DeviceWords,
}

impl LoadedImage {
    /// Copies the words of an image to the card. `numbers` are its view's, `shape` is the launch
    /// that the kernel wants for this image.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn load(
        program: &Arc<Program>,
        shape: LaunchShape,
        words: &[u32],
        numbers: [u32; VIEW_NUMBERS],
    ) -> Result<Self, GpuError> {
        if shape.shared_bytes > 0 {
            // As much as the card has, not as much as this image needs: other images share the
            // program, and a smaller bound would refuse their launches.
            program.allow_shared(program.card().shared_bytes()?)?;
        }
        let blocks_max = program.resident_blocks(&shape)?;
        let words = DeviceWords::from_words(program.card(), words)?;
        let view = View { words: words.address(), numbers };
        Ok(Self { program: program.clone(), shape, view, blocks_max, split: None, words })
    }

    /// The same with a kernel that divides rules beside its own.
    #[must_use]
    pub fn with_split(self, split: SplitKernel) -> Self {
        Self { split: Some(split), ..self }
    }

    /// Puts a launch over `count` keys into `stream`, of the kernel that suits so many.
    ///
    /// # Safety
    /// - `keys` and `out` are addresses, for the image's card, of `count` keys and answers of the
    ///   image's form, alive until the launch has run; so is the image.
    /// - `stream` is a stream of the image's card.
    pub(super) unsafe fn launch(
        &self,
        stream: cuda::CUstream,
        (keys, out, count): (u64, u64, usize),
    ) -> Result<(), GpuError> {
        let (view, places) = (&self.view, (keys, out, count));
        if let Some(split) = &self.split
            && let Some(shape) = split.shape(&view.numbers, count)
        {
            // SAFETY: the image has the form that the kernel reads, and keeps its program; the rest
            // is the caller's promise.
            return unsafe { split.program.launch_split(stream, &shape, view, places) };
        }
        // SAFETY: as above.
        unsafe { self.program.launch(stream, &self.shape, self.blocks_max, view, places) }
    }

    /// Where its words lie on the card.
    pub fn address(&self) -> u64 {
        self.view.words
    }

    /// Its words.
    pub(super) fn words_len(&self) -> usize {
        self.words.len()
    }

    /// Bytes that it takes of the card's memory.
    pub fn bytes(&self) -> usize {
        self.words.len() * 4
    }
}

/// How keys and answers pass between host and card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Copied in, worked on, copied out: for large batches.
    Copies,
    /// The kernel reads and writes the host's pinned memory itself: one launch, for small batches.
    Direct,
}

/// A stream of a card; work in it runs in the order in which it was put there.
#[derive(Debug)]
pub(super) struct Stream {
    card: Arc<Card>,
    pub(super) handle: cuda::CUstream,
}

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Stream {}
// SAFETY: see above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn open(card: &Arc<Card>) -> Result<Self, GpuError> {
        card.enter()?;
        let mut handle = ptr::null_mut();
        let flags = cuda::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: one handle is written.
        check("cuStreamCreate", unsafe { cuda::cuStreamCreate(&raw mut handle, flags) })?;
        Ok(Self::owning(card, handle))
    }

    /// The owner of an open stream.
    pub(super) fn owning(card: &Arc<Card>, handle: cuda::CUstream) -> Self {
        Card::add_stream();
        Self { card: card.clone(), handle }
    }

    /// Makes its card the calling thread's.
    pub(super) fn enter(&self) -> Result<(), GpuError> {
        self.card.enter()
    }

    /// Whether all work in it is done.
    pub(super) fn is_done(&self) -> Result<bool, GpuError> {
        self.card.enter()?;
        // SAFETY: the stream is open.
        match unsafe { cuda::cuStreamQuery(self.handle) } {
            cuda::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuStreamQuery", result).map(|()| true),
        }
    }

    /// Waits for all work in it.
    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.card.enter()?;
        // SAFETY: the stream is open.
        check("cuStreamSynchronize", unsafe { cuda::cuStreamSynchronize(self.handle) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        Card::remove_stream();
        if self.card.is_given_up() {
            return;
        }
        _ = self.wait();
        // SAFETY: opened once, closed once; nothing is under way.
        _ = unsafe { cuda::cuStreamDestroy_v2(self.handle) };
    }
}

/// A mark in a stream.
#[derive(Debug)]
pub(super) struct Event {
    card: Arc<Card>,
    handle: cuda::CUevent,
}

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Event {}
// SAFETY: see above.
unsafe impl Sync for Event {}

impl Event {
    pub(super) fn new(card: &Arc<Card>, timed: bool) -> Result<Self, GpuError> {
        use cuda::CUevent_flags as Flags;
        card.enter()?;
        let flags = if timed { Flags::CU_EVENT_DEFAULT } else { Flags::CU_EVENT_DISABLE_TIMING };
        let mut handle = ptr::null_mut();
        // SAFETY: one handle is written.
        check("cuEventCreate", unsafe { cuda::cuEventCreate(&raw mut handle, flags as u32) })?;
        Ok(Self { card: card.clone(), handle })
    }

    pub(super) fn record(&self, stream: &Stream) -> Result<(), GpuError> {
        // SAFETY: both are open and of one card.
        check("cuEventRecord", unsafe { cuda::cuEventRecord(self.handle, stream.handle) })
    }

    /// Whether the stream has passed it.
    pub(super) fn passed(&self) -> Result<bool, GpuError> {
        // SAFETY: the event is open.
        match unsafe { cuda::cuEventQuery(self.handle) } {
            cuda::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuEventQuery", result).map(|()| true),
        }
    }

    pub(super) fn wait(&self) -> Result<(), GpuError> {
        self.card.enter()?;
        // SAFETY: the event is open.
        check("cuEventSynchronize", unsafe { cuda::cuEventSynchronize(self.handle) })
    }

    /// Milliseconds since `earlier`, both timed and passed.
    pub(super) fn since(&self, earlier: &Event) -> Result<f32, GpuError> {
        let mut ms = 0.0;
        // SAFETY: both are open; one number is written.
        let got = unsafe { cuda::cuEventElapsedTime_v2(&raw mut ms, earlier.handle, self.handle) };
        check("cuEventElapsedTime", got)?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.card.is_given_up() {
            return;
        }
        _ = self.card.enter();
        // SAFETY: created once, destroyed once.
        _ = unsafe { cuda::cuEventDestroy_v2(self.handle) };
    }
}

/// Bytes of keys that kernels read over the link from which on [`Mark::Event`] is faster.
const EVENT_BYTES_MIN: usize = 256 << 10;

/// One slot. Keys go into [`CardSlot::keys_mut`], [`CardSlot::start`] sends them off, and once
/// [`CardSlot::poll`] or [`CardSlot::wait`] said so, [`CardSlot::answers`] has the ids.
#[derive(Debug)]
pub struct CardSlot {
    /// First, so that it is dropped first, which waits for its work.
    stream: Stream,
    done: Completion,
    keys: PinnedWords,
    answers: PinnedWords,
    card_keys: DeviceWords,
    card_answers: DeviceWords,
    form: Form,
    keys_max: usize,
    len: usize,
    /// The image in use while work is under way.
    flight: Option<Arc<LoadedImage>>,
}

impl CardSlot {
    /// A slot for batches of up to `keys_max` keys.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn new(card: &Arc<Card>, form: Form, keys_max: usize) -> Result<Self, GpuError> {
        let (words, answers) = (form.keys_len(keys_max), form.answers_len(keys_max));
        Ok(Self {
            stream: Stream::open(card)?,
            done: Completion::new(card)?,
            keys: PinnedWords::zeroed(card, words)?,
            answers: PinnedWords::zeroed(card, answers)?,
            card_keys: DeviceWords::with_len(card, words)?,
            card_answers: DeviceWords::with_len(card, answers)?,
            form,
            keys_max,
            len: 0,
            flight: None,
        })
    }

    /// Room for the words of the keys.
    ///
    /// # Panics
    /// If work is under way: a caller bug.
    pub fn keys_mut(&mut self) -> &mut [u32] {
        assert!(self.flight.is_none(), "the slot is in use");
        // SAFETY: no work is under way.
        unsafe { self.keys.as_mut_slice() }
    }

    /// Starts the lookup of the first `len` keys in `image`.
    ///
    /// # Errors
    /// The driver's; nothing is under way then.
    ///
    /// # Panics
    /// If work is under way or `len` is more than the slot holds: a caller bug.
    pub fn start(
        &mut self,
        image: &Arc<LoadedImage>,
        len: usize,
        transfer: Transfer,
    ) -> Result<(), GpuError> {
        assert!(self.flight.is_none(), "the slot is in use");
        assert!(len <= self.keys_max, "{len} keys in a slot for {}", self.keys_max);
        self.len = len;
        self.flight = Some(image.clone());
        let started = self.enqueue(image, len, transfer);
        if started.is_err() {
            // What was put into the stream must end before the buffers are lent again.
            _ = self.stream.wait();
            self.flight = None;
        }
        started
    }

    fn enqueue(
        &mut self,
        image: &LoadedImage,
        len: usize,
        transfer: Transfer,
    ) -> Result<(), GpuError> {
        let stream = &self.stream;
        stream.card.enter()?;
        let (keys, out) = match transfer {
            Transfer::Copies => (self.card_keys.address(), self.card_answers.address()),
            Transfer::Direct => (self.keys.address(), self.answers.address()),
        };
        if transfer == Transfer::Copies {
            let bytes = self.form.keys_len(len) * 4;
            // SAFETY: both buffers hold `keys_max` keys; they live until the stream is dropped, and
            // `keys_mut` lends nothing while `flight` is set.
            let got = unsafe {
                cuda::cuMemcpyHtoDAsync_v2(keys, self.keys.as_ptr().cast(), bytes, stream.handle)
            };
            check("cuMemcpyHtoDAsync", got)?;
        }
        // SAFETY: the image is kept in `flight`; the buffers hold `keys_max` keys and answers, and
        // `len` is not more; the stream is of the same card.
        unsafe { image.launch(stream.handle, (keys, out, len)) }?;
        if transfer == Transfer::Copies {
            // SAFETY: as for the keys; `answers` lends nothing while `flight` is set.
            let got = unsafe {
                cuda::cuMemcpyDtoHAsync_v2(
                    self.answers.as_ptr().cast(),
                    out,
                    self.form.answers_bytes(len),
                    stream.handle,
                )
            };
            check("cuMemcpyDtoHAsync", got)?;
        }
        let is_large = self.form.keys_len(len) * 4 >= EVENT_BYTES_MIN;
        let mark = match transfer {
            Transfer::Direct if is_large => Mark::Event,
            _ => Mark::Value,
        };
        self.done.record(stream, mark)
    }

    /// Whether the answers are there.
    ///
    /// # Errors
    /// The driver's: the card has failed, and runs nothing any more.
    pub fn poll(&mut self) -> Result<bool, GpuError> {
        if self.flight.is_none() {
            return Ok(true);
        }
        match self.done.passed(&self.stream) {
            Ok(false) => Ok(false),
            passed => {
                self.flight = None;
                passed
            }
        }
    }

    /// Waits for the answers.
    ///
    /// # Errors
    /// The driver's: the card has failed, and runs nothing any more.
    pub fn wait(&mut self) -> Result<(), GpuError> {
        if self.flight.is_none() {
            return Ok(());
        }
        let waited = self.done.wait(&self.stream);
        self.flight = None;
        waited
    }

    /// The words of the answers of the last batch.
    ///
    /// # Panics
    /// If work is under way: a caller bug.
    pub fn answers(&self) -> &[u32] {
        assert!(self.flight.is_none(), "the slot is in use");
        // SAFETY: no work is under way.
        unsafe { &self.answers.as_slice()[..self.form.answers_len(self.len)] }
    }

    /// All the room for keys, those of a batch under way in it.
    pub fn room(&self) -> &[u32] {
        // SAFETY: the card only reads them.
        unsafe { self.keys.as_slice() }
    }
}
