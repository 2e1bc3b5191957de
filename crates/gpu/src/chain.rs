//! Chains: several lookups of one batch, with one copy in and one copy out.
//!
//! ```text
//! words in     │ keys of step 0 │ keys of step 1 │ …      laid out by whoever fills them
//!                     ▼                ▼               a kernel each, in this order
//! words out    │ answers of 0   │ answers of 1   │ …
//!
//! free ─ words_mut ─► begin ─► step, step, … ─► end ─► under way ─ poll, wait ─► answered
//!                       └──────── error, too late ─► answered by the host ───────┘
//! ```
//! Steps may read the same keys. As with slots, a batch gets its answers whatever happens to the
//! device, from the images that its steps named.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use crate::deadline::Begun;
use crate::device::{Core, Loaded};
use crate::driver::{CardChain, Transfer};
use crate::error::{ErrorKind, GpuError};
use crate::host::HostSlot;
use crate::kernels::Kernel;
use crate::slot::{DIRECT_BYTES_MAX, LOOK};
use crate::work::{Form, Lookup, Work};

/// Keys and answers of a step begin at multiples of so many words: a line of the card's memory.
pub const ALIGN_WORDS: usize = 32;

/// How words go to a pool of threads: as if each were a key and had an answer.
const WORDS: Form = Form { key_words: 1, answer_bytes: 4, packed: false };

/// One lookup: which words are its keys, and where its answers are.
#[derive(Clone, Debug)]
struct Step {
    work: Arc<dyn Lookup>,
    keys: Range<usize>,
    out: Range<usize>,
}

/// All lookups of a batch, as one.
#[derive(Debug, Default)]
struct Steps(Vec<Step>);

impl Lookup for Steps {
    fn answer(&self, keys: &[u32], out: &mut [u32]) {
        for step in &self.0 {
            step.work.answer(&keys[step.keys.clone()], &mut out[step.out.clone()]);
        }
    }
}

pub(crate) enum Inner {
    Card(Box<CardChain>),
    Host(HostSlot),
    /// In the place of a device that hangs and keeps its buffers: room for words.
    Spare(Vec<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Between `begin` and `end`.
    Begun,
    UnderWay,
    /// The answers are in the device's buffers.
    Answered,
    /// The answers are in `rescued`.
    Rescued,
}

/// Room for a batch, and its way through the lookups of a device. Threads: one at a time.
pub struct Chain {
    core: Arc<Core>,
    inner: Inner,
    steps: Arc<Steps>,
    /// Of the first step, by which the whole is timed.
    kernel: Option<(Kernel, usize)>,
    /// Answers that the host had to find.
    rescued: Vec<u32>,
    state: State,
    /// Whether the device failed between `begin` and `end`.
    has_failed: bool,
    words: usize,
    answers: usize,
    begun: Option<Begun>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Chain {
    pub(crate) fn new(core: Arc<Core>, inner: Inner) -> Self {
        Self {
            core,
            inner,
            steps: Arc::default(),
            kernel: None,
            rescued: Vec::new(),
            state: State::Free,
            has_failed: false,
            words: 0,
            answers: 0,
            begun: None,
        }
    }

    /// The form in which a pool of threads has them.
    pub(crate) const HOST_FORM: Form = WORDS;

    /// Room for words that go in.
    ///
    /// # Panics
    /// If a batch is under way: a caller bug.
    pub fn words_mut(&mut self) -> &mut [u32] {
        assert!(!matches!(self.state, State::Begun | State::UnderWay), "the chain is in use");
        match &mut self.inner {
            Inner::Card(card) => card.words_mut(),
            Inner::Host(slot) => slot.keys_mut(),
            Inner::Spare(words) => words,
        }
    }

    /// Begins a batch: sends the first `words` words off.
    ///
    /// # Panics
    /// If a batch is under way, or there are not so many: caller bugs.
    pub fn begin(&mut self, words: usize) {
        assert!(!matches!(self.state, State::Begun | State::UnderWay), "the chain is in use");
        (self.words, self.answers) = (words, 0);
        (self.state, self.kernel, self.has_failed) = (State::Begun, None, false);
        match Arc::get_mut(&mut self.steps) {
            Some(steps) => steps.0.clear(),
            // A batch that hangs keeps its own.
            None => self.steps = Arc::default(),
        }
        if self.core.retired().is_some() {
            self.has_failed = true;
        } else if let Inner::Card(card) = &mut self.inner {
            let is_small = words * 4 <= DIRECT_BYTES_MAX;
            let transfer = if is_small { Transfer::Direct } else { Transfer::Copies };
            if let Err(cause) = card.begin(words, transfer) {
                self.give_up(cause);
            }
        }
    }

    /// Has `count` keys, whose words begin at `keys_at`, looked up in an image. Tells which words
    /// of [`Chain::answers`] will be theirs.
    ///
    /// # Panics
    /// If no batch was begun, `keys_at` is no multiple of [`ALIGN_WORDS`], or so many keys are not
    /// among the words that were sent off: caller bugs.
    pub fn step<W: Work>(
        &mut self,
        loaded: &Arc<Loaded<W>>,
        keys_at: usize,
        count: usize,
    ) -> Range<usize> {
        assert_eq!(self.state, State::Begun, "no batch was begun");
        assert_eq!(keys_at % ALIGN_WORDS, 0, "keys begin in the middle of a line");
        let form = loaded.image().form();
        let keys = keys_at..keys_at + form.keys_len(count);
        assert!(keys.end <= self.words, "keys {keys:?} of {} words", self.words);
        let out_at = self.answers.next_multiple_of(ALIGN_WORDS);
        let out = out_at..out_at + form.answers_len(count);
        self.answers = out.end;
        let work: Arc<dyn Lookup> = loaded.shared_image().clone();
        let steps = Arc::get_mut(&mut self.steps).expect("nobody has them before the end");
        steps.0.push(Step { work, keys, out: out.clone() });
        self.kernel.get_or_insert((loaded.image().kernel(), count));
        if !self.has_failed
            && let Inner::Card(card) = &mut self.inner
        {
            match loaded.shared_on_card() {
                None => self.has_failed = true,
                Some(image) => {
                    if let Err(cause) = card.launch(image, form, (keys_at, out_at), count) {
                        self.give_up(cause);
                    }
                }
            }
        }
        out
    }

    /// Ends the steps: the answers are on their way. On a device that is retired this thread finds
    /// them.
    ///
    /// # Panics
    /// If no batch was begun: a caller bug.
    pub fn end(&mut self) {
        assert_eq!(self.state, State::Begun, "no batch was begun");
        self.state = State::UnderWay;
        let len = self.words.max(self.answers);
        match &mut self.inner {
            _ if self.has_failed => return self.rescue(),
            Inner::Card(card) => {
                if let Err(cause) = card.end(self.answers) {
                    self.give_up(cause);
                    return self.rescue();
                }
            }
            Inner::Host(slot) => slot.start(self.steps.clone(), len),
            Inner::Spare(_) => return self.rescue(),
        }
        // From here on: sending off may have waited for other threads' calls of the driver.
        if let (Some(watch), Some((kernel, count))) = (self.core.watch(), self.kernel) {
            self.begun = Some(watch.begin(kernel, count));
        }
    }

    /// The card refused a part of the batch: it is retired.
    fn give_up(&mut self, cause: GpuError) {
        self.core.retire(cause);
        self.has_failed = true;
    }

    /// Lets go of the device's part, and answers the batch on this thread.
    fn rescue(&mut self) {
        if let (Some(watch), Some(begun)) = (self.core.watch(), self.begun.take()) {
            watch.leave(begun);
        }
        let is_hung = self.core.retired().is_some_and(|cause| cause.kind() == ErrorKind::Hung);
        if let (Inner::Card(card), true) = (&self.inner, is_hung) {
            // It would be waited for in vain, and may still reach its buffers.
            self.inner = Inner::Spare(card.room().to_vec());
        }
        let words: &[u32] = match &mut self.inner {
            Inner::Card(card) => {
                card.abandon();
                card.room()
            }
            Inner::Host(slot) => slot.keys(),
            Inner::Spare(words) => words,
        };
        self.rescued.clear();
        self.rescued.resize(self.answers, 0);
        self.steps.answer(words, &mut self.rescued);
        self.state = State::Rescued;
    }

    /// The device did not answer the batch: it is retired, and this thread does.
    fn fail(&mut self, cause: GpuError) {
        let hangs = cause.kind() == ErrorKind::Hung;
        self.core.retire(cause);
        if hangs {
            // The device may still reach its buffers, for all we know.
            let words = match &self.inner {
                Inner::Card(card) => card.room().to_vec(),
                Inner::Host(slot) => slot.keys().to_vec(),
                Inner::Spare(words) => words.clone(),
            };
            self.inner = Inner::Spare(words);
        }
        self.rescue();
    }

    /// Why the device counts as hung for this batch, if so.
    fn hang(&self) -> Option<GpuError> {
        let (watch, begun) = (self.core.watch()?, self.begun.as_ref()?);
        match self.core.retired() {
            Some(cause) if cause.kind() == ErrorKind::Hung => Some(cause.clone()),
            _ if !watch.is_batch_late(begun) => None,
            _ => {
                let message = format!("a chain over {} words was not answered in time", self.words);
                Some(GpuError::new(ErrorKind::Hung, message))
            }
        }
    }

    /// Whether the answers are there. A batch that is late is answered before this returns.
    pub fn poll(&mut self) -> bool {
        if self.state != State::UnderWay {
            return true;
        }
        let mut ended = self.poll_device();
        let hang = if let Ok(false) = ended { self.hang() } else { None };
        if hang.is_some() {
            // This thread may have slept between the two looks.
            ended = self.poll_device();
        }
        match ended {
            Ok(true) => {
                if let (Some(watch), Some(begun)) = (self.core.watch(), self.begun.take())
                    && let Some((kernel, _)) = self.kernel
                {
                    watch.end(kernel, begun);
                }
                self.state = State::Answered;
                // Images are free to be changed.
                if let Some(steps) = Arc::get_mut(&mut self.steps) {
                    steps.0.clear();
                }
            }
            Ok(false) => match hang {
                Some(cause) => self.fail(cause),
                None => return false,
            },
            Err(cause) => self.fail(cause),
        }
        true
    }

    fn poll_device(&mut self) -> Result<bool, GpuError> {
        match &mut self.inner {
            Inner::Card(card) => card.poll(),
            Inner::Host(slot) => slot.poll(),
            Inner::Spare(_) => unreachable!("nothing is under way without a device"),
        }
    }

    /// Waits for the answers, which come in any case.
    pub fn wait(&mut self) {
        while !self.poll() {
            let is_watched = self.begun.is_some();
            match &mut self.inner {
                Inner::Host(slot) => slot.wait(is_watched.then_some(LOOK)),
                Inner::Card(_) if is_watched => thread::yield_now(),
                Inner::Card(card) => {
                    if let Err(cause) = card.wait() {
                        return self.fail(cause);
                    }
                }
                Inner::Spare(_) => {}
            }
        }
    }

    /// The words of all answers of the last batch.
    ///
    /// # Panics
    /// If the answers were not waited for: a caller bug.
    pub fn answers(&self) -> &[u32] {
        assert!(!matches!(self.state, State::Begun | State::UnderWay), "the chain is in use");
        match (&self.state, &self.inner) {
            (State::Rescued, _) | (_, Inner::Spare(_)) => &self.rescued,
            (_, Inner::Host(slot)) => slot.answers(),
            (_, Inner::Card(card)) => card.answers(),
        }
    }

    /// Whether the last batch was answered by the host, as the device was retired.
    pub fn was_rescued(&self) -> bool {
        self.state == State::Rescued
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // A batch that nobody waits for any more is not in front of others either.
        if let (Some(watch), Some(begun)) = (self.core.watch(), self.begun.take()) {
            watch.leave(begun);
        }
    }
}

#[cfg(test)]
mod tests;
