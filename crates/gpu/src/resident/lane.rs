//! Lanes: small batches of an engine by launches or by the resident kernel, as the policy chooses.
//!
//! ```text
//! classify ─┐            ┌─ launch ──► ring of slots, or the chain's stream
//!           ├─► Lane ────┤
//! Chain ────┘  choose    └─ resident ─► Frames: a batch is one frame or several
//! ```
//! A lane belongs to one thread at a time. Each has a resident kernel of its own, which takes
//! multiprocessors from others, so a device has few: threads that get none launch. All launch once
//! a card has more streams than connections, which would let launches wait for a resident kernel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpswitch_rules::{KeyBatch, RuleId, Schema};

use super::{Frames, FramesConfig, Hysteresis, ResidentChoice, Submission, SubmissionPolicy};
use crate::device::{Device, LaneToken, Loaded};

/// Keys of the largest batch that may go to the resident kernel: beyond it, launches are cheaper
/// on all cards that were measured.
pub const LANE_LEN_MAX: usize = 2048;
/// Keys of a frame.
const FRAME_LEN: usize = 1024;
/// Frames under way.
const FRAMES: usize = 4;

/// How a device uses resident kernels.
#[derive(Clone, Copy, Debug)]
pub struct ResidentUse {
    /// When.
    pub choice: ResidentChoice,
    /// The time since a fixed moment.
    pub now: fn() -> Duration,
}

/// A batch under way.
#[derive(Debug)]
struct Pending {
    ticket: u64,
    answers: Vec<RuleId>,
    /// How many of them have arrived.
    arrived: usize,
    began: Duration,
    is_abandoned: bool,
}

/// A place for [`Lane::poll`] to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// See the module.
#[derive(Debug)]
pub struct Lane {
    frames: Frames,
    schema: &'static Schema,
    policy: SubmissionPolicy,
    now: fn() -> Duration,
    /// The oldest first, as their frames.
    pending: VecDeque<Pending>,
    /// Buffers of former batches.
    spare: Vec<Vec<RuleId>>,
    next_ticket: u64,
    is_card: bool,
    token: LaneToken,
}

impl Lane {
    /// A lane for images like `loaded`; `None` if the device has no further one, or no resident
    /// kernel for them. Compiles the kernel if that was not done before.
    fn new(device: &Arc<Device>, schema: &'static Schema, loaded: &Loaded) -> Option<Self> {
        let ResidentUse { choice, now } = device.resident_use()?;
        let token = device.take_lane()?;
        let config = FramesConfig {
            keys_max: FRAME_LEN,
            frames: FRAMES,
            hysteresis: Hysteresis::always(),
            ..FramesConfig::on(device)
        };
        let frames = Frames::new(device, schema, config).ok()?;
        frames.prepare(loaded).ok()?;
        let policy = SubmissionPolicy::new(choice);
        Some(Self {
            frames,
            schema,
            policy,
            now,
            pending: VecDeque::new(),
            spare: Vec::new(),
            next_ticket: 0,
            is_card: device.is_card(),
            token,
        })
    }

    /// The method for a batch of `len` keys.
    pub fn choose(&mut self, len: usize) -> Submission {
        if self.frames.unavailable().is_some() || !self.token.may_stay() {
            self.policy.give_up_resident();
        }
        let has_room = len.div_ceil(FRAME_LEN) + self.frames.under_way() <= FRAMES;
        match self.policy.choose(len) {
            Submission::Resident if has_room && len <= LANE_LEN_MAX => Submission::Resident,
            _ => Submission::Launch,
        }
    }

    /// The time, for [`Lane::note`].
    pub fn now(&self) -> Duration {
        (self.now)()
    }

    /// Notes that a batch of `len` keys that was submitted at `began` is complete.
    pub fn note(&mut self, len: usize, method: Submission, began: Duration) {
        self.policy.note(len, method, self.now().saturating_sub(began));
    }

    /// Batches that the resident kernel got, in frames.
    pub fn resident_frames(&self) -> u64 {
        self.frames.count().resident
    }

    /// Submits a batch for which [`Lane::choose`] returned [`Submission::Resident`]. Each ticket
    /// is for [`Lane::poll`] or [`Lane::abandon`].
    ///
    /// # Panics
    /// If the keys are not whole keys of the lane's schema, or more than there is room for.
    pub fn submit(&mut self, words: &[u32], loaded: &Arc<Loaded>) -> Ticket {
        let (keys, began) = (KeyBatch::new(self.schema, words), self.now());
        let mut answers = self.spare.pop().unwrap_or_default();
        answers.clear();
        answers.resize(keys.len(), RuleId::NONE);
        let mut from = 0;
        while from < keys.len() {
            let end = (from + FRAME_LEN).min(keys.len());
            self.frames.send(keys.slice(from, end), loaded, began);
            from = end;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let pending = Pending { ticket, answers, arrived: 0, began, is_abandoned: false };
        self.pending.push_back(pending);
        Ticket(ticket)
    }

    /// Takes the answers of all frames that have them.
    fn collect(&mut self) {
        let now = self.now();
        let mut waiting = 0;
        while self.frames.poll(now) == Some(true) {
            while self.pending[waiting].arrived == self.pending[waiting].answers.len() {
                waiting += 1;
            }
            let Pending { answers, arrived, began, .. } = &mut self.pending[waiting];
            let len = self.frames.oldest_len().expect("it was polled");
            self.frames.take(&mut answers[*arrived..*arrived + len]);
            *arrived += len;
            if *arrived == answers.len() {
                self.policy.note(*arrived, Submission::Resident, now.saturating_sub(*began));
            }
        }
        while let Some(first) = self.pending.front()
            && first.is_abandoned
            && first.arrived == first.answers.len()
        {
            self.pending.pop_front();
        }
    }

    /// Passes the answers of a batch to `take` if all have arrived, and forgets the batch; returns
    /// whether they have.
    ///
    /// # Panics
    /// If the ticket is not of a batch under way.
    pub fn poll(&mut self, ticket: Ticket, take: impl FnOnce(&[RuleId])) -> bool {
        self.collect();
        let at = self.position(ticket);
        let Pending { answers, arrived, .. } = &self.pending[at];
        if *arrived < answers.len() {
            return false;
        }
        take(answers);
        let done = self.pending.remove(at).expect("its place was found");
        self.spare.push(done.answers);
        true
    }

    /// The answers of a batch are not needed.
    ///
    /// # Panics
    /// As [`Lane::poll`].
    pub fn abandon(&mut self, ticket: Ticket) {
        let at = self.position(ticket);
        self.pending[at].is_abandoned = true;
        self.collect();
    }

    fn position(&self, ticket: Ticket) -> usize {
        let at = self.pending.iter().position(|pending| pending.ticket == ticket.0);
        at.expect("the batch is under way")
    }

    /// Looks a batch up by the resident kernel and waits for the answers.
    fn classify(&mut self, keys: KeyBatch<'_>, loaded: &Arc<Loaded>, out: &mut [RuleId]) {
        let ticket = self.submit(keys.words(), loaded);
        while !self.poll(ticket, |answers| out.copy_from_slice(answers)) {
            // A thread in the place of a card needs a core.
            if self.is_card { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// The lanes of an engine.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// Those that no thread uses at the moment.
    free: Mutex<Vec<Lane>>,
    /// Whether the device had no lane left.
    is_refused: std::sync::atomic::AtomicBool,
}

impl Lanes {
    /// A lane for the caller alone, if there is one.
    pub(crate) fn take(
        &self,
        device: &Arc<Device>,
        schema: &'static Schema,
        loaded: &Loaded,
    ) -> Option<Lane> {
        use std::sync::atomic::Ordering;
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if free.is_some() || self.is_refused.load(Ordering::Relaxed) {
            return free;
        }
        let lane = Lane::new(device, schema, loaded);
        self.is_refused.store(lane.is_none(), Ordering::Relaxed);
        lane
    }

    fn put(&self, lane: Lane) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
    }

    /// Looks a small batch up by the method that costs less; `launch` does it by a launch. False
    /// if no lane is free: the batch is not looked up then.
    pub(crate) fn classify(
        &self,
        (device, schema): (&Arc<Device>, &'static Schema),
        loaded: &Arc<Loaded>,
        (keys, out): (KeyBatch<'_>, &mut [RuleId]),
        launch: impl FnOnce(&mut [RuleId]),
    ) -> bool {
        let is_small = (1..=LANE_LEN_MAX).contains(&keys.len());
        if !is_small || device.resident_use().is_none() || device.retired().is_some() {
            return false;
        }
        let Some(mut lane) = self.take(device, schema, loaded) else { return false };
        match lane.choose(keys.len()) {
            Submission::Resident => lane.classify(keys, loaded, out),
            Submission::Launch => {
                let began = lane.now();
                launch(out);
                lane.note(keys.len(), Submission::Launch, began);
            }
        }
        self.put(lane);
        true
    }
}
