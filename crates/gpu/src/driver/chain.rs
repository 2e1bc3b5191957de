//! Room of a card for a batch that several kernels work on, one after the other.

use std::sync::Arc;

use super::call::check;
use super::completion::{Completion, Mark};
use super::memory::{DeviceWords, PinnedWords};
use super::program::{LaunchShape, Program, View};
use super::raw::cuda;
use super::slot::{LoadedImage, Stream, Transfer};
use crate::chain::ChainRoom;
use crate::error::GpuError;
use crate::image::VIEW_NUMBERS;
use crate::image::abi::{PAGE_WORDS, TEXTS_FIRST};
use crate::scan::ScanImage;
use crate::work::Form;

/// Threads of the kernel that lays texts out on pages, and the most blocks of it: what these have
/// under way is all that the link takes.
const GATHER_THREADS: usize = 256;
const GATHER_BLOCKS_MAX: usize = 16;

/// Words that go in, words that come out, and a stream. [`CardChain::begin`] sends the words off,
/// each [`CardChain::launch`] has a kernel read some and write others, [`CardChain::end`] brings
/// back what was written.
#[derive(Debug)]
pub struct CardChain {
    /// First, so that it is dropped first, which waits for its work.
    stream: Stream,
    done: Completion,
    words: PinnedWords,
    answers: PinnedWords,
    card_words: DeviceWords,
    card_answers: DeviceWords,
    /// Where texts are laid out, and what does that.
    pages: DeviceWords,
    gather: Arc<Program>,
    /// How words come to the card, and answers from it.
    words_by: Transfer,
    answers_by: Transfer,
    /// The images in use while work is under way.
    flight: Vec<Arc<LoadedImage>>,
    is_under_way: bool,
}

impl CardChain {
    /// As much room as `room` says; `gather` lays texts out on its pages.
    ///
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub fn new(gather: &Arc<Program>, room: ChainRoom) -> Result<Self, GpuError> {
        let card = gather.card();
        Ok(Self {
            stream: Stream::open(card)?,
            done: Completion::new(card)?,
            words: PinnedWords::zeroed(card, room.words + room.texts)?,
            answers: PinnedWords::zeroed(card, room.answers)?,
            card_words: DeviceWords::with_len(card, room.words)?,
            card_answers: DeviceWords::with_len(card, room.answers)?,
            pages: DeviceWords::with_len(card, room.pages * PAGE_WORDS)?,
            gather: gather.clone(),
            words_by: Transfer::Copies,
            answers_by: Transfer::Copies,
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

    /// Sends the first `len` words off; with [`Transfer::Direct`] kernels read them where they are,
    /// and write answers to where they are read.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If work is under way or `len` is more than there is room for: caller bugs.
    pub fn begin(
        &mut self,
        len: usize,
        (words_by, answers_by): (Transfer, Transfer),
    ) -> Result<(), GpuError> {
        assert!(!self.is_under_way, "the chain is in use");
        assert!(len <= self.card_words.len(), "{len} words in a chain for fewer");
        (self.words_by, self.answers_by) = (words_by, answers_by);
        self.is_under_way = true;
        self.stream.enter()?;
        if words_by == Transfer::Direct || len == 0 {
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
        let keys_end = keys_at + form.keys_len(count);
        assert!(keys_end <= self.card_words.len(), "keys behind the words");
        let from = self.sent() + 4 * keys_at as u64;
        let to = self.room_for(form, out_at, count);
        // SAFETY: the words hold `count` keys of the image's form from there on.
        unsafe { self.put(image, (from, to, count)) }
    }

    /// Where kernels find the words that were sent off.
    fn sent(&self) -> u64 {
        match self.words_by {
            Transfer::Copies => self.card_words.address(),
            Transfer::Direct => self.words.address(),
        }
    }

    /// Where `count` answers go.
    fn room_for(&self, form: Form, out_at: usize, count: usize) -> u64 {
        let out_end = out_at + form.answers_len(count);
        assert!(out_end <= self.card_answers.len(), "answers behind the room for them");
        let answers = match self.answers_by {
            Transfer::Copies => self.card_answers.address(),
            Transfer::Direct => self.answers.address(),
        };
        answers + 4 * out_at as u64
    }

    /// Puts the kernel of an image into the stream.
    ///
    /// # Safety
    /// - `from` and `to` are addresses, for this card, of `count` keys and answers of the image's
    ///   form in buffers of this chain.
    unsafe fn put(
        &mut self,
        image: &Arc<LoadedImage>,
        (from, to, count): (u64, u64, usize),
    ) -> Result<(), GpuError> {
        assert!(self.is_under_way, "the chain was not begun");
        self.stream.enter()?;
        self.flight.push(image.clone());
        // SAFETY: the image is kept in `flight`; the keys and answers are the caller's promise; the
        // stream is of the same card.
        unsafe { image.launch(self.stream.handle, (from, to, count)) }
    }

    /// Has texts laid out on `pages` pages, by the column that begins at word `column_at` and has
    /// `firsts_words` words in front of its texts.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// If no work was begun, or there are fewer words or pages: caller bugs. A column that is wrong
    /// is an error of the card, or makes wrong pages; nothing is written but pages.
    pub fn gather(
        &mut self,
        (column_at, firsts_words): (usize, usize),
        pages: usize,
    ) -> Result<(), GpuError> {
        assert!(self.is_under_way, "the chain was not begun");
        assert!(column_at + firsts_words <= self.card_words.len(), "a column behind the words");
        assert!(pages * PAGE_WORDS <= self.pages.len(), "{pages} pages in a chain for fewer");
        self.stream.enter()?;
        let mut numbers = [0; VIEW_NUMBERS];
        numbers[TEXTS_FIRST] = firsts_words as u32;
        let view = View { words: self.words.address(), numbers };
        let shape = LaunchShape {
            threads: GATHER_THREADS,
            keys_per_block: 1,
            shared_bytes: 0,
            persistent: true,
        };
        let from = self.sent() + 4 * column_at as u64;
        let launched = (from, self.pages.address(), pages);
        let stream = self.stream.handle;
        // SAFETY: the program lives as long as the stream, the column's head and the pages are
        // there, as was checked above; the kernel writes to no place outside its page, whatever the
        // column says.
        unsafe { self.gather.launch(stream, &shape, GATHER_BLOCKS_MAX, &view, launched) }
    }

    /// Has the pages `pages` searched for the patterns of an image: what is found goes to the
    /// answers from word `out_at` on.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// As [`CardChain::gather`].
    pub fn scan(
        &mut self,
        image: &Arc<LoadedImage>,
        pages: std::ops::Range<usize>,
        out_at: usize,
    ) -> Result<(), GpuError> {
        assert!(pages.end * PAGE_WORDS <= self.pages.len(), "pages in a chain for fewer");
        let from = self.pages.address() + 4 * (pages.start * PAGE_WORDS) as u64;
        let to = self.room_for(ScanImage::FORM, out_at, pages.len());
        // SAFETY: so many pages lie there.
        unsafe { self.put(image, (from, to, pages.len())) }
    }

    /// Brings the first `len` words of answers back.
    ///
    /// # Errors
    /// The driver's.
    pub fn end(&mut self, len: usize) -> Result<(), GpuError> {
        assert!(len <= self.card_answers.len(), "{len} answers in a chain for fewer");
        self.stream.enter()?;
        if self.answers_by == Transfer::Copies && len > 0 {
            let (to, from) = (self.answers.as_ptr().cast(), self.card_answers.address());
            let stream = self.stream.handle;
            // SAFETY: both places have `len` words; nothing of `answers` is lent while
            // `is_under_way` is set.
            let got = unsafe { cuda::cuMemcpyDtoHAsync_v2(to, from, len * 4, stream) };
            check("cuMemcpyDtoHAsync", got)?;
        }
        self.done.record(&self.stream, Mark::Value)
    }

    /// Gives up what was begun: what is in the stream must end before the buffers are lent again.
    pub fn abandon(&mut self) {
        _ = self.stream.wait();
        self.rest();
    }

    /// Ends what was begun without a launch or a copy.
    ///
    /// # Panics
    /// If the stream has work: a caller bug.
    pub fn cancel(&mut self) {
        let has_copied = self.words_by == Transfer::Copies;
        assert!(self.flight.is_empty() && !has_copied, "the stream has work");
        self.is_under_way = false;
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
        match self.done.passed(&self.stream) {
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
        let waited = self.done.wait(&self.stream);
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
