//! Slots: room for a batch, and its way through a device.
//!
//! ```text
//! free ─ keys_mut ─► filled ─ start ─► under way ─ poll, wait ─► answered ─► free
//!                                          └─ error, too late ─► answered by the host ─► free
//! ```
//! Whatever happens to a device, a batch gets its answers, from the image with which it was
//! started: the slot has the keys, and the host can look them up itself.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::deadline::Begun;
use crate::device::{Core, Loaded};
use crate::driver::{CardSlot, Transfer};
use crate::error::{ErrorKind, GpuError};
use crate::host::HostSlot;
use crate::image::Image;
use crate::work::{Form, Work};

/// Bytes of keys up to which a kernel reads them from the host's memory itself: below, a launch
/// costs more than what the copies gain. Measured on one H200 over PCIe 5.0 x16.
pub(crate) const DIRECT_BYTES_MAX: usize = 512 << 10;

/// Between two looks at the time while a pool of threads is waited for.
pub(crate) const LOOK: Duration = Duration::from_millis(1);

/// How a slot of a card moves keys and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferChoice {
    /// Directly for small batches, by copies for larger ones.
    BySize,
    /// Always this way.
    Always(Transfer),
}

pub(crate) enum Inner {
    Card(Box<CardSlot>),
    Host(HostSlot),
    /// In the place of a device that hangs and keeps its buffers: room for keys.
    Spare(Vec<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    UnderWay,
    /// The answers are in the device's buffers.
    Answered,
    /// The answers are in `rescued`.
    Rescued,
}

/// Room for one batch, and the batch's way through the device.
pub struct Slot<W: Work = Image> {
    core: Arc<Core>,
    form: Form,
    inner: Inner,
    transfer: TransferChoice,
    loaded: Option<Arc<Loaded<W>>>,
    /// Answers that the host had to find.
    rescued: Vec<u32>,
    state: State,
    len: usize,
    /// Of a batch under way, if the device has a deadline.
    begun: Option<Begun>,
}

impl<W: Work> fmt::Debug for Slot<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("state", &self.state).finish_non_exhaustive()
    }
}

impl<W: Work> Slot<W> {
    pub(crate) fn new(core: Arc<Core>, form: Form, inner: Inner) -> Self {
        Self {
            core,
            form,
            inner,
            transfer: TransferChoice::BySize,
            loaded: None,
            rescued: Vec::new(),
            state: State::Free,
            len: 0,
            begun: None,
        }
    }

    /// Sets how keys and answers pass; see [`TransferChoice`].
    pub fn set_transfer(&mut self, transfer: TransferChoice) {
        self.transfer = transfer;
    }

    /// How wide its keys and answers are.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Room for the words of keys.
    ///
    /// # Panics
    /// If a batch is under way: a caller bug.
    pub fn keys_mut(&mut self) -> &mut [u32] {
        assert_ne!(self.state, State::UnderWay, "the slot is in use");
        match &mut self.inner {
            Inner::Card(slot) => slot.keys_mut(),
            Inner::Host(slot) => slot.keys_mut(),
            Inner::Spare(keys) => keys,
        }
    }

    /// Starts the lookup of the first `len` keys. On a device that is retired this thread answers
    /// them.
    ///
    /// # Panics
    /// If a batch is under way, `len` is more than the slot holds, or the image is of another
    /// form: caller bugs.
    pub fn start(&mut self, loaded: &Arc<Loaded<W>>, len: usize) {
        assert_ne!(self.state, State::UnderWay, "the slot is in use");
        assert_eq!(loaded.image().form(), self.form, "an image of another form");
        self.len = len;
        self.loaded = Some(loaded.clone());
        self.state = State::UnderWay;
        if self.core.retired().is_some() {
            return self.rescue();
        }
        match (&mut self.inner, loaded.shared_on_card()) {
            (Inner::Host(slot), _) => slot.start(loaded.shared_image().clone(), len),
            (Inner::Card(slot), Some(image)) => {
                let transfer = match self.transfer {
                    TransferChoice::Always(transfer) => transfer,
                    TransferChoice::BySize if self.form.keys_len(len) * 4 <= DIRECT_BYTES_MAX => {
                        Transfer::Direct
                    }
                    TransferChoice::BySize => Transfer::Copies,
                };
                if let Err(cause) = slot.start(image, len, transfer) {
                    return self.fail(cause);
                }
            }
            (Inner::Card(_) | Inner::Spare(_), _) => return self.rescue(),
        }
        // From here on: sending off may have waited for other threads' calls of the driver.
        let kernel = loaded.image().kernel();
        self.begun = self.core.watch().map(|watch| watch.begin(kernel, len));
    }

    /// The device did not answer the batch: it is retired, and this thread does.
    fn fail(&mut self, cause: GpuError) {
        let hangs = cause.kind() == ErrorKind::Hung;
        self.core.retire(cause);
        if hangs {
            // The device may still reach its buffers, for all we know.
            let keys = match &self.inner {
                Inner::Card(slot) => slot.room().to_vec(),
                Inner::Host(slot) => slot.keys().to_vec(),
                Inner::Spare(keys) => keys.clone(),
            };
            self.inner = Inner::Spare(keys);
        }
        self.rescue();
    }

    /// Answers the batch on this thread.
    fn rescue(&mut self) {
        if let (Some(watch), Some(begun)) = (self.core.watch(), self.begun.take()) {
            watch.leave(begun);
        }
        let loaded = self.loaded.take().expect("a batch is under way");
        let keys: &[u32] = match &mut self.inner {
            Inner::Card(slot) => slot.keys_mut(),
            Inner::Host(slot) => slot.keys(),
            Inner::Spare(keys) => keys,
        };
        self.rescued.resize(self.form.answers_len(self.len), 0);
        loaded.image().answer(&keys[..self.form.keys_len(self.len)], &mut self.rescued);
        self.state = State::Rescued;
    }

    /// Why the device counts as hung for this batch, if so.
    fn hang(&self) -> Option<GpuError> {
        let (watch, begun) = (self.core.watch()?, self.begun.as_ref()?);
        match self.core.retired() {
            Some(cause) if cause.kind() == ErrorKind::Hung => Some(cause.clone()),
            _ if !watch.is_batch_late(begun) => None,
            _ => {
                let message =
                    format!("a batch of {} keys did not complete before the deadline", self.len);
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
                let loaded = self.loaded.take().expect("a batch is under way");
                if let (Some(watch), Some(begun)) = (self.core.watch(), self.begun.take()) {
                    watch.end(loaded.image().kernel(), begun);
                }
                self.state = State::Answered;
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
            Inner::Card(slot) => slot.poll(),
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
                Inner::Card(slot) => {
                    if let Err(cause) = slot.wait() {
                        return self.fail(cause);
                    }
                }
                Inner::Spare(_) => {}
            }
        }
    }

    /// Copies the answers of the last batch to `out`.
    ///
    /// # Panics
    /// If a batch is under way or `out` is of another length: caller bugs.
    pub fn copy_answers(&self, out: &mut [W::Answer]) {
        assert_ne!(self.state, State::UnderWay, "the slot is in use");
        assert_eq!(out.len(), self.len, "room for another number of answers");
        W::unpack(self.answers(), out);
    }

    fn answers(&self) -> &[u32] {
        match (&self.state, &self.inner) {
            (State::Rescued, _) | (_, Inner::Spare(_)) => &self.rescued,
            (_, Inner::Host(slot)) => slot.answers(),
            (_, Inner::Card(slot)) => slot.answers(),
        }
    }

    /// All the room for keys, and the answers of the last batch.
    ///
    /// # Panics
    /// If a batch is under way: a caller bug.
    pub(crate) fn words(&self) -> (&[u32], &[u32]) {
        assert_ne!(self.state, State::UnderWay, "the slot is in use");
        let keys: &[u32] = match &self.inner {
            Inner::Card(slot) => slot.room(),
            Inner::Host(slot) => slot.keys(),
            Inner::Spare(keys) => keys,
        };
        (keys, self.answers())
    }
}

impl<W: Work> Drop for Slot<W> {
    fn drop(&mut self) {
        // A batch that nobody waits for any more is not in front of others either.
        if let (Some(watch), Some(begun)) = (self.core.watch(), self.begun.take()) {
            watch.leave(begun);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;
    use std::time::Instant;

    use warpswitch_classify::BuildOptions;
    use warpswitch_rules::generate::{Family, RulesetSpec, Style};
    use warpswitch_rules::{KeyBuf, RuleId, Ruleset, linear};
    use warpswitch_testkit::dense;

    use crate::deadline::Deadline;
    use crate::host::{FaultPlan, HostPool};
    use crate::image::Algorithm;
    use crate::ring::Ring;
    use crate::{Device, engine};

    /// The time since the first look at it.
    fn now() -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }

    fn pool(faults: FaultPlan, slack: Option<Duration>) -> Arc<Device> {
        let start = &mut |worker| _ = thread::spawn(worker);
        let device = Device::from_pool(HostPool::with_faults(2, Some(faults), start));
        if let Some(slack) = slack {
            device.set_deadline(Deadline { slack, now });
        }
        device
    }

    /// Passes `keys` in batches of many lengths through a ring; the answers in order.
    fn pass(device: &Arc<Device>, ruleset: &Ruleset, keys: &KeyBuf) -> Vec<RuleId> {
        let loaded =
            engine::load(device, Algorithm::Turbo, ruleset, &BuildOptions::default()).unwrap();
        let mut ring = Ring::new(device, ruleset.schema(), 64, 5).unwrap();
        let (mut sent, mut got) = (0, Vec::new());
        for number in 0.. {
            let len = (number * 37 % 64 + 1).min(keys.len() - sent);
            if len == 0 {
                break;
            }
            if ring.keys_mut().is_none() {
                let mut out = vec![RuleId(7); ring.oldest_len().unwrap()];
                ring.take(&mut out);
                got.extend(out);
            }
            let piece = keys.as_batch().slice(sent, sent + len);
            ring.keys_mut().unwrap()[..piece.words().len()].copy_from_slice(piece.words());
            ring.submit(&loaded, len);
            sent += len;
        }
        while let Some(len) = ring.oldest_len() {
            let mut out = vec![RuleId(7); len];
            ring.take(&mut out);
            got.extend(out);
        }
        got
    }

    /// Whatever a device does, each batch gets its answers, once and in order.
    #[test]
    fn no_fault_costs_an_answer_or_its_place() {
        let spec = RulesetSpec { style: Style::Fw, family: Family::Ipv4, rules: 60, seed: 3 };
        let ruleset = spec.generate();
        let keys = dense::keys_near(&ruleset, 4000, 4);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        let (none, delay_max) = (FaultPlan::default(), Duration::from_micros(400));
        let slow = FaultPlan { delay_chance: 0.5, delay_max, ..none };
        let cases = [
            (None, slow, None),
            (Some(ErrorKind::Call), FaultPlan { error_chance: 0.1, ..slow }, None),
            (Some(ErrorKind::Hung), FaultPlan { hang_chance: 0.1, ..slow }, Some(10)),
            (
                Some(ErrorKind::Hung),
                FaultPlan { first_batch: 40, hang_chance: 1.0, ..none },
                Some(5),
            ),
        ];
        for seed in 0..6 {
            for (kind, plan, slack_ms) in cases {
                let device = pool(FaultPlan { seed, ..plan }, slack_ms.map(Duration::from_millis));
                let got = pass(&device, &ruleset, &keys);
                assert_eq!(got, want, "seed {seed}, {plan:?}");
                assert_eq!(device.retired().map(GpuError::kind), kind, "seed {seed}, {plan:?}");
            }
        }
    }

    /// A classifier above notices nothing but time, and changes of rules go on.
    #[test]
    fn a_classifier_outlives_its_device() {
        let spec = RulesetSpec { style: Style::Acl, family: Family::Ipv4, rules: 200, seed: 3 };
        let ruleset = spec.generate();
        let keys = dense::keys_near(&ruleset, 500, 4);
        let mut want = vec![RuleId::NONE; keys.len()];
        linear::classify(&ruleset, keys.as_batch(), &mut want);
        let plan = FaultPlan { hang_chance: 1.0, first_batch: 2, ..FaultPlan::default() };
        let device = pool(plan, Some(Duration::from_millis(2)));
        let options = BuildOptions::default();
        let classifier = engine::build(&device, Algorithm::Turbo, &ruleset, &options).unwrap();
        for round in 0..6u32 {
            let mut out = vec![RuleId(7); keys.len()];
            classifier.classify(keys.as_batch(), &mut out);
            assert_eq!(out, want, "round {round}");
            classifier.remove(ruleset.rule(RuleId(round))).unwrap();
            classifier.insert(ruleset.rule(RuleId(round))).unwrap();
        }
        assert_eq!(device.retired().map(GpuError::kind), Some(ErrorKind::Hung));
    }
}
