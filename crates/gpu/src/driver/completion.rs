//! Completion of a batch: a value that a stream writes to pinned memory, or an event.
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
    /// The number of the last batch that the stream passed; `None` for drivers without such writes.
    passed: Option<PinnedWords>,
    /// The last batch.
    batch: u32,
    event: Event,
    mark: Mark,
    polls: u32,
}

/// How the end of a batch is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// By a value, where the driver can write it.
    Value,
    /// By an event. The write of a value waits for all earlier accesses of the card to the host's
    /// memory, and keeps later ones waiting: where kernels read many keys there, that costs more
    /// than calls of the driver do (790 for 920 million IPv6 packets a second on an H200, 9.6 for
    /// 10.4 billion addresses in batches of 262,144 on an H100).
    Event,
}

impl Completion {
    /// # Errors
    /// [`crate::ErrorKind::OutOfMemory`]; the driver's.
    pub(super) fn new(card: &Arc<Card>) -> Result<Self, GpuError> {
        let passed = match card.has_stream_writes()? {
            true => Some(PinnedWords::zeroed(card, 1)?),
            false => None,
        };
        let event = Event::new(card, false)?;
        Ok(Self { passed, batch: 0, event, mark: Mark::Event, polls: 0 })
    }

    /// Marks the end of the batch in the stream.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn record(&mut self, stream: &Stream, mark: Mark) -> Result<(), GpuError> {
        self.polls = 0;
        let Some(passed) = self.passed.as_ref().filter(|_| mark == Mark::Value) else {
            self.mark = Mark::Event;
            return self.event.record(stream);
        };
        self.mark = Mark::Value;
        self.batch = self.batch.wrapping_add(1);
        // Flags 0: the write follows all earlier writes of the stream.
        // SAFETY: the stream is open; the word is pinned, and outlives the stream's work, as owners
        // drop the stream first.
        let got = unsafe {
            cuda::cuStreamWriteValue32_v2(stream.handle, passed.address(), self.batch, 0)
        };
        check("cuStreamWriteValue32", got)
    }

    /// Whether the stream has passed the mark.
    ///
    /// # Errors
    /// The driver's: the card has failed.
    pub(super) fn passed(&mut self, stream: &Stream) -> Result<bool, GpuError> {
        let Some(passed) = self.passed.as_ref().filter(|_| self.mark == Mark::Value) else {
            stream.enter()?;
            return self.event.passed();
        };
        // SAFETY: the word is aligned and lives as long as `passed`; the card writes it whole.
        let written = unsafe { AtomicU32::from_ptr(passed.as_ptr()) };
        if written.load(Ordering::Acquire) == self.batch {
            return Ok(true);
        }
        self.polls += 1;
        if self.polls.is_multiple_of(POLLS_PER_QUERY) { stream.is_done() } else { Ok(false) }
    }

    /// Waits until then.
    ///
    /// # Errors
    /// The driver's: the card has failed.
    pub(super) fn wait(&self, stream: &Stream) -> Result<(), GpuError> {
        match self.mark {
            Mark::Event => self.event.wait(),
            Mark::Value => stream.wait(),
        }
    }
}
