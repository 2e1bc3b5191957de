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
//!
//! Texts are not among the words, but for a column that tells where they lie
//! ([`Texts`]): [`Chain::gather`] has the device read them there, and each
//! [`Chain::scan`] has them searched.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::deadline::Begun;
use crate::device::{Core, Loaded};
use crate::driver::{CardChain, LoadedImage, Transfer};
use crate::error::{ErrorKind, GpuError};
use crate::host::HostSlot;
use crate::kernels::Kernel;
use crate::resident::{LANE_LEN_MAX, Lane, Submission, Ticket};
use crate::scan::{ScanImage, Texts, search_pages};
use crate::slot::{DIRECT_BYTES_MAX, LOOK};
use crate::work::{Form, Lookup, Work};

/// Keys and answers of a step begin at multiples of so many words: a line of the card's memory.
pub const ALIGN_WORDS: usize = 32;

/// How much a chain has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainRoom {
    /// Words that are sent off.
    pub words: usize,
    /// Words behind them, which are not: room for texts that a device cannot reach elsewhere.
    pub texts: usize,
    /// Words of answers.
    pub answers: usize,
    /// Pages of texts, of 32 KB on a card each.
    pub pages: usize,
}

impl ChainRoom {
    /// Room for words and answers, and for no texts.
    pub fn of(words: usize, answers: usize) -> Self {
        Self { words, answers, ..Self::default() }
    }

    /// Bytes that it takes of the host's memory. On a card, pages come in the place of texts.
    pub fn host_bytes(&self) -> usize {
        4 * (self.words + self.answers + self.texts)
    }
}

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

/// A search of texts, which a device has on pages.
#[derive(Debug)]
struct TextSearch {
    image: Arc<ScanImage>,
    /// Where the column begins, and its words in front of texts.
    column: (usize, usize),
    pages: Range<usize>,
}

impl Lookup for TextSearch {
    fn answer(&self, room: &[u32], out: &mut [u32]) {
        search_pages(&self.image, room, self.column, self.pages.clone(), out);
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
    /// The answers are in `rescued`: the host found them.
    Rescued,
    /// The answers are in `rescued`: the resident kernel found them.
    Collected,
}

/// A lane that the chains of one worker share.
pub type SharedLane = Arc<Mutex<Lane>>;

fn lock(lane: &SharedLane) -> MutexGuard<'_, Lane> {
    // A panic in a lane is a bug; its batches are answered or polled in vain.
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the only step of a batch was submitted by a lane.
enum ByLane {
    /// To the resident kernel; where the answers go.
    Resident(SharedLane, Ticket, Range<usize>),
    /// By a launch, whose time counts: keys, and the time of submission.
    Launched(SharedLane, usize, Duration),
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
    room: ChainRoom,
    words: usize,
    /// The column of texts: where it begins, and its words in front of them.
    column: Option<(usize, usize)>,
    /// Words up to where texts end in the chain's room, if there are any.
    texts_end: usize,
    answers: usize,
    begun: Option<Begun>,
    by_lane: Option<ByLane>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Chain {
    pub(crate) fn new(core: Arc<Core>, inner: Inner, room: ChainRoom) -> Self {
        Self {
            core,
            inner,
            steps: Arc::default(),
            kernel: None,
            rescued: Vec::new(),
            state: State::Free,
            has_failed: false,
            room,
            words: 0,
            column: None,
            texts_end: 0,
            answers: 0,
            begun: None,
            by_lane: None,
        }
    }

    /// The form in which a pool of threads has them.
    pub(crate) const HOST_FORM: Form = WORDS;

    /// Room for words that go in, and behind [`ChainRoom::words`] of them for texts.
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
        assert!(words <= self.room.words, "{words} words in a chain for fewer");
        (self.words, self.answers, self.column, self.texts_end) = (words, 0, None, 0);
        (self.state, self.kernel, self.has_failed) = (State::Begun, None, false);
        self.by_lane = None;
        match Arc::get_mut(&mut self.steps) {
            Some(steps) => steps.0.clear(),
            // A batch that hangs keeps its own.
            None => self.steps = Arc::default(),
        }
        if self.core.retired().is_some() {
            self.has_failed = true;
        } else if let Inner::Card(card) = &mut self.inner {
            let is_small = words * 4 <= DIRECT_BYTES_MAX;
            let small = if is_small { Transfer::Direct } else { Transfer::Copies };
            // Where texts are, their column says, for which the kernel would wait twice; and of
            // what is found on pages most is room.
            let has_texts = self.room.pages > 0;
            let (words_by, answers_by) =
                if has_texts { (Transfer::Copies, Transfer::Direct) } else { (small, small) };
            if let Err(cause) = card.begin(words, (words_by, answers_by)) {
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
        let work: Arc<dyn Lookup> = loaded.shared_image().clone();
        let out = self.add_step(work, keys, form.answers_len(count));
        self.launch(loaded, count, |card, image| {
            card.launch(image, form, (keys_at, out.start), count)
        });
        out
    }

    /// As [`Chain::step`], for the only step of a batch: by a launch or by the resident kernel, as
    /// `lane` chooses.
    ///
    /// # Panics
    /// As [`Chain::step`]; if there is another step.
    pub fn only_step(
        &mut self,
        lane: &SharedLane,
        loaded: &Arc<Loaded>,
        keys_at: usize,
        count: usize,
    ) -> Range<usize> {
        assert!(self.steps.0.is_empty(), "a batch with several steps");
        let is_small = (1..=LANE_LEN_MAX).contains(&count) && 4 * self.words <= DIRECT_BYTES_MAX;
        if self.has_failed || !is_small || self.room.pages > 0 {
            return self.step(loaded, keys_at, count);
        }
        let mut own = lock(lane);
        if own.choose(count) == Submission::Launch {
            self.by_lane = Some(ByLane::Launched(lane.clone(), count, own.now()));
            drop(own);
            return self.step(loaded, keys_at, count);
        }
        let form = loaded.image().form();
        let keys = keys_at..keys_at + form.keys_len(count);
        assert!(keys.end <= self.words, "keys {keys:?} of {} words", self.words);
        let work: Arc<dyn Lookup> = loaded.shared_image().clone();
        let out = self.add_step(work, keys.clone(), form.answers_len(count));
        let ticket = own.submit(&self.sent_words()[keys], loaded);
        drop(own);
        self.by_lane = Some(ByLane::Resident(lane.clone(), ticket, out.clone()));
        out
    }

    /// The words of the batch that was begun.
    fn sent_words(&self) -> &[u32] {
        match &self.inner {
            Inner::Card(card) => card.room(),
            Inner::Host(slot) => slot.keys(),
            Inner::Spare(words) => words,
        }
    }

    /// Has the device read texts where they lie and lay them out on pages. Their column begins at
    /// word `column_at`, and was sent off; `texts_words` words behind [`ChainRoom::words`] are
    /// texts that lie in this chain.
    ///
    /// # Panics
    /// If no batch was begun, the column is not among the words that were sent off, or there is
    /// less room for texts or pages: caller bugs. Whoever gave a text a place in
    /// [`HostMemory`](crate::HostMemory) keeps that, and leaves the text as it is, until the batch
    /// is answered: otherwise what is found is anything, and a card may fail.
    pub fn gather(&mut self, texts: &Texts, column_at: usize, texts_words: usize) {
        assert_eq!(self.state, State::Begun, "no batch was begun");
        let column = (column_at, texts.firsts_words());
        assert!(column_at + texts.words() <= self.words, "a column behind the words");
        assert!(texts.pages() <= self.room.pages, "{} pages in a chain for fewer", texts.pages());
        assert!(texts_words <= self.room.texts, "{texts_words} words of texts, with less room");
        (self.column, self.texts_end) = (Some(column), self.room.words + texts_words);
        if !self.has_failed
            && !texts.is_empty()
            && let Inner::Card(card) = &mut self.inner
            && let Err(cause) = card.gather(column, texts.pages())
        {
            self.give_up(cause);
        }
    }

    /// Has pages of texts searched for patterns. Tells which words of [`Chain::answers`] will be
    /// what was found on them.
    ///
    /// # Panics
    /// If texts were not gathered, or there are fewer pages: caller bugs.
    pub fn scan(&mut self, loaded: &Arc<Loaded<ScanImage>>, pages: Range<usize>) -> Range<usize> {
        let column = self.column.expect("texts were gathered");
        assert!(pages.end <= self.room.pages, "pages {pages:?} in a chain for fewer");
        let image = loaded.shared_image().clone();
        let search = TextSearch { image, column, pages: pages.clone() };
        let answers = ScanImage::FORM.answers_len(pages.len());
        let out = self.add_step(Arc::new(search), 0..self.texts_end, answers);
        self.launch(loaded, pages.len(), |card, image| card.scan(image, pages, out.start));
        out
    }

    /// Adds what the host does for a step; where its answers are.
    fn add_step(
        &mut self,
        work: Arc<dyn Lookup>,
        keys: Range<usize>,
        answers: usize,
    ) -> Range<usize> {
        assert_eq!(self.state, State::Begun, "no batch was begun");
        let out_at = self.answers.next_multiple_of(ALIGN_WORDS);
        let out = out_at..out_at + answers;
        assert!(out.end <= self.room.answers, "answers {out:?} in a chain for fewer");
        self.answers = out.end;
        let steps = Arc::get_mut(&mut self.steps).expect("nobody has them before the end");
        steps.0.push(Step { work, keys, out: out.clone() });
        out
    }

    /// Has a card do its part of a step over `count` keys, if all went well so far.
    fn launch<W: Work>(
        &mut self,
        loaded: &Arc<Loaded<W>>,
        count: usize,
        launch: impl FnOnce(&mut CardChain, &Arc<LoadedImage>) -> Result<(), GpuError>,
    ) {
        self.kernel.get_or_insert((loaded.image().kernel(), count));
        let Inner::Card(card) = &mut self.inner else { return };
        if self.has_failed {
            return;
        }
        match loaded.shared_on_card() {
            None => self.has_failed = true,
            Some(image) => {
                if let Err(cause) = launch(card, image) {
                    self.give_up(cause);
                }
            }
        }
    }

    /// Ends the steps: the answers are on their way. On a device that is retired this thread finds
    /// them.
    ///
    /// # Panics
    /// If no batch was begun: a caller bug.
    pub fn end(&mut self) {
        assert_eq!(self.state, State::Begun, "no batch was begun");
        self.state = State::UnderWay;
        if let Some(ByLane::Resident(..)) = self.by_lane {
            if let Inner::Card(card) = &mut self.inner {
                card.cancel();
            }
            return;
        }
        let len = self.words.max(self.answers).max(self.texts_end);
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
        if let Inner::Card(card) = &mut self.inner {
            card.abandon();
        }
        let mut rescued = std::mem::take(&mut self.rescued);
        rescued.clear();
        rescued.resize(self.answers, 0);
        self.steps.answer(self.sent_words(), &mut rescued);
        self.rescued = rescued;
        (self.state, self.by_lane) = (State::Rescued, None);
    }

    /// The device did not answer the batch: it is retired, and this thread does.
    fn fail(&mut self, cause: GpuError) {
        let hangs = cause.kind() == ErrorKind::Hung;
        self.core.retire(cause);
        if hangs {
            // The device may still reach its buffers, for all we know.
            self.inner = Inner::Spare(self.sent_words().to_vec());
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
                let message = format!(
                    "a chain over {} words did not complete before the deadline",
                    self.words
                );
                Some(GpuError::new(ErrorKind::Hung, message))
            }
        }
    }

    /// Whether the answers are there. A batch that is late is answered before this returns.
    pub fn poll(&mut self) -> bool {
        if self.state != State::UnderWay {
            return true;
        }
        if let Some(ByLane::Resident(lane, ticket, out)) = &self.by_lane {
            let rescued = &mut self.rescued;
            let is_done = lock(lane).poll(*ticket, |answers| {
                rescued.clear();
                rescued.resize(out.start, 0);
                rescued.extend(answers.iter().map(|id| id.0));
            });
            if is_done {
                (self.state, self.by_lane) = (State::Collected, None);
                self.forget_steps();
            }
            return is_done;
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
                if let Some(ByLane::Launched(lane, count, began)) = self.by_lane.take() {
                    lock(&lane).note(count, Submission::Launch, began);
                }
                self.state = State::Answered;
                self.forget_steps();
            }
            Ok(false) => match hang {
                Some(cause) => self.fail(cause),
                None => return false,
            },
            Err(cause) => self.fail(cause),
        }
        true
    }

    /// Images are free to be changed.
    fn forget_steps(&mut self) {
        if let Some(steps) = Arc::get_mut(&mut self.steps) {
            steps.0.clear();
        }
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
            if let Some(ByLane::Resident(..)) = self.by_lane {
                thread::yield_now();
                continue;
            }
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
            (State::Rescued | State::Collected, _) | (_, Inner::Spare(_)) => &self.rescued,
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
        if let Some(ByLane::Resident(lane, ticket, _)) = self.by_lane.take() {
            lock(&lane).abandon(ticket);
        }
    }
}

#[cfg(test)]
mod tests;
