//! Collects packets into wide batches for a device and copies the slices that its kernels read.
//!
//! # Synopsis
//! `Batcher([SIZE N, DELAY_MAX TIME, IDLE BOOL, DEPTH N, SLICES BOOL])`
//!
//! # Ports
//! One input, one output; push. Emits wide batches: `SIZE` packets or more that pass the chain as
//! one unit, with their slices and results. Only these elements accept them, in this order:
//! `HostToDeviceMemcpy`, any number of device elements (`GPU…`), `DeviceToHostMemcpy`,
//! `GPUCompletionQueue`, `Debatcher`. After the device elements a `Dispatcher` may begin branches,
//! each of device elements, which join at `DeviceToHostMemcpy`.
//!
//! # Configuration
//! - `SIZE`: packets of a wide batch, 1 to 65536; default: 1024. Incoming batches stay whole, so a
//!   wide batch may have up to 255 packets more
//! - `DELAY_MAX`, or `TIMEOUT`: longest time that a packet waits for a wide batch to fill; default:
//!   1ms
//! - `IDLE`: emits a partial wide batch as soon as no packet has arrived since the last run of the
//!   task; default: false
//! - `DEPTH`: wide batches in flight at a time, 1 to 256; default: 4. A source that is always ready
//!   fills all of them; once packets in flight exceed the L2 cache, each costs twice as much
//! - `SLICES`: sends only the slices that elements of the chain read; default: true. If false,
//!   sends whole packets as well, to measure the cost
//!
//! The slices are the union of those that the elements of the chain read; a slice that several
//! elements read is sent once. A packet that an element skips, by its `CHK_ANNO` or on
//! another branch, sends no slice for it, unless an earlier element of the chain may change that
//! annotation. The offset of a slice depends on the packet: fields are found after VLAN tags, IP
//! options and extension headers.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | packets that wait for a wide batch |
//! | `batches` | read | wide batches emitted; packets that bypass the device unbatched count as one for each `SIZE` packets |
//! | `timeouts` | read | wide batches emitted before they were full |
//! | `bypassed` | read | wide batches that bypassed the device: no device, the worker was cheaper, or too many packets waited |
//! | `bytes_sent` | read | bytes of slices and payloads for the device |
//! | `bytes_copied` | read | payload bytes copied because the device could not read them in place |
//! | `slices` | read | `BYTES NAME` for each slice of a packet, one per line; payloads have `*` bytes |
//! | `device` | read | device that runs the lookups of the chain, or `none` |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Runs on one worker, with all of its chain. Memory: `DEPTH` + 1 times `SIZE` slices and results,
//! plus 1.5 KB per packet if payloads are searched, at most 1 GiB. On a stop, the run continues
//! until the chain is empty, while sources pause.
//!
//! # Example
//! ```text
//! ... -> CheckIPHeader -> Batcher(SIZE 4096) -> HostToDeviceMemcpy
//!     -> GPUIPLookup(10.0.0.0/24 0, 0.0.0.0/0 1)
//!     -> DeviceToHostMemcpy -> GPUCompletionQueue -> Debatcher -> out :: Dispatcher;
//! ```

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use warpswitch_gpu::ChainRoom;
use warpswitch_gpu::auto::policy::{Choice, Path};
use warpswitch_gpu::chain::ALIGN_WORDS;
use warpswitch_graph::language::args::{Args, ArgsError};
use warpswitch_graph::{
    ConfigureContext, Context, Element, ElementClass, HandlerError, HandlerSpec, Time,
};
use warpswitch_packet::{BATCH_LEN_MAX, Batch, CACHED_RESULTS};

use super::anno::Predicate;
use super::annotated;
use super::load::{Home, Load};
use super::members::{self, Member};
use super::place::Offload;
use super::slices::{self, Part, Slice, SliceColumn};
use super::texts::TextPart;

/// The element class.
pub static CLASS: ElementClass =
    ElementClass::new("Batcher", "1/1", "h/h", || Box::<Batcher>::default())
        .signals_full()
        .pauses_interfaces()
        .detains();

/// Upper bound of `SIZE`.
const SIZE_MAX: u32 = 1 << 16;
/// Upper bound of `DEPTH`.
const DEPTH_MAX: u32 = 256;
/// Wide batches of waiting packets at which back-pressure stops sources, and pauses interfaces:
/// with [`BYPASS_BATCHES`] alone, a device that starts slowly would get ever more batches that
/// bypass it in front of its own, and these would keep their loads until all of those had left.
const FULL_BATCHES: usize = 2;
/// Wide batches of waiting packets at which batches bypass the device, for sources that ignore
/// back-pressure.
const BYPASS_BATCHES: usize = 8;
/// Memory limit of all wide batches of a chain, in bytes, on the host and again on a card.
const BYTES_MAX: usize = 1 << 30;

/// Timers: the deadline of waiting packets, and the next poll for a pending stop.
const TIMEOUT: usize = 0;
const LOOK: usize = 1;
/// Interval of these polls.
const LOOK_NS: i64 = 1_000_000;

/// A wide batch that is being filled. Slices are cut as packets arrive, while these are in the L1
/// cache.
#[derive(Debug)]
struct Open {
    load: Box<Load>,
    batch: Batch,
}

/// Element `Batcher`.
#[derive(Debug)]
pub struct Batcher {
    size: u32,
    delay_max: Duration,
    by_idle: bool,
    depth: u32,
    by_slices: bool,
    /// The wide batch that is being filled; `None` if no load is free.
    open: Option<Open>,
    /// Incoming batches that wait for `open`.
    waiting: VecDeque<Batch>,
    /// Packets in `open` and `waiting`.
    queued: usize,
    parts: Vec<Part>,
    /// Where the column of each part begins in the words of a chain.
    starts: Vec<usize>,
    /// Finds payloads, if an element of the chain has them searched.
    texts: Option<TextPart>,
    /// First word of copied payloads in the words of a chain.
    texts_at: usize,
    home: Arc<Home>,
    /// `None` without a device, or if it was retired before initialization.
    offload: Option<Arc<Offload>>,
    /// The `Debatcher` of the chain, which reports when it has room.
    end: Vec<usize>,
    /// Whether members compute results for elements downstream of the chain.
    is_ahead: bool,
    /// Whether the retirement of the device was reported.
    reported_retirement: bool,
    /// Whether packets arrived since the last run of the task.
    has_news: bool,
    /// Whether waiting packets leave as a partial wide batch.
    is_due: bool,
    /// Packets received so far.
    came: u64,
    /// Whether a stop waits for packets in the chain.
    detains: bool,
    /// Whether the poll timer is set.
    is_looking: bool,
    /// Whether the chain feeds itself: a stop would never end.
    is_loop: bool,
    batches: u64,
    timeouts: u64,
    bypassed: u64,
    bytes_sent: u64,
    bytes_copied: u64,
    /// The last choice of the CPU path, whose cost is not measured yet.
    by_cores: Option<Choice>,
    /// The choice for the next wide batch, if already made.
    chosen: Option<Choice>,
    /// Packets left that bypass the device unbatched, by the last choice.
    passing: usize,
}

impl Default for Batcher {
    fn default() -> Self {
        Self {
            size: 1024,
            delay_max: Duration::from_millis(1),
            by_idle: false,
            depth: 4,
            by_slices: true,
            open: None,
            waiting: VecDeque::new(),
            queued: 0,
            parts: Vec::new(),
            starts: Vec::new(),
            texts: None,
            texts_at: 0,
            home: Arc::default(),
            offload: None,
            end: Vec::new(),
            is_ahead: false,
            reported_retirement: false,
            has_news: false,
            is_due: false,
            came: 0,
            detains: false,
            is_looking: false,
            is_loop: false,
            batches: 0,
            timeouts: 0,
            bypassed: 0,
            bytes_sent: 0,
            bytes_copied: 0,
            by_cores: None,
            chosen: None,
            passing: 0,
        }
    }
}

/// Splits off the packets of a batch beyond `room`.
fn cut(cx: &mut Context<'_>, batch: &mut Batch, room: usize) -> Option<Batch> {
    let beyond = batch.len().checked_sub(room).filter(|&beyond| beyond > 0)?;
    let mut rest = cx.pool().batch();
    batch.split_last(beyond, &mut rest);
    Some(rest)
}

/// Appends the slices of `batch` to those of `wide`.
fn add(
    parts: &[Part],
    starts: &[usize],
    is_ahead: bool,
    load: &mut Load,
    wide: &Batch,
    batch: &Batch,
) {
    let (from, count) = (wide.len(), batch.len());
    let Load { chain, columns, keyless, places, frame_keys, packet_lens, .. } = load;
    if is_ahead {
        slices::add_frame_keys(batch, frame_keys);
    }
    if let Some(chain) = chain {
        let room = chain.words_mut();
        for ((part, &start), column) in parts.iter().zip(starts).zip(columns) {
            part.add(batch, from, column, &mut room[start..], (keyless, places));
        }
    }
    if !batch.is_deferred() {
        packet_lens.extend(batch.iter().map(|packet| packet.len() as u32));
    }
    load.lens.push(count);
}

impl Batcher {
    fn size(&self) -> usize {
        self.size as usize
    }

    /// The most packets of a wide batch: the last incoming batch stays whole, too.
    fn room(&self) -> usize {
        self.size() + BATCH_LEN_MAX
    }

    /// Joins the members of the chain to the device; returns the room that they need.
    fn join(
        &mut self,
        cx: &mut Context<'_>,
        offload: &Arc<Offload>,
        members: &[Member],
    ) -> Result<ChainRoom, String> {
        let (mut lookups, mut answers, mut is_taken) = (0, 0, [false; CACHED_RESULTS]);
        let mut columns = Vec::new();
        for member in members {
            let joined = member.join(cx, offload, lookups.min(CACHED_RESULTS - 1))?;
            if let Some(number) = joined.slot {
                lookups += 1;
                if lookups > CACHED_RESULTS {
                    return Err(format!(
                        "more than {CACHED_RESULTS} lookups with FOR in one chain"
                    ));
                }
                if std::mem::replace(&mut is_taken[number], true) {
                    return Err(format!("two lookups with FOR use LOOKUP {number} in one chain"));
                }
            }
            answers += (joined.answer_bytes * self.room()).div_ceil(4);
            answers = answers.next_multiple_of(ALIGN_WORDS);
            let is_known = |only: &Predicate| annotated::is_known(cx, *only, members, *member);
            let only = joined.only.filter(is_known).or_else(|| member.branch().filter(is_known));
            if let Some(slice) = joined.slice {
                columns.push((member.element(), self.part(slice, only)));
            }
            if let Some(wanted) = joined.texts {
                let room = self.room();
                let part = self.texts.get_or_insert_with(|| TextPart::new(wanted.link, room));
                part.add(member.element(), &wanted, only);
            }
        }
        self.home.set_columns(columns);
        self.is_ahead = lookups > 0;
        // A chain with a member of its own routes or rules always uses the device.
        if lookups == members.len() && lookups > 0 {
            self.home.choose_by(offload);
        }
        let of_texts = self.texts.as_mut().map(|part| {
            part.load(offload);
            part.room()
        });
        let of_texts = of_texts.unwrap_or_default();
        answers += of_texts.answers;
        let mut words = 0;
        for part in &self.parts {
            self.starts.push(words);
            words += part.slice.column_words(self.room());
        }
        let frames = if self.by_slices { 0 } else { self.room() * slices::FRAME_WORDS };
        let words = words + frames + of_texts.words;
        let words = words.next_multiple_of(ALIGN_WORDS);
        self.texts_at = words;
        Ok(ChainRoom { words, answers, ..of_texts })
    }

    /// The number of the part for a slice of packets that meet a predicate, if there is one.
    fn part(&mut self, slice: Slice, only: Option<Predicate>) -> usize {
        let is_same = |part: &Part| part.slice == slice && part.only == only;
        self.parts.iter().position(is_same).unwrap_or_else(|| {
            self.parts.push(Part::new(slice, only));
            self.parts.len() - 1
        })
    }

    /// Whether the device takes work.
    fn is_ready(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(offload) = &self.offload else { return false };
        let cause = offload.device().retired();
        if let (Some(cause), false) = (cause, self.reported_retirement) {
            self.reported_retirement = true;
            let name = cx.declaration();
            cx.say(&format!("{name}: device retired, lookups fall back to the CPU: {cause}"));
        }
        cause.is_none()
    }

    /// Chooses the path of a batch of `count` packets; `None` without a policy.
    fn choose(&mut self, count: usize) -> Option<Choice> {
        self.note_by_cores();
        let (offload, _) = self.home.chooser()?;
        Some(offload.policy().choose(count, true))
    }

    /// Records the cost of the lookups of the last bypassed batch, which is complete when the next
    /// batch arrives or the run ends.
    fn note_by_cores(&mut self) {
        if let (Some((offload, _)), Some(last)) = (self.home.chooser(), self.by_cores.take()) {
            let cost_ns = offload.costs().packet_ns() * last.len as f64;
            offload.policy().note(last, Duration::from_nanos(cost_ns as u64));
        }
    }

    /// Whether the next batch of `count` packets bypasses the device unbatched, because the worker
    /// is cheaper and nothing is in flight: collecting packets would only cost time. One choice
    /// holds for `SIZE` packets.
    fn passes(&mut self, cx: &mut Context<'_>, count: usize) -> bool {
        if self.home.chooser().is_none() || self.is_under_way() || !self.is_ready(cx) {
            return false;
        }
        if self.passing == 0 {
            self.chosen = self.chosen.or_else(|| self.choose(self.size()));
            if self.chosen.is_none_or(|choice| choice.path == Path::Device) {
                return false;
            }
            self.by_cores = self.chosen.take();
            self.passing = self.size();
            self.batches += 1;
            self.bypassed += 1;
        }
        self.passing = self.passing.saturating_sub(count);
        true
    }

    /// Whether the chain downstream of this element holds packets.
    fn is_under_way(&self) -> bool {
        self.home.left() + (self.queued as u64) < self.came
    }

    /// Whether the `Debatcher` is full; it wakes this element when it has room. False if too many
    /// packets wait.
    fn is_held_up(&self, cx: &Context<'_>) -> bool {
        cx.are_full(&self.end) && self.queued < BYPASS_BATCHES * self.size()
    }

    /// Emits a batch that bypasses the device unbatched.
    fn pass(&mut self, cx: &mut Context<'_>, mut batch: Batch) {
        let mut load = self.home.get_without();
        load.is_passing = true;
        load.lens.push(batch.len());
        batch.attach(load);
        cx.emit_batch(0, batch);
        self.settle(cx);
    }

    /// Returns the choice for a wide batch of `count` packets; `None` without a policy.
    fn choice(&mut self, count: usize) -> Option<Choice> {
        let chosen = self.chosen.take();
        if chosen.is_some_and(|chosen| chosen.len == count) {
            return chosen;
        }
        if let (Some(chosen), Some((offload, _))) = (chosen, self.home.chooser()) {
            offload.policy().give_up(chosen);
        }
        self.choose(count)
    }

    /// Opens a wide batch if the device accepts work, is cheaper and a load is free.
    fn open(&mut self, cx: &mut Context<'_>) {
        // These packets bypass the device as soon as nothing is in flight.
        if self.open.is_some() || self.passing > 0 || !self.is_ready(cx) {
            return;
        }
        if self.home.chooser().is_some() {
            self.chosen = self.chosen.or_else(|| self.choose(self.size()));
            if self.chosen.is_none_or(|choice| choice.path == Path::Cores) {
                return;
            }
        }
        if let Some(load) = self.home.get() {
            self.open = Some(Open { load, batch: cx.pool().batch() });
        }
    }

    /// A load for a batch of `count` packets that bypasses the device: it is retired, more
    /// expensive than the worker, or too many packets wait for it. `None` if the batch has to wait.
    fn load_past_device(&mut self, cx: &mut Context<'_>, count: usize) -> Option<Box<Load>> {
        if self.is_ready(cx) {
            let is_crowded = self.queued >= BYPASS_BATCHES * self.size();
            let choice = self.choice(count);
            if choice.is_some_and(|choice| choice.path == Path::Cores) {
                if self.is_under_way() && !is_crowded {
                    // It would wait behind batches in flight and fall out of the cache.
                    self.chosen = choice;
                    return None;
                }
                self.by_cores = choice;
            } else {
                // The oldest batch in flight will return its load.
                if !is_crowded {
                    self.chosen = choice;
                    return None;
                }
                if let (Some((offload, _)), Some(choice)) = (self.home.chooser(), choice) {
                    offload.policy().give_up(choice);
                }
            }
        }
        self.bypassed += 1;
        Some(self.home.get_without())
    }

    /// Moves waiting batches to the open one until it is full.
    fn fill(&mut self, cx: &mut Context<'_>) {
        let (size, room) = (self.size(), self.room());
        while !self.waiting.is_empty() {
            self.open(cx);
            let Some(open) = &mut self.open else { return };
            if open.batch.len() >= size {
                return;
            }
            let Some(mut batch) = self.waiting.pop_front() else { return };
            if let Some(rest) = cut(cx, &mut batch, room - open.batch.len()) {
                self.waiting.push_front(rest);
            }
            let clock = self.home.chooser().map(|(_, clock)| clock);
            let began = clock.map(|clock| clock());
            add(&self.parts, &self.starts, self.is_ahead, &mut open.load, &open.batch, &batch);
            open.batch.append(&mut batch);
            if let (Some(clock), Some(began)) = (clock, began) {
                open.load.cost += clock().saturating_sub(began);
            }
            cx.pool().recycle_empty(batch);
        }
    }

    /// Emits the next batch if it is full or due and has a load. At most one per call, so that the
    /// scheduler does not merge wide batches.
    fn send(&mut self, cx: &mut Context<'_>) {
        if self.open.is_none()
            && let Some(len) = self.waiting.front().map(Batch::len)
            && len <= BATCH_LEN_MAX
            && self.passes(cx, len)
            && let Some(batch) = self.waiting.pop_front()
        {
            self.queued -= len;
            return self.pass(cx, batch);
        }
        self.fill(cx);
        let is_full = self.queued >= self.size();
        if self.queued == 0 || !(is_full || self.is_due) || self.is_held_up(cx) {
            return self.settle(cx);
        }
        let Some(batch) = self.close(cx) else { return self.settle(cx) };
        self.batches += 1;
        self.timeouts += u64::from(!is_full);
        self.queued -= batch.len();
        cx.emit_batch(0, batch);
        self.settle(cx);
    }

    /// Takes the next wide batch, with its load; `None` if it has to wait for one.
    fn close(&mut self, cx: &mut Context<'_>) -> Option<Batch> {
        if let Some(mut open) = self.open.take() {
            let choice = self.choice(open.batch.len().min(self.size()));
            if choice.is_none_or(|choice| choice.path == Path::Device) {
                open.load.choice = choice;
                self.end_filling(&mut open);
                open.batch.attach(open.load);
                return Some(open.batch);
            }
            // The worker is cheaper for so few packets.
            self.chosen = choice;
            self.dissolve(cx, open);
        }
        let mut load = self.load_past_device(cx, self.queued.min(self.size()))?;
        let mut wide = cx.pool().batch();
        while wide.len() < self.size()
            && let Some(mut batch) = self.waiting.pop_front()
        {
            if let Some(rest) = cut(cx, &mut batch, self.room() - wide.len()) {
                self.waiting.push_front(rest);
            }
            load.lens.push(batch.len());
            wide.append(&mut batch);
            cx.pool().recycle_empty(batch);
        }
        wide.attach(load);
        Some(wide)
    }

    /// Splits an open wide batch into its incoming batches and puts them back in front of
    /// `waiting`.
    fn dissolve(&mut self, cx: &mut Context<'_>, open: Open) {
        let Open { mut load, mut batch } = open;
        self.put_in_front(cx, &mut batch, &load.lens);
        load.lens.clear();
        self.home.put(load);
        cx.pool().recycle_empty(batch);
    }

    /// Splits `batch` into batches of `lens` packets and puts them in front of `waiting`.
    fn put_in_front(&mut self, cx: &mut Context<'_>, batch: &mut Batch, lens: &[usize]) {
        for &len in lens.iter().rev() {
            let mut part = cx.pool().batch();
            batch.split_last(len, &mut part);
            self.waiting.push_front(part);
        }
    }

    /// Compacts the columns of a wide batch, and adds whole packets and payloads.
    fn end_filling(&mut self, open: &mut Open) {
        let count = open.batch.len();
        if let Some((_, clock)) = self.home.chooser() {
            open.load.began = clock();
        }
        let Load { chain, columns, texts, words, .. } = &mut *open.load;
        let Some(chain) = chain else { return };
        // Of a full batch the room behind each column is small.
        let is_partial =
            count < self.size() || columns.iter().any(|column| column.len(count) < count);
        let room = chain.words_mut();
        for (column, &from) in columns.iter_mut().zip(&self.starts) {
            column.at = if is_partial { *words } else { from };
            let len = column.slice.column_words(column.len(count));
            if column.at != from {
                room.copy_within(from..from + len, column.at);
            }
            *words = column.at + len;
        }
        if !self.by_slices {
            slices::copy_frames(&open.batch, &mut room[*words..]);
            *words += count * slices::FRAME_WORDS;
        }
        if let (Some(part), Some(list), Some(offload)) = (&mut self.texts, texts, &self.offload) {
            let places = (*words, self.texts_at);
            *words += part.cut(&open.batch, offload, places, room, list);
            self.bytes_sent += list.texts.bytes();
            self.bytes_copied += 4 * list.texts_words as u64;
        }
        self.bytes_sent += 4 * *words as u64;
    }

    /// Updates back-pressure, timers and the task after a change of `queued`.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let waiting = self.queued;
        // Waiting packets block those that bypass the device.
        let passes = self.passing > 0 && waiting > 0;
        cx.set_full(waiting >= FULL_BATCHES * self.size() || passes);
        if waiting == 0 {
            self.is_due = false;
            cx.clear_timer(TIMEOUT);
        }
        self.see_to_stop(cx);
        let has_reason = waiting >= self.size() || self.is_due || self.by_idle || passes;
        if waiting > 0 && has_reason && !self.is_held_up(cx) {
            cx.schedule_task();
        }
        if self.detains && !self.is_looking {
            self.is_looking = true;
            // No event reports a pending stop or an empty chain, so poll for them.
            cx.set_timer(LOOK, Time(cx.now().0.saturating_add(LOOK_NS)));
        }
    }

    /// Takes back packets in flight of an old configuration, as batches of `lens` packets, and puts
    /// them in front of waiting ones.
    pub(super) fn take_back(&mut self, cx: &mut Context<'_>, batch: &mut Batch, lens: &[usize]) {
        self.came += batch.len() as u64;
        self.queued += batch.len();
        if let Some(open) = self.open.take() {
            self.dissolve(cx, open);
        }
        self.put_in_front(cx, batch, lens);
        self.is_due = true;
        self.settle(cx);
    }

    /// Delays a pending stop while the chain holds packets.
    fn see_to_stop(&mut self, cx: &mut Context<'_>) {
        self.is_due |= cx.pending_stops() > 0 && self.queued > 0;
        let must_wait = self.home.left() < self.came && !self.is_loop && !self.home.is_stuck();
        if must_wait != self.detains {
            self.detains = must_wait;
            if must_wait { cx.detain_stop() } else { cx.release_stop() }
        }
    }
}

impl Element for Batcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        _context: &ConfigureContext<'_>,
    ) -> Result<(), ArgsError> {
        args.read("SIZE", &mut self.size)
            .read("TIMEOUT", &mut self.delay_max)
            .read("DELAY_MAX", &mut self.delay_max)
            .read("IDLE", &mut self.by_idle)
            .read("DEPTH", &mut self.depth)
            .read("SLICES", &mut self.by_slices);
        if !(1..=SIZE_MAX).contains(&self.size) {
            args.error_at("SIZE", &format!("expected 1 to {SIZE_MAX} packets"));
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            args.error_at("DEPTH", &format!("expected 1 to {DEPTH_MAX} wide batches"));
        }
        args.complete()
    }

    fn check_place(&mut self, cx: &mut Context<'_>) -> Result<Vec<String>, String> {
        let members = members::of_chain(cx)?;
        Ok(members::overwritten(cx, &members))
    }

    fn initialize(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        let members = members::of_chain(cx)?;
        let on_branch = |member: &Member| Some((member.element(), member.branch()?));
        self.home.set_branches(members.iter().filter_map(on_branch).collect());
        self.end = cx.listen_downstream(0);
        let own = cx.element();
        self.is_loop =
            cx.flow().downstream(own, None, |visit| visit.at.element == own).contains(&own);
        let Some(offload) = Offload::of(cx).filter(|offload| offload.is_ready()) else {
            return Ok(());
        };
        let room = self.join(cx, &offload, &members)?;
        let bytes = (self.depth as usize + 1) * room.host_bytes();
        if bytes > BYTES_MAX {
            return Err(format!(
                "DEPTH {} wide batches of SIZE {} take {} MiB, at most {} MiB: lower DEPTH or SIZE",
                self.depth,
                self.size,
                bytes >> 20,
                BYTES_MAX >> 20
            ));
        }
        // One more is filled while the others are in flight.
        for _ in 0..=self.depth {
            let chain = offload.device().chain(room);
            let chain = chain.map_err(|error| format!("cannot allocate wide batches: {error}"))?;
            let mut load = Box::new(Load::new(&self.home, Some(chain)));
            load.texts = self.texts.as_ref().map(TextPart::list);
            let columns = self.parts.iter().map(|part| SliceColumn::new(part.slice, part.only));
            load.columns = columns.collect();
            self.home.put(load);
        }
        self.offload = Some(offload);
        Ok(())
    }

    fn push(&mut self, cx: &mut Context<'_>, _input: usize, batch: Batch) {
        if self.queued == 0 && self.passes(cx, batch.len()) {
            self.came += batch.len() as u64;
            return self.pass(cx, batch);
        }
        if self.queued == 0 && !self.is_due {
            let delay_max = i64::try_from(self.delay_max.as_nanos()).unwrap_or(i64::MAX);
            cx.set_timer(TIMEOUT, Time(cx.now().0.saturating_add(delay_max)));
        }
        self.came += batch.len() as u64;
        self.queued += batch.len();
        self.waiting.push_back(batch);
        self.has_news = true;
        self.send(cx);
    }

    fn run_task(&mut self, cx: &mut Context<'_>) -> bool {
        let had_news = std::mem::take(&mut self.has_news);
        self.is_due |= self.by_idle && !had_news;
        let queued = self.queued;
        self.send(cx);
        self.queued < queued
    }

    fn run_timer(&mut self, cx: &mut Context<'_>, timer: usize) {
        match timer {
            LOOK => self.is_looking = false,
            _ => self.is_due |= self.queued > 0,
        }
        self.send(cx);
    }

    fn take_state(&mut self, cx: &mut Context<'_>, old: &mut dyn Element) {
        if let Some(old) = old.downcast_mut::<Self>() {
            if let Some(open) = old.open.take() {
                old.dissolve(cx, open);
            }
            self.came += old.queued as u64;
            self.queued += std::mem::take(&mut old.queued);
            self.waiting.append(&mut old.waiting);
            self.is_due = true;
            self.settle(cx);
        }
    }

    fn held(&self) -> usize {
        self.queued
    }

    fn finish(&mut self, _cx: &mut Context<'_>) -> Result<(), String> {
        self.note_by_cores();
        Ok(())
    }

    fn handlers(&self) -> &'static [HandlerSpec] {
        const {
            &[
                HandlerSpec::read("length"),
                HandlerSpec::read("batches"),
                HandlerSpec::read("timeouts"),
                HandlerSpec::read("bypassed"),
                HandlerSpec::read("bytes_sent"),
                HandlerSpec::read("bytes_copied"),
                HandlerSpec::read("slices"),
                HandlerSpec::read("device"),
            ]
        }
    }

    fn read(
        &mut self,
        _cx: &mut Context<'_>,
        name: &str,
        _param: &str,
    ) -> Result<String, HandlerError> {
        Ok(match name {
            "length" => self.queued.to_string(),
            "batches" => self.batches.to_string(),
            "timeouts" => self.timeouts.to_string(),
            "bypassed" => self.bypassed.to_string(),
            "bytes_sent" => self.bytes_sent.to_string(),
            "bytes_copied" => self.bytes_copied.to_string(),
            "device" => match &self.offload {
                Some(offload) if offload.is_ready() => offload.device().name().to_owned(),
                _ => "none".to_owned(),
            },
            _ => {
                let mut text = String::new();
                for part in &self.parts {
                    let name = part.slice.name();
                    // Writing to a `String` cannot fail.
                    let _ = writeln!(text, "{} {name}", 4 * part.slice.words());
                }
                if self.texts.is_some() {
                    text += "* payload\n";
                }
                if !self.by_slices {
                    let _ = writeln!(text, "{} whole packet", 4 * slices::FRAME_WORDS);
                }
                text
            }
        })
    }
}
