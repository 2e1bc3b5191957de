//! Payloads of wide batches, which a device searches in place.
//!
//! ```text
//! packet shares the frame buffer of a source ─► mapped for the card: zero copy
//! packet owns its bytes ─► copied to the buffer of its wide batch, which the card reads
//! ```
//! Frames that sources share with packets lie in one buffer for the whole run, which is mapped for
//! the device when the first of its packets arrives. Packets in a chain keep the frames alive, and
//! shared frames are copied on write ([`warpswitch_packet::lend`]). Matches return with the results
//! of the wide batch and go with its packets to the element that tracks flows, which needs their
//! order; the search does not.

use std::ops::Range;
use std::sync::{Arc, Weak};

use warpswitch_gpu::scan::{
    FOUND_WORDS, PAGE_WORDS, Place, SHORT_BYTES, SHORT_WORDS, TextFindings, Texts, put_short_text,
    put_text, text_words,
};
use warpswitch_gpu::{Chain, ChainRoom, HostMemory, SharedBytes};
use warpswitch_ids::{GROUPS, PayloadPlace, captured_payload};
use warpswitch_inspect::{ids_packet, results};
use warpswitch_packet::{Batch, Column, Frames, LentFrames, PacketView, annotation};
use warpswitch_scan::Patterns;
use warpswitch_wire::link::LinkType;

use super::anno::Predicate;
use super::place::Offload;
use super::searches::{Found, Searches, Union};

/// Average payload bytes per packet that buffers are sized for: an Ethernet frame.
const TEXT_BYTES: usize = 1536;
/// Page limit of a wide batch: 16 MB of payloads. The worker searches the rest.
const PAGES_MAX: usize = 512;
/// Mapped buffers that a chain caches: one per active source.
const KNOWN_MAX: usize = 4;

/// A search of payloads that an element requires.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Link type of the packets.
    pub(crate) link: LinkType,
    /// The patterns of each rule group.
    pub(crate) patterns: [Patterns; GROUPS],
    /// Whether the results are for an element downstream of the chain.
    pub(crate) is_ahead: bool,
}

/// A frame buffer, for mapping.
#[derive(Debug)]
pub(super) struct LentBytes(pub(super) Arc<Frames>);

impl SharedBytes for LentBytes {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Collects the payloads of wide batches for the searches of a chain.
#[derive(Debug)]
pub(super) struct TextPart {
    /// Link type of the packets.
    link: LinkType,
    union: Union,
    /// Empty until all members have joined.
    searches: Arc<Searches>,
    packets_max: usize,
    pages_max: usize,
    /// Mapped buffers of recent payloads.
    known: Vec<Arc<HostMemory>>,
    /// The last frames that could not be mapped, to skip further attempts.
    refused: Weak<Frames>,
    /// Whether results are for an element downstream of the chain.
    is_ahead: bool,
    /// Which packets each element is for.
    only: Vec<Option<Predicate>>,
}

/// The payloads of a wide batch.
#[derive(Debug)]
pub(crate) struct BatchTexts {
    pub(crate) link: LinkType,
    pub(crate) texts: Texts,
    /// First word of their column, and words of copied payloads.
    pub(crate) column_at: usize,
    pub(crate) texts_words: usize,
    /// Payloads that exceeded the buffers.
    pub(crate) left_out: u64,
    pub(crate) searches: Arc<Searches>,
    /// The results of each leading group in those of the chain; `None` before the search.
    answers: Option<[Range<usize>; GROUPS]>,
    /// The matches, once read.
    found: Found,
    is_read: bool,
    /// By packet, the result key of its payload, if results are for an element downstream.
    keys: Vec<Option<u32>>,
    /// By leading group, payloads searched by the device, and payloads left to the worker.
    counts: [(u64, u64); GROUPS],
    scratch: TextFindings,
}

impl BatchTexts {
    /// Launches the searches, at the first call of any chain member.
    pub(crate) fn search(&mut self, chain: &mut Chain) {
        if self.answers.is_some() {
            return;
        }
        let mut answers = [const { 0..0 }; GROUPS];
        for (group, image) in self.searches.images().iter().enumerate() {
            if let Some(image) = image {
                answers[group] = chain.scan(image, self.texts.pages_of(group));
            }
        }
        self.answers = Some(answers);
    }

    /// Reads the matches, at the first call of any chain member.
    pub(crate) fn read(&mut self, chain: &Chain) {
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        let Self { texts, answers, found, counts, scratch, .. } = self;
        *counts = [(0, 0); GROUPS];
        let Some(answers) = answers else { return found.clear() };
        for (group, (answers, counts)) in answers.iter().zip(counts).enumerate() {
            let Some(words) = chain.answers().get(answers.clone()) else {
                texts.owners(group).iter().for_each(|&owner| found.leave_out(owner as usize));
                continue;
            };
            let mut asked = 0;
            texts.read(group, words, scratch, |owner, ids| match ids {
                Some(ids) => found.set(owner as usize, |all| all.extend_from_slice(ids)),
                None => {
                    asked += 1;
                    found.leave_out(owner as usize);
                }
            });
            *counts = (texts.owners(group).len() as u64 - asked, asked);
        }
    }

    /// The matches, by pattern ids of [`Searches`].
    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    /// By packet, the result key of its payload.
    pub(crate) fn keys(&self) -> &[Option<u32>] {
        &self.keys
    }

    /// Payloads that the device searched and that it left to the worker, in leading groups selected
    /// by `has`.
    pub(crate) fn counts(&self, has: impl Fn(usize) -> bool) -> (u64, u64) {
        let groups = self.counts.iter().enumerate().filter(|(group, _)| has(*group));
        groups.fold((0, self.left_out), |(searched, asked), (_, counts)| {
            (searched + counts.0, asked + counts.1)
        })
    }
}

impl TextPart {
    /// For wide batches of up to `packets_max` packets.
    pub(super) fn new(link: LinkType, packets_max: usize) -> Self {
        let pages = (packets_max * TEXT_BYTES).div_ceil(4 * PAGE_WORDS);
        // Each group may leave its last page nearly empty.
        let pages_max = (pages + GROUPS).min(PAGES_MAX);
        Self {
            link,
            union: Union::default(),
            searches: Arc::default(),
            packets_max,
            pages_max,
            known: Vec::new(),
            refused: Weak::new(),
            is_ahead: false,
            only: Vec::new(),
        }
    }

    /// Takes in what an element wants for packets that meet `only`; one that looks at packets
    /// in another way gets nothing.
    pub(super) fn add(&mut self, element: usize, wanted: &Wanted, only: Option<Predicate>) {
        if self.link == wanted.link {
            self.union.add(element, &wanted.patterns);
            self.is_ahead |= wanted.is_ahead;
            self.only.push(only);
        }
    }

    /// Loads the patterns of all members to the device.
    pub(super) fn load(&mut self, offload: &Offload) {
        self.searches = Arc::new(std::mem::take(&mut self.union).load(offload));
    }

    /// The room that it needs in a chain, including results.
    pub(super) fn room(&self) -> ChainRoom {
        ChainRoom {
            words: Texts::column_words(self.packets_max, self.pages_max),
            texts: text_words(self.packets_max * TEXT_BYTES),
            answers: self.pages_max * FOUND_WORDS,
            pages: self.pages_max,
        }
    }

    /// An empty list of payloads.
    pub(super) fn list(&self) -> BatchTexts {
        BatchTexts {
            link: self.link,
            texts: Texts::new(self.packets_max, self.pages_max, GROUPS),
            column_at: 0,
            texts_words: 0,
            left_out: 0,
            searches: self.searches.clone(),
            answers: None,
            found: Found::default(),
            is_read: false,
            keys: Vec::new(),
            counts: [(0, 0); GROUPS],
            scratch: TextFindings::default(),
        }
    }

    /// Writes the payload column of a batch to `words` from `column_at` on, and copies payloads
    /// outside of mapped buffers to `texts_at` on. Returns the words of the column.
    pub(super) fn cut(
        &mut self,
        batch: &Batch,
        offload: &Offload,
        (column_at, texts_at): (usize, usize),
        words: &mut [u32],
        list: &mut BatchTexts,
    ) -> usize {
        list.keys.clear();
        list.found.clear();
        list.texts.clear();
        (list.column_at, list.left_out) = (column_at, 0);
        (list.answers, list.is_read) = (None, false);
        let mut room = Room { words, next: texts_at, leads: self.searches.leads() };
        match self.plain_frames(batch) {
            Some(frames) => self.cut_frames(batch, frames, offload, list, &mut room),
            None => self.cut_packets(batch, offload, list, &mut room),
        }
        list.texts_words = room.next - texts_at;
        list.texts.end(&mut words[column_at..])
    }

    /// The frames of a batch, if all packets are searched and all that is read of them is frames.
    fn plain_frames<'b>(&self, batch: &'b Batch) -> Option<LentFrames<'b>> {
        let is_plain = !self.is_ahead && self.only.contains(&None);
        let frames = batch.whole_frames().filter(|_| is_plain)?;
        (batch.anno_column(annotation::EXTRA_LEN) == Some(Column::All(0))).then_some(frames)
    }

    /// Cuts payloads out of frames that one lender owns: what it needs is found out once.
    fn cut_frames(
        &mut self,
        batch: &Batch,
        frames: LentFrames<'_>,
        offload: &Offload,
        list: &mut BatchTexts,
        room: &mut Room<'_>,
    ) {
        let memory = batch.lender_of(0).and_then(|frames| self.mapped(frames, offload));
        let (memory, link) = (memory.as_deref(), self.link);
        let cut = |(owner, data): (u32, &[u8])| {
            let view = PacketView { data, extra_len: 0, timestamp_ns: 0 };
            let found = captured_payload(&ids_packet(view, link, 0));
            let place = |text: &[u8]| memory.and_then(|memory| memory.place(text));
            list.add(owner, data, found, place, room);
        };
        match frames {
            LentFrames::Span(frames) => (0..).zip(frames).for_each(cut),
            LentFrames::Numbered(frames) => (0..).zip(frames).for_each(cut),
        }
    }

    /// Cuts payloads out of any packets.
    fn cut_packets(
        &mut self,
        batch: &Batch,
        offload: &Offload,
        list: &mut BatchTexts,
        room: &mut Room<'_>,
    ) {
        for (packet, owner) in batch.views().iter().zip(0..) {
            // Only a predicate needs the packet itself.
            let own = |only: Predicate| only.meets(batch.get_ahead(owner as usize));
            let found = match self.only.iter().any(|only| only.is_none_or(own)) {
                true => captured_payload(&ids_packet(packet, self.link, 0)),
                false => None,
            };
            if self.is_ahead {
                let headroom = batch.get_ahead(owner as usize).headroom();
                let key = |p: PayloadPlace| results::key(p.group, headroom + p.start, p.bytes);
                list.keys.push(found.and_then(|(place, _)| key(place)));
            }
            let place = |text: &[u8]| self.place(batch, owner, text, offload);
            list.add(owner, packet.data, found, place, room);
        }
    }

    /// The place of the payload `text` of packet number `owner` in a mapped buffer; `None` if its
    /// frame is not mapped.
    #[inline]
    fn place(
        &mut self,
        batch: &Batch,
        owner: u32,
        text: &[u8],
        offload: &Offload,
    ) -> Option<Place> {
        if let Some(place) = self.known.iter().find_map(|memory| memory.place(text)) {
            return Some(place);
        }
        let frames = batch.lender_of(owner as usize)?;
        self.mapped(frames, offload)?.place(text)
    }

    /// The mapped buffer of frames; `None` if they are not mapped.
    fn mapped(&mut self, frames: &Arc<Frames>, offload: &Offload) -> Option<Arc<HostMemory>> {
        let has_frames = |memory: &&Arc<HostMemory>| memory.place(frames.bytes()).is_some();
        if let Some(memory) = self.known.iter().find(has_frames) {
            return Some(memory.clone());
        }
        if std::ptr::eq(self.refused.as_ptr(), Arc::as_ptr(frames)) {
            return None;
        }
        let Some(memory) = offload.reach(frames) else {
            self.refused = Arc::downgrade(frames);
            return None;
        };
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(memory.clone());
        Some(memory)
    }
}

/// Room for copies of payloads.
#[derive(Debug)]
struct Room<'w> {
    words: &'w mut [u32],
    /// First free word.
    next: usize,
    /// By group that is searched, the group that it is searched with.
    leads: [Option<usize>; GROUPS],
}

impl Room<'_> {
    /// Copies the payload that begins at byte `start` of `data`; `None` without room.
    #[inline(always)]
    fn copy(&mut self, data: &[u8], start: usize, bytes: usize) -> Option<Place> {
        let end = start + bytes;
        let before = end.checked_sub(SHORT_BYTES).filter(|_| bytes <= SHORT_BYTES);
        let before = before.and_then(|before| data.get(before..end)?.first_chunk());
        let short = before.and_then(|before| put_short_text(self.words, self.next, before, bytes));
        let (place, words) = match short {
            Some(place) => (place, SHORT_WORDS),
            None => {
                let words = text_words(bytes);
                if self.words.len() - self.next < words {
                    return None;
                }
                (put_text(self.words, self.next, &data[start..end]), words)
            }
        };
        self.next += words;
        Some(place)
    }
}

impl BatchTexts {
    /// Adds packet number `owner`, with the payload that was found in its `data` if there is one,
    /// and whether all of it was captured. `place` maps a payload to its place in a mapped buffer.
    #[inline(always)]
    fn add(
        &mut self,
        owner: u32,
        data: &[u8],
        found: Option<(PayloadPlace, bool)>,
        place: impl FnOnce(&[u8]) -> Option<Place>,
        room: &mut Room<'_>,
    ) {
        let Some((PayloadPlace { group, start, bytes }, is_whole)) =
            found.filter(|(place, _)| place.bytes > 0)
        else {
            return self.found.push_unsearched();
        };
        let Some(lead) = room.leads[group] else { return self.found.push_unsearched() };
        let place = place(&data[start..][..bytes]).or_else(|| room.copy(data, start, bytes));
        match place.filter(|&place| self.texts.push(lead, owner, place, bytes)) {
            Some(_) => self.found.push_searched(group, is_whole),
            None => {
                self.left_out += 1;
                self.found.push_unsearched();
            }
        }
    }
}
