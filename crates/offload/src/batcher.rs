//! Gathers packets into wide batches for a device, with the slices that are looked at.
//!
//! # Synopsis
//! `Batcher([SIZE N, TIMEOUT TIME, IDLE BOOL, DEPTH N, SLICES BOOL])`
//!
//! # Ports
//! One input, one output; push. The output gives wide batches, which only these take, in this
//! order: `HostToDeviceMemcpy`, any number of elements with a `GPU…` name, `DeviceToHostMemcpy`,
//! `GPUCompletionQueue`, `Debatcher`.
//!
//! # Configuration
//! - `SIZE`: packets of a wide batch, 1024 by default; batches that come are put together whole, so
//!   there may be up to 255 more
//! - `TIMEOUT`: the longest that a packet waits for others, 1ms by default
//! - `IDLE`: a batch leaves before its time as soon as no packet has come since the task's last
//!   turn; false by default
//! - `DEPTH`: wide batches that may be under way at a time, 4 by default: a source that is always
//!   ready fills all of them, and packets that are more than the second cache holds cost twice as
//!   much
//! - `SLICES`: whether only what elements of the chain look at is sent to the device, true by
//!   default; otherwise whole packets are sent as well, to see what that costs
//!
//! The slices are the union of what the elements of the chain ask for: a slice that several ask for
//! is sent once. Packets that the `CHK_ANNO` of an element excludes stay off the device for it, if
//! no element of the chain in front may write that annotation. Where a slice begins depends on the packet: fields are found behind VLAN tags, IP
//! options and extension headers.
//!
//! # Handlers
//! | name | | unit |
//! | --- | --- | --- |
//! | `length` | read | packets that wait for a batch |
//! | `batches` | read | wide batches that left, or as many packets that passed by the device as they came |
//! | `timeouts` | read | those that left before they were full |
//! | `bypassed` | read | those that passed by the device: there is none, the worker was cheaper, or too many packets waited |
//! | `bytes_sent` | read | bytes of slices and payloads for the device |
//! | `bytes_copied` | read | those of payloads that the device could not read where they lie |
//! | `slices` | read | `BYTES NAME` for each slice of a packet; payloads have `*` bytes |
//! | `device` | read | where the chain's lookups are done |
//!
//! # Drops
//! None.
//!
//! # Threads
//! Belongs to one worker, as all of its chain. Memory: `DEPTH` times `SIZE` slices and answers, and
//! 1.5 KB a packet where payloads are searched, at most 1 GiB. A run that is to stop waits for the
//! packets in the chain, while sources rest.
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

/// The class.
pub static CLASS: ElementClass =
    ElementClass::new("Batcher", "1/1", "h/h", || Box::<Batcher>::default()).tells_full().detains();

/// Packets of a wide batch that may be configured.
const SIZE_MAX: u32 = 1 << 16;
/// Wide batches under way that may be configured.
const DEPTH_MAX: u32 = 256;
/// Sources are told to wait when packets for so many batches do.
const FULL_BATCHES: usize = 2;
/// Batches pass by the device when packets for so many wait: of sources that do not heed.
const BYPASS_BATCHES: usize = 8;
/// Bytes that all wide batches of a chain may take, on the host and as many on a card.
const BYTES_MAX: usize = 1 << 30;

/// Timers: when what waits has to leave, and when to look whether a stop waits.
const TIMEOUT: usize = 0;
const LOOK: usize = 1;
/// Between two such looks.
const LOOK_NS: i64 = 1_000_000;

/// A wide batch that is being filled: slices of its packets are written as they come, when packets
/// are in the first cache.
#[derive(Debug)]
struct Open {
    load: Box<Load>,
    batch: Batch,
}

/// See the module.
#[derive(Debug)]
pub struct Batcher {
    size: u32,
    timeout: Duration,
    by_idle: bool,
    depth: u32,
    by_slices: bool,
    /// The wide batch that is being filled, if there is room on the device for it.
    open: Option<Open>,
    /// Batches that wait behind it, as they came.
    waiting: VecDeque<Batch>,
    /// Packets that wait, here and there.
    queued: usize,
    parts: Vec<Part>,
    /// Where the column of each part begins in the words of a chain.
    starts: Vec<usize>,
    /// Finds payloads, if an element of the chain has them searched.
    texts: Option<TextPart>,
    /// Where in the words of a chain they may lie.
    texts_at: usize,
    home: Arc<Home>,
    /// None if there is no device, or there was none any more at the start.
    offload: Option<Arc<Offload>>,
    /// The end of the chain, where packets wait for room.
    end: Vec<usize>,
    /// Whether members look up for elements behind the chain.
    is_ahead: bool,
    /// Whether it was told that the device is not used any more.
    has_told: bool,
    /// Whether packets came since the task's last turn.
    has_news: bool,
    /// Whether what waits is to leave, however little it is.
    is_due: bool,
    /// Packets that came so far.
    came: u64,
    /// Whether a stop has to wait for those that are still in the chain.
    detains: bool,
    /// Whether the timer for looks is set.
    is_looking: bool,
    /// Whether packets of the chain can come back to it: a stop would wait for them for ever.
    is_loop: bool,
    batches: u64,
    timeouts: u64,
    bypassed: u64,
    bytes_sent: u64,
    bytes_copied: u64,
    /// The last choice of the cores, of which it is not known yet what it cost.
    by_cores: Option<Choice>,
    /// The choice for the next wide batch, if it was made.
    chosen: Option<Choice>,
    /// Packets that may pass by the device yet as they come, by the last choice.
    passing: usize,
}

impl Default for Batcher {
    fn default() -> Self {
        Self {
            size: 1024,
            timeout: Duration::from_millis(1),
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
            has_told: false,
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

/// Cuts what is more than `room` packets off a batch.
fn cut(cx: &mut Context<'_>, batch: &mut Batch, room: usize) -> Option<Batch> {
    let beyond = batch.len().checked_sub(room).filter(|&beyond| beyond > 0)?;
    let mut rest = cx.pool().batch();
    batch.split_last(beyond, &mut rest);
    Some(rest)
}

/// Adds the slices of a batch that comes behind those of `wide`.
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

    /// The most packets of a wide batch: batches stay whole, the last one too.
    fn room(&self) -> usize {
        self.size() + BATCH_LEN_MAX
    }

    /// Has the members of the chain get ready for `device`; how much room they need.
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
                        "more than {CACHED_RESULTS} lookups FOR others in a chain"
                    ));
                }
                if std::mem::replace(&mut is_taken[number], true) {
                    return Err(format!("two lookups FOR others have LOOKUP {number} in a chain"));
                }
            }
            answers += (joined.answer_bytes * self.room()).div_ceil(4);
            answers = answers.next_multiple_of(ALIGN_WORDS);
            let is_known = |only: &Predicate| annotated::is_known(cx, *only, members, *member);
            let only = joined.only.filter(is_known);
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
        // Members that look up in the place of others have to.
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
        if let (Some(cause), false) = (cause, self.has_told) {
            self.has_told = true;
            let name = cx.declaration();
            cx.say(&format!("{name}: the device is not used any more, the cores go on: {cause}"));
        }
        cause.is_none()
    }

    /// The way of a batch of `count` packets, if there is a choice.
    fn choose(&mut self, count: usize) -> Option<Choice> {
        self.note_by_cores();
        let (offload, _) = self.home.chooser()?;
        Some(offload.policy().choose(count, true))
    }

    /// Notes what the lookups of the last batch cost that passed by the device, which is known when
    /// the next one comes, or when the run is over.
    fn note_by_cores(&mut self) {
        if let (Some((offload, _)), Some(last)) = (self.home.chooser(), self.by_cores.take()) {
            let cost_ns = offload.costs().packet_ns() * last.len as f64;
            offload.policy().note(last, Duration::from_nanos(cost_ns as u64));
        }
    }

    /// Whether the next batch of `count` packets shall pass by the device as it came, as the worker
    /// is cheaper and nothing is under way: to be put together with others would only cost time.
    /// There is a choice for as many packets as a wide batch has.
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

    /// Whether packets are in the chain.
    fn is_under_way(&self) -> bool {
        self.home.left() + (self.queued as u64) < self.came
    }

    /// Whether packets wait for room behind the chain, which tells when there is some.
    fn is_held_up(&self, cx: &Context<'_>) -> bool {
        cx.are_full(&self.end) && self.queued < BYPASS_BATCHES * self.size()
    }

    /// Lets a batch pass through the chain as it came.
    fn pass(&mut self, cx: &mut Context<'_>, mut batch: Batch) {
        let mut load = self.home.get_without();
        load.is_passing = true;
        load.lens.push(batch.len());
        batch.attach(load);
        cx.emit_batch(0, batch);
        self.settle(cx);
    }

    /// The choice for a wide batch of `count` packets, if there is one.
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

    /// Opens a wide batch, if the device takes work, is not too dear, and has room for one.
    fn open(&mut self, cx: &mut Context<'_>) {
        // What may pass by the device does so as soon as nothing is under way.
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

    /// A load for a batch of `count` packets that passes by the device: it is not used, it is
    /// dearer than the worker, or too many packets wait for it.
    fn load_past_device(&mut self, cx: &mut Context<'_>, count: usize) -> Option<Box<Load>> {
        if self.is_ready(cx) {
            let is_crowded = self.queued >= BYPASS_BATCHES * self.size();
            let choice = self.choice(count);
            if choice.is_some_and(|choice| choice.path == Path::Cores) {
                if self.is_under_way() && !is_crowded {
                    // It would wait behind the batches of the device, and leave the cache.
                    self.chosen = choice;
                    return None;
                }
                self.by_cores = choice;
            } else {
                // A load comes back with the batch that has been under way longest.
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

    /// Moves batches that wait to the open one, as long as it is not full.
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

    /// Sends a batch off, if there is a load for it and it is to leave. One each time the element
    /// is entered: wide batches stay apart on their way.
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

    /// The next wide batch, with its load; none if it has to wait for one.
    fn close(&mut self, cx: &mut Context<'_>) -> Option<Batch> {
        if let Some(mut open) = self.open.take() {
            let choice = self.choice(open.batch.len().min(self.size()));
            if choice.is_none_or(|choice| choice.path == Path::Device) {
                open.load.choice = choice;
                self.end_filling(&mut open);
                open.batch.attach(open.load);
                return Some(open.batch);
            }
            // So few packets are cheaper on the worker.
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

    /// Makes what was open wait again, in the batches in which it came, in front of all others.
    fn dissolve(&mut self, cx: &mut Context<'_>, open: Open) {
        let Open { mut load, mut batch } = open;
        self.put_in_front(cx, &mut batch, &load.lens);
        load.lens.clear();
        self.home.put(load);
        cx.pool().recycle_empty(batch);
    }

    /// Makes packets wait in front of all others; so many came together, and so on.
    fn put_in_front(&mut self, cx: &mut Context<'_>, batch: &mut Batch, lens: &[usize]) {
        for &len in lens.iter().rev() {
            let mut part = cx.pool().batch();
            batch.split_last(len, &mut part);
            self.waiting.push_front(part);
        }
    }

    /// Lays the columns of a wide batch side by side, and adds what needs all of its packets.
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

    /// Sees to what the number of packets that wait means for others.
    fn settle(&mut self, cx: &mut Context<'_>) {
        let waiting = self.queued;
        // What waits while others pass by is in their way.
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
            // Nobody tells it that a stop was asked for, or that its packets are through.
            cx.set_timer(LOOK, Time(cx.now().0.saturating_add(LOOK_NS)));
        }
    }

    /// Takes packets back that an element of another configuration had, in front of those that
    /// wait; so many came together, and so on.
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

    /// A stop waits for what is in the chain.
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
            .read("TIMEOUT", &mut self.timeout)
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
                "DEPTH {} wide batches of SIZE {} take {} MiB, at most {} MiB: fewer, or smaller",
                self.depth,
                self.size,
                bytes >> 20,
                BYTES_MAX >> 20
            ));
        }
        // One more is filled while the others are under way.
        for _ in 0..=self.depth {
            let chain = offload.device().chain(room);
            let chain = chain.map_err(|error| format!("no room on the device: {error}"))?;
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
            let timeout = i64::try_from(self.timeout.as_nanos()).unwrap_or(i64::MAX);
            cx.set_timer(TIMEOUT, Time(cx.now().0.saturating_add(timeout)));
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
                    // A String takes every write.
                    let _ = writeln!(text, "{} {name}", 4 * part.slice.words());
                }
                if self.texts.is_some() {
                    text += "* payload\n";
                }
                if !self.by_slices {
                    let _ = writeln!(text, "{} the whole packet", 4 * slices::FRAME_WORDS);
                }
                text
            }
        })
    }
}
