//! Room of a card for a batch that several kernels work on, one after the other.

use std::sync::Arc;

use super::call::check;
use super::card::Card;
use super::memory::{DeviceWords, PinnedWords};
use super::raw::cuda;
use super::slot::{Event, LoadedImage, Stream, Transfer};
use crate::error::GpuError;
use crate::work::Form;

/// Words that go in, words that come out, and a stream. [`CardChain::begin`] sends the words off,
/// each [`CardChain::launch`] has a kernel read some and write others, [`CardChain::end`] brings
/// back what was written.
#[derive(Debug)]
pub struct CardChain {
    /// First, so that it is dropped first, which waits for its work.
    stream: Stream,
    done: Event,
    words: PinnedWords,
    answers: PinnedWords,
    card_words: DeviceWords,
    card_answers: DeviceWords,
    transfer: Transfer,
    /// The images in use while work is under way.
    flight: Vec<Arc<LoadedImage>>,
    is_under_way: bool,
}

impl CardChain {
    /// Room for so many words of either kind.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn new(card: &Arc<Card>, words: usize, answers: usize) -> Result<Self, GpuError> {
        Ok(Self {
            stream: Stream::open(card)?,
            done: Event::new(card, false)?,
            words: PinnedWords::zeroed(card, words)?,
            answers: PinnedWords::zeroed(card, answers)?,
            card_words: DeviceWords::with_len(card, words)?,
            card_answers: DeviceWords::with_len(card, answers)?,
            transfer: Transfer::Copies,
            flight: Vec::new(),
            is_under_way: false,
        })
    }

    /// Room for words.
    ///
    /// # Panics
    /// If work is under way: a caller bug.
    pub fn words_mut(&mut self) -> &mut [u32] {
        assert!(!self.is_under_way, "the chain is in use");
        // SAFETY: no work is under way.
        unsafe { self.words.as_mut_slice() }
    }

    /// All the room for words, those of a batch under way in it.
    pub fn room(&self) -> &[u32] {
        // SAFETY: the card only reads them.
        unsafe { self.words.as_slice() }
    }

    /// Sends the first `len` words off; with [`Transfer::Direct`] kernels read them where they are.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If work is under way or `len` is more than there is room for: caller bugs.
    pub fn begin(&mut self, len: usize, transfer: Transfer) -> Result<(), GpuError> {
        assert!(!self.is_under_way, "the chain is in use");
        assert!(len <= self.card_words.len(), "{len} words in a chain for fewer");
        self.transfer = transfer;
        self.is_under_way = true;
        self.stream.enter()?;
        if transfer == Transfer::Direct || len == 0 {
            return Ok(());
        }
        let (to, from) = (self.card_words.address(), self.words.as_ptr().cast());
        // SAFETY: both places have `len` words; they live until the stream is dropped, and nothing
        // of `words` is lent while `is_under_way` is set.
        let got = unsafe { cuda::cuMemcpyHtoDAsync_v2(to, from, len * 4, self.stream.handle) };
        check("cuMemcpyHtoDAsync", got)
    }

    /// Has the kernel of `image`, whose keys and answers are of `form`, answer `count` keys: their
    /// words begin at word `keys_at`, its answers go to word `out_at`.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If no work was begun, or there are fewer words: caller bugs.
    pub fn launch(
        &mut self,
        image: &Arc<LoadedImage>,
        form: Form,
        (keys_at, out_at): (usize, usize),
        count: usize,
    ) -> Result<(), GpuError> {
        assert!(self.is_under_way, "the chain was not begun");
        let (keys_end, out_end) =
            (keys_at + form.keys_len(count), out_at + form.answers_len(count));
        assert!(keys_end <= self.card_words.len(), "keys behind the words");
        assert!(out_end <= self.card_answers.len(), "answers behind the room for them");
        self.stream.enter()?;
        let (words, answers) = match self.transfer {
            Transfer::Copies => (self.card_words.address(), self.card_answers.address()),
            Transfer::Direct => (self.words.address(), self.answers.address()),
        };
        self.flight.push(image.clone());
        let (from, to) = (words + 4 * keys_at as u64, answers + 4 * out_at as u64);
        let (shape, blocks_max) = (&image.shape, image.blocks_max);
        let (stream, view) = (self.stream.handle, &image.view);
        // SAFETY: the image belongs to its program and is kept in `flight`; the buffers hold
        // `count` keys and answers of its form from there on, as was checked above; the stream is
        // of the same card.
        unsafe { image.program.launch(stream, shape, blocks_max, view, (from, to, count)) }
    }

    /// Brings the first `len` words of answers back.
    ///
    /// # Errors
    /// The driver's.
    pub fn end(&mut self, len: usize) -> Result<(), GpuError> {
        assert!(len <= self.card_answers.len(), "{len} answers in a chain for fewer");
        self.stream.enter()?;
        if self.transfer == Transfer::Copies && len > 0 {
            let (to, from) = (self.answers.as_ptr().cast(), self.card_answers.address());
            let stream = self.stream.handle;
            // SAFETY: both places have `len` words; nothing of `answers` is lent while
            // `is_under_way` is set.
            let got = unsafe { cuda::cuMemcpyDtoHAsync_v2(to, from, len * 4, stream) };
            check("cuMemcpyDtoHAsync", got)?;
        }
        self.done.record(&self.stream)
    }

    /// Gives up what was begun: what is in the stream must end before the buffers are lent again.
    pub fn abandon(&mut self) {
        _ = self.stream.wait();
        self.rest();
    }

    fn rest(&mut self) {
        self.flight.clear();
        self.is_under_way = false;
    }

    /// Whether all has been done that [`CardChain::end`] ended.
    ///
    /// # Errors
    /// The driver's: the card has failed, and runs nothing any more.
    pub fn poll(&mut self) -> Result<bool, GpuError> {
        if !self.is_under_way {
            return Ok(true);
        }
        self.stream.enter()?;
        match self.done.passed() {
            Ok(false) => Ok(false),
            passed => {
                self.rest();
                passed
            }
        }
    }

    /// Waits for that.
    ///
    /// # Errors
    /// The driver's: the card has failed, and runs nothing any more.
    pub fn wait(&mut self) -> Result<(), GpuError> {
        if !self.is_under_way {
            return Ok(());
        }
        let waited = self.done.wait();
        self.rest();
        waited
    }

    /// The answers of the last batch.
    ///
    /// # Panics
    /// If work is under way: a caller bug.
    pub fn answers(&self) -> &[u32] {
        assert!(!self.is_under_way, "the chain is in use");
        // SAFETY: no work is under way.
        unsafe { self.answers.as_slice() }
    }
}
