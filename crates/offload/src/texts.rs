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
    FOUND_WORDS, PAGE_WORDS, Place, TextFindings, Texts, put_text, text_words,
};
use warpswitch_gpu::{Chain, ChainRoom, HostMemory, SharedBytes};
use warpswitch_ids::{GROUPS, PayloadPlace, payload_place};
use warpswitch_inspect::{ids_packet, results};
use warpswitch_packet::{Batch, Frames};
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
    /// By group, the payloads of the batch.
    found: [Vec<Payload>; GROUPS],
    /// Whether results are for an element downstream of the chain.
    is_ahead: bool,
    /// Which packets each element is for.
    only: Vec<Option<Predicate>>,
}

/// A payload of the batch, before its page is chosen.
#[derive(Debug)]
struct Payload {
    /// Index of its packet.
    owner: u32,
    bytes: u32,
    /// Its place in a mapped buffer, or that of its copy; `None` without room for a copy.
    place: Option<Place>,
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
    /// The results of each group in those of the chain; `None` before the search.
    answers: Option<[Range<usize>; GROUPS]>,
    /// The matches, once read.
    found: Found,
    is_read: bool,
    /// By packet, the result key of its payload, if results are for an element downstream.
    keys: Vec<Option<u32>>,
    /// By group, payloads searched by the device, and payloads left to the worker.
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

    /// Reads the matches in a batch of `packets` packets, at the first call of any chain member.
    pub(crate) fn read(&mut self, chain: &Chain, packets: usize) {
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        let Self { texts, answers, found, counts, scratch, .. } = self;
        found.clear(packets);
        *counts = [(0, 0); GROUPS];
        for (group, answers) in answers.iter().flatten().enumerate() {
            let Some(words) = chain.answers().get(answers.clone()) else { continue };
            let (searched, asked) = &mut counts[group];
            texts.read(group, words, scratch, |owner, ids| match ids {
                Some(ids) => {
                    *searched += 1;
                    found.push(owner as usize, group, ids);
                }
                None => *asked += 1,
            });
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

    /// Payloads that the device searched and that it left to the worker, in groups selected by
    /// `has`.
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
            found: [const { Vec::new() }; GROUPS],
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
            texts: Texts::new(self.packets_max, self.pages_max),
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
        let mut next = texts_at;
        for (packet, owner) in batch.views().iter().zip(0..) {
            // Only a predicate needs the packet itself.
            let own = |only: Predicate| only.meets(batch.get_ahead(owner as usize));
            let place = match self.only.iter().any(|only| only.is_none_or(own)) {
                true => payload_place(&ids_packet(packet, self.link, 0)),
                false => None,
            };
            if self.is_ahead {
                let headroom = batch.get_ahead(owner as usize).headroom();
                let key = |p: PayloadPlace| results::key(p.group, headroom + p.start, p.bytes);
                list.keys.push(place.and_then(key));
            }
            if let Some(PayloadPlace { group, start, bytes }) = place
                && bytes > 0
                && self.searches.wants(group)
            {
                let text = &packet.data[start..][..bytes];
                let mapped = self.place(batch, owner, text, offload);
                let place = mapped.or_else(|| copy(words, &mut next, text));
                self.found[group].push(Payload { owner, bytes: bytes as u32, place });
            }
        }
        list.texts.clear();
        (list.column_at, list.left_out) = (column_at, 0);
        (list.answers, list.is_read) = (None, false);
        let column = &mut words[column_at..];
        for found in &mut self.found {
            list.texts.begin_group();
            for Payload { owner, bytes, place } in found.drain(..) {
                let is_in = place
                    .is_some_and(|place| list.texts.push(owner, place, bytes as usize, column));
                list.left_out += u64::from(!is_in);
            }
        }
        list.texts_words = next - texts_at;
        list.texts.end(&mut words[column_at..])
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
        if std::ptr::eq(self.refused.as_ptr(), Arc::as_ptr(frames)) {
            return None;
        }
        let Some(memory) = offload.reach(frames) else {
            self.refused = Arc::downgrade(frames);
            return None;
        };
        let place = memory.place(text);
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        self.known.push(memory);
        place
    }
}

/// Copies a payload to `words`, from word `next` on; `None` without room.
#[inline]
fn copy(words: &mut [u32], next: &mut usize, text: &[u8]) -> Option<Place> {
    let end = *next + text_words(text.len());
    let place = (end <= words.len()).then(|| put_text(words, *next, text))?;
    *next = end;
    Some(place)
}
