//! Completion of a batch: a value that a stream writes to pinned memory.
//!
//! Polling an event is a driver call, and driver calls of all threads take one lock: sixteen
//! workers that poll slow down each other's launches. Reading a word costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::call::check;
use super::card::Card;
use super::memory::PinnedWords;
use super::raw::cuda;
use super::slot::{Event, Stream};
use crate::error::GpuError;

/// Polls between two queries of the stream, which report a failure of the card: the value is never
/// written then.
const POLLS_PER_QUERY: u32 = 1 << 12;

/// The end of the last batch in a stream.
#[derive(Debug)]
pub(super) struct Completion {
    mark: Mark,
    polls: u32,
}

#[derive(Debug)]
enum Mark {
    /// The stream writes the number of the batch to this word.
    Value { word: PinnedWords, batch: u32 },
    /// For drivers without such writes.
    Event(Event),
}

impl Completion {
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub(super) fn new(card: &Arc<Card>) -> Result<Self, GpuError> {
        let mark = match card.has_stream_writes()? {
            true => Mark::Value { word: PinnedWords::zeroed(card, 1)?, batch: 0 },
            false => Mark::Event(Event::new(card, false)?),
        };
        Ok(Self { mark, polls: 0 })
    }

    /// Marks the end of the batch in the stream.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn record(&mut self, stream: &Stream) -> Result<(), GpuError> {
        self.polls = 0;
        match &mut self.mark {
            Mark::Event(event) => event.record(stream),
            Mark::Value { word, batch } => {
                *batch = batch.wrapping_add(1);
                // Flags 0: the write follows all earlier writes of the stream.
                // SAFETY: the stream is open; the word is pinned, and outlives the stream's work,
                // as owners drop the stream first.
                let got = unsafe {
                    cuda::cuStreamWriteValue32_v2(stream.handle, word.address(), *batch, 0)
                };
                check("cuStreamWriteValue32", got)
            }
        }
    }

    /// Whether the stream has passed the mark.
    ///
    /// # Errors
    /// The driver's: the card has failed.
    pub(super) fn passed(&mut self, stream: &Stream) -> Result<bool, GpuError> {
        match &self.mark {
            Mark::Event(event) => {
                stream.enter()?;
                event.passed()
            }
            Mark::Value { word, batch } => {
                // SAFETY: the word is aligned and lives as long as `word`; the card writes it
                // whole.
                let written = unsafe { AtomicU32::from_ptr(word.as_ptr()) };
                if written.load(Ordering::Acquire) == *batch {
                    return Ok(true);
                }
                self.polls += 1;
                if self.polls.is_multiple_of(POLLS_PER_QUERY) {
                    stream.is_done()
                } else {
                    Ok(false)
                }
            }
        }
    }

    /// Waits until then.
    ///
    /// # Errors
    /// The driver's: the card has failed.
    pub(super) fn wait(&self, stream: &Stream) -> Result<(), GpuError> {
        match &self.mark {
            Mark::Event(event) => event.wait(),
            Mark::Value { .. } => stream.wait(),
        }
    }
}
