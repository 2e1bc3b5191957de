//! Frames of up to some hundred packets, answered within microseconds: a kernel that stays on the
//! card and reads keys out of the host's memory as they are written.
//!
//! ```text
//! Frames ─┬─ Switch: are frames full often enough?
//!         ├─ yes ─► Resident: rows, tags ─► kernel, or a host's thread ─► answers   3 us
//!         └─ no ──► Ring of slots: a launch a frame                                10 us
//! ```
//! The protocol is told in `resident.cuh`. [`Frames`] is what others use; it gives answers back in
//! the order in which frames came, whichever way they went.
//!
//! A [`Lane`] is what engines use: it chooses, batch by batch, between a launch and a kernel that
//! stays, by what both cost.
//!
//! # Invariants
//! - R1: a frame names its image in the heads of its chunks, and keeps it until it is answered.
//!   Rules change between two frames, without the kernel being stopped.
//! - R2: a chunk's tag says "read the head again" whenever the last frame that the chunk's warp saw
//!   had another image, known by its serial number; a kernel that starts reads it anyway.
//! - R3: a kernel that starts is told of each chunk whether its last frame is answered, by the
//!   answers themselves: the kernel before has left, so they do not change any more.
//! - R4: a frame that is looked at and not answered for a while makes the kernel leave and start
//!   again, which answers what is pending, from the same rows. One that is not answered by the
//!   deadline, which allows for what frames took before, retires the device; then the host answers
//!   it, from the same rows.

mod frames;
mod host;
mod hysteresis;
mod lane;
mod layout;
mod submission;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use warpswitch_rules::{KeyBatch, RuleId, Schema};

pub use frames::{Frames, FramesConfig, FramesCount};
pub use hysteresis::{Hysteresis, Switch};
pub(crate) use lane::Lanes;
pub use lane::{LANE_LEN_MAX, Lane, ResidentUse, Ticket};
pub(crate) use layout::Layout;
pub use submission::{ResidentChoice, Submission, SubmissionPolicy};

use crate::device::Loaded;
use crate::driver::{Program, ResidentKernel, ResidentPlan};
use crate::error::GpuError;
use crate::host::Runs;
use crate::image::Algorithm;
use crate::kernels::KernelShape;
use host::HostMemory;
use layout::{LANES, TAG_RELOAD, former_number, next_number};

/// What answers frames.
pub(crate) enum Runner {
    /// The kernel.
    Card(Box<ResidentKernel>),
    /// A thread of a pool.
    Host(HostRunner),
}

/// A thread of a pool in the kernel's place.
pub(crate) struct HostRunner {
    memory: Arc<HostMemory>,
    layout: Layout,
    schema: &'static Schema,
    pool: Runs,
}

impl HostRunner {
    pub(crate) fn new(layout: &Layout, schema: &'static Schema, pool: Runs) -> Self {
        Self { memory: HostMemory::new(layout), layout: *layout, schema, pool }
    }
}

impl Drop for HostRunner {
    fn drop(&mut self) {
        self.layout.stop(&self.memory.words);
    }
}

impl Runner {
    fn words(&self) -> &[AtomicU64] {
        match self {
            Runner::Card(kernel) => kernel.words(),
            Runner::Host(host) => &host.memory.words,
        }
    }

    fn is_running(&mut self) -> Result<bool, GpuError> {
        match self {
            Runner::Card(kernel) => kernel.is_running(),
            Runner::Host(host) => Ok(host.memory.is_running()),
        }
    }

    fn start(
        &mut self,
        program: Option<&Arc<Program>>,
        layout: &Layout,
        stay: &Stay,
    ) -> Result<(), GpuError> {
        match self {
            Runner::Card(kernel) => {
                let program = program.expect("a card has a program");
                kernel.start(program, &stay.plan(layout))
            }
            Runner::Host(host) => {
                host.memory.set_running();
                let (memory, layout) = (host.memory.clone(), *layout);
                let (schema, idle) = (host.schema, stay.idle);
                host.pool.run(Box::new(move || host::serve(&memory, &layout, schema, idle)));
                Ok(())
            }
        }
    }

    /// Says where the image of a warp's next frame is.
    fn put_view(&self, layout: &Layout, warp: usize, loaded: &Loaded) {
        let address = loaded.on_card().map_or(0, |card| card.address());
        layout.put_view(self.words(), warp, address, &loaded.image().numbers());
    }

    /// The frame's image is named for as long as the frame is under way.
    fn hold(&self, frame: usize, loaded: Option<&Arc<Loaded>>) {
        if let Runner::Host(host) = self {
            host.memory.put_head(frame, loaded);
        }
    }
}

/// How long a kernel stays, and how it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Warps that search a chunk together, each a part of the tables; at most 8. H200: with one, a
    /// frame of 256 packets takes 12 us where there are 21 tables, with eight 4.
    pub block_warps: usize,
    /// It leaves by itself after so long without a frame.
    pub idle: Duration,
    /// It is started anew after half of it, and leaves by itself after all of it: calls of the
    /// driver that wait for the card do not wait for ever.
    pub lease: Duration,
    /// Polls in vain after which a warp sleeps between them. Fewer where polls of all chunks are
    /// more bytes than those of 32 chunks of short keys.
    pub hot_polls: u32,
    /// How long. Longer where polls of all chunks would be more than a fifth of a link.
    pub cold: Duration,
}

/// Beats in the time after which a kernel that hears none leaves. Each is a line a chunk, so they
/// do not come with every frame.
const BEATS: u32 = 16;

/// Bytes of a chunk's poll, for each piece of its rows.
const POLL_BYTES: usize = LANES * 16;
/// Of 55 GB/s that a link of 16 lanes at 32 GT/s carries: what polls of chunks that are not in use
/// may take, in bytes a microsecond.
const POLL_BYTES_PER_US: usize = 9_000;
/// Bytes of all chunks' polls from which on fewer of them are hot.
const HOT_BYTES: usize = 32 * POLL_BYTES;
/// From one poll to the next without sleep: there and back over the link.
const POLL_TIME: Duration = Duration::from_nanos(1300);

impl Default for Stay {
    fn default() -> Self {
        Self {
            block_warps: 8,
            idle: Duration::from_millis(20),
            lease: Duration::from_secs(2),
            hot_polls: 100,
            cold: Duration::from_nanos(500),
        }
    }
}

impl Stay {
    fn plan(&self, layout: &Layout) -> ResidentPlan {
        let poll_bytes = layout.warps() * layout.pieces * POLL_BYTES;
        let apart = Duration::from_micros((poll_bytes / POLL_BYTES_PER_US) as u64);
        let cold = self.cold.max(apart.saturating_sub(POLL_TIME));
        let hot_share = poll_bytes.div_ceil(HOT_BYTES).max(1) as u32;
        ResidentPlan {
            rows: layout.rows(),
            answers: layout.answers(0),
            heads: layout.head(0),
            warps: layout.warps(),
            block_warps: self.block_warps,
            idle_ns: self.idle.as_nanos() as u64,
            lease_ns: self.lease.as_nanos() as u64,
            hot_polls: self.hot_polls / hot_share,
            cold_ns: cold.as_nanos() as u32,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    On,
    /// Told to leave.
    Leaving,
}

/// A frame's place.
#[derive(Debug, Default)]
struct Frame {
    /// The image of the frame under way; `None` if the place is free.
    loaded: Option<Arc<Loaded>>,
    len: usize,
    /// Chunks of it known to be answered.
    answered: usize,
    sent: Duration,
    /// When it was last seen not to be answered.
    pending: Duration,
    /// When it was first seen not to be answered.
    looked: Option<Duration>,
    /// The same since the kernel was started last.
    looked_anew: Option<Duration>,
    /// Answers that the host had to find.
    rescued: Option<Vec<RuleId>>,
}

/// The frames, and what is known of the runner. One thread uses it.
struct Resident {
    /// First, as it is dropped first and waits for its kernel: images are kept until then.
    runner: Runner,
    layout: Layout,
    schema: &'static Schema,
    frames: Vec<Frame>,
    /// By warp: the number of the last frame sent.
    numbers: Vec<u32>,
    /// By warp: the serial number of that frame's image; 0 if the warp will read the head anyway.
    versions: Vec<u64>,
    /// By warp: the serial number of the image that the head tells of.
    views: Vec<u64>,
    beats: u64,
    last_beat: Duration,
    /// How far they lie apart while frames are sent.
    beat_every: Duration,
    state: State,
    /// What the kernel was compiled for, and the kernel.
    kernel: Option<(Algorithm, KernelShape, Option<Arc<Program>>)>,
    started: Duration,
    /// Whether the kernel has answered anything since then.
    has_answered: bool,
    /// Kernels that were seen to have left.
    left: u64,
    under_way: usize,
}

impl Resident {
    fn new(runner: Runner, layout: Layout, schema: &'static Schema) -> Self {
        Self {
            layout,
            schema,
            frames: (0..layout.frames).map(|_| Frame::default()).collect(),
            numbers: vec![0; layout.warps()],
            versions: vec![0; layout.warps()],
            views: vec![0; layout.warps()],
            beats: 0,
            last_beat: Duration::ZERO,
            beat_every: Duration::ZERO,
            state: State::Off,
            kernel: None,
            started: Duration::ZERO,
            has_answered: false,
            left: 0,
            under_way: 0,
            runner,
        }
    }

    /// Whether the kernel that was started last is the one for this image.
    fn is_for(&self, loaded: &Loaded) -> bool {
        let image = loaded.image();
        let kernel = self.kernel.as_ref();
        kernel.is_some_and(|(algorithm, shape, _)| {
            *algorithm == image.algorithm() && shape == image.shape()
        })
    }

    /// Starts the kernel that was chosen; it finds the frames that are pending.
    fn start(&mut self, stay: &Stay, now: Duration) -> Result<(), GpuError> {
        let words = self.runner.words();
        self.versions.fill(0);
        for (idx, frame) in self.frames.iter_mut().enumerate() {
            frame.looked_anew = None;
            let used = if frame.loaded.is_some() { frame.len.div_ceil(LANES) } else { 0 };
            for chunk in 0..self.layout.chunks {
                let warp = self.layout.warp(idx, chunk);
                let mut seen = self.numbers[warp];
                // The one that left may have answered more than anybody has looked at; asked for
                // that again, this one would not know the chunk's next frame.
                if chunk < used && !self.layout.is_answered(words, warp, seen) {
                    seen = former_number(seen);
                    self.versions[warp] = self.views[warp];
                }
                self.layout.put_seen(words, warp, seen);
            }
        }
        self.beat_every = stay.idle / BEATS;
        self.beat(now);
        let program = self.kernel.as_ref().and_then(|(.., program)| program.as_ref());
        self.runner.start(program, &self.layout, stay)?;
        self.state = State::On;
        self.started = now;
        self.has_answered = false;
        Ok(())
    }

    /// Tells the kernel that the host is there, and shall stay.
    fn beat(&mut self, now: Duration) {
        self.beats += 1;
        self.last_beat = now;
        self.layout.beat(self.runner.words(), self.beats);
    }

    /// Tells the kernel to leave.
    fn stop(&mut self) {
        self.layout.stop(self.runner.words());
        self.state = State::Leaving;
    }

    /// Sees whether a kernel that was told to leave has left.
    fn look(&mut self) -> Result<(), GpuError> {
        if self.state == State::Leaving && !self.runner.is_running()? {
            self.state = State::Off;
            self.left += 1;
        }
        Ok(())
    }

    /// Sends a frame off; gives its place. The lowest free one is taken: few frames under way keep
    /// few warps awake.
    fn send(&mut self, keys: KeyBatch<'_>, loaded: &Arc<Loaded>, now: Duration) -> usize {
        let idx = self.frames.iter().position(|frame| frame.loaded.is_none());
        let idx = idx.expect("a frame's place is free");
        let frame = &mut self.frames[idx];
        self.runner.hold(idx, Some(loaded));
        frame.loaded = Some(loaded.clone());
        (frame.len, frame.answered) = (keys.len(), 0);
        (frame.sent, frame.pending) = (now, now);
        (frame.looked, frame.looked_anew) = (None, None);
        let words = self.runner.words();
        let first = self.layout.warp(idx, 0);
        for (chunk, keys) in keys.words().chunks(LANES * self.layout.key_words).enumerate() {
            let warp = first + chunk;
            let number = next_number(self.numbers[warp]);
            self.numbers[warp] = number;
            if self.views[warp] != loaded.serial() {
                // The chunk is not pending, so nobody reads the head meanwhile.
                self.views[warp] = loaded.serial();
                self.runner.put_view(&self.layout, warp, loaded);
            }
            let mut tag = number;
            if self.versions[warp] != loaded.serial() {
                self.versions[warp] = loaded.serial();
                tag |= TAG_RELOAD;
            }
            self.layout.put_chunk(words, warp, keys, tag);
        }
        if now.saturating_sub(self.last_beat) >= self.beat_every {
            self.beat(now);
        }
        self.under_way += 1;
        idx
    }

    /// Whether all answers of a frame are there.
    fn poll(&mut self, idx: usize) -> bool {
        let frame = &mut self.frames[idx];
        let words = self.runner.words();
        let first = self.layout.warp(idx, 0);
        let used = frame.len.div_ceil(LANES);
        while frame.rescued.is_none() && frame.answered < used {
            let warp = first + frame.answered;
            if !self.layout.is_answered(words, warp, self.numbers[warp]) {
                return false;
            }
            frame.answered += 1;
            self.has_answered = true;
        }
        true
    }

    /// Copies a frame's answers to `out` and frees its place.
    fn take(&mut self, idx: usize, out: &mut [RuleId]) {
        let frame = &mut self.frames[idx];
        assert_eq!(out.len(), frame.len, "room for just the answers");
        match frame.rescued.take() {
            Some(answers) => out.copy_from_slice(&answers),
            None => {
                let first = self.layout.warp(idx, 0);
                self.layout.copy_answers(self.runner.words(), first, out);
            }
        }
        frame.loaded = None;
        self.runner.hold(idx, None);
        self.under_way -= 1;
    }

    /// Answers every frame under way on this thread, from its rows. Nothing may be sent any more.
    fn rescue(&mut self) -> u64 {
        let words = self.runner.words();
        let mut keys = vec![0; LANES * self.layout.key_words];
        let mut count = 0;
        for (idx, frame) in self.frames.iter_mut().enumerate() {
            let Some(loaded) = frame.loaded.as_ref().filter(|_| frame.rescued.is_none()) else {
                continue;
            };
            let mut answers = vec![RuleId::NONE; frame.len.next_multiple_of(LANES)];
            for (chunk, out) in answers.chunks_mut(LANES).enumerate() {
                let tag = self.layout.chunk(words, self.layout.warp(idx, chunk), &mut keys);
                assert!(tag.is_some(), "this thread wrote the rows");
                loaded.image().classify(KeyBatch::new(self.schema, &keys), out);
            }
            answers.truncate(frame.len);
            frame.rescued = Some(answers);
            count += 1;
        }
        count
    }
}
