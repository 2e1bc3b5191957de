//! Frames by the faster of two ways, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_rules::{KeyBatch, RuleId, Schema};

use super::{Hysteresis, Layout, Resident, State, Stay, Switch};
use crate::deadline::Deadline;
use crate::device::{Device, Loaded};
use crate::error::{ErrorKind, GpuError};
use crate::ring::Ring;

/// How frames are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesConfig {
    /// Keys of the largest frame.
    pub keys_max: usize,
    /// Frames under way at most.
    pub frames: usize,
    /// When the kernel stays.
    pub hysteresis: Hysteresis,
    /// How it stays.
    pub stay: Stay,
    /// A frame that is not answered for so long makes the kernel start anew. This and the next
    /// come on top of twice what frames took of late, and count from the first look at the frame:
    /// a thread that was not run for a while says nothing about the device.
    pub doubt: Duration,
    /// One that is not answered for so long retires the device.
    pub deadline: Duration,
    /// What a frame may take before any was answered.
    pub first: Duration,
}

impl Default for FramesConfig {
    fn default() -> Self {
        Self {
            keys_max: 256,
            frames: 4,
            hysteresis: Hysteresis::default(),
            stay: Stay::default(),
            doubt: Duration::from_micros(500),
            deadline: Deadline::SLACK,
            first: Duration::from_millis(500),
        }
    }
}

impl FramesConfig {
    /// For a device: threads of a pool are sometimes not run for long, which is no failure.
    pub fn on(device: &Device) -> Self {
        if device.is_card() {
            return Self::default();
        }
        let (doubt, deadline) = (Duration::from_secs(1), Duration::from_secs(10));
        Self { doubt, deadline, ..Self::default() }
    }
}

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramesCount {
    /// Sent to the kernel that stays.
    pub resident: u64,
    /// Sent by a launch each.
    pub launched: u64,
    /// Those that the host answered, as the device had failed.
    pub rescued: u64,
    /// Starts of the kernel.
    pub starts: u64,
    /// Kernels that were told to leave and have left.
    pub left: u64,
    /// Of these, those because of a frame that was not answered.
    pub doubts: u64,
    /// Of these, those of a kernel that had not answered anything since its start.
    pub doubts_at_start: u64,
    /// Times that nobody looked at frames under way for longer than the doubt.
    pub pauses: u64,
}

/// The way that a frame went.
#[derive(Debug)]
enum Way {
    /// Place of a frame.
    Resident(usize),
    Launched,
    /// The device is retired: these are the answers.
    Host(Vec<RuleId>),
}

/// Frames in order: sent off one after the other, answered in that order. One thread uses it, and
/// tells the time: any clock that does not go back.
///
/// Sending and polling do not wait and, but for a kernel's first start ([`Frames::prepare`]) and a
/// device's failure, do not allocate.
pub struct Frames {
    device: Arc<Device>,
    config: FramesConfig,
    switch: Switch,
    resident: Resident,
    ring: Ring,
    /// The oldest first.
    queue: VecDeque<(Way, usize)>,
    last_sent: Duration,
    /// When a frame was last sent or looked at.
    last_look: Duration,
    /// What frames took of late, if any was answered: the slowest, slowly forgotten.
    usual: Option<Duration>,
    count: FramesCount,
    /// Why there is no kernel that stays, if so.
    unavailable: Option<GpuError>,
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Frames {
    /// Frames of keys of `schema` on `device`.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`]; the card's.
    ///
    /// # Panics
    /// If there would be no frame: a caller bug.
    pub fn new(
        device: &Arc<Device>,
        schema: &'static Schema,
        config: FramesConfig,
    ) -> Result<Self, GpuError> {
        assert!(config.frames > 0 && config.keys_max > 0, "no room for a frame");
        let layout = Layout::new(schema.words, config.keys_max, config.frames);
        let runner = device.runner(schema, &layout)?;
        Ok(Self {
            device: device.clone(),
            config,
            switch: Switch::new(config.hysteresis),
            resident: Resident::new(runner, layout, schema),
            ring: Ring::new(device, schema, config.keys_max, config.frames)?,
            queue: VecDeque::with_capacity(config.frames),
            last_sent: Duration::ZERO,
            last_look: Duration::ZERO,
            usual: None,
            count: FramesCount::default(),
            unavailable: None,
        })
    }

    /// Compiles the kernel for images like this one, so that its first start does not have to.
    ///
    /// # Errors
    /// The compiler's; the card's. Frames are launched then, one by one.
    pub fn prepare(&self, loaded: &Loaded) -> Result<(), GpuError> {
        self.device.resident_program(loaded.image()).map(|_| ())
    }

    /// What became of the frames so far.
    pub fn count(&self) -> FramesCount {
        FramesCount { left: self.resident.left, ..self.count }
    }

    /// Whether the oldest frame went to the kernel that stays. `None` if there is none.
    pub fn oldest_is_resident(&self) -> Option<bool> {
        self.queue.front().map(|(way, _)| matches!(way, Way::Resident(_)))
    }

    /// Whether the kernel is there, or on its way.
    pub fn is_resident(&self) -> bool {
        self.resident.state == State::On
    }

    /// Why there is no kernel that stays, if so.
    pub fn unavailable(&self) -> Option<&GpuError> {
        self.unavailable.as_ref()
    }

    /// Frames under way.
    pub fn under_way(&self) -> usize {
        self.queue.len()
    }

    /// Whether one more frame can be sent.
    pub fn has_room(&self) -> bool {
        self.queue.len() < self.config.frames
    }

    /// Sends a frame off, to be answered by the rules of `loaded`.
    ///
    /// # Panics
    /// If there is no room, the frame is too large, or keys and image are of another schema: caller
    /// bugs.
    pub fn send(&mut self, keys: KeyBatch<'_>, loaded: &Arc<Loaded>, now: Duration) {
        assert!(self.has_room(), "every frame is under way");
        assert!(keys.len() <= self.config.keys_max, "a frame of {} keys", keys.len());
        let words = self.resident.layout.key_words;
        assert!(keys.words_per_key() == words && loaded.image().shape().words == words);
        self.look(now);
        self.switch.frame(keys.len(), now);
        self.drive(Some(loaded), now);
        self.last_sent = now;
        let len = keys.len();
        let way = if self.takes_more(loaded, now) {
            self.count.resident += 1;
            Way::Resident(self.resident.send(keys, loaded, now))
        } else if self.device.retired().is_some() {
            let mut answers = vec![RuleId::NONE; len];
            loaded.image().classify(keys, &mut answers);
            self.count.rescued += 1;
            Way::Host(answers)
        } else {
            let room = self.ring.keys_mut().expect("fewer are under way than there are slots");
            room[..keys.words().len()].copy_from_slice(keys.words());
            self.ring.submit(loaded, len);
            self.count.launched += 1;
            Way::Launched
        };
        self.queue.push_back((way, len));
    }

    /// Whether the kernel is there for an image, and shall be for a while.
    fn takes_more(&self, loaded: &Loaded, now: Duration) -> bool {
        self.resident.state == State::On && !self.shall_leave(Some(loaded), now)
    }

    /// Whether the kernel that runs is not the one to have.
    fn shall_leave(&self, loaded: Option<&Loaded>, now: Duration) -> bool {
        let since = |then: Duration| now.saturating_sub(then);
        !self.switch.is_on()
            || self.device.retired().is_some()
            || loaded.is_some_and(|loaded| !self.resident.is_for(loaded) || !is_fit(loaded))
            || since(self.resident.started) >= self.config.stay.lease / 2
            || self.is_silent(now)
    }

    /// Whether the kernel has seen no frame for so long that it will leave by itself soon.
    fn is_silent(&self, now: Duration) -> bool {
        let last = self.last_sent.max(self.resident.started);
        now.saturating_sub(last) >= self.config.stay.idle / 2
    }

    /// Lets time pass without a frame: a kernel that is not needed is told to leave.
    pub fn tick(&mut self, now: Duration) {
        self.switch.tick(now);
        self.drive(None, now);
    }

    /// Tells the kernel to leave now, whatever it does; frames under way are answered by the next
    /// one, which is started as soon as somebody polls for them. Meanwhile frames are launched.
    pub fn interrupt(&mut self) {
        if self.resident.state == State::On {
            self.resident.stop();
        }
    }

    /// Notes that the caller is there.
    fn look(&mut self, now: Duration) {
        let gap = now.saturating_sub(self.last_look);
        self.count.pauses += u64::from(!self.queue.is_empty() && gap > self.config.doubt);
        self.last_look = now;
    }

    /// Starts and stops the kernel as the switch says. A stop waits for frames under way, which are
    /// few; meanwhile frames are launched.
    fn drive(&mut self, loaded: Option<&Arc<Loaded>>, now: Duration) {
        if let Err(cause) = self.resident.look() {
            self.fail(cause);
        }
        match (self.resident.state, loaded) {
            (State::On, loaded) => {
                let loaded = loaded.map(Arc::as_ref);
                // After silence it may have left by itself: frames that nobody has taken yet do not
                // keep it, and a frame more must not be sent to it.
                let is_at_rest = self.resident.under_way == 0 || self.is_silent(now);
                if is_at_rest && self.shall_leave(loaded, now) {
                    self.resident.stop();
                }
            }
            (State::Off, Some(loaded)) => {
                let is_wanted = self.switch.is_on() && self.device.retired().is_none();
                if self.resident.under_way > 0 {
                    // Frames of the kernel that left: it, and not one for this image, answers them.
                    self.revive(now);
                } else if is_wanted && self.unavailable.is_none() && is_fit(loaded) {
                    self.choose(loaded);
                    if self.unavailable.is_none() {
                        self.start(now);
                    }
                }
            }
            (State::Off | State::Leaving, _) => {}
        }
    }

    /// Makes the kernel for an image the one to start.
    fn choose(&mut self, loaded: &Loaded) {
        if self.resident.is_for(loaded) {
            return;
        }
        let image = loaded.image();
        match self.device.resident_program(image) {
            Ok(program) => {
                self.resident.kernel = Some((image.algorithm(), *image.shape(), program));
                self.usual = None;
            }
            Err(cause) => self.unavailable = Some(cause),
        }
    }

    /// Starts a kernel anew that has left, if frames wait for it.
    fn revive(&mut self, now: Duration) {
        if self.resident.state == State::On || self.device.retired().is_some() {
            return;
        }
        match self.resident.look() {
            Err(cause) => self.fail(cause),
            Ok(()) if self.resident.state == State::Off => self.start(now),
            Ok(()) => {}
        }
    }

    fn start(&mut self, now: Duration) {
        self.count.starts += 1;
        if let Err(cause) = self.resident.start(&self.config.stay, now) {
            self.fail(cause);
        }
    }

    /// Retires the device; the host answers what the kernel was to answer.
    fn fail(&mut self, cause: GpuError) {
        self.device.retire(cause);
        self.resident.stop();
        self.count.rescued += self.resident.rescue();
    }

    /// Whether the oldest frame has its answers. `None` if there is none.
    pub fn poll(&mut self, now: Duration) -> Option<bool> {
        self.look(now);
        Some(match self.queue.front()?.0 {
            Way::Host(_) => true,
            Way::Launched => self.ring.poll().expect("a frame was launched"),
            Way::Resident(idx) => {
                self.resident.poll(idx) || {
                    self.resident.frames[idx].pending = now;
                    self.revive(now);
                    self.doubt(idx, now);
                    self.resident.poll(idx)
                }
            }
        })
    }

    /// What a frame may take without being late.
    fn allowed(&self) -> Duration {
        self.usual.map_or(self.config.first, |usual| 2 * usual)
    }

    /// Notes what a frame took: at least until it was last seen not to be answered. How long nobody
    /// looked says nothing.
    fn note(&mut self, idx: usize) {
        let frame = &self.resident.frames[idx];
        if frame.rescued.is_none() {
            let took = frame.pending.saturating_sub(frame.sent);
            let former = self.usual.unwrap_or_default();
            self.usual = Some(took.max(former - former / 16));
        }
    }

    /// Does something about a frame that is late, if it is.
    fn doubt(&mut self, idx: usize, now: Duration) {
        let allowed = self.allowed();
        let frame = &mut self.resident.frames[idx];
        if frame.rescued.is_some() {
            return;
        }
        let waited = now.saturating_sub(*frame.looked.get_or_insert(now));
        // One whose kernel was started anew has as long again.
        let waited_anew = now.saturating_sub(*frame.looked_anew.get_or_insert(now));
        if waited >= allowed + self.config.deadline {
            let ms = self.config.deadline.as_millis();
            let message = format!("a frame did not complete within {ms} ms");
            self.fail(GpuError::new(ErrorKind::Hung, message));
        } else if waited_anew >= allowed + self.config.doubt && self.resident.state == State::On {
            self.count.doubts += 1;
            self.count.doubts_at_start += u64::from(!self.resident.has_answered);
            self.resident.stop();
        }
    }

    /// Keys of the oldest frame. `None` if there is none.
    pub fn oldest_len(&self) -> Option<usize> {
        self.queue.front().map(|(_, len)| *len)
    }

    /// Copies the answers of the oldest frame to `out`, room for just these.
    ///
    /// # Panics
    /// If there is none, its answers are not there ([`Frames::poll`]), or `out` is of another
    /// length: caller bugs.
    pub fn take(&mut self, out: &mut [RuleId]) {
        let (way, len) = self.queue.pop_front().expect("no frame is under way");
        assert_eq!(out.len(), len, "room for just the answers");
        match way {
            Way::Host(answers) => out.copy_from_slice(&answers),
            Way::Launched => _ = self.ring.take(out),
            Way::Resident(idx) => {
                assert!(self.resident.poll(idx), "the frame is not answered yet");
                self.note(idx);
                self.resident.take(idx, out);
            }
        }
    }

    /// Waits for the oldest frame, then takes its answers.
    ///
    /// # Panics
    /// As for [`Frames::take`].
    pub fn wait(&mut self, out: &mut [RuleId], mut clock: impl FnMut() -> Duration) {
        // No pause between two looks: it would cost a good part of what is saved.
        while self.poll(clock()) == Some(false) {}
        self.take(out);
    }
}

/// Whether frames can carry the answers of an image: it is on the device, and its ids have 31 bits.
fn is_fit(loaded: &Loaded) -> bool {
    loaded.image().id_max() < super::layout::ANSWER_NONE && loaded.is_loaded()
}
